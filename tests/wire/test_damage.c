/* SPDX-License-Identifier: BSD-2-Clause */
/* Every truncation and every flip of a single bit of valid datagrams, with the old CRC and with a corrected CRC. */
#include <string.h>

#include "tests/wire/vectors.h"
#include "tests/wire/wire.h"

/* One of each kind that a UD queue pair takes. */
static const struct { const char *hex; int stag_at; } valid[] = {
	{ V1_SEND, 0 }, { V2_SEND_SE_IMM, 0 }, { V3_SEND_FIRST, 0 }, { V3_SEND_LAST, 0 }, { V4_SEND_EMPTY, 0 },
	{ V5_RECORD_FIRST, 2 }, { V5_RECORD_LAST, 2 }, { V6_RECORD_IMM, 2 },
	{ V7_READ_REQUEST, 44 }, { V8_READ_RESPONSE, 0 }, { V11_ERROR, 0 },
};
#define NVALID ((int)(sizeof valid / sizeof *valid))

static void load(struct gram *g, const struct bench *b, int i)
{
	gram_hex(g, valid[i].hex);
	if (valid[i].stag_at) {
		gram_put32(g, (uint32_t)valid[i].stag_at, b->mr->stag);
		gram_seal(g);
	}
}

START_TEST(truncated)
{
	struct gram g;
	struct bench b;

	bench_open(&b, NULL);
	load(&g, &b, _i);
	while (g.len > 0) {
		g.len--;
		bench_refused(&b, &g, g.len < 6 ? "rx_short" : "rx_crc");
		ck_assert_int_eq(b.nsent, 0);
	}
	ck_assert_uint_eq(b.info.sources, 0);
	bench_close(&b);
}
END_TEST

/* The memory that the stack may write. */
static void image_of_buffers(struct bench *b)
{
	memcpy(b->image + GUARD, b->region, REGION);
	for (int i = 0; i < NRECV; i++)
		memcpy(b->image + (b->recv[i] - b->arena), b->recv[i], RECV);
}

/* A truncated last segment contradicts its length. Any other truncated segment is a shorter segment, down to a header
 * without payload. The datagram is in an allocation of exactly its size, so a read beyond it is detected. */
START_TEST(truncated_sealed)
{
	struct gram g;
	struct bench b;
	uint32_t len, refused = 0;

	bench_open(&b, NULL);
	load(&g, &b, _i);
	for (len = g.len - 1; len >= 6; len--) {
		const char *verdict;

		g.len = len;
		gram_seal(&g);
		verdict = spec_verdict(&b, g.b, len - 4);
		ck_assert(verdict ? strcmp(verdict, "rx_malformed") == 0 : !(g.b[0] & BIT_L));
		if (verdict) {
			bench_refused(&b, &g, verdict);
			refused++;
		} else {
			bench_look(&b);
			bench_inject(&b, &g);
			ck_assert_str_eq(bench_drops(&b), "");
			image_of_buffers(&b);
			bench_check_memory(&b);
		}
	}
	ck_assert_uint_ge(refused, 26);
	bench_close(&b);
}
END_TEST

START_TEST(flipped)
{
	struct gram g;
	struct bench b;

	bench_open(&b, NULL);
	load(&g, &b, _i);
	for (uint32_t bit = 0; bit < g.len * 8; bit++) {
		g.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		bench_refused(&b, &g, "rx_crc");
		ck_assert_int_eq(b.nsent, 0);
		g.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	bench_close(&b);
}
END_TEST

/* The counters must be those of the specification's checks. A segment that passes them has its effect inside the
 * buffers, or none. */
START_TEST(flipped_sealed)
{
	struct gram g;
	struct bench b;
	uint32_t refused = 0, taken = 0;

	for (uint32_t bit = 0;; bit++) {
		const char *verdict;

		bench_open(&b, NULL);
		load(&g, &b, _i);
		if (bit >= (g.len - 4) * 8) {
			bench_close(&b);
			break;
		}
		g.b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		gram_seal(&g);
		verdict = spec_verdict(&b, g.b, g.len - 4);
		if (verdict) {
			bench_refused(&b, &g, verdict);
			refused++;
		} else {
			bench_inject(&b, &g);
			ck_assert_str_eq(bench_drops(&b), "");
			image_of_buffers(&b);
			bench_check_memory(&b);
			taken++;
		}
		bench_close(&b);
	}
	ck_assert_uint_ge(refused, 60);
	if (g.b[0] & BIT_T ? (g.b[1] & 15) != OP_READ_RESP : g.b[9] != 2)
		ck_assert_uint_ge(taken, 48);            /* at least its epoch and MSN may have any value */
}
END_TEST

Suite *suite_damage(void)
{
	Suite *s = suite_create("damage");
	TCase *tc = tcase_create("damage");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, truncated, 0, NVALID);
	tcase_add_loop_test(tc, truncated_sealed, 0, NVALID);
	tcase_add_loop_test(tc, flipped, 0, NVALID);
	tcase_add_loop_test(tc, flipped_sealed, 0, NVALID);
	suite_add_tcase(s, tc);
	return s;
}
