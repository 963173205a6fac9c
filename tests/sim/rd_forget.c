/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams between two ends of which one has forgotten the other: where its numbers begin, and what the other
 * one may have taken before. */
#include <errno.h>
#include <string.h>

#include "tests/sim/rd_app.h"

#define WRAP ((1ull << 32) * DIW_US)     /* after this time numbers that count from the clock begin again */
#define MANY 3000u                   /* segments of each direction at the begin */

static void all_arrives(int from, uint32_t n)
{
	uint32_t came = rda_app[!from].from[from].came, sent = 0;
	uint64_t end = rda_net.now + DIW_S;

	while (rda_net.now < end) {
		sent += rda_send_all(from, !from, n - sent, 100);
		rda_run(DIW_MS);
	}
	ck_assert_uint_eq(rda_app[!from].from[from].came, came + n);
	ck_assert_uint_eq(rda_flow(from, !from)->acked, rda_flow(from, !from)->sent);
	ck_assert_uint_eq(rda_flow(from, !from)->failed, 0);
	ck_assert_uint_eq(rda_app[!from].from[from].gone, 0);
}

/* Two nodes have sent each other MANY segments and talked until SILENT before the time AGE after that. At this time
 * exactly one has forgotten the other. Returns that one; -1: none or both have forgotten. */
static int one_forgets_at(uint64_t age, uint64_t silent)
{
	uint64_t at;

	rda_begin(2);
	at = rda_net.now + age;
	all_arrives(0, MANY);
	all_arrives(1, MANY);
	while (rda_net.now + 20 * DIW_S < at - silent) {
		rda_run(20 * DIW_S);
		all_arrives(0, 1);
	}
	rda_run(at - silent - rda_net.now);
	all_arrives(0, 1);
	rda_run(at - rda_net.now);
	if (rda_net.node[0].c.rd_forgotten == rda_net.node[1].c.rd_forgotten)
		return -1;
	return rda_net.node[1].c.rd_forgotten && !rda_net.node[0].c.rd_forgotten;
}

enum first { FORGOT, REMEMBERS, BOTH };

static void both_speak(void)
{
	for (int i = 0; i < 2; i++)
		ck_assert_uint_gt(rda_send_all(i, !i, 100, 100), 10);
	rda_run(DIW_S);
	for (int i = 0; i < 2; i++)
		all_arrives(i, 0);
}

/* FIRST speaks first. */
static void clock_comes_round(uint64_t age, enum first first)
{
	int tried = 0;

	for (uint64_t silent = 61 * DIW_S; silent < 80 * DIW_S; silent += DIW_S) {
		int forgot = one_forgets_at(age, silent);

		if (forgot >= 0) {
			int speaks = first == FORGOT ? forgot : !forgot;

			tried++;
			if (first == BOTH)
				both_speak();
			all_arrives(speaks, MANY);
			all_arrives(!speaks, MANY);
		}
		rdn_free(&rda_net);
	}
	ck_assert_int_gt(tried, 0);
}

/* The clock of the end that forgot is at a number that the other end has received; or so far behind that number that it
 * seems to be before it. */
START_TEST(clock_is_at_an_old_number)
{
	const uint64_t age[] = { WRAP + DIW_MS, WRAP, WRAP / 2 + 10 * DIW_S, DIW_S * 200 };

	clock_comes_round(age[_i / 3], (enum first)(_i % 3));
}
END_TEST

/* ---- Processes that do not run ---- */

/* Node 0's process does not run for NS from now on. */
static void node_0_sleeps(uint64_t ns)
{
	rda_net.node[0].ready_at = rda_net.now + ns;
	rda_run(ns);
}

static uint64_t node_0_suspended(void) { return rda_net.node[0].behind; }

/* Node 0 is of a host that can be suspended. */
static void node_0_is_portable(void)
{
	struct diw_rd_cfg cfg = rda_cfg();

	cfg.clock = NULL;
	cfg.suspended = node_0_suspended;
	rdn_stop(&rda_net, 0);
	rdn_start(&rda_net, 0, &cfg, &rda_up);
}

