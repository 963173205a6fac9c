/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread of a loop, its watches, and the channels that it watches. */
#include "verbs/host/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/eventfd.h"
#include "base/sys.h"
#include "verbs/host/fork.h"

#define POLL_NS (10 * DIW_MS)                /* poll interval for a device whose step no other thread runs */
#define LOOP_BATCH 64
#define CLOSED_US 10000                      /* the thread's pause when the program has closed its epoll set */

#define LEAVES_US 50                         /* between two looks whether a thread has left its loop */

struct diw_loop_thread {
	struct diw_loop *loop;
	struct diw_loop_thread *older;       /* it was abandoned, and may be in the same loop still */
	pthread_t thread;
	int epfd, kick;
	unsigned generation;                 /* fork generation of the process that started it */
	bool detached;                       /* one of its watches stopped it, or it cannot be woken, so no thread joins
					      * it */
	atomic_bool stop;                    /* set with the lock */
	atomic_bool inside;                  /* it uses `loop`: set before it looks at `stop` */
	atomic_uint owners;                  /* the thread itself, and its loop */
};

/* ---- The thread ---- */

/* Whether W is still a watch: an earlier one of the same batch may have ended it. */
static bool watch_lives(const struct diw_loop *l, const struct diw_watch *w)
{
	for (const struct diw_list *p = l->watches.next; p != &l->watches; p = p->next)
		if (w && p == &w->link)
			return true;
	return false;
}

/* Restarts at the first watch after each call, since a watch may end others. */
static void loop_serve_due(struct diw_loop *l, uint64_t now)
{
	struct diw_list *p = l->watches.next;

	while (p != &l->watches) {
		struct diw_watch *w = diw_container(p, struct diw_watch, link);
		uint64_t due = atomic_load(&w->due);

		p = p->next;
		if (!due || due > now)
			continue;
		atomic_store(&w->due, 0);
		w->ready(w, now);
		p = l->watches.next;
	}
}

static int loop_sleep_ms(const struct diw_loop *l)
{
	uint64_t now = diw_clock_ns(), first = DIW_NEVER;

	for (const struct diw_list *p = l->watches.next; p != &l->watches; p = p->next) {
		uint64_t due = atomic_load(&diw_container(p, struct diw_watch, link)->due);

		first = due ? diw_min64(first, due) : first;
	}
	return first == DIW_NEVER ? -1 : first > now ? (int)((first - now) / DIW_MS) + 1 : 0;
}

static void loop_serve(struct diw_loop_thread *t, const struct epoll_event *got, int n)
{
	struct diw_loop *l = t->loop;

	diw_eventfd_clear(t->kick);
	for (int i = 0; i < n; i++)
		if (watch_lives(l, got[i].data.ptr))
			((struct diw_watch *)got[i].data.ptr)->ready(got[i].data.ptr, diw_clock_ns());
	loop_serve_due(l, diw_clock_ns());
}

static bool loop_has_fds(const struct diw_loop_thread *t)
{
	return diw_epoll_has_own(t->epfd, t->kick);
}

static void loop_thread_release(struct diw_loop_thread *t)
{
	bool own;

	if (atomic_fetch_sub(&t->owners, 1) != 1)
		return;
	own = t->epfd < 0 || t->kick < 0 || loop_has_fds(t);
	if (own && t->epfd >= 0)
		close(t->epfd);
	if (own && t->kick >= 0)
		close(t->kick);
	free(t);
}

static void *loop_main(void *arg)
{
	struct diw_loop_thread *t = arg;
	struct epoll_event got[LOOP_BATCH];
	int n, ms = -1;
	bool stop = false;

	while (!stop) {
		n = epoll_wait(t->epfd, got, LOOP_BATCH, ms);
		if (n < 0 && errno != EINTR)            /* the program has closed the set */
			usleep(CLOSED_US);
		atomic_store(&t->inside, true);
		if (atomic_load(&t->stop))              /* there may be no loop any more */
			break;
		pthread_mutex_lock(t->loop->lock);
		if (!atomic_load(&t->stop))
			loop_serve(t, got, n);
		stop = atomic_load(&t->stop);
		ms = loop_sleep_ms(t->loop);
		pthread_mutex_unlock(t->loop->lock);
		atomic_store(&t->inside, false);
	}
	atomic_store(&t->inside, false);
	loop_thread_release(t);
	return NULL;
}

