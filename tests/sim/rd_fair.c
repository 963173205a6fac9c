/* SPDX-License-Identifier: BSD-2-Clause */
/* Several flows of reliable datagrams through one bottleneck: shares, the queue, the use of the link. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rd_app.h"

/* Flows to one receiver through 100 Mbit/s and a base round trip of 20 ms. */
static void bottleneck(int flows, double loss, double *use, double *jain, double *queue_ms)
{
	struct diw_rd_cfg cfg = rda_cfg();
	uint64_t begin, before[RDN_NODES] = { 0 }, qsum = 0, qn = 0;
	double sum = 0, squares = 0;

	rdn_init(&rda_net, (uint64_t)flows);
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

/* 64 senders that begin at once to send to a receiver with a socket buffer of 400 KiB, which needs 2 us a datagram.
 * Returns datagrams that the buffer had no room for. TOLD: the link knows the buffer's size. */
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

	bottleneck(flow_counts[_i], 0, &use, &jain, &queue);
	printf("rd: %d flows through 100 Mbit/s, 20 ms: use %.3f, Jain index %.3f, queue %.2f ms\n", flow_counts[_i],
	       use, jain, queue);
	ck_assert_double_gt(use, 0.90);
	ck_assert_double_gt(jain, 0.95);
	ck_assert_double_lt(queue, 40);
}
END_TEST

/* Lost datagrams, which are no sign of congestion, cost what is sent again. */
START_TEST(lossy)
{
	double use, jain, queue;

	bottleneck(1, 0.01, &use, &jain, &queue);
	printf("rd: 1 flow through 100 Mbit/s, 20 ms, loss 1 %%: use %.3f, queue %.2f ms\n", use, queue);
	ck_assert_double_gt(use, 0.95);
	ck_assert_double_lt(queue, 20);
}
END_TEST

TCase *tcase_rd_fair(void)
{
	TCase *tc = tcase_create("fair");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, many_to_one);
	tcase_add_test(tc, lossy);
	tcase_add_loop_test(tc, fair, 0, sizeof flow_counts / sizeof *flow_counts);
	return tc;
}
