/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams: the queues of peers that wait. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "llp/rd.h"
#include "tests/sim/rd_app.h"

#define MANY 16384u
#define LIMIT_US 1.0                 /* of a removal, which takes some 0.01 us */

static struct rd rd;

static void stall_all(struct rd_peer *p, uint32_t n)
{
	rd = (struct rd){ 0 };
	diw_list_init(&rd.stalled);
	for (uint32_t i = 0; i < n; i++) {
		diw_list_init(&p[i].stalled);
		diw_rd_stalled_add(&rd, &p[i]);
	}
	ck_assert_uint_eq(rd.nstalled, n);
}

/* A peer leaves from any place. The others keep their order, and each is there once. */
START_TEST(a_peer_leaves)
{
	struct rd_peer p[5] = { 0 };

	stall_all(p, 5);
	diw_rd_stalled_add(&rd, &p[2]);
	diw_rd_stalled_remove(&rd, &p[_i]);
	diw_rd_stalled_remove(&rd, &p[_i]);
	diw_rd_stalled_add(&rd, &p[_i]);
	ck_assert_uint_eq(rd.nstalled, 5);
	for (int i = 0; i < 5; i++)
		if (i != _i)
			ck_assert_ptr_eq(diw_rd_stalled_take(&rd), &p[i]);
	ck_assert_ptr_eq(diw_rd_stalled_take(&rd), &p[_i]);
	ck_assert_ptr_null(diw_rd_stalled_take(&rd));
	ck_assert_uint_eq(rd.nstalled, 0);
}
END_TEST

static double removal(uint32_t n)
{
	struct rd_peer *p = calloc(n, sizeof *p);
	clock_t begin;

	ck_assert_ptr_nonnull(p);
	stall_all(p, n);
	begin = clock();
	for (uint32_t i = 0; i < n; i++)
		diw_rd_stalled_remove(&rd, &p[(i + n / 2) % n]);
	begin = clock() - begin;
	ck_assert_uint_eq(rd.nstalled, 0);
	free(p);
	return (double)begin / n;
}

/* A removal does not go through the other peers. */
START_TEST(many_peers_leave)
{
	double us = removal(MANY) * 1e6 / CLOCKS_PER_SEC;

	printf("rd: one of %u peers leaves a queue in %.3f us\n", MANY, us);
	ck_assert_double_lt(us, LIMIT_US);
}
END_TEST

static int receives;

static int receives_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	n = n < receives ? n : receives;
	receives -= n;
	return n ? rda_up.rx(ctx, src, segs, n, now) : 0;
}

/* A receiver posts one receive in a millisecond, and has more than that to receive from each of eight peers: each peer
 * gets its share. */
START_TEST(slow_for_all)
{
	struct diw_rd_cfg cfg = rda_cfg();
	struct diw_link_up up = rda_up;
	struct diw_link *l;

	up.rx = receives_rx;
	receives = 0;
	rda_begin(9);
	rdn_stop(&rda_net, 0);
	rdn_start(&rda_net, 0, &cfg, &up);
	l = rda_net.node[0].l;
	for (int ms = 0; ms < 2000; ms++) {
		for (int from = 1; from < 9; from++)
			rda_send_all(from, 0, 1000, 100);
		receives++;
		l->ops->poll(l, 1, rda_net.now);
		l->ops->flush(l, rda_net.now);
		rda_run(DIW_MS);
	}
	for (int from = 1; from < 9; from++)
		ck_assert_uint_gt(rda_app[0].from[from].came, 200);
	rdn_free(&rda_net);
}
END_TEST

TCase *tcase_rd_waiting(void)
{
	TCase *tc = tcase_create("waiting");

	tcase_add_loop_test(tc, a_peer_leaves, 0, 5);
	tcase_add_test(tc, many_peers_leave);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, slow_for_all);
	return tc;
}
