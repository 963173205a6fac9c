/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads over reliable datagrams whose answer is lost, refused, or cannot be placed. */
#include <string.h>

#include "base/fault.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define HALF (KIT_SIZE / 2)
#define LEN 20000u                    /* of a Read: many segments */
#define ROUNDS 20u

static struct kit k;
static struct end a, b;

static void open_one(struct end *e, const char *impair, uint64_t rate)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.type = DIW_QP_RD;
	attr.impair = impair;
	attr.mulpdu = 1000;
	if (rate) {
		attr.rate_limit = rate;
		attr.rate_burst = 2000;
	}
	end_open(e, &k, &attr, 64);
}

static void open_both(const char *impair, uint64_t rate)
{
	kit_open(&k, DIW_PROGRESS_THREAD);
	open_one(&a, impair, 0);
	open_one(&b, impair, rate);
	kit_fill(&k);
}

static struct diw_wc next_of(struct end *e)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(e->scq, &wc, 1, KIT_LIMIT), 1);
	return wc;
}

/* A Write of B, beyond the region. */
static void bad_write(void)
{
	struct diw_sge sge = { k.mem, 64, k.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE, .dst.addr = a.addr,
				  .stag = k.mr->stag, .to = k.mr->to + KIT_SIZE };

	ck_assert_int_eq(diw_post_send(b.qp, &wr, NULL), 0);
}

/* B's link drops the segments behind a refused one, among them answers. */
START_TEST(a_refusal_costs_no_answer)
{
	uint32_t reads = 0, writes = 0;

	open_both("loss=20%", 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		memset(k.mem + i * 64, 0, LEN);
		bad_write();
		ck_assert_int_eq(end_read(&a, &b, 0, LEN), 0);
		ck_assert_int_eq(end_read(&a, &b, 0, 8), 0);
		for (; writes <= i; writes++)
			ck_assert_int_eq(next_of(&b).fault, DIW_FAULT_BOUNDS);
		for (; reads < 2 * (i + 1); reads++)
			ck_assert_str_eq(diw_wc_status_str(next_of(&a).status), diw_wc_status_str(DIW_WC_SUCCESS));
		ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, LEN), 0);
	}
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* The refused segment is the last that B's link has: the first part of an answer was acknowledged with those before it,
 * and the rest has not left. */
