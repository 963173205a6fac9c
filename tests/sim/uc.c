/* SPDX-License-Identifier: BSD-2-Clause */
/* UC: its Writes, and the flow control of its sender (docs/ud-profile.md section 9.1). */
#include <stdlib.h>

#include "base/wire.h"
#include "tests/sim/sim.h"

static struct ep *a, *b;

/* Datagrams that B's socket holds, slightly more than the windows allow. */
#define TIGHT 100
#define LOOSE 65536

static void uc_open(uint32_t mulpdu, uint32_t rcvbuf)
{
	struct diw_qp_attr attr;

	pair_attr(&attr);
	attr.mulpdu = mulpdu;
	attr.dgram.rcvbuf = rcvbuf;
	attr.sq_depth = 512;
	attr.type = DIW_QP_UC;
	attr.dgram.local = sim.net->host[0].addr;
	attr.dgram.peer = sim.net->host[1].addr;
	attr.dgram.local.port = attr.dgram.peer.port = 6000;
	a = ep_open(&sim.net->host[0], &attr, 4096, 8, 4000);
	attr.dgram.peer = a->addr;
	attr.dgram.local = sim.net->host[1].addr;
	attr.dgram.local.port = 6000;
	b = ep_open(&sim.net->host[1], &attr, 4096, 8, 4000);
	a->peer = b;
	b->peer = a;
}

static void uc_begin_with(uint32_t queue, uint32_t mulpdu, uint32_t rcvbuf)
{
	sim_begin(1);
	sim.plain = true;
	net_host_add(sim.net);
	net_host_add(sim.net);
	sim.net->max_queue = queue;
	uc_open(mulpdu, rcvbuf);
}

static void uc_begin(uint32_t queue)
{
	uc_begin_with(queue, 1032, 256 << 10);
}

static bool written(const struct msg *m)
{
	for (uint32_t i = 0; i < m->length; i++)
		if (m->slot->mem[i] != msg_octet(m, i))
			return false;
	return true;
}

/* Messages of a restarted peer are accepted, whatever its first MSNs are. */
START_TEST(uc_restart)
{
	uc_begin(LOOSE);
	for (uint32_t life = 0; life < 12; life++) {
		post_write(a, 3000);
		net_run(sim.net, DIW_MS);
		ck_assert_msg(written(&sim.msgs[life]), "life %u of the peer is ignored", life);
		ep_restart(a);
		net_run(sim.net, 3 * DIW_S);
	}
	sim_end();
}
END_TEST

/* ---- Writes with missing octets ---- */

static bool drop_write_last(const uint8_t *d, uint32_t len)
{
	(void)len;
	return (d[1] & 0x0f) == 0 && is_last(d);
}

START_TEST(uc_incomplete_write)
{
	struct diw_qp_info info;

	uc_begin(LOOSE);
	watch();
	sim.net->drop = drop_write_last;
	post_write(a, 3000);
	net_run(sim.net, DIW_MS);
	sim.net->drop = NULL;
	post_write(a, 2000);
	net_run(sim.net, DIW_MS);
	ck_assert(written(&sim.msgs[1]));
	ck_assert(!written(&sim.msgs[0]));
	ck_assert_uint_eq(counter(b, "write_incomplete"), 1);
	for (int i = 0; i < nseen; i++)
		replay(&seen[i]);
	ck_assert_uint_eq(counter(b, "record_late"), (uint64_t)nseen);
	ck_assert(!written(&sim.msgs[0]));
	ck_assert_int_eq(diw_qp_query(b->qp, &info), 0);
	ck_assert_uint_eq(info.memory, 0);
	sim_end();
}
END_TEST

/* ---- Flow control ---- */

#define PATIENCE DIW_S               /* the value in rdmap/flow.c, also for a peer that has never answered */
#define PATIENCE_FIRST (200 * DIW_MS)

static bool is_flow(const uint8_t *d, uint32_t len)
{
	(void)len;
	return (d[1] & 0x0f) == 0xd;
}

static uint32_t missing(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < sim.nmsgs; i++)
		n += !written(&sim.msgs[i]);
	return n;
}

static uint64_t sent(void)
{
	return counter(a, "tx_messages") - counter(a, "flow_asked");
}

static void post_writes(int n, uint32_t length)
{
	for (int i = 0; i < n; i++)
		post_write(a, length);
}

/* Ten times the socket's capacity, posted at once, arrives; so does one long message. */
START_TEST(a_full_socket)
{
	uc_begin(TIGHT);
	if (_i)
		post_writes(1, 1000000);
	else
		post_writes(100, 10000);
	net_run(sim.net, 100 * DIW_MS);
	ck_assert_uint_eq(sim.net->overflowed, 0);
	ck_assert_uint_eq(missing(), 0);
	ck_assert_uint_gt(counter(a, "flow_waits"), 0);
	ck_assert_uint_eq(counter(a, "flow_ignored"), 0);
	ck_assert_uint_eq(counter(a, "flow_asked"), counter(b, "flow_answered"));
	sim_end();
}
END_TEST

