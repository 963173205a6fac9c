/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that `diw recv --group` receives: from the sender's proof of its address until the file is kept or given up.
 * The clock is a parameter, and no function waits.
 */
#ifndef DIW_TOOLS_TRANSFER_H
#define DIW_TOOLS_TRANSFER_H

#include "tools/cp/blocks.h"
#include "tools/cp/group.h"
#include "tools/cp/incoming.h"

#define TRANSFER_OPEN 64             /* records that are checked while they are open */

enum transfer_state {
	TRANSFER_NONE,
	TRANSFER_RECEIVING,
	TRANSFER_WHOLE,              /* every byte is there: transfer_finish() is due */
	TRANSFER_KEPT,               /* saved or not: KEPT is repeated until the sender has received it */
};

struct transfer {
	enum transfer_state state;
	const struct group_options *o;
	struct xfer_port *port;
	struct xfer_peer peer;               /* the sender */
	uint64_t id, token, nonce;           /* token: the sender's; nonce: the one in its WELCOME */
	uint8_t sha[32], sha_got[32];
	uint64_t size;
	uint32_t block, stag;
	struct incoming in;
	struct diw_mr *mr;
	struct blocks missing;
	uint64_t got, again;                 /* bytes of closed records; bytes requested again */
	uint32_t mark, pass;                 /* pass: the one whose end must be answered */
	bool accepted, answering, sha_ok, refused, over;     /* refused: the transfer could not begin */
	uint64_t answer_at, answer_by, want_next;    /* want_next: the next page to send */
	uint64_t join_at, kept_at, heard_at, came_at, began_at, had_at;      /* came_at: the time of the last new
									      * byte */
	uint64_t rests_until;                /* group_recv.c: until then no transfer of the same host begins */
	char why[XFER_TEXT_MAX + 1];
	uint64_t complete_records, partial_records;
	struct bar bar;
};

/* M is the WELCOME of a sender at SRC. If the file cannot be received, the state is KEPT with `refused` set, so that
 * the sender is told. */
void transfer_begin(struct transfer *t, const struct diw_addr *src, const struct xfer_msg *m, uint64_t now);
/* Ends the sender's right to write, and drops a file that is not kept. */
void transfer_drop(struct transfer *t);
bool transfer_is(const struct transfer *t, const struct diw_addr *src, uint64_t id);
void transfer_on_message(struct transfer *t, const struct xfer_msg *m, uint64_t now);
/* A record with these valid ranges has closed. */
void transfer_on_record(struct transfer *t, const struct diw_wc *wc, const struct diw_range *range, int n,
			uint64_t now);
/* Does the work that is due. False: the transfer is over without the file; `why` has the reason. */
bool transfer_step(struct transfer *t, uint64_t now);
/* Hashes and saves the file. TICK(ctx, done) is called between slices. Returns whether the file is saved. */
bool transfer_finish(struct transfer *t, bool (*tick)(void *ctx, uint64_t done), void *ctx, uint64_t now);
/* Called while the file is hashed. */
void transfer_say_have(struct transfer *t, uint64_t now);
/* Tells the sender that nothing will be saved. */
void transfer_give_up(struct transfer *t, const char *why, uint64_t now);
void transfer_report(const struct transfer *t);      /* group_told.c */

#endif
