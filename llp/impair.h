/* SPDX-License-Identifier: BSD-2-Clause */
/* Definitions that the files of the impairing dgram share: the specification, and the line of datagrams of one
 * direction. */
#ifndef DIW_LLP_IMPAIR_H
#define DIW_LLP_IMPAIR_H

#include "base/list.h"
#include "base/rng.h"
#include "llp/dgram.h"

enum { DIW_IMPAIR_TX, DIW_IMPAIR_RX };

struct diw_impair_dir {
	double loss, dup, reorder, corrupt;         /* probabilities */
	double burst;                               /* fraction of datagrams lost in bursts */
	double burst_len;                           /* mean length of a burst */
	uint64_t delay;                             /* ns */
	uint64_t mask;                              /* bit i: datagram i mod 64 is lost */
	uint32_t mtu;                               /* 0: no fragments */
	uint64_t seed;
};

struct diw_impair_spec {
	struct diw_impair_dir dir[2];
};

struct diw_impair_entry {                           /* a datagram that was copied: delayed, held back or altered */
	struct diw_list node;
	struct diw_dest peer;
	uint8_t *data;
	uint32_t len, taken;                        /* taken: bytes of the arena, including the gap at its end */
	uint64_t due;
	int behind;                                 /* held back: datagrams that may still overtake it */
	bool used, group;
	struct diw_addr to;                         /* as in the burst */
};

struct diw_impair_cursor {
	int i;                                      /* index into the burst's iovec */
	size_t off;
};

struct diw_impair_run {                             /* surviving datagrams that are adjacent: bytes of the burst */
	uint32_t off, len;
};

struct diw_impair_item {                            /* a datagram that leaves: an entry, or still the burst's */
	struct diw_impair_entry *e;
	struct diw_impair_cursor at;
	uint32_t len;
};

#define DIW_IMPAIR_ENTRIES 4096u
#define DIW_IMPAIR_ARENA (8u << 20)
#define DIW_IMPAIR_HELD 64
/* A whole burst, duplicated, and all entries that were held back. */
#define DIW_IMPAIR_RUN (2 * (int)DIW_DGRAM_MAX_SEGS + DIW_IMPAIR_HELD)

struct diw_impair_line {
	struct diw_impair_dir p;
	struct diw_counters *c;
	struct {                                    /* the state of decisions; restored if a burst was not taken */
		struct diw_rng rng;
		bool bad;                           /* Gilbert's bad state: a burst of loss */
		unsigned index;                     /* datagrams seen, modulo 64 */
	} s;
	uint64_t loss;                              /* probability in 2^-53 */
	double enter, leave;                        /* Gilbert: probabilities of the transitions */
	bool active, copies;
	bool altered;                               /* an entry was made or moved since the last plan began */

	struct diw_list delayed;                    /* in order of arrival */
	struct diw_list held;
	int nheld;

	struct diw_impair_item run[DIW_IMPAIR_RUN]; /* leaves at once, in this order */
	int nrun;

	struct diw_impair_watch *watch;             /* is told of lost datagrams; or NULL */
	bool tx;
	struct diw_impair_item lost[DIW_IMPAIR_RUN]; /* lost datagrams of the burst that is being decided; reported when
						      * it was taken */
	int nlost;

	/* Entries and their bytes are taken and given back in the same order: two rings. */
	struct diw_impair_entry *entry;
	uint32_t entry_head, entry_count;
	uint8_t *arena;
	uint32_t arena_head, arena_used;
};

int diw_impair_line_set(struct diw_impair_line *l, const struct diw_impair_dir *p, int which);
void diw_impair_line_fini(struct diw_impair_line *l);
/* There is nothing to do, and nothing waits. */
static inline bool diw_impair_line_idle(const struct diw_impair_line *l)
{
	return !l->active && !l->nheld && diw_list_empty(&l->delayed);
}
/* Decides the fate of each datagram of B. Those that leave at once are appended to the run. */
void diw_impair_line_plan(struct diw_impair_line *l, const struct diw_dgram_burst *b, uint64_t now);
/* For loss alone, without copies: which runs of B survive. There are at most half as many as B has datagrams, and one
 * more. */
int diw_impair_line_thin(struct diw_impair_line *l, const struct diw_dgram_burst *b, struct diw_impair_run *runs,
			 uint64_t now);
/* Moves AT forward by LEN bytes of IOV. */
void diw_impair_advance(const struct iovec *iov, struct diw_impair_cursor *at, uint32_t len);
/* Appends the datagrams that are due to the run. */
void diw_impair_line_release(struct diw_impair_line *l, uint64_t now);
/* The first DONE datagrams of the run have left. Of the others, those that belong to B are copied, and go to the front
 * of the delayed ones. */
void diw_impair_line_end(struct diw_impair_line *l, const struct diw_dgram_burst *b, int done, uint64_t now);
/* Reports the losses of B, which was planned or thinned, if B was taken. Otherwise B will be decided again. */
void diw_impair_line_tell(struct diw_impair_line *l, const struct diw_dgram_burst *b, bool taken, uint64_t now);
uint64_t diw_impair_line_deadline(const struct diw_impair_line *l);

#endif
