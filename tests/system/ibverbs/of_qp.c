/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of libibverbs: creation, states and their attributes, refused requests and their errors. */
#include "of_pair.h"

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
static const char *const names[] = { "RC", "UC", "UD" };

static struct ibv_qp *create(struct ibv_cq *cq, struct ibv_qp_cap cap, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .cap = cap, .qp_type = type };

	return ibv_create_qp(pd, &a);
}

static void creation(void)
{
	struct ibv_cq *cq = ibv_create_cq(dev, 16, NULL, NULL, 0);
	struct ibv_qp_cap good = { 16, 16, 2, 2, 64 }, cap;
	struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .cap = { 5, 6, 1, 3, 7 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &a);

	CHECK(qp && a.cap.max_send_wr >= 5 && a.cap.max_recv_wr >= 6 && a.cap.max_send_sge >= 1 &&
	      a.cap.max_recv_sge >= 3 && a.cap.max_inline_data >= 7, "what is granted is what was asked, at least");
	CHECK(ibv_qp_to_qp_ex(qp) == NULL, "a plain queue pair has no builder");
	ibv_destroy_qp(qp);
	cap = good; cap.max_send_wr = 1 << 20;
	CHECK(REFUSED(create(cq, cap, IBV_QPT_RC), EINVAL), "too many send requests");
	cap = good; cap.max_recv_wr = 1 << 20;
	CHECK(REFUSED(create(cq, cap, IBV_QPT_UD), EINVAL), "too many receives");
	cap = good; cap.max_send_sge = 17;
	CHECK(REFUSED(create(cq, cap, IBV_QPT_RC), EINVAL), "too many entries");
	cap = good; cap.max_inline_data = 1 << 16;
	CHECK(REFUSED(create(cq, cap, IBV_QPT_RC), EINVAL), "too much inline data");
	CHECK(REFUSED(create(NULL, good, IBV_QPT_RC), EINVAL), "no completion queue");
	CHECK(REFUSED(create(cq, good, IBV_QPT_XRC_SEND), EOPNOTSUPP), "XRC");
	CHECK(REFUSED(create(cq, good, IBV_QPT_RAW_PACKET), EOPNOTSUPP), "raw packets");
	ibv_destroy_cq(cq);
}

/* NEED: the attributes for the way from one state to the next; every other bit except those of MAY is refused. */
static bool strict(struct side *s, enum ibv_qp_state to, int need, int may, uint32_t qpn)
{
	struct ibv_qp_attr a = attr_of(to, &gid, qpn);
	bool good = true;

	a.cur_qp_state = state_of(s);
	for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		if (bit == IBV_QP_STATE)
			continue;
		if ((need & bit) && ibv_modify_qp(s->qp, &a, need & ~bit) != EINVAL) {
			printf("# 0x%x is needed\n", bit);
			good = false;
		}
		if (!((need | may) & bit) && ibv_modify_qp(s->qp, &a, need | bit) != EINVAL) {
			printf("# 0x%x is not allowed\n", bit);
			good = false;
		}
	}
	return ibv_modify_qp(s->qp, &a, need) == 0 && state_of(s) == to && good;
}

static bool only_to(struct side *s, unsigned allowed)
{
	enum ibv_qp_state from = state_of(s);
	bool good = true;

	for (unsigned to = 0; to < IBV_QPS_UNKNOWN; to++)
		if (!(allowed & 1u << to) && to_state(s, to) != EINVAL)
			good = false;
	return good && state_of(s) == from;
}

