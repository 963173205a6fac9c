/* SPDX-License-Identifier: BSD-2-Clause */
/* Several flows of reliable datagrams through one bottleneck: their shares, the queue, the use of the link. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rd_app.h"

static void stall_node(struct rdn_node *node, uint64_t stall)
{
	uint64_t now = node->net->now;

	if (!stall || now < node->ready_at + DIW_S)
		return;
	node->clock_at = now;
	node->ready_at = now + stall;
}

/* Flows to one receiver through 100 Mbit/s with a base round trip of 20 ms. STALL: once a second each sender gets no
 * processor for that time, between its reading of the clock and its receiving. */
static void bottleneck(int flows, uint64_t seed, double loss, uint64_t stall, double *use, double *jain,
		       double *queue_ms)
{
	struct diw_rd_cfg cfg = rda_cfg();
	uint64_t begin, before[RDN_NODES] = { 0 }, qsum = 0, qn = 0;
	double sum = 0, squares = 0;

	rdn_init(&rda_net, seed);
	memset(rda_app, 0, sizeof rda_app);
	rda_net.latency = 10 * DIW_MS;
	rda_net.rate = 100e6 / 8 / 1e9;
	rda_net.queue = 100 * DIW_MS;
	rda_net.loss = loss;
	for (int i = 0; i <= flows; i++) {
		rdn_start(&rda_net, i, &cfg, &rda_up);
		rda_app[i].life = 1;
	}
	for (begin = rda_net.now; rda_net.now < begin + 30 * DIW_S; rdn_step(&rda_net, rda_net.now + DIW_MS)) {
		for (int i = 1; i <= flows; i++)
			if (rda_net.now >= begin + (uint64_t)i * 50 * DIW_MS)
				rda_send_all(i, 0, 64, 1400);
		for (int i = 1; i <= flows; i++)
			stall_node(&rda_net.node[i], stall);
		if (rda_net.now < begin + 10 * DIW_S) {
			for (int i = 1; i <= flows; i++)
				before[i] = rda_app[0].from[i].bytes;
			qsum = rda_net.node[0].queue_sum, qn = rda_net.node[0].queue_n;
		}
	}
	for (int i = 1; i <= flows; i++) {
		double x = (double)(rda_app[0].from[i].bytes - before[i]);

		sum += x;
		squares += x * x;
	}
	*use = sum / 20e9 / rda_net.rate * (1400 + 28 + 42) / 1400;
	*jain = sum * sum / flows / squares;
	*queue_ms = (double)(rda_net.node[0].queue_sum - qsum) / (double)(rda_net.node[0].queue_n - qn) / 1e6;
	if (getenv("SIM_SEED"))
		rda_account(flows + 1);
	rdn_free(&rda_net);
}

/* 64 senders begin at once to send to a receiver with a socket buffer of 400 KiB, which needs 2 us for a datagram.
 * Returns the datagrams for which the buffer had no room. TOLD: the link knows the buffer's size. */
static uint64_t incast(bool told, uint64_t *came)
{
	const int senders = 64;
	struct diw_rd_cfg cfg = rda_cfg();
	uint64_t overruns, end;

	rdn_init(&rda_net, 7);
	memset(rda_app, 0, sizeof rda_app);
	rda_net.rcvbuf = 416 << 10;
	rda_net.service = 2 * DIW_US;
	cfg.peers = 128;
	for (int i = 0; i <= senders; i++) {
		rdn_start(&rda_net, i, &cfg, &rda_up);
		rda_net.node[i].d.rcvbuf = told ? rda_net.rcvbuf : 0;
		rda_app[i].life = 1;
	}
	*came = 0;
	for (end = rda_net.now + DIW_S / 2; rda_net.now < end; rdn_step(&rda_net, rda_net.now + DIW_MS))
		for (int i = 1; i <= senders; i++)
			rda_send_all(i, 0, 64, 1400);
	for (int i = 1; i <= senders; i++)
		*came += rda_app[0].from[i].came;
	overruns = rda_net.node[0].overruns;
	rdn_free(&rda_net);
	return overruns;
}

START_TEST(many_to_one)
{
	uint64_t came[2], untold = incast(false, &came[0]), told = incast(true, &came[1]);

	printf("rd: 64 senders to one receiver of 500,000 datagrams a second, in 0.5 s: %llu came, %llu overran its "
	       "socket's buffer; without shares %llu and %llu\n", (unsigned long long)came[1], (unsigned long long)told,
	       (unsigned long long)came[0], (unsigned long long)untold);
	ck_assert_uint_gt(untold, 0);
	ck_assert_uint_le(told, untold / 20);
	ck_assert_uint_gt(came[1], 200000);
}
END_TEST

