/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving over an ordered link (RFC 5041 sections 5.3 and 6). Segments come whole and in order, so the only state of
 * a message is its progress. The first fault ends the stream. A segment that finds no receive waits in the link for a
 * bounded time. A segment whose completion finds no room waits until there is room.
 *
 * The link may ask for the place of a segment that it is still receiving. Each such question authorises the segment and
 * resolves the STag again. When the segment is complete, it takes the way of all segments, but for the copy.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/trace.h"
#include "ddp/ddp.h"

#define ASK_NS (5 * DIW_S)
#define GONE_NS (25 * DIW_S)

void diw_ddp_init_ordered(struct diw_ddp *d)
{
	d->order = (struct diw_order){ .tx_msn = { 1, 1, 1, 1 }, .rx_msn = { 1, 1, 1, 1 } };
}

void diw_ddp_begin_ordered(struct diw_ddp *d, const struct diw_addr *peer, uint8_t extras, bool seen)
{
	d->cfg.peer = (struct diw_dest){ .addr = *peer };
	d->cfg.extras = extras;
	d->cfg.rnr_timeout = d->cfg.rnr_most;
	d->order.seen = seen;
}

void diw_ddp_limit_rnr(struct diw_ddp *d, bool limited, uint64_t n)
{
	struct diw_ddp_cfg *cfg = &d->cfg;

	if (cfg->rnr_unit)
		cfg->rnr_timeout = limited ? diw_min64(n * cfg->rnr_unit, cfg->rnr_most) : cfg->rnr_most;
}

uint64_t diw_ddp_wait_deadline(const struct diw_ddp *d)
{
	const struct diw_order *o = &d->order;

	if (!o->waits_until)
		return DIW_NEVER;
	return o->asks_at ? diw_min64(o->waits_until, o->asks_at) : o->waits_until;
}

/* No receive: the segment waits. The end of the stream is behind it and cannot be read before, so the link is asked
 * whether the peer has hung up. */
static uint16_t order_await_recv(struct diw_ddp *d, uint64_t now)
{
	struct diw_order *o = &d->order;

	if (!o->waits_until) {
		o->waits_until = now + d->cfg.rnr_timeout;
		o->asks_at = now + ASK_NS;
		d->c->rx_stalled++;
	} else if (now >= o->asks_at) {
		o->asks_at = now + ASK_NS;
		if (d->link->ops->hung_up && d->link->ops->hung_up(d->link))
			o->waits_until = diw_min64(o->waits_until, now + GONE_NS);
	}
	return now < o->waits_until ? DIW_DDP_NOT_NOW : DIW_FAULT_NO_BUFFER;
}

/* MSN and MO must continue the segment before (RFC 5041 section 7.1). */
static uint16_t order_check_msn(const struct diw_order *o, const struct diw_ddp_hdr *h)
{
	if (h->msn != o->rx_msn[h->qn])
		return DIW_FAULT_MSN;
	return h->mo == (h->qn == 0 ? o->got : 0) ? 0 : DIW_FAULT_MO;
}

/* A tagged message has one STag, and its segments are contiguous (RFC 5041 section 5.1). It has less than 2^32 octets,
 * since a completion's length has 32 bits. */
static uint16_t order_check_write(const struct diw_order *o, const struct diw_ddp_seg *seg)
{
	const struct diw_ddp_hdr *h = &seg->h;

	if (!o->writes)
		return 0;
	if (h->stag != o->write_stag)
		return DIW_FAULT_STAG;
	return h->to == o->write_to && seg->len <= UINT32_MAX - o->written ? 0 : DIW_FAULT_BOUNDS;
}

static void order_end_message(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint16_t fault)
{
	struct diw_recv *recv = d->order.recv;

	d->order.recv = NULL;
	d->order.got = d->order.written = 0;
	d->order.rx_msn[0]++;
	d->ulp->recv_done(d->ulp_ctx, recv, seg, fault);
}

static uint16_t order_take_recv(struct diw_ddp *d, bool last, uint64_t now)
{
	struct diw_order *o = &d->order;

	if (last && !diw_ddp_cq_room(d, 1))
		return DIW_DDP_NOT_NOW;         /* waits as long as our application leaves the queue full */
	if (!o->recv)
		o->recv = diw_ddp_recv_take(d);
	return o->recv ? 0 : order_await_recv(d, now);
}

static uint16_t order_send_rx(struct diw_ddp *d, struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_order *o = &d->order;
	uint16_t fault = order_check_msn(o, &seg->h);

	if (fault == 0)
		fault = order_take_recv(d, seg->h.last, now);
	if (fault)
		return fault;
	if (o->got == 0)
		o->first = seg->h;
	if (seg->len > o->recv->buf.len - o->got)
		fault = DIW_FAULT_TOO_LONG;
	else if (diw_ddp_place(d, &o->recv->buf, o->got, seg->payload, seg->len - seg->placed) != 0)
		fault = DIW_FAULT_LOCAL_PROT;
	if (fault) {
		if (diw_ddp_cq_room(d, 1))
			order_end_message(d, seg, fault);
		return fault;
	}
	d->c->rx_payload += seg->len;
	o->got += seg->len;
	if (!seg->h.last)
		return 0;
	seg->h.length = o->got;
	order_end_message(d, seg, 0);
	return 0;
}

