/* SPDX-License-Identifier: BSD-2-Clause */
/* Several messages in one buffer: buffers that the kernel cuts (UDP_SEGMENT), and buffers that it has put together
 * (UDP_GRO). */
#ifndef DIW_SOCKETS_SEGMENTS_H
#define DIW_SOCKETS_SEGMENTS_H

#include <netinet/udp.h>

#include "sockets_preload/dgram/bad_net.h"
#include "sockets_preload/preload.h"
#include "sockets_preload/stage.h"

#pragma GCC visibility push(hidden)

/* ---- gso.c ---- */

struct diw_burst {
	int fd, flags;
	const struct diw_sock *s;
	const struct diw_route *route;
	bool marked;                         /* the message may come back through the error queue */
	uint16_t size;                       /* size of each message except the last */
};

/* Sends the LEN bytes of MSG, each message in a frame. Returns as sendmsg() does; EMSGSIZE also if the frames do not
 * fit. */
ssize_t diw_gso_send(const struct diw_burst *b, const struct msghdr *msg, size_t len);

/* ---- gro.c ---- */

/* Messages that one receive call returns: all have one size, but the last may be shorter. */
struct diw_gro {
	const struct iovec *piece;
	unsigned n;
	size_t len;                          /* of all messages */
};

/* Size of each datagram in M except the last; 0: there is one datagram. */
size_t diw_gro_size(struct msghdr *m);
/* Lets the kernel write control data behind the slot MEM of a stage. */
void diw_gro_ask(struct msghdr *m, uint8_t *mem);
/* N bytes have come to MEM, with *M. They are captured if CAME is not NULL. False: all of them are damaged. Otherwise
 * *G is set to the messages, and M's control data to that of ASKED, as the kernel would have made it for these
 * messages. */
bool diw_gro_undo(const struct diw_keys *k, uint8_t *mem, size_t n, const struct msghdr *asked, struct msghdr *m,
		  bool peek, const struct diw_came *came, struct diw_gro *g);
/* Copies the messages as far as there is room. Returns the number of bytes. */
size_t diw_gro_fill(const struct iovec *iov, size_t n, const struct diw_gro *g);

#pragma GCC visibility pop

#endif
