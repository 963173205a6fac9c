/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads attributes of a program that was compiled with any version of the headers. */
#ifndef DIW_VERBS_ATTR_TAKE_H
#define DIW_VERBS_ATTR_TAKE_H

#include <stddef.h>
#include <stdint.h>

/* Copies the members that GIVEN has to OUT, which holds SIZE bytes of defaults. GIVEN begins with its own size, a
 * size_t; NULL: none are given. -EINVAL: the size is not valid. -E2BIG: GIVEN is longer than OUT and sets a member
 * behind OUT's. CALL: for the message. */
int diw_attr_take(const char *call, void *out, size_t size, const void *given);
/* Checks the members of PART that only a later version knows: -E2BIG if one is set. */
int diw_attr_check_reserved(const char *call, const char *part, const uint64_t reserved[4]);

#endif
