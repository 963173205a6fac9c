/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bounded pools of fixed-size objects, carved from one reservation. The kernel gives memory only for what is touched,
 * so a large bound costs nothing until a peer makes use of it, and the data path never calls malloc.
 */
#ifndef DIW_BASE_POOL_H
#define DIW_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

struct diw_arena { uint8_t *base; size_t size, used; };

/* Rounds up to what diw_arena_take() of the same bytes takes. */
size_t diw_arena_round(size_t bytes);
int diw_arena_init(struct diw_arena *a, size_t size);    /* -ENOMEM */
void *diw_arena_take(struct diw_arena *a, size_t bytes); /* zeroed; the caller sized the arena: cannot fail */
void diw_arena_fini(struct diw_arena *a);

struct diw_pool {
	uint8_t *base;
	void *free;                  /* LIFO through the objects' first word: the hottest is reused first */
	size_t size;
	uint32_t cap, fresh, used;   /* bound, objects ever touched, objects out */
};

/* A power of two, for the hash table of so many objects. */
uint32_t diw_pool_buckets(uint32_t cap);
size_t diw_pool_bytes(size_t size, uint32_t cap);
void diw_pool_init(struct diw_pool *p, struct diw_arena *a, size_t size, uint32_t cap);
void *diw_pool_get(struct diw_pool *p);                  /* not zeroed when reused; NULL at the bound */
void diw_pool_put(struct diw_pool *p, void *obj);

#endif
