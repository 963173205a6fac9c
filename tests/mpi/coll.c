/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives: data and reductions of all sizes, over all ranks and over half of them; and the effect of a barrier. */
#include <time.h>
#include <unistd.h>

#include "check.h"

/* The communicator, this process's rank in it, and the rank of its member r among all ranks: world(r). */
static MPI_Comm comm;
static int me, members, stride, first;

static int world(int r)
{
	return first + r * stride;
}

static const int counts[] = { 1, 3, 100, 1000, 5000, 20000 };
#define NCOUNTS (sizeof counts / sizeof *counts)

static void bcasts(void)
{
	const char *op = "bcast";

	for (int i = 0; i < nsizes; i++) {
		const int root = (round_number + i) % members;
		void *area = area_new(sizes[i]);

		if (me == root)
			fill(area, sizes[i], pattern(op, world(root), 0, i));
		MPI_Bcast(area, (int)sizes[i], MPI_BYTE, root, comm);
		expect_bytes(area, sizes[i], pattern(op, world(root), 0, i), op, world(root));
		area_free(area, sizes[i], op);
	}
}

/* The reduced value of element K for the ranks FROM to TO. */
static uint64_t reduced(MPI_Op how, const char *op, int from, int to, int index, size_t k)
{
	uint64_t x = how == MPI_PROD, y;

	for (int r = from; r <= to; r++) {
		y = number(pattern(op, world(r), 0, index), k);
		if (how == MPI_SUM)
			x += y;
		else if (how == MPI_BXOR)
			x ^= y;
		else
			x *= y;
	}
	return x;
}

static void expect_reduced(const uint64_t *got, MPI_Op how, const char *op, int from, int to, int index)
{
	for (int k = 0; k < counts[index]; k++)
		if (got[k] != reduced(how, op, from, to, index, (size_t)k)) {
			expect_equal(got[k], reduced(how, op, from, to, index, (size_t)k), op, world(to));
			return;
		}
}

static void reductions(void)
{
	const MPI_Op ops[] = { MPI_SUM, MPI_BXOR, MPI_PROD };

	for (size_t i = 0; i < NCOUNTS; i++) {
		const size_t len = (size_t)counts[i] * sizeof(uint64_t);
		const int root = (round_number + (int)i) % members, index = (int)i;
		const MPI_Op how = ops[((size_t)round_number + i) % 3];
		uint64_t *out = area_new(len), *in = area_new(len);

		fill(out, len, pattern("allreduce", world(me), 0, index));
		MPI_Allreduce(out, in, counts[i], MPI_UINT64_T, how, comm);
		expect_reduced(in, how, "allreduce", 0, members - 1, index);

		fill(out, len, pattern("reduce", world(me), 0, index));
		MPI_Reduce(out, in, counts[i], MPI_UINT64_T, how, root, comm);
		if (me == root)
			expect_reduced(in, how, "reduce", 0, members - 1, index);

		fill(out, len, pattern("scan", world(me), 0, index));
		MPI_Scan(out, in, counts[i], MPI_UINT64_T, how, comm);
		expect_reduced(in, how, "scan", 0, me, index);

		fill(out, len, pattern("exscan", world(me), 0, index));
		MPI_Exscan(out, in, counts[i], MPI_UINT64_T, how, comm);
		if (me > 0)
			expect_reduced(in, how, "exscan", 0, me - 1, index);

		fill(in, len, pattern("allreduce in place", world(me), 0, index));
		MPI_Allreduce(MPI_IN_PLACE, in, counts[i], MPI_UINT64_T, how, comm);
		expect_reduced(in, how, "allreduce in place", 0, members - 1, index);
		area_free(out, len, "reductions");
		area_free(in, len, "reductions");
	}
}

static void reduce_scatters(void)
{
	const char *op = "reduce_scatter_block";

	for (size_t i = 0; i < NCOUNTS - 1; i++) {
		const size_t len = (size_t)counts[i] * sizeof(uint64_t);
		uint64_t *out = area_new(len * (size_t)members), *in = area_new(len);

		fill(out, len * (size_t)members, pattern(op, world(me), 0, (int)i));
		MPI_Reduce_scatter_block(out, in, counts[i], MPI_UINT64_T, MPI_SUM, comm);
		for (int k = 0; k < counts[i]; k++)
			expect_equal(in[k], reduced(MPI_SUM, op, 0, members - 1, (int)i, (size_t)(me * counts[i] + k)),
				     op, -1);
		area_free(out, len * (size_t)members, op);
		area_free(in, len, op);
	}
}

