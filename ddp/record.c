/* SPDX-License-Identifier: BSD-2-Clause */
/* Records: the state of a Write-Record at its target, its validity map, and its close. */
#include "ddp/record.h"

#include "base/clock.h"
#include "base/copy.h"
#include "base/trace.h"
#include "base/wire.h"
#include "ddp/ddp.h"

/* As many closed records may wait for the application as records may be open. So a slow application prevents new
 * records, and does not end open ones. */
static uint32_t pool_cap(uint32_t max)
{
	return 2 * max;
}

size_t diw_records_bytes(uint32_t max)
{
	return diw_pool_bytes(sizeof(struct diw_record), pool_cap(max)) + diw_range_pools_bytes(max) +
	       diw_arena_round(diw_pool_buckets(max) * sizeof(struct diw_record *));
}

void diw_records_init(struct diw_records *r, struct diw_arena *a, uint32_t max)
{
	diw_pool_init(&r->pool, a, sizeof(struct diw_record), pool_cap(max));
	diw_range_pools_init(&r->ranges, a, max);
	r->mask = diw_pool_buckets(max) - 1;
	r->bucket = diw_arena_take(a, diw_pool_buckets(max) * sizeof *r->bucket);
	r->nopen = 0;
	r->run = NULL;
	diw_list_init(&r->idle);
	diw_list_init(&r->closing);
	diw_list_init(&r->closed);
}

static struct diw_record **record_bucket(const struct diw_ddp *d, const struct diw_addr *addr, uint32_t msn)
{
	return &d->dg->records.bucket[diw_source_hash(&d->dg->sources, addr, msn) & d->dg->records.mask];
}

struct diw_record *diw_record_find(struct diw_ddp *d, const struct diw_addr *addr, int epoch, uint32_t msn)
{
	struct diw_record *r = d->dg ? *record_bucket(d, addr, msn) : NULL;

	while (r && (r->msn != msn || (epoch >= 0 && r->epoch != epoch) || !diw_addr_eq(&r->addr, addr)))
		r = r->hnext;
	return r;
}

const struct diw_record *diw_record_next(const struct diw_ddp *d, const struct diw_record *prev)
{
	const struct diw_records *rs;
	const struct diw_list *l;

	if (!d->dg)
		return NULL;
	rs = &d->dg->records;
	l = prev ? prev->timer.next : rs->idle.next;
	if (l == &rs->idle)
		l = rs->closing.next;
	return l == &rs->closing ? NULL : diw_container((struct diw_list *)l, struct diw_record, timer);
}

void diw_record_release(struct diw_ddp *d, struct diw_record *r)
{
	diw_range_fini(&r->ranges, &d->dg->records.ranges);
	diw_pool_put(&d->dg->records.pool, r);
}

/* ---- Completions ---- */

/* Chunk mode: reports the run that is being placed. The room for its completion was reserved when the run began: every
 * other completion ends the run first. */
static void end_run(struct diw_ddp *d)
{
	struct diw_record *r = d->dg->records.run;

	d->dg->records.run = NULL;
	if (r)
		d->ulp->record_done(d->ulp_ctx, r, d->dg->records.run_lo, d->dg->records.run_hi, false);
}

void diw_record_burst_end(struct diw_ddp *d)
{
	end_run(d);
}

static void record_report(struct diw_ddp *d, struct diw_record *r, uint32_t lo, uint32_t hi)
{
	if (!d->ulp->record_done(d->ulp_ctx, r, lo, hi, true))
		diw_record_release(d, r);
}

static void deliver_closed(struct diw_ddp *d)
{
	struct diw_list *l;

	while ((l = diw_list_first(&d->dg->records.closed)) && diw_ddp_cq_room(d, 1)) {
		struct diw_record *r = diw_container(l, struct diw_record, timer);

		diw_list_del(l);
		record_report(d, r, 0, d->cfg.chunks && !r->whole ? 0 : r->length);
	}
}

static void count_close(struct diw_counters *c, uint8_t reason)
{
	switch (reason) {
	case DIW_CLOSE_COMPLETE: c->record_complete++; break;
	case DIW_CLOSE_WINDOW: c->record_closed_window++; break;
	case DIW_CLOSE_TIMEOUT: c->record_closed_timeout++; break;
	case DIW_CLOSE_EVICTED: c->record_evicted++; break;
	case DIW_CLOSE_DEREG: c->record_closed_dereg++; break;
	case DIW_CLOSE_EPOCH: c->record_closed_epoch++; break;
	}
}

