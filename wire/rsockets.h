/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages between the two ends of a stream of rsockets (docs/rc-wire.md section 2.3).
 *
 * Each end posts receives of one size, its slots, and sends that size in its hello. Data is sent as Sends behind a
 * header. A Send holds any number of bytes up to the slot's size, takes one slot, and is one write to TCP. Every header
 * returns credits: the number of slots that its sender has posted again since the beginning, modulo 2^16.
 *
 *   hello   magic (4) "dRS1" | slots (2) | 0 (2) | bytes of data that a slot holds (4)
 *   header  flags (1) | 0 (1) | slots posted again (2) | 0 (4)
 *   map     header | offset (8) | length (8) | STag (4) | tagged offset (8)
 */
#ifndef DIW_WIRE_RSOCKETS_H
#define DIW_WIRE_RSOCKETS_H

#include "base/wire.h"

#define RS_MAGIC 0x64525331u
#define RS_HELLO_LEN 12
#define RS_HDR 8u
#define RS_DATA 65536u                       /* data of our slots: large, since system calls are most of the cost */
#define RS_MIN_DATA 504u                     /* least that a peer may offer: a map and inline data fit */
#define RS_MAP_LEN (RS_HDR + 28)

/* Header flags. A CONTROL message takes no counted slot: at most RS_CONTROL of them are unread at any time. */
enum { RS_F_CONTROL = 1, RS_F_FIN = 2, RS_F_MAP = 4 };

/* An end sends a message of credits alone when half of the slots are due, so at most two before the peer reads them.
 * The third is a FIN, the fourth a message that only wakes its sender. */
#define RS_CONTROL 4u

struct rs_hello { uint16_t slots; uint32_t data; };

static inline void rs_hello_put(uint8_t *p, const struct rs_hello *h)
{
	diw_put32(p, RS_MAGIC);
	diw_put16(p + 4, h->slots);
	diw_put16(p + 6, 0);
	diw_put32(p + 8, h->data);
}

/* False: the octets are no hello, or no stream is possible with such a peer. */
static inline int rs_hello_get(const uint8_t *p, uint32_t len, struct rs_hello *h)
{
	if (len < RS_HELLO_LEN || diw_get32(p) != RS_MAGIC || diw_get16(p + 6))
		return 0;
	*h = (struct rs_hello){ diw_get16(p + 4), diw_get32(p + 8) };
	return h->slots >= 2 && h->data >= RS_MIN_DATA;
}

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

/* False: a reserved field is not 0. */
static inline int rs_header_get(const uint8_t *p, struct rs_header *h)
{
	h->flags = p[0];
	h->slots = diw_get16(p + 2);
	return p[1] == 0 && diw_get32(p + 4) == 0 && (h->flags & ~(RS_F_CONTROL | RS_F_FIN | RS_F_MAP)) == 0;
}

struct rs_place { uint64_t offset, length, to; uint32_t stag; };     /* a map's content */

static inline void rs_place_put(uint8_t *p, const struct rs_place *m)
{
	diw_put64(p, m->offset);
	diw_put64(p + 8, m->length);
	diw_put32(p + 16, m->stag);
	diw_put64(p + 20, m->to);
}

static inline struct rs_place rs_place_get(const uint8_t *p)
{
	return (struct rs_place){ .offset = diw_get64(p), .length = diw_get64(p + 8), .stag = diw_get32(p + 16),
				  .to = diw_get64(p + 20) };
}

#endif