static void masks_of(int t)
{
	const int path = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS, rts = IBV_QP_CUR_STATE;
	const int ud = types[t] == IBV_QPT_UD, rc = types[t] == IBV_QPT_RC;
	struct side a = { 0 }, b = { 0 };

	side_open(&a, types[t], 0, NULL);
	side_open(&b, types[t], 0, NULL);
	CHECK(only_to(&a, 1 << IBV_QPS_RESET), names[t]);
	CHECK(strict(&a, IBV_QPS_INIT, init_mask(types[t]), 0, 0), "RESET to INIT");
	CHECK(only_to(&a, 1 << IBV_QPS_RESET | 1 << IBV_QPS_INIT | 1 << IBV_QPS_ERR | ud << IBV_QPS_RTR),
	      "INIT: and nowhere else");
	to_init(&b);
	CHECK(strict(&a, IBV_QPS_RTR, rtr_mask(types[t]), IBV_QP_PKEY_INDEX | (ud ? IBV_QP_QKEY : path), b.qp->qp_num),
	      "INIT to RTR");
	CHECK(only_to(&a, 1 << IBV_QPS_RESET | 1 << IBV_QPS_ERR), "RTR: and nowhere else");
	CHECK(strict(&a, IBV_QPS_RTS, rts_mask(types[t]),
		     rts | (ud ? IBV_QP_QKEY : path | IBV_QP_PATH_MIG_STATE) | (rc ? IBV_QP_MIN_RNR_TIMER : 0),
		     0), "RTR to RTS");
	CHECK(strict(&a, IBV_QPS_SQD, IBV_QP_STATE, IBV_QP_EN_SQD_ASYNC_NOTIFY, 0), "RTS to SQD");
	CHECK(to_state(&a, IBV_QPS_RTS) == 0, "SQD to RTS");
	CHECK(to_state(&a, IBV_QPS_ERR) == 0 && only_to(&a, 1 << IBV_QPS_RESET | 1 << IBV_QPS_ERR),
	      "ERR: to RESET only");
	CHECK(to_state(&a, IBV_QPS_RESET) == 0 && state_of(&a) == IBV_QPS_RESET, "RESET");
	pair_close(&a, &b);
}

static void values(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a, q;
	struct side s, peer;
	int mask;

	side_open(&s, IBV_QPT_RC, 0, NULL);
	side_open(&peer, IBV_QPT_RC, 0, NULL);
#define BAD(set, what) do { a = attr_of(to, &gid, peer.qp->qp_num); set; errno = 0; \
	CHECK(ibv_modify_qp(s.qp, &a, mask) == EINVAL && errno == EINVAL, what); } while (0)
	enum ibv_qp_state to = IBV_QPS_INIT;
	mask = init_mask(IBV_QPT_RC);
	BAD(a.port_num = 2, "no such port");
	BAD(a.pkey_index = 1, "no such partition key");
	to_init(&s);
	to = IBV_QPS_RTR;
	mask = rtr_mask(IBV_QPT_RC);
	BAD(a.path_mtu = 9, "no such MTU");
	BAD(a.dest_qp_num = 1 << 24, "a number of 25 bits");
	BAD(a.max_dest_rd_atomic = 255, "too many Reads");
	BAD(a.ah_attr.is_global = 0, "neither a GID nor a LID");
	BAD(a.ah_attr.grh.sgid_index = 99, "no such GID");
	CHECK(state_of(&s) == IBV_QPS_INIT, "nothing has changed");
	to_init(&peer);
	CHECK(to_rtr(&s, peer.qp->qp_num) == 0 && to_rts(&s) == 0, "but the others are good");
	CHECK(ibv_query_qp(s.qp, &q, 0, &init) == 0 && q.dest_qp_num == peer.qp->qp_num && q.rq_psn == 77 &&
	      q.sq_psn == 77 && q.path_mtu == IBV_MTU_1024 && q.timeout == 14 && q.retry_cnt == 7 && q.rnr_retry == 7 &&
	      q.port_num == 1 && q.max_rd_atomic == 4 && q.max_dest_rd_atomic == 4 && q.min_rnr_timer == 12 &&
	      memcmp(&q.ah_attr.grh.dgid, &gid, sizeof gid) == 0, "ibv_query_qp tells them");
	CHECK(init.qp_type == IBV_QPT_RC && init.send_cq == s.cq && init.cap.max_send_wr >= DEPTH,
	      "and how it was made");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD };
	CHECK(ibv_modify_qp(s.qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL, "not its current state");
	pair_close(&s, &peer);
}

