/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures the MPI calls of a program, by MPI's profiling interface: a library for LD_PRELOAD. When the program calls
 * MPI_Finalize(), rank 0 prints one line of JSON to the file descriptor 2: the ranks, the seconds from MPI_Init() to
 * MPI_Finalize(), and for each class of calls how often all ranks called it, the octets that they sent by it, and the
 * seconds in it, as the mean and the most of the ranks.
 */
#include <mpi.h>
#include <stdio.h>

/* wait: calls that wait for requests of the others. Calls that do not communicate are not measured. */
#define CLASSES(X) X(send) X(recv) X(wait) X(barrier) X(bcast) X(reduce) X(allreduce) X(gather) X(alltoall) X(scan)
enum class {
#define CLASS_ENUM(name) CLASS_##name,
	CLASSES(CLASS_ENUM)
#undef CLASS_ENUM
	CLASS_COUNT,
};

static double calls[CLASS_COUNT], octets[CLASS_COUNT], seconds[CLASS_COUNT], began;

static double bytes(long count, MPI_Datatype type)
{
	int size;

	PMPI_Type_size(type, &size);
	return (double)count * size;
}

static double bytes_to(int to, int count, MPI_Datatype type)
{
	return to == MPI_PROC_NULL ? 0 : bytes(count, type);
}

static double bytes_v(const int *counts, MPI_Comm comm, MPI_Datatype type)
{
	long sum = 0;
	int n;

	PMPI_Comm_size(comm, &n);
	for (int i = 0; i < n; i++)
		sum += counts[i];
	return bytes(sum, type);
}

static int ranks_of(MPI_Comm comm)
{
	int n;

	PMPI_Comm_size(comm, &n);
	return n;
}

/* MEASURE(class, octets, call, arguments): makes the call of the profiling interface, and counts it. */
#define MEASURE(class, sent, call, ...) { \
	double begin_ = PMPI_Wtime(); \
	int rc_ = P##call(__VA_ARGS__); \
	seconds[CLASS_##class] += PMPI_Wtime() - begin_; \
	calls[CLASS_##class]++; \
	octets[CLASS_##class] += (sent); \
	return rc_; \
}

int MPI_Send(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c)
	MEASURE(send, bytes_to(to, n, t), MPI_Send, b, n, t, to, tag, c)
int MPI_Ssend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c)
	MEASURE(send, bytes_to(to, n, t), MPI_Ssend, b, n, t, to, tag, c)
int MPI_Isend(const void *b, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *r)
	MEASURE(send, bytes_to(to, n, t), MPI_Isend, b, n, t, to, tag, c, r)
int MPI_Recv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Status *s)
	MEASURE(recv, 0, MPI_Recv, b, n, t, from, tag, c, s)
int MPI_Irecv(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm c, MPI_Request *r)
	MEASURE(recv, 0, MPI_Irecv, b, n, t, from, tag, c, r)
int MPI_Sendrecv(const void *b, int n, MPI_Datatype t, int to, int tag, void *in, int in_n, MPI_Datatype in_t, int from,
		 int in_tag, MPI_Comm c, MPI_Status *s)
	MEASURE(send, bytes_to(to, n, t), MPI_Sendrecv, b, n, t, to, tag, in, in_n, in_t, from, in_tag, c, s)
int MPI_Wait(MPI_Request *r, MPI_Status *s)
	MEASURE(wait, 0, MPI_Wait, r, s)
int MPI_Waitall(int n, MPI_Request *r, MPI_Status *s)
	MEASURE(wait, 0, MPI_Waitall, n, r, s)
int MPI_Waitany(int n, MPI_Request *r, int *i, MPI_Status *s)
	MEASURE(wait, 0, MPI_Waitany, n, r, i, s)
int MPI_Waitsome(int n, MPI_Request *r, int *done, int *i, MPI_Status *s)
	MEASURE(wait, 0, MPI_Waitsome, n, r, done, i, s)
int MPI_Barrier(MPI_Comm c)
	MEASURE(barrier, 0, MPI_Barrier, c)
int MPI_Bcast(void *b, int n, MPI_Datatype t, int root, MPI_Comm c)
	MEASURE(bcast, bytes(n, t), MPI_Bcast, b, n, t, root, c)
