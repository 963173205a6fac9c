/* SPDX-License-Identifier: BSD-2-Clause */
/* The statistics of a figure that each round has measured. A round without the figure has NAN. */
#ifndef DIW_TOOLS_PERF_STAT_H
#define DIW_TOOLS_PERF_STAT_H

#include <stdbool.h>

#define PERF_MAX_ROUNDS 99

struct perf_stat {
	int n;                       /* rounds that have the figure; 0: only the median is set, to NAN */
	double min, median, max;
	double spread;               /* between the quartiles, as a part of the median */
	bool certain;                /* there are enough rounds, 6, for the next two */
	double low, high;            /* the 95 % confidence interval of the median */
};
struct perf_stat perf_stat_of(const double *v, int n);
/* Of the ratios V[i] / BASE[i]: both were measured in the same round, one after the other. */
struct perf_stat perf_ratio_of(const double *v, const double *base, int n);

#endif
