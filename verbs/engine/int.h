/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the engine's files share. The lock is held. */
#ifndef DIW_VERBS_ENGINE_INT_H
#define DIW_VERBS_ENGINE_INT_H

#include "verbs/engine/engine.h"

/* ---- lock.c ---- */
/* Takes the lock, also from a progress thread that spins. */
void diw_engine_take(struct diw_engine *e);

/* ---- ready.c ---- */
int diw_ready_add(struct diw_engine *e, struct diw_member *m);         /* call before the member is counted */
void diw_ready_del(struct diw_engine *e, struct diw_member *m);        /* call after the member is not counted any
								        * more */
int diw_ready_pollfds(const struct diw_engine *e, struct pollfd *p);   /* P has room for DIW_ENGINE_FDS */
void diw_ready_serve(struct diw_engine *e, uint64_t now);
/* Serves M; the time of a received burst is recorded. */
void diw_member_serve(struct diw_engine *e, struct diw_member *m, uint64_t now);

/* ---- wake.c ---- */
void diw_waiter_wake(struct diw_engine *e, struct diw_waiter *w);
void diw_waiters_wake(struct diw_engine *e);   /* the leader, too */

/* ---- flush.c ---- */
/* Called without the lock by the progress thread, which sends what is open for too long. Returns when it is to look
 * again, or DIW_NEVER. */
uint64_t diw_flush_watch(struct diw_engine *e);
/* Engines whose open super-buffers are sent when the process ends. */
void diw_flush_enlist(struct diw_engine *e);
void diw_flush_delist(struct diw_engine *e);
void diw_flush_forked(void);

/* ---- thread.c ---- */
/* A thread is about to sleep, and relies on the progress thread, which spins. */
void diw_thread_summon(struct diw_engine *e);

/* ---- sleep.c ---- */
/* The first waiter, if there is one, is woken to be the leader. */
bool diw_waiter_promote(struct diw_engine *e);
/* Releases the lock, and sleeps on the descriptors and one that others can signal. Returns whether a signal's handler
 * ran. W NULL: the progress thread. */
bool diw_sleep_on_fds(struct diw_engine *e, struct diw_waiter *w, uint64_t now, uint64_t until);

#endif