/* Small messages: a datagram costs the socket more than its octets. */
START_TEST(small_messages)
{
	uc_begin(200);
	post_writes(500, 16);
	net_run(sim.net, 100 * DIW_MS);
	ck_assert_uint_eq(sim.net->overflowed, 0);
	ck_assert_uint_eq(missing(), 0);
	ck_assert_uint_gt(counter(a, "flow_waits"), 0);
	sim_end();
}
END_TEST

/* A peer that never answers delays the sender once; one that has stopped answering, once and for longer. The receiver
 * gives up the Write that this interrupts. */
START_TEST(no_answers)
{
	uint64_t limit = _i ? PATIENCE : PATIENCE_FIRST;

	uc_begin(LOOSE);
	if (_i) {
		post_writes(1, 200000);
		net_run(sim.net, 10 * DIW_MS);
		ck_assert_uint_gt(counter(b, "flow_answered"), 0);
	}
	sim.net->drop = is_flow;
	post_writes(16, 50000);
	net_run(sim.net, limit - 10 * DIW_MS);
	ck_assert_uint_lt(sent(), sim.nmsgs);
	net_run(sim.net, 20 * DIW_MS);
	ck_assert_uint_eq(sent(), sim.nmsgs);
	ck_assert_uint_le(missing(), 1);
	sim.net->drop = NULL;
	sim_end();
}
END_TEST

/* Everything leaves, even if flow messages are lost. */
START_TEST(losses)
{
	uc_begin(TIGHT);
	sim.net->loss = 0.05 * (1 + _i);
	sim.net->rng.state = (uint64_t)_i;
	post_writes(100, 10000);
	net_run(sim.net, 2 * DIW_S);
	ck_assert_uint_eq(sim.net->overflowed, 0);
	ck_assert_uint_eq(sent(), sim.nmsgs);
	sim_end();
}
END_TEST

/* ---- The window of section 9.1, computed a second time ---- */

#define ASKS 16                      /* flow messages whose answers count */
#define TOLL 768u
#define FIRST_WINDOW (128u << 10)
#define MIN_WINDOW (32u << 10)
#define MAX_WINDOW (4u << 20)

static struct pace {
	bool from_a;                 /* whether the current datagram is from a */
	double loss;                 /* of flow messages */
	uint32_t sent, base, window, number, heard, asked_at[ASKS], nearest, alone;
	bool asked;
	struct { uint64_t at; uint32_t number, window; } answers[256];       /* on their way to a */
	int nanswers;
} pace;

static void pace_hears(uint32_t number, uint32_t window)
{
	if (pace.number - number >= ASKS || (int32_t)(number - pace.heard) <= 0)
		return;
	pace.heard = number;
	pace.base = pace.asked_at[number % ASKS];
	pace.window = window < MIN_WINDOW ? MIN_WINDOW : window > MAX_WINDOW ? MAX_WINDOW : window;
}

/* Processes the answers that have reached a. */
static void pace_goes_on(void)
{
	int kept = 0;

	for (int i = 0; i < pace.nanswers; i++) {
		if (pace.answers[i].at <= sim.net->now)
			pace_hears(pace.answers[i].number, pace.answers[i].window);
		else
			pace.answers[kept++] = pace.answers[i];
	}
	pace.nanswers = kept;
}

static void pace_tap(void *ctx, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *d, uint32_t len)
{
	(void)ctx;
	(void)dst;
	(void)d;
	(void)len;
	pace.from_a = diw_addr_eq(src, &a->addr);
}

static void pace_asks(uint32_t number)
{
	if (!pace.asked)
		pace.heard = number - 1;
	pace.asked = true;
	pace.number = number;
	pace.asked_at[number % ASKS] = pace.sent;
}

/* Called for each datagram that is sent; true: lose it. */
static bool pace_sees(const uint8_t *d, uint32_t len)
{
	uint32_t cost = len - 4 + TOLL, ahead;
	bool lost = is_flow(d, len) && chance(pace.loss);

	pace_goes_on();
	ahead = pace.sent - pace.base;
	if (!is_flow(d, len)) {
		must(ahead == 0 || ahead + cost <= pace.window, "%u octets beyond the base, window %u: %u more left",
		     ahead, pace.window, cost);
		pace.alone += cost > pace.window;
		pace.sent += cost;
		if (ahead + cost <= pace.window && pace.window - ahead - cost < pace.nearest)
			pace.nearest = pace.window - ahead - cost;
	} else if (pace.from_a) {
		pace_asks(diw_get32(d + 28));
	} else if (!lost) {
		must(pace.nanswers < 256, "answers without end");
		pace.answers[pace.nanswers].at = sim.net->now + sim.net->latency;
		pace.answers[pace.nanswers].number = diw_get32(d + 28);
		pace.answers[pace.nanswers++].window = diw_get32(d + 32);
	}
	return lost;
}

