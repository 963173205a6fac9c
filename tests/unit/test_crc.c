/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdint.h>
#include <string.h>
#include <zlib.h>

#include "base/crc.h"
#include "base/rng.h"
#include "tests/unit/unit.h"

START_TEST(known_values)
{
	/* The check value that every description of CRC-32 (ISO 3309) gives. */
	ck_assert_uint_eq(diw_crc32(0, "123456789", 9), 0xcbf43926u);
	ck_assert_uint_eq(diw_crc32(0, "", 0), 0);
	ck_assert_uint_eq(diw_crc32(0, "\0\0\0\0", 4), 0x2144df1cu);
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

START_TEST(pieces_in_order)
{
	uint8_t buf[300];
	uint32_t whole;

	for (size_t i = 0; i < sizeof buf; i++)
		buf[i] = (uint8_t)(i * 7);
	whole = diw_crc32(0, buf, sizeof buf);
	for (size_t cut = 0; cut <= sizeof buf; cut++)
		ck_assert_uint_eq(diw_crc32(diw_crc32(0, buf, cut), buf + cut, sizeof buf - cut), whole);
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
	tcase_add_test(t, pieces_in_order);
	tcase_add_test(t, engine_is_named);
	suite_add_tcase(s, t);
	return s;
}
