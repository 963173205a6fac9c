/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams (llp/rd.c): by seeds, every segment arrives once and in order at loss to 40 %, reordering,
 * repetition, outages and a receiver that takes nothing; exact scenarios of restarts, deaths and forged datagrams; and
 * several flows through one bottleneck. SIM_SEED=rdK replays seed K and prints its counters.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/wire.h"
#include "tests/sim/rd_net.h"
#include "wire/rd_hdr.h"

#define HDR 16u

static struct rdn net;
static int last_error;

/* What node A knows of its messages to node B, and of those that came from there. */
struct flow {
	uint32_t sent, acked, failed, came, life;    /* `life`: of the sender, as the receiver saw it last */
	uint64_t bytes;
};
static struct app {
	struct flow to[RDN_NODES], from[RDN_NODES];
	uint32_t life;
	uint32_t left;               /* messages to send */
	double refuses;              /* chance that it takes nothing */
	uint64_t stalled_to;
	struct { int node; uint32_t number; } out[1 << 16];  /* by number of the link, modulo */
} app[RDN_NODES];

static int below(uint32_t n) { return (int)(diw_rng_next(&net.rng) % n); }

#define must(cond, ...) do { if (!(cond)) { fprintf(stderr, __VA_ARGS__); \
	ck_abort_msg("seed %llu at %.3f ms", (unsigned long long)net.seed, (double)net.now / 1e6); } } while (0)

static int app_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct rdn_node *node = ctx;
	int me = (int)(node - net.node), from = src->ip[15] - 1;
	struct flow *f = &app[me].from[from];

	(void)now;
	if (now < app[me].stalled_to)
		return 0;
	if (diw_rng_chance(&net.rng, app[me].refuses))
		n = below((uint32_t)n + 1);
	for (int i = 0; i < n; i++) {
		uint32_t life = diw_get32(segs[i].data), seq = diw_get32(segs[i].data + 4);

		if (life != f->life) {
			must(life > f->life, "node %d: an old life's segment\n", me);
			f->life = life;
			f->came = seq;          /* what that process sent to the one before is not ours */
		}
		must(seq == f->came, "node %d from %d: %u, not %u\n", me, from, seq, f->came);
		must(diw_get32(segs[i].data + 8) == segs[i].len, "length\n");
		for (uint32_t k = HDR; k < segs[i].len; k++)
			must(segs[i].data[k] == (uint8_t)(seq + k), "octet %u\n", k);
		f->came++;
		f->bytes += segs[i].len;
	}
	return n;
}

static void app_ended(void *ctx, uint32_t first, uint32_t n, bool good)
{
	struct rdn_node *node = ctx;
	struct app *a = &app[node - net.node];

	for (uint32_t i = 0; i < n; i++) {
		struct flow *f = &a->to[a->out[(first + i) & 0xffff].node];

		must(a->out[(first + i) & 0xffff].number == first + i, "an unknown number ended\n");
		a->out[(first + i) & 0xffff].number--;
		*(good ? &f->acked : &f->failed) += 1;
	}
}

static void app_acked(void *ctx, uint32_t first, uint32_t n) { app_ended(ctx, first, n, true); }

static void app_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	last_error = errnum;
	app_ended(ctx, first, n, false);
}

static const struct diw_link_up app_up = { .rx = app_rx, .acked = app_acked, .refused = app_refused };

static struct diw_rd_cfg cfg_default(void)
{
	return (struct diw_rd_cfg){ .dead_ns = 10 * DIW_S, .idle_ns = 60 * DIW_S, .ack_ns = 40 * DIW_US, .peers = 64,
		.slots = 4096, .peer_slots = 2048, .held = 1024, .window = 1024, .max_seg = 1400 };
}

/* 1: taken. */
static int app_send(int me, int to, uint32_t len)
{
	static uint8_t data[2048];
	struct rdn_node *node = &net.node[me];
	struct diw_dest dst = { .addr = rdn_addr(to) };
	struct iovec iov = { data + 8, len - 8 };
	struct diw_link_seg seg = { .hdr = data, .hdr_len = 8, .len = len - 8, .iov = &iov };
	struct flow *f = &app[me].to[to];
	uint32_t number = node->l->taken;

	diw_put32(data, app[me].life);
	diw_put32(data + 4, f->sent);
	diw_put32(data + 8, len);
	for (uint32_t k = HDR; k < len; k++)
		data[k] = (uint8_t)(f->sent + k);
	app[me].out[number & 0xffff].node = to;
	app[me].out[number & 0xffff].number = number;
	if (node->l->ops->send(node->l, &dst, &seg, 1, net.now) != 1)
		return 0;
	node->l->ops->flush(node->l, net.now);
	f->sent++;
	return 1;
}

