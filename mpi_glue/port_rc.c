/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints over RC queue pairs: queue pairs, posts, and the end of a connection. All queue pairs of an endpoint share
 * its receives. */
#include <errno.h>
#include <stdlib.h>

#include "base/rng.h"
#include "mpi_glue/port_rc.h"

#define RC_CONNS (1u << 16)              /* connections of an endpoint */
#define RC_SQ 256u                       /* send requests of a connection */
#define RC_BUFFERS 256u                  /* of the endpoint's buffers for Sends, those of one connection */
#define RC_NEVER (1ll << 60)             /* ns */

static int conn_create_qp(struct rc_conn *c)
{
	struct glue_ep *ep = c->ep;
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;

	a.type = DIW_QP_RC;
	a.send_cq = a.recv_cq = ep->cq;
	a.srq = diw_glue_rc_port(ep)->srq;
	a.ctx = c;
	a.sq_depth = RC_SQ;
	a.rq_depth = 1;
	a.max_sge = GLUE_IOV;
	a.max_inline = GLUE_INLINE;
	a.num = c->num;
	a.rc.confirm = a.rc.early = true;
	a.rc.rnr_timeout_ns = RC_NEVER;  /* the application posts receives when it likes */
	return diw_qp_create(ep->domain->pd, &a, &c->qp);
}

/* The error of a connection that is lost with ERR. A caller would repeat a call that fails for a shortage, and the
 * connection is not made again. */
static int err_of(int err)
{
	return err == 0 ? FI_ESHUTDOWN : err == ENOMEM || err == EAGAIN ? FI_ENOSPC : err;
}

int diw_glue_rc_renew(struct rc_conn *c)
{
	int rc = conn_create_qp(c);

	c->state = rc == 0 ? RC_CONNECTING : RC_LOST;
	c->err = rc == 0 ? 0 : err_of(-rc);
	c->instance = 0;
	c->inserts = c->peer->inserts;
	return rc;
}

struct rc_conn *diw_glue_rc_conn(struct glue_ep *ep, struct glue_peer *peer, bool *fresh)
{
	struct rc_port *p = diw_glue_rc_port(ep);
	struct rc_conn *c = p->of_peer[peer->index];

	*fresh = !c;
	if (c)
		return c;
	c = diw_pool_get(&p->conns);
	if (!c)
		return NULL;
	*c = (struct rc_conn){ .ep = ep, .peer = peer, .num = p->conns.used };
	diw_glue_queue_init(&c->queue);
	diw_list_init(&c->link);
	p->of_peer[peer->index] = c;
	peer->connected = true;
	diw_glue_rc_renew(c);
	return c;
}

/* The connection to PEER, which is begun if there is none, or if the application has inserted the address of a lost one
 * again. NULL: no room. */
static struct rc_conn *conn_use(struct glue_ep *ep, const struct glue_peer *peer)
{
	struct rc_conn *c = diw_glue_rc_port(ep)->of_peer[peer->index];
	bool fresh;

	if (c && (c->state != RC_LOST || c->qp || c->inserts == peer->inserts))
		return c;
	if (c)
		diw_glue_rc_renew(c);
	else
		c = diw_glue_rc_conn(ep, diw_glue_av_find(ep->av, &peer->addr), &fresh);
	if (c && c->state != RC_LOST)
		diw_glue_rc_connect(c);
	return c;
}

void diw_glue_rc_lose(struct rc_conn *c, int err)
{
	struct rc_port *p = diw_glue_rc_port(c->ep);

	if (c->state == RC_LOST)
		return;
	c->state = RC_LOST;
	c->err = err_of(err);
	c->inserts = c->peer->inserts;
	diw_abort(c->qp);
	diw_glue_rc_answer(c);
	diw_list_add_tail(&p->lost, &c->link);
	c->ep->unsettled = true;
}

/* ---- Operations of the table ---- */

/* The instance is not 0. */
static uint64_t instance_draw(void)
{
	uint64_t v = diw_random();

	return v ? v : 1;
}

