/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections between queue pairs: channels, events, private data, the negotiated values, the end. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/addr.h"
#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"

static struct cmkit m;
static struct diw_cm *far;           /* channel of the initiators */
static struct end a, b;

static void open_both(enum diw_progress progress)
{
	cm_open(&m, progress, NULL);
	ck_assert_int_eq(diw_cm_create(m.k.dev, &far), 0);
	rc_open(&a, &m);
	rc_open(&b, &m);
}

static void close_both(void)
{
	end_close(&a);
	end_close(&b);
	ck_assert_int_eq(diw_cm_destroy(far), 0);
	cm_close(&m);
}

/* A connects to b, each with its attributes. Returns the events. */
static void join(const struct diw_conn_attr *aa, const struct diw_conn_attr *ba, struct diw_cm_event *req,
		 struct diw_cm_event *at_a)
{
	struct diw_cm_event ev;

	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, aa), 0);
	cm_expect(m.cm, req, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(req->req, b.qp, ba), 0);
	cm_expect(far, at_a, DIW_CM_ESTABLISHED);
	cm_expect(m.cm, &ev, DIW_CM_ESTABLISHED);
	ck_assert_ptr_eq(at_a->qp, a.qp);
	ck_assert_ptr_eq(ev.qp, b.qp);
	ck_assert_uint_eq(at_a->ird, ev.ord);
	ck_assert_uint_eq(at_a->ord, ev.ird);
	ck_assert_int_eq(at_a->crc, ev.crc);
	ck_assert_int_eq(at_a->rfc7306, ev.rfc7306);
	ck_assert_mem_eq(&at_a->local, &ev.peer, sizeof ev.peer);
	ck_assert_mem_eq(&at_a->peer, &ev.local, sizeof ev.peer);
	ck_assert_uint_eq(at_a->peer.port, m.addr.port);
}

START_TEST(defaults)
{
	struct diw_cm_event req, ev;

	open_both(_i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	join(NULL, NULL, &req, &ev);
	ck_assert_uint_eq(ev.ird, 16);
	ck_assert_uint_eq(ev.ord, 16);
	ck_assert(!ev.crc);                     /* both ends are on this host */
	ck_assert(ev.rfc7306);
	ck_assert_uint_eq(req.data_len, 0);
	ck_assert_uint_eq(ev.data_len, 0);
	cm_expect_none(m.cm, 0);
	cm_expect_none(far, 0);
	ck_assert_int_eq(diw_cm_destroy(far), -EBUSY);
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, NULL), -EISCONN);
	close_both();
}
END_TEST

/* Private data of every length, with the capabilities of RFC 7306 behind it if there is room; the application does not
 * see them. */
START_TEST(private_data)
{
	static const struct { uint32_t len; bool plain, far_plain, told; } cases[] = {
		{ 0, true, false, false }, { 0, false, true, false }, { 1, false, false, true },
		{ 239, false, false, true },
		{ 240, false, false, false }, { 251, true, true, false }, { 508, false, false, false },
	};
	uint8_t to[DIW_MAX_PRIVATE], back[DIW_MAX_PRIVATE];
	struct diw_conn_attr aa, ba;
	struct diw_cm_event req, ev;

	for (uint32_t i = 0; i < sizeof to; i++) {
		to[i] = (uint8_t)i;
		back[i] = (uint8_t)~i;
	}
	open_both(DIW_PROGRESS_INLINE);
	aa = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	aa.data = to;
	aa.data_len = cases[_i].len;
	ba = aa;
	ba.data = back;
	aa.plain = cases[_i].plain;
	ba.plain = cases[_i].far_plain;
	join(&aa, &ba, &req, &ev);
	ck_assert_uint_eq(req.data_len, aa.data_len);
	ck_assert_mem_eq(req.data, to, aa.data_len);
	ck_assert_uint_eq(ev.data_len, aa.data_len);
	ck_assert_mem_eq(ev.data, back, aa.data_len);
	ck_assert_int_eq(ev.rfc7306, cases[_i].told);
	ck_assert_int_eq(req.rfc7306, !aa.plain && aa.data_len + 12 <= 251);
	close_both();
}
END_TEST