static bool all_ended(int nodes)
{
	for (int a = 0; a < nodes; a++) {
		if (app[a].left)
			return false;
		for (int b = 0; b < nodes; b++)
			if (app[a].to[b].acked + app[a].to[b].failed != app[a].to[b].sent)
				return false;
	}
	return true;
}

static void account(int nodes)
{
	for (int a = 0; a < nodes; a++)
		printf("node %d: lost %llu again %llu spurious %llu timeouts %llu duplicates %llu held_full %llu "
		       "beyond %llu stray %llu dead %llu restarts %llu acks %llu\n", a,
		       (unsigned long long)net.node[a].c.rd_lost, (unsigned long long)net.node[a].c.rd_retransmits,
		       (unsigned long long)net.node[a].c.rd_spurious, (unsigned long long)net.node[a].c.rd_timeouts,
		       (unsigned long long)net.node[a].c.rd_duplicates, (unsigned long long)net.node[a].c.rd_held_full,
		       (unsigned long long)net.node[a].c.rd_beyond, (unsigned long long)net.node[a].c.rd_stray,
		       (unsigned long long)net.node[a].c.rd_dead, (unsigned long long)net.node[a].c.rd_restarts,
		       (unsigned long long)net.node[a].c.rd_acks);
	printf("%.3f ms, %llu datagrams, %llu lost, %llu dropped\n", (double)net.now / 1e6,
	       (unsigned long long)net.sent, (unsigned long long)net.lost, (unsigned long long)net.dropped);
}

static void mix_begin(uint64_t seed, int *nodes)
{
	struct diw_rd_cfg cfg = cfg_default();

	rdn_init(&net, seed);
	memset(app, 0, sizeof app);
	*nodes = 2 + below(5);
	if (below(2))                                   /* numbers begin with the clock: they wrap */
		net.now = ((1ull << 32) - (uint64_t)below(2000)) * DIW_US;
	net.latency = (uint64_t)below(2000) * DIW_US;
	net.jitter = below(2) ? (uint64_t)(1 + below(20000)) * DIW_US : 0;
	net.loss = below(4) ? below(400) / 1000.0 : 0;
	net.dup = below(3) ? 0 : below(300) / 1000.0;
	cfg.window = (uint32_t)(1 + below(below(2) ? 1024 : 16));
	cfg.held = (uint32_t)(8 + below(1024));
	cfg.peer_slots = (uint32_t)(1 + below(2048));
	for (int i = 0; i < *nodes; i++) {
		rdn_start(&net, i, &cfg, &app_up);
		app[i].life = 1;
		app[i].left = (uint32_t)below(1500);
		app[i].refuses = below(3) ? 0 : below(900) / 1000.0;
		if (below(3) == 0) {
			net.node[i].deaf_from = net.now + (uint64_t)below(1000) * DIW_MS;
			net.node[i].deaf_to = net.node[i].deaf_from + (uint64_t)below(4000) * DIW_MS;
		}
		if (below(4) == 0)
			app[i].stalled_to = net.now + (uint64_t)below(15000) * DIW_MS;
	}
}

/* Some messages of every node to any other; those that are refused are tried later. */
static void mix_post(int nodes)
{
	for (int a = 0; a < nodes; a++) {
		int n = below(20);

		while (app[a].left && n--) {
			int to = below((uint32_t)nodes);

			if (to == a || !app_send(a, to, HDR + (uint32_t)below(below(3) ? 40 : 1300)))
				break;
			app[a].left--;
		}
	}
}

START_TEST(mix)
{
	uint64_t end;
	int nodes;

	mix_begin((uint64_t)_i, &nodes);
	end = net.now + 600 * DIW_S;
	while (!all_ended(nodes)) {
		mix_post(nodes);
		rdn_step(&net, net.now + 2 * DIW_MS);
		must(net.now < end, "no end after 600 s\n");
	}
	if (getenv("SIM_SEED"))
		account(nodes);
	for (int a = 0; a < nodes; a++) {
		must(net.node[a].c.rd_dead == 0, "node %d gave a living peer up\n", a);
		for (int b = 0; b < nodes; b++)
			must(app[a].to[b].failed == 0 && app[b].from[a].came == app[a].to[b].sent,
			     "%d to %d: %u sent, %u acknowledged, %u failed, %u came\n", a, b, app[a].to[b].sent,
			     app[a].to[b].acked, app[a].to[b].failed, app[b].from[a].came);
	}
	rdn_free(&net);
}
END_TEST

