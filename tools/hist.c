/* SPDX-License-Identifier: BSD-2-Clause */
/* A logarithmic histogram: 128 buckets for each power of two, so a quantile is exact to 0.8 % over the whole range. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

#define SUB_BITS 7
#define SUB (1u << SUB_BITS)
#define BUCKETS ((64 - SUB_BITS + 1) * SUB)
_Static_assert(HIST_BINS == BUCKETS / (SUB / 4), "a bin is a quarter of SUB buckets");

int hist_init(struct hist *h)
{
	h->count = calloc(BUCKETS, sizeof *h->count);
	if (!h->count)
		return -ENOMEM;
	hist_reset(h);
	return 0;
}

void hist_fini(struct hist *h)
{
	free(h->count);
	h->count = NULL;
}

void hist_reset(struct hist *h)
{
	memset(h->count, 0, BUCKETS * sizeof *h->count);
	h->n = h->sum = h->max = 0;
	h->min = UINT64_MAX;
}

/* Each value below 2 * SUB has its own bucket. A larger value's bucket is chosen by the SUB_BITS bits behind its
 * leading one. */
static unsigned hist_bucket(uint64_t v)
{
	unsigned shift;

	if (v < 2 * SUB)
		return (unsigned)v;
	shift = 63u - (unsigned)__builtin_clzll(v) - SUB_BITS;
	return (shift << SUB_BITS) + (unsigned)(v >> shift);
}

static double bucket_middle(unsigned b)
{
	unsigned shift;

	if (b < 2 * SUB)
		return b;
	shift = (b >> SUB_BITS) - 1;
	return ((double)(b - (shift << SUB_BITS)) + 0.5) * (double)(1ull << shift);
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->count[hist_bucket(ns)]++;
	h->n++;
	h->sum += ns;
	if (ns < h->min)
		h->min = ns;
	if (ns > h->max)
		h->max = ns;
}

void hist_merge(struct hist *to, const struct hist *from)
{
	for (unsigned b = 0; b < BUCKETS; b++)
		to->count[b] += from->count[b];
	to->n += from->n;
	to->sum += from->sum;
	to->min = from->min < to->min ? from->min : to->min;
	to->max = from->max > to->max ? from->max : to->max;
}

static uint64_t bucket_begin(unsigned b)
{
	unsigned shift;

	if (b < 2 * SUB)
		return b;
	shift = (b >> SUB_BITS) - 1;
	return (uint64_t)(b - (shift << SUB_BITS)) << shift;
}

int hist_bins(const struct hist *h, struct hist_bin bins[HIST_BINS])
{
	int n = 0;

	for (unsigned b = 0; b < BUCKETS; b += SUB / 4) {
		struct hist_bin bin = { bucket_begin(b), bucket_begin(b + SUB / 4), 0 };

		for (unsigned i = 0; i < SUB / 4; i++)
			bin.count += h->count[b + i];
		if (bin.count)
			bins[n++] = bin;
	}
	return n;
}

double hist_quantile(const struct hist *h, double q)
{
	uint64_t seen = 0, want = (uint64_t)(q * (double)h->n);
	double v;

	if (!h->n)
		return 0;
	if (want >= h->n)
		want = h->n - 1;
	for (unsigned b = 0; b < BUCKETS; b++) {
		seen += h->count[b];
		if (seen > want) {
			v = bucket_middle(b);
			return v < (double)h->min ? (double)h->min : v > (double)h->max ? (double)h->max : v;
		}
	}
	return (double)h->max;
}
