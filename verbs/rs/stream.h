/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a stream: slots, send ring, credits, mapped memory. */
#ifndef DIW_RS_STREAM_H
#define DIW_RS_STREAM_H

#include "verbs/rs/int.h"
#include "wire/rsockets.h"

#define RS_MIN_SLOTS 32u
#define RS_MAX_SLOTS 256u
#define RS_PIECE_MAX (256u << 10)            /* bytes of a Write into mapped memory */

/* Received data, in order: LEN bytes from OFF on in a slot. */
struct rs_piece {
	uint32_t len, off;
	unsigned slot;
};

struct rs_map {
	struct rs_map *next;
	struct diw_mr *mr;                   /* ours; NULL: a map of the peer */
	uint64_t offset, length, to;
	uint32_t stag;
	bool told;
};

struct rs_stream {
	uint8_t *memory;                     /* slots, then the send ring */
	size_t size;
	struct diw_mr *slots_mr;
	bool up, down, fin_sent, fin_came;

	struct {
		uint8_t *slots;
		unsigned n;                          /* slots for data */
		uint64_t bytes;                      /* bytes that can be read */
		uint32_t head, tail;
		struct rs_piece pieces[RS_MAX_SLOTS];
		uint16_t posted, posted_told;
	} rx;

	struct {
		uint8_t *ring;
		uint32_t ring_size, head, tail;      /* running offsets; TCP has taken the bytes before tail */
		uint32_t skipped;                    /* bytes skipped before head by the next request */
		uint32_t peer_data;                  /* bytes of data that a slot of the peer holds */
		uint16_t slots, used, posted;        /* the peer's: all; used so far; posted, as it reports */
		unsigned pending;                    /* signalled requests that are not complete */
	} tx;

	struct rs_map *maps, *peer_maps;
	unsigned nmaps, npeer_maps;
};

int rs_stream_control(struct rs *s, uint8_t flags, const uint8_t *more, uint32_t len, bool signalled);
void rs_stream_broken(struct rs *s);         /* the peer violated the protocol */
bool rs_map_came(struct rs_stream *st, const uint8_t *p, uint32_t len);
void rs_maps_free(struct rs_stream *st);
void rs_maps_tell(struct rs *s);

#endif