static bool refused_send(struct side *s)
{
	struct ibv_send_wr wr[2] = { { .next = &wr[1], .opcode = IBV_WR_SEND }, { .opcode = IBV_WR_SEND } };
	struct ibv_send_wr *bad = NULL;

	errno = 0;
	return ibv_post_send(s->qp, wr, &bad) == EINVAL && errno == EINVAL && bad == wr;
}

static void posts(void)
{
	struct ibv_recv_wr r = { .wr_id = 1 }, *bad_r = NULL;
	struct ibv_send_wr wr[40], *bad = NULL;
	struct ibv_sge sge = sge_at(0, 8);
	struct side a = { 0 }, b = { 0 };

	side_open(&a, IBV_QPT_RC, 0, NULL);
	side_open(&b, IBV_QPT_RC, 0, NULL);
	CHECK(refused_send(&a) && ibv_post_recv(a.qp, &r, &bad_r) == EINVAL && bad_r == &r, "RESET takes no request");
	to_init(&a);
	to_init(&b);
	CHECK(refused_send(&a) && post_recv(&a, 0, 8, 2) == 0, "INIT takes receives");
	to_rtr(&a, b.qp->qp_num);
	CHECK(refused_send(&a) && post_recv(&a, 0, 8, 3) == 0, "RTR takes receives");
	to_rts(&a);
	for (int i = 0; i < 40; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = 100 + i, .next = i < 39 ? &wr[i + 1] : NULL, .sg_list = &sge,
					      .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	wr[37].opcode = 99;
	CHECK(ibv_post_send(a.qp, wr, &bad) == EINVAL && bad == &wr[37], "a list stops at an unknown operation");
	wr[37].opcode = IBV_WR_SEND;
	CHECK(ibv_post_send(a.qp, wr, &bad) == ENOMEM && bad == &wr[DEPTH - 37], "... or when the queue is full");
	CHECK(to_state(&a, IBV_QPS_ERR) == 0, "ERR");
	CHECK(next_is(&a, 100, IBV_WC_WR_FLUSH_ERR), "flushes what was sent");
	for (int i = 0, n = 0; i < DEPTH + 1; i++) {
		struct ibv_wc wc;

		n += next_wc(&a, &wc, 5) && wc.status == IBV_WC_WR_FLUSH_ERR;
		if (i == DEPTH)
			CHECK(n == DEPTH + 1, "... and received");
	}
	CHECK(post_recv(&a, 0, 8, 4) == 0 && next_is(&a, 4, IBV_WC_WR_FLUSH_ERR), "a receive in ERR is flushed");
	CHECK(post_send(&a, 0, 8, 5) == 0 && next_is(&a, 5, IBV_WC_WR_FLUSH_ERR), "a send request as well");
	post_send(&a, 0, 8, 6);
	CHECK(to_state(&a, IBV_QPS_RESET) == 0 && none(&a), "RESET forgets completions");
	CHECK(to_state(&b, IBV_QPS_RESET) == 0 && connect_pair(&a, &b), "and both connect again");
	CHECK(post_recv(&b, 0, 8, 7) == 0 && post_send(&a, 0, 8, 8) == 0 && next_is(&b, 7, IBV_WC_SUCCESS) &&
	      next_is(&a, 8, IBV_WC_SUCCESS), "under the same numbers");
	post_send(&a, 0, 8, 9);
	CHECK(pair_close(&a, &b) == 0, "destroyed");
}

static void held(int t)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event ev;
	struct side a = { 0 }, b = { 0 };

	CHECK(pair_open(&a, &b, types[t], 0), names[t]);
	CHECK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0, "SQD");
	CHECK(ibv_get_async_event(dev, &ev) == 0 && ev.event_type == IBV_EVENT_SQ_DRAINED && ev.element.qp == a.qp,
	      "tells that it is drained");
	ibv_ack_async_event(&ev);
	post_recv(&b, HALF, 8, 1);
	CHECK(post_send(&a, 0, 8, 2) == 0 && none(&a) && none(&b), "holds requests");
	CHECK(to_state(&a, IBV_QPS_RTS) == 0 && next_is(&a, 2, IBV_WC_SUCCESS) && next_is(&b, 1, IBV_WC_SUCCESS),
	      "until RTS");
	pair_close(&a, &b);
}

