/* SPDX-License-Identifier: BSD-2-Clause */
/* What an endpoint sends and receives: buffers of receives and Sends, posts, and completions, which go to the files
 * that handle messages. The queue pairs are below port.h. */
#include <errno.h>
#include <string.h>

#include "mpi_glue/port.h"

#define PORT_BATCH 16
#define PORT_OPS (PORT_BATCH * GLUE_SEND_OPS)    /* a batch needs at most so many */
#define PORT_DEPTH (2 * (GLUE_SQ + GLUE_RQ))     /* completions that wait to be handled */

_Static_assert(GLUE_PACK == GLUE_INLINE, "a Send with several messages is inline");
_Static_assert(PORT_OPS <= GLUE_OPS_KEPT, "calls of the application leave a batch its operations");

static uint64_t wr_of_op(const struct glue_op *op)
{
	return (uint64_t)op->id << PORT_WR_BITS | PORT_WR_OP;
}

struct glue_buf *diw_glue_buf_get(struct diw_pool *pool)
{
	struct glue_buf *b = diw_pool_get(pool);

	if (b)
		b->pool = pool, b->others = 0;
	return b;
}

void diw_glue_buf_put(struct glue_buf *b)
{
	if (b->others)
		b->others--;
	else
		diw_pool_put(b->pool, b);
}

void diw_glue_queue_init(struct glue_queue *q)
{
	diw_list_init(&q->link);
	diw_list_init(&q->pending);
	q->rma_pending = 0;
}

static struct glue_queue *port_queue(struct glue_ep *ep, const struct glue_peer *peer)
{
	return ep->port->ops->queue(ep, peer);
}

void diw_glue_pend(struct glue_op *op, enum glue_todo todo)
{
	struct glue_queue *q = port_queue(op->ep, op->peer);

	op->todo = (uint8_t)todo;
	op->queue = q;
	q->rma_pending += todo == GLUE_TODO_RMA;
	diw_list_add_tail(&q->pending, &op->link);
	if (diw_list_empty(&q->link))
		diw_list_add_tail(&op->ep->waiting, &q->link);
}

void diw_glue_unpend(struct glue_op *op)
{
	op->queue->rma_pending -= op->todo == GLUE_TODO_RMA;
	diw_list_del(&op->link);
	op->queue = NULL;
}

/* EVEN_GONE: also to a peer that is gone. */
static int port_post(struct glue_ep *ep, struct diw_send_wr *wr, const struct glue_peer *to, bool even_gone)
{
	int rc;

	if (to->gone && !even_gone)
		return -to->gone;
	ep->packs = NULL;
	rc = ep->port->ops->post_send(ep, to, wr);
	ep->sending += rc == 0;
	return rc == -ENOMEM ? -FI_EAGAIN : rc;
}

bool diw_glue_port_has_room(struct glue_ep *ep, const struct glue_peer *to, uint32_t n)
{
	return ep->tx.cap - ep->tx.used >= n && ep->port->ops->has_room(ep, to, n);
}

bool diw_glue_port_is_held(struct glue_ep *ep, const struct glue_peer *to)
{
	return port_queue(ep, to)->rma_pending;
}

static uint32_t message_encode(uint8_t *p, const struct glue_hdr *h, const struct iovec *iov, uint64_t off,
			       uint32_t len)
{
	uint32_t n = diw_glue_hdr_encode(p, h);

	diw_glue_copy_out(p + n, iov, off, len);
	return n + len;
}

/* Puts the message into the Send that was posted last, if that waits to leave. A lone message finds none. */
static bool port_pack(struct glue_ep *ep, const struct glue_peer *to, const struct glue_hdr *h, const struct diw_sge *s)
{
	return ep->packs == to && h->packed && !to->gone && ep->port->ops->append(ep, to, s->addr, s->length) == 0;
}

