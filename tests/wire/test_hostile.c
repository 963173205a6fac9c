/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that no correct peer sends: each increments the counter of its fault and changes nothing else. */
#include <errno.h>
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

/* Valid by itself, but not after the earlier segments. */
static void refused_by_state(const struct fields *f, const char *name)
{
	struct gram g;

	gram_build(&g, f);
	ck_assert_ptr_null(spec_verdict(&b, g.b, g.len - 4));
	bench_refused(&b, &g, name);
}

START_TEST(octet_garbage)
{
	struct diw_rng rng = { 5 };
	struct gram g;

	for (g.len = 0; g.len <= 1472; g.len++) {
		for (uint32_t i = 0; i < g.len; i++)
			g.b[i] = (uint8_t)diw_rng_next(&rng);
		bench_refused(&b, &g, g.len < 6 ? "rx_short" : "rx_crc");
		bench_silent(&b);
	}
}
END_TEST

/* Anyone can compute the CRC. */
START_TEST(sealed_garbage)
{
	struct diw_rng rng = { 6 };
	struct gram g;

	for (int n = 0; n < 20000; n++) {
		const char *verdict;

		g.len = 6 + (uint32_t)(diw_rng_next(&rng) % 200);
		for (uint32_t i = 0; i < g.len; i++)
			g.b[i] = (uint8_t)diw_rng_next(&rng);
		if (n % 2) {
			g.b[0] = g.b[0] & 0xc0 ? 0xc1 : 0x41;
			g.b[1] = 0x40 | (g.b[1] & 0x3f);
		}
		gram_seal(&g);
		verdict = spec_verdict(&b, g.b, g.len - 4);
		ck_assert_ptr_nonnull(verdict);
		bench_refused(&b, &g, verdict);
	}
}
END_TEST

START_TEST(versions)
{
	struct fields f[2] = { bench_send(), bench_record(&b) };

	for (int i = 0; i < 2; i++) {
		uint8_t c0 = f[i].c0, c1 = f[i].c1;

		for (unsigned low = 0; low < 64; low++)
			if (low != 1) {
				f[i].c0 = (uint8_t)((c0 & 0xc0) | low);
				bench_refuses(&b, &f[i], "rx_version");
			}
		f[i].c0 = c0;
		for (unsigned rv = 0; rv < 4; rv++)
			if (rv != 1) {
				f[i].c1 = (uint8_t)((c1 & 0x3f) | rv << 6);
				bench_refuses(&b, &f[i], "rx_version");
			}
	}
	f[0] = bench_send();
	f[0].stag = b.mr->stag;                          /* a Send does not invalidate */
	bench_refuses(&b, &f[0], "rx_version");
	f[0].c1 = 0x40 | OP_SEND_INV;                    /* a Send with Invalidate is RD's */
	bench_refuses(&b, &f[0], "rx_opcode");
}
END_TEST

START_TEST(version_answers)
{
	struct fields f = bench_send();

	f.c0 = BIT_L | 2;
	bench_refuses(&b, &f, "rx_version");
	bench_answered(&b, 0x12, 0x06);
	f = bench_record(&b);
	f.c0 = BIT_T | BIT_L | 3;
	bench_refuses(&b, &f, "rx_version");
	bench_answered(&b, 0x11, 0x04);
	f = bench_record(&b);
	f.msn++;                                         /* the second fault of a message is not answered */
	f.c1 = 0x80 | OP_WRITE_RECORD;
	bench_refuses(&b, &f, "rx_version");
	bench_answered(&b, 0x02, 0x05);
}
END_TEST

START_TEST(opcodes)
{
	static const unsigned untagged = 1 << 1 | 1 << 3 | 1 << 5 | 1 << 7 | 1 << 14, tagged = 1 << 2 | 1 << 12;

	for (unsigned op = 0; op < 16; op++) {
		struct fields f = bench_send();

		f.c1 = (uint8_t)(0x40 | op);
		if (!(untagged & 1u << op))
			bench_refuses(&b, &f, "rx_opcode");
		f = bench_record(&b);
		f.msn = op;
		f.c1 = (uint8_t)(0x40 | op);
		if (!(tagged & 1u << op))
			bench_refuses(&b, &f, "rx_opcode");
	}
	bench_answered(&b, 0x02, 0x06);
}
END_TEST

