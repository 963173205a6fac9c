/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header of a datagram segment: DDP's (RFC 5041 section 4), RDMAP's control byte (RFC 5040 section 4.1), the
 * profile extension and the immediate (docs/ud-profile.md).
 */
#ifndef DIW_DDP_HDR_H
#define DIW_DDP_HDR_H

#include <stdbool.h>
#include <stdint.h>

#define DIW_DDP_TAGGED 0x80u
#define DIW_DDP_LAST 0x40u
#define DIW_DDP_RSVD 0x3cu
#define DIW_DDP_DV 0x03u             /* version; 1 */
#define DIW_RDMAP_RV 0xc0u           /* version; 01b */
#define DIW_RDMAP_IMM 0x20u
#define DIW_RDMAP_SOLICITED 0x10u
#define DIW_RDMAP_OP 0x0fu

#define DIW_DDP_UNTAGGED_LEN 28u
#define DIW_DDP_TAGGED_LEN 32u
#define DIW_DDP_MAX_LEN 36u          /* with an immediate */

struct diw_ddp_hdr {
	bool tagged, last, imm_valid, solicited;
	uint8_t opcode;
	uint16_t epoch;
	uint32_t qkey, msn, mo, length;
	uint32_t imm;
	uint32_t stag;               /* tagged */
	uint64_t to;                 /* tagged */
	uint32_t qn;                 /* untagged */
};

static inline uint32_t diw_ddp_hdr_len(bool tagged, bool imm)
{
	return (tagged ? DIW_DDP_TAGGED_LEN : DIW_DDP_UNTAGGED_LEN) + (imm ? 4 : 0);
}

/* Writes diw_ddp_hdr_len() bytes; returns that length. */
uint32_t diw_ddp_hdr_encode(uint8_t *p, const struct diw_ddp_hdr *h);

/* Length-checks before it parses, and checks MO, length and L against the payload. Returns 0 and the header's length,
 * or a fault (base/fault.h); fields are then valid only if *hdr_len != 0. */
uint16_t diw_ddp_hdr_decode(struct diw_ddp_hdr *h, uint32_t *hdr_len, const uint8_t *p, uint32_t len);

#endif
