/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, each opened once for all sockets of the process, and the one thread that hears of connections. The thread
 * closes the devices and ends when no socket is left, one that lingers included. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs/rs/int.h"

#define NO_THREAD_POLL_MS 10                 /* where nobody else moves the device (DIWARP_PROGRESS=inline) */

pthread_mutex_t rs_big = PTHREAD_MUTEX_INITIALIZER;

static struct rs_dev *devs;
static int epfd = -1;                        /* the thread's, -1: there is none */
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;  /* of what follows; the last one */
static unsigned sockets;                     /* that there are */
static int kick = -1;                        /* eventfd: none is left */
static atomic_bool inline_progress;

/* ---- The thread ---- */

static void serve_devices(void)
{
	struct diw_cm_event ev;

	for (struct rs_dev *d = devs; d; d = d->next)
		while (diw_cm_get(d->cm, &ev, 0) == 0)
			rs_cm_event(d, &ev);
}

static void close_parts(struct rs_dev *d);

static bool are_unused(void)
{
	uint64_t n;
	bool unused;

	pthread_mutex_lock(&count_lock);
	unused = sockets == 0;
	if (unused) {
		close(kick);
		kick = -1;
	} else {
		(void)!read(kick, &n, sizeof n);
	}
	pthread_mutex_unlock(&count_lock);
	return unused;
}

/* A socket that comes now finds no device, and no thread. */
static void close_all(void)
{
	struct rs_dev *d;

	while ((d = devs)) {
		devs = d->next;
		close_parts(d);
	}
	close(epfd);
	epfd = -1;
}

static void *serve(void *arg)
{
	struct epoll_event got[16];
	int fd = epfd;
	bool over = false;

	(void)arg;
	while (!over) {
		epoll_wait(fd, got, 16, atomic_load(&inline_progress) ? NO_THREAD_POLL_MS : -1);
		pthread_mutex_lock(&rs_big);
		serve_devices();
		over = are_unused();
		if (over)
			close_all();
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

static int open_kick(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	pthread_mutex_lock(&count_lock);
	kick = fd;
	pthread_mutex_unlock(&count_lock);
	return fd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static void drop_descriptors(void)
{
	if (epfd >= 0)
		close(epfd);
	epfd = -1;
	pthread_mutex_lock(&count_lock);
	if (kick >= 0)
		close(kick);
	kick = -1;
	pthread_mutex_unlock(&count_lock);
}

static int thread_start(void)
{
	int rc;

	if (epfd >= 0)
		return 0;
	epfd = epoll_create1(EPOLL_CLOEXEC);
	rc = epfd < 0 ? -errno : open_kick();
	if (rc == 0)
		rc = spawn();
	if (rc < 0)
		drop_descriptors();
	return rc;
}

void rs_dev_forget(void)
{
	pthread_mutex_init(&count_lock, NULL);
	drop_descriptors();
	sockets = 0;
	devs = NULL;
}

void rs_dev_count(int more)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&count_lock);
	sockets += (unsigned)more;
	if (sockets == 0 && kick >= 0)
		(void)!write(kick, &one, sizeof one);
	pthread_mutex_unlock(&count_lock);
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
	char name[sizeof devs->name] = "diw_";
	int rc;

	if (diw_route_is_any(local)) {
		if (!devs)
			return dev_named("diw_lo", dev);
		*dev = devs;
		return 0;
	}
	rc = diw_route_iface(local, name + 4);
	return rc < 0 ? rc : dev_named(name, dev);
}
