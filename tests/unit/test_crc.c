/* SPDX-License-Identifier: BSD-2-Clause */
/* base/crc.c: known vectors, pieces, long buffers, and the state of vector registers after a call. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/copy.h"
#include "base/crc.h"
#include "base/rng.h"
#include "tests/unit/unit.h"

START_TEST(known_values)
{
	/* The check value in descriptions of CRC-32 (ISO 3309). */
	ck_assert_uint_eq(diw_crc32(0, "123456789", 9), 0xcbf43926u);
	ck_assert_uint_eq(diw_crc32(0, "", 0), 0);
	ck_assert_uint_eq(diw_crc32(0, "\0\0\0\0", 4), 0x2144df1cu);
}
END_TEST

/* Long buffers, whose CRCs are computed in parts, against the CRC of their octets one by one. */
START_TEST(long_buffers)
{
	static uint8_t buf[64 << 10];
	const size_t len[] = { 1023, 1024, 1025, 2048, 2049, 3072, 4096, 8191, 8192, 8193, 12289, sizeof buf - 1 };
	struct diw_rng r = { 2 };

	for (size_t i = 0; i < sizeof buf; i++)
		buf[i] = (uint8_t)diw_rng_next(&r);
	for (size_t k = 0; k < sizeof len / sizeof *len; k++) {
		uint32_t crc = 0, crc_c = 0;

		for (size_t i = 0; i < len[k]; i++) {
			crc = diw_crc32(crc, buf + 1 + i, 1);
			crc_c = diw_crc32c(crc_c, buf + 1 + i, 1);
		}
		ck_assert_uint_eq(diw_crc32(0, buf + 1, len[k]), crc);
		ck_assert_uint_eq(diw_crc32c(0, buf + 1, len[k]), crc_c);
		ck_assert_uint_eq(diw_crc32(0, buf + 1, len[k]), crc32(0, buf + 1, (uInt)len[k]));
	}
}
END_TEST

/* base/copy.h: the octets are copied, and those in front of and behind the destination stay. */
START_TEST(copies)
{
	static uint8_t from[5 * DIW_COPY_PART + 5], to[sizeof from + 2];

	for (size_t i = 0; i < sizeof from; i++)
		from[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i < 30; i++) {
		size_t len = i / 5 * DIW_COPY_PART + i % 5;

		memset(to, 0xee, sizeof to);
		diw_copy(to + 1, from, len);
		ck_assert_int_eq(memcmp(to + 1, from, len), 0);
		ck_assert_uint_eq(to[0], 0xee);
		ck_assert_uint_eq(to[1 + len], 0xee);
	}
}
END_TEST

START_TEST(same_as_zlib)
{
	struct diw_rng r = { 1 };
	uint8_t buf[4096 + 16];

	for (size_t i = 0; i < sizeof buf; i++)
		buf[i] = (uint8_t)diw_rng_next(&r);
	for (size_t len = 0; len <= 600; len++)
		for (size_t off = 0; off < 16; off += 5)
			ck_assert_uint_eq(diw_crc32(0, buf + off, len), crc32(0, buf + off, (uInt)len));
	ck_assert_uint_eq(diw_crc32(0, buf, sizeof buf), crc32(0, buf, sizeof buf));
}
END_TEST

START_TEST(known_values_c)
{
	uint8_t p[32];

	/* The check value of CRC-32C, and RFC 3720 appendix B.4. */
	ck_assert_uint_eq(diw_crc32c(0, "123456789", 9), 0xe3069283u);
	ck_assert_uint_eq(diw_crc32c(0, "", 0), 0);
	memset(p, 0, sizeof p);
	ck_assert_uint_eq(diw_crc32c(0, p, sizeof p), 0x8a9136aau);
	memset(p, 0xff, sizeof p);
	ck_assert_uint_eq(diw_crc32c(0, p, sizeof p), 0x62a8ab43u);
	for (unsigned i = 0; i < sizeof p; i++)
		p[i] = (uint8_t)i;
	ck_assert_uint_eq(diw_crc32c(0, p, sizeof p), 0x46dd794eu);
}
END_TEST

#ifdef __x86_64__
enum { XINUSE_AVX = 1 << 2, XINUSE_ZMM_HI256 = 1 << 6 };

