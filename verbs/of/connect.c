/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC queue pairs that are connected by ibv_modify_qp(3) alone.
 *
 * The number of such a queue pair contains a TCP port and a slot of that port; 255 queue pairs share a listener. With
 * RTR both ends know each other's number and address. The end with the smaller pair connects to the other. A queue pair
 * that is its own peer makes no connection. The private data of request and reply name both queue pairs; a request for
 * another queue pair is refused.
 *
 * A request that comes before this end's RTR waits for it. It waits also while this end has not been reset yet, since
 * the peer may restart first. The thread of the context's loop fetches the events of connection management.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "verbs/of/bridge.h"
#include "verbs/of/of.h"
#include "wire/private.h"

#define SLOTS 256                    /* of a port; slot 0 would be the number of a UDP port */
/* One end may reach RTR long before the other: RC has no timer before a message is sent. */
#define PATIENCE_NS (3600ll * 1000000000)
/* A peer that does not answer for this time counts as gone. No program relies on a shorter time. */
#define GRACE_NS (10ll * 1000000000)
#define RETRIES_MIN_NS (100ll * 1000000)
#define RETRIES_MAX_NS (1ll * 1000000000)
#define MAX_HALFOPEN 64
#define PSN 0xffffffu
#define KEEPALIVE_S 10
#define LOOK_NS (1000 * DIW_MS)

struct of_rc_port {
	struct of_rc_port *next;
	struct diw_listener *listener;
	uint16_t port;
	uint16_t used, last;         /* used slots; the last one assigned, since a number is reused as late as
				      * possible */
	struct of_qp *qps[SLOTS];
};

/* The state of a context that has RC queue pairs. */
struct of_rc {
	struct of_context *ctx;
	struct diw_loop_cm conns;    /* in the context's loop; no queue pair is destroyed while an event names it */
	struct diw_watch look;       /* checks queue pairs whose peers do not connect */
	struct diw_loop_thread *thread;      /* set by of_rc_unused(): to be joined */
	unsigned used;               /* slots in use, of all ports */
	struct of_rc_port *ports;
};

static bool is_peer(const struct of_qp *qp, const struct diw_qp_hello *h)
{
	return h->to == qp->qp.qp_num && h->from == qp->attr.dest_qp_num;
}

/* ---- When requests are complete ---- */

/* A bit for each TCP port on which queue pairs of this process listen. */
static _Atomic uint8_t ours[65536 / 8];

static bool port_is_ours(const struct of_qp *qp)
{
	uint32_t port = qp->attr.dest_qp_num & 0xffff;
	const struct of_context *ctx = qp->ctx;

	for (int i = 0; i < ctx->ngids; i++)
		if (memcmp(ctx->gids[i].ip, qp->peer.ip, sizeof qp->peer.ip) == 0)
			return ours[port / 8] & 1u << port % 8;
	return false;
}

/* A channel adapter's completion means that the peer has the data. Programs rely on that: a message through a third
 * process may overtake the data. So queue pairs of personality `ca` wait for placement. An RNIC's completion does not
 * mean it (RFC 5040 section 5.5). So in personality `rnic` only queue pairs with both ends in one program wait: the
 * program may read the data without having received a message about it. */
static bool wants_confirmation(const struct of_qp *qp)
{
	const char *env = getenv("DIWARP_CONFIRM");

	if (env && strcmp(env, "off") == 0)
		return false;
	if (env && *env && strcmp(env, "on") != 0)
		diw_log(DIW_LOG_TELL, "DIWARP_CONFIRM=%.64s: neither on nor off; it is ignored", env);
	return (env && strcmp(env, "on") == 0) || !qp->rnic || (!qp->claimed && port_is_ours(qp));
}

/* ---- Numbers ---- */

static int start_listening(struct of_context *ctx);

static struct of_rc_port *new_port(struct of_rc *rc)
{
	struct of_rc_port *p = calloc(1, sizeof *p);
	struct diw_listener_info info;
	struct diw_listen_attr a = DIW_LISTEN_ATTR_INIT;

	if (!p)
		return NULL;
	a.backlog = 2 * SLOTS;
	a.max_halfopen = MAX_HALFOPEN;
	a.request_timeout_ns = PATIENCE_NS;
	a.ctx = p;
	errno = -diw_listen(rc->conns.cm, &a, &p->listener);
	if (errno) {
		free(p);
		return NULL;
	}
	diw_listener_query(p->listener, &info);
	p->port = info.local.port;
	atomic_fetch_or(&ours[p->port / 8], (uint8_t)(1u << p->port % 8));
	p->next = rc->ports;
	rc->ports = p;
	return p;
}

static uint32_t take_slot(struct of_rc_port *p, struct of_qp *qp)
{
	do
		p->last = p->last % (SLOTS - 1) + 1;
	while (p->qps[p->last]);
	p->qps[p->last] = qp;
	p->used++;
	return (uint32_t)p->last << 16 | p->port;
}