static int loop_spawn(struct diw_loop_thread *t)
{
	struct epoll_event ev = { .events = EPOLLIN };
	sigset_t all, before;
	int rc;

	if (t->epfd < 0 || t->kick < 0 || epoll_ctl(t->epfd, EPOLL_CTL_ADD, t->kick, &ev) < 0)
		return -errno;
	sigfillset(&all);                       /* signals are for the application's threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&t->thread, NULL, loop_main, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

static void loop_thread_set(struct diw_loop *l, struct diw_loop_thread *t)
{
	pthread_mutex_lock(&l->rouse_lock);
	l->thread = t;
	pthread_mutex_unlock(&l->rouse_lock);
}

/* The program has closed the thread's descriptors, and those of the watches. The thread ends if it wakes again; a new
 * one does its work. Returns it. */
static struct diw_loop_thread *loop_abandon(struct diw_loop *l)
{
	struct diw_loop_thread *t = l->thread;
	struct diw_list *p, *next;

	atomic_store(&t->stop, true);
	t->detached = true;
	pthread_detach(t->thread);
	loop_thread_set(l, NULL);
	diw_list_for_each_safe(p, next, &l->watches) {
		struct diw_watch *w = diw_container(p, struct diw_watch, link);

		if (w->fd >= 0)
			diw_list_del(p);
		w->fd = -1;
	}
	return t;
}

static int loop_start(struct diw_loop *l)
{
	struct diw_loop_thread *t;
	int rc;

	if (l->thread && loop_has_fds(l->thread))
		return 0;
	t = calloc(1, sizeof *t);
	if (!t)
		return -ENOMEM;
	t->older = l->thread ? loop_abandon(l) : NULL;
	t->loop = l;
	t->generation = diw_fork_generation();
	t->epfd = diw_above_std(epoll_create1(EPOLL_CLOEXEC));
	t->kick = diw_above_std(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	atomic_init(&t->owners, 2);
	rc = loop_spawn(t);
	if (rc == 0) {
		loop_thread_set(l, t);
	} else {
		atomic_store(&t->owners, 1);    /* an older thread keeps its own memory */
		loop_thread_release(t);
	}
	return rc;
}

/* False: the program has closed the descriptor, so the thread may sleep for ever. */
static bool loop_rouse(struct diw_loop *l)
{
	bool heard = true;

	pthread_mutex_lock(&l->rouse_lock);
	if (l->thread)
		heard = diw_eventfd_set(l->thread->kick);
	pthread_mutex_unlock(&l->rouse_lock);
	return heard;
}

struct diw_loop_thread *diw_loop_stop(struct diw_loop *l)
{
	struct diw_loop_thread *t = l->thread;
	bool heard = true, mine;

	while (!diw_list_empty(&l->watches))
		diw_list_del(l->watches.next);
	mine = t && t->generation == diw_fork_generation();
	if (mine) {
		atomic_store(&t->stop, true);
		heard = loop_has_fds(t) && loop_rouse(l);
	}
	loop_thread_set(l, NULL);
	if (!t)
		return NULL;
	if (!mine) {                            /* the parent has the thread */
		atomic_store(&t->owners, 1);
		loop_thread_release(t);
		return NULL;
	}
	t->detached = !heard || pthread_equal(t->thread, pthread_self());
	if (t->detached)
		pthread_detach(t->thread);
	if (!pthread_equal(t->thread, pthread_self()))
		return t;
	for (struct diw_loop_thread *older; t; t = older) {
		older = t->older;
		loop_thread_release(t);
	}
	return NULL;
}

/* A thread that cannot be woken sleeps on. If it has just woken, it leaves the loop before the loop may be freed. */
static void loop_thread_leave(struct diw_loop_thread *t)
{
	if (!t->detached)
		pthread_join(t->thread, NULL);
	while (atomic_load(&t->inside))
		usleep(LEAVES_US);
	loop_thread_release(t);
}

void diw_loop_join(struct diw_loop_thread *t)
{
	while (t) {
		struct diw_loop_thread *older = t->older;

		loop_thread_leave(t);
		t = older;
	}
}

/* ---- Watches ---- */

int diw_loop_add(struct diw_loop *l, struct diw_watch *w)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = w };
	int rc = loop_start(l);

	if (rc == 0 && w->fd >= 0 && epoll_ctl(l->thread->epfd, EPOLL_CTL_ADD, w->fd, &ev) < 0)
		rc = -errno;
	if (rc == 0)
		diw_list_add_tail(&l->watches, &w->link);
	return rc;
}

/* A child of fork(2) shares the parent's epoll set, and must not change it. */
void diw_loop_del(struct diw_loop *l, struct diw_watch *w)
{
	diw_list_del(&w->link);
	if (w->fd >= 0 && l->thread && l->thread->generation == diw_fork_generation() && loop_has_fds(l->thread))
		epoll_ctl(l->thread->epfd, EPOLL_CTL_DEL, w->fd, NULL);
}

/* The thread may have computed its timeout already, so it is woken to compute it again. */
void diw_loop_call(struct diw_loop *l, struct diw_watch *w, uint64_t due)
{
	atomic_store(&w->due, due);
	loop_rouse(l);
}

/* ---- Connection channels ---- */

static void loop_cm_ready(struct diw_watch *w, uint64_t now)
{
	struct diw_loop_cm *c = diw_container(w, struct diw_loop_cm, watch);
	struct diw_cm_event ev;

	while (c->cm && diw_cm_get(c->cm, &ev, 0) == 0)
		c->event(c, &ev);
	if (c->polled)
		atomic_store(&w->due, now + POLL_NS);
}

int diw_loop_cm_open(struct diw_loop *l, struct diw_loop_cm *c, struct diw_dev *dev)
{
	struct diw_dev_info info;
	int rc = diw_cm_create(dev, &c->cm);

	if (rc < 0)
		return rc;
	c->polled = diw_dev_query(dev, &info) == 0 && !info.progress_thread;
	c->watch = (struct diw_watch)DIW_WATCH_INIT(c->watch, diw_cm_fd(c->cm), loop_cm_ready);
	rc = diw_loop_add(l, &c->watch);
	if (rc < 0)
		diw_loop_cm_close(l, c);
	else if (c->polled)
		diw_loop_call(l, &c->watch, 1);
	return rc;
}

int diw_loop_cm_close(struct diw_loop *l, struct diw_loop_cm *c)
{
	int rc;

	if (!c->cm)
		return 0;
	diw_loop_del(l, &c->watch);
	rc = diw_cm_destroy(c->cm);
	if (rc == 0)
		c->cm = NULL;
	else
		diw_loop_add(l, &c->watch);
	return rc;
}