static const int flow_counts[] = { 1, 2, 4, 8, 16 };

START_TEST(fair)
{
	double use, jain, queue;

	bottleneck(flow_counts[_i], (uint64_t)flow_counts[_i], 0, 0, &use, &jain, &queue);
	printf("rd: %d flows through 100 Mbit/s, 20 ms: use %.3f, Jain index %.3f, queue %.2f ms\n", flow_counts[_i],
	       use, jain, queue);
	ck_assert_double_gt(use, 0.90);
	ck_assert_double_gt(jain, 0.95);
	ck_assert_double_lt(queue, 40);
}
END_TEST

/* Sixteen flows that keep the queue from being empty do not go on to take each other for a flow that fills it. */
START_TEST(crowd)
{
	double use, jain, queue;

	bottleneck(16, (uint64_t)_i, 0, 0, &use, &jain, &queue);
	printf("rd: 16 flows, seed %d: use %.3f, Jain index %.3f, queue %.2f ms\n", _i, use, jain, queue);
	ck_assert_double_gt(use, 0.90);
	ck_assert_double_gt(jain, 0.95);
	ck_assert_double_lt(queue, 40);
}
END_TEST

/* Random losses, which are no sign of congestion, cost only their retransmissions. */
START_TEST(lossy)
{
	double use, jain, queue;

	bottleneck(1, 1, 0.01, 0, &use, &jain, &queue);
	printf("rd: 1 flow through 100 Mbit/s, 20 ms, loss 1 %%: use %.3f, queue %.2f ms\n", use, queue);
	ck_assert_double_gt(use, 0.95);
	ck_assert_double_lt(queue, 20);
}
END_TEST

/* A round trip that seems shorter, since the sender read the clock early, does not lower the rate for seconds. */
START_TEST(stalled)
{
	double use, jain, queue;

	bottleneck(1, 1, 0, 900 * DIW_US, &use, &jain, &queue);
	printf("rd: 1 flow through 100 Mbit/s, 20 ms, sender stalled for 0.9 ms each second: use %.3f, queue %.2f ms\n",
	       use, queue);
	ck_assert_double_gt(use, 0.90);
	ck_assert_double_lt(queue, 20);
}
END_TEST

/* ---- Beside TCP ---- */

#define TCP_SEG 1448u                /* octets of payload; on the wire with headers: */
#define TCP_WIRE 1514u
#define TCP_WAY 4096u

/* A flow of TCP cubic (RFC 9438) through the bottleneck to node 0, of which only the window is simulated. */
static struct tcp {
	double window, threshold, most, origin;  /* segments; `most`: when it lost last, `origin`: of the curve */
	uint64_t epoch, until;               /* of the curve; losses until then are one */
	struct { uint64_t at; bool lost; } way[TCP_WAY];
	uint32_t head, tail;
	uint64_t came;
} tcp;

static void tcp_lost(uint64_t now)
{
	if (now < tcp.until)
		return;
	tcp.origin = tcp.most = tcp.window < tcp.most ? tcp.window * 0.85 : tcp.window;
	tcp.window = tcp.threshold = tcp.window * 0.7;
	tcp.epoch = now;
	tcp.until = now + 2 * rda_net.latency + rda_net.queue;
}

static void tcp_acked(uint64_t now)
{
	const double c = 0.4, k = cbrt(tcp.origin * 0.3 / c), t = (double)(now - tcp.epoch) / 1e9;
	double target = c * (t - k) * (t - k) * (t - k) + tcp.origin;

	tcp.came += TCP_SEG;
	if (tcp.window < tcp.threshold)
		tcp.window++;
	else if (target > tcp.window)
		tcp.window += (target > 1.5 * tcp.window ? 0.5 * tcp.window : target - tcp.window) / tcp.window;
	else
		tcp.window += 0.01 / tcp.window;
}

static void tcp_run(uint64_t now)
{
	struct rdn_node *to = &rda_net.node[0];

	for (; tcp.head != tcp.tail && tcp.way[tcp.head % TCP_WAY].at <= now; tcp.head++) {
		if (tcp.way[tcp.head % TCP_WAY].lost)
			tcp_lost(now);
		else
			tcp_acked(now);
	}
	while (tcp.tail - tcp.head < tcp.window && tcp.tail - tcp.head < TCP_WAY) {
		uint64_t begin = to->busy_until > now ? to->busy_until : now;
		bool lost = begin - now > rda_net.queue;

		if (!lost)
			to->busy_until = begin = begin + (uint64_t)(TCP_WIRE / rda_net.rate);
		tcp.way[tcp.tail % TCP_WAY].at = begin + 2 * rda_net.latency;
		tcp.way[tcp.tail++ % TCP_WAY].lost = lost;
	}
}

