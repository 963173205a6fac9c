/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of the provider's messages, one at the front of each Send: docs/mpi-wire.md. */
#ifndef DIW_MPI_GLUE_MSG_HDR_H
#define DIW_MPI_GLUE_MSG_HDR_H

#include <stdbool.h>
#include <stdint.h>

#define GLUE_VERSION 1u
#define GLUE_HDR_MAX 32u                 /* octets of the longest header */

enum glue_kind {
	GLUE_EAGER,                      /* a whole message */
	GLUE_RTS,                        /* request to send: the message's envelope */
	GLUE_CTS,                        /* clear to send: the receiver has matched it */
	GLUE_DATA,                       /* a part of it, in a Send */
	GLUE_FIN,                        /* the receiver has all of it, or wants no more */
	GLUE_KINDS,
};

enum glue_flags {
	GLUE_TAGGED = 1,                 /* EAGER, RTS: the tag is valid */
	GLUE_IMM = 2,                    /* EAGER, RTS: remote CQ data goes along */
	GLUE_REPORT = 4,                 /* EAGER: FIN answers when the message is in the receiver's buffer */
};

/* A header as the host holds it. A field that a kind does not have is 0. */
struct glue_hdr {
	enum glue_kind kind;
	uint8_t flags;
	/* EAGER with REPORT, RTS: of the sender's operation; else of the addressee's */
	uint32_t id;
	uint64_t tag, imm;               /* EAGER, RTS */
	uint64_t len;                    /* RTS: of the message; CTS: octets that are wanted */
	uint64_t to;                     /* CTS: tagged offset; DATA: offset in the message */
	uint32_t stag;                   /* CTS: 0: by DATA */
	uint32_t peer_id;                /* CTS: of the receiver's operation */
	uint32_t status;                 /* FIN: 0, or an errno */
};

/* Octets written. */
uint32_t diw_glue_hdr_encode(uint8_t *p, const struct glue_hdr *h);
/* Octets read; 0: malformed. */
uint32_t diw_glue_hdr_decode(struct glue_hdr *h, const uint8_t *p, uint64_t len);

#endif
