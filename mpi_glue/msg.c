/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends and receives, tagged or not, in the form of entry.c. */
#include <string.h>

#include "mpi_glue/glue.h"

uint64_t diw_glue_iov_total(const struct iovec *iov, size_t n)
{
	uint64_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

static void op_describe(struct glue_op *op, const struct glue_msg *m, uint64_t len)
{
	op->entry.op_context = m->ctx;
	op->entry.buf = m->iovs ? m->iov[0].iov_base : NULL;
	op->iovs = (uint32_t)m->iovs;
	if (m->iovs)
		memcpy(op->iov, m->iov, m->iovs * sizeof *m->iov);
	op->len = len;
}

/* ---- Sends ---- */

static bool send_reports(uint64_t flags)
{
	return flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
}

/* Sends an eager message. The octets are copied at once, so the send is complete, and the application may reuse its
 * buffer. With FI_TRANSMIT_COMPLETE it waits for the acknowledgement, and with FI_DELIVERY_COMPLETE for the receiver's
 * report. */
static ssize_t send_eager(struct glue_ep *ep, struct glue_peer *to, const struct glue_msg *m, uint64_t len,
			  uint64_t flags)
{
	struct glue_hdr h = { .kind = GLUE_EAGER, .flags = m->flags, .tag = m->tag, .imm = m->imm,
			      .packed = len <= GLUE_PACK - GLUE_HDR_MAX ? (uint16_t)(len + 1) : 0 };
	bool report = send_reports(flags), waits = report || flags & FI_TRANSMIT_COMPLETE;
	bool silent = flags & GLUE_QUIET || !ep->tx_cq || (ep->tx_selective && !(flags & FI_COMPLETION));
	struct glue_op *op = NULL;
	int rc;

	if (waits || !silent) {
		op = diw_glue_op_new(ep, GLUE_OP_SEND);
		if (!op)
			return -FI_EAGAIN;
		op_describe(op, m, len);
		op->entry.flags = FI_SEND | (m->flags & GLUE_TAGGED ? FI_TAGGED : FI_MSG);
		op->silent = silent;
		op->peer = to;
		op->reports = report;
		op->requests = 1;
		if (report) {
			h.flags |= GLUE_REPORT;
			h.id = op->id;
		}
		op->hdr = h;
	}
	rc = diw_glue_port_send(ep, to, &h, m->iov, 0, (uint32_t)len, waits ? op : NULL, flags & FI_MORE);
	if (rc < 0 && op)
		diw_glue_op_put(op);
	else if (op && !waits)
		diw_glue_op_end(op, 0);
	else if (rc == 0 && !op && ep->cntr[GLUE_EVENT_SEND])
		ep->cntr[GLUE_EVENT_SEND]->value++;
	return rc;
}

static ssize_t send_rts(struct glue_ep *ep, struct glue_peer *to, const struct glue_msg *m, uint64_t len,
			uint64_t flags)
{
	struct glue_op *op = to->rts_out < GLUE_RTS_MAX ? diw_glue_op_new(ep, GLUE_OP_SEND) : NULL;
	int rc;

	if (!op)
		return -FI_EAGAIN;
	op_describe(op, m, len);
	diw_glue_op_count(op, &to->rts_out);
	op->entry.flags = FI_SEND | (m->flags & GLUE_TAGGED ? FI_TAGGED : FI_MSG);
	op->silent = !ep->tx_cq || (ep->tx_selective && !(flags & FI_COMPLETION));
	op->peer = to;
	op->reports = send_reports(flags);
	op->requests = 1;
	op->hdr = (struct glue_hdr){ .kind = GLUE_RTS, .flags = m->flags, .id = op->id, .tag = m->tag, .imm = m->imm,
				     .len = len };
	op->hdr.flags |= op->reports ? GLUE_REPORT : 0;
	if (ep->domain->set.mode == GLUE_MODE_READ)
		diw_glue_rts_offer(op);
	rc = diw_glue_port_send(ep, to, &op->hdr, NULL, 0, 0, op, flags & FI_MORE);
	if (rc < 0)
		diw_glue_op_put(op);
	return rc;
}

/* A message of LEN octets that has to be copied, to a peer that holds. */
static ssize_t send_held(struct glue_ep *ep, struct glue_peer *to, uint64_t len)
{
	int lost = diw_glue_port_lost(ep, to);

	if (len > ep->domain->set.eager)
		return -FI_EMSGSIZE;
	if (lost)
		return -lost;
	diw_glue_alive_wait(ep, to);
	return -FI_EAGAIN;
}

ssize_t diw_glue_send(struct glue_ep *ep, const struct glue_msg *m, uint64_t flags)
{
	uint64_t len = diw_glue_iov_total(m->iov, m->iovs);
	struct glue_peer *to;
	ssize_t rc;

	if (flags & GLUE_FLAGS_REFUSED)
		return -FI_EBADFLAGS;
	if (m->iovs > GLUE_IOV)
		return -FI_EINVAL;
	if (len > GLUE_MSG_MAX)
		return -FI_EMSGSIZE;
	glue_lock(ep->domain);
	to = ep->enabled ? diw_glue_av_peer(ep->av, m->addr) : NULL;
	if (!to)
		rc = ep->enabled ? -FI_EINVAL : -FI_EOPBADSTATE;
	else if (diw_glue_port_is_held(ep, to))
		rc = -FI_EAGAIN;
	else if (len <= ep->domain->set.eager && !to->holds)
		rc = send_eager(ep, to, m, len, flags);
	else if (flags & FI_INJECT)
		rc = send_held(ep, to, len);
	else
		rc = send_rts(ep, to, m, len, flags);
	if (rc == -FI_EAGAIN)
		diw_glue_port_poll(ep);
	glue_unlock(ep->domain);
	return rc;
}

/* ---- Receives ---- */

static bool recv_is_many(const struct glue_msg *m, uint64_t flags)
{
	return flags & FI_MULTI_RECV && !(m->flags & GLUE_TAGGED);
}

static bool recv_is_silent(const struct glue_ep *ep, uint64_t flags)
{
	return !ep->rx_cq || (ep->rx_selective && !(flags & FI_COMPLETION));
}

static struct match *recv_match(struct glue_ep *ep, const struct glue_msg *m)
{
	return m->flags & GLUE_TAGGED ? &ep->tagged : &ep->untagged;
}

static struct glue_op *recv_find(struct glue_ep *ep, const struct glue_msg *m, const struct glue_peer *from)
{
	struct match_key *k = diw_match_find_message(recv_match(ep, m), from, m->tag, m->ignore);

	return k ? diw_container(k, struct glue_op, key) : NULL;
}

static uint64_t message_len(const struct glue_op *message)
{
	return message->hdr.kind == GLUE_RTS ? message->hdr.len : message->len;
}

static void recv_give(struct glue_op *op, struct glue_op *message)
{
	diw_glue_message_deliver(op, message->peer, &message->hdr, message->data, (uint32_t)message->len);
	diw_glue_message_free(message);
}

/* A receive for many messages takes all that have already come. */
static void recv_many(struct glue_op *op, const struct glue_msg *m, const struct glue_peer *from)
{
	struct glue_ep *ep = op->ep;
	struct glue_op *message, *part;

	bool last = false;

	while (!last && (message = recv_find(ep, m, from)) &&
	       (part = diw_glue_receive_part(op, message_len(message)))) {
		last = op->released;     /* OP ends with its last part */
		diw_match_take(&message->key);
		recv_give(part, message);
	}
}

static ssize_t recv_post(struct glue_ep *ep, const struct glue_msg *m, const struct glue_peer *from, uint64_t flags)
{
	struct glue_op *message = recv_find(ep, m, from);
	struct glue_op *op = message ? diw_glue_op_get(ep, GLUE_OP_RECV) : diw_glue_op_new(ep, GLUE_OP_RECV);
	int lost;

	if (!op)
		return -FI_EAGAIN;
	op_describe(op, m, diw_glue_iov_total(m->iov, m->iovs));
	op->silent = recv_is_silent(ep, flags);
	op->multi = recv_is_many(m, flags);
	op->key.source = from;
	op->key.tag = m->tag;
	op->key.ignore = m->ignore;
	if (message && !op->multi) {
		diw_match_take(&message->key);
		recv_give(op, message);
		return 0;
	}
	lost = from ? diw_glue_port_lost(ep, from) : 0;
	if (lost) {
		diw_glue_op_end(op, lost);
		return 0;
	}
	diw_match_post(recv_match(ep, m), &op->key);
	if (op->multi)
		recv_many(op, m, from);
	return 0;
}

/* Drops a message that no receive will take. A sender that waits for an answer gets one. */
static void message_discard(struct glue_op *message)
{
	if (message->hdr.kind == GLUE_RTS || message->hdr.flags & GLUE_REPORT)
		diw_glue_rts_refuse(message);
	else
		diw_glue_message_free(message);
}

/* Counters count the message when it is received, and not when it is looked at. */
static ssize_t recv_peek(struct glue_ep *ep, const struct glue_msg *m, const struct glue_peer *from, uint64_t flags)
{
	struct glue_op *op = diw_glue_op_get(ep, GLUE_OP_PEEK), *message;

	if (!op)
		return -FI_EAGAIN;
	diw_glue_port_poll(ep);
	message = recv_find(ep, m, from);
	op->entry.op_context = m->ctx;
	op->entry.tag = m->tag;
	if (!message) {
		op->entry.flags = FI_RECV | (m->flags & GLUE_TAGGED ? FI_TAGGED : FI_MSG);
		diw_glue_op_end(op, FI_ENOMSG);
		return 0;
	}
	op->len = message_len(message);
	diw_glue_message_envelope(op, message->peer, &message->hdr, op->len);
	if (flags & (FI_CLAIM | FI_DISCARD))
		diw_match_take(&message->key);
	if (flags & FI_CLAIM) {
		message->entry.op_context = m->ctx;
		diw_list_add_tail(&ep->claimed, &message->link);
	} else if (flags & FI_DISCARD) {
		message_discard(message);
	}
	diw_glue_op_end(op, 0);
	return 0;
}

/* The message, tagged or not, that a peek with the same context has claimed. */
static struct glue_op *claimed_find(const struct glue_ep *ep, const struct glue_msg *m)
{
	for (struct diw_list *n = ep->claimed.next; n != &ep->claimed; n = n->next) {
		struct glue_op *message = diw_container(n, struct glue_op, link);

		if (message->entry.op_context == m->ctx && !((message->hdr.flags ^ m->flags) & GLUE_TAGGED))
			return message;
	}
	return NULL;
}

static ssize_t recv_claimed(struct glue_ep *ep, const struct glue_msg *m, uint64_t flags)
{
	struct glue_op *message = claimed_find(ep, m), *op;
	int lost;

	if (!message)
		return -FI_EINVAL;
	op = diw_glue_op_get(ep, GLUE_OP_RECV);
	if (!op)
		return -FI_EAGAIN;
	diw_list_del(&message->link);
	op_describe(op, m, diw_glue_iov_total(m->iov, m->iovs));
	op->silent = recv_is_silent(ep, flags);
	lost = message->entry.err;
	if (!lost && !(flags & FI_DISCARD)) {
		recv_give(op, message);
		return 0;
	}
	op->len = message_len(message);
	diw_glue_message_envelope(op, message->peer, &message->hdr, op->len);
	if (lost)
		diw_glue_message_free(message);
	else
		message_discard(message);
	diw_glue_op_end(op, lost);
	return 0;
}

ssize_t diw_glue_recv(struct glue_ep *ep, const struct glue_msg *m, uint64_t flags)
{
	const struct glue_peer *from = NULL;
	ssize_t rc;

	if (flags & GLUE_FLAGS_REFUSED)
		return -FI_EBADFLAGS;
	if (m->iovs > (recv_is_many(m, flags) ? 1 : GLUE_IOV))  /* messages lie in one buffer, one behind the other */
		return -FI_EINVAL;
	glue_lock(ep->domain);
	if (ep->enabled && ep->directed && m->addr != FI_ADDR_UNSPEC)
		from = diw_glue_av_peer(ep->av, m->addr);
	if (!ep->enabled)
		rc = -FI_EOPBADSTATE;
	else if (ep->directed && m->addr != FI_ADDR_UNSPEC && !from)
		rc = -FI_EINVAL;
	else if (flags & FI_PEEK)
		rc = recv_peek(ep, m, from, flags);
	else if (flags & FI_CLAIM)
		rc = recv_claimed(ep, m, flags);
	else
		rc = recv_post(ep, m, from, flags);
	glue_unlock(ep->domain);
	return rc;
}

static bool recv_has_ctx(struct match_key *k, void *ctx)
{
	return diw_container(k, struct glue_op, key)->entry.op_context == ctx;
}

void diw_glue_recv_end(struct match *m, struct glue_op *op, int err)
{
	diw_match_unpost(m, &op->key);
	if (op->children) {              /* the last of its messages returns the buffer */
		op->released = true;
		return;
	}
	op->entry.flags = FI_RECV | (m == &op->ep->tagged ? FI_TAGGED : FI_MSG) | (op->multi ? FI_MULTI_RECV : 0);
	diw_glue_op_end(op, err);
}

static bool recv_cancel(struct match *m, void *ctx)
{
	struct match_key *k = diw_match_each(m, recv_has_ctx, ctx);

	if (k)
		diw_glue_recv_end(m, diw_container(k, struct glue_op, key), FI_ECANCELED);
	return k;
}

ssize_t diw_glue_cancel(fid_t fid, void *ctx)
{
	struct glue_ep *ep = (struct glue_ep *)fid;

	glue_lock(ep->domain);
	if (!recv_cancel(&ep->tagged, ctx))
		recv_cancel(&ep->untagged, ctx);
	glue_unlock(ep->domain);
	return 0;
}
