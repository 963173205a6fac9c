/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cancellation (pthread_cancel(3)). A thread that is cancelled in the middle of a call would leave locks held and lists
 * broken. So the only cancellation points of the libraries are the functions below. They wait for an event, are
 * cancellation points only while they sleep, and need a cleanup handler of the caller. The Makefile renames every other
 * cancellation point in the libraries' objects to its twin in nocancel.c, which disables cancellation during the
 * call.
 *
 * PTHREAD_CANCEL_ASYNCHRONOUS is not supported, as in nearly all of the C library. The exceptions are the calls of
 * libibverbs and librdmacm that fetch events, which defer cancellation first: MVAPICH2 cancels a thread that is in
 * ibv_get_async_event() with this type.
 */
#ifndef DIW_BASE_NOCANCEL_H
#define DIW_BASE_NOCANCEL_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Cancellation points that work like the calls of these names. */
int diw_wait_poll(struct pollfd *p, nfds_t n, int timeout_ms);
int diw_wait_ppoll(struct pollfd *p, nfds_t n, const struct timespec *timeout);
int diw_wait_sem(sem_t *sem, const struct timespec *monotonic);      /* NULL: for ever */
/* FUTEX_WAIT_PRIVATE; TIMEOUT NULL: for ever. The waker must wake all waiters, because a cancelled thread has lost its
 * wake-up. */
int diw_wait_futex(atomic_uint *word, unsigned seen, const struct timespec *timeout);

/* Defers cancellation in the calling thread, and returns the old type for diw_cancel_as(). It is a cancellation point
 * if the old type was asynchronous. */
int diw_cancel_deferred(void);
/* Sets the cancellation type to TYPE. If this ends the thread, UNDO(ARG) is called first, unless UNDO is NULL. */
void diw_cancel_as(int type, void (*undo)(void *arg), void *arg);

#endif
