/* SPDX-License-Identifier: BSD-2-Clause */
/* Responses and error messages: those without a request, those that are sent, their size and rate; the messages that UC
 * accepts. */
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

static uint32_t outstanding_read(uint32_t *sink_stag, uint64_t *sink_to)
{
	struct diw_sge sge = { b.recv[7], 64, b.recv_mr->stag };
	struct diw_send_wr wr = { .opcode = DIW_WR_READ, .wr_id = 3, .sge = &sge, .num_sge = 1, .stag = 1, .to = 2,
		.qkey = 5, .dst.addr = b.peer, .timeout_ns = (int64_t)DIW_S };

	ck_assert_int_eq(diw_post_send(b.qp, &wr, NULL), 0);
	net_settle(b.net);
	ck_assert_int_eq(b.nsent, 1);
	*sink_stag = gram_get32(&b.sent[0], 28);
	*sink_to = (uint64_t)gram_get32(&b.sent[0], 32) << 32 | gram_get32(&b.sent[0], 36);
	return gram_get32(&b.sent[0], 10);
}

static struct fields response(uint32_t stag, uint32_t msn, uint64_t to, uint32_t mo, uint32_t n)
{
	static const char payload[128] = { 1 };
	struct fields f = record_fields(stag, msn, to + mo, payload, n);

	f.c1 = 0x40 | OP_READ_RESP;
	f.qkey = 0;
	f.mo = mo;
	f.length = 64;
	f.c0 = BIT_T | (mo + n == 64 ? BIT_L : 0) | 1;
	return f;
}

START_TEST(read_responses)
{
	struct diw_addr stranger = net_addr4(0x0a000064, PEER_PORT), other_port = b.peer;
	uint32_t stag, msn;
	uint64_t to;
	struct fields f;
	struct gram g;

	msn = outstanding_read(&stag, &to);
	f = response(stag, msn + 1, to, 0, 16);
	bench_refuses(&b, &f, "read_unmatched");
	bench_silent(&b);
	f = response(stag ^ 1, msn, to, 0, 16);
	bench_refuses(&b, &f, "read_unmatched");
	f = response(b.mr->stag, msn, TO, 0, 16);        /* remote write is allowed there, but remote read is not */
	bench_refuses(&b, &f, "read_unmatched");
	f = response(stag, msn, to + 1, 0, 16);
	bench_refuses(&b, &f, "read_unmatched");
	f = response(stag, msn, to - 8, 8, 16);
	f.to = to;
	bench_refuses(&b, &f, "read_unmatched");
	f = response(stag, msn, to, 32, 16);
	f.length = 65;
	bench_refuses(&b, &f, "read_unmatched");
	f.length = 0xffffffff;
	bench_refuses(&b, &f, "read_unmatched");
	f = response(stag, msn, to, 0, 65);
	f.length = 65;
	f.c0 |= BIT_L;
	bench_refuses(&b, &f, "read_unmatched");
	f = response(stag, msn, to, 0, 64);
	gram_build(&g, &f);
	other_port.port++;
	for (int i = 0; i < 2; i++) {
		bench_look(&b);
		bench_inject_from(&b, i ? &stranger : &other_port, &g);
		ck_assert_str_eq(bench_drops(&b), "read_unmatched");
		bench_check_memory(&b);
		bench_no_wc(&b);
	}
	bench_look(&b);
	bench_inject(&b, &g);                            /* the correct one */
	ck_assert_str_eq(bench_drops(&b), "");
	memcpy(b.image + (b.recv[7] - b.arena), f.payload, 64);
	bench_check_memory(&b);
}
END_TEST

/* An error message that quotes the first Q octets of a segment of the queue pair. */
static void error_gram(struct gram *g, const struct gram *of, uint32_t q, unsigned le, unsigned code)
{
	uint8_t payload[128] = { (uint8_t)le, (uint8_t)code, 0xc0, 0, (uint8_t)((of->len - 4) >> 8),
		(uint8_t)(of->len - 4) };
	struct fields f = { .c0 = BIT_L | 1, .c1 = 0x40 | OP_ERROR, .qn = 2, .epoch = 0x33c4, .msn = 0x55,
		.length = 6 + q, .n = 6 + q, .payload = payload };

	memcpy(payload + 6, of->b, q);
	gram_build(g, &f);
}

