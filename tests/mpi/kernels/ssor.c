/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LU: symmetric successive overrelaxation of five coupled unknowns a point. A rank has all planes of a block of
 * columns. A sweep passes through the ranks as a wave front: a rank computes a plane when the neighbours before it
 * have, so each plane costs a short message to each of the neighbours behind it.
 */
#include <math.h>
#include <stdbool.h>

#include "kernels.h"

#define UNKNOWNS 5
#define RELAXATION 1.2
#define COUPLING 0.1
#define TAG_ROW 200
#define TAG_FACE 210

static const struct { int n, sweeps; } ssor_size[] = { { 24, 10 }, { 96, 40 } };

struct columns {
	int n, m[2], first[2];
	int below[2], above[2];          /* ranks, or MPI_PROC_NULL at the border */
	long step[3];                    /* between neighbours in memory */
	double *u, *b;
	MPI_Datatype row[2], face[2];    /* what a neighbour in this direction needs: of a plane, of all planes */
};

static long at(const struct columns *c, int i, int j, int k)
{
	return (i + 1) * c->step[0] + (j + 1) * c->step[1] + (k + 1) * c->step[2];
}

static void columns_place(struct columns *c, int n)
{
	int p[2] = { 0 }, place[2];

	MPI_Dims_create(ranks, 2, p);
	place[0] = rank / p[1];
	place[1] = rank % p[1];
	c->n = n;
	for (int d = 0; d < 2; d++) {
		const int stride = d == 0 ? p[1] : 1, end = (place[d] + 1) * n / p[d];

		c->first[d] = place[d] * n / p[d];
		c->m[d] = end - c->first[d];
		c->below[d] = place[d] > 0 ? rank - stride : MPI_PROC_NULL;
		c->above[d] = place[d] + 1 < p[d] ? rank + stride : MPI_PROC_NULL;
	}
	c->step[2] = UNKNOWNS;
	c->step[1] = (n + 2) * c->step[2];
	c->step[0] = (c->m[1] + 2) * c->step[1];
}

static void columns_init(struct columns *c, int n)
{
	columns_place(c, n);
	c->u = need((size_t)((c->m[0] + 2) * c->step[0]), sizeof *c->u);
	c->b = need((size_t)((c->m[0] + 2) * c->step[0]), sizeof *c->b);
	for (int i = 0; i < c->m[0]; i++)
		for (int j = 0; j < c->m[1]; j++)
			for (int e = 0; e < n * UNKNOWNS; e++)
				c->b[at(c, i, j, 0) + e] = (double)(hash2((uint64_t)((c->first[0] + i) * n +
					c->first[1] + j), (uint64_t)e) >> 11) * 0x1p-53;
	for (int d = 0; d < 2; d++) {
		MPI_Type_vector(c->m[1 - d], UNKNOWNS, (int)c->step[1 - d], MPI_DOUBLE, &c->row[d]);
		MPI_Type_vector(c->m[1 - d], UNKNOWNS * n, (int)c->step[1 - d], MPI_DOUBLE, &c->face[d]);
		MPI_Type_commit(&c->row[d]);
		MPI_Type_commit(&c->face[d]);
	}
}

static void columns_fini(struct columns *c)
{
	for (int d = 0; d < 2; d++) {
		MPI_Type_free(&c->row[d]);
		MPI_Type_free(&c->face[d]);
	}
	free(c->u);
	free(c->b);
}

/* The first place, in direction D, of a neighbour's layer (-1), of the first layer (0), of the last (m - 1), or of the
 * other neighbour's (m). */
static double *layer(const struct columns *c, int d, int index, int k)
{
	return &c->u[at(c, d == 0 ? index : 0, d == 0 ? 0 : index, k)];
}

/* Gets the layers of the neighbours above, or of those below. */
static void get_faces(const struct columns *c, bool above)
{
	for (int d = 0; d < 2; d++)
		MPI_Sendrecv(layer(c, d, above ? 0 : c->m[d] - 1, 0), 1, c->face[d], above ? c->below[d] : c->above[d],
			     TAG_FACE + d, layer(c, d, above ? c->m[d] : -1, 0), 1, c->face[d],
			     above ? c->above[d] : c->below[d], TAG_FACE + d, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* What is left of the equation of unknown E at place A. */
static double left_over(const struct columns *c, long a, int e)
{
	const double *u = c->u;

	return c->b[a + e] - (6 + COUPLING) * u[a + e] + COUPLING * u[a + (e + 1) % UNKNOWNS] +
	       u[a + e - c->step[0]] + u[a + e + c->step[0]] + u[a + e - c->step[1]] + u[a + e + c->step[1]] +
	       u[a + e - c->step[2]] + u[a + e + c->step[2]];
}

static void relax_plane(const struct columns *c, int k, bool up)
{
	for (int x = 0; x < c->m[0]; x++)
		for (int y = 0; y < c->m[1]; y++) {
			const long a = at(c, up ? x : c->m[0] - 1 - x, up ? y : c->m[1] - 1 - y, k);

			for (int e = 0; e < UNKNOWNS; e++)
				c->u[a + e] += RELAXATION / (6 + COUPLING) * left_over(c, a, e);
		}
}

/* One sweep, upwards or downwards. The neighbours behind have their values of before the sweep, those in front their
 * new ones. */
static void sweep(const struct columns *c, bool up)
{
	const int *from = up ? c->below : c->above, *to = up ? c->above : c->below;

	get_faces(c, up);
	for (int step = 0; step < c->n; step++) {
		const int k = up ? step : c->n - 1 - step;

		for (int d = 0; d < 2; d++)
			MPI_Recv(layer(c, d, up ? -1 : c->m[d], k), 1, c->row[d], from[d], TAG_ROW + d, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		relax_plane(c, k, up);
		for (int d = 0; d < 2; d++)
			MPI_Send(layer(c, d, up ? c->m[d] - 1 : 0, k), 1, c->row[d], to[d], TAG_ROW + d,
				 MPI_COMM_WORLD);
	}
}

double run_ssor(int size)
{
	struct columns c;
	double s = 0;

	columns_init(&c, ssor_size[size].n);
	for (int i = 0; i < ssor_size[size].sweeps; i++) {
		sweep(&c, true);
		sweep(&c, false);
	}
	get_faces(&c, true);
	get_faces(&c, false);
	for (int i = 0; i < c.m[0]; i++)
		for (int j = 0; j < c.m[1]; j++)
			for (int k = 0; k < c.n; k++)
				for (int e = 0; e < UNKNOWNS; e++)
					s += pow(left_over(&c, at(&c, i, j, k), e), 2);
	columns_fini(&c);
	return sqrt(sum_of_all(s));
}
