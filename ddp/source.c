/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources: the bounded table of the peers that send to a queue pair, by address and epoch. */
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
	s->due_ns = DIW_NEVER;
	for (int i = 0; i < 2 * DIW_SOURCE_KINDS; i++)
		diw_list_init(&s->idle[i / 2][i % 2]);
	for (int i = 0; i < DIW_SOURCE_CLASSES; i++)
		diw_list_init(&s->heavy[i]);
}

static struct diw_source **source_bucket(const struct diw_sources *s, const struct diw_addr *addr)
{
	return &s->bucket[diw_addr_hash(addr, s->seed) & s->mask];
}

struct diw_source *diw_source_find(const struct diw_ddp *d, const struct diw_addr *addr, uint16_t epoch)
{
	struct diw_source *src = *source_bucket(&d->dg->sources, addr);

	while (src && (src->epoch != epoch || !diw_addr_eq(&src->addr, addr)))
		src = src->hnext;
	return src;
}

static bool source_holds(const struct diw_source *src)
{
	return src->nrecords || src->nreasm || src->reader;
}

static int source_kind(const struct diw_source *src)
{
	bool writer = src->have_newest || src->over_until_ns;

	return (writer ? DIW_SOURCE_WRITER : DIW_SOURCE_BLANK) + src->proved;
}

/* Moves the source to its place among those that may be displaced. */
void diw_source_settle(struct diw_sources *s, struct diw_source *src)
{
	diw_list_del(&src->lru);
	src->quiet = false;
	if (source_holds(src))
		return;
	diw_list_add_tail(&s->idle[source_kind(src)][false], &src->lru);
	s->due_ns = diw_min64(s->due_ns, src->last_ns + DIW_SOURCE_QUIET_NS);
}

void diw_source_changed(struct diw_ddp *d, struct diw_source *src)
{
	struct diw_sources *s = &d->dg->sources;
	bool idle = !diw_list_empty(&src->lru);

	if (idle != source_holds(src))
		return;
	if (!idle)
		src->last_ns = s->now;
	diw_source_settle(s, src);
}

static struct diw_source *source_create(struct diw_sources *s, const struct diw_addr *addr, uint16_t epoch)
{
	struct diw_source *src = diw_pool_get(&s->pool), **b = source_bucket(s, addr);

	*src = (struct diw_source){ .addr = *addr, .epoch = epoch, .hnext = *b };
	*b = src;
	diw_list_init(&src->records);
	diw_list_init(&src->reasms);
	diw_list_add_tail(&s->heavy[0], &src->heavy);
	diw_list_init(&src->lru);
	return src;
}

static void source_return_ring(struct diw_sources *s, struct diw_source *src)
{
	if (src->closed)
		diw_pool_put(&s->rings, src->closed);
	src->closed = NULL;
	src->nclosed = src->closed_at = 0;
}

static void source_expire(struct diw_sources *s, struct diw_source *src)
{
	struct diw_source **p = source_bucket(s, &src->addr);

	while (*p != src)
		p = &(*p)->hnext;
	*p = src->hnext;
	source_return_ring(s, src);
	diw_list_del(&src->lru);
	diw_list_del(&src->heavy);
	diw_pool_put(&s->pool, src);
}

/* ---- Room for a new source ---- */

struct place {
	struct diw_source *victim;   /* the source to displace, or NULL: there is a free place */
	bool rival;                  /* the address has state in another epoch */
};

static struct diw_source *source_longest_idle(const struct diw_sources *s)
{
	for (int kind = 0; kind < DIW_SOURCE_KINDS; kind++) {
		const struct diw_list *l = diw_list_first(&s->idle[kind][true]);

		if (!l && kind < DIW_SOURCE_WRITER)
			l = diw_list_first(&s->idle[kind][false]);
		if (l)
			return diw_container(l, struct diw_source, lru);
	}
	return NULL;
}

/* Few epochs of an address have state, so that forged epochs do not displace the real one. False: every source that
 * could be displaced holds something. */
static bool source_find_place(const struct diw_sources *s, const struct diw_addr *addr, struct place *at)
{
	struct diw_source *o, *rival = NULL;
	int n = 0;

	for (o = *source_bucket(s, addr); o; o = o->hnext) {
		if (!diw_addr_eq(&o->addr, addr))
			continue;
		n++;
		if (!source_holds(o) && !o->proved && (o->quiet || source_kind(o) == DIW_SOURCE_BLANK) &&
		    (!rival || o->last_ns < rival->last_ns))
			rival = o;
	}
	at->rival = n > 0;
	at->victim = NULL;
	if (n >= DIW_SOURCE_EPOCHS)
		return (at->victim = rival);
	if (s->pool.used < s->pool.cap)
		return true;
	return (at->victim = source_longest_idle(s));
}

