/* SPDX-License-Identifier: BSD-2-Clause */
/* Arenas, each mapped once, and pools of equal objects in them. Peers can use up no other memory than these pools. */
#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

size_t diw_arena_round(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

int diw_arena_init(struct diw_arena *a, size_t size)
{
	a->size = diw_arena_round(size);
	a->used = 0;
	a->base = mmap(NULL, a->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (a->base == MAP_FAILED) {
		a->base = NULL;
		return -ENOMEM;
	}
	return 0;
}

void *diw_arena_take(struct diw_arena *a, size_t bytes)
{
	void *p = a->base + a->used;

	a->used += diw_arena_round(bytes);
	assert(a->used <= a->size);
	return p;
}

void diw_arena_fini(struct diw_arena *a)
{
	if (a->base)
		munmap(a->base, a->size);
	memset(a, 0, sizeof *a);
}

static size_t object_size(size_t size)
{
	return (size + 15) & ~(size_t)15;
}

uint32_t diw_pool_buckets(uint32_t cap)
{
	uint32_t n = 64;

	while (n < cap)
		n *= 2;
	return n;
}

size_t diw_pool_bytes(size_t size, uint32_t cap)
{
	return diw_arena_round(object_size(size) * cap);
}

void diw_pool_init(struct diw_pool *p, struct diw_arena *a, size_t size, uint32_t cap)
{
	memset(p, 0, sizeof *p);
	p->size = object_size(size);
	p->cap = cap;
	p->base = diw_arena_take(a, p->size * cap);
}

void *diw_pool_get(struct diw_pool *p)
{
	void *obj = p->free;

	if (obj)
		memcpy(&p->free, obj, sizeof p->free);
	else if (p->fresh < p->cap)
		obj = p->base + p->size * p->fresh++;
	else
		return NULL;
	p->used++;
	return obj;
}

void diw_pool_put(struct diw_pool *p, void *obj)
{
	memcpy(obj, &p->free, sizeof p->free);
	p->free = obj;
	p->used--;
}
