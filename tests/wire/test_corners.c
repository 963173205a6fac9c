/* SPDX-License-Identifier: BSD-2-Clause */
/* Cases of docs/ud-profile.md that two readers could understand differently: the first of several faults, answers,
 * overlapping segments. */
#include <string.h>

#include "tests/wire/wire.h"

static struct bench b;

static void setup(void)
{
	bench_open(&b, NULL);
}

static void teardown(void)
{
	bench_close(&b);
}

static void taken(const struct fields *f)
{
	struct gram g;

	gram_build(&g, f);
	bench_look(&b);
	bench_inject(&b, &g);
	ck_assert_str_eq(bench_drops(&b), "");
}

/* A Read Request that is not one segment of 28 octets is malformed, and its source is told (section 4.1). */
START_TEST(read_request_lengths)
{
	static uint8_t body[64];
	struct fields f = read_fields(1, 7, 0, 16, b.mr->stag, TO);

	memcpy(body, f.payload, 28);
	f.payload = body;
	for (uint32_t n = 0; n <= 64; n++) {
		f.msn = n;
		f.n = f.length = n;
		if (n == 28)
			continue;
		bench_refuses(&b, &f, "rx_malformed");
		if (28 + n + 4 >= 38 + 14)
			bench_answered(&b, 0x12, 0x04);
		else
			bench_silent(&b);                /* too short for the MSN */
	}
	f.msn = 100;                                     /* in two segments */
	f.length = 28;
	f.n = 24;
	f.c0 = 1;
	bench_refuses(&b, &f, "rx_malformed");
	bench_answered(&b, 0x12, 0x04);
}
END_TEST

/* The opcode alone decides whether the Q_Key is checked, and whether an error is answered: for 0x2 and 0x7 it never is.
 * _i 0: a Q_Key of 0, 1: the queue pair's. */
START_TEST(exempt_opcodes)
{
	static const struct { uint8_t op; bool tagged; uint32_t qn; const char *name; } c[] = {
		{ OP_READ_RESP, false, 0, "rx_opcode" }, { OP_READ_RESP, false, 1, "rx_opcode" },
		{ OP_READ_RESP, true, 0, "read_unmatched" }, { OP_ERROR, true, 0, "rx_opcode" },
		{ OP_ERROR, false, 0, "rx_qn" }, { OP_ERROR, false, 1, "rx_qn" },
		{ OP_ERROR, false, 2, "error_rx_ignored" },
	};

	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		struct fields f = c[i].tagged ? bench_record(&b) : bench_send();

		f.c1 = 0x40 | c[i].op;
		f.qn = c[i].qn;
		f.qkey = _i ? QKEY : 0;
		bench_refuses(&b, &f, c[i].name);
		bench_silent(&b);
	}
}
END_TEST

/* UC's flow message is not an opcode of UD, so it has no exemption there. */
START_TEST(flow_on_ud)
{
	struct fields f = send_fields(1, "\x51\xde\xca\x11\0\0\0\0", 8);

	f.c1 = 0x40 | OP_FLOW;
	f.qn = 2;
	f.qkey = 0;
	bench_refuses(&b, &f, "rx_qkey");
	bench_silent(&b);
	f.qkey = QKEY;
	bench_refuses(&b, &f, "rx_opcode");
	bench_silent(&b);                                /* QN 2 */
}
END_TEST

/* Segments of a message may overlap: octets count once, memory has those that came last, and a segment without new
 * octets is not placed. _i 0: a Write-Record, 1: a Send. */
START_TEST(overlaps)
{
	static const char first[33] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
	static const char second[33] = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";
	uint8_t *image = b.image + (_i ? b.recv[0] - b.arena : GUARD);
	struct fields f = _i ? send_fields(1, first, 32) : record_fields(b.mr->stag, 1, TO, first, 32);
	struct diw_wc wc;

	f.length = 48;
	f.c0 = (uint8_t)(f.c0 & ~BIT_L);
	taken(&f);
	memset(image, 'A', 32);
	bench_check_memory(&b);
	f.payload = second;                              /* 8 octets in the middle: none is new */
	f.n = 8;
	f.mo = 8;
	f.to += f.mo * !_i;
	taken(&f);
	ck_assert_uint_eq(bench_count(&b, _i ? "reasm_duplicate" : "record_duplicate"), 1);
	bench_check_memory(&b);
	bench_no_wc(&b);
	f.n = 32;                                        /* 16 known octets, 16 new ones */
	f.to += 8 * !_i;
	f.mo = 16;
	f.c0 |= BIT_L;
	taken(&f);
	memset(image + 16, 'B', 32);
	bench_check_memory(&b);
	wc = bench_wc(&b, b.rcq);
	ck_assert_uint_eq(wc.byte_len, 48);
	if (!_i)
		ck_assert_uint_eq(wc.nranges, 1);
	diw_wc_release(&wc);
}
END_TEST

