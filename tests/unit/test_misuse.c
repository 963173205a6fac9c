/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls with invalid arguments, and objects that are in use or have been destroyed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"
#include "verbs/qp.h"

static struct kit k;
static struct end a, b;

static void open_all(void) { kit_open_ends(&k, &a, &b); }
static void close_all(void) { kit_close_ends(&k, &a, &b); }

static void qp_refused(void (*spoil)(struct diw_qp_attr *), int rc)
{
	struct diw_qp_attr attr;
	struct diw_qp *qp;

	end_attr(&attr);
	attr.send_cq = a.scq;
	attr.recv_cq = a.rcq;
	spoil(&attr);
	ck_assert_int_eq(diw_qp_create(k.pd, &attr, &qp), rc);
}

#define SPOIL(name, what) static void name(struct diw_qp_attr *x) { what; }
SPOIL(no_scq, x->send_cq = NULL)
SPOIL(no_rcq, x->recv_cq = NULL)
SPOIL(sq_0, x->sq_depth = 0)
SPOIL(sq_big, x->sq_depth = 65537)
SPOIL(rq_0, x->rq_depth = 0)
SPOIL(rq_big, x->rq_depth = 65537)
SPOIL(sge_0, x->max_sge = 0)
SPOIL(sge_17, x->max_sge = DIW_MAX_SGE + 1)
SPOIL(inline_big, x->max_inline = DIW_MAX_INLINE + 1)
SPOIL(bad_type, x->type = 7)
SPOIL(bad_mode, x->dgram.record_mode = 2)
SPOIL(uc_grh, x->type = DIW_QP_UC; x->dgram.grh = true)
SPOIL(mulpdu_small, x->mulpdu = 127)
SPOIL(mulpdu_big, x->mulpdu = 65504)
SPOIL(window_neg, x->dgram.reorder_window_ns = -1)
SPOIL(record_0, x->dgram.record_timeout_ns = 0)
SPOIL(reasm_0, x->dgram.reasm_timeout_ns = 0)
SPOIL(read_neg, x->dgram.read_timeout_ns = -1)
SPOIL(sources_0, x->dgram.max_sources = 0)
SPOIL(records_0, x->dgram.max_records = 0)
SPOIL(rcvbuf_0, x->dgram.rcvbuf = 0)
SPOIL(impair_bad, x->impair = "loss=nonsense")
SPOIL(impaired_rc, x->type = DIW_QP_RC; x->impair = "delay=1ms")
SPOIL(rc_alone, x->type = DIW_QP_RC; x->impair = NULL)
SPOIL(port_taken, x->dgram.local = a.addr)
SPOIL(not_ours, diw_addr_parse("192.0.2.77", 0, &x->dgram.local))

START_TEST(devices_that_cannot_be)
{
	static const struct diw_dev_attr invalid[] = {
		{ .progress = DIW_PROGRESS_SPIN + 1 }, { .progress = -1 }, { .llp = DIW_LLP_URING + 1 }, { .llp = -1 },
	};
	struct diw_addr lo;
	struct diw_dev *dev;

	ck_assert_int_eq(diw_addr_parse("127.0.0.1", 0, &lo), 0);
	for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
		ck_assert_int_eq(diw_dev_open("diw_lo", &invalid[i], &dev), -EINVAL);
		ck_assert_int_eq(diw_dev_open_route(&lo, &invalid[i], &dev), -EINVAL);
	}
	ck_assert_int_eq(diw_dev_open("diw_none", NULL, &dev), -ENODEV);
}
END_TEST

START_TEST(queue_pairs_that_cannot_be)
{
	void (*const invalid[])(struct diw_qp_attr *) = {
		no_scq, no_rcq, sq_0, sq_big, rq_0, rq_big, sge_0, sge_17, inline_big, bad_type, bad_mode, uc_grh,
		mulpdu_small, mulpdu_big, window_neg, record_0, reasm_0, read_neg, sources_0, records_0, rcvbuf_0,
	};

	open_all();
	for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
		qp_refused(invalid[i], -EINVAL);
	qp_refused(port_taken, -EADDRINUSE);
	qp_refused(not_ours, -EADDRNOTAVAIL);
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));        /* it prints the error */
	qp_refused(impair_bad, -EINVAL);
	qp_refused(impaired_rc, -EOPNOTSUPP);
	setenv("DIWARP_IMPAIR", "delay=1ms", 1);
	qp_refused(rc_alone, -EOPNOTSUPP);
	unsetenv("DIWARP_IMPAIR");
	close_all();
}
END_TEST

