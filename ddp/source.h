/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a queue pair remembers of its peers: which tagged messages of an epoch have ended (docs/ud-profile.md, Late
 * segments), and whether the peer has proved that the address is its own (section 5.1). Each epoch of an address has a
 * state of its own, so that a forged one changes nothing for the real one. Exists only for sources whose segments
 * passed every check; bounded; expires.
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
#define DIW_SOURCE_EPOCHS 4          /* of an address that have state */
#define DIW_SOURCE_OLD_EPOCH_NS (2 * 1000000000ull)
#define DIW_SOURCE_QUIET_NS (1 * 1000000000ull)
#define DIW_SOURCE_EXPIRY_NS (10 * 1000000000ull)
#define DIW_SOURCE_ASK_NS (100 * 1000000ull) /* between two challenges */

struct diw_source {
	struct diw_source *hnext;
	struct diw_list lru;         /* of sources that hold nothing, by last_ns; one that holds any is unlinked */
	struct diw_list heavy;       /* among the sources with as many open records */
	struct diw_list records;     /* open ones, oldest first */
	struct diw_list reasms;      /* open ones, oldest first */
	struct diw_addr addr;
	uint64_t last_ns;            /* when a segment came, or the last thing that the source held ended */
	uint64_t over_until_ns;      /* another epoch was proved: this one is refused until then; 0 none */
	uint64_t asked_ns;           /* when it was challenged; 0 never */
	void *reader;                /* of the layer above: what of it is being answered; or NULL */
	uint32_t *closed;            /* ring of the last closed MSNs, lent while the source is active */
	uint32_t newest;             /* latest tagged MSN seen */
	uint32_t floor;              /* MSNs at or below it are closed */
	uint32_t nrecords;
	uint16_t nclosed, closed_at; /* entries in the ring, where the next goes */
	uint16_t epoch;
	uint16_t nreasm;
	bool have_newest, have_floor, quiet;
	bool rival;                  /* unproved, and the address has another epoch, too */
	bool proved;                 /* the owner of the address says that this is its epoch */
	bool reads;                  /* and that it asks for Reads */
};
_Static_assert(sizeof(struct diw_source) < 208, "a quiet source holds less than 256 bytes");

/* What of a source that holds nothing would be lost with it. In the order in which they give way. */
enum diw_source_kind {
	DIW_SOURCE_BLANK,            /* nothing */
	DIW_SOURCE_PROVED,           /* the proof */
	DIW_SOURCE_WRITER,           /* which messages have ended: only a quiet one gives way */
	DIW_SOURCE_PROVED_WRITER,
	DIW_SOURCE_KINDS,
};

struct diw_sources {
	struct diw_pool pool, rings;
	struct diw_source **bucket;
	uint32_t mask;
	uint64_t seed;               /* a peer must not be able to choose its bucket */
	uint64_t now;                /* the latest clock */
	struct diw_list idle[DIW_SOURCE_KINDS][2];   /* sources that hold nothing: active, quiet */
	uint64_t due_ns;             /* no source becomes quiet or expires before */
	struct diw_list heavy[DIW_SOURCE_CLASSES];   /* by min(nrecords, 63) */
};

size_t diw_sources_bytes(uint32_t max);
void diw_sources_init(struct diw_sources *s, struct diw_arena *a, uint32_t max);
/* Of a message. A peer chooses its MSNs, but not those that share a bucket; neighbours share a cache line. */
static inline uint32_t diw_source_hash(const struct diw_sources *s, const struct diw_addr *addr, uint32_t msn)
{
	return diw_addr_hash(addr, s->seed + (msn >> 3) * 0x9e3779b97f4a7c15u) + (msn & 7);
}

/* Of that epoch, or NULL. */
struct diw_source *diw_source_find(const struct diw_ddp *d, const struct diw_addr *addr, uint16_t epoch);
/* May the segment have state? Changes nothing. 0 and the source, or NULL for one that is to be made; or a fault. */
uint16_t diw_source_may(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now, struct diw_source **src);
/* SRC as diw_source_may() told, or made now; the source longest idle gives way to it. Only for segments that are
 * accepted, so that refused ones leave no trace. Challenges the source where that is due. */
struct diw_source *diw_source_get(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now,
				  struct diw_source *src);
/* The owner of ADDR has proved that EPOCH is its own: other epochs of the address end. READ: it asks for Reads. NULL:
 * that epoch has ended, or there is no room. */
struct diw_source *diw_source_prove(struct diw_ddp *d, const struct diw_addr *addr, uint16_t epoch, bool read,
				    uint64_t now);
/* Something came from it: it does not become quiet yet. */
void diw_source_touch(struct diw_ddp *d, struct diw_source *src, uint64_t now);
/* It has a newest MSN now. */
void diw_source_settle(struct diw_sources *s, struct diw_source *src);
/* Its nreasm or reader has changed. */
void diw_source_changed(struct diw_ddp *d, struct diw_source *src);
bool diw_source_is_closed(const struct diw_source *src, uint32_t msn);
void diw_source_set_closed(struct diw_sources *s, struct diw_source *src, uint32_t msn);
void diw_source_count_record(struct diw_ddp *d, struct diw_source *src, int by);
/* The source with the most open records, or NULL. */
struct diw_source *diw_source_heaviest(const struct diw_sources *s);
void diw_sources_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_sources_deadline(const struct diw_ddp *d);
size_t diw_sources_memory(const struct diw_sources *s);

#endif
