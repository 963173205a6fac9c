/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that are moved to another device, listeners that open late, and pairs of ports. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"

static struct cmkit m, n;            /* two devices */
static struct diw_cm *far;
static struct end a, b;

static void open_two(enum diw_progress progress)
{
	cm_open(&m, progress, NULL);
	cm_open(&n, progress, NULL);
	ck_assert_int_eq(diw_cm_create(m.k.dev, &far), 0);
	rc_open(&a, &m);
	rc_open(&b, &n);
}

static void close_two(void)
{
	end_close(&a);
	end_close(&b);
	ck_assert_int_eq(diw_cm_destroy(far), 0);
	cm_close(&n);
	cm_close(&m);
}

START_TEST(moved)
{
	struct diw_conn_attr ca = DIW_CONN_ATTR_INIT;
	struct diw_cm_event req, ev;

	open_two(DIW_PROGRESS_THREAD);
	ca.data = "private";
	ca.data_len = 7;
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, &ca), 0);
	cm_expect(m.cm, &req, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(req.req, b.qp, NULL), -EINVAL);     /* of another device */
	ck_assert_int_eq(diw_conn_req_move(req.req, n.cm), 0);
	ck_assert_uint_eq(listener_info(&m).waiting, 0);
	if (_i == 1)                            /* the listener may be closed meanwhile */
		ck_assert_int_eq(diw_listener_close(m.listener), 0);
	ck_assert_int_eq(diw_accept(req.req, b.qp, &ca), 0);
	cm_expect(n.cm, &ev, DIW_CM_ESTABLISHED);
	ck_assert_ptr_eq(ev.qp, b.qp);
	cm_expect(far, &ev, DIW_CM_ESTABLISHED);
	ck_assert_mem_eq(ev.data, "private", 7);
	ck_assert_int_eq(diw_leave(a.qp), 0);
	cm_expect(n.cm, &ev, DIW_CM_DISCONNECTED);
	cm_expect_none(m.cm, 5);
	if (_i == 1) {
		struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;

		ck_assert_int_eq(diw_listen(m.cm, &la, &m.listener), 0);
	}
	close_two();
}
END_TEST

/* The initiator has gone before the move, or after it; the request can be refused on the new device. */
START_TEST(moved_gone)
{
	struct diw_cm_event req, ev;

	open_two(_i % 2 ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, NULL), 0);
	cm_expect(m.cm, &req, DIW_CM_CONNECT_REQUEST);
	if (_i < 2) {
		ck_assert_int_eq(diw_abort(a.qp), 0);
		cm_expect_none(m.cm, 20);
		ck_assert_int_eq(diw_conn_req_move(req.req, n.cm), -ECONNRESET);
	} else {
		ck_assert_int_eq(diw_conn_req_move(req.req, n.cm), 0);
	}
	if (_i >= 2 && _i < 4) {
		ck_assert_int_eq(diw_abort(a.qp), 0);
		cm_expect_none(n.cm, 20);
		ck_assert_int_eq(diw_accept(req.req, b.qp, NULL), -ECONNRESET);
	}
	ck_assert_int_eq(diw_reject(req.req, "no", 2), 0);
	if (_i >= 4) {
		cm_expect(far, &ev, DIW_CM_REJECTED);
		ck_assert_mem_eq(ev.data, "no", 2);
	}
	close_two();
}
END_TEST

/* The timeout of a request continues on the new device. */
START_TEST(moved_slow)
{
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_cm_event req, ev;
	struct diw_conn_attr ca = DIW_CONN_ATTR_INIT;
	uint64_t begin;

	ca.timeout_ns = 2 * KIT_LIMIT;
	la.request_timeout_ns = 3 * (int64_t)DIW_S;     /* it has been moved by then, even on a busy machine */
	cm_open(&m, DIW_PROGRESS_THREAD, &la);
	cm_open(&n, DIW_PROGRESS_THREAD, NULL);
	ck_assert_int_eq(diw_cm_create(m.k.dev, &far), 0);
	rc_open(&a, &m);
	rc_open(&b, &n);
	begin = diw_clock_ns();
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, &ca), 0);
	cm_expect(m.cm, &req, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_conn_req_move(req.req, n.cm), 0);
	cm_expect(far, &ev, DIW_CM_FAILED);
	ck_assert_uint_ge(diw_clock_ns() - begin, 3 * DIW_S);
	ck_assert_uint_lt(diw_clock_ns() - begin, 8 * DIW_S);   /* less than the default of 10 s */
	ck_assert_int_eq(diw_accept(req.req, b.qp, NULL), -ECONNRESET);
	ck_assert_int_eq(diw_reject(req.req, NULL, 0), 0);
	close_two();
}
END_TEST

