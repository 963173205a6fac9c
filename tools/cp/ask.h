/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiver's view of a file on its way: which ranges were asked for, which came, which are missing. No I/O in here.
 * An entry is one Write-Record asked for; its index comes back as the record's immediate.
 */
#ifndef DIW_TOOLS_ASK_H
#define DIW_TOOLS_ASK_H

#include "tools/cp/xfer.h"

#define ASK_GRACE_NS (5 * DIW_MS)    /* a record of an acknowledged entry is open by then, or lost */

struct ask_entry {
	uint64_t off;
	uint32_t len;
	bool again, resolved;
	uint64_t acked_at;           /* 0: not yet */
};

struct ask {
	uint64_t size, window;
	uint32_t message;
	bool once;
	uint64_t next_off;           /* the first byte never asked for */
	uint32_t head, tail;         /* entries [tail, head) exist; tail is the oldest unresolved */
	uint32_t acked;              /* the sender has sent all before it */
	uint64_t outstanding;        /* bytes of unresolved entries */
	uint64_t valid, again, complete_records, partial_records, lost_records;
	struct hole *holes;          /* to be asked for again; with once: what stays missing */
	size_t nholes, max_holes;
	bool failed;                 /* no memory for holes */
	struct ask_entry entry[XFER_ENTRIES];
};

void ask_init(struct ask *a, uint64_t size, uint32_t message, uint64_t window, bool once);
void ask_fini(struct ask *a);
/* Makes entries while the window has room. */
void ask_fill(struct ask *a);
/* A record of entry INDEX closed with these ranges valid; false when no such record is expected. */
bool ask_record(struct ask *a, uint32_t index, uint64_t off, uint32_t len, const struct diw_range *r, int n);
/* STATUS; false when it acknowledges what does not exist. */
bool ask_acked(struct ask *a, uint32_t next, uint64_t now);
/* Entries acknowledged a while ago whose record is not open are lost. */
void ask_expire(struct ask *a, uint64_t now, bool (*is_open)(void *ctx, uint64_t off), void *ctx);
bool ask_done(const struct ask *a);
/* With once: sorts the holes, joins neighbours. */
void ask_sort_holes(struct ask *a);

#endif