int of_rc_listen(struct of_qp *qp, uint32_t *num)
{
	struct of_context *ctx = qp->ctx;
	struct of_rc_port *p;
	int rc = ctx->rc ? 0 : start_listening(ctx);

	if (rc)
		return rc;
	for (p = ctx->rc->ports; p && p->used == SLOTS - 1; p = p->next)
		;
	if (!p)
		p = new_port(ctx->rc);
	if (!p)
		return errno;
	qp->port = p;
	ctx->rc->used++;
	*num = qp->qp.qp_num = take_slot(p, qp);
	return 0;
}

static void drop_request(struct of_qp *qp)
{
	if (qp->req)
		diw_reject(qp->req, NULL, 0);
	qp->req = NULL;
}

/* Keeps a request that waits: it is from a peer that has restarted. */
void of_rc_forget(struct of_qp *qp)
{
	diw_qp_withdraw(qp->diw);
	qp->connector = qp->connected = qp->knows_psn = qp->claimed = false;
}

void of_rc_unlisten(struct of_qp *qp)
{
	struct of_rc_port *p = qp->port;

	if (!p)
		return;
	drop_request(qp);
	p->qps[qp->qp.qp_num >> 16] = NULL;
	p->used--;
	qp->ctx->rc->used--;
	qp->port = NULL;
}

struct of_qp *of_rc_find(struct of_context *ctx, uint32_t num)
{
	struct of_rc_port *p = ctx->rc ? ctx->rc->ports : NULL;

	while (p && p->port != (num & 0xffff))
		p = p->next;
	return p && num >> 16 < SLOTS ? p->qps[num >> 16] : NULL;
}

/* An adapter gives up a peer only after retry_cnt retries of its timeout (InfiniBand Architecture Specification, volume
 * 1, "Local Ack Timeout": 4.096 us * 2^n). So a program may poll the completions of its other queue pairs first. Here
 * the end of the stream would report the loss at once, so requests are kept for as long as the retries would take. */
static int64_t retries_ns(const struct of_qp *qp)
{
	int64_t ns = (4096ll << (qp->attr.timeout & 31)) * (qp->attr.retry_cnt + 1);

	if (qp->attr.timeout == 0 || ns > RETRIES_MAX_NS)
		return RETRIES_MAX_NS;
	return ns < RETRIES_MIN_NS ? RETRIES_MIN_NS : ns;
}

void of_rc_claim(struct of_qp *qp)
{
	drop_request(qp);
	qp->claimed = true;
	if (!qp->rnic)
		diw_qp_set_retry(qp->diw, retries_ns(qp));
	diw_qp_confirm(qp->diw, wants_confirmation(qp));
}

/* ---- Connecting ---- */

static bool qp_connects(const struct of_qp *qp)
{
	const struct of_context *ctx = qp->ctx;
	const struct diw_addr *own = &ctx->gids[qp->attr.ah_attr.grh.sgid_index];

	if (qp->qp.qp_num != qp->attr.dest_qp_num)
		return qp->qp.qp_num < qp->attr.dest_qp_num;
	return memcmp(own->ip, qp->peer.ip, sizeof own->ip) < 0;
}

static void of_conn_attr(struct diw_conn_attr *a, const struct of_qp *qp, uint8_t hello[DIW_QP_HELLO_LEN])
{
	diw_qp_hello_put(hello, &(struct diw_qp_hello){ qp->qp.qp_num, qp->attr.dest_qp_num, qp->attr.rq_psn & PSN });
	*a = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	a->data = hello;
	a->data_len = DIW_QP_HELLO_LEN;
	a->ird = qp->attr.max_dest_rd_atomic;   /* one more, for the Read that asks for confirmation */
	a->ird += a->ird < OF_MAX_RD_ATOM;
	a->ord = OF_MAX_RD_ATOM;                /* RTS will set it; the peer's IRD is the limit */
	a->rtr = DIW_RTR_FPDU | DIW_RTR_WRITE;
	a->timeout_ns = PATIENCE_NS;
	a->keepalive_s = KEEPALIVE_S;
	a->dscp = qp->attr.ah_attr.grh.traffic_class >> 2;
	a->connect.local = qp->ctx->gids[qp->attr.ah_attr.grh.sgid_index];
}

static bool is_self(const struct of_qp *qp)
{
	const struct of_context *ctx = qp->ctx;

	if (qp->attr.dest_qp_num != qp->qp.qp_num)
		return false;
	for (int i = 0; i < ctx->ngids; i++)
		if (memcmp(ctx->gids[i].ip, qp->peer.ip, sizeof qp->peer.ip) == 0)
			return true;
	return false;
}