/* The sizes that each rank sends to each in one collective: at most this many bytes in all. */
#define ALL_MAX (4 << 20)

static void alltoalls(void)
{
	for (int i = 0; i < nsizes && sizes[i] * (size_t)members <= ALL_MAX; i++) {
		const size_t len = sizes[i], all = len * (size_t)members;
		unsigned char *out = area_new(all), *in = area_new(all);

		for (int r = 0; r < members; r++)
			fill(out + (size_t)r * len, len, pattern("alltoall", world(me), world(r), i));
		MPI_Alltoall(out, (int)len, MPI_BYTE, in, (int)len, MPI_BYTE, comm);
		for (int r = 0; r < members; r++)
			expect_bytes(in + (size_t)r * len, len, pattern("alltoall", world(r), world(me), i), "alltoall",
				     world(r));

		fill(out, len, pattern("allgather", world(me), 0, i));
		MPI_Allgather(out, (int)len, MPI_BYTE, in, (int)len, MPI_BYTE, comm);
		for (int r = 0; r < members; r++)
			expect_bytes(in + (size_t)r * len, len, pattern("allgather", world(r), 0, i), "allgather",
				     world(r));
		area_free(out, all, "alltoall");
		area_free(in, all, "alltoall");
	}
}

/* The bytes that rank a sends to b; sometimes none. */
static int uneven(int a, int b)
{
	return (a + b + round_number) % 5 == 0 ? 0 : 1 + (int)(pattern("uneven", a, b, 0) % 9000);
}

static void uneven_alltoall(void)
{
	const char *op = "alltoallv";
	int nout[members], nin[members], atout[members], atin[members], all_out = 0, all_in = 0;
	unsigned char *out, *in;

	for (int r = 0; r < members; r++) {
		nout[r] = uneven(me, r);
		nin[r] = uneven(r, me);
		atout[r] = all_out;
		atin[r] = all_in;
		all_out += nout[r];
		all_in += nin[r];
	}
	out = area_new((size_t)all_out);
	in = area_new((size_t)all_in);
	for (int r = 0; r < members; r++)
		fill(out + atout[r], (size_t)nout[r], pattern(op, world(me), world(r), 0));
	MPI_Alltoallv(out, nout, atout, MPI_BYTE, in, nin, atin, MPI_BYTE, comm);
	for (int r = 0; r < members; r++)
		expect_bytes(in + atin[r], (size_t)nin[r], pattern(op, world(r), world(me), 0), op, world(r));
	area_free(out, (size_t)all_out, op);
	area_free(in, (size_t)all_in, op);
}

static void uneven_gathers(void)
{
	const int root = round_number % members, mine = uneven(me, 77);
	int n[members], at[members], all = 0;
	unsigned char *one, *many;

	for (int r = 0; r < members; r++) {
		n[r] = uneven(r, 77);
		at[r] = all;
		all += n[r];
	}
	one = area_new((size_t)mine);
	many = area_new((size_t)all);
	fill(one, (size_t)mine, pattern("gatherv", world(me), 0, 0));
	MPI_Gatherv(one, mine, MPI_BYTE, many, n, at, MPI_BYTE, root, comm);
	for (int r = 0; r < members && me == root; r++)
		expect_bytes(many + at[r], (size_t)n[r], pattern("gatherv", world(r), 0, 0), "gatherv", world(r));

	fill(one, (size_t)mine, pattern("allgatherv", world(me), 0, 0));
	MPI_Allgatherv(one, mine, MPI_BYTE, many, n, at, MPI_BYTE, comm);
	for (int r = 0; r < members; r++)
		expect_bytes(many + at[r], (size_t)n[r], pattern("allgatherv", world(r), 0, 0), "allgatherv", world(r));

	for (int r = 0; r < members; r++)
		fill(many + at[r], (size_t)n[r], pattern("scatterv", world(root), world(r), 0));
	MPI_Scatterv(many, n, at, MPI_BYTE, one, mine, MPI_BYTE, root, comm);
	expect_bytes(one, (size_t)mine, pattern("scatterv", world(root), world(me), 0), "scatterv", world(root));
	area_free(one, (size_t)mine, "gatherv");
	area_free(many, (size_t)all, "gatherv");
}

