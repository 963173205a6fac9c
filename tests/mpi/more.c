/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts that run only when they are named: threads, which all send and receive at once (MPI_THREAD_MULTIPLE), and
 * a message of more than 2 GiB. */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"

#define THREADS 4
#define MESSAGES 200

/* Thread I of each rank exchanges messages with thread I of the neighbours; the lengths differ. */
static void *thread_exchange(void *arg)
{
	int tag = (int)(intptr_t)arg, to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;

	for (int i = 0; i < MESSAGES; i++) {
		size_t len = sizes[(i + tag) % nsizes] % 100000;
		void *out = area_new(len), *in = area_new(len);
		MPI_Status status;
		int count;

		fill(out, len, pattern("threads", rank, to, tag * MESSAGES + i));
		MPI_Sendrecv(out, (int)len, MPI_BYTE, to, tag, in, (int)len, MPI_BYTE, from, tag, MPI_COMM_WORLD,
			     &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		expect_equal((uint64_t)count, len, "threads: length", from);
		expect_bytes(in, len, pattern("threads", from, rank, tag * MESSAGES + i), "threads", from);
		area_free(out, len, "threads");
		area_free(in, len, "threads");
	}
	return NULL;
}

void check_threads(void)
{
	pthread_t thread[THREADS];
	int level;

	MPI_Query_thread(&level);
	expect_equal((uint64_t)level, MPI_THREAD_MULTIPLE, "threads: level", rank);
	for (intptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, thread_exchange, (void *)i))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* Blocks of 1 KiB from rank 0 to rank 1: 2 GiB and a little. */
void check_big(void)
{
	const int count = (2 << 20) + 3;
	size_t len = (size_t)count << 10;
	uint64_t seed = pattern("big", 0, 1, 0);
	void *area = rank < 2 ? area_new(len) : NULL;
	MPI_Datatype block;
	MPI_Status status;
	int got;

	MPI_Type_contiguous(1 << 10, MPI_BYTE, &block);
	MPI_Type_commit(&block);
	if (rank == 0) {
		fill(area, len, seed);
		MPI_Send(area, count, block, 1, 1, MPI_COMM_WORLD);
	} else if (rank == 1) {
		MPI_Recv(area, count, block, 0, 1, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, block, &got);
		expect_equal((uint64_t)got, (uint64_t)count, "big: count", 0);
		expect_bytes(area, len, seed, "big", 0);
	}
	MPI_Type_free(&block);
	if (area)
		area_free(area, len, "big");
}
