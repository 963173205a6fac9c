/* SPDX-License-Identifier: BSD-2-Clause */
/* For test programs that end at the first call that fails. */
#ifndef DIW_TESTS_MUST_H
#define DIW_TESTS_MUST_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* RC: of a call of the library, 0 or more, or -errno. */
static inline void must(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(-rc));
		exit(1);
	}
}
#define MUST(call) must(call, #call)

#endif
