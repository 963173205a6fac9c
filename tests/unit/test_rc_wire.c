/* SPDX-License-Identifier: BSD-2-Clause */
/* Every message of an RC queue pair, octet by octet, as laid out in RFC 5040, 5041, 5044 and 7306. */
#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"

static struct wire w;

#define STAG_TO "11223344 1122334455667788"

static void memory(void)
{
	for (uint32_t i = 0; i < 300; i++)
		w.p.k.mem[i] = w.region[i] = (uint8_t)i;
	rc_state(&w.p.a);                       /* ThreadSanitizer does not see that a socket orders two threads */
}

static void with_default(void)
{
	wire_open(&w, NULL);
	memory();
}

static void short_segments(void)
{
	wire_open(&w, &(struct wire_attr){ .mulpdu = 128 });
	memory();
}

static void with_markers(void)
{
	wire_open(&w, &(struct wire_attr){ .markers = true });
	memory();
}

static void with_confirm(void)
{
	wire_open(&w, &(struct wire_attr){ .confirm = true });
	memory();
}

static void done(void)
{
	wire_close(&w);
}

static uint64_t local(uint32_t off) { return w.p.all->to + off; }

/* The example of RFC 5044 section 4.4. */
START_TEST(peer_crc)
{
	struct raw r = { .crc = true, .tx_markers = true };
	uint8_t out[64];
	struct seg s;

	seg_hex(&s, "4143 00000000 00000000 00000001 00000000");
	memset(s.b + s.n, 0, 24);
	s.n += 24;
	ck_assert_uint_eq(raw_fpdu(&r, out, &s), 52);
	ck_assert_mem_eq(out + 48, "\x52\x23\x99\x83", 4);
	r = (struct raw){ .crc = true };
	ck_assert_uint_eq(raw_fpdu(&r, out, &s), 48);
	ck_assert_mem_eq(out + 44, "\xb7\x24\x3e\xc3", 4);
}
END_TEST

START_TEST(sends)
{
	static const struct { unsigned flags; const char *hex; } kinds[] = {
		{ 0, "4143 00000000 00000000 00000001 00000000 0001020304" },
		{ DIW_SEND_INVALIDATE, "4144 55667788 00000000 00000002 00000000 0001020304" },
		{ DIW_SEND_SOLICITED, "4145 00000000 00000000 00000003 00000000 0001020304" },
		{ DIW_SEND_SOLICITED | DIW_SEND_INVALIDATE, "4146 55667788 00000000 00000004 00000000 0001020304" },
		/* Bit 20h is diwarp's, negotiated in the private data. */
		{ DIW_SEND_IMM, "4163 00000000 00000000 00000005 00000000 cafe0001 0001020304" },
		{ DIW_SEND_INLINE, "4143 00000000 00000000 00000006 00000000 0001020304" },
	};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct diw_send_wr wr = { .wr_id = i, .opcode = DIW_WR_SEND, .flags = kinds[i].flags,
					  .inv_stag = 0x55667788, .imm = 0xcafe0001 };

		wire_post(&w, &wr, 0, 5);
		raw_expect(&w.r, "%s", kinds[i].hex);
		wire_expect_wc(w.e.scq, i, DIW_WC_SUCCESS);
	}
}
END_TEST

/* Every length of the pad. */
START_TEST(padding)
{
	static struct seg want;

	for (uint32_t len = 0; len < 9; len++) {
		struct diw_send_wr wr = { .wr_id = len, .opcode = DIW_WR_SEND };

		wire_post(&w, &wr, 0, len);
		seg_hex(&want, "4143 00000000 00000000 %08x 00000000", len + 1);
		seg_add(&want, w.p.k.mem, len);
		raw_expect_seg(&w.r, &want);
	}
}
END_TEST