static void late_attr(struct diw_conn_attr *ca, int64_t refused_ns)
{
	*ca = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	ca->connect.refused_ns = refused_ns;
}

/* Refused again and again: the attempt takes as long as requested, then fails like a single refusal. */
START_TEST(refused)
{
	uint64_t begin = diw_clock_ns();
	struct diw_conn_attr ca;
	struct diw_cm_event ev;
	struct diw_addr to;

	open_two(_i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	close(raw_listen(&to, 1));
	late_attr(&ca, 100 * (int64_t)DIW_MS);
	ck_assert_int_eq(diw_connect(a.qp, far, &to, &ca), 0);
	cm_expect(far, &ev, DIW_CM_FAILED);
	ck_assert_int_eq(ev.errnum, ECONNREFUSED);
	ck_assert_uint_ge(diw_clock_ns() - begin, 80 * DIW_MS);
	ck_assert_uint_lt(diw_clock_ns() - begin, 8 * DIW_S);   /* less than the 10 s of other failures */
	close_two();
}
END_TEST

START_TEST(late_listener)
{
	struct diw_listener *late;
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_conn_attr ca;
	struct diw_cm_event req, ev;

	open_two(_i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	close(raw_listen(&la.local, 1));
	late_attr(&ca, 2 * KIT_LIMIT);
	ca.timeout_ns = 2 * KIT_LIMIT;
	ck_assert_int_eq(diw_connect(a.qp, far, &la.local, &ca), 0);
	cm_expect_none(far, 40);
	ck_assert_int_eq(diw_listen(n.cm, &la, &late), 0);
	for (int i = 0; i < KIT_LIMIT_MS / 6 && diw_cm_get(n.cm, &req, 5 * (int64_t)DIW_MS) < 0; i++)
		cm_expect_none(far, 1);
	ck_assert_int_eq(req.type, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_abort(a.qp), 0);
	ck_assert_int_eq(diw_reject(req.req, NULL, 0), 0);
	/* The attempt is given up between two connects. */
	ck_assert_int_eq(diw_listener_close(late), 0);
	ck_assert_int_eq(diw_qp_reset(a.qp), 0);
	ck_assert_int_eq(diw_connect(a.qp, far, &la.local, &ca), 0);
	cm_expect_none(far, 40);
	ck_assert_int_eq(diw_abort(a.qp), 0);
	ck_assert_int_eq(diw_cm_get(far, &ev, 20 * (int64_t)DIW_MS), -EAGAIN);
	close_two();
}
END_TEST

/* ---- A pair of ports ---- */

static int busy_fd;
static struct diw_addr busy;         /* a hand-written peer */

static void connect_pair(const struct diw_addr *first, const struct diw_addr *second, int64_t refused_ns)
{
	struct diw_conn_attr ca;

	plain_attr(&ca);
	ca.data = "ports";
	ca.data_len = 5;
	ca.connect.refused_ns = refused_ns;
	ca.timeout_ns = 2 * KIT_LIMIT;
	ca.connect.other_port = second->port;
	ck_assert_int_eq(diw_connect(a.qp, far, first, &ca), 0);
}

/* The other port gets the whole request, and the connection. */
static void expect_other(void)
{
	struct diw_cm_event req, ev;

	cm_expect(m.cm, &req, DIW_CM_CONNECT_REQUEST);
	ck_assert_uint_eq(req.data_len, 5);
	ck_assert_mem_eq(req.data, "ports", 5);
	ck_assert_int_eq(diw_conn_req_move(req.req, n.cm), 0);
	ck_assert_int_eq(diw_accept(req.req, b.qp, NULL), 0);
	cm_expect(far, &ev, DIW_CM_ESTABLISHED);
	ck_assert_uint_eq(ev.peer.port, m.addr.port);
}

START_TEST(other_port_refused)
{
	struct diw_addr shut;

	open_two(DIW_PROGRESS_THREAD);
	close(raw_listen(&shut, 1));
	connect_pair(&shut, &m.addr, 0);
	expect_other();
	close_two();
}
END_TEST

/* The peer at the first port ends the stream, at once or when it has the request. */
START_TEST(other_port_unanswered)
{
	uint8_t byte;
	int fd;

	open_two(DIW_PROGRESS_THREAD);
	busy_fd = raw_listen(&busy, 5);
	connect_pair(&busy, &m.addr, 0);
	fd = raw_accept(busy_fd);
	if (_i % 2)
		ck_assert_int_eq(recv(fd, &byte, 1, 0), 1);
	if (_i / 2)
		raw_reset(fd);
	else
		close(fd);
	expect_other();
	close(busy_fd);
	close_two();
}
END_TEST

/* Both ports refuse: they are tried in turn, for as long as requested. */
START_TEST(both_ports_refused)
{
	struct diw_addr shut[2];
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_listener *late = NULL;
	struct diw_cm_event ev;
	int fd;

	open_two(DIW_PROGRESS_INLINE);
	fd = raw_listen(&shut[0], 1);
	close(raw_listen(&shut[1], 1));
	close(fd);
	connect_pair(&shut[0], &shut[1], _i < 2 ? 2 * KIT_LIMIT : 20 * (int64_t)DIW_MS);
	if (_i < 2) {
		cm_expect_none(far, 20);
		la.local = shut[_i];
		ck_assert_int_eq(diw_listen(n.cm, &la, &late), 0);
		for (int i = 0; i < KIT_LIMIT_MS && diw_cm_get(n.cm, &ev, (int64_t)DIW_MS) < 0; i++)
			cm_expect_none(far, 1);
		ck_assert_int_eq(ev.type, DIW_CM_CONNECT_REQUEST);
		ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
		ck_assert_int_eq(diw_listener_close(late), 0);
	} else {
		cm_expect(far, &ev, DIW_CM_FAILED);
		ck_assert_int_eq(ev.errnum, ECONNREFUSED);
	}
	close_two();
}
END_TEST

/* A port whose peer has begun to answer is final, even by a refusal or one byte. Its reset is the error, not the other
 * port's refusal. */
START_TEST(first_port_decides)
{
	struct diw_addr shut;
	struct diw_cm_event ev;
	int fd;

	open_two(DIW_PROGRESS_THREAD);
	busy_fd = raw_listen(&busy, 5);
	close(raw_listen(&shut, 1));
	connect_pair(&busy, _i == 2 ? &shut : &m.addr, _i == 2 ? 2 * KIT_LIMIT : 0);
	fd = raw_accept(busy_fd);
	if (_i == 0)
		send_frame(fd, true, "20020000");
	else if (_i == 1)
		raw_send(fd, "M", 1);
	sleep_ms(20);
	close(fd);
	cm_expect(far, &ev, _i == 0 ? DIW_CM_REJECTED : DIW_CM_FAILED);
	ck_assert_int_eq(ev.errnum, _i == 0 ? ECONNREFUSED : ECONNRESET);
	cm_expect_none(m.cm, 20);
	ck_assert_int_eq(readable(busy_fd, 0), 0);
	close(busy_fd);
	close_two();
}
END_TEST

Suite *suite_cm_move(void)
{
	Suite *s = suite_create("cm_move");
	TCase *tc = tcase_create("cm_move");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, moved, 0, 2);
	tcase_add_loop_test(tc, moved_gone, 0, 6);
	tcase_add_test(tc, moved_slow);
	tcase_add_loop_test(tc, refused, 0, 2);
	tcase_add_loop_test(tc, late_listener, 0, 2);
	tcase_add_test(tc, other_port_refused);
	tcase_add_loop_test(tc, other_port_unanswered, 0, 4);
	tcase_add_loop_test(tc, both_ports_refused, 0, 3);
	tcase_add_loop_test(tc, first_port_decides, 0, 3);
	suite_add_tcase(s, tc);
	return s;
}
