/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving over reliable datagrams (docs/ud-profile.md section 18). The segments of each peer come whole, once and in
 * order. A segment that finds no receive, or no room for its completion, is not taken: the link keeps it and all
 * segments of the same peer behind it.
 */
#include "ddp/peers.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/rng.h"
#include "base/trace.h"
#include "ddp/ddp.h"

#define FORGET_NS (60 * DIW_S)       /* after this time the sender of an unfinished message has given up, or has gone */

int diw_peers_init(struct diw_ddp *d)
{
	uint32_t max = d->cfg.max_sources, buckets = diw_pool_buckets(max);
	struct diw_arena arena = { 0 };
	struct diw_peers *p;
	int rc = diw_arena_init(&arena, diw_arena_round(sizeof *p) + diw_pool_bytes(sizeof(struct diw_peer_msg), max) +
					diw_arena_round(buckets * sizeof *p->bucket));

	if (rc < 0)
		return rc;
	p = diw_arena_take(&arena, sizeof *p);
	p->arena = arena;
	diw_pool_init(&p->pool, &p->arena, sizeof(struct diw_peer_msg), max);
	p->bucket = diw_arena_take(&p->arena, buckets * sizeof *p->bucket);
	p->mask = buckets - 1;
	p->seed = diw_random();
	diw_list_init(&p->age);
	d->peers = p;
	return 0;
}

/* ---- The unfinished message of a peer ---- */

static struct diw_peer_msg **peer_msg_bucket(const struct diw_peers *p, const struct diw_addr *addr)
{
	return &p->bucket[diw_addr_hash(addr, p->seed) & p->mask];
}

static struct diw_peer_msg *peer_msg_find(const struct diw_peers *p, const struct diw_addr *addr)
{
	struct diw_peer_msg *m = p->pool.used ? *peer_msg_bucket(p, addr) : NULL;

	while (m && !diw_addr_eq(&m->addr, addr))
		m = m->hnext;
	return m;
}

static struct diw_peer_msg *peer_msg_new(struct diw_peers *p, const struct diw_ddp_seg *seg, struct diw_recv *recv)
{
	struct diw_peer_msg *m = diw_pool_get(&p->pool), **at = peer_msg_bucket(p, seg->src);

	if (!m)
		return NULL;
	*m = (struct diw_peer_msg){ .hnext = *at, .addr = *seg->src, .recv = recv, .first = seg->h };
	diw_list_init(&m->age);
	*at = m;
	return m;
}

static void peer_msg_end(struct diw_ddp *d, struct diw_peer_msg *m)
{
	struct diw_peer_msg **at = peer_msg_bucket(d->peers, &m->addr);

	while (*at != m)
		at = &(*at)->hnext;
	*at = m->hnext;
	diw_list_del(&m->age);
	diw_pool_put(&d->peers->pool, m);
}

/* The sender has begun another message, or has gone. */
static void peer_msg_give_up(struct diw_ddp *d, struct diw_peer_msg *m)
{
	d->c->reasm_timeout++;
	if (m->recv)
		diw_ddp_recv_return(d, m->recv);
	peer_msg_end(d, m);
}

static void peer_msg_grow(struct diw_ddp *d, struct diw_peer_msg *m, uint32_t len, uint64_t now)
{
	m->got += len;
	m->last_ns = now;
	diw_list_del(&m->age);
	diw_list_add_tail(&d->peers->age, &m->age);
}

/* 0 if a segment that is not the first continues message M, else a fault. */
static uint16_t peer_msg_continues(const struct diw_peer_msg *m, const struct diw_ddp_hdr *h)
{
	const struct diw_ddp_hdr *f;

	if (!m)
		return DIW_FAULT_REASM_LATE;
	f = &m->first;
	if (h->msn != f->msn || h->epoch != f->epoch || h->mo != m->got)
		return DIW_FAULT_MO;
	return h->tagged == f->tagged && h->opcode == f->opcode && h->length == f->length &&
	       h->imm_valid == f->imm_valid && h->imm == f->imm && h->inv_stag == f->inv_stag &&
	       (!h->tagged || (h->stag == f->stag && h->to - h->mo == f->to)) ? 0 : DIW_FAULT_STREAM;
}

/* ---- Segments ---- */

static uint16_t peer_stalls(struct diw_ddp *d)
{
	d->c->rx_stalled += !d->order.waiting;
	d->order.waiting = true;
	return DIW_DDP_NOT_NOW;
}

