/* SPDX-License-Identifier: BSD-2-Clause */
/* The handlers of fork(2), and the guarded locks. */
#include "verbs/host/fork.h"

#include <stdatomic.h>

static struct diw_list guards = { &guards, &guards };
static pthread_mutex_t guards_lock = PTHREAD_MUTEX_INITIALIZER;

static atomic_uint generation;

unsigned diw_fork_generation(void)
{
	return atomic_load_explicit(&generation, memory_order_relaxed);
}

static void each_lock(int (*act)(pthread_mutex_t *lock))
{
	for (struct diw_list *l = guards.next; l != &guards; l = l->next)
		for (int i = 0; i < 4 && diw_container(l, struct diw_fork_guard, link)->locks[i]; i++)
			act(diw_container(l, struct diw_fork_guard, link)->locks[i]);
}

static void before_fork(void)
{
	pthread_mutex_lock(&guards_lock);
	each_lock(pthread_mutex_lock);
}

static void after_fork(void)
{
	each_lock(pthread_mutex_unlock);
	pthread_mutex_unlock(&guards_lock);
}

static void fork_in_child(void)
{
	atomic_fetch_add(&generation, 1);
	after_fork();
	for (struct diw_list *l = guards.next; l != &guards; l = l->next)
		if (diw_container(l, struct diw_fork_guard, link)->in_child)
			diw_container(l, struct diw_fork_guard, link)->in_child();
}

/* A library's constructors run after those of the libraries that it needs, and fork(2) calls the handlers registered
 * last first. So librdmacm's locks are taken before libibverbs' locks, the same order as in its calls. */
__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, fork_in_child);
}

void diw_fork_guard_add(struct diw_fork_guard *g)
{
	pthread_mutex_lock(&guards_lock);
	diw_list_add_tail(&guards, &g->link);
	pthread_mutex_unlock(&guards_lock);
}

void diw_fork_guard_del(struct diw_fork_guard *g)
{
	pthread_mutex_lock(&guards_lock);
	diw_list_del(&g->link);
	pthread_mutex_unlock(&guards_lock);
}
