/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider's headers: the vectors of docs/mpi-wire.md, and what is malformed. */
#include <string.h>

#include "mpi_glue/msg_hdr.h"
#include "tests/unit/unit.h"

static const struct {
	struct glue_hdr h;
	uint32_t len;
	uint8_t octets[GLUE_HDR_MAX];
} vector[] = {
	{ { .kind = GLUE_EAGER }, 8, { 0x20, 0x00, 0, 0, 0, 0, 0, 0 } },
	{ { .kind = GLUE_EAGER, .flags = GLUE_TAGGED | GLUE_IMM | GLUE_REPORT, .id = 0x00500003,
	    .tag = 0x0102030405060708, .imm = 0xdeadbeef }, 24,
	  { 0x20, 0x07, 0, 0, 0x00, 0x50, 0x00, 0x03, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef } },
	{ { .kind = GLUE_RTS, .flags = GLUE_TAGGED, .id = 0x00100002, .tag = 5, .len = 0x100000 }, 32,
	  { 0x21, 0x01, 0, 0, 0x00, 0x10, 0x00, 0x02, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0,
	    0, 0, 0, 0, 0, 0x10, 0, 0 } },
	{ { .kind = GLUE_CTS, .id = 0x00100002, .peer_id = 0x00200007, .stag = 0xabcdef01, .to = 0x7f0012345000,
	    .len = 0x100000 }, 32,
	  { 0x22, 0x00, 0, 0, 0x00, 0x10, 0x00, 0x02, 0x00, 0x20, 0x00, 0x07, 0xab, 0xcd, 0xef, 0x01,
	    0, 0, 0x7f, 0, 0x12, 0x34, 0x50, 0, 0, 0, 0, 0, 0, 0x10, 0, 0 } },
	{ { .kind = GLUE_DATA, .id = 0x00200007, .to = 0x4000 }, 16,
	  { 0x23, 0x00, 0, 0, 0x00, 0x20, 0x00, 0x07, 0, 0, 0, 0, 0, 0, 0x40, 0 } },
	{ { .kind = GLUE_FIN, .id = 0x00100002, .status = 61 }, 12,
	  { 0x24, 0x00, 0, 0, 0x00, 0x10, 0x00, 0x02, 0, 0, 0, 61 } },
	{ { .kind = GLUE_WRITTEN, .imm = 0xdeadbeef, .len = 0x100000 }, 24,
	  { 0x25, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0, 0x10, 0, 0 } },
	{ { .kind = GLUE_ATOMIC, .flags = GLUE_FETCH, .id = 0x00300009, .op = 12, .type = 7, .stag = 0xabcdef01,
	    .to = 0x7f0012345000, .count = 3, .offset = 16 }, 32,
	  { 0x26, 0x08, 0, 0, 0x00, 0x30, 0x00, 0x09, 12, 7, 0, 0, 0xab, 0xcd, 0xef, 0x01,
	    0, 0, 0x7f, 0, 0x12, 0x34, 0x50, 0, 0, 0, 0, 3, 0, 0, 0, 16 } },
	{ { .kind = GLUE_RESULT, .id = 0x00300009, .status = 13, .offset = 16 }, 16,
	  { 0x27, 0x00, 0, 0, 0x00, 0x30, 0x00, 0x09, 0, 0, 0, 13, 0, 0, 0, 16 } },
	{ { .kind = GLUE_RTS, .flags = GLUE_READABLE | GLUE_REPORT, .id = 0x00100002, .len = 0x100000,
	    .stag = 0xabcdef01, .to = 0x7f0012345000 }, 44,
	  { 0x21, 0x14, 0, 0, 0x00, 0x10, 0x00, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	    0, 0, 0, 0, 0, 0x10, 0, 0, 0xab, 0xcd, 0xef, 0x01, 0, 0, 0x7f, 0, 0x12, 0x34, 0x50, 0 } },
	{ { .kind = GLUE_EAGER, .flags = GLUE_TAGGED, .packed = 9, .tag = 5 }, 16,
	  { 0x20, 0x01, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5 } },
	{ { .kind = GLUE_HOLD, .status = 1 }, 12, { 0x28, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 } },
	{ { .kind = GLUE_GONE, .status = 110 }, 12, { 0x29, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0, 110 } },
};
#define NVECTORS ((int)(sizeof vector / sizeof *vector))

