/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets and timers of connection management. The sockets are in an epoll set, which is one descriptor for the device
 * to sleep on. The timers are in a heap. So ten thousand negotiating connections cost a step no more than one. */
#include "verbs/cm/int.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sys.h"

/* The interval at which a spinning thread polls the set. A connection can wait this long; the data path would notice
 * more frequent system calls. If nothing is being negotiated, only a new connection can wait. */
#define LOOK_NS (20 * DIW_US)
#define LOOK_CALM_NS (100 * DIW_US)
#define EXPIRE_SHARE 64              /* timers of a step */

static void items_free(struct diw_list *items)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, items)
		diw_container(l, struct diw_cm_item, link)->ops->free(diw_container(l, struct diw_cm_item, link));
}

/* All channels are closed, so there are no listeners. Connections that are being rejected may remain. */
void diw_cm_fini(struct diw_dev *dev)
{
	struct diw_cm_engine *e = dev->cm;

	if (!e)
		return;
	items_free(&e->conns);
	items_free(&e->rejecting);
	diw_engine_close_fd(&dev->engine, e->epfd);
	free(e->heap);
	free(e);
	dev->cm = NULL;
}

/* ---- The heap ---- */

static void item_put(struct diw_cm_engine *e, uint32_t slot, struct diw_cm_item *it)
{
	e->heap[slot - 1] = it;
	it->slot = slot;
}

/* Moves IT from SLOT up to its place. */
static void item_rise(struct diw_cm_engine *e, uint32_t slot, struct diw_cm_item *it)
{
	for (; slot > 1 && e->heap[slot / 2 - 1]->at > it->at; slot /= 2)
		item_put(e, slot, e->heap[slot / 2 - 1]);
	item_put(e, slot, it);
}

/* Moves IT from SLOT down to its place. */
static void item_sink(struct diw_cm_engine *e, uint32_t slot, struct diw_cm_item *it)
{
	uint32_t child;

	for (; (child = 2 * slot) <= e->armed; slot = child) {
		if (child < e->armed && e->heap[child]->at < e->heap[child - 1]->at)
			child++;
		if (e->heap[child - 1]->at >= it->at)
			break;
		item_put(e, slot, e->heap[child - 1]);
	}
	item_put(e, slot, it);
}

void diw_cm_disarm(struct diw_cm_engine *e, struct diw_cm_item *it)
{
	uint32_t slot = it->slot;
	struct diw_cm_item *last;

	if (!slot)
		return;
	it->slot = 0;
	last = e->heap[--e->armed];
	if (last == it)
		return;
	if (slot > 1 && e->heap[slot / 2 - 1]->at > last->at)
		item_rise(e, slot, last);
	else
		item_sink(e, slot, last);
}

void diw_cm_arm(struct diw_cm_engine *e, struct diw_cm_item *it, uint64_t at)
{
	diw_cm_disarm(e, it);
	it->at = at;
	item_rise(e, ++e->armed, it);
	if (it->slot == 1)
		diw_engine_hasten(&e->dev->engine, at);
}

/* ---- Items ---- */

int diw_cm_item_add(struct diw_cm_engine *e, struct diw_cm_item *it)
{
	uint32_t room = e->room ? 2 * e->room : 16;
	struct diw_cm_item **heap;

	if (e->items == e->room) {
		heap = realloc(e->heap, room * sizeof *heap);
		if (!heap)
			return -ENOMEM;
		e->heap = heap;
		e->room = room;
	}
	it->slot = 0;
	it->watched = false;
	if (e->items++ == 0)
		diw_engine_kick(&e->dev->engine);       /* the leader does not sleep on the set yet */
	return 0;
}

void diw_cm_item_del(struct diw_cm_engine *e, struct diw_cm_item *it)
{
	diw_cm_disarm(e, it);
	for (int i = 0; i < e->nbatch; i++)
		if (e->batch[i].data.ptr == it)
			e->batch[i].data.ptr = NULL;
	e->items--;
}

