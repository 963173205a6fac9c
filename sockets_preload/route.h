/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a datagram is sent, and how. */
#ifndef DIW_SOCKETS_ROUTE_H
#define DIW_SOCKETS_ROUTE_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

/* The processor's clock: a read of it is no call. So many ticks are some 10 ms, for which the kernel's answer is
 * believed. */
#if defined(__x86_64__)
static inline uint64_t diw_ticks(void) { return __builtin_ia32_rdtsc(); }
#define DIW_TICKS_BELIEVED (1ull << 25)
#else
static inline uint64_t diw_ticks(void) { return diw_coarse_ns(); }
#define DIW_TICKS_BELIEVED 10000000ull
#endif

/* The last answers of the registry, a thread. */
#define DIW_HOPS 16u
struct diw_hop {
	_Alignas(64) uint32_t turn;          /* odd: being written, by what this signal handler interrupted */
	struct sockaddr_in6 name;            /* or an IPv4 address */
	uint64_t key;                        /* of the socket */
	uint64_t since;                      /* ticks when the kernel was asked */
	struct diw_route route;
};
extern __thread struct diw_hop diw_hops[DIW_HOPS];

static inline struct diw_hop *diw_hop(const struct sockaddr *to)
{
	struct diw_hop *h = &diw_hops[((const struct sockaddr_in *)to)->sin_port % DIW_HOPS];

	__asm__("" : "+r" (h));              /* or gcc makes the address anew for each use */
	return h;
}

/* What follows an IPv4 address has no meaning. A socket's key is its own. */
static inline bool diw_hop_is(const struct diw_hop *h, const struct diw_sock *s, const struct sockaddr *to)
{
	return h->key == s->keys.key[0] && memcmp(&h->name, to, offsetof(struct sockaddr_in, sin_zero)) == 0 &&
	       (DIW_LIKELY(to->sa_family == AF_INET) || memcmp(&h->name, to, sizeof h->name) == 0);
}

bool diw_route_ask(const struct diw_sock *s, int fd, const struct sockaddr *to, struct diw_route *route);

/* As diw_reg_find(), asked often, and of other users, too. TO is an IPv4 or an IPv6 address. A look at the entry tells
 * whether an answer still holds, for the time that it is believed. */
static inline bool diw_hop_find(const struct diw_sock *s, const struct sockaddr *to, struct diw_route *route)
{
	const struct diw_hop *h = diw_hop(to);
	uint32_t turn = h->turn;

	atomic_signal_fence(memory_order_seq_cst);
	if (DIW_LIKELY(turn % 2 == 0 && diw_hop_is(h, s, to) && diw_ticks() - h->since < DIW_TICKS_BELIEVED)) {
		*route = h->route;
		atomic_signal_fence(memory_order_seq_cst);
		if (DIW_LIKELY(h->turn == turn) && (diw_ref_holds(&route->shown) || !route->shown.entry))
			return true;
	}
	return false;
}

static inline bool diw_route_find(const struct diw_sock *s, int fd, const struct sockaddr *to, struct diw_route *route)
{
	return diw_hop_find(s, to, route) || diw_route_ask(s, fd, to, route);
}

#pragma GCC visibility pop

#endif