/* Destinations that do not exist: the error names them, and affects no other request. */
START_TEST(destinations_that_cannot_be)
{
	struct end gone = { 0 };
	struct diw_send_wr wr = { .flags = DIW_SEND_SIGNALED };
	struct diw_qp_error e = { 0 };
	struct diw_wc wc;

	open_all();
	ck_assert_int_eq(diw_addr_parse("::1", 4791, &wr.dst.addr), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), -EAFNOSUPPORT);
	end_open(&gone, &k, NULL, 16);
	wr.dst.addr = gone.addr;
	end_close(&gone);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	ck_assert_int_eq(diw_cq_wait(a.scq, &wc, 1, KIT_LIMIT), 1);
	KIT_UNTIL(e.errnum || diw_qp_error_get(a.qp, &e) == 0);
	ck_assert_int_eq(e.errnum, ECONNREFUSED);
	ck_assert(e.remote);
	ck_assert(memcmp(&e.peer, &wr.dst.addr, sizeof e.peer) == 0);
	/* A message on its way is not lost by this. */
	ck_assert_int_eq(end_recv(&b, 0, 100, 1), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 100, 0), 0);
	ck_assert_int_eq(diw_cq_wait(b.rcq, &wc, 1, KIT_LIMIT), 1);
	close_all();
}
END_TEST

START_TEST(regions_that_cannot_be)
{
	uint8_t byte;
	struct diw_mr_attr attr = { .addr = &byte, .length = 2, .use_iova = true, .iova = UINT64_MAX };
	struct diw_mr *mr;

	open_all();
	ck_assert_int_eq(diw_mr_reg(k.pd, &byte, 0, 0, &mr), -EINVAL);
	ck_assert_int_eq(diw_mr_reg(k.pd, NULL, 1, 0, &mr), -EINVAL);
	ck_assert_int_eq(diw_mr_reg(k.pd, &byte, (1ull << 48) + 1, 0, &mr), -EINVAL);
	ck_assert_int_eq(diw_mr_reg(k.pd, (void *)(UINTPTR_MAX - 10), 100, 0, &mr), -EINVAL);
	ck_assert_int_eq(diw_mr_reg(k.pd, &byte, 1, 8, &mr), -EINVAL);
	ck_assert_int_eq(diw_mr_reg(k.pd, &byte, 1, DIW_ACCESS_REMOTE_WRITE, &mr), -EINVAL);
	ck_assert_int_eq(diw_mr_reg_attr(k.pd, &attr, &mr), -EINVAL);
	attr.iova--;                            /* a region that ends exactly at 2^64 is allowed */
	ck_assert_int_eq(diw_mr_reg_attr(k.pd, &attr, &mr), 0);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	close_all();
}
END_TEST

