/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages (docs/mpi-wire.md section 4). The sender's RTS has the envelope. The receiver that matches it answers
 * with a CTS, which names its buffer by an STag for that peer only. The immediate of the sender's Write-Records, or
 * over RC of its last Write, is the id of the receiver's operation. For a buffer of several vectors, and with
 * FI_DIWARP_MODE=sendrecv, the message is sent by Sends. With FI_DIWARP_MODE=read the RTS names the sender's buffer,
 * and the receiver reads it.
 */
#include <errno.h>
#include <string.h>

#include "mpi_glue/port.h"

#define GLUE_STATUSES 4096u              /* error numbers are smaller */

/* Registers LEN octets of the buffer for the peer alone, and names them in the header. False: not possible. An STag
 * cannot be bound to an address that is not known yet. */
static bool op_register(struct glue_op *op, uint64_t len, unsigned access)
{
	struct diw_mr_attr a = { .addr = op->iov[0].iov_base, .length = len, .access = access,
				 .peer = op->ep->port->ops->source(op->ep, op->peer) };

	if (op->iovs != 1 || !a.peer || diw_mr_reg_attr(op->ep->domain->pd, &a, &op->mr) < 0) {
		op->mr = NULL;
		return false;
	}
	op->hdr.stag = op->mr->stag;
	op->hdr.to = op->mr->to;
	return true;
}

/* ---- The receiver ---- */

static void receive_end(struct glue_op *op)
{
	diw_glue_op_end(op, op->entry.err ? op->entry.err : op->entry.olen ? FI_ETRUNC : 0);
}

void diw_glue_report(struct glue_op *op, uint32_t id)
{
	if (op->queue)
		diw_glue_unpend(op);
	op->hdr = (struct glue_hdr){ .kind = GLUE_FIN, .id = id, .status = (uint32_t)op->entry.err };
	diw_glue_pend(op, GLUE_TODO_FIN);
	diw_glue_resume(op);
}

/* Registers the buffer for the sender only, and only the octets that are requested. A CTS without an STag asks for
 * Sends. */
static void receive_expose(struct glue_op *op)
{
	if (op->ep->domain->set.mode != GLUE_MODE_SENDRECV)
		op_register(op, op->want, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE);
}

/* A receive whose hdr is the RTS reads. */
static void receive_by_reads(struct glue_op *op, const struct glue_hdr *rts)
{
	op->hdr = *rts;
	op->target[0] = (struct glue_target){ rts->stag, rts->to, op->want };
	op->targets = 1;
	op->posted = 0;
	op->copy = op->notes = false;
	diw_glue_pend(op, GLUE_TODO_READ);
}

static bool receive_reads(const struct glue_op *op)
{
	return op->kind == GLUE_OP_RECV && op->hdr.kind == GLUE_RTS;
}

void diw_glue_rts_match(struct glue_op *op, struct glue_peer *from, const struct glue_hdr *h)
{
	op->peer = from;
	op->reports = h->flags & GLUE_REPORT;
	op->want = op->entry.len;
	op->done = 0;
	if (op->want == 0) {
		diw_glue_report(op, h->id);
		return;
	}
	if (h->flags & GLUE_READABLE) {
		receive_by_reads(op, h);
	} else {
		op->hdr = (struct glue_hdr){ .kind = GLUE_CTS, .id = h->id, .peer_id = op->id, .len = op->want };
		receive_expose(op);
		diw_glue_pend(op, GLUE_TODO_CTS);
	}
	diw_glue_resume(op);
}

/* The message's operation becomes the answer's, so an answer needs no other one. */
void diw_glue_rts_refuse(struct glue_op *message)
{
	if (message->buf)
		diw_glue_buf_put(message->buf);
	message->buf = NULL;
	diw_glue_hold_uncount(message);
	diw_glue_op_uncount(message);
	diw_glue_report(message, message->hdr.id);
}

struct glue_op *diw_glue_op_of(struct glue_ep *ep, const struct glue_peer *from, uint32_t id, enum glue_op_kind kind)
{
	struct glue_op *op = diw_glue_op_find(ep->domain, id);

	if (op && op->ep == ep && op->peer == from && op->kind == kind)
		return op;
	diw_glue_drop(ep, from, GLUE_DROP_STRAY);
	return NULL;
}

void diw_glue_data_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h, const uint8_t *data,
			uint32_t len)
{
	struct glue_op *op = diw_glue_op_of(ep, from, h->id, GLUE_OP_RECV);

	if (!op || op->mr || op->hdr.kind != GLUE_CTS || h->to > op->want || len > op->want - h->to) {
		if (op)
			diw_glue_drop(ep, from, GLUE_DROP_MALFORMED);
		return;
	}
	diw_glue_copy_in(op, h->to, data, len);
	op->done += len;
	if (op->done >= op->want && op->reports)
		diw_glue_report(op, op->hdr.id);
	else if (op->done >= op->want)
		receive_end(op);
}

struct glue_op *diw_glue_op_exposed(struct glue_ep *ep, uint32_t id)
{
	struct glue_op *op = diw_glue_op_find(ep->domain, id);

	return op && op->ep == ep && op->kind == GLUE_OP_RECV && op->mr ? op : NULL;
}

void diw_glue_octets_came(struct glue_op *op, uint64_t len)
{
	op->done += len;
	if (op->done >= op->want)
		receive_end(op);
}