/* I and S are reserved if the opcode does not use them. */
START_TEST(reserved_bits)
{
	struct fields f = bench_send();

	f.c1 |= BIT_S;
	bench_refuses(&b, &f, "rx_version");
	f.c1 = 0x40 | OP_SEND_SE | BIT_S;
	bench_refuses(&b, &f, "rx_version");
	f = read_fields(9, 1, 0, 16, b.mr->stag, TO);
	f.c1 |= BIT_S;
	bench_refuses(&b, &f, "rx_version");
	f.c1 = 0x40 | OP_READ_REQ | BIT_I;
	bench_refuses(&b, &f, "rx_version");
	f = bench_record(&b);
	f.c1 = 0x40 | OP_READ_RESP | BIT_S;
	bench_refuses(&b, &f, "rx_version");
	f.c1 = 0x40 | OP_READ_RESP | BIT_I;
	bench_refuses(&b, &f, "rx_version");
}
END_TEST

START_TEST(queue_numbers)
{
	static const uint32_t qn[] = { 1, 2, 3, 4, 0x100, 0x01000000, 0xffffffff };

	for (size_t i = 0; i < sizeof qn / sizeof *qn; i++) {
		struct fields f = bench_send();

		f.qn = qn[i];
		bench_refuses(&b, &f, "rx_qn");
		f = read_fields(9, 1, 0, 16, b.mr->stag, TO);
		f.qn = qn[i] == 1 ? 0 : qn[i];
		bench_refuses(&b, &f, "rx_qn");
	}
}
END_TEST

