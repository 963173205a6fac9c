/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw cp --group: the sender of a file to many receivers. The clock is a parameter, and no function waits.
 */
#ifndef DIW_TOOLS_GROUP_SEND_H
#define DIW_TOOLS_GROUP_SEND_H

#include "tools/cp/blocks.h"
#include "tools/cp/cwnd.h"
#include "tools/cp/members.h"
#include "tools/cp/outgoing.h"

#define GROUP_MARKS 256u             /* marks that are remembered; a power of two */

enum group_phase { GROUP_GATHERING, GROUP_SENDING, GROUP_ENDING };

struct group_send {
	const struct group_options *o;
	struct xfer_port port;
	struct xfer_peer to;                 /* the group */
	struct outgoing out;
	const char *name;
	struct diw_mr *mr;
	uint64_t id, key[2];
	uint32_t stag, block;
	enum group_phase phase;
	struct members members;
	struct blocks wanted;                /* of this pass, and then of the next */
	uint64_t cursor;                     /* blocks before it were checked in this pass */
	uint32_t pass, mark, passes;         /* mark: number of the latest; passes: those that sent something */
	uint64_t mark_sent[GROUP_MARKS], mark_at[GROUP_MARKS];   /* bytes sent before a mark; time of the mark */
	uint64_t rtt;                        /* smoothed time from a mark to the report of the slowest receiver */
	uint64_t sent, again, marked, unwatched;     /* in bytes; marked: before the latest mark */
	struct cwnd cwnd;
	uint64_t announced_at, marked_at, progress_at, phase_at, began_at, ended_at, first_join_at, unwatched_at;
	uint64_t joins_refused, wants_refused, bad_messages;
	struct bar bar;
};

/* Call before the first turn, with o, port, to, out and name set. Prints errors; TOOL_OK or TOOL_FAILED. */
int group_send_init(struct group_send *s);
void group_send_start(struct group_send *s, uint64_t now);
/* Handles N completions, and does the work that is due. *MORE: the next turn should come at once. TOOL_OK or
 * TOOL_FAILED. */
int group_send_turn(struct group_send *s, const struct diw_wc *wc, int n, bool *more, uint64_t now);
bool group_send_is_over(const struct group_send *s);
/* Tells the receivers that no more will come. */
void group_send_bye(struct group_send *s);
void group_send_fini(struct group_send *s);
int group_send_report(const struct group_send *s);   /* group_told.c; the exit status */

#endif
