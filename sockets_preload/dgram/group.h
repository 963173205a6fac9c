/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams to multicast groups and broadcast addresses, which may reach several sockets. */
#ifndef DIW_SOCKETS_GROUP_H
#define DIW_SOCKETS_GROUP_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

/* ---- group.c ---- */

/* Whether a datagram of S to DST may reach more than one socket. */
bool diw_group_is(const struct diw_sock *s, const struct diw_addr *dst);
/* Whether every socket that a datagram of S to the group or broadcast address DST will reach is known to be capable. If
 * not, ROUTE->away says whether one of them may be on another host. */
bool diw_group_find(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_route *route);
void diw_group_forked(void);

/* ---- home.c ---- */

/* Whether the kernel sends a datagram of S to DST by lo. Control data or flags may still change that. */
bool diw_home_has(const struct diw_sock *s, int fd, const struct diw_addr *dst);
/* The program has set an option of FD. */
void diw_home_option(int fd, int level, int name, const void *value, socklen_t len);

#pragma GCC visibility pop

#endif
