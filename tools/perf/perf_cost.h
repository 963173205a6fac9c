/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf setup, mr and post: the cost of single calls, of one process. Each row is one act upon one kind of object:
 * how often it was measured, and how long it took.
 */
#ifndef DIW_TOOLS_PERF_COST_H
#define DIW_TOOLS_PERF_COST_H

#include "tools/perf/perf.h"

enum cost_object { COST_CQ, COST_QP, COST_CONN, COST_OBJECTS };

struct cost_plan {
	enum cost_object objects[COST_OBJECTS];
	enum perf_qp qps[PERF_RAW];
	uint64_t depths[PERF_VALUES], sizes[PERF_VALUES], batches[PERF_VALUES];
	int nobjects, nqps, ndepths, nsizes, nbatches;
	const char *dev, *bind;
	struct diw_addr local;       /* of --bind, with port 0 */
	double secs;                 /* of all rows of one measurement together */
	bool json;
};

/* One row. A member that does not apply is 0. */
struct cost_row {
	const char *test, *object, *qp, *act;
	uint64_t depth, size, batch, count;
	double p50_ns, p99_ns, mean_ns;
	double user_ns;              /* user time of each */
	double goal_ns;              /* that the user time should not exceed */
};

/* The commands "diw perf setup", "mr" and "post"; argv[0] is the name. */
int perf_cost(int argc, char **argv);
bool perf_is_cost(const char *name);

int cost_setup_run(const struct cost_plan *p);
int cost_mr_run(const struct cost_plan *p);
int cost_post_run(const struct cost_plan *p);

void cost_print(const struct cost_plan *p, const struct cost_row *r);
/* Fills the times of R from a histogram, and prints. */
void cost_print_hist(const struct cost_plan *p, struct cost_row *r, const struct hist *h);
int cost_hists_init(struct hist *h, int n);          /* prints errors */
void cost_hists_fini(struct hist *h, int n);
/* The attributes of a queue pair of the plan's address, for endpoint_qp(). */
void cost_qp_attr(const struct cost_plan *p, enum perf_qp qp, struct diw_qp_attr *attr);

#endif
