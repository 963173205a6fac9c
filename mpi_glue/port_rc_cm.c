/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections between endpoints over RC queue pairs (docs/mpi-wire.md section 8). The endpoint with the lower address
 * connects. An endpoint with the higher one asks for that by a request of its own (CALL), which is never accepted. So
 * two endpoints that begin at the same time make one connection. A thread of the domain handles the events, since an
 * application may look for completions seldom.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "mpi_glue/port_rc.h"

#define RC_TIMEOUT (30 * DIW_S)          /* of a connection until it is up */
#define RC_REFUSED (10 * DIW_S)          /* the peer may be about to listen */
#define RC_KEEPALIVE 100u                /* seconds; three times that until a host that is gone is noticed */
#define RC_BACKLOG 4096
#define RC_HALFOPEN 256u
#define RC_EVENTS 64                     /* that are handled while the domain's lock is held */
#define RC_SETTLE 1024                   /* the most rounds of progress until a lost connection has settled */

struct rc_domain {
	struct diw_cm *cm;
	pthread_t thread;
	bool runs;
};

/* ---- Requests ---- */

static struct diw_conn_attr attr_of(const struct glue_ep *ep, enum greeting_kind kind, uint8_t data[GREETING_LEN])
{
	const struct greeting g = { .kind = kind, .port = ep->local.port, .qkey = ep->domain->set.qkey,
				    .instance = diw_glue_rc_port(ep)->instance };
	struct diw_conn_attr a = DIW_CONN_ATTR_INIT;

	diw_glue_greeting_encode(data, &g);
	a.data = data;
	a.data_len = GREETING_LEN;
	a.keepalive_s = RC_KEEPALIVE;
	a.timeout_ns = (int64_t)RC_TIMEOUT;
	a.connect.local = ep->local;
	a.connect.local.port = 0;
	a.connect.refused_ns = (int64_t)RC_REFUSED;
	return a;
}

static int conn_ask(struct rc_conn *c, struct diw_qp *qp, enum greeting_kind kind)
{
	uint8_t data[GREETING_LEN];
	struct diw_conn_attr a = attr_of(c->ep, kind, data);

	a.connect.self = diw_glue_addr_order(&c->ep->local, &c->peer->addr) == 0;
	return diw_connect(qp, c->ep->domain->rc->cm, &c->peer->addr, &a);
}

/* Asks the peer, whose address is lower, to connect. */
static int conn_call(struct rc_conn *c)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;
	int rc;

	a.type = DIW_QP_RC;
	a.send_cq = a.recv_cq = c->ep->cq;
	a.ctx = c;
	a.sq_depth = a.rq_depth = 1;
	rc = diw_qp_create(c->ep->domain->pd, &a, &c->caller);
	return rc == 0 ? conn_ask(c, c->caller, GREETING_CALL) : rc;
}

void diw_glue_rc_connect(struct rc_conn *c)
{
	int rc;

	if (diw_glue_addr_order(&c->ep->local, &c->peer->addr) > 0) {
		c->state = RC_CALLING;
		rc = conn_call(c);
	} else {
		rc = conn_ask(c, c->qp, GREETING_CONNECT);
	}
	if (rc < 0)
		diw_glue_rc_lose(c, -rc);
}

void diw_glue_rc_answer(struct rc_conn *c)
{
	if (c->caller)
		diw_qp_destroy(c->caller);
	if (c->called)
		diw_reject(c->called, NULL, 0);
	c->caller = NULL;
	c->called = NULL;
}

/* ---- Events ---- */

/* The peer is an endpoint of the job: it has the job's Q_Key. */
static bool greeting_of(const struct glue_ep *ep, const struct diw_cm_event *ev, struct greeting *g)
{
	return diw_glue_greeting_decode(g, ev->data, ev->data_len) && g->qkey == ep->domain->set.qkey;
}

/* A new instance of the peer has the address of one that is lost, or that will be found to be lost. */
static bool conn_replace(struct rc_conn *c, const struct greeting *g)
{
	if (c->state != RC_LOST && c->state != RC_UP)
		return true;
	if (c->instance == g->instance)
		return false;
	diw_glue_rc_lose(c, ECONNRESET);
	for (int i = 0; i < RC_SETTLE && c->qp; i++)
		diw_glue_port_poll(c->ep);
	return !c->qp && diw_glue_rc_renew(c) == 0;
}

static bool conn_accept(struct rc_conn *c, const struct diw_cm_event *ev, const struct greeting *g)
{
	uint8_t data[GREETING_LEN];
	struct diw_conn_attr a = attr_of(c->ep, GREETING_ACCEPT, data);

	if (diw_accept(ev->req, c->qp, &a) < 0)
		return false;
	c->state = RC_CONNECTING;
	c->instance = g->instance;
	return true;
}

/* Whether a request is one of the job's endpoint at NAME, which is not this one. */
static bool request_is_valid(const struct glue_ep *ep, const struct greeting *g, const struct diw_addr *name)
{
	int order = diw_glue_addr_order(name, &ep->local);

	return order != 0 && g->kind == (order < 0 ? GREETING_CONNECT : GREETING_CALL);
}

/* The connection for a request; NULL: it is refused. */
static struct rc_conn *request_conn(struct glue_ep *ep, const struct diw_cm_event *ev, struct greeting *g, bool *fresh)
{
	bool good = greeting_of(ep, ev, g);
	struct diw_addr name = ev->peer;
	struct glue_peer *peer;
	struct rc_conn *c;

