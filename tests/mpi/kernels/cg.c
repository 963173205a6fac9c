/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CG: the smallest eigenvalue of a sparse symmetric matrix by inverse iteration, with conjugate gradients. A rank has a
 * block of rows. Each product needs the whole vector, and each step two sums over all ranks.
 */
#include <math.h>
#include <string.h>

#include "kernels.h"

#define NEIGHBOURS 6             /* entries of a row on each side of the diagonal, on average */
#define STEPS 25                 /* of the conjugate gradients */

static const struct { int rows, outer; } cg_size[] = { { 4096, 4 }, { 65536, 10 } };

struct matrix {
	int n, first, rows;
	int *begin, *column;     /* entries of row i: begin[i] to begin[i + 1] - 1 */
	double *value;
	int *counts, *places;    /* rows of each rank */
};

/* The matrix is the sum of NEIGHBOURS cyclic bands and their transposes, so it is symmetric. The diagonal is larger
 * than the sum of a row's other entries, so all eigenvalues are positive. */
static int band(const struct matrix *a, int k)
{
	return 1 + (int)(hash2(7, (uint64_t)k) % (uint64_t)(a->n / 2 - 1));
}

static double band_value(int row, int k)
{
	return (double)(hash2((uint64_t)row, (uint64_t)k) >> 11) * 0x1p-53 - 0.5;
}

static void matrix_init(struct matrix *a, int n)
{
	int e = 0;

	a->n = n;
	a->rows = n / ranks;
	a->first = rank * a->rows;
	a->begin = need((size_t)a->rows + 1, sizeof *a->begin);
	a->column = need((size_t)a->rows * (2 * NEIGHBOURS + 1), sizeof *a->column);
	a->value = need((size_t)a->rows * (2 * NEIGHBOURS + 1), sizeof *a->value);
	a->counts = need((size_t)ranks, sizeof *a->counts);
	a->places = need((size_t)ranks, sizeof *a->places);
	for (int r = 0; r < ranks; r++) {
		a->counts[r] = a->rows;
		a->places[r] = r * a->rows;
	}
	for (int i = 0; i < a->rows; i++) {
		const int row = a->first + i;

		a->column[e] = row;
		a->value[e++] = NEIGHBOURS + 0.1 + (double)row / n;
		for (int k = 0; k < NEIGHBOURS; k++) {
			const int right = (row + band(a, k)) % n, left = (row + n - band(a, k)) % n;

			a->column[e] = right;
			a->value[e++] = band_value(row, k);
			a->column[e] = left;
			a->value[e++] = band_value(left, k);
		}
		a->begin[i + 1] = e;
	}
}

static void matrix_fini(struct matrix *a)
{
	free(a->begin);
	free(a->column);
	free(a->value);
	free(a->counts);
	free(a->places);
}

/* Y = A X. WHOLE has room for the whole vector. */
static void multiply(const struct matrix *a, const double *x, double *y, double *whole)
{
	MPI_Allgatherv(x, a->rows, MPI_DOUBLE, whole, a->counts, a->places, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int i = 0; i < a->rows; i++) {
		double s = 0;

		for (int e = a->begin[i]; e < a->begin[i + 1]; e++)
			s += a->value[e] * whole[a->column[e]];
		y[i] = s;
	}
}

static double dot(const double *x, const double *y, int n)
{
	double s = 0;

	for (int i = 0; i < n; i++)
		s += x[i] * y[i];
	return sum_of_all(s);
}

/* Z = A^-1 X, approximately. R, P, Q and WHOLE are room for vectors. */
static void solve(const struct matrix *a, const double *x, double *z, double *r, double *p, double *q, double *whole)
{
	double rho, old, alpha;

	memset(z, 0, (size_t)a->rows * sizeof *z);
	memcpy(r, x, (size_t)a->rows * sizeof *r);
	memcpy(p, x, (size_t)a->rows * sizeof *p);
	rho = dot(r, r, a->rows);
	for (int step = 0; step < STEPS; step++) {
		multiply(a, p, q, whole);
		alpha = rho / dot(p, q, a->rows);
		for (int i = 0; i < a->rows; i++) {
			z[i] += alpha * p[i];
			r[i] -= alpha * q[i];
		}
		old = rho;
		rho = dot(r, r, a->rows);
		for (int i = 0; i < a->rows; i++)
			p[i] = r[i] + rho / old * p[i];
	}
}

double run_cg(int size)
{
	struct matrix a;
	double *v[5], *whole = need((size_t)cg_size[size].rows, sizeof *whole), eigenvalue = 0, norm;

	matrix_init(&a, cg_size[size].rows);
	for (int i = 0; i < 5; i++)
		v[i] = need((size_t)a.rows, sizeof **v);
	for (int i = 0; i < a.rows; i++)
		v[0][i] = 1;
	for (int outer = 0; outer < cg_size[size].outer; outer++) {
		solve(&a, v[0], v[1], v[2], v[3], v[4], whole);
		eigenvalue = dot(v[0], v[0], a.rows) / dot(v[0], v[1], a.rows);
		norm = sqrt(dot(v[1], v[1], a.rows));
		for (int i = 0; i < a.rows; i++)
			v[0][i] = v[1][i] / norm;
	}
	for (int i = 0; i < 5; i++)
		free(v[i]);
	free(whole);
	matrix_fini(&a);
	return eigenvalue;
}
