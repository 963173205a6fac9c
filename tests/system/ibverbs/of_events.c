/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs.so.1 with traffic: completions by both interfaces, completion channels, asynchronous events, and calls
 * that wait for their acknowledgement. A datagram queue pair on lo sends to itself.
 */
#include "tests/system/ibverbs/of_kit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define QKEY 0x11111111u
#define SIZE 512
#define GRH 40

struct rig {
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_cq_ex *ex;        /* or NULL */
	struct ibv_srq *srq;         /* or NULL */
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	uint8_t in[4][SIZE + GRH], out[SIZE];
};

static void die(const char *what)
{
	printf("not ok - %s: %s\n", what, strerror(errno));
	exit(1);
}

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		return -1;
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE))
		return -1;
	a.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static void make_queues(struct rig *r, bool extended, bool shared)
{
	struct ibv_cq_init_attr_ex ca = {
		.cqe = 64, .channel = r->ch, .cq_context = r,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 16, .max_sge = 1 } };

	if (extended)
		r->ex = ibv_create_cq_ex(r->c, &ca);
	r->cq = extended ? ibv_cq_ex_to_cq(r->ex) : ibv_create_cq(r->c, 64, r, r->ch, 0);
	if (!r->cq)
		die("completion queue");
	if (shared && !(r->srq = ibv_create_srq(r->pd, &sa)))
		die("shared receive queue");
}

static struct rig *rig_new(bool extended, bool shared)
{
	struct rig *r = calloc(1, sizeof *r);
	struct ibv_ah_attr aa = { .is_global = 1, .port_num = 1 };
	struct ibv_qp_init_attr qa = { .qp_type = IBV_QPT_UD, .cap = { 16, 16, 1, 1, 64 } };

	r->c = open_lo();
	r->pd = ibv_alloc_pd(r->c);
	r->ch = ibv_create_comp_channel(r->c);
	r->mr = ibv_reg_mr(r->pd, r, sizeof *r, IBV_ACCESS_LOCAL_WRITE);
	if (!r->pd || !r->ch || !r->mr)
		die("rig");
	make_queues(r, extended, shared);
	qa.send_cq = qa.recv_cq = r->cq;
	qa.srq = r->srq;
	r->qp = ibv_create_qp(r->pd, &qa);
	if (!r->qp || to_rts(r->qp))
		die("queue pair");
	ibv_query_gid(r->c, 1, 0, &aa.grh.dgid);
	r->ah = ibv_create_ah(r->pd, &aa);
	if (!r->ah)
		die("address handle");
	return r;
}

/* For rig_free(), where a test has destroyed the first. */
static void another_qp(struct rig *r)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_UD, .send_cq = r->cq, .recv_cq = r->cq,
				      .cap = { 1, 1, 1, 1, 0 } };

	r->qp = ibv_create_qp(r->pd, &a);
}

static void rig_free(struct rig *r, const char *what)
{
	bool good = ibv_destroy_ah(r->ah) == 0 && ibv_destroy_qp(r->qp) == 0 &&
		    (!r->srq || ibv_destroy_srq(r->srq) == 0) &&
		    ibv_destroy_cq(r->cq) == 0 && ibv_destroy_comp_channel(r->ch) == 0 && ibv_dereg_mr(r->mr) == 0 &&
		    ibv_dealloc_pd(r->pd) == 0 && ibv_close_device(r->c) == 0;

	CHECK(good, what);
	free(r);
}

static void post_recv(struct rig *r, int i)
{
	struct ibv_sge sge = { (uintptr_t)r->in[i], sizeof r->in[i], r->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 100 + (uint64_t)i, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (r->srq ? ibv_post_srq_recv(r->srq, &wr, &bad) : ibv_post_recv(r->qp, &wr, &bad))
		die("post receive");
}

static void post_send(struct rig *r, struct ibv_ah *ah, uint32_t imm, unsigned flags)
{
	struct ibv_sge sge = { (uintptr_t)r->out, 100, r->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = htonl(imm), .send_flags = IBV_SEND_SIGNALED | flags,
				  .wr.ud = { ah, r->qp->qp_num, QKEY } }, *bad;

	memset(r->out, (int)imm, sizeof r->out);
	if (ibv_post_send(r->qp, &wr, &bad))
		die("post send");
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void wait_ms(int ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000l }, NULL);
}

