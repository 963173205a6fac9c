/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of queue pairs and completion queues after their creation. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"

#define HALF (KIT_SIZE / 2)

static struct kit k;
static struct end a, b;

static void open_all(void) { kit_open_ends(&k, &a, &b); }
static void close_all(void) { kit_close_ends(&k, &a, &b); }

static int none(struct diw_cq *cq)
{
	struct diw_wc wc;

	return diw_cq_wait(cq, &wc, 1, 30 * (int64_t)DIW_MS);
}

START_TEST(reset)
{
	struct diw_qp_info info;

	ck_assert_int_eq(end_recv(&b, HALF, 10, 1), 0);
	ck_assert_int_eq(diw_qp_reset(b.qp), 0);
	ck_assert_int_eq(diw_qp_query(b.qp, &info), 0);
	ck_assert_uint_eq(info.rq_posted, 0);
	ck_assert_uint_eq(info.local.port, b.addr.port);
	ck_assert_int_eq(end_send(&a, &b, 0, 10, 0), 0);
	ck_assert_int_eq(none(b.rcq), 0);
	ck_assert_int_eq(end_recv(&b, HALF, 10, 2), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 10, 0), 0);
	ck_assert_uint_eq(rc_wc(b.rcq).wr_id, 2);
}
END_TEST

START_TEST(ended)
{
	struct diw_wc wc;

	ck_assert_int_eq(end_recv(&b, HALF, 10, 1), 0);
	ck_assert_int_eq(diw_abort(b.qp), 0);
	wc = rc_wc(b.rcq);
	ck_assert_int_eq(wc.status, DIW_WC_FLUSHED);
	ck_assert_uint_eq(wc.wr_id, 1);
	ck_assert_int_eq(rc_state(&b), DIW_QPS_ERROR);
	ck_assert_int_eq(end_send(&a, &b, 0, 10, 0), 0);
	ck_assert_int_eq(end_send(&b, &a, 0, 10, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(rc_wc(b.scq).status, DIW_WC_FLUSHED);
	ck_assert_int_eq(end_recv(&b, HALF, 10, 2), 0);
	ck_assert_int_eq(rc_wc(b.rcq).status, DIW_WC_FLUSHED);
	while (end_counter(&b, "rx_dead") < 1)  /* or the time limit of the test */
		sleep_ms(1);
	ck_assert_int_eq(diw_qp_reset(b.qp), 0);
	ck_assert_int_eq(end_recv(&b, HALF, 10, 3), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 10, 0), 0);
	ck_assert_int_eq(rc_wc(b.rcq).status, DIW_WC_SUCCESS);
}
END_TEST

START_TEST(qkey)
{
	ck_assert_int_eq(diw_qp_set_qkey(b.qp, 7), 0);
	ck_assert_int_eq(end_recv(&b, HALF, 10, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 10, 0), 0);
	ck_assert_int_eq(none(b.rcq), 0);
	ck_assert_uint_eq(end_counter(&b, "rx_qkey"), 1);
	ck_assert_int_eq(diw_qp_set_qkey(b.qp, 0), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 10, 0), 0);
	ck_assert_int_eq(rc_wc(b.rcq).status, DIW_WC_SUCCESS);
}
END_TEST

