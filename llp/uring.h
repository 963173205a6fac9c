/* SPDX-License-Identifier: BSD-2-Clause */
/* Definitions that the files of the io_uring dgram share. */
#ifndef DIW_LLP_URING_H
#define DIW_LLP_URING_H

#include <errno.h>
#include <liburing.h>
#include <sys/types.h>

#include "llp/udp.h"

#define DIW_URING_BUFS 8u            /* super-buffers of a socket that may wait in the ring; a power of two */
#define DIW_URING_NAME 32u           /* room for a sockaddr_in6, rounded so that control messages are aligned */
#define DIW_URING_CONTROL sizeof(((struct diw_udp *)0)->rx_control)
#define DIW_URING_DATA (sizeof(struct io_uring_recvmsg_out) + DIW_URING_NAME + DIW_URING_CONTROL)
#define DIW_URING_BUF ((DIW_URING_DATA + DIW_UDP_RX_ROOM + 4095u) & ~4095u)

/* A multishot receive: of the socket, or of the hot peer's socket. */
struct diw_uring_rx {
	struct io_uring_buf_ring *ring;
	uint8_t *bufs;
	bool file;                   /* the socket is registered */
	bool armed;
	const void *armer;           /* the thread in whose context the kernel receives */
	uint64_t armer_ns;           /* time of its last poll */
	unsigned strangers;          /* polls by other threads since then */
};

struct diw_uring {
	struct diw_udp u;
	struct io_uring ring;
	struct diw_uring_rx rx[2];
	struct msghdr rx_shape;      /* the room for names and control messages */
	uint8_t *map;                /* buffer rings and buffers of both receives */
	struct diw_uring_rx *held;   /* the receive whose buffer the caller has until the next recv */
	uint16_t held_bid;
	pid_t pid;                   /* a child after fork(2) shares the ring, and must not use it */
};

enum { DIW_URING_TX = 2, DIW_URING_CANCEL = 3 };     /* user_data; smaller values are indexes of rx[] */

/* ---- The ring (llp/uring_open.c) ---- */

int diw_uring_setup(struct diw_uring *r);            /* for the open socket; -errno */
void diw_uring_end(struct diw_uring *r);             /* frees the resources of setup; no receive may be outstanding */
int diw_uring_add_file(struct diw_uring *r, int i, int fd);
/* Returns buffer BID to the kernel. */
void diw_uring_add_buf(struct diw_uring_rx *rx, unsigned bid);

/* ---- System calls and completions (llp/uring_sys.c) ---- */

/* Submits the prepared entry. 0, or -errno: the entry has been withdrawn. */
int diw_sys_ring_submit(struct diw_uring *r);
/* The oldest completion; NULL: none. io_uring_cqe_seen() removes it. */
struct io_uring_cqe *diw_sys_ring_peek(struct diw_uring *r);

#endif
