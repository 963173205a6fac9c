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

/* memcpy() for a destination that is mostly not in the cache: it is copied in parts, and the lines of the next part are
 * asked for meanwhile. docs/performance.md says what that gains. */
static inline void diw_copy(uint8_t *to, const uint8_t *from, size_t len)
{
	for (; len > 2 * DIW_COPY_PART; len -= DIW_COPY_PART) {
		for (size_t i = 0; i < DIW_COPY_PART; i += DIW_CACHE_LINE)
			__builtin_prefetch(to + DIW_COPY_PART + i, 1, 3);
		memcpy(to, from, DIW_COPY_PART);
		to += DIW_COPY_PART;
		from += DIW_COPY_PART;
	}
	memcpy(to, from, len);
}

#endif
