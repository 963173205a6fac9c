/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams between two ends of which one has forgotten the other, has given it up, or has restarted, and the
 * other end does not know yet. */
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "llp/rd.h"
#include "tests/sim/rd_app.h"

/* Node FIRST sends, and then the other. All of it arrives within a second. */
static void talk(int first)
{
	for (int i = 0; i < 2; i++) {
		int from = i ? !first : first;
		uint32_t came = rda_app[!from].from[from].came, acked = rda_flow(from, !from)->acked;

		ck_assert_uint_eq(rda_send_all(from, !from, 3, 100), 3);
		rda_run(DIW_S);
		ck_assert_uint_eq(rda_app[!from].from[from].came, came + 3);
		ck_assert_uint_eq(rda_flow(from, !from)->acked, acked + 3);
	}
}

/* No message has failed, and neither end was told that the other one is gone. */
static void nothing_was_lost(void)
{
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(rda_flow(i, !i)->failed, 0);
		ck_assert_uint_eq(rda_app[i].from[!i].gone, 0);
	}
}

/* Two nodes that were silent until exactly one has forgotten the other. Returns that one. */
static int one_forgets(void)
{
	rda_begin(2);
	talk(0);
	while (!rda_net.node[0].c.rd_forgotten && !rda_net.node[1].c.rd_forgotten)
		rda_run(10 * DIW_MS);
	return rda_net.node[1].c.rd_forgotten && !rda_net.node[0].c.rd_forgotten;
}

START_TEST(a_forgotten_end_speaks_first)
{
	int forgot = one_forgets();

	talk(!forgot);
	nothing_was_lost();
	rdn_free(&rda_net);
}
END_TEST

START_TEST(an_end_that_forgot_speaks_first)
{
	int forgot = one_forgets();

	talk(forgot);
	nothing_was_lost();
	rdn_free(&rda_net);
}
END_TEST

/* Two nodes that talked for MINUTES, and were silent then until exactly one has forgotten the other. Returns that
 * one. */
static int one_forgets_after(unsigned minutes)
{
	rda_begin(2);
	for (unsigned i = 0; i < 2 * minutes; i++) {
		talk(0);
		rda_run(28 * DIW_S);
	}
	while (!rda_net.node[0].c.rd_forgotten && !rda_net.node[1].c.rd_forgotten)
		rda_run(10 * DIW_MS);
	return rda_net.node[1].c.rd_forgotten && !rda_net.node[0].c.rd_forgotten;
}

/* The clock from which the end that forgot draws its next number is more than half of the numbers ahead of those that
 * the other end expects: 2^31 microseconds are 36 minutes, and all numbers are 72. */
START_TEST(an_end_that_forgot_after_long)
{
	int forgot = one_forgets_after(20 + 5 * (unsigned)_i / 2);

	talk(_i % 2 ? forgot : !forgot);
	nothing_was_lost();
	rdn_free(&rda_net);
}
END_TEST

/* Node 0 gets no processor for a time in which node 1, which has not taken its segments, may drop them and forget it.
 * Node 1 has acknowledged that it keeps them, so node 0 must notice. Then they fail: node 1 might have taken them
 * before it forgot node 0 (18.3). */
START_TEST(an_end_that_stopped_is_told)
{
	rda_begin(2);
	talk(0);
	rda_app[1].refuses_from[0] = true;
	ck_assert_uint_eq(rda_send_all(0, 1, 3, 100), 3);
	rda_run(DIW_S);
	rda_net.node[0].ready_at = rda_net.now + (58 + (unsigned)_i) * DIW_S;
	rda_run((58 + (unsigned)_i) * DIW_S + 500 * DIW_MS);
	rda_app[1].refuses_from[0] = false;
	rda_run(5 * DIW_S);
	ck_assert_uint_eq(rda_app[1].from[0].came, rda_flow(0, 1)->acked);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, _i < 15 || !rda_flow(0, 1)->failed ? 6 : 3);
	ck_assert_uint_eq(rda_flow(0, 1)->acked + rda_flow(0, 1)->failed, 6);
	rdn_free(&rda_net);
}
END_TEST

