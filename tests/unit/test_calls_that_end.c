/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that end a queue pair or a listener, compared: the table of docs/concepts.md, one row a line. */
#include <check.h>
#include <errno.h>

#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"

#define NONE (-1)                    /* no completion, no event */
#define QUIET_NS (20 * (int64_t)DIW_MS)      /* nothing has come until now, so nothing will */
#define DONE 7u                      /* wr_id of a Send that is complete before the call */
#define WAITS 8u                     /* wr_id of the first of two that have not begun */
#define RECV 9u

static struct kit k;
static struct pair p;

/* The effect of the call on both ends. */
struct end_row {
	int (*call)(struct diw_qp *qp);
	bool runs_on;                /* it executes posted requests, so the test does not hold them */
	bool gone;                   /* the queue pair has been destroyed */
	int sends, recv;             /* statuses of posted requests */
	enum diw_qp_state state;     /* immediately after the call */
	enum diw_qp_state last;      /* finally */
	int own, peer;               /* errnum of DIW_CM_DISCONNECTED at this end and at the peer */
	int again;                   /* result of a second call */
};

static int withdraw_and_destroy(struct diw_qp *qp)
{
	int rc = diw_qp_withdraw(qp);

	return rc ? rc : diw_qp_destroy(qp);
}

static const struct end_row rc_rows[] = {
	{ diw_disconnect, .runs_on = true, .sends = DIW_WC_SUCCESS, .recv = DIW_WC_FLUSHED, .state = DIW_QPS_CLOSING,
	  .last = DIW_QPS_ERROR, .own = 0, .peer = 0, .again = -ENOTCONN },
	{ diw_leave, .sends = DIW_WC_FLUSHED, .recv = DIW_WC_FLUSHED, .state = DIW_QPS_ERROR, .last = DIW_QPS_ERROR,
	  .own = 0, .peer = 0 },
	{ diw_abort, .sends = DIW_WC_FLUSHED, .recv = DIW_WC_FLUSHED, .state = DIW_QPS_ERROR, .last = DIW_QPS_ERROR,
	  .own = ECONNABORTED, .peer = ECONNRESET },
	{ diw_qp_reset, .sends = NONE, .recv = NONE, .state = DIW_QPS_IDLE, .last = DIW_QPS_IDLE, .own = NONE,
	  .peer = ECONNRESET },
	{ diw_qp_withdraw, .sends = NONE, .recv = NONE, .state = DIW_QPS_ERROR, .last = DIW_QPS_ERROR, .own = 0,
	  .peer = 0 },
	{ diw_qp_destroy, .gone = true, .sends = NONE, .recv = NONE, .own = NONE, .peer = ECONNRESET },
};

static const struct end_row dgram_rows[] = {
	{ diw_abort, .sends = DIW_WC_FLUSHED, .recv = DIW_WC_FLUSHED, .state = DIW_QPS_ERROR },
	{ diw_qp_reset, .sends = NONE, .recv = NONE, .state = DIW_QPS_RTS },
	{ diw_qp_withdraw, .sends = NONE, .recv = NONE, .state = DIW_QPS_ERROR },
	{ withdraw_and_destroy, .gone = true, .sends = NONE, .recv = NONE },
	{ diw_qp_destroy, .gone = true, .sends = NONE, .recv = NONE },
};
static const enum diw_qp_type dgram_types[] = { DIW_QP_UD, DIW_QP_UC, DIW_QP_RD };
enum { RC_ROWS = sizeof rc_rows / sizeof *rc_rows, DGRAM_ROWS = sizeof dgram_rows / sizeof *dgram_rows,
       DGRAM_TYPES = sizeof dgram_types / sizeof *dgram_types };

static void expect_wc(struct diw_cq *cq, uint64_t wr_id, int status)
{
	struct diw_wc wc;

	if (status == NONE) {
		ck_assert_int_eq(diw_cq_wait(cq, &wc, 1, QUIET_NS), 0);
		return;
	}
	wc = rc_wc(cq);
	ck_assert_uint_eq(wc.wr_id, wr_id);
	ck_assert_int_eq(wc.status, status);
}

