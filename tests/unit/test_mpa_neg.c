/* SPDX-License-Identifier: BSD-2-Clause */
/* wire/mpa_frame.c: MPA request and reply frames, from RFC 5044 section 7.1.1 and RFC 6581 section 9. */
#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "base/wire.h"
#include "tests/unit/unit.h"
#include "wire/mpa_frame.h"

static uint8_t data[DIW_MPA_MAX_DATA];

static void setup(void)
{
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + 1);
}

/* Octet by octet as in RFC 5044 section 7.1.1. */
START_TEST(plain_vector)
{
	static const char want[] = "MPA ID Req Frame" "\x40\x01\x00\x03" "abc";
	const struct diw_mpa_frame f = { .crc = true, .revision = 1, .len = 3, .data = (const uint8_t *)"abc" };
	uint8_t p[DIW_MPA_FRAME_MAX];

	ck_assert_uint_eq(diw_mpa_frame_encode(p, &f), sizeof want - 1);
	ck_assert_int_eq(memcmp(p, want, sizeof want - 1), 0);
}
END_TEST

/* RFC 6581 section 9: M, C, R, S; then A, B, IRD and C, D, ORD. */
START_TEST(enhanced_vector)
{
	static const char want[] = "MPA ID Rep Frame" "\xb0\x02\x00\x06" "\xc1\x02\x7f\xff" "xy";
	const struct diw_mpa_frame f = { .reply = true, .markers = true, .reject = true, .revision = 2,
					 .enhanced = true, .p2p = true, .rtr_fpdu = true, .ird = 0x102,
					 .rtr_read = true, .ord = DIW_MPA_NO_LIMIT, .len = 2,
					 .data = (const uint8_t *)"xy" };
	uint8_t p[DIW_MPA_FRAME_MAX];

	ck_assert_uint_eq(diw_mpa_frame_encode(p, &f), sizeof want - 1);
	ck_assert_int_eq(memcmp(p, want, sizeof want - 1), 0);
}
END_TEST

static void assert_same(const struct diw_mpa_frame *a, const struct diw_mpa_frame *b)
{
	ck_assert_int_eq(a->reply, b->reply);
	ck_assert_int_eq(a->markers, b->markers);
	ck_assert_int_eq(a->crc, b->crc);
	ck_assert_int_eq(a->reject, b->reject);
	ck_assert_uint_eq(a->revision, b->revision);
	ck_assert_int_eq(a->enhanced, b->enhanced);
	ck_assert_int_eq(a->p2p, b->p2p);
	ck_assert_int_eq(a->rtr_fpdu, b->rtr_fpdu);
	ck_assert_int_eq(a->rtr_write, b->rtr_write);
	ck_assert_int_eq(a->rtr_read, b->rtr_read);
	ck_assert_uint_eq(a->ird, b->ird);
	ck_assert_uint_eq(a->ord, b->ord);
	ck_assert_uint_eq(a->len, b->len);
	ck_assert(!a->len || memcmp(a->data, b->data, a->len) == 0);
}

/* Every flag, alone and with every other; every truncation; bytes behind the frame are ignored. */
START_TEST(every_flag)
{
	static const uint32_t lens[] = { 0, 1, 251, DIW_MPA_MAX_DATA - 4 };
	uint8_t p[DIW_MPA_FRAME_MAX + 8];

	for (int bits = 0; bits < 1 << 9; bits++) {
		bool enhanced = bits & 1;
		struct diw_mpa_frame f = { .enhanced = enhanced, .reply = bits & 2, .markers = bits & 4,
					   .crc = bits & 8, .reject = bits & 16,
					   .revision = enhanced ? 2 : (uint8_t)(bits >> 5 & 3),
					   .p2p = enhanced && bits & 32, .rtr_fpdu = enhanced && bits & 64,
					   .rtr_write = enhanced && bits & 128, .rtr_read = enhanced && bits & 256,
					   .ird = enhanced ? (uint16_t)(bits * 31 & 0x3fff) : 0,
					   .ord = enhanced ? (uint16_t)(0x3fff - bits) : 0, .data = data };
		struct diw_mpa_frame got;

		for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
			uint32_t len;

			f.len = lens[i];
			memset(p, 0xff, sizeof p);
			len = diw_mpa_frame_encode(p, &f);
			ck_assert_uint_eq(len, 20 + (enhanced ? 4 : 0) + f.len);
			for (uint32_t cut = 0; cut < len; cut += cut < 30 ? 1 : 23)
				ck_assert_int_eq(diw_mpa_frame_decode(&got, f.reply, p, cut), 0);
			ck_assert_int_eq(diw_mpa_frame_decode(&got, f.reply, p, len), (int)len);
			assert_same(&got, &f);
			ck_assert_int_eq(diw_mpa_frame_decode(&got, f.reply, p, len + 8), (int)len);
			assert_same(&got, &f);
		}
	}
}
END_TEST