static int port_rc_open(struct glue_ep *ep)
{
	struct rc_port *p = calloc(1, sizeof *p);
	int rc;

	if (!p)
		return -FI_ENOMEM;
	p->port.ops = &diw_glue_port_rc;
	ep->port = &p->port;
	p->instance = instance_draw();
	diw_glue_queue_init(&p->none);
	diw_list_init(&p->lost);
	rc = diw_arena_init(&p->arena, diw_arena_round(ep->av->peers.cap * sizeof *p->of_peer) +
			    diw_pool_bytes(sizeof(struct rc_conn), RC_CONNS));
	if (rc < 0)
		return rc;
	p->of_peer = diw_arena_take(&p->arena, ep->av->peers.cap * sizeof *p->of_peer);
	diw_pool_init(&p->conns, &p->arena, sizeof(struct rc_conn), RC_CONNS);
	rc = diw_srq_create(ep->domain->pd, GLUE_RQ, 1, ep, &p->srq);
	return rc == 0 ? diw_glue_rc_listen(ep) : rc;
}

static struct rc_conn *conn_at(const struct rc_port *p, uint32_t num)
{
	return diw_pool_at(&p->conns, num - 1);
}

static void port_rc_close(struct glue_ep *ep)
{
	struct rc_port *p = diw_glue_rc_port(ep);

	for (uint32_t i = 1; i <= p->conns.used; i++) {
		struct rc_conn *c = conn_at(p, i);

		diw_glue_rc_answer(c);
		if (c->qp)
			diw_qp_destroy(c->qp);
	}
	if (p->listener)
		diw_listener_close(p->listener);
	if (p->srq)
		diw_srq_destroy(p->srq);
	diw_arena_fini(&p->arena);
	free(p);
}

/* Neither a new instance of the peer nor the application has begun another connection. */
static int port_rc_lost(struct glue_ep *ep, const struct glue_peer *peer)
{
	const struct rc_conn *c = diw_glue_rc_port(ep)->of_peer[peer->index];

	return c && c->state == RC_LOST && c->inserts == peer->inserts ? c->err : 0;
}

static int port_rc_post_send(struct glue_ep *ep, const struct glue_peer *to, struct diw_send_wr *wr)
{
	struct rc_conn *c = conn_use(ep, to);
	bool buffer = (wr->wr_id & PORT_WR_MASK) == PORT_WR_TX;
	int rc;

	if (!c)
		return -FI_ENOSPC;
	if (c->state == RC_LOST)
		return port_rc_lost(ep, to) ? -c->err : -ENOMEM;
	if (c->sending == RC_SQ || (buffer && c->buffers == RC_BUFFERS))
		return -ENOMEM;
	wr->flags &= ~(unsigned)DIW_SEND_APART;         /* a refusal ends the connection */
	rc = diw_post_send(c->qp, wr, NULL);
	if (rc == 0) {
		c->sending++;
		c->buffers += buffer;
	}
	return rc;
}

static int port_rc_append(struct glue_ep *ep, const struct glue_peer *to, const void *data, uint32_t len)
{
	struct rc_conn *c = diw_glue_rc_port(ep)->of_peer[to->index];

	return c && c->state == RC_UP ? diw_post_append(c->qp, NULL, data, len) : -EAGAIN;
}

static int port_rc_post_recv(struct glue_ep *ep, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad)
{
	return diw_post_srq_recv(diw_glue_rc_port(ep)->srq, wr, bad);
}

/* To a connection that is lost there is always room: what is sent fails. */
static bool port_rc_has_room(struct glue_ep *ep, const struct glue_peer *to, uint32_t n)
{
	struct rc_conn *c = conn_use(ep, to);

	return !c || port_rc_lost(ep, to) ||
	       (c->sending + n <= RC_SQ && c->buffers + n <= RC_BUFFERS);
}

static struct glue_queue *port_rc_queue(struct glue_ep *ep, const struct glue_peer *peer)
{
	struct rc_conn *c = conn_use(ep, peer);

	return c ? &c->queue : &diw_glue_rc_port(ep)->none;
}

