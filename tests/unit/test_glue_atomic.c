/* SPDX-License-Identifier: BSD-2-Clause */
/* Arithmetic of the provider's atomic operations: every operation on every type that has it, against a formula. */
#include <string.h>

#include "mpi_glue/atomic_op.h"
#include "tests/unit/unit.h"

static const uint32_t sizes[GLUE_TYPES] = { 1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 32 };

/* A small number as an element of TYPE; a complex one has it as its real part. */
static void element_put(enum glue_type type, uint8_t *p, int value)
{
	memset(p, 0, sizes[type]);
	switch (type) {
	case GLUE_FLOAT:
	case GLUE_FLOAT_COMPLEX: memcpy(p, &(float){ (float)value }, sizeof(float)); break;
	case GLUE_DOUBLE:
	case GLUE_DOUBLE_COMPLEX: memcpy(p, &(double){ value }, sizeof(double)); break;
	case GLUE_LONG_DOUBLE:
	case GLUE_LONG_DOUBLE_COMPLEX: memcpy(p, &(long double){ value }, 10); break;
	default: memcpy(p, &(int64_t){ value }, sizes[type]);
	}
}

/* The value of an element A after the operation with the operand V and the operand C to compare with. */
static int element_new(enum glue_atomic op, int a, int v, int c)
{
	switch (op) {
	case GLUE_MIN: return v < a ? v : a;
	case GLUE_MAX: return v > a ? v : a;
	case GLUE_SUM: return a + v;
	case GLUE_PROD: return a * v;
	case GLUE_LOR: return a || v;
	case GLUE_LAND: return a && v;
	case GLUE_LXOR: return !a != !v;
	case GLUE_BOR: return a | v;
	case GLUE_BAND: return a & v;
	case GLUE_BXOR: return a ^ v;
	case GLUE_ATOMIC_WRITE: return v;
	case GLUE_CSWAP: return c == a ? v : a;
	case GLUE_CSWAP_NE: return c != a ? v : a;
	case GLUE_CSWAP_LE: return c <= a ? v : a;
	case GLUE_CSWAP_LT: return c < a ? v : a;
	case GLUE_CSWAP_GE: return c >= a ? v : a;
	case GLUE_CSWAP_GT: return c > a ? v : a;
	case GLUE_MSWAP: return (v & c) | (a & ~c);
	default: return a;
	}
}

static bool type_is_complex(enum glue_type type)
{
	return type == GLUE_FLOAT_COMPLEX || type == GLUE_DOUBLE_COMPLEX || type == GLUE_LONG_DOUBLE_COMPLEX;
}

START_TEST(of_type)
{
	static const int values[] = { 0, 1, 2, 3, 5, 7 };
	enum { N = 6 * 6 * 6 };
	enum glue_type type = (enum glue_type)_i;
	uint8_t at[N * 32] __attribute__((aligned(32))), old[N * 32], v[N * 32], c[N * 32], want[N * 32], got[N * 32];
	uint32_t size = diw_glue_type_size(type), octets = N * size;

	ck_assert_uint_eq(size, sizes[type]);
	for (int op = 0; op < GLUE_ATOMICS; op++) {
		bool bits = op == GLUE_BOR || op == GLUE_BAND || op == GLUE_BXOR || op == GLUE_MSWAP;
		bool order = op == GLUE_MIN || op == GLUE_MAX || (op >= GLUE_CSWAP_LE && op <= GLUE_CSWAP_GT);

		ck_assert_int_eq(diw_glue_atomic_is_valid((uint32_t)op, type),
				 !(bits && type >= GLUE_FLOAT) && !(order && type_is_complex(type)));
		if (!diw_glue_atomic_is_valid((uint32_t)op, type))
			continue;
		memset(got, 0, octets);
		for (uint32_t i = 0; i < N; i++) {
			int a0 = values[i % 6], v0 = values[i / 6 % 6], c0 = values[i / 36];

			element_put(type, at + i * size, a0);
			element_put(type, v + i * size, v0);
			element_put(type, c + i * size, c0);
			element_put(type, want + i * size, element_new((enum glue_atomic)op, a0, v0, c0));
		}
		memcpy(old, at, octets);
		diw_glue_atomic_do((enum glue_atomic)op, type, at, N, v, c, got);
		for (uint32_t i = 0; i < octets; i++) {
			/* 6 octets of a long double have no meaning */
			if (type >= GLUE_LONG_DOUBLE && i % 16 >= 10)
				continue;
			ck_assert_msg(at[i] == want[i] && got[i] == old[i], "operation %d, octet %u", op, i);
		}
	}
}
END_TEST

/* Signed types wrap at both ends, and comparisons respect the sign. */
START_TEST(of_the_sign)
{
	int8_t a = 127, v = 1;
	uint8_t u = 200, w = 100;
	int64_t big = INT64_MAX, two = 2;

	diw_glue_atomic_do(GLUE_SUM, GLUE_INT8, &a, 1, (uint8_t *)&v, NULL, NULL);
	ck_assert_int_eq(a, -128);
	diw_glue_atomic_do(GLUE_MAX, GLUE_INT8, &a, 1, (uint8_t *)&v, NULL, NULL);
	ck_assert_int_eq(a, 1);
	diw_glue_atomic_do(GLUE_MIN, GLUE_UINT8, &u, 1, &w, NULL, NULL);
	ck_assert_uint_eq(u, 100);
	diw_glue_atomic_do(GLUE_PROD, GLUE_INT64, &big, 1, (uint8_t *)&two, NULL, NULL);
	ck_assert_int_eq(big, -2);
}
END_TEST

/* A read writes nothing: the memory may be read-only. */
START_TEST(read_only)
{
	static const uint64_t constant = 42;
	uint64_t got = 0;

	diw_glue_atomic_do(GLUE_ATOMIC_READ, GLUE_UINT64, (void *)(uintptr_t)&constant, 1, NULL, NULL, (uint8_t *)&got);
	ck_assert_uint_eq(got, 42);
	ck_assert(!diw_glue_atomic_is_valid(GLUE_ATOMICS, GLUE_INT8));
	ck_assert(!diw_glue_atomic_is_valid(GLUE_SUM, GLUE_TYPES));
}
END_TEST

Suite *suite_glue_atomic(void)
{
	Suite *s = suite_create("glue_atomic");
	TCase *tc = tcase_create("glue_atomic");

	tcase_add_loop_test(tc, of_type, 0, GLUE_TYPES);
	tcase_add_test(tc, of_the_sign);
	tcase_add_test(tc, read_only);
	suite_add_tcase(s, tc);
	return s;
}
