/* SPDX-License-Identifier: BSD-2-Clause */
#include "ddp/source.h"

#include "base/clock.h"
#include "base/rng.h"
#include "base/wire.h"
#include "ddp/ddp.h"

size_t diw_sources_bytes(uint32_t max)
{
	return diw_pool_bytes(sizeof(struct diw_source), max) + diw_pool_bytes(DIW_SOURCE_CLOSED * 4, max) +
	       diw_arena_round(diw_pool_buckets(max) * sizeof(struct diw_source *));
}

void diw_sources_init(struct diw_sources *s, struct diw_arena *a, uint32_t max)
{
	diw_pool_init(&s->pool, a, sizeof(struct diw_source), max);
	diw_pool_init(&s->rings, a, DIW_SOURCE_CLOSED * 4, max);
	s->mask = diw_pool_buckets(max) - 1;
	s->bucket = diw_arena_take(a, diw_pool_buckets(max) * sizeof *s->bucket);
	s->seed = diw_random();
	diw_list_init(&s->active);
	diw_list_init(&s->quiet);
	for (int i = 0; i < DIW_SOURCE_CLASSES; i++)
		diw_list_init(&s->heavy[i]);
}

static struct diw_source **bucket_of(const struct diw_sources *s, const struct diw_addr *addr)
{
	return &s->bucket[diw_addr_hash(addr, s->seed) & s->mask];
}

struct diw_source *diw_source_find(const struct diw_sources *s, const struct diw_addr *addr)
{
	struct diw_source *src = *bucket_of(s, addr);

	while (src && !diw_addr_eq(&src->addr, addr))
		src = src->hnext;
	return src;
}

static struct diw_source *create(struct diw_sources *s, const struct diw_ddp_seg *seg)
{
	struct diw_source *src = diw_pool_get(&s->pool), **b = bucket_of(s, seg->src);

	if (!src)
		return NULL;
	*src = (struct diw_source){ .addr = *seg->src, .epoch = seg->h.epoch, .hnext = *b };
	*b = src;
	diw_list_init(&src->records);
	diw_list_init(&src->reasms);
	diw_list_add_tail(&s->heavy[0], &src->heavy);
	diw_list_init(&src->lru);
	return src;
}

static void give_ring_back(struct diw_sources *s, struct diw_source *src)
{
	if (src->closed)
		diw_pool_put(&s->rings, src->closed);
	src->closed = NULL;
	src->nclosed = src->closed_at = 0;
}

static void expire(struct diw_sources *s, struct diw_source *src)
{
	struct diw_source **p = bucket_of(s, &src->addr);

	while (*p != src)
		p = &(*p)->hnext;
	*p = src->hnext;
	give_ring_back(s, src);
	diw_list_del(&src->lru);
	diw_list_del(&src->heavy);
	diw_pool_put(&s->pool, src);
}

/* The old epoch's messages end here: the process behind that address is another one now. */
static void begin_epoch(struct diw_ddp *d, struct diw_source *src, uint16_t epoch, uint64_t now)
{
	diw_records_close_source(d, src);
	diw_reasms_close_source(d, src, now);
	give_ring_back(&d->dg->sources, src);
	src->have_newest = src->have_floor = false;
	src->old_epoch = src->epoch;
	src->old_until_ns = now + DIW_SOURCE_OLD_EPOCH_NS;
	src->epoch = epoch;
}

void diw_source_touch(struct diw_sources *s, struct diw_source *src, uint64_t now)
{
	if (src->last_ns == now && !diw_list_empty(&src->lru))
		return;
	src->last_ns = now;
	src->quiet = false;
	diw_list_del(&src->lru);
	diw_list_add_tail(&s->active, &src->lru);
}

uint16_t diw_source_get(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now, struct diw_source **out)
{
	struct diw_sources *s = &d->dg->sources;
	struct diw_source *src = diw_source_find(s, seg->src);

	if (!src) {
		src = create(s, seg);
		if (!src)
			return DIW_FAULT_SOURCE_FULL;
	} else if (src->epoch != seg->h.epoch) {
		if (seg->h.epoch == src->old_epoch && now < src->old_until_ns)
			return DIW_FAULT_EPOCH_OLD;
		begin_epoch(d, src, seg->h.epoch, now);
	}
	diw_source_touch(s, src, now);
	*out = src;
	return 0;
}

