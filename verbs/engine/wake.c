/* SPDX-License-Identifier: BSD-2-Clause */
/* Wakes sleeping threads: the leader by a descriptor, followers by their semaphores. */
#include "base/eventfd.h"
#include "verbs/engine/int.h"

void diw_waiter_wake(struct diw_engine *e, struct diw_waiter *w)
{
	if (w->woken)                           /* only once for a burst of completions */
		return;
	w->woken = true;
	if (e->leader == w)
		diw_eventfd_set(e->kick_fd);
	else
		sem_post(&w->sem);
}

void diw_waiters_wake(struct diw_engine *e)
{
	for (struct diw_list *l = e->waiters.next; l != &e->waiters; l = l->next)
		diw_waiter_wake(e, diw_container(l, struct diw_waiter, link));
}

void diw_engine_wake(struct diw_engine *e, const void *object)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &e->waiters) {
		struct diw_waiter *w = diw_container(l, struct diw_waiter, link);

		if (w->object == object)
			diw_waiter_wake(e, w);
	}
}

bool diw_engine_has_waiter(const struct diw_engine *e, const void *object)
{
	const struct diw_list *l;

	for (l = e->waiters.next; l != &e->waiters; l = l->next)
		if (diw_container((struct diw_list *)l, struct diw_waiter, link)->object == object)
			return true;
	return false;
}

void diw_engine_kick(struct diw_engine *e)
{
	if (e->leader)
		diw_eventfd_set(e->leader == e ? e->thread_fd : e->kick_fd);
}

void diw_engine_hasten(struct diw_engine *e, uint64_t t)
{
	e->timer_at = diw_min64(e->timer_at, t);
	if (e->leader && t < e->leader_until) {
		e->leader_until = t;
		diw_engine_kick(e);
	}
}
