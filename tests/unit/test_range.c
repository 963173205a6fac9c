/* SPDX-License-Identifier: BSD-2-Clause */
/* Range sets against a bitmap, and the pools from which they borrow. */
#include <errno.h>
#include <string.h>

#include "base/range.h"
#include "base/rng.h"
#include "tests/unit/unit.h"

static struct diw_arena arena;
static struct diw_range_pools pools;

static void open_pools(uint32_t owners)
{
	ck_assert_int_eq(diw_arena_init(&arena, diw_range_pools_bytes(owners)), 0);
	diw_range_pools_init(&pools, &arena, owners);
	ck_assert_uint_le(arena.used, arena.size);
}

static uint32_t only(const uint8_t *map, uint8_t what, uint32_t from, uint32_t to)
{
	for (; from < to; from++)
		if (map[from] != what)
			ck_abort_msg("byte %u is %s", from, what ? "too much" : "missing");
	return to;
}

/* Ascending, disjoint, never adjacent, within [0, bits), and exactly the bytes of MAP. */
static void check_against(const struct diw_range_set *s, const uint8_t *map, uint32_t bits)
{
	uint32_t at = 0, bytes = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		if (s->v[i].lo >= s->v[i].hi || (i && s->v[i].lo <= s->v[i - 1].hi) || s->v[i].hi > bits)
			ck_abort_msg("extent %u: %u to %u", i, s->v[i].lo, s->v[i].hi);
		at = only(map, 0, at, s->v[i].lo);
		at = only(map, 1, at, s->v[i].hi);
		bytes += s->v[i].hi - s->v[i].lo;
	}
	only(map, 0, at, bits);
	ck_assert_uint_eq(s->bytes, bytes);
	ck_assert_uint_le(s->n, s->cap);
}

static int64_t mark(uint8_t *map, uint32_t lo, uint32_t hi)
{
	int64_t fresh = 0;

	for (; lo < hi; lo++) {
		fresh += !map[lo];
		map[lo] = 1;
	}
	return fresh;
}

START_TEST(as_a_bitmap)
{
	enum { BITS = 2000 };
	struct diw_rng rng = { (uint64_t)_i };
	uint32_t longest = 1 + 4 * (uint32_t)_i;
	static uint8_t map[BITS];
	struct diw_range_set s;

	open_pools(64);
	diw_range_init(&s);
	memset(map, 0, sizeof map);
	for (int n = 0; n < 1500; n++) {
		uint32_t lo = (uint32_t)(diw_rng_next(&rng) % BITS), len = 1 + (uint32_t)(diw_rng_next(&rng) % longest);
		uint32_t hi = lo + len < BITS ? lo + len : BITS;

		ck_assert_int_eq(diw_range_add(&s, &pools, lo, hi), mark(map, lo, hi));
		check_against(&s, map, BITS);
	}
	diw_range_fini(&s, &pools);
	ck_assert_uint_eq(diw_range_pools_used(&pools), 0);
	diw_arena_fini(&arena);
}
END_TEST

/* The whole range of 32 bits, from both ends. */
START_TEST(the_whole_width)
{
	struct diw_range_set s;

	open_pools(16);
	diw_range_init(&s);
	ck_assert_int_eq(diw_range_add(&s, &pools, UINT32_MAX - 1, UINT32_MAX), 1);
	ck_assert_int_eq(diw_range_add(&s, &pools, 0, 1), 1);
	ck_assert_uint_eq(s.n, 2);
	ck_assert_int_eq(diw_range_add(&s, &pools, 0, UINT32_MAX), UINT32_MAX - 2ll);
	ck_assert_uint_eq(s.n, 1);
	ck_assert_uint_eq(s.bytes, UINT32_MAX);
	ck_assert_int_eq(diw_range_add(&s, &pools, 5, UINT32_MAX), 0);
	diw_range_fini(&s, &pools);
	diw_arena_fini(&arena);
}
END_TEST