START_TEST(late_peer)
{
	struct diw_sge sge = { k.mem, 10, k.mr->stag };
	struct diw_send_wr write = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE, .flags = DIW_SEND_IMM,
				     .stag = k.mr->stag, .to = (uintptr_t)k.mem + HALF };
	struct diw_qp_attr attr;
	struct end c, d;

	end_attr(&attr);
	attr.type = DIW_QP_UC;
	end_open(&c, &k, &attr, 16);
	end_open(&d, &k, &attr, 16);
	ck_assert_int_eq(end_recv(&d, HALF, 10, 1), 0);
	ck_assert_int_eq(diw_qp_set_peer(a.qp, &(struct diw_dest){ .addr = d.addr }, NULL), -EINVAL);
	ck_assert_int_eq(diw_qp_set_peer(c.qp, &(struct diw_dest){ .addr = d.addr }, NULL), 0);
	ck_assert_int_eq(end_send(&c, &d, 0, 10, 0), 0);
	ck_assert_int_eq(none(d.rcq), 0);
	ck_assert_uint_eq(end_counter(&d, "rx_peer"), 1);
	ck_assert_int_eq(diw_qp_set_peer(d.qp, &(struct diw_dest){ .addr = c.addr }, NULL), 0);
	ck_assert_int_eq(end_send(&c, &d, 0, 10, 0), 0);
	ck_assert_int_eq(rc_wc(d.rcq).status, DIW_WC_SUCCESS);
	ck_assert_int_eq(end_recv(&d, 0, 0, 2), 0);
	ck_assert_int_eq(diw_post_send(c.qp, &write, NULL), 0);
	ck_assert_uint_eq(rc_wc(d.rcq).opcode, DIW_WC_RECV_WRITE_IMM);
	end_close(&c);
	end_close(&d);
}
END_TEST

/* With DIWARP_LOOPBACK=memory UD takes shared memory after a while. UC takes the wire, also when its peer is set after
 * its creation: the messages of two ways would overtake each other. */
START_TEST(late_peer_memory)
{
	struct diw_qp_attr attr;
	struct kit near, far;
	struct end c, d;

	setenv("DIWARP_LOOPBACK", "memory", 1);
	kit_open(&near, DIW_PROGRESS_THREAD);
	kit_open(&far, DIW_PROGRESS_THREAD);
	end_attr(&attr);
	attr.type = _i ? DIW_QP_UC : DIW_QP_UD;
	end_open(&c, &near, &attr, 16);
	end_open(&d, &far, &attr, 16);
	if (_i) {
		ck_assert_int_eq(diw_qp_set_peer(c.qp, &(struct diw_dest){ .addr = d.addr }, NULL), 0);
		ck_assert_int_eq(diw_qp_set_peer(d.qp, &(struct diw_dest){ .addr = c.addr }, NULL), 0);
	}
	for (int i = 0; i < 5000 && end_counter(&c, "shm_tx_datagrams") == 0; i++) {
		ck_assert_int_eq(end_recv(&d, HALF, 100, 1), 0);
		ck_assert_int_eq(end_send(&c, &d, 0, 100, 0), 0);
		ck_assert_int_eq(rc_wc(d.rcq).status, DIW_WC_SUCCESS);
	}
	ck_assert_int_eq(end_counter(&c, "shm_tx_datagrams") > 0, _i == 0);
	end_close(&c);
	end_close(&d);
	kit_close(&near);
	kit_close(&far);
}
END_TEST

static int write_to(const struct diw_mr *mr, uint64_t to, uint64_t wr_id)
{
	struct diw_sge sge = { k.mem, 100, k.mr->stag };
	struct diw_send_wr wr = { .wr_id = wr_id, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE_RECORD,
				  .qkey = 0, .dst.addr = b.addr, .stag = mr->stag, .to = to };

	memset(k.mem, (int)wr_id, 100);
	return diw_post_send(a.qp, &wr, NULL);
}

