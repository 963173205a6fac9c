/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that are not signalled and that the peer refuses (docs/rc-wire.md section 7.2): which request completes with
 * the error, and which are flushed. The peer is this library, or made by hand, with placement words (loop index 1) and
 * without (0).
 */
#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"

#define TERMINATE "4147 00000000 00000002 00000001 00000000 "
#define COUNTED "4157 00000000 00000002 00000001 00000000 "        /* then the placement word */
#define DEPTH 128u                   /* of the send queue */

static bool nothing_completes(struct diw_cq *cq)
{
	struct diw_wc wc;

	return diw_cq_wait(cq, &wc, 1, 20 * (int64_t)DIW_MS) == 0;
}

/* ---- The peer is this library ---- */

static void pair_confirmed(struct pair *p)
{
	struct diw_qp_attr attr;

	rc_attr(&attr);
	attr.rc.confirm = true;
	pair_open(p, &attr, NULL);
}

/* A Write of 8 octets, to an STag that does not exist if BAD. */
static int pair_write(struct pair *p, uint64_t id, bool signaled, bool bad)
{
	struct diw_sge sge = { p->k.mem, 8, p->all->stag };
	struct diw_send_wr wr = { .wr_id = id, .opcode = DIW_WR_WRITE, .sge = &sge, .num_sge = 1,
				  .stag = bad ? p->all->stag ^ 0xff : p->all->stag, .to = p->all->to + 4096,
				  .flags = signaled ? DIW_SEND_SIGNALED : 0 };

	return diw_post_send(p->a.qp, &wr, NULL);
}

START_TEST(alone)
{
	struct pair p;

	pair_confirmed(&p);
	ck_assert_int_eq(pair_write(&p, 1, false, true), 0);
	wire_expect_wc(p.a.scq, 1, DIW_WC_REM_ACCESS_ERR);
	ck_assert(nothing_completes(p.a.scq));
	pair_close(&p);
}
END_TEST

START_TEST(between_signalled)
{
	struct pair p;

	pair_confirmed(&p);
	ck_assert_int_eq(pair_write(&p, 1, true, false), 0);
	ck_assert_int_eq(pair_write(&p, 2, false, true), 0);
	ck_assert_int_eq(pair_write(&p, 3, true, false), 0);
	wire_expect_wc(p.a.scq, 1, DIW_WC_SUCCESS);
	wire_expect_wc(p.a.scq, 2, DIW_WC_REM_ACCESS_ERR);
	wire_expect_wc(p.a.scq, 3, DIW_WC_FLUSHED);
	ck_assert(nothing_completes(p.a.scq));
	pair_close(&p);
}
END_TEST

/* Each 16th request is signalled, and request _i is refused. */
START_TEST(each_16th)
{
	const uint64_t bad = (uint64_t)_i, n = 64;
	struct pair p;

	pair_confirmed(&p);
	for (uint64_t i = 1; i <= n; i++)
		ck_assert_int_eq(pair_write(&p, i, i % 16 == 0, i == bad), 0);
	for (uint64_t i = 16; i < bad; i += 16)
		wire_expect_wc(p.a.scq, i, DIW_WC_SUCCESS);
	wire_expect_wc(p.a.scq, bad, DIW_WC_REM_ACCESS_ERR);
	for (uint64_t i = bad + 1; i <= n; i++)
		wire_expect_wc(p.a.scq, i, DIW_WC_FLUSHED);
	ck_assert_int_eq(pair_write(&p, n + 1, false, false), 0);
	wire_expect_wc(p.a.scq, n + 1, DIW_WC_FLUSHED);
	ck_assert(nothing_completes(p.a.scq));
	pair_close(&p);
}
END_TEST

/* The requests that are placed have no completion, however the connection ends. */
START_TEST(regular_end)
{
	struct pair p;

	pair_confirmed(&p);
	for (uint64_t i = 1; i <= 20; i++)
		ck_assert_int_eq(pair_write(&p, i, false, false), 0);
	end_sent(&p.a);
	if (_i == 0)
		ck_assert_int_eq(diw_disconnect(p.a.qp), 0);
	else if (_i == 1)
		ck_assert_int_eq(diw_disconnect(p.b.qp), 0);
	else if (_i == 2)
		ck_assert_int_eq(diw_abort(p.a.qp), 0);
	else
		ck_assert_int_eq(diw_abort(p.b.qp), 0);
	KIT_UNTIL(rc_state(&p.a) == DIW_QPS_ERROR);
	ck_assert(nothing_completes(p.a.scq));
	pair_close(&p);
}
END_TEST