static int move_path(struct side *s, const union ibv_gid *to, uint8_t index)
{
	struct ibv_qp_attr a = attr_of(IBV_QPS_SQD, to, 0);

	a.ah_attr.grh.sgid_index = index;
	return ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_AV);
}

/* UC: the address vector of a held queue pair changes to another address of the host, and back. */
static void another_path(void)
{
	struct side a = { 0 }, b = { 0 };
	union ibv_gid other;

	if (ibv_query_gid(dev, 1, 1, &other)) {
		printf("SKIP: diw_lo has one address\n");
		return;
	}
	CHECK(pair_open(&a, &b, IBV_QPT_UC, 0) && to_state(&a, IBV_QPS_SQD) == 0 && to_state(&b, IBV_QPS_SQD) == 0,
	      "UC: another path");
	CHECK(post_recv(&b, HALF, 8, 1) == 0 && post_recv(&b, HALF, 8, 2) == 0 && post_send(&a, 0, 8, 3) == 0,
	      "a request is held");
	CHECK(move_path(&a, &other, 1) == 0 && to_state(&a, IBV_QPS_RTS) == 0 && next_is(&a, 3, IBV_WC_SUCCESS) &&
	      none(&b), "it takes the new path, from which its peer expects nothing");
	CHECK(move_path(&b, &other, 1) == 0 && to_state(&b, IBV_QPS_RTS) == 0 && post_send(&a, 0, 8, 4) == 0 &&
	      next_is(&a, 4, IBV_WC_SUCCESS) && next_is(&b, 1, IBV_WC_SUCCESS), "the peer takes it, too");
	CHECK(to_state(&a, IBV_QPS_SQD) == 0 && to_state(&b, IBV_QPS_SQD) == 0 && move_path(&a, &gid, 0) == 0 &&
	      move_path(&b, &gid, 0) == 0 && to_state(&a, IBV_QPS_RTS) == 0 && to_state(&b, IBV_QPS_RTS) == 0 &&
	      post_send(&a, 0, 8, 5) == 0 && next_is(&a, 5, IBV_WC_SUCCESS) && next_is(&b, 2, IBV_WC_SUCCESS),
	      "and both the old one again");
	pair_close(&a, &b);
}

/* A request that has begun: the peer has no receive for it, so its completion does not come. */
static void draining(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct pollfd p = { .fd = dev->async_fd, .events = POLLIN };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr now;
	struct ibv_async_event ev;
	struct side a = { 0 }, b = { 0 };

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0) && post_recv(&b, HALF, 8, 1) == 0 && post_send(&a, 0, 8, 2) == 0 &&
	      next_is(&a, 2, IBV_WC_SUCCESS) && next_is(&b, 1, IBV_WC_SUCCESS), "connected");
	CHECK(post_send(&a, 0, 8, 3) == 0 && ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0,
	      "SQD behind a request");
	CHECK(none(&a) && poll(&p, 1, 100) == 0, "it is not drained while that is not complete");
	CHECK(ibv_query_qp(a.qp, &now, IBV_QP_STATE, &init) == 0 && now.qp_state == IBV_QPS_SQD && now.sq_draining,
	      "ibv_query_qp says so");
	post_recv(&b, HALF, 8, 4);
	CHECK(next_is(&a, 3, IBV_WC_SUCCESS) && ibv_get_async_event(dev, &ev) == 0 &&
	      ev.event_type == IBV_EVENT_SQ_DRAINED && ev.element.qp == a.qp, "then it is");
	ibv_ack_async_event(&ev);
	CHECK(ibv_query_qp(a.qp, &now, IBV_QP_STATE, &init) == 0 && !now.sq_draining, "which ibv_query_qp says, too");
	CHECK(to_state(&a, IBV_QPS_RTS) == 0 && to_state(&a, IBV_QPS_SQD) == 0 && poll(&p, 1, 100) == 0,
	      "it is told to who asks for it");
	pair_close(&a, &b);
}

