/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams by infiniband/diwdv.h: every operation, over a network that loses a fifth; a Send without a
 * receive; a destination that is gone; and errors of a program. */
#include "of_pair.h"
#include "verbs/of/diwdv.h"

#define SENDS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WRITES (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define ATOMICS (IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
#define INVALIDATES (IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV)
#define OPS (SENDS | WRITES | ATOMICS | INVALIDATES | IBV_QP_EX_WITH_RDMA_READ)
#define LEN 300000u
#define LOSS "loss=20%,seed=3"

static struct ibv_ah *ah;

static struct ibv_qp *rd_create(struct ibv_cq *cq, enum ibv_qp_type type, const struct diwdv_qp_attr *attr)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = { DEPTH, DEPTH, 4, 4, 128 }, .qp_type = type, .send_cq = cq, .recv_cq = cq, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = OPS,
	};

	return attr ? diwdv_create_qp(dev, &a, attr) : ibv_create_qp_ex(dev, &a);
}

static bool rd_open_flags(struct side *s, const char *impair, uint32_t flags)
{
	const struct diwdv_qp_attr rd = { .comp_mask = DIWDV_QP_DRIVER_TYPE | DIWDV_QP_FLAGS, .flags = flags,
					  .driver_type = DIWDV_DRIVER_RD };

	s->cq = ibv_create_cq(dev, 4 * DEPTH, NULL, NULL, 0);
	if (impair)
		setenv("DIWARP_IMPAIR", impair, 1);
	s->qp = rd_create(s->cq, IBV_QPT_DRIVER, &rd);
	unsetenv("DIWARP_IMPAIR");
	s->ex = s->qp ? ibv_qp_to_qp_ex(s->qp) : NULL;
	return s->ex;
}

static bool rd_open(struct side *s, const char *impair)
{
	return rd_open_flags(s, impair, 0);
}

/* The same states as UD. */
static int rd_states(struct side *s)
{
	struct ibv_qp_attr a = attr_of(IBV_QPS_INIT, &gid, 0);
	int rc = ibv_modify_qp(s->qp, &a, init_mask(IBV_QPT_UD));

	a.qp_state = IBV_QPS_RTR;
	rc |= ibv_modify_qp(s->qp, &a, rtr_mask(IBV_QPT_UD));
	a.qp_state = IBV_QPS_RTS;
	return rc | ibv_modify_qp(s->qp, &a, rts_mask(IBV_QPT_UD));
}

static bool rd_pair(struct side *a, struct side *b, const char *impair)
{
	return rd_open(a, impair) && rd_open(b, impair) && rd_states(a) == 0 && rd_states(b) == 0;
}

/* The request that the builder has begun goes to TO, with LEN octets at OFF. */
static bool rd_finish(struct side *from, const struct side *to, uint32_t off, uint32_t len)
{
	ibv_wr_set_ud_addr(from->ex, ah, to->qp->qp_num, QKEY);
	ibv_wr_set_sge(from->ex, mr->lkey, (uintptr_t)mem + off, len);
	return ibv_wr_complete(from->ex) == 0;
}

static void rd_begin(struct side *from, uint64_t id, unsigned flags)
{
	ibv_wr_start(from->ex);
	from->ex->wr_id = id;
	from->ex->wr_flags = IBV_SEND_SIGNALED | flags;
}

static void sends(void)
{
	struct diwdv_record r;
	struct side a, b;
	struct ibv_wc wc;

	CHECK(rd_pair(&a, &b, NULL), "two queue pairs go through the states of UD");
	CHECK(a.qp->qp_num <= UINT16_MAX && a.qp->qp_num != b.qp->qp_num, "their numbers are ports");
	CHECK(post_ud(&a, ah, b.qp->qp_num, 1) == 0 && none(&a) && none(&b), "a Send without a receive waits");
	CHECK(post_recv(&b, HALF, 4096, 2) == 0 && next_is(&a, 1, IBV_WC_SUCCESS), "a receive, and it is complete");
	CHECK(diwdv_poll_cq(b.cq, 1, &wc, &r) == 1 && wc.wr_id == 2 && wc.status == IBV_WC_SUCCESS &&
	      wc.opcode == IBV_WC_RECV && wc.byte_len == 100 && wc.wc_flags == IBV_WC_GRH &&
	      wc.src_qp == a.qp->qp_num, "it came once, behind a header that the program does not get");
	CHECK(r.src_qp == a.qp->qp_num && memcmp(&r.src, &gid, sizeof gid) == 0 && r.nranges == 0,
	      "the record tells the sender's address");
	CHECK(memcmp(mem, mem + HALF, 100) == 0, "its bytes");
	diwdv_record_release(&r);
	CHECK(pair_close(&a, &b) == 0, "destroyed");
}

