/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the suites of suites.h. */
#include <check.h>
#include <stdlib.h>

#include "tests/unit/unit.h"

int main(void)
{
	SRunner *sr = srunner_create(NULL);
	int failed;

#define X(name) srunner_add_suite(sr, suite_##name());
#include "tests/unit/suites.h"
#undef X
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
