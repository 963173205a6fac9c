/* SPDX-License-Identifier: BSD-2-Clause */
/* What sockets.c and sockets_held.c share: two sockets, and the output of a call's result. */
#ifndef SOCKETS_KIT_H
#define SOCKETS_KIT_H

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define BIG 70000
#define GUARD 64

static uint8_t out[BIG], in[BIG + GUARD];

/* ---- Saying it ---- */

static inline uint32_t sum(const uint8_t *p, size_t n)
{
	uint32_t h = 2166136261u;

	while (n--)
		h = (h ^ *p++) * 16777619u;
	return h;
}

static inline void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

/* A call's result, and what it left in the buffer, of which not a byte more than it says may have changed. */
static inline ssize_t told(const char *what, ssize_t rc)
{
	int error = errno;
	size_t n = rc > 0 && rc < BIG ? (size_t)rc : 0, all = sizeof in;

	say("%s: %zd %s, %08x", what, rc, rc < 0 ? strerrorname_np(error) : "ok", sum(in, n));
	while (all > n && in[all - 1] == 0xa5)
		all--;
	say(all > n ? ", %zu bytes behind it\n" : "\n", all - n);
	memset(in, 0xa5, sizeof in);
	return rc;
}

/* ---- Two sockets that know each other ---- */

struct pair { int a, b; struct sockaddr_storage addr_a, addr_b; socklen_t len; };

static inline void place(int fd, struct sockaddr_storage *ss, socklen_t *len)
{
	*len = sizeof *ss;
	if (getsockname(fd, (struct sockaddr *)ss, len))
		abort();
}

static inline int bound(int family)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(family, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, family == AF_INET ? (void *)&v4 : (void *)&v6,
			   family == AF_INET ? sizeof v4 : sizeof v6))
		abort();
	return fd;
}

/* Each has received by now, in vain. */
static inline struct pair pair(int family, int connected)
{
	struct pair p = { .a = bound(family), .b = bound(family) };
	char c;

	place(p.a, &p.addr_a, &p.len);
	place(p.b, &p.addr_b, &p.len);
	if (connected && (connect(p.a, (void *)&p.addr_b, p.len) || connect(p.b, (void *)&p.addr_a, p.len)))
		abort();
	recv(p.a, &c, 1, MSG_DONTWAIT);
	recv(p.b, &c, 1, MSG_DONTWAIT);
	return p;
}

static inline void done(struct pair *p)
{
	close(p->a);
	close(p->b);
}

static inline ssize_t give(struct pair *p, size_t n)
{
	return sendto(p->b, out, n, 0, (void *)&p->addr_a, p->len);
}

static inline void alarm_in(int ms, int again)
{
	struct itimerval tv = { .it_value.tv_usec = ms * 1000, .it_interval.tv_usec = again * 1000 };

	setitimer(ITIMER_REAL, &tv, NULL);
}

static inline void begin(void)
{
	for (size_t i = 0; i < sizeof out; i++)
		out[i] = (uint8_t)(i * 7 + i / 251);
	memset(in, 0xa5, sizeof in);
}

#endif