START_TEST(of_the_page)
{
	uint8_t p[GLUE_HDR_MAX];
	struct glue_hdr h;

	ck_assert_uint_eq(diw_glue_hdr_encode(p, &vector[_i].h), vector[_i].len);
	ck_assert_mem_eq(p, vector[_i].octets, vector[_i].len);
	ck_assert_uint_eq(diw_glue_hdr_decode(&h, vector[_i].octets, vector[_i].len), vector[_i].len);
	memset(p, 0, sizeof p);
	ck_assert_uint_eq(diw_glue_hdr_encode(p, &h), vector[_i].len);
	ck_assert_mem_eq(p, vector[_i].octets, vector[_i].len);
}
END_TEST

/* Every length that is too short, every other version and kind, every flag that the kind does not have, the reserved
 * octets, of which EAGER has none. */
START_TEST(malformed)
{
	static const uint8_t flags[GLUE_KINDS] = { [GLUE_EAGER] = 7, [GLUE_RTS] = 23, [GLUE_ATOMIC] = 8 };
	uint8_t p[GLUE_HDR_MAX], allowed = flags[vector[_i].h.kind];
	struct glue_hdr h;

	for (uint32_t n = 0; n < vector[_i].len; n++)
		ck_assert_uint_eq(diw_glue_hdr_decode(&h, vector[_i].octets, n), 0);
	memcpy(p, vector[_i].octets, sizeof p);
	for (int version = 0; version < 16; version++) {
		p[0] = (uint8_t)(version << 4 | vector[_i].h.kind);
		ck_assert_int_eq(diw_glue_hdr_decode(&h, p, sizeof p) != 0, version == GLUE_VERSION);
	}
	for (int kind = GLUE_KINDS; kind < 16; kind++) {
		p[0] = (uint8_t)(GLUE_VERSION << 4 | kind);
		ck_assert_uint_eq(diw_glue_hdr_decode(&h, p, sizeof p), 0);
	}
	p[0] = vector[_i].octets[0];
	for (int bit = 0; bit < 8; bit++) {
		p[1] = (uint8_t)(1 << bit);
		ck_assert_int_eq(diw_glue_hdr_decode(&h, p, sizeof p) != 0, (allowed >> bit) & 1);
	}
	p[1] = vector[_i].octets[1];
	for (int bit = 0; bit < 16; bit++) {
		p[2 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(diw_glue_hdr_decode(&h, p, sizeof p) != 0, vector[_i].h.kind == GLUE_EAGER);
		p[2 + bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	p[10] = 1;
	if (vector[_i].h.kind == GLUE_ATOMIC)
		ck_assert_uint_eq(diw_glue_hdr_decode(&h, p, sizeof p), 0);
}
END_TEST

/* A message cannot be longer than 2^40 octets. */
START_TEST(longest)
{
	struct glue_hdr h = { .kind = GLUE_RTS, .id = 1, .len = GLUE_MSG_MAX }, got;
	uint8_t p[GLUE_HDR_MAX];

	ck_assert_uint_eq(diw_glue_hdr_encode(p, &h), 32);
	ck_assert_uint_eq(diw_glue_hdr_decode(&got, p, 32), 32);
	h.len++;
	diw_glue_hdr_encode(p, &h);
	ck_assert_uint_eq(diw_glue_hdr_decode(&got, p, 32), 0);
}
END_TEST

/* The ids of one place repeat after at least 4,095 others, and none is 0, which stands for no operation. */
START_TEST(ids)
{
	static const uint32_t places[] = { 0, 1, (1u << GLUE_OP_BITS) - 1 };
	uint32_t place = places[_i], first = diw_glue_id_next(0, place), id = first;

	for (int n = 1; n < 10000; n++) {
		id = diw_glue_id_next(id, place);
		ck_assert_uint_ne(id, 0);
		ck_assert_uint_eq(id & ((1u << GLUE_OP_BITS) - 1), place);
		ck_assert(id != first || n >= 4095);
	}
}
END_TEST

Suite *suite_glue_hdr(void)
{
	Suite *s = suite_create("glue_hdr");
	TCase *tc = tcase_create("glue_hdr");

	tcase_add_loop_test(tc, of_the_page, 0, NVECTORS);
	tcase_add_loop_test(tc, malformed, 0, NVECTORS);
	tcase_add_loop_test(tc, ids, 0, 3);
	tcase_add_test(tc, longest);
	suite_add_tcase(s, tc);
	return s;
}