/* Through 100 Mbit/s, 20 ms and a queue of 50 ms: shares of the rate, of the seconds FROM to TO. */
static void beside(uint32_t from, uint32_t to, double *rd, double *cubic)
{
	struct diw_rd_cfg cfg = rda_cfg();
	uint64_t begin, before[2] = { 0 };

	rdn_init(&rda_net, 1);
	memset(rda_app, 0, sizeof rda_app);
	rda_net.latency = 10 * DIW_MS;
	rda_net.rate = 100e6 / 8 / 1e9;
	rda_net.queue = 50 * DIW_MS;
	tcp = (struct tcp){ .window = 10, .threshold = 1e9 };
	for (int i = 0; i < 2; i++) {
		rdn_start(&rda_net, i, &cfg, &rda_up);
		rda_app[i].life = 1;
	}
	for (begin = rda_net.now; rda_net.now < begin + to * DIW_S; rdn_step(&rda_net, rda_net.now + DIW_MS)) {
		rda_send_all(1, 0, 64, 1400);
		tcp_run(rda_net.now);
		if (rda_net.now >= begin + from * DIW_S)
			continue;
		before[0] = rda_app[0].from[1].bytes;
		before[1] = tcp.came;
	}
	*rd = (double)(rda_app[0].from[1].bytes - before[0]) / (double)(to - from) / 1e9 / rda_net.rate;
	*cubic = (double)(tcp.came - before[1]) / (double)(to - from) / 1e9 / rda_net.rate;
	rdn_free(&rda_net);
}

START_TEST(beside_cubic)
{
	double rd[2], cubic[2];

	beside(2, 10, &rd[0], &cubic[0]);
	beside(10, 40, &rd[1], &cubic[1]);
	printf("rd: beside TCP cubic through 100 Mbit/s, 20 ms, queue 50 ms: %.0f %% and %.0f %% in the seconds 2 to "
	       "10, %.0f %% and %.0f %% in the seconds 10 to 40\n", 100 * rd[0], 100 * cubic[0], 100 * rd[1],
	       100 * cubic[1]);
	ck_assert_double_gt(rd[0], 0.15);
	ck_assert_double_gt(rd[1], 0.3);
	ck_assert_double_gt(cubic[1], 0.3);
}
END_TEST

static uint32_t window_to(int node)
{
	struct diw_stat_peer row[4];
	struct diw_link *l = rda_net.node[0].l;
	uint32_t all, n = l->ops->peers(l, row, 4, &all);

	for (uint32_t i = 0; i < n; i++)
		if (row[i].addr.ip[15] == node + 1)
			return row[i].window;
	return 0;
}

/* A receiver that is slow to wake answers the first segments behind each pause late. That is no queue of which a flow
 * has a part to drain: the window is not halved each time. */
START_TEST(pauses)
{
	uint32_t window;

	rda_begin(2);
	rda_net.latency = 10 * DIW_MS;
	for (int i = 0; i < 100; i++) {
		rda_send_all(0, 1, 2000, 1000);
		rda_run(10 * DIW_MS);
	}
	rda_run(DIW_S);
	window = window_to(1);
	for (int i = 0; i < 10; i++) {
		rda_run(DIW_S);
		rda_net.node[1].late = 12 * DIW_MS;
		rda_send_all(0, 1, 32, 1000);
		rda_run(15 * DIW_MS);
		rda_net.node[1].late = 0;
		rda_send_all(0, 1, 16, 1000);
		rda_run(200 * DIW_MS);
	}
	ck_assert_uint_ge(window_to(1), window / 8);
	rdn_free(&rda_net);
}
END_TEST

TCase *tcase_rd_fair(void)
{
	TCase *tc = tcase_create("fair");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, many_to_one);
	tcase_add_loop_test(tc, crowd, 1, 11);
	tcase_add_test(tc, pauses);
	tcase_add_test(tc, lossy);
	tcase_add_test(tc, stalled);
	tcase_add_test(tc, beside_cubic);
	tcase_add_loop_test(tc, fair, 0, sizeof flow_counts / sizeof *flow_counts);
	return tc;
}
