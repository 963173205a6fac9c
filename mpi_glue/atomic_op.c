/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic operations: loops over elements, one function for each type. The caller holds the lock that makes an operation
 * atomic. */
#include <complex.h>
#include <stddef.h>
#include <string.h>

#include "mpi_glue/atomic_op.h"

/* Operations by the kind of type that they need. */
#define OPS_ALL \
	(1u << GLUE_SUM | 1u << GLUE_PROD | 1u << GLUE_LOR | 1u << GLUE_LAND | 1u << GLUE_LXOR | \
	 1u << GLUE_ATOMIC_READ | 1u << GLUE_ATOMIC_WRITE | 1u << GLUE_CSWAP | 1u << GLUE_CSWAP_NE)
#define OPS_ORDER \
	(1u << GLUE_MIN | 1u << GLUE_MAX | 1u << GLUE_CSWAP_LE | 1u << GLUE_CSWAP_LT | 1u << GLUE_CSWAP_GE | \
	 1u << GLUE_CSWAP_GT)
#define OPS_BITS (1u << GLUE_BOR | 1u << GLUE_BAND | 1u << GLUE_BXOR | 1u << GLUE_MSWAP)

/* The new value of an element: A is its value, V the operand, C the operand to compare with. */
#define NEW_ALL(T) \
	case GLUE_LOR: return (T)(a != 0 || v != 0); \
	case GLUE_LAND: return (T)(a != 0 && v != 0); \
	case GLUE_LXOR: return (T)((a != 0) != (v != 0)); \
	case GLUE_ATOMIC_WRITE: return v; \
	case GLUE_CSWAP: return c == a ? v : a; \
	case GLUE_CSWAP_NE: return c != a ? v : a;
#define NEW_ORDER \
	case GLUE_MIN: return v < a ? v : a; \
	case GLUE_MAX: return v > a ? v : a; \
	case GLUE_CSWAP_LE: return c <= a ? v : a; \
	case GLUE_CSWAP_LT: return c < a ? v : a; \
	case GLUE_CSWAP_GE: return c >= a ? v : a; \
	case GLUE_CSWAP_GT: return c > a ? v : a;
#define NEW_SUM \
	case GLUE_SUM: return a + v; \
	case GLUE_PROD: return a * v;
/* Overflow wraps, for signed types, too. */
#define NEW_INTEGER(T) \
	case GLUE_SUM: return (T)((uint64_t)a + (uint64_t)v); \
	case GLUE_PROD: return (T)((uint64_t)a * (uint64_t)v); \
	case GLUE_BOR: return (T)(a | v); \
	case GLUE_BAND: return (T)(a & v); \
	case GLUE_BXOR: return (T)(a ^ v); \
	case GLUE_MSWAP: return (T)((v & c) | (a & ~c));

#define ATOMIC_TYPE(name, T, CASES) \
static T name##_new(enum glue_atomic op, T a, T v, T c) \
{ \
	switch (op) { \
	NEW_ALL(T) \
	CASES \
	default: return a; \
	} \
} \
static void name##_do(enum glue_atomic op, uint8_t *at, const uint8_t *operand, const uint8_t *compare, \
		      uint8_t *result) \
{ \
	T a, v = 0, c = 0; \
\
	memcpy(&a, at, sizeof a); \
	if (operand) \
		memcpy(&v, operand, sizeof v); \
	if (compare) \
		memcpy(&c, compare, sizeof c); \
	if (result) \
		memcpy(result, &a, sizeof a); \
	if (op == GLUE_ATOMIC_READ) \
		return; \
	a = name##_new(op, a, v, c); \
	memcpy(at, &a, sizeof a); \
}

