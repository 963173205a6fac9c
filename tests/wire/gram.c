/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds datagrams octet by octet from the tables of docs/ud-profile.md. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tests/wire/wire.h"

/* Big-endian, octet by octet, as the tables of the specification. */
static void put(struct gram *g, uint64_t v, int octets)
{
	while (octets--)
		g->b[g->len++] = (uint8_t)(v >> (8 * octets));
}

static void append_crc(struct gram *g)
{
	uint32_t crc = (uint32_t)crc32(0, g->b, g->len);

	for (int i = 0; i < 4; i++)
		g->b[g->len++] = (uint8_t)(crc >> (8 * i));
}

struct fields send_fields(uint32_t msn, const void *payload, uint32_t n)
{
	return (struct fields){ .c0 = BIT_L | 1, .c1 = 0x40 | OP_SEND, .qkey = QKEY, .epoch = EPOCH, .msn = msn,
		.length = n, .payload = payload, .n = n };
}

struct fields validation_fields(const uint8_t body[16], uint16_t epoch)
{
	return (struct fields){ .c0 = BIT_L | 1, .c1 = 0x40 | OP_VALIDATION, .qn = 2, .epoch = epoch, .msn = 77,
		.length = 16, .payload = body, .n = 16 };
}

struct fields record_fields(uint32_t stag, uint32_t msn, uint64_t to, const void *payload, uint32_t n)
{
	return (struct fields){ .c0 = BIT_T | BIT_L | 1, .c1 = 0x40 | OP_WRITE_RECORD, .stag = stag, .to = to,
		.qkey = QKEY, .epoch = EPOCH, .msn = msn, .length = n, .payload = payload, .n = n };
}

struct fields read_fields(uint32_t msn, uint32_t sink_stag, uint64_t sink_to, uint32_t size, uint32_t stag, uint64_t to)
{
	static struct gram g;

	g.len = 0;
	put(&g, sink_stag, 4);
	put(&g, sink_to, 8);
	put(&g, size, 4);
	put(&g, stag, 4);
	put(&g, to, 8);
	return (struct fields){ .c0 = BIT_L | 1, .c1 = 0x40 | OP_READ_REQ, .qn = 1, .qkey = QKEY, .epoch = EPOCH,
		.msn = msn, .length = 28, .payload = g.b, .n = 28 };
}

void gram_build(struct gram *g, const struct fields *f)
{
	g->len = 0;
	put(g, f->c0, 1);
	put(g, f->c1, 1);
	put(g, f->stag, 4);
	if (f->c0 & BIT_T) {
		put(g, f->to, 8);
		put(g, f->qkey, 4);
		put(g, f->epoch, 2);
		put(g, f->msn, 4);
		put(g, f->mo, 4);
	} else {
		put(g, f->qn, 4);
		put(g, f->msn, 4);
		put(g, f->mo, 4);
		put(g, f->qkey, 4);
		put(g, f->epoch, 2);
	}
	put(g, f->length, 4);
	if (f->c1 & BIT_I)
		put(g, f->imm, 4);
	if (f->n)
		memcpy(g->b + g->len, f->payload, f->n);
	g->len += f->n;
	append_crc(g);
}

void gram_hex(struct gram *g, const char *hex)
{
	char *end;

	for (g->len = 0; *hex; hex = end) {
		g->b[g->len++] = (uint8_t)strtoul(hex, &end, 16);
		while (*end == ' ')
			end++;
	}
}

void gram_put32(struct gram *g, uint32_t off, uint32_t v)
{
	uint32_t len = g->len;

	g->len = off;
	put(g, v, 4);
	g->len = len;
}

void gram_put64(struct gram *g, uint32_t off, uint64_t v)
{
	gram_put32(g, off, (uint32_t)(v >> 32));
	gram_put32(g, off + 4, (uint32_t)v);
}

uint32_t gram_get32(const struct gram *g, uint32_t off)
{
	return (uint32_t)g->b[off] << 24 | (uint32_t)g->b[off + 1] << 16 | (uint32_t)g->b[off + 2] << 8 | g->b[off + 3];
}

void gram_seal(struct gram *g)
{
	g->len -= 4;
	append_crc(g);
}

bool gram_sealed(const struct gram *g)
{
	return crc32(0, g->b, g->len) == 0x2144df1c;
}
