/* SPDX-License-Identifier: BSD-2-Clause */
/* A counter of a queue pair by its name, which ends a test that misspells it. */
#ifndef DIW_TESTS_TOOLS_COUNTER_H
#define DIW_TESTS_TOOLS_COUNTER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/diw.h"

static inline uint64_t counter(struct diw_qp *qp, const char *name)
{
	uint64_t v[256];
	int n = diw_qp_counters(qp, v, 256);

	for (int i = 0; i < n; i++)
		if (strcmp(diw_counter_name(i), name) == 0)
			return v[i];
	printf("no counter %s\n", name);
	exit(1);
}

#endif
