/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf group: one sender, 1 to 16 receivers behind one destination: a multicast group, a broadcast address, or, to
 * compare, one receiver's own address. The receivers are children of the sender, or have joined by TCP.
 *
 * The sender says by a control connection for each receiver (a JSON object a line):
 *   {to, port, op, size, mulpdu, stag}  -> {}           the receiver's queue pair is ready
 *   {stop}                              -> {msgs, bytes, cpu}
 * Each message has its number as immediate. A receiver sends the latest back whenever CREDIT more have come, and the
 * sender has no more than a window beyond the slowest under way.
 */
#ifndef DIW_TOOLS_PERF_GROUP_H
#define DIW_TOOLS_PERF_GROUP_H

#include "tools/perf/perf.h"

#define GROUP_RECEIVERS 16

struct group_plan {
	const char *host, *dev, *bind, *impair;      /* host: join it as a receiver */
	struct diw_addr to;
	uint16_t port;                               /* TCP; of a destination that is no group, UDP, too */
	uint64_t receivers[GROUP_RECEIVERS];
	int nreceivers;
	enum perf_op op;                             /* PERF_SEND, or PERF_WRITE: Write-Record */
	uint64_t size, mulpdu;
	double secs;
	bool json;
};

/* The command "diw perf group"; argv[0] is "group". */
int perf_group(int argc, char **argv);
/* A receiver, until its control connection ends. */
int group_sink_run(const struct group_plan *p, struct perf_ctl *ctl);
/* Errors are printed; TOOL_OK or TOOL_FAILED. */
int group_source_run(const struct group_plan *p, struct perf_ctl *ctl, int n);

/* A multicast group: the limited broadcast address is none. */
bool group_is_multicast(const struct diw_addr *a);
/* The queue pair of either end. */
int group_end_open(struct endpoint *e, const struct group_plan *p, const struct diw_addr *to, struct diw_qp_attr *attr);

#endif