START_TEST(errors_received)
{
	struct diw_addr stranger = net_addr4(0x0a000064, PEER_PORT);
	struct diw_qp_error e;
	struct diw_wc wc;
	struct gram mine, g;
	uint32_t stag, msn;
	uint64_t to;

	msn = outstanding_read(&stag, &to);
	mine = b.sent[0];
	ck_assert_uint_eq(mine.len, 60);
	mine.b[13] ^= 0x80;                              /* not an MSN of the queue pair */
	mine.b[10] ^= 0x40;
	error_gram(&g, &mine, 22, 0x11, 0);
	bench_refused(&b, &g, "error_rx_ignored");
	mine = b.sent[0];
	for (uint32_t q = 0; q < 14; q++) {
		struct gram first = mine;

		error_gram(&g, &first, q, 0x11, 0);
		bench_look(&b);
		bench_inject(&b, &g);
		ck_assert_str_ne(bench_drops(&b), "");
		bench_no_wc(&b);
	}
	ck_assert_int_eq(diw_qp_error_get(b.qp, &e), -EAGAIN);
	b.sent[0] = mine;
	mine.b[22] ^= 1;                                 /* of another epoch */
	error_gram(&g, &mine, 28, 0x11, 0);
	bench_refused(&b, &g, "error_rx_ignored");
	mine.b[22] ^= 1;
	error_gram(&g, &mine, 22, 0x11, 0);
	bench_look(&b);
	bench_inject_from(&b, &stranger, &g);            /* a stranger cannot refuse the Read */
	bench_no_wc(&b);
	bench_look(&b);
	bench_inject(&b, &g);
	ck_assert_str_eq(bench_drops(&b), "");
	wc = bench_wc(&b, b.scq);
	ck_assert_int_eq(wc.status, DIW_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(wc.fault, 0x1100);
	ck_assert_uint_eq(wc.wr_id, 3);
	/* The completion reports the refusal by the queue's peer. The stranger's message is an entry of the error
	 * queue. */
	ck_assert_int_eq(diw_qp_error_get(b.qp, &e), 0);
	ck_assert(diw_addr_eq(&e.peer, &stranger));
	ck_assert(e.remote);
	ck_assert_uint_eq(e.fault, 0x1100);
	ck_assert_uint_eq(e.msn, msn);
	ck_assert_int_eq(diw_qp_error_get(b.qp, &e), -EAGAIN);
	/* Error messages are never answered, however malformed. */
	bench_silent(&b);
}
END_TEST

/* An error message is not larger than its cause, quotes at least up to the MSN, and at most the whole header. */
/* The newest 64 entries are kept. An event reports that older ones were lost, once until they are fetched. */
START_TEST(errors_overwritten)
{
	struct diw_addr stranger = net_addr4(0x0a000064, PEER_PORT);
	int entries = 0, errors = 0, overruns = 0;
	struct diw_qp_error e;
	struct diw_event ev;
	struct gram mine, g;
	uint32_t stag;
	uint64_t to;

	outstanding_read(&stag, &to);
	mine = b.sent[0];
	error_gram(&g, &mine, 22, 0x11, 0);
	for (int i = 0; i < 70; i++)
		bench_inject_from(&b, &stranger, &g);
	while (diw_event_get(b.host->dev, &ev, 0) == 0) {
		ck_assert(ev.qp == b.qp);
		errors += ev.type == DIW_EVENT_QP_ERROR;
		overruns += ev.type == DIW_EVENT_OVERRUN;
	}
	ck_assert_int_eq(errors, 1);
	ck_assert_int_eq(overruns, 1);
	while (diw_qp_error_get(b.qp, &e) == 0)
		entries++;
	ck_assert_int_eq(entries, 64);
	bench_inject_from(&b, &stranger, &g);
	ck_assert_int_eq(diw_event_get(b.host->dev, &ev, 0), 0);
	ck_assert_int_eq(ev.type, DIW_EVENT_QP_ERROR);
}
END_TEST

START_TEST(error_sizes)
{
	static const char payload[128];

	for (uint32_t n = 0; n <= 64; n++)
		for (int tagged = 0; tagged < 2; tagged++) {
			uint32_t header = tagged ? 32 : 28, through_msn = tagged ? 24 : 14, cause = header + n + 4;
			struct fields f = send_fields(n, payload, n);

			net_run(b.net, DIW_S);           /* the rate limit has a test of its own */
			f.qn = 3;
			if (tagged)
				f = record_fields(b.mr->stag ^ 1, n, TO, payload, n);
			bench_refuses(&b, &f, tagged ? "rx_stag" : "rx_qn");
			if (cause < 38 + through_msn) {
				bench_silent(&b);
				ck_assert_uint_eq(bench_count(&b, "error_suppressed"), 1);
			} else {
				uint32_t q = cause - 38 < header ? cause - 38 : header;

				bench_answered(&b, tagged ? 0x11 : 0x12, tagged ? 0x00 : 0x01);
				ck_assert_uint_eq(b.sent[0].len, 38 + q);
				ck_assert_uint_eq(gram_get32(&b.sent[0], 24), 6 + q);
				ck_assert_uint_eq(b.sent[0].b[30], 0xc0);
				ck_assert_uint_eq(b.sent[0].b[32] << 8 | b.sent[0].b[33], cause - 4);
			}
		}
}
END_TEST

START_TEST(error_rate)
{
	struct fields f = bench_record(&b);
	uint64_t sent = 0, suppressed = 0;

	f.stag ^= 1;
	for (int ms = 0; ms < 1000; ms++) {
		for (int i = 0; i < 2; i++) {
			f.msn++;
			bench_refuses(&b, &f, "rx_stag");
			sent += bench_count(&b, "error_tx");
			suppressed += bench_count(&b, "error_suppressed");
			ck_assert_uint_eq((uint64_t)b.nsent, bench_count(&b, "error_tx"));
		}
		net_run(b.net, DIW_MS);
	}
	ck_assert_uint_eq(sent + suppressed, 2000);
	ck_assert_uint_ge(sent, 90);
	ck_assert_uint_le(sent, 200);                    /* 100 a second, and an initial burst of one second's */
}
END_TEST

/* N segments of a Write-Record of 200,000 octets to a wrong STag. Each is a fault; returns the number of error
 * messages. */
static uint64_t bad_record(uint32_t msn, uint32_t n)
{
	static const char payload[1400];
	struct fields f = record_fields(b.mr->stag ^ 1, msn, TO, payload, sizeof payload);
	struct gram g;

	bench_look(&b);
	for (uint32_t i = 0; i < n; i++) {
		f.length = 200000;
		f.mo = i * 1400;
		f.to = TO + f.mo;
		f.n = f.length - f.mo < 1400 ? f.length - f.mo : 1400;
		f.c0 = BIT_T | (f.mo + f.n == f.length ? BIT_L : 0) | 1;
		gram_build(&g, &f);
		bench_inject(&b, &g);
	}
	ck_assert_uint_eq(bench_count(&b, "rx_stag"), n);
	ck_assert_uint_eq(bench_count(&b, "error_tx") + bench_count(&b, "error_suppressed"), n);
	return bench_count(&b, "error_tx");
}

/* A message is reported once, so the next request of its source is answered, too. */
START_TEST(one_error_a_message)
{
	struct fields f;

	for (uint32_t i = 0; i < 10; i++) {
		ck_assert_uint_eq(bad_record(i, 143), 1);
		f = read_fields(100 + i, 7, 0, 64, b.mr->stag ^ 1, TO);
		bench_refuses(&b, &f, "rx_stag");
		bench_answered(&b, 0x11, 0x00);
		bench_refuses(&b, &f, "rx_stag");                  /* a duplicate made by the network */
		bench_silent(&b);
	}
	f.epoch++;                                       /* the same number in another epoch is another message */
	bench_refuses(&b, &f, "rx_stag");
	bench_answered(&b, 0x11, 0x00);
}
END_TEST

/* Distinct bad messages of one source, without end: another source gets an answer to each of its own. */
START_TEST(errors_for_the_honest)
{
	struct diw_addr attacker = net_addr4(0x0a000063, PEER_PORT + 1), honest = b.peer;
	struct fields bad = bench_record(&b), f;
	uint64_t to_attacker = 0;
	struct gram g;

	bad.stag ^= 1;
	for (uint32_t ms = 0; ms < 2000; ms++) {
		bench_look(&b);
		for (int i = 0; i < 10; i++) {
			bad.msn++;
			gram_build(&g, &bad);
			bench_inject_from(&b, &attacker, &g);
		}
		to_attacker += bench_count(&b, "error_tx");
		if (ms % 20 == 0) {
			f = read_fields(ms, 7, 0, 64, b.mr->stag ^ 1, TO);
			gram_build(&g, &f);
			bench_look(&b);
			bench_inject_from(&b, &honest, &g);
			bench_answered(&b, 0x11, 0x00);
		}
		net_run(b.net, DIW_MS);
	}
	ck_assert_uint_ge(to_attacker, 200);
	ck_assert_uint_le(to_attacker, 300);             /* 100 at once, 100 a second */
}
END_TEST

/* Ten thousand sources share the budgets, and cost no memory. */
START_TEST(errors_in_all)
{
	struct fields bad = bench_record(&b);
	uint64_t sent = 0;
	struct gram g;

	bad.stag ^= 1;
	for (uint32_t i = 0; i < 30000; i++) {
		struct diw_addr from = net_addr4(0x0b000000u + i, PEER_PORT);

		gram_build(&g, &bad);
		bench_look(&b);
		bench_inject_from(&b, &from, &g);
		sent += bench_count(&b, "error_tx");
		if (i % 100 == 0)
			net_run(b.net, DIW_MS);
	}
	ck_assert_uint_le(sent, 64 * 100 + 64 * 30 + 64);
	ck_assert_uint_ge(sent, 5000);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.memory, 0);
}
END_TEST

