/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses: whether they are local, and what the kernel makes of the unspecified address. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "sockets_preload/preload.h"

#define LOCAL_NS DIW_S                   /* validity of the answer whether an address is local */

enum place { ELSEWHERE, HERE, BROADCAST };

/* A route to a local address has that address as its source. A route to a broadcast address is refused. */
static enum place ask_place(const struct diw_addr *a, uint64_t netns)
{
	struct sockaddr_storage ss;
	struct diw_addr from;
	socklen_t len = diw_addr_to_sockaddr(a, &ss);
	int fd = diw_sock_open(ss.ss_family, SOCK_DGRAM, 0, netns);
	enum place p = ELSEWHERE;

	if (fd < 0)
		return p;
	if (real.connect(fd, (struct sockaddr *)&ss, len) < 0) {
		p = errno == EACCES ? BROADCAST : ELSEWHERE;
	} else if (len = sizeof ss, getsockname(fd, (struct sockaddr *)&ss, &len) == 0) {
		diw_addr_from_sockaddr(&from, (struct sockaddr *)&ss);
		p = memcmp(from.ip, a->ip, sizeof a->ip) == 0 ? HERE : ELSEWHERE;
	}
	real.close(fd);
	return p;
}

uint64_t diw_coarse_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

bool diw_addr_is_loopback(const struct diw_addr *a)
{
	static const uint8_t one[16] = { [15] = 1 };

	return diw_addr_is_v4(a) ? a->ip[12] == 127 : memcmp(a->ip, one, sizeof one) == 0;
}

static enum place address_place(const struct diw_addr *a, uint64_t netns)
{
	static __thread struct { uint64_t until, netns; struct diw_addr addr; enum place place; bool busy; } known[8];
	__typeof__(known[0]) *k = &known[a->ip[15] % 8];
	uint64_t now = diw_coarse_ns();
	int saved = errno;
	enum place p;

	if (!k->busy && now < k->until && k->netns == netns && memcmp(k->addr.ip, a->ip, sizeof a->ip) == 0 &&
	    k->addr.scope == a->scope)
		return k->place;
	p = ask_place(a, netns);
	errno = saved;
	if (k->busy)                         /* this is a signal handler that interrupted the code below */
		return p;
	k->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	k->until = now + LOCAL_NS;
	k->netns = netns;
	k->addr = *a;
	k->place = p;
	atomic_signal_fence(memory_order_seq_cst);
	k->busy = false;
	return p;
}

bool diw_is_local(const struct diw_addr *a, uint64_t netns)
{
	return diw_addr_is_loopback(a) || address_place(a, netns) == HERE;
}

bool diw_is_broadcast(const struct diw_addr *a, uint64_t netns)
{
	return diw_addr_is_v4(a) && address_place(a, netns) == BROADCAST;
}

bool diw_addr_is_wildcard(const struct diw_addr *a)
{
	return diw_addr_is_v4(a) ? !(a->ip[12] | a->ip[13] | a->ip[14] | a->ip[15]) : diw_addr_ip_is_zero(a);
}

/* For the kernel, the unspecified address as a destination is this host. */
struct diw_addr diw_destination(const struct diw_addr *dst)
{
	struct diw_addr d = *dst;

	if (!diw_addr_is_wildcard(dst))
		return d;
	if (diw_addr_is_v4(dst))
		d.ip[12] = 127;
	d.ip[15] = 1;
	return d;
}
