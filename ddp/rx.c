/* SPDX-License-Identifier: BSD-2-Clause */
/* Received datagrams: each segment's length is checked, its header decoded, its target asked for and checked; only then
 * it is placed (RFC 5041 section 5). */
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/trace.h"
#include "ddp/ddp.h"

static uint16_t place_by_stag(struct diw_ddp *d, const struct diw_ddp_seg *seg)
{
	const struct diw_ddp_hdr *h = &seg->h;
	uint16_t fault;
	uint8_t *to;

	fault = diw_ddp_resolve(d, h->stag, DIW_STAG_REMOTE_WRITE, seg->src, h->to, seg->len, &to);
	if (fault == 0)
		diw_copy(to, seg->payload, seg->len);
	return fault;
}

static uint16_t take_segment(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_ddp_target t;
	uint16_t fault;

	fault = d->ulp->target(d->ulp_ctx, seg, &t, now);
	if (fault)
		return fault;
	if (t.kind == DIW_TARGET_RECORD)
		return diw_record_rx(d, seg, now);
	diw_record_burst_end(d);                /* completions stay in the order of arrival */
	switch (t.kind) {
	case DIW_TARGET_RECV:
		return diw_reasm_rx(d, seg, now);
	case DIW_TARGET_BUF:
		fault = diw_ddp_place(d, &t.buf, seg->h.mo, seg->payload, seg->len);
		break;
	case DIW_TARGET_STAG:
		fault = place_by_stag(d, seg);
		break;
	default:
		return d->ulp->message(d->ulp_ctx, seg, now);
	}
	if (fault)
		return fault;
	d->c->rx_payload += seg->len;
	d->ulp->placed(d->ulp_ctx, t.cookie, seg, now);
	return 0;
}

/* UC: a segment that finds no receive waits for one, for a bounded time. After a wait in vain, no segment waits until a
 * receive has been posted again. So a queue pair without receives does not delay the link. */
static bool may_await_recv(struct diw_ddp *d, uint64_t now)
{
	struct diw_order *o = &d->order;

	if (!o->had_recv)
		return false;
	if (!o->waits_until) {
		o->waits_until = now + DIW_DDP_UC_WAIT;
		d->c->rx_stalled++;
	}
	o->had_recv = o->waiting = now < o->waits_until;
	return o->waiting;
}

void diw_ddp_dropped(const struct diw_ddp *d, const struct diw_ddp_seg *seg, const char *reason, uint64_t now)
{
	const struct diw_link *l = d->link;
	char ip[DIW_ADDR_IP_STRLEN];

	if (l->dgram)
		diw_dgram_dropped(l->dgram, seg->raw, reason);
	diw_log_often(DIW_LOG_DEBUG, now, "port %u: a segment of %s port %u, header of %u bytes, payload of %u: %s",
		      l->local.port, diw_addr_ip_str(seg->src, ip), seg->src->port, seg->hdr_len, seg->len, reason);
}

void diw_ddp_drop(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint32_t len, uint16_t fault, uint64_t now)
{
	DIW_TRACE_SEGMENT_DROPPED(d->c, fault, len, seg->src->port);
	diw_fault_count(d->c, fault);
	diw_ddp_dropped(d, seg, diw_fault_counter(fault), now);
	d->ulp->fault(d->ulp_ctx, seg, fault, now);
}

static uint16_t decode_segment(struct diw_ddp *d, struct diw_ddp_seg *seg, const struct diw_link_rxseg *from)
{
	uint16_t fault = diw_ddp_seg_decode(seg, from);

	if (fault == 0)
		DIW_TRACE_SEGMENT_RECEIVED(d->c, seg->h.opcode, seg->h.msn, seg->h.mo, seg->len, seg->src->port);
	if (fault == 0 && d->cfg.fixed_peer && !diw_addr_eq(seg->src, &d->cfg.peer.addr))
		fault = DIW_FAULT_PEER;
	return fault;
}

static int link_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct diw_ddp *d = ctx;
	uint16_t fault;
	int i;

	d->order.waiting = false;
	if (d->order.dead) {
		d->c->rx_segments += (uint64_t)n;
		d->c->rx_dead += (uint64_t)n;
		return n;
	}
	for (i = 0; i < n; i++) {
		struct diw_ddp_seg seg;

		seg.src = src;
		fault = decode_segment(d, &seg, &segs[i]);
		if (fault == 0)
			fault = take_segment(d, &seg, now);
		if (fault == DIW_FAULT_NO_BUFFER && may_await_recv(d, now))
			break;
		if (fault)
			diw_ddp_drop(d, &seg, segs[i].len, fault, now);
	}
	if (!d->order.waiting)
		d->order.waits_until = 0;
	d->c->rx_segments += (uint64_t)i;
	diw_record_burst_end(d);
	return i;
}

static void link_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	struct diw_ddp *d = ctx;

	d->ulp->refused(d->ulp_ctx, first, n, errnum);
}

const struct diw_link_up diw_ddp_link_up = { .rx = link_rx, .refused = link_refused };
