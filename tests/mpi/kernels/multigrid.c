/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MG and SMG: Poisson's equation on a periodic grid by multigrid cycles. MG halves the points of all directions from
 * level to level. SMG's equation is not the same in all directions, and it halves the points of one direction at a
 * time, that of the strongest coupling: so it has three times as many levels and exchanges, most of them small.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels.h"

#define LEVELS 32
#define CHARGES 10
#define DAMPING 0.8
#define SWEEPS 2                 /* of the smoother, before and after the coarser levels */
#define LAST_SWEEPS 20

struct level {
	struct grid g;
	double w[3];             /* coupling of neighbours in each direction */
	int half[3];             /* 2: the next level has half of the points in this direction; else 1 */
	bool gathers;            /* in the next level, which has the same points, each rank has the whole grid */
	double *v, *b, *r;       /* unknown, right hand side, residual */
};

struct multigrid {
	struct level level[LEVELS];
	int levels;
};

/* ---- Smoother and residual ---- */

static double diagonal(const struct level *l)
{
	return 2 * (l->w[0] + l->w[1] + l->w[2]);
}

static void residual(const struct level *l)
{
	const size_t x = (size_t)l->g.step[0], y = (size_t)l->g.step[1];
	const double *v = l->v, middle = diagonal(l);

	grid_exchange(&l->g, l->v);
	for (int i = 0; i < l->g.m[0]; i++)
		for (int j = 0; j < l->g.m[1]; j++)
			for (size_t a = grid_at(&l->g, i, j, 0), end = a + (size_t)l->g.m[2]; a < end; a++)
				l->r[a] = l->b[a] - middle * v[a] + l->w[0] * (v[a - x] + v[a + x]) +
					  l->w[1] * (v[a - y] + v[a + y]) + l->w[2] * (v[a - 1] + v[a + 1]);
}

static void smooth(const struct level *l, int sweeps)
{
	const double factor = DAMPING / diagonal(l);

	for (int s = 0; s < sweeps; s++) {
		residual(l);
		for (int i = 0; i < l->g.m[0]; i++)
			for (int j = 0; j < l->g.m[1]; j++)
				for (size_t a = grid_at(&l->g, i, j, 0), end = a + (size_t)l->g.m[2]; a < end; a++)
					l->v[a] += factor * l->r[a];
	}
}

/* ---- From level to level ---- */

/* The mean of R around a point, in the directions that are halved. */
static double weighted(const struct level *l, size_t at)
{
	const long step[3] = { l->g.step[0], l->g.step[1], 1 };
	double sum = 0;

	for (int i = 1 - l->half[0]; i < l->half[0]; i++)
		for (int j = 1 - l->half[1]; j < l->half[1]; j++)
			for (int k = 1 - l->half[2]; k < l->half[2]; k++) {
				const int away = (i != 0) + (j != 0) + (k != 0);
				const int halved = l->half[0] + l->half[1] + l->half[2] - 3;

				sum += l->r[(long)at + i * step[0] + j * step[1] + k * step[2]] /
				       (double)(1 << (halved + away));
			}
	return sum;
}

static void restrict_to(const struct level *l, struct level *next)
{
	grid_exchange(&l->g, l->r);
	for (int i = 0; i < next->g.m[0]; i++)
		for (int j = 0; j < next->g.m[1]; j++)
			for (int k = 0; k < next->g.m[2]; k++)
				next->b[grid_at(&next->g, i, j, k)] = weighted(l,
					grid_at(&l->g, i * l->half[0], j * l->half[1], k * l->half[2]));
}

/* The correction of point (i, j, k): between two coarse points it is their mean. */
static double corrected(const struct level *l, const struct level *next, int i, int j, int k)
{
	const int odd[3] = { l->half[0] == 2 && i % 2, l->half[1] == 2 && j % 2, l->half[2] == 2 && k % 2 };
	double sum = 0;

	for (int a = 0; a <= odd[0]; a++)
		for (int b = 0; b <= odd[1]; b++)
			for (int c = 0; c <= odd[2]; c++)
				sum += next->v[grid_at(&next->g, i / l->half[0] + a, j / l->half[1] + b,
						       k / l->half[2] + c)];
	return sum / (double)(1 << (odd[0] + odd[1] + odd[2]));
}

static void prolong_from(struct level *l, const struct level *next)
{
	grid_exchange(&next->g, next->v);
	for (int i = 0; i < l->g.m[0]; i++)
		for (int j = 0; j < l->g.m[1]; j++)
			for (int k = 0; k < l->g.m[2]; k++)
				l->v[grid_at(&l->g, i, j, k)] += corrected(l, next, i, j, k);
}

/* All ranks get all blocks of R. */
static void gather_to(const struct level *l, struct level *next)
{
	const int *m = l->g.m, n = m[0] * m[1] * m[2];
	const int blocks[3] = { l->g.n[0] / m[0], l->g.n[1] / m[1], l->g.n[2] / m[2] };
	double *mine = need((size_t)n, sizeof *mine), *all = need((size_t)(n * ranks), sizeof *all), *to = mine;

	for (int i = 0; i < m[0]; i++)
		for (int j = 0; j < m[1]; j++, to += m[2])
			memcpy(to, &l->r[grid_at(&l->g, i, j, 0)], (size_t)m[2] * sizeof *to);
	MPI_Allgather(mine, n, MPI_DOUBLE, all, n, MPI_DOUBLE, MPI_COMM_WORLD);
	for (int r = 0; r < ranks; r++)
		for (int a = 0; a < n; a++)
			next->b[grid_at(&next->g, r / (blocks[1] * blocks[2]) * m[0] + a / (m[1] * m[2]),
					r / blocks[2] % blocks[1] * m[1] + a / m[2] % m[1],
					r % blocks[2] * m[2] + a % m[2])] = all[r * n + a];
	free(mine);
	free(all);
}