/* Node 1 has taken a message, and its acknowledgement is lost. Node 0, which does not run for so long that node 1
 * forgets it, must not send this message to node 1 again. SPEAKS: node 1 has announced itself again meanwhile.
 * SUSPENDED: node 0's clock stands still meanwhile. */
static void sleeps_before_the_acknowledgement(uint64_t ns, bool speaks, bool suspended)
{
	bool forgotten = ns > 80 * DIW_S;

	rda_begin(2);
	node_0_is_portable();
	all_arrives(0, 10);
	all_arrives(1, 10);
	rda_net.node[0].deaf_from = rda_net.now;
	rda_net.node[0].deaf_to = rda_net.now + DIW_MS;
	ck_assert_uint_eq(rda_send_all(0, 1, 3, 100), 3);
	rda_run(50 * DIW_US);
	ck_assert_uint_eq(rda_app[1].from[0].came, 13);
	node_0_sleeps(ns);
	rda_net.node[0].behind = suspended ? ns : 0;
	ck_assert_uint_eq(rda_net.node[1].c.rd_forgotten, forgotten);
	if (speaks)
		ck_assert_uint_eq(rda_send_all(1, 0, 3, 100), 3);
	rda_run(15 * DIW_S);
	ck_assert_uint_eq(rda_app[1].from[0].came, 13);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, forgotten ? 10 : 13);
	ck_assert_uint_eq(rda_flow(0, 1)->failed, forgotten ? 3 : 0);
	ck_assert_uint_eq(rda_flow(1, 0)->failed, 0);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(rda_send_all(i, !i, 3, 100), 3);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, forgotten ? 13 : 16);
	ck_assert_uint_eq(rda_app[1].from[0].came, 16);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, speaks ? 16 : 13);
	rdn_free(&rda_net);
}

START_TEST(sender_sleeps)
{
	const unsigned seconds[] = { 1, 9, 20, 50, 100, 600 };

	sleeps_before_the_acknowledgement(seconds[_i / 4] * DIW_S, _i % 2, _i / 2 % 2);
}
END_TEST

/* Node 0 waits for an answer, and does not run while node 1 sends it and gives node 0 up. When it runs again, it does
 * not forget node 1 before it has asked: it is told that no answer will come. */
START_TEST(asker_sleeps)
{
	rda_begin(2);
	all_arrives(1, 10);
	rda_run((uint64_t)_i * DIW_S);                          /* the search for idle peers is at another place */
	all_arrives(0, 10);
	rda_net.node[0].deaf_from = rda_net.now;
	rda_net.node[0].deaf_to = DIW_NEVER;
	ck_assert_uint_eq(rda_send_all(1, 0, 1, 100), 1);
	node_0_sleeps(90 * DIW_S);
	ck_assert_uint_eq(rda_flow(1, 0)->failed, 1);
	rda_net.node[0].deaf_to = rda_net.now;
	ck_assert_uint_eq(rda_send_all(0, 1, 1, 100), 1);       /* as rdmap/rd_ask.c probes */
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 11);
	rda_app[0].from[1].came = rda_flow(1, 0)->sent;
	ck_assert_uint_eq(rda_send_all(1, 0, 1, 100), 1);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, 11);
	ck_assert_uint_eq(rda_app[0].from[1].gone + rda_app[0].from[1].forgot, 1);
	rdn_free(&rda_net);
}
END_TEST

TCase *tcase_rd_forget(void)
{
	TCase *tc = tcase_create("forget");

	tcase_add_loop_test(tc, clock_is_at_an_old_number, 0, 12);
	tcase_add_loop_test(tc, sender_sleeps, 0, 24);
	tcase_add_loop_test(tc, asker_sleeps, 0, 32);
	tcase_set_timeout(tc, 60);
	return tc;
}
