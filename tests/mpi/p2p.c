/* SPDX-License-Identifier: BSD-2-Clause */
/* Point-to-point messages: every size, in the ways in which a message can be sent and found. */
#include <string.h>

#include "check.h"

#define OUTSTANDING 24
#define MANY_MAX 70000

static int right_of(int r)
{
	return (r + 1) % ranks;
}

static int left_of(int r)
{
	return (r + ranks - 1) % ranks;
}

static void expect_count(MPI_Status *status, size_t want, const char *operation, int from)
{
	int count = -1;

	MPI_Get_count(status, MPI_BYTE, &count);
	expect_equal((uint64_t)count, want, operation, from);
	expect_equal((uint64_t)status->MPI_SOURCE, (uint64_t)from, operation, from);
}

/* Every rank sends to its right neighbour and receives from its left one. */
static void ring_sendrecv(void)
{
	const char *op = "sendrecv";
	MPI_Status status;

	for (int i = 0; i < nsizes; i++) {
		void *out = area_new(sizes[i]), *in = area_new(sizes[i]);

		fill(out, sizes[i], pattern(op, rank, right_of(rank), i));
		MPI_Sendrecv(out, (int)sizes[i], MPI_BYTE, right_of(rank), i, in, (int)sizes[i], MPI_BYTE,
			     left_of(rank), i, MPI_COMM_WORLD, &status);
		expect_count(&status, sizes[i], op, left_of(rank));
		expect_bytes(in, sizes[i], pattern(op, left_of(rank), rank, i), op, left_of(rank));
		expect_bytes(out, sizes[i], pattern(op, rank, right_of(rank), i), "sendrecv's source", rank);
		area_free(out, sizes[i], op);
		area_free(in, sizes[i], op);
	}
}

/* Blocking calls between pairs; the receive has room for more than comes. Even ranks send first. */
static void blocking_pairs(void)
{
	const char *op = "send and recv";
	const int peer = rank ^ 1;
	MPI_Status status;

	if (peer >= ranks)
		return;
	for (int i = 0; i < nsizes; i++) {
		const size_t room = sizes[i] + 100;
		void *out = area_new(sizes[i]), *in = area_new(room);

		fill(out, sizes[i], pattern(op, rank, peer, i));
		for (int turn = 0; turn < 2; turn++) {
			if (turn == rank % 2 && i % 2)
				MPI_Ssend(out, (int)sizes[i], MPI_BYTE, peer, i, MPI_COMM_WORLD);
			else if (turn == rank % 2)
				MPI_Send(out, (int)sizes[i], MPI_BYTE, peer, i, MPI_COMM_WORLD);
			else
				MPI_Recv(in, (int)room, MPI_BYTE, peer, i, MPI_COMM_WORLD, &status);
		}
		expect_count(&status, sizes[i], op, peer);
		expect_bytes(in, sizes[i], pattern(op, peer, rank, i), op, peer);
		area_free(out, sizes[i], op);
		area_free(in, room, op);
	}
}

/*
 * Many messages at once between all ranks. Odd ranks send before they post their receives, so that messages are
 * unexpected there; all post their receives in the opposite order of the tags.
 */
static void many_outstanding(void)
{
	const char *op = "isend and irecv";
	MPI_Request send[OUTSTANDING], recv[OUTSTANDING];
	void *out[OUTSTANDING], *in[OUTSTANDING];

	for (int step = 0; step < ranks; step++) {
		const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
		int n = 0;

		for (; n < nsizes && n < OUTSTANDING && sizes[n] <= MANY_MAX; n++) {
			out[n] = area_new(sizes[n]);
			in[n] = area_new(sizes[n]);
			fill(out[n], sizes[n], pattern(op, rank, to, n));
		}
		for (int turn = 0; turn < 2; turn++)
			for (int k = 0; k < n; k++)
				if (turn == rank % 2)
					MPI_Irecv(in[n - 1 - k], (int)sizes[n - 1 - k], MPI_BYTE, from, n - 1 - k,
						  MPI_COMM_WORLD, &recv[n - 1 - k]);
				else
					MPI_Isend(out[k], (int)sizes[k], MPI_BYTE, to, k, MPI_COMM_WORLD, &send[k]);
		for (int left = n, found, which[OUTSTANDING]; left > 0; left -= found) {
			MPI_Waitsome(n, recv, &found, which, MPI_STATUSES_IGNORE);
			for (int k = 0; k < found; k++)
				expect_bytes(in[which[k]], sizes[which[k]], pattern(op, from, rank, which[k]), op,
					     from);
		}
		MPI_Waitall(n, send, MPI_STATUSES_IGNORE);
		for (int k = 0; k < n; k++) {
			area_free(out[k], sizes[k], op);
			area_free(in[k], sizes[k], op);
		}
	}
}

