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
	bool large;                  /* a reserved bit that siw uses: FPDUs need not fit a TCP segment */
	uint8_t revision;            /* 0..2 as received; the caller refuses the others */
	bool enhanced;               /* S of revision 2: the fields below are valid */
	bool p2p;                    /* A */
	bool rtr_fpdu;               /* B: the ready-to-receive message may be an FPDU without ULPDU */
	bool rtr_write, rtr_read;    /* C, D: or a Write, or a Read, of no bytes */
	uint16_t ird, ord;           /* 14 bits */
	uint32_t len;                /* length of the application's private data */
	const uint8_t *data;
};

/* Returns the bytes written, at most DIW_MPA_FRAME_MAX. The caller has checked that f->len fits. */
uint32_t diw_mpa_frame_encode(uint8_t *p, const struct diw_mpa_frame *f);
/* Returns the frame's length if the LEN bytes at P hold all of it; bytes behind the frame are left to the caller. 0:
 * more bytes are needed. -EPROTO: wrong key. -EMSGSIZE: private data over the limit. -EBADMSG: enhanced, but too short
 * for it. An error is returned as soon as the wrong byte is there. */
int diw_mpa_frame_decode(struct diw_mpa_frame *f, bool reply, const uint8_t *p, uint32_t len);

#endif
