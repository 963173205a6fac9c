/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two ends of a stream say to each other, beside MPA's request and reply.
 *
 * Each end posts receives, its slots, of a size that it tells. Data comes in Sends behind a header, so many bytes as
 * the sender likes and a slot holds; one Send takes one slot, and is one write to TCP. Every header returns credits:
 * how many slots its sender has posted again since the beginning, modulo 2^16.
 *
 *   hello   magic (4) "dRS1" | slots (2) | 0 (2) | bytes of data that a slot holds (4)
 *   header  flags (1) | 0 (1) | slots posted again (2) | 0 (4)
 *   map     header | offset (8) | length (8) | STag (4) | tagged offset (8)
 */
#ifndef DIW_RS_WIRE_H
#define DIW_RS_WIRE_H

#include "base/wire.h"

#define RS_MAGIC 0x64525331u
#define RS_HELLO_LEN 12
#define RS_HDR 8u
#define RS_DATA 65536u                       /* data of a slot of ours: system calls cost the most */
#define RS_MIN_DATA 504u                     /* of a peer's: a map fits, and what is sent inline */
#define RS_MAP_LEN (RS_HDR + 28)

/* Header flags. Of what is CONTROL no slot is counted: it is at most RS_CONTROL messages that have not been looked at.
 */
enum { RS_F_CONTROL = 1, RS_F_FIN = 2, RS_F_MAP = 4 };

/* Credits alone are told when half the slots are due, so twice at most while the peer has not looked; then an end, and
 * one that only wakes its sender. */
#define RS_CONTROL 4u

struct rs_header {
	uint8_t flags;
	uint16_t slots;
};

static inline void rs_header_put(uint8_t *p, const struct rs_header *h)
{
	memset(p, 0, RS_HDR);
	p[0] = h->flags;
	diw_put16(p + 2, h->slots);
}

/* False: what is reserved is not 0. */
static inline int rs_header_get(const uint8_t *p, struct rs_header *h)
{
	h->flags = p[0];
	h->slots = diw_get16(p + 2);
	return p[1] == 0 && diw_get32(p + 4) == 0 && (h->flags & ~(RS_F_CONTROL | RS_F_FIN | RS_F_MAP)) == 0;
}

#endif