/* The next completion with that opcode; others are dropped. */
static bool poll_for(struct rig *r, enum ibv_wc_opcode opcode, struct ibv_wc *wc)
{
	int64_t until = now_ns(CLOCK_MONOTONIC) + 30000000000ll;

	while (now_ns(CLOCK_MONOTONIC) < until)
		if (ibv_poll_cq(r->cq, 1, wc) == 1 && (wc->status || wc->opcode == opcode))
			return true;
	return false;
}

/* ---- Completions ---- */

static void test_wc(void)
{
	struct rig *r = rig_new(false, false);
	struct ibv_ah_attr attr;
	struct ibv_ah *back;
	struct ibv_wc wc = { 0 };

	post_recv(r, 0);
	post_recv(r, 1);
	post_send(r, r->ah, 0x21, 0);
	CHECK(poll_for(r, IBV_WC_RECV, &wc) && wc.status == IBV_WC_SUCCESS && wc.wr_id == 100, "a message arrives");
	CHECK(wc.byte_len == 100 + GRH && (wc.wc_flags & IBV_WC_GRH), "its length counts the header in front");
	CHECK((wc.wc_flags & IBV_WC_WITH_IMM) && wc.imm_data == htonl(0x21), "with its immediate, in network order");
	CHECK(wc.qp_num == r->qp->qp_num && wc.src_qp == r->qp->qp_num, "from and to this queue pair");
	CHECK(r->in[0][GRH] == 0x21 && r->in[0][GRH + 99] == 0x21 && r->in[0][GRH + 100] == 0,
	      "the bytes are behind it");
	CHECK(ibv_init_ah_from_wc(r->c, 1, &wc, (struct ibv_grh *)r->in[0], &attr) == 0 && attr.is_global &&
	      attr.grh.sgid_index == 0 && attr.grh.dgid.raw[12] == 127 && attr.port_num == 1,
	      "its sender, from the header");
	back = ibv_create_ah_from_wc(r->pd, &wc, (struct ibv_grh *)r->in[0], 1);
	if (CHECK(back, "an address handle to it"))
		post_send(r, back, 0x22, 0);
	CHECK(poll_for(r, IBV_WC_RECV, &wc) && wc.status == 0 && r->in[1][GRH] == 0x22, "by which it gets an answer");
	r->in[0][20] = 0;
	CHECK(ibv_init_ah_from_wc(r->c, 1, &wc, (struct ibv_grh *)r->in[0], &attr) == -1, "no header: refused");
	r->in[1][36] = 126;
	CHECK(ibv_init_ah_from_wc(r->c, 1, &wc, (struct ibv_grh *)r->in[1], &attr) == -1,
	      "one to somebody else: refused");
	CHECK(ibv_init_ah_from_wc(r->c, 2, &wc, (struct ibv_grh *)r->in[1], &attr) == -1, "of another port: refused");
	CHECK(back && ibv_destroy_ah(back) == 0, "the handle goes");
	rig_free(r, "all of it goes");
}

/* Moves the cursor to the next completion; true if there is one. */
static bool start(struct rig *r)
{
	int64_t until = now_ns(CLOCK_MONOTONIC) + 30000000000ll;
	struct ibv_poll_cq_attr a = { 0 };

	while (now_ns(CLOCK_MONOTONIC) < until)
		if (ibv_start_poll(r->ex, &a) == 0)
			return true;
	return false;
}