static void gathers(void)
{
	for (int i = 0; i < nsizes && sizes[i] * (size_t)members <= ALL_MAX; i++) {
		const int root = (round_number + i) % members;
		const size_t len = sizes[i], all = len * (size_t)members;
		unsigned char *one = area_new(len), *many = area_new(all);

		fill(one, len, pattern("gather", world(me), 0, i));
		MPI_Gather(one, (int)len, MPI_BYTE, many, (int)len, MPI_BYTE, root, comm);
		for (int r = 0; r < members && me == root; r++)
			expect_bytes(many + (size_t)r * len, len, pattern("gather", world(r), 0, i), "gather",
				     world(r));
		for (int r = 0; r < members; r++)
			fill(many + (size_t)r * len, len, pattern("scatter", world(root), world(r), i));
		MPI_Scatter(many, (int)len, MPI_BYTE, one, (int)len, MPI_BYTE, root, comm);
		expect_bytes(one, len, pattern("scatter", world(root), world(me), i), "scatter", world(root));
		area_free(one, len, "gather");
		area_free(many, all, "gather");
	}
}

/* Several collectives at the same time, with messages between neighbours meanwhile. */
static void nonblocking(void)
{
	const size_t len = 30000, count = 2000;
	const int root = round_number % members, next = (me + 1) % members, before = (me + members - 1) % members;
	void *area = area_new(len), *out = area_new(len), *in = area_new(len);
	uint64_t *mine = area_new(count * 8), *sum = area_new(count * 8);
	MPI_Request request[5];

	fill(area, len, pattern("ibcast", world(me), 0, 0));
	fill(out, len, pattern("between", world(me), world(next), 0));
	fill(mine, count * 8, pattern("iallreduce", world(me), 0, 0));
	MPI_Ibcast(area, (int)len, MPI_BYTE, root, comm, &request[0]);
	MPI_Iallreduce(mine, sum, (int)count, MPI_UINT64_T, MPI_SUM, comm, &request[1]);
	MPI_Irecv(in, (int)len, MPI_BYTE, before, 9, comm, &request[2]);
	MPI_Ibarrier(comm, &request[3]);
	MPI_Isend(out, (int)len, MPI_BYTE, next, 9, comm, &request[4]);
	MPI_Waitall(5, request, MPI_STATUSES_IGNORE);
	expect_bytes(area, len, pattern("ibcast", world(root), 0, 0), "ibcast", world(root));
	expect_bytes(in, len, pattern("between", world(before), world(me), 0), "between", world(before));
	for (size_t k = 0; k < count; k++)
		expect_equal(sum[k], reduced(MPI_SUM, "iallreduce", 0, members - 1, 0, k), "iallreduce", -1);
	area_free(area, len, "ibcast");
	area_free(out, len, "between");
	area_free(in, len, "between");
	area_free(mine, count * 8, "iallreduce");
	area_free(sum, count * 8, "iallreduce");
}

/* No rank leaves a barrier before the last one has come; the ranks are on one machine and share its clock. */
static void barriers(void)
{
	struct timespec now;
	double came, left, last, first_out;

	for (int i = 0; i < 4; i++) {
		if (me == (round_number + i) % members)
			usleep(3000);
		clock_gettime(CLOCK_MONOTONIC, &now);
		came = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
		MPI_Barrier(comm);
		clock_gettime(CLOCK_MONOTONIC, &now);
		left = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
		MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, comm);
		MPI_Allreduce(&left, &first_out, 1, MPI_DOUBLE, MPI_MIN, comm);
		expect_equal(first_out >= last, 1, "barrier", -1);
	}
}

static void all_of_them(void)
{
	MPI_Comm_rank(comm, &me);
	MPI_Comm_size(comm, &members);
	barriers();
	bcasts();
	reductions();
	reduce_scatters();
	alltoalls();
	uneven_alltoall();
	uneven_gathers();
	gathers();
	nonblocking();
}

void check_coll(void)
{
	comm = MPI_COMM_WORLD;
	stride = 1;
	first = 0;
	all_of_them();
	if (ranks < 4)
		return;
	stride = 2;
	first = rank % 2;
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
	all_of_them();
	MPI_Comm_free(&comm);
}
