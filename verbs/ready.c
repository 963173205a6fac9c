/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which queue pairs have datagrams. Few sockets are tried one by one, and slept on one by one: a socket in an epoll
 * set makes every arriving datagram some 0.2 us dearer, which counts in a round trip of 4. Many sockets need the set.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "verbs/qp.h"

static int fds_of(const struct diw_qp *qp, int fd[DIW_DGRAM_FDS])
{
	return qp->link ? qp->link->ops->fds(qp->link, fd) : 0;
}

/* What comes while a message waits for a receive would wake in vain; the same of a stream that has ended. */
static bool wants_read(const struct diw_qp *qp)
{
	return !qp->rdmap.ddp.order.waiting && !qp->link->down;
}

static int ctl(struct diw_qp *qp, int op)
{
	struct epoll_event ev = { .data.ptr = qp };
	int fd[DIW_DGRAM_FDS], n = fds_of(qp, fd), rc = 0;

	for (int i = 0; i < n && rc == 0; i++) {
		/* Where nothing is wanted, the end of the stream is told at most once. */
		ev.events = (wants_read(qp) ? EPOLLIN : EPOLLONESHOT) | (qp->blocked && i == 0 ? EPOLLOUT : 0);
		if (epoll_ctl(qp->dev->epfd, op, fd[i], &ev) < 0 && errno != EEXIST)
			rc = -errno;
	}
	return rc;
}

static void ctl_all(struct diw_dev *dev, int op)
{
	struct diw_list *l;

	for (l = dev->qps.next; l != &dev->qps; l = l->next)
		ctl(diw_container(l, struct diw_qp, turn), op);
}

int diw_ready_add(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	int rc = 0;

	if (dev->epfd < 0)
		return 0;
	if (!dev->epoll_on && dev->nqps == DIW_READY_FEW) {
		dev->epoll_on = true;
		ctl_all(dev, EPOLL_CTL_ADD);
	}
	if (dev->epoll_on)
		rc = ctl(qp, EPOLL_CTL_ADD);
	diw_dev_kick(dev);                      /* who sleeps does not know this socket yet */
	return rc;
}

void diw_ready_del(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;

	if (!dev->epoll_on)
		return;
	ctl(qp, EPOLL_CTL_DEL);
	if (dev->nqps <= DIW_READY_FEW / 2) {
		ctl_all(dev, EPOLL_CTL_DEL);
		dev->epoll_on = false;
		diw_dev_kick(dev);
	}
}

void diw_ready_open(struct diw_qp *qp)
{
	qp->want_write = false;
	qp->want_read = true;
	if (qp->dev->epoll_on)
		ctl(qp, EPOLL_CTL_ADD);
	diw_dev_kick(qp->dev);
}

/* Who sleeps on it would keep the stream from ending. */
void diw_ready_close(struct diw_qp *qp)
{
	if (qp->dev->epoll_on)
		ctl(qp, EPOLL_CTL_DEL);
	diw_dev_kick(qp->dev);
}

void diw_ready_changed(struct diw_qp *qp)
{
	if (qp->link->dgram && qp->link->dgram->fds_changed) {
		qp->link->dgram->fds_changed = false;
		if (qp->dev->epoll_on)
			ctl(qp, EPOLL_CTL_ADD);
		diw_dev_kick(qp->dev);
	}
	if (qp->blocked == qp->want_write && wants_read(qp) == qp->want_read)
		return;
	qp->want_write = qp->blocked;
	qp->want_read = wants_read(qp);
	if (qp->dev->epoll_on)
		ctl(qp, EPOLL_CTL_MOD);
	else if (qp->blocked || qp->want_read)
		diw_dev_kick(qp->dev);
}

int diw_ready_pollfds(const struct diw_dev *dev, struct pollfd *p)
{
	const struct diw_list *l;
	int n = 0;

	if (diw_cm_pollfd(dev) >= 0)
		p[n++] = (struct pollfd){ .fd = diw_cm_pollfd(dev), .events = POLLIN };
	n += diw_group_pollfds(dev, p + n);
	if (dev->epoll_on) {
		p[n++] = (struct pollfd){ .fd = dev->epfd, .events = POLLIN };
		return n;
	}
	for (l = dev->qps.next; l != &dev->qps; l = l->next) {
		const struct diw_qp *qp = diw_container(l, struct diw_qp, turn);
		int fd[DIW_DGRAM_FDS], count = fds_of(qp, fd);

		for (int i = 0; i < count; i++) {
			short events = (short)((wants_read(qp) ? POLLIN : 0) | (qp->blocked && i == 0 ? POLLOUT : 0));

			/* A descriptor of which nothing is wanted would still tell its end. */
			p[n++] = (struct pollfd){ .fd = events ? fd[i] : -1, .events = events };
		}
	}
	return n;
}

void diw_ready_serve(struct diw_dev *dev, uint64_t now)
{
	struct epoll_event ev[64];
	int n = epoll_wait(dev->epfd, ev, 64, 0);

	for (int i = 0; i < n; i++)
		diw_qp_serve(ev[i].data.ptr, now);
}