/* ---- Given up by one end ---- */

/* Node 0 does not hear node 1 any more, and gives it up. */
static void node_0_gives_up(void)
{
	rda_net.node[0].deaf_from = rda_net.now;
	rda_net.node[0].deaf_to = DIW_NEVER;
	rda_send(0, 1, 100);
	while (!rda_net.node[0].c.rd_dead)
		rda_run(100 * DIW_MS);
	rda_net.node[0].deaf_to = rda_net.now;
	ck_assert_uint_eq(rda_flow(0, 1)->failed, 1);
	ck_assert_uint_eq(rda_app[1].from[0].gone, 0);
}

/* Node 0 gives up node 1, which has taken all of its segments. Node 1 is told so as soon as it asks, and once. */
START_TEST(an_end_that_was_given_up_is_told)
{
	rda_begin(2);
	talk(0);
	node_0_gives_up();
	ck_assert_uint_eq(rda_send_all(1, 0, 3, 100), 3);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, 6);
	ck_assert_uint_eq(rda_app[1].from[0].gone, 1);
	ck_assert_uint_eq(rda_app[0].from[1].gone, 1);
	rda_app[1].from[0].came = rda_flow(0, 1)->sent;
	talk(0);
	ck_assert_uint_eq(rda_app[1].from[0].gone, 1);
	rdn_free(&rda_net);
}
END_TEST

static bool refusing;

/* Refuses the segments of node 0. */
static int refusing_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct rdn_node *node = ctx;

	if (!refusing)
		return rda_up.rx(ctx, src, segs, n, now);
	node->l->ops->refuse(node->l, src, 1);
	return 0;
}

/* As if node 0 had sent N segments more, and node 1 had taken them. */
static void numbers_pass(uint32_t n)
{
	const struct diw_addr addr[2] = { rdn_addr(0), rdn_addr(1) };
	struct rd_peer *to = diw_rd_peer_find((struct rd *)rda_net.node[0].l, &addr[1]);
	struct rd_peer *from = diw_rd_peer_find((struct rd *)rda_net.node[1].l, &addr[0]);

	to->next_seq += n;
	to->una += n;
	to->edge += n;
	from->expect += n;
}

/* Node 1 refuses a segment of node 0. If node 0 hears that, it goes on behind this segment, and answers what node 1 had
 * asked for. If it does not, and gives up node 1, node 1 is told. PASSED: segments before. RESET: an old RESET of node
 * 0 comes to node 1 before. */
static void refused(bool hears, uint32_t passed, bool reset)
{
	const struct diw_addr addr = rdn_addr(0);
	struct diw_rd_cfg cfg = rda_cfg();
	struct diw_link_up up = rda_up;

	up.rx = refusing_rx;
	refusing = false;
	rda_begin(2);
	rdn_stop(&rda_net, 1);
	rdn_start(&rda_net, 1, &cfg, &up);
	talk(0);
	numbers_pass(passed);
	diw_rd_peer_find((struct rd *)rda_net.node[1].l, &addr)->reset = reset;
	refusing = true;
	if (hears)
		rda_send(0, 1, 100);
	else
		node_0_gives_up();
	rda_run(DIW_S);
	refusing = false;
	ck_assert_uint_eq(rda_flow(0, 1)->failed, 1);
	rda_app[1].from[0].came = rda_flow(0, 1)->sent;
	talk(0);
	talk(1);
	ck_assert_uint_eq(rda_app[1].from[0].gone, !hears);
	ck_assert_uint_eq(rda_app[1].from[0].forgot, 0);
	rdn_free(&rda_net);
}

START_TEST(an_end_that_refused_is_told_when_it_was_given_up)
{
	refused(true, 0, false);
	refused(true, 0, true);
	refused(false, 0, false);
}
END_TEST

/* Half of all numbers, and more, are between the first number of the association and its last one. */
START_TEST(an_end_that_refused_after_many_segments)
{
	refused(true, (uint32_t)_i << 28, false);
	refused(false, (uint32_t)_i << 28, false);
}
END_TEST

