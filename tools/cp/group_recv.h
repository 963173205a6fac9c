/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw recv --group: the receiver of several transfers at a time. So a sender that sends nothing, or not what it
 * announced, does not keep others out. An announcement causes only a JOIN. Its place, file and memory region are
 * allocated by a WELCOME with the nonce of that JOIN, which only the host at the sender's address can return. The clock
 * is a parameter, and no function waits.
 */
#ifndef DIW_TOOLS_GROUP_RECV_H
#define DIW_TOOLS_GROUP_RECV_H

#include "tools/cp/transfer.h"

#define GROUP_PLACES 8u              /* transfers at a time */
#define GROUP_HINTS 32u              /* announcements whose JOIN has not left */
#define GROUP_IDS 64u                /* ids of ended transfers that are kept, so that none is received again */
#define GROUP_STILL_NS (2 * DIW_S)   /* after this time without a new byte, a transfer may be displaced */

/* An announcement, until its JOIN leaves. A new one replaces the oldest. */
struct group_hint {
	bool waits;
	struct diw_addr src;
	uint64_t id, join_at;
	char name[XFER_NAME_MAX + 1];
};

struct group_recv {
	const struct group_options *o;
	struct xfer_port port;
	uint64_t key[2], now;                /* key: for the nonces; now: the time of the latest turn */
	struct transfer place[GROUP_PLACES];
	struct group_hint hint[GROUP_HINTS];
	uint64_t old[GROUP_IDS];
	uint32_t nhints, nold;
	uint64_t files, bad, displaced;      /* saved; not saved although bytes came; displaced */
	struct diw_range ranges[DIW_MAX_RANGES];
};

/* Call before the first turn, with o and port set. -errno */
int group_recv_init(struct group_recv *r);
/* Handles N completions, and does the work that is due. */
void group_recv_turn(struct group_recv *r, struct diw_wc *wc, int n, uint64_t now);
/* --count is reached, and the senders have been told. */
bool group_recv_is_over(const struct group_recv *r, uint64_t now);
/* The longest wait for the next completion. */
uint64_t group_recv_pause(const struct group_recv *r);
/* Ends transfers that are not complete. */
void group_recv_fini(struct group_recv *r);

#endif