int diw_glue_port_send(struct glue_ep *ep, struct glue_peer *to, const struct glue_hdr *h,
		       const struct iovec *iov, uint64_t off, uint32_t len, const struct glue_op *op, bool more)
{
	uint8_t small[GLUE_INLINE];
	struct glue_buf *b = NULL;
	struct diw_sge sge = { .addr = small, .stag = ep->domain->memory->stag };
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .sge = &sge, .num_sge = 1, .flags = DIW_SEND_SIGNALED };
	int rc;

	if (len > GLUE_INLINE - GLUE_HDR_MAX) {
		b = diw_glue_buf_get(&ep->tx);
		if (!b)
			return -FI_EAGAIN;
		b->op = op ? op->id : 0;
		b->to = to;
		sge.addr = b->data;
		wr.wr_id = (uintptr_t)b | PORT_WR_TX;
	} else {
		wr.flags |= DIW_SEND_INLINE;
		wr.wr_id = op ? wr_of_op(op) : (uintptr_t)to | (h->kind == GLUE_GONE ? PORT_WR_QUESTION : PORT_WR_PEER);
	}
	wr.flags |= more ? DIW_SEND_MORE : 0;
	wr.flags |= h->kind == GLUE_WRITTEN && !op->queue ? 0 : DIW_SEND_APART;       /* it fails with its write */
	sge.length = message_encode(sge.addr, h, iov, off, len);
	if (!op && port_pack(ep, to, h, &sge))
		return 0;
	rc = port_post(ep, &wr, to, h->kind == GLUE_GONE);
	if (rc < 0 && b)
		diw_glue_buf_put(b);
	to->requests += rc == 0 && (b || !op);
	if (rc == 0 && h->packed)
		ep->packs = to;
	return rc;
}

int diw_glue_port_probe(struct glue_ep *ep, struct glue_peer *to)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .flags = DIW_SEND_SIGNALED | DIW_SEND_INLINE | DIW_SEND_APART,
				  .wr_id = (uintptr_t)to | PORT_WR_QUESTION };
	int rc = port_post(ep, &wr, to, false);

	to->requests += rc == 0;
	return rc;
}

int diw_glue_port_lost(struct glue_ep *ep, const struct glue_peer *peer)
{
	return peer->gone ? peer->gone : ep->port->ops->lost ? ep->port->ops->lost(ep, peer) : 0;
}

/* Writes the vectors of OP, LEN octets from OFF on, as scatter/gather entries. Returns their number. */
static int op_sges(const struct glue_op *op, uint64_t off, uint32_t len, struct diw_sge *sge)
{
	int n = 0;

	for (uint32_t i = 0; i < op->iovs && len; i++) {
		uint64_t here = op->iov[i].iov_len;

		if (off >= here) {
			off -= here;
			continue;
		}
		here = here - off < len ? here - off : len;
		sge[n++] = (struct diw_sge){ (uint8_t *)op->iov[i].iov_base + off, (uint32_t)here,
					     op->ep->domain->memory->stag };
		len -= (uint32_t)here;
		off = 0;
	}
	return n;
}

int diw_glue_port_write(struct glue_op *op, uint64_t off, uint32_t len)
{
	const struct glue_port_ops *ops = op->ep->port->ops;
	bool notes = ops->write_notes_each || off + len == op->want;
	struct diw_sge sge[GLUE_IOV];
	struct diw_send_wr wr = {
		.opcode = ops->write, .wr_id = wr_of_op(op), .sge = sge,
		.num_sge = op_sges(op, off, len, sge),
		.flags = DIW_SEND_SIGNALED | DIW_SEND_APART | (notes ? DIW_SEND_IMM : 0), .imm = op->hdr.peer_id,
		.stag = op->hdr.stag, .to = op->hdr.to + off,
	};

	return port_post(op->ep, &wr, op->peer, false);
}

int diw_glue_port_rma(struct glue_op *op, uint64_t off, uint32_t len, const struct glue_target *target,
		      unsigned flags)
{
	bool read = op->kind != GLUE_OP_WRITE;
	struct glue_ep *ep = op->ep;
	struct diw_sge sge[GLUE_IOV];
	struct diw_send_wr wr = {
		.opcode = read ? DIW_WR_READ : DIW_WR_WRITE, .wr_id = wr_of_op(op), .sge = sge,
		.num_sge = op_sges(op, off, len, sge), .flags = DIW_SEND_SIGNALED | flags,
		.stag = target->stag, .to = target->to,
	};
	struct glue_buf *b = NULL;
	int rc;

	if (!read && len <= GLUE_INLINE) {
		wr.flags |= DIW_SEND_INLINE;
	} else if (op->copy) {
		b = diw_glue_buf_get(&ep->tx);
		if (!b)
			return -FI_EAGAIN;
		b->op = op->id;
		b->to = op->peer;
		diw_glue_copy_out(b->data, op->iov, off, len);
		sge[0] = (struct diw_sge){ b->data, len, ep->domain->memory->stag };
		wr.num_sge = 1;
		wr.wr_id = (uintptr_t)b | PORT_WR_TX;
	}
	rc = port_post(ep, &wr, op->peer, false);
	if (rc < 0 && b)
		diw_glue_buf_put(b);
	op->peer->requests += rc == 0 && b;
	return rc;
}

