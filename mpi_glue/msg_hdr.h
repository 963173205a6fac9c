/* SPDX-License-Identifier: BSD-2-Clause */
/* The header at the front of each Send of the provider: docs/mpi-wire.md. */
#ifndef DIW_MPI_GLUE_MSG_HDR_H
#define DIW_MPI_GLUE_MSG_HDR_H

#include <stdbool.h>
#include <stdint.h>

#define GLUE_VERSION 2u
#define GLUE_HDR_MIN 8u                  /* octets of the shortest header */
#define GLUE_HDR_MAX 44u                 /* octets of the longest header */
#define GLUE_MSG_MAX (1ull << 40)        /* octets of the longest message */
#define GLUE_PACK 512u                   /* octets of a Send with several messages, at most */
#define GLUE_OP_BITS 20                  /* of an id, for the operation's place; the others are its generation */

enum glue_kind {
	GLUE_EAGER,                      /* a whole message */
	GLUE_RTS,                        /* request to send: a message's envelope */
	GLUE_CTS,                        /* clear to send: the receiver has matched the message */
	GLUE_DATA,                       /* a part of the message, in a Send */
	GLUE_FIN,                        /* the receiver has the whole message, or wants no more of it */
	GLUE_WRITTEN,                    /* the sender has written to registered memory */
	GLUE_ATOMIC,                     /* an operation on registered memory, with its operands */
	GLUE_RESULT,                     /* the answer to ATOMIC */
	GLUE_HOLD,                       /* send no eager messages, or (RESUME) send them again */
	GLUE_GONE,                       /* the addressee is gone for the sender; ASK: is the sender gone for the
					  * addressee? */
	GLUE_KINDS,
};

enum glue_flags {
	GLUE_TAGGED = 1,                 /* EAGER, RTS: the tag is valid */
	GLUE_IMM = 2,                    /* EAGER, RTS: with remote CQ data */
	GLUE_REPORT = 4,                 /* EAGER, RTS: FIN answers when the message is in the buffer, or discarded */
	GLUE_FETCH = 8,                  /* ATOMIC: the answer contains the old values */
	GLUE_READABLE = 16,              /* RTS: the receiver may read the octets from the sender's memory */
};

/* A header in host byte order. A field that a kind does not have is 0. */
struct glue_hdr {
	enum glue_kind kind;
	uint8_t flags;
	/* EAGER with REPORT, RTS, ATOMIC: id of the sender's operation; WRITTEN, HOLD, GONE: 0; others: id of the
	 * receiver's. */
	uint32_t id;
	/* EAGER: octets of the message, plus 1, if others may follow it in the Send; 0: it takes the rest. */
	uint16_t packed;
	uint64_t tag;                    /* EAGER, RTS */
	uint64_t imm;                    /* EAGER, RTS, WRITTEN */
	uint64_t len;                    /* RTS: of the message; CTS: octets wanted; WRITTEN: of the write */
	uint64_t to;                     /* CTS, ATOMIC, READABLE: tagged offset; DATA: offset in the message */
	uint32_t stag;                   /* CTS, ATOMIC, READABLE; in CTS, 0: send by DATA */
	uint32_t peer_id;                /* CTS: id of the receiver's operation */
	uint32_t status;                 /* FIN, RESULT: 0, or an errno; HOLD: 1; RESUME, ASK: 0; GONE: an errno */
	uint8_t op, type;                /* ATOMIC: enum glue_atomic, enum glue_type */
	uint32_t count;                  /* ATOMIC: elements */
	uint32_t offset;                 /* ATOMIC, RESULT: octets of the operation in front of this part */
};

/* The id after ID of the operation at PLACE: never 0. */
uint32_t diw_glue_id_next(uint32_t id, uint32_t place);

/* Returns the octets written. */
uint32_t diw_glue_hdr_encode(uint8_t *p, const struct glue_hdr *h);
/* Returns the octets read; 0: malformed. */
uint32_t diw_glue_hdr_decode(struct glue_hdr *h, const uint8_t *p, uint64_t len);

#endif
