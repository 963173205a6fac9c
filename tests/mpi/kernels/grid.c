/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocks of a periodic grid, and the exchange of layers between neighbours, one direction after the other: so the
 * edges and corners come with the faces. */
#include "kernels.h"

#define TAG_GRID 100

/* The layer of direction D: all points whose index in direction D is the same, including the layers of the other
 * directions. */
static MPI_Datatype face_type(const struct grid *g, int d)
{
	const int all[3] = { g->m[0] + 2, g->m[1] + 2, g->m[2] + 2 };
	int part[3] = { all[0], all[1], all[2] }, start[3] = { 0, 0, 0 };
	MPI_Datatype t;

	part[d] = 1;
	MPI_Type_create_subarray(3, all, part, start, MPI_ORDER_C, MPI_DOUBLE, &t);
	MPI_Type_commit(&t);
	return t;
}

void grid_init(struct grid *g, const int n[3], const int p[3], MPI_Comm comm)
{
	int me, place[3];

	MPI_Comm_rank(comm, &me);
	place[0] = me / (p[1] * p[2]);
	place[1] = me / p[2] % p[1];
	place[2] = me % p[2];
	g->comm = comm;
	for (int d = 0; d < 3; d++) {
		const int stride = d == 0 ? p[1] * p[2] : d == 1 ? p[2] : 1;

		g->n[d] = n[d];
		g->m[d] = n[d] / p[d];
		g->first[d] = place[d] * g->m[d];
		g->below[d] = me + ((place[d] + p[d] - 1) % p[d] - place[d]) * stride;
		g->above[d] = me + ((place[d] + 1) % p[d] - place[d]) * stride;
	}
	g->step[1] = g->m[2] + 2;
	g->step[0] = (g->m[1] + 2) * g->step[1];
	g->points = (size_t)((g->m[0] + 2) * g->step[0]);
	for (int d = 0; d < 3; d++)
		g->face[d] = face_type(g, d);
}

void grid_fini(struct grid *g)
{
	for (int d = 0; d < 3; d++)
		MPI_Type_free(&g->face[d]);
}

void grid_exchange(const struct grid *g, double *v)
{
	for (int d = 0; d < 3; d++) {
		const size_t step = d == 2 ? 1 : (size_t)g->step[d];
		double *lower = v, *first = v + step, *last = v + (size_t)g->m[d] * step, *upper = last + step;

		MPI_Sendrecv(last, 1, g->face[d], g->above[d], TAG_GRID + d, lower, 1, g->face[d], g->below[d],
			     TAG_GRID + d, g->comm, MPI_STATUS_IGNORE);
		MPI_Sendrecv(first, 1, g->face[d], g->below[d], TAG_GRID + 3 + d, upper, 1, g->face[d], g->above[d],
			     TAG_GRID + 3 + d, g->comm, MPI_STATUS_IGNORE);
	}
}