/* An Immediate follows its Write directly and carries no length (RFC 7306 section 6). */
static uint16_t order_immediate_rx(struct diw_ddp *d, struct diw_ddp_seg *seg, uint64_t now)
{
	uint16_t fault = order_check_msn(&d->order, &seg->h);

	if (fault == 0)
		fault = seg->h.last ? order_take_recv(d, true, now) : DIW_FAULT_MO;
	if (fault)
		return fault;
	seg->h.length = d->order.written;
	order_end_message(d, seg, 0);
	return 0;
}

static uint16_t order_message_rx(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now)
{
	uint16_t fault = seg->h.last ? order_check_msn(&d->order, &seg->h) : DIW_FAULT_TOO_LONG;

	if (fault)
		return fault;
	d->order.rx_msn[seg->h.qn]++;
	d->order.written = 0;
	return d->ulp->message(d->ulp_ctx, seg, now);
}

static void order_count_write(struct diw_order *o, const struct diw_ddp_seg *seg)
{
	o->written = (o->writes ? o->written : 0) + seg->len;
	o->writes = !seg->h.last;
	o->write_stag = seg->h.stag;
	o->write_to = seg->h.to + seg->len;
}

static uint16_t order_place(struct diw_ddp *d, const struct diw_ddp_target *t, const struct diw_ddp_seg *seg,
			    uint64_t now)
{
	const struct diw_ddp_hdr *h = &seg->h;
	uint16_t fault = t->kind == DIW_TARGET_STAG ? order_check_write(&d->order, seg) : 0;
	uint8_t *to;

	if (fault)
		return fault;
	if (t->kind == DIW_TARGET_BUF) {
		if (diw_ddp_place(d, &t->buf, h->mo, seg->payload, seg->len - seg->placed) != 0)
			fault = DIW_FAULT_LOCAL_PROT;
	} else if (seg->len) {                  /* an empty Write is not checked (RFC 5040 section 5.1) */
		fault = diw_ddp_resolve(d, h->stag, DIW_STAG_REMOTE_WRITE, seg->src, h->to, seg->len, &to);
		if (fault == 0)
			diw_copy(to, seg->payload, seg->len - seg->placed);
	}
	if (fault)
		return fault;
	d->c->rx_payload += seg->len;
	if (t->kind == DIW_TARGET_STAG)
		order_count_write(&d->order, seg);
	d->ulp->placed(d->ulp_ctx, t->cookie, seg, now);
	return 0;
}

static uint16_t order_take(struct diw_ddp *d, struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_ddp_target t;
	uint16_t fault = d->ulp->target(d->ulp_ctx, seg, &t, now);

	if (fault)
		return fault;
	switch (t.kind) {
	case DIW_TARGET_RECV: return order_send_rx(d, seg, now);
	case DIW_TARGET_IMMEDIATE: return order_immediate_rx(d, seg, now);
	case DIW_TARGET_MESSAGE: return order_message_rx(d, seg, now);
	default:
		if (t.kind == DIW_TARGET_BUF)
			seg->h.mo = t.mo;
		return order_place(d, &t, seg, now);
	}
}

static uint16_t order_decode(const struct diw_ddp *d, struct diw_ddp_seg *seg, const struct diw_addr *src,
			     const struct diw_link_rxseg *from)
{
	uint16_t fault = diw_ddp_hdr_decode_plain(&seg->h, &seg->hdr_len, d->cfg.extras, from->data, from->len);

	seg->src = src;
	seg->raw = from->data;
	seg->group = false;
	seg->to = NULL;
	seg->payload = seg->raw + seg->hdr_len;
	seg->len = from->len - seg->hdr_len;
	seg->placed = from->placed;
	return fault;
}

static void order_fault(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	DIW_TRACE_SEGMENT_DROPPED(d->c, fault, seg->hdr_len + seg->len, seg->src->port);
	diw_fault_count(d->c, fault);
	d->order.dead = true;
	d->ulp->fault(d->ulp_ctx, seg, fault, now);
}

