/* SPDX-License-Identifier: BSD-2-Clause */
/* IS: integers are sorted by buckets, which are dealt out to the ranks, and there by their digits. All ranks count, add
 * up the counts, and send each other what belongs to the other's buckets. */
#include <string.h>

#include "kernels.h"

#define KEY_BITS 20
#define BUCKETS 1024             /* that are dealt out to the ranks */
#define DIGIT_BITS 10
#define ROUNDS 5

static const int sort_keys[] = { 1 << 18, 1 << 23 };

static int bucket_of(uint32_t key)
{
	return (int)(key / ((1u << KEY_BITS) / BUCKETS));
}

/* Deals the buckets out in order, so that all ranks get about as many keys. */
static void deal(const int *count, long keys, int *owner)
{
	long before = 0;

	for (int b = 0; b < BUCKETS; b++) {
		owner[b] = (int)(before * ranks / keys);
		before += count[b];
	}
}

/* Sorts by the lower digit, then by the upper one. */
static void sort_digits(uint32_t *key, int n)
{
	uint32_t *other = need((size_t)n + 1, sizeof *other);

	for (int shift = 0; shift < KEY_BITS; shift += DIGIT_BITS) {
		int at[(1 << DIGIT_BITS) + 1] = { 0 };

		for (int i = 0; i < n; i++)
			at[(key[i] >> shift & ((1 << DIGIT_BITS) - 1)) + 1]++;
		for (int d = 0; d < 1 << DIGIT_BITS; d++)
			at[d + 1] += at[d];
		for (int i = 0; i < n; i++)
			other[at[key[i] >> shift & ((1 << DIGIT_BITS) - 1)]++] = key[i];
		memcpy(key, other, (size_t)n * sizeof *key);
	}
	free(other);
}

/* Sends each key to the rank that owns its bucket. Returns the keys that came, N of them. */
static uint32_t *exchange(const uint32_t *key, int count, const int *owner, int *n)
{
	int *out = need((size_t)ranks * 4, sizeof *out), *in = out + ranks, *out_at = in + ranks,
	    *in_at = out_at + ranks;
	uint32_t *sent = need((size_t)count + 1, sizeof *sent), *came;

	for (int i = 0; i < count; i++)
		out[owner[bucket_of(key[i])]]++;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
	for (int r = 1; r < ranks; r++) {
		out_at[r] = out_at[r - 1] + out[r - 1];
		in_at[r] = in_at[r - 1] + in[r - 1];
	}
	*n = in_at[ranks - 1] + in[ranks - 1];
	came = need((size_t)*n + 1, sizeof *came);
	for (int i = 0; i < count; i++)
		sent[out_at[owner[bucket_of(key[i])]]++] = key[i];
	for (int r = 0; r < ranks; r++)
		out_at[r] -= out[r];
	MPI_Alltoallv(sent, out, out_at, MPI_UINT32_T, came, in, in_at, MPI_UINT32_T, MPI_COMM_WORLD);
	free(sent);
	free(out);
	return came;
}

/* The sum over all keys of their place in the sorted order times a number of the key; -1 if they are not in order. */
static double checked(const uint32_t *key, int n)
{
	long before = 0, mine = n;
	uint64_t sum = 0, all;
	uint32_t last = n ? key[n - 1] : 0, left = 0;
	int wrong = 0, any;

	MPI_Exscan(&mine, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	MPI_Exscan(&last, &left, 1, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
	before = rank ? before : 0;
	left = rank ? left : 0;
	for (int i = 0; i < n; i++) {
		wrong |= key[i] < (i ? key[i - 1] : left);
		sum += (uint64_t)(before + i) * (hash2(key[i], 1) & 0xff);
	}
	MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return any ? -1 : (double)(all & (((uint64_t)1 << 52) - 1));
}

double run_sort(int size)
{
	const int count = sort_keys[size] / ranks;
	int mine[BUCKETS], all[BUCKETS], owner[BUCKETS], n;
	uint32_t *key = need((size_t)count, sizeof *key), *came;
	double result = 0;

	for (int round = 0; round < ROUNDS && result >= 0; round++) {
		memset(mine, 0, sizeof mine);
		for (int i = 0; i < count; i++) {
			const uint64_t h = hash2((uint64_t)(rank * count + i), (uint64_t)round);

			/* the sum of two numbers: the keys in the middle are more frequent */
			key[i] = (uint32_t)((h >> 44) + (h & ((1 << KEY_BITS) - 1))) / 2;
			mine[bucket_of(key[i])]++;
		}
		MPI_Allreduce(mine, all, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		deal(all, (long)count * ranks, owner);
		came = exchange(key, count, owner, &n);
		sort_digits(came, n);
		result = checked(came, n);
		free(came);
	}
	free(key);
	return result;
}