/* A valid segment has L, MO 0, n = length = 48. */
START_TEST(contradictions)
{
	static const struct { bool last; uint32_t mo, length; } bad[] = {
		{ false, 0, 48 }, { true, 0, 49 }, { true, 0, 47 }, { false, 0, 47 }, { true, 1, 48 }, { true, 0, 0 },
		{ false, 0, 0 }, { true, 0, 0xffffffff }, { true, 0xffffffff, 48 }, { false, 0xffffffff, 0xffffffff },
		{ true, 0xffffffd0, 0xffffffff }, { true, 0xffffffe0, 16 }, { false, 0x80000000, 0x80000010 },
		{ true, 48, 48 }, { false, 48, 48 },
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		for (int tagged = 0; tagged < 2; tagged++) {
			struct fields f = tagged ? bench_record(&b) : bench_send();

			f.c0 = (uint8_t)(f.c0 & ~BIT_L) | (bad[i].last ? BIT_L : 0);
			f.mo = bad[i].mo;
			f.length = bad[i].length;
			f.to = TO + bad[i].mo;
			bench_refuses(&b, &f, "rx_malformed");
		}
}
END_TEST

/* A segment without payload must be the whole of an empty message. */
START_TEST(empty_segments)
{
	struct fields f = bench_record(&b);

	f.n = 0;
	for (uint32_t mo = 0; mo <= 48; mo += 16) {
		f.mo = mo;
		f.c0 = BIT_T | (mo == 48 ? BIT_L : 0) | 1;
		bench_refuses(&b, &f, "rx_malformed");
	}
}
END_TEST

START_TEST(keys)
{
	for (int bit = 0; bit < 32; bit++) {
		struct fields f[3] = { bench_send(), bench_record(&b), read_fields(9, 1, 0, 16, b.mr->stag, TO) };

		for (int i = 0; i < 3; i++) {
			f[i].qkey ^= 1u << bit;
			bench_refuses(&b, &f[i], "rx_qkey");
			bench_silent(&b);
		}
	}
}
END_TEST

START_TEST(forged_stags)
{
	for (int bit = 0; bit < 32; bit++) {
		struct fields f = bench_record(&b);

		f.stag ^= 1u << bit;
		bench_refuses(&b, &f, "rx_stag");
		f = read_fields(9, 1, 0, 16, b.mr->stag ^ 1u << bit, TO);
		bench_refuses(&b, &f, "rx_stag");
	}
	for (uint32_t stag = 0; stag < 1000; stag++) {
		struct fields f = bench_record(&b);

		f.stag = stag << 8;
		bench_refuses(&b, &f, "rx_stag");
	}
}
END_TEST

/* A region that exists, but is not valid for this access. */
static void other_region(const struct diw_mr_attr *attr, struct diw_pd *pd, const char *write, const char *read)
{
	struct diw_mr *mr;
	struct gram g;
	struct fields f;

	ck_assert_int_eq(diw_mr_reg_attr(pd, attr, &mr), 0);
	f = record_fields(mr->stag, 1, mr->to, "some octets of payload, enough for an error message", 48);
	gram_build(&g, &f);
	if (write)
		bench_refused(&b, &g, write);
	f = read_fields(1, 1, 0, 16, mr->stag, mr->to);
	gram_build(&g, &f);
	if (read)
		bench_refused(&b, &g, read);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	bench_refused(&b, &g, "rx_stag");
}

START_TEST(other_regions)
{
	struct diw_addr elsewhere = net_addr4(0x0a000064, 0), other_port = b.peer;
	struct diw_mr_attr a = { .addr = b.region, .length = REGION,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ };

	other_port.port++;
	other_region(&a, b.other_pd, "rx_stag", "rx_stag");
	a.peer = &elsewhere;
	other_region(&a, b.pd, "rx_stag", "rx_stag");
	a.peer = &other_port;
	other_region(&a, b.pd, "rx_stag", "rx_stag");
	a.peer = NULL;
	a.access = DIW_ACCESS_LOCAL_WRITE;
	other_region(&a, b.pd, "rx_access", "rx_access");
	a.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_READ;
	other_region(&a, b.pd, "rx_access", NULL);
	a.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE;
	other_region(&a, b.pd, NULL, "rx_access");
}
END_TEST

START_TEST(bounds)
{
	static const struct { uint64_t to; const char *name; } bad[] = {
		{ TO - 1, "rx_bounds" }, { TO - 48, "rx_bounds" }, { TO - 47, "rx_bounds" },
		{ TO + REGION - 47, "rx_bounds" }, { TO + REGION, "rx_bounds" }, { TO + REGION + 1, "rx_bounds" },
		{ 0, "rx_bounds" }, { 1ull << 63, "rx_bounds" }, { TO ^ 1ull << 32, "rx_bounds" },
		{ TO + (1ull << 63), "rx_bounds" }, { UINT64_MAX - 48, "rx_bounds" },
		{ UINT64_MAX - 47, "rx_bounds" }, { UINT64_MAX - 46, "rx_wrap" }, { UINT64_MAX, "rx_wrap" },
	};
	struct fields f;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		f = bench_record(&b);
		f.to = bad[i].to;
		bench_refuses(&b, &f, bad[i].name);
		f = read_fields(9, 1, 0, 48, b.mr->stag, bad[i].to);
		bench_refuses(&b, &f, bad[i].name);
	}
	f = read_fields(9, 1, 0, REGION + 1, b.mr->stag, TO);
	bench_refuses(&b, &f, "rx_bounds");
	f = read_fields(9, 1, 0, 0xffffffff, b.mr->stag, TO);
	bench_refuses(&b, &f, "rx_too_long");
	/* The message would begin below TO 0. */
	f = bench_record(&b);
	f.msn++;
	f.mo = 0x1000;
	f.length = 0x1030;
	f.to = 0xfff;
	bench_refuses(&b, &f, "rx_wrap");
	bench_answered(&b, 0x11, 0x03);
	f = record_fields(b.mr->stag, 1, TO + REGION + 1, "", 0);
	bench_refuses(&b, &f, "rx_bounds");
}
END_TEST

/* Segments up to the last octet are accepted. */
START_TEST(inside)
{
	struct fields f = bench_record(&b);
	struct diw_wc wc;
	struct gram g;

	f.to = TO + REGION - 48;
	gram_build(&g, &f);
	bench_inject(&b, &g);
	wc = bench_wc(&b, b.rcq);
	ck_assert_uint_eq(wc.byte_len, 48);
	memcpy(b.image + GUARD + REGION - 48, f.payload, 48);
	ck_assert_str_eq(bench_drops(&b), "");
	f = record_fields(b.mr->stag, 2, TO + REGION, "", 0);
	gram_build(&g, &f);
	bench_inject(&b, &g);
	wc = bench_wc(&b, b.rcq);
	ck_assert_uint_eq(wc.byte_len, 0);
	ck_assert_uint_eq(wc.nranges, 0);
	ck_assert_int_eq(wc.close, DIW_RECORD_COMPLETE);
	ck_assert_str_eq(bench_drops(&b), "");
}
END_TEST