/* Requests from before a reset are never completed after it. */
START_TEST(reset)
{
	struct pair p;
	struct diw_listener_info info;
	struct diw_cm_event ev;

	pair_confirmed(&p);
	for (uint64_t i = 1; i <= 20; i++)
		ck_assert_int_eq(pair_write(&p, i, false, i == 20 && _i), 0);
	ck_assert_int_eq(diw_qp_reset(p.a.qp), 0);
	KIT_UNTIL(rc_state(&p.b) == DIW_QPS_ERROR);
	ck_assert_int_eq(diw_qp_reset(p.b.qp), 0);
	while (diw_cm_get(p.cm, &ev, 0) == 0)
		continue;
	for (struct diw_wc wc; diw_cq_poll(p.a.scq, &wc, 1, 0) == 1; )
		continue;
	ck_assert_int_eq(diw_listener_query(p.listener, &info), 0);
	ck_assert_int_eq(diw_connect(p.a.qp, p.cm, &info.local, NULL), 0);
	ev = cm_event(&p, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(ev.req, p.b.qp, NULL), 0);
	cm_event(&p, DIW_CM_ESTABLISHED);
	cm_event(&p, DIW_CM_ESTABLISHED);
	ck_assert_int_eq(pair_write(&p, 101, false, false), 0);
	ck_assert_int_eq(pair_write(&p, 102, false, true), 0);
	wire_expect_wc(p.a.scq, 102, DIW_WC_REM_ACCESS_ERR);
	ck_assert(nothing_completes(p.a.scq));
	pair_close(&p);
}
END_TEST

/* ---- The peer is made by hand ---- */

static struct wire w;

static void wire_begin(bool words)
{
	wire_open(&w, &(struct wire_attr){ .confirm = true, .words = words, .receives = 1, .rnr_ns = KIT_LIMIT });
}

static int wire_send(uint64_t id, enum diw_wr_opcode op, uint64_t to, uint32_t len, unsigned flags)
{
	struct diw_sge sge = { w.p.k.mem, len, w.p.all->stag };
	struct diw_send_wr wr = { .wr_id = id, .opcode = op, .sge = &sge, .num_sge = 1, .stag = STAG, .to = TO + to,
				  .flags = flags };

	return diw_post_send(w.e.qp, &wr, NULL);
}

/* A request that is not signalled; waits for a free slot. */
static void wire_send_later(uint64_t id, uint64_t to)
{
	int rc = -ENOMEM;

	KIT_UNTIL(rc == 0 || (rc = wire_send(id, DIW_WR_WRITE, to, 8, 0)) == 0);
}

/* Requests 1 to 6, none of them signalled, but for the last one. Their MSNs: Sends 1 and 3, an Immediate 2. */
static void post_six(void)
{
	static struct seg s;

	ck_assert_int_eq(wire_send(1, DIW_WR_WRITE, 0, 64, 0), 0);
	ck_assert_int_eq(wire_send(2, DIW_WR_SEND, 0, 8, 0), 0);
	ck_assert_int_eq(wire_send(3, DIW_WR_WRITE, 64, 64, DIW_SEND_IMM), 0);
	ck_assert_int_eq(wire_send(4, DIW_WR_WRITE, 64, 64, 0), 0);
	ck_assert_int_eq(wire_send(5, DIW_WR_SEND, 0, 8, 0), 0);
	ck_assert_int_eq(wire_send(6, DIW_WR_WRITE, 4096, 100, DIW_SEND_SIGNALED), 0);
	for (int i = 0; i < 7; i++)
		ck_assert(raw_read(&w.r, &s));
}

/* 0: no request completes with the error, and all that may have failed are flushed. */
static void expect_six(uint64_t fails, uint64_t flushed, int status)
{
	if (fails)
		wire_expect_wc(w.e.scq, fails, status);
	for (uint64_t i = flushed; i <= 6; i++)
		wire_expect_wc(w.e.scq, i, DIW_WC_FLUSHED);
	ck_assert(nothing_completes(w.e.scq));
}

