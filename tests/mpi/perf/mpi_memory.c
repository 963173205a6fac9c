/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a rank after it has exchanged messages with all others: MPI_Alltoall() of 8 octets, then of OCTETS for
 * each rank. Every octet is checked.
 * usage: mpi_memory [OCTETS]
 *
 * Rank 0 prints "memory RANKS KIB SOCKETS TCP UDP": the mean of the ranks' own memory (Pss_Anon and Pss_Shmem, without
 * the buffers of this program) in KiB, and of their numbers of sockets, and of those of TCP and of UDP.
 */
#include <dirent.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int rank, ranks;

/* The sum of the lines FIELD of a rank's memory, in KiB. */
static long memory_of(const char *field)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = 0;

	if (!f) {
		perror("mpi_memory: /proc/self/smaps_rollup");
		MPI_Abort(MPI_COMM_WORLD, 1);
		return 0;
	}
	while (fgets(line, sizeof line, f))
		if (strncmp(line, field, strlen(field)) == 0)
			kib += strtol(line + strlen(field), NULL, 10);
	fclose(f);
	return kib;
}

/* The sockets of this process: of PROTOCOL, or all. */
static int sockets_open(int protocol)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		int of = -1;
		socklen_t len = sizeof of;

		if (getsockopt(atoi(e->d_name), SOL_SOCKET, SO_PROTOCOL, &of, &len) == 0)
			n += protocol == -1 || of == protocol;
	}
	if (d)
		closedir(d);
	return n;
}

static unsigned char octet_of(int from, int to, size_t i)
{
	return (unsigned char)((size_t)from * 31 + (size_t)to * 17 + i);
}

static void exchange_all(size_t octets)
{
	size_t all = octets * (size_t)ranks;
	unsigned char *out = malloc(all), *in = calloc(1, all);

	if (!out || !in)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int to = 0; to < ranks; to++)
		for (size_t i = 0; i < octets; i++)
			out[(size_t)to * octets + i] = octet_of(rank, to, i);
	MPI_Alltoall(out, (int)octets, MPI_BYTE, in, (int)octets, MPI_BYTE, MPI_COMM_WORLD);
	for (int from = 0; from < ranks; from++)
		for (size_t i = 0; i < octets; i++)
			if (in[(size_t)from * octets + i] != octet_of(from, rank, i)) {
				fprintf(stderr, "mpi_memory: wrong octet %zu from rank %d\n", i, from);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
	free(out);
	free(in);
}

int main(int argc, char **argv)
{
	size_t octets = argc > 1 ? strtoul(argv[1], NULL, 10) : 65536;
	long mine[4], sum[4];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	exchange_all(8);
	exchange_all(octets);
	MPI_Barrier(MPI_COMM_WORLD);
	mine[0] = memory_of("Pss_Anon:") + memory_of("Pss_Shmem:");
	mine[1] = sockets_open(-1);
	mine[2] = sockets_open(IPPROTO_TCP);
	mine[3] = sockets_open(IPPROTO_UDP);
	MPI_Reduce(mine, sum, 4, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("memory %d %ld %ld %ld %ld\n", ranks, sum[0] / ranks, sum[1] / ranks, sum[2] / ranks,
		       sum[3] / ranks);
	MPI_Finalize();
	return 0;
}