static struct diw_source *source_take_place(struct diw_ddp *d, const struct place *at, const struct diw_addr *addr,
					    uint16_t epoch)
{
	struct diw_sources *s = &d->dg->sources;
	struct diw_source *src, *o;

	if (at->victim) {
		d->c->source_evicted++;
		source_expire(s, at->victim);
	}
	src = source_create(s, addr, epoch);
	for (o = at->rival ? *source_bucket(s, addr) : NULL; o; o = o->hnext)
		if (diw_addr_eq(&o->addr, addr))
			o->rival = !o->proved;
	return src;
}

/* ---- Segments ---- */

void diw_source_touch(struct diw_ddp *d, struct diw_source *src, uint64_t now)
{
	struct diw_sources *s = &d->dg->sources;

	if (src->last_ns == now)
		return;
	src->last_ns = s->now = now;
	if (!diw_list_empty(&src->lru))
		diw_source_settle(s, src);
}

uint16_t diw_source_may(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now, struct diw_source **out)
{
	struct diw_sources *s = &d->dg->sources;
	struct place at;

	*out = diw_source_find(d, seg->src, seg->h.epoch);
	if (*out)
		return now < (*out)->over_until_ns ? DIW_FAULT_EPOCH_OLD : 0;
	if (source_find_place(s, seg->src, &at))
		return 0;
	if (at.rival)                           /* the address's owner gets a place by its proof */
		d->ulp->challenge(d->ulp_ctx, seg, now);
	return DIW_FAULT_SOURCE_FULL;
}

/* A source that has proved its address keeps its state longer than others. So the proof is asked for if places are
 * short. It is also asked for if the address has several epochs, since the proof ends the others. */
static void source_challenge(struct diw_ddp *d, struct diw_source *src, const struct diw_ddp_seg *seg, uint64_t now)
{
	const struct diw_pool *pool = &d->dg->sources.pool;

	if ((!src->rival && pool->used <= pool->cap / 2) ||
	    (src->asked_ns && now < src->asked_ns + DIW_SOURCE_ASK_NS))
		return;
	src->asked_ns = now;
	d->ulp->challenge(d->ulp_ctx, seg, now);
}

struct diw_source *diw_source_get(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now,
				  struct diw_source *src)
{
	struct diw_sources *s = &d->dg->sources;
	struct place at;

	if (!src) {
		source_find_place(s, seg->src, &at);
		src = source_take_place(d, &at, seg->src, seg->h.epoch);
		src->last_ns = s->now = now;
		diw_source_settle(s, src);
	} else {
		diw_source_touch(d, src, now);
	}
	if (!src->proved)
		source_challenge(d, src, seg, now);
	return src;
}

/* ---- Epochs ---- */

/* Ends the messages of the epoch: another process has the address. */
static void source_end_epoch(struct diw_ddp *d, struct diw_source *src, uint64_t now)
{
	diw_records_close_source(d, src);
	diw_reasms_close_source(d, src, now);
	source_return_ring(&d->dg->sources, src);
	src->have_newest = src->have_floor = src->proved = src->reads = false;
	src->rival = true;
	src->over_until_ns = now + DIW_SOURCE_OLD_EPOCH_NS;
	src->last_ns = now;
	diw_source_settle(&d->dg->sources, src);
	d->c->source_epoch_ended++;
}

/* Ends the other epochs of the address. Returns the one to displace if the proved epoch has no place yet. That one
 * holds nothing more. A forged epoch is preferred to one of which late segments may still come. */
static struct diw_source *source_end_rivals(struct diw_ddp *d, const struct diw_addr *addr,
					    const struct diw_source *src, uint64_t now)
{
	struct diw_source *o, *least = NULL;
	uint64_t worth = 0, least_worth = 0;

	for (o = *source_bucket(&d->dg->sources, addr); o; o = o->hnext) {
		if (o == src || !diw_addr_eq(&o->addr, addr))
			continue;
		worth = o->proved ? UINT64_MAX : o->over_until_ns;
		if (now >= o->over_until_ns)
			source_end_epoch(d, o, now);
		if (!source_holds(o) && (!least || worth < least_worth)) {
			least = o;
			least_worth = worth;
		}
	}
	return least;
}