int MPI_Reduce(const void *b, void *to, int n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm c)
	MEASURE(reduce, bytes(n, t), MPI_Reduce, b, to, n, t, op, root, c)
int MPI_Allreduce(const void *b, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
	MEASURE(allreduce, bytes(n, t), MPI_Allreduce, b, to, n, t, op, c)
int MPI_Gather(const void *b, int n, MPI_Datatype t, void *to, int to_n, MPI_Datatype to_t, int root, MPI_Comm c)
	MEASURE(gather, bytes(n, t), MPI_Gather, b, n, t, to, to_n, to_t, root, c)
int MPI_Allgather(const void *b, int n, MPI_Datatype t, void *to, int to_n, MPI_Datatype to_t, MPI_Comm c)
	MEASURE(gather, bytes(n, t), MPI_Allgather, b, n, t, to, to_n, to_t, c)
int MPI_Allgatherv(const void *b, int n, MPI_Datatype t, void *to, const int *ns, const int *at, MPI_Datatype to_t,
		   MPI_Comm c)
	MEASURE(gather, bytes(n, t), MPI_Allgatherv, b, n, t, to, ns, at, to_t, c)
int MPI_Alltoall(const void *b, int n, MPI_Datatype t, void *to, int to_n, MPI_Datatype to_t, MPI_Comm c)
	MEASURE(alltoall, bytes((long)n * ranks_of(c), t), MPI_Alltoall, b, n, t, to, to_n, to_t, c)
int MPI_Alltoallv(const void *b, const int *n, const int *at, MPI_Datatype t, void *to, const int *to_n,
		  const int *to_at, MPI_Datatype to_t, MPI_Comm c)
	MEASURE(alltoall, bytes_v(n, c, t), MPI_Alltoallv, b, n, at, t, to, to_n, to_at, to_t, c)
int MPI_Scan(const void *b, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
	MEASURE(scan, bytes(n, t), MPI_Scan, b, to, n, t, op, c)
int MPI_Exscan(const void *b, void *to, int n, MPI_Datatype t, MPI_Op op, MPI_Comm c)
	MEASURE(scan, bytes(n, t), MPI_Exscan, b, to, n, t, op, c)

int MPI_Init(int *argc, char ***argv)
{
	int rc = PMPI_Init(argc, argv);

	began = PMPI_Wtime();
	return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *got)
{
	int rc = PMPI_Init_thread(argc, argv, wanted, got);

	began = PMPI_Wtime();
	return rc;
}

static void report(int ranks, const double *all_calls, const double *all_octets, const double *all_seconds,
		   const double *most, double run)
{
	static const char *const name[] = {
#define CLASS_NAME(name) #name,
		CLASSES(CLASS_NAME)
#undef CLASS_NAME
	};
	double mpi = 0;

	for (int i = 0; i < CLASS_COUNT; i++)
		mpi += all_seconds[i] / ranks;
	fprintf(stderr, "{\"ranks\": %d, \"seconds\": %.6f, \"mpi_seconds\": %.6f", ranks, run, mpi);
	for (int i = 0; i < CLASS_COUNT; i++)
		if (all_calls[i] > 0)
			fprintf(stderr, ", \"%s\": {\"calls\": %.0f, \"octets\": %.0f, \"mean\": %.6f, \"most\": %.6f}",
				name[i], all_calls[i], all_octets[i], all_seconds[i] / ranks, most[i]);
	fprintf(stderr, "}\n");
}

int MPI_Finalize(void)
{
	double all_calls[CLASS_COUNT], all_octets[CLASS_COUNT], all_seconds[CLASS_COUNT], most[CLASS_COUNT];
	double mine = PMPI_Wtime() - began, run;
	int rank;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	PMPI_Reduce(calls, all_calls, CLASS_COUNT, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	PMPI_Reduce(octets, all_octets, CLASS_COUNT, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	PMPI_Reduce(seconds, all_seconds, CLASS_COUNT, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	PMPI_Reduce(seconds, most, CLASS_COUNT, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	PMPI_Reduce(&mine, &run, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		report(ranks_of(MPI_COMM_WORLD), all_calls, all_octets, all_seconds, most, run);
	return PMPI_Finalize();
}
