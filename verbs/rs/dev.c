/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, each opened once for all sockets of the process, and the one thread that hears of connections. The thread
 * closes the devices and ends when no socket is left, one that lingers included. */
#include <stdlib.h>
#include <string.h>

#include "verbs/rs/int.h"

pthread_mutex_t rs_big = PTHREAD_MUTEX_INITIALIZER;
struct diw_loop rs_loop = DIW_LOOP_INIT(rs_loop, &rs_big);

static struct rs_dev *devs;
static atomic_uint sockets;                  /* that there are */

static void close_parts(struct rs_dev *d);

/* A socket that comes now finds no device, and no thread. */
static void close_unused(struct diw_watch *w, uint64_t now)
{
	struct rs_dev *d;

	(void)w;
	(void)now;
	if (atomic_load(&sockets))
		return;
	while ((d = devs)) {
		devs = d->next;
		close_parts(d);
	}
	diw_loop_stop(&rs_loop);
}

static struct diw_watch unused = DIW_WATCH_INIT(unused, -1, close_unused);

void rs_dev_count(int more)
{
	if (atomic_fetch_add(&sockets, (unsigned)more) == 1 && more < 0)
		diw_loop_call(&rs_loop, &unused, 1);
}

void rs_dev_forget(void)
{
	diw_loop_stop(&rs_loop);
	atomic_store(&sockets, 0);
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
	int rc = diw_dev_open(d->name, NULL, &d->diw);

	if (rc == 0)
		rc = diw_pd_alloc(d->diw, &d->pd);
	if (rc == 0)
		rc = reg_all(d);
	d->conns.event = rs_cm_event;
	if (rc == 0 && diw_list_empty(&unused.link))
		rc = diw_loop_add(&rs_loop, &unused);
	if (rc == 0)
		rc = diw_loop_cm_open(&rs_loop, &d->conns, d->diw);
	return rc;
}

static void close_parts(struct rs_dev *d)
{
	if (d->all)
		diw_mr_dereg(d->all);
	if (d->pd)
		diw_pd_free(d->pd);
	diw_loop_cm_close(&rs_loop, &d->conns);
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
