/* SPDX-License-Identifier: BSD-2-Clause */
/* The random mix of RC: a seed chooses the network, the queue pairs, the applications' calls, and the harm done. */
#include <errno.h>
#include <string.h>

#include "mpa/int.h"
#include "tests/sim/rc.h"
#include "verbs/qp.h"

#define PATIENCE 60                  /* seconds after which everything must have ended */

struct rc_world rc;

static void for_each_end(void (*fn)(struct rc_end *e))
{
	for (int i = 0; i < 2 * rc.nconns; i++)
		fn(&rc.conn[i / 2].end[i % 2]);
}

static void choose_world(void)
{
	struct net *net = sim.net;

	rc.calm = chance(0.4);
	rc.attentive = rc.calm || chance(0.5);
	net->strict = chance(0.7);
	net->latency = 1 + below(chance(0.7) ? 200 : 20000) * DIW_US;
	net->jitter = chance(0.5) ? 1 + below(300) * DIW_US : 0;
	net->block = chance(0.5) ? below(50) / 100.0 : 0;
	net->accept_fails = chance(0.2) ? 0.3 : 0;
	net->slow = !rc.calm && chance(0.1) ? 0.5 : 0;
	rc.nhosts = chance(0.85) ? 2 : 1;
	for (int i = 0; i < rc.nhosts; i++)
		rc_open_host(&rc.host[i]);
}

static void open_conn(void)
{
	struct rc_host *from = &rc.host[below((uint32_t)rc.nhosts)];

	rc_open(from, &rc.host[below((uint32_t)rc.nhosts)]);
	if (sim.net->slow)
		rc.conn[rc.nconns - 1].harmed = true;
}

/* ---- Harm to a connection ---- */

static void harm(struct rc_conn *c)
{
	struct rc_end *e = &c->end[below(2)];

	if (!e->qp)
		return;
	switch (below(8)) {
	case 0:
		rc_abort(e);
		break;
	case 1:
		if (c->answered && net_stream_reset(sim.net, &c->addr[0], &c->addr[1])) {
			say("conn%d: is reset", c->index);
			c->harmed = true;
		}
		break;
	case 2:
		if (c->answered && chance(0.5) && net_stream_sever(sim.net, &c->addr[0], &c->addr[1])) {
			say("conn%d: is severed", c->index);
			c->harmed = c->severed = true;
		}
		break;
	case 3:
		rc_destroy(e);
		break;
	case 4:
		rc_post_bad(e);
		break;
	default:
		rc_disconnect(e);
	}
}

/* ---- Calls of applications ---- */

static bool looked_in_vain;

static void poll_all(struct rc_end *e)
{
	while (rc_poll(e, 1 + (int)below(64)))
		looked_in_vain = false;
	if (rc_state(e) != DIW_QPS_ERROR)       /* otherwise they would be flushed without end */
		rc_post_recvs(e, RC_RECVS);
}

/* False: there was nothing to do. */
static bool look_after(void)
{
	looked_in_vain = true;
	for (int i = 0; i < rc.nhosts; i++)
		rc_events(&rc.host[i]);
	for_each_end(poll_all);
	return !looked_in_vain;
}

static void sleep_long(void)
{
	if (!rc.attentive)
		for (int i = 0; i < rc.nconns; i++)
			rc.conn[i].harmed = true;       /* the time limit for a receive may pass */
	net_run(sim.net, rc.attentive ? below(100) * DIW_MS : below(7000) * DIW_MS);
}

static void act(void)
{
	struct rc_conn *c = &rc.conn[below((uint32_t)rc.nconns)];
	struct rc_end *e = &c->end[below(2)];

	switch (below(12)) {
	case 0: case 1:
		rc_poll(e, 1 + (int)below(20));
		break;
	case 2: case 3:
		rc_post_recvs(e, 1 + (int)below(12));
		break;
	case 4:
		rc_check(e);
		break;
	case 5:
		if (!rc.calm && chance(0.15))
			harm(c);
		else if (chance(0.05))
			sleep_long();
		break;
	case 6:
		rc_events(e->host);
		break;
	case 7:
		if (rc.nconns < RC_CONNS && chance(0.1))
			open_conn();
		break;
	default:
		for (uint32_t n = 1 + below(4); n > 0; n--)
			rc_post(e);
	}
}

/* ---- The end ---- */

