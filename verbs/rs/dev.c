/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, each opened once for all sockets of the process, and the thread for connection events. When no socket is
 * left, lingering ones included, the thread closes the devices and ends. */
#include <stdlib.h>

#include "verbs/rs/int.h"

pthread_mutex_t rs_big = PTHREAD_MUTEX_INITIALIZER;
struct diw_loop rs_loop = DIW_LOOP_INIT(rs_loop, &rs_big);

static int rs_dev_open(const char *name, struct diw_host_dev **out);
static void close_parts(struct rs_dev *d);

static struct diw_host_devs devs = { .open = rs_dev_open };
static atomic_uint sockets;                  /* the number of sockets */

/* A socket that is created meanwhile finds no device and no thread, and opens both. */
static void close_unused(struct diw_watch *w, uint64_t now)
{
	struct diw_host_dev *d;

	(void)w;
	(void)now;
	if (atomic_load(&sockets))
		return;
	while ((d = devs.first)) {
		devs.first = d->next;
		close_parts(diw_container(d, struct rs_dev, host));
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
	devs.first = NULL;
}

/* ---- Devices ---- */

/* From the lowest address that a process may use, one page, to the highest of x86-64 and arm64. */
static int reg_all(struct rs_dev *d)
{
	const size_t page = 4096;

	return diw_mr_reg(d->pd, (void *)page, ((size_t)1 << 47) - 2 * page, DIW_ACCESS_LOCAL_READ, &d->all);
}

static int open_parts(struct rs_dev *d, const char *name)
{
	int rc = diw_dev_open(name, NULL, &d->host.diw);

	if (rc == 0)
		rc = diw_pd_alloc(d->host.diw, &d->pd);
	if (rc == 0)
		rc = reg_all(d);
	d->conns.event = rs_cm_event;
	if (rc == 0 && diw_list_empty(&unused.link))
		rc = diw_loop_add(&rs_loop, &unused);
	if (rc == 0)
		rc = diw_loop_cm_open(&rs_loop, &d->conns, d->host.diw);
	return rc;
}

static void close_parts(struct rs_dev *d)
{
	if (d->all)
		diw_mr_dereg(d->all);
	if (d->pd)
		diw_pd_free(d->pd);
	diw_loop_cm_close(&rs_loop, &d->conns);
	if (d->host.diw)
		diw_dev_close(d->host.diw);
	free(d);
}

static int rs_dev_open(const char *name, struct diw_host_dev **out)
{
	struct rs_dev *d = calloc(1, sizeof *d);
	int rc = d ? open_parts(d, name) : -ENOMEM;

	if (rc < 0 && d)
		close_parts(d);
	else if (rc == 0)
		*out = &d->host;
	return rc;
}

int rs_dev_of(const struct diw_addr *local, struct rs_dev **dev)
{
	struct diw_host_dev *d;
	int rc = diw_host_dev_of(&devs, local, &d);

	if (rc == 0)
		*dev = diw_container(d, struct rs_dev, host);
	return rc;
}