static uint16_t send_rx(struct diw_ddp *d, const struct diw_ddp_seg *seg, struct diw_peer_msg *m, uint64_t now)
{
	struct diw_recv *recv = m ? m->recv : NULL;
	uint16_t fault = 0;

	if (seg->h.last && !diw_ddp_cq_room(d, 1))
		return peer_stalls(d);
	if (!recv)
		recv = diw_ddp_recv_take(d);
	if (!recv)
		return peer_stalls(d);
	if (!m && seg->h.length > recv->buf.len)
		fault = DIW_FAULT_TOO_LONG;
	else if (!m && !seg->h.last && !(m = peer_msg_new(d->peers, seg, recv)))
		fault = peer_stalls(d);
	if (fault) {
		diw_ddp_recv_return(d, recv);
		return fault;
	}
	if (diw_ddp_place(d, &recv->buf, seg->h.mo, seg->payload, seg->len - seg->placed) != 0)
		fault = DIW_FAULT_LOCAL_PROT;
	else
		d->c->rx_payload += seg->len;
	if (fault == 0 && !seg->h.last) {
		peer_msg_grow(d, m, seg->len, now);
		return 0;
	}
	if (m)
		peer_msg_end(d, m);
	if (fault && !diw_ddp_cq_room(d, 1))
		diw_ddp_recv_return(d, recv);
	else
		d->ulp->recv_done(d->ulp_ctx, recv, seg, fault);
	return fault;
}

static void write_record_done(struct diw_ddp *d, const struct diw_ddp_seg *seg)
{
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_record r = {
		.addr = *seg->src, .to = h->to - h->mo, .stag = h->stag, .length = h->length, .msn = h->msn,
		.epoch = h->epoch, .imm = h->imm, .imm_valid = h->imm_valid, .solicited = h->solicited,
		.reason = DIW_CLOSE_COMPLETE,
	};

	diw_range_init(&r.ranges);
	if (h->length)                          /* one range: no array is borrowed */
		diw_range_add(&r.ranges, NULL, 0, h->length);
	d->ulp->record_done(d->ulp_ctx, &r, 0, h->length, true);
}

/* A Write or Write-Record. The room for its completion is checked before its last segment is placed. */
static uint16_t write_rx(struct diw_ddp *d, const struct diw_ddp_seg *seg, const struct diw_ddp_target *t,
			 struct diw_peer_msg *m, uint64_t now)
{
	const struct diw_ddp_hdr *h = &seg->h;
	bool record = t->kind == DIW_TARGET_RECORD, imm = h->imm_valid && !record;
	struct diw_recv *recv = NULL;
	uint16_t fault = 0;
	uint8_t *to;

	if (h->last && (record || imm) && !diw_ddp_cq_room(d, 1))
		return peer_stalls(d);
	if (h->last && imm && !(recv = diw_ddp_recv_take(d)))
		return peer_stalls(d);
	if (seg->len)                           /* an empty Write is not checked (RFC 5040 section 5.1) */
		fault = diw_ddp_resolve(d, h->stag, DIW_STAG_REMOTE_WRITE, seg->src, h->to, seg->len, &to);
	if (fault == 0 && !m && !h->last && !(m = peer_msg_new(d->peers, seg, NULL)))
		fault = peer_stalls(d);
	if (fault) {
		if (recv)
			diw_ddp_recv_return(d, recv);
		return fault;
	}
	if (seg->len)
		diw_copy(to, seg->payload, seg->len - seg->placed);
	d->c->rx_payload += seg->len;
	if (!h->last) {
		peer_msg_grow(d, m, seg->len, now);
		return 0;
	}
	if (m)
		peer_msg_end(d, m);
	if (record)
		write_record_done(d, seg);
	else if (imm)
		d->ulp->recv_done(d->ulp_ctx, recv, seg, 0);
	else
		d->ulp->placed(d->ulp_ctx, NULL, seg, now);
	return 0;
}

/* The message M of a segment of a Send or Write; NULL for the first segment. */
static uint16_t peer_msg_of(struct diw_ddp *d, const struct diw_ddp_seg *seg, struct diw_peer_msg **m)
{
	*m = peer_msg_find(d->peers, seg->src);
	if (seg->h.mo)
		return peer_msg_continues(*m, &seg->h);
	if (*m)
		peer_msg_give_up(d, *m);
	*m = NULL;
	return 0;
}

