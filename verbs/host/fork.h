/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks across fork(2). The forking thread takes them first, so no other thread holds one at the fork, and all are free
 * in the child. */
#ifndef DIW_HOST_FORK_H
#define DIW_HOST_FORK_H

#include <pthread.h>

#include "base/list.h"

unsigned diw_fork_generation(void);          /* number of forks between this process and the original one */

struct diw_fork_guard {
	struct diw_list link;
	pthread_mutex_t *locks[4];           /* in the order in which threads take them; NULL: unused */
	void (*in_child)(void);              /* called in the child when all guarded locks are free; or NULL */
};

/* Locks of two guards of one library must not be nested. The caller holds none of them. */
void diw_fork_guard_add(struct diw_fork_guard *g);
void diw_fork_guard_del(struct diw_fork_guard *g);

#endif
