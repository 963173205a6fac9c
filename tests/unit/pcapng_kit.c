/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads pcapng files by the format's specification, independent of llp/pcapng.c. */
#include "tests/unit/pcapng_kit.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t at32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return v;
}

static uint16_t at16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, 2);
	return v;
}

/* The value of option CODE between P and END; *LEN: its length. The list ends with opt_endofopt. */
static const uint8_t *option(const uint8_t *p, const uint8_t *end, uint16_t code, uint16_t *len)
{
	const uint8_t *found = NULL;

	for (;;) {
		ck_assert(end - p >= 4);
		if (!at16(p)) {
			ck_assert_uint_eq(at16(p + 2), 0);
			ck_assert_ptr_eq(p + 4, end);
			return found;
		}
		if (at16(p) == code) {
			*len = at16(p + 2);
			found = p + 4;
		}
		p += 4 + ((at16(p + 2) + 3u) & ~3u);
	}
}

static void packet(struct png *g, const uint8_t *b, const uint8_t *end)
{
	struct png_packet *k = &g->packet[g->n++];
	const uint8_t *v, *options;
	uint16_t len;

	ck_assert_int_le(g->n, PNG_PACKETS);
	ck_assert_uint_eq(at32(b), 0);
	k->ns = (uint64_t)at32(b + 4) << 32 | at32(b + 8);
	k->len = at32(b + 12);
	ck_assert_uint_eq(at32(b + 16), k->len);
	k->data = b + 20;
	options = b + 20 + ((k->len + 3u) & ~3u);
	v = option(options, end, 1, &len);
	snprintf(k->comment, sizeof k->comment, "%.*s", v ? len : 0, v ? (const char *)v : "");
	v = option(options, end, 2, &len);
	ck_assert_ptr_nonnull(v);
	k->flags = at32(v);
}

void png_read(struct png *g, const char *path)
{
	FILE *f = fopen(path, "rb");
	const uint8_t *p, *v;
	uint16_t len;

	memset(g, 0, sizeof *g);
	ck_assert_ptr_nonnull(f);
	g->file = malloc(16u << 20);
	g->size = fread(g->file, 1, 16u << 20, f);
	fclose(f);
	for (p = g->file; p < g->file + g->size;) {
		uint32_t type = at32(p), total = at32(p + 4);
		const uint8_t *end = p + total - 4;

		ck_assert_uint_ge(total, 12);
		ck_assert_uint_eq(total % 4, 0);
		ck_assert_uint_le(total, (size_t)(g->file + g->size - p));
		ck_assert_uint_eq(at32(end), total);
		if (p == g->file) {
			ck_assert_uint_eq(type, 0x0a0d0d0a);
			ck_assert_uint_eq(at32(p + 8), 0x1a2b3c4d);
			ck_assert_uint_eq(at16(p + 12), 1);
		} else if (type == 1) {
			g->link = at16(p + 8);
			v = option(p + 16, end, 9, &len);
			g->tsresol = v && len == 1 ? *v : 6;
		} else {
			ck_assert_uint_eq(type, 6);
			packet(g, p + 8, end);
		}
		p += total;
	}
}

void png_free(struct png *g)
{
	free(g->file);
}
