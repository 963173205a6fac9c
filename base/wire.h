/* SPDX-License-Identifier: BSD-2-Clause */
/* Wire fields, big-endian unless the name says otherwise; any alignment. */
#ifndef DIW_BASE_WIRE_H
#define DIW_BASE_WIRE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t diw_get16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return be16toh(v); }
static inline uint32_t diw_get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return be32toh(v); }
static inline uint64_t diw_get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return be64toh(v); }
static inline uint32_t diw_get32le(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return le32toh(v); }

static inline void diw_put16(uint8_t *p, uint16_t v) { v = htobe16(v); memcpy(p, &v, 2); }
static inline void diw_put32(uint8_t *p, uint32_t v) { v = htobe32(v); memcpy(p, &v, 4); }
static inline void diw_put64(uint8_t *p, uint64_t v) { v = htobe64(v); memcpy(p, &v, 8); }
static inline void diw_put32le(uint8_t *p, uint32_t v) { v = htole32(v); memcpy(p, &v, 4); }

/* Whether LEN octets from tagged offset TO go beyond 2^64. A range that ends exactly at 2^64 does not (RFC 5041 section
 * 7.1). */
static inline int diw_to_wraps(uint64_t to, uint64_t len) { return len != 0 && to + (len - 1) < to; }

/* Serial number arithmetic (RFC 1982): a is later than b. */
static inline int diw_serial_after(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }

#endif
