/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMAP's opcodes, and RDMAP's headers behind DDP's: RFC 5040 and RFC 7306 section 4, docs/ud-profile.md section 4. */
#ifndef DIW_WIRE_RDMAP_H
#define DIW_WIRE_RDMAP_H

#include <stdbool.h>
#include <stdint.h>

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

/* Of a message with this opcode the Invalidate STag counts; in others it is reserved. */
static inline bool diw_op_invalidates(uint8_t op) { return op == DIW_OP_SEND_INV || op == DIW_OP_SEND_SE_INV; }

/* Queue numbers of untagged messages (RFC 5040 section 4.3, RFC 7306 section 4). */
enum diw_rdmap_qn { DIW_QN_SEND, DIW_QN_REQUEST, DIW_QN_TERMINATE, DIW_QN_ATOMIC_RESPONSE };

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

#define DIW_TERM_M 0x80u             /* of octet 2: the length of the DDP segment is present */
#define DIW_TERM_D 0x40u             /* the DDP header is present */
#define DIW_TERM_R 0x20u             /* the RDMAP header, that of a Read Request, is present */
#define DIW_TERM_CONTROL 4u
#define DIW_TERM_FIXED 6u            /* control, DDP segment length */

/* Writes the control: layer, type and code of the error, which are CODE, and FLAGS. */
static inline void diw_term_put(uint8_t *p, uint16_t code, uint8_t flags)
{
	diw_put16(p, code);
	p[2] = flags;
	p[3] = 0;
}

/* ---- Immediate Data: RFC 7306 section 6. The low-order 32 bits of its 8 octets are used ---- */

#define DIW_RDMAP_IMM_LEN 8u

static inline void diw_immediate_put(uint8_t *p, uint32_t imm)
{
	diw_put32(p, 0);
	diw_put32(p + 4, imm);
}
static inline uint32_t diw_immediate_get(const uint8_t *p) { return diw_get32(p + 4); }

/* ---- Atomics: RFC 7306 section 5.2 ---- */

#define DIW_RDMAP_ATOMIC_LEN 52u
#define DIW_RDMAP_ATOMIC_RESPONSE_LEN 12u
#define DIW_ATOMIC_FETCH_ADD 0u
#define DIW_ATOMIC_CMP_SWAP 2u

struct diw_atomic_request {
	uint8_t op;                  /* 4 bits */
	uint32_t reqid, stag;
	uint64_t to, add_swap, mask, compare, compare_mask;
};

static inline void diw_atomic_request_put(uint8_t *p, const struct diw_atomic_request *q)
{
	diw_put32(p, q->op);
	diw_put32(p + 4, q->reqid);
	diw_put32(p + 8, q->stag);
	diw_put64(p + 12, q->to);
	diw_put64(p + 20, q->add_swap);
	diw_put64(p + 28, q->mask);
	diw_put64(p + 36, q->compare);
	diw_put64(p + 44, q->compare_mask);
}

static inline struct diw_atomic_request diw_atomic_request_get(const uint8_t *p)
{
	return (struct diw_atomic_request){ .op = p[3] & 15, .reqid = diw_get32(p + 4), .stag = diw_get32(p + 8),
					    .to = diw_get64(p + 12), .add_swap = diw_get64(p + 20),
					    .mask = diw_get64(p + 28), .compare = diw_get64(p + 36),
					    .compare_mask = diw_get64(p + 44) };
}

struct diw_atomic_response { uint32_t reqid; uint64_t value; };

static inline void diw_atomic_response_put(uint8_t *p, const struct diw_atomic_response *a)
{
	diw_put32(p, a->reqid);
	diw_put64(p + 4, a->value);
}

static inline struct diw_atomic_response diw_atomic_response_get(const uint8_t *p)
{
	return (struct diw_atomic_response){ .reqid = diw_get32(p), .value = diw_get64(p + 4) };
}

/* ---- The datagram profile's flow message (docs/ud-profile.md section 4.4) ---- */

#define DIW_RDMAP_FLOW_LEN 8u

struct diw_flow { uint32_t number, window; };        /* window 0: a request for the window */

static inline void diw_flow_put(uint8_t *p, const struct diw_flow *f)
{
	diw_put32(p, f->number);
	diw_put32(p + 4, f->window);
}
static inline struct diw_flow diw_flow_get(const uint8_t *p)
{
	return (struct diw_flow){ .number = diw_get32(p), .window = diw_get32(p + 4) };
}

/* ---- The datagram profile's validation message (docs/ud-profile.md section 4.5) ---- */

#define DIW_RDMAP_VALIDATION_LEN 16u

enum diw_validation_kind { DIW_VALIDATION_CHALLENGE = 1, DIW_VALIDATION_PROOF };

struct diw_validation {
	uint8_t kind, opcode;        /* `opcode`: of the message that this one refers to */
	bool tagged, reserved;       /* of the same message; `reserved`: a reserved bit is set */
	uint16_t epoch;
	uint32_t msn;
	uint64_t token;
};

static inline void diw_validation_put(uint8_t *p, const struct diw_validation *v)
{
	p[0] = v->kind;
	p[1] = (uint8_t)((v->tagged ? 0x80 : 0) | v->opcode);
	diw_put16(p + 2, v->epoch);
	diw_put32(p + 4, v->msn);
	diw_put64(p + 8, v->token);
}

static inline struct diw_validation diw_validation_get(const uint8_t *p)
{
	return (struct diw_validation){ .kind = p[0], .opcode = p[1] & 15, .tagged = p[1] & 0x80,
					.reserved = p[1] & 0x70, .epoch = diw_get16(p + 2),
					.msn = diw_get32(p + 4), .token = diw_get64(p + 8) };
}

#endif
