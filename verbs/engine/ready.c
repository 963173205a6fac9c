/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The members of the turn that are ready. Few members: their descriptors are tried, and slept on, one by one. A socket
 * in an epoll set makes every arriving datagram about 0.2 us slower, of a round trip of 4 us. Many members: their
 * descriptors are in an epoll set.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "verbs/engine/int.h"

static int member_fds(const struct diw_member *m, struct pollfd *p)
{
	return m->ops->fds ? m->ops->fds(m, p) : 0;
}

static int member_ctl(struct diw_engine *e, struct diw_member *m, int op)
{
	struct epoll_event ev = { .data.ptr = m };
	struct pollfd p[DIW_MEMBER_FDS];
	int n = member_fds(m, p), rc = 0;

	for (int i = 0; i < n && rc == 0; i++) {
		/* One-shot unless watched for data: the end of the stream is reported at most once. */
		ev.events = (uint32_t)p[i].events | (p[i].events & POLLIN ? 0u : (uint32_t)EPOLLONESHOT);
		if (epoll_ctl(e->epfd, op, p[i].fd, &ev) < 0 && errno != EEXIST)
			rc = -errno;
	}
	return rc;
}

static void turn_ctl(struct diw_engine *e, int op)
{
	struct diw_list *l;

	for (l = e->turn.next; l != &e->turn; l = l->next)
		member_ctl(e, diw_container(l, struct diw_member, link), op);
}

int diw_ready_add(struct diw_engine *e, struct diw_member *m)
{
	int rc = 0;

	if (e->epfd < 0)
		return 0;
	if (!e->epoll_on && e->nturn == DIW_ENGINE_FEW) {
		e->epoll_on = true;
		turn_ctl(e, EPOLL_CTL_ADD);
	}
	if (e->epoll_on)
		rc = member_ctl(e, m, EPOLL_CTL_ADD);
	diw_engine_kick(e);                     /* the leader does not sleep on this descriptor yet */
	return rc;
}

void diw_ready_del(struct diw_engine *e, struct diw_member *m)
{
	if (!e->epoll_on)
		return;
	member_ctl(e, m, EPOLL_CTL_DEL);
	if (e->nturn <= DIW_ENGINE_FEW / 2) {
		turn_ctl(e, EPOLL_CTL_DEL);
		e->epoll_on = false;
		diw_engine_kick(e);
	}
}

void diw_ready_open(struct diw_engine *e, struct diw_member *m)
{
	if (e->epoll_on)
		member_ctl(e, m, EPOLL_CTL_ADD);
	diw_engine_kick(e);
}

/* A thread that sleeps on the descriptor would keep the stream open, so it is woken first. */
void diw_ready_close(struct diw_engine *e, struct diw_member *m)
{
	if (e->epoll_on)
		member_ctl(e, m, EPOLL_CTL_DEL);
	diw_engine_kick(e);
}

void diw_ready_changed(struct diw_engine *e, struct diw_member *m)
{
	struct pollfd p[DIW_MEMBER_FDS];

	if (e->epoll_on)
		member_ctl(e, m, EPOLL_CTL_MOD);
	else if (member_fds(m, p) > 0 && p[0].events)
		diw_engine_kick(e);
}

int diw_ready_pollfds(const struct diw_engine *e, struct pollfd *p)
{
	const struct diw_list *l;
	int n = 0, first;

	for (l = e->fixed.next; l != &e->fixed; l = l->next)
		n += member_fds(diw_container((struct diw_list *)l, struct diw_member, link), p + n);
	if (e->epoll_on) {
		p[n++] = (struct pollfd){ .fd = e->epfd, .events = POLLIN };
		return n;
	}
	first = n;
	for (l = e->turn.next; l != &e->turn; l = l->next)
		n += member_fds(diw_container((struct diw_list *)l, struct diw_member, link), p + n);
	for (int i = first; i < n; i++)
		if (!p[i].events)               /* it would still report its end */
			p[i].fd = -1;
	return n;
}

void diw_member_serve(struct diw_engine *e, struct diw_member *m, uint64_t now)
{
	if (!m->ops->serve(m, now))
		return;
	e->burst_gap = now - e->burst_ns;
	e->burst_ns = now;
}

void diw_ready_serve(struct diw_engine *e, uint64_t now)
{
	struct epoll_event ev[64];
	int n = epoll_wait(e->epfd, ev, 64, 0);

	for (int i = 0; i < n; i++)
		diw_member_serve(e, ev[i].data.ptr, now);
}
