/* SPDX-License-Identifier: BSD-2-Clause */
/* Placement words (docs/rc-wire.md section 7.2), octet by octet: which messages ask, which answer, and when. */
#include <errno.h>

#include "base/clock.h"
#include "rdmap/int.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"

static struct wire w;

#define STAG_TO "11223344 1122334455667788"

static void begin(void)
{
	wire_open(&w, &(struct wire_attr){ .confirm = true, .words = true, .receives = 4,
					  .rnr_ns = KIT_LIMIT });
	for (uint32_t i = 0; i < 300; i++)
		w.p.k.mem[i] = w.region[i] = (uint8_t)i;
	rc_state(&w.p.a);                       /* ThreadSanitizer does not see that a socket orders two threads */
}

static void done(void)
{
	wire_close(&w);
}

static bool nothing_completes(void)
{
	struct diw_wc wc;

	return diw_cq_wait(w.e.scq, &wc, 1, 20 * (int64_t)DIW_MS) == 0;
}

/* The vectors of the page. */
START_TEST(words)
{
	struct diw_send_wr write = { .wr_id = 1, .opcode = DIW_WR_WRITE }, send = { .wr_id = 2, .opcode = DIW_WR_SEND };
	struct diw_send_wr imm = { .wr_id = 3, .opcode = DIW_WR_WRITE, .flags = DIW_SEND_IMM, .imm = 7 };

	wire_post(&w, &write, 0, 4);
	raw_expect(&w.r, "c150 " STAG_TO " 80000000 00010203");
	wire_post(&w, &send, 0, 2);
	raw_expect(&w.r, "4153 00000000 00000000 00000001 00000000 80000000 0001");
	ck_assert(nothing_completes());
	raw_hex(&w.r, "c150 00000000 0000000000000000 00000001");
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	ck_assert(nothing_completes());
	raw_hex(&w.r, "c150 00000000 0000000000000000 00000003");       /* more than we have sent: not a valid count */
	ck_assert(nothing_completes());
	raw_hex(&w.r, "c150 00000000 0000000000000000 00000002");
	wire_expect_wc(w.e.scq, 2, DIW_WC_SUCCESS);
	/* The Immediate asks on behalf of its Write. Three messages of the peer are placed here, for which it has not
	 * asked. */
	wire_post(&w, &imm, 0, 1);
	raw_expect(&w.r, "c140 " STAG_TO " 00");
	raw_expect(&w.r, "4158 00000000 00000000 00000002 00000000 80000003 0000000000000007");
	raw_hex(&w.r, "c150 00000000 0000000000000000 00000003");       /* only the Write */
	ck_assert(nothing_completes());
	raw_hex(&w.r, "c150 00000000 0000000000000000 00000004");
	wire_expect_wc(w.e.scq, 3, DIW_WC_SUCCESS);
}
END_TEST

/* A Response confirms as much as a word; no message in front of a Read asks. */
START_TEST(words_and_reads)
{
	struct diw_sge sge[] = { { w.p.k.mem, 1, w.p.all->stag }, { w.p.k.mem + 1000, 1, w.p.all->stag } };
	struct diw_send_wr wr[] = {
		{ .next = &wr[1], .wr_id = 1, .opcode = DIW_WR_WRITE, .sge = &sge[0], .num_sge = 1, .stag = STAG,
		  .to = TO, .flags = DIW_SEND_SIGNALED },
		{ .wr_id = 2, .opcode = DIW_WR_READ, .sge = &sge[1], .num_sge = 1, .stag = STAG, .to = TO,
		  .flags = DIW_SEND_SIGNALED },
	};

	ck_assert_int_eq(diw_post_send(w.e.qp, wr, NULL), 0);
	raw_expect(&w.r, "c140 " STAG_TO " 00");
	raw_expect(&w.r, "4141 00000000 00000001 00000001 00000000 %08x %016lx 00000001 " STAG_TO, w.p.all->stag,
		   w.p.all->to + 1000);
	ck_assert(nothing_completes());
	raw_hex(&w.r, "c142 %08x %016lx 61", w.p.all->stag, w.p.all->to + 1000);
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	wire_expect_wc(w.e.scq, 2, DIW_WC_SUCCESS);
	ck_assert_uint_eq(end_counter(&w.e, "confirm_asked"), 0);
}
END_TEST

/* Without a message to send, an answer is a message of its own. When the program answers, its message carries the
 * count; the completion that this confirms comes before that of the message. */