/* An extent beyond the bound is refused, and the set is unchanged; one that joins others still fits. */
START_TEST(no_more_than_the_bound)
{
	struct diw_range_set s;

	open_pools(16);
	diw_range_init(&s);
	for (uint32_t i = 0; i < DIW_RANGE_MAX; i++)
		ck_assert_int_eq(diw_range_add(&s, &pools, 2 * i, 2 * i + 1), 1);
	ck_assert_uint_eq(s.n, DIW_RANGE_MAX);
	ck_assert_int_eq(diw_range_add(&s, &pools, 3 * DIW_RANGE_MAX, 3 * DIW_RANGE_MAX + 1), -ENOSPC);
	ck_assert_uint_eq(s.n, DIW_RANGE_MAX);
	ck_assert_uint_eq(s.bytes, DIW_RANGE_MAX);
	ck_assert_int_eq(diw_range_add(&s, &pools, 1, 2), 1);
	ck_assert_uint_eq(s.n, DIW_RANGE_MAX - 1);
	ck_assert_int_eq(diw_range_add(&s, &pools, 3 * DIW_RANGE_MAX, 3 * DIW_RANGE_MAX + 1), 1);
	diw_range_fini(&s, &pools);
	ck_assert_uint_eq(diw_range_pools_used(&pools), 0);
	diw_arena_fini(&arena);
}
END_TEST

/* When other sets have borrowed every array, a set keeps its extents, and can grow when an array is returned. */
START_TEST(pools_run_dry)
{
	struct diw_range_set s[17];
	uint32_t i, n;

	open_pools(16);                         /* sixteen arrays of each size */
	for (i = 0; i < 17; i++) {
		diw_range_init(&s[i]);
		for (n = 0; n < DIW_RANGE_INLINE; n++)
			ck_assert_int_eq(diw_range_add(&s[i], &pools, 2 * n, 2 * n + 1), 1);
	}
	for (i = 0; i < 16; i++)
		ck_assert_int_eq(diw_range_add(&s[i], &pools, 100, 101), 1);
	ck_assert_int_eq(diw_range_add(&s[16], &pools, 100, 101), -ENOSPC);
	ck_assert_uint_eq(s[16].n, DIW_RANGE_INLINE);
	diw_range_fini(&s[3], &pools);
	ck_assert_int_eq(diw_range_add(&s[16], &pools, 100, 101), 1);
	ck_assert_uint_eq(s[16].n, DIW_RANGE_INLINE + 1);
	for (i = 0; i < 17; i++)
		diw_range_fini(&s[i], &pools);
	ck_assert_uint_eq(diw_range_pools_used(&pools), 0);
	diw_arena_fini(&arena);
}
END_TEST

/* Every object is given out once, at its own address; the one returned last is reused first. */
START_TEST(a_pool)
{
	enum { N = 100, SIZE = 40 };
	struct diw_pool p;
	uint8_t *obj[N];

	ck_assert_int_eq(diw_arena_init(&arena, diw_pool_bytes(SIZE, N)), 0);
	diw_pool_init(&p, &arena, SIZE, N);
	for (int i = 0; i < N; i++) {
		obj[i] = diw_pool_get(&p);
		ck_assert_ptr_nonnull(obj[i]);
		ck_assert_uint_eq((uintptr_t)obj[i] % 16, 0);
		memset(obj[i], i, SIZE);
	}
	ck_assert_ptr_null(diw_pool_get(&p));
	for (int i = 0; i < N; i++)
		for (int n = 0; n < SIZE; n++)
			if (obj[i][n] != i)
				ck_abort_msg("octet %d of object %d", n, i);
	ck_assert(obj[0] >= arena.base);
	ck_assert(obj[N - 1] + SIZE <= arena.base + arena.size);
	for (int i = 0; i < N; i += 2)
		diw_pool_put(&p, obj[i]);
	ck_assert_uint_eq(p.used, N / 2);
	for (int i = N - 2; i >= 0; i -= 2)
		ck_assert_ptr_eq(diw_pool_get(&p), obj[i]);
	ck_assert_ptr_null(diw_pool_get(&p));
	diw_arena_fini(&arena);
}
END_TEST

Suite *suite_range(void)
{
	Suite *s = suite_create("range, pool");
	TCase *tc = tcase_create("range");

	tcase_add_loop_test(tc, as_a_bitmap, 0, 12);
	tcase_add_test(tc, the_whole_width);
	tcase_add_test(tc, no_more_than_the_bound);
	tcase_add_test(tc, pools_run_dry);
	tcase_add_test(tc, a_pool);
	suite_add_tcase(s, tc);
	return s;
}