static void unlink_open(struct diw_ddp *d, struct diw_record *r)
{
	struct diw_record **p = record_bucket(d, &r->addr, r->msn);

	while (*p != r)
		p = &(*p)->hnext;
	*p = r->hnext;
	diw_list_del(&r->src_link);
	diw_list_del(&r->timer);
	diw_source_count_record(d, r->src, -1);
	diw_source_set_closed(&d->dg->sources, r->src, r->msn);
	r->src = NULL;
	r->open = false;
	d->dg->records.nopen--;
	d->stags->records--;
}

static void close_record(struct diw_ddp *d, struct diw_record *r, uint8_t reason)
{
	uint32_t lo = 0, hi = r->length;

	unlink_open(d, r);
	r->reason = reason;
	DIW_TRACE_RECORD_CLOSED(d->c, r->msn, reason, r->length, r->ranges.bytes, r->ranges.n);
	if (d->cfg.close_last && !r->have_last) {
		if (d->dg->records.run == r)
			end_run(d);
		d->c->record_abandoned++;
		diw_record_release(d, r);
		return;
	}
	count_close(d->c, reason);
	if (d->cfg.chunks) {                    /* the completion with END reports this record's last run */
		lo = hi = 0;
		if (d->dg->records.run == r) {
			lo = d->dg->records.run_lo;
			hi = d->dg->records.run_hi;
			d->dg->records.run = NULL;
			record_report(d, r, lo, hi);
			return;
		}
		end_run(d);
	}
	if (diw_list_empty(&d->dg->records.closed) && diw_ddp_cq_room(d, 1))
		record_report(d, r, lo, hi);
	else
		diw_list_add_tail(&d->dg->records.closed, &r->timer);
}

/* ---- Opening ---- */

static uint64_t record_window(const struct diw_ddp *d)
{
	return diw_min64(d->cfg.reorder_window, d->cfg.record_timeout);
}

static void begin_closing(struct diw_ddp *d, struct diw_record *r, uint64_t now)
{
	if (r->close_ns)
		return;
	r->close_ns = now + record_window(d);
	diw_list_del(&r->timer);
	diw_list_add_tail(&d->dg->records.closing, &r->timer);
}

/* A source sends tagged messages in MSN order. So the first segment of a message that is newer than all others says
 * that the newest one before it has been sent whole, and the record of that one begins to close. Older records began to
 * close when that one became the newest. */
static void note_msn(struct diw_ddp *d, struct diw_source *src, uint32_t msn, uint64_t now)
{
	struct diw_record *r;

	if (src->have_newest && !diw_serial_after(msn, src->newest))
		return;
	r = src->nrecords ? diw_record_find(d, &src->addr, src->epoch, src->newest) : NULL;
	if (r && !d->cfg.close_last)
		begin_closing(d, r, now);
	src->newest = msn;
	if (!src->have_newest) {
		src->have_newest = true;
		diw_source_settle(&d->dg->sources, src);
	}
}

static uint16_t record_make_room(struct diw_ddp *d)
{
	struct diw_source *src;

	if (d->dg->records.pool.used == d->dg->records.pool.cap)
		return DIW_FAULT_RECORD_FULL;
	if (d->dg->records.nopen < d->cfg.max_records)
		return 0;
	src = diw_source_heaviest(&d->dg->sources);
	close_record(d, diw_container(diw_list_first(&src->records), struct diw_record, src_link), DIW_CLOSE_EVICTED);
	return d->dg->records.pool.used == d->dg->records.pool.cap ? DIW_FAULT_RECORD_FULL : 0;
}

static void record_fill(struct diw_record *r, const struct diw_ddp_seg *seg)
{
	const struct diw_ddp_hdr *h = &seg->h;

	r->addr = *seg->src;
	r->to = h->to - h->mo;
	r->stag = h->stag;
	r->length = h->length;
	r->msn = h->msn;
	r->epoch = h->epoch;
	r->imm = h->imm;
	r->imm_valid = h->imm_valid;
	r->solicited = h->solicited;
	r->have_last = h->last;
	r->reason = DIW_CLOSE_COMPLETE;
	r->open = r->whole = false;
	r->close_ns = 0;
	r->waited_ns = 0;
	r->src = NULL;
	diw_list_init(&r->timer);
	diw_list_init(&r->src_link);
	diw_range_init(&r->ranges);
}

