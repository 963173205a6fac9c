/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounded pools of fixed-size objects in one reserved mapping. The kernel provides memory only for pages that are
 * touched, so a large bound costs nothing until a peer uses it. The data path needs no malloc.
 */
#ifndef DIW_BASE_POOL_H
#define DIW_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

struct diw_arena { uint8_t *base; size_t size, used; };

/* The bytes that diw_arena_take(BYTES) takes, rounding included. */
size_t diw_arena_round(size_t bytes);
int diw_arena_init(struct diw_arena *a, size_t size);    /* -ENOMEM */
void *diw_arena_take(struct diw_arena *a, size_t bytes); /* zeroed; cannot fail, since the caller has sized the arena */
void diw_arena_fini(struct diw_arena *a);

struct diw_pool {
	uint8_t *base;
	void *free;                  /* LIFO through the objects' first word: the object freed last is in the cache and
				      * is reused first */
	size_t size;
	uint32_t cap, fresh, used;   /* the bound, objects ever touched, objects in use */
};

/* The number of buckets, a power of two, for a hash table of CAP objects. */
uint32_t diw_pool_buckets(uint32_t cap);
/* The bytes that a pool of CAP objects takes. SIZE is rounded up to a multiple of 16. */
size_t diw_pool_bytes(size_t size, uint32_t cap);
void diw_pool_init(struct diw_pool *p, struct diw_arena *a, size_t size, uint32_t cap);
void *diw_pool_get(struct diw_pool *p);                  /* not zeroed when reused; NULL at the bound */
void diw_pool_put(struct diw_pool *p, void *obj);

/* The object with number I, and the number of an object. Objects from number `fresh` on were never used. */
static inline void *diw_pool_at(const struct diw_pool *p, uint32_t i) { return p->base + i * p->size; }
static inline uint32_t diw_pool_index(const struct diw_pool *p, const void *obj)
{
	return (uint32_t)((size_t)((const uint8_t *)obj - p->base) / p->size);
}

#endif