/* A peer that knows the STag gets the region as it is, and none of its earlier memory. */
START_TEST(rereg)
{
	const unsigned rights = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE;
	uint8_t *was = k.mem + HALF, *is = k.mem + HALF + 4096;
	struct diw_mr_attr attr = { .addr = is, .length = 200, .access = rights, .use_iova = true, .iova = 5000 };
	struct diw_pd *other;
	struct diw_mr *mr;
	uint32_t stag;

	ck_assert_int_eq(diw_mr_reg(k.pd, was, 100, rights, &mr), 0);
	stag = mr->stag;
	ck_assert_int_eq(write_to(mr, mr->to, 1), 0);
	ck_assert_uint_eq(rc_wc(b.rcq).opcode, DIW_WC_RECV_WRITE_RECORD);
	ck_assert_uint_eq(was[99], 1);
	ck_assert_int_eq(diw_mr_rereg(mr, k.pd, &attr), 0);
	ck_assert_uint_eq(mr->stag, stag);
	ck_assert_uint_eq(mr->to, 5000);
	ck_assert_int_eq(write_to(mr, (uintptr_t)was, 2), 0);
	ck_assert_int_eq(none(b.rcq), 0);
	ck_assert_uint_eq(was[99], 1);
	ck_assert_int_eq(write_to(mr, 5100, 3), 0);
	ck_assert_uint_eq(rc_wc(b.rcq).opcode, DIW_WC_RECV_WRITE_RECORD);
	ck_assert_uint_eq(is[199], 3);
	/* After a refusal it is unchanged. */
	attr.access = DIW_ACCESS_REMOTE_WRITE;
	ck_assert_int_eq(diw_mr_rereg(mr, k.pd, &attr), -EINVAL);
	ck_assert_int_eq(write_to(mr, 5100, 4), 0);
	ck_assert_uint_eq(rc_wc(b.rcq).opcode, DIW_WC_RECV_WRITE_RECORD);
	/* In another domain than the queue pair's. */
	ck_assert_int_eq(diw_pd_alloc(k.dev, &other), 0);
	attr.access = rights;
	ck_assert_int_eq(diw_mr_rereg(mr, other, &attr), 0);
	ck_assert_int_eq(diw_pd_free(other), -EBUSY);
	ck_assert_int_eq(write_to(mr, 5100, 5), 0);
	ck_assert_int_eq(none(b.rcq), 0);
	ck_assert_uint_eq(is[199], 4);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	ck_assert_int_eq(diw_pd_free(other), 0);
}
END_TEST

/* The header in front of the message, with any entries of the receive: in one entry, in two, and with part of the
 * second in front. */
START_TEST(grh)
{
	static const uint32_t first[] = { 140, 40, 30, 1 };
	struct diw_qp_attr attr;
	struct end g;

	end_attr(&attr);
	attr.dgram.grh = true;
	end_open(&g, &k, &attr, 16);
	memset(k.mem, 0x5a, 100);
	for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
		uint8_t *to = k.mem + HALF, got[140];
		struct diw_sge sge[2] = { { to, first[i], k.mr->stag }, { to + 1000, 140 - first[i], k.mr->stag } };
		struct diw_recv_wr wr = { .wr_id = i, .sge = sge, .num_sge = 2 };
		struct diw_wc wc;

		ck_assert_int_eq(diw_post_recv(g.qp, &wr, NULL), 0);
		ck_assert_int_eq(end_send(&a, &g, 0, 100, 0), 0);
		wc = rc_wc(g.rcq);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		ck_assert_uint_eq(wc.byte_len, 140);
		ck_assert_uint_eq(wc.flags, DIW_WC_END | DIW_WC_GRH);
		memcpy(got, to, first[i]);
		memcpy(got + first[i], to + 1000, 140 - first[i]);
		ck_assert_mem_eq(got + 40, k.mem, 100);
		ck_assert_uint_eq(got[20], 0x45);
		ck_assert_mem_eq(got + 32, a.addr.ip + 12, 4);
		ck_assert_mem_eq(got + 36, g.addr.ip + 12, 4);
	}
	/* Too small for the message behind the header; the message waits for a receive that it fits. */
	ck_assert_int_eq(end_recv(&g, HALF, 139, 9), 0);
	ck_assert_int_eq(end_send(&a, &g, 0, 100, 0), 0);
	ck_assert_int_eq(none(g.rcq), 0);
	ck_assert_int_eq(end_send(&a, &g, 0, 99, 0), 0);
	ck_assert_uint_eq(rc_wc(g.rcq).byte_len, 139);
	end_close(&g);
}
END_TEST

