/* SPDX-License-Identifier: BSD-2-Clause */
/* The STag table: against a list, and at the ends of a region. */
#include <errno.h>

#include "base/fault.h"
#include "base/rng.h"
#include "ddp/stag.h"
#include "tests/unit/unit.h"

static struct diw_stag_table t;
static const int pd_a, pd_b;
static const struct diw_stag_user pd = { .pd = &pd_a }, other_pd = { .pd = &pd_b };
static uint8_t mem[4096];

static uint16_t resolve(uint32_t stag, uint64_t to, uint32_t len, uint8_t **at)
{
	return diw_stag_resolve(&t, stag, &pd, 0, NULL, to, len, at);
}

enum { N = 3000 };
static struct diw_stag region[N];
static bool in[N];

/* STags are random, so a region may have the STag that a removed one had. */
static bool is_in_use(uint32_t stag)
{
	for (uint32_t k = 0; k < N; k++)
		if (in[k] && region[k].stag == stag)
			return true;
	return false;
}

/* Thousands of STags are added and removed at random: each is found while it is there and not afterwards, although
 * others move. */
START_TEST(as_a_list)
{
	struct diw_rng rng = { 5 };
	uint32_t n = 0, gone[N] = { 0 };
	uint8_t *at;

	ck_assert_int_eq(diw_stag_init(&t), 0);
	for (int step = 0; step < 40000; step++) {
		uint32_t i = (uint32_t)(diw_rng_next(&rng) % N);

		if (in[i]) {
			gone[i] = region[i].stag;
			diw_stag_remove(&t, &region[i]);
		} else {
			region[i] = (struct diw_stag){ .addr = mem + i, .to = i, .len = 1, .pd = &pd_a };
			if (diw_stag_add(&t, &region[i]) != 0 || region[i].stag >> 8 <= DIW_STAG_INDEX_CHOSEN)
				ck_abort_msg("step %d: STag %x", step, region[i].stag);
		}
		in[i] = !in[i];
		n += in[i] ? 1 : -1u;
		if (t.n != n)
			ck_abort_msg("%u in the table, not %u", t.n, n);
		if (step % 1000)
			continue;
		for (uint32_t k = 0; k < N; k++) {
			if (in[k]) {
				if (resolve(region[k].stag, k, 1, &at) != 0 || at != mem + k ||
				    resolve(region[k].stag ^ 1, k, 1, &at) != DIW_FAULT_STAG)         /* another key */
					ck_abort_msg("step %d: region %u is not found", step, k);
			} else if (gone[k] && resolve(gone[k], k, 1, &at) != DIW_FAULT_STAG && !is_in_use(gone[k])) {
				ck_abort_msg("step %d: region %u is found", step, k);
			}
		}
	}
	diw_stag_fini(&t);
}
END_TEST

static uint16_t at_region(uint64_t to, uint64_t len, uint64_t from, uint32_t n)
{
	struct diw_stag s = { .addr = mem, .to = to, .len = len, .pd = &pd_a };
	uint8_t *at = NULL;
	uint16_t fault;

	ck_assert_int_eq(diw_stag_init(&t), 0);
	ck_assert_int_eq(diw_stag_add(&t, &s), 0);
	fault = resolve(s.stag, from, n, &at);
	if (fault == 0)
		ck_assert_ptr_eq(at, mem + (from - to));
	else
		ck_assert_ptr_null(at);
	diw_stag_remove(&t, &s);
	diw_stag_fini(&t);
	return fault;
}

START_TEST(ends_of_a_region)
{
	static const struct { uint64_t to, len, from; uint32_t n; uint16_t fault; } c[] = {
		{ 1000, 100, 1000, 100, 0 }, { 1000, 100, 1099, 1, 0 }, { 1000, 100, 1000, 0, 0 },
		{ 1000, 100, 1100, 0, 0 },
		{ 1000, 100, 999, 1, DIW_FAULT_BOUNDS }, { 1000, 100, 999, 0, DIW_FAULT_BOUNDS },
		{ 1000, 100, 1000, 101, DIW_FAULT_BOUNDS }, { 1000, 100, 1100, 1, DIW_FAULT_BOUNDS },
		{ 1000, 100, 1101, 0, DIW_FAULT_BOUNDS }, { 1000, 100, 0, UINT32_MAX, DIW_FAULT_BOUNDS },
		{ 1000, 100, UINT64_MAX, 0, DIW_FAULT_BOUNDS }, { 1000, 100, UINT64_MAX, 1, DIW_FAULT_BOUNDS },
		{ 1000, 100, UINT64_MAX, 2, DIW_FAULT_WRAP },
		{ 0, 100, 0, 100, 0 }, { 0, 100, UINT64_MAX - 1, 3, DIW_FAULT_WRAP },
		{ UINT64_MAX - 100, 100, UINT64_MAX - 1, 1, 0 }, { UINT64_MAX - 100, 100, UINT64_MAX, 0, 0 },
		{ UINT64_MAX - 100, 100, UINT64_MAX - 1, 2, DIW_FAULT_BOUNDS },
		{ UINT64_MAX - 100, 100, UINT64_MAX - 1, 3, DIW_FAULT_WRAP },
		{ UINT64_MAX - 99, 100, UINT64_MAX - 99, 100, 0 }, { UINT64_MAX - 99, 100, UINT64_MAX, 1, 0 },
		{ UINT64_MAX - 99, 100, UINT64_MAX, 2, DIW_FAULT_WRAP },
		{ UINT64_MAX - 99, 100, 0, 0, DIW_FAULT_BOUNDS },
		{ 1ull << 40, 1ull << 33, (1ull << 40) + (1ull << 32), UINT32_MAX, 0 },
		{ 1ull << 40, 1ull << 32, (1ull << 40) + 2, UINT32_MAX, DIW_FAULT_BOUNDS },
	};

	for (size_t i = 0; i < sizeof c / sizeof *c; i++)
		ck_assert_msg(at_region(c[i].to, c[i].len, c[i].from, c[i].n) == c[i].fault, "case %zu", i);
}
END_TEST

