/* SPDX-License-Identifier: BSD-2-Clause */
/* MPA's request and reply frames: RFC 5044 section 7.1.1, enhanced by RFC 6581 sections 6 and 9. */
#ifndef DIW_WIRE_MPA_FRAME_H
#define DIW_WIRE_MPA_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#define DIW_MPA_FRAME_HDR 20u        /* key, flags, revision, length */
#define DIW_MPA_FLAGS_AT 16u
#define DIW_MPA_C 0x40u
#define DIW_MPA_ENHANCED_LEN 4u      /* IRD and ORD, before the private data */
#define DIW_MPA_MAX_DATA 512u        /* private data of a frame, the enhanced words included */
#define DIW_MPA_FRAME_MAX (DIW_MPA_FRAME_HDR + DIW_MPA_MAX_DATA)
#define DIW_MPA_NO_LIMIT 0x3fffu     /* IRD, ORD: nothing to negotiate */

struct diw_mpa_frame {
	bool reply, markers, crc, reject;
	bool large;                  /* a reserved bit, siw's: FPDUs need not fit a TCP segment */
	uint8_t revision;            /* 0..2 as received; others are refused by the caller */
	bool enhanced;               /* S of revision 2: the fields below are there */
	bool p2p;                    /* A */
	bool rtr_fpdu;               /* B: ready to receive is told by an FPDU without ULPDU */
	bool rtr_write, rtr_read;    /* C, D: by a Write, a Read of no bytes */
	uint16_t ird, ord;           /* 14 bits */
	uint32_t len;                /* of the application's private data */
	const uint8_t *data;
};

/* Bytes written, at most DIW_MPA_FRAME_MAX; f->len fits, the caller has seen to that. */
uint32_t diw_mpa_frame_encode(uint8_t *p, const struct diw_mpa_frame *f);
/* The frame's length if all of it is in the LEN bytes at P (what follows it is the caller's); 0: more are needed;
 * -EPROTO: another key; -EMSGSIZE: private data over the limit; -EBADMSG: enhanced, but too short for it. Wrong bytes
 * are told as soon as they are seen. */
int diw_mpa_frame_decode(struct diw_mpa_frame *f, bool reply, const uint8_t *p, uint32_t len);

#endif
