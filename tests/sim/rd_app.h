/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program of each node of rd_net.h: it sends numbered messages to the other nodes, and checks that those of each
 * node arrive once, whole and in order.
 */
#ifndef TESTS_SIM_RD_APP_H
#define TESTS_SIM_RD_APP_H

#include <stdio.h>

#include "base/clock.h"
#include "tests/sim/rd_net.h"

#define RDA_HDR 16u                  /* the smallest message, in octets */

/* Node A's state of its messages to node B, and of messages from B. */
struct rda_flow {
	uint32_t sent, acked, failed, came, life;    /* life: of the sender's process, as last seen by the receiver */
	uint32_t gone, forgot;       /* number of reports of the link that the sender is gone; had forgotten this end */
	uint32_t placed;             /* segments of which octets were in place when they came */
	uint64_t bytes;
	bool waits;                  /* waits until the link takes more to that node */
};

struct rda_app {
	struct rda_flow to[RDN_NODES], from[RDN_NODES];
	uint32_t life;
	uint32_t left;               /* messages to send */
	double refuses;              /* probability that it takes no segment */
	uint64_t stalled_to;
	bool refuses_from[RDN_NODES]; /* nodes whose segments it does not take */
};

extern struct rdn rda_net;
extern struct rda_app rda_app[RDN_NODES];
extern int rda_error;                /* of the segments that failed last */
extern const struct diw_link_up rda_up;

#define rda_must(cond, ...) do { if (!(cond)) { fprintf(stderr, __VA_ARGS__); \
	ck_abort_msg("seed %llu at %.3f ms", (unsigned long long)rda_net.seed, (double)rda_net.now / 1e6); } } while (0)

struct diw_rd_cfg rda_cfg(void);
int rda_below(uint32_t n);
/* Makes NODES nodes on a network without faults. */
void rda_begin(int nodes);
void rda_run(uint64_t ns);
/* The process of a node ends, and another one begins without its state. */
void rda_kill(int i);
void rda_revive(int i, const struct diw_rd_cfg *cfg);
/* 1: taken. 0: the link takes none until it reports room. */
int rda_send(int me, int to, uint32_t len);
/* Sends as many segments of LEN octets from A to B as the link takes, at most MOST. Returns how many. */
uint32_t rda_send_all(int a, int b, uint32_t most, uint32_t len);
struct rda_flow *rda_flow(int a, int b);
bool rda_all_ended(int nodes);
void rda_account(int nodes);

#endif
