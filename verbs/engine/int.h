/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the engine's files. The lock is held. */
#ifndef DIW_VERBS_ENGINE_INT_H
#define DIW_VERBS_ENGINE_INT_H

#include "verbs/engine/engine.h"

/* ready.c */
int diw_ready_add(struct diw_engine *e, struct diw_member *m);         /* before it is counted */
void diw_ready_del(struct diw_engine *e, struct diw_member *m);        /* after */
int diw_ready_pollfds(const struct diw_engine *e, struct pollfd *p);   /* room for DIW_ENGINE_FDS */
void diw_ready_serve(struct diw_engine *e, uint64_t now);
/* A look at M; a burst that it received is noted. */
void diw_member_serve(struct diw_engine *e, struct diw_member *m, uint64_t now);

/* wake.c */
void diw_signal_fd(int fd);
void diw_waiter_wake(struct diw_engine *e, struct diw_waiter *w);

/* sleep.c: releases the lock and sleeps on the descriptors and one that others can signal. Returns whether a signal's
 * handler ran. W NULL: the progress thread. */
bool diw_sleep_on_fds(struct diw_engine *e, struct diw_waiter *w, uint64_t now, uint64_t until);

#endif
