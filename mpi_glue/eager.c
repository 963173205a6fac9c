/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that arrive: each goes to the receive that matches it, or is kept until one is posted. */
#include <string.h>

#include "mpi_glue/glue.h"

uint64_t diw_glue_copy_in(const struct glue_op *op, uint64_t off, const uint8_t *data, uint64_t len)
{
	uint64_t left = len;

	for (uint32_t i = 0; i < op->iovs && left; i++) {
		uint64_t here = op->iov[i].iov_len;

		if (off >= here) {
			off -= here;
			continue;
		}
		here = here - off < left ? here - off : left;
		memcpy((uint8_t *)op->iov[i].iov_base + off, data, here);
		data += here;
		left -= here;
		off = 0;
	}
	return len - left;
}

void diw_glue_copy_out(uint8_t *to, const struct iovec *iov, uint64_t off, uint64_t len)
{
	for (; len; iov++) {
		uint64_t here = iov->iov_len;

		if (off >= here) {
			off -= here;
			continue;
		}
		here = here - off < len ? here - off : len;
		memcpy(to, (const uint8_t *)iov->iov_base + off, here);
		to += here;
		len -= here;
		off = 0;
	}
}

/* Sets the fields of a completion that describe a message of LEN octets. */
void diw_glue_message_envelope(struct glue_op *op, const struct glue_peer *from, const struct glue_hdr *h, uint64_t len)
{
	op->peer = (struct glue_peer *)(uintptr_t)from;
	op->entry.flags |= FI_RECV | (h->flags & GLUE_TAGGED ? FI_TAGGED : FI_MSG) |
			   (h->flags & GLUE_IMM ? FI_REMOTE_CQ_DATA : 0);
	op->entry.tag = h->tag;
	op->entry.data = h->imm;
	op->entry.len = len < op->len ? len : op->len;
	op->entry.olen = len - op->entry.len;
}

/* The part of a buffer for many messages that the next message takes; NULL: no room for an operation. */
struct glue_op *diw_glue_receive_part(struct glue_op *parent, uint64_t len)
{
	struct glue_op *op = diw_glue_op_get(parent->ep, GLUE_OP_RECV);
	uint64_t room = parent->len - parent->done;

	if (!op)
		return NULL;
	op->parent = parent;
	parent->children++;
	op->silent = parent->silent;
	op->entry.op_context = parent->entry.op_context;
	op->entry.buf = (uint8_t *)parent->iov[0].iov_base + parent->done;
	op->len = len < room ? len : room;
	op->iov[0] = (struct iovec){ op->entry.buf, op->len };
	op->iovs = 1;
	parent->done += op->len;
	if (parent->len - parent->done < parent->ep->min_multi_recv || parent->done == parent->len) {
		diw_match_unpost(&parent->ep->untagged, &parent->key);
		parent->released = true;
	}
	return op;
}

void diw_glue_message_deliver(struct glue_op *op, struct glue_peer *from, const struct glue_hdr *h, const uint8_t *data,
			      uint32_t len)
{
	if (h->kind == GLUE_RTS) {
		diw_glue_message_envelope(op, from, h, h->len);
		diw_glue_rts_match(op, from, h);
		return;
	}
	diw_glue_message_envelope(op, from, h, len);
	diw_glue_copy_in(op, 0, data, op->entry.len);
	if (h->flags & GLUE_REPORT) {
		diw_glue_report(op, h->id);
		return;
	}
	diw_glue_op_end(op, op->entry.olen ? FI_ETRUNC : 0);
}

/* Takes the posted operation that matches a message of LEN octets; NULL: none. */
static struct glue_op *receive_match(struct match *m, struct glue_peer *from, uint64_t tag, uint64_t len)
{
	struct match_key *k = diw_match_find_receive(m, from, tag);
	struct glue_op *op;

	if (!k)
		return NULL;
	op = diw_container(k, struct glue_op, key);
	if (op->multi)
		return diw_glue_receive_part(op, len);
	diw_match_unpost(m, k);
	return op;
}

/* Stores an eager message without a receive. A small one is copied out of the receive's buffer if there is room; others
 * keep that buffer. */
static void message_store(struct glue_op *op, struct glue_buf *b, uint8_t *data, uint32_t len)
{
	op->len = len;
	op->buf = len <= GLUE_SMALL ? diw_glue_buf_get(&op->ep->small) : NULL;
	if (op->buf) {
		op->data = memcpy(op->buf->data, data, len);
		return;
	}
	op->buf = b;
	op->data = data;
}

bool diw_glue_message_came(struct glue_ep *ep, struct glue_peer *from, const struct glue_hdr *h, struct glue_buf *b,
			   uint8_t *data, uint32_t len)
{
	struct match *m = h->flags & GLUE_TAGGED ? &ep->tagged : &ep->untagged;
	struct glue_op *op = receive_match(m, from, h->tag, h->kind == GLUE_RTS ? h->len : len);

	if (op) {
		diw_glue_message_deliver(op, from, h, data, len);
		return false;
	}
	if (h->kind == GLUE_RTS && from->rts_in >= GLUE_RTS_MAX * ep->av->users) {
		diw_glue_drop(ep, from, GLUE_DROP_FLOOD);
		return false;
	}
	op = diw_glue_op_get(ep, GLUE_OP_MESSAGE);
	if (!op) {                       /* cannot happen: diw_glue_port_poll() and diw_glue_inbox_run() look before */
		diw_glue_drop(ep, from, GLUE_DROP_NO_ROOM);
		return false;
	}
	op->peer = from;
	if (h->kind == GLUE_RTS) {
		op->len = 0;
		diw_glue_op_count(op, &from->rts_in);
	} else {
		message_store(op, b, data, len);
		diw_glue_hold_count(op);
	}
	op->hdr = *h;
	op->key.source = from;
	op->key.tag = h->tag;
	diw_match_arrive(m, &op->key);
	return op->buf == b;
}

void diw_glue_message_free(struct glue_op *message)
{
	if (message->buf)
		diw_glue_buf_put(message->buf);
	diw_glue_op_put(message);
}
