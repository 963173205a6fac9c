/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets of byte ranges, merged and sorted, with bounded memory: validity maps. */
#include "base/range.h"

#include <errno.h>
#include <string.h>

static uint32_t class_extents(int class)
{
	return 16u << (2 * class);
}

static uint32_t class_count(int class, uint32_t owners)
{
	uint32_t n = owners >> (2 * class);

	return n < 16 ? 16 : n;
}

size_t diw_range_pools_bytes(uint32_t owners)
{
	size_t bytes = 0;

	for (int i = 0; i < DIW_RANGE_CLASSES; i++)
		bytes += diw_pool_bytes(class_extents(i) * sizeof(struct diw_extent), class_count(i, owners));
	return bytes;
}

void diw_range_pools_init(struct diw_range_pools *p, struct diw_arena *a, uint32_t owners)
{
	for (int i = 0; i < DIW_RANGE_CLASSES; i++)
		diw_pool_init(&p->pool[i], a, class_extents(i) * sizeof(struct diw_extent), class_count(i, owners));
}

size_t diw_range_pools_used(const struct diw_range_pools *p)
{
	size_t bytes = 0;

	for (int i = 0; i < DIW_RANGE_CLASSES; i++)
		bytes += p->pool[i].used * p->pool[i].size;
	return bytes;
}

void diw_range_init(struct diw_range_set *s)
{
	s->v = s->inl;
	s->n = 0;
	s->cap = DIW_RANGE_INLINE;
	s->bytes = 0;
}

static struct diw_pool *array_pool(struct diw_range_pools *p, uint32_t cap)
{
	for (int i = 0; i < DIW_RANGE_CLASSES; i++)
		if (class_extents(i) == cap)
			return &p->pool[i];
	return NULL;
}

void diw_range_fini(struct diw_range_set *s, struct diw_range_pools *p)
{
	if (s->v != s->inl)
		diw_pool_put(array_pool(p, s->cap), s->v);
	diw_range_init(s);
}

static int range_grow(struct diw_range_set *s, struct diw_range_pools *p)
{
	uint32_t cap = s->v == s->inl ? class_extents(0) : s->cap * 4;
	struct diw_extent *v;

	if (cap > DIW_RANGE_MAX)
		return -ENOSPC;
	v = diw_pool_get(array_pool(p, cap));
	if (!v)
		return -ENOSPC;
	memcpy(v, s->v, s->n * sizeof *v);
	if (s->v != s->inl)
		diw_pool_put(array_pool(p, s->cap), s->v);
	s->v = v;
	s->cap = cap;
	return 0;
}

/* Index of the first extent that [lo, ...) can touch: the first that ends at or after lo. */
static uint32_t first_touching(const struct diw_range_set *s, uint32_t lo)
{
	uint32_t a = 0, b = s->n;

	while (a < b) {
		uint32_t mid = (a + b) / 2;

		if (s->v[mid].hi < lo)
			a = mid + 1;
		else
			b = mid;
	}
	return a;
}

int64_t diw_range_add(struct diw_range_set *s, struct diw_range_pools *p, uint32_t lo, uint32_t hi)
{
	struct diw_extent *last = s->n ? &s->v[s->n - 1] : NULL;
	uint32_t i, j, had = 0;

	if (last && last->hi == lo) {           /* in order, the common case */
		last->hi = hi;
		s->bytes += hi - lo;
		return hi - lo;
	}
	i = first_touching(s, lo);
	for (j = i; j < s->n && s->v[j].lo <= hi; j++)
		had += s->v[j].hi - s->v[j].lo;
	if (i == j) {                           /* touches none: a new extent at i */
		if (s->n == s->cap && range_grow(s, p) < 0)
			return -ENOSPC;
		memmove(&s->v[i + 1], &s->v[i], (s->n - i) * sizeof *s->v);
		s->v[i] = (struct diw_extent){ lo, hi };
		s->n++;
	} else {                                /* merge i..j-1 into i */
		if (s->v[i].lo < lo)
			lo = s->v[i].lo;
		if (s->v[j - 1].hi > hi)
			hi = s->v[j - 1].hi;
		s->v[i] = (struct diw_extent){ lo, hi };
		memmove(&s->v[i + 1], &s->v[j], (s->n - j) * sizeof *s->v);
		s->n -= j - i - 1;
	}
	s->bytes += hi - lo - had;
	return (int64_t)(hi - lo) - had;
}
