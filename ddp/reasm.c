/* SPDX-License-Identifier: BSD-2-Clause */
/* Reassembly of Sends of several segments over datagrams: a bounded table for all sources, with tombstones. */
#include "ddp/reasm.h"

#include "base/clock.h"
#include "base/wire.h"
#include "ddp/ddp.h"

size_t diw_reasms_bytes(uint32_t max)
{
	return diw_pool_bytes(sizeof(struct diw_reasm), max) + diw_range_pools_bytes(max) +
	       diw_arena_round(diw_pool_buckets(max) * sizeof(struct diw_reasm *));
}

void diw_reasms_init(struct diw_reasms *r, struct diw_arena *a, uint32_t max)
{
	diw_pool_init(&r->pool, a, sizeof(struct diw_reasm), max);
	diw_range_pools_init(&r->ranges, a, max);
	r->mask = diw_pool_buckets(max) - 1;
	r->bucket = diw_arena_take(a, diw_pool_buckets(max) * sizeof *r->bucket);
	r->nopen = 0;
	diw_list_init(&r->open);
	diw_list_init(&r->tombs);
}

static struct diw_reasm **reasm_bucket(const struct diw_ddp *d, const struct diw_addr *addr, uint32_t msn)
{
	return &d->dg->reasms.bucket[diw_source_hash(&d->dg->sources, addr, msn) & d->dg->reasms.mask];
}

static struct diw_reasm *reasm_find(const struct diw_ddp *d, const struct diw_ddp_seg *seg)
{
	struct diw_reasm *m = *reasm_bucket(d, seg->src, seg->h.msn);

	while (m && (m->msn != seg->h.msn || m->epoch != seg->h.epoch || !diw_addr_eq(&m->addr, seg->src)))
		m = m->hnext;
	return m;
}

static void reasm_forget(struct diw_ddp *d, struct diw_reasm *m)
{
	struct diw_reasm **p = reasm_bucket(d, &m->addr, m->msn);

	while (*p != m)
		p = &(*p)->hnext;
	*p = m->hnext;
	diw_list_del(&m->timer);
	diw_pool_put(&d->dg->reasms.pool, m);
}

/* Ends a message, complete or not. Its entry becomes a tombstone. */
static struct diw_recv *reasm_end(struct diw_ddp *d, struct diw_reasm *m, uint64_t now)
{
	struct diw_recv *recv = m->recv;

	m->recv = NULL;
	m->src->nreasm--;
	diw_source_changed(d, m->src);
	m->src = NULL;
	m->last_ns = now;
	diw_range_fini(&m->ranges, &d->dg->reasms.ranges);
	diw_list_del(&m->src_link);
	diw_list_del(&m->timer);
	diw_list_add_tail(&d->dg->reasms.tombs, &m->timer);
	d->dg->reasms.nopen--;
	return recv;
}

static void reasm_evict(struct diw_ddp *d, struct diw_reasm *m, uint64_t now)
{
	d->c->reasm_evicted++;
	diw_ddp_recv_return(d, reasm_end(d, m, now));
}

/* Unfinished messages hold at most four receives of one source, and half of all receives. A source sends one message
 * after the other. So if it exceeds its share, its oldest message has lost segments, and is given up. A message of
 * another source is given up only if it makes no progress. *VICTIM: what is to be given up, or NULL. */
static uint16_t find_victim(struct diw_ddp *d, struct diw_source *src, uint64_t now, struct diw_reasm **victim)
{
	uint32_t held = d->dg->reasms.nopen, half = (diw_ddp_recv_posted(d) + held) / 2;
	struct diw_list *l;

	*victim = NULL;
	if ((!src || src->nreasm < DIW_REASM_PER_SOURCE) && held < (half ? half : 1))
		return 0;
	l = src ? diw_list_first(&src->reasms) : NULL;
	if (l) {
		*victim = diw_container(l, struct diw_reasm, src_link);
		return 0;
	}
	*victim = diw_container(diw_list_first(&d->dg->reasms.open), struct diw_reasm, timer);
	return now < (*victim)->last_ns + d->cfg.reasm_timeout / 4 ? DIW_FAULT_REASM_LIMIT : 0;
}