/* These are never answered, whatever is wrong with them. */
START_TEST(never_answered)
{
	struct fields f = bench_send();
	struct gram g;

	f.c1 = 0x40 | OP_ERROR;
	f.qn = 2;
	gram_build(&g, &f);
	bench_look(&b);
	bench_inject(&b, &g);
	bench_silent(&b);
	f.stag = 5;
	gram_build(&g, &f);
	bench_inject(&b, &g);
	bench_silent(&b);
	f.stag = 0;
	f.length = 1000;
	gram_build(&g, &f);
	bench_inject(&b, &g);
	bench_silent(&b);
	f = bench_send();
	f.qn = 2;
	gram_build(&g, &f);
	bench_inject(&b, &g);
	bench_silent(&b);
	f = response(b.mr->stag, 1, TO, 0, 16);
	gram_build(&g, &f);
	bench_inject(&b, &g);
	f.mo = 70;
	gram_build(&g, &f);
	bench_inject(&b, &g);
	bench_silent(&b);
}
END_TEST

/* ---- UC ---- */

START_TEST(uc)
{
	struct diw_addr stranger = net_addr4(0x0a000064, PEER_PORT);
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct bench u;
	struct fields f;
	struct gram g;

	attr.type = DIW_QP_UC;
	bench_open(&u, &attr);
	f = send_fields(1, "x", 1);
	gram_build(&g, &f);
	bench_inject_from(&u, &stranger, &g);            /* a connected socket does not receive it */
	bench_no_wc(&u);
	f = record_fields(u.mr->stag, 1, TO, "some octets of payload, enough for an error message", 48);
	gram_build(&g, &f);
	bench_refused(&u, &g, "rx_opcode");
	f.c1 = 0x40 | OP_READ_RESP;
	gram_build(&g, &f);
	bench_refused(&u, &g, "rx_opcode");
	f = read_fields(9, 1, 0, 16, u.mr->stag, TO);
	gram_build(&g, &f);
	bench_refused(&u, &g, "rx_opcode");
	f = record_fields(u.mr->stag ^ 1, 1, TO, "some octets of payload, enough for an error message", 48);
	f.c1 = 0x40 | OP_WRITE;
	gram_build(&g, &f);
	bench_refused(&u, &g, "rx_stag");
	f.stag = u.mr->stag;
	f.to = TO + REGION - 47;
	gram_build(&g, &f);
	bench_refused(&u, &g, "rx_bounds");
	f.to = 0;
	f.mo = 1;
	f.length = 49;
	gram_build(&g, &f);
	bench_refused(&u, &g, "rx_wrap");
	bench_close(&u);
}
END_TEST