static void test_wc_ex(void)
{
	struct rig *r = rig_new(true, false);
	int64_t before = now_ns(CLOCK_MONOTONIC), wall = now_ns(CLOCK_REALTIME);
	int seen = 0, sends = 0, rc = 0;
	bool fields = true, times = true;
	struct ibv_wc wc;

	for (int i = 0; i < 3; i++)
		post_recv(r, i);
	for (uint32_t i = 0; i < 3; i++)
		post_send(r, r->ah, 0x31 + i, 0);
	while (seen + sends < 6 && start(r)) {
		do {
			if (ibv_wc_read_opcode(r->ex) == IBV_WC_SEND) {
				sends += r->ex->status == 0 && r->ex->wr_id == 7;
				continue;
			}
			fields &= r->ex->status == 0 && r->ex->wr_id == 100 + (uint64_t)seen &&
				  ibv_wc_read_byte_len(r->ex) == 100 + GRH &&
				  ibv_wc_read_imm_data(r->ex) == htonl(0x31 + (uint32_t)seen) &&
				  ibv_wc_read_qp_num(r->ex) == r->qp->qp_num &&
				  ibv_wc_read_src_qp(r->ex) == r->qp->qp_num &&
				  ibv_wc_read_wc_flags(r->ex) == (IBV_WC_GRH | IBV_WC_WITH_IMM) &&
				  !ibv_wc_read_vendor_err(r->ex) && ibv_wc_read_slid(r->ex) == 1 &&
				  ibv_wc_read_sl(r->ex) == 2 &&
				  !ibv_wc_read_dlid_path_bits(r->ex);
			times &= (int64_t)ibv_wc_read_completion_ts(r->ex) >= before &&
				 (int64_t)ibv_wc_read_completion_ts(r->ex) <= now_ns(CLOCK_MONOTONIC) &&
				 (int64_t)ibv_wc_read_completion_wallclock_ns(r->ex) >= wall - 1000000 &&
				 (int64_t)ibv_wc_read_completion_wallclock_ns(r->ex) <=
					 now_ns(CLOCK_REALTIME) + 1000000;
			seen++;
		} while ((rc = ibv_next_poll(r->ex)) == 0);
		ibv_end_poll(r->ex);
	}
	CHECK(seen == 3 && sends == 3 && rc == ENOENT, "the cursor sees every completion, then none");
	CHECK(fields, "with its fields");
	CHECK(times, "and when it came, by both clocks");
	post_recv(r, 0);
	post_recv(r, 1);
	post_send(r, r->ah, 0x41, 0);
	post_send(r, r->ah, 0x42, 0);
	wait_ms(100);
	while (start(r)) {                      /* one of them, and the others by the plain interface */
		bool recv = ibv_wc_read_opcode(r->ex) == IBV_WC_RECV;

		ibv_end_poll(r->ex);
		if (recv)
			break;
	}
	CHECK(poll_for(r, IBV_WC_RECV, &wc) && wc.imm_data == htonl(0x42),
	      "ibv_poll_cq goes on where the cursor stood");
	post_recv(r, 2);
	post_recv(r, 3);
	post_send(r, r->ah, 0x51, 0);
	post_send(r, r->ah, 0x52, 0);
	wait_ms(100);
	CHECK(start(r), "a cursor stands");
	ibv_end_poll(r->ex);
	CHECK(ibv_destroy_qp(r->qp) == 0 && ibv_poll_cq(r->cq, 1, &wc) == 0,
	      "a queue pair takes its completions along");
	another_qp(r);
	rig_free(r, "all of it goes");
}

/* ---- Channels ---- */

struct waiter { struct ibv_cq *cq; atomic_bool done; pthread_t thread; };

static void *destroy(void *arg)
{
	struct waiter *w = arg;

	ibv_destroy_cq(w->cq);
	atomic_store(&w->done, true);
	return NULL;
}

static void test_channel(void)
{
	struct rig *r = rig_new(false, false);
	struct pollfd p = { .fd = r->ch->fd, .events = POLLIN };
	struct waiter w = { 0 };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *ctx;

	for (int i = 0; i < 4; i++)
		post_recv(r, i);
	CHECK(!(fcntl(r->ch->fd, F_GETFL) & O_NONBLOCK), "a channel blocks at first");
	fcntl(r->ch->fd, F_SETFL, fcntl(r->ch->fd, F_GETFL) | O_NONBLOCK);
	errno = 0;
	CHECK(ibv_get_cq_event(r->ch, &cq, &ctx) == -1 && errno == EAGAIN, "not any more: EAGAIN");
	CHECK(ibv_req_notify_cq(r->cq, 1) == 0, "armed for what is solicited");
	post_send(r, r->ah, 1, 0);
	CHECK(poll_for(r, IBV_WC_RECV, &wc) && poll(&p, 1, 50) == 0, "what is not says nothing");
	post_send(r, r->ah, 2, IBV_SEND_SOLICITED);
	CHECK(poll(&p, 1, 30000) == 1 && ibv_get_cq_event(r->ch, &cq, &ctx) == 0 && cq == r->cq && ctx == r,
	      "what is does, and poll(2) hears it");
	CHECK(ibv_get_cq_event(r->ch, &cq, &ctx) == -1 && errno == EAGAIN, "once");
	CHECK(poll_for(r, IBV_WC_RECV, &wc), "it is there");
	ibv_ack_cq_events(r->cq, 1);

	fcntl(r->ch->fd, F_SETFL, fcntl(r->ch->fd, F_GETFL) & ~O_NONBLOCK);
	ibv_req_notify_cq(r->cq, 0);
	post_send(r, r->ah, 3, 0);
	CHECK(ibv_get_cq_event(r->ch, &cq, &ctx) == 0 && cq == r->cq, "a blocking call gets it too");
	ibv_destroy_qp(r->qp);
	w.cq = r->cq;
	pthread_create(&w.thread, NULL, destroy, &w);
	wait_ms(100);
	CHECK(!atomic_load(&w.done), "a completion queue is not destroyed before its event is acknowledged");
	ibv_ack_cq_events(r->cq, 1);
	pthread_join(w.thread, NULL);
	CHECK(atomic_load(&w.done) && r->ch->refcnt == 0, "then it is");
	CHECK(ibv_destroy_ah(r->ah) == 0 && ibv_destroy_comp_channel(r->ch) == 0 && ibv_dereg_mr(r->mr) == 0 &&
	      ibv_dealloc_pd(r->pd) == 0 && ibv_close_device(r->c) == 0, "and all the rest");
	free(r);
}

