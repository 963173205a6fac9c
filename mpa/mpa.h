/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA (RFC 5044): a link over a byte stream, which sends and receives FPDUs (mpa/tx.c, mpa/rx.c). The connection
 * manager does the negotiation, whose frames are in wire/mpa_frame.h.
 */
#ifndef DIW_MPA_MPA_H
#define DIW_MPA_MPA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "llp/link.h"
#include "llp/stream.h"
#include "wire/fpdu.h"

/* Buffers that the links of a device share. Under the device's lock, one link at a time receives or sends. Between
 * calls a link may have to keep an incomplete FPDU, or bytes that the stream did not take. They are copied to a buffer
 * of its own, which is returned when it is empty, so an idle connection holds none. */
struct diw_mpa_pool;
int diw_mpa_pool_new(struct diw_mpa_pool **p);       /* -ENOMEM */
void diw_mpa_pool_free(struct diw_mpa_pool *p);      /* after all of its links are closed */

struct diw_mpa_attr {
	struct diw_stream *stream;   /* connected and negotiated; open takes it over if it succeeds */
	struct diw_mpa_pool *pool;
	struct diw_counters *c;
	bool crc;                    /* generate and check CRC-32C; otherwise the field is sent as 0 and ignored */
	bool tx_markers, rx_markers;
	uint32_t mulpdu;             /* the largest ULPDU; 0: 65535 (segmentation offload cuts FPDUs into packets) */
	bool packed;                 /* an FPDU fits one TCP segment, and is at its beginning (RFC 5044 section 5.1) */
	const uint8_t *early;        /* octets that arrived behind the peer's frame; open copies them */
	uint32_t early_len;
};

/* Opens the link; its `flags` are RELIABLE | ORDERED. It reports its end once, by down(). Fault 0, err 0: the peer
 * ended the stream between two FPDUs. DIW_FAULT_MPA_*: an error of RFC 5044 section 8. */
int diw_mpa_open(const struct diw_mpa_attr *a, const struct diw_link_up *up, void *up_ctx, struct diw_link **l);
/* Sends an FPDU without ULPDU, which is staged until flush. -EAGAIN */
int diw_mpa_send_empty(struct diw_link *l, uint64_t now);

#endif
