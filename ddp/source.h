/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources. A queue pair remembers which tagged messages of a peer's epoch have ended (docs/ud-profile.md, Late
 * segments), and whether the peer has proved its address (section 5.1). Each epoch of an address has its own state, so
 * a forged epoch changes nothing for the real one. Only a source whose segments passed every check has state. The state
 * is bounded and expires. A source is in one of these phases:
 *
 *   phase    in the list         while                                           may be displaced
 *   holding  none                it has records, reassemblies or Reads           no
 *   active   idle[kind][false]   it holds nothing, for DIW_SOURCE_QUIET_NS       if it has no set of ended messages
 *   quiet    idle[kind][true]    after that, for DIW_SOURCE_EXPIRY_NS since its  yes; `floor` has replaced the ring of
 *                                last segment. Then the state is freed           closed MSNs
 *
 * In each phase a segment is accepted, unless the address has proved another epoch: then segments of this one are
 * refused until `over_until_ns`.
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
#define DIW_SOURCE_EPOCHS 4          /* the most epochs of an address that have state */
#define DIW_SOURCE_OLD_EPOCH_NS (2 * 1000000000ull)
#define DIW_SOURCE_QUIET_NS (1 * 1000000000ull)
#define DIW_SOURCE_EXPIRY_NS (10 * 1000000000ull)
#define DIW_SOURCE_ASK_NS (100 * 1000000ull) /* between two challenges */

struct diw_source {
	struct diw_source *hnext;
	struct diw_list lru;         /* in diw_sources.idle, in order of last_ns; else unlinked */
	struct diw_list heavy;       /* in the list of sources with as many open records */
	struct diw_list records;     /* open records, oldest first */
	struct diw_list reasms;      /* open messages, oldest first */
	struct diw_addr addr;
	uint64_t last_ns;            /* when the last segment came, or the last record or message of the source ended */
	uint64_t over_until_ns;      /* another epoch was proved: this one is refused until then; 0: none */
	uint64_t asked_ns;           /* when it was challenged; 0: never */
	void *reader;                /* of the layer above: its Reads that are being answered; or NULL */
	uint32_t *closed;            /* ring of the last closed MSNs, borrowed while the source is active */
	uint32_t newest;             /* the latest tagged MSN */
	uint32_t floor;              /* this MSN and all before it are closed */
	uint32_t nrecords;
	uint16_t nclosed, closed_at; /* entries in the ring; index of the next */
	uint16_t epoch;
	uint16_t nreasm;
	bool have_newest, have_floor, quiet;
	bool rival;                  /* not proved, and the address has state in another epoch */
	bool proved;                 /* the owner of the address has proved this epoch */
	bool reads;                  /* with that: it sends Read Requests */
};
_Static_assert(sizeof(struct diw_source) < 208, "a quiet source holds less than 256 bytes");

/* The state that is lost if a source that holds nothing is displaced. Sources are displaced in this order. */
enum diw_source_kind {
	DIW_SOURCE_BLANK,            /* no state */
	DIW_SOURCE_PROVED,           /* its proof */
	DIW_SOURCE_WRITER,           /* the set of ended messages: only a quiet source is displaced */
	DIW_SOURCE_PROVED_WRITER,
	DIW_SOURCE_KINDS,
};

struct diw_sources {
	struct diw_pool pool, rings;
	struct diw_source **bucket;
	uint32_t mask;
	uint64_t seed;               /* a secret, so that a peer cannot choose its bucket */
	uint64_t now;                /* the latest `now` */
	struct diw_list idle[DIW_SOURCE_KINDS][2];   /* sources that hold nothing: active, quiet */
	uint64_t due_ns;             /* no source becomes quiet or expires before this time */
	struct diw_list heavy[DIW_SOURCE_CLASSES];   /* by min(nrecords, 63) */
};

size_t diw_sources_bytes(uint32_t max);
void diw_sources_init(struct diw_sources *s, struct diw_arena *a, uint32_t max);
/* Hash of a message. A peer chooses its MSNs, but cannot choose which of them share a bucket. Neighbouring MSNs share a
 * cache line. */
static inline uint32_t diw_source_hash(const struct diw_sources *s, const struct diw_addr *addr, uint32_t msn)
{
	return diw_addr_hash(addr, s->seed + (msn >> 3) * 0x9e3779b97f4a7c15u) + (msn & 7);
}

/* The source of that epoch, or NULL. */
struct diw_source *diw_source_find(const struct diw_ddp *d, const struct diw_addr *addr, uint16_t epoch);
/* Whether the segment's source may have state; changes nothing. 0, and the source or NULL if it must be made; or a
 * fault. */
uint16_t diw_source_may(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now, struct diw_source **src);
/* Returns SRC as diw_source_may() returned it, or makes the source, for which the one that has been idle longest may be
 * displaced. Only for accepted segments, so that refused ones leave no state. Challenges the source if that is due. */
struct diw_source *diw_source_get(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now,
				  struct diw_source *src);
/* The owner of ADDR has proved EPOCH: the other epochs of the address end. READ: it sends Read Requests. NULL: the
 * epoch has ended, or there is no room. */
struct diw_source *diw_source_prove(struct diw_ddp *d, const struct diw_addr *addr, uint16_t epoch, bool read,
				    uint64_t now);
/* A segment has come from the source, so its quiet time begins again. */
void diw_source_touch(struct diw_ddp *d, struct diw_source *src, uint64_t now);
/* The source's newest MSN has been set. */
void diw_source_settle(struct diw_sources *s, struct diw_source *src);
/* The source's nreasm or reader has changed. */
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