static bool has_entry(const struct diw_ddp *d)
{
	return d->dg->reasms.pool.used < d->dg->reasms.pool.cap || !diw_list_empty(&d->dg->reasms.tombs);
}

/* A new message may take the entry of a tombstone. */
static struct diw_reasm *take_entry(struct diw_ddp *d)
{
	struct diw_list *l = diw_list_first(&d->dg->reasms.tombs);

	if (d->dg->reasms.pool.used == d->dg->reasms.pool.cap && l)
		reasm_forget(d, diw_container(l, struct diw_reasm, timer));
	return diw_pool_get(&d->dg->reasms.pool);
}

static uint16_t take_recv(struct diw_ddp *d, const struct diw_ddp_seg *seg, struct diw_recv **recv)
{
	struct diw_recv *r = diw_ddp_recv_take(d);

	if (!r)
		return DIW_FAULT_NO_BUFFER;
	if (seg->h.length > r->buf.len) {
		diw_ddp_recv_return(d, r);
		return DIW_FAULT_TOO_LONG;
	}
	*recv = r;
	return 0;
}

/* If the memory of a receive has been deregistered, every later message would fail there. So the receive completes with
 * an error, and the message is lost. */
static uint16_t reasm_place(struct diw_ddp *d, struct diw_recv *r, const struct diw_ddp_seg *seg)
{
	if (diw_ddp_place(d, &r->buf, seg->h.mo, seg->payload, seg->len) != 0)
		return DIW_FAULT_LOCAL_PROT;
	d->c->rx_payload += seg->len;
	return 0;
}

/* A message of one segment needs no state. So a datagram that the network duplicates is delivered twice. */
static uint16_t reasm_one_segment(struct diw_ddp *d, const struct diw_ddp_seg *seg)
{
	struct diw_recv *recv;
	uint16_t fault;

	fault = take_recv(d, seg, &recv);
	if (fault)
		return fault;
	fault = reasm_place(d, recv, seg);
	d->ulp->recv_done(d->ulp_ctx, recv, seg, fault);
	return fault;
}

/* Returns a receive for a new message, which may be that of an older one. The older message is given up only if the new
 * one fits the receive, and if its source may have state. The source is NULL if it has none yet. */
static uint16_t reasm_admit(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now, struct diw_source **src,
			    struct diw_recv **recv)
{
	struct diw_reasm *victim;
	uint16_t fault;

	fault = find_victim(d, diw_source_find(d, seg->src, seg->h.epoch), now, &victim);
	*recv = NULL;
	if (fault == 0 && !victim)
		fault = has_entry(d) ? take_recv(d, seg, recv) : DIW_FAULT_REASM_LIMIT;
	else if (fault == 0 && seg->h.length > victim->recv->buf.len)
		fault = DIW_FAULT_TOO_LONG;
	if (fault)
		return fault;
	fault = diw_source_may(d, seg, now, src);
	if (fault && *recv)
		diw_ddp_recv_return(d, *recv);
	if (fault || *recv)
		return fault;
	reasm_evict(d, victim, now);
	return take_recv(d, seg, recv);
}

static uint16_t open_message(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now, struct diw_reasm **out)
{
	struct diw_source *src;
	struct diw_recv *recv;
	struct diw_reasm *m, **b;
	uint16_t fault = reasm_admit(d, seg, now, &src, &recv);

	if (fault)
		return fault;
	src = diw_source_get(d, seg, now, src);
	m = take_entry(d);
	b = reasm_bucket(d, seg->src, seg->h.msn);
	*m = (struct diw_reasm){
		.hnext = *b, .src = src, .addr = *seg->src, .recv = recv, .last_ns = now, .msn = seg->h.msn,
		.length = seg->h.length, .imm = seg->h.imm, .epoch = seg->h.epoch, .opcode = seg->h.opcode,
		.imm_valid = seg->h.imm_valid,
	};
	*b = m;
	diw_range_init(&m->ranges);
	diw_list_add_tail(&d->dg->reasms.open, &m->timer);
	diw_list_add_tail(&src->reasms, &m->src_link);
	src->nreasm++;
	diw_source_changed(d, src);
	d->dg->reasms.nopen++;
	d->c->reasm_opened++;
	*out = m;
	return 0;
}

