/* SPDX-License-Identifier: BSD-2-Clause */
/* UC: its Writes, and the pace that its sender keeps (docs/ud-profile.md section 9.1). */
#include <stdlib.h>

#include "tests/sim/sim.h"

static struct ep *a, *b;

/* B's socket holds so many datagrams, some more than our windows are. */
#define TIGHT 100
#define LOOSE 65536

static void uc_begin(uint32_t queue)
{
	struct diw_qp_attr attr;

	sim_begin(1);
	sim.plain = true;
	net_host_add(sim.net);
	net_host_add(sim.net);
	sim.net->max_queue = queue;
	pair_attr(&attr);
	attr.rcvbuf = 256 << 10;
	attr.sq_depth = 512;
	attr.type = DIW_QP_UC;
	attr.local = sim.net->host[0].addr;
	attr.peer = sim.net->host[1].addr;
	attr.local.port = attr.peer.port = 6000;
	a = ep_open(&sim.net->host[0], &attr, 4096, 8, 4000);
	attr.peer = a->addr;
	attr.local = sim.net->host[1].addr;
	attr.local.port = 6000;
	b = ep_open(&sim.net->host[1], &attr, 4096, 8, 4000);
	a->peer = b;
	b->peer = a;
}

static bool written(const struct msg *m)
{
	for (uint32_t i = 0; i < m->length; i++)
		if (m->slot->mem[i] != msg_octet(m, i))
			return false;
	return true;
}

/* A peer that was restarted is heard, wherever its new MSNs begin. */
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

/* ---- Writes that lack octets ---- */

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

/* ---- The pace ---- */

#define PATIENCE DIW_S               /* rdmap/flow.c's, and of who has never answered */
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

/* Ten times what the socket holds, posted at once, arrives; one long message, too. */
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

/* Small ones: there a datagram costs the socket more than its octets. */
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

/* Who never answers delays it once, who has stopped to once for longer. The Write that this cuts in two is given up by
 * its receiver. */
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

/* Whatever is lost, also of questions and answers, everything leaves. */
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

/* ---- Receives that come late ---- */

static int received(int limit)
{
	struct diw_wc wc;
	int n = 0;

	while (n < limit && pair_wc(b, &wc, NULL, 0))
		n++;
	return n;
}

/* More messages than there are receives, which are given back one by one: each is received. */
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

/* Where none is given back what waits is dropped, and what comes after it at once; until there is one again. */
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
	tcase_add_loop_test(tc, late_receives, 0, 2);
	tcase_add_test(tc, no_receives);
	suite_add_tcase(s, tc);
	return s;
}