/* The responder may not send before the initiator has sent (RFC 5044 section 7.1.2). */
static void speak_first(struct rc_end *e)
{
	bool silent = e->index % 2 == 0 && e->up && !e->over;

	for (uint32_t i = 0; i < e->nmsgs; i++)
		silent &= e->msgs[i].kind >= RC_BIND;
	if (silent)
		rc_post_write(e);
}

static bool busy(struct rc_end *e)
{
	struct diw_qp_info info;

	if (!e->qp)
		return false;
	must(diw_qp_query(e->qp, &info) == 0, "diw_qp_query");
	return info.sq_pending || info.state == DIW_QPS_CONNECTING || info.state == DIW_QPS_CLOSING;
}

static bool ended(struct rc_end *e)
{
	bool asked = e->index % 2 == 0 || e->conn->answered;

	return !e->qp || ((e->over || e->left || !asked) && !busy(e));
}

static bool all(bool (*fn)(struct rc_end *e))
{
	for (int i = 0; i < 2 * rc.nconns; i++)
		if (!fn(&rc.conn[i / 2].end[i % 2]))
			return false;
	return true;
}

static bool idle(struct rc_end *e)
{
	return e->conn->severed || ((e->up || e->conn->harmed || !e->qp) && !busy(e));
}

/* Runs until FN is true of all ends, and nothing is on its way. BEFORE is called before each step. */
static void until(bool (*fn)(struct rc_end *e), void (*before)(struct rc_end *e), const char *what)
{
	uint64_t end = sim.net->now + PATIENCE * DIW_S;

	while (look_after() || !all(fn) || net_streams_next(sim.net) < sim.net->now + DIW_S) {
		for_each_end(before);
		net_run(sim.net, 5 * DIW_MS);
		must(sim.net->now < end, "connections are not %s after a minute", what);
	}
}

/* An idle connection holds no buffers. */
static void check_buffers(struct rc_end *e)
{
	struct diw_mpa *m = e->qp && e->qp->link ? diw_mpa_of(e->qp->link) : NULL;

	must(!m || (!m->tx_own && !m->rx_own), "end%d: keeps a buffer", e->index);
}

/* One of the ends ends the connection as soon as possible. */
static void end_it(struct rc_end *e)
{
	if (!e->qp || e->over || e->left || e->disconnects || (e->peer->disconnects && chance(0.9)) || chance(0.3))
		return;
	if (rc.calm || chance(0.6))
		rc_disconnect(e);
	else if (e->index % 2 == 0 || e->conn->answered)
		rc_abort(e);
}

static bool all_harmless(void)
{
	for (int i = 0; i < rc.nconns; i++)
		if (rc.conn[i].harmed)
			return false;
	return true;
}

static void end_world(void)
{
	for (int i = 0; i < rc.nconns; i++)
		rc_close(&rc.conn[i]);
	for (int i = 0; i < rc.nhosts; i++)
		rc_close_host(&rc.host[i]);
	say("%u Sends, %u Writes, %u Reads, %u + %u atomics, %u binds, %u invalidations; %u flushed; %llu bytes",
	    rc.done[RC_SEND], rc.done[RC_WRITE], rc.done[RC_READ], rc.done[RC_ADD], rc.done[RC_SWAP], rc.done[RC_BIND],
	    rc.done[RC_INV], rc.flushed, (unsigned long long)sim.net->stream_bytes);
	net_run(sim.net, 10);
	net_free(sim.net);
	sim.net = NULL;
}

START_TEST(mix_of_everything)
{
	sim_begin((uint64_t)_i);
	sim.streams = true;
	rc = (struct rc_world){ 0 };
	choose_world();
	open_conn();
	for (int n = 100 + (int)below(200); n > 0; n--) {
		act();
		if (chance(0.8))
			net_run(sim.net, below(300) * DIW_US);
	}
	if (rc.calm || chance(0.3))
		until(idle, speak_first, "idle");
	if (all_harmless() && rc.calm)
		for_each_end(check_buffers);
	until(ended, end_it, "over");
	end_world();
}
END_TEST

Suite *suite_rc_mix(int first, int last)
{
	Suite *s = suite_create("rc mix");
	TCase *tc = tcase_create("seeds");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, mix_of_everything, first, last);
	suite_add_tcase(s, tc);
	return s;
}
