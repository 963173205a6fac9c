/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header of a segment: DDP's (RFC 5041 section 4), RDMAP's control byte (RFC 5040 section 4.1), the profile
 * extension of a datagram (docs/ud-profile.md), and the immediate.
 */
#ifndef DIW_WIRE_HDR_H
#define DIW_WIRE_HDR_H

#include <stdbool.h>
#include <stdint.h>

#define DIW_DDP_CONTROL 2u           /* DDP's control octet and RDMAP's */
#define DIW_DDP_TAGGED 0x80u
#define DIW_DDP_LAST 0x40u
#define DIW_DDP_RSVD 0x3cu
#define DIW_DDP_DV 0x03u             /* version; 1 */
#define DIW_RDMAP_RV 0xc0u           /* version; 01b */
#define DIW_RDMAP_IMM 0x20u
#define DIW_RDMAP_SOLICITED 0x10u
#define DIW_RDMAP_WORD 0x10u         /* plain: same bit, if the peers agreed on it */
#define DIW_DDP_WORD_ASKS 0x80000000u        /* of the word; the other bits count the messages placed, modulo 2^31 */
#define DIW_RDMAP_OP 0x0fu

#define DIW_DDP_UNTAGGED_LEN 28u
#define DIW_DDP_TAGGED_LEN 32u
#define DIW_DDP_MAX_LEN 36u          /* with an immediate; or plain, with immediate and word */
#define DIW_DDP_PLAIN_UNTAGGED_LEN 18u
#define DIW_DDP_PLAIN_TAGGED_LEN 14u
#define DIW_DDP_IMM_LEN 4u           /* an immediate; a word has the same length */

/* Offsets of the fields of an untagged and of a tagged header. The fields from the Q_Key on are the datagram's
 * extension. The immediate follows the extension. */
enum { DIW_U_INV_STAG = 2, DIW_U_QN = 6, DIW_U_MSN = 10, DIW_U_MO = 14, DIW_U_QKEY = 18, DIW_U_EPOCH = 22,
       DIW_U_LENGTH = 24 };
enum { DIW_T_STAG = 2, DIW_T_TO = 6, DIW_T_QKEY = 14, DIW_T_EPOCH = 18, DIW_T_MSN = 20, DIW_T_MO = 24,
       DIW_T_LENGTH = 28 };

struct diw_ddp_hdr {
	bool plain;                  /* the RFCs' fields only, over a stream: the stream gives peer, epoch and length */
	bool tagged, last, imm_valid, solicited;
	bool worded;
	uint8_t opcode;
	uint16_t epoch;
	uint32_t qkey, msn, mo, length;
	uint32_t imm;
	uint32_t word;               /* plain: placement (docs/rc-wire.md section 7.2) */
	uint32_t stag;               /* tagged */
	uint64_t to;                 /* tagged */
	uint32_t qn;                 /* untagged */
	uint32_t inv_stag;           /* untagged: the Invalidate STag */
};

static inline uint32_t diw_ddp_hdr_len(const struct diw_ddp_hdr *h)
{
	uint32_t untagged = h->plain ? DIW_DDP_PLAIN_UNTAGGED_LEN : DIW_DDP_UNTAGGED_LEN;
	uint32_t tagged = h->plain ? DIW_DDP_PLAIN_TAGGED_LEN : DIW_DDP_TAGGED_LEN;

	return (h->tagged ? tagged : untagged) + (h->imm_valid ? 4 : 0) + (h->worded ? 4 : 0);
}

/* Writes diw_ddp_hdr_len() bytes; returns that length. */
uint32_t diw_ddp_hdr_encode(uint8_t *p, const struct diw_ddp_hdr *h);

/* Checks lengths before it parses, and MO, length and L against the payload. Returns 0 and the header's length, or a
 * fault (base/fault.h). After a fault the fields are valid only if *hdr_len != 0. */
uint16_t diw_ddp_hdr_decode(struct diw_ddp_hdr *h, uint32_t *hdr_len, const uint8_t *p, uint32_t len);
/* The same for a plain header. EXTRAS are the bits of the RDMAP octet that the peers agreed on (DIW_RDMAP_IMM,
 * DIW_RDMAP_WORD); they are reserved otherwise. Sets neither length nor, in a tagged header, MO. */
uint16_t diw_ddp_hdr_decode_plain(struct diw_ddp_hdr *h, uint32_t *hdr_len, uint8_t extras, const uint8_t *p,
				  uint32_t len);

#endif
