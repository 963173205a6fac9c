/* SPDX-License-Identifier: BSD-2-Clause */
/* For the programs that test libibverbs: one line a check, as tests/run counts them. */
#ifndef DIW_TESTS_OF_KIT_H
#define DIW_TESTS_OF_KIT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

#define CHECK(cond, what) check(cond, what, #cond, __LINE__)

static inline bool check(bool good, const char *what, const char *cond, int line)
{
	if (good) {
		printf("ok - %s\n", what);
	} else {
		printf("not ok - %s (line %d: %s; errno %d, %s)\n", what, line, cond, errno, strerror(errno));
		failed = 1;
	}
	fflush(stdout);
	return good;
}

/* A call that returns NULL and this errno. */
#define REFUSED(call, errnum) (errno = 0, !(call) && errno == (errnum))

static inline struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = NULL;

	for (int i = 0; list && list[i]; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			c = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!c) {
		printf("not ok - %s opens\n", name);
		exit(1);
	}
	return c;
}

static inline struct ibv_context *open_lo(void)
{
	return open_named("diw_lo");
}

#endif
