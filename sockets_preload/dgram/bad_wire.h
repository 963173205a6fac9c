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

/* With all signals blocked meanwhile. */
void diw_bad_wire_lock(void);
void diw_bad_wire_unlock(void);
/* Adds what has been counted to the process's counters. */
void diw_bad_wire_count(void);

#pragma GCC visibility pop

#endif
