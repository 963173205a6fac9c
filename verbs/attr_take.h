/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes that a program passes, whatever version of the headers it was compiled with. */
#ifndef DIW_VERBS_ATTR_TAKE_H
#define DIW_VERBS_ATTR_TAKE_H

#include <stddef.h>
#include <stdint.h>

/* OUT, SIZE bytes of defaults, takes the members that GIVEN has. GIVEN begins with its own size, a size_t; NULL: none.
 * -EINVAL: no size; -E2BIG: GIVEN is longer than OUT and sets a member behind it. CALL: for the message. */
int diw_attr_take(const char *call, void *out, size_t size, const void *given);
/* Members of PART that only a later version knows: -E2BIG if one is set. */
int diw_attr_check_reserved(const char *call, const char *part, const uint64_t reserved[4]);

#endif
