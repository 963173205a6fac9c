/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies and reads of long buffers that are mostly not in the cache. */
#ifndef DIW_BASE_COPY_H
#define DIW_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DIW_CACHE_LINE 64u
#define DIW_COPY_PART 2048u

/* Asks the processor for LEN octets from P on, which will be read. */
static inline void diw_prefetch(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i += DIW_CACHE_LINE)
		__builtin_prefetch(p + i, 0, 3);
}

/* memcpy() for a destination that is mostly not in the cache: it is copied in equal parts, and the lines of the next
 * part are asked for meanwhile. The length of a part is computed, so that each is a call of the C library, which knows
 * the processor: for a constant length GCC has `rep movsq`. docs/performance.md says what both gain. */
static inline void diw_copy(uint8_t *to, const uint8_t *from, size_t len)
{
	size_t parts = len / DIW_COPY_PART, part = parts ? len / parts : 0;

	for (; parts > 1; parts--, len -= part) {
		for (size_t i = 0; i < part; i += DIW_CACHE_LINE)
			__builtin_prefetch(to + part + i, 1, 3);
		memcpy(to, from, part);
		to += part;
		from += part;
	}
	memcpy(to, from, len);
}

#endif