struct port_recvs {
	struct diw_recv_wr wr[PORT_BATCH];
	struct diw_sge sge[PORT_BATCH];
	uint32_t n;
};

static void recvs_add(struct glue_ep *ep, struct port_recvs *r, struct glue_buf *b)
{
	r->sge[r->n] = (struct diw_sge){ b->data, (uint32_t)ep->domain->set.eager + GLUE_HDR_MAX,
					 ep->domain->memory->stag };
	r->wr[r->n] = (struct diw_recv_wr){ .wr_id = (uintptr_t)b | PORT_WR_RX, .sge = &r->sge[r->n], .num_sge = 1 };
	if (r->n)
		r->wr[r->n - 1].next = &r->wr[r->n];
	r->n++;
}

/* Posts a batch of the missing receives, as far as there are buffers. False: none was posted. */
static bool recvs_post(struct glue_ep *ep)
{
	const struct diw_recv_wr *bad = NULL;
	struct port_recvs r;
	struct glue_buf *b;

	for (r.n = 0; r.n < ep->missing && r.n < PORT_BATCH && (b = diw_glue_buf_get(&ep->rx));)
		recvs_add(ep, &r, b);
	if (r.n == 0)
		return false;
	ep->missing -= r.n;
	if (ep->port->ops->post_recv(ep, r.wr, &bad) == 0)
		return true;
	for (; bad; bad = bad->next) {
		diw_glue_buf_put((struct glue_buf *)(uintptr_t)(bad->wr_id & ~(uint64_t)PORT_WR_MASK));
		ep->missing++;
	}
	return false;
}

/* libfabric's error for the status of a completion. */
static int port_errno(struct glue_ep *ep, const struct diw_wc *wc)
{
	switch (wc->status) {
	case DIW_WC_SUCCESS: return 0;
	case DIW_WC_TIMEOUT: return FI_ETIMEDOUT;
	case DIW_WC_LOC_PROT_ERR: return FI_EFAULT;
	case DIW_WC_REM_ACCESS_ERR: return FI_EACCES;
	case DIW_WC_FLUSHED: return ep->port->ops->flushed(ep, wc);
	case DIW_WC_PEER_GONE:
	case DIW_WC_LOC_QP_OP_ERR: return wc->errnum ? wc->errnum : FI_EIO;
	default: return FI_EIO;
	}
}

/* No message is lost if a question fails since another process has the peer's address. */
static void port_peer_gone(struct glue_ep *ep, struct glue_peer *to, const struct diw_wc *wc)
{
	if (wc->errnum == ECONNRESET && (wc->wr_id & PORT_WR_MASK) == PORT_WR_QUESTION)
		diw_glue_peer_replaced(ep, to, wc->time_ns);
	else
		diw_glue_peer_gone(ep, to, port_errno(ep, wc));
}

/* A request to the peer TO (NULL: that of its operation) was acknowledged, or has failed. An operation that has ended
 * does not wait for it. */
static void port_done(struct glue_ep *ep, uint32_t id, struct glue_peer *to, const struct diw_wc *wc)
{
	struct glue_op *op = id ? diw_glue_op_find(ep->domain, id) : NULL;

	to = op && !to ? op->peer : to;
	if (op && wc->status != DIW_WC_SUCCESS)
		op->entry.prov_errno = wc->status;
	if (op)
		diw_glue_request_done(op, port_errno(ep, wc));
	else if (wc->status != DIW_WC_SUCCESS)
		GLUE_LOG("a message was not delivered: %s\n", diw_wc_status_str(wc->status));
	if (to && wc->status == DIW_WC_PEER_GONE)
		port_peer_gone(ep, to, wc);
}