static uint16_t peer_take(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_peer_msg *m;
	struct diw_ddp_target t;
	uint16_t fault = d->ulp->target(d->ulp_ctx, seg, &t, now);

	if (fault)
		return fault;
	if (t.kind == DIW_TARGET_MESSAGE)
		return d->ulp->message(d->ulp_ctx, seg, now);
	if (t.kind == DIW_TARGET_BUF) {
		fault = diw_ddp_place(d, &t.buf, seg->h.mo, seg->payload, seg->len - seg->placed);
		d->c->rx_payload += fault ? 0 : seg->len;
		if (fault == 0)
			d->ulp->placed(d->ulp_ctx, t.cookie, seg, now);
		return fault;
	}
	fault = peer_msg_of(d, seg, &m);
	if (fault)
		return fault;
	return t.kind == DIW_TARGET_RECV ? send_rx(d, seg, m, now) : write_rx(d, seg, &t, m, now);
}

static uint16_t peer_segment(struct diw_ddp *d, struct diw_ddp_seg *seg, const struct diw_link_rxseg *from,
			     uint64_t now)
{
	uint16_t fault = diw_ddp_seg_decode(seg, from);

	if (fault == 0)
		fault = peer_take(d, seg, now);
	if (fault == 0)
		DIW_TRACE_SEGMENT_RECEIVED(d->c, seg->h.opcode, seg->h.msn, seg->h.mo, seg->len, seg->src->port);
	return fault;
}

/* Refuses the peer's segment. */
static void peer_refuse(struct diw_ddp *d, const struct diw_addr *src, uint16_t fault)
{
	struct diw_peer_msg *m = peer_msg_find(d->peers, src);

	if (m)
		peer_msg_give_up(d, m);
	d->link->ops->refuse(d->link, src, diw_fault_for_peer(fault));
}

static int peers_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct diw_ddp *d = ctx;
	int i;

	if (d->order.dead) {
		d->c->rx_segments += (uint64_t)n;
		d->c->rx_dead += (uint64_t)n;
		peer_refuse(d, src, DIW_FAULT_STREAM);
		return 0;
	}
	d->order.waiting = false;
	for (i = 0; i < n; i++) {
		struct diw_ddp_seg seg;
		uint16_t fault;

		seg.src = src;
		fault = peer_segment(d, &seg, &segs[i], now);
		if (fault == DIW_DDP_NOT_NOW)
			break;
		if (fault == 0)
			continue;
		diw_ddp_drop(d, &seg, segs[i].len, fault, now);
		if (fault == DIW_FAULT_READ_UNMATCHED)   /* this end has given the request up */
			continue;
		peer_refuse(d, src, fault);
		break;
	}
	d->c->rx_segments += (uint64_t)i;
	return i;
}

/* ---- The place of a segment that is being received ---- */

/* The first segment of a Send has no place yet: it takes the receive. */
static uint16_t send_reach(const struct diw_ddp *d, const struct diw_ddp_seg *seg, const struct diw_peer_msg *m,
			   uint32_t off, struct iovec *iov, int *n)
{
	if (!m || (seg->h.last && !diw_ddp_cq_room(d, 1)))
		return DIW_DDP_NOT_NOW;
	return diw_ddp_scatter_part(d, &m->recv->buf, seg->h.mo + off, seg->len - off, iov, n);
}

/* The last segment may have to wait: for room for the completion, or for the receive of an immediate. */
static uint16_t write_reach(const struct diw_ddp *d, const struct diw_ddp_seg *seg, bool record, uint32_t off,
			    struct iovec *iov, int *n)
{
	const struct diw_ddp_hdr *h = &seg->h;
	uint16_t fault;
	uint8_t *to;

	if (h->last && (h->imm_valid || record) && !(record && diw_ddp_cq_room(d, 1)))
		return DIW_DDP_NOT_NOW;
	fault = diw_ddp_resolve(d, h->stag, DIW_STAG_REMOTE_WRITE, seg->src, h->to, seg->len, &to);
	if (fault == 0)
		iov[(*n)++] = (struct iovec){ to + off, seg->len - off };
	return fault;
}

/* A message begins only when that of the peer before it was given up, and only if there is memory for its state. */
static uint16_t peer_msg_reach(const struct diw_ddp *d, const struct diw_peer_msg *m, const struct diw_ddp_hdr *h)
{
	if (h->mo)
		return peer_msg_continues(m, h);
	return m || (!h->last && d->peers->pool.used == d->peers->pool.cap) ? DIW_DDP_NOT_NOW : 0;
}