/* Messages of several segments arrive in order, each once, in spite of losses. */
static void in_order(void)
{
	struct side a, b;
	struct ibv_wc wc;
	int good = 0;

	CHECK(rd_pair(&a, &b, LOSS), "over a network that loses a fifth");
	for (uint64_t i = 0; i < 200; i++) {
		rd_begin(&a, i, 0);
		ibv_wr_send_imm(a.ex, htobe32((uint32_t)i));
		good += post_recv(&b, HALF, LEN, i) == 0 && rd_finish(&a, &b, 0, 5000 + (uint32_t)i) &&
			next_wc(&b, &wc, SOON) && wc.wr_id == i && be32toh(wc.imm_data) == i &&
			wc.byte_len == 5000 + i && memcmp(mem, mem + HALF, 5000 + i) == 0 &&
			next_is(&a, i, IBV_WC_SUCCESS);
	}
	CHECK(good == 200, "200 Sends come in order, once each");
	CHECK(none(&a) && none(&b), "and nothing else");
	pair_close(&a, &b);
}

static void operations(void)
{
	uint64_t *number = (uint64_t *)(void *)(mem + HALF), *was = (uint64_t *)(void *)mem;
	struct side a, b;
	struct ibv_wc wc;

	CHECK(rd_pair(&a, &b, LOSS), "for the other operations");
	memset(mem + HALF, 0, LEN);
	rd_begin(&a, 1, 0);
	ibv_wr_rdma_write(a.ex, mr->rkey, (uintptr_t)mem + HALF);
	CHECK(rd_finish(&a, &b, 0, LEN) && next_is(&a, 1, IBV_WC_SUCCESS) && memcmp(mem, mem + HALF, LEN) == 0,
	      "a Write is there when it is complete");
	CHECK(none(&b), "and its target is not told");
	post_recv(&b, HALF, 0, 7);
	rd_begin(&a, 2, 0);
	ibv_wr_rdma_write_imm(a.ex, mr->rkey, (uintptr_t)mem + HALF, htobe32(99));
	CHECK(rd_finish(&a, &b, 0, 8) && next_is(&a, 2, IBV_WC_SUCCESS) && next_wc(&b, &wc, SOON) && wc.wr_id == 7 &&
	      wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && be32toh(wc.imm_data) == 99 && wc.byte_len == 8,
	      "a Write with an immediate");
	memset(mem, 0, LEN);
	rd_begin(&a, 3, 0);
	ibv_wr_rdma_read(a.ex, mr->rkey, (uintptr_t)mem + HALF);
	CHECK(rd_finish(&a, &b, 0, LEN) && next_is(&a, 3, IBV_WC_SUCCESS) && memcmp(mem, mem + HALF, LEN) == 0,
	      "a Read");
	*number = 41;
	rd_begin(&a, 4, 0);
	ibv_wr_atomic_fetch_add(a.ex, mr->rkey, (uintptr_t)number, 1);
	CHECK(rd_finish(&a, &b, 0, 8) && next_is(&a, 4, IBV_WC_SUCCESS) && *was == 41 && *number == 42, "an addition");
	rd_begin(&a, 5, IBV_SEND_FENCE);
	ibv_wr_atomic_cmp_swp(a.ex, mr->rkey, (uintptr_t)number, 42, 7);
	CHECK(rd_finish(&a, &b, 0, 8) && next_is(&a, 5, IBV_WC_SUCCESS) && *was == 42 && *number == 7, "an exchange");
	rd_begin(&a, 6, 0);
	ibv_wr_rdma_write(a.ex, mr->rkey ^ 1, (uintptr_t)mem + HALF);
	CHECK(rd_finish(&a, &b, 0, 8) && next_is(&a, 6, IBV_WC_REM_ACCESS_ERR), "a Write to a wrong rkey fails");
	post_recv(&b, HALF, 4096, 8);
	CHECK(post_ud(&a, ah, b.qp->qp_num, 9) == 0 && next_is(&a, 9, IBV_WC_SUCCESS) &&
	      next_is(&b, 8, IBV_WC_SUCCESS) && state_of(&a) == IBV_QPS_RTS, "and the queue pair goes on");
	pair_close(&a, &b);
}

