/* SPDX-License-Identifier: BSD-2-Clause */
/* Automatic progress (FI_PROGRESS_AUTO): a thread of the domain, which does the endpoints' work while the application
 * does not look for completions. The link has a thread of its own (verbs/engine/thread.c). */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "base/sys.h"
#include "mpi_glue/glue.h"

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

static void progress_nap(const struct glue_domain *d)
{
	struct pollfd p = { .fd = d->wake, .events = POLLIN };

	poll(&p, 1, PROGRESS_IDLE_MS);
}

static void *progress_main(void *arg)
{
	struct glue_domain *d = arg;
	struct epoll_event ev;
	uint64_t seen = 0;

	pthread_setname_np(pthread_self(), "diw-fi-progress");
	while (!__atomic_load_n(&d->stop, __ATOMIC_ACQUIRE)) {
		uint64_t looked = __atomic_load_n(&d->looked, __ATOMIC_RELAXED);

		if (looked == seen && progress_round(d))
			epoll_wait(d->epoll, &ev, 1, -1);
		else
			progress_nap(d);
		seen = looked;
	}
	return NULL;
}

int diw_glue_progress_watch(struct glue_domain *d, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Signals are the application's. */
int diw_glue_thread_create(pthread_t *thread, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

int diw_glue_progress_begin(struct glue_domain *d)
{
	int rc;

	d->epoll = diw_above_std(epoll_create1(EPOLL_CLOEXEC));
	d->wake = diw_above_std(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = d->epoll < 0 || d->wake < 0 ? -errno : diw_glue_progress_watch(d, d->wake);
	if (rc == 0)
		rc = diw_glue_thread_create(&d->thread, progress_main, d);
	d->runs = rc == 0;
	return rc;
}

void diw_glue_progress_end(struct glue_domain *d)
{
	__atomic_store_n(&d->stop, true, __ATOMIC_RELEASE);
	if (d->runs && !d->forked && diw_eventfd_set(d->wake))
		pthread_join(d->thread, NULL);
	if (d->wake >= 0)
		close(d->wake);
	if (d->epoll >= 0)
		close(d->epoll);
}
