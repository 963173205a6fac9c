/* SPDX-License-Identifier: BSD-2-Clause */
/* The frame of a unit test: its registration, and its checks. */
#ifndef DIW_TESTS_UNIT_H
#define DIW_TESTS_UNIT_H

#include <check.h>

#define X(name) Suite *suite_##name(void);
#include "tests/unit/suites.h"
#undef X

#endif
