/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA (RFC 5044, RFC 6581): a link over a byte stream. The negotiation (mpa/neg.c) is a codec, whose state machine is
 * the connection manager's; framing (mpa/fpdu.c, mpa/rx.c, mpa/tx.c) is the link.
 */
#ifndef DIW_MPA_MPA_H
#define DIW_MPA_MPA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "llp/link.h"
#include "llp/stream.h"

/* ---- Request and reply frames (RFC 5044 section 7.1.1, RFC 6581 section 7; mpa/neg.c) ---- */

#define DIW_MPA_FRAME_HDR 20u        /* key, flags, revision, length */
#define DIW_MPA_MAX_DATA 512u        /* private data of a frame, the enhanced words included */
#define DIW_MPA_FRAME_MAX (DIW_MPA_FRAME_HDR + DIW_MPA_MAX_DATA)
#define DIW_MPA_NO_LIMIT 0x3fffu     /* IRD, ORD: nothing to negotiate */

struct diw_mpa_frame {
	bool reply, markers, crc, reject;
	bool large;                  /* a reserved bit, siw's: FPDUs need not fit a TCP segment */
	uint8_t revision;            /* 0..2 as received; more are refused by who asks */
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

/* ---- Framing ---- */

#define DIW_MPA_MAX_ULPDU 65535u
#define DIW_MPA_MARKER_EVERY 512u

/* Buffers that the links of a device share: one link at a time receives or sends, under the device's lock. What a link
 * keeps in between, an incomplete FPDU or bytes that the stream did not take, is copied to a buffer that is its own
 * until it is empty again, so an idle connection holds none. */
struct diw_mpa_pool;
int diw_mpa_pool_new(struct diw_mpa_pool **p);       /* -ENOMEM */
void diw_mpa_pool_free(struct diw_mpa_pool *p);      /* after its links */

struct diw_mpa_attr {
	struct diw_stream *stream;   /* up, negotiated; the link's from now on, if open succeeds */
	struct diw_mpa_pool *pool;
	struct diw_counters *c;
	bool crc;                    /* generate and check CRC-32C; else the field is sent 0 and not looked at */
	bool tx_markers, rx_markers;
	uint32_t mulpdu;             /* largest ULPDU; 0: 65535 (segmentation offload cuts the FPDU into packets) */
	bool packed;                 /* an FPDU fits one TCP segment, and begins one (RFC 5044 section 5.1) */
	const uint8_t *early;        /* what arrived behind the peer's frame; copied */
	uint32_t early_len;
};

/* The link; its `flags` are RELIABLE | ORDERED. Its errors go up as down(), once:
 * fault 0, err 0: the peer ended the stream between two FPDUs; DIW_FAULT_MPA_*: what RFC 5044 section 8 calls it. */
int diw_mpa_open(const struct diw_mpa_attr *a, const struct diw_link_up *up, void *up_ctx, struct diw_link **l);
/* Send an FPDU without ULPDU. Staged until flush. -EAGAIN */
int diw_mpa_send_empty(struct diw_link *l, uint64_t now);

#endif
