/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic progress (FI_PROGRESS_AUTO): a thread of the domain, which does the endpoints' work while the application
 * does not look for completions. The link has a thread of its own (verbs/engine/thread.c). Also sleep and end of all
 * threads of a domain. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "base/nocancel.h"
#include "base/sys.h"
#include "mpi_glue/glue.h"

#define CLOSED_MS 10                     /* between looks of a thread whose descriptors the program has closed */
#define PROGRESS_IDLE_MS 2               /* an application that has not looked for so long leaves the work */

/* Does the work of all endpoints and arms their channels; false: no operation is free, so the work has to wait. */
static bool progress_round(struct glue_domain *d)
{
	bool did = true;

	glue_lock(d);
	for (struct diw_list *n = d->eps.next; n != &d->eps; n = n->next) {
		struct glue_ep *ep = diw_container(n, struct glue_ep, link);

		if (ep->enabled)
			did &= diw_glue_port_poll(ep) && diw_glue_port_arm(ep);
	}
	glue_unlock(d);
	return did;
}

static void *progress_main(void *arg)
{
	struct glue_domain *d = arg;
	uint64_t seen = 0;

	diw_glue_thread_began("diw-fi-progress");
	while (!diw_glue_thread_stops(d)) {
		uint64_t looked = __atomic_load_n(&d->looked, __ATOMIC_RELAXED);

		if (looked == seen && progress_round(d))
			diw_glue_thread_sleep(d, d->epoll, -1);
		else
			diw_glue_thread_sleep(d, -1, PROGRESS_IDLE_MS);
		seen = looked;
	}
	return NULL;
}

int diw_glue_progress_watch(struct glue_domain *d, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int diw_glue_progress_begin(struct glue_domain *d)
{
	int rc = diw_glue_thread_create(&d->thread, progress_main, d);

	d->runs = rc == 0;
	return rc;
}

void diw_glue_progress_end(struct glue_domain *d)
{
	if (d->runs)
		diw_glue_thread_end(d, d->thread);
}

/* ---- Threads ---- */

int diw_glue_threads_open(struct glue_domain *d)
{
	int rc;

	d->epoll = diw_above_std(epoll_create1(EPOLL_CLOEXEC));
	d->wake = d->epoll < 0 ? -1 : diw_above_std(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (d->wake >= 0 && diw_epoll_add_own(d->epoll, d->wake) == 0)
		return 0;
	rc = -errno;
	if (d->wake >= 0)
		close(d->wake);
	if (d->epoll >= 0)
		close(d->epoll);
	d->epoll = d->wake = -1;
	return rc;
}

static bool threads_have_fds(const struct glue_domain *d)
{
	return diw_epoll_has_own(d->epoll, d->wake);
}

void diw_glue_threads_close(struct glue_domain *d)
{
	if (d->epoll < 0 || !threads_have_fds(d))
		return;
	close(d->wake);
	close(d->epoll);
}

/* Signals are the application's. */
int diw_glue_thread_create(pthread_t *thread, void *(*run)(void *), struct glue_domain *d)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

void diw_glue_thread_began(const char *name)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_setname_np(pthread_self(), name);
}

bool diw_glue_thread_stops(const struct glue_domain *d)
{
	return __atomic_load_n(&d->stop, __ATOMIC_ACQUIRE);
}

/* A program that has closed the descriptors may have others with these numbers, which are always ready or none. */
void diw_glue_thread_sleep(struct glue_domain *d, int fd, int ms)
{
	struct pollfd p[2] = { { d->wake, POLLIN, 0 }, { fd, POLLIN, 0 } };
	int off;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &off);
	if (diw_wait_poll(p, 2, ms) != 0 && !diw_glue_thread_stops(d) && !threads_have_fds(d))
		diw_wait_poll(NULL, 0, CLOSED_MS);
	pthread_setcancelstate(off, NULL);
}

/* In a child of fork(2), the threads are the parent's. */
void diw_glue_thread_end(struct glue_domain *d, pthread_t thread)
{
	if (d->forked)
		return;
	__atomic_store_n(&d->stop, true, __ATOMIC_RELEASE);
	if (!threads_have_fds(d) || !diw_eventfd_set(d->wake))
		pthread_cancel(thread);
	pthread_join(thread, NULL);
}