bool diw_source_is_closed(const struct diw_source *src, uint32_t msn)
{
	if (!src->have_newest || diw_serial_after(msn, src->newest))
		return false;
	if (src->have_floor && !diw_serial_after(msn, src->floor))
		return true;
	for (uint32_t i = 0; i < src->nclosed; i++)
		if (src->closed[i] == msn)
			return true;
	return false;
}

static void raise_floor(struct diw_source *src, uint32_t msn)
{
	if (!src->have_floor || diw_serial_after(msn, src->floor))
		src->floor = msn;
	src->have_floor = true;
}

void diw_source_set_closed(struct diw_sources *s, struct diw_source *src, uint32_t msn)
{
	if (!src->closed)
		src->closed = diw_pool_get(&s->rings);  /* as many rings as sources: never NULL */
	if (src->nclosed == DIW_SOURCE_CLOSED)
		raise_floor(src, src->closed[src->closed_at]);
	else
		src->nclosed++;
	src->closed[src->closed_at] = msn;
	src->closed_at = (src->closed_at + 1) % DIW_SOURCE_CLOSED;
}

static int class_of(uint32_t nrecords)
{
	return nrecords < DIW_SOURCE_CLASSES ? (int)nrecords : DIW_SOURCE_CLASSES - 1;
}

void diw_source_count_record(struct diw_sources *s, struct diw_source *src, int by)
{
	int before = class_of(src->nrecords);

	src->nrecords += by;
	if (class_of(src->nrecords) == before)
		return;
	diw_list_del(&src->heavy);
	diw_list_add_tail(&s->heavy[class_of(src->nrecords)], &src->heavy);
}

struct diw_source *diw_source_heaviest(const struct diw_sources *s)
{
	for (int i = DIW_SOURCE_CLASSES - 1; i > 0; i--)
		if (!diw_list_empty(&s->heavy[i]))
			return diw_container(diw_list_first(&s->heavy[i]), struct diw_source, heavy);
	return NULL;
}

static uint64_t quiet_after(const struct diw_ddp *d)
{
	uint64_t longest = d->cfg.record_timeout > d->cfg.reasm_timeout ? d->cfg.record_timeout : d->cfg.reasm_timeout;

	return 2 * longest > DIW_SOURCE_QUIET_NS ? 2 * longest : DIW_SOURCE_QUIET_NS;
}

/* Every message that a quiet source began has ended, so the ring's content shrinks to a floor. */
static void become_quiet(struct diw_sources *s, struct diw_source *src)
{
	if (src->have_newest)
		raise_floor(src, src->newest);
	give_ring_back(s, src);
	src->quiet = true;
	diw_list_del(&src->lru);
	diw_list_add_tail(&s->quiet, &src->lru);
}

void diw_sources_timers(struct diw_ddp *d, uint64_t now)
{
	struct diw_sources *s = &d->dg->sources;
	struct diw_list *l;

	while ((l = diw_list_first(&s->active))) {
		struct diw_source *src = diw_container(l, struct diw_source, lru);

		if (now < src->last_ns + quiet_after(d))
			break;
		become_quiet(s, src);
	}
	while ((l = diw_list_first(&s->quiet))) {
		struct diw_source *src = diw_container(l, struct diw_source, lru);

		if (now < src->last_ns + quiet_after(d) + DIW_SOURCE_EXPIRY_NS)
			break;
		d->c->source_expired++;
		expire(s, src);
	}
}

uint64_t diw_sources_deadline(const struct diw_ddp *d)
{
	const struct diw_list *l;
	uint64_t t = DIW_NEVER, gone = quiet_after(d) + DIW_SOURCE_EXPIRY_NS;

	if ((l = diw_list_first(&d->dg->sources.active)))
		t = diw_container(l, struct diw_source, lru)->last_ns + quiet_after(d);
	if ((l = diw_list_first(&d->dg->sources.quiet)))
		t = diw_min64(t, diw_container(l, struct diw_source, lru)->last_ns + gone);
	return t;
}

size_t diw_sources_memory(const struct diw_sources *s)
{
	return s->pool.used * s->pool.size + s->rings.used * s->rings.size;
}
