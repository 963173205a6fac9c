/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations with arithmetic: Accumulate, Get_accumulate, Fetch_and_op, Compare_and_swap. */
#include <stdlib.h>

#include "check.h"

#define COUNT 1200
#define EACH 10

static MPI_Win win;
static uint64_t *memory;
static size_t window_len;

static void numbers_open(size_t n)
{
	window_len = n * sizeof *memory;
	if (round_number % 2 == 0) {
		MPI_Win_allocate((MPI_Aint)window_len, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
	} else {
		memory = area_new(window_len);
		MPI_Win_create(memory, (MPI_Aint)window_len, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	}
	for (size_t i = 0; i < n; i++)
		memory[i] = 0;
	MPI_Barrier(MPI_COMM_WORLD);
}

static void numbers_close(void)
{
	MPI_Win_free(&win);
	if (round_number % 2 != 0)
		area_free(memory, window_len, "a window of numbers");
}

/* All ranks add to the numbers of all ranks. */
static void accumulate_fence(void)
{
	const char *op = "accumulate, fence";
	uint64_t *out = area_new((size_t)ranks * COUNT * sizeof *out), want;

	numbers_open(COUNT);
	MPI_Win_fence(0, win);
	for (int r = 0; r < ranks; r++) {
		fill(out + (size_t)r * COUNT, COUNT * sizeof *out, pattern(op, rank, r, 0));
		MPI_Accumulate(out + (size_t)r * COUNT, COUNT, MPI_UINT64_T, r, 0, COUNT, MPI_UINT64_T, MPI_SUM, win);
	}
	MPI_Win_fence(0, win);
	for (size_t k = 0; k < COUNT; k++) {
		want = 0;
		for (int r = 0; r < ranks; r++)
			want += number(pattern(op, r, rank, 0), k);
		if (memory[k] != want) {
			expect_equal(memory[k], want, op, -1);
			break;
		}
	}
	MPI_Win_fence(0, win);
	numbers_close();
	area_free(out, (size_t)ranks * COUNT * sizeof *out, op);
}

/* The value of number K after a Get_accumulate that found WAS and brought NEXT. */
static uint64_t accumulated(uint64_t was, uint64_t next, size_t k)
{
	return number(next, k) + (replaces ? 0 : number(was, k));
}

/* The right neighbour's numbers change, and their old values are returned: repeatedly, with several lengths. */
static void get_accumulate(void)
{
	const char *op = "get_accumulate";
	const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
	const size_t len = COUNT * sizeof(uint64_t);
	uint64_t *out = area_new(len), *was = area_new(len);

	numbers_open(COUNT);
	fill(memory, len, pattern(op, left, rank, 0));
	MPI_Win_fence(0, win);
	for (int i = 1; i <= EACH; i++) {
		const int n = i % 3 == 0 ? COUNT : i % 3 == 1 ? 1 : 100;

		fill(out, len, pattern(op, rank, right, i));
		MPI_Get_accumulate(out, n, MPI_UINT64_T, was, n, MPI_UINT64_T, right, 0, n, MPI_UINT64_T,
				   replaces ? MPI_REPLACE : MPI_SUM, win);
		MPI_Win_fence(0, win);
		expect_bytes(was, (size_t)n * sizeof *was, pattern(op, rank, right, i - 1), op, right);
		for (int k = 0; k < n; k++)
			expect_equal(memory[k],
				     accumulated(pattern(op, left, rank, i - 1), pattern(op, left, rank, i), (size_t)k),
				     "what get_accumulate wrote", left);
		MPI_Win_fence(0, win);
		/* all of it, so that the next turn knows the contents */
		fill(memory, len, pattern(op, left, rank, i));
		MPI_Win_fence(0, win);
	}
	numbers_close();
	area_free(out, len, op);
	area_free(was, len, op);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* All ranks draw tickets from one counter, by Fetch_and_op or by Get_accumulate: each number is drawn once. */
static void tickets(int fetch, const char *op)
{
	const int home = round_number % ranks;
	const uint64_t one = 1;
	uint64_t drawn[EACH], all[ranks * EACH];

	numbers_open(2);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < EACH; i++) {
		if (fetch)
			MPI_Fetch_and_op(&one, &drawn[i], MPI_UINT64_T, home, 1, MPI_SUM, win);
		else
			MPI_Get_accumulate(&one, 1, MPI_UINT64_T, &drawn[i], 1, MPI_UINT64_T, home, 1, 1, MPI_UINT64_T,
					   MPI_SUM, win);
		MPI_Win_flush(home, win);
	}
	MPI_Win_unlock_all(win);
	MPI_Gather(drawn, EACH, MPI_UINT64_T, all, EACH, MPI_UINT64_T, home, MPI_COMM_WORLD);
	if (rank == home) {
		qsort(all, (size_t)(ranks * EACH), sizeof *all, by_value);
		for (int i = 0; i < ranks * EACH; i++)
			expect_equal(all[i], (uint64_t)i, op, -1);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	numbers_close();
}

/* All ranks add one by Compare_and_swap; each success counts once. */
static void swaps(void)
{
	const char *op = "compare_and_swap";
	const int home = (round_number + 1) % ranks;
	uint64_t seen = 0, next, was;

	numbers_open(1);
	MPI_Win_lock_all(0, win);
	for (int i = 0; i < EACH / 2;) {
		next = seen + 1;
		MPI_Compare_and_swap(&next, &seen, &was, MPI_UINT64_T, home, 0, win);
		MPI_Win_flush(home, win);
		i += was == seen;
		seen = was == seen ? next : was;
	}
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == home) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
		expect_equal(memory[0], (uint64_t)(ranks * (EACH / 2)), op, -1);
		MPI_Win_unlock(rank, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	numbers_close();
}

/* A counter is read, incremented and written under an exclusive lock. */
static void locked_counter(void)
{
	const char *op = "get and put in an exclusive lock";
	const int home = (round_number + 2) % ranks;
	uint64_t value;

	numbers_open(1);
	for (int i = 0; i < EACH; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, home, 0, win);
		MPI_Get(&value, 1, MPI_UINT64_T, home, 0, 1, MPI_UINT64_T, win);
		MPI_Win_flush(home, win);
		value++;
		MPI_Put(&value, 1, MPI_UINT64_T, home, 0, 1, MPI_UINT64_T, win);
		MPI_Win_unlock(home, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == home) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
		expect_equal(memory[0], (uint64_t)(ranks * EACH), op, -1);
		MPI_Win_unlock(rank, win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	numbers_close();
}

void check_atomics(void)
{
	accumulate_fence();
	get_accumulate();
	tickets(1, "fetch_and_op");
	tickets(0, "get_accumulate of one number");
	swaps();
	locked_counter();
}