/* A receive that has room for the header alone, in as many entries as the queue pair allows. Behind the entries of the
 * only receive no memory belongs to the queue: a sanitizer reports an access to it. */
START_TEST(grh_alone)
{
	struct diw_sge sge[2] = { { k.mem + HALF, 20, k.mr->stag }, { k.mem + HALF + 1000, 20, k.mr->stag } };
	struct diw_recv_wr wr = { .wr_id = 7, .sge = sge, .num_sge = 2 };
	struct diw_qp_attr attr;
	struct diw_wc wc;
	struct end g;

	end_attr(&attr);
	attr.dgram.grh = true;
	attr.rq_depth = 1;
	attr.max_sge = 2;
	end_open(&g, &k, &attr, 16);
	for (int i = 0; i < 3; i++) {
		memset(k.mem + HALF, 0, 2000);
		ck_assert_int_eq(diw_post_recv(g.qp, &wr, NULL), 0);
		ck_assert_int_eq(end_send(&a, &g, 0, 0, 0), 0);
		wc = rc_wc(g.rcq);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, 7);
		ck_assert_uint_eq(wc.byte_len, 40);
		ck_assert_mem_eq(k.mem + HALF + 1000 + 12, a.addr.ip + 12, 4);
	}
	end_close(&g);
}
END_TEST

START_TEST(resize)
{
	struct diw_wc wc[40];

	for (uint32_t i = 0; i < 16; i++)
		ck_assert_int_eq(end_send(&a, &b, i, 10, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(diw_cq_resize(a.scq, 8), -EINVAL);
	ck_assert_int_eq(diw_cq_resize(a.scq, 0), -EINVAL);
	ck_assert_int_eq(diw_cq_resize(a.scq, 64), 0);
	ck_assert_uint_eq(diw_cq_depth(a.scq), 64);
	for (uint32_t i = 16; i < 40; i++)
		ck_assert_int_eq(end_send(&a, &b, i, 10, DIW_SEND_SIGNALED), 0);
	for (uint32_t i = 0; i < 40; i++) {     /* the progress thread may be processing the last ones */
		wc[i] = rc_wc(a.scq);
		ck_assert_uint_eq(wc[i].wr_id, i);
	}
	ck_assert_uint_ge(wc[39].time_ns, wc[0].time_ns);
	ck_assert_int_eq(diw_cq_resize(a.scq, 4), 0);
}
END_TEST

/* An RC queue pair whose connection has ended connects again. */
START_TEST(rc_again)
{
	struct diw_listener_info info;
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };
	struct diw_cm_event ev;
	static struct pair p;

	pair_open(&p, NULL, NULL);
	ck_assert_int_eq(diw_abort(p.a.qp), 0);
	cm_event(&p, DIW_CM_DISCONNECTED);
	cm_event(&p, DIW_CM_DISCONNECTED);
	ck_assert_int_eq(diw_qp_reset(p.a.qp), 0);
	ck_assert_int_eq(diw_qp_reset(p.b.qp), 0);
	ck_assert_int_eq(rc_state(&p.a), DIW_QPS_IDLE);
	ck_assert_int_eq(diw_listener_query(p.listener, &info), 0);
	ck_assert_int_eq(diw_connect(p.a.qp, p.cm, &info.local, NULL), 0);
	ck_assert_int_eq(diw_qp_reset(p.a.qp), -EBUSY);
	ev = cm_event(&p, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(ev.req, p.b.qp, NULL), 0);
	cm_event(&p, DIW_CM_ESTABLISHED);
	cm_event(&p, DIW_CM_ESTABLISHED);
	rc_recv(&p, &p.b, HALF, 10, 5);
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 10), 0);
	ck_assert_uint_eq(rc_wc(p.b.rcq).wr_id, 5);
	pair_close(&p);
}
END_TEST

