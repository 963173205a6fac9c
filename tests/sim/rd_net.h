/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network of reliable-datagram links on virtual time. Each node is a link over a socket. All datagrams to a node may
 * pass one bottleneck (rate, queue). A seed decides which are lost, repeated, delayed and blocked.
 */
#ifndef TESTS_SIM_RD_NET_H
#define TESTS_SIM_RD_NET_H

#include <check.h>

#include "base/rng.h"
#include "llp/link.h"

#define RDN_NODES 66

struct rdn_pkt;
struct rdn;

struct rdn_node {
	struct rdn *net;
	struct diw_dgram d;
	struct diw_counters c;
	struct diw_link *l;          /* NULL: the process has ended */
	struct rdn_pkt *head, *tail, *lent;
	struct diw_dgram_burst given;
	struct iovec iov;
	uint64_t busy_until;         /* of the bottleneck in front of it */
	uint64_t bytes, queue_max, queue_sum, queue_n;
	uint64_t deaf_from, deaf_to; /* no datagram reaches it in this time */
	uint64_t late;               /* extra latency of its datagrams */
	uint64_t rcvbuf, ready_at;   /* octets that its socket holds; when its processor takes the next datagram */
	uint64_t behind;             /* how far its clock is behind the time */
	uint64_t clock_at;           /* its next poll has read the clock then; 0: polls are without delay */
	uint64_t overruns, bursts;   /* bursts: those it has sent; over UDP each is a system call */
	void *app;
};

struct rdn {
	uint64_t now, seed, latency, jitter, queue;  /* queue: ns of data that the bottleneck holds */
	double loss, dup, rate;      /* rate: octets a ns; 0: no bottleneck */
	bool one_host;               /* datagrams have no CRC, and come in place if the layer above has a place */
	uint32_t rcvbuf;             /* of a socket; 0: unlimited */
	uint64_t service;            /* time that the receiver needs for a datagram */
	struct diw_rng rng;
	struct rdn_pkt **heap;
	size_t n, cap;
	uint64_t order, sent, lost, dropped;
	int nodes;
	struct rdn_node node[RDN_NODES];
	void (*tap)(struct rdn *net, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p,
		    uint32_t len);
	void *ctx;
};

void rdn_init(struct rdn *net, uint64_t seed);
void rdn_free(struct rdn *net);
struct diw_addr rdn_addr(int i);
void rdn_start(struct rdn *net, int i, const struct diw_rd_cfg *cfg, const struct diw_link_up *up);
void rdn_stop(struct rdn *net, int i);
void rdn_inject(struct rdn *net, const struct diw_addr *src, const struct diw_addr *dst, const void *data, uint32_t len,
		uint64_t at);
/* Advances to the next event. False: there is none before LIMIT, to which the time is set. */
bool rdn_step(struct rdn *net, uint64_t limit);

Suite *suite_rd_mix(int first, int last);      /* rd_mix.c */
Suite *suite_rd(void);                         /* rd_exact.c, and the files below */
TCase *tcase_rd_hostile(void);                 /* rd_hostile.c */
TCase *tcase_rd_fair(void);                    /* rd_fair.c */
TCase *tcase_rd_crowd(void);                   /* rd_crowd.c */
TCase *tcase_rd_views(void);                    /* rd_views.c */
TCase *tcase_rd_waiting(void);                  /* rd_waiting.c */
TCase *tcase_rd_forget(void);                  /* rd_forget.c */

#endif