START_TEST(largest)
{
	struct diw_mpa_frame got, f = { .revision = 1, .len = DIW_MPA_MAX_DATA, .data = data };
	uint8_t p[DIW_MPA_FRAME_MAX];

	ck_assert_uint_eq(diw_mpa_frame_encode(p, &f), DIW_MPA_FRAME_MAX);
	ck_assert_int_eq(diw_mpa_frame_decode(&got, false, p, DIW_MPA_FRAME_MAX - 1), 0);
	ck_assert_int_eq(diw_mpa_frame_decode(&got, false, p, DIW_MPA_FRAME_MAX), DIW_MPA_FRAME_MAX);
	assert_same(&got, &f);
}
END_TEST

START_TEST(too_much_data)
{
	struct diw_mpa_frame got;
	uint8_t p[DIW_MPA_FRAME_HDR] = "MPA ID Req Frame";

	p[17] = 1;
	for (uint32_t len = 0; len <= 65535; len++) {
		int want = len > DIW_MPA_MAX_DATA ? -EMSGSIZE : len ? 0 : 20;

		diw_put16(p + 18, (uint16_t)len);
		ck_assert_int_eq(diw_mpa_frame_decode(&got, false, p, sizeof p), want);
		/* Wrong bytes are detected as soon as they are there. */
		ck_assert_int_eq(diw_mpa_frame_decode(&got, false, p, 19), len >= 768 ? -EMSGSIZE : 0);
	}
}
END_TEST

START_TEST(too_short_for_what_it_is)
{
	struct diw_mpa_frame got;
	uint8_t p[DIW_MPA_FRAME_HDR + 4] = "MPA ID Rep Frame";

	p[16] = 0x10;
	for (uint8_t revision = 0; revision < 4; revision++) {
		for (uint8_t len = 0; len < 5; len++) {
			p[17] = revision;
			p[19] = len;
			ck_assert_int_eq(diw_mpa_frame_decode(&got, true, p, sizeof p),
					 revision == 2 && len < 4 ? -EBADMSG : 20 + len);
			if (revision == 2 && len < 4)
				continue;
			/* in other revisions than 2, the bit is ignored */
			ck_assert_int_eq(got.enhanced, revision == 2);
			ck_assert_uint_eq(got.len, revision == 2 ? 0 : len);
			ck_assert_uint_eq(got.revision, revision);
		}
	}
}
END_TEST

START_TEST(another_key)
{
	struct diw_mpa_frame got, f = { .revision = 1 };
	uint8_t p[DIW_MPA_FRAME_HDR];

	for (int reply = 0; reply < 2; reply++) {
		f.reply = reply;
		diw_mpa_frame_encode(p, &f);
		/* The key of the other frame, from the first octet that differs. */
		for (uint32_t len = 0; len <= sizeof p; len++)
			ck_assert_int_eq(diw_mpa_frame_decode(&got, !reply, p, len), len < 10 ? 0 : -EPROTO);
		for (uint32_t bit = 0; bit < 128; bit++) {
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			for (uint32_t len = 0; len <= sizeof p; len++)
				ck_assert_int_eq(diw_mpa_frame_decode(&got, reply, p, len),
						 len > bit / 8 ? -EPROTO : 0);
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}
END_TEST

/* The peer may set reserved flags (siw returns those it received). */
START_TEST(reserved_flags)
{
	struct diw_mpa_frame got;
	uint8_t p[DIW_MPA_FRAME_HDR] = "MPA ID Rep Frame";

	p[16] = 0x0f;
	p[17] = 1;
	ck_assert_int_eq(diw_mpa_frame_decode(&got, true, p, sizeof p), 20);
	ck_assert(!got.markers && !got.crc && !got.reject && !got.enhanced);
}
END_TEST

START_TEST(garbage)
{
	struct diw_rng g = { 9 };
	struct diw_mpa_frame got;
	uint8_t p[DIW_MPA_FRAME_MAX + 64];

	for (int round = 0; round < 20000; round++) {
		uint32_t len = (uint32_t)diw_rng_next(&g) % sizeof p;
		int n;

		for (uint32_t i = 0; i < len; i++)
			p[i] = (uint8_t)diw_rng_next(&g);
		if (round % 2)
			memcpy(p, "MPA ID Req Frame", len < 16 ? len : 16);
		if (len > 18 && round % 4 == 1)
			p[18] &= 3;
		n = diw_mpa_frame_decode(&got, false, p, len);
		ck_assert_int_le(n, (int)len);
		if (n > 0) {
			ck_assert(got.data >= p + 20);
			ck_assert_ptr_eq(got.data + got.len, p + n);
			ck_assert_uint_le(got.len, DIW_MPA_MAX_DATA);
		}
	}
}
END_TEST

Suite *suite_mpa_neg(void)
{
	Suite *s = suite_create("mpa_neg");
	TCase *t = tcase_create("frames");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, plain_vector);
	tcase_add_test(t, enhanced_vector);
	tcase_add_test(t, every_flag);
	tcase_add_test(t, largest);
	tcase_add_test(t, too_much_data);
	tcase_add_test(t, too_short_for_what_it_is);
	tcase_add_test(t, another_key);
	tcase_add_test(t, reserved_flags);
	tcase_add_test(t, garbage);
	suite_add_tcase(s, t);
	return s;
}
