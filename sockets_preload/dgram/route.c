/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which socket receives a datagram (diw_route_ask()), and the stored answers (struct diw_hop). The first row that fits
 * the destination decides:
 *
 *   destination                                          the datagram is a frame if
 *   ports that the configuration excludes                never
 *   a group or a broadcast address                       each socket that receives it is capable (group.c)
 *   a socket of this user's registry, in another         the registry has it, since the configuration vouches for the
 *   network namespace                                    address
 *   a socket of this user's registry, in this one        the kernel says that it receives the datagram (window.c)
 *   another host for which the configuration vouches     always, with the configured key
 *   any other                                            the kernel names a socket, and its user's window has it
 *
 * An answer that is `lasting` is stored. It is valid for about 10 ms after the kernel's answer, and for as long again
 * after the time of sending of each frame whose echo has come, while the receiver's entry is unchanged.
 */
#include "sockets_preload/dgram/group.h"
#include "sockets_preload/dgram/route.h"
#include "sockets_preload/reach.h"

#define MARK_BITS 28u
#define ECHO_SHIFT (MARK_BITS - DIW_SOCKREG_ECHO_BITS)   /* the upper bits of a mark are the place of its echo */

struct diw_hop diw_hops[DIW_HOP_SETS][DIW_HOP_WAYS];

/* ---- Echoes ---- */

static _Atomic uint64_t *echo_place(uint32_t mark)
{
	return &diw_reg()->echo[mark >> ECHO_SHIFT];
}

/* The mark of frames from S to DST by ROUTE. Its place is not 0, which has the echoes of frames without a mark. */
static uint32_t hop_mark(const struct diw_sock *s, const struct diw_addr *dst, const struct diw_route *route)
{
	uint32_t mark = (uint32_t)(diw_reg_mark(s, route->key ^ diw_addr_hash(dst, 0)) >> (64 - MARK_BITS));

	return mark >> ECHO_SHIFT ? mark : mark | 1u << ECHO_SHIFT;
}

/* An echo has DIW_ECHO_BITS bits of its time, which repeat after 2^37 ticks. So an echo proves nothing for a hop that
 * was confirmed longer ago than half of that. */
DIW_COLD bool diw_hop_is_confirmed(struct diw_hop *h, uint64_t ticks)
{
	uint64_t since = atomic_load_explicit(&h->since, memory_order_relaxed), echo, age;

	if (!h->route.shown.entry || ticks - since > 1ull << (DIW_ECHO_BITS + DIW_ECHO_TICKS - 1))
		return false;
	echo = atomic_load_explicit(echo_place(h->mark), memory_order_relaxed);
	age = ((((ticks >> DIW_ECHO_TICKS) - echo) & DIW_ECHO_TIME) + 1) << DIW_ECHO_TICKS;
	if (echo >> DIW_ECHO_BITS != h->mark || age >= DIW_TICKS_BELIEVED)
		return false;
	atomic_compare_exchange_strong(&h->since, &since, ticks - age);
	return true;
}

/* ---- Stored answers ---- */

/* The place of the answer for S and TO, or the oldest place. */
static struct diw_hop *hop_place(const struct diw_sock *s, const struct sockaddr *to)
{
	struct diw_hop *set = diw_hop_set(s, to), *oldest = set;

	for (unsigned i = 0; i < DIW_HOP_WAYS; i++) {
		if (diw_hop_is(&set[i], s, to))
			return &set[i];
		if (atomic_load_explicit(&set[i].since, memory_order_relaxed) < oldest->since)
			oldest = &set[i];
	}
	return oldest;
}

/* Stores the answer ROUTE, and gives it the stamp of its first frame. The hop's `turn` is odd meanwhile, so readers and
 * other writers leave the hop alone. */
#ifdef __SANITIZE_THREAD__
__attribute__((noinline, no_sanitize("thread")))
#endif
static void hop_remember(const struct diw_sock *s, const struct sockaddr *to, const struct diw_addr *dst,
			 struct diw_route *route)
{
	struct diw_hop *h = hop_place(s, to);
	uint32_t turn = atomic_load_explicit(&h->turn, memory_order_relaxed), mark = hop_mark(s, dst, route);

	if (turn % 2 || !atomic_compare_exchange_strong(&h->turn, &turn, turn + 1))
		return;
	atomic_store_explicit(echo_place(mark), 0, memory_order_relaxed);
	h->mark = mark;
	h->from = diw_hop_from(s);
	memcpy(&h->name, to, to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof h->name);
	h->route = *route;
	route->stamp = diw_hop_stamp(h->mark, diw_ticks());
	atomic_store_explicit(&h->since, diw_ticks(), memory_order_relaxed);
	atomic_store_explicit(&h->turn, turn + 2, memory_order_release);
}

/* ---- Asking ---- */

/* Whether the configuration vouches for DST, on another host. The registry of that host is not visible. */
static bool route_of_host(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route)
{
	if (!diw_conf.have_key || !diw_conf_is_peer(dst) || diw_is_local(dst, s->netns))
		return false;
	*route = (struct diw_route){ .key = diw_reg_peer_key(dst->port), .crc = true, .lasting = true };
	return true;
}

DIW_COLD bool diw_route_ask(const struct diw_sock *s, int fd, const struct sockaddr *to, struct diw_route *route)
{
	struct diw_route own;
	struct diw_addr dst;

	diw_addr_from_sockaddr(&dst, to);
	if (!diw_conf_has_port(s->local.port, dst.port))
		return false;
	if (diw_group_is(s, &dst))
		return diw_group_find(s, fd, &dst, route);
	if (diw_reg_find(s, fd, &dst, &own)) {
		if (!own.beyond && !diw_window_find(s, fd, &dst, &own, route))
			return false;
		if (own.beyond)
			*route = own;
		route->lasting = own.lasting && !atomic_load_explicit(&diw_reach_is_tracked, memory_order_relaxed);
	} else if (!route_of_host(s, &dst, route)) {
		route->stamp = 0;
		return !diw_conf.own_users && diw_window_find(s, fd, &dst, NULL, route);
	}
	route->stamp = 0;
	if (route->lasting)
		hop_remember(s, to, &dst, route);
	return true;
}