/* A region's last octet may be the last of all offsets: a range that ends at 2^64 does not wrap. */
START_TEST(the_end_of_offsets)
{
	struct diw_mr_attr attr = { .addr = b.region, .length = REGION, .use_iova = true, .iova = 0 - (uint64_t)REGION,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ };
	struct fields f = bench_record(&b);
	struct diw_mr *mr;
	struct gram g;

	ck_assert_int_eq(diw_mr_reg_attr(b.pd, &attr, &mr), 0);
	f.stag = mr->stag;
	f.to = 0 - (uint64_t)48;
	gram_build(&g, &f);
	bench_look(&b);
	bench_inject(&b, &g);
	ck_assert_str_eq(bench_drops(&b), "");
	memcpy(b.image + GUARD + REGION - 48, f.payload, 48);
	ck_assert_uint_eq(bench_wc(&b, b.rcq).byte_len, 48);
	bench_check_memory(&b);
	f.to++;
	f.msn++;
	gram_build(&g, &f);
	bench_refused(&b, &g, "rx_wrap");
	f = read_fields(9, 1, 0, 48, mr->stag, 0 - (uint64_t)48);
	gram_build(&g, &f);
	bench_look(&b);
	bench_inject(&b, &g);
	ck_assert_str_eq(bench_drops(&b), "");
	ck_assert_int_eq(b.nsent, 1);
	ck_assert_uint_eq(b.sent[0].len, 32 + 48 + 4);
	f = read_fields(10, 1, 0, 49, mr->stag, 0 - (uint64_t)48);
	gram_build(&g, &f);
	bench_refused(&b, &g, "rx_wrap");
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	attr.length++;
	ck_assert_int_eq(diw_mr_reg_attr(b.pd, &attr, &mr), -EINVAL);
}
END_TEST

/* The second segment of a record must agree with the first in all fields of the message. */
START_TEST(record_disagreements)
{
	struct diw_mr_attr attr = { .addr = b.region, .length = REGION, .use_iova = true, .iova = TO,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE };
	struct fields first = bench_record(&b), f;
	struct diw_mr *alias;
	struct diw_wc wc;
	struct gram g;

	ck_assert_int_eq(diw_mr_reg_attr(b.pd, &attr, &alias), 0);
	first.c0 = BIT_T | 1;
	first.length = 49;
	gram_build(&g, &first);
	bench_inject(&b, &g);
	memcpy(b.image + GUARD, first.payload, 48);
	f = record_fields(b.mr->stag, first.msn, TO + 48, "!", 1);
	f.mo = 48;
	f.length = 49;
	f.stag = alias->stag;                            /* the same memory by another STag */
	gram_build(&g, &f);
	bench_refused(&b, &g, "record_mismatch");
	f.stag = b.mr->stag;
	f.to++;                                          /* another TO - MO */
	refused_by_state(&f, "record_mismatch");
	f.to--;
	f.mo = 47;
	f.length = 48;
	refused_by_state(&f, "record_mismatch");
	f.mo = 48;
	f.length = 50;
	f.c0 = BIT_T | 1;
	refused_by_state(&f, "record_mismatch");
	f.length = 49;
	f.c0 = BIT_T | BIT_L | 1;
	f.c1 |= BIT_I;
	refused_by_state(&f, "record_mismatch");
	f.c1 &= (uint8_t)~BIT_I;
	gram_build(&g, &f);
	bench_no_wc(&b);                                 /* 48 of 49 octets are not all */
	bench_inject(&b, &g);
	b.image[GUARD + 48] = '!';
	wc = bench_wc(&b, b.rcq);
	ck_assert_uint_eq(wc.byte_len, 49);
	ck_assert_int_eq(wc.close, DIW_RECORD_COMPLETE);
	refused_by_state(&f, "record_late");
	ck_assert_int_eq(diw_mr_dereg(alias), 0);
}
END_TEST