/* ---- Asynchronous events ---- */

static void *ack_late(void *arg)
{
	wait_ms(100);
	ibv_ack_async_event(arg);
	return NULL;
}

static void test_async(void)
{
	struct rig *r = rig_new(false, true);
	struct pollfd p = { .fd = r->c->async_fd, .events = POLLIN };
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_async_event ev;
	struct ibv_wc wc;
	pthread_t thread;
	int64_t before;

	for (int i = 0; i < 3; i++)
		post_recv(r, i);
	CHECK(poll(&p, 1, 0) == 0, "no asynchronous event at first");
	fcntl(r->c->async_fd, F_SETFL, fcntl(r->c->async_fd, F_GETFL) | O_NONBLOCK);
	errno = 0;
	CHECK(ibv_get_async_event(r->c, &ev) == -1 && errno == EAGAIN, "and the call does not wait: EAGAIN");
	CHECK(ibv_modify_srq(r->srq, &limit, IBV_SRQ_LIMIT) == 0, "a limit");
	post_send(r, r->ah, 1, 0);
	post_send(r, r->ah, 2, 0);
	CHECK(poll_for(r, IBV_WC_RECV, &wc) && poll_for(r, IBV_WC_RECV, &wc), "messages use the receives up");
	CHECK(poll(&p, 1, 30000) == 1, "the descriptor says that there is an event");
	fcntl(r->c->async_fd, F_SETFL, fcntl(r->c->async_fd, F_GETFL) & ~O_NONBLOCK);
	CHECK(ibv_get_async_event(r->c, &ev) == 0 && ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
	      ev.element.srq == r->srq, "the limit is reached");
	CHECK(poll(&p, 1, 0) == 0, "once");
	ibv_destroy_qp(r->qp);
	before = now_ns(CLOCK_MONOTONIC);
	pthread_create(&thread, NULL, ack_late, &ev);
	CHECK(ibv_destroy_srq(r->srq) == 0 && now_ns(CLOCK_MONOTONIC) - before > 50000000,
	      "a shared receive queue is not destroyed before its event is acknowledged");
	pthread_join(thread, NULL);
	CHECK(ibv_destroy_ah(r->ah) == 0 && ibv_destroy_cq(r->cq) == 0 && ibv_destroy_comp_channel(r->ch) == 0 &&
	      ibv_dereg_mr(r->mr) == 0 && ibv_dealloc_pd(r->pd) == 0 && ibv_close_device(r->c) == 0, "all of it goes");
	free(r);
}

/* What a datagram queue pair hears of an unreachable peer is no event of verbs. A descriptor that is readable would
 * promise one to a program that then waits in ibv_get_async_event(). */
