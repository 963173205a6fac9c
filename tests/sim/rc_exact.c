/* SPDX-License-Identifier: BSD-2-Clause */
/* RC scenarios one by one: those that seeds of the mix have found, and those that the mix cannot distinguish. */
#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "tests/sim/rc.h"
#include "verbs/cq.h"

/* One connection between two hosts, accepted; nothing is random. */
static struct rc_conn *begin(void)
{
	sim_begin(1);
	sim.streams = sim.plain = true;
	sim.net->stream_window = 65536;
	rc = (struct rc_world){ .nhosts = 2, .calm = true };
	rc_open_host(&rc.host[0]);
	rc_open_host(&rc.host[1]);
	rc_open(&rc.host[0], &rc.host[1]);
	return &rc.conn[0];
}

static void establish(struct rc_conn *c)
{
	while (net_step(sim.net, sim.net->now + DIW_S)) {
		rc_events(&rc.host[0]);
		rc_events(&rc.host[1]);
	}
	must(c->end[0].up && c->end[1].up, "it is not established");
}

static void end(struct rc_conn *c)
{
	net_run(sim.net, 60 * DIW_S);
	for (int i = 0; i < 2; i++) {
		rc_events(&rc.host[i]);
		while (rc_poll(&c->end[i], 64))
			;
	}
	rc_close(c);
	rc_close_host(&rc.host[0]);
	rc_close_host(&rc.host[1]);
	net_run(sim.net, DIW_S);
	net_free(sim.net);
	sim.net = NULL;
}

/* An aborted attempt leaves no timer. A timer that is always due would keep net_run() from returning. */
START_TEST(aborted_attempt_is_quiet)
{
	struct rc_conn *c = begin();

	rc_abort(&c->end[0]);
	rc_abort(&c->end[1]);
	end(c);
}
END_TEST

/* A Send has left behind a Read that is not answered yet. If the Read is flushed, all requests behind it must be
 * flushed. */
START_TEST(nothing_succeeds_behind_a_failure)
{
	struct rc_conn *c = begin();
	struct rc_end *e = &c->end[0];
	struct diw_sge sge = { (void *)(uintptr_t)RC_IOVA, 100, e->mr->stag };
	struct diw_send_wr wr[2] = {
		{ .next = &wr[1], .wr_id = 1, .opcode = DIW_WR_READ, .stag = e->peer->source_mr->stag },
		{ .wr_id = 2, .opcode = DIW_WR_WRITE, .stag = e->peer->mr->stag, .to = RC_IOVA },
	};
	struct diw_wc wc[2];

	establish(c);
	for (int i = 0; i < 2; i++) {
		wr[i].sge = &sge;
		wr[i].num_sge = 1;
		wr[i].flags = DIW_SEND_SIGNALED;
	}
	sge.length = 1;
	ck_assert_int_eq(diw_post_send(e->qp, wr, NULL), 0);
	rc_abort(e);
	for (int n = 0; n < 2; n++) {
		while (diw_cq_poll(e->scq, &wc[n], 1, 0) == 0)
			must(net_step(sim.net, sim.net->now + DIW_S), "no completion");
		if (wc[n].opcode == DIW_WC_RECV) {
			rc_received(e, &wc[n--]);
			continue;
		}
		ck_assert_uint_eq(wc[n].wr_id, (uint64_t)n + 1);
		ck_assert_int_eq(wc[n].status, DIW_WC_FLUSHED);
	}
	end(c);
}
END_TEST

/* Posts empty Sends until E has no receive for the last one. Returns its time. */
static uint64_t use_up(struct rc_end *e)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };
	struct rc_rq *rq = e->rq;
	struct diw_wc wc;

	for (int i = 0; i <= RC_RECVS; i++) {
		ck_assert_int_eq(diw_post_send(e->peer->qp, &wr, NULL), 0);
		net_run(sim.net, DIW_MS);
		if (i == RC_RECVS || !rq->recvs[i].posted)
			break;
		ck_assert_int_eq(diw_cq_poll(e->rcq, &wc, 1, 0), 1);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		rq->next++;
		rq->recvs[i].posted = false;
	}
	return sim.net->now - DIW_MS;
}

/* A message waits for a receive for the time of the attribute, and not longer; then both ends get the error. */
START_TEST(no_receive_comes)
{
	struct rc_conn *c = begin();
	uint64_t limit = (uint64_t)c->end[1].attr.rc.rnr_timeout_ns, begun;
	struct diw_cm_event ev;

	establish(c);
	c->harmed = true;
	begun = use_up(&c->end[1]);
	net_run(sim.net, limit - 2 * DIW_MS);
	ck_assert_int_eq(diw_cm_get(rc.host[1].cm, &ev, 0), -EAGAIN);
	must(sim.net->now < begun + limit, "the time is over");
	net_run(sim.net, 2 * DIW_MS);
	rc_events(&rc.host[0]);
	rc_events(&rc.host[1]);
	must(c->end[0].over && c->end[1].over, "it has not ended");
	ck_assert_uint_eq(c->end[0].fault, DIW_FAULT_NO_BUFFER);
	ck_assert_uint_eq(c->end[1].fault, DIW_FAULT_NO_BUFFER);
	end(c);
}
END_TEST

