/* SPDX-License-Identifier: BSD-2-Clause */
/* The interposer's memory of destinations: the kernel's answers, and echoes of frames that arrived. */
#include "sockets_preload/dgram/group.h"
#include "sockets_preload/dgram/route.h"
#include "sockets_preload/reach.h"

struct diw_hop diw_hops[DIW_HOP_SETS][DIW_HOP_WAYS];

/* ---- Echoes ---- */

static _Atomic uint64_t *echo_of(uint32_t mark)
{
	return &diw_reg()->echo[mark >> (28 - DIW_SOCKREG_ECHO_BITS)];
}

/* Never 0: echoes of frames without a mark are there. */
static uint32_t mark_of(const struct diw_sock *s, const struct diw_addr *dst, const struct diw_route *route)
{
	uint32_t mark = (uint32_t)(diw_reg_mark(s, route->key ^ diw_addr_hash(dst, 0)) >> 36);

	return mark >> (28 - DIW_SOCKREG_ECHO_BITS) ? mark : mark | 1u << (28 - DIW_SOCKREG_ECHO_BITS);
}

/* The times of echoes begin again after 2^37 ticks. */
DIW_COLD bool diw_hop_is_confirmed(struct diw_hop *h, uint64_t ticks)
{
	uint64_t since = atomic_load_explicit(&h->since, memory_order_relaxed), echo, age;

	if (!h->route.shown.entry || ticks - since > 1ull << (DIW_ECHO_BITS + DIW_ECHO_TICKS - 1))
		return false;
	echo = atomic_load_explicit(echo_of(h->mark), memory_order_relaxed);
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

#ifdef __SANITIZE_THREAD__
__attribute__((noinline, no_sanitize("thread")))
#endif
static void hop_remember(const struct diw_sock *s, const struct sockaddr *to, const struct diw_addr *dst,
			 struct diw_route *route)
{
	struct diw_hop *h = hop_place(s, to);
	uint32_t turn = atomic_load_explicit(&h->turn, memory_order_relaxed), mark = mark_of(s, dst, route);

	if (turn % 2 || !atomic_compare_exchange_strong(&h->turn, &turn, turn + 1))
		return;
	atomic_store_explicit(echo_of(mark), 0, memory_order_relaxed);
	h->mark = mark;
	h->from = diw_hop_from(s);
	memcpy(&h->name, to, to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof h->name);
	h->route = *route;
	route->stamp = diw_hop_stamp(h->mark, diw_ticks());
	atomic_store_explicit(&h->since, diw_ticks(), memory_order_relaxed);
	atomic_store_explicit(&h->turn, turn + 2, memory_order_release);
}

/* ---- Asking ---- */

/* The registry of another host is not visible: the configuration alone vouches for the host. */
static bool of_peer(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route)
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
	} else if (!of_peer(s, &dst, route)) {
		route->stamp = 0;
		return !diw_conf.own_users && diw_window_find(s, fd, &dst, NULL, route);
	}
	route->stamp = 0;
	if (route->lasting)
		hop_remember(s, to, &dst, route);
	return true;
}
