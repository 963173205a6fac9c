/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, each opened once for all sockets of the process and never closed; and the one thread that hears of
 * connections. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs/rs/int.h"

#define NO_THREAD_POLL_MS 10                 /* where nobody else moves the device (DIWARP_PROGRESS=inline) */

pthread_mutex_t rs_big = PTHREAD_MUTEX_INITIALIZER;

static struct rs_dev *devs;
static int epfd = -1;
static atomic_bool inline_progress;

/* ---- The thread ---- */

static void serve_devices(void)
{
	struct diw_cm_event ev;

	for (struct rs_dev *d = devs; d; d = d->next)
		while (diw_cm_get(d->cm, &ev, 0) == 0)
			rs_cm_event(d, &ev);
}

static void *serve(void *arg)
{
	struct epoll_event got[16];
	int fd = epfd;

	(void)arg;
	for (;;) {
		epoll_wait(fd, got, 16, atomic_load(&inline_progress) ? NO_THREAD_POLL_MS : -1);
		pthread_mutex_lock(&rs_big);
		serve_devices();
		pthread_mutex_unlock(&rs_big);
	}
	return NULL;
}

static int spawn(void)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	sigfillset(&all);                       /* signals are the application's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, serve, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		pthread_detach(thread);
	return -rc;
}

static int thread_start(void)
{
	int rc;

	if (epfd >= 0)
		return 0;
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (epfd < 0)
		return -errno;
	rc = spawn();
	if (rc == 0)
		return 0;
	close(epfd);
	epfd = -1;
	return rc;
}

void rs_dev_forget(void)
{
	if (epfd >= 0)
		close(epfd);
	epfd = -1;
	devs = NULL;
}

/* ---- Devices ---- */

/* The smallest address that a process may have is a page's; x86-64's and arm64's largest end here. */
static int reg_all(struct rs_dev *d)
{
	const size_t page = 4096;

	return diw_mr_reg(d->pd, (void *)page, ((size_t)1 << 47) - 2 * page, DIW_ACCESS_LOCAL_READ, &d->all);
}

static int open_parts(struct rs_dev *d)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct diw_dev_info info;
	int rc = diw_dev_open(d->name, NULL, &d->diw);

	if (rc < 0)
		return rc;
	rc = diw_dev_query(d->diw, &info);
	if (rc == 0)
		rc = diw_cm_create(d->diw, &d->cm);
	if (rc == 0)
		rc = diw_pd_alloc(d->diw, &d->pd);
	if (rc == 0)
		rc = reg_all(d);
	d->thread = rc == 0 && info.progress_thread;
	if (rc == 0 && !d->thread)
		atomic_store(&inline_progress, true);
	if (rc == 0)
		rc = thread_start();            /* which is to know how to sleep */
	if (rc == 0 && epoll_ctl(epfd, EPOLL_CTL_ADD, diw_cm_fd(d->cm), &ev) < 0)
		rc = -errno;
	return rc;
}

static void close_parts(struct rs_dev *d)
{
	if (d->all)
		diw_mr_dereg(d->all);
	if (d->pd)
		diw_pd_free(d->pd);
	if (d->cm)
		diw_cm_destroy(d->cm);
	if (d->diw)
		diw_dev_close(d->diw);
	free(d);
}

static int dev_named(const char *name, struct rs_dev **out)
{
	struct rs_dev *d, **p;
	int rc;

	for (p = &devs; *p; p = &(*p)->next)
		if (strcmp((*p)->name, name) == 0) {
			*out = *p;
			return 0;
		}
	d = calloc(1, sizeof *d);
	if (!d)
		return -ENOMEM;
	strncat(d->name, name, sizeof d->name - 1);
	rc = open_parts(d);
	if (rc < 0) {
		close_parts(d);
		return rc;
	}
	*p = *out = d;
	return 0;
}

int rs_dev_of(const struct diw_addr *local, struct rs_dev **dev)
{
	char name[24] = "diw_";
	int rc;

	if (rs_addr_any(local)) {
		if (!devs)
			return dev_named("diw_lo", dev);
		*dev = devs;
		return 0;
	}
	rc = rs_addr_iface(local, name + 4, sizeof name - 4);
	return rc < 0 ? rc : dev_named(name, dev);
}
