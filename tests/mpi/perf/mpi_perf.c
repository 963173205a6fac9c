/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The figures of MPI that docs/mpi.md compares: half round trip and rate of messages of 8 octets, and
 * bandwidth in one and in both directions, between rank 0 and rank 1. Each figure is measured for the same time.
 * usage: mpi_perf SECONDS [lat] [rate] [bw] [bibw] [SIZE...]     (without a name: all; SIZE: instead of these sizes)
 *
 * Rank 0 prints a line "NAME SIZE VALUE" a figure: microseconds, messages a second, or bytes a second. A receiver
 * compares the first and the last octets of each message. A wrong octet ends the program with exit status 1.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WINDOW 64
#define MAX_SIZE (4 << 20)
#define IN_SIZE (32 << 20)              /* each receive of a window has memory of its own */

#define MAX_SIZES 64

struct sizes { int n, size[MAX_SIZES]; };
static int rank;
static double seconds;
static unsigned char *out, *in;

static void marks_check(const unsigned char *message, int size, unsigned char mark)
{
	if (message[0] == mark && message[size - 1] == mark)
		return;
	fprintf(stderr, "mpi_perf: wrong octet in a message of %d\n", size);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void marks_set(unsigned char *message, int size, unsigned char mark)
{
	message[0] = message[size - 1] = mark;
}

/* Rank 0 decides when the time is over, and tells rank 1 by a message of its own tag. */
static bool time_over(double begin)
{
	int over = rank == 0 && MPI_Wtime() - begin >= seconds;

	if (rank == 0)
		MPI_Send(&over, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
	else
		MPI_Recv(&over, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return over;
}

static void round_trip(int size, unsigned char mark)
{
	marks_set(out, size, mark);
	if (rank == 0)
		MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
	MPI_Recv(in, size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	marks_check(in, size, mark);
	if (rank == 1)
		MPI_Send(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

static int double_cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of batches: a batch that the scheduler interrupted does not count more than another. */
static double half_round_trip(int size)
{
	enum { BATCH = 200, MAX = 10000 };
	static double took[MAX];
	int n = 0;
	double begin = MPI_Wtime();

	do {
		double start = MPI_Wtime();

		for (int i = 0; i < BATCH; i++)
			round_trip(size, (unsigned char)i);
		took[n++] = (MPI_Wtime() - start) / BATCH / 2;
	} while (!time_over(begin) && n < MAX);
	qsort(took, (size_t)n, sizeof *took, double_cmp);
	return took[n / 2] * 1e6;
}

static int window_of(int size)
{
	return size > IN_SIZE / MAX_WINDOW ? IN_SIZE / size : MAX_WINDOW;
}

/* One window of messages from each sender, answered by an empty message. */
static void window_exchange(int size, bool both, unsigned char mark)
{
	MPI_Request req[2 * MAX_WINDOW];
	int n = 0, window = window_of(size);
	unsigned char answer = 0;
	bool sends = rank == 0 || both, receives = rank == 1 || both;

	for (int i = 0; i < window && receives; i++)
		MPI_Irecv(in + (size_t)i * (size_t)size, size, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &req[n++]);
	if (sends)
		marks_set(out, size, mark);
	for (int i = 0; i < window && sends; i++)
		MPI_Isend(out, size, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, &req[n++]);
	MPI_Waitall(n, req, MPI_STATUSES_IGNORE);
	for (int i = 0; i < window && receives; i++)
		marks_check(in + (size_t)i * (size_t)size, size, mark);
	if (rank == 1)
		MPI_Send(&answer, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
	else
		MPI_Recv(&answer, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Messages a second, of all senders together. */
static double windows_rate(int size, bool both)
{
	long windows = 0;
	double begin;

	for (int i = 0; i < 4; i++)
		window_exchange(size, both, (unsigned char)i);
	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	do {
		window_exchange(size, both, (unsigned char)windows);
		windows++;
	} while (!time_over(begin));
	return (double)windows * window_of(size) * (both ? 2 : 1) / (MPI_Wtime() - begin);
}

static bool wanted(int argc, char **argv, const char *name)
{
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc <= 2 || atoi(argv[2]) > 0;
}

/* The sizes that the command line names; without one, those of DEFAULTS. False: one is too large. */
static bool sizes_of(int argc, char **argv, struct sizes defaults, struct sizes *sizes)
{
	*sizes = (struct sizes){ 0 };
	for (int i = 2; i < argc; i++) {
		int size = atoi(argv[i]);

		if (size <= 0)
			continue;
		if (size > MAX_SIZE || sizes->n == MAX_SIZES)
			return false;
		sizes->size[sizes->n++] = size;
	}
	if (sizes->n == 0)
		*sizes = defaults;
	return true;
}

static void figure_print(const char *name, int size, double value)
{
	if (rank == 0)
		printf("%s %d %.6g\n", name, size, value);
}

static void bandwidths(const char *name, bool both, const struct sizes *s)
{
	for (int i = 0; i < s->n; i++)
		figure_print(name, s->size[i], windows_rate(s->size[i], both) * s->size[i]);
}

int main(int argc, char **argv)
{
	const struct sizes small = { 1, { 8 } }, large = { 4, { 8 << 10, 64 << 10, 512 << 10, 4 << 20 } };
	struct sizes messages, windows;
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	seconds = argc > 1 ? atof(argv[1]) : 0;
	if (ranks != 2 || seconds <= 0 || !sizes_of(argc, argv, small, &messages) ||
	    !sizes_of(argc, argv, large, &windows)) {
		if (rank == 0)
			fprintf(stderr, "usage: mpirun -n 2 mpi_perf SECONDS [lat] [rate] [bw] [bibw] [SIZE...]\n");
		MPI_Finalize();
		return 2;
	}
	out = calloc(1, MAX_SIZE);
	in = calloc(1, IN_SIZE);
	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 2);
	for (int i = 0; i < messages.n && wanted(argc, argv, "lat"); i++)
		figure_print("lat", messages.size[i], half_round_trip(messages.size[i]));
	for (int i = 0; i < messages.n && wanted(argc, argv, "rate"); i++)
		figure_print("rate", messages.size[i], windows_rate(messages.size[i], false));
	if (wanted(argc, argv, "bw"))
		bandwidths("bw", false, &windows);
	if (wanted(argc, argv, "bibw"))
		bandwidths("bibw", true, &windows);
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