struct diw_source *diw_source_prove(struct diw_ddp *d, const struct diw_addr *addr, uint16_t epoch, bool read,
				    uint64_t now)
{
	struct diw_sources *s = &d->dg->sources;
	struct diw_source *src = diw_source_find(d, addr, epoch), *least;
	struct place at;

	if (src && now < src->over_until_ns)
		return NULL;
	s->now = now;
	least = source_end_rivals(d, addr, src, now);
	if (!src) {
		if (!source_find_place(s, addr, &at)) {
			if (!least)
				return NULL;
			at.victim = least;
		}
		src = source_take_place(d, &at, addr, epoch);
	}
	src->proved = true;
	src->reads |= read;
	src->rival = false;
	src->last_ns = now;
	diw_source_settle(s, src);
	return src;
}

/* ---- Closed messages ---- */

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

static void source_raise_floor(struct diw_source *src, uint32_t msn)
{
	if (!src->have_floor || diw_serial_after(msn, src->floor))
		src->floor = msn;
	src->have_floor = true;
}

void diw_source_set_closed(struct diw_sources *s, struct diw_source *src, uint32_t msn)
{
	if (!src->closed)
		src->closed = diw_pool_get(&s->rings);  /* there are as many rings as sources: never NULL */
	if (src->nclosed == DIW_SOURCE_CLOSED)
		source_raise_floor(src, src->closed[src->closed_at]);
	else
		src->nclosed++;
	src->closed[src->closed_at] = msn;
	src->closed_at = (src->closed_at + 1) % DIW_SOURCE_CLOSED;
}

static int source_class(uint32_t nrecords)
{
	return nrecords < DIW_SOURCE_CLASSES ? (int)nrecords : DIW_SOURCE_CLASSES - 1;
}

void diw_source_count_record(struct diw_ddp *d, struct diw_source *src, int by)
{
	struct diw_sources *s = &d->dg->sources;
	int before = source_class(src->nrecords);

	src->nrecords += by;
	diw_source_changed(d, src);
	if (source_class(src->nrecords) == before)
		return;
	diw_list_del(&src->heavy);
	diw_list_add_tail(&s->heavy[source_class(src->nrecords)], &src->heavy);
}

struct diw_source *diw_source_heaviest(const struct diw_sources *s)
{
	for (int i = DIW_SOURCE_CLASSES - 1; i > 0; i--)
		if (!diw_list_empty(&s->heavy[i]))
			return diw_container(diw_list_first(&s->heavy[i]), struct diw_source, heavy);
	return NULL;
}

/* ---- Timers ---- */

/* All messages of a quiet source have ended, so the floor replaces the ring. */
static void source_become_quiet(struct diw_sources *s, struct diw_source *src)
{
	if (src->have_newest)
		source_raise_floor(src, src->newest);
	source_return_ring(s, src);
	src->quiet = true;
	diw_list_del(&src->lru);
	diw_list_add_tail(&s->idle[source_kind(src)][true], &src->lru);
}

static uint64_t sources_due_at(const struct diw_list *idle, uint64_t since)
{
	const struct diw_list *l = diw_list_first(idle);

	return l ? diw_container(l, struct diw_source, lru)->last_ns + since : DIW_NEVER;
}

static struct diw_source *sources_first_due(const struct diw_list *idle, uint64_t since, uint64_t now)
{
	return now >= sources_due_at(idle, since) ? diw_container(diw_list_first(idle), struct diw_source, lru) : NULL;
}

static uint64_t sources_next_due(const struct diw_sources *s)
{
	uint64_t t = DIW_NEVER;

	for (int kind = 0; kind < DIW_SOURCE_KINDS; kind++) {
		t = diw_min64(t, sources_due_at(&s->idle[kind][false], DIW_SOURCE_QUIET_NS));
		t = diw_min64(t, sources_due_at(&s->idle[kind][true], DIW_SOURCE_EXPIRY_NS));
	}
	return t;
}

void diw_sources_timers(struct diw_ddp *d, uint64_t now)
{
	struct diw_sources *s = &d->dg->sources;
	struct diw_source *src;

	if (now < s->due_ns)
		return;
	for (int kind = 0; kind < DIW_SOURCE_KINDS; kind++) {
		while ((src = sources_first_due(&s->idle[kind][false], DIW_SOURCE_QUIET_NS, now)))
			source_become_quiet(s, src);
		while ((src = sources_first_due(&s->idle[kind][true], DIW_SOURCE_EXPIRY_NS, now))) {
			d->c->source_expired++;
			source_expire(s, src);
		}
	}
	s->due_ns = sources_next_due(s);
}

uint64_t diw_sources_deadline(const struct diw_ddp *d)
{
	return d->dg->sources.due_ns;
}

size_t diw_sources_memory(const struct diw_sources *s)
{
	return s->pool.used * s->pool.size + s->rings.used * s->rings.size;
}