/* S may differ: the first segment of a Write-Record to come counts. _i: the one that has S. */
START_TEST(solicited_once)
{
	struct fields f = bench_record(&b);
	struct diw_wc wc;

	f.length = 64;
	f.c0 = BIT_T | 1;
	f.c1 |= _i == 0 ? BIT_S : 0;
	taken(&f);
	f.payload = "0123456789abcdef";
	f.n = 16;
	f.mo = 48;
	f.to += 48;
	f.c0 |= BIT_L;
	f.c1 ^= BIT_S;
	taken(&f);
	memcpy(b.image + GUARD, bench_record(&b).payload, 48);
	memcpy(b.image + GUARD + 48, f.payload, 16);
	wc = bench_wc(&b, b.rcq);
	ck_assert_uint_eq(wc.byte_len, 64);
	ck_assert_int_eq(!!(wc.flags & DIW_WC_SOLICITED), _i == 0);
}
END_TEST

/* A Read's sink concerns only its requester, even if it wraps. */
START_TEST(any_sink)
{
	struct fields f = read_fields(1, 0, UINT64_MAX - 7, 16, b.mr->stag, TO);

	taken(&f);
	ck_assert_int_eq(b.nsent, 1);
	ck_assert_uint_eq(gram_get32(&b.sent[0], 2), 0);
	ck_assert_uint_eq(gram_get32(&b.sent[0], 6), 0xffffffff);
	ck_assert_uint_eq(gram_get32(&b.sent[0], 10), 0xfffffff8);
	ck_assert_uint_eq(gram_get32(&b.sent[0], 28), 16);
}
END_TEST

/* An empty Read is checked: a Read of no octets needs an STag, and a TO in its region. */
START_TEST(empty_reads)
{
	struct fields f = read_fields(1, 7, 0, 0, b.mr->stag ^ 1, TO);

	bench_refuses(&b, &f, "rx_stag");
	bench_answered(&b, 0x11, 0x00);
	f = read_fields(2, 7, 0, 0, b.mr->stag, TO + REGION + 1);
	bench_refuses(&b, &f, "rx_bounds");
	bench_answered(&b, 0x11, 0x01);
	f = read_fields(3, 7, 0, 0, b.mr->stag, TO + REGION);
	taken(&f);
}
END_TEST

/* A segment of an ended Send is recognised as late before anything about its source is checked. */
START_TEST(late_first)
{
	struct fields f = bench_send();

	f.length = 64;
	f.c0 = 1;
	taken(&f);
	memcpy(b.image + (b.recv[0] - b.arena), f.payload, 48);
	f.payload = "0123456789abcdef";
	f.n = 16;
	f.mo = 48;
	f.c0 = BIT_L | 1;
	taken(&f);
	memcpy(b.image + (b.recv[0] - b.arena) + 48, f.payload, 16);
	ck_assert_uint_eq(bench_wc(&b, b.rcq).byte_len, 64);
	for (int i = 0; i < 2; i++) {
		struct gram g;

		gram_build(&g, &f);
		bench_refused(&b, &g, "reasm_late");
		f.c1 |= BIT_I;                           /* it does not have to agree any more */
	}
}
END_TEST

/* A UC queue pair that never had a receive delays no message for one: a message that needs one is dropped, those behind
 * it are placed. */
START_TEST(uc_without_receives)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_sge sge;
	struct diw_recv_wr wr = { .wr_id = 5, .sge = &sge, .num_sge = 1 };
	struct fields f;
	struct gram g;

	attr.type = DIW_QP_UC;
	bench_open(&b, &attr);
	ck_assert_int_eq(diw_qp_reset(b.qp), 0);         /* the bench has posted some */
	f = bench_send();
	gram_build(&g, &f);
	bench_refused(&b, &g, "rx_no_recv");
	ck_assert_uint_eq(bench_count(&b, "rx_stalled"), 0);
	f = bench_record(&b);
	f.c1 = 0x40 | OP_WRITE;
	taken(&f);
	memcpy(b.image + GUARD, f.payload, 48);
	sge = (struct diw_sge){ b.recv[0], RECV, b.recv_mr->stag };
	ck_assert_int_eq(diw_post_recv(b.qp, &wr, NULL), 0);
	f = bench_send();
	taken(&f);
	memcpy(b.image + (b.recv[0] - b.arena), f.payload, 48);
	ck_assert_uint_eq(bench_wc(&b, b.rcq).wr_id, 5);
	f.msn++;
	gram_build(&g, &f);
	bench_look(&b);
	bench_inject(&b, &g);                            /* there was a receive, so the next message may come */
	ck_assert_str_eq(bench_drops(&b), "rx_stalled");
	wr.wr_id = 6;
	ck_assert_int_eq(diw_post_recv(b.qp, &wr, NULL), 0);
	net_settle(b.net);
	ck_assert_uint_eq(bench_wc(&b, b.rcq).wr_id, 6);
	bench_close(&b);
}
END_TEST

Suite *suite_corners(void)
{
	Suite *s = suite_create("corners");
	TCase *tc = tcase_create("corners");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, read_request_lengths);
	tcase_add_loop_test(tc, exempt_opcodes, 0, 2);
	tcase_add_test(tc, flow_on_ud);
	tcase_add_loop_test(tc, overlaps, 0, 2);
	tcase_add_loop_test(tc, solicited_once, 0, 2);
	tcase_add_test(tc, any_sink);
	tcase_add_test(tc, empty_reads);
	tcase_add_test(tc, late_first);
	suite_add_tcase(s, tc);
	tc = tcase_create("uc");
	tcase_add_test(tc, uc_without_receives);
	suite_add_tcase(s, tc);
	return s;
}