/* Both ends use the negotiated values: a message in each direction, the responder's first with a ready-to-receive. */
START_TEST(talk)
{
	static const struct { uint8_t revision; bool crc, far_crc, markers, far_markers; unsigned rtr; } cases[] = {
		{ 2, true, true, false, false, DIW_RTR_FPDU }, { 2, true, true, false, false, DIW_RTR_WRITE },
		{ 2, true, false, false, false, DIW_RTR_READ }, { 2, false, true, true, false, 0 },
		{ 2, false, false, false, true, DIW_RTR_WRITE }, { 1, true, true, true, true, 7 },
		{ 1, false, false, false, false, 0 }, { 0, false, true, false, false, 0 },
	};
	struct diw_conn_attr aa, ba;
	struct diw_cm_event req, ev;
	struct end *first = &b, *second = &a;
	struct diw_wc wc;
	uint8_t *mem;

	open_both(_i % 2 ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	mem = m.k.mem;
	aa = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	aa.connect.revision = cases[_i].revision;
	aa.rtr = cases[_i].rtr;
	ba = aa;
	aa.crc = cases[_i].crc;
	aa.markers = cases[_i].markers;
	ba.crc = cases[_i].far_crc;
	ba.markers = cases[_i].far_markers;
	ck_assert_int_eq(end_recv(&a, 0, 4096, 1), 0);
	ck_assert_int_eq(end_recv(&b, 8192, 4096, 2), 0);
	join(&aa, &ba, &req, &ev);
	ck_assert_int_eq(ev.crc, aa.crc || ba.crc);
	if (!aa.rtr || aa.connect.revision < 2) {
		first = &a;
		second = &b;
	}
	for (uint32_t i = 0; i < 4096; i++)
		mem[16384 + i] = (uint8_t)(i * 7);
	ck_assert_int_eq(end_send(first, second, 16384, 4096, 0), 0);
	ck_assert_int_eq(diw_cq_wait(second->rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(end_send(second, first, 16384, 4096, 0), 0);
	ck_assert_int_eq(diw_cq_wait(first->rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_mem_eq(mem, mem + 16384, 4096);
	ck_assert_mem_eq(mem + 8192, mem + 16384, 4096);
	ck_assert_int_eq(diw_disconnect(a.qp), 0);
	cm_expect(m.cm, &ev, DIW_CM_DISCONNECTED);
	ck_assert_int_eq(ev.errnum, 0);
	cm_expect(far, &ev, DIW_CM_DISCONNECTED);
	ck_assert_int_eq(ev.errnum, 0);
	close_both();
}
END_TEST

START_TEST(misuse)
{
	struct diw_conn_attr ca;
	struct diw_cm_event ev;
	struct diw_qp_attr ua;
	struct end ud;
	char data[DIW_MAX_PRIVATE + 1] = "";

	open_both(DIW_PROGRESS_INLINE);
	end_attr(&ua);
	end_open(&ud, &m.k, &ua, 64);
	ck_assert_int_eq(diw_connect(ud.qp, far, &m.addr, NULL), -EINVAL);
#define REFUSED(field, value, err) \
	do { \
		ca = (struct diw_conn_attr)DIW_CONN_ATTR_INIT; \
		ca.data = data; \
		ca.field = value; \
		ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, &ca), err); \
	} while (0)
	REFUSED(ird, DIW_MAX_IRD + 1, -EINVAL);
	REFUSED(ord, DIW_MAX_IRD + 1, -EINVAL);
	REFUSED(rtr, 8, -EINVAL);
	REFUSED(timeout_ns, 0, -EINVAL);
	REFUSED(dscp, 64, -EINVAL);
	REFUSED(connect.revision, 3, -EINVAL);
	REFUSED(data_len, DIW_MAX_PRIVATE - 3, -EMSGSIZE);
#undef REFUSED
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, NULL), 0);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ca = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	ca.data = data;
	ca.data_len = DIW_MAX_PRIVATE - 3;
	ck_assert_int_eq(diw_accept(ev.req, ud.qp, NULL), -EINVAL);
	ck_assert_int_eq(diw_accept(ev.req, a.qp, NULL), -EISCONN);
	ck_assert_int_eq(diw_accept(ev.req, b.qp, &ca), -EMSGSIZE);
	ck_assert_int_eq(diw_reject(ev.req, data, DIW_MAX_PRIVATE - 3), -EMSGSIZE);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 1), -EINVAL);
	ck_assert_int_eq(diw_accept(ev.req, b.qp, NULL), 0);
	end_close(&ud);
	close_both();
}
END_TEST