static uint32_t asks_tag;             /* of the datagrams that node 1 sends */
static uint32_t asks_acked;           /* the messages of node 1 that were acknowledged when it was told */

/* An old RESET comes to node 1 just before the first announcement of node 0. */
static void reset_before(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p,
			 uint32_t len)
{
	struct diw_rd_hdr h, reset = { .kind = DIW_RD_RESET, .tag = asks_tag };
	uint8_t q[DIW_RD_HDR + 4];

	if (!diw_rd_hdr_decode(&h, p, len - 4) || h.kind > DIW_RD_ACK)
		return;
	if (src->ip[15] == 2) {
		asks_tag = h.tag;
		return;
	}
	if (!(h.flags & DIW_RD_NEW) || !n->node[0].c.rd_dead)
		return;
	diw_rd_hdr_encode(q, &reset);
	diw_put32le(q + DIW_RD_HDR, diw_crc32(0, q, DIW_RD_HDR));
	rdn_inject(n, src, dst, q, sizeof q, n->now);
	n->tap = NULL;
}

static void asks_gone(void *ctx, const struct diw_addr *peer, int errnum)
{
	asks_acked = rda_flow(1, 0)->acked;
	rda_up.gone(ctx, peer, errnum);
}

/* Node 0 gives up node 1, of which it has taken a request. Node 1, which does not know yet that it was taken, gets an
 * old RESET: it must not believe that node 0 had only forgotten it, and will take the request and answer. */
START_TEST(an_old_reset_hides_no_giving_up)
{
	struct diw_rd_cfg cfg = rda_cfg();
	struct diw_link_up up = rda_up;

	up.gone = asks_gone;
	rda_begin(2);
	rdn_stop(&rda_net, 1);
	rdn_start(&rda_net, 1, &cfg, &up);
	talk(0);
	rda_net.node[1].deaf_from = rda_net.now;
	rda_net.node[1].deaf_to = DIW_NEVER;
	rda_send(0, 1, 100);
	rda_run(8 * DIW_S);
	rda_net.tap = reset_before;
	rda_send(1, 0, 100);
	while (!rda_net.node[0].c.rd_dead)
		rda_run(10 * DIW_MS);
	rda_net.node[1].deaf_to = rda_net.now;
	ck_assert_uint_eq(rda_app[0].from[1].came, 4);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, 3);
	rda_run(DIW_S);
	ck_assert_ptr_null(rda_net.tap);
	ck_assert_uint_eq(rda_app[1].from[0].gone + rda_app[1].from[0].forgot, 1);
	ck_assert(rda_app[1].from[0].gone || asks_acked == 4);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, 4);
	rda_app[1].from[0].came = rda_flow(0, 1)->sent;
	talk(0);
	rdn_free(&rda_net);
}
END_TEST

/* ---- Restarted ---- */

/* The process of node 0 ends, and another one speaks first, at once or after SECONDS. The messages that node 1 had sent
 * to the earlier one fail, and only they. */
static void restarts_and_speaks(unsigned seconds, bool under_way)
{
	struct diw_rd_cfg cfg = rda_cfg();

	rda_begin(2);
	talk(0);
	rda_kill(0);
	if (under_way)
		ck_assert_uint_eq(rda_send_all(1, 0, 3, 100), 3);
	rda_run(seconds * DIW_S);
	rda_revive(0, &cfg);
	rda_error = 0;
	ck_assert_uint_eq(rda_send_all(0, 1, 3, 100), 3);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 3);
	ck_assert_uint_eq(rda_app[1].from[0].came, 3);
	ck_assert_uint_eq(rda_flow(1, 0)->failed, under_way ? 3 : 0);
	ck_assert_int_eq(rda_error, under_way ? ECONNRESET : 0);
	ck_assert_uint_eq(rda_app[1].from[0].gone, 1);
	rda_app[0].from[1].came = rda_flow(1, 0)->sent;
	rda_app[0].from[1].life = 1;
	talk(1);
	talk(0);
	ck_assert_uint_eq(rda_net.node[1].c.rd_restarts, 1);
	rdn_free(&rda_net);
}

