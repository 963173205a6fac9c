/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that reach more than one socket: to multicast groups and to broadcast addresses. */
#ifndef DIW_SOCKETS_GROUP_H
#define DIW_SOCKETS_GROUP_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

/* ---- group.c ---- */

/* What S sends to DST reaches more than one socket. */
bool diw_group_is(const struct diw_sock *s, const struct diw_addr *dst);
/* Is every socket known to be capable that a datagram of S to DST, which is such an address, will reach? If not,
 * ROUTE->away says whether one of them may be on another host. */
bool diw_group_find(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_route *route);
void diw_group_forked(void);

/* ---- home.c ---- */

/* A netlink socket of the network namespace NETNS; -1. */
int diw_netlink_open(int protocol, uint64_t netns);
/* The kernel sends a datagram of S to DST by lo, unless its control data or its flags say otherwise. */
bool diw_home_has(const struct diw_sock *s, int fd, const struct diw_addr *dst);
/* The program has set an option of FD. */
void diw_home_option(int fd, int level, int name, const void *value, socklen_t len);

#pragma GCC visibility pop

#endif
