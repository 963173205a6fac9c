/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams: memory windows, and requests that end the use of an STag. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/fault.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define HALF (KIT_SIZE / 2)
#define LEN 5000u                     /* several segments */
#define DEPTH 128                     /* of the send queues */

static struct kit k;
static struct end a, b;
static struct diw_mr *b_mr;           /* of all memory; windows may be bound to it */

static void end_open_rd(struct end *e)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.type = DIW_QP_RD;
	attr.mulpdu = 1000;
	end_open(e, &k, &attr, 64);
}

static void setup(void)
{
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open_rd(&a);
	end_open_rd(&b);
	ck_assert_int_eq(diw_mr_reg(k.pd, k.mem, KIT_SIZE, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_MW_BIND, &b_mr), 0);
	for (uint32_t i = 0; i < HALF; i++)
		k.mem[i] = (uint8_t)(i * 7 + i / 251);
}

static void teardown(void)
{
	ck_assert_int_eq(diw_mr_dereg(b_mr), 0);
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}

static struct diw_wc next_of(struct diw_cq *cq)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(cq, &wc, 1, KIT_LIMIT), 1);
	return wc;
}

static void is_sent(struct end *e)
{
	ck_assert_str_eq(diw_wc_status_str(next_of(e->scq).status), diw_wc_status_str(DIW_WC_SUCCESS));
}

static void ends_with(struct end *e, uint16_t fault)
{
	const struct diw_wc wc = next_of(e->scq);

	ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str(DIW_WC_REM_ACCESS_ERR));
	ck_assert_uint_eq(wc.fault, fault);
}

static void write_to_b(uint32_t stag, uint64_t to)
{
	struct diw_sge sge = { k.mem, LEN, k.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE, .flags = DIW_SEND_SIGNALED,
				  .dst.addr = b.addr, .stag = stag, .to = to };

	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
}

static void send_and_invalidate(uint32_t stag, unsigned flags)
{
	struct diw_sge sge = { k.mem, LEN, k.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .flags = DIW_SEND_SIGNALED | DIW_SEND_INVALIDATE | flags,
				  .dst.addr = b.addr, .inv_stag = stag };

	ck_assert_int_eq(end_recv(&b, HALF, LEN, 3), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
}

static struct diw_mw *window_of_b(void)
{
	struct diw_send_wr bind = { .opcode = DIW_WR_BIND_MW, .flags = DIW_SEND_SIGNALED };
	struct diw_mw *mw;

	ck_assert_int_eq(diw_mw_alloc(k.pd, DIW_MW_TYPE_2, &mw), 0);
	bind.bind.mw = mw;
	bind.bind.mr = b_mr;
	bind.bind.to = k.mr->to + HALF;
	bind.bind.length = LEN;
	bind.bind.access = DIW_ACCESS_REMOTE_WRITE;
	bind.bind.key = 0x5a;
	ck_assert_int_eq(diw_post_send(b.qp, &bind, NULL), 0);
	is_sent(&b);
	return mw;
}

START_TEST(a_window_is_written_to_until_it_is_invalidated)
{
	struct diw_send_wr inv = { .opcode = DIW_WR_LOCAL_INV, .flags = DIW_SEND_SIGNALED | DIW_SEND_FENCE };
	struct diw_mw *mw = window_of_b();

	write_to_b(mw->stag, k.mr->to + HALF);
	is_sent(&a);
	ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, LEN), 0);
	ck_assert_int_eq(end_read(&b, &a, LEN, LEN), 0);
	inv.inv_stag = mw->stag;
	ck_assert_int_eq(diw_post_send(b.qp, &inv, NULL), 0);
	ck_assert_int_eq(next_of(b.scq).opcode, DIW_WC_READ);   /* the fence */
	ck_assert_int_eq(next_of(b.scq).opcode, DIW_WC_LOCAL_INV);
	write_to_b(mw->stag, k.mr->to + HALF);
	ends_with(&a, DIW_FAULT_STAG);
	ck_assert_int_eq(diw_post_send(b.qp, &inv, NULL), 0);
	ck_assert_int_eq(next_of(b.scq).status, DIW_WC_MW_BIND_ERR);
	ck_assert_int_eq(diw_mw_free(mw), 0);
}
END_TEST

