/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structs of attributes begin with their size, which is the size that the program was compiled with. A shorter struct
 * leaves the members behind it at their defaults. A longer struct is accepted if the members that this version does not
 * know are 0.
 */
#include "verbs/attr_take.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

#define MAX_SIZE 4096u               /* a larger value is not a size: the struct was not initialised by
				      * DIW_*_ATTR_INIT */

int diw_attr_take(const char *call, void *out, size_t size, const void *given)
{
	const uint8_t *from = given;
	size_t has;

	if (!given)
		return 0;
	memcpy(&has, given, sizeof has);
	if (has < sizeof has || has > MAX_SIZE)
		return diw_fail(-EINVAL, "%s: attr.size %zu: initialise attr by DIW_*_ATTR_INIT", call, has);
	for (size_t i = size; i < has; i++)
		if (from[i])
			return diw_fail(-E2BIG, "%s: attr.size %zu: byte %zu is set, and this library knows only %zu",
					call, has, i, size);
	memcpy(out, given, has < size ? has : size);
	return 0;
}

int diw_attr_check_reserved(const char *call, const char *part, const uint64_t reserved[4])
{
	if (!(reserved[0] | reserved[1] | reserved[2] | reserved[3]))
		return 0;
	return diw_fail(-E2BIG, "%s: attr.%s has a member that this library does not know", call, part);
}
