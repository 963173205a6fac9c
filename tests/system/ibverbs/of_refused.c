/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of RC that the peer refuses and that are not signalled, as in programs that signal each 16th request: the
 * wr_id that fails, and the ones that are flushed.
 */
#define SIZE (1u << 20)
#include "of_pair.h"

#define EACH 16u
#define LEN 64u

enum wrong { NONE, RKEY, BOUNDS };

static int post_write(struct side *s, uint64_t id, bool signaled, enum wrong wrong)
{
	struct ibv_sge sge = sge_at(0, LEN);
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = signaled ? IBV_SEND_SIGNALED : 0 }, *bad = NULL;

	wr.wr.rdma.remote_addr = (uintptr_t)mem + (wrong == BOUNDS ? SIZE - LEN / 2 : HALF);
	wr.wr.rdma.rkey = wrong == RKEY ? mr->rkey ^ 0xff : mr->rkey;
	return ibv_post_send(s->qp, &wr, &bad);
}

/* Of N Writes the one with the number FAILS is refused. */
static void refused(uint64_t n, uint64_t fails, enum wrong wrong)
{
	struct side a = { 0 }, b = { 0 };
	bool good = pair_open(&a, &b, IBV_QPT_RC, 0);
	char what[80];

	for (uint64_t i = 1; i <= n; i++)
		good &= post_write(&a, i, i % EACH == 0, i == fails ? wrong : NONE) == 0;
	for (uint64_t i = EACH; i < fails; i += EACH)
		good &= next_is(&a, i, IBV_WC_SUCCESS);
	good &= next_is(&a, fails, IBV_WC_REM_ACCESS_ERR);
	for (uint64_t i = fails + 1; i <= n; i++)
		good &= next_is(&a, i, IBV_WC_WR_FLUSH_ERR);
	good &= post_write(&a, n + 1, false, NONE) == 0 && next_is(&a, n + 1, IBV_WC_WR_FLUSH_ERR) && none(&a);
	snprintf(what, sizeof what, "of %u Writes, number %u has the wrong %s", (unsigned)n, (unsigned)fails,
		 wrong == RKEY ? "rkey" : "address");
	CHECK(good, what);
	CHECK(pair_close(&a, &b) == 0, "... closed");
}

/* The send queue is full of requests of which the last one alone is signalled, many times. */
static void full_rounds(void)
{
	struct side a = { 0 }, b = { 0 };
	bool good = pair_open(&a, &b, IBV_QPT_RC, 0);

	for (uint64_t round = 1; round <= 200 && good; round++) {
		for (uint64_t i = 1; i <= DEPTH; i++)
			good &= post_write(&a, round, i == DEPTH, NONE) == 0;
		good &= next_is(&a, round, IBV_WC_SUCCESS);
	}
	CHECK(good && none(&a), "rounds of a full queue, each with one completion");
	CHECK(pair_close(&a, &b) == 0, "... closed");
}

/* Requests that the peer has taken are not flushed when this end leaves. */
static void left(enum ibv_qp_state state)
{
	struct side a = { 0 }, b = { 0 };
	bool good = pair_open(&a, &b, IBV_QPT_RC, 0);

	for (uint64_t i = 1; i <= DEPTH / 2; i++)
		good &= post_write(&a, i, i == DEPTH / 2, NONE) == 0;
	good &= next_is(&a, DEPTH / 2, IBV_WC_SUCCESS);
	CHECK(good && to_state(&a, state) == 0 && none(&a), "requests that are placed are not flushed");
	CHECK(post_write(&b, 1, false, RKEY) == 0 && pair_close(&a, &b) == 0, "closed with a refused one under way");
}

int main(void)
{
	open_all();
	refused(1, 1, RKEY);
	refused(EACH, EACH - 1, RKEY);
	refused(3 * EACH, EACH + 5, RKEY);
	refused(3 * EACH, EACH + 5, BOUNDS);
	refused(3 * EACH + 3, 3 * EACH + 2, BOUNDS);
	refused(DEPTH - 1, 1, RKEY);
	full_rounds();
	left(IBV_QPS_ERR);
	left(IBV_QPS_RESET);
	CHECK(close_all() == 0, "everything is closed");
	return failed;
}