static uint16_t peer_reach(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint32_t off, struct iovec *iov, int *n,
			   uint64_t now)
{
	struct diw_peer_msg *m = peer_msg_find(d->peers, seg->src);
	struct diw_ddp_target t;
	uint16_t fault = d->ulp->target(d->ulp_ctx, seg, &t, now);

	if (fault)
		return fault;
	if (t.kind == DIW_TARGET_BUF)
		return diw_ddp_scatter_part(d, &t.buf, seg->h.mo + off, seg->len - off, iov, n);
	fault = peer_msg_reach(d, m, &seg->h);
	if (fault)
		return fault;
	switch (t.kind) {
	case DIW_TARGET_RECV: return send_reach(d, seg, m, off, iov, n);
	case DIW_TARGET_RECORD:
	case DIW_TARGET_STAG: return write_reach(d, seg, t.kind == DIW_TARGET_RECORD, off, iov, n);
	default: return DIW_DDP_NOT_NOW;
	}
}

/* A fault of the segment is found again by peers_rx(). */
static int peers_reach(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *from, uint32_t at,
		       struct iovec *iov, uint64_t now)
{
	struct diw_ddp *d = ctx;
	struct diw_ddp_seg seg;
	int n = 0;

	seg.src = src;
	if (d->order.dead || diw_ddp_seg_decode(&seg, from) != 0 || at - seg.hdr_len >= seg.len)
		return 0;
	return peer_reach(d, &seg, at - seg.hdr_len, iov, &n, now) == 0 ? n : 0;
}

static void peers_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	struct diw_ddp *d = ctx;

	d->ulp->refused(d->ulp_ctx, first, n, errnum);
}

static void peers_acked(void *ctx, uint32_t first, uint32_t n)
{
	struct diw_ddp *d = ctx;

	d->ulp->acked(d->ulp_ctx, first, n);
}

static int peers_payload(void *ctx, void *owner, uint32_t at, uint32_t len, struct iovec *iov)
{
	struct diw_ddp *d = ctx;

	return d->ulp->payload(d->ulp_ctx, owner, at, len, iov);
}

static void peers_rejected(void *ctx, uint32_t number, uint16_t fault)
{
	struct diw_ddp *d = ctx;

	d->ulp->rejected(d->ulp_ctx, number, fault);
}

static void peers_room(void *ctx, const struct diw_addr *peer)
{
	struct diw_ddp *d = ctx;

	d->ulp->room(d->ulp_ctx, peer);
}

static void peers_gone(void *ctx, const struct diw_addr *peer, int errnum)
{
	struct diw_ddp *d = ctx;
	struct diw_peer_msg *m = peer_msg_find(d->peers, peer);

	if (m && errnum != ETIMEDOUT)            /* a peer that was given up goes on with it, if it is there */
		peer_msg_give_up(d, m);
	d->ulp->gone(d->ulp_ctx, peer, errnum);
}

const struct diw_link_up diw_ddp_peers_up = {
	.rx = peers_rx, .reach = peers_reach, .refused = peers_refused, .acked = peers_acked, .payload = peers_payload,
	.rejected = peers_rejected, .room = peers_room, .gone = peers_gone,
};

/* ---- Time ---- */

void diw_peers_timers(struct diw_ddp *d, uint64_t now)
{
	struct diw_list *l;

	while ((l = diw_list_first(&d->peers->age))) {
		struct diw_peer_msg *m = diw_container(l, struct diw_peer_msg, age);

		if (now < m->last_ns + FORGET_NS)
			break;
		peer_msg_give_up(d, m);
	}
}

uint64_t diw_peers_deadline(const struct diw_ddp *d)
{
	const struct diw_list *l = diw_list_first(&d->peers->age);

	return l ? diw_container((struct diw_list *)l, struct diw_peer_msg, age)->last_ns + FORGET_NS : DIW_NEVER;
}

void diw_peers_fini(struct diw_ddp *d)
{
	struct diw_arena arena = d->peers->arena;
	struct diw_list *l;

	while ((l = diw_list_first(&d->peers->age)))
		peer_msg_give_up(d, diw_container(l, struct diw_peer_msg, age));
	diw_arena_fini(&arena);
	d->peers = NULL;
}