START_TEST(rejected)
{
	struct diw_cm_event ev;
	char data[DIW_MAX_PRIVATE - 4];

	memset(data, 'x', sizeof data);
	open_both(DIW_PROGRESS_INLINE);
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, NULL), 0);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_reject(ev.req, data, sizeof data), 0);
	cm_expect(far, &ev, DIW_CM_REJECTED);
	ck_assert_ptr_eq(ev.qp, a.qp);
	ck_assert_uint_eq(ev.data_len, sizeof data);
	ck_assert_mem_eq(ev.data, data, sizeof data);
	cm_expect_none(m.cm, 5);
	close_both();
}
END_TEST

/* A listening socket whose queue is full: the kernel accepts no connection, and answers none. */
static int dead_end(struct diw_addr *to, int fill[2])
{
	int lfd = raw_listen(to, 0);

	for (int i = 0; i < 2; i++) {
		struct sockaddr_storage ss;
		socklen_t len = diw_addr_to_sockaddr(to, &ss);

		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(fill[i], (struct sockaddr *)&ss, len);
	}
	return lfd;
}

/* No listener, and a peer that does not answer: both are reported in bounded time. */
START_TEST(nobody)
{
	struct diw_conn_attr ca = DIW_CONN_ATTR_INIT;
	struct diw_cm_event ev;
	struct diw_addr to;
	uint64_t begin = diw_clock_ns();
	int lfd, fill[2];

	open_both(_i % 2 ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	lfd = dead_end(&to, fill);
	if (_i < 2) {
		close(fill[0]);
		close(fill[1]);
		close(lfd);
	} else {
		ca.timeout_ns = 100 * (int64_t)DIW_MS;
	}
	ck_assert_int_eq(diw_connect(a.qp, far, &to, &ca), 0);
	cm_expect(far, &ev, DIW_CM_FAILED);
	ck_assert_int_eq(ev.errnum, _i < 2 ? ECONNREFUSED : ETIMEDOUT);
	ck_assert_uint_lt(diw_clock_ns() - begin, 8 * DIW_S);   /* less than the default of 10 s */
	close_both();
	for (int i = 0; i < 3 && _i >= 2; i++)
		close((int[]){ fill[0], fill[1], lfd }[i]);
}
END_TEST

/* Requests that were posted meanwhile are flushed, also for one of many queue pairs. */
START_TEST(failed_flushes)
{
	struct end more[6];
	struct diw_addr to;
	struct diw_cm_event ev;
	struct diw_wc wc;

	open_both(_i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	for (int i = 0; i < 6; i++)
		rc_open(&more[i], &m);
	close(raw_listen(&to, 1));
	cm_expect_none(far, 5);                 /* no event of before is left */
	ck_assert_int_eq(diw_connect(a.qp, far, &to, NULL), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 8, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(end_recv(&a, 0, 8, 1), 0);
	cm_expect(far, &ev, DIW_CM_FAILED);
	ck_assert_int_eq(diw_cq_wait(a.scq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_FLUSHED);
	ck_assert_int_eq(diw_cq_wait(a.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_FLUSHED);
	for (int i = 0; i < 6; i++)
		end_close(&more[i]);
	close_both();
}
END_TEST

static void *wait_for_failure(void *arg)
{
	cm_expect(far, arg, DIW_CM_FAILED);
	return NULL;
}

/* A sleeping thread wakes for the timeout of a connection that begins later. */
START_TEST(timeout_of_others)
{
	struct diw_conn_attr ca = DIW_CONN_ATTR_INIT;
	struct diw_cm_event ev;
	struct diw_addr to;
	uint64_t begin, took = DIW_NEVER;
	int fill[2], lfd = dead_end(&to, fill);
	pthread_t t;

	open_both(_i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	ca.timeout_ns = 100 * (int64_t)DIW_MS;
	ck_assert_int_eq(diw_connect(b.qp, m.cm, &to, &ca), 0); /* the first belongs to another thread */
	cm_expect(m.cm, &ev, DIW_CM_FAILED);
	for (int i = 0; i < 10 && took >= 600 * DIW_MS; i++) {           /* a second later it wakes for the counters */
		ck_assert(i == 0 || diw_qp_reset(a.qp) == 0);
		ck_assert_int_eq(pthread_create(&t, NULL, wait_for_failure, &ev), 0);
		sleep_ms(50);
		begin = diw_clock_ns();
		ck_assert_int_eq(diw_connect(a.qp, far, &to, &ca), 0);
		pthread_join(t, NULL);
		ck_assert_int_eq(ev.errnum, ETIMEDOUT);
		took = diw_clock_ns() - begin;
	}
	ck_assert_uint_lt(took, 600 * DIW_MS);
	close_both();
	close(fill[0]);
	close(fill[1]);
	close(lfd);
}
END_TEST

/* The descriptor is readable if the queue has an event, whichever thread does the work. */
START_TEST(descriptor)
{
	struct diw_cm_event ev;
	struct pollfd p;

	open_both(DIW_PROGRESS_THREAD);
	p = (struct pollfd){ .fd = diw_cm_fd(m.cm), .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, NULL), 0);
	ck_assert_int_eq(poll(&p, 1, KIT_LIMIT_MS), 1);
	ck_assert_int_eq(diw_cm_get(m.cm, &ev, 0), 0);
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	p.fd = diw_cm_fd(far);
	ck_assert_int_eq(poll(&p, 1, KIT_LIMIT_MS), 1);
	end_close(&a);                          /* its events are dropped */
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	cm_expect_none(far, 0);
	rc_open(&a, &m);
	close_both();
}
END_TEST

/* Objects are closed in any order, in any state. */
START_TEST(closed_under_it)
{
	struct diw_cm_event ev, second;
	struct end c;

	open_both(_i % 2 ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	rc_open(&c, &m);
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, NULL), 0);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_connect(c.qp, far, &m.addr, NULL), 0);
	cm_until(far, listener_info(&m).requests == 2);
	switch (_i / 2) {
	case 0:                                 /* the listener: the request that was fetched stays valid, the other
						 * does not */
		ck_assert_int_eq(diw_listener_close(m.listener), 0);
		m.listener = NULL;
		cm_expect(far, &second, DIW_CM_FAILED);
		ck_assert_ptr_eq(second.qp, c.qp);
		ck_assert_int_eq(second.errnum, ECONNRESET);
		cm_expect_none(m.cm, 5);
		ck_assert_int_eq(diw_cm_destroy(m.cm), -EBUSY);
		ck_assert_int_eq(diw_accept(ev.req, b.qp, NULL), 0);
		cm_expect(far, &second, DIW_CM_ESTABLISHED);
		cm_expect(m.cm, &second, DIW_CM_ESTABLISHED);
		break;
	case 1:                                 /* an initiator */
		end_close(&c);
		cm_until(far, listener_info(&m).waiting == 1);  /* its end has been read */
		cm_expect_none(m.cm, 0);
		ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
		rc_open(&c, &m);
		break;
	case 2:                                 /* aborted: no event */
		ck_assert_int_eq(diw_abort(a.qp), 0);
		ck_assert_int_eq(diw_abort(c.qp), 0);
		cm_expect_none(far, 5);
		ck_assert_int_eq(diw_accept(ev.req, b.qp, NULL), -ECONNRESET);
		ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
		break;
	}
	end_close(&c);
	close_both();
}
END_TEST

/* The connection ends before an end has fetched its ESTABLISHED event: that end gets both events, in this order. */
START_TEST(no_event_lost)
{
	struct diw_qp_info info;
	struct diw_cm_event ev;

	open_both(DIW_PROGRESS_INLINE);
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, NULL), 0);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(ev.req, b.qp, NULL), 0);
	cm_expect(m.cm, &ev, DIW_CM_ESTABLISHED);
	ck_assert_int_eq(diw_abort(b.qp), 0);
	cm_expect(m.cm, &ev, DIW_CM_DISCONNECTED);
	cm_until(m.cm, diw_qp_query(a.qp, &info) == 0 && info.state == DIW_QPS_ERROR);
	cm_expect(far, &ev, DIW_CM_ESTABLISHED);
	ck_assert_int_eq(ev.errnum, 0);
	cm_expect(far, &ev, DIW_CM_DISCONNECTED);
	ck_assert_ptr_eq(ev.qp, a.qp);
	ck_assert_int_eq(ev.errnum, ECONNRESET);
	ck_assert_int_eq(diw_cm_destroy(far), 0);       /* no connection uses it any more */
	ck_assert_int_eq(diw_cm_create(m.k.dev, &far), 0);
	close_both();
}
END_TEST