/* A signalled Send of 10 bytes. */
static int send_ten(struct end *from, const struct end *to, struct kit *of, uint64_t wr_id)
{
	struct diw_sge sge = { of->mem, 10, of->mr->stag };
	struct diw_send_wr wr = { .wr_id = wr_id, .sge = &sge, .num_sge = 1, .flags = DIW_SEND_SIGNALED,
				  .dst.addr = to->addr };

	return diw_post_send(from->qp, &wr, NULL);
}

/* One Send is complete, and its completion is not polled; two more and a receive are posted. */
static void make_busy(struct end *a, struct end *b, struct kit *of, bool hold)
{
	struct diw_qp_info info;

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(end_recv(b, 4096, 100, RECV), 0);
	ck_assert_int_eq(end_recv(a, 8192, 100, RECV), 0);
	ck_assert_int_eq(send_ten(a, b, of, DONE), 0);
	expect_wc(b->rcq, RECV, DIW_WC_SUCCESS);
	KIT_UNTIL(diw_qp_query(a->qp, &info) == 0 && info.sq_pending == 0 && !info.sq_busy);
	ck_assert_int_eq(diw_qp_hold(a->qp, hold), 0);
	ck_assert_int_eq(send_ten(a, b, of, WAITS), 0);
	ck_assert_int_eq(send_ten(a, b, of, WAITS + 1), 0);
}

static void expect_posted(struct end *a, const struct end_row *row)
{
	expect_wc(a->scq, DONE, DIW_WC_SUCCESS);        /* it was in the completion queue before the call */
	expect_wc(a->scq, WAITS, row->sends);
	expect_wc(a->scq, WAITS + 1, row->sends);
	expect_wc(a->rcq, RECV, row->recv);
}

/* ERRNUM of the event of one of the two queue pairs; EVENT may be the other's. */
static void expect_events(int own, int peer, const struct diw_qp *peer_qp)
{
	struct diw_cm_event ev;

	for (int n = (own != NONE) + (peer != NONE); n > 0; n--) {
		ev = cm_event(&p, DIW_CM_DISCONNECTED);
		ck_assert_int_eq(ev.errnum, ev.qp == peer_qp ? peer : own);
		ck_assert_int_ne(ev.qp == peer_qp ? peer : own, NONE);
	}
	ck_assert_int_eq(diw_cm_get(p.cm, &ev, QUIET_NS), -EAGAIN);
}

static void close_rest(struct end *e)
{
	ck_assert_int_eq(diw_cq_destroy(e->scq), 0);
	ck_assert_int_eq(diw_cq_destroy(e->rcq), 0);
}

START_TEST(rc_ends)
{
	const struct end_row *row = &rc_rows[_i];
	struct end c, d;

	pair_open(&p, NULL, NULL);
	make_busy(&p.a, &p.b, &p.k, !row->runs_on);
	ck_assert_int_eq(row->call(p.a.qp), 0);
	if (!row->gone && !row->runs_on)
		ck_assert_int_eq(rc_state(&p.a), row->state);
	expect_posted(&p.a, row);
	expect_wc(p.b.rcq, RECV, row->runs_on ? DIW_WC_SUCCESS : DIW_WC_FLUSHED);
	expect_events(row->own, row->peer, p.b.qp);
	ck_assert_int_eq(rc_state(&p.b), DIW_QPS_ERROR);
	if (row->gone) {
		close_rest(&p.a);
		end_open(&p.a, &p.k, NULL, 16);
	} else {
		ck_assert_int_eq(rc_state(&p.a), row->last);
		ck_assert_int_eq(row->call(p.a.qp), row->again);
		ck_assert_int_eq(diw_qp_reset(p.a.qp), 0);
		ck_assert_int_eq(rc_state(&p.a), DIW_QPS_IDLE);
	}
	pair_connect(&p, &c, &d, NULL, NULL);           /* the listener still works */
	end_close(&c);
	end_close(&d);
	pair_close(&p);
}
END_TEST