START_TEST(send_disagreements)
{
	struct fields first = bench_send(), f;
	struct gram g;

	first.c0 = 1;
	first.length = 49;
	gram_build(&g, &first);
	bench_inject(&b, &g);
	memcpy(b.image + (b.recv[0] - b.arena), first.payload, 48);
	f = send_fields(first.msn, "!", 1);
	f.mo = 48;
	f.length = 50;
	f.c0 = 1;
	refused_by_state(&f, "reasm_mismatch");
	f.length = 49;
	f.c0 = BIT_L | 1;
	f.c1 = 0x40 | OP_SEND_SE;
	refused_by_state(&f, "reasm_mismatch");
	f.c1 = 0x40 | OP_SEND | BIT_I;
	refused_by_state(&f, "reasm_mismatch");
	f.c1 = 0x40 | OP_SEND;
	gram_build(&g, &f);
	bench_inject(&b, &g);
	b.image[b.recv[0] - b.arena + 48] = '!';
	ck_assert_uint_eq(bench_wc(&b, b.rcq).byte_len, 49);
	refused_by_state(&f, "reasm_late");
}
END_TEST

START_TEST(receive_lengths)
{
	static const char payload[RECV + 1];
	struct fields f = send_fields(1, payload, RECV + 1);
	struct gram g;

	bench_refuses(&b, &f, "rx_too_long");
	bench_answered(&b, 0x12, 0x05);
	f = bench_send();                                 /* the first segment of a message larger than any receive */
	f.c0 = 1;
	f.length = RECV + 1;
	bench_refuses(&b, &f, "rx_too_long");
	f.length = 0xffffffff;
	bench_refuses(&b, &f, "rx_too_long");
	ck_assert_uint_eq(bench_count(&b, "reasm_opened"), 0);
	f = send_fields(2, payload, RECV);
	for (uint64_t i = 0; i < NRECV / 2; i++) {
		gram_build(&g, &f);
		bench_inject(&b, &g);
		memset(b.image + (b.recv[i] - b.arena), 0, RECV);
		ck_assert_uint_eq(bench_wc(&b, b.rcq).wr_id, i);
	}
	gram_build(&g, &f);                              /* all receives are used up */
	bench_refused(&b, &g, "rx_no_recv");
	bench_answered(&b, 0x12, 0x02);
}
END_TEST

START_TEST(read_requests)
{
	struct fields f = read_fields(9, 1, 0, 16, b.mr->stag, TO);
	struct gram g;

	f.n = f.length = 27;
	bench_refuses(&b, &f, "rx_malformed");
	f.n = f.length = 0;
	bench_refuses(&b, &f, "rx_malformed");
	f.n = 14;                                        /* a request in two segments */
	f.length = 28;
	f.c0 = 1;
	bench_refuses(&b, &f, "rx_malformed");
	f = read_fields(10, 0x77, 0x1234, 0, b.mr->stag, TO);
	gram_build(&g, &f);
	bench_look(&b);
	bench_inject(&b, &g);
	ck_assert_str_eq(bench_drops(&b), "");
	ck_assert_int_eq(b.nsent, 1);                    /* no octets were requested: one empty response */
	ck_assert_uint_eq(b.sent[0].len, 36);
	ck_assert_uint_eq(gram_get32(&b.sent[0], 20), 10);
	ck_assert_uint_eq(gram_get32(&b.sent[0], 2), 0x77);
}
END_TEST

Suite *suite_hostile(void)
{
	Suite *s = suite_create("hostile");
	TCase *tc = tcase_create("hostile");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, octet_garbage);
	tcase_add_test(tc, sealed_garbage);
	tcase_add_test(tc, versions);
	tcase_add_test(tc, version_answers);
	tcase_add_test(tc, opcodes);
	tcase_add_test(tc, reserved_bits);
	tcase_add_test(tc, queue_numbers);
	tcase_add_test(tc, contradictions);
	tcase_add_test(tc, empty_segments);
	tcase_add_test(tc, keys);
	tcase_add_test(tc, forged_stags);
	tcase_add_test(tc, other_regions);
	tcase_add_test(tc, bounds);
	tcase_add_test(tc, inside);
	tcase_add_test(tc, the_end_of_offsets);
	tcase_add_test(tc, record_disagreements);
	tcase_add_test(tc, send_disagreements);
	tcase_add_test(tc, receive_lengths);
	tcase_add_test(tc, read_requests);
	suite_add_tcase(s, tc);
	return s;
}
