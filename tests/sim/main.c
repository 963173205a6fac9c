/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the simulator: all scenarios, or the one seed that SIM_SEED names. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rc.h"
#include "tests/sim/rd_net.h"

int main(void)
{
	const char *seed = getenv("SIM_SEED"), *seeds = getenv("SIM_SEEDS");
	SRunner *sr;
	int failed;

	unsetenv("DIWARP_IMPAIR");                       /* the scenarios set their own */
	if (seed && strncmp(seed, "rc", 2) == 0) {
		sr = srunner_create(suite_rc_mix(atoi(seed + 2), atoi(seed + 2) + 1));
		srunner_set_fork_status(sr, CK_NOFORK);
	} else if (seed && strncmp(seed, "rd", 2) == 0) {
		sr = srunner_create(suite_rd_mix(atoi(seed + 2), atoi(seed + 2) + 1));
		srunner_set_fork_status(sr, CK_NOFORK);
	} else if (seed && seed[0] == 'g') {
		sr = srunner_create(suite_group(atoi(seed + 1), atoi(seed + 1) + 1));
		srunner_set_fork_status(sr, CK_NOFORK);
	} else if (seed) {
		sr = srunner_create(suite_mix(atoi(seed), atoi(seed) + 1));
		srunner_set_fork_status(sr, CK_NOFORK);
	} else {
		sr = srunner_create(suite_records());
		srunner_add_suite(sr, suite_stack());
		srunner_add_suite(sr, suite_uc());
		srunner_add_suite(sr, suite_arbiter());
		srunner_add_suite(sr, suite_mix(0, seeds ? atoi(seeds) : 300));
		srunner_add_suite(sr, suite_rc());
		srunner_add_suite(sr, suite_rc_mix(0, seeds ? atoi(seeds) : 300));
		srunner_add_suite(sr, suite_rd());
		srunner_add_suite(sr, suite_rd_mix(0, seeds ? atoi(seeds) : 300));
		srunner_add_suite(sr, suite_group(0, seeds ? atoi(seeds) : 300));
	}
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
