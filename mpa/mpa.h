/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA (RFC 5044): a link over a byte stream, which sends and receives FPDUs (mpa/tx.c, mpa/rx.c). The negotiation is
 * the connection manager's, its frames are in wire/mpa_frame.h.
 */
#ifndef DIW_MPA_MPA_H
#define DIW_MPA_MPA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "llp/link.h"
#include "llp/stream.h"
#include "wire/fpdu.h"

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