static int ordered_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct diw_ddp *d = ctx;
	int i;

	for (i = 0; i < n && !d->order.dead; i++) {
		struct diw_ddp_seg seg;
		uint16_t fault;

		if (segs[i].len == 0) {
			d->c->rx_segments++;
			d->order.seen = true;
			continue;
		}
		fault = order_decode(d, &seg, src, &segs[i]);
		if (fault == 0)
			fault = order_take(d, &seg, now);
		d->order.seen = true;
		if (fault == DIW_DDP_NOT_NOW && !d->order.waiting)
			d->order.waits_since = now;
		d->order.waiting = fault == DIW_DDP_NOT_NOW;
		if (fault == DIW_DDP_NOT_NOW)
			return i;
		d->order.waits_until = 0;
		d->c->rx_segments++;
		if (fault == 0)
			DIW_TRACE_SEGMENT_RECEIVED(d->c, seg.h.opcode, seg.h.msn, seg.h.mo, seg.len, src->port);
		else
			order_fault(d, &seg, fault, now);
	}
	return n;
}

/* ---- The place of a segment that is being received ---- */

/* BEGUN: octets of the segment are in the receive, which the message holds. */
static uint16_t order_send_reach(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint32_t off, bool begun,
				 struct iovec *iov, int *n)
{
	struct diw_order *o = &d->order;
	uint16_t fault = order_check_msn(o, &seg->h);

	if (fault)
		return fault;
	if (!begun && seg->h.last && !diw_ddp_cq_room(d, 1))
		return DIW_DDP_NOT_NOW;
	if (!begun && !o->recv)
		o->recv = diw_ddp_recv_take(d);
	if (!o->recv)
		return begun ? DIW_FAULT_LOCAL_PROT : DIW_DDP_NOT_NOW;
	if (seg->len > o->recv->buf.len - o->got)
		return DIW_FAULT_TOO_LONG;
	/* With the octets that came in the head, the receive has a prefix of the message at every time. */
	if (!begun && diw_ddp_place(d, &o->recv->buf, o->got, seg->payload, off) != 0)
		return DIW_FAULT_LOCAL_PROT;
	if (diw_ddp_scatter_part(d, &o->recv->buf, o->got + off, seg->len - off, iov, n) == 0)
		return 0;
	if (begun && diw_ddp_cq_room(d, 1))
		order_end_message(d, seg, DIW_FAULT_LOCAL_PROT);
	return DIW_FAULT_LOCAL_PROT;
}

static uint16_t order_write_reach(const struct diw_ddp *d, const struct diw_ddp_seg *seg, uint32_t off,
				  struct iovec *iov, int *n)
{
	uint16_t fault = order_check_write(&d->order, seg);
	uint8_t *to;

	if (fault == 0)
		fault = diw_ddp_resolve(d, seg->h.stag, DIW_STAG_REMOTE_WRITE, seg->src, seg->h.to, seg->len, &to);
	if (fault)
		return fault;
	*iov = (struct iovec){ to + off, seg->len - off };
	*n = 1;
	return 0;
}

static uint16_t order_reach(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint32_t off, bool begun,
			    struct iovec *iov, int *n, uint64_t now)
{
	struct diw_ddp_target t;
	uint16_t fault = d->ulp->target(d->ulp_ctx, seg, &t, now);

	if (fault)
		return fault;
	switch (t.kind) {
	case DIW_TARGET_RECV: return order_send_reach(d, seg, off, begun, iov, n);
	case DIW_TARGET_BUF:
		fault = diw_ddp_scatter_part(d, &t.buf, t.mo + off, seg->len - off, iov, n);
		return fault ? DIW_FAULT_LOCAL_PROT : 0;
	case DIW_TARGET_STAG: return order_write_reach(d, seg, off, iov, n);
	default: return DIW_DDP_NOT_NOW;
	}
}

/* A fault of a segment of which no octet is placed is found again by ordered_rx(). */
static int ordered_reach(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *from, uint32_t at,
			 struct iovec *iov, uint64_t now)
{
	struct diw_ddp *d = ctx;
	bool begun = at > DIW_LINK_MAX_HDR;
	struct diw_ddp_seg seg;
	uint16_t fault;
	int n = 0;

	if (d->order.dead)
		return 0;
	fault = order_decode(d, &seg, src, from);
	if (fault == 0)
		fault = order_reach(d, &seg, at - seg.hdr_len, begun, iov, &n, now);
	if (fault && begun)
		order_fault(d, &seg, fault, now);
	return fault ? 0 : n;
}

static void ordered_down(void *ctx, uint16_t fault, int errnum, uint64_t now)
{
	struct diw_ddp *d = ctx;

	if (d->order.dead)
		return;
	d->order.dead = true;
	if (!fault && !errnum && d->order.recv) {       /* the end of the stream within a message is a fault */
		fault = DIW_FAULT_MPA_CLOSED;
		errnum = ECONNRESET;
		diw_fault_count(d->c, fault);
	}
	d->ulp->down(d->ulp_ctx, fault, errnum, now);
}

const struct diw_link_up diw_ddp_ordered_up = { .rx = ordered_rx, .reach = ordered_reach, .down = ordered_down };
