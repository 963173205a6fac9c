/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An in-memory network on virtual time, for tests of the whole stack: hosts are devices without threads or descriptors
 * (verbs/dev.h), datagrams travel through a queue ordered by delivery time, and the clock jumps from event to event.
 * Everything random comes from one seed, the keys and epochs of the library included (random.c).
 */
#ifndef TESTS_NET_NET_H
#define TESTS_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/rng.h"
#include "llp/dgram.h"
#include "verbs/dev.h"
#include "verbs/diw.h"

#define NET_MAX_HOSTS 8

struct net;
struct net_pkt;

/* Everything that a socket of ours sends, before the network does anything to it. */
typedef void (*net_tap_fn)(void *ctx, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *data,
			   uint32_t len);

struct net_host {
	struct diw_transport t;      /* first: the library hands back a pointer to it */
	struct net *net;
	struct diw_dev *dev;
	struct diw_addr addr;        /* port 0 */
	uint64_t deadline;
	bool moved;                  /* a stream of its own, since it looked */
};

struct net {
	uint64_t now;
	struct diw_rng rng;
	/* What it does to each datagram. */
	uint64_t latency, jitter;
	double loss, dup;
	double block;                /* chance that a send is refused, as a full socket does; it works again later */
	uint32_t mtu;                /* largest UDP payload that is not fragmented; told to senders */
	uint32_t max_queue;          /* datagrams that one socket's receive buffer holds */
	bool gro;                    /* deliver equal neighbours as one burst */
	net_tap_fn tap;
	void *tap_ctx;
	bool (*drop)(const uint8_t *data, uint32_t len);     /* which to lose, exactly */
	/* What it does to streams; latency, jitter and block are theirs, too. */
	uint32_t stream_window;      /* bytes on their way or unread; 0: drawn for each */
	double slow;                 /* chance that connecting takes up to 15 s */
	double accept_fails;         /* chance that a listener is out of descriptors */
	bool strict;                 /* hosts without sockets sleep until a stream moves or their deadline has come */
	bool verbose;                /* print every datagram */
	/* What happened. */
	uint64_t sent, delivered, lost, duplicated, overflowed, unroutable, blocked, stream_bytes;
	/* Private. */
	struct net_pkt **heap;
	size_t nheap, heap_cap;
	uint64_t seq;
	struct net_sock *socks;
	struct net_conn *conns;
	struct net_listener *listeners;
	uint16_t next_port;
	int nhosts;
	struct net_host host[NET_MAX_HOSTS];
};

struct net *net_new(uint64_t seed);
/* All devices must be closed. */
void net_free(struct net *net);
/* Opens a device 10.0.0.N of a host of its own. */
struct net_host *net_host_add(struct net *net);
/* A datagram from anywhere, real or not, that arrives at the time AT. Nothing is done to it on the way. */
void net_inject(struct net *net, const struct diw_addr *src, const struct diw_addr *dst, const void *data, uint32_t len,
		uint64_t at);
/* Datagrams that are due reach their sockets; hosts do nothing yet. */
void net_deliver(struct net *net);
/* All hosts do what is due now, until nothing is. */
void net_settle(struct net *net);
/* The clock jumps to the next event, if there is one not later than LIMIT, and hosts do what is due. False: there was
 * none; the clock is at LIMIT then (unless that is DIW_NEVER). */
bool net_step(struct net *net, uint64_t limit);
/* Steps for DURATION. */
void net_run(struct net *net, uint64_t duration);

struct diw_addr net_addr4(uint32_t ip, uint16_t port);

/* ---- Streams (stream.c) ---- */

/* Both ends of the stream between A and B see a reset; nothing of it arrives any more, which keep-alive finds out.
 * False: there is none. */
bool net_stream_reset(struct net *net, const struct diw_addr *a, const struct diw_addr *b);
bool net_stream_sever(struct net *net, const struct diw_addr *a, const struct diw_addr *b);
/* For net.c. */
int net_stream_connect(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream **s);
int net_stream_listen(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream_listener **l);
void net_streams_deliver(struct net *net);
uint64_t net_streams_next(const struct net *net);
void net_streams_free(struct net *net);

/* random.c: getrandom() of this program continues a sequence of that seed. */
void net_random_seed(uint64_t seed);

#endif
