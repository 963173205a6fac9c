/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's lock. A post that finds it held sets a mark, and the holder does the work when it unlocks. So no poster
 * waits for a step.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "base/sys.h"
#include "verbs/engine/int.h"

static unsigned generation;

void diw_engine_forked(void)
{
	generation++;
	diw_flush_forked();
}

bool diw_engine_alive(const struct diw_engine *e)
{
	return e->fork_generation == generation;
}

/* ---- Begin and end ---- */

void diw_engine_init(struct diw_engine *e, uint64_t (*clock)(void *ctx), void *clock_ctx)
{
	pthread_mutex_init(&e->lock, NULL);
	pthread_mutex_init(&e->thread_lock, NULL);
	pthread_cond_init(&e->all_awake, NULL);
	sem_init(&e->thread_sem, 0, 0);
	e->fork_generation = generation;
	e->clock = clock;
	e->clock_ctx = clock_ctx;
	e->epfd = e->kick_fd = e->thread_fd = e->alarm_fd = -1;
	diw_list_init(&e->turn);
	diw_list_init(&e->fixed);
	diw_list_init(&e->timed);
	diw_list_init(&e->deferred);
	diw_list_init(&e->waiters);
	diw_list_init(&e->unflushed);
	diw_list_init(&e->enlisted);
}

int diw_engine_open(struct diw_engine *e, bool threaded, bool spins)
{
	e->threaded = threaded;
	e->spins = threaded && spins;
	diw_flush_enlist(e);
	e->epfd = diw_above_std(epoll_create1(EPOLL_CLOEXEC));
	e->kick_fd = diw_above_std(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	e->thread_fd = diw_above_std(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	e->alarm_fd = diw_above_std(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	if (e->epfd >= 0 && e->kick_fd >= 0 && diw_epoll_add_own(e->epfd, e->kick_fd) < 0) {
		close(e->kick_fd);
		e->kick_fd = -1;
	}
	return e->epfd < 0 || e->kick_fd < 0 || e->thread_fd < 0 || e->alarm_fd < 0 ? -EMFILE : 0;
}

bool diw_engine_has_fds(struct diw_engine *e)
{
	return e->epfd < 0 || e->kick_fd < 0 || diw_epoll_has_own(e->epfd, e->kick_fd);
}

void diw_engine_close_fd(struct diw_engine *e, int fd)
{
	if (fd >= 0 && diw_engine_has_fds(e))
		close(fd);
}

/* A child after fork(2) must not use mutexes and semaphores of threads: another thread of the parent may have held
 * them. */
void diw_engine_fini(struct diw_engine *e)
{
	int fds[] = { e->thread_fd, e->alarm_fd, e->kick_fd, e->epfd };
	bool own = diw_engine_has_fds(e);

	for (size_t i = 0; own && i < sizeof fds / sizeof fds[0]; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	sem_destroy(&e->thread_sem);
	if (!diw_engine_alive(e))
		return;
	diw_flush_delist(e);
	pthread_cond_destroy(&e->all_awake);
	pthread_mutex_destroy(&e->lock);
	pthread_mutex_destroy(&e->thread_lock);
}

/* ---- Lock ---- */

/* A thread that spins takes the lock again soon after each release. A thread that the mutex wakes would come too
 * late, so it says that it waits. */
void diw_engine_take(struct diw_engine *e)
{
	if (!e->spins) {
		pthread_mutex_lock(&e->lock);
		return;
	}
	if (diw_engine_trylock(e))
		return;
	atomic_fetch_add(&e->lockers, 1);
	pthread_mutex_lock(&e->lock);
	atomic_fetch_sub(&e->lockers, 1);
}

int diw_engine_lock(struct diw_engine *e)
{
	if (!diw_engine_alive(e))
		return -ENODEV;
	diw_engine_take(e);
	diw_engine_flush(e);                    /* the call may depend on it, or end the queue pair */
	return 0;
}

int diw_engine_lock_wait(struct diw_engine *e, int64_t timeout_ns)
{
	if (timeout_ns)
		pthread_testcancel();
	return diw_engine_lock(e);
}

bool diw_engine_trylock(struct diw_engine *e)
{
	return pthread_mutex_trylock(&e->lock) == 0;
}

/* A thread that gets the lock at the second attempt leaves `pending` set, since other posters may rely on it. */
bool diw_engine_lock_or_leave(struct diw_engine *e)
{
	if (diw_engine_trylock(e))
		return true;
	atomic_store(&e->pending, true);
	return diw_engine_trylock(e);
}

static void engine_run_deferred(struct diw_engine *e)
{
	struct diw_list *l;

	while ((l = diw_list_first(&e->deferred))) {
		struct diw_deferred *d = diw_container(l, struct diw_deferred, link);

		diw_list_del(l);
		d->run(d);
	}
}

static void engine_run_pending(struct diw_engine *e)
{
	uint64_t now = diw_engine_forward(e, diw_engine_now(e));
	struct diw_list *l, *next;

	diw_engine_flush(e);
	diw_list_for_each_safe(l, next, &e->turn) {
		struct diw_member *m = diw_container(l, struct diw_member, link);

		m->ops->posted(m, now);
	}
}

void diw_engine_unlock(struct diw_engine *e)
{
	for (;;) {
		engine_run_deferred(e);
		pthread_mutex_unlock(&e->lock);
		/* Pairs with the poster's store of `pending` before its trylock: at least one of the two sees the
		 * other's store. */
		atomic_thread_fence(memory_order_seq_cst);
		if (!atomic_load(&e->pending) || !diw_engine_trylock(e))
			return;
		atomic_store(&e->pending, false);
		engine_run_pending(e);
	}
}

void diw_engine_nudge(struct diw_engine *e)
{
	atomic_store(&e->pending, true);
	if (diw_engine_trylock(e))
		diw_engine_unlock(e);
}

void diw_engine_defer(struct diw_engine *e, struct diw_deferred *d)
{
	diw_list_del(&d->link);
	diw_list_add_tail(&e->deferred, &d->link);
}