/* The upper halves of vector registers that the CPU considers in use: XGETBV with ECX = 1 (Intel SDM volume 1, section
 * 13.6). */
static uint32_t upper_halves_in_use(void)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
	return low & (XINUSE_AVX | XINUSE_ZMM_HI256);
}

/* Whether XGETBV reports, on this CPU and under its hypervisor, that vzeroupper cleared what one instruction had
 * set. */
static bool upper_halves_are_told(void)
{
	uint32_t a, b, c, d, dirty, clean;

	if (!__builtin_cpu_supports("avx512f") || !__get_cpuid_count(0xd, 1, &a, &b, &c, &d) || !(a & 1 << 2))
		return false;
	__asm__ volatile(".byte 0xc5, 0xf5, 0x76, 0xc1" ::: "xmm0");        /* vpcmpeqd %ymm1, %ymm1, %ymm0 */
	dirty = upper_halves_in_use();
	__asm__ volatile("vzeroupper" ::: "xmm0");
	clean = upper_halves_in_use();
	return dirty && !clean;
}

START_TEST(upper_halves_are_cleared)
{
	static uint8_t buf[4096];
	uint32_t (*const crc[])(uint32_t, const void *, size_t) = { diw_crc32, diw_crc32c };

	if (!upper_halves_are_told()) {
		printf("SKIP: crc: this CPU has no AVX-512, or does not tell which vector registers are in use\n");
		return;
	}
	for (size_t i = 0; i < 2; i++)
		for (size_t len = 0; len <= sizeof buf; len += 64) {
			uint32_t in_use;

			__asm__ volatile("vzeroupper" ::: "xmm0");
			crc[i](0, buf, len);
			in_use = upper_halves_in_use();
			ck_assert_msg(!in_use, "CRC %zu of %zu octets leaves state %#x in use", i, len, in_use);
		}
}
END_TEST
#endif

/* Bit by bit, independent of the engine of the build. */
static uint32_t slow_crc32c(const uint8_t *p, size_t len)
{
	uint32_t crc = ~0u;

	while (len--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

START_TEST(same_as_slow_c)
{
	struct diw_rng r = { 2 };
	uint8_t buf[70000];

	for (size_t i = 0; i < sizeof buf; i++)
		buf[i] = (uint8_t)diw_rng_next(&r);
	for (size_t len = 0; len <= 600; len++)
		for (size_t off = 0; off < 16; off += 5)
			ck_assert_uint_eq(diw_crc32c(0, buf + off, len), slow_crc32c(buf + off, len));
	ck_assert_uint_eq(diw_crc32c(0, buf, sizeof buf), slow_crc32c(buf, sizeof buf));
}
END_TEST

START_TEST(pieces_in_order)
{
	uint8_t buf[300];
	uint32_t whole, whole_c;

	for (size_t i = 0; i < sizeof buf; i++)
		buf[i] = (uint8_t)(i * 7);
	whole = diw_crc32(0, buf, sizeof buf);
	whole_c = diw_crc32c(0, buf, sizeof buf);
	for (size_t cut = 0; cut <= sizeof buf; cut++) {
		ck_assert_uint_eq(diw_crc32(diw_crc32(0, buf, cut), buf + cut, sizeof buf - cut), whole);
		ck_assert_uint_eq(diw_crc32c(diw_crc32c(0, buf, cut), buf + cut, sizeof buf - cut), whole_c);
	}
}
END_TEST

START_TEST(engine_is_named)
{
#ifdef HAVE_ISAL
	ck_assert_str_eq(diw_crc_engine(), "isal");
#else
	ck_assert_str_eq(diw_crc_engine(), "zlib");
#endif
}
END_TEST

Suite *suite_crc(void)
{
	Suite *s = suite_create("crc");
	TCase *t = tcase_create("crc32");

	tcase_add_test(t, known_values);
	tcase_add_test(t, same_as_zlib);
	tcase_add_test(t, long_buffers);
	tcase_add_test(t, copies);
	tcase_add_test(t, known_values_c);
	tcase_add_test(t, same_as_slow_c);
	tcase_add_test(t, pieces_in_order);
	tcase_add_test(t, engine_is_named);
#ifdef __x86_64__
	tcase_add_test(t, upper_halves_are_cleared);
#endif
	suite_add_tcase(s, t);
	return s;
}
