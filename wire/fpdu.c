/* SPDX-License-Identifier: BSD-2-Clause */
/* The markers of an FPDU: inserted, checked, removed. */
#include "wire/fpdu.h"

uint32_t diw_fpdu_insert_markers(uint8_t *p, uint32_t bare, uint32_t pos)
{
	uint32_t first = diw_fpdu_to_marker(pos), count = diw_fpdu_markers(pos, bare);
	uint32_t start = first ? 0 : DIW_MPA_MARKER;   /* position of the length field */

	for (uint32_t i = count; i-- > 0;) {           /* from the last marker to the first */
		uint32_t from = first + i * DIW_MPA_BLOCK, to = first + i * DIW_MPA_MARKER_EVERY;
		uint32_t n = i == count - 1 ? bare - from : DIW_MPA_BLOCK;

		memmove(p + to + DIW_MPA_MARKER, p + from, n);
		diw_put16(p + to, 0);
		diw_put16(p + to + 2, (uint16_t)(to ? to - start : 0));
	}
	return bare + count * DIW_MPA_MARKER;
}

bool diw_fpdu_markers_point(const uint8_t *p, uint32_t wire_len, uint32_t pos)
{
	uint32_t at = diw_fpdu_to_marker(pos), start = at ? 0 : DIW_MPA_MARKER;

	for (; at < wire_len; at += DIW_MPA_MARKER_EVERY)
		if ((diw_get16(p + at + 2) & ~3u) != (uint16_t)(at ? at - start : 0))
			return false;
	return true;
}

void diw_fpdu_strip_markers(uint8_t *p, uint32_t wire_len, uint32_t pos)
{
	uint32_t from = diw_fpdu_to_marker(pos), to = from;

	while (from < wire_len) {
		uint32_t next = from + DIW_MPA_MARKER_EVERY < wire_len ? from + DIW_MPA_MARKER_EVERY : wire_len;
		uint32_t n = next - from - DIW_MPA_MARKER;

		memmove(p + to, p + from + DIW_MPA_MARKER, n);
		to += n;
		from = next;
	}
}