START_TEST(writes)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE }, none = wr;
	struct diw_send_wr imm = { .opcode = DIW_WR_WRITE, .flags = DIW_SEND_IMM, .imm = 0xcafe0001 }, se = imm;

	wire_post(&w, &wr, 0, 4);
	raw_expect(&w.r, "c140 " STAG_TO " 00010203");
	wire_post(&w, &none, 0, 0);
	raw_expect(&w.r, "c140 " STAG_TO);
	wire_post(&w, &imm, 4, 4);
	raw_expect(&w.r, "c140 " STAG_TO " 04050607");
	raw_expect(&w.r, "4148 00000000 00000000 00000001 00000000 00000000cafe0001");
	se.flags |= DIW_SEND_SOLICITED;
	wire_post(&w, &se, 4, 4);
	raw_expect(&w.r, "c140 " STAG_TO " 04050607");
	raw_expect(&w.r, "4149 00000000 00000000 00000002 00000000 00000000cafe0001");
}
END_TEST

START_TEST(requests)
{
	struct diw_send_wr rd = { .wr_id = 1, .opcode = DIW_WR_READ };
	struct diw_send_wr add = { .wr_id = 2, .opcode = DIW_WR_FETCH_ADD, .compare_add = 0x0102030405060708 };
	struct diw_send_wr swap = { .wr_id = 3, .opcode = DIW_WR_CMP_SWAP, .compare_add = 0x0102030405060708,
				    .swap = 0x1112131415161718 };
	uint64_t before = 0x2122232425262728;
	uint32_t id;
	struct seg s;

	wire_post(&w, &rd, 1000, 6);
	raw_expect(&w.r, "4141 00000000 00000001 00000001 00000000 %08x %016lx 00000006 " STAG_TO, w.p.all->stag,
		   local(1000));
	wire_post(&w, &add, 2000, 8);
	ck_assert(raw_read(&w.r, &s));
	id = (uint32_t)raw_get(s.b + 22, 4);
	raw_hex(&w.r, "c142 %08x %016lx 616263646566", w.p.all->stag, local(1000));
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	ck_assert_mem_eq(w.p.k.mem + 1000, "abcdef\0", 7);
	{
		struct seg want;

		seg_hex(&want, "414a 00000000 00000001 00000002 00000000 00000000 %08x " STAG_TO " 0102030405060708 "
			"0000000000000000 0000000000000000 0000000000000000", id);
		ck_assert_uint_eq(s.n, want.n);
		ck_assert_mem_eq(s.b, want.b, s.n);
	}
	raw_hex(&w.r, "414b 00000000 00000003 00000001 00000000 %08x %016lx", id, before);
	wire_expect_wc(w.e.scq, 2, DIW_WC_SUCCESS);
	ck_assert_mem_eq(w.p.k.mem + 2000, &before, 8);
	wire_post(&w, &swap, 2000, 8);
	raw_expect(&w.r, "414a 00000000 00000001 00000003 00000000 00000002 %08x " STAG_TO " 1112131415161718 "
		   "ffffffffffffffff 0102030405060708 ffffffffffffffff", id + 1);
	raw_hex(&w.r, "414b 00000000 00000003 00000002 00000000 %08x 0000000000000001", id + 1);
	wire_expect_wc(w.e.scq, 3, DIW_WC_SUCCESS);
}
END_TEST

