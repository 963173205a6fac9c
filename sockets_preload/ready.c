/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls by which a program waits until it can receive. From then on, its peers know that an interposed program reads
 * the connection (docs/streams.md). */
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "sockets_preload/stream/stream.h"

static void fd_reads(int fd)
{
	if (diw_conf.streams && DIW_LIKELY(fd >= 0))
		diw_stream_reads(fd);
}

static void reads_each(const struct pollfd *p, nfds_t n)
{
	diw_preload_init();
	if (!diw_conf.streams || !p)
		return;
	for (nfds_t i = 0; i < n; i++)
		if (p[i].events & (POLLIN | POLLRDNORM))
			fd_reads(p[i].fd);
}

static void reads_set(int n, const fd_set *set)
{
	const unsigned long *word = (const unsigned long *)(const void *)set;
	const int bits = 8 * (int)sizeof *word;

	diw_preload_init();
	if (!diw_conf.streams || !set)
		return;
	for (int i = 0; i < n; i++)
		if (!word[i / bits])
			i |= bits - 1;
		else if (word[i / bits] >> i % bits & 1)
			fd_reads(i);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"   /* libc's headers say that the array is only written */

DIW_API int poll(struct pollfd *p, nfds_t n, int timeout)
{
	reads_each(p, n);
	return real.poll(p, n, timeout);
}

DIW_API int ppoll(struct pollfd *p, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	reads_each(p, n);
	return real.ppoll(p, n, timeout, mask);
}

DIW_API int __poll_chk(struct pollfd *p, nfds_t n, int timeout, size_t room)
{
	reads_each(p, room / sizeof *p < n ? 0 : n);
	return real.__poll_chk(p, n, timeout, room);
}

DIW_API int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t room)
{
	reads_each(p, room / sizeof *p < n ? 0 : n);
	return real.__ppoll_chk(p, n, timeout, mask, room);
}

#pragma GCC diagnostic pop

DIW_API int select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
	reads_set(n, in);
	return real.select(n, in, out, except, timeout);
}

DIW_API int pselect(int n, fd_set *in, fd_set *out, fd_set *except, const struct timespec *timeout,
		    const sigset_t *mask)
{
	reads_set(n, in);
	return real.pselect(n, in, out, except, timeout, mask);
}

DIW_API int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	bool in = op != EPOLL_CTL_DEL && event && event->events & (EPOLLIN | EPOLLRDNORM);

	diw_preload_init();
	if (in)
		fd_reads(fd);
	diw_stream_awaits(fd, in);
	return real.epoll_ctl(epoll, op, fd, event);
}
