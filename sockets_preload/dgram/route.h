/* SPDX-License-Identifier: BSD-2-Clause */
/* Routes: the receiver of a datagram, and how it is sent. */
#ifndef DIW_SOCKETS_ROUTE_H
#define DIW_SOCKETS_ROUTE_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

/* The processor's clock, which is read without a call. This many ticks are about 10 ms, the validity of the kernel's
 * answer. */
#if defined(__x86_64__)
static inline uint64_t diw_ticks(void) { return __builtin_ia32_rdtsc(); }
#define DIW_TICKS_BELIEVED (1ull << 25)
#else
static inline uint64_t diw_ticks(void) { return diw_coarse_ns(); }
#define DIW_TICKS_BELIEVED 10000000ull
#endif

/*
 * Echoes tell a sender that its frames have arrived. A frame carries a mark in place of MSN and epoch: a hash of the
 * sender's socket, the receiver's and the destination, and the time of sending. The receiver writes the mark to the
 * registry. So the sender knows where the kernel delivers its datagrams, as if it had asked at the time of sending.
 */
#define DIW_ECHO_TICKS 17u                   /* bits of ticks that are not in the mark */
#define DIW_ECHO_TIME 0xfffffull
#define DIW_ECHO_BITS 20u

/* The last answers of the registry. */
#define DIW_HOP_SETS 1024u
#define DIW_HOP_WAYS 4u
struct diw_hop {
	_Alignas(128) _Atomic uint32_t turn; /* odd: a thread is writing it */
	uint32_t mark;                       /* the mark of its frames: 28 bits */
	uint64_t from;                       /* identifies the socket and its local address */
	_Atomic uint64_t since;              /* ticks when the kernel was asked */
	struct sockaddr_in6 name;            /* or an IPv4 address */
	struct diw_route route;
};
_Static_assert(sizeof(struct diw_hop) == 128, "two cache lines");
extern struct diw_hop diw_hops[DIW_HOP_SETS][DIW_HOP_WAYS];
_Static_assert(DIW_HOP_SETS == 1u << (64 - 54), "the hash has as many bits");

#ifdef __SANITIZE_THREAD__                   /* The thread sanitizer takes a repeated read after a concurrent write for
					      * a race. */
#define DIW_HOP_READS static __attribute__((noinline, unused, no_sanitize("thread")))
#define diw_hop_fence() atomic_signal_fence(memory_order_seq_cst)
#else
#define DIW_HOP_READS static inline
#define diw_hop_fence() atomic_thread_fence(memory_order_acquire)
#endif

static inline uint64_t diw_hop_from(const struct diw_sock *s)
{
	uint64_t half[2];

	memcpy(half, s->local.ip, sizeof half);
	return s->keys.key[0] ^ half[0] * 0x9e3779b97f4a7c15u ^ half[1] ^ (uint64_t)s->local.port << 48 ^
	       (uint64_t)s->local.scope << 16;
}

static inline struct diw_hop *diw_hop_set(const struct diw_sock *s, const struct sockaddr *to)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)to;
	uint64_t hash = (s->keys.key[0] ^ in->sin_addr.s_addr ^ (uint64_t)in->sin_port << 32) * 0x9e3779b97f4a7c15u;
	struct diw_hop *h = diw_hops[hash >> 54];

	__asm__("" : "+r" (h));              /* keeps gcc from computing the address again for each use */
	return h;
}

/* Bytes behind an IPv4 address have no meaning. A socket's key is unique. */
static inline bool diw_hop_is(const struct diw_hop *h, const struct diw_sock *s, const struct sockaddr *to)
{
	return h->from == diw_hop_from(s) && memcmp(&h->name, to, offsetof(struct sockaddr_in, sin_zero)) == 0 &&
	       (DIW_LIKELY(to->sa_family == AF_INET) || memcmp(&h->name, to, sizeof h->name) == 0);
}

static inline uint64_t diw_hop_stamp(uint32_t mark, uint64_t ticks)
{
	return (uint64_t)mark << DIW_ECHO_BITS | (ticks >> DIW_ECHO_TICKS & DIW_ECHO_TIME);
}

/* The kernel's answer has expired: whether a frame has arrived since then. */
bool diw_hop_is_confirmed(struct diw_hop *h, uint64_t ticks);

bool diw_route_ask(const struct diw_sock *s, int fd, const struct sockaddr *to, struct diw_route *route);

/* Like diw_reg_find(), with stored answers, and for other users, too. TO is an IPv4 or an IPv6 address. A check of the
 * registry's entry shows whether an answer is still valid, while it has not expired. */
DIW_HOP_READS bool diw_hop_find(const struct diw_sock *s, const struct sockaddr *to, struct diw_route *route)
{
	struct diw_hop *h = diw_hop_set(s, to), *end = h + DIW_HOP_WAYS;
	uint64_t ticks;
	uint32_t turn;

	while (!DIW_LIKELY(diw_hop_is(h, s, to)))
		if (++h == end)
			return false;
	turn = atomic_load_explicit(&h->turn, memory_order_acquire);
	ticks = diw_ticks();
	if (!DIW_LIKELY(turn % 2 == 0 &&
			(ticks - atomic_load_explicit(&h->since, memory_order_relaxed) < DIW_TICKS_BELIEVED ||
			 diw_hop_is_confirmed(h, ticks)) && diw_hop_is(h, s, to)))
		return false;
	*route = h->route;
	route->stamp = diw_hop_stamp(h->mark, ticks);
	diw_hop_fence();
	return DIW_LIKELY(atomic_load_explicit(&h->turn, memory_order_relaxed) == turn) &&
	       (diw_ref_holds(&route->shown) || !route->shown.entry);
}

static inline bool diw_route_find(const struct diw_sock *s, int fd, const struct sockaddr *to, struct diw_route *route)
{
	return diw_hop_find(s, to, route) || diw_route_ask(s, fd, to, route);
}

#pragma GCC visibility pop

#endif
