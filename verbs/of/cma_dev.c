/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices, each opened once for all identifiers of the process and never closed; and the one thread that hears of
 * connections. It sleeps in epoll_wait(2): as a sleeper in diw_cm_get() it would become the one who serves the device.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "verbs/of/cma.h"

#define NO_THREAD_POLL_MS 10         /* where nobody else moves the device (DIWARP_PROGRESS=inline) */
#define BATCH 64

pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;

static struct cma_dev *devs;
static struct diw_list watches = { &watches, &watches };
static int epfd = -1, kick = -1;
static bool inline_progress;

uint64_t cma_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- The thread ---- */

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void serve_devices(void)
{
	struct diw_cm_event ev;

	for (struct cma_dev *d = devs; d; d = d->next)
		while ((inline_progress || readable(diw_cm_fd(d->cm))) && diw_cm_get(d->cm, &ev, 0) == 0)
			cma_conn_event(d, &ev);
}

/* One by one from the beginning: whoever is called may end others. */
static void serve_due(uint64_t now)
{
	struct diw_list *l, *next;
	bool found = true;

	while (found) {
		found = false;
		diw_list_for_each_safe(l, next, &watches) {
			struct cma_watch *w = diw_container(l, struct cma_watch, link);

			if (!w->due || w->due > now)
				continue;
			w->due = 0;
			w->ready(w, now);
			found = true;
			break;
		}
	}
}

static int sleep_ms(void)
{
	uint64_t now = cma_now(), first = UINT64_MAX;
	int ms = inline_progress ? NO_THREAD_POLL_MS : -1;

	for (struct diw_list *l = watches.next; l != &watches; l = l->next) {
		const struct cma_watch *w = diw_container(l, struct cma_watch, link);

		if (w->due && w->due < first)
			first = w->due;
	}
	if (first == UINT64_MAX)
		return ms;
	first = first > now ? (first - now) / 1000000 + 1 : 0;
	return ms >= 0 && (uint64_t)ms < first ? ms : (int)first;
}

/* Whether a watch is still there: an earlier one of the same batch may have ended it. */
static bool lives(const struct cma_watch *w)
{
	for (struct diw_list *l = watches.next; l != &watches; l = l->next)
		if (w && l == &w->link)
			return true;
	return false;
}

static void *serve(void *arg)
{
	struct epoll_event got[BATCH];
	int n, timeout = -1;
	uint64_t kicks;

	(void)arg;
	for (;;) {
		n = epoll_wait(epfd, got, BATCH, timeout);
		cma_enter();
		(void)!read(kick, &kicks, sizeof kicks);
		serve_devices();
		for (int i = 0; i < n; i++)
			if (lives(got[i].data.ptr))
				((struct cma_watch *)got[i].data.ptr)->ready(got[i].data.ptr, cma_now());
		serve_due(cma_now());
		timeout = sleep_ms();
		cma_leave();
	}
	return NULL;
}

static int watch_fd(int fd, void *ptr)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = ptr };

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? errno : 0;
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
	return rc;
}

static int thread_start(void)
{
	int rc;

	if (epfd >= 0)
		return 0;
	epfd = epoll_create1(EPOLL_CLOEXEC);
	kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = epfd < 0 || kick < 0 ? errno : watch_fd(kick, NULL);
	if (rc == 0)
		rc = spawn();
	if (rc == 0)
		return 0;
	if (epfd >= 0)
		close(epfd);
	if (kick >= 0)
		close(kick);
	epfd = kick = -1;
	return rc;
}

int cma_watch_add(struct cma_watch *w)
{
	int rc = thread_start();

	if (rc == 0 && w->fd >= 0)
		rc = watch_fd(w->fd, w);
	if (rc == 0)
		diw_list_add_tail(&watches, &w->link);
	return rc;
}

void cma_watch_del(struct cma_watch *w)
{
	diw_list_del(&w->link);
	if (w->fd >= 0)
		epoll_ctl(epfd, EPOLL_CTL_DEL, w->fd, NULL);
}

/* The thread knows before it sleeps for how long: it is to look again. */
void cma_watch_due(struct cma_watch *w, uint64_t due)
{
	uint64_t one = 1;

	w->due = due;
	(void)!write(kick, &one, sizeof one);
}

