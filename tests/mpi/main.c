/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program of `make check-mpi`: point-to-point messages, collectives and one-sided operations of MPI, every byte of
 * which is checked. It needs an MPI-3 and no header of this project.
 * usage: check [--seed N] [--rounds N] [--max BYTES] [--add] [--renew] [p2p] [coll] [rma] [atomics] [threads] [big]
 *
 * --add: MPI_Get_accumulate adds to an array, and does not replace it. --renew: post-start-complete-wait has another
 * window than the fences before it. docs/mpi.md says which MPI needs which. The last two parts run only when named.
 *
 * A wrong result is a line "wrong: ..." on standard output. Rank 0 ends with "done: N rounds, N wrong"; exit status 1
 * when something was wrong.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define GUARD 64
#define GUARD_BYTE 0xa5
#define MAX_PRINTED 10

int rank, ranks, round_number;
bool replaces = true, renews;
size_t sizes[MAX_SIZES];
int nsizes;
static long wrong;

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t pattern(const char *operation, int from, int to, int index)
{
	uint64_t x = (uint64_t)round_number;

	for (const char *p = operation; *p; p++)
		x = mix(x ^ (unsigned char)*p);
	return mix(mix(mix(x) ^ (uint64_t)from << 40 ^ (uint64_t)to << 20) ^ (uint64_t)index);
}

uint64_t number(uint64_t seed, size_t i)
{
	return mix(seed + i);
}

void *area_new(size_t len)
{
	unsigned char *p = malloc(len + 2 * GUARD);

	if (!p) {
		fprintf(stderr, "no memory\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
		abort();
	}
	memset(p, GUARD_BYTE, len + 2 * GUARD);
	return p + GUARD;
}

void area_free(void *area, size_t len, const char *operation)
{
	unsigned char *p = area, *start = p - GUARD;

	for (size_t i = 0; i < GUARD; i++)
		if (start[i] != GUARD_BYTE || p[len + i] != GUARD_BYTE) {
			expect_equal(1, 0, operation, -1);
			printf("wrong: ... bytes beside its memory were written\n");
			break;
		}
	free(start);
}

void fill(void *area, size_t len, uint64_t seed)
{
	unsigned char *p = area;
	uint64_t word;

	for (size_t i = 0; i < len; i += sizeof word) {
		word = number(seed, i / sizeof word);
		memcpy(p + i, &word, len - i < sizeof word ? len - i : sizeof word);
	}
}

static void report(const char *operation, int from, const char *text)
{
	if (wrong++ < MAX_PRINTED) {
		printf("wrong: rank %d of %d, round %d, %s, from rank %d: %s\n", rank, ranks, round_number, operation,
		       from, text);
		fflush(stdout);
	}
}

void expect_bytes(const void *area, size_t len, uint64_t seed, const char *operation, int from)
{
	const unsigned char *p = area;
	size_t first = len, last = 0, bad = 0;
	uint64_t word;
	char text[160];

	for (size_t i = 0; i < len; i += sizeof word) {
		size_t n = len - i < sizeof word ? len - i : sizeof word;

		word = number(seed, i / sizeof word);
		if (memcmp(p + i, &word, n) == 0)
			continue;
		for (size_t k = 0; k < n; k++)
			if (p[i + k] != ((unsigned char *)&word)[k]) {
				first = first == len ? i + k : first;
				last = i + k;
				bad++;
			}
	}
	if (!bad)
		return;
	snprintf(text, sizeof text, "%zu of %zu bytes, from %zu to %zu; the first is 0x%02x", bad, len, first, last,
		 p[first]);
	report(operation, from, text);
}

void expect_equal(uint64_t got, uint64_t want, const char *operation, int from)
{
	char text[100];

	if (got == want)
		return;
	snprintf(text, sizeof text, "%llu, not %llu", (unsigned long long)got, (unsigned long long)want);
	report(operation, from, text);
}

/* Each round takes another side of each threshold. */
static void choose_sizes(size_t max)
{
	static const size_t thresholds[] = { 1, 8, 64, 192, 256, 1024, 2048, 4096, 8192, 12288, 16384, 17408, 32768,
		65536, 131072, 262144, 1048576, 4194304 };

	nsizes = 0;
	sizes[nsizes++] = 0;
	for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds && thresholds[i] <= max; i++)
		sizes[nsizes++] = thresholds[i] + (size_t)((round_number + (int)i) % 3) - 1;
}

static const struct part {
	const char *name;
	void (*run)(void);
	bool named;                             /* runs only when it is named */
} parts[] = {
	{ "p2p", check_p2p, false }, { "coll", check_coll, false }, { "rma", check_rma, false },
	{ "atomics", check_atomics, false }, { "threads", check_threads, true }, { "big", check_big, true },
};

static bool is_named(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return false;
}

static bool is_chosen(const struct part *part, int argc, char **argv)
{
	bool any = false;

	for (int i = 1; i < argc; i++)
		any |= argv[i][0] >= 'a' && argv[i][0] <= 'z';
	return is_named(part->name, argc, argv) || (!any && !part->named);
}

static long option(const char *name, long value, int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], name) == 0)
			value = atol(argv[i + 1]);
	return value;
}

int main(int argc, char **argv)
{
	long rounds, seed, all = 0;
	double begin;
	int level;

	if (is_named("threads", argc, argv))
		MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	else
		MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	rounds = option("--rounds", 1, argc, argv);
	for (int i = 1; i < argc; i++) {
		replaces &= strcmp(argv[i], "--add") != 0;
		renews |= strcmp(argv[i], "--renew") == 0;
	}
	seed = option("--seed", 0, argc, argv);
	for (long i = 0; i < rounds; i++) {
		round_number = (int)(seed + i);
		choose_sizes((size_t)option("--max", 4194304, argc, argv));
		for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
			if (!is_chosen(&parts[k], argc, argv))
				continue;
			begin = MPI_Wtime();
			parts[k].run();
			MPI_Barrier(MPI_COMM_WORLD);
			if (rank == 0)
				printf("round %d: %s: %.3f s\n", round_number, parts[k].name, MPI_Wtime() - begin);
			fflush(stdout);
		}
	}
	MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	MPI_Finalize();
	if (rank == 0)
		printf("done: %ld rounds, %ld wrong\n", rounds, all);
	return wrong || all;
}