static void port_complete(struct glue_ep *ep, const struct diw_wc *wc)
{
	void *of = (void *)(uintptr_t)(wc->wr_id & ~(uint64_t)PORT_WR_MASK);
	struct glue_buf *b = of;
	struct glue_peer *to = of;

	if (wc->opcode == DIW_WC_RECV_WRITE_RECORD) {
		ep->port->ops->written(ep, wc);
		return;
	}
	if ((wc->wr_id & PORT_WR_MASK) != PORT_WR_RX) {
		ep->sending--;
		if (ep->port->ops->sent)
			ep->port->ops->sent(ep, wc);
	}
	switch ((enum port_wr)(wc->wr_id & PORT_WR_MASK)) {
	case PORT_WR_RX:
		if (wc->status == DIW_WC_SUCCESS && wc->opcode == DIW_WC_RECV_WRITE_IMM)
			ep->port->ops->written(ep, wc);
		ep->missing++;
		if (wc->status != DIW_WC_SUCCESS || wc->opcode != DIW_WC_RECV ||
		    !diw_glue_received(ep, ep->port->ops->sender(ep, wc), b, wc->byte_len))
			diw_glue_buf_put(b);
		return;
	case PORT_WR_TX:
		b->to->requests--;
		port_done(ep, b->op, b->to, wc);
		diw_glue_buf_put(b);
		return;
	case PORT_WR_OP:
		port_done(ep, (uint32_t)(wc->wr_id >> PORT_WR_BITS), NULL, wc);
		return;
	case PORT_WR_PEER:
	case PORT_WR_QUESTION:
		to->requests--;
		port_done(ep, 0, to, wc);
	}
}

/* Continues what waits, queue by queue. */
static void port_resume(struct glue_ep *ep)
{
	struct diw_list *l, *next, *n;

	diw_list_for_each_safe(l, next, &ep->waiting) {
		struct glue_queue *q = diw_container(l, struct glue_queue, link);

		while ((n = diw_list_first(&q->pending)))
			if (!diw_glue_resume(diw_container(n, struct glue_op, link)))
				break;
		if (diw_list_empty(&q->pending))
			diw_list_del(&q->link);
	}
}

/* Continues all that waits for room or for an answer, which is nothing most of the time. */
static void port_continue(struct glue_ep *ep)
{
	if (diw_list_empty(&ep->domain->inboxes) && diw_list_empty(&ep->held) && diw_list_empty(&ep->telling) &&
	    diw_list_empty(&ep->waiting))
		return;
	diw_glue_inbox_run(ep->domain);
	diw_glue_hold_run(ep);
	diw_glue_gone_run(ep);
	port_resume(ep);
}

bool diw_glue_port_arm(struct glue_ep *ep)
{
	struct diw_cq *which;

	while (diw_channel_get(ep->channel, &which, 0) == 0)
		;
	return diw_cq_arm(ep->cq, false) == 0;
}

/* Returns the number of completions that were handled. -1: no operation is free. */
static int port_work(struct glue_ep *ep)
{
	struct diw_wc wc[PORT_BATCH];
	int n;

	/* Each message may need an operation. If there are too few, messages stay in the link. */
	if (!ep->enabled || glue_ops_free(ep->domain) < PORT_OPS)
		return -1;
	ep->packs = NULL;                       /* the poll sends what waits */
	n = diw_cq_poll(ep->cq, wc, PORT_BATCH, 0);
	for (int i = 0; i < n; i++) {
		port_complete(ep, &wc[i]);
		if (wc[i].nranges > 1)
			diw_wc_release(&wc[i]);
	}
	if (n == 0 && ep->unsettled)
		ep->port->ops->settle(ep);
	if (n == 0)
		diw_glue_alive_look(ep->domain);
	port_continue(ep);
	if (n == 0 || ep->missing >= PORT_BATCH)        /* not before the program has the message */
		recvs_post(ep);
	return n;
}

bool diw_glue_port_poll(struct glue_ep *ep)
{
	return port_work(ep) >= 0;
}

void diw_glue_port_drain(struct glue_ep *ep)
{
	for (uint32_t i = 0; i < PORT_DEPTH / PORT_BATCH && port_work(ep) > 0; i++)
		;
}

