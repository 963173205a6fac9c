/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An in-memory network on virtual time, for tests of the whole stack. Hosts are devices without threads or descriptors
 * (verbs/dev.h). Datagrams are delivered in order of time, and the clock jumps from event to event. All random numbers
 * come from one seed, including the library's keys and epochs (random.c).
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

/* Called for every datagram that a socket of ours sends, before the network changes it. */
typedef void (*net_tap_fn)(void *ctx, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *data,
			   uint32_t len);

struct net_host {
	struct diw_transport t;      /* must be first: the library returns a pointer to it */
	struct net *net;
	struct diw_dev *dev;
	struct diw_addr addr;        /* port 0 */
	uint64_t deadline;
	double loss;                 /* of datagrams to it */
	uint64_t link_until;         /* when the datagrams that it has sent have left its link */
	bool moved;                  /* a stream of its own has changed since its last check */
};

struct net {
	uint64_t now;
	struct diw_rng rng;
	/* The treatment of datagrams. */
	uint64_t latency, jitter;
	double loss, dup;
	uint64_t rate;               /* octets a second of each host's link; 0: no limit. Sockets are full while 100 us
				      * of datagrams wait for the link */
	double block;                /* probability that a send is refused, as by a full socket; a later one succeeds */
	uint32_t mtu;                /* largest UDP payload without fragments; reported to senders */
	uint32_t max_queue;          /* datagrams that a socket's receive buffer holds */
	bool gro;                    /* deliver consecutive datagrams of the same size as one burst */
	net_tap_fn tap;
	void *tap_ctx;
	bool (*drop)(const uint8_t *data, uint32_t len);     /* selects datagrams to lose */
	/* The treatment of streams; latency, jitter and block apply, too. */
	uint32_t stream_window;      /* bytes in flight or unread; 0: random for each */
	double slow;                 /* probability that connecting takes up to 15 s */
	double accept_fails;         /* probability that a listener has no descriptor */
	bool strict;                 /* hosts without sockets sleep until a stream changes or their deadline has come */
	bool verbose;                /* print every datagram */
	/* Counts. */
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
/* Opens the device 10.0.0.N of a new host. */
struct net_host *net_host_add(struct net *net);
/* Injects a datagram from any address, real or not, which arrives at the time AT. The network does not change it. */
void net_inject(struct net *net, const struct diw_addr *src, const struct diw_addr *dst, const void *data, uint32_t len,
		uint64_t at);
/* Delivers datagrams that are due to their sockets. Hosts do nothing yet. */
void net_deliver(struct net *net);
/* Runs all hosts until none has work that is due. */
void net_settle(struct net *net);
/* Advances the clock to the next event, if that is not later than LIMIT, and runs the hosts. False: there was none, and
 * the clock is at LIMIT (unless that is DIW_NEVER). */
bool net_step(struct net *net, uint64_t limit);
/* Runs for DURATION. */
void net_run(struct net *net, uint64_t duration);

struct diw_addr net_addr4(uint32_t ip, uint16_t port);

/* ---- Streams (stream.c) ---- */

/* Resets both ends of the stream between A and B; no more data arrives, which keep-alive notices. False: there is no
 * such stream. */
bool net_stream_reset(struct net *net, const struct diw_addr *a, const struct diw_addr *b);
bool net_stream_sever(struct net *net, const struct diw_addr *a, const struct diw_addr *b);
/* For net.c. */
int net_stream_connect(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream **s);
int net_stream_listen(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream_listener **l);
void net_streams_deliver(struct net *net);
uint64_t net_streams_next(const struct net *net);
void net_streams_free(struct net *net);

/* random.c: getrandom() of this program returns a sequence that the seed determines. */
void net_random_seed(uint64_t seed);

#endif
