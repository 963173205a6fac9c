/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads, Sends, errors and scheduling, each in its own scenario. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "tests/sim/sim.h"

static struct ep *a, *b;
static struct diw_range ranges[DIW_MAX_RANGES];
static struct diw_wc wc;

static unsigned opcode(const uint8_t *d)
{
	return d[1] & 0x0f;
}

static bool send_wc(struct ep *ep, struct diw_wc *w, uint64_t limit)
{
	uint64_t end = sim.net->now + limit;

	while (diw_cq_poll(ep->scq, w, 1, 0) == 0)
		if (!net_step(sim.net, end))
			return false;
	diw_wc_ranges(w, ranges, DIW_MAX_RANGES);
	wc_send(ep, w);
	diw_wc_release(&(struct diw_wc){ .qp = w->qp, .map = w->map, .opcode = w->opcode });
	return true;
}

/* ---- Reads ---- */

static bool drop_response_middle(const uint8_t *d, uint32_t len)
{
	(void)len;
	return opcode(d) == 2 && (seen_mo(d) == 2000 || seen_mo(d) == 3000);
}

/* Two of ten segments are lost: the Read times out with a map, and the application reads only these again. */
START_TEST(read_timeout_and_repair)
{
	uint64_t begun;

	pair_begin(&a, &b, NULL);
	sim.net->drop = drop_response_middle;
	begun = sim.net->now;
	post_read(a, b, 10000, (int64_t)(20 * DIW_MS));
	ck_assert(send_wc(a, &wc, DIW_S));
	ck_assert_int_eq(wc.status, DIW_WC_TIMEOUT);
	ck_assert_uint_ge(sim.net->now, begun + 20 * DIW_MS);
	ck_assert_uint_eq(wc.byte_len, 8000);
	ck_assert_uint_eq(wc.nranges, 2);
	ck_assert_uint_eq(ranges[0].len, 2000);
	ck_assert_uint_eq(ranges[1].off, 4000);
	ck_assert_uint_eq(ranges[1].len, 6000);
	sim.net->drop = NULL;
	post_read_at(a, b, 2000, sim.msgs[0].source_off + 2000, (int64_t)(20 * DIW_MS));
	ck_assert(send_wc(a, &wc, DIW_S));
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	sim_end();
}
END_TEST

/* A response to a Read that has timed out matches no entry of the list. */
START_TEST(read_late_response)
{
	pair_begin(&a, &b, NULL);
	post_read(a, b, 200, (int64_t)(20 * DIW_MS));    /* by which it proves its address */
	ck_assert(send_wc(a, &wc, DIW_MS));
	sim.net->latency = 30 * DIW_MS;
	post_read(a, b, 5000, (int64_t)(20 * DIW_MS));
	net_run(sim.net, 25 * DIW_MS);
	ck_assert(send_wc(a, &wc, 0));
	ck_assert_int_eq(wc.status, DIW_WC_TIMEOUT);
	ck_assert_uint_eq(wc.byte_len, 0);
	net_run(sim.net, DIW_S);
	ck_assert_uint_eq(counter(a, "read_unmatched"), 5);
	memory_check(a);
	sim_end();
}
END_TEST

/* Both ends read from each other, more than may be outstanding: an end that waits for its own Reads still answers. */
START_TEST(read_each_other)
{
	struct diw_qp_attr attr;
	int done = 0;

	pair_attr(&attr);
	attr.sq_depth = 512;
	pair_begin(&a, &b, &attr);
	for (int i = 0; i < 150; i++) {
		post_read(a, b, 100, (int64_t)(30 * DIW_S));
		post_read(b, a, 100, (int64_t)(30 * DIW_S));
	}
	for (int ms = 0; ms < 1000; ms++) {
		net_run(sim.net, DIW_MS);
		while (send_wc(a, &wc, 0))
			done += wc.status == DIW_WC_SUCCESS;
		while (send_wc(b, &wc, 0))
			done += wc.status == DIW_WC_SUCCESS;
	}
	/* Requests over the responder's limit of 16 a source are dropped if they come in one burst; the others are
	 * answered. */
	ck_assert_int_eq(done + (int)counter(a, "read_limit") + (int)counter(b, "read_limit"), 300);
	ck_assert_int_ge(done, 32);
	sim_end();
}
END_TEST

