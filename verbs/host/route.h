/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's routes and interfaces: the source address for a destination, and the interface of a local address. */
#ifndef DIW_HOST_ROUTE_H
#define DIW_HOST_ROUTE_H

#include <net/if.h>

#include "base/addr.h"

/* Whether A is the unspecified address, 0.0.0.0 or ::. */
static inline bool diw_route_is_any(const struct diw_addr *a)
{
	static const uint8_t zero[4];

	return diw_addr_ip_is_zero(a) || (diw_addr_is_v4(a) && memcmp(a->ip + 12, zero, sizeof zero) == 0);
}

/* The name of the interface with this address. -EADDRNOTAVAIL: no interface has it. */
int diw_route_iface(const struct diw_addr *a, char name[IF_NAMESIZE]);
/* The address from which the kernel sends to DST, with port 0. A specified SRC is returned itself. -errno: no route. */
int diw_route_source(const struct diw_addr *dst, const struct diw_addr *src, struct diw_addr *found);

#endif
