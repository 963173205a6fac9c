/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket that a datagram of ours will reach. The kernel finds the socket by addresses. If it tracks connections, a
 * firewall rule may change the addresses on the way. Then only the receiver can say what has reached it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/reach.h"

#define TRACKED "/proc/sys/net/netfilter/nf_conntrack_count"
#define LOOK_AGAIN (100 * DIW_MS)

/* ---- The source address ---- */

/* Gives FD a port, as its first send would. */
static void get_port(int fd, const struct diw_sock *s, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 any = { .sin6_family = s->family };
	socklen_t len = sizeof *ss;

	if (real.bind(fd, (struct sockaddr *)&any, s->family == AF_INET ? sizeof(struct sockaddr_in) : sizeof any) == 0)
		getsockname(fd, (struct sockaddr *)ss, &len);
}

bool diw_reach_source(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_addr *src)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof ss;
	uint16_t port;

	*src = s->local;
	if (!src->port && getsockname(fd, (struct sockaddr *)&ss, &len) == 0) {
		diw_addr_from_sockaddr(src, (struct sockaddr *)&ss);
		if (!src->port) {
			get_port(fd, s, &ss);
			diw_addr_from_sockaddr(src, (struct sockaddr *)&ss);
		}
	}
	port = src->port;
	if (diw_addr_is_wildcard(src)) {
		*src = *dst;
		if (diw_addr_is_v4(dst) && dst->ip[12] == 127)
			memcpy(src->ip + 12, (const uint8_t[4]){ 127, 0, 0, 1 }, 4);
		src->port = port;
	}
	return port;
}

/* ---- The interface ---- */

/* The number behind WANT in the lines of FD; 0: none has it. A line is shorter than 100 bytes. */
static uint32_t number_behind(int fd, const char *want)
{
	char text[1024], *at, *end;
	size_t have = 0;
	ssize_t n;

	while ((n = real.read(fd, text + have, sizeof text - 1 - have)) > 0) {
		text[have + (size_t)n] = '\0';
		at = strstr(text, want);
		end = strrchr(text, '\n');
		if (at && end > at)
			return (uint32_t)strtoul(at + strlen(want), NULL, 16);
		end = end ? end + 1 : text;
		have = strlen(end) < 100 ? strlen(end) : 0;
		memmove(text, end, have);
	}
	return 0;
}

/* The interface of the local IPv6 address A; 0: none. */
static uint32_t interface_of(const struct diw_addr *a)
{
	int fd = open("/proc/net/if_inet6", O_RDONLY | O_CLOEXEC);
	uint32_t index;
	char want[33];

	if (fd < 0)
		return 0;
	for (int i = 0; i < 16; i++)
		snprintf(want + 2 * i, 3, "%02x", a->ip[i]);
	index = number_behind(fd, want);
	real.close(fd);
	return index;
}

unsigned diw_reach_interfaces(int fd, const struct diw_addr *dst, uint32_t index[2])
{
	uint32_t own = (uint32_t)diw_sock_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX);

	index[0] = own ? own : dst->scope ? dst->scope : DIW_LOOPBACK;
	if (own || dst->scope || diw_addr_is_v4(dst) || diw_addr_is_loopback(dst))
		return 1;
	index[1] = interface_of(dst);
	return index[1] ? 2 : 1;
}

/* ---- Whether the datagram may be redirected ---- */

_Atomic bool diw_reach_is_tracked;

/* Whether the kernel tracks connections in this network namespace. True also if their number cannot be read, unless the
 * kernel has no such file. */
static bool has_tracked(void)
{
	char text[32] = "";
	int fd = open(TRACKED, O_RDONLY | O_CLOEXEC);
	bool has = fd < 0 && (errno != ENOENT || access("/proc/sys/net/core", F_OK) < 0);

	if (fd >= 0) {
		has = real.read(fd, text, sizeof text - 1) <= 0 || strtoul(text, NULL, 10) > 0;
		real.close(fd);
	}
	return has;
}

/* Sends a datagram to itself, which is tracked if connections are tracked. */
static void try_one(const struct sockaddr *any, socklen_t len)
{
	int fd = real.socket(any->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage ss;

	if (fd < 0)
		return;
	if (real.bind(fd, any, len) == 0 && getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		real.sendto(fd, "", 1, MSG_DONTWAIT, (struct sockaddr *)&ss, len);
	real.close(fd);
}

static void try_to_be_tracked(void)
{
	const struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	try_one((const struct sockaddr *)&v4, sizeof v4);
	try_one((const struct sockaddr *)&v6, sizeof v6);
}

/* True once it is true: rules may be removed and added. */
bool diw_reach_look(void)
{
	static _Atomic uint64_t again;
	static _Atomic bool tried;
	uint64_t now = diw_coarse_ns(), then = atomic_load_explicit(&again, memory_order_relaxed);
	int saved = errno;

	if (atomic_load_explicit(&diw_reach_is_tracked, memory_order_relaxed) || now < then || !diw_may_ask())
		return atomic_load_explicit(&diw_reach_is_tracked, memory_order_relaxed);
	atomic_store_explicit(&again, now + LOOK_AGAIN, memory_order_relaxed);
	if (access(TRACKED, F_OK) == 0 && !atomic_exchange(&tried, true))
		try_to_be_tracked();
	if (has_tracked())
		atomic_store(&diw_reach_is_tracked, true);
	errno = saved;
	return atomic_load(&diw_reach_is_tracked);
}

/* ---- Datagrams that have come ---- */

void diw_reach_came(uint64_t cookie, const struct msghdr *msg)
{
	struct diw_addr src;

	if (!msg->msg_name || msg->msg_namelen < sizeof(struct sockaddr_in))
		return;
	diw_addr_from_sockaddr(&src, msg->msg_name);
	diw_reg_heard(cookie, &src);
}
