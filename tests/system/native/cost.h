/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs that count time and memory of many peers share. */
#ifndef DIW_TESTS_COST_H
#define DIW_TESTS_COST_H

#include <stdio.h>
#include <time.h>

/* Seconds. */
static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Everything of this process that is in memory, the page of its counters included. */
static inline long resident(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[128];
	long kb = -1;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Rss: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024;
}

#endif