/* ---- Exact scenarios ---- */

static void pair_begin_rd(int nodes)
{
	struct diw_rd_cfg cfg = cfg_default();

	rdn_init(&net, 1);
	memset(app, 0, sizeof app);
	for (int i = 0; i < nodes; i++) {
		rdn_start(&net, i, &cfg, &app_up);
		app[i].life = 1;
	}
}

static void run_for(uint64_t ns)
{
	uint64_t end = net.now + ns;

	while (rdn_step(&net, end))
		;
}

static struct flow *flow(int a, int b) { return &app[a].to[b]; }

/* Between two calm nodes nothing is sent twice, and an acknowledgement is a fraction of the datagrams. */
START_TEST(calm)
{
	pair_begin_rd(2);
	for (int i = 0; i < 4000; i++) {
		while (!app_send(0, 1, 1000))
			run_for(100 * DIW_US);
	}
	run_for(DIW_S);
	ck_assert_uint_eq(flow(0, 1)->acked, 4000);
	ck_assert_uint_eq(app[1].from[0].came, 4000);
	ck_assert_uint_eq(net.node[0].c.rd_retransmits, 0);
	ck_assert_uint_eq(net.node[1].c.rd_duplicates, 0);
	ck_assert_uint_lt(net.node[1].c.rd_acks, 4000 / 8);
	rdn_free(&net);
}
END_TEST

/* A peer that is not there is reported after dead_ns, and holds nobody up. */
START_TEST(dead_peer)
{
	pair_begin_rd(3);
	rdn_stop(&net, 2);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(app_send(0, 2, 100), 1);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(app_send(0, 1, 100), 1);
	run_for(100 * DIW_MS);
	ck_assert_uint_eq(flow(0, 1)->acked, 100);
	ck_assert_uint_eq(flow(0, 2)->failed, 0);
	run_for(11 * DIW_S);
	ck_assert_uint_eq(flow(0, 2)->failed, 10);
	ck_assert_int_eq(last_error, ETIMEDOUT);
	rdn_free(&net);
}
END_TEST

/* A receiver that is killed and starts again: what it had not acknowledged fails, what is sent later arrives. */
START_TEST(restart_receiver)
{
	struct diw_rd_cfg cfg = cfg_default();

	pair_begin_rd(2);
	for (int i = 0; i < 20; i++)
		app_send(0, 1, 100);
	run_for(100 * DIW_MS);
	ck_assert_uint_eq(flow(0, 1)->acked, 20);
	rdn_stop(&net, 1);
	for (int i = 0; i < 5; i++)
		app_send(0, 1, 100);
	run_for(100 * DIW_MS);
	rdn_start(&net, 1, &cfg, &app_up);
	run_for(2 * DIW_S);
	ck_assert_uint_eq(flow(0, 1)->failed, 5);
	ck_assert_int_eq(last_error, ECONNRESET);
	ck_assert_uint_eq(net.node[0].c.rd_restarts, 1);
	app[1].from[0].came = flow(0, 1)->sent;
	for (int i = 0; i < 5; i++)
		app_send(0, 1, 100);
	run_for(DIW_S);
	ck_assert_uint_eq(flow(0, 1)->acked, 25);
	ck_assert_uint_eq(app[1].from[0].came, 30);
	rdn_free(&net);
}
END_TEST

/* A sender that is killed and starts again on its port. */
START_TEST(restart_sender)
{
	struct diw_rd_cfg cfg = cfg_default();

	pair_begin_rd(2);
	for (int i = 0; i < 20; i++)
		app_send(0, 1, 100);
	run_for(100 * DIW_MS);
	rdn_stop(&net, 0);
	rdn_start(&net, 0, &cfg, &app_up);
	memset(&app[0], 0, sizeof app[0]);
	app[0].life = 2;
	for (int i = 0; i < 20; i++)
		app_send(0, 1, 100);
	run_for(DIW_S);
	ck_assert_uint_eq(flow(0, 1)->acked, 20);
	ck_assert_uint_eq(app[1].from[0].came, 20);
	ck_assert_uint_eq(app[1].from[0].life, 2);
	rdn_free(&net);
}
END_TEST