static void flow_gram(struct gram *g, uint32_t number, uint32_t window, uint32_t n)
{
	uint8_t body[12] = { (uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8), (uint8_t)number,
		(uint8_t)(window >> 24), (uint8_t)(window >> 16), (uint8_t)(window >> 8), (uint8_t)window };
	struct fields f = send_fields(9, body, n);

	f.c1 = 0x40 | OP_FLOW;
	f.qn = 2;
	f.qkey = 0;
	gram_build(g, &f);
}

/* Posts Writes of 512 octets until the window holds them back, or all are posted. Returns octets and tolls that have
 * left. */
static uint32_t fill_window(struct bench *u, uint32_t *number)
{
	static uint8_t data[512];
	struct diw_sge sge = { data, sizeof data, 0 };
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .stag = u->mr->stag, .to = TO, .sge = &sge, .num_sge = 1,
				  .qkey = QKEY, .flags = DIW_SEND_INLINE };
	uint32_t sent = 0;

	bench_look(u);
	for (int i = 0; i < 4096 && bench_count(u, "flow_waits") == 0; i++) {
		ck_assert_int_eq(diw_post_send(u->qp, &wr, NULL), 0);
		net_settle(u->net);
	}
	for (int i = 0; i < u->nsent && i < 64; i++) {
		if ((u->sent[i].b[1] & 15) == OP_FLOW)
			*number = gram_get32(&u->sent[i], 28);
	}
	sent = (uint32_t)bench_count(u, "tx_segments") - (uint32_t)bench_count(u, "flow_asked");
	return sent * (32 + 512 + 768);
}

