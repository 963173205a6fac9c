/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices, and the one thread that fetches connection events. A device is opened once for all identifiers of the
 * process; its context is never closed, because programs keep it. The thread sleeps in epoll_wait(2): as a sleeper in
 * diw_cm_get() it would serve the device. It ends with the last identifier, and so what keeps the devices' threads do.
 */
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "verbs/host/fork.h"
#include "verbs/of/cma.h"

#define NO_THREAD_POLL_MS 10         /* where nobody else moves the device (DIWARP_PROGRESS=inline) */
#define BATCH 64
#define FIRST_LOOK_MS 10
#define LAST_LOOK_MS 10000

pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;

static struct cma_dev *devs;
static struct diw_list watches = { &watches, &watches };
struct cma_thread {
	pthread_t thread;
	int epfd, kick;
	bool stop;
	int look_ms;                 /* no identifier is left, but objects of the program: the next look, or 0 */
};
static struct cma_thread *running;   /* NULL: there is none */
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
		while (d->cm && (inline_progress || readable(diw_cm_fd(d->cm))) && diw_cm_get(d->cm, &ev, 0) == 0)
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

/* ---- Its end ---- */

/* Without identifiers. False: the program has queue pairs, whose connections keep the channel, or something else in the
 * protection domain. */
static bool release(struct cma_dev *d)
{
	if (d->cm && !diw_of_has_rc(d->verbs)) {
		epoll_ctl(running->epfd, EPOLL_CTL_DEL, diw_cm_fd(d->cm), NULL);
		if (diw_cm_destroy(d->cm) == 0)
			d->cm = NULL;
	}
	if (d->pd && ibv_dealloc_pd(d->pd) == 0)
		d->pd = NULL;
	return !d->cm && !d->pd;
}

static bool release_all(void)
{
	bool all = true;

	for (struct cma_dev *d = devs; d; d = d->next)
		all &= release(d);
	if (all)
		cma_link_unwatch();
	return all;
}

static void rouse_server(const struct cma_thread *t)
{
	const uint64_t one = 1;

	(void)!write(t->kick, &one, sizeof one);
}

static void free_thread(struct cma_thread *t)
{
	if (t->epfd >= 0)
		close(t->epfd);
	if (t->kick >= 0)
		close(t->kick);
	free(t);
}

struct cma_thread *cma_thread_unused(void)
{
	struct cma_thread *t = running;

	if (!t || !diw_list_empty(&cma_ids))
		return NULL;
	if (!release_all()) {
		t->look_ms = FIRST_LOOK_MS;
		rouse_server(t);
		return NULL;
	}
	running = NULL;
	t->stop = true;
	rouse_server(t);
	return t;
}

void cma_thread_end(struct cma_thread *t)
{
	if (!t)
		return;
	pthread_join(t->thread, NULL);
	free_thread(t);
}

/* Whether it has ended itself. It looks at ever longer intervals; the next identifier's end is another occasion. */
static bool end_late(struct cma_thread *t)
{
	if (!t->look_ms)
		return false;
	if (!diw_list_empty(&cma_ids)) {
		t->look_ms = 0;
		return false;
	}
	if (!release_all()) {
		t->look_ms = t->look_ms < LAST_LOOK_MS ? 2 * t->look_ms : 0;
		return false;
	}
	running = NULL;
	pthread_detach(t->thread);
	return true;
}

/* ---- What it does ---- */

static void serve_watches(const struct epoll_event *got, int n)
{
	for (int i = 0; i < n; i++)
		if (lives(got[i].data.ptr))
			((struct cma_watch *)got[i].data.ptr)->ready(got[i].data.ptr, cma_now());
	serve_due(cma_now());
}

static void *serve(void *arg)
{
	struct cma_thread *t = arg;
	struct epoll_event got[BATCH];
	int n, timeout = -1;
	uint64_t kicks;

	for (;;) {
		n = epoll_wait(t->epfd, got, BATCH, timeout);
		cma_enter();
		if (t->stop)
			break;
		(void)!read(t->kick, &kicks, sizeof kicks);
		serve_devices();
		serve_watches(got, n);
		if (end_late(t)) {
			cma_leave();
			free_thread(t);
			return NULL;
		}
		timeout = t->look_ms ? t->look_ms : sleep_ms();
		cma_leave();
	}
	cma_leave();
	return NULL;
}

static int watch_fd(int fd, void *ptr)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = ptr };

	return epoll_ctl(running->epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? errno : 0;
}

