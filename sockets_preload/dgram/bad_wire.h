/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the bad network share: its two directions, and the lock of all of it. */
#ifndef DIW_SOCKETS_BAD_WIRE_H
#define DIW_SOCKETS_BAD_WIRE_H

#include <pthread.h>

#include "llp/impair.h"
#include "sockets_preload/dgram/bad_net.h"

#pragma GCC visibility push(hidden)

struct diw_bad_wire {
	pthread_mutex_t lock;
	struct diw_impair_line tx, rx;       /* active: impaired */
	struct diw_counters c;               /* of both, since diw_bad_wire_count() */
	int fd;                              /* of the burst that is decided over */
};
extern struct diw_bad_wire diw_bad_wire;

/* With all signals blocked and cancellation disabled meanwhile. */
void diw_bad_wire_lock(void);
void diw_bad_wire_unlock(void);
/* What the kernel took in one call, datagram by datagram, into the capture. */
void diw_bad_wire_capture(int fd, const struct diw_dgram_burst *b);
/* Adds what has been counted to the process's counters. */
void diw_bad_wire_count(void);

/* ---- bad_late.c: datagrams that are sent later. All of it with the lock held. ---- */

/* How the program sent a datagram. */
struct diw_bad_sent {
	int fd, flags;
	const struct msghdr *msg;
	uint8_t head;                        /* bytes of a frame's header; 0: it is plain */
};

/* False: no memory. */
bool diw_bad_late_init(const struct diw_impair_dir *tx);
void diw_bad_late_forked(void);
/* None can be held back: a filter of system calls, or too much control data. */
bool diw_bad_late_cannot(const struct msghdr *msg);
/* The entries of the line from number HEAD on, counted as the line does, are of S. */
void diw_bad_late_note(const struct diw_bad_sent *s, uint32_t head);
bool diw_bad_late_is_new(const struct diw_impair_entry *e, uint32_t head);
/* E, which is due, is sent; false: not now. */
bool diw_bad_late_send(const struct diw_impair_entry *e);
/* Something may wait now: the thread that sends it runs. */
void diw_bad_late_start(void);
/* An error of FD that a datagram met which had been held back; 0: none. */
int diw_bad_late_error(int fd);

#pragma GCC visibility pop

#endif
