/* SPDX-License-Identifier: BSD-2-Clause */
/* Encodes and decodes greetings, and orders addresses. */
#include <string.h>

#include "base/wire.h"
#include "mpi_glue/greeting.h"

#define GREETING_MAGIC 0x44574649u       /* "DWFI" */

void diw_glue_greeting_encode(uint8_t *p, const struct greeting *g)
{
	diw_put32(p, GREETING_MAGIC);
	p[4] = GREETING_VERSION;
	p[5] = (uint8_t)g->kind;
	diw_put16(p + 6, g->port);
	diw_put32(p + 8, g->qkey);
	diw_put32(p + 12, 0);
	diw_put64(p + 16, g->instance);
}

bool diw_glue_greeting_decode(struct greeting *g, const uint8_t *p, uint32_t len)
{
	if (len != GREETING_LEN || diw_get32(p) != GREETING_MAGIC || p[4] != GREETING_VERSION ||
	    p[5] >= GREETING_KINDS || diw_get32(p + 12) != 0)
		return false;
	*g = (struct greeting){ .kind = (enum greeting_kind)p[5], .port = diw_get16(p + 6), .qkey = diw_get32(p + 8),
				.instance = diw_get64(p + 16) };
	return g->port != 0 && g->instance != 0;
}

int diw_glue_addr_order(const struct diw_addr *a, const struct diw_addr *b)
{
	int d = memcmp(a->ip, b->ip, sizeof a->ip);

	return d ? d : (int)a->port - (int)b->port;
}