static void take_back(struct level *l, const struct level *next)
{
	for (int i = 0; i < l->g.m[0]; i++)
		for (int j = 0; j < l->g.m[1]; j++)
			for (int k = 0; k < l->g.m[2]; k++)
				l->v[grid_at(&l->g, i, j, k)] += next->v[grid_at(&next->g, l->g.first[0] + i,
					l->g.first[1] + j, l->g.first[2] + k)];
}

static void cycle(struct multigrid *mg)
{
	for (int n = 0; n + 1 < mg->levels; n++) {
		struct level *l = &mg->level[n], *next = l + 1;

		if (!l->gathers)
			smooth(l, SWEEPS);
		residual(l);
		memset(next->v, 0, next->g.points * sizeof *next->v);
		if (l->gathers)
			gather_to(l, next);
		else
			restrict_to(l, next);
	}
	smooth(&mg->level[mg->levels - 1], LAST_SWEEPS);
	for (int n = mg->levels - 2; n >= 0; n--) {
		struct level *l = &mg->level[n];

		if (l->gathers) {
			take_back(l, l + 1);
		} else {
			prolong_from(l, l + 1);
			smooth(l, SWEEPS);
		}
	}
}

/* ---- Levels ---- */

/* Sets which directions the level halves. False: none, so it is the last one. */
static bool choose_half(struct level *l, bool one_direction)
{
	int strongest = -1;

	for (int d = 0; d < 3; d++) {
		l->half[d] = !one_direction && l->g.n[d] > 2 ? 2 : 1;
		if (l->g.n[d] > 2 && (strongest < 0 || l->w[d] > l->w[strongest]))
			strongest = d;
	}
	if (one_direction && strongest >= 0)
		l->half[strongest] = 2;
	return strongest >= 0;
}

static void level_memory(struct level *l)
{
	l->v = need(l->g.points, sizeof *l->v);
	l->b = need(l->g.points, sizeof *l->b);
	l->r = need(l->g.points, sizeof *l->r);
}

static void multigrid_init(struct multigrid *mg, int n, const double w[3], bool one_direction)
{
	struct level *l = mg->level;
	int size[3] = { n, n, n }, p[3] = { 0 };
	MPI_Comm comm = MPI_COMM_WORLD;

	MPI_Dims_create(ranks, 3, p);
	memcpy(l->w, w, sizeof l->w);
	for (;; l++) {
		grid_init(&l->g, size, p, comm);
		level_memory(l);
		if (!choose_half(l, one_direction))
			break;
		memcpy(l[1].w, l->w, sizeof l->w);
		for (int d = 0; d < 3; d++)
			l->gathers |= l->half[d] == 2 && l->g.m[d] == 1;
		for (int d = 0; d < 3; d++) {
			if (l->gathers) {
				p[d] = l->half[d] = 1;
				comm = MPI_COMM_SELF;
			}
			size[d] /= l->half[d];
			l[1].w[d] /= l->half[d] * l->half[d];
		}
	}
	mg->levels = (int)(l - mg->level) + 1;
}

/* Charges of both signs at points that do not depend on the ranks. */
static void set_charges(struct level *l)
{
	for (int c = 0; c < 2 * CHARGES; c++) {
		int at[3], here = 1;

		for (int d = 0; d < 3; d++) {
			at[d] = (int)(hash2((uint64_t)c, (uint64_t)d) % (uint64_t)l->g.n[d]) - l->g.first[d];
			here &= at[d] >= 0 && at[d] < l->g.m[d];
		}
		if (here)
			l->b[grid_at(&l->g, at[0], at[1], at[2])] += c < CHARGES ? 1 : -1;
	}
}

static double norm(const struct level *l)
{
	double s = 0;

	residual(l);
	for (int i = 0; i < l->g.m[0]; i++)
		for (int j = 0; j < l->g.m[1]; j++)
			for (int k = 0; k < l->g.m[2]; k++)
				s += pow(l->r[grid_at(&l->g, i, j, k)], 2);
	return sqrt(sum_of_all(s));
}

static double run_multigrid(int n, int cycles, const double w[3], bool one_direction)
{
	struct multigrid *mg = need(1, sizeof *mg);
	double result;

	multigrid_init(mg, n, w, one_direction);
	set_charges(mg->level);
	for (int i = 0; i < cycles; i++)
		cycle(mg);
	result = norm(mg->level);
	for (int i = 0; i < mg->levels; i++) {
		grid_fini(&mg->level[i].g);
		free(mg->level[i].v);
		free(mg->level[i].b);
		free(mg->level[i].r);
	}
	free(mg);
	return result;
}

double run_mg(int size)
{
	const double w[3] = { 1, 1, 1 };

	return run_multigrid(size ? 128 : 32, size ? 8 : 4, w, false);
}

double run_smg(int size)
{
	const double w[3] = { 1, 10, 100 };

	return run_multigrid(size ? 64 : 16, size ? 8 : 4, w, true);
}