/* A peer that was silent for long is forgotten, and taken up again without loss. */
START_TEST(forgotten)
{
	pair_begin_rd(2);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 20; i++)
			app_send(round & 1, !(round & 1), 100);
		run_for(200 * DIW_S);
		ck_assert_uint_eq(flow(round & 1, !(round & 1))->acked, round == 2 ? 40 : 20);
	}
	ck_assert_uint_ge(net.node[0].c.rd_forgotten, 2);
	ck_assert_uint_eq(app[1].from[0].came, 40);
	rdn_free(&net);
}
END_TEST

/* The last datagram of KIND that node 0 sent, to be changed. */
static uint8_t caught[2048];
static uint32_t caught_len;
static enum diw_rd_kind caught_kind;

static void catch(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p, uint32_t len)
{
	(void)n;
	(void)dst;
	if (src->ip[15] != 1 || p[0] >> 4 != caught_kind)
		return;
	memcpy(caught, p, len);
	caught_len = len;
}

static void forge(int field, uint32_t value)
{
	struct diw_addr src = rdn_addr(0), dst = rdn_addr(1);
	uint8_t p[2048];

	memcpy(p, caught, caught_len);
	if (field == 2)
		diw_put16(p + field, (uint16_t)value);
	else
		diw_put32(p + field, value);
	diw_put32le(p + caught_len - 4, diw_crc32(0, p, caught_len - 4));
	rdn_inject(&net, &src, &dst, p, caught_len, net.now);
	run_for(DIW_MS);
}

/* Acknowledgements of what was never sent, another tag, numbers behind the window: counted, and nothing else. */
START_TEST(forged)
{
	uint64_t stray, before;

	pair_begin_rd(2);
	caught_kind = DIW_RD_DATA;
	net.tap = catch;
	for (int i = 0; i < 20; i++) {
		app_send(0, 1, 100);
		app_send(1, 0, 100);
		run_for(10 * DIW_MS);
	}
	ck_assert_uint_eq(app[1].from[0].came, 20);
	ck_assert(caught[1] & DIW_RD_ACKS);
	forge(12, diw_get32(caught + 12) + 1);                  /* ack */
	forge(12, diw_get32(caught + 12) + 0x7fffffff);
	forge(12, diw_get32(caught + 12) + 0x80000000);
	ck_assert_uint_ge(net.node[1].c.rd_ack_ignored, 2);
	before = net.node[1].c.rd_beyond;
	forge(8, diw_get32(caught + 8) + 5000);                 /* seq */
	forge(8, diw_get32(caught + 8) + 0x70000000);
	ck_assert_uint_eq(net.node[1].c.rd_beyond, before + 2);
	before = net.node[1].c.rd_duplicates;
	forge(8, diw_get32(caught + 8));
	forge(8, diw_get32(caught + 8) - 19);
	ck_assert_uint_ge(net.node[1].c.rd_duplicates, before + 2);
	stray = net.node[1].c.rd_stray;
	for (uint32_t bit = 0; bit < 32; bit++)
		forge(4, diw_get32(caught + 4) ^ 1u << bit);    /* tag */
	ck_assert_uint_eq(net.node[1].c.rd_stray, stray + 32);
	forge(2, 0);                                            /* window: none */
	ck_assert_int_eq(app_send(1, 0, 100), 1);
	app_send(0, 1, 100);
	run_for(5 * DIW_S);
	ck_assert_uint_eq(app[1].from[0].came, 21);
	ck_assert_uint_eq(flow(1, 0)->acked, 21);
	ck_assert_uint_eq(flow(1, 0)->failed, 0);
	rdn_free(&net);
}
END_TEST

static uint64_t answered;

static void count_answers(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p,
			  uint32_t len)
{
	(void)n;
	(void)dst;
	(void)p;
	if (src->ip[15] == 2)
		answered += len;
}

