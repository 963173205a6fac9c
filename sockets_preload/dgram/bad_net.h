/* SPDX-License-Identifier: BSD-2-Clause */
/* DIWARP_IMPAIR and DIWARP_PCAP for datagrams of sockets. If one of them is set, all datagrams pass through this file's
 * calls. */
#ifndef DIW_SOCKETS_BAD_NET_H
#define DIW_SOCKETS_BAD_NET_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

extern bool diw_bad_net_on;                     /* set before the program's first call */
void diw_bad_net_init(void);
/* The process has a socket for datagrams, or for CONNECTIONS: errors in the settings are logged, and the capture
 * begins. */
void diw_bad_net_open(bool connections);
void diw_bad_net_forked(void);

/* Like the kernel's sendmsg(), which cuts the message to SIZE; 0: it does not. HEAD: bytes of a frame's header; 0:
 * plain. */
ssize_t diw_bad_net_sendmsg(int fd, const struct msghdr *msg, int flags, uint16_t size, size_t head);
/* Sends the held datagrams of the descriptors from FIRST to LAST now. Keeps errno. */
void diw_bad_net_flush(unsigned first, unsigned last);
/* Sends all held datagrams, and ends the thread that sends them. */
void diw_bad_net_settle(void);

/* Like the kernel's recvmsg() on the socket COOKIE, with room for a name. *LOST: the datagram that came is lost. */
ssize_t diw_bad_net_recvmsg(int fd, uint64_t cookie, struct msghdr *m, int flags, bool *lost);

struct diw_came { int fd; struct diw_addr src; };
/* A datagram has come; DROPPED is the reason why it was dropped, or NULL. */
void diw_bad_net_came(const struct diw_came *c, const uint8_t *data, size_t len, const char *dropped);

#pragma GCC visibility pop

#endif