	name.port = g->port;
	if (!good || !request_is_valid(ep, g, &name)) {
		diw_glue_drop(ep, NULL, GLUE_DROP_REFUSED);
		return NULL;
	}
	peer = diw_glue_av_find(ep->av, &name);
	c = peer ? diw_glue_rc_conn(ep, peer, fresh) : NULL;
	if (!c)
		diw_glue_drop(ep, NULL, GLUE_DROP_NO_ROOM);
	if (c && !*fresh && (c->state == RC_LOST || c->state == RC_UP)) {
		if (!conn_replace(c, g))
			return NULL;
		*fresh = true;
	}
	return c && c->state != RC_LOST ? c : NULL;
}

static void event_request(struct glue_ep *ep, const struct diw_cm_event *ev)
{
	struct greeting g = { .kind = GREETING_KINDS };
	bool fresh, taken = false;
	struct rc_conn *c = request_conn(ep, ev, &g, &fresh);

	if (c && g.kind == GREETING_CALL && !c->called) {
		c->called = ev->req;
		taken = true;
		if (fresh)
			diw_glue_rc_connect(c);
	} else if (c && g.kind == GREETING_CONNECT && (fresh || c->state == RC_CALLING)) {
		taken = conn_accept(c, ev, &g);
	}
	if (!taken)
		diw_reject(ev->req, NULL, 0);
	if (c && fresh && !taken)
		diw_glue_rc_lose(c, ECONNRESET);
}

static void event_up(struct rc_conn *c, const struct diw_cm_event *ev)
{
	bool self = diw_addr_eq(&c->peer->addr, &c->ep->local);
	bool initiator = !c->instance && !self;
	struct diw_qp_info info;
	struct greeting g;

	if (ev->qp != c->qp || (initiator && (!greeting_of(c->ep, ev, &g) || g.kind != GREETING_ACCEPT)) ||
	    diw_qp_query(c->qp, &info) < 0) {
		diw_glue_rc_lose(c, EPROTO);     /* it is no endpoint of this job */
		return;
	}
	if (initiator)
		c->instance = g.instance;
	c->source = info.peer;
	c->state = RC_UP;
	diw_glue_rc_answer(c);
}

/* The call was answered, or has failed. If the peer has not connected by now, it will not. */
static void event_called(struct rc_conn *c, const struct diw_cm_event *ev)
{
	diw_qp_destroy(c->caller);
	c->caller = NULL;
	if (c->state == RC_CALLING)
		diw_glue_rc_lose(c, ev->errnum);
}

static void conn_event_came(const struct diw_cm_event *ev)
{
	struct rc_conn *c = ev->ctx;

	if (ev->type == DIW_CM_CONNECT_REQUEST)
		event_request(ev->ctx, ev);
	else if (c->state == RC_LOST)
		return;
	else if (ev->type == DIW_CM_ESTABLISHED)
		event_up(c, ev);
	else if (ev->qp == c->caller)
		event_called(c, ev);
	else
		diw_glue_rc_lose(c, ev->errnum);
}

static void cm_work(struct glue_domain *d)
{
	struct diw_cm_event ev;

	for (int i = 0; i < RC_EVENTS && diw_cm_get(d->rc->cm, &ev, 0) == 0; i++)
		conn_event_came(&ev);
	for (struct diw_list *n = d->eps.next; n != &d->eps; n = n->next) {
		struct glue_ep *ep = diw_container(n, struct glue_ep, link);

		for (int i = 0; i < RC_SETTLE && ep->unsettled; i++)
			diw_glue_port_poll(ep);
	}
}

/* ---- Listener and thread ---- */

/* An endpoint has one address, by which peers know it. */
static int listen_addr(struct glue_ep *ep)
{
	struct diw_dev_info info;
	int rc;

	if (!diw_addr_ip_is_zero(&ep->local))
		return 0;
	rc = diw_dev_query(ep->domain->dev, &info);
	if (rc == 0 && info.naddrs == 0)
		return -EADDRNOTAVAIL;
	if (rc == 0) {
		info.addrs[0].port = ep->local.port;
		ep->local = info.addrs[0];
	}
	return rc;
}

int diw_glue_rc_listen(struct glue_ep *ep)
{
	struct rc_port *p = diw_glue_rc_port(ep);
	struct diw_listen_attr a = DIW_LISTEN_ATTR_INIT;
	struct diw_listener_info info;
	int rc = listen_addr(ep);

	a.local = ep->local;
	a.ctx = ep;
	a.backlog = RC_BACKLOG;
	a.max_halfopen = RC_HALFOPEN;
	a.request_timeout_ns = (int64_t)RC_TIMEOUT;
	if (rc == 0)
		rc = diw_listen(ep->domain->rc->cm, &a, &p->listener);
	if (rc == 0)
		rc = diw_listener_query(p->listener, &info);
	if (rc == 0)
		ep->local = info.local;
	return rc;
}

static void *rc_thread_main(void *arg)
{
	struct glue_domain *d = arg;

	diw_glue_thread_began("diw-fi-connect");
	while (!diw_glue_thread_stops(d)) {
		diw_glue_thread_sleep(d, diw_cm_fd(d->rc->cm), -1);
		glue_lock(d);
		cm_work(d);
		glue_unlock(d);
	}
	return NULL;
}

int diw_glue_rc_begin(struct glue_domain *d)
{
	int rc;

	d->rc = calloc(1, sizeof *d->rc);
	if (!d->rc)
		return -FI_ENOMEM;
	rc = diw_cm_create(d->dev, &d->rc->cm);
	if (rc == 0)
		rc = diw_glue_thread_create(&d->rc->thread, rc_thread_main, d);
	d->rc->runs = rc == 0;
	return rc;
}

void diw_glue_rc_end(struct glue_domain *d)
{
	if (!d->rc)
		return;
	if (d->rc->runs)
		diw_glue_thread_end(d, d->rc->thread);
	if (d->rc->cm)
		diw_cm_destroy(d->rc->cm);
	free(d->rc);
}