static const struct diw_addr *port_rc_source(struct glue_ep *ep, const struct glue_peer *peer)
{
	struct rc_conn *c = conn_use(ep, peer);
	struct diw_qp_info info;

	if (!c)
		return NULL;
	/* a message may come before the event that the connection is up is handled */
	if (c->state != RC_UP && c->qp && diw_qp_query(c->qp, &info) == 0)
		c->source = info.peer;
	return c->source.port ? &c->source : NULL;
}

/* A connection that has ended has no queue pair, and none is begun for this. */
static struct diw_qp *port_rc_counts(struct glue_ep *ep, const struct glue_peer *peer)
{
	struct rc_port *p = diw_glue_rc_port(ep);
	const struct rc_conn *first = p->conns.used ? conn_at(p, 1) : NULL, *c = peer ? p->of_peer[peer->index] : first;

	return c ? c->qp : NULL;
}

static struct glue_peer *port_rc_sender(struct glue_ep *ep, const struct diw_wc *wc)
{
	return conn_at(diw_glue_rc_port(ep), wc->qp_num)->peer;
}

/* The stream keeps the order, so all Writes of the operation have come. */
static void port_rc_written(struct glue_ep *ep, const struct diw_wc *wc)
{
	struct glue_op *op = wc->flags & DIW_WC_IMM ? diw_glue_op_exposed(ep, wc->imm) : NULL;

	if (op && op->peer == port_rc_sender(ep, wc))
		diw_glue_octets_came(op, op->want);
	else
		diw_glue_drop(ep, port_rc_sender(ep, wc), GLUE_DROP_STRAY);
}

static void port_rc_sent(struct glue_ep *ep, const struct diw_wc *wc)
{
	struct rc_conn *c = conn_at(diw_glue_rc_port(ep), wc->qp_num);

	c->sending--;
	c->buffers -= (wc->wr_id & PORT_WR_MASK) == PORT_WR_TX;
}

/* The event that tells of the end may not have been handled yet. */
static int port_rc_flushed(struct glue_ep *ep, const struct diw_wc *wc)
{
	const struct rc_conn *c = conn_at(diw_glue_rc_port(ep), wc->qp_num);

	return c->err ? c->err : FI_ECONNRESET;
}

/* A connection is made or lost within RC_TIMEOUT. */
static bool port_rc_connects(struct glue_ep *ep)
{
	struct rc_port *p = diw_glue_rc_port(ep);

	for (uint32_t i = 1; i <= p->conns.used; i++) {
		const struct rc_conn *c = conn_at(p, i);

		if (c->sending && (c->state == RC_CALLING || c->state == RC_CONNECTING))
			return true;
	}
	return false;
}

/* All that lost connections had received has been handled. Those without requests end. */
static void port_rc_settle(struct glue_ep *ep)
{
	struct rc_port *p = diw_glue_rc_port(ep);
	struct diw_list *n, *next;

	diw_list_for_each_safe(n, next, &p->lost) {
		struct rc_conn *c = diw_container(n, struct rc_conn, link);

		if (c->sending)
			continue;
		diw_list_del(&c->link);
		diw_qp_destroy(c->qp);
		c->qp = NULL;
		diw_glue_peer_lost(ep, c->peer, c->err);
	}
	ep->unsettled = !diw_list_empty(&p->lost);
}

const struct glue_port_ops diw_glue_port_rc = {
	.write = DIW_WR_WRITE, .threaded = true,
	.begin = diw_glue_rc_begin, .end = diw_glue_rc_end,
	.open = port_rc_open, .close = port_rc_close, .post_send = port_rc_post_send, .append = port_rc_append,
	.post_recv = port_rc_post_recv, .has_room = port_rc_has_room, .queue = port_rc_queue,
	.source = port_rc_source, .counts = port_rc_counts, .sender = port_rc_sender, .written = port_rc_written,
	.sent = port_rc_sent, .flushed = port_rc_flushed, .lost = port_rc_lost, .connects = port_rc_connects,
	.settle = port_rc_settle,
};