/* Answers the peer's request if this end is ready for it. False: there is no valid request, and another may come. */
static bool rc_answer(struct of_qp *qp)
{
	uint8_t hello[DIW_QP_HELLO_LEN];
	struct diw_conn_attr a;

	of_conn_attr(&a, qp, hello);
	if (diw_accept(qp->req, qp->diw, &a) < 0) {
		drop_request(qp);
		return false;
	}
	qp->req = NULL;
	qp->peer_rq_psn = qp->req_psn;
	qp->knows_psn = true;
	return true;
}

/* InfiniBand Architecture Specification, volume 1, "Encoding for RNR NAK timer field": values grow from 10 us in
 * factors of about 1.4; 0 is the longest. */
static int64_t rnr_timer_ns(unsigned code)
{
	static const uint32_t us10[32] = { 65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512,
					   768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
					   49152 };

	return us10[code & 31] * 10000ll;
}

/* The peer need not exist: then no connection comes about, and requests fail as to a peer that does not answer. */
int of_rc_rtr(struct of_qp *qp)
{
	uint8_t hello[DIW_QP_HELLO_LEN];
	struct diw_conn_attr a;

	if (qp->claimed || qp->attr.dest_qp_num == DIW_OF_QPN_CM)
		return 0;
	qp->connector = is_self(qp) || qp_connects(qp);
	diw_qp_confirm(qp->diw, wants_confirmation(qp));
	if (!qp->rnic)
		diw_qp_set_rnr(qp->diw, 7, rnr_timer_ns(qp->attr.min_rnr_timer));
	/* Hold requests until the peer's first PSN is known. */
	diw_qp_hold(qp->diw, !qp->rnic);
	if (!qp->connector) {
		if (qp->req && (qp->req_from != qp->attr.dest_qp_num || !rc_answer(qp)))
			drop_request(qp);
		return 0;
	}
	drop_request(qp);
	of_conn_attr(&a, qp, hello);
	a.connect.self = is_self(qp);
	return -diw_connect(qp->diw, qp->ctx->rc->conns.cm, &qp->peer, &a);
}

/* Sets the limits of the sender's rnr_retry and the receiver's min_rnr_timer. A Send can fail because its peer has no
 * receive only while it is pending. */
void of_rc_limits(struct of_qp *qp)
{
	if (qp->rnic || qp->claimed)
		return;
	diw_qp_set_retry(qp->diw, retries_ns(qp));
	diw_qp_set_rnr(qp->diw, qp->attr.rnr_retry, rnr_timer_ns(qp->attr.min_rnr_timer));
	if (qp->attr.rnr_retry < 7)
		diw_qp_confirm(qp->diw, true);
}

int of_rc_rts(struct of_qp *qp)
{
	qp->waits_since = 0;
	of_rc_limits(qp);
	if (!qp->connected && !qp->claimed)
		diw_loop_call(&qp->ctx->loop, &qp->ctx->rc->look, 1);
	if (!qp->knows_psn && !qp->rnic)
		return 0;
	if (!qp->rnic && (qp->attr.sq_psn & PSN) != qp->peer_rq_psn)     /* a peer with another first PSN would drop all
									  * our packets */
		return -diw_leave(qp->diw);
	return -diw_qp_hold(qp->diw, false);
}

/* ---- Events ---- */

static void of_on_request(const struct diw_cm_event *ev)
{
	struct of_rc_port *p = ev->ctx;
	struct of_qp *qp = NULL;
	struct diw_qp_hello h;
	bool over;

	if (diw_qp_hello_get(&h, ev->data, ev->data_len) && (h.to & 0xffff) == p->port && h.to >> 16 < SLOTS)
		qp = p->qps[h.to >> 16];
	over = qp && (qp->connected || atomic_load(&qp->state) == IBV_QPS_ERR);
	if (qp && qp->req && qp->req_from == h.from)
		drop_request(qp);               /* its peer has given it up */
	if (!qp || qp->req || qp->claimed || (over && (qp->connector || h.from != qp->attr.dest_qp_num))) {
		diw_reject(ev->req, NULL, 0);
		return;
	}
	qp->req = ev->req;
	qp->req_from = h.from;
	qp->req_psn = h.rq_psn;
	if (over || atomic_load(&qp->state) < IBV_QPS_RTR)
		return;
	if (qp->connector || h.from != qp->attr.dest_qp_num)
		drop_request(qp);
	else
		rc_answer(qp);
}

