/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs and completion queues that change after they were made. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"

#define HALF (KIT_SIZE / 2)

static struct kit k;
static struct end a, b;

static void open_all(void)
{
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open(&a, &k, NULL, 16);
	end_open(&b, &k, NULL, 16);
}

static void close_all(void)
{
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}

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
	while (end_counter(&b, "rx_dead") < 1)  /* or the test's time is over */
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
	struct diw_qp_attr attr;
	struct end c, d;

	end_attr(&attr);
	attr.type = DIW_QP_UC;
	end_open(&c, &k, &attr, 16);
	end_open(&d, &k, &attr, 16);
	ck_assert_int_eq(end_recv(&d, HALF, 10, 1), 0);
	ck_assert_int_eq(diw_qp_set_peer(a.qp, &d.addr), -EINVAL);
	ck_assert_int_eq(diw_qp_set_peer(c.qp, &d.addr), 0);
	ck_assert_int_eq(end_send(&c, &d, 0, 10, 0), 0);
	ck_assert_int_eq(none(d.rcq), 0);
	ck_assert_uint_eq(end_counter(&d, "rx_peer"), 1);
	ck_assert_int_eq(diw_qp_set_peer(d.qp, &c.addr), 0);
	ck_assert_int_eq(end_send(&c, &d, 0, 10, 0), 0);
	ck_assert_int_eq(rc_wc(d.rcq).status, DIW_WC_SUCCESS);
	end_close(&c);
	end_close(&d);
}
END_TEST

/* The header in front, whatever the entries of the receive are: in one, in two, a part of the second in front. */
START_TEST(grh)
{
	static const uint32_t first[] = { 140, 40, 30, 1 };
	struct diw_qp_attr attr;
	struct end g;

	end_attr(&attr);
	attr.grh = true;
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
		memcpy(got, to, first[i]);
		memcpy(got + first[i], to + 1000, 140 - first[i]);
		ck_assert_mem_eq(got + 40, k.mem, 100);
		ck_assert_uint_eq(got[20], 0x45);
		ck_assert_mem_eq(got + 32, a.addr.ip + 12, 4);
		ck_assert_mem_eq(got + 36, g.addr.ip + 12, 4);
	}
	/* Too small for the message behind the header; it waits for one that it fits. */
	ck_assert_int_eq(end_recv(&g, HALF, 139, 9), 0);
	ck_assert_int_eq(end_send(&a, &g, 0, 100, 0), 0);
	ck_assert_int_eq(none(g.rcq), 0);
	ck_assert_int_eq(end_send(&a, &g, 0, 99, 0), 0);
	ck_assert_uint_eq(rc_wc(g.rcq).byte_len, 139);
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
	for (uint32_t i = 0; i < 40; i++) {     /* the progress thread may be at the last ones */
		wc[i] = rc_wc(a.scq);
		ck_assert_uint_eq(wc[i].wr_id, i);
	}
	ck_assert_uint_ge(wc[39].time_ns, wc[0].time_ns);
	ck_assert_int_eq(diw_cq_resize(a.scq, 4), 0);
}
END_TEST

/* An RC queue pair whose connection has ended connects anew. */
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
	tcase_add_test(t, grh);
	tcase_add_test(t, resize);
	tcase_add_test(rc, rc_again);
	suite_add_tcase(s, t);
	suite_add_tcase(s, rc);
	return s;
}
