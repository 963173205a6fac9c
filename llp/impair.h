/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the impairing dgram share: the specification, and one direction's line of datagrams. */
#ifndef DIW_LLP_IMPAIR_H
#define DIW_LLP_IMPAIR_H

#include "base/list.h"
#include "base/rng.h"
#include "llp/dgram.h"

enum { DIW_IMPAIR_TX, DIW_IMPAIR_RX };

struct diw_impair_dir {
	double loss, dup, reorder, corrupt;         /* probabilities */
	double burst;                               /* fraction of datagrams lost in bursts, */
	double burst_len;                           /* of this mean length */
	uint64_t delay;                             /* ns */
	uint64_t mask;                              /* bit i: datagram i mod 64 is lost */
	uint32_t mtu;                               /* 0: no fragments */
	uint64_t seed;
};

struct diw_impair_spec {
	struct diw_impair_dir dir[2];
};

struct diw_impair_entry {                           /* a datagram that is ours: delayed, held back or altered */
	struct diw_list node;
	struct diw_dest peer;
	uint8_t *data;
	uint32_t len, taken;                        /* taken: arena bytes, the gap at its end included */
	uint64_t due;
	int behind;                                 /* held: datagrams that it still lets pass */
	bool used, group;
	struct diw_addr to;                         /* as the burst's */
};

struct diw_impair_cursor {
	int i;                                      /* iovec of the burst */
	size_t off;
};

struct diw_impair_run {                             /* datagrams that survive side by side: bytes of the burst */
	uint32_t off, len;
};

struct diw_impair_item {                            /* a datagram on its way out: one of ours, or still the burst's */
	struct diw_impair_entry *e;
	struct diw_impair_cursor at;
	uint32_t len;
};

#define DIW_IMPAIR_ENTRIES 4096u
#define DIW_IMPAIR_ARENA (8u << 20)
#define DIW_IMPAIR_HELD 64
/* A burst, all of it duplicated, and everything that was held. */
#define DIW_IMPAIR_RUN (2 * (int)DIW_DGRAM_MAX_SEGS + DIW_IMPAIR_HELD)

struct diw_impair_line {
	struct diw_impair_dir p;
	struct diw_counters *c;
	struct {                                    /* everything that decides; restored when a burst was not taken */
		struct diw_rng rng;
		bool bad;                           /* Gilbert: in a burst of loss */
		unsigned index;                     /* datagrams seen, mod 64 */
	} s;
	uint64_t loss;                              /* probability in 2^-53 */
	double enter, leave;                        /* Gilbert: probabilities of the transitions */
	bool active, copies;
	bool altered;                               /* since the last plan began an entry was made or moved */

	struct diw_list delayed;                    /* first in, first out */
	struct diw_list held;
	int nheld;

	struct diw_impair_item run[DIW_IMPAIR_RUN]; /* leaves now, in this order */
	int nrun;

	struct diw_impair_watch *watch;             /* is told of lost datagrams, or NULL */
	bool tx;
	struct diw_impair_item lost[DIW_IMPAIR_RUN]; /* of the burst that is decided over: told when it was taken */
	int nlost;

	/* Entries and their bytes are taken in order and given back in order: two rings. */
	struct diw_impair_entry *entry;
	uint32_t entry_head, entry_count;
	uint8_t *arena;
	uint32_t arena_head, arena_used;
};

int diw_impair_line_set(struct diw_impair_line *l, const struct diw_impair_dir *p, int which);
void diw_impair_line_fini(struct diw_impair_line *l);
/* Nothing to do, nothing waiting. */
static inline bool diw_impair_line_idle(const struct diw_impair_line *l)
{
	return !l->active && !l->nheld && diw_list_empty(&l->delayed);
}
/* Decide over each datagram of B: what leaves now is appended to the run. */
void diw_impair_line_plan(struct diw_impair_line *l, const struct diw_dgram_burst *b, uint64_t now);
/* The same when datagrams are only lost (no copies): which runs of B survive, at most half of its datagrams and one. */
int diw_impair_line_thin(struct diw_impair_line *l, const struct diw_dgram_burst *b, struct diw_impair_run *runs,
			 uint64_t now);
/* Move AT on by LEN bytes of IOV. */
void diw_impair_advance(const struct iovec *iov, struct diw_impair_cursor *at, uint32_t len);
/* Append what has become due to the run. */
void diw_impair_line_release(struct diw_impair_line *l, uint64_t now);
/* The first DONE datagrams of the run have left; those of B that have not are copied, and lead the delayed ones. */
void diw_impair_line_end(struct diw_impair_line *l, const struct diw_dgram_burst *b, int done, uint64_t now);
/* B, as it was planned or thinned, was taken (or not: then it is decided over again). */
void diw_impair_line_tell(struct diw_impair_line *l, const struct diw_dgram_burst *b, bool taken, uint64_t now);
uint64_t diw_impair_line_deadline(const struct diw_impair_line *l);

#endif