static const struct {
	const char *said;            /* a Terminate from its control on */
	uint64_t fails;
	uint64_t flushed;            /* the first that is flushed */
	int status;
} quotes[] = {
	/* A Write by its STag and the range of its segment. */
	{ "1100c000 004e c140 11223344 1122334455667788", 1, 2, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 002e 8140 11223344 11223344556677a8", 1, 2, DIW_WC_REM_ACCESS_ERR },
	{ "1101c000 004e c140 11223344 11223344556677c8", 3, 4, DIW_WC_REM_ACCESS_ERR },
	{ "1101c000 0072 c140 11223344 1122334455668788", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "11000300 004e c140 11223344 11223344556677c8", 3, 4, DIW_WC_REM_ACCESS_ERR },         /* siw's bits */
	{ "11004000 0000 c140 11223344 11223344556677c8", 3, 4, DIW_WC_REM_ACCESS_ERR },         /* without a length */
	/* A Send or an Immediate by its MSN. */
	{ "1205c000 001a 4143 00000000 00000000 00000001 00000000", 2, 3, DIW_WC_REM_OP_ERR },
	{ "1202c000 001a 4148 00000000 00000000 00000002 00000000", 3, 4, DIW_WC_REM_OP_ERR },
	{ "1202c000 001a 4143 00000000 00000000 00000003 00000000", 5, 6, DIW_WC_REM_OP_ERR },
	/* Nothing that fits: the oldest signalled one that is not confirmed. */
	{ "11000000", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 00", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 004e", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 004e c1", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 004e c140 11223344 11223344556677", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 004e c140 11223345 1122334455667788", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 004f c140 11223344 1122334455667788", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 004e c140 11223344 1122334455667787", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 ffff c140 11223344 1122334455667788", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1100c000 000e c140 11223344 1122334455667808", 6, 7, DIW_WC_REM_ACCESS_ERR },  /* where the Writes end */
	{ "1100c000 004e c140 11223344 ffffffffffffffff", 6, 7, DIW_WC_REM_ACCESS_ERR },
	{ "1205c000 001a 4143 00000000 00000000 00000000 00000000", 6, 7, DIW_WC_REM_OP_ERR },
	{ "1205c000 001a 4143 00000000 00000000 00000004 00000000", 6, 7, DIW_WC_REM_OP_ERR },
	{ "1205c000 001a 4143 00000000 00000000 ffffffff 00000000", 6, 7, DIW_WC_REM_OP_ERR },
	{ "20020000", 6, 7, DIW_WC_REM_ACCESS_ERR },
	/* An answer of this end: no request was refused. */
	{ "1100c000 004e c142 11223344 1122334455667788", 0, 6, 0 },
	{ "0206c000 001e 414b 00000000 00000003 00000001 00000000", 0, 6, 0 },
};

/* A peer whose Terminate has no word. Loop index: rows, then the rows for a peer with words. */
START_TEST(quoted)
{
	const size_t n = sizeof quotes / sizeof *quotes;

	wire_begin((size_t)_i >= n);
	post_six();
	raw_hex(&w.r, TERMINATE "%s", quotes[_i % n].said);
	expect_six(quotes[_i % n].fails, quotes[_i % n].flushed, quotes[_i % n].status);
	wire_close(&w);
}
END_TEST

/* The word of a Terminate says how many messages are placed; what the Terminate quotes does not matter then. The Write
 * with immediate is two messages. Loop index: the number. */
START_TEST(counted)
{
	static const uint64_t fails[] = { 1, 2, 3, 3, 4, 5, 6, 0 };
	static const char *const quote[] = { "11000000", "1100c000 004e c150 11223344 1122334455667788 00000000",
					     "1100c000 004e c150 99999999 1122334455667788 00000000" };

	wire_begin(true);
	post_six();
	raw_hex(&w.r, COUNTED "%08x %s", _i % 8, quote[_i / 8]);
	if (_i % 8 == 7)
		wire_expect_wc(w.e.scq, 6, DIW_WC_SUCCESS);
	expect_six(fails[_i % 8], fails[_i % 8] ? fails[_i % 8] + 1 : 7, DIW_WC_REM_ACCESS_ERR);
	wire_close(&w);
}
END_TEST

/* A count that is not valid does not count: the header does. */
START_TEST(miscounted)
{
	static const uint32_t words[] = { 8, 0x7fffffff, 100000 };

	wire_begin(true);
	post_six();
	raw_hex(&w.r, COUNTED "%08x 1101c000 0052 c150 11223344 11223344556677c8 00000000", words[_i]);
	expect_six(3, 4, DIW_WC_REM_ACCESS_ERR);
	wire_close(&w);
}
END_TEST

/* A word says that messages are placed, and the Terminate has the fault of an answer: the others are flushed. */
START_TEST(counted_answer)
{
	wire_begin(true);
	post_six();
	raw_hex(&w.r, COUNTED "00000002 1100c000 004e c142 11223344 1122334455667788");
	expect_six(0, 3, 0);
	wire_close(&w);
}
END_TEST

/* A peer that never confirms: requests that are not signalled leave the queue when they have left, however many there
 * are. The one that the Terminate quotes is still known, if it is one of the last DEPTH. */
START_TEST(full_ring)
{
	const uint64_t n = 20 * DEPTH, bad = n - (uint64_t)_i;
	static struct seg s;

	wire_begin(false);
	for (uint64_t i = 1; i <= n; i++) {
		wire_send_later(i, 8 * i);
		ck_assert(raw_read(&w.r, &s));
	}
	ck_assert(nothing_completes(w.e.scq));
	raw_hex(&w.r, TERMINATE "1100c000 0016 c140 11223344 %016lx", (unsigned long)(TO + 8 * bad));
	for (uint64_t i = bad; bad > n - DEPTH && i <= n; i++)
		wire_expect_wc(w.e.scq, i, i == bad ? DIW_WC_REM_ACCESS_ERR : DIW_WC_FLUSHED);
	KIT_UNTIL(rc_state(&w.e) == DIW_QPS_ERROR);
	ck_assert(nothing_completes(w.e.scq));
	/* The queue takes requests, which are flushed. */
	for (uint64_t i = 1; i <= 2 * DEPTH; i++) {
		wire_send_later(n + i, 0);
		wire_expect_wc(w.e.scq, n + i, DIW_WC_FLUSHED);
	}
	wire_close(&w);
}
END_TEST

/* The completion queue has room for 64. While completions wait, posts do not overwrite the requests. */
START_TEST(full_queue)
{
	static struct seg s;
	int rc = 0;

	wire_begin(false);
	for (uint64_t i = 1; i <= DEPTH; i++) {
		wire_send_later(i, 8 * i);
		ck_assert(raw_read(&w.r, &s));
	}
	raw_hex(&w.r, TERMINATE "1100c000 0016 c140 11223344 %016lx", (unsigned long)(TO + 8));
	KIT_UNTIL(rc_state(&w.e) == DIW_QPS_ERROR);
	for (uint64_t i = 1; i <= 3 * DEPTH && rc == 0; i++)
		rc = wire_send(DEPTH + i, DIW_WR_WRITE, 0, 8, 0);
	ck_assert_int_eq(rc, -ENOMEM);
	for (uint64_t i = 1; i <= DEPTH; i++)
		wire_expect_wc(w.e.scq, i, i == 1 ? DIW_WC_REM_ACCESS_ERR : DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

Suite *suite_rc_refused(void)
{
	Suite *s = suite_create("rc_refused");
	TCase *t = tcase_create("rc_refused");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, alone);
	tcase_add_test(t, between_signalled);
	tcase_add_loop_test(t, each_16th, 1, 65);
	tcase_add_loop_test(t, regular_end, 0, 4);
	tcase_add_loop_test(t, reset, 0, 2);
	tcase_add_loop_test(t, quoted, 0, 2 * (int)(sizeof quotes / sizeof *quotes));
	tcase_add_loop_test(t, counted, 0, 24);
	tcase_add_loop_test(t, miscounted, 0, 3);
	tcase_add_test(t, counted_answer);
	tcase_add_loop_test(t, full_ring, 0, 1);
	tcase_add_loop_test(t, full_ring, DEPTH - 1, DEPTH + 1);
	tcase_add_test(t, full_queue);
	suite_add_tcase(s, t);
	return s;
}
