/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket that a datagram of ours will reach. */
#ifndef DIW_SOCKETS_REACH_H
#define DIW_SOCKETS_REACH_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

/* The source address and port of a datagram from S to the local address DST. False: no port is available. */
bool diw_reach_source(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_addr *src);
/* The interfaces by which the kernel may consider the datagram received. Returns their number. */
unsigned diw_reach_interfaces(int fd, const struct diw_addr *dst, uint32_t index[2]);

/* The kernel tracks connections, so a rule may redirect a datagram to another socket. The receiver must then have
 * received from the sender before. */
extern _Atomic bool diw_reach_is_tracked;
static inline bool diw_reach_tells(void)
{
	return !DIW_LIKELY(!atomic_load_explicit(&diw_reach_is_tracked, memory_order_relaxed));
}
/* Returns diw_reach_is_tracked. While it is false, reads the kernel's number of tracked connections, at most every
 * 100 ms. */
bool diw_reach_look(void);
/* The datagram MSG came to the socket COOKIE. */
void diw_reach_came(uint64_t cookie, const struct msghdr *msg);

/* keys.c: records that a datagram from SRC has reached the socket COOKIE; whether one has in the last seconds. */
void diw_reg_heard(uint64_t cookie, const struct diw_addr *src);
bool diw_reg_has_heard(uint64_t cookie, const struct diw_addr *src);

#pragma GCC visibility pop

#endif