/* The call returns at once. Requests that were posted, and those posted after it, are executed later. */
START_TEST(disconnect_waits_for_nothing)
{
	struct diw_wc wc;

	pair_open(&p, NULL, NULL);
	ck_assert_int_eq(diw_qp_hold(p.a.qp, true), 0);
	ck_assert_int_eq(end_recv(&p.b, 4096, 100, RECV), 0);
	ck_assert_int_eq(send_ten(&p.a, &p.b, &p.k, WAITS), 0);
	ck_assert_int_eq(diw_disconnect(p.a.qp), 0);
	ck_assert_int_eq(rc_state(&p.a), DIW_QPS_CLOSING);
	ck_assert_int_eq(send_ten(&p.a, &p.b, &p.k, WAITS + 1), 0);
	ck_assert_int_eq(diw_cq_wait(p.a.scq, &wc, 1, QUIET_NS), 0);
	ck_assert_int_eq(end_recv(&p.b, 4096, 100, RECV), 0);
	ck_assert_int_eq(diw_qp_hold(p.a.qp, false), 0);
	expect_wc(p.a.scq, WAITS, DIW_WC_SUCCESS);
	expect_wc(p.a.scq, WAITS + 1, DIW_WC_SUCCESS);
	expect_wc(p.b.rcq, RECV, DIW_WC_SUCCESS);
	expect_wc(p.b.rcq, RECV, DIW_WC_SUCCESS);
	expect_events(0, 0, p.b.qp);
	pair_close(&p);
}
END_TEST

/* In state ERROR requests are taken, and complete flushed. */
START_TEST(posts_behind)
{
	static int (*const calls[])(struct diw_qp *qp) = { diw_leave, diw_abort };

	pair_open(&p, NULL, NULL);
	ck_assert_int_eq(calls[_i](p.a.qp), 0);
	ck_assert_int_eq(send_ten(&p.a, &p.b, &p.k, WAITS), 0);
	ck_assert_int_eq(end_recv(&p.a, 0, 10, RECV), 0);
	expect_wc(p.a.scq, WAITS, DIW_WC_FLUSHED);
	expect_wc(p.a.rcq, RECV, DIW_WC_FLUSHED);
	pair_close(&p);
}
END_TEST