START_TEST(responses)
{
	uint64_t *word = (void *)(w.region + 64), first = 0x00000000ffffffff;

	raw_hex(&w.r, "4141 00000000 00000001 00000001 00000000 " STAG_TO " 00000005 %08x %016lx", w.mr->stag,
		w.mr->to + 3);
	raw_expect(&w.r, "c142 " STAG_TO " 0304050607");
	raw_hex(&w.r, "4141 00000000 00000001 00000002 00000000 " STAG_TO " 00000000 00000000 0000000000000000");
	raw_expect(&w.r, "c142 " STAG_TO);
	__atomic_store_n(word, first, __ATOMIC_SEQ_CST);
	/* FetchAdd by 1; then with a field boundary at bit 31, which stops the carry; then CmpSwap of the low half. */
	raw_hex(&w.r, "414a 00000000 00000001 00000003 00000000 00000000 0000abcd %08x %016lx 0000000000000001 "
		"0000000000000000 0000000000000000 0000000000000000", w.mr->stag, w.mr->to + 64);
	raw_expect(&w.r, "414b 00000000 00000003 00000001 00000000 0000abcd %016lx", first);
	ck_assert_uint_eq(__atomic_load_n(word, __ATOMIC_SEQ_CST), 0x100000000);
	__atomic_store_n(word, first, __ATOMIC_SEQ_CST);
	raw_hex(&w.r, "414a 00000000 00000001 00000004 00000000 00000000 0000abce %08x %016lx 0000000000000001 "
		"0000000080000000 0000000000000000 0000000000000000", w.mr->stag, w.mr->to + 64);
	raw_expect(&w.r, "414b 00000000 00000003 00000002 00000000 0000abce %016lx", first);
	ck_assert_uint_eq(__atomic_load_n(word, __ATOMIC_SEQ_CST), 0);
	__atomic_store_n(word, 0x1234567800000007, __ATOMIC_SEQ_CST);
	raw_hex(&w.r, "414a 00000000 00000001 00000005 00000000 00000002 0000abcf %08x %016lx ffffffffffffffff "
		"00000000ffff0000 aaaaaaaa00000007 00000000ffffffff", w.mr->stag, w.mr->to + 64);
	raw_expect(&w.r, "414b 00000000 00000003 00000003 00000000 0000abcf 1234567800000007");
	ck_assert_uint_eq(__atomic_load_n(word, __ATOMIC_SEQ_CST), 0x12345678ffff0007);
}
END_TEST

#define PROBE "4141 00000000 00000001 %08x 00000000 00000000 0000000000000000 00000000 00000000 0000000000000000"

/* A request completes when a Read of no bytes behind it is answered; requests sent meanwhile complete with the next
 * one. */
START_TEST(confirmed)
{
	struct diw_send_wr first = { .wr_id = 1, .opcode = DIW_WR_WRITE };
	struct diw_send_wr second = { .wr_id = 2, .opcode = DIW_WR_SEND };
	struct diw_send_wr read = { .wr_id = 3, .opcode = DIW_WR_READ };
	struct diw_wc wc;

	wire_post(&w, &first, 0, 4);
	raw_expect(&w.r, "c140 " STAG_TO " 00010203");
	raw_expect(&w.r, PROBE, 1);
	wire_post(&w, &second, 0, 2);
	raw_expect(&w.r, "4143 00000000 00000000 00000001 00000000 0001");
	ck_assert_int_eq(diw_cq_wait(w.e.scq, &wc, 1, 20 * (int64_t)DIW_MS), 0);
	raw_hex(&w.r, "c142 00000000 0000000000000000");
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	raw_expect(&w.r, PROBE, 2);
	wire_post(&w, &read, 0, 0);
	ck_assert_int_eq(diw_cq_wait(w.e.scq, &wc, 1, 20 * (int64_t)DIW_MS), 0);
	raw_hex(&w.r, "c142 00000000 0000000000000000");
	wire_expect_wc(w.e.scq, 2, DIW_WC_SUCCESS);
}
END_TEST

/* A refused Read came behind the Write, so the Write has been placed. */
START_TEST(refused_behind)
{
	struct diw_send_wr write = { .wr_id = 1, .opcode = DIW_WR_WRITE }, read = { .wr_id = 2, .opcode = DIW_WR_READ };

	wire_post(&w, &write, 0, 4);
	raw_expect(&w.r, "c140 " STAG_TO " 00010203");
	raw_expect(&w.r, PROBE, 1);
	wire_post(&w, &read, 0, 0);
	raw_hex(&w.r, "4147 00000000 00000002 00000001 00000000 0100c000 0012 "
		"4141 00000000 00000001 00000002 00000000");
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	wire_expect_wc(w.e.scq, 2, DIW_WC_REM_ACCESS_ERR);
}
END_TEST

/* MULPDU 128: 110 octets of payload in an untagged segment, 114 in a tagged one; the segments of a message are
 * equal. */
