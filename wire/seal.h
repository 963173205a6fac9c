/* SPDX-License-Identifier: BSD-2-Clause */
/* The CRC-32 behind a segment in a datagram (docs/ud-profile.md section 2). */
#ifndef DIW_WIRE_SEAL_H
#define DIW_WIRE_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/crc.h"
#include "base/wire.h"

#define DIW_SEAL_LEN 4u

/* CRC: over all octets of the datagram before P. */
static inline void diw_seal_put(uint8_t *p, uint32_t crc) { diw_put32le(p, crc); }

/* What the datagram of N octets, at least DIW_SEAL_LEN, has behind its segment. */
static inline uint32_t diw_seal_value(const uint8_t *p, size_t n) { return diw_get32le(p + n - DIW_SEAL_LEN); }

static inline bool diw_seal_is_good(const uint8_t *p, size_t n)
{
	return diw_crc32(0, p, n - DIW_SEAL_LEN) == diw_seal_value(p, n);
}

/* The datagram of N octets has no CRC, but its length: reliable datagrams within a host (docs/ud-profile.md section
 * 18.1). */
static inline void diw_seal_leave_open(uint8_t *p, size_t n)
{
	diw_put32le(p + n - DIW_SEAL_LEN, (uint32_t)n);
}

/* Whether the datagram of N octets has no CRC. */
static inline bool diw_seal_is_open(const uint8_t *p, size_t n)
{
	return n >= DIW_SEAL_LEN && diw_seal_value(p, n) == n;
}

#endif
