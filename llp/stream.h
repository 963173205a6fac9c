/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The byte seam: a reliable stream to one peer, cut wherever it pleases the network. Same locking as llp/dgram.h: the
 * caller holds the device's lock. Nothing here blocks.
 */
#ifndef DIW_LLP_STREAM_H
#define DIW_LLP_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/addr.h"

struct diw_stream;
struct diw_stream_attr;

struct diw_stream_ops {
	const char *name;
	/* Of diw_stream connecting: 0 it is up, -EAGAIN not yet (wait until the descriptor is writable), -errno it
	 * failed. */
	int (*connected)(struct diw_stream *s);
	/* Bytes taken, at least 1; -EAGAIN: wait until the descriptor is writable; -errno: the stream is dead. The
	 * content is copied before the call returns. */
	ssize_t (*send)(struct diw_stream *s, const struct iovec *iov, int n);
	/* Bytes received, into IOV in order; 0: the peer has ended its half; -EAGAIN none now; -errno. */
	ssize_t (*recv)(struct diw_stream *s, const struct iovec *iov, int n);
	/* Payload bytes of one packet: RFC 5044's EMSS. */
	uint32_t (*emss)(struct diw_stream *s);
	int (*fd)(struct diw_stream *s);             /* -1: the simulator's have none */
	/* Whether the peer has ended its half, or it broke, whatever is still to be received. NULL: unknown. */
	bool (*hung_up)(struct diw_stream *s);
	/* Keepalive, user timeout, tos and congestion of A, for one that was accepted. NULL: nothing to set. */
	int (*tune)(struct diw_stream *s, const struct diw_stream_attr *a);
	/* Nothing more will be sent: the peer receives an end of stream behind what was sent. */
	void (*shutdown)(struct diw_stream *s);
	/* ABORT: the peer sees a reset, and what was not sent yet is lost. Else what was sent still arrives. */
	void (*close)(struct diw_stream *s, bool abort);
};

struct diw_stream {
	const struct diw_stream_ops *ops;
	struct diw_addr local, peer;
	bool apart;                  /* set by its owner: no packet holds bytes of two sends */
};

struct diw_stream_attr {
	struct diw_addr local;       /* ip zero: the kernel chooses, or the wildcard for a listener; port 0 likewise */
	struct diw_addr peer;        /* connect only */
	bool self;                   /* connect only: to ourselves, by the address of peer, at whichever port */
	bool keepalive;              /* with the next three; seconds, 0: the system's */
	unsigned keepalive_idle, keepalive_interval, keepalive_count;
	unsigned user_timeout_ms;    /* unacknowledged data for so long ends the stream; 0: the system's */
	unsigned tos;                /* of IPv4, traffic class of IPv6 */
	char congestion[16];         /* TCP's algorithm; "": the system's */
	int backlog;                 /* listen only */
	bool v6only;                 /* listen only: the wildcard is for IPv6 alone */
};

struct diw_stream_listener;

struct diw_stream_listener_ops {
	/* The next connection; -EAGAIN none; -EMFILE and the like: wait a moment. */
	int (*accept)(struct diw_stream_listener *l, struct diw_stream **s);
	int (*fd)(struct diw_stream_listener *l);
	void (*close)(struct diw_stream_listener *l);
};

struct diw_stream_listener {
	const struct diw_stream_listener_ops *ops;
	struct diw_addr local;       /* as bound */
};

/* llp/tcp.c. connect begins: see ops->connected. -errno as connect(2), bind(2), listen(2). */
int diw_tcp_connect(const struct diw_stream_attr *attr, struct diw_stream **s);
int diw_tcp_listen(const struct diw_stream_attr *attr, struct diw_stream_listener **l);

#endif
