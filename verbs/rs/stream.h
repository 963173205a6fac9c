/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream's two rings, its slots and their credits. */
#ifndef DIW_RS_STREAM_H
#define DIW_RS_STREAM_H

#include "verbs/rs/int.h"
#include "verbs/rs/wire.h"

#define RS_RX_SLOTS (RS_SLOTS + RS_CONTROL)
#define RS_PIECES 256u                       /* a power of 2, more than slots */
#define RS_PIECE_MAX (256u << 10)            /* bytes of one Write */

/* What has come, in order: LEN bytes at the ring's next position, or from OFF on in a slot. */
struct rs_piece {
	uint32_t len, off;
	int slot;                            /* -1: in the ring */
};

struct rs_map {
	struct rs_map *next;
	struct diw_mr *mr;                   /* ours; NULL: the peer's */
	uint64_t offset, length, to;
	uint32_t stag;
	bool told;
};

struct rs_stream {
	uint8_t *memory;                     /* slots, then what the peer writes, then what is sent from */
	size_t size;
	struct diw_mr *slots_mr, *ring_mr;
	bool up, down, fin_sent, fin_came;

	struct {
		uint8_t *slots, *ring;
		uint32_t ring_size;
		uint32_t wpos;                       /* where the next piece of the ring begins */
		uint32_t rpos;
		uint32_t unread;                     /* bytes of the ring that the peer may not write yet */
		uint32_t bytes;                      /* that can be read */
		uint32_t head, tail;
		struct rs_piece pieces[RS_PIECES];
		uint32_t read, read_told;
		uint16_t posted, posted_told;
	} rx;

	struct {
		uint8_t *ring;
		uint32_t ring_size, head, tail;      /* our own copy: free running, tail: TCP has taken it */
		uint32_t peer_size, peer_pos, peer_free;
		uint32_t read;                       /* as the peer has said */
		uint16_t slots, used, posted;
		uint32_t peer_stag;
		uint64_t peer_to;
		unsigned pending;                    /* signalled requests that are not complete */
	} tx;

	struct rs_map *maps, *peer_maps;
	unsigned nmaps, npeer_maps;
};

int rs_stream_control(struct rs *s, uint8_t flags, const uint8_t *more, uint32_t len, bool signalled);
void rs_stream_broken(struct rs *s);         /* the peer did what it must not do */
bool rs_map_came(struct rs_stream *st, const uint8_t *p, uint32_t len);
void rs_maps_free(struct rs_stream *st);
void rs_maps_tell(struct rs *s);

#endif
