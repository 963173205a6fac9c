/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the wire: docs/ud-profile.md octet by octet, and everything that it forbids. */
#include <stdlib.h>

#include "tests/wire/wire.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_vectors());
	int failed;

	srunner_add_suite(sr, suite_codec());
	srunner_add_suite(sr, suite_damage());
	srunner_add_suite(sr, suite_hostile());
	srunner_add_suite(sr, suite_lengths());
	srunner_add_suite(sr, suite_corners());
	srunner_add_suite(sr, suite_answers());
	srunner_add_suite(sr, suite_flood());
	srunner_add_suite(sr, suite_fuzz());
	srunner_add_suite(sr, suite_tables());
	srunner_add_suite(sr, suite_proof());
	srunner_add_suite(sr, suite_proof_reads());
	srunner_add_suite(sr, suite_proved());
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