START_TEST(segments)
{
	static struct seg want;
	struct diw_send_wr send = { .opcode = DIW_WR_SEND }, write = { .opcode = DIW_WR_WRITE };

	wire_post(&w, &send, 0, 299);
	for (uint32_t mo = 0; mo < 299; mo += 100) {
		seg_hex(&want, "%s43 00000000 00000000 00000001 %08x", mo == 200 ? "41" : "01", mo);
		seg_add(&want, w.p.k.mem + mo, mo == 200 ? 99 : 100);
		raw_expect_seg(&w.r, &want);
	}
	wire_post(&w, &write, 0, 299);
	for (uint32_t mo = 0; mo < 299; mo += 100) {
		seg_hex(&want, "%s40 %08x %016lx", mo == 200 ? "c1" : "81", STAG, (uint64_t)TO + mo);
		seg_add(&want, w.p.k.mem + mo, mo == 200 ? 99 : 100);
		raw_expect_seg(&w.r, &want);
	}
	raw_hex(&w.r, "4141 00000000 00000001 00000001 00000000 " STAG_TO " 0000012b %08x %016lx", w.mr->stag,
		w.mr->to);
	for (uint32_t mo = 0; mo < 299; mo += 100) {
		seg_hex(&want, "%s42 %08x %016lx", mo == 200 ? "c1" : "81", STAG, (uint64_t)TO + mo);
		seg_add(&want, w.region + mo, mo == 200 ? 99 : 100);
		raw_expect_seg(&w.r, &want);
	}
}
END_TEST

/* The default: an FPDU holds 65535 octets. */
START_TEST(largest)
{
	static struct seg want;
	struct diw_send_wr write = { .opcode = DIW_WR_WRITE };
	const uint32_t all = 2 * (SEG_MAX - 14);

	for (uint32_t i = 0; i < all; i++)
		w.p.k.mem[i] = (uint8_t)(i * 13 + i / 256);
	wire_post(&w, &write, 0, all);
	for (uint32_t mo = 0; mo < all; mo += all / 2) {
		seg_hex(&want, "%s40 %08x %016lx", mo ? "c1" : "81", STAG, (uint64_t)TO + mo);
		seg_add(&want, w.p.k.mem + mo, all / 2);
		ck_assert_uint_eq(want.n, SEG_MAX);
		raw_expect_seg(&w.r, &want);
	}
}
END_TEST

/* In both directions, so that a marker is at every offset of an FPDU. */
START_TEST(markers)
{
	static struct seg s;

	for (uint32_t i = 0; i < 300; i++) {
		struct diw_send_wr wr = { .wr_id = i, .opcode = DIW_WR_SEND };
		uint32_t len = i % 61;

		wire_receive(&w, 1000 + i);
		wire_post(&w, &wr, 0, len);
		seg_hex(&s, "4143 00000000 00000000 %08x 00000000", i + 1);
		seg_add(&s, w.p.k.mem, len);
		raw_expect_seg(&w.r, &s);
		raw_seg(&w.r, &s);
		wire_expect_wc(w.e.rcq, 1000 + i, DIW_WC_SUCCESS);
		ck_assert_mem_eq(w.recv, w.p.k.mem, len);
		wire_expect_wc(w.e.scq, i, DIW_WC_SUCCESS);
	}
}
END_TEST

START_TEST(no_crc)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };

	wire_leave(&w);
	wire_join(&w, &(struct wire_attr){ .no_crc = true, .receives = 1 });
	wire_post(&w, &wr, 0, 4);
	raw_expect(&w.r, "4143 00000000 00000000 00000001 00000000 00010203");
	w.r.crc = true;                 /* the field is ignored */
	raw_hex(&w.r, "4143 00000000 00000000 00000001 00000000 00010203");
	wire_expect_wc(w.e.rcq, 0, DIW_WC_SUCCESS);
}
END_TEST