/* Posting a receive that a message waits for wakes a sleeping thread. */
START_TEST(receive_comes_late)
{
	struct rc_conn *c = begin();
	struct diw_wc wc;

	sim.net->strict = true;
	establish(c);
	use_up(&c->end[1]);
	net_run(sim.net, 100 * DIW_MS);
	rc_post_recvs(&c->end[1], 1);
	net_run(sim.net, DIW_US);
	must(atomic_load(&c->end[1].rcq->head) != atomic_load(&c->end[1].rcq->tail), "it still waits");
	ck_assert_int_eq(diw_cq_poll(c->end[1].rcq, &wc, 1, 0), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	c->end[1].rq->recvs[0].posted = false;
	c->end[1].rq->next++;
	rc_disconnect(&c->end[0]);
	end(c);
}
END_TEST

/* The wait for a peer that does not end its half is limited to ten seconds (diw_disconnect()). */
START_TEST(peer_never_ends)
{
	struct rc_conn *c = begin();

	c->attr[1].keepalive_s = 0;
	establish(c);
	c->harmed = true;
	must(net_stream_sever(sim.net, &c->addr[0], &c->addr[1]), "there is no stream");
	rc_disconnect(&c->end[1]);
	net_run(sim.net, 9 * DIW_S);
	rc_events(&rc.host[1]);
	must(!c->end[1].over, "it was not waited for");
	net_run(sim.net, 2 * DIW_S);
	rc_events(&rc.host[1]);
	must(c->end[1].over, "it is still waited for");
	ck_assert_int_eq(c->end[1].errnum, ETIMEDOUT);
	end(c);
}
END_TEST

#define PIECE (256u << 10)           /* four windows of the stream */

/* E writes data that is there already. */
static void post_writes(struct rc_end *e, uint64_t n)
{
	struct diw_sge sge = { (void *)(uintptr_t)RC_IOVA, PIECE, e->mr->stag };
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .flags = DIW_SEND_SIGNALED, .sge = &sge, .num_sge = 1,
				  .stag = e->peer->mr->stag, .to = RC_IOVA };

	for (wr.wr_id = 1; wr.wr_id <= n; wr.wr_id++)
		must(diw_post_send(e->qp, &wr, NULL) == 0, "a Write cannot be posted");
}

/* Both ends disconnect behind requests of which only the first has begun: all requests of both are executed. */
START_TEST(both_disconnect)
{
	struct rc_conn *c = begin();
	uint64_t seen[2] = { 0 };
	struct diw_wc wc;

	establish(c);
	for (int i = 0; i < 2; i++) {
		post_writes(&c->end[i], i ? 4 : 1);
		rc_disconnect(&c->end[i]);
	}
	while (!c->end[0].over || !c->end[1].over) {
		must(net_step(sim.net, sim.net->now + 5 * DIW_S), "they do not end");
		for (int i = 0; i < 2; i++) {
			rc_events(&rc.host[i]);
			while (diw_cq_poll(c->end[i].scq, &wc, 1, 0) == 1) {
				if (wc.opcode == DIW_WC_RECV) {
					rc_received(&c->end[i], &wc);
					continue;
				}
				ck_assert_uint_eq(wc.wr_id, ++seen[i]);
				ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
			}
		}
	}
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(seen[i], i ? 4 : 1);
		ck_assert_int_eq(c->end[i].errnum, 0);
	}
	end(c);
}
END_TEST

/* The wait for a peer that has ended its half and never reads is limited to ten seconds. */
START_TEST(half_closed_peer_never_reads)
{
	struct rc_conn *c = begin();
	struct rc_end *e = &c->end[1];
	struct diw_wc wc;
	uint64_t n = 0;

	c->attr[1].keepalive_s = 0;
	establish(c);
	c->harmed = true;
	post_writes(e, 4);
	rc_disconnect(e->peer);
	while (rc_state(e) != DIW_QPS_CLOSING)
		must(net_step(sim.net, sim.net->now + DIW_S), "the end does not come");
	sim.net->block = 1;                     /* the stream takes no more bytes */
	must(net_stream_sever(sim.net, &c->addr[0], &c->addr[1]), "there is no stream");
	net_run(sim.net, 9 * DIW_S);
	rc_events(&rc.host[1]);
	must(!e->over, "it was not waited for: %s", strerror(e->errnum));
	net_run(sim.net, 2 * DIW_S);
	rc_events(&rc.host[1]);
	must(e->over, "it is still waited for");
	ck_assert_int_eq(e->errnum, ETIMEDOUT);
	while (n < 4) {                         /* flushed requests come when the completions before them are taken */
		while (diw_cq_poll(e->scq, &wc, 1, 0) == 1)
			if (wc.opcode != DIW_WC_RECV)
				ck_assert(wc.wr_id == ++n && (wc.status == DIW_WC_FLUSHED || n == 1));
			else
				rc_received(e, &wc);
		must(n == 4 || net_step(sim.net, sim.net->now + DIW_S), "there are %lu completions", n);
	}
	end(c);
}
END_TEST

TCase *tcase_rc_exact(void)
{
	TCase *tc = tcase_create("exact");

	tcase_add_test(tc, aborted_attempt_is_quiet);
	tcase_add_test(tc, nothing_succeeds_behind_a_failure);
	tcase_add_test(tc, no_receive_comes);
	tcase_add_test(tc, receive_comes_late);
	tcase_add_test(tc, peer_never_ends);
	tcase_add_test(tc, both_disconnect);
	tcase_add_test(tc, half_closed_peer_never_reads);
	return tc;
}
