/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rank is killed while all ranks communicate. Each other rank prints after how many seconds an MPI call fails.
 * usage: killed send|recv|rendezvous|collective       with an MPI that goes on after a process has died
 *
 * send: the others send short messages to the victim. recv: they receive from it. rendezvous: they exchange messages
 * of 1 MiB with it. collective: all ranks add numbers. The victim is the last rank. After 1 s it kills itself, at any
 * point of these calls.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define LIVES 1                  /* seconds */
#define SHORT 64
#define LONG (1 << 20)

static int rank, ranks, victim;
static char *out, *in;

static int exchange(const char *how, int peer)
{
	const int len = strcmp(how, "rendezvous") == 0 ? LONG : SHORT;

	if ((strcmp(how, "send") == 0) == (rank != victim) && len == SHORT)
		return MPI_Send(out, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
	if (len == SHORT)
		return MPI_Recv(in, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return MPI_Sendrecv(out, len, MPI_BYTE, peer, 1, in, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int turn(const char *how)
{
	int rc = MPI_SUCCESS;

	if (strcmp(how, "collective") == 0)
		return MPI_Allreduce(out, in, LONG / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (rank != victim)
		return exchange(how, victim);
	for (int r = 0; r < ranks - 1 && rc == MPI_SUCCESS; r++)
		rc = exchange(how, r);
	return rc;
}

static void die(int sig)
{
	(void)sig;
	kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
	const char *how = argc == 2 ? argv[1] : "collective";
	char text[MPI_MAX_ERROR_STRING];
	double begin;
	int rc, n;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	victim = ranks - 1;
	out = calloc(1, LONG);
	in = calloc(1, LONG);
	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	if (rank == victim) {
		signal(SIGALRM, die);
		setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { .tv_sec = LIVES } }, NULL);
	}
	while ((rc = turn(how)) == MPI_SUCCESS)
		;
	MPI_Error_string(rc, text, &n);
	printf("rank %d: failed %.1f s after the death: %s\n", rank, MPI_Wtime() - begin - LIVES, text);
	fflush(stdout);
	_exit(0);                        /* MPI_Finalize() would wait for the victim */
}
