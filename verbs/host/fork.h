/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks over fork(2): the forking thread takes them before, so no other thread holds one at that moment, and a child
 * finds all of them free. */
#ifndef DIW_HOST_FORK_H
#define DIW_HOST_FORK_H

#include <pthread.h>

#include "base/list.h"

unsigned diw_fork_generation(void);          /* how many forks lie between this process and the one that began */

struct diw_fork_guard {
	struct diw_list link;
	pthread_mutex_t *locks[4];           /* in the order in which threads take them; NULL: fewer */
	void (*in_child)(void);              /* called in the child, where all guarded locks are free, or NULL */
};

/* Guards of one library must not have locks that threads take within one another's. The caller holds none of them. */
void diw_fork_guard_add(struct diw_fork_guard *g);
void diw_fork_guard_del(struct diw_fork_guard *g);

#endif
