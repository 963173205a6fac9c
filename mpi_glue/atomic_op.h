/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic operations on memory of this host, by libfabric's numbers for operations and types (docs/mpi-wire.md). */
#ifndef DIW_MPI_GLUE_ATOMIC_OP_H
#define DIW_MPI_GLUE_ATOMIC_OP_H

#include <stdbool.h>
#include <stdint.h>

enum glue_atomic {
	GLUE_MIN, GLUE_MAX, GLUE_SUM, GLUE_PROD, GLUE_LOR, GLUE_LAND, GLUE_BOR, GLUE_BAND, GLUE_LXOR, GLUE_BXOR,
	GLUE_ATOMIC_READ, GLUE_ATOMIC_WRITE,
	GLUE_CSWAP, GLUE_CSWAP_NE, GLUE_CSWAP_LE, GLUE_CSWAP_LT, GLUE_CSWAP_GE, GLUE_CSWAP_GT, GLUE_MSWAP,
	GLUE_ATOMICS,
};

enum glue_type {
	GLUE_INT8, GLUE_UINT8, GLUE_INT16, GLUE_UINT16, GLUE_INT32, GLUE_UINT32, GLUE_INT64, GLUE_UINT64,
	GLUE_FLOAT, GLUE_DOUBLE, GLUE_FLOAT_COMPLEX, GLUE_DOUBLE_COMPLEX, GLUE_LONG_DOUBLE, GLUE_LONG_DOUBLE_COMPLEX,
	GLUE_TYPES,
};

/* Octets of one element; the number of which its address must be a multiple, as in a C program, but at most 8. */
uint32_t diw_glue_type_size(enum glue_type type);
uint32_t diw_glue_type_align(enum glue_type type);
/* Whether the operation exists for this type. */
bool diw_glue_atomic_is_valid(uint32_t op, uint32_t type);
/* Whether the operation has an operand for each element; whether it has another one to compare with. */
static inline bool glue_atomic_has_operand(uint32_t op) { return op != GLUE_ATOMIC_READ; }
static inline bool glue_atomic_compares(uint32_t op) { return op >= GLUE_CSWAP; }

/* Executes OP on COUNT elements of an array. RESULT, which may be NULL, gets the old values. No
 * array needs to be aligned. */
void diw_glue_atomic_do(enum glue_atomic op, enum glue_type type, void *at, uint32_t count, const uint8_t *operand,
			const uint8_t *compare, uint8_t *result);

#endif