/* diw_abort() and diw_qp_destroy() end an attempt to connect without an event. diw_qp_reset() refuses. */
START_TEST(attempts)
{
	struct diw_listener_info info;
	struct diw_qp_attr rc;
	struct diw_cm_event ev;
	struct end e;

	pair_open(&p, NULL, NULL);
	rc_attr(&rc);
	end_open(&e, &p.k, &rc, 16);
	ck_assert_int_eq(diw_listener_query(p.listener, &info), 0);
	ck_assert_int_eq(diw_connect(e.qp, p.cm, &info.local, NULL), 0);
	ev = cm_event(&p, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(rc_state(&e), DIW_QPS_CONNECTING);
	ck_assert_int_eq(diw_qp_reset(e.qp), -EBUSY);
	ck_assert_int_eq(diw_disconnect(e.qp), -ENOTCONN);
	if (_i)
		end_close(&e);
	else
		ck_assert_int_eq(diw_abort(e.qp), 0);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	ck_assert_int_eq(diw_cm_get(p.cm, &ev, QUIET_NS), -EAGAIN);
	if (!_i)
		end_close(&e);
	pair_close(&p);
}
END_TEST

/* For each row and type: the peer is not told, and the address can be used again after diw_qp_reset(). */
START_TEST(dgram_ends)
{
	const struct end_row *row = &dgram_rows[_i / DGRAM_TYPES];
	struct diw_qp_attr attr;
	struct end a, b;

	kit_open(&k, DIW_PROGRESS_THREAD);
	end_attr(&attr);
	attr.type = dgram_types[_i % DGRAM_TYPES];
	end_open(&a, &k, &attr, 64);
	end_open(&b, &k, &attr, 64);
	if (attr.type == DIW_QP_UC) {
		ck_assert_int_eq(diw_qp_set_peer(a.qp, &(struct diw_dest){ .addr = b.addr }, NULL), 0);
		ck_assert_int_eq(diw_qp_set_peer(b.qp, &(struct diw_dest){ .addr = a.addr }, NULL), 0);
	}
	make_busy(&a, &b, &k, true);
	ck_assert_int_eq(diw_leave(a.qp), -EINVAL);
	ck_assert_int_eq(diw_disconnect(a.qp), -EINVAL);
	ck_assert_int_eq(row->call(a.qp), 0);
	expect_posted(&a, row);
	expect_wc(b.rcq, 0, NONE);              /* its receives stay posted */
	ck_assert_int_eq(rc_state(&b), DIW_QPS_RTS);
	if (row->gone) {
		close_rest(&a);
	} else {
		ck_assert_int_eq(rc_state(&a), row->state);
		ck_assert_int_eq(diw_qp_reset(a.qp), 0);        /* with the same address it works again */
		ck_assert_int_eq(rc_state(&a), DIW_QPS_RTS);
		ck_assert_int_eq(send_ten(&a, &b, &k, DONE), 0);
		expect_wc(a.scq, DONE, DIW_WC_SUCCESS);
		expect_wc(b.rcq, RECV, DIW_WC_SUCCESS);
		end_close(&a);
	}
	end_close(&b);
	kit_close(&k);
}
END_TEST

/* A request that was fetched can be accepted after diw_listener_close(). A request that was not fetched is reset. */
START_TEST(listener_closes)
{
	struct diw_listener_info info;
	struct diw_qp_attr rc;
	struct diw_cm_event taken, ev;
	struct diw_cm *far;
	struct end e[2], answer;

	pair_open(&p, NULL, NULL);
	rc_attr(&rc);
	ck_assert_int_eq(diw_cm_create(p.k.dev, &far), 0);
	ck_assert_int_eq(diw_listener_query(p.listener, &info), 0);
	for (int i = 0; i < 2; i++) {
		end_open(&e[i], &p.k, &rc, 16);
		ck_assert_int_eq(diw_connect(e[i].qp, far, &info.local, NULL), 0);
		if (i == 0)
			taken = cm_event(&p, DIW_CM_CONNECT_REQUEST);
	}
	KIT_UNTIL(diw_listener_query(p.listener, &info) == 0 && info.waiting == 2);
	ck_assert_int_eq(diw_listener_close(p.listener), 0);
	ck_assert_int_eq(diw_cm_get(far, &ev, KIT_LIMIT), 0);
	ck_assert_int_eq(ev.type, DIW_CM_FAILED);
	ck_assert_int_eq(ev.errnum, ECONNRESET);
	ck_assert_ptr_eq(ev.qp, e[1].qp);
	ck_assert_int_eq(rc_state(&p.a), DIW_QPS_RTS);  /* established connections continue */
	ck_assert_int_eq(diw_cm_destroy(p.cm), -EBUSY);
	end_open(&answer, &p.k, &rc, 16);
	ck_assert_int_eq(diw_accept(taken.req, answer.qp, NULL), 0);
	ck_assert_int_eq(diw_cm_get(far, &ev, KIT_LIMIT), 0);
	ck_assert_int_eq(ev.type, DIW_CM_ESTABLISHED);
	end_close(&answer);
	end_close(&e[0]);
	end_close(&e[1]);
	ck_assert_int_eq(diw_cm_destroy(far), 0);
	ck_assert_int_eq(diw_listen(p.cm, NULL, &p.listener), 0);       /* pair_close() closes a listener */
	pair_close(&p);
}
END_TEST

Suite *suite_calls_that_end(void)
{
	Suite *s = suite_create("calls_that_end");
	TCase *t = tcase_create("calls_that_end");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, rc_ends, 0, RC_ROWS);
	tcase_add_test(t, disconnect_waits_for_nothing);
	tcase_add_loop_test(t, posts_behind, 0, 2);
	tcase_add_loop_test(t, attempts, 0, 2);
	tcase_add_loop_test(t, dgram_ends, 0, DGRAM_ROWS * DGRAM_TYPES);
	tcase_add_test(t, listener_closes);
	suite_add_tcase(s, t);
	return s;
}
