/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices, and the thread that fetches connection events. A device is opened once for all identifiers of the process.
 * Its context is never closed, since programs keep it. The thread ends with the last identifier, and so do the
 * connection channels, which keep the devices' threads running.
 */
#include <stdlib.h>

#include "verbs/host/fork.h"
#include "verbs/cma/cma.h"

#define FIRST_LOOK_NS (10 * DIW_MS)
#define LAST_LOOK_NS (10 * DIW_S)

pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;

struct diw_loop cma_loop = DIW_LOOP_INIT(cma_loop, &cma_lock);

/* ---- Devices ---- */

static struct cma_dev *cma_dev(struct diw_host_dev *d)
{
	return diw_container(d, struct cma_dev, host);
}

static struct ibv_context *open_context(const char *name)
{
	struct ibv_context *verbs = NULL;
	struct ibv_device **list, **dev;

	list = dev = ibv_get_device_list(NULL);
	if (!list)
		return NULL;
	while (*dev && name && strcmp((*dev)->name, name) != 0)
		dev++;
	errno = ENODEV;
	if (*dev)
		verbs = ibv_open_device(*dev);
	ibv_free_device_list(list);
	return verbs;
}

static int cma_dev_open(const char *name, struct diw_host_dev **out)
{
	struct cma_dev *d = calloc(1, sizeof *d);

	if (!d)
		return -ENOMEM;
	d->verbs = open_context(name);
	if (!d->verbs) {
		free(d);
		return -errno;
	}
	d->rnic = d->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
	d->host.diw = diw_of_dev(d->verbs);
	*out = &d->host;
	return 0;
}

static struct diw_host_devs devs = { .open = cma_dev_open };

struct cma_dev *cma_dev_of(const struct diw_addr *local)
{
	struct diw_host_dev *host;
	struct cma_dev *d;

	errno = -diw_host_dev_of(&devs, local, &host);
	if (errno)
		return NULL;
	d = cma_dev(host);
	if (d->conns.cm)
		return d;
	d->conns.event = cma_conn_event;
	errno = -diw_loop_cm_open(&cma_loop, &d->conns, host->diw);
	if (errno)
		return NULL;
	cma_link_watch(d);
	return d;
}

bool cma_dev_rehoused(unsigned ifindex, const void *hw, size_t len)
{
	bool other = false;

	for (struct diw_host_dev *h = devs.first; h; h = h->next) {
		struct cma_dev *d = cma_dev(h);

		if (h->ifindex != ifindex || len < sizeof d->hw || memcmp(d->hw, hw, sizeof d->hw) == 0)
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

/* ---- The end of the thread ---- */

/* Releases a device without identifiers. False: queue pairs of the program have connections, which keep the channel, or
 * there are objects in the protection domain. */
static bool cma_dev_release(struct cma_dev *d)
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

	for (struct diw_host_dev *d = devs.first; d; d = d->next)
		all &= cma_dev_release(cma_dev(d));
	if (all)
		cma_link_unwatch();
	return all;
}

static uint64_t look_ns;

/* There are no identifiers, but objects of the program remain. Retries at growing intervals; the end of another
 * identifier retries, too. */
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

/* The thread, the devices and the epoll set belong to the parent. So calls on inherited identifiers fail. They are
 * removed from all lists, so that destroying them has no effect there. */
static void cma_in_child(void)
{
	devs.first = NULL;
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
		struct diw_host_dev *d;

		if (diw_host_dev_named(&devs, list[i]->name, &d) == 0)
			verbs[found++] = cma_dev(d)->verbs;
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
