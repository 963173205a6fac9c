/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices, and the one thread that fetches connection events. A device is opened once for all identifiers of the
 * process; its context is never closed, because programs keep it. The thread ends with the last identifier, and so does
 * what keeps the threads of the devices.
 */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>

#include "verbs/host/fork.h"
#include "verbs/cma/cma.h"

#define FIRST_LOOK_NS (10 * DIW_MS)
#define LAST_LOOK_NS (10 * DIW_S)

pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;

struct diw_loop cma_loop = DIW_LOOP_INIT(cma_loop, &cma_lock);

static struct cma_dev *devs;

/* ---- The end of the thread ---- */

/* Without identifiers. False: the program has queue pairs, whose connections keep the channel, or something else in the
 * protection domain. */
static bool release(struct cma_dev *d)
{
	if (!diw_of_has_rc(d->verbs))
		diw_loop_cm_close(&cma_loop, &d->conns);
	if (d->pd && ibv_dealloc_pd(d->pd) == 0)
		d->pd = NULL;
	return !d->conns.cm && !d->pd;
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

static uint64_t look_ns;

/* No identifier was left, but objects of the program. The looks come at ever longer intervals; the end of the next
 * identifier is another occasion. */
static void look_again(struct diw_watch *w, uint64_t now)
{
	if (!diw_list_empty(&cma_ids))
		return;
	if (release_all())
		diw_loop_stop(&cma_loop);
	else if (look_ns < LAST_LOOK_NS)
		diw_loop_call(&cma_loop, w, now + (look_ns *= 2));
}

struct diw_loop_thread *cma_thread_unused(void)
{
	static struct diw_watch look = DIW_WATCH_INIT(look, -1, look_again);

	if (!cma_loop.thread || !diw_list_empty(&cma_ids))
		return NULL;
	if (release_all())
		return diw_loop_stop(&cma_loop);
	look_ns = FIRST_LOOK_NS;
	if (!diw_list_empty(&look.link) || diw_loop_add(&cma_loop, &look) == 0)
		diw_loop_call(&cma_loop, &look, diw_clock_ns() + look_ns);
	return NULL;
}

/* ---- Fork ---- */

/* The thread and the devices are the parent's, and so is the epoll set behind the descriptor: identifiers that were
 * inherited fail, and are in no list, so that their end changes nothing there. */
static void cma_in_child(void)
{
	devs = NULL;
	diw_loop_stop(&cma_loop);
	while (!diw_list_empty(&cma_ids)) {
		diw_container(cma_ids.next, struct cma_id, link)->inherited = true;
		diw_list_del(cma_ids.next);
	}
	cma_link_unwatch();
}

__attribute__((constructor)) static void cma_guard_forks(void)
{
	static struct diw_fork_guard guard = { .locks = { &cma_lock, &cma_loop.rouse_lock }, .in_child = cma_in_child };

	diw_fork_guard_add(&guard);
}

/* ---- Devices ---- */

/* While no thread listens to netlink an interface may go, and another have its name. */
static bool is_named(struct cma_dev *d, const char *name)
{
	if (strcmp(d->name, name) != 0)
		return false;
	if (!d->conns.cm && if_nametoindex(name + strlen("diw_")) != d->ifindex)
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

	if (!d || d->conns.cm)
		return d;
	d->conns.event = cma_conn_event;
	errno = -diw_loop_cm_open(&cma_loop, &d->conns, d->diw);
	if (errno)
		return NULL;
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