START_TEST(requests_that_cannot_be)
{
	uint8_t big[DIW_MAX_INLINE];
	struct diw_sge sge[5] = { { k.mem, 8, 0 } };
	struct diw_send_wr good, wr, second;
	const struct diw_send_wr *bad = NULL;
	struct diw_recv_wr recv = { .sge = sge, .num_sge = 5 };
	const struct diw_recv_wr *bad_recv = NULL;

	open_all();
	sge[0] = (struct diw_sge){ k.mem, 8, k.mr->stag };
	good = (struct diw_send_wr){ .sge = sge, .num_sge = 1, .opcode = DIW_WR_SEND, .dst.addr = b.addr };
#define REFUSED(what) wr = good; what; ck_assert_int_eq(diw_post_send(a.qp, &wr, &bad), -EINVAL); \
	ck_assert_ptr_eq(bad, &wr)
	REFUSED(wr.opcode = 9);
	REFUSED(wr.opcode = DIW_WR_WRITE);      /* UC only */
	REFUSED(wr.num_sge = 5);
	REFUSED(wr.num_sge = -1);
	REFUSED(wr.sge = NULL);
	REFUSED(wr.flags = 32);
	REFUSED(wr.dst.addr.port = 0);
	REFUSED(memset(&wr.dst.addr, 0, 16));
	sge[0] = (struct diw_sge){ big, 129, 0 };
	REFUSED(wr.flags = DIW_SEND_INLINE);
	sge[0] = (struct diw_sge){ k.mem, 8, k.mr->stag };
	REFUSED(wr.opcode = DIW_WR_WRITE_RECORD; wr.to = UINT64_MAX - 6);
	REFUSED(wr.opcode = DIW_WR_READ; wr.flags = DIW_SEND_IMM);
	REFUSED(wr.opcode = DIW_WR_READ; wr.flags = DIW_SEND_INLINE);
	REFUSED(wr.opcode = DIW_WR_READ; wr.timeout_ns = -1);
	/* A list stops at the first request that cannot be posted; those before it are posted. */
	wr = second = good;
	wr.next = &second;
	wr.flags = DIW_SEND_SIGNALED;
	second.flags = 64;
	ck_assert_int_eq(diw_post_send(a.qp, &wr, &bad), -EINVAL);
	ck_assert_ptr_eq(bad, &second);
	ck_assert_int_eq(rc_wc(a.scq).opcode, DIW_WC_SEND);
	ck_assert_int_eq(diw_post_recv(a.qp, &recv, &bad_recv), -EINVAL);
	recv = (struct diw_recv_wr){ .num_sge = 1 };
	ck_assert_int_eq(diw_post_recv(a.qp, &recv, &bad_recv), -EINVAL);
	ck_assert_ptr_eq(bad_recv, &recv);
	ck_assert_int_eq(diw_cq_poll(a.scq, NULL, 0, 0), -EINVAL);
	ck_assert_int_eq(diw_cq_wait(a.scq, NULL, 0, 0), -EINVAL);
	close_all();
}
END_TEST

START_TEST(objects_in_use)
{
	struct diw_channel *ch;
	struct diw_cq *cq;
	struct diw_srq *srq;
	struct diw_dev *dev;

	open_all();
	ck_assert_int_eq(diw_dev_open("diw_nonesuch", NULL, &dev), -ENODEV);
	ck_assert_int_eq(diw_channel_create(k.dev, &ch), 0);
	ck_assert_int_eq(diw_cq_create(k.dev, 0, NULL, NULL, &cq), -EINVAL);
	ck_assert_int_eq(diw_cq_create(k.dev, (1u << 22) + 1, NULL, NULL, &cq), -EINVAL);
	ck_assert_int_eq(diw_cq_create(k.dev, 1, ch, NULL, &cq), 0);
	ck_assert_int_eq(diw_srq_create(k.pd, 0, 1, NULL, &srq), -EINVAL);
	ck_assert_int_eq(diw_srq_create(k.pd, 1, DIW_MAX_SGE + 1, NULL, &srq), -EINVAL);
	ck_assert_int_eq(diw_channel_destroy(ch), -EBUSY);
	ck_assert_int_eq(diw_cq_destroy(a.scq), -EBUSY);
	ck_assert_int_eq(diw_pd_free(k.pd), -EBUSY);
	ck_assert_int_eq(diw_dev_close(k.dev), -EBUSY);
	ck_assert_int_eq(diw_cq_destroy(cq), 0);
	ck_assert_int_eq(diw_channel_destroy(ch), 0);
	close_all();
}
END_TEST

/* A receive queue for which there is no memory is destroyed twice: by itself, and with its owner. */
START_TEST(receive_queue_ends_twice)
{
	struct diw_rq rq = { 0 };

	ck_assert_int_eq(diw_rq_init(&rq, 4, 1), 0);
	diw_rq_fini(&rq);
	diw_rq_fini(&rq);
}
END_TEST

Suite *suite_misuse(void)
{
	Suite *s = suite_create("misuse");
	TCase *tc = tcase_create("misuse");

	tcase_set_timeout(tc, 20);
	tcase_add_test(tc, devices_that_cannot_be);
	tcase_add_test(tc, queue_pairs_that_cannot_be);
	tcase_add_test(tc, destinations_that_cannot_be);
	tcase_add_test(tc, regions_that_cannot_be);
	tcase_add_test(tc, requests_that_cannot_be);
	tcase_add_test(tc, objects_in_use);
	tcase_add_test(tc, receive_queue_ends_twice);
	suite_add_tcase(s, tc);
	return s;
}
