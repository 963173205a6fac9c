/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf group: one sender, and 1 to 16 receivers behind one destination: a multicast group, a broadcast address, or
 * for comparison a single receiver's address. The receivers are children of the sender, or have joined by TCP.
 *
 * The sender has a control connection to each receiver (a JSON object a line):
 *   {to, port, op, size, mulpdu, stag}  -> {}           the receiver's queue pair is ready
 *   {stop}                              -> {msgs, bytes, cpu}
 * The immediate of each message is its number. A receiver reports the latest number after each CREDIT messages. The
 * sender has at most a window of messages in flight beyond the slowest receiver.
 */
#ifndef DIW_TOOLS_PERF_GROUP_H
#define DIW_TOOLS_PERF_GROUP_H

#include "tools/perf/perf.h"

#define GROUP_RECEIVERS 16

struct group_plan {
	const char *host, *dev, *bind, *impair;      /* host: join its sender as a receiver */
	struct diw_addr to;
	uint16_t port;                               /* of TCP; for a destination that is no group, of UDP, too */
	uint64_t receivers[GROUP_RECEIVERS];
	int nreceivers;
	enum perf_op op;                             /* PERF_SEND, or PERF_WRITE: Write-Record */
	uint64_t sizes[PERF_VALUES];
	int nsizes;
	uint64_t size, mulpdu;                       /* size: of the present row */
	double *one;                                 /* sum of the row of one receiver, bytes a second; 0: none yet */
	double secs;
	bool json;
};

/* The command "diw perf group"; argv[0] is "group". */
int perf_group(int argc, char **argv);
/* Runs a receiver until its control connection ends. */
int group_sink_run(const struct group_plan *p, struct perf_ctl *ctl);
/* Prints errors; TOOL_OK or TOOL_FAILED. */
int group_source_run(const struct group_plan *p, struct perf_ctl *ctl, int n);

/* Whether it is a multicast group; the limited broadcast address is none. */
bool group_is_multicast(const struct diw_addr *a);
const char *group_mode(const struct diw_addr *to);   /* "group", "broadcast" or "unicast" */
/* Opens the queue pair of either end. */
int group_end_open(struct endpoint *e, const struct group_plan *p, const struct diw_addr *to, struct diw_qp_attr *attr);

#endif