/* Random sizes of segments and windows, with lost flow messages: no segment is sent beyond the window, except one that
 * is larger than it, alone. Everything leaves. */
START_TEST(the_window_is_kept)
{
	static const uint32_t mulpdus[] = { 1032, 1460, 8960, 20000, 40000, 65503 };
	uint32_t tight = UINT32_MAX, alone = 0;

	for (int seed = 0; seed < 48; seed++) {
		sim.rng.state = (uint64_t)seed;
		pace = (struct pace){ .window = FIRST_WINDOW, .nearest = UINT32_MAX, .loss = seed % 3 ? 0 : 0.3 };
		uc_begin_with(LOOSE, mulpdus[seed % 6], 1 + below(seed % 2 ? 200000 : 4 << 20));
		sim.rng.state = (uint64_t)seed;
		sim.net->tap = pace_tap;
		sim.net->drop = pace_sees;
		for (int i = 0; i < 12; i++) {
			post_writes(1 + (int)below(4), 1 + below(below(2) ? 2000 : 80000));
			net_run(sim.net, below(2) ? below(100) * DIW_US : 0);
		}
		net_run(sim.net, 900 * DIW_MS);
		ck_assert_uint_eq(sent(), sim.nmsgs);
		ck_assert_uint_eq(missing(), 0);
		tight = pace.nearest < tight ? pace.nearest : tight;
		alone += pace.alone;
		sim.net->drop = NULL;
		sim_end();
	}
	ck_assert_uint_lt(tight, 2000);         /* the window is used up to its limit */
	ck_assert_uint_gt(alone, 0);
}
END_TEST

/* ---- Receives that are posted late ---- */

static int received(int limit)
{
	struct diw_wc wc;
	int n = 0;

	while (n < limit && pair_wc(b, &wc, NULL, 0))
		n++;
	return n;
}

/* There are more messages than receives, which are reposted one by one: each message is received. */
START_TEST(late_receives)
{
	int n = 0;

	uc_begin(LOOSE);
	for (int i = 0; i < 200; i++)
		post_send(a, b, _i ? 3000 : 100);
	for (int ms = 0; ms < 2000 && n < 200; ms++) {
		net_run(sim.net, DIW_MS);
		n += received(1);
		ep_post_recvs(b, 1);
	}
	ck_assert_int_eq(n, 200);
	ck_assert_uint_eq(counter(b, "rx_no_recv"), 0);
	ck_assert_uint_gt(counter(b, "rx_stalled"), 0);
	sim_end();
}
END_TEST

/* While no receive is posted, the waiting message is dropped, and those behind it at once, until there is a receive
 * again. */
START_TEST(no_receives)
{
	uint64_t stalled;

	uc_begin(LOOSE);
	for (int i = 0; i < 20; i++)
		post_send(a, b, 100);
	net_run(sim.net, 240 * DIW_MS);
	ck_assert_uint_eq(counter(b, "rx_no_recv"), 0);
	net_run(sim.net, 20 * DIW_MS);
	ck_assert_uint_eq(counter(b, "rx_no_recv"), 12);
	stalled = counter(b, "rx_stalled");
	post_send(a, b, 100);
	net_run(sim.net, DIW_MS);
	ck_assert_uint_eq(counter(b, "rx_no_recv"), 13);
	ck_assert_uint_eq(counter(b, "rx_stalled"), stalled);
	ck_assert_int_eq(received(20), 8);
	ep_post_recvs(b, 8);
	for (int i = 0; i < 9; i++)
		post_send(a, b, 100);
	net_run(sim.net, DIW_MS);
	ck_assert_uint_eq(counter(b, "rx_stalled"), stalled + 1);
	ck_assert_int_eq(received(20), 8);
	ep_post_recvs(b, 1);
	net_run(sim.net, DIW_MS);
	ck_assert_int_eq(received(20), 1);
	ck_assert_uint_eq(counter(b, "rx_no_recv"), 13);
	sim_end();
}
END_TEST

Suite *suite_uc(void)
{
	Suite *s = suite_create("uc");
	TCase *tc = tcase_create("uc");

	tcase_add_test(tc, uc_restart);
	tcase_add_test(tc, uc_incomplete_write);
	tcase_add_loop_test(tc, a_full_socket, 0, 2);
	tcase_add_test(tc, small_messages);
	tcase_add_loop_test(tc, no_answers, 0, 2);
	tcase_add_loop_test(tc, losses, 0, 8);
	tcase_add_test(tc, the_window_is_kept);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, late_receives, 0, 2);
	tcase_add_test(tc, no_receives);
	suite_add_tcase(s, tc);
	return s;
}