START_TEST(a_restarted_end_speaks_first)
{
	restarts_and_speaks((unsigned)_i, false);
	if (_i < 10)
		restarts_and_speaks((unsigned)_i, true);
}
END_TEST

static struct { uint8_t data[256]; uint32_t len; } old_data, new_grant;

/* Keeps the last segment of node 0, and the GRANT of its next process; this GRANT does not arrive. */
static void segment_and_grant(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p,
			      uint32_t len)
{
	(void)dst;
	if (src->ip[15] != 1 || new_grant.len)
		return;
	if (p[0] >> 4 == DIW_RD_DATA) {
		memcpy(old_data.data, p, old_data.len = len - 4);
	} else if (p[0] >> 4 == DIW_RD_GRANT) {
		memcpy(new_grant.data, p, new_grant.len = len - 4);
		n->node[1].deaf_from = n->now;
		n->node[1].deaf_to = DIW_NEVER;
	}
}

static uint32_t came_before;          /* the messages of node 0 that had come when node 1 was told */

static void restart_gone(void *ctx, const struct diw_addr *peer, int errnum)
{
	came_before = rda_app[1].from[0].came;
	rda_up.gone(ctx, peer, errnum);
}

/* A segment of node 0's earlier process comes in one burst with the GRANT of its next process. It is of the earlier
 * one: it comes before node 1 is told that this process ended, or not at all. */
START_TEST(a_burst_of_two_processes)
{
	const struct diw_addr src = rdn_addr(0);
	struct diw_rd_cfg cfg = rda_cfg();
	struct diw_link_up up = rda_up;
	struct diw_link *lower;

	up.gone = restart_gone;
	new_grant.len = 0;
	rda_begin(2);
	rdn_stop(&rda_net, 1);
	rdn_start(&rda_net, 1, &cfg, &up);
	talk(0);
	rda_net.tap = segment_and_grant;
	rda_net.node[1].deaf_from = rda_net.now;
	rda_net.node[1].deaf_to = rda_net.now + DIW_US;
	rda_send(0, 1, 100);
	ck_assert(!(old_data.data[1] & DIW_RD_NEW));
	rda_kill(0);
	rda_revive(0, &cfg);
	rda_send(1, 0, 100);
	rda_run(DIW_S);
	ck_assert_uint_gt(new_grant.len, 0);
	ck_assert_uint_eq(rda_app[1].from[0].gone, 0);
	lower = ((struct rd *)rda_net.node[1].l)->lower;
	lower->up->rx(lower->up_ctx, &src, (struct diw_link_rxseg[]){
		{ .data = old_data.data, .len = old_data.len }, { .data = new_grant.data, .len = new_grant.len } }, 2,
		rda_net.now);
	ck_assert_uint_eq(rda_app[1].from[0].gone, 1);
	ck_assert_uint_eq(rda_app[1].from[0].came, came_before);
	rdn_free(&rda_net);
}
END_TEST

TCase *tcase_rd_views(void)
{
	TCase *tc = tcase_create("views");

	tcase_add_loop_test(tc, a_forgotten_end_speaks_first, 0, 10);
	tcase_add_loop_test(tc, an_end_that_forgot_speaks_first, 0, 10);
	tcase_add_loop_test(tc, an_end_that_forgot_after_long, 0, 24);
	tcase_add_loop_test(tc, an_end_that_stopped_is_told, 0, 40);
	tcase_add_test(tc, an_end_that_was_given_up_is_told);
	tcase_add_test(tc, an_old_reset_hides_no_giving_up);
	tcase_add_test(tc, an_end_that_refused_is_told_when_it_was_given_up);
	tcase_add_loop_test(tc, an_end_that_refused_after_many_segments, 1, 16);
	tcase_add_test(tc, a_burst_of_two_processes);
	tcase_add_loop_test(tc, a_restarted_end_speaks_first, 0, 25);
	tcase_set_timeout(tc, 60);
	return tc;
}
