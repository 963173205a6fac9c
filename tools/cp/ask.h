/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiver's state of a file: the ranges requested, received and missing. It does no I/O. An entry is one requested
 * Write-Record; its index comes back as the record's immediate.
 */
#ifndef DIW_TOOLS_ASK_H
#define DIW_TOOLS_ASK_H

#include "tools/cp/xfer.h"

#define ASK_GRACE_NS (5 * DIW_MS)    /* by then the record of an acknowledged entry is open, or lost */

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
	uint64_t next_off;           /* the first byte that was never requested */
	uint32_t head, tail;         /* the entries [tail, head) exist; tail is the oldest that is not resolved */
	uint32_t acked;              /* the sender has sent all entries before this one */
	uint64_t outstanding;        /* bytes of entries that are not resolved */
	uint64_t valid, again, complete_records, partial_records, lost_records;
	struct hole *holes;          /* to be requested again; with `once`, the bytes that stay missing */
	size_t nholes, max_holes;
	bool failed;                 /* no memory for holes */
	struct ask_entry entry[XFER_ENTRIES];
};

void ask_init(struct ask *a, uint64_t size, uint32_t message, uint64_t window, bool once);
void ask_fini(struct ask *a);
/* Makes entries while the window has room. */
void ask_fill(struct ask *a);
/* A record of entry INDEX closed with these valid ranges. False: no such record is expected. */
bool ask_record(struct ask *a, uint32_t index, uint64_t off, uint32_t len, const struct diw_range *r, int n);
/* A STATUS came. False: it acknowledges entries that do not exist. */
bool ask_acked(struct ask *a, uint32_t next, uint64_t now);
/* Entries that were acknowledged some time ago, and whose record is not open, are lost. */
void ask_expire(struct ask *a, uint64_t now, bool (*is_open)(void *ctx, uint64_t off), void *ctx);
bool ask_done(const struct ask *a);
/* With `once`: sorts the holes, and joins adjacent ones. */
void ask_sort_holes(struct ask *a);

#endif
