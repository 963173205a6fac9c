/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs that are their own peer: they receive their own messages. */
#include "of_pair.h"

#define LONG (1u << 20)

static bool self_open(struct side *s, enum ibv_qp_type type)
{
	memset(s, 0, sizeof *s);
	return side_open(s, type, 0, NULL) && to_init(s) == 0 && to_rtr(s, s->qp->qp_num) == 0 && to_rts(s) == 0;
}

static void message(struct side *s, uint32_t len)
{
	struct ibv_wc wc[2] = { 0 };
	int ids = 0;

	memset(mem, (int)len | 1, len);
	memset(mem + HALF, 0, len);
	CHECK(post_recv(s, HALF, len, 1) == 0 && post_send(s, 0, len, 2) == 0, "a message to itself");
	for (int i = 0; i < 2; i++)
		if (next_wc(s, &wc[i], SOON) && wc[i].status == IBV_WC_SUCCESS)
			ids |= (int)wc[i].wr_id;
	CHECK(ids == 3 && memcmp(mem, mem + HALF, len) == 0, "both ends of it complete, and it is there");
}

static int post_rdma(struct side *s, enum ibv_wr_opcode op, uint32_t len, uint32_t rkey, uint64_t id)
{
	struct ibv_sge sge = sge_at(0, len);
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)mem + HALF;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)mem + HALF;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(s->qp, &wr, &bad);
}

static void memory(struct side *s)
{
	uint64_t sum = 37;

	memset(mem, 0x5a, LONG);
	CHECK(post_rdma(s, IBV_WR_RDMA_WRITE, LONG, mr->rkey, 1) == 0 && next_is(s, 1, IBV_WC_SUCCESS) &&
	      memcmp(mem, mem + HALF, LONG) == 0, "a Write");
	memset(mem + HALF, 0x69, LONG);
	CHECK(post_rdma(s, IBV_WR_RDMA_READ, LONG, mr->rkey, 2) == 0 && next_is(s, 2, IBV_WC_SUCCESS) &&
	      memcmp(mem, mem + HALF, LONG) == 0, "a Read");
	memcpy(mem + HALF, &sum, sizeof sum);
	CHECK(post_rdma(s, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, mr->rkey, 3) == 0 && next_is(s, 3, IBV_WC_SUCCESS) &&
	      memcmp(mem, &sum, sizeof sum) == 0, "an atomic");
	memcpy(&sum, mem + HALF, sizeof sum);
	CHECK(sum == 42, "which adds");
}

/* The queue pair both causes the fault and suffers it. */
static void fault(enum ibv_wr_opcode op, const char *what)
{
	enum ibv_wc_status status[2] = { IBV_WC_SUCCESS, IBV_WC_SUCCESS };
	struct ibv_wc wc;
	struct side s;

	CHECK(self_open(&s, IBV_QPT_RC) && post_recv(&s, HALF, 100, 0) == 0 &&
	      post_rdma(&s, op, 8, mr->rkey + 1, 1) == 0, what);
	for (int i = 0; i < 2; i++)
		if (next_wc(&s, &wc, SOON))
			status[wc.wr_id] = wc.status;
	CHECK(status[0] == IBV_WC_WR_FLUSH_ERR && status[1] == IBV_WC_REM_ACCESS_ERR, "is refused");
	CHECK(state_of(&s) == IBV_QPS_ERR, "state ERR");
	CHECK(to_state(&s, IBV_QPS_RESET) == 0 && to_init(&s) == 0 && to_rtr(&s, s.qp->qp_num) == 0 && to_rts(&s) == 0,
	      "reset, and its own peer again");
	message(&s, 100);
	CHECK(side_close(&s) == 0, "destroyed");
}

int main(void)
{
	struct side s;

	open_all();
	CHECK(self_open(&s, IBV_QPT_RC), "RC: a queue pair is its own peer");
	message(&s, 100);
	message(&s, LONG);
	memory(&s);
	CHECK(post_recv(&s, HALF, 100, 7) == 0 && to_state(&s, IBV_QPS_ERR) == 0 && next_is(&s, 7, IBV_WC_WR_FLUSH_ERR),
	      "to ERR: its receive is flushed");
	CHECK(side_close(&s) == 0, "destroyed");
	fault(IBV_WR_RDMA_WRITE, "a Write to a key that is none");
	fault(IBV_WR_RDMA_READ, "a Read from a key that is none");
	fault(IBV_WR_ATOMIC_FETCH_AND_ADD, "an atomic at a key that is none");
	CHECK(self_open(&s, IBV_QPT_UC), "UC: a queue pair is its own peer");
	message(&s, 100);
	CHECK(side_close(&s) == 0, "destroyed");
	CHECK(close_all() == 0, "nothing is left");
	return failed;
}
