/* SPDX-License-Identifier: BSD-2-Clause */
/* What DIWARP_IMPAIR and DIWARP_PCAP do with datagrams. While one of them is set no datagram takes a shorter way. */
#ifndef DIW_SOCKETS_BAD_NET_H
#define DIW_SOCKETS_BAD_NET_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

extern bool diw_bad_net_on;                     /* from before the program's first call on */
void diw_bad_net_init(void);
/* The process has a socket for datagrams, or for connections: what is refused is told, and the capture begins. */
void diw_bad_net_open(bool connections);
void diw_bad_net_forked(void);

/* As sendmsg() of the kernel, which cuts it to SIZE; 0: it does not. HEAD: bytes of a frame's header; 0: plain. */
ssize_t diw_bad_net_sendmsg(int fd, const struct msghdr *msg, int flags, uint16_t size, size_t head);
/* What is held back of the descriptors from FIRST to LAST is sent now. Keeps errno. */
void diw_bad_net_flush(unsigned first, unsigned last);
/* All of it, and the thread that would have sent it has ended. */
void diw_bad_net_settle(void);

/* As recvmsg() of the kernel on the socket COOKIE, with room for a name; *LOST: the network has lost what came. */
ssize_t diw_bad_net_recvmsg(int fd, uint64_t cookie, struct msghdr *m, int flags, bool *lost);

struct diw_came { int fd; struct diw_addr src; };
/* It has come, and was DROPPED for this reason, or NULL. */
void diw_bad_net_came(const struct diw_came *c, const uint8_t *data, size_t len, const char *dropped);

#pragma GCC visibility pop

#endif
