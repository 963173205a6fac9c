/* SPDX-License-Identifier: BSD-2-Clause */
/* Which socket a datagram of ours will reach. */
#ifndef DIW_SOCKETS_REACH_H
#define DIW_SOCKETS_REACH_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

/* The address and port that a datagram from S to the local address DST will have. False: no port can be had. */
bool diw_reach_source(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_addr *src);
/* Which interfaces the kernel may take it to have come by: so many. */
unsigned diw_reach_interfaces(int fd, const struct diw_addr *dst, uint32_t index[2]);

/* The kernel tracks connections here, so that a rule may send a datagram to another socket: the receiver has to have
 * heard of its sender then. */
extern _Atomic bool diw_reach_is_tracked;
static inline bool diw_reach_tells(void)
{
	return !DIW_LIKELY(!atomic_load_explicit(&diw_reach_is_tracked, memory_order_relaxed));
}
/* Looks whether it does, not more often than makes sense. */
bool diw_reach_look(void);
/* The datagram that MSG is came to the socket COOKIE. */
void diw_reach_came(uint64_t cookie, const struct msghdr *msg);

/* keys.c: a datagram from SRC has reached the socket COOKIE; and has one in the last seconds? */
void diw_reg_heard(uint64_t cookie, const struct diw_addr *src);
bool diw_reg_has_heard(uint64_t cookie, const struct diw_addr *src);

#pragma GCC visibility pop

#endif
