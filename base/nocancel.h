/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancellation (pthread_cancel(3)). A thread that is cancelled in the middle of a call would leave locks held and lists
 * broken. So no call of the libraries is a cancellation point but those that wait for something to happen, and these
 * only while they sleep, with a cleanup handler, by the functions below. The Makefile renames every other cancellation
 * point in the libraries' objects to its twin in nocancel.c, which disables cancellation meanwhile.
 *
 * PTHREAD_CANCEL_ASYNCHRONOUS is not supported, as by nearly all of the C library, but in the calls that fetch events
 * of libibverbs and librdmacm: MVAPICH2 cancels a thread that is in ibv_get_async_event() so. They defer cancellation
 * first.
 */
#ifndef DIW_BASE_NOCANCEL_H
#define DIW_BASE_NOCANCEL_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Cancellation points; else as the calls of these names. */
int diw_wait_poll(struct pollfd *p, nfds_t n, int timeout_ms);
int diw_wait_ppoll(struct pollfd *p, nfds_t n, const struct timespec *timeout);
int diw_wait_sem(sem_t *sem, const struct timespec *monotonic);      /* NULL: for ever */
/* FUTEX_WAIT_PRIVATE; TIMEOUT NULL: for ever. The waker must wake all waiters: a thread that is
 * cancelled has lost its wake-up. */
int diw_wait_futex(atomic_uint *word, unsigned seen, const struct timespec *timeout);

/* Defers cancellation in the calling thread; a cancellation point if it was asynchronous. Returns what it was, for
 * diw_cancel_as(). */
int diw_cancel_deferred(void);
/* Cancellation is of TYPE again. If this ends the thread, UNDO(ARG) is called first, unless UNDO is NULL. */
void diw_cancel_as(int type, void (*undo)(void *arg), void *arg);

#endif