START_TEST(who_may_what)
{
	struct diw_addr peer = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 10 }, .port = 7 }, port = peer, host = peer;
	struct diw_stag s = { .addr = mem, .to = 0, .len = 10, .pd = &pd_a,
			      .access = DIW_STAG_LOCAL_WRITE | DIW_STAG_REMOTE_WRITE };
	uint8_t *at;

	port.port = 8;
	host.ip[15] = 1;
	ck_assert_int_eq(diw_stag_init(&t), 0);
	ck_assert_int_eq(diw_stag_add(&t, &s), 0);
#define MAY(p, access, who) diw_stag_resolve(&t, s.stag, p, access, who, 0, 1, &at)
	ck_assert_uint_eq(MAY(&pd, DIW_STAG_REMOTE_WRITE, &peer), 0);
	ck_assert_uint_eq(MAY(&other_pd, DIW_STAG_REMOTE_WRITE, &peer), DIW_FAULT_STAG);
	ck_assert_uint_eq(MAY(&pd, DIW_STAG_REMOTE_READ, &peer), DIW_FAULT_ACCESS);
	ck_assert_uint_eq(MAY(&pd, DIW_STAG_REMOTE_READ | DIW_STAG_REMOTE_WRITE, &peer), DIW_FAULT_ACCESS);
	s.bound = true;
	s.peer = peer;
	ck_assert_uint_eq(MAY(&pd, DIW_STAG_REMOTE_WRITE, &peer), 0);
	ck_assert_uint_eq(MAY(&pd, DIW_STAG_REMOTE_WRITE, &port), DIW_FAULT_STAG);
	ck_assert_uint_eq(MAY(&pd, DIW_STAG_LOCAL_WRITE, NULL), 0);      /* the binding is for remote access */
	s.peer.port = 0;
	ck_assert_uint_eq(MAY(&pd, DIW_STAG_REMOTE_WRITE, &port), 0);
	ck_assert_uint_eq(MAY(&pd, DIW_STAG_REMOTE_WRITE, &host), DIW_FAULT_STAG);
	diw_stag_fini(&t);
}
END_TEST

/* An index can be in the table once, with any key; a chosen index is never one that could be drawn. */
START_TEST(chosen)
{
	static const struct { uint32_t stag; int rc; } c[] = {
		{ 0, -EINVAL }, { 0xff, -EINVAL }, { 0x01000000, -EINVAL }, { UINT32_MAX, -EINVAL },
		{ 0x100, 0 }, { 0x1ff, -EEXIST }, { 0x100, -EEXIST }, { 0xffffff, 0 }, { 0xc0de07, 0 },
	};
	struct diw_stag s[sizeof c / sizeof *c], drawn = { .addr = mem, .len = 10, .pd = &pd_a };
	uint8_t *at;

	ck_assert_int_eq(diw_stag_init(&t), 0);
	for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
		s[i] = (struct diw_stag){ .stag = c[i].stag, .addr = mem + i, .len = 10, .pd = &pd_a };
		ck_assert_msg(diw_stag_add_chosen(&t, &s[i]) == c[i].rc, "case %zu", i);
	}
	ck_assert_int_eq(diw_stag_add(&t, &drawn), 0);
	ck_assert_uint_eq(t.n, 4);
	ck_assert_uint_eq(resolve(0xc0de07, 0, 1, &at), 0);
	ck_assert_ptr_eq(at, mem + 8);
	ck_assert_uint_eq(resolve(0xc0de06, 0, 1, &at), DIW_FAULT_STAG);
	diw_stag_remove(&t, &s[4]);
	ck_assert_uint_eq(resolve(0x100, 0, 1, &at), DIW_FAULT_STAG);
	ck_assert_int_eq(diw_stag_add_chosen(&t, &s[5]), 0);
	ck_assert_uint_eq(resolve(0x1ff, 0, 1, &at), 0);
	diw_stag_fini(&t);
}
END_TEST

Suite *suite_stag(void)
{
	Suite *s = suite_create("stag");
	TCase *tc = tcase_create("stag");

	tcase_add_test(tc, as_a_list);
	tcase_add_test(tc, ends_of_a_region);
	tcase_add_test(tc, who_may_what);
	tcase_add_test(tc, chosen);
	suite_add_tcase(s, tc);
	return s;
}
