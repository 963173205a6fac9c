/* SPDX-License-Identifier: BSD-2-Clause */
/* The CRCs of datagrams (CRC-32) and of FPDUs (CRC-32C). */
#ifndef DIW_BASE_CRC_H
#define DIW_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* The CRC-32 of zlib's crc32(). Start with 0 and pass the pieces in order. ISA-L computes it if the build found ISA-L,
 * else zlib. */
uint32_t diw_crc32(uint32_t crc, const void *buf, size_t len);
/* CRC-32C (RFC 5044 section 4.4), which the wire carries low-order byte first. Start with 0 and pass the pieces in
 * order. */
uint32_t diw_crc32c(uint32_t crc, const void *buf, size_t len);
const char *diw_crc_engine(void);              /* "isal" or "zlib" */

#endif