static int spawn(struct cma_thread *t)
{
	struct epoll_event ev = { .events = EPOLLIN };
	sigset_t all, before;
	int rc;

	if (t->epfd < 0 || t->kick < 0 || epoll_ctl(t->epfd, EPOLL_CTL_ADD, t->kick, &ev) < 0)
		return errno;
	sigfillset(&all);                       /* signals are the application's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&t->thread, NULL, serve, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static int thread_start(void)
{
	struct cma_thread *t;
	int rc;

	if (running)
		return 0;
	t = calloc(1, sizeof *t);
	if (!t)
		return ENOMEM;
	t->epfd = epoll_create1(EPOLL_CLOEXEC);
	t->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = spawn(t);
	if (rc == 0)
		running = t;
	else
		free_thread(t);
	return rc;
}

/* ---- Fork ---- */

/* The thread and the devices are the parent's, and so is the epoll set behind the descriptor: identifiers that were
 * inherited fail, and are in no list, so that their end changes nothing there. */
static void in_child(void)
{
	struct cma_thread *t = running;

	running = NULL;
	devs = NULL;
	while (!diw_list_empty(&watches))
		diw_list_del(watches.next);
	while (!diw_list_empty(&cma_ids)) {
		diw_container(cma_ids.next, struct cma_id, link)->inherited = true;
		diw_list_del(cma_ids.next);
	}
	cma_link_unwatch();
	if (t)
		free_thread(t);
}

__attribute__((constructor)) static void guard_forks(void)
{
	static struct diw_fork_guard guard = { .locks = { &cma_lock }, .in_child = in_child };

	diw_fork_guard_add(&guard);
}

/* ---- Watches ---- */

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
	if (w->fd >= 0 && running)
		epoll_ctl(running->epfd, EPOLL_CTL_DEL, w->fd, NULL);
}

/* The thread knows before it sleeps for how long: it is to look again. */
void cma_watch_due(struct cma_watch *w, uint64_t due)
{
	w->due = due;
	if (running)
		rouse_server(running);
}

/* ---- Devices ---- */

/* While nobody listens to netlink an interface may go, and another have its name. */
static bool is_named(struct cma_dev *d, const char *name)
{
	if (strcmp(d->name, name) != 0)
		return false;
	if (!d->cm && if_nametoindex(name + strlen("diw_")) != d->ifindex)
		d->name[0] = '\0';
	return d->name[0];
}

static struct cma_dev *open_dev(struct ibv_device *dev)
{
	struct diw_dev_info info;
	struct cma_dev *d, **p;

	for (p = &devs; *p; p = &(*p)->next)
		if (is_named(*p, dev->name))
			return *p;
	d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->verbs = ibv_open_device(dev);
	if (!d->verbs) {
		free(d);
		return NULL;
	}
	d->diw = diw_of_dev(d->verbs);
	if (diw_dev_query(d->diw, &info) == 0) {
		inline_progress |= !info.progress_thread;
		d->ifindex = info.ifindex;
	}
	snprintf(d->name, sizeof d->name, "%s", dev->name);
	d->rnic = dev->transport_type == IBV_TRANSPORT_IWARP;
	*p = d;                                 /* at the end: the order of the list */
	return d;
}

/* For an identifier. NULL with errno. */
static struct cma_dev *started(struct cma_dev *d)
{
	struct diw_dev_info info;

	if (!d || d->cm)
		return d;
	errno = thread_start();
	if (errno == 0)
		errno = -diw_cm_create(d->diw, &d->cm);
	if (errno)
		return NULL;
	errno = watch_fd(diw_cm_fd(d->cm), NULL);
	if (errno) {
		diw_cm_destroy(d->cm);
		d->cm = NULL;
		return NULL;
	}
	if (diw_dev_query(d->diw, &info) == 0)
		cma_link_watch(d, info.ifname);
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
		if (is_named(d, name))
			return started(d);
	list = ibv_get_device_list(&n);
	if (!list)
		return NULL;
	errno = ENODEV;
	for (int i = 0; i < n && !d; i++)
		if (strcmp(list[i]->name, name) == 0)
			d = open_dev(list[i]);
	ibv_free_device_list(list);
	return started(d);
}

/* For what is bound to no address: one that is open already, else that of lo. */
struct cma_dev *cma_dev_any(void)
{
	struct ibv_device **list;
	struct cma_dev *d = devs ? devs : cma_dev_of("lo");
	int n;

	if (d)
		return started(d);
	list = ibv_get_device_list(&n);
	if (!list)
		return NULL;
	errno = ENODEV;
	if (n > 0)
		d = open_dev(list[0]);
	ibv_free_device_list(list);
	return started(d);
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