/* A flood of OPEN and of DATA from addresses that receive nothing: no memory, no answer longer than its cause. */
START_TEST(flood)
{
	struct diw_rd_hdr open = { .kind = DIW_RD_OPEN, .my_epoch = 7 };
	struct diw_rd_hdr data = { .kind = DIW_RD_DATA, .flags = DIW_RD_NEW, .my_tag = 1, .my_epoch = 7, .first = 9,
		.seq = 9 };
	uint8_t p[DIW_RD_HDR_MAX + 24] = { 0 };

	pair_begin_rd(2);
	for (uint32_t i = 0; i < 10000; i++) {
		struct diw_addr src = rdn_addr(100), dst = rdn_addr(1);
		const struct diw_rd_hdr *h = i & 1 ? &open : &data;
		uint32_t len;

		src.port = (uint16_t)(i + 1);
		open.seq = data.tag = i * 2654435761u;
		len = diw_rd_hdr_encode(p, h) + (i & 1 ? 0 : 20);
		diw_put32le(p + len, diw_crc32(0, p, len));
		rdn_inject(&net, &src, &dst, p, len + 4, net.now);
	}
	answered = 0;
	net.tap = count_answers;
	run_for(DIW_S);
	ck_assert_uint_eq(net.node[1].c.rd_peers_full, 0);
	ck_assert_uint_eq(net.node[1].c.rd_stray, 5000);
	ck_assert_uint_le(answered, 5000 * (DIW_RD_HDR_MAX + 4));
	for (int i = 0; i < 50; i++)
		app_send(0, 1, 100);
	run_for(DIW_S);
	ck_assert_uint_eq(flow(0, 1)->acked, 50);
	rdn_free(&net);
}
END_TEST

/* ---- Several flows ---- */

/* Flows to one receiver through 100 Mbit/s and a base round trip of 20 ms. */
static void bottleneck(int flows, double *use, double *jain, double *queue_ms)
{
	struct diw_rd_cfg cfg = cfg_default();
	uint64_t begin, before[RDN_NODES] = { 0 }, qsum = 0, qn = 0;
	double sum = 0, squares = 0;

	rdn_init(&net, (uint64_t)flows);
	memset(app, 0, sizeof app);
	net.latency = 10 * DIW_MS;
	net.rate = 100e6 / 8 / 1e9;
	net.queue = 100 * DIW_MS;
	for (int i = 0; i <= flows; i++) {
		rdn_start(&net, i, &cfg, &app_up);
		app[i].life = 1;
	}
	for (begin = net.now; net.now < begin + 30 * DIW_S; rdn_step(&net, net.now + DIW_MS)) {
		for (int i = 1; i <= flows; i++)
			if (net.now >= begin + (uint64_t)i * 50 * DIW_MS)
				for (int k = 0; k < 64 && app[i].to[0].sent - app[i].to[0].acked < 1500; k++)
					app_send(i, 0, 1400);
		if (net.now < begin + 10 * DIW_S) {
			for (int i = 1; i <= flows; i++)
				before[i] = app[0].from[i].bytes;
			qsum = net.node[0].queue_sum, qn = net.node[0].queue_n;
		}
	}
	for (int i = 1; i <= flows; i++) {
		double x = (double)(app[0].from[i].bytes - before[i]);

		sum += x;
		squares += x * x;
	}
	*use = sum / 20e9 / net.rate * (1400 + 28 + 42) / 1400;
	*jain = sum * sum / flows / squares;
	*queue_ms = (double)(net.node[0].queue_sum - qsum) / (double)(net.node[0].queue_n - qn) / 1e6;
	if (getenv("SIM_SEED"))
		account(flows + 1);
	rdn_free(&net);
}

static const int flow_counts[] = { 1, 2, 4, 8, 16 };

START_TEST(fair)
{
	double use, jain, queue;

	bottleneck(flow_counts[_i], &use, &jain, &queue);
	printf("rd: %d flows through 100 Mbit/s, 20 ms: use %.3f, Jain index %.3f, queue %.2f ms\n", flow_counts[_i],
	       use, jain, queue);
	ck_assert_double_gt(use, 0.90);
	ck_assert_double_gt(jain, 0.95);
	ck_assert_double_lt(queue, 40);
}
END_TEST

Suite *suite_rd_mix(int first, int last)
{
	Suite *s = suite_create("rd_mix");
	TCase *tc = tcase_create("mix");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, mix, first, last);
	suite_add_tcase(s, tc);
	return s;
}

Suite *suite_rd(void)
{
	Suite *s = suite_create("rd");
	TCase *tc = tcase_create("exact"), *fairness = tcase_create("fair");

	tcase_add_test(tc, calm);
	tcase_add_test(tc, dead_peer);
	tcase_add_test(tc, restart_receiver);
	tcase_add_test(tc, restart_sender);
	tcase_add_test(tc, forgotten);
	tcase_add_test(tc, forged);
	tcase_add_test(tc, flood);
	suite_add_tcase(s, tc);
	tcase_set_timeout(fairness, 120);
	tcase_add_loop_test(fairness, fair, 0, sizeof flow_counts / sizeof *flow_counts);
	suite_add_tcase(s, fairness);
	return s;
}
