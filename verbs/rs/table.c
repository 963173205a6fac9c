/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets by descriptor. The table grows by blocks, which are never freed. */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs/rs/int.h"

#define BLOCK 1024
#define TABLE_BLOCKS 1024                    /* for a million descriptors, the kernel's default limit (fs.nr_open) */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rs **blocks[TABLE_BLOCKS];
static int top;                              /* above all descriptors in the table */

/* ---- fork(2): the child keeps the sockets in order to refuse calls and close them ---- */

static void rs_in_child(void)
{
	diw_list_init(&rs_lingering);
	rs_dev_forget();
}

__attribute__((constructor)) static void rs_guard_forks(void)
{
	static struct diw_fork_guard guard = {
		.locks = { &rs_big, &table_lock, &rs_loop.rouse_lock }, .in_child = rs_in_child,
	};

	diw_fork_guard_add(&guard);
}

/* ---- Objects ---- */

struct rs *rs_new(int domain, int type)
{
	struct rs *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->fd = s->hold = -1;
	s->domain = domain;
	s->type = type;
	s->generation = diw_fork_generation();
	atomic_init(&s->refs, 1);
	pthread_mutex_init(&s->lock, NULL);
	diw_list_init(&s->link);
	diw_list_init(&s->children);
	diw_list_init(&s->waiting);
	diw_list_init(&s->sibling);
	rs_opt_init(s);
	rs_dev_count(1);
	return s;
}

struct rs *rs_ref(struct rs *s)
{
	atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
	return s;
}

void rs_unref(struct rs *s)
{
	if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
		rs_end(s);
}

/* ---- The table ---- */

static struct rs **table_place(int fd, bool grow)
{
	if (fd < 0 || fd >= BLOCK * TABLE_BLOCKS)
		return NULL;
	if (!blocks[fd / BLOCK] && grow)
		blocks[fd / BLOCK] = calloc(BLOCK, sizeof **blocks);
	return blocks[fd / BLOCK] ? &blocks[fd / BLOCK][fd % BLOCK] : NULL;
}

static struct rs *table_find(int fd)
{
	struct rs **p, *s = NULL;

	pthread_mutex_lock(&table_lock);
	p = table_place(fd, false);
	if (p && *p)
		s = rs_ref(*p);
	pthread_mutex_unlock(&table_lock);
	return s;
}

int rs_enter_table(struct rs *s, bool cloexec)
{
	int fd = eventfd(0, EFD_NONBLOCK | (cloexec ? EFD_CLOEXEC : 0));
	struct rs **p;

	if (fd < 0)
		return -errno;
	pthread_mutex_lock(&table_lock);
	p = table_place(fd, true);
	if (p) {
		*p = s;
		s->fd = fd;
		top = fd >= top ? fd + 1 : top;
	}
	pthread_mutex_unlock(&table_lock);
	if (p)
		return fd;
	close(fd);
	return fd >= BLOCK * TABLE_BLOCKS ? -EMFILE : -ENOMEM;
}

struct rs *rs_leave_table(int fd)
{
	struct rs **p, *s = NULL;

	pthread_mutex_lock(&table_lock);
	p = table_place(fd, false);
	if (p && *p) {
		s = *p;
		*p = NULL;
	}
	pthread_mutex_unlock(&table_lock);
	return s;
}

/* A socket is not removed during the calls: that needs rs_big, and the callee must not do it. */
void rs_each(void (*visit)(struct rs *s))
{
	for (int fd = 0; fd < top; fd++) {
		struct rs *s = table_find(fd);

		if (!s)
			continue;
		if (s->generation == diw_fork_generation())
			visit(s);
		atomic_fetch_sub(&s->refs, 1);
	}
}

int rs_take(int fd, struct rs **out)
{
	struct rs *s = table_find(fd);

	if (!s)
		return -EBADF;
	if (s->generation != diw_fork_generation()) {
		atomic_fetch_sub(&s->refs, 1);
		return -ENODEV;
	}
	pthread_mutex_lock(&s->lock);
	*out = s;
	return 0;
}

void rs_release(struct rs *s)
{
	pthread_mutex_unlock(&s->lock);
	rs_unref(s);
}

bool diw_rs_owns(int fd)
{
	struct rs **p;
	bool owns;

	pthread_mutex_lock(&table_lock);
	p = table_place(fd, false);
	owns = p && *p;
	pthread_mutex_unlock(&table_lock);
	return owns;
}

int diw_rs_socket(int domain, int type, int protocol)
{
	const int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
	int kind = type & ~flags, fd;
	struct rs *s;

	if (domain != AF_INET && domain != AF_INET6)
		return -EAFNOSUPPORT;
	if (kind != SOCK_STREAM && kind != SOCK_DGRAM)
		return -ESOCKTNOSUPPORT;
	if (protocol && protocol != (kind == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return -EPROTONOSUPPORT;
	s = rs_new(domain, kind);
	if (!s)
		return -ENOMEM;
	s->nonblock = type & SOCK_NONBLOCK;
	fd = rs_enter_table(s, type & SOCK_CLOEXEC);
	if (fd < 0)
		rs_unref(s);
	return fd;
}
