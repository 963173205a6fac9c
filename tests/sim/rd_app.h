/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program of each node of tests/sim/rd_net.h: it sends numbered messages to the other nodes, and checks that those
 * of each node come once, whole and in order.
 */
#ifndef TESTS_SIM_RD_APP_H
#define TESTS_SIM_RD_APP_H

#include <stdio.h>

#include "base/clock.h"
#include "tests/sim/rd_net.h"

#define RDA_HDR 16u                  /* octets of a message at least */

/* What node A knows of its messages to node B, and of those that came from there. */
struct rda_flow {
	uint32_t sent, acked, failed, came, life;    /* `life`: of the sender, as the receiver saw it last */
	uint32_t gone;               /* so often the link said that the sender is */
	uint64_t bytes;
	bool waits;                  /* for the link to take more to that node */
};

struct rda_app {
	struct rda_flow to[RDN_NODES], from[RDN_NODES];
	uint32_t life;
	uint32_t left;               /* messages to send */
	double refuses;              /* chance that it takes nothing */
	uint64_t stalled_to;
	bool refuses_from[RDN_NODES]; /* nodes of whose segments it takes none */
};

extern struct rdn rda_net;
extern struct rda_app rda_app[RDN_NODES];
extern int rda_error;                /* of the segments that failed last */
extern const struct diw_link_up rda_up;

#define rda_must(cond, ...) do { if (!(cond)) { fprintf(stderr, __VA_ARGS__); \
	ck_abort_msg("seed %llu at %.3f ms", (unsigned long long)rda_net.seed, (double)rda_net.now / 1e6); } } while (0)

struct diw_rd_cfg rda_cfg(void);
int rda_below(uint32_t n);
/* NODES of them, on a network without faults. */
void rda_begin(int nodes);
void rda_run(uint64_t ns);
/* The process of a node ends, and another one begins that knows nothing of it. */
void rda_kill(int i);
void rda_revive(int i, const struct diw_rd_cfg *cfg);
/* 1: taken. 0: none will be until the link says so. */
int rda_send(int me, int to, uint32_t len);
/* All that node A may give to B: at most MOST segments of LEN octets; how many. */
uint32_t rda_send_all(int a, int b, uint32_t most, uint32_t len);
struct rda_flow *rda_flow(int a, int b);
bool rda_all_ended(int nodes);
void rda_account(int nodes);

#endif
