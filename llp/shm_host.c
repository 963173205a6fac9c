/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ports of a device that have shared memory. Their UNIX sockets are in one epoll set, which is looked at once a
 * millisecond while a thread polls. A thread that is about to sleep marks every ring, so that its writer wakes it.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "llp/shm.h"

#define LOOK_NS DIW_MS
#define EVENTS_MOST 64               /* of one look */

static struct diw_shm_pair *pair_of(struct diw_list *l)
{
	return diw_container(l, struct diw_shm_pair, link);
}

/* Makes the pair that a send has asked for, and gives up those that have not been proved in time. Returns whether one
 * is being made. */
static bool port_look(struct diw_shm *s, uint64_t now)
{
	struct diw_list *l, *next;
	bool pending = false;

	if (s->wanted.port) {
		struct diw_shm_dst *dst = diw_shm_dst(s, &s->wanted);

		dst->pair = diw_shm_call(s, &s->wanted, now);
		if (!dst->pair)
			diw_shm_retry_later(dst, now);
		s->wanted.port = 0;
	}
	diw_list_for_each_safe(l, next, &s->pairs) {
		if (diw_shm_is_up(pair_of(l)))
			continue;
		if (now >= pair_of(l)->until)
			diw_shm_pair_free(pair_of(l), now);
		else
			pending = true;
	}
	return pending;
}

void diw_shm_host_look(struct diw_shm_host *h, bool events, uint64_t now)
{
	struct epoll_event ev;
	bool pending = false;

	/* One by one: an event may end the pair of another. */
	for (int i = 0; i < EVENTS_MOST && events && epoll_wait(h->epfd, &ev, 1, 0) == 1; i++) {
		struct diw_shm_watch *w = ev.data.ptr;

		w->event(w, now);
	}
	for (struct diw_list *l = h->ports.next; l != &h->ports; l = l->next)
		pending |= port_look(diw_container(l, struct diw_shm, of_host), now);
	h->look_at = now + (pending ? DIW_SHM_SOON_NS : LOOK_NS);
}

static bool port_has(const struct diw_shm *s)
{
	for (const struct diw_list *l = s->pairs.next; l != &s->pairs; l = l->next)
		if (diw_shm_is_up(pair_of((struct diw_list *)l)) && diw_shm_has(&pair_of((struct diw_list *)l)->rx))
			return true;
	return false;
}

static bool host_report(struct diw_shm_host *h)
{
	bool any = false;

	for (struct diw_list *l = h->ports.next; l != &h->ports; l = l->next) {
		const struct diw_shm *s = diw_container(l, struct diw_shm, of_host);

		any |= port_has(s) && h->ready(s->owner);
	}
	for (struct diw_list *l = h->streams.next; l != &h->streams; l = l->next) {
		struct diw_shm_stream *of = diw_container(l, struct diw_shm_stream, link);

		any |= of->has(of) && h->ready(of->owner);
		if (!of->has_room(of))
			continue;
		h->wakes(of->owner);
		any = true;
	}
	return any;
}

static void host_mark(struct diw_shm_host *h, bool asleep)
{
	for (struct diw_list *l = h->ports.next; l != &h->ports; l = l->next) {
		struct diw_shm *s = diw_container(l, struct diw_shm, of_host);

		for (struct diw_list *k = s->pairs.next; k != &s->pairs; k = k->next)
			if (diw_shm_is_up(pair_of(k)))
				diw_shm_sleeps(&pair_of(k)->rx, asleep);
	}
	for (struct diw_list *l = h->streams.next; l != &h->streams; l = l->next) {
		struct diw_shm_stream *of = diw_container(l, struct diw_shm_stream, link);

		of->sleeps(of, asleep);
	}
	h->rested = asleep;
}

bool diw_shm_host_serve(struct diw_shm_host *h, bool asleep, bool polled, uint64_t now)
{
	if (now >= h->look_at || (h->rested && !asleep))
		diw_shm_host_look(h, true, now);
	if (h->rested || asleep)
		host_mark(h, asleep);           /* behind the look, which may have taken a sleeper's wake-up */
	return (asleep || !polled) && host_report(h);
}

bool diw_shm_host_rest(struct diw_shm_host *h)
{
	host_mark(h, true);
	return host_report(h);
}

int diw_shm_host_open(struct diw_shm_host *h)
{
	diw_list_init(&h->ports);
	diw_list_init(&h->streams);
	h->epfd = diw_above_std(epoll_create1(EPOLL_CLOEXEC));
	return h->epfd < 0 ? -errno : 0;
}

void diw_shm_host_close(struct diw_shm_host *h)
{
	close(h->epfd);
}