static void of_on_established(struct of_qp *qp, const struct diw_cm_event *ev)
{
	struct diw_qp_hello h;

	qp->connected = true;
	if (is_self(qp))
		h = (struct diw_qp_hello){ qp->qp.qp_num, qp->qp.qp_num, qp->attr.rq_psn & PSN };
	else if (!qp->connector || !diw_qp_hello_get(&h, ev->data, ev->data_len))
		h = (struct diw_qp_hello){ 0 };
	if (qp->connector) {
		if (!is_peer(qp, &h)) {
			diw_abort(qp->diw);
			return;
		}
		qp->peer_rq_psn = h.rq_psn;
		qp->knows_psn = true;
	}
	if (atomic_load(&qp->state) == IBV_QPS_RTS)
		of_rc_rts(qp);
}

/* An error of the peer during the negotiation has already been reported as the device's event. */
static void of_on_failed(struct of_qp *qp, const struct diw_cm_event *ev)
{
	if (ev->fault)
		return;
	of_async(qp->ctx, &(struct ibv_async_event){ .element.qp = &qp->qp, .event_type = IBV_EVENT_QP_FATAL });
}

static void cm_dispatch(struct diw_loop_cm *c, const struct diw_cm_event *ev)
{
	(void)c;
	switch (ev->type) {
	case DIW_CM_CONNECT_REQUEST:
		of_on_request(ev);
		break;
	case DIW_CM_ESTABLISHED:
		of_on_established(ev->ctx, ev);
		break;
	case DIW_CM_REJECTED:
	case DIW_CM_FAILED:
		of_on_failed(ev->ctx, ev);
		break;
	case DIW_CM_DISCONNECTED:
		break;                          /* its requests' completions report it */
	}
}

/* ---- Peers that do not connect ---- */

/* The time of all retries of a message, each of which may take four times the timeout (InfiniBand, volume 1, section
 * 9.7.6.1.3); 0: for ever. */
static int64_t retry_patience(const struct of_qp *qp)
{
	int64_t tries = 4 * (1 + qp->attr.retry_cnt) * (4096ll << qp->attr.timeout);

	return qp->attr.timeout == 0 ? 0 : tries > GRACE_NS ? tries : GRACE_NS;
}

static bool rc_waits(const struct of_qp *qp)
{
	return qp->init.qp_type == IBV_QPT_RC && !qp->connected && !qp->claimed &&
	       atomic_load(&qp->state) == IBV_QPS_RTS;
}

/* Gives up QP if it has waited too long. Returns whether another check is needed. */
static bool rc_give_up(struct of_qp *qp, int64_t now)
{
	struct diw_qp_info info;

	if (!rc_waits(qp) || diw_qp_query(qp->diw, &info) < 0 || info.state == DIW_QPS_ERROR)
		return false;
	if (info.sq_pending == 0 || retry_patience(qp) == 0)
		qp->waits_since = 0;
	else if (qp->waits_since == 0)
		qp->waits_since = now;
	else if (now - qp->waits_since > retry_patience(qp))
		diw_leave(qp->diw);
	return true;
}

static bool connect_give_up(struct of_context *ctx, int64_t now)
{
	bool again = false;

	for (unsigned i = 0; i < OF_QP_BUCKETS; i++)
		for (struct of_qp *qp = ctx->qps[i]; qp; qp = qp->next)
			again |= rc_give_up(qp, now);
	return again;
}

static void look_at_waiting(struct diw_watch *w, uint64_t now)
{
	if (connect_give_up(diw_container(w, struct of_rc, look)->ctx, (int64_t)now))
		atomic_store(&w->due, now + LOOK_NS);
}

static int start_listening(struct of_context *ctx)
{
	struct of_rc *rc = calloc(1, sizeof *rc);
	int err;

	if (!rc)
		return ENOMEM;
	rc->ctx = ctx;
	rc->look = (struct diw_watch)DIW_WATCH_INIT(rc->look, -1, look_at_waiting);
	rc->conns.event = cm_dispatch;
	err = -diw_loop_cm_open(&ctx->loop, &rc->conns, ctx->dev);
	if (err == 0)
		err = -diw_loop_add(&ctx->loop, &rc->look);
	if (err) {
		diw_loop_cm_close(&ctx->loop, &rc->conns);
		free(rc);
		return err;
	}
	ctx->rc = rc;
	return 0;
}

struct of_rc *of_rc_unused(struct of_context *ctx)
{
	struct of_rc *rc = ctx->rc;

	if (!rc || rc->used)
		return NULL;
	ctx->rc = NULL;
	rc->thread = diw_loop_stop(&ctx->loop);
	return rc;
}

/* Call without the lock, which the thread takes. */
void of_rc_end(struct of_rc *rc)
{
	struct of_rc_port *p;

	if (!rc)
		return;
	diw_loop_join(rc->thread);
	while ((p = rc->ports)) {
		rc->ports = p->next;
		atomic_fetch_and(&ours[p->port / 8], (uint8_t)~(1u << p->port % 8));
		diw_listener_close(p->listener);
		free(p);
	}
	diw_cm_destroy(rc->conns.cm);
	free(rc);
}