/* Requests that have not begun wait. */
START_TEST(hold)
{
	ck_assert_int_eq(end_recv(&b, HALF, 10, 1), 0);
	ck_assert_int_eq(diw_qp_hold(a.qp, true), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 10, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(none(a.scq), 0);
	ck_assert_int_eq(none(b.rcq), 0);
	ck_assert_int_eq(diw_qp_hold(a.qp, false), 0);
	ck_assert_uint_eq(rc_wc(b.rcq).wr_id, 1);
	ck_assert_uint_eq(rc_wc(a.scq).status, DIW_WC_SUCCESS);
}
END_TEST

START_TEST(all_or_nothing)
{
	struct diw_sge sge = { k.mem, 10, k.mr->stag };
	struct diw_send_wr wr[2] = {
		{ .next = &wr[1], .sge = &sge, .num_sge = 1, .flags = DIW_SEND_SIGNALED, .dst.addr = b.addr },
		{ .sge = &sge, .num_sge = 99, .flags = DIW_SEND_SIGNALED, .dst.addr = b.addr },
	};

	ck_assert_int_eq(diw_post_send_all(a.qp, wr), -EINVAL);
	ck_assert_int_eq(none(a.scq), 0);
	ck_assert_int_eq(diw_post_send(a.qp, wr, NULL), -EINVAL);
	ck_assert_uint_eq(rc_wc(a.scq).status, DIW_WC_SUCCESS);
	ck_assert_int_eq(none(a.scq), 0);
	wr[1].num_sge = 1;
	ck_assert_int_eq(diw_post_send_all(a.qp, wr), 0);
	rc_wc(a.scq);
	rc_wc(a.scq);
}
END_TEST

/* Completions of two queue pairs are in one queue; those of one are dropped. */
START_TEST(forgotten)
{
	struct diw_qp_attr attr;
	struct diw_wc wc[8];
	struct end c;

	end_attr(&attr);
	attr.send_cq = a.scq;
	end_open(&c, &k, &attr, 16);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(end_send(&a, &b, i, 10, DIW_SEND_SIGNALED), 0);
		ck_assert_int_eq(end_send(&c, &b, i, 10, DIW_SEND_SIGNALED), 0);
	}
	end_sent(&a);
	end_sent(&c);
	ck_assert_int_eq(diw_cq_forget(a.scq, c.qp), 0);
	ck_assert_int_eq(diw_cq_poll(a.scq, wc, 8, 0), 3);
	for (int i = 0; i < 3; i++)
		ck_assert(wc[i].qp == a.qp);
	ck_assert_int_eq(diw_qp_destroy(c.qp), 0);
	ck_assert_int_eq(diw_cq_destroy(c.rcq), 0);
}
END_TEST

