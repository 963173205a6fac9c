/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the io_uring dgram. */
#ifndef DIW_LLP_URING_H
#define DIW_LLP_URING_H

#include <errno.h>
#include <liburing.h>
#include <sys/types.h>

#include "llp/udp.h"

#define DIW_URING_BUFS 8u            /* super-buffers that may wait in the ring, a socket; a power of two */
#define DIW_URING_NAME 32u           /* room for a sockaddr_in6 that leaves control messages aligned */
#define DIW_URING_CONTROL sizeof(((struct diw_udp *)0)->rx_control)
#define DIW_URING_DATA (sizeof(struct io_uring_recvmsg_out) + DIW_URING_NAME + DIW_URING_CONTROL)
#define DIW_URING_BUF ((DIW_URING_DATA + DIW_UDP_RX_ROOM + 4095u) & ~4095u)

/* One multishot receive: of the socket, or of the hot peer's. */
struct diw_uring_rx {
	struct io_uring_buf_ring *ring;
	uint8_t *bufs;
	bool file;                   /* the socket is registered */
	bool armed;
	const void *armer;           /* the thread whose time the kernel takes to receive */
	uint64_t armer_ns;           /* its last look */
	unsigned strangers;          /* looks by other threads since */
};

struct diw_uring {
	struct diw_udp u;
	struct io_uring ring;
	struct diw_uring_rx rx[2];
	struct msghdr rx_shape;      /* room for names and control messages */
	uint8_t *map;                /* buffer rings and buffers of both */
	struct diw_uring_rx *held;   /* whose buffer the caller has until the next recv */
	uint16_t held_bid;
	pid_t pid;                   /* a child after fork shares the ring, and must not touch it */
};

enum { DIW_URING_TX = 2, DIW_URING_CANCEL = 3 };     /* user_data; below: of rx[] */

/* ---- The ring itself (llp/uring_open.c) ---- */

int diw_uring_setup(struct diw_uring *r);            /* for the socket that is open; -errno */
void diw_uring_end(struct diw_uring *r);             /* frees what setup made; no receive is outstanding */
int diw_uring_add_file(struct diw_uring *r, int i, int fd);
/* Buffer BID is the kernel's again. */
void diw_uring_add_buf(struct diw_uring_rx *rx, unsigned bid);

/* ---- System calls and what they bring (llp/uring_sys.c) ---- */

/* Submit the one entry that was prepared. 0, or -errno and the entry is gone. */
int diw_sys_ring_submit(struct diw_uring *r);
/* The oldest completion, NULL none; io_uring_cqe_seen() takes it. */
struct io_uring_cqe *diw_sys_ring_peek(struct diw_uring *r);

#endif
