/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Range sets: which bytes of a message are there. Sorted, disjoint, never adjacent extents, so that a validity map
 * needs no further work. A few extents are held inline; a set with more borrows a larger array from the owner's pools.
 */
#ifndef DIW_BASE_RANGE_H
#define DIW_BASE_RANGE_H

#include <stdint.h>

#include "base/pool.h"

#define DIW_RANGE_INLINE 3u
#define DIW_RANGE_MAX 4096u          /* extents of one set */
#define DIW_RANGE_CLASSES 5          /* arrays of 16, 64, 256, 1024, 4096 extents */

struct diw_extent { uint32_t lo, hi; };      /* lo <= byte < hi */

struct diw_range_pools { struct diw_pool pool[DIW_RANGE_CLASSES]; };

struct diw_range_set {
	struct diw_extent *v;        /* inl, or an array of a pool */
	uint32_t n, cap;
	uint32_t bytes;              /* in all extents */
	struct diw_extent inl[DIW_RANGE_INLINE];
};

/* Bounds for OWNERS sets: most stay small, few may grow to the maximum. */
size_t diw_range_pools_bytes(uint32_t owners);
void diw_range_pools_init(struct diw_range_pools *p, struct diw_arena *a, uint32_t owners);
size_t diw_range_pools_used(const struct diw_range_pools *p);   /* bytes lent */

void diw_range_init(struct diw_range_set *s);
void diw_range_fini(struct diw_range_set *s, struct diw_range_pools *p);
/* Add [lo, hi), lo < hi. Returns how many bytes were new, or -ENOSPC: no room for another extent, nothing changed. */
int64_t diw_range_add(struct diw_range_set *s, struct diw_range_pools *p, uint32_t lo, uint32_t hi);

#endif
