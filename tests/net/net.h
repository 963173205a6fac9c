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
	bool verbose;                /* print every datagram */
	/* What happened. */
	uint64_t sent, delivered, lost, duplicated, overflowed, unroutable, blocked;
	/* Private. */
	struct net_pkt **heap;
	size_t nheap, heap_cap;
	uint64_t seq;
	struct net_sock *socks;
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

/* random.c: getrandom() of this program continues a sequence of that seed. */
void net_random_seed(uint64_t seed);

#endif