/* ---- The sender ---- */

void diw_glue_rts_offer(struct glue_op *op)
{
	if (op_register(op, op->len, DIW_ACCESS_REMOTE_READ))   /* otherwise the receiver sends CTS */
		op->hdr.flags |= GLUE_READABLE;
}

void diw_glue_cts_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h)
{
	struct glue_op *op = diw_glue_op_of(ep, from, h->id, GLUE_OP_SEND);

	if (!op || op->hdr.kind != GLUE_RTS || h->len == 0 || h->len > op->len) {
		if (op)
			diw_glue_drop(ep, from, GLUE_DROP_MALFORMED);
		return;
	}
	diw_glue_op_uncount(op);
	op->hdr = *h;
	op->want = h->len;
	op->posted = 0;
	diw_glue_pend(op, GLUE_TODO_DATA);
	diw_glue_resume(op);
}

int diw_glue_status_errno(uint32_t status)
{
	return status < GLUE_STATUSES ? (int)status : FI_EIO;
}

/* Whether all octets that the receiver wants are posted. */
static bool data_is_posted(const struct glue_op *op)
{
	return op->posted == op->want && !op->queue;
}

/* Whether FIN ends the send: in place of CTS, or as a report. */
static bool fin_is_due(const struct glue_op *op)
{
	switch (op->hdr.kind) {
	case GLUE_RTS: return true;
	case GLUE_EAGER: return op->reports;
	default: return op->reports && op->hdr.stag == 0 && data_is_posted(op);
	}
}

void diw_glue_fin_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h)
{
	struct glue_op *op = diw_glue_op_of(ep, from, h->id, GLUE_OP_SEND);

	if (op && fin_is_due(op))
		diw_glue_op_end(op, diw_glue_status_errno(h->status));
	else if (op)
		diw_glue_drop(ep, from, GLUE_DROP_MALFORMED);
}

/* Whether OP is complete when all of its requests are acknowledged. */
static bool requests_are_all(const struct glue_op *op)
{
	bool reported = op->reports && op->hdr.stag == 0;      /* FIN ends it */

	return data_is_posted(op) && (op->kind != GLUE_OP_SEND || (op->hdr.kind != GLUE_RTS && !reported));
}

/* No request of OP is under way any more. */
static void requests_end(struct glue_op *op)
{
	if (receive_reads(op))
		diw_glue_report(op, op->hdr.id);
	else
		diw_glue_op_end(op, op->entry.err);
}

void diw_glue_request_done(struct glue_op *op, int err)
{
	if (err && !op->entry.err)
		op->entry.err = err;
	if (op->kind != GLUE_OP_SEND && op->kind != GLUE_OP_READ && op->kind != GLUE_OP_WRITE && !receive_reads(op)) {
		if (op->kind == GLUE_OP_ANSWER)
			diw_glue_answer_done(op);
		else if (err)
			diw_glue_op_end(op, op->entry.err);
		return;
	}
	op->requests--;
	if (op->requests == 0 && (op->entry.err || requests_are_all(op)))
		requests_end(op);
}

static int data_post_writes(struct glue_op *op)
{
	while (op->posted < op->want) {
		uint64_t left = op->want - op->posted;
		uint32_t n = left < DIW_MAX_RDMA ? (uint32_t)left : DIW_MAX_RDMA;
		int rc = diw_glue_port_write(op, op->posted, n);

		if (rc < 0)
			return rc;
		op->requests++;
		op->posted += n;
	}
	return 0;
}

static int data_post_sends(struct glue_op *op)
{
	uint64_t piece = op->ep->domain->set.eager;

	while (op->posted < op->want) {
		uint64_t left = op->want - op->posted;
		uint32_t n = (uint32_t)(left < piece ? left : piece);
		struct glue_hdr h = { .kind = GLUE_DATA, .id = op->hdr.peer_id, .to = op->posted };
		int rc = diw_glue_port_send(op->ep, op->peer, &h, op->iov, op->posted, n, op, left > n);

		if (rc < 0)
			return rc;
		op->requests++;
		op->posted += n;
	}
	return 0;
}

static int todo_run(struct glue_op *op)
{
	switch ((enum glue_todo)op->todo) {
	case GLUE_TODO_CTS:
		return diw_glue_port_send(op->ep, op->peer, &op->hdr, NULL, 0, 0, op, false);
	case GLUE_TODO_FIN:              /* OP ends before it is acknowledged */
		return diw_glue_port_send(op->ep, op->peer, &op->hdr, NULL, 0, 0, NULL, false);
	case GLUE_TODO_DATA:
		return op->hdr.stag ? data_post_writes(op) : data_post_sends(op);
	case GLUE_TODO_READ:
	case GLUE_TODO_RMA:
		return diw_glue_rma_run(op);
	default:
		return 0;
	}
}

/* The next state after the message was sent. */
static void todo_done(struct glue_op *op)
{
	if (op->todo == GLUE_TODO_FIN)
		receive_end(op);
}

bool diw_glue_resume(struct glue_op *op)
{
	int rc = todo_run(op);

	if (rc == -FI_EAGAIN)
		return false;
	diw_glue_unpend(op);
	if (rc < 0)
		op->entry.err = -rc;
	if (rc == 0)
		todo_done(op);
	else if (op->requests == 0)
		requests_end(op);
	return true;
}