START_TEST(words_answer)
{
	struct diw_send_wr pong = { .wr_id = 1, .opcode = DIW_WR_SEND };

	raw_hex(&w.r, "c150 %08x %016lx 80000000 61", w.mr->stag, w.mr->to);
	raw_expect(&w.r, "c150 00000000 0000000000000000 00000001");
	raw_hex(&w.r, "4153 00000000 00000000 00000001 00000000 80000001 61");
	raw_expect(&w.r, "c150 00000000 0000000000000000 00000002");
	wire_expect_wc(w.e.rcq, 0, DIW_WC_SUCCESS);
	wire_post(&w, &pong, 0, 1);
	raw_expect(&w.r, "4153 00000000 00000000 00000001 00000000 80000002 00");
	raw_hex(&w.r, "4143 00000000 00000000 00000002 00000000 61");
	wire_expect_wc(w.e.rcq, 1, DIW_WC_SUCCESS);
	ck_assert(nothing_completes());
	raw_hex(&w.r, "4153 00000000 00000000 00000003 00000000 00000003 61");
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	wire_expect_wc(w.e.rcq, 2, DIW_WC_SUCCESS);
	ck_assert_uint_eq(end_counter(&w.e, "confirm_told"), 2);
}
END_TEST

/* An answer leaves at once. When the program has answered 16 consecutive messages by its own, the next answer waits 5
 * us for the program's. */
START_TEST(words_steady)
{
	struct diw_counters counters = { 0 };
	struct diw_rdmap r = { .c = &counters, .rc.place.words = true };
	struct diw_rdmap_rc_place *p = &r.rc.place;
	uint64_t now = DIW_S;

	for (int i = 0; i < 16; i++) {
		p->due = p->fresh = true;
		ck_assert_msg(diw_rdmap_rc_owes(&r, now), "answer %d waits", i);
		p->due = p->fresh = false;      /* as diw_rdmap_rc_tell() leaves it */
		p->told = true;
		diw_rdmap_rc_word(&r, &(struct diw_ddp_hdr){ 0 }, true);
	}
	p->due = p->fresh = true;
	ck_assert(!diw_rdmap_rc_owes(&r, now));
	ck_assert(!diw_rdmap_rc_owes(&r, now + 4999));
	ck_assert(diw_rdmap_rc_owes(&r, now + 5000));
	diw_rdmap_rc_word(&r, &(struct diw_ddp_hdr){ 0 }, false);
	ck_assert(!diw_rdmap_rc_owes(&r, now + 5000));
	ck_assert_uint_eq(counters.confirm_carried, 1);
}
END_TEST

/* The peer's confirmation waits behind a Send that finds no receive, and the program posts none before its own request
 * is complete. */
START_TEST(words_behind_a_stall)
{
	struct diw_send_wr send = { .wr_id = 1, .opcode = DIW_WR_SEND };

	for (uint32_t i = 1; i <= 5; i++)
		raw_hex(&w.r, "4143 00000000 00000000 %08x 00000000 61", i);
	for (uint64_t i = 0; i < 4; i++)
		wire_expect_wc(w.e.rcq, i, DIW_WC_SUCCESS);
	wire_post(&w, &send, 0, 1);
	raw_expect(&w.r, "4153 00000000 00000000 00000001 00000000 80000004 00");
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	wire_receive(&w, 9);
	wire_expect_wc(w.e.rcq, 9, DIW_WC_SUCCESS);
}
END_TEST

/* A Terminate counts for a peer that has asked before, also if no answer is due. Loop index: the peer has asked. */
START_TEST(words_terminate)
{
	raw_hex(&w.r, _i ? "c150 %08x %016lx 80000000 61" : "c150 %08x %016lx 00000000 61", w.mr->stag, w.mr->to);
	if (_i)
		raw_expect(&w.r, "c150 00000000 0000000000000000 00000001");
	raw_hex(&w.r, "c140 %08x %016lx 61", w.mr->stag ^ 1, w.mr->to);
	raw_expect(&w.r, "41%s 1100c000 000f c140 %08x %016lx",
		   _i ? "57 00000000 00000002 00000001 00000000 00000001" : "47 00000000 00000002 00000001 00000000",
		   w.mr->stag ^ 1, w.mr->to);
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0x1100, EPROTO);
}
END_TEST

Suite *suite_rc_words(void)
{
	Suite *s = suite_create("rc_words");
	TCase *t = tcase_create("words");

	tcase_add_checked_fixture(t, begin, done);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, words);
	tcase_add_test(t, words_and_reads);
	tcase_add_test(t, words_answer);
	tcase_add_test(t, words_steady);
	tcase_add_test(t, words_behind_a_stall);
	tcase_add_loop_test(t, words_terminate, 0, 2);
	suite_add_tcase(s, t);
	return s;
}
