/* SPDX-License-Identifier: BSD-2-Clause */
/* The greetings of connections between endpoints: the vectors of docs/mpi-wire.md, what is malformed, and the order of
 * addresses. */
#include <string.h>

#include "mpi_glue/greeting.h"
#include "tests/unit/unit.h"

static const uint8_t call[GREETING_LEN] = {
	0x44, 0x57, 0x46, 0x49, 1, 1, 0x9c, 0x40, 0x4d, 0x50, 0x49, 0x31, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
};

START_TEST(of_the_page)
{
	const struct greeting g = { .kind = GREETING_CALL, .port = 40000, .qkey = 0x4d504931,
				    .instance = 0x0102030405060708 };
	uint8_t p[GREETING_LEN];
	struct greeting got;

	diw_glue_greeting_encode(p, &g);
	ck_assert_mem_eq(p, call, sizeof p);
	ck_assert(diw_glue_greeting_decode(&got, call, sizeof call));
	ck_assert(got.kind == g.kind && got.port == g.port && got.qkey == g.qkey && got.instance == g.instance);
}
END_TEST

/* Another length, another magic number or version, an unknown kind, a reserved octet, no port, no instance. */
START_TEST(malformed)
{
	static const struct { int at, octet, octets; } bad[] = {
		{ 0, 0x45, 1 }, { 3, 0, 1 }, { 4, 2, 1 }, { 5, GREETING_KINDS, 1 }, { 12, 1, 1 }, { 15, 1, 1 },
		{ 6, 0, 2 }, { 16, 0, 8 },
	};
	uint8_t p[GREETING_LEN + 1] = { 0 };
	struct greeting g;

	memcpy(p, call, sizeof call);
	for (uint32_t len = 0; len <= sizeof p; len++)
		ck_assert(diw_glue_greeting_decode(&g, p, len) == (len == GREETING_LEN));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		memcpy(p, call, sizeof call);
		memset(p + bad[i].at, bad[i].octet, (size_t)bad[i].octets);
		ck_assert_msg(!diw_glue_greeting_decode(&g, p, GREETING_LEN), "octet %d", bad[i].at);
	}
}
END_TEST

/* By address, then by port; the index of an interface, which differs between hosts, has no effect. */
START_TEST(order)
{
	struct diw_addr a = { .ip = { [15] = 1 }, .port = 0x00ff }, b = a;

	b.scope = 7;
	ck_assert_int_eq(diw_glue_addr_order(&a, &b), 0);
	b.port = 0x0100;
	ck_assert_int_lt(diw_glue_addr_order(&a, &b), 0);
	ck_assert_int_gt(diw_glue_addr_order(&b, &a), 0);
	a.ip[0] = 1;
	ck_assert_int_gt(diw_glue_addr_order(&a, &b), 0);
}
END_TEST

Suite *suite_glue_greeting(void)
{
	Suite *s = suite_create("glue_greeting");
	TCase *tc = tcase_create("glue_greeting");

	tcase_add_test(tc, of_the_page);
	tcase_add_test(tc, malformed);
	tcase_add_test(tc, order);
	suite_add_tcase(s, tc);
	return s;
}