/* ---- Devices ---- */

static int open_parts(struct cma_dev *d, struct ibv_device *dev)
{
	struct diw_dev_info info;
	int rc = thread_start();

	if (rc)
		return rc;
	d->verbs = ibv_open_device(dev);
	if (!d->verbs)
		return errno;
	d->diw = diw_of_dev(d->verbs);
	rc = -diw_cm_create(d->diw, &d->cm);
	if (rc == 0)
		rc = watch_fd(diw_cm_fd(d->cm), NULL);
	if (rc == 0 && diw_dev_query(d->diw, &info) == 0) {
		inline_progress |= !info.progress_thread;
		d->ifindex = info.ifindex;
		cma_link_watch(d, info.ifname);
	}
	if (rc && d->cm)
		diw_cm_destroy(d->cm);
	if (rc)
		ibv_close_device(d->verbs);
	return rc;
}

static struct cma_dev *open_dev(struct ibv_device *dev)
{
	struct cma_dev *d, **p;
	int rc;

	for (p = &devs; *p; p = &(*p)->next)
		if (strcmp((*p)->name, dev->name) == 0)
			return *p;
	d = calloc(1, sizeof *d);
	rc = d ? open_parts(d, dev) : ENOMEM;
	if (rc) {
		free(d);
		errno = rc;
		return NULL;
	}
	snprintf(d->name, sizeof d->name, "%s", dev->name);
	d->rnic = dev->transport_type == IBV_TRANSPORT_IWARP;
	*p = d;                                 /* at the end: the order of the list */
	return d;
}

struct cma_dev *cma_dev_of(const char *ifname)
{
	struct ibv_device **list;
	struct cma_dev *d;
	char name[64];
	int n;

	snprintf(name, sizeof name, "diw_%s", ifname);
	for (d = devs; d; d = d->next)
		if (strcmp(d->name, name) == 0)
			return d;
	list = ibv_get_device_list(&n);
	if (!list)
		return NULL;
	errno = ENODEV;
	for (int i = 0; i < n && !d; i++)
		if (strcmp(list[i]->name, name) == 0)
			d = open_dev(list[i]);
	ibv_free_device_list(list);
	return d;
}

/* For what is bound to no address: one that is open already, else that of lo. */
struct cma_dev *cma_dev_any(void)
{
	struct ibv_device **list;
	struct cma_dev *d = devs ? devs : cma_dev_of("lo");
	int n;

	if (d)
		return d;
	list = ibv_get_device_list(&n);
	if (!list)
		return NULL;
	errno = ENODEV;
	if (n > 0)
		d = open_dev(list[0]);
	ibv_free_device_list(list);
	return d;
}

void cma_dev_gone(unsigned ifindex)
{
	for (struct cma_dev *d = devs; d; d = d->next)
		if (d->ifindex == ifindex)
			d->name[0] = '\0';
}

bool cma_dev_rehoused(unsigned ifindex, const void *hw, size_t len)
{
	bool other = false;

	for (struct cma_dev *d = devs; d; d = d->next) {
		if (d->ifindex != ifindex || len < sizeof d->hw || memcmp(d->hw, hw, sizeof d->hw) == 0)
			continue;
		memcpy(d->hw, hw, sizeof d->hw);
		other = true;
	}
	return other;
}

struct ibv_pd *cma_dev_pd(struct cma_dev *d)
{
	if (!d->pd)
		d->pd = ibv_alloc_pd(d->verbs);
	return d->pd;
}

struct ibv_context **rdma_get_devices(int *num)
{
	struct ibv_context **verbs = NULL;
	struct ibv_device **list;
	int n = 0, found = 0;

	if (num)
		*num = 0;
	cma_enter();
	list = ibv_get_device_list(&n);
	if (list)
		verbs = calloc((size_t)n + 1, sizeof(struct ibv_context *));
	for (int i = 0; verbs && i < n; i++) {
		struct cma_dev *d = open_dev(list[i]);

		if (d)
			verbs[found++] = d->verbs;
	}
	if (list)
		ibv_free_device_list(list);
	cma_leave();
	if (num)
		*num = found;
	return verbs;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
