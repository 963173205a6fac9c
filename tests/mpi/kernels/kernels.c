/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the kernels of parallel programs, and checks the result of each.
 * usage: kernels [large] [cg] [mg] [lu] [is] [smg]        (default: all)
 *
 * The number of ranks is a power of two. Rank 0 prints a line for each kernel, and last "done: N kernels, N wrong".
 * Exit status 1 when a result was wrong.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "kernels.h"

#define TOLERANCE 1e-8

int rank, ranks;

/* The results are those of one rank. */
static const struct kernel {
	const char *name;
	double (*run)(int size);
	double result[2];
} kernels[] = {
	{ "cg", run_cg, { 5.529203066437e+00, 4.882134558292e+00 } },
	{ "mg", run_mg, { 3.996902911377e-03, 2.008023376981e-05 } },
	{ "lu", run_ssor, { 6.575097207125e+01, 7.571102850385e+02 } },
	{ "is", run_sort, { 4374552386556, 4480528526125e3 } },
	{ "smg", run_smg, { 6.441724704206e-03, 1.029628319779e-04 } },
};

uint64_t hash2(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x632be59bd9b4e019u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

void *need(size_t count, size_t size)
{
	void *p = calloc(count, size);

	if (!p) {
		fprintf(stderr, "no memory for %zu times %zu octets\n", count, size);
		MPI_Abort(MPI_COMM_WORLD, 2);
		abort();
	}
	return p;
}

double sum_of_all(double x)
{
	double sum;

	MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return sum;
}

static bool is_named(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return false;
}

/* Returns whether the result was wrong. */
static bool run(const struct kernel *k, int size)
{
	const double want = k->result[size];
	double begin, result, seconds;
	bool wrong;

	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	result = k->run(size);
	MPI_Barrier(MPI_COMM_WORLD);
	seconds = MPI_Wtime() - begin;
	wrong = !(fabs(result - want) <= TOLERANCE * fabs(want));
	if (rank == 0)
		printf("%s%s: %d ranks, %.3f s, result %.16g%s\n", wrong ? "wrong: " : "", k->name, ranks, seconds,
		       result, wrong ? "" : ", correct");
	fflush(stdout);
	return wrong;
}

int main(int argc, char **argv)
{
	int n = 0, wrong = 0, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	size = is_named("large", argc, argv);
	if (ranks & (ranks - 1)) {
		if (rank == 0)
			fprintf(stderr, "kernels: %d ranks: the number must be a power of two\n", ranks);
		MPI_Finalize();
		return 2;
	}
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (argc == 1 + size || is_named(kernels[i].name, argc, argv)) {
			wrong += run(&kernels[i], size);
			n++;
		}
	MPI_Finalize();
	if (rank == 0)
		printf("done: %d kernels, %d wrong\n", n, wrong);
	return wrong > 0;
}
