/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided operations that move data: Put and Get, with every kind of synchronisation. A window has a slot for each
 * rank. A target reads its slots as soon as the synchronisation allows it.
 */
#include <string.h>

#include "check.h"

#define SLOT 70000
#define LARGE 1100000

static MPI_Win win;
static unsigned char *memory;
static size_t window_len;

static unsigned char *slot(int r)
{
	return memory + (size_t)r * SLOT;
}

/* The memory is MPI's in even rounds, ours in odd ones. */
static void window_open(size_t len)
{
	window_len = len;
	if (round_number % 2 == 0) {
		MPI_Win_allocate((MPI_Aint)len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
	} else {
		memory = area_new(len);
		MPI_Win_create(memory, (MPI_Aint)len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	}
}

static void window_close(void)
{
	MPI_Win_free(&win);
	if (round_number % 2 != 0)
		area_free(memory, window_len, "a window");
}

/* The size that A moves to or from B in turn I. */
static size_t size_of(int a, int b, int i)
{
	size_t n = sizes[(size_t)(a * 3 + b + i + round_number) % (size_t)nsizes];

	return n <= SLOT ? n : SLOT - (size_t)(a % 7);
}

/* All ranks put into the windows of all, and read their own behind the fence. */
static void put_fence(void)
{
	const char *op = "put, fence";
	unsigned char *out = area_new((size_t)ranks * SLOT);

	MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
	for (int i = 0; i < 4; i++) {
		for (int r = 0; r < ranks; r++) {
			const size_t n = size_of(rank, r, i);

			fill(out + (size_t)r * SLOT, n, pattern(op, rank, r, i));
			MPI_Put(out + (size_t)r * SLOT, (int)n, MPI_BYTE, r, (MPI_Aint)rank * SLOT, (int)n, MPI_BYTE,
				win);
		}
		MPI_Win_fence(0, win);
		for (int r = 0; r < ranks; r++)
			expect_bytes(slot(r), size_of(r, rank, i), pattern(op, r, rank, i), op, r);
		MPI_Win_fence(0, win);
	}
	MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
	area_free(out, (size_t)ranks * SLOT, op);
}

static void get_fence(void)
{
	const char *op = "get, fence";
	unsigned char *in = area_new((size_t)ranks * SLOT);

	for (int i = 0; i < 4; i++) {
		for (int r = 0; r < ranks; r++)
			fill(slot(r), SLOT, pattern(op, rank, r, i));
		MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
		for (int r = 0; r < ranks; r++) {
			const int n = (int)size_of(r, rank, i);

			MPI_Get(in + (size_t)r * SLOT, n, MPI_BYTE, r, (MPI_Aint)rank * SLOT, n, MPI_BYTE, win);
		}
		MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
		for (int r = 0; r < ranks; r++)
			expect_bytes(in + (size_t)r * SLOT, size_of(r, rank, i), pattern(op, r, rank, i), op, r);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	area_free(in, (size_t)ranks * SLOT, op);
}

/* In a ring: each exposes its window to the left neighbour and writes to the right one. */
static void put_pscw(void)
{
	const char *op = "put, post start complete wait";
	const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	MPI_Group all, to, from;
	unsigned char *out = area_new(SLOT);

	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_incl(all, 1, &right, &to);
	MPI_Group_incl(all, 1, &left, &from);
	for (int i = 0; i < 8; i++) {
		const size_t n = size_of(rank, right, i);

		fill(out, n, pattern(op, rank, right, i));
		MPI_Win_post(from, 0, win);
		MPI_Win_start(to, 0, win);
		MPI_Put(out, (int)n, MPI_BYTE, right, (MPI_Aint)rank * SLOT, (int)n, MPI_BYTE, win);
		MPI_Win_complete(win);
		MPI_Win_wait(win);
		expect_bytes(slot(left), size_of(left, rank, i), pattern(op, left, rank, i), op, left);
	}
	MPI_Group_free(&all);
	MPI_Group_free(&to);
	MPI_Group_free(&from);
	area_free(out, SLOT, op);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Exclusive locks: every rank writes its slot in all windows, and reads it back under a lock of its own. */
static void put_lock(void)
{
	const char *op = "put, lock and unlock";
	unsigned char *area = area_new(SLOT);

	for (int step = 0; step < ranks; step++) {
		const int r = (rank + step) % ranks;
		const size_t n = size_of(rank, r, 1);

		fill(area, n, pattern(op, rank, r, 0));
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, r, 0, win);
		MPI_Put(area, (int)n, MPI_BYTE, r, (MPI_Aint)rank * SLOT, (int)n, MPI_BYTE, win);
		MPI_Win_unlock(r, win);
		memset(area, 0, SLOT);
		MPI_Win_lock(MPI_LOCK_SHARED, r, 0, win);
		MPI_Get(area, (int)n, MPI_BYTE, r, (MPI_Aint)rank * SLOT, (int)n, MPI_BYTE, win);
		MPI_Win_unlock(r, win);
		expect_bytes(area, n, pattern(op, rank, r, 0), "get behind a put, lock", r);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	for (int r = 0; r < ranks; r++)
		expect_bytes(slot(r), size_of(r, rank, 1), pattern(op, r, rank, 0), op, r);
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);
	area_free(area, SLOT, op);
}

/* A message reports a put that was flushed: its receiver finds the bytes there. */
static void put_flush(void)
{
	const char *op = "put, flush, message";
	const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	unsigned char *out = area_new(SLOT);
	int told = -1;

	MPI_Win_lock_all(0, win);
	for (int i = 0; i < 16; i++) {
		const size_t n = size_of(rank, right, i);

		fill(out, n, pattern(op, rank, right, i));
		MPI_Put(out, (int)n, MPI_BYTE, right, (MPI_Aint)rank * SLOT, (int)n, MPI_BYTE, win);
		MPI_Win_flush(right, win);
		MPI_Sendrecv(&i, 1, MPI_INT, right, 1, &told, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Win_sync(win);
		expect_equal((uint64_t)told, (uint64_t)i, op, left);
		expect_bytes(slot(left), size_of(left, rank, i), pattern(op, left, rank, i), op, left);
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(win);
	area_free(out, SLOT, op);
}

/* Many requests at the same time; then the data that was put is read back. */
static void by_request(void)
{
	const char *op = "rput and rget";
	unsigned char *area = area_new((size_t)ranks * SLOT);
	MPI_Request request[ranks];

	MPI_Win_lock_all(0, win);
	for (int r = 0; r < ranks; r++) {
		const int n = (int)size_of(rank, r, 2);

		fill(area + (size_t)r * SLOT, (size_t)n, pattern(op, rank, r, 0));
		MPI_Rput(area + (size_t)r * SLOT, n, MPI_BYTE, r, (MPI_Aint)rank * SLOT, n, MPI_BYTE, win, &request[r]);
	}
	MPI_Waitall(ranks, request, MPI_STATUSES_IGNORE);
	MPI_Win_flush_all(win);
	memset(area, 0, (size_t)ranks * SLOT);
	for (int r = 0; r < ranks; r++) {
		const int n = (int)size_of(rank, r, 2);

		MPI_Rget(area + (size_t)r * SLOT, n, MPI_BYTE, r, (MPI_Aint)rank * SLOT, n, MPI_BYTE, win, &request[r]);
	}
	MPI_Waitall(ranks, request, MPI_STATUSES_IGNORE);
	for (int r = 0; r < ranks; r++)
		expect_bytes(area + (size_t)r * SLOT, size_of(rank, r, 2), pattern(op, rank, r, 0), op, r);
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	area_free(area, (size_t)ranks * SLOT, op);
}

/* A put and a get of more than a megabyte to the neighbours. */
static void large(void)
{
	const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	unsigned char *out = area_new(LARGE), *in = area_new(LARGE);

	window_open(2 * (size_t)LARGE);
	fill(out, LARGE, pattern("a large put", rank, right, 0));
	fill(memory + LARGE, LARGE, pattern("a large get", rank, left, 0));
	MPI_Win_fence(0, win);
	MPI_Put(out, LARGE, MPI_BYTE, right, 0, LARGE, MPI_BYTE, win);
	MPI_Get(in, LARGE, MPI_BYTE, right, LARGE, LARGE, MPI_BYTE, win);
	MPI_Win_fence(0, win);
	expect_bytes(memory, LARGE, pattern("a large put", left, rank, 0), "a large put", left);
	expect_bytes(in, LARGE, pattern("a large get", right, rank, 0), "a large get", right);
	MPI_Win_fence(0, win);
	window_close();
	area_free(out, LARGE, "a large put");
	area_free(in, LARGE, "a large get");
}

void check_rma(void)
{
	window_open((size_t)ranks * SLOT);
	put_fence();
	get_fence();
	if (renews) {
		window_close();
		window_open((size_t)ranks * SLOT);
	}
	put_pscw();
	put_lock();
	put_flush();
	by_request();
	window_close();
	large();
}
