/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints over reliable datagrams: one queue pair reaches all peers. A rendezvous is written by Write-Records, and
 * each names its STag. */
#include <stdlib.h>

#include "mpi_glue/port.h"

struct rd_port {
	struct glue_port port;
	struct diw_qp *qp;
	struct glue_queue queue;         /* all peers share the send queue */
};

static struct rd_port *port_rd_of(const struct glue_ep *ep)
{
	return diw_container(ep->port, struct rd_port, port);
}

static int port_rd_create(struct glue_ep *ep, struct rd_port *p)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;

	a.type = DIW_QP_RD;
	a.send_cq = a.recv_cq = ep->cq;
	a.sq_depth = GLUE_SQ;
	a.rq_depth = GLUE_RQ;
	a.max_sge = GLUE_IOV;
	a.max_inline = GLUE_INLINE;
	a.dgram.qkey = ep->domain->set.qkey;
	a.dgram.local = ep->local;
	return diw_qp_create(ep->domain->pd, &a, &p->qp);
}

static int port_rd_open(struct glue_ep *ep)
{
	struct rd_port *p = calloc(1, sizeof *p);
	struct diw_qp_info info;
	int rc;

	if (!p)
		return -FI_ENOMEM;
	p->port.ops = &diw_glue_port_rd;
	ep->port = &p->port;
	diw_glue_queue_init(&p->queue);
	rc = port_rd_create(ep, p);
	if (rc == 0)
		rc = diw_qp_query(p->qp, &info);
	if (rc == 0)
		ep->local = info.local;
	return rc;
}

static void port_rd_close(struct glue_ep *ep)
{
	struct rd_port *p = port_rd_of(ep);

	if (p->qp) {
		diw_abort(p->qp);
		diw_glue_port_forget(ep);
		diw_qp_destroy(p->qp);
	}
	free(p);
}

static int port_rd_post_send(struct glue_ep *ep, const struct glue_peer *to, struct diw_send_wr *wr)
{
	wr->dst = (struct diw_dest){ .addr = to->addr };
	wr->qkey = ep->domain->set.qkey;
	return diw_post_send(port_rd_of(ep)->qp, wr, NULL);
}

static int port_rd_append(struct glue_ep *ep, const struct glue_peer *to, const void *data, uint32_t len)
{
	return diw_post_append(port_rd_of(ep)->qp, &to->addr, data, len);
}

static int port_rd_post_recv(struct glue_ep *ep, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad)
{
	return diw_post_recv(port_rd_of(ep)->qp, wr, bad);
}

static bool port_rd_has_room(struct glue_ep *ep, const struct glue_peer *to, uint32_t n)
{
	(void)to;
	return ep->sending + n <= GLUE_SQ;
}

static struct glue_queue *port_rd_queue(struct glue_ep *ep, const struct glue_peer *peer)
{
	(void)peer;
	return &port_rd_of(ep)->queue;
}

static const struct diw_addr *port_rd_source(struct glue_ep *ep, const struct glue_peer *peer)
{
	(void)ep;
	return &peer->addr;
}

static struct diw_qp *port_rd_counts(struct glue_ep *ep, const struct glue_peer *peer)
{
	(void)peer;
	return port_rd_of(ep)->qp;
}

static bool port_rd_renewed(struct glue_ep *ep, const struct glue_peer *peer, uint64_t *renewed, uint64_t *restarted)
{
	return diw_qp_peer(port_rd_of(ep)->qp, &peer->addr, renewed, restarted) == 0;
}

/* The link may have met the new process before its first message: then nothing fails that was posted since. */
static void port_rd_replaced(struct glue_ep *ep, struct glue_peer *p, const struct diw_wc *wc)
{
	uint64_t renewed, restarted = 0;

	port_rd_renewed(ep, p, &renewed, &restarted);
	diw_glue_peer_replaced(ep, p, restarted ? restarted : wc->time_ns);
}

static struct glue_peer *port_rd_sender(struct glue_ep *ep, const struct diw_wc *wc)
{
	struct glue_peer *p = diw_glue_av_find(ep->av, &wc->src);

	if (p && p->epoch == wc->epoch) {
		p->expected = false;
	} else if (p) {
		if (p->epoch)
			port_rd_replaced(ep, p, wc);
		p->epoch = wc->epoch;
	}
	return p;
}

/* The STag was given to one peer for one operation. */
static void port_rd_written(struct glue_ep *ep, const struct diw_wc *wc)
{
	struct glue_op *op = wc->flags & DIW_WC_IMM ? diw_glue_op_exposed(ep, wc->imm) : NULL;

	if (op && op->mr->stag == wc->stag)
		diw_glue_octets_came(op, wc->byte_len);
	else
		diw_glue_drop(ep, NULL, GLUE_DROP_STRAY);
}

/* An earlier request to the same peer was refused. */
static int port_rd_flushed(struct glue_ep *ep, const struct diw_wc *wc)
{
	(void)ep, (void)wc;
	return FI_ECANCELED;
}

const struct glue_port_ops diw_glue_port_rd = {
	.write = DIW_WR_WRITE_RECORD, .write_notes_each = true,
	.open = port_rd_open, .close = port_rd_close, .post_send = port_rd_post_send, .append = port_rd_append,
	.post_recv = port_rd_post_recv, .has_room = port_rd_has_room, .queue = port_rd_queue,
	.source = port_rd_source, .counts = port_rd_counts, .sender = port_rd_sender, .written = port_rd_written,
	.flushed = port_rd_flushed, .renewed = port_rd_renewed,
};