START_TEST(forked)
{
	struct diw_cm_event ev;
	struct diw_listener_info info;
	struct diw_listener *l;
	int status;
	pid_t pid;

	open_both(DIW_PROGRESS_INLINE);
	ck_assert_int_eq(diw_connect(a.qp, far, &m.addr, NULL), 0);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	pid = fork();
	if (pid == 0) {
		bool dead = diw_cm_get(m.cm, &ev, 0) == -ENODEV && diw_cm_fd(m.cm) == -ENODEV &&
			    diw_listener_query(m.listener, &info) == -ENODEV && diw_listen(m.cm, NULL, &l) == -ENODEV &&
			    diw_connect(b.qp, far, &m.addr, NULL) == -ENODEV &&
			    diw_accept(ev.req, b.qp, NULL) == -ENODEV && diw_reject(ev.req, NULL, 0) == -ENODEV &&
			    diw_cm_create(m.k.dev, &far) == -ENODEV && diw_listener_close(m.listener) == 0 &&
			    diw_cm_destroy(m.cm) == 0 && diw_dev_close(m.k.dev) == 0;

		_exit(dead ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	/* The descriptor that the child closed is open here. */
	ck_assert_int_eq(diw_accept(ev.req, b.qp, NULL), 0);
	cm_expect(far, &ev, DIW_CM_ESTABLISHED);
	cm_expect(m.cm, &ev, DIW_CM_ESTABLISHED);
	close_both();
}
END_TEST

#define MANY 300

/* Many at the same time: each has its two events, and no others. */
START_TEST(many)
{
	static struct end from[MANY], to[MANY];
	struct diw_conn_attr ca = DIW_CONN_ATTR_INIT;
	struct diw_cm_event ev;
	struct rlimit lim;
	int n = 0;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	cm_open(&m, _i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE, &(struct diw_listen_attr){
			.size = sizeof(struct diw_listen_attr), .backlog = MANY, .max_halfopen = MANY,
			.request_timeout_ns = 2 * KIT_LIMIT });
	ck_assert_int_eq(diw_cm_create(m.k.dev, &far), 0);
	ca.timeout_ns = 2 * KIT_LIMIT;
	for (int i = 0; i < MANY; i++) {
		rc_open(&from[i], &m);
		rc_open(&to[i], &m);
		ck_assert_int_eq(diw_connect(from[i].qp, far, &m.addr, &ca), 0);
	}
	for (int i = 0; i < 2 * MANY; i++) {
		ck_assert_int_eq(diw_cm_get(m.cm, &ev, KIT_LIMIT), 0);
		if (ev.type == DIW_CM_CONNECT_REQUEST)
			ck_assert_int_eq(diw_accept(ev.req, to[n++].qp, NULL), 0);
		else
			ck_assert_int_eq(ev.type, DIW_CM_ESTABLISHED);
	}
	ck_assert_int_eq(n, MANY);
	for (int i = 0; i < MANY; i++)
		cm_expect(far, &ev, DIW_CM_ESTABLISHED);
	cm_expect_none(far, 0);
	cm_expect_none(m.cm, 0);
	for (int i = 0; i < MANY; i++) {
		end_close(&from[i]);
		end_close(&to[i]);
	}
	ck_assert_int_eq(diw_cm_destroy(far), 0);
	cm_close(&m);
}
END_TEST

#define ATTEMPTS 60

static atomic_int busy;

static void *connector(void *arg)
{
	struct diw_cm *cm;
	struct diw_cm_event ev;
	struct end c;

	(void)arg;
	ck_assert_int_eq(diw_cm_create(m.k.dev, &cm), 0);
	for (int i = 0; i < ATTEMPTS; i++) {
		rc_open(&c, &m);
		ck_assert_int_eq(diw_connect(c.qp, cm, &m.addr, NULL), 0);
		if (i % 3)                      /* the others are destroyed while they connect */
			ck_assert_int_eq(diw_cm_get(cm, &ev, KIT_LIMIT), 0);
		if (i % 3 == 1)
			ck_assert_int_eq(diw_abort(c.qp), 0);
		end_close(&c);
	}
	ck_assert_int_eq(diw_cm_destroy(cm), 0);
	busy--;
	return NULL;
}

static void answer(struct diw_cm_event *ev, int i)
{
	struct end c;

	if (i % 4 == 0) {
		ck_assert_int_eq(diw_reject(ev->req, NULL, 0), 0);
		return;
	}
	rc_open(&c, &m);
	if (diw_accept(ev->req, c.qp, NULL) < 0)        /* it has gone meanwhile */
		ck_assert_int_eq(diw_reject(ev->req, NULL, 0), 0);
	end_close(&c);
}

/* Two threads connect, one answers, all abandon connections at any time, and a listener is opened and closed. */
START_TEST(threads)
{
	struct diw_listener *other;
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_cm_event ev;
	pthread_t t[2];

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	ck_assert_int_eq(diw_addr_parse("127.0.0.1", 0, &la.local), 0);
	busy = 2;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, connector, NULL), 0);
	for (int i = 0; busy; i++) {
		if (diw_cm_get(m.cm, &ev, 10 * (int64_t)DIW_MS) == 0 && ev.type == DIW_CM_CONNECT_REQUEST)
			answer(&ev, i);
		ck_assert_int_eq(diw_listen(m.cm, &la, &other), 0);
		ck_assert_int_eq(diw_listener_close(other), 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	while (diw_cm_get(m.cm, &ev, 10 * (int64_t)DIW_MS) == 0)
		ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	listener_wait(&m, halfopen + listener_info(&m).waiting, 0);
	cm_close(&m);
}
END_TEST

Suite *suite_cm(void)
{
	Suite *s = suite_create("cm");
	TCase *tc = tcase_create("cm");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, defaults, 0, 2);
	tcase_add_loop_test(tc, private_data, 0, 7);
	tcase_add_loop_test(tc, talk, 0, 8);
	tcase_add_test(tc, misuse);
	tcase_add_test(tc, rejected);
	tcase_add_loop_test(tc, nobody, 0, 4);
	tcase_add_loop_test(tc, failed_flushes, 0, 2);
	tcase_add_loop_test(tc, timeout_of_others, 0, 2);
	tcase_add_test(tc, descriptor);
	tcase_add_loop_test(tc, closed_under_it, 0, 6);
	tcase_add_test(tc, no_event_lost);
	tcase_add_test(tc, forked);
	tcase_add_loop_test(tc, many, 0, 2);
	tcase_add_test(tc, threads);
	suite_add_tcase(s, tc);
	return s;
}
