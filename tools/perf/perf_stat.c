/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: medians of rounds, and how certain they are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/perf/perf_stat.h"

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return a < b ? -1 : a > b;
}

/* Between two values it interpolates. */
static double quantile(const double *sorted, int n, double q)
{
	double at = q * (n - 1);
	int i = (int)at;

	return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

/* How many values to leave out at each end of N sorted ones, so that the median of all values that the rounds could
 * have had is between the others with a probability of at least 95 %: with k left out, it is outside if at most k
 * of N tosses of a coin are heads, or at most k are tails (Hahn and Meeker, Statistical Intervals, section 5.2). No
 * distribution is assumed. Negative: N is too small. */
static int left_out(int n)
{
	double term = pow(0.5, n), outside = 0;
	int k = 0;

	for (; k < n; k++) {
		outside += 2 * term;
		if (outside > 0.05)
			break;
		term *= (double)(n - k) / (k + 1);
	}
	return k - 1;
}

struct perf_stat perf_stat_of(const double *v, int n)
{
	struct perf_stat s = { .n = 0, .median = NAN };
	double sorted[PERF_MAX_ROUNDS];
	int k;

	for (int i = 0; i < n; i++)
		if (!isnan(v[i]))
			sorted[s.n++] = v[i];
	if (!s.n)
		return s;
	qsort(sorted, (size_t)s.n, sizeof *sorted, by_value);
	s.min = sorted[0];
	s.max = sorted[s.n - 1];
	s.median = quantile(sorted, s.n, 0.5);
	s.spread = s.median > 0 ? (quantile(sorted, s.n, 0.75) - quantile(sorted, s.n, 0.25)) / s.median : 0;
	k = left_out(s.n);
	s.certain = k >= 0;
	if (s.certain) {
		s.low = sorted[k];
		s.high = sorted[s.n - 1 - k];
	}
	return s;
}

struct perf_stat perf_ratio_of(const double *v, const double *base, int n)
{
	double r[PERF_MAX_ROUNDS];

	for (int i = 0; i < n; i++)
		r[i] = base[i] > 0 ? v[i] / base[i] : NAN;
	return perf_stat_of(r, n);
}