/* Opens a record; record_make_room() has checked that there is room. */
static struct diw_record *open_record(struct diw_ddp *d, struct diw_source *src, const struct diw_ddp_seg *seg,
				      uint64_t now)
{
	struct diw_record **b = record_bucket(d, seg->src, seg->h.msn), *r = diw_pool_get(&d->dg->records.pool);

	note_msn(d, src, seg->h.msn, now);
	record_fill(r, seg);
	r->open = true;
	r->last_ns = now;
	r->src = src;
	r->hnext = *b;
	*b = r;
	diw_list_add_tail(&src->records, &r->src_link);
	diw_list_add_tail(&d->dg->records.idle, &r->timer);
	diw_source_count_record(d, src, 1);
	d->dg->records.nopen++;
	d->stags->records++;
	d->c->record_opened++;
	DIW_TRACE_RECORD_OPENED(d->c, r->msn, r->stag, r->length, r->addr.port);
	if (!d->cfg.close_last && src->newest != r->msn)    /* a later message has already begun */
		begin_closing(d, r, now);
	return r;
}

/* ---- Segments ---- */

static void record_copy(struct diw_ddp *d, uint8_t *to, const struct diw_ddp_seg *seg)
{
	diw_copy(to, seg->payload, seg->len);
	d->c->rx_payload += seg->len;
}

/* A message of one segment needs no table: its record opens, completes and is reported in one step. */
static uint16_t record_one_segment(struct diw_ddp *d, struct diw_source *src, const struct diw_ddp_seg *seg,
				   uint8_t *to, uint64_t now)
{
	bool room = diw_list_empty(&d->dg->records.closed) && diw_ddp_cq_room(d, 1);
	struct diw_record now_done, *r = &now_done;

	if (!room) {
		r = diw_pool_get(&d->dg->records.pool);
		if (!r)
			return DIW_FAULT_RECORD_FULL;
	}
	src = diw_source_get(d, seg, now, src);
	record_copy(d, to, seg);
	note_msn(d, src, seg->h.msn, now);
	diw_source_set_closed(&d->dg->sources, src, seg->h.msn);
	record_fill(r, seg);
	r->whole = true;
	if (seg->len) {
		r->ranges.v[0] = (struct diw_extent){ 0, seg->len };
		r->ranges.n = 1;
		r->ranges.bytes = seg->len;
	}
	d->c->record_opened++;
	d->c->record_complete++;
	DIW_TRACE_RECORD_OPENED(d->c, r->msn, r->stag, r->length, r->addr.port);
	DIW_TRACE_RECORD_CLOSED(d->c, r->msn, r->reason, r->length, r->ranges.bytes, r->ranges.n);
	if (room)
		d->ulp->record_done(d->ulp_ctx, r, 0, seg->len, true);
	else
		diw_list_add_tail(&d->dg->records.closed, &r->timer);
	return 0;
}

static bool record_agrees(const struct diw_record *r, const struct diw_ddp_hdr *h)
{
	return r->stag == h->stag && r->to == h->to - h->mo && r->length == h->length && r->imm_valid == h->imm_valid &&
	       r->imm == h->imm;
}

/* Chunk mode: there must be room for the completion of the segment's run before a byte is placed. R NULL: the record is
 * not open yet. */
static bool run_has_room(struct diw_ddp *d, const struct diw_record *r, uint32_t lo)
{
	const struct diw_records *rs = &d->dg->records;

	if (r && rs->run == r && rs->run_hi == lo)
		return true;
	return diw_list_empty(&rs->closed) && diw_ddp_cq_room(d, rs->run ? 2 : 1);
}

static void extend_run(struct diw_ddp *d, struct diw_record *r, uint32_t lo, uint32_t hi)
{
	struct diw_records *rs = &d->dg->records;

	if (rs->run != r || rs->run_hi != lo) {
		end_run(d);
		rs->run = r;
		rs->run_lo = lo;
	}
	rs->run_hi = hi;
}

