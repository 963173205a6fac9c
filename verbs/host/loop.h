/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that watches descriptors, times, and the connection channels of devices. It sleeps in epoll_wait(2), since a
 * sleeper in diw_cm_get() would run the device's step. It starts with the first watch. */
#ifndef DIW_HOST_LOOP_H
#define DIW_HOST_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "verbs/diw_cm.h"

struct diw_loop {
	pthread_mutex_t *lock;               /* held during calls of watches, and required for the functions below,
					      * except call and join */
	pthread_mutex_t rouse_lock;          /* guards `thread` for diw_loop_call(); the innermost lock */
	struct diw_loop_thread *thread;      /* NULL: not running */
	struct diw_list watches;
};
#define DIW_LOOP_INIT(loop, lock) { lock, PTHREAD_MUTEX_INITIALIZER, NULL, { &(loop).watches, &(loop).watches } }

struct diw_watch {
	struct diw_list link;
	int fd;                              /* -1: only `due` is used */
	_Atomic uint64_t due;                /* CLOCK_MONOTONIC, ns; 0: never */
	void (*ready)(struct diw_watch *w, uint64_t now);   /* FD is readable, or `due` has come */
};
#define DIW_WATCH_INIT(watch, fd, ready) { { &(watch).link, &(watch).link }, fd, 0, ready }

int diw_loop_add(struct diw_loop *l, struct diw_watch *w);   /* -errno: no thread, or no descriptor */
void diw_loop_del(struct diw_loop *l, struct diw_watch *w);
/* Calls W at DUE. The caller may hold any lock, provided that W stays in the loop during the call. */
void diw_loop_call(struct diw_loop *l, struct diw_watch *w, uint64_t due);
/* Removes all watches and ends the thread. Pass the result to diw_loop_join(), without the lock. It is NULL if a watch
 * makes this call, since its thread then ends by itself; and in a child of fork(2), which does not have the thread. */
struct diw_loop_thread *diw_loop_stop(struct diw_loop *l);
void diw_loop_join(struct diw_loop_thread *t);

/* The connection channel of a device, and the receiver of its events. */
struct diw_loop_cm {
	struct diw_watch watch;
	struct diw_cm *cm;                   /* NULL: closed */
	bool polled;                         /* no other thread runs the device's step (DIWARP_PROGRESS=inline) */
	void (*event)(struct diw_loop_cm *c, const struct diw_cm_event *ev);
};
int diw_loop_cm_open(struct diw_loop *l, struct diw_loop_cm *c, struct diw_dev *dev);    /* -errno */
int diw_loop_cm_close(struct diw_loop *l, struct diw_loop_cm *c);   /* -EBUSY: connections or listeners use it */

#endif
