/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of the bad network share: its two directions, and their lock. */
#ifndef DIW_SOCKETS_BAD_WIRE_H
#define DIW_SOCKETS_BAD_WIRE_H

#include <pthread.h>

#include "llp/impair.h"
#include "sockets_preload/dgram/bad_net.h"

#pragma GCC visibility push(hidden)

struct diw_bad_wire {
	pthread_mutex_t lock;
	struct diw_impair_line tx, rx;       /* active if the direction is impaired */
	struct diw_counters c;               /* counts of both directions since diw_bad_wire_count() */
	int fd;                              /* descriptor of the burst that is being decided */
};
extern struct diw_bad_wire diw_bad_wire;

/* Takes the lock; blocks all signals and disables cancellation until it is released. */
void diw_bad_wire_lock(void);
void diw_bad_wire_unlock(void);
/* Captures the datagrams that the kernel took in one call, one by one. */
void diw_bad_wire_capture(int fd, const struct diw_dgram_burst *b);
/* Adds the counts to the process's counters. */
void diw_bad_wire_count(void);

/* ---- bad_late.c: datagrams that are sent later. All calls need the lock ---- */

/* A datagram's socket, destination and control data, as the program sent it. */
struct diw_bad_sent {
	int fd, flags;
	const struct msghdr *msg;
	uint8_t head;                        /* bytes of a frame's header; 0: plain */
};

/* False: no memory. */
bool diw_bad_late_init(const struct diw_impair_dir *tx);
void diw_bad_late_forked(void);
/* True: the datagram cannot be held back, because of a filter of system calls, or of too much control data. */
bool diw_bad_late_cannot(const struct msghdr *msg);
/* Records S as the origin of the line's entries from number HEAD on. The number counts like the line's. */
void diw_bad_late_note(const struct diw_bad_sent *s, uint32_t head);
/* Whether E is one of these entries. */
bool diw_bad_late_is_new(const struct diw_impair_entry *e, uint32_t head);
/* Sends E, which is due. False: not possible at the moment. */
bool diw_bad_late_send(const struct diw_impair_entry *e);
/* Starts the thread that sends waiting datagrams, if there may be any. */
void diw_bad_late_start(void);
/* An error that a held datagram of FD met when it was sent; 0: none. */
int diw_bad_late_error(int fd);

#pragma GCC visibility pop

#endif
