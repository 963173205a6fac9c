/* SPDX-License-Identifier: BSD-2-Clause */
/* The private data of a connection between endpoints over RC queue pairs: docs/mpi-wire.md section 8. */
#ifndef DIW_MPI_GLUE_GREETING_H
#define DIW_MPI_GLUE_GREETING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

#define GREETING_VERSION 1u
#define GREETING_LEN 24u

enum greeting_kind {
	GREETING_CONNECT,                /* the lower address connects */
	GREETING_CALL,                   /* the higher address asks the lower one to connect */
	GREETING_ACCEPT,                 /* the answer to CONNECT */
	GREETING_KINDS,
};

struct greeting {
	enum greeting_kind kind;
	uint16_t port;                   /* of the sender's endpoint */
	uint32_t qkey;
	uint64_t instance;               /* a random number, drawn when the sender's endpoint was enabled */
};

void diw_glue_greeting_encode(uint8_t *p, const struct greeting *g);
/* False: malformed. */
bool diw_glue_greeting_decode(struct greeting *g, const uint8_t *p, uint32_t len);

/* Less than, equal to or greater than 0 as A is the lower address, the same, or the higher one. */
int diw_glue_addr_order(const struct diw_addr *a, const struct diw_addr *b);

#endif
