/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernels of parallel programs, in the manner of the NAS benchmarks: each communicates as the applications do for which
 * it stands. A kernel returns one number, which follows from the problem alone: it is the same for each number of
 * ranks, but for the rounding of sums.
 */
#ifndef DIW_TESTS_MPI_KERNELS_H
#define DIW_TESTS_MPI_KERNELS_H

#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>

extern int rank, ranks;

/* A number from 0 to 2^64 - 1 that depends on A and B only. */
uint64_t hash2(uint64_t a, uint64_t b);
/* Memory that is 0. Without memory the program ends. */
void *need(size_t count, size_t size);
double sum_of_all(double x);

/* SIZE is 0 (small) or 1 (large). */
double run_cg(int size);
double run_mg(int size);
double run_smg(int size);
double run_ssor(int size);
double run_sort(int size);

/* ---- grid.c ---- */

/* A periodic grid of n[0] x n[1] x n[2] points. Each rank has a block of m[0] x m[1] x m[2] points from FIRST on, with
 * a layer of its neighbours' points around it. The last index is next in memory. */
struct grid {
	int n[3], m[3], first[3];
	int step[2];                    /* between neighbours in memory in the first and in the second direction */
	int below[3], above[3];         /* ranks */
	MPI_Comm comm;                  /* MPI_COMM_SELF: this rank has the whole grid */
	MPI_Datatype face[3];           /* the points of a layer, with the layers of the directions before it */
	size_t points;                  /* with the layers */
};

/* The blocks of P[0] x P[1] x P[2] ranks; each P divides its N. */
void grid_init(struct grid *g, const int n[3], const int p[3], MPI_Comm comm);
void grid_fini(struct grid *g);
/* Gets the neighbours' layers of V. */
void grid_exchange(const struct grid *g, double *v);
static inline size_t grid_at(const struct grid *g, int i, int j, int k)
{
	return (size_t)((i + 1) * g->step[0] + (j + 1) * g->step[1] + k + 1);
}

#endif