static bool drop_response_odd(const uint8_t *d, uint32_t len)
{
	(void)len;
	return opcode(d) == 2 && (seen_mo(d) / 1000) % 2 == 1;
}

/* Released maps are used again: a thousand Reads with ten holes each. */
START_TEST(read_maps_are_reused)
{
	pair_begin(&a, &b, NULL);
	sim.net->drop = drop_response_odd;
	for (int i = 0; i < 1000; i++) {
		post_read(a, b, 20000, (int64_t)DIW_MS);
		ck_assert(send_wc(a, &wc, 10 * DIW_MS));
		ck_assert_int_eq(wc.status, DIW_WC_TIMEOUT);
		ck_assert_uint_eq(wc.nranges, 10);
		sim.nmsgs = 0;                           /* the ledger is smaller than that */
		a->nslots = 0;
		memset(a->target, 0xa5, a->target_used);
		a->target_used = 0;
	}
	sim_end();
}
END_TEST

START_TEST(read_refused)
{
	struct diw_mr gone;
	struct diw_qp_error e;

	pair_begin(&a, &b, NULL);
	gone = *b->source_mr;
	ck_assert_int_eq(diw_mr_dereg(b->source_mr), 0);
	b->source_mr = &gone;
	post_read(a, b, 5000, (int64_t)DIW_S);
	sim.msgs[0].spoiled = true;
	ck_assert_int_eq(diw_mr_reg(b->pd, b->source, SIM_REGION, DIW_ACCESS_LOCAL_WRITE, &b->source_mr), 0);
	ck_assert(send_wc(a, &wc, DIW_MS));
	ck_assert_int_eq(wc.status, DIW_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(wc.fault, 0x1100);
	ck_assert_int_eq(diw_qp_error_get(a->qp, &e), -EAGAIN);
	post_read(a, b, 5000, (int64_t)DIW_S);           /* registered again, but without the right to read */
	sim.msgs[1].spoiled = true;
	ck_assert(send_wc(a, &wc, DIW_MS));
	ck_assert_int_eq(wc.status, DIW_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(wc.fault, 0x0102);
	sim_end();
}
END_TEST

/* ---- Errors ---- */

START_TEST(error_reaches_the_sender)
{
	struct diw_qp_error e;
	struct diw_event ev;

	pair_begin(&a, &b, NULL);
	b->target_mr->stag ^= 0x100;                     /* the STag that the sender uses */
	post_record(a, b, 500);
	b->target_mr->stag ^= 0x100;
	ck_assert_int_eq(diw_event_get(a->host->dev, &ev, 0), -EAGAIN);
	net_run(sim.net, DIW_MS);
	ck_assert_int_eq(diw_event_get(a->host->dev, &ev, 0), 0);
	ck_assert_int_eq(ev.type, DIW_EVENT_QP_ERROR);
	ck_assert_ptr_eq(ev.qp, a->qp);
	ck_assert_int_eq(diw_qp_error_get(a->qp, &e), 0);
	ck_assert(e.remote);
	ck_assert_uint_eq(e.fault, 0x1100);
	ck_assert(diw_addr_eq(&e.peer, &b->addr));
	ck_assert_int_eq(diw_qp_error_get(a->qp, &e), -EAGAIN);
	ck_assert_int_eq(diw_event_get(a->host->dev, &ev, 0), -EAGAIN);
	/* the queue pair still works */
	post_record(a, b, 600);
	ck_assert(pair_wc(b, &wc, ranges, DIW_MS));
	ck_assert_uint_eq(wc.byte_len, 600);
	sim_end();
}
END_TEST

/* ---- Sends ---- */

static bool drop_send_last(const uint8_t *d, uint32_t len)
{
	(void)len;
	return opcode(d) == 3 && is_last(d);
}

START_TEST(duplicated_sends)
{
	pair_begin(&a, &b, NULL);
	sim.may_dup = true;
	sim.net->dup = 1;
	post_send(a, b, 500);
	post_send(a, b, 5000);
	net_run(sim.net, DIW_MS);
	ck_assert(pair_wc(b, &wc, NULL, 0));
	ck_assert_uint_eq(wc.msg_len, 500);
	ck_assert(pair_wc(b, &wc, NULL, 0));
	ck_assert_uint_eq(wc.msg_len, 500);
	ck_assert(pair_wc(b, &wc, NULL, 0));
	ck_assert_uint_eq(wc.msg_len, 5000);
	ck_assert(!pair_wc(b, &wc, NULL, DIW_S));
	ck_assert_uint_ge(counter(b, "reasm_duplicate") + counter(b, "reasm_late"), 5);
	sim_end();
}
END_TEST

/* A message whose end is lost returns its receive, and its late segments take no other. */
START_TEST(abandoned_send)
{
	struct diw_qp_info info;

	pair_begin(&a, &b, NULL);
	watch();
	sim.net->drop = drop_send_last;
	post_send(a, b, 5000);
	net_run(sim.net, 99 * DIW_MS);
	ck_assert_int_eq(diw_qp_query(b->qp, &info), 0);
	ck_assert_uint_eq(info.reasm_open, 1);
	ck_assert_uint_eq(info.rq_posted, 31);
	net_run(sim.net, 2 * DIW_MS);
	ck_assert_int_eq(diw_qp_query(b->qp, &info), 0);
	ck_assert_uint_eq(info.reasm_open, 0);
	ck_assert_uint_eq(info.rq_posted, 32);
	ck_assert_int_eq(nseen, 5);
	for (int i = 0; i < nseen; i++)
		replay(&seen[i]);
	ck_assert_int_eq(diw_qp_query(b->qp, &info), 0);
	ck_assert_uint_eq(info.reasm_open, 0);
	ck_assert_uint_eq(counter(b, "reasm_late"), (uint64_t)nseen);
	ck_assert(!pair_wc(b, &wc, NULL, DIW_S));
	sim_end();
}
END_TEST

/* A message that takes 20 seconds, because of a rate limit: longer than any unused state lives. */
START_TEST(slow_send)
{
	struct diw_qp_attr attr;
	struct diw_qp_info info;

	sim_begin(1);
	sim.plain = true;
	pair_attr(&attr);
	attr.rate_limit = 20000;
	attr.rate_burst = 1500;
	a = ep_open(net_host_add(sim.net), &attr, 64, 4, 1000);
	b = ep_open(net_host_add(sim.net), &attr, 64, 4, 400000);
	post_send(a, b, 400000);
	net_run(sim.net, 15 * DIW_S);
	ck_assert_int_eq(diw_qp_query(b->qp, &info), 0);
	ck_assert_uint_eq(info.reasm_open, 1);
	ck_assert_uint_eq(info.sources, 1);
	ck_assert(pair_wc(b, &wc, NULL, 60 * DIW_S));
	ck_assert_uint_eq(wc.byte_len, 400000);
	ck_assert_uint_ge(sim.net->now, 15 * DIW_S);
	sim_end();
}
END_TEST

/* ---- Scheduling ---- */

/* Messages to one destination share super-buffers; a single one does not wait. */
START_TEST(coalescing)
{
	static uint8_t data[64];
	struct diw_sge sge = { data, sizeof data, 0 };
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .sge = &sge, .num_sge = 1, .flags = DIW_SEND_INLINE,
		.qkey = SIM_QKEY };
	struct diw_send_wr list[100];

	pair_begin(&a, &b, NULL);
	wr.dst.addr = b->addr;
	ck_assert_int_eq(diw_post_send(a->qp, &wr, NULL), 0);
	ck_assert_uint_eq(counter(a, "tx_bursts"), 1);
	ck_assert_uint_eq(counter(a, "tx_datagrams"), 1);
	for (int i = 0; i < 100; i++) {
		list[i] = wr;
		list[i].next = i < 99 ? &list[i + 1] : NULL;
	}
	ck_assert_int_eq(diw_post_send(a->qp, list, NULL), 0);
	ck_assert_uint_eq(counter(a, "tx_datagrams"), 101);
	ck_assert_uint_eq(counter(a, "tx_bursts"), 2);
	for (int i = 0; i < 100; i++) {
		wr.flags = DIW_SEND_INLINE | (i < 99 ? DIW_SEND_MORE : 0);
		ck_assert_int_eq(diw_post_send(a->qp, &wr, NULL), 0);
	}
	ck_assert_uint_eq(counter(a, "tx_datagrams"), 201);
	ck_assert_uint_eq(counter(a, "tx_bursts"), 3);
	net_run(sim.net, DIW_MS);
	while (diw_cq_poll(b->rcq, &wc, 1, 0) == 1) {    /* the ledger does not know these messages */
		b->recvs[wc.wr_id].posted = false;
		recv_poison(b, &b->recvs[wc.wr_id]);
	}
	sim_end();
}
END_TEST

/* One queue pair has 20,000 datagrams to send, the other one datagram. */
START_TEST(no_starvation)
{
	static uint8_t junk[1400];
	struct diw_addr stranger = net_addr4(0x0a0000fe, 9);
	struct diw_qp_attr attr;
	struct ep *c;
	int steps = 0;

	pair_attr(&attr);
	pair_begin(&a, &b, NULL);
	c = ep_open(b->host, &attr, 64, 4, 1000);
	sim.net->gro = false;
	for (int i = 0; i < 20000; i++)
		net_inject(sim.net, &stranger, &b->addr, junk, sizeof junk, sim.net->now + sim.net->latency);
	post_send(a, c, 100);
	sim.net->now += sim.net->latency;
	net_deliver(sim.net);
	while (diw_cq_poll(c->rcq, &wc, 1, 0) == 0)
		ck_assert_int_lt(++steps, 4);
	wc_recv(c, &wc);
	ck_assert_uint_lt(counter(b, "rx_datagrams"), 200);
	net_run(sim.net, DIW_MS);
	ck_assert_uint_eq(counter(b, "rx_crc"), 20000);
	sim_end();
}
END_TEST

/* In any second at most the rate is sent, beside an initial burst; also if the application polls all the time. */
START_TEST(rate_limit)
{
	struct diw_qp_attr attr;
	uint64_t begun, before;

	pair_attr(&attr);
	attr.rate_limit = 1000000;
	attr.rate_burst = 10000;
	attr.sq_depth = 64;
	pair_begin(&a, &b, &attr);
	for (int i = 0; i < 20; i++)
		post_record(a, b, 40000);
	begun = sim.net->now;
	while (sim.net->now < begun + DIW_MS) {          /* every 100 ns: the rate allows a tenth of an octet */
		if (diw_cq_poll(a->scq, &wc, 1, 0) == 1)
			wc_send(a, &wc);
		sim.net->now += 100;
	}
	ck_assert_uint_ge(counter(a, "tx_bytes"), 10000 + 1000 - 1100);
	ck_assert_uint_le(counter(a, "tx_bytes"), 10000 + 1000 + 1100 * 2);
	before = counter(a, "tx_bytes");
	net_run(sim.net, DIW_S / 2);
	ck_assert_uint_ge(counter(a, "tx_bytes") - before, 500000 - 1100);
	ck_assert_uint_le(counter(a, "tx_bytes") - before, 500000 + 5000);
	sim_end();
}
END_TEST

/* 64 KiB datagrams, as the original design had them. */
START_TEST(large_datagrams)
{
	struct diw_qp_attr attr;

	pair_attr(&attr);
	attr.mulpdu = 65503;
	pair_begin(&a, &b, &attr);
	post_record(a, b, 200000);
	ck_assert(pair_wc(b, &wc, ranges, DIW_MS));
	ck_assert_uint_eq(wc.byte_len, 200000);
	ck_assert_uint_eq(counter(a, "tx_datagrams"), 4);
	sim_end();
}
END_TEST

Suite *suite_stack(void)
{
	Suite *s = suite_create("stack");
	TCase *tc = tcase_create("reads");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, read_timeout_and_repair);
	tcase_add_test(tc, read_late_response);
	tcase_add_test(tc, read_each_other);
	tcase_add_test(tc, read_maps_are_reused);
	tcase_add_test(tc, read_refused);
	suite_add_tcase(s, tc);
	tc = tcase_create("sends");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, error_reaches_the_sender);
	tcase_add_test(tc, duplicated_sends);
	tcase_add_test(tc, abandoned_send);
	tcase_add_test(tc, slow_send);
	suite_add_tcase(s, tc);
	tc = tcase_create("scheduling");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, coalescing);
	tcase_add_test(tc, no_starvation);
	tcase_add_test(tc, rate_limit);
	tcase_add_test(tc, large_datagrams);
	suite_add_tcase(s, tc);
	return s;
}