/* A list of all or nothing that is refused, by an invalid request or for want of room, leaves the window as it was. */
START_TEST(a_refused_list_binds_nothing)
{
	struct diw_mw *mw = window_of_b();
	struct diw_send_wr last = { .num_sge = _i ? 0 : 99, .dst.addr = a.addr };
	struct diw_send_wr list[DEPTH];

	for (int i = 0; i < DEPTH; i++) {
		list[i] = (struct diw_send_wr){ .next = i + 1 < DEPTH ? &list[i + 1] : &last };
		list[i].opcode = DIW_WR_BIND_MW;
		list[i].bind.mw = mw;
		list[i].bind.mr = b_mr;
		list[i].bind.to = k.mr->to;
		list[i].bind.length = LEN;
		list[i].bind.key = 0x5b;
	}
	ck_assert_int_eq(diw_post_send_all(b.qp, list), _i ? -ENOMEM : -EINVAL);
	ck_assert_uint_eq(mw->stag & 0xff, 0x5a);
	write_to_b(mw->stag, k.mr->to + HALF);
	is_sent(&a);
	ck_assert_int_eq(diw_mw_free(mw), 0);
}
END_TEST

static void post_bind(struct end *e, struct diw_mw *mw, uint32_t len)
{
	struct diw_send_wr bind = { .opcode = DIW_WR_BIND_MW, .flags = DIW_SEND_SIGNALED };

	bind.bind.mw = mw;
	bind.bind.mr = b_mr;
	bind.bind.to = k.mr->to + HALF;
	bind.bind.length = len;
	bind.bind.access = DIW_ACCESS_REMOTE_WRITE;
	ck_assert_int_eq(diw_post_send(e->qp, &bind, NULL), 0);
}

/* A's bind, and its end of a bind, are posted before B's bind and executed behind it. The window keeps B's STag. */
START_TEST(the_last_posted_bind_is_in_force)
{
	struct diw_mw *mw;

	ck_assert_int_eq(diw_mw_alloc(k.pd, DIW_MW_TYPE_1, &mw), 0);
	ck_assert_int_eq(diw_qp_hold(a.qp, true), 0);
	for (uint32_t i = 0; i < DEPTH / 2; i++)
		post_bind(&a, mw, i % 2 ? LEN : 0);
	post_bind(&b, mw, LEN);
	is_sent(&b);
	ck_assert_int_eq(diw_qp_hold(a.qp, false), 0);
	for (uint32_t i = 0; i < DEPTH / 2; i++)
		is_sent(&a);
	write_to_b(mw->stag, k.mr->to + HALF);
	is_sent(&a);
	post_bind(&a, mw, 0);
	is_sent(&a);
	write_to_b(mw->stag, k.mr->to + HALF);
	ends_with(&a, DIW_FAULT_STAG);
	ck_assert_int_eq(diw_mw_free(mw), 0);
}
END_TEST

#define BINDS 2000u

static struct diw_mw *shared;

static void *bind_often(void *end)
{
	for (uint32_t i = 0; i < BINDS; i++) {
		post_bind(end, shared, LEN);
		is_sent(end);
	}
	return NULL;
}

START_TEST(two_threads_bind_one_window)
{
	pthread_t t;

	ck_assert_int_eq(diw_mw_alloc(k.pd, DIW_MW_TYPE_1, &shared), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, bind_often, &a), 0);
	bind_often(&b);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	write_to_b(shared->stag, k.mr->to + HALF);
	is_sent(&a);
	ck_assert_int_eq(diw_mw_free(shared), 0);
}
END_TEST

static void is_invalidated(uint32_t stag, bool solicited)
{
	const struct diw_wc wc = next_of(b.rcq);

	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, LEN);
	ck_assert_uint_eq(wc.stag, stag);
	ck_assert_uint_eq(wc.flags & (DIW_WC_INVALIDATED | DIW_WC_SOLICITED),
			  DIW_WC_INVALIDATED | (solicited ? DIW_WC_SOLICITED : 0));
	is_sent(&a);
	write_to_b(stag, k.mr->to + HALF);
	ends_with(&a, DIW_FAULT_STAG);
}

START_TEST(a_send_invalidates)
{
	const unsigned access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_INVALIDATE;
	struct diw_mw *mw = window_of_b();
	struct diw_mr *mr;

	send_and_invalidate(mw->stag, DIW_SEND_SOLICITED);
	is_invalidated(mw->stag, true);
	ck_assert_int_eq(diw_mr_reg(k.pd, k.mem + HALF, LEN, access, &mr), 0);
	send_and_invalidate(mr->stag, 0);
	is_invalidated(mr->stag, false);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	ck_assert_int_eq(diw_mw_free(mw), 0);
}
END_TEST

