/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Range sets: the bytes of a message that have arrived. Extents are sorted, disjoint and never adjacent, so a set is a
 * validity map as it is. A set holds a few extents inline, and borrows a larger array from the owner's pools for
 * more.
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
	struct diw_extent *v;        /* inl, or an array from a pool */
	uint32_t n, cap;
	uint32_t bytes;              /* the sum over all extents */
	struct diw_extent inl[DIW_RANGE_INLINE];
};

/* Bounds for OWNERS sets: most sets stay small, and few may grow to the maximum. */
size_t diw_range_pools_bytes(uint32_t owners);
void diw_range_pools_init(struct diw_range_pools *p, struct diw_arena *a, uint32_t owners);
size_t diw_range_pools_used(const struct diw_range_pools *p);   /* bytes in borrowed arrays */

void diw_range_init(struct diw_range_set *s);
void diw_range_fini(struct diw_range_set *s, struct diw_range_pools *p);
/* Adds [lo, hi), lo < hi. Returns how many bytes were new, or -ENOSPC if there is no room for another extent; the set
 * is then unchanged. */
int64_t diw_range_add(struct diw_range_set *s, struct diw_range_pools *p, uint32_t lo, uint32_t hi);

#endif
