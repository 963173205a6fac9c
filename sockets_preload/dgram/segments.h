/* SPDX-License-Identifier: BSD-2-Clause */
/* Several messages in one buffer: what the kernel is to cut (UDP_SEGMENT), and what it has put together (UDP_GRO). */
#ifndef DIW_SOCKETS_SEGMENTS_H
#define DIW_SOCKETS_SEGMENTS_H

#include <netinet/udp.h>

#include "sockets_preload/dgram/bad_net.h"
#include "sockets_preload/preload.h"
#include "sockets_preload/stage.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#pragma GCC visibility push(hidden)

/* ---- gso.c ---- */

struct diw_burst {
	int fd, flags;
	const struct diw_sock *s;
	const struct diw_route *route;
	bool marked;                         /* it may come back by the error queue */
	uint16_t size;                       /* of each message but the last */
};

/* The LEN bytes of MSG leave, each message in a frame. As sendmsg(); EMSGSIZE also if the frames do not fit. */
ssize_t diw_gso_send(const struct diw_burst *b, const struct msghdr *msg, size_t len);

/* ---- gro.c ---- */

/* Messages of one size, but for the last, which may be shorter: no others can be told by one call. */
struct diw_gro {
	const struct iovec *piece;
	unsigned n;
	size_t len;                          /* of all */
};

/* The size of each datagram of what came in M, but the last; 0: it is one. */
size_t diw_gro_size(struct msghdr *m);
/* The kernel is to write control data behind the slot MEM of a stage. */
void diw_gro_ask(struct msghdr *m, uint8_t *mem);
/* The N bytes in MEM came, and what is in *M; they are captured if CAME is not NULL. False: all of it is damaged.
 * Otherwise the messages are *G, and the control data is that of ASKED, as the kernel would have made it for them. */
bool diw_gro_undo(const struct diw_keys *k, uint8_t *mem, size_t n, const struct msghdr *asked, struct msghdr *m,
		  bool peek, const struct diw_came *came, struct diw_gro *g);
/* The messages as far as there is room: so many bytes. */
size_t diw_gro_fill(const struct iovec *iov, size_t n, const struct diw_gro *g);

#pragma GCC visibility pop

#endif