void diw_glue_port_forget(struct glue_ep *ep)
{
	struct diw_wc wc[PORT_BATCH];
	int n;

	while ((n = diw_cq_poll(ep->cq, wc, PORT_BATCH, 0)) > 0)
		for (int i = 0; i < n; i++) {
			unsigned kind = wc[i].wr_id & PORT_WR_MASK;
			void *of = (void *)(uintptr_t)(wc[i].wr_id - kind);

			if (kind == PORT_WR_PEER || kind == PORT_WR_QUESTION)
				((struct glue_peer *)of)->requests--;
			if (kind == PORT_WR_TX)
				((struct glue_buf *)of)->to->requests--;
			if (wc[i].nranges > 1)
				diw_wc_release(&wc[i]);
		}
}

static int port_pools(struct glue_ep *ep)
{
	size_t eager = ep->domain->set.eager, size = sizeof(struct glue_buf) + GLUE_HDR_MAX + eager;
	uint32_t kept = (uint32_t)(ep->domain->set.buffered / size) + GLUE_RQ;
	uint32_t little = (uint32_t)(ep->domain->set.buffered / GLUE_SMALL);
	size_t small = sizeof(struct glue_buf) + GLUE_SMALL;
	int rc = diw_arena_init(&ep->arena, diw_pool_bytes(size, kept) + diw_pool_bytes(size, GLUE_TX) +
				diw_pool_bytes(small, little) + diw_arena_round(eager));

	if (rc < 0)
		return rc;
	diw_pool_init(&ep->rx, &ep->arena, size, kept);
	diw_pool_init(&ep->tx, &ep->arena, size, GLUE_TX);
	diw_pool_init(&ep->small, &ep->arena, small, little);
	ep->scratch = diw_arena_take(&ep->arena, eager);
	return 0;
}

/* Their indices change from version to version of the library. */
static void counters_find(struct glue_ep *ep)
{
	static const char *const name[GLUE_COUNTS] = {
#define GLUE_COUNTER(name, text) [GLUE_DROP_##name] = "fabric_" text,
		GLUE_DROP_NAMES(GLUE_COUNTER)
#undef GLUE_COUNTER
		[GLUE_HELD] = "fabric_held",
	};

	for (int i = 0; i < diw_counter_count(); i++)
		for (unsigned k = 0; k < GLUE_COUNTS; k++)
			if (strcmp(diw_counter_name(i), name[k]) == 0)
				ep->counter[k] = i;
}

void diw_glue_port_count(struct glue_ep *ep, const struct glue_peer *peer, unsigned what)
{
	struct diw_qp *qp = ep->port->ops->counts(ep, peer);

	if (qp)
		diw_qp_count(qp, ep->counter[what], 1);
}

int diw_glue_port_open(struct glue_ep *ep)
{
	bool automatic = ep->domain->automatic;
	bool waits = automatic || (ep->tx_cq && ep->tx_cq->epoll >= 0) || (ep->rx_cq && ep->rx_cq->epoll >= 0);
	int rc = port_pools(ep);

	counters_find(ep);
	if (rc == 0 && waits)
		rc = diw_channel_create(ep->domain->dev, &ep->channel);
	if (rc == 0 && automatic)
		rc = diw_glue_progress_watch(ep->domain, diw_channel_fd(ep->channel));
	if (rc == 0 && ep->tx_cq && ep->tx_cq->epoll >= 0)
		rc = diw_glue_cq_watch(ep->tx_cq, diw_channel_fd(ep->channel));
	if (rc == 0 && ep->rx_cq && ep->rx_cq->epoll >= 0)
		rc = diw_glue_cq_watch(ep->rx_cq, diw_channel_fd(ep->channel));
	if (rc == 0)
		rc = diw_cq_create(ep->domain->dev, PORT_DEPTH, ep->channel, ep, &ep->cq);
	if (rc == 0)
		rc = ep->domain->set.port->open(ep);
	if (rc < 0)
		return rc;
	ep->missing = GLUE_RQ;
	while (recvs_post(ep))
		;
	return automatic && !diw_glue_port_arm(ep) ? -FI_EIO : 0;
}

void diw_glue_port_close(struct glue_ep *ep)
{
	if (ep->port)
		ep->port->ops->close(ep);
	if (ep->cq)
		diw_cq_destroy(ep->cq);
	if (ep->channel)
		diw_channel_destroy(ep->channel);
	ep->port = NULL;
	ep->cq = NULL;
	ep->channel = NULL;
	diw_arena_fini(&ep->arena);
}