/* A responder sends nothing before the initiator's first FPDU (RFC 5044 section 7.1.2), of any kind. */
START_TEST(responder_waits)
{
	static const char *const first[] = {
		"", "c140 00000000 0000000000000000", "4143 00000000 00000000 00000001 00000000",
	};
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };

	wire_leave(&w);
	wire_join(&w, &(struct wire_attr){ .responder = true, .receives = 1 });
	wire_post(&w, &wr, 0, 4);
	sleep_ms(20);
	ck_assert_uint_eq(end_counter(&w.e, "tx_fpdus"), 0);
	raw_hex(&w.r, "%s", first[_i]);
	raw_expect(&w.r, "4143 00000000 00000000 00000001 00000000 00010203");
	ck_assert_uint_eq(end_counter(&w.e, "rx_fpdus"), 1);
}
END_TEST

/* RFC 6581 section 4: our message as the initiator; the peer's, before which we neither are established nor send. */
START_TEST(ready_to_receive)
{
	static const struct { unsigned rtr; const char *fpdu, *answer; } ways[] = {
		{ DIW_RTR_FPDU, "", NULL },
		{ DIW_RTR_WRITE, "c140 00000000 0000000000000000", NULL },
		{ DIW_RTR_READ, "4141 00000000 00000001 00000001 00000000 00000000 0000000000000000 00000000 00000000 "
		  "0000000000000000", "c142 00000000 0000000000000000" },
	};
	bool read = ways[_i].answer;

	for (int responder = 0; responder < 2; responder++) {
		struct diw_send_wr wr = { .wr_id = 1, .opcode = DIW_WR_SEND };
		struct diw_send_wr rd = { .wr_id = 2, .opcode = DIW_WR_READ };
		struct diw_cm_event ev;

		wire_leave(&w);
		wire_join(&w, &(struct wire_attr){ .responder = responder, .rtr = ways[_i].rtr });
		if (responder) {
			ck_assert_int_eq(diw_cm_get(w.p.cm, &ev, 20 * (int64_t)DIW_MS), -EAGAIN);
			if (!read)              /* otherwise the answer may come before or behind it */
				wire_post(&w, &wr, 0, 4);
			raw_hex(&w.r, "%s", ways[_i].fpdu);
			cm_event(&w.p, DIW_CM_ESTABLISHED);
		} else {
			raw_expect(&w.r, "%s", ways[_i].fpdu);
		}
		if (responder && read)
			raw_expect(&w.r, "%s", ways[_i].answer);
		if (!responder || read)
			wire_post(&w, &wr, 0, 4);
		raw_expect(&w.r, "4143 00000000 00000000 00000001 00000000 00010203");
		wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
		wire_post(&w, &rd, 1000, 1);
		raw_expect(&w.r, "4141 00000000 00000001 %08x 00000000 %08x %016lx 00000001 " STAG_TO,
			   read && !responder ? 2 : 1, w.p.all->stag, local(1000));
		if (read && !responder)
			raw_hex(&w.r, "%s", ways[_i].answer);
		raw_hex(&w.r, "c142 %08x %016lx 61", w.p.all->stag, local(1000));
		wire_expect_wc(w.e.scq, 2, DIW_WC_SUCCESS);
	}
}
END_TEST

/* Reserved bits and fields are ignored (RFC 5041 section 4, RFC 5040 section 4.1). */
/* The value is sent in front of the next message, once for each change (docs/rc-wire.md section 8). */
START_TEST(retries_are_told)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };
	static const unsigned retry[] = { 7, 2, 2, 0, 7 };
	uint32_t msn = 1;

	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(diw_qp_set_rnr(w.e.qp, retry[i], 0), 0);
		wire_post(&w, &wr, 0, 1);
		if (i && retry[i] != retry[i - 1])
			raw_expect(&w.r, "c140 64697700 726e722d727472%02x", retry[i]);
		raw_expect(&w.r, "4143 00000000 00000000 %08x 00000000 00", msn++);
	}
	ck_assert_int_eq(diw_qp_set_rnr(w.e.qp, 8, 0), -EINVAL);
	ck_assert_int_eq(diw_qp_set_rnr(w.e.qp, 0, -1), -EINVAL);
}
END_TEST

