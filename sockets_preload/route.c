/* SPDX-License-Identifier: BSD-2-Clause */
#include "sockets_preload/reach.h"
#include "sockets_preload/route.h"

__thread struct diw_hop diw_hops[DIW_HOPS];

static void remember(const struct diw_sock *s, const struct sockaddr *to, const struct diw_route *route)
{
	struct diw_hop *h = diw_hop(to);

	if (h->turn % 2)
		return;
	h->turn++;
	atomic_signal_fence(memory_order_seq_cst);
	h->key = s->keys.key[0];
	memcpy(&h->name, to, to->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof h->name);
	h->route = *route;
	h->since = diw_ticks();
	atomic_signal_fence(memory_order_seq_cst);
	h->turn++;
}

/* Another host's registry cannot be seen: the configuration alone says that who is there is capable. */
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
	if (diw_addr_is_multicast(&dst) || !diw_conf_has_port(s->local.port, dst.port))
		return false;
	if (diw_reg_find(s, fd, &dst, &own)) {
		if (!own.beyond && !diw_window_find(s, fd, &dst, &own, route))
			return false;
		if (own.beyond)
			*route = own;
		route->lasting = own.lasting && !atomic_load_explicit(&diw_reach_is_tracked, memory_order_relaxed);
	} else if (!of_peer(s, &dst, route)) {
		return !diw_conf.own_users && diw_window_find(s, fd, &dst, NULL, route);
	}
	if (route->lasting)
		remember(s, to, route);
	return true;
}
