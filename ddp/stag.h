/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The STag table of a device: STag -> registered region. An STag is a random 24-bit index and an 8-bit key. RFC 5040
 * section 3.4 leaves both to the implementation; a stranger must not be able to guess them (RFC 5042 section 6.1.1).
 * The lowest indexes are never drawn, since the application may choose among them. The caller holds the device's
 * lock.
 */
#ifndef DIW_DDP_STAG_H
#define DIW_DDP_STAG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

enum diw_stag_access {               /* the values of verbs/diw.h's enum diw_access */
	DIW_STAG_LOCAL_WRITE = 1,
	DIW_STAG_REMOTE_WRITE = 2,
	DIW_STAG_REMOTE_READ = 4,
	DIW_STAG_REMOTE_ATOMIC = 8,
	DIW_STAG_MW_BIND = 16,
	DIW_STAG_REMOTE_INVALIDATE = 32,
	DIW_STAG_GROUP_WRITE = 64,
};

/* The most STags of a device: a quarter of the indexes, so that drawing stays fast, and guessing hard. */
#define DIW_STAGS (1u << 22)
#define DIW_STAG_INDEX_CHOSEN 0xffffu    /* the highest index that the application may choose; the lowest is 1 */

struct diw_stag {
	uint32_t stag;
	unsigned access;
	uint8_t *addr;
	uint64_t to, len;            /* tagged offsets [to, to + len); never wraps */
	const void *pd;
	const void *qp;              /* only this queue pair may use it; NULL: all of the protection domain */
	bool invalid;                /* no access: a window that is not bound, or an invalidated STag */
	bool window;
	uint32_t turn;               /* of the bind that is in force, see struct diw_ddp_bind */
	struct diw_stag *region;     /* the region of a bound window */
	uint32_t windows;            /* windows bound to this region */
	bool bound;                  /* bound to `peer`; port 0 = any port */
	struct diw_addr peer;
};

/* The identity of an STag's user, which is checked beside the STag. */
struct diw_stag_user {
	const void *pd, *qp;
	unsigned deny;               /* of enum diw_stag_access: forbidden to its peers even if the STag allows it */
};

struct diw_stag_table {
	struct diw_stag **slot;
	uint32_t mask, n;
	uint32_t of_qps;             /* entries that only one queue pair may use */
	uint32_t records;            /* open records of all users of the table (ddp/record.c) */
};

int diw_stag_init(struct diw_stag_table *t);                     /* -ENOMEM */
void diw_stag_fini(struct diw_stag_table *t);
/* Draws s->stag and adds the entry. The entry is the caller's, and must not move until it is removed. -ENOMEM */
int diw_stag_add(struct diw_stag_table *t, struct diw_stag *s);
/* The same with the s->stag that is set. -EINVAL: the index may not be chosen. -EEXIST: the index is in the table. */
int diw_stag_add_chosen(struct diw_stag_table *t, struct diw_stag *s);
void diw_stag_remove(struct diw_stag_table *t, struct diw_stag *s);

/* The address of [to, to + len), or a fault. PEER NULL: a local access. */
uint16_t diw_stag_resolve(const struct diw_stag_table *t, uint32_t stag, const struct diw_stag_user *user,
			  unsigned access, const struct diw_addr *peer, uint64_t to, uint32_t len, uint8_t **addr);

/* The valid entry that the user may use, or NULL. */
struct diw_stag *diw_stag_find(const struct diw_stag_table *t, uint32_t stag, const struct diw_stag_user *user);
/* The entry with that index, with any key and in any state, or NULL. */
struct diw_stag *diw_stag_at(const struct diw_stag_table *t, uint32_t stag);
/* Whether PEER may use S: it is bound to no other peer. */
bool diw_stag_is_for(const struct diw_stag *s, const struct diw_addr *peer);
/* Takes all rights from the STag; a window is no longer bound to a region. */
void diw_stag_invalidate(struct diw_stag_table *t, struct diw_stag *s);
/* Restricts window W to QP; NULL: every queue pair may use it. W must be invalid. */
void diw_stag_set_qp(struct diw_stag_table *t, struct diw_stag *w, const void *qp);
/* QP has ended: no queue pair may use the STags that were restricted to QP. */
void diw_stag_forget_qp(struct diw_stag_table *t, const void *qp);
/* Sets another key; the index stays. */
static inline void diw_stag_set_key(struct diw_stag *s, uint8_t key)
{
	s->stag = (s->stag & ~0xffu) | key;
}

#endif
