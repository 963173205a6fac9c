/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMAP's opcodes, and the headers behind DDP's: RFC 5040 and 7306 section 4, docs/ud-profile.md section 4. */
#ifndef DIW_WIRE_RDMAP_H
#define DIW_WIRE_RDMAP_H

#include <stdbool.h>

#include "base/wire.h"

enum diw_rdmap_opcode {
	DIW_OP_WRITE = 0x0,
	DIW_OP_READ_REQUEST = 0x1,
	DIW_OP_READ_RESPONSE = 0x2,
	DIW_OP_SEND = 0x3,
	DIW_OP_SEND_INV = 0x4,
	DIW_OP_SEND_SE = 0x5,
	DIW_OP_SEND_SE_INV = 0x6,
	DIW_OP_TERMINATE = 0x7,
	DIW_OP_IMMEDIATE = 0x8,      /* this and the next three: RFC 7306 */
	DIW_OP_IMMEDIATE_SE = 0x9,
	DIW_OP_ATOMIC_REQUEST = 0xa,
	DIW_OP_ATOMIC_RESPONSE = 0xb,
	DIW_OP_WRITE_RECORD = 0xc,   /* this and the next two: the datagram profile */
	DIW_OP_FLOW = 0xd,
	DIW_OP_VALIDATION = 0xe,
};

/* ---- Read Request: RFC 5040 section 4.4 ---- */

#define DIW_RDMAP_READ_LEN 28u

struct diw_read_request {
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t length, stag;
	uint64_t to;
};

static inline void diw_read_request_put(uint8_t *p, const struct diw_read_request *q)
{
	diw_put32(p, q->sink_stag);
	diw_put64(p + 4, q->sink_to);
	diw_put32(p + 12, q->length);
	diw_put32(p + 16, q->stag);
	diw_put64(p + 20, q->to);
}

static inline struct diw_read_request diw_read_request_get(const uint8_t *p)
{
	return (struct diw_read_request){ .sink_stag = diw_get32(p), .sink_to = diw_get64(p + 4),
					  .length = diw_get32(p + 12), .stag = diw_get32(p + 16),
					  .to = diw_get64(p + 20) };
}

/* ---- Terminate, and the datagram profile's error message: RFC 5040 section 4.8 ---- */

#define DIW_TERM_M 0x80u             /* of octet 2: the DDP segment's length is there, */
#define DIW_TERM_D 0x40u             /* its DDP header, */
#define DIW_TERM_R 0x20u             /* and its RDMAP header, a Read Request's */
#define DIW_TERM_CONTROL 4u
#define DIW_TERM_FIXED 6u            /* control, DDP segment length */

#endif
