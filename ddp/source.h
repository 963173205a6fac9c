/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a queue pair remembers of its peers: the epoch, and which tagged messages have ended (docs/ud-profile.md, Late
 * segments). Exists only for sources whose segments passed every check; bounded; expires.
 */
#ifndef DIW_DDP_SOURCE_H
#define DIW_DDP_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/list.h"
#include "base/pool.h"

struct diw_ddp;
struct diw_ddp_seg;

#define DIW_SOURCE_CLOSED 256        /* closed MSNs that are remembered */
#define DIW_SOURCE_CLASSES 64
#define DIW_SOURCE_OLD_EPOCH_NS (2 * 1000000000ull)
#define DIW_SOURCE_QUIET_NS (1 * 1000000000ull)
#define DIW_SOURCE_EXPIRY_NS (10 * 1000000000ull)

struct diw_source {
	struct diw_source *hnext;
	struct diw_list lru;         /* active or quiet, by last_ns */
	struct diw_list heavy;       /* among the sources with as many open records */
	struct diw_list records;     /* open ones, oldest first */
	struct diw_list reasms;      /* open ones, oldest first */
	struct diw_addr addr;
	uint64_t last_ns;
	uint64_t old_until_ns;       /* old_epoch is refused until then; 0 none */
	uint32_t *closed;            /* ring of the last closed MSNs, lent while the source is active */
	uint32_t newest;             /* latest tagged MSN seen */
	uint32_t floor;              /* MSNs at or below it are closed */
	uint32_t nrecords;
	uint16_t nclosed, closed_at; /* entries in the ring, where the next goes */
	uint16_t epoch, old_epoch;
	uint16_t nreasm;
	bool have_newest, have_floor, quiet;
};
_Static_assert(sizeof(struct diw_source) < 208, "a quiet source holds less than 256 bytes");

struct diw_sources {
	struct diw_pool pool, rings;
	struct diw_source **bucket;
	uint32_t mask;
	uint64_t seed;               /* a peer must not be able to choose its bucket */
	struct diw_list active, quiet;
	struct diw_list heavy[DIW_SOURCE_CLASSES];   /* by min(nrecords, 63) */
};

size_t diw_sources_bytes(uint32_t max);
void diw_sources_init(struct diw_sources *s, struct diw_arena *a, uint32_t max);
/* Of a message. A peer chooses its MSNs, but not those that share a bucket; neighbours share a cache line. */
static inline uint32_t diw_source_hash(const struct diw_sources *s, const struct diw_addr *addr, uint32_t msn)
{
	return diw_addr_hash(addr, s->seed + (msn >> 3) * 0x9e3779b97f4a7c15u) + (msn & 7);
}

struct diw_source *diw_source_find(const struct diw_sources *s, const struct diw_addr *addr);
/* Find or create, and check the epoch: a new one closes the source's open records. 0 or a fault. Only for segments that
 * have passed every check, so that strangers cost no memory. */
uint16_t diw_source_get(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now, struct diw_source **src);
/* Something came from it: it does not become quiet yet. */
void diw_source_touch(struct diw_sources *s, struct diw_source *src, uint64_t now);
bool diw_source_is_closed(const struct diw_source *src, uint32_t msn);
void diw_source_set_closed(struct diw_sources *s, struct diw_source *src, uint32_t msn);
void diw_source_count_record(struct diw_sources *s, struct diw_source *src, int by);
/* The source with the most open records, or NULL. */
struct diw_source *diw_source_heaviest(const struct diw_sources *s);
void diw_sources_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_sources_deadline(const struct diw_ddp *d);
size_t diw_sources_memory(const struct diw_sources *s);

#endif
