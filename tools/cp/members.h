/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receivers that a sender of `diw cp --group` knows: how far each is, what it has asked for, how it ended. Each is
 * bounded: in what it may ask for, in how long it may hold up the others, in how long it may be silent. No I/O in here.
 */
#ifndef DIW_TOOLS_MEMBERS_H
#define DIW_TOOLS_MEMBERS_H

#include "tools/cp/group.h"

enum member_state {
	MEMBER_LIVE,                 /* joined */
	MEMBER_HAVE,                 /* every byte is there; it hashes */
	MEMBER_DONE,                 /* it has saved the file, SHA-256 matches */
	MEMBER_FAILED,               /* it has said why it has not */
	MEMBER_LOST,                 /* silent */
	MEMBER_REFUSED,              /* it has asked for too much */
};
const char *member_state_str(enum member_state s);

struct member {
	struct diw_addr addr;
	enum member_state state;
	uint32_t mark, rcvbuf;       /* mark: the latest that it has reported */
	uint64_t at;                 /* what had been sent by that mark */
	uint64_t base, base_got;     /* what had been sent, and had come, when it joined */
	uint64_t deficit;            /* bytes of its part that have not come */
	double loss;                 /* smoothed */
	uint64_t asked, again;       /* blocks; bytes of them */
	uint32_t answered;           /* pass + 1 of its latest answer */
	uint32_t passes;             /* that it has answered with gaps */
	uint64_t heard_at, progress_at, have_at, elapsed_ns;
	bool behind;                 /* it has held up the others for too long: not waited for any more */
	char why[XFER_TEXT_MAX + 1];
};

struct members {
	struct member m[GROUP_MEMBERS];
	uint32_t n;
};

struct member *member_of_addr(struct members *t, const struct diw_addr *addr);
/* NULL: the table is full. */
struct member *member_add(struct members *t, const struct diw_addr *addr, uint64_t now);
/* It has reported a mark by which SENT bytes had been sent, and of these GOT have come. Returns the loss since its last
 * report, 0 to 1. */
double member_report(struct member *m, uint32_t mark, uint64_t sent, uint64_t got, uint64_t now);
bool member_is_open(const struct member *m);         /* LIVE or HAVE */
uint32_t members_in(const struct members *t, enum member_state s);
uint32_t members_open(const struct members *t);
/* What the slowest that is waited for has reported; UINT64_MAX: none is waited for. */
uint64_t members_slowest(const struct members *t);
/* The open one with the highest loss; NULL: none. */
const struct member *members_worst(const struct members *t);
/* The least socket buffer. */
uint32_t members_rcvbuf(const struct members *t);
/* How many have still to answer the end of PASS. */
uint32_t members_unanswered(const struct members *t, uint32_t pass);
/* Gives up those that are silent; marks as behind those that hold up the others, MARKED bytes having been marked. */
void members_expire(struct members *t, uint64_t marked, uint64_t hash_ns, uint64_t now);

#endif
