/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads an environment variable whose value is one of a few words. */
#include "base/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

int diw_env_word(const char *name, const char *const words[], int unset, int other)
{
	const char *env = getenv(name);
	char known[128];
	size_t n = 0;

	if (!env || !*env)
		return unset;
	for (int i = 0; words[i]; i++) {
		if (strcmp(env, words[i]) == 0)
			return i;
		if (n < sizeof known)
			n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", words[i]);
	}
	diw_log(DIW_LOG_TELL, "%s=%.64s: not one of %s; %s is used", name, env, known, words[other]);
	return other;
}
