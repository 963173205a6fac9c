/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The byte seam: a reliable stream to one peer, which the network may cut at any byte. The caller holds the device's
 * lock, as in llp/dgram.h. No call blocks.
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
	/* Connecting stream. 0: it is up. -EAGAIN: not yet, wait until the descriptor is writable. -errno: it
	 * failed. */
	int (*connected)(struct diw_stream *s);
	/* Returns the bytes taken, at least 1. -EAGAIN: wait until the descriptor is writable. -errno: the stream has
	 * broken. The bytes are copied before the call returns. */
	ssize_t (*send)(struct diw_stream *s, const struct iovec *iov, int n);
	/* Returns the bytes received, which are in IOV in order. 0: the peer has ended its half. -EAGAIN: none are
	 * there. -errno: the stream has broken. */
	ssize_t (*recv)(struct diw_stream *s, const struct iovec *iov, int n);
	/* Payload bytes of one packet: RFC 5044's EMSS. */
	uint32_t (*emss)(struct diw_stream *s);
	int (*fd)(struct diw_stream *s);             /* -1: none (the simulator) */
	/* Whether the peer has ended its half, or the stream has broken, even if received data is unread. NULL:
	 * unknown. */
	bool (*hung_up)(struct diw_stream *s);
	/* Whether octets were not sent yet, since the peer does not read. NULL: unknown. */
	bool (*unsent)(struct diw_stream *s);
	/* Sets keepalive, user timeout, tos and congestion of A on an accepted stream. NULL: there is nothing to
	 * set. */
	int (*tune)(struct diw_stream *s, const struct diw_stream_attr *a);
	/* Ends this end's half: the peer receives an end of stream behind the bytes that were sent. */
	void (*shutdown)(struct diw_stream *s);
	/* ABORT: the peer receives a reset, and unsent bytes are lost. Otherwise all bytes that were sent still
	 * arrive. */
	void (*close)(struct diw_stream *s, bool abort);
};

struct diw_stream {
	const struct diw_stream_ops *ops;
	struct diw_addr local, peer;
	bool near;                   /* both ends are on this host. Connecting stream: the peer is a listener of this
				      * library; known when it is up */
	bool apart;                  /* set by the owner: no packet holds bytes of two sends */
	bool wakes;                  /* a stream without room calls its owner when it has some; the descriptor does not
				      * tell */
};

struct diw_stream_attr {
	struct diw_addr local;       /* ip zero: the kernel chooses, or for a listener, the wildcard; port 0: the kernel
				      * chooses */
	struct diw_addr peer;        /* connect only */
	bool self;                   /* connect only: to this stream itself, by the address of `peer`, at the port that
				      * it gets */
	bool keepalive;              /* with the next three, in seconds; 0: the system's default */
	unsigned keepalive_idle, keepalive_interval, keepalive_count;
	unsigned user_timeout_ms;    /* the stream ends if data is not acknowledged for this long; 0: the system's
				      * default */
	unsigned tos;                /* of IPv4, traffic class of IPv6 */
	char congestion[16];         /* TCP's congestion control algorithm; "": the system's default */
	int backlog;                 /* listen only */
	bool v6only;                 /* listen only: the wildcard accepts only IPv6 */
};

struct diw_stream_listener;

struct diw_stream_listener_ops {
	/* Returns the next connection. -EAGAIN: there is none. -EMFILE and similar: retry after a pause. */
	int (*accept)(struct diw_stream_listener *l, struct diw_stream **s);
	int (*fd)(struct diw_stream_listener *l);
	void (*close)(struct diw_stream_listener *l);
};

struct diw_stream_listener {
	const struct diw_stream_listener_ops *ops;
	struct diw_addr local;       /* the bound address */
};

/* llp/mark.c. The mark of the listener at this address; of a wildcard, ANY is its family: '4', '6', or '*' for both;
 * otherwise it is 0. Returns a descriptor, or -1. */
int diw_mark_open(const struct diw_addr *listener, char any);
bool diw_mark_is_there(const struct diw_addr *listener);

/* llp/tcp.c. A connect is only begun: see ops->connected. -errno as of connect(2), bind(2), listen(2). */
int diw_tcp_connect(const struct diw_stream_attr *attr, struct diw_stream **s);
int diw_tcp_listen(const struct diw_stream_attr *attr, struct diw_stream_listener **l);

#endif