static void test_unreachable(void)
{
	struct rig *r = rig_new(false, false);
	struct pollfd p = { .fd = r->c->async_fd, .events = POLLIN };
	struct ibv_sge sge = { (uintptr_t)r->out, 100, r->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED, .wr.ud = { r->ah, 9, QKEY } }, *bad;
	struct ibv_async_event ev;
	struct ibv_wc wc = { 0 };
	bool sent = true;

	for (int i = 0; i < 3; i++) {           /* port 9 of lo: nobody is there */
		sent &= ibv_post_send(r->qp, &wr, &bad) == 0 && poll_for(r, IBV_WC_SEND, &wc);
		wait_ms(20);
	}
	CHECK(sent, "messages to nobody");
	CHECK(poll(&p, 1, 100) == 0, "... are no event: the descriptor is not readable");
	fcntl(r->c->async_fd, F_SETFL, fcntl(r->c->async_fd, F_GETFL) | O_NONBLOCK);
	CHECK(ibv_get_async_event(r->c, &ev) == -1 && errno == EAGAIN, "... and there is none");
	rig_free(r, "all of it goes");
}

static void test_drained(void)
{
	struct rig *r = rig_new(false, false);
	struct pollfd p = { .fd = r->c->async_fd, .events = POLLIN };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event ev;

	CHECK(ibv_modify_qp(r->qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0, "a send queue that drains");
	CHECK(poll(&p, 1, 30000) == 1 && ibv_get_async_event(r->c, &ev) == 0 && ev.event_type == IBV_EVENT_SQ_DRAINED &&
	      ev.element.qp == r->qp, "says so");
	ibv_ack_async_event(&ev);
	a.qp_state = IBV_QPS_RTS;
	ibv_modify_qp(r->qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_SQD;
	CHECK(ibv_modify_qp(r->qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0 && poll(&p, 1, 30000) == 1,
	      "again");
	ibv_destroy_qp(r->qp);
	CHECK(poll(&p, 1, 0) == 0, "the event of a queue pair that is gone is gone");
	another_qp(r);
	rig_free(r, "all of it goes");
}

/* ---- RC: faults of a peer ---- */

static int connect_to(struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num,
				  .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				  .ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 } };
	ibv_query_gid(qp->context, 1, 0, &a.ah_attr.grh.dgid);
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int start_sending(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				 .max_rd_atomic = 1 };

	return ibv_modify_qp(qp, &a,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC);
}

static bool event_for(struct ibv_context *c, struct ibv_qp *qp, enum ibv_event_type type)
{
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };
	struct ibv_async_event ev;
	bool found;

	if (poll(&p, 1, 30000) != 1 || ibv_get_async_event(c, &ev))
		return false;
	found = ev.event_type == type && ev.element.qp == qp;
	if (!found)
		printf("another event: %s\n", ibv_event_type_str(ev.event_type));
	ibv_ack_async_event(&ev);
	return found;
}

static void test_access(void)
{
	struct rig *r = rig_new(false, true);
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .send_cq = r->cq, .recv_cq = r->cq,
				      .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp *to, *from;
	struct ibv_sge sge = { (uintptr_t)r->out, 64, r->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)r->in, r->mr->rkey } }, *bad;
	struct ibv_wc wc = { 0 };
	struct ibv_qp_attr attr;

	from = ibv_create_qp(r->pd, &a);
	a.srq = r->srq;
	to = ibv_create_qp(r->pd, &a);
	if (!from || !to || connect_to(from, to) || connect_to(to, from) || start_sending(from) || start_sending(to))
		die("RC queue pairs");
	/* The region does not allow it. */
	if (ibv_post_send(from, &wr, &bad))
		die("post read");
	CHECK(poll_for(r, IBV_WC_RDMA_READ, &wc) && wc.status == IBV_WC_REM_ACCESS_ERR && wc.wr_id == 9,
	      "a read that is not allowed fails");
	CHECK(event_for(r->c, to, IBV_EVENT_QP_ACCESS_ERR), "its target hears of an access error");
	CHECK(ibv_query_qp(to, &attr, IBV_QP_STATE, &a) == 0 && attr.qp_state == IBV_QPS_ERR, "and is in ERR");
	CHECK(event_for(r->c, to, IBV_EVENT_QP_LAST_WQE_REACHED), "and that it takes no shared receive any more");
	CHECK(ibv_destroy_qp(from) == 0 && ibv_destroy_qp(to) == 0, "both go");
	rig_free(r, "and all the rest");
}

int main(void)
{
	alarm(600);
	test_wc();
	test_wc_ex();
	test_channel();
	test_async();
	test_unreachable();
	test_drained();
	test_access();
	return failed;
}
