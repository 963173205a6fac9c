/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs that are connected by ibv_modify_qp(3), and messages between them. */
#ifndef DIW_TESTS_OF_PAIR_H
#define DIW_TESTS_OF_PAIR_H

#include <poll.h>
#include <time.h>

#include "of_kit.h"

#ifndef SIZE
#define SIZE (8u << 20)
#endif
#define HALF (SIZE / 2)
#define DEPTH 64
#define QKEY 0x1234
#define SOON 30                      /* seconds; only a failure takes so long */
#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

static struct ibv_context *dev;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static uint8_t *mem;
static union ibv_gid gid;
static uint8_t gid_index;            /* its own */

struct side {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
};

static inline void open_all_of(const char *name)
{
	dev = open_named(name);
	pd = ibv_alloc_pd(dev);
	mem = aligned_alloc(4096, SIZE);
	memset(mem, 0, SIZE);
	mr = ibv_reg_mr(pd, mem, SIZE, ALL_ACCESS);
	ibv_query_gid(dev, 1, 0, &gid);
}

static inline void open_all(void)
{
	open_all_of("diw_lo");
}

static inline int close_all(void)
{
	int rc = ibv_dereg_mr(mr);

	rc |= ibv_dealloc_pd(pd);
	rc |= ibv_close_device(dev);
	free(mem);
	return rc;
}

/* OPS: for an extended queue pair. */
static inline bool side_open(struct side *s, enum ibv_qp_type type, uint64_t ops, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = { DEPTH, DEPTH, 4, 4, 128 }, .qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd, .srq = srq,
	};

	if (ops)
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	a.send_ops_flags = ops;
	a.send_cq = a.recv_cq = s->cq = ibv_create_cq(dev, 4 * DEPTH, NULL, NULL, 0);
	s->qp = ibv_create_qp_ex(dev, &a);
	s->ex = s->qp && ops ? ibv_qp_to_qp_ex(s->qp) : NULL;
	if (!s->qp)
		ibv_destroy_cq(s->cq);
	return s->qp;
}

static inline int side_close(struct side *s)
{
	int rc = ibv_destroy_qp(s->qp);

	return rc | ibv_destroy_cq(s->cq);
}

#define MASK_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)
static inline int init_mask(enum ibv_qp_type t)
{
	return MASK_INIT | (t == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

static inline int rtr_mask(enum ibv_qp_type t)
{
	int mask = IBV_QP_STATE;

	if (t != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	return t == IBV_QPT_RC ? mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : mask;
}

static inline int rts_mask(enum ibv_qp_type t)
{
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	return t == IBV_QPT_RC ? mask | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC :
				 mask;
}

/* Contains the attributes for every state. */
static inline struct ibv_qp_attr attr_of(enum ibv_qp_state state, const union ibv_gid *to, uint32_t qpn)
{
	struct ibv_qp_attr a = {
		.qp_state = state, .path_mtu = IBV_MTU_1024, .qkey = QKEY, .rq_psn = 77, .sq_psn = 77,
		.dest_qp_num = qpn,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.max_rd_atomic = 4, .max_dest_rd_atomic = 4, .min_rnr_timer = 12, .port_num = 1, .timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7, .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } },
	};

	a.ah_attr.grh.dgid = *to;
	a.ah_attr.grh.sgid_index = gid_index;
	return a;
}

static inline int to_init(struct side *s)
{
	struct ibv_qp_attr a = attr_of(IBV_QPS_INIT, &gid, 0);

	return ibv_modify_qp(s->qp, &a, init_mask(s->qp->qp_type));
}

static inline int to_rtr(struct side *s, uint32_t qpn)
{
	struct ibv_qp_attr a = attr_of(IBV_QPS_RTR, &gid, qpn);

	return ibv_modify_qp(s->qp, &a, rtr_mask(s->qp->qp_type));
}

static inline int to_rts(struct side *s)
{
	struct ibv_qp_attr a = attr_of(IBV_QPS_RTS, &gid, 0);

	return ibv_modify_qp(s->qp, &a, rts_mask(s->qp->qp_type));
}

static inline int to_state(struct side *s, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };

	return ibv_modify_qp(s->qp, &a, IBV_QP_STATE);
}

static inline bool connect_pair(struct side *a, struct side *b)
{
	return to_init(a) == 0 && to_init(b) == 0 && to_rtr(a, b->qp->qp_num) == 0 && to_rtr(b, a->qp->qp_num) == 0 &&
	       to_rts(a) == 0 && to_rts(b) == 0;
}

static inline bool pair_open(struct side *a, struct side *b, enum ibv_qp_type type, uint64_t ops)
{
	return side_open(a, type, ops, NULL) && side_open(b, type, ops, NULL) && connect_pair(a, b);
}

static inline int pair_close(struct side *a, struct side *b)
{
	int rc = side_close(a);

	return rc | side_close(b);
}

static inline struct ibv_sge sge_at(uint32_t off, uint32_t len)
{
	return (struct ibv_sge){ (uintptr_t)mem + off, len, mr->lkey };
}

static inline int post_ud(struct side *s, struct ibv_ah *ah, uint32_t qpn, uint64_t id)
{
	struct ibv_sge sge = sge_at(0, 100);
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	return ibv_post_send(s->qp, &wr, &bad);
}

static inline int post_recv(struct side *s, uint32_t off, uint32_t len, uint64_t id)
{
	struct ibv_sge sge = sge_at(off, len);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	return ibv_post_recv(s->qp, &wr, &bad);
}

static inline int post_send(struct side *s, uint32_t off, uint32_t len, uint64_t id)
{
	struct ibv_sge sge = sge_at(off, len);
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;

	return ibv_post_send(s->qp, &wr, &bad);
}

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* The next completion, within LIMIT seconds from now. */
static inline bool next_wc(struct side *s, struct ibv_wc *wc, double limit)
{
	double until = seconds() + limit;

	memset(wc, 0, sizeof *wc);
	do
		if (ibv_poll_cq(s->cq, 1, wc) == 1)
			return true;
	while (seconds() < until);
	return false;
}

static inline bool next_is(struct side *s, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	bool is = next_wc(s, &wc, SOON) && wc.wr_id == id && wc.status == status;

	if (!is)
		printf("# wr_id %llu, status %s, where %llu, %s was expected\n", (unsigned long long)wc.wr_id,
		       ibv_wc_status_str(wc.status), (unsigned long long)id, ibv_wc_status_str(status));
	return is;
}

static inline bool none(struct side *s)
{
	struct ibv_wc wc;

	return !next_wc(s, &wc, 0.05);
}

static inline enum ibv_qp_state state_of(struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	return ibv_query_qp(s->qp, &a, IBV_QP_STATE, &init) == 0 ? a.qp_state : IBV_QPS_UNKNOWN;
}

#endif