START_TEST(a_refusal_within_an_answer)
{
	open_both("", 200000);
	memset(k.mem, 0, LEN);
	ck_assert_int_eq(end_read(&a, &b, 0, LEN), 0);
	KIT_UNTIL(end_counter(&a, "rx_segments") > 3);
	bad_write();
	ck_assert_int_eq(next_of(&b).fault, DIW_FAULT_BOUNDS);
	ck_assert_str_eq(diw_wc_status_str(next_of(&a).status), diw_wc_status_str(DIW_WC_SUCCESS));
	ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, LEN), 0);
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* The peer owes an answer for so long that it is probed, behind a Send that it then refuses. */
START_TEST(a_refusal_in_front_of_a_probe)
{
	open_both("", 10000);
	ck_assert_int_eq(end_read(&a, &b, 0, 2 * LEN), 0);
	ck_assert_int_eq(end_send(&a, &b, 64, 64, DIW_SEND_SIGNALED), 0);
	KIT_UNTIL(end_counter(&a, "tx_segments") == 3);
	ck_assert_int_eq(end_recv(&b, HALF + 4 * LEN, 8, 1), 0);
	ck_assert_str_eq(diw_wc_status_str(next_of(&a).status), diw_wc_status_str(DIW_WC_SUCCESS));
	ck_assert_int_eq(next_of(&a).fault, DIW_FAULT_TOO_LONG);
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* The probe of a Read waits behind a Send that finds no receive. The Read does not wait for it. */
START_TEST(an_answer_does_not_await_the_probe)
{
	open_both("", 10000);
	ck_assert_int_eq(end_read(&a, &b, 0, LEN), 0);
	ck_assert_int_eq(end_send(&a, &b, 64, 64, DIW_SEND_SIGNALED), 0);
	KIT_UNTIL(end_counter(&a, "tx_segments") == 3);
	ck_assert_uint_eq(next_of(&a).opcode, DIW_WC_READ);
	ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, LEN), 0);
	ck_assert_int_eq(end_recv(&b, HALF + 4 * LEN, 64, 1), 0);
	ck_assert_str_eq(diw_wc_status_str(next_of(&a).status), diw_wc_status_str(DIW_WC_SUCCESS));
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* Behind a Read that B answers slowly, B takes a Send at once, A refuses another one, and B refuses a third. */
START_TEST(requests_complete_in_order)
{
	static const enum diw_wc_status status[] = { DIW_WC_SUCCESS, DIW_WC_LOC_PROT_ERR, DIW_WC_REM_OP_ERR };
	const uint32_t stag[] = { 0, 1, 0 }, len[] = { 8, 8, 16 };

	open_both("", 200000);
	ck_assert_int_eq(end_recv(&b, HALF + 2 * LEN, 8, 1), 0);
	ck_assert_int_eq(end_recv(&b, HALF + 2 * LEN, 8, 2), 0);
	memset(k.mem, 0, LEN);
	ck_assert_int_eq(end_read(&a, &b, 0, LEN), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct diw_sge sge = { k.mem + 2 * LEN, len[i], k.mr->stag + stag[i] };
		struct diw_send_wr wr = { .wr_id = i, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
					  .flags = DIW_SEND_SIGNALED, .dst.addr = b.addr };

		ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	}
	ck_assert_uint_eq(next_of(&a).opcode, DIW_WC_READ);
	ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, LEN), 0);
	for (uint32_t i = 0; i < 3; i++) {
		const struct diw_wc wc = next_of(&a);

		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str(status[i]));
	}
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* A Read whose sink was deregistered harms no other request, of this end or of the peer. */
START_TEST(a_read_without_its_sink_is_a_local_fault)
{
	struct diw_send_wr wr = { .wr_id = 7, .num_sge = 1, .opcode = DIW_WR_READ, .flags = DIW_SEND_SIGNALED };
	struct diw_sge sge;
	struct diw_mr *mr;
	struct diw_wc wc;

	open_both("", 200000);
	ck_assert_int_eq(diw_mr_reg(k.pd, k.mem, LEN, DIW_ACCESS_LOCAL_WRITE, &mr), 0);
	sge = (struct diw_sge){ k.mem, LEN, mr->stag };
	wr.sge = &sge;
	wr.dst.addr = b.addr;
	wr.stag = k.mr->stag;
	wr.to = k.mr->to + HALF;
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	for (uint32_t i = 0; i < 20; i++)                       /* more than may wait */
		ck_assert_int_eq(end_read(&a, &b, LEN, 8), 0);
	KIT_UNTIL(end_counter(&a, "rx_segments") > 3);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	ck_assert_int_eq(end_recv(&a, 2 * LEN, 8, 1), 0);
	ck_assert_int_eq(end_send(&b, &a, 0, 8, DIW_SEND_SIGNALED), 0);
	wc = next_of(&a);
	ck_assert_uint_eq(wc.wr_id, 7);
	ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str(DIW_WC_LOC_PROT_ERR));
	for (uint32_t i = 0; i < 20; i++)
		ck_assert_int_eq(next_of(&a).status, DIW_WC_SUCCESS);
	ck_assert_int_eq(next_of(&b).status, DIW_WC_SUCCESS);
	kit_close_ends(&k, &a, &b);
}
END_TEST

Suite *suite_rd_answers(void)
{
	Suite *s = suite_create("rd_answers");
	TCase *t = tcase_create("rd_answers");

	tcase_add_test(t, a_refusal_costs_no_answer);
	tcase_add_test(t, a_refusal_within_an_answer);
	tcase_add_test(t, a_refusal_in_front_of_a_probe);
	tcase_add_test(t, an_answer_does_not_await_the_probe);
	tcase_add_test(t, requests_complete_in_order);
	tcase_add_test(t, a_read_without_its_sink_is_a_local_fault);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return s;
}