/* The use of a window is ended by the peer that may write to it, or by its owner. */
static void windows(void)
{
	struct ibv_mw_bind_info info = { .mr = mr, .addr = (uintptr_t)mem + HALF, .length = 100,
					 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct side a, b;
	struct ibv_wc wc;

	CHECK(rd_pair(&a, &b, NULL), "for windows");
	for (int round = 0; round < 2; round++) {
		rd_begin(&b, 1, 0);
		ibv_wr_bind_mw(b.ex, mw, rkey, &info);
		CHECK(ibv_wr_complete(b.ex) == 0 && next_is(&b, 1, IBV_WC_SUCCESS), "a window is bound");
		rd_begin(&a, 2, 0);
		ibv_wr_rdma_write(a.ex, rkey, (uintptr_t)mem + HALF);
		CHECK(rd_finish(&a, &b, 0, 100) && next_is(&a, 2, IBV_WC_SUCCESS), "and written to");
		post_recv(&b, HALF, 4096, 3);
		rd_begin(&a, 4, 0);
		ibv_wr_send_inv(a.ex, rkey);
		CHECK(rd_finish(&a, &b, 0, 10) && next_is(&a, 4, IBV_WC_SUCCESS) && next_wc(&b, &wc, SOON) &&
		      wc.wr_id == 3 && (wc.wc_flags & IBV_WC_WITH_INV) && wc.invalidated_rkey == rkey,
		      "a Send with Invalidate ends that");
		rd_begin(&a, 5, 0);
		ibv_wr_rdma_write(a.ex, rkey, (uintptr_t)mem + HALF);
		CHECK(rd_finish(&a, &b, 0, 100) && next_is(&a, 5, IBV_WC_REM_ACCESS_ERR), "for every peer");
		rkey = ibv_inc_rkey(rkey);
	}
	rd_begin(&b, 6, 0);
	ibv_wr_local_inv(b.ex, rkey);
	CHECK(ibv_wr_complete(b.ex) == 0 && next_is(&b, 6, IBV_WC_MW_BIND_ERR),
	      "what is not bound cannot be invalidated");
	CHECK(ibv_dealloc_mw(mw) == 0, "the window is freed");
	pair_close(&a, &b);
}

/* DIWDV_QP_ERROR_ENDS: one destination refuses a request, and those to the other one are flushed, too. */
static void error_ends(void)
{
	struct side a, b, c;

	CHECK(rd_open_flags(&a, NULL, DIWDV_QP_ERROR_ENDS) && rd_states(&a) == 0 && rd_pair(&b, &c, NULL),
	      "three, of which one ends with an error");
	post_recv(&a, HALF, 4096, 1);
	CHECK(post_ud(&a, ah, c.qp->qp_num, 2) == 0, "a Send that waits");
	rd_begin(&a, 3, 0);
	ibv_wr_rdma_write(a.ex, mr->rkey ^ 1, (uintptr_t)mem + HALF);
	CHECK(rd_finish(&a, &b, 0, 8) && next_is(&a, 3, IBV_WC_REM_ACCESS_ERR), "a Write to a wrong rkey fails");
	CHECK(next_is(&a, 2, IBV_WC_WR_FLUSH_ERR) && next_is(&a, 1, IBV_WC_WR_FLUSH_ERR), "the others are flushed");
	CHECK(state_of(&a) == IBV_QPS_ERR, "the state is ERR");
	CHECK(to_state(&a, IBV_QPS_RESET) == 0 && rd_states(&a) == 0, "reset");
	post_recv(&b, HALF, 4096, 4);
	CHECK(post_ud(&a, ah, b.qp->qp_num, 5) == 0 && next_is(&a, 5, IBV_WC_SUCCESS), "and in use again");
	side_close(&c);
	pair_close(&a, &b);
}

static void gone(void)
{
	struct side a, b, c;
	uint32_t num;

	CHECK(rd_pair(&a, &b, NULL) && rd_open(&c, NULL) && rd_states(&c) == 0, "three queue pairs");
	num = b.qp->qp_num;
	side_close(&b);
	CHECK(post_ud(&a, ah, num, 1) == 0, "a Send to one that is destroyed");
	post_recv(&c, HALF, 4096, 2);
	CHECK(post_ud(&a, ah, c.qp->qp_num, 3) == 0 && next_is(&a, 3, IBV_WC_SUCCESS) && next_is(&c, 2, IBV_WC_SUCCESS),
	      "holds up no other destination");
	CHECK(next_is(&a, 1, IBV_WC_RETRY_EXC_ERR), "and fails");
	post_recv(&c, HALF, 4096, 4);
	CHECK(post_ud(&a, ah, c.qp->qp_num, 5) == 0 && next_is(&a, 5, IBV_WC_SUCCESS), "the others go on");
	CHECK(to_state(&a, IBV_QPS_ERR) == 0 && post_ud(&a, ah, c.qp->qp_num, 6) == 0 &&
	      next_is(&a, 6, IBV_WC_WR_FLUSH_ERR), "in state ERR requests are flushed");
	CHECK(to_state(&a, IBV_QPS_RESET) == 0 && rd_states(&a) == 0, "reset");
	post_recv(&c, HALF, 4096, 7);
	CHECK(next_is(&c, 4, IBV_WC_SUCCESS) && post_ud(&a, ah, c.qp->qp_num, 8) == 0 && next_is(&a, 8, IBV_WC_SUCCESS),
	      "and in use again");
	pair_close(&a, &c);
}

static void mistakes(void)
{
	struct diwdv_qp_attr attr = { .comp_mask = DIWDV_QP_DRIVER_TYPE, .driver_type = DIWDV_DRIVER_RD };
	struct ibv_sge sge = sge_at(0, 8);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct side a;

	CHECK(rd_open(&a, NULL) && rd_states(&a) == 0, "for mistakes");
	CHECK(ibv_post_send(a.qp, &wr, &bad) == EINVAL && bad == &wr, "a Write by ibv_post_send has no destination");
	rd_begin(&a, 1, 0);
	ibv_wr_send(a.ex);
	ibv_wr_set_ud_addr(a.ex, ah, UINT16_MAX + 1u, QKEY);
	ibv_wr_set_sge(a.ex, mr->lkey, (uintptr_t)mem, 8);
	CHECK(ibv_wr_complete(a.ex) == EINVAL, "no port is so large");
	CHECK(REFUSED(rd_create(a.cq, IBV_QPT_DRIVER, NULL), EOPNOTSUPP), "IBV_QPT_DRIVER by ibv_create_qp_ex");
	CHECK(REFUSED(rd_create(a.cq, IBV_QPT_UD, &attr), EINVAL), "a driver's type for UD");
	attr.driver_type = 2;
	CHECK(REFUSED(rd_create(a.cq, IBV_QPT_DRIVER, &attr), EINVAL), "an unknown driver's type");
	attr = (struct diwdv_qp_attr){ .comp_mask = DIWDV_QP_SEGMENT, .segment = 1000 };
	CHECK(REFUSED(rd_create(a.cq, IBV_QPT_DRIVER, &attr), EINVAL), "no driver's type");
	attr = (struct diwdv_qp_attr){ .comp_mask = DIWDV_QP_DRIVER_TYPE | DIWDV_QP_MAX_RECORDS,
				       .driver_type = DIWDV_DRIVER_RD, .max_records = 4 };
	CHECK(REFUSED(rd_create(a.cq, IBV_QPT_DRIVER, &attr), EINVAL), "RD has no records");
	attr = (struct diwdv_qp_attr){ .comp_mask = DIWDV_QP_DRIVER_TYPE | DIWDV_QP_FLAGS,
				       .driver_type = DIWDV_DRIVER_RD, .flags = DIWDV_QP_CHUNKS };
	CHECK(REFUSED(rd_create(a.cq, IBV_QPT_DRIVER, &attr), EINVAL), "nor chunks");
	side_close(&a);
}

int main(void)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };

	open_all();
	to.grh.dgid = gid;
	ah = ibv_create_ah(pd, &to);
	for (uint32_t i = 0; i < LEN; i++)
		mem[i] = (uint8_t)(1 + i % 251);
	sends();
	in_order();
	operations();
	windows();
	error_ends();
	gone();
	mistakes();
	CHECK(ibv_destroy_ah(ah) == 0 && close_all() == 0, "closed");
	return failed;
}
