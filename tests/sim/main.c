/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>

#include "tests/sim/sim.h"

int main(void)
{
	const char *seed = getenv("SIM_SEED"), *seeds = getenv("SIM_SEEDS");
	SRunner *sr;
	int failed;

	unsetenv("DIWARP_IMPAIR");                       /* the scenarios bring their own */
	if (seed) {
		sr = srunner_create(suite_mix(atoi(seed), atoi(seed) + 1));
		srunner_set_fork_status(sr, CK_NOFORK);
	} else {
		sr = srunner_create(suite_records());
		srunner_add_suite(sr, suite_stack());
		srunner_add_suite(sr, suite_mix(0, seeds ? atoi(seeds) : 300));
	}
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