static void shared(void)
{
	struct ibv_srq_init_attr unset = { .attr = { .max_wr = 20, .max_sge = 1, .srq_limit = 0xdeadbeef } };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 20, .max_sge = 1, .srq_limit = 20 } };
	struct ibv_srq *other = ibv_create_srq(pd, &unset), *srq = ibv_create_srq(pd, &init);
	struct ibv_sge sge = sge_at(HALF, 64);
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct ibv_async_event ev;
	struct side a = { 0 }, b = { 0 };

	CHECK(other && ibv_destroy_srq(other) == 0, "a shared receive queue whose limit is not set");
	CHECK(srq && init.attr.max_wr >= 20, "a shared receive queue");
	CHECK(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 0, "it has no limit yet");
	attr.srq_limit = 2;
	side_open(&a, IBV_QPT_RC, 0, NULL);
	side_open(&b, IBV_QPT_RC, 0, srq);
	CHECK(connect_pair(&a, &b), "a queue pair of it");
	CHECK(ibv_post_recv(b.qp, &wr, &bad) == EINVAL && bad == &wr, "has no receives of its own");
	for (int i = 0; i < 2; i++)
		CHECK(ibv_post_srq_recv(srq, &wr, &bad) == 0, "receives are posted");
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0 && ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 2,
	      "a limit");
	attr.srq_limit = 21;
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == EINVAL, "no limit beyond its size");
	attr.max_wr = 40;
	CHECK(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EOPNOTSUPP, "it is not resized");
	CHECK(post_send(&a, 0, 8, 2) == 0 && next_is(&b, 1, IBV_WC_SUCCESS), "a message takes one");
	CHECK(ibv_get_async_event(dev, &ev) == 0 && ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
	      ev.element.srq == srq, "the limit is reached");
	ibv_ack_async_event(&ev);
	CHECK(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 0, "... once");
	CHECK(ibv_destroy_srq(srq) == EBUSY, "it is in use");
	CHECK(to_state(&b, IBV_QPS_ERR) == 0 && ibv_get_async_event(dev, &ev) == 0 &&
	      ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && ev.element.qp == b.qp,
	      "a queue pair in ERR takes no more of it");
	ibv_ack_async_event(&ev);
	pair_close(&a, &b);
	for (int t = 0; t < 2; t++) {
		side_open(&b, t ? IBV_QPT_UC : IBV_QPT_UD, 0, srq);
		CHECK(to_init(&b) == 0 && to_state(&b, IBV_QPS_ERR) == 0 && ibv_get_async_event(dev, &ev) == 0 &&
		      ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && ev.element.qp == b.qp,
		      "nor does one of datagrams");
		ibv_ack_async_event(&ev);
		side_close(&b);
	}
	CHECK(ibv_destroy_srq(srq) == 0, "destroyed");
}

int main(void)
{
	open_all();
	creation();
	for (int t = 0; t < 3; t++)
		masks_of(t);
	values();
	posts();
	for (int t = 0; t < 2; t++)
		held(t);
	draining();
	another_path();
	shared();
	CHECK(close_all() == 0, "everything is closed");
	return failed;
}