static uint16_t into_record(struct diw_ddp *d, struct diw_record *r, const struct diw_ddp_seg *seg, uint8_t *to,
			    uint64_t now)
{
	uint32_t lo = seg->h.mo, hi = lo + seg->len;
	int64_t fresh;

	if (d->cfg.chunks && !run_has_room(d, r, lo))
		return DIW_FAULT_CQ_FULL;
	fresh = diw_range_add(&r->ranges, &d->dg->records.ranges, lo, hi);
	if (fresh < 0)
		return DIW_FAULT_RECORD_RANGES;
	if (r->last_ns != now && !r->close_ns) {
		diw_list_del(&r->timer);
		diw_list_add_tail(&d->dg->records.idle, &r->timer);
	}
	r->last_ns = now;
	if (fresh == 0) {
		d->c->record_duplicate++;
		diw_ddp_dropped(d, seg, "record_duplicate", now);
		return 0;
	}
	record_copy(d, to, seg);
	if (d->cfg.chunks)
		extend_run(d, r, lo, hi);
	r->have_last |= seg->h.last;
	if (r->ranges.bytes == r->length)
		close_record(d, r, DIW_CLOSE_COMPLETE);
	else if (seg->h.last)
		begin_closing(d, r, now);
	return 0;
}

uint16_t diw_record_rx(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now)
{
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_source *src;
	struct diw_record *r;
	unsigned access = seg->group ? DIW_STAG_GROUP_WRITE : DIW_STAG_REMOTE_WRITE;
	uint16_t fault;
	uint8_t *to;

	if (h->to < h->mo)
		return DIW_FAULT_WRAP;
	fault = diw_ddp_resolve(d, h->stag, access, seg->src, h->to, seg->len, &to);
	if (fault)
		return fault;
	fault = diw_source_may(d, seg, now, &src);
	if (fault)
		return fault;
	r = src && src->nrecords ? diw_record_find(d, seg->src, h->epoch, h->msn) : NULL;
	if (r) {
		if (!record_agrees(r, h))
			return DIW_FAULT_RECORD_MISMATCH;
		diw_source_touch(d, src, now);
		return into_record(d, r, seg, to, now);
	}
	if (src && diw_source_is_closed(src, h->msn))
		return DIW_FAULT_RECORD_LATE;
	if (d->cfg.chunks)
		end_run(d);
	if (seg->len == h->length)
		return record_one_segment(d, src, seg, to, now);
	if (d->cfg.chunks && !run_has_room(d, NULL, h->mo))
		return DIW_FAULT_CQ_FULL;
	fault = record_make_room(d);
	if (fault)
		return fault;
	src = diw_source_get(d, seg, now, src);
	return into_record(d, open_record(d, src, seg, now), seg, to, now);
}

/* ---- Closing for other reasons ---- */

void diw_records_close_source(struct diw_ddp *d, struct diw_source *src)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &src->records)
		close_record(d, diw_container(l, struct diw_record, src_link), DIW_CLOSE_EPOCH);
}

static void dereg_list(struct diw_ddp *d, struct diw_list *head, uint32_t stag)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, head) {
		struct diw_record *r = diw_container(l, struct diw_record, timer);

		if (r->stag == stag)
			close_record(d, r, DIW_CLOSE_DEREG);
	}
}

void diw_records_dereg(struct diw_ddp *d, uint32_t stag)
{
	if (!d->dg)
		return;
	dereg_list(d, &d->dg->records.idle, stag);
	dereg_list(d, &d->dg->records.closing, stag);
}

void diw_records_timers(struct diw_ddp *d, uint64_t now)
{
	struct diw_list *l;

	while ((l = diw_list_first(&d->dg->records.closing))) {
		struct diw_record *r = diw_container(l, struct diw_record, timer);

		if (now < r->close_ns)
			break;
		r->waited_ns = (uint32_t)diw_min64(now - r->close_ns + record_window(d), UINT32_MAX);
		close_record(d, r, DIW_CLOSE_WINDOW);
	}
	while ((l = diw_list_first(&d->dg->records.idle))) {
		struct diw_record *r = diw_container(l, struct diw_record, timer);

		if (now < r->last_ns + d->cfg.record_timeout)
			break;
		close_record(d, r, DIW_CLOSE_TIMEOUT);
	}
	deliver_closed(d);
}

uint64_t diw_records_deadline(const struct diw_ddp *d)
{
	const struct diw_list *l;
	uint64_t t = DIW_NEVER;

	if ((l = diw_list_first(&d->dg->records.closing)))
		t = diw_container(l, struct diw_record, timer)->close_ns;
	if ((l = diw_list_first(&d->dg->records.idle)))
		t = diw_min64(t, diw_container(l, struct diw_record, timer)->last_ns + d->cfg.record_timeout);
	return t;
}