/* The peer's retries of 50 ms each; our own limit if the peer does not send one. */
START_TEST(retries_are_obeyed)
{
	static struct seg s;
	uint64_t begun;

	w.p.k.mem[0] = 0;
	ck_assert_int_eq(diw_qp_set_rnr(w.e.qp, 7, 50 * DIW_MS), 0);
	raw_hex(&w.r, "c140 64697700 726e722d72747206");
	raw_hex(&w.r, "c140 64697700 726e722d727472%02x", _i ? 4 : 0);
	begun = diw_clock_ns();
	seg_hex(&s, "4143 00000000 00000000 00000001 00000000 61");
	raw_seg(&w.r, &s);
	wire_expect_terminate(&w, 0x1202, &s, true, false);
	ck_assert_uint_ge(diw_clock_ns() - begun, _i ? 200 * DIW_MS : 0);
	ck_assert_uint_lt(diw_clock_ns() - begun, 4 * DIW_S);
	wire_expect_down(&w, 0x1202, EPROTO);
}
END_TEST

static void with_patience(void)
{
	wire_open(&w, &(struct wire_attr){ .rnr_ns = 20 * DIW_S });
}

START_TEST(reserved)
{
	struct diw_wc wc;

	wire_receive(&w, 1);
	wire_receive(&w, 2);
	raw_hex(&w.r, "7d53 %08x 00000000 00000001 00000000 61", w.may_end->stag);
	wc = rc_wc(w.e.rcq);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(wc.flags, DIW_WC_END);
	/* That was not a Send with Invalidate: this one is. */
	raw_hex(&w.r, "4144 %08x 00000000 00000002 00000000 61", w.may_end->stag);
	wc = rc_wc(w.e.rcq);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(wc.flags, DIW_WC_END | DIW_WC_INVALIDATED);
	ck_assert_uint_eq(wc.stag, w.may_end->stag);
	raw_hex(&w.r, "fd50 %08x %016lx 6162", w.mr->stag, w.mr->to);
	raw_hex(&w.r, "4141 ffffffff 00000001 00000001 00000000 " STAG_TO " 00000002 %08x %016lx", w.mr->stag,
		w.mr->to);
	raw_expect(&w.r, "c142 " STAG_TO " 6162");
}
END_TEST

Suite *suite_rc_wire(void)
{
	Suite *s = suite_create("rc_wire");
	TCase *t = tcase_create("default"), *cut = tcase_create("segments"), *m = tcase_create("markers");
	TCase *c = tcase_create("confirm"), *patient = tcase_create("patient");

	tcase_add_test(t, peer_crc);
	tcase_add_test(t, sends);
	tcase_add_test(t, padding);
	tcase_add_test(t, writes);
	tcase_add_test(t, requests);
	tcase_add_test(t, responses);
	tcase_add_test(t, largest);
	tcase_add_test(t, no_crc);
	tcase_add_loop_test(t, responder_waits, 0, 3);
	tcase_add_loop_test(t, ready_to_receive, 0, 3);
	tcase_add_test(t, reserved);
	tcase_add_test(t, retries_are_told);
	tcase_add_loop_test(patient, retries_are_obeyed, 0, 2);
	tcase_add_checked_fixture(patient, with_patience, done);
	suite_add_tcase(s, patient);
	tcase_add_test(cut, segments);
	tcase_add_test(m, markers);
	tcase_add_test(c, confirmed);
	tcase_add_test(c, refused_behind);
	tcase_add_checked_fixture(t, with_default, done);
	tcase_add_checked_fixture(cut, short_segments, done);
	tcase_add_checked_fixture(m, with_markers, done);
	tcase_add_checked_fixture(c, with_confirm, done);
	tcase_set_timeout(t, 30);
	tcase_set_timeout(m, 30);
	suite_add_tcase(s, t);
	suite_add_tcase(s, cut);
	suite_add_tcase(s, m);
	suite_add_tcase(s, c);
	return s;
}