/* Requests cause no answers larger than themselves. Answers without a request, or with a claim that is too large or too
 * small, are ignored. */
START_TEST(uc_flow)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	uint32_t number = 0;
	struct bench u;
	struct gram g;

	attr.type = DIW_QP_UC;
	attr.max_inline = 512;
	attr.sq_depth = 8192;
	attr.dgram.rcvbuf = 1;
	bench_open(&u, &attr);
	flow_gram(&g, 7, 0, 12);
	bench_refused(&u, &g, "rx_malformed");
	flow_gram(&g, 7, 0, 4);
	bench_refused(&u, &g, "rx_malformed");
	flow_gram(&g, 7, 100000, 8);
	bench_refused(&u, &g, "flow_ignored");
	bench_look(&u);
	flow_gram(&g, 7, 0, 8);
	for (int i = 0; i < 1000; i++)
		net_inject(u.net, &u.peer, &u.addr, g.b, g.len, u.net->now);
	net_settle(u.net);
	ck_assert_int_le(u.nsent, 1000);
	ck_assert_uint_eq(u.sent[0].len, g.len);
	ck_assert_uint_eq(gram_get32(&u.sent[0], 28), 7);
	ck_assert_uint_eq(gram_get32(&u.sent[0], 32), 32768);
	ck_assert_uint_le(fill_window(&u, &number), 131072);
	for (int i = 0; i < 100; i++) {         /* none answers the only request */
		flow_gram(&g, number + 1 + (uint32_t)i, 1 << 20, 8);
		bench_refused(&u, &g, "flow_ignored");
	}
	flow_gram(&g, number, 1, 8);
	bench_inject(&u, &g);
	bench_refused(&u, &g, "flow_ignored");  /* once */
	bench_close(&u);
}
END_TEST

/* The most that an answer may open or close the window: _i 0: the largest claim, 1: the smallest. */
START_TEST(uc_flow_window)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	uint32_t number = 0, sent;
	struct bench u;
	struct gram g;

	attr.type = DIW_QP_UC;
	attr.max_inline = 512;
	attr.sq_depth = 8192;
	bench_open(&u, &attr);
	fill_window(&u, &number);
	flow_gram(&g, number, _i ? 1 : 0xffffffff, 8);
	bench_inject(&u, &g);
	if (_i) {                               /* half of the first one is beyond the request: more than it opens */
		for (int i = 0; i < 2; i++) {
			net_run(u.net, 5 * DIW_MS);
			ck_assert_int_gt(u.nsent, 0);
			number = gram_get32(&u.sent[u.nsent < 64 ? u.nsent - 1 : 63], 28);
			flow_gram(&g, number, 1, 8);
			bench_inject(&u, &g);
			bench_look(&u);
		}
	}
	sent = fill_window(&u, &number);
	ck_assert_uint_ge(sent, _i ? 16 << 10 : 2 << 20);
	ck_assert_uint_le(sent, _i ? 32 << 10 : 4 << 20);
	bench_close(&u);
}
END_TEST

Suite *suite_answers(void)
{
	Suite *s = suite_create("answers");
	TCase *tc = tcase_create("answers");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, read_responses);
	tcase_add_test(tc, errors_received);
	tcase_add_test(tc, errors_overwritten);
	tcase_add_test(tc, error_sizes);
	tcase_add_test(tc, error_rate);
	tcase_add_test(tc, one_error_a_message);
	tcase_add_test(tc, errors_for_the_honest);
	tcase_add_test(tc, errors_in_all);
	tcase_add_test(tc, never_answered);
	suite_add_tcase(s, tc);
	tc = tcase_create("uc");
	tcase_add_test(tc, uc);
	tcase_add_test(tc, uc_flow);
	tcase_add_loop_test(tc, uc_flow_window, 0, 2);
	suite_add_tcase(s, tc);
	return s;
}
