/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that watches descriptors and times, and the connection channels of devices. It sleeps in epoll_wait(2): as a
 * sleeper in diw_cm_get() it would serve the device. It starts with the first watch. */
#ifndef DIW_HOST_LOOP_H
#define DIW_HOST_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "verbs/diw_cm.h"

struct diw_loop {
	pthread_mutex_t *lock;               /* held over calls of watches and below, but call and join */
	pthread_mutex_t rouse_lock;          /* of `thread`, for diw_loop_call(); the last one */
	struct diw_loop_thread *thread;      /* NULL: there is none */
	struct diw_list watches;
};
#define DIW_LOOP_INIT(loop, lock) { lock, PTHREAD_MUTEX_INITIALIZER, NULL, { &(loop).watches, &(loop).watches } }

struct diw_watch {
	struct diw_list link;
	int fd;                              /* -1: only the time calls */
	_Atomic uint64_t due;                /* CLOCK_MONOTONIC, ns; 0: never */
	void (*ready)(struct diw_watch *w, uint64_t now);   /* FD is readable, or the time has come */
};
#define DIW_WATCH_INIT(watch, fd, ready) { { &(watch).link, &(watch).link }, fd, 0, ready }

int diw_loop_add(struct diw_loop *l, struct diw_watch *w);   /* -errno: no thread, or no descriptor */
void diw_loop_del(struct diw_loop *l, struct diw_watch *w);
/* W is called at DUE. Any lock may be held if W is in the loop until that ends. */
void diw_loop_call(struct diw_loop *l, struct diw_watch *w, uint64_t due);
/* Forgets all watches and ends the thread. The result is for diw_loop_join(), without the lock: NULL if a watch calls,
 * whose thread ends by itself, and in a child of fork(2), where the thread has never been. */
struct diw_loop_thread *diw_loop_stop(struct diw_loop *l);
void diw_loop_join(struct diw_loop_thread *t);

/* The connection channel of a device, and what hears of its events. */
struct diw_loop_cm {
	struct diw_watch watch;
	struct diw_cm *cm;                   /* NULL: closed */
	bool polled;                         /* no other thread runs the device's step (DIWARP_PROGRESS=inline) */
	void (*event)(struct diw_loop_cm *c, const struct diw_cm_event *ev);
};
int diw_loop_cm_open(struct diw_loop *l, struct diw_loop_cm *c, struct diw_dev *dev);    /* -errno */
int diw_loop_cm_close(struct diw_loop *l, struct diw_loop_cm *c);   /* -EBUSY: connections or listeners use it */

#endif