static bool reasm_agrees(const struct diw_reasm *m, const struct diw_ddp_hdr *h)
{
	return m->length == h->length && m->opcode == h->opcode && m->imm_valid == h->imm_valid && m->imm == h->imm;
}

static uint16_t into_message(struct diw_ddp *d, struct diw_reasm *m, const struct diw_ddp_seg *seg, uint64_t now)
{
	uint16_t fault;
	int64_t fresh;

	/* There must be room for the completion before the last byte counts as received. */
	if (seg->len >= m->length - m->ranges.bytes && !diw_ddp_cq_room(d, 1))
		return DIW_FAULT_CQ_FULL;
	fresh = diw_range_add(&m->ranges, &d->dg->reasms.ranges, seg->h.mo, seg->h.mo + seg->len);
	if (fresh < 0)
		return DIW_FAULT_RECORD_RANGES;
	if (m->last_ns != now) {
		diw_source_touch(d, m->src, now);
		m->last_ns = now;
		diw_list_del(&m->timer);
		diw_list_add_tail(&d->dg->reasms.open, &m->timer);
	}
	if (fresh == 0) {
		d->c->reasm_duplicate++;
		diw_ddp_dropped(d, seg, "reasm_duplicate", now);
		return 0;
	}
	fault = reasm_place(d, m->recv, seg);
	if (fault == 0 && m->ranges.bytes < m->length)
		return 0;
	if (fault == 0) {
		d->c->reasm_complete++;
	} else if (!diw_ddp_cq_room(d, 1)) {
		diw_ddp_recv_return(d, reasm_end(d, m, now));
		return fault;
	}
	d->ulp->recv_done(d->ulp_ctx, reasm_end(d, m, now), seg, fault);
	return fault;
}

uint16_t diw_reasm_rx(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_reasm *m;
	uint16_t fault;

	if (seg->len == seg->h.length)
		return diw_ddp_cq_room(d, 1) ? reasm_one_segment(d, seg) : DIW_FAULT_CQ_FULL;
	m = reasm_find(d, seg);
	if (!m) {
		fault = open_message(d, seg, now, &m);
		if (fault)
			return fault;
	} else if (!m->recv) {
		return DIW_FAULT_REASM_LATE;
	} else if (!reasm_agrees(m, &seg->h)) {
		return DIW_FAULT_REASM_MISMATCH;
	}
	return into_message(d, m, seg, now);
}

void diw_reasms_close_source(struct diw_ddp *d, struct diw_source *src, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &src->reasms)
		reasm_evict(d, diw_container(l, struct diw_reasm, src_link), now);
}

void diw_reasms_timers(struct diw_ddp *d, uint64_t now)
{
	struct diw_list *l;

	while ((l = diw_list_first(&d->dg->reasms.open))) {
		struct diw_reasm *m = diw_container(l, struct diw_reasm, timer);

		if (now < m->last_ns + d->cfg.reasm_timeout)
			break;
		d->c->reasm_timeout++;
		diw_ddp_recv_return(d, reasm_end(d, m, now));
	}
	while ((l = diw_list_first(&d->dg->reasms.tombs))) {
		struct diw_reasm *m = diw_container(l, struct diw_reasm, timer);

		if (now < m->last_ns + d->cfg.reasm_timeout)
			break;
		reasm_forget(d, m);
	}
}

uint64_t diw_reasms_deadline(const struct diw_ddp *d)
{
	const struct diw_list *l;
	uint64_t t = DIW_NEVER;

	if ((l = diw_list_first(&d->dg->reasms.open)))
		t = diw_container(l, struct diw_reasm, timer)->last_ns + d->cfg.reasm_timeout;
	if ((l = diw_list_first(&d->dg->reasms.tombs)))
		t = diw_min64(t, diw_container(l, struct diw_reasm, timer)->last_ns + d->cfg.reasm_timeout);
	return t;
}