/* Receives a message from any rank, after learning its size in one of several ways. Returns its sender. */
static int take_any(void *in, size_t room, int way, MPI_Status *status)
{
	MPI_Message message;
	int flag = 0;

	if (way % 4 == 0) {
		MPI_Recv(in, (int)room, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status);
		return status->MPI_SOURCE;
	}
	if (way % 4 == 1) {
		MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, status);
		MPI_Mrecv(in, (int)room, MPI_BYTE, &message, status);
		return status->MPI_SOURCE;
	}
	if (way % 4 == 2)
		MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status);
	else
		while (!flag)
			MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, status);
	MPI_Recv(in, (int)room, MPI_BYTE, status->MPI_SOURCE, status->MPI_TAG, MPI_COMM_WORLD, status);
	return status->MPI_SOURCE;
}

/* All ranks send to one, which receives from any; the messages of one sender arrive in order. */
static void wildcards(void)
{
	const char *op = "any source, any tag";
	const int sink = round_number % ranks;
	int next[ranks];
	size_t room = 0;
	void *area;
	MPI_Status status;

	for (int i = 0; i < nsizes; i++)
		if (sizes[i] <= MANY_MAX && sizes[i] > room)
			room = sizes[i];
	area = area_new(room);
	memset(next, 0, sizeof next);
	for (int i = 0; i < nsizes && rank != sink; i++) {
		if (sizes[i] > room)
			continue;
		fill(area, sizes[i], pattern(op, rank, sink, i));
		MPI_Send(area, (int)sizes[i], MPI_BYTE, sink, i, MPI_COMM_WORLD);
	}
	for (int i = 0, way = 0; i < nsizes && rank == sink; i++)
		for (int r = 0; r < ranks - 1 && sizes[i] <= room; r++) {
			const int from = take_any(area, room, way++, &status);

			while (next[from] < nsizes - 1 && sizes[next[from]] > room)
				next[from]++;
			expect_equal((uint64_t)status.MPI_TAG, (uint64_t)next[from], "order of one sender's messages",
				     from);
			expect_count(&status, sizes[next[from]], op, from);
			expect_bytes(area, sizes[next[from]], pattern(op, from, rank, next[from]), op, from);
			next[from]++;
		}
	area_free(area, room, op);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void persistent(void)
{
	const char *op = "persistent requests";

	for (int i = 0; i < nsizes; i++) {
		void *out = area_new(sizes[i]), *in = area_new(sizes[i]);
		MPI_Request both[2];

		MPI_Send_init(out, (int)sizes[i], MPI_BYTE, left_of(rank), 5, MPI_COMM_WORLD, &both[0]);
		MPI_Recv_init(in, (int)sizes[i], MPI_BYTE, right_of(rank), 5, MPI_COMM_WORLD, &both[1]);
		for (int turn = 0; turn < (sizes[i] > 100000 ? 1 : 3); turn++) {
			const int index = 10 * i + turn;

			fill(out, sizes[i], pattern(op, rank, left_of(rank), index));
			MPI_Startall(2, both);
			MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
			expect_bytes(in, sizes[i], pattern(op, right_of(rank), rank, index), op, right_of(rank));
		}
		MPI_Request_free(&both[0]);
		MPI_Request_free(&both[1]);
		area_free(out, sizes[i], op);
		area_free(in, sizes[i], op);
	}
}

/* Blocks of 24 bytes, 40 apart; the bytes between them do not change at the receiver. */
static void strided(void)
{
	const char *op = "a strided type";
	enum { BLOCK = 24, STRIDE = 40 };

	for (int count = 1; count <= 100000; count *= 10) {
		const size_t len = (size_t)count * STRIDE;
		unsigned char *out = area_new(len), *in = area_new(len);
		MPI_Datatype type;

		MPI_Type_vector(count, BLOCK, STRIDE, MPI_BYTE, &type);
		MPI_Type_commit(&type);
		fill(out, len, pattern(op, rank, right_of(rank), count));
		MPI_Sendrecv(out, 1, type, right_of(rank), 6, in, 1, type, left_of(rank), 6, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		fill(out, len, pattern(op, left_of(rank), rank, count));
		for (size_t i = 0; i < len; i++)
			if (in[i] != (i % STRIDE < BLOCK ? out[i] : 0xa5)) {
				expect_equal(i, len, op, left_of(rank));
				break;
			}
		MPI_Type_free(&type);
		area_free(out, len, op);
		area_free(in, len, op);
	}
}

void check_p2p(void)
{
	ring_sendrecv();
	blocking_pairs();
	many_outstanding();
	wildcards();
	persistent();
	strided();
}
