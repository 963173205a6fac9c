/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream's slots, what it sends from, and credits. */
#ifndef DIW_RS_STREAM_H
#define DIW_RS_STREAM_H

#include "verbs/rs/int.h"
#include "wire/rsockets.h"

#define RS_MIN_SLOTS 32u
#define RS_MAX_SLOTS 256u
#define RS_PIECE_MAX (256u << 10)            /* bytes of one Write into mapped memory */

/* What has come, in order: LEN bytes from OFF on in a slot. */
struct rs_piece {
	uint32_t len, off;
	unsigned slot;
};

struct rs_map {
	struct rs_map *next;
	struct diw_mr *mr;                   /* ours; NULL: the peer's */
	uint64_t offset, length, to;
	uint32_t stag;
	bool told;
};

struct rs_stream {
	uint8_t *memory;                     /* slots, then what is sent from */
	size_t size;
	struct diw_mr *slots_mr;
	bool up, down, fin_sent, fin_came;

	struct {
		uint8_t *slots;
		unsigned n;                          /* slots for data */
		uint64_t bytes;                      /* that can be read */
		uint32_t head, tail;
		struct rs_piece pieces[RS_MAX_SLOTS];
		uint16_t posted, posted_told;
	} rx;

	struct {
		uint8_t *ring;
		uint32_t ring_size, head, tail;      /* free running; what is behind tail TCP has taken */
		uint32_t skipped;                    /* before head, for what is sent next */
		uint32_t peer_data;                  /* bytes of data that its slots hold */
		uint16_t slots, used, posted;        /* the peer's: all, those that were sent to, as it has said */
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
