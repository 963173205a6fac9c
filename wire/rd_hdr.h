/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of a reliable datagram: docs/ud-profile.md section 18.2. */
#ifndef DIW_WIRE_RD_HDR_H
#define DIW_WIRE_RD_HDR_H

#include <stdint.h>

#define DIW_RD_HDR 24u                   /* octets of a header */
#define DIW_RD_ANNOUNCE 12u              /* octets of an announcement, behind the header: tag, epoch, first number */
#define DIW_RD_HDR_MAX (DIW_RD_HDR + DIW_RD_ANNOUNCE)
#define DIW_RD_MAP_WORDS 64u             /* of an acknowledgement's bitmap: 2,048 segments */

enum diw_rd_kind { DIW_RD_DATA, DIW_RD_ACK, DIW_RD_OPEN, DIW_RD_GRANT, DIW_RD_RESET, DIW_RD_REFUSE, DIW_RD_KINDS };

enum diw_rd_flags {
	DIW_RD_ASK = 0x80,               /* acknowledge at once */
	DIW_RD_ACKS = 0x40,              /* ack and window are valid; GRANT: ack is */
	DIW_RD_ECHOES = 0x20,            /* echo is valid */
	DIW_RD_NEW = 0x10,               /* an announcement follows the header */
	DIW_RD_FLAGS_RSVD = 0x0f,
};

#define DIW_RD_BARE 2u                   /* in `window` of GRANT: datagrams to this sender need no CRC */

/* A header in host byte order. */
struct diw_rd_hdr {
	enum diw_rd_kind kind;
	uint8_t flags;
	uint16_t window;             /* segments behind `ack` that the sender of this header accepts; REFUSE: a fault;
				      * GRANT: DIW_RD_BARE or 0 */
	uint32_t tag, seq, ack, time, echo;
	uint32_t my_tag, my_epoch, first;    /* valid with DIW_RD_NEW, and in OPEN and GRANT */
};

/* Returns the octets written: DIW_RD_HDR or DIW_RD_HDR_MAX. */
uint32_t diw_rd_hdr_encode(uint8_t *p, const struct diw_rd_hdr *h);
/* Returns the octets read; 0: malformed. */
uint32_t diw_rd_hdr_decode(struct diw_rd_hdr *h, const uint8_t *p, uint32_t len);

#endif