/* Requests that wait for room are executed by the call that makes it: the program may sleep behind it. */
START_TEST(room_made)
{
	struct pollfd ready = { .events = POLLIN };
	struct diw_channel *ch;
	struct diw_qp_attr attr;
	struct diw_cq *cq, *which;
	struct end c, d;

	ck_assert_int_eq(diw_channel_create(k.dev, &ch), 0);
	ck_assert_int_eq(diw_cq_create(k.dev, 1, ch, NULL, &cq), 0);
	ready.fd = diw_channel_fd(ch);
	end_attr(&attr);
	attr.send_cq = cq;
	end_open(&c, &k, &attr, 16);
	end_open(&d, &k, &attr, 16);
	ck_assert_int_eq(diw_cq_arm_later(cq, false), 0);
	ck_assert_int_eq(end_send(&c, &b, 0, 10, DIW_SEND_SIGNALED), 0);
	end_sent(&c);
	ck_assert_int_eq(diw_channel_get(ch, &which, 0), 0);
	ck_assert_int_eq(end_send(&d, &b, 1, 10, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(diw_cq_arm_later(cq, false), 0);
	ck_assert_int_eq(poll(&ready, 1, 0), 0);
	ck_assert_int_eq(_i ? diw_cq_forget(cq, c.qp) : diw_cq_resize(cq, 2), 0);
	ck_assert_int_eq(poll(&ready, 1, 0), 1);
	end_close(&c);
	end_close(&d);
	ck_assert_int_eq(diw_cq_destroy(cq), 0);
	ck_assert_int_eq(diw_channel_destroy(ch), 0);
}
END_TEST

START_TEST(srq_told)
{
	struct diw_recv_wr wr = { .wr_id = 1 };
	struct diw_srq_info info;
	struct diw_srq *srq;

	ck_assert_int_eq(diw_srq_create(k.pd, 4, 1, NULL, &srq), 0);
	ck_assert_int_eq(diw_srq_set_limit(srq, 3), 0);
	ck_assert_int_eq(diw_post_srq_recv(srq, &wr, NULL), 0);
	ck_assert_int_eq(diw_srq_query(srq, &info), 0);
	ck_assert_uint_eq(info.posted, 1);
	ck_assert_uint_eq(info.limit, 3);
	ck_assert_int_eq(diw_srq_destroy(srq), 0);
}
END_TEST

/* Executed requests arrive, the others are flushed. The peer's receives stay if it has asked for that, ours stay until
 * now. _i: the queue pair is destroyed at once. */
START_TEST(left)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND }, never = { .opcode = DIW_WR_SEND, .wr_id = 77 };
	struct diw_qp_attr attr;
	struct diw_qp_info info;
	static struct pair p;

	rc_attr(&attr);
	attr.rc.keep_recvs = true;
	pair_open(&p, &attr, NULL);
	for (int i = 0; i < 3; i++)
		rc_recv(&p, &p.b, HALF, 1 << 20, i);
	rc_recv(&p, &p.a, HALF, 10, 9);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 1 << 20), 0);
		ck_assert_uint_eq(rc_wc(p.a.scq).status, DIW_WC_SUCCESS);
	}
	ck_assert_int_eq(diw_qp_hold(p.a.qp, true), 0);
	ck_assert_int_eq(rc_post(&p, &p.a, &never, 0, 10), 0);
	ck_assert_int_eq(diw_leave(p.a.qp), 0);
	ck_assert_int_eq(rc_state(&p.a), DIW_QPS_ERROR);
	ck_assert_uint_eq(rc_wc(p.a.scq).status, DIW_WC_FLUSHED);
	ck_assert_uint_eq(rc_wc(p.a.rcq).status, DIW_WC_FLUSHED);
	while (diw_qp_query(p.a.qp, &info) == 0 && info.leaving)
		sleep_ms(1);
	if (_i)
		ck_assert_int_eq(diw_qp_reset(p.a.qp), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(rc_wc(p.b.rcq).status, DIW_WC_SUCCESS);
	KIT_UNTIL(rc_state(&p.b) == DIW_QPS_ERROR);
	ck_assert_int_eq(none(p.b.rcq), 0);
	ck_assert_int_eq(diw_leave(p.b.qp), 0);
	ck_assert_uint_eq(rc_wc(p.b.rcq).status, DIW_WC_FLUSHED);
	pair_close(&p);
}
END_TEST

/* Sets of events and faults that contain none that there is not. */
START_TEST(raises)
{
	static struct pair p;

	pair_open(&p, NULL, NULL);
	ck_assert_int_eq(diw_dev_set_events(p.k.dev, 2u << DIW_EVENT_SQ_DRAINED), -EINVAL);
	ck_assert_int_eq(diw_dev_set_events(p.k.dev, ~0u), -EINVAL);
	ck_assert_int_eq(diw_dev_set_events(p.k.dev, 1u << DIW_EVENT_SQ_DRAINED | 1u << DIW_EVENT_QP_ERROR), 0);
	ck_assert_int_eq(diw_dev_set_events(p.k.dev, 0), 0);
	ck_assert_int_eq(diw_qp_set_errors(p.a.qp, DIW_RAISE_TOLD << 1), -EINVAL);
	ck_assert_int_eq(diw_qp_set_errors(p.a.qp, DIW_RAISE_TOLD | DIW_RAISE_FOUND), 0);
	pair_close(&p);
}
END_TEST