int diw_cm_watch(struct diw_cm_engine *e, struct diw_cm_item *it, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = it };

	if (e->epfd < 0 || fd < 0)
		return 0;
	if (epoll_ctl(e->epfd, it->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	it->watched = true;
	return 0;
}

/* A child after fork(2) shares the set, and must not remove descriptors from it. */
void diw_cm_unwatch(struct diw_cm_engine *e, struct diw_cm_item *it, int fd)
{
	if (it->watched && diw_engine_alive(&e->dev->engine))
		epoll_ctl(e->epfd, EPOLL_CTL_DEL, fd, NULL);
	it->watched = false;
}

/* ---- Work ---- */

static inline struct diw_cm_item *item_of(struct diw_list *l)
{
	return diw_container(l, struct diw_cm_item, link);
}

void diw_cm_probe(struct diw_list *items, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, items)
		item_of(l)->ops->probe(item_of(l), now);
}

void diw_cm_look(struct diw_cm_engine *e, uint64_t now)
{
	if (e->epfd < 0) {
		diw_cm_probe(&e->listeners, now);
		diw_cm_probe(&e->conns, now);
		diw_cm_probe(&e->rejecting, now);
		return;
	}
	e->look_at = now + (e->armed ? LOOK_NS : LOOK_CALM_NS);
	e->nbatch = epoll_wait(e->epfd, e->batch, DIW_CM_BATCH, 0);
	for (int i = 0; i < e->nbatch; i++) {
		struct diw_cm_item *it = e->batch[i].data.ptr;

		if (it)                         /* another item's event may have freed it */
			it->ops->event(it, now);
	}
	if (e->nbatch == DIW_CM_BATCH)
		e->look_at = now;
	e->nbatch = 0;
}

static void items_expire(struct diw_cm_engine *e, uint64_t now)
{
	for (int i = 0; i < EXPIRE_SHARE && e->armed && e->heap[0]->at <= now; i++) {
		struct diw_cm_item *it = e->heap[0];

		diw_cm_disarm(e, it);
		it->ops->expire(it, now);
	}
}

static bool cm_serve(struct diw_member *m, uint64_t now)
{
	struct diw_cm_engine *e = diw_container(m, struct diw_cm_engine, member);

	if (!e->items)
		return false;
	if (now >= e->look_at)
		diw_cm_look(e, now);
	items_expire(e, now);                         /* after the events: an event that came in time is not late
						       * because no thread polled */
	return false;
}

static uint64_t cm_deadline(const struct diw_member *m, bool waiting)
{
	const struct diw_cm_engine *e = diw_container((struct diw_member *)m, struct diw_cm_engine, member);

	(void)waiting;
	return e->armed ? e->heap[0]->at : DIW_NEVER;
}

static int cm_fds(const struct diw_member *m, struct pollfd *p)
{
	const struct diw_cm_engine *e = diw_container((struct diw_member *)m, struct diw_cm_engine, member);

	if (!e->items || e->epfd < 0)
		return 0;
	*p = (struct pollfd){ .fd = e->epfd, .events = POLLIN };
	return 1;
}

static const struct diw_member_ops cm_ops = { .serve = cm_serve, .deadline = cm_deadline, .fds = cm_fds };

struct diw_cm_engine *diw_cm_engine_get(struct diw_dev *dev)
{
	struct diw_cm_engine *e = dev->cm;
	bool sleeps = dev->engine.epfd >= 0;

	if (e)
		return e;
	e = calloc(1, sizeof *e);
	if (!e)
		return NULL;
	e->dev = dev;
	e->epfd = sleeps ? diw_above_std(epoll_create1(EPOLL_CLOEXEC)) : -1;
	if (e->epfd < 0 && sleeps) {
		free(e);
		return NULL;
	}
	diw_list_init(&e->conns);
	diw_list_init(&e->listeners);
	diw_list_init(&e->rejecting);
	e->member.ops = &cm_ops;
	diw_engine_add_fixed(&dev->engine, &e->member);
	dev->cm = e;
	return e;
}