ATOMIC_TYPE(int8, int8_t, NEW_ORDER NEW_INTEGER(int8_t))
ATOMIC_TYPE(uint8, uint8_t, NEW_ORDER NEW_INTEGER(uint8_t))
ATOMIC_TYPE(int16, int16_t, NEW_ORDER NEW_INTEGER(int16_t))
ATOMIC_TYPE(uint16, uint16_t, NEW_ORDER NEW_INTEGER(uint16_t))
ATOMIC_TYPE(int32, int32_t, NEW_ORDER NEW_INTEGER(int32_t))
ATOMIC_TYPE(uint32, uint32_t, NEW_ORDER NEW_INTEGER(uint32_t))
ATOMIC_TYPE(int64, int64_t, NEW_ORDER NEW_INTEGER(int64_t))
ATOMIC_TYPE(uint64, uint64_t, NEW_ORDER NEW_INTEGER(uint64_t))
ATOMIC_TYPE(float, float, NEW_ORDER NEW_SUM)
ATOMIC_TYPE(double, double, NEW_ORDER NEW_SUM)
ATOMIC_TYPE(float_complex, float complex, NEW_SUM)
ATOMIC_TYPE(double_complex, double complex, NEW_SUM)
ATOMIC_TYPE(long_double, long double, NEW_ORDER NEW_SUM)
ATOMIC_TYPE(long_double_complex, long double complex, NEW_SUM)

static const struct atomic_type {
	uint32_t size, align, ops;
	void (*run)(enum glue_atomic op, uint8_t *at, const uint8_t *operand, const uint8_t *compare, uint8_t *result);
} atomic_types[GLUE_TYPES] = {
#define TYPE(T) sizeof(T), _Alignof(T) < 8 ? _Alignof(T) : 8
#define INTEGER(T, name) { TYPE(T), OPS_ALL | OPS_ORDER | OPS_BITS, name##_do }
	[GLUE_INT8] = INTEGER(int8_t, int8), [GLUE_UINT8] = INTEGER(uint8_t, uint8),
	[GLUE_INT16] = INTEGER(int16_t, int16), [GLUE_UINT16] = INTEGER(uint16_t, uint16),
	[GLUE_INT32] = INTEGER(int32_t, int32), [GLUE_UINT32] = INTEGER(uint32_t, uint32),
	[GLUE_INT64] = INTEGER(int64_t, int64), [GLUE_UINT64] = INTEGER(uint64_t, uint64),
	[GLUE_FLOAT] = { TYPE(float), OPS_ALL | OPS_ORDER, float_do },
	[GLUE_DOUBLE] = { TYPE(double), OPS_ALL | OPS_ORDER, double_do },
	[GLUE_FLOAT_COMPLEX] = { TYPE(float complex), OPS_ALL, float_complex_do },
	[GLUE_DOUBLE_COMPLEX] = { TYPE(double complex), OPS_ALL, double_complex_do },
	[GLUE_LONG_DOUBLE] = { TYPE(long double), OPS_ALL | OPS_ORDER, long_double_do },
	[GLUE_LONG_DOUBLE_COMPLEX] = { TYPE(long double complex), OPS_ALL, long_double_complex_do },
};

uint32_t diw_glue_type_size(enum glue_type type)
{
	return atomic_types[type].size;
}

uint32_t diw_glue_type_align(enum glue_type type)
{
	return atomic_types[type].align;
}

bool diw_glue_atomic_is_valid(uint32_t op, uint32_t type)
{
	return op < GLUE_ATOMICS && type < GLUE_TYPES && (atomic_types[type].ops >> op & 1);
}

static const uint8_t *element_at(const uint8_t *array, size_t off)
{
	return array ? array + off : NULL;
}

void diw_glue_atomic_do(enum glue_atomic op, enum glue_type type, void *at, uint32_t count, const uint8_t *operand,
			const uint8_t *compare, uint8_t *result)
{
	size_t size = atomic_types[type].size;

	for (size_t off = 0; off < count * size; off += size)
		atomic_types[type].run(op, (uint8_t *)at + off, element_at(operand, off), element_at(compare, off),
				       result ? result + off : NULL);
}