/* The stream has ended, and requests are kept for as long as an adapter would retry. */
START_TEST(retries)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };
	const uint64_t retry = 200 * DIW_MS;
	struct diw_qp_attr attr;
	static struct pair p;
	uint64_t ended;

	rc_attr(&attr);
	attr.rc.keep_recvs = true;
	pair_open(&p, &attr, NULL);
	ck_assert_int_eq(diw_qp_set_retry(p.a.qp, -1), -EINVAL);
	ck_assert_int_eq(diw_qp_set_retry(p.a.qp, (int64_t)retry), 0);
	ended = diw_clock_ns();
	ck_assert_int_eq(diw_abort(p.b.qp), 0);
	KIT_UNTIL(rc_state(&p.a) == DIW_QPS_ERROR);
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 10), 0);
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 10), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(rc_wc(p.a.scq).status, DIW_WC_FLUSHED);
		ck_assert_uint_ge(diw_clock_ns() - ended, retry);
	}
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 10), 0);
	ck_assert_uint_eq(rc_wc(p.a.scq).status, DIW_WC_FLUSHED);
	pair_close(&p);
}
END_TEST

/* Requests are posted before the connection, one of them with an immediate. */
START_TEST(early)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .flags = DIW_SEND_IMM, .imm = 5 };
	struct diw_listener_info info;
	struct diw_qp_attr attr;
	struct diw_cm_event ev;
	static struct pair p;

	rc_attr(&attr);
	attr.rc.early = _i;
	pair_open(&p, &attr, NULL);
	diw_abort(p.a.qp);
	cm_event(&p, DIW_CM_DISCONNECTED);
	cm_event(&p, DIW_CM_DISCONNECTED);
	diw_qp_reset(p.a.qp);
	diw_qp_reset(p.b.qp);
	ck_assert_int_eq(rc_post(&p, &p.b, &wr, 0, 10), _i ? 0 : -ENOTCONN);
	if (_i) {
		rc_recv(&p, &p.a, HALF, 10, 3);
		diw_listener_query(p.listener, &info);
		ck_assert_int_eq(diw_connect(p.a.qp, p.cm, &info.local, NULL), 0);
		ev = cm_event(&p, DIW_CM_CONNECT_REQUEST);
		ck_assert_int_eq(diw_accept(ev.req, p.b.qp, NULL), 0);
		ck_assert_uint_eq(rc_wc(p.a.rcq).imm, 5);
		ck_assert_uint_eq(rc_wc(p.b.scq).status, DIW_WC_SUCCESS);
	}
	pair_close(&p);
}
END_TEST

Suite *suite_state(void)
{
	Suite *s = suite_create("state");
	TCase *t = tcase_create("state"), *rc = tcase_create("rc");

	tcase_add_checked_fixture(t, open_all, close_all);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, reset);
	tcase_add_test(t, ended);
	tcase_add_test(t, qkey);
	tcase_add_test(t, late_peer);
	tcase_add_loop_test(t, late_peer_memory, 0, 2);
	tcase_add_test(t, rereg);
	tcase_add_test(t, grh);
	tcase_add_test(t, grh_alone);
	tcase_add_test(t, resize);
	tcase_add_test(t, hold);
	tcase_add_test(t, all_or_nothing);
	tcase_add_test(t, forgotten);
	tcase_add_loop_test(t, room_made, 0, 2);
	tcase_add_test(t, srq_told);
	tcase_add_test(rc, rc_again);
	tcase_add_loop_test(rc, left, 0, 2);
	tcase_add_test(rc, raises);
	tcase_add_test(rc, retries);
	tcase_add_loop_test(rc, early, 0, 2);
	suite_add_tcase(s, t);
	suite_add_tcase(s, rc);
	return s;
}