/* The owner of this region does not allow peers to invalidate it. */
START_TEST(a_send_that_may_not_invalidate_is_refused)
{
	send_and_invalidate(k.mr->stag, 0);
	ends_with(&a, DIW_FAULT_INVALIDATE);
	send_and_invalidate(0x12345678, 0);
	ends_with(&a, DIW_FAULT_INVALIDATE);
	write_to_b(k.mr->stag, k.mr->to + HALF);
	is_sent(&a);
}
END_TEST

/* A region of one peer is used by no other. */
START_TEST(a_send_of_another_peer_does_not_invalidate)
{
	struct diw_mr_attr attr = { .addr = k.mem + HALF, .length = LEN, .peer = &b.addr,
				    .access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_INVALIDATE };
	struct diw_mr *mr;

	ck_assert_int_eq(diw_mr_reg_attr(k.pd, &attr, &mr), 0);
	send_and_invalidate(mr->stag, 0);
	ends_with(&a, DIW_FAULT_INVALIDATE);
	attr.peer = &a.addr;
	ck_assert_int_eq(diw_mr_rereg(mr, k.pd, &attr), 0);
	send_and_invalidate(mr->stag, 0);
	is_invalidated(mr->stag, false);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
}
END_TEST

/* A region that is one peer's is reached by no other peer, not by its windows either. */
START_TEST(a_window_is_of_the_peer_of_its_region)
{
	struct diw_mr_attr attr = { .addr = k.mem, .length = KIT_SIZE, .peer = &b.addr,
				    .access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_MW_BIND };
	struct diw_mw *mw;

	ck_assert_int_eq(diw_mr_rereg(b_mr, k.pd, &attr), 0);
	mw = window_of_b();
	write_to_b(mw->stag, k.mr->to + HALF);
	ends_with(&a, DIW_FAULT_STAG);
	ck_assert_int_eq(diw_mw_free(mw), 0);
	attr.peer = &a.addr;
	ck_assert_int_eq(diw_mr_rereg(b_mr, k.pd, &attr), 0);
	mw = window_of_b();
	write_to_b(mw->stag, k.mr->to + HALF);
	is_sent(&a);
	ck_assert_int_eq(diw_mw_free(mw), 0);
}
END_TEST

START_TEST(a_read_invalidates_its_sink)
{
	struct diw_send_wr wr = { .num_sge = 1, .opcode = DIW_WR_READ, .dst.addr = b.addr, .stag = k.mr->stag,
				  .flags = DIW_SEND_SIGNALED | DIW_SEND_INVALIDATE, .to = k.mr->to };
	struct diw_sge sge;
	struct diw_mr *mr;

	ck_assert_int_eq(diw_mr_reg(k.pd, k.mem + HALF, LEN, DIW_ACCESS_LOCAL_WRITE, &mr), 0);
	sge = (struct diw_sge){ k.mem + HALF, LEN, mr->stag };
	wr.sge = &sge;
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	is_sent(&a);
	ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, LEN), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	ck_assert_int_eq(next_of(a.scq).status, DIW_WC_LOC_PROT_ERR);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
}
END_TEST

START_TEST(an_invalidation_is_of_sends_and_reads)
{
	struct diw_sge sge = { k.mem, 8, k.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE, .flags = DIW_SEND_INVALIDATE,
				  .dst.addr = b.addr, .stag = k.mr->stag, .to = k.mr->to };

	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), -EINVAL);
	wr.opcode = DIW_WR_WRITE_RECORD;
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), -EINVAL);
	wr.opcode = DIW_WR_BIND_MW;
	wr.flags = 0;
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), -EINVAL);      /* not a window */
}
END_TEST

Suite *suite_rd_windows(void)
{
	Suite *s = suite_create("rd_windows");
	TCase *t = tcase_create("rd_windows");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_window_is_written_to_until_it_is_invalidated);
	tcase_add_test(t, a_send_invalidates);
	tcase_add_loop_test(t, a_refused_list_binds_nothing, 0, 2);
	tcase_add_test(t, the_last_posted_bind_is_in_force);
	tcase_add_test(t, two_threads_bind_one_window);
	tcase_add_test(t, a_send_that_may_not_invalidate_is_refused);
	tcase_add_test(t, a_send_of_another_peer_does_not_invalidate);
	tcase_add_test(t, a_window_is_of_the_peer_of_its_region);
	tcase_add_test(t, a_read_invalidates_its_sink);
	tcase_add_test(t, an_invalidation_is_of_sends_and_reads);
	suite_add_tcase(s, t);
	return s;
}
