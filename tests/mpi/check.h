/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the program of `make check-mpi`: declarations that its parts share. Each byte that a rank sends follows from the
 * operation, the sender, the receiver, the round and the byte's offset, so each rank knows the data that must
 * arrive.
 */
#ifndef DIW_TESTS_MPI_CHECK_H
#define DIW_TESTS_MPI_CHECK_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern int rank, ranks, round_number;
extern bool replaces;           /* whether Get_accumulate of an array is MPI_REPLACE, else MPI_SUM */
extern bool renews;             /* post-start-complete-wait uses another window than the fences before it */

/* The sizes of a round, each around a threshold at which some MPI changes its protocol: 0 to 4 MiB. */
#define MAX_SIZES 32
extern size_t sizes[MAX_SIZES];
extern int nsizes;

/* The contents of a message: OPERATION names the test, INDEX the message within it. */
uint64_t pattern(const char *operation, int from, int to, int index);
/* Number I of that pattern. */
uint64_t number(uint64_t pattern, size_t i);

/* Memory with guard bytes on both sides; freeing it checks that they are unchanged. */
void *area_new(size_t len);
void area_free(void *area, size_t len, const char *operation);

void fill(void *area, size_t len, uint64_t pattern);
/* Counts a wrong result, and prints the first ones, unless AREA holds the pattern. */
void expect_bytes(const void *area, size_t len, uint64_t pattern, const char *operation, int from);
void expect_equal(uint64_t got, uint64_t want, const char *operation, int from);

void check_p2p(void);
void check_coll(void);
void check_rma(void);
void check_atomics(void);
void check_threads(void);
void check_big(void);

#endif
