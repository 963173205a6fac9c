/* SPDX-License-Identifier: BSD-2-Clause */
/* Received Sends. Each goes to the file that handles its kind. An atomic operation without room for its answer waits,
 * and all that its peer sends behind it, so that they stay in order. Other peers do not wait. */
#include "mpi_glue/glue.h"

/* Handles a Send of several EAGER messages. The first has the header H, and its octets begin at AT. Returns whether the
 * buffer is kept: each message that no receive matches may keep it. */
static bool packed_came(struct glue_ep *ep, struct glue_peer *from, struct glue_hdr *h, struct glue_buf *b,
			uint32_t at, uint32_t len)
{
	uint32_t kept = 0, n = at;
	bool whole = false;

	while (n) {
		if (h->kind != GLUE_EAGER || !h->packed || h->packed - 1u > len - at || len > GLUE_PACK)
			break;
		kept += diw_glue_message_came(ep, from, h, b, b->data + at, h->packed - 1u);
		at += h->packed - 1u;
		whole = at == len;
		n = whole ? 0 : diw_glue_hdr_decode(h, b->data + at, len - at);
		at += n;
	}
	if (!whole)
		diw_glue_drop(ep, from, GLUE_DROP_MALFORMED);
	b->others = kept ? kept - 1 : 0;
	return kept;
}

/* Handles a received Send of LEN octets. 0; 1: its buffer is kept; -FI_EAGAIN: nothing was done, since there is no room
 * for the answer. */
static int received_take(struct glue_ep *ep, struct glue_peer *from, struct glue_buf *b, uint32_t len)
{
	struct glue_hdr h;
	uint32_t n = diw_glue_hdr_decode(&h, b->data, len);
	uint8_t *data = b->data + n;

	if (!n) {
		diw_glue_drop(ep, from, GLUE_DROP_MALFORMED);
		return 0;
	}
	switch (h.kind) {
	case GLUE_CTS: diw_glue_cts_came(ep, from, &h); break;
	case GLUE_DATA: diw_glue_data_came(ep, from, &h, data, len - n); break;
	case GLUE_FIN: diw_glue_fin_came(ep, from, &h); break;
	case GLUE_HOLD: diw_glue_hold_came(from, &h); break;
	case GLUE_WRITTEN: diw_glue_written_came(ep, from, &h); break;
	case GLUE_ATOMIC: return diw_glue_atomic_came(ep, from, &h, data, len - n);
	case GLUE_RESULT: diw_glue_result_came(ep, from, &h, data, len - n); break;
	default:
		if (h.packed)
			return packed_came(ep, from, &h, b, n, len);
		return diw_glue_message_came(ep, from, &h, b, data, len - n);
	}
	return 0;
}

/* Keeps a Send behind the others of its peer that wait. A peer that has more atomic operations under way than it may
 * loses them. */
static bool inbox_keep(struct glue_ep *ep, struct glue_peer *from, struct glue_buf *b, uint32_t len)
{
	bool atomic = (b->data[0] & 15) == GLUE_ATOMIC;
	struct glue_op *op = NULL;

	if (atomic && from->atomics_in >= GLUE_ATOMICS_MAX * GLUE_IOV * ep->av->users) {
		diw_glue_drop(ep, from, GLUE_DROP_FLOOD);
		return false;
	}
	op = diw_glue_op_get(ep, GLUE_OP_MESSAGE);
	if (!op) {                       /* cannot happen after the check in diw_glue_port_poll() */
		diw_glue_drop(ep, from, GLUE_DROP_NO_ROOM);
		return false;
	}
	op->peer = from;
	op->buf = b;
	op->len = len;
	diw_glue_hold_count(op);
	if (atomic)
		diw_glue_op_count(op, &from->atomics_in);
	if (!from->inbox.next) {
		diw_list_init(&from->inbox);
		diw_list_init(&from->waits);
	}
	if (diw_list_empty(&from->inbox))
		diw_list_add_tail(&ep->domain->inboxes, &from->waits);
	diw_list_add_tail(&from->inbox, &op->link);
	return true;
}

static bool peer_waits(const struct glue_peer *p)
{
	return p->inbox.next && !diw_list_empty(&p->inbox);
}

bool diw_glue_received(struct glue_ep *ep, struct glue_peer *from, struct glue_buf *b, uint32_t len)
{
	int rc;

	if (!from) {
		diw_glue_drop(ep, NULL, GLUE_DROP_NO_ROOM);
		return false;
	}
	from->heard = true;
	if (len && (b->data[0] & 15) == GLUE_GONE) {
		diw_glue_gone_came(ep, from, b->data, len);
		return false;
	}
	if (from->gone) {
		diw_glue_drop(ep, from, GLUE_DROP_STRAY);
		diw_glue_gone_tell(ep, from);
		return false;
	}
	rc = peer_waits(from) ? -FI_EAGAIN : received_take(ep, from, b, len);
	return rc == -FI_EAGAIN ? inbox_keep(ep, from, b, len) : rc > 0;
}

static void inbox_remove(struct glue_op *op, bool keeps_buffer)
{
	struct glue_peer *from = op->peer;

	if (!keeps_buffer)
		diw_glue_buf_put(op->buf);
	diw_list_del(&op->link);
	diw_glue_op_put(op);
	if (diw_list_empty(&from->inbox))
		diw_list_del(&from->waits);
}

/* Stops while fewer operations are free than the messages of a Send may need. */
void diw_glue_inbox_run(struct glue_domain *d)
{
	struct diw_list *l, *next, *n;

	diw_list_for_each_safe(l, next, &d->inboxes) {
		struct glue_peer *from = diw_container(l, struct glue_peer, waits);

		while ((n = diw_list_first(&from->inbox)) && glue_ops_free(d) >= GLUE_SEND_OPS) {
			struct glue_op *op = diw_container(n, struct glue_op, link);
			int rc = received_take(op->ep, from, op->buf, (uint32_t)op->len);

			if (rc == -FI_EAGAIN)
				break;
			inbox_remove(op, rc > 0);
		}
	}
}

void diw_glue_inbox_lose(struct glue_ep *ep, struct glue_peer *from)
{
	struct diw_list *n, *next;

	if (!peer_waits(from))
		return;
	diw_list_for_each_safe(n, next, &from->inbox) {
		struct glue_op *op = diw_container(n, struct glue_op, link);
		uint8_t kind = op->buf->data[0] & 15;

		if (op->ep == ep && (kind == GLUE_ATOMIC || kind == GLUE_RTS))
			inbox_remove(op, false);
	}
}

void diw_glue_inbox_forget(struct glue_ep *ep)
{
	struct diw_list *l, *next, *n, *after;

	diw_list_for_each_safe(l, next, &ep->domain->inboxes) {
		struct glue_peer *from = diw_container(l, struct glue_peer, waits);

		diw_list_for_each_safe(n, after, &from->inbox)
			if (diw_container(n, struct glue_op, link)->ep == ep)
				inbox_remove(diw_container(n, struct glue_op, link), false);
	}
}
