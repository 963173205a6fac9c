/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two ends of a stream say to each other, beside MPA's request and reply.
 *
 * Each end has a ring, which the peer writes by RDMA, and slots, receives of RS_SLOT bytes. Small data comes in a Send
 * behind its header; larger data is written into the ring, and a Send follows with only the header, which says how
 * much. Positions in the ring go round; a piece does not cross its end.
 *
 * Every header returns credits: how many bytes of the ring the sender has read, and how many slots it has posted again,
 * both since the beginning and modulo 2^32 and 2^16.
 *
 *   hello   magic (4) "dRS1" | slots (2) | slot bytes (2) | ring bytes (4) | STag (4) | tagged offset (8)
 *   header  flags (1) | 0 (1) | slots posted again (2) | ring bytes read (4) | ring bytes written (4)
 *   map     header | offset (8) | length (8) | STag (4) | tagged offset (8)
 */
#ifndef DIW_RS_WIRE_H
#define DIW_RS_WIRE_H

#include "base/wire.h"

#define RS_MAGIC 0x64525331u
#define RS_HELLO_LEN 24
#define RS_SLOT 512u                         /* DIW_MAX_INLINE: small data is copied once, into the request */
#define RS_HDR 12u
#define RS_SMALL (RS_SLOT - RS_HDR)
#define RS_MAP_LEN (RS_HDR + 28)

/* Header flags. Of what is CONTROL no slot is counted: it is at most RS_CONTROL messages that have not been looked at.
 */
enum { RS_F_CONTROL = 1, RS_F_FIN = 2, RS_F_MAP = 4, RS_F_RING = 8 };

#define RS_SLOTS 128u                        /* that data may take */
/* Credits alone are told when half the slots or a quarter of the ring are due, so 6 times at most while the peer has
 * not looked; then an end, and one that only wakes its sender. */
#define RS_CONTROL 8u

struct rs_header {
	uint8_t flags;
	uint16_t slots;
	uint32_t read, written;
};

static inline void rs_header_put(uint8_t *p, const struct rs_header *h)
{
	p[0] = h->flags;
	p[1] = 0;
	diw_put16(p + 2, h->slots);
	diw_put32(p + 4, h->read);
	diw_put32(p + 8, h->written);
}

static inline struct rs_header rs_header_get(const uint8_t *p)
{
	return (struct rs_header){
		.flags = p[0], .slots = diw_get16(p + 2), .read = diw_get32(p + 4), .written = diw_get32(p + 8),
	};
}

#endif
