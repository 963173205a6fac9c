/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receivers of a sender, `diw cp --group`: the progress, requests and result of each. Each receiver is limited: in
 * its requests, in the time for which it delays the others, in the time for which it is silent. It does no I/O.
 */
#ifndef DIW_TOOLS_MEMBERS_H
#define DIW_TOOLS_MEMBERS_H

#include "tools/cp/group.h"

enum member_state {
	MEMBER_LIVE,                 /* joined */
	MEMBER_HAVE,                 /* it has every byte, and is hashing */
	MEMBER_DONE,                 /* it has saved the file, and the SHA-256 matches */
	MEMBER_FAILED,               /* it has reported an error */
	MEMBER_LOST,                 /* silent */
	MEMBER_REFUSED,              /* it has requested too much */
};
const char *member_state_str(enum member_state s);

struct member {
	struct diw_addr addr;
	enum member_state state;
	uint32_t mark, rcvbuf;       /* mark: the latest one that it has reported */
	uint64_t at;                 /* bytes sent before that mark */
	uint64_t base, base_got;     /* bytes sent, and bytes received, when it joined */
	uint64_t deficit;            /* bytes of its part that it has not received */
	double loss;                 /* smoothed */
	uint64_t asked, again;       /* blocks that no receiver had requested in that pass; bytes of all that it
				      * requested */
	uint32_t answered;           /* pass of its latest answer, + 1 */
	uint32_t passes;             /* number of its answers with gaps */
	uint64_t heard_at, progress_at, fair_at, have_at, elapsed_ns;
	                             /* progress_at: it reported a mark, or had reported the latest one; fair_at: it
				      * lost half or less; have_at: it first said that it has every byte */
	bool behind;                 /* it delayed the others; it is waited for only when all are behind */
	char why[XFER_TEXT_MAX + 1];
};

struct members {
	struct member m[GROUP_MEMBERS];
	uint32_t n;
};

struct member *member_of_addr(struct members *t, const struct diw_addr *addr);
/* NULL: the table is full, or has GROUP_HOST_MEMBERS of its host. */
struct member *member_add(struct members *t, const struct diw_addr *addr, uint64_t now);
/* It has reported a mark, before which SENT bytes were sent; it has received GOT of these. Returns the loss since its
 * last report, 0 to 1. */
double member_report(struct member *m, uint32_t mark, uint64_t sent, uint64_t got, uint64_t now);
bool member_is_open(const struct member *m);         /* state LIVE or HAVE */
uint32_t members_in(const struct members *t, enum member_state s);
uint32_t members_open(const struct members *t);
/* Whether no receiver in state LIVE is without the mark `behind`. */
bool members_all_behind(const struct members *t);
/* The progress of the slowest receiver that is waited for: in state LIVE and not behind, or all are behind. UINT64_MAX:
 * none is. */
uint64_t members_slowest(const struct members *t);
/* The receiver with the highest loss, of those waited for; NULL: none. */
const struct member *members_worst(const struct members *t);
/* The smallest socket buffer. */
uint32_t members_rcvbuf(const struct members *t);
/* The number of receivers that have not answered the end of PASS. */
uint32_t members_unanswered(const struct members *t, uint32_t pass);
/* Gives up silent receivers. Those that delay the others are marked as behind; MARKED bytes were sent before the latest
 * mark. */
void members_expire(struct members *t, uint64_t marked, uint64_t hash_ns, uint64_t now);

#endif
