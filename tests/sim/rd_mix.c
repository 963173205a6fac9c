/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams (llp/rd.c) by seeds: every segment arrives once and in order, with up to 40 % loss, reordering,
 * repetition, outages, and a receiver that takes nothing; with each third seed as on one host, where segments without
 * CRC are received in place. SIM_SEED=rdK replays seed K and prints its counters.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rd_app.h"

static struct diw_rd_cfg cfg;

static void mix_begin(uint64_t seed, int *nodes)
{
	cfg = rda_cfg();

	rdn_init(&rda_net, seed);
	memset(rda_app, 0, sizeof rda_app);
	rda_net.one_host = cfg.bare = seed % 3 == 0;
	*nodes = 2 + rda_below(5);
	if (rda_below(2))                                   /* numbers begin with the clock, so they wrap */
		rda_net.now = ((1ull << 32) - (uint64_t)rda_below(2000)) * DIW_US;
	rda_net.latency = (uint64_t)rda_below(2000) * DIW_US;
	rda_net.jitter = rda_below(2) ? (uint64_t)(1 + rda_below(20000)) * DIW_US : 0;
	rda_net.loss = rda_below(4) ? rda_below(400) / 1000.0 : 0;
	rda_net.dup = rda_below(3) ? 0 : rda_below(300) / 1000.0;
	cfg.window = (uint32_t)(1 + rda_below(rda_below(2) ? 1024 : 16));
	cfg.held = (uint32_t)(8 + rda_below(1024));
	cfg.peer_slots = (uint32_t)(1 + rda_below(2048));
	cfg.slots = (uint32_t)(1 + rda_below(rda_below(2) ? 4096 : 16));
	for (int i = 0; i < *nodes; i++) {
		rdn_start(&rda_net, i, &cfg, &rda_up);
		rda_app[i].life = 1;
		rda_app[i].left = (uint32_t)rda_below(1500);
		rda_app[i].refuses = rda_below(3) ? 0 : rda_below(900) / 1000.0;
		if (rda_below(3) == 0) {
			rda_net.node[i].deaf_from = rda_net.now + (uint64_t)rda_below(1000) * DIW_MS;
			rda_net.node[i].deaf_to = rda_net.node[i].deaf_from + (uint64_t)rda_below(4000) * DIW_MS;
		}
		if (rda_below(3) == 0)
			rda_net.node[i].late = (uint64_t)rda_below(50) * DIW_MS;
		if (rda_below(4) == 0)
			rda_app[i].stalled_to = rda_net.now + (uint64_t)rda_below(15000) * DIW_MS;
	}
}

/* Sends some messages between all nodes; refused ones are tried again later. */
static void mix_post(int nodes)
{
	for (int a = 0; a < nodes; a++) {
		int n = rda_net.node[a].l ? rda_below(20) : 0;

		while (rda_app[a].left && n--) {
			int to = rda_below((uint32_t)nodes);

			if (to != a && rda_send(a, to, RDA_HDR + (uint32_t)rda_below(rda_below(3) ? 40 : 1300)))
				rda_app[a].left--;
		}
	}
}

/* Runs until all messages have ended. RESTARTS: restarts of random nodes at random times. */
static void mix_run(int nodes, int restarts)
{
	uint64_t end = rda_net.now + 1800 * DIW_S, next = rda_net.now + (uint64_t)rda_below(2000) * DIW_MS;
	int gone = -1;

	while (gone >= 0 || !rda_all_ended(nodes)) {
		if (restarts && rda_net.now >= next) {
			if (gone < 0) {
				gone = rda_below((uint32_t)nodes);
				rda_kill(gone);
			} else {
				rda_revive(gone, &cfg);
				gone = -1;
				restarts--;
			}
			next = rda_net.now + (uint64_t)(200 + rda_below(3000)) * DIW_MS;
		}
		mix_post(nodes);
		rdn_step(&rda_net, rda_net.now + 2 * DIW_MS);
		rda_must(rda_net.now < end, "no end after 1,800 s\n");
	}
	if (getenv("SIM_SEED"))
		rda_account(nodes);
	for (int a = 0; a < nodes; a++)
		rda_must(rda_net.node[a].c.rd_dead == 0, "node %d gave a living peer up\n", a);
}

/* Between nodes of one host, where nothing is lost, overtaken or refused: then no segment is held, behind which others
 * have no place. */
static void some_were_placed(int nodes)
{
	bool clean = rda_net.one_host && rda_net.loss == 0 && rda_net.dup == 0 && rda_net.jitter == 0;

	for (int a = 0; a < nodes; a++)
		for (int b = 0; b < nodes; b++) {
			const struct rda_flow *f = &rda_app[b].from[a];
			bool takes = rda_app[b].refuses == 0 && rda_app[b].stalled_to == 0 &&
				     rda_net.node[b].deaf_to == 0;

			rda_must(rda_net.one_host || f->placed == 0, "a place between hosts\n");
			rda_must(!clean || !takes || f->came < 100 || f->placed, "%d to %d: %u came, none in place\n",
				 a, b, f->came);
		}
}

START_TEST(mix)
{
	int nodes;

	mix_begin((uint64_t)_i, &nodes);
	mix_run(nodes, 0);
	some_were_placed(nodes);
	for (int a = 0; a < nodes; a++)
		for (int b = 0; b < nodes; b++)
			rda_must(rda_app[a].to[b].failed == 0 && rda_app[b].from[a].came == rda_app[a].to[b].sent,
				 "%d to %d: %u sent, %u acknowledged, %u failed, %u came\n", a, b,
				 rda_app[a].to[b].sent, rda_app[a].to[b].acked, rda_app[a].to[b].failed,
				 rda_app[b].from[a].came);
	rdn_free(&rda_net);
}
END_TEST

/* Nodes are killed and start again. Only messages under way to such a node fail, and none arrives twice. */
START_TEST(restarts)
{
	bool fails[RDN_NODES];
	int nodes;

	mix_begin((uint64_t)_i + 1000000, &nodes);
	mix_run(nodes, 1 + rda_below(6));
	for (int b = 0; b < nodes; b++)
		fails[b] = rda_app[b].life > 1;
	for (int a = 0; a < nodes; a++)
		for (int b = 0; b < nodes; b++)
			rda_must(fails[b] || (!rda_app[a].to[b].failed &&
					      rda_app[b].from[a].came == rda_app[a].to[b].sent) ||
				 !rda_app[a].to[b].sent,
				 "%d to %d: %u sent, %u failed, %u came\n", a, b, rda_app[a].to[b].sent,
				 rda_app[a].to[b].failed, rda_app[b].from[a].came);
	rdn_free(&rda_net);
}
END_TEST

Suite *suite_rd_mix(int first, int last)
{
	Suite *s = suite_create("rd_mix");
	TCase *tc = tcase_create("mix");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, mix, first, last);
	tcase_add_loop_test(tc, restarts, first, last);
	suite_add_tcase(s, tc);
	return s;
}
