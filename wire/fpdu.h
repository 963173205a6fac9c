/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FPDUs (RFC 5044 section 4): the length of the ULPDU, the ULPDU, a pad to a multiple of four, a CRC-32C. The position
 * of an octet is its number in the stream, counted from the first FPDU. Markers are at fixed values of a position's
 * last 9 bits.
 */
#ifndef DIW_WIRE_FPDU_H
#define DIW_WIRE_FPDU_H

#include <stdbool.h>
#include <stddef.h>

#include "base/crc.h"
#include "base/wire.h"

#define DIW_MPA_LEN 2u               /* ULPDU length field */
#define DIW_MPA_CRC 4u
#define DIW_MPA_MAX_TAIL 7u          /* pad and CRC */
#define DIW_MPA_MAX_ULPDU 65535u
#define DIW_MPA_MAX_FPDU 66064u      /* the largest ULPDU, with its pad, CRC and 130 markers */
#define DIW_MPA_MARKER 4u
#define DIW_MPA_MARKER_EVERY 512u
#define DIW_MPA_BLOCK (DIW_MPA_MARKER_EVERY - DIW_MPA_MARKER)  /* octets between two markers */

/* Octets of an FPDU without markers; those of its pad and CRC. */
static inline uint32_t diw_fpdu_bare(uint32_t ulpdu) { return ((DIW_MPA_LEN + ulpdu + 3) & ~3u) + DIW_MPA_CRC; }
static inline uint32_t diw_fpdu_tail(uint32_t ulpdu) { return diw_fpdu_bare(ulpdu) - DIW_MPA_LEN - ulpdu; }

/* Writes pad and CRC, the last LEN octets of an FPDU. SUM is the CRC of the octets before them. Without CRC the field
 * is 0. */
static inline void diw_fpdu_put_tail(uint8_t *p, uint32_t len, bool crc, uint32_t sum)
{
	memset(p, 0, len);
	if (crc)
		diw_put32le(p + len - DIW_MPA_CRC, diw_crc32c(sum, p, len - DIW_MPA_CRC));
}

/* Whether the CRC at the end of the LEN octets at P is right. SUM is the CRC of the FPDU's octets before P. */
static inline bool diw_fpdu_is_good(uint32_t sum, const uint8_t *p, size_t len)
{
	return diw_crc32c(sum, p, len - DIW_MPA_CRC) == diw_get32le(p + len - DIW_MPA_CRC);
}

/* ---- Markers (RFC 5044 section 4.3) ---- */

/* The distance from position POS to the next marker. */
static inline uint32_t diw_fpdu_to_marker(uint32_t pos) { return -pos % DIW_MPA_MARKER_EVERY; }

/* The number of markers in an FPDU of BARE octets that begins at POS. A marker right behind its last octet belongs to
 * the next FPDU. */
static inline uint32_t diw_fpdu_markers(uint32_t pos, uint32_t bare)
{
	uint32_t first = diw_fpdu_to_marker(pos);

	return bare <= first ? 0 : 1 + (bare - first - 1) / DIW_MPA_BLOCK;
}

/* Octets on the wire of the FPDU that begins at POS, of which LEN octets are at P; 0: too few to know. */
static inline uint32_t diw_fpdu_wire_len(const uint8_t *p, uint32_t len, uint32_t pos, bool markers)
{
	uint32_t lead = markers && !diw_fpdu_to_marker(pos) ? DIW_MPA_MARKER : 0, bare;

	if (len < lead + DIW_MPA_LEN)
		return 0;
	bare = diw_fpdu_bare(diw_get16(p + lead));
	return markers ? bare + DIW_MPA_MARKER * diw_fpdu_markers(pos, bare) : bare;
}

/* Inserts the markers into the FPDU at P, of BARE octets. Returns its new length. */
uint32_t diw_fpdu_insert_markers(uint8_t *p, uint32_t bare, uint32_t pos);
/* Whether every marker of the FPDU points back at its length field. The lowest two bits of a marker are ignored. */
bool diw_fpdu_markers_point(const uint8_t *p, uint32_t wire_len, uint32_t pos);
void diw_fpdu_strip_markers(uint8_t *p, uint32_t wire_len, uint32_t pos);

#endif
