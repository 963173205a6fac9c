/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder against hand-written initiators: its answers to the byte, and the requests that it accepts. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"

static struct cmkit m;
static struct end e;

/* ---- Replies ---- */

static const struct {
	const char *request, *reply;
	bool crc, markers;
	unsigned rtr;                /* 0: the default; 8: none */
	uint16_t ird, ord;           /* 0: 128 */
} replies[] = {
#define R(req, rep, ...) { .request = (req), .reply = (rep), __VA_ARGS__ }
	/* The replies of siw, the Linux kernel's software iWARP, byte for byte; */
	R("00010000", "00010000"), R("40010000", "40010000"), R("00020000", "00020000"), R("40020000", "40020000"),
	R("1002000400100010", "1002000400100010"), R("100200043fff3fff", "1002000400800080"),
	R("1002000480108010", "1002000480108010"), R("100200048004c004", "1002000480048004"),
	R("10020004c0040004", "1002000480048004"), R("00000000", "00000000"),
	R("1802000400010001", "1802000400010001"), R("08010000", "08010000"), R("07010000", "00010000"),
	/* except that siw refuses markers, which diwarp sends. */
	R("80010000", "00010000"),
	/* Either end may ask for CRC and markers. */
	R("00010000", "40010000", .crc = true), R("00010000", "80010000", .markers = true),
	R("1002000400100010", "5002000400100010", .crc = true),
	/* The smaller of the responder's value and the initiator's. */
	R("1002000400100020", "1002000400080004", .ird = 8, .ord = 4),
	R("1002000400020001", "1002000400010002", .ird = 8, .ord = 4),
	/* Ready-to-receive: of the messages that both support, the Write, else the Read, else the empty FPDU. Both
	 * support none: the messages of the responder, or none. */
	R("10020004c004c004", "1002000480044004", .rtr = DIW_RTR_READ | DIW_RTR_FPDU),
	R("10020004c0044004", "10020004c0040004", .rtr = DIW_RTR_FPDU),
	R("100200048004c000", "1002000480008004", .rtr = DIW_RTR_READ | DIW_RTR_WRITE),
	R("1002000480044000", "1002000480008004"),
	R("1002000480108010", "1002000400100010", .rtr = 8),
	/* Private data is passed to the application, whatever it contains. */
	R("0001000568656c6c6f", "00010000"), R("1002000600010001ffff", "1002000400010001"),
#undef R
};

START_TEST(reply_bytes)
{
	struct diw_conn_attr a;
	struct diw_cm_event ev;
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	rc_open(&e, &m);
	plain_attr(&a);
	a.crc = replies[_i].crc;
	a.markers = replies[_i].markers;
	if (replies[_i].rtr)
		a.rtr = replies[_i].rtr & 7;
	if (replies[_i].ird) {
		a.ird = replies[_i].ird;
		a.ord = replies[_i].ord;
	}
	fd = dial(&m.addr);
	send_frame(fd, false, replies[_i].request);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_ptr_eq(ev.listener, m.listener);
	ck_assert_uint_eq(ev.revision, replies[_i].request[3] - '0');
	ck_assert_int_eq(diw_accept(ev.req, e.qp, &a), 0);
	expect_frame(fd, true, replies[_i].reply);
	if (strlen(replies[_i].reply) == 8 || replies[_i].reply[8] < '8') {     /* there is no ready-to-receive
										 * message */
		cm_expect(m.cm, &ev, DIW_CM_ESTABLISHED);
		ck_assert_ptr_eq(ev.qp, e.qp);
		ck_assert_uint_eq(ev.data_len, 0);
		ck_assert_int_eq(ev.crc, replies[_i].crc || replies[_i].request[0] == '4');
	} else {
		cm_expect_none(m.cm, 5);
	}
	end_close(&e);
	close(fd);
	cm_close(&m);
}
END_TEST

/* ---- Malformed requests ---- */

static void expect_malformed(const void *p, size_t len)
{
	uint64_t before = listener_info(&m).malformed;
	int fd = dial(&m.addr);

	raw_send(fd, p, len);
	expect_closed(fd);
	ck_assert_uint_eq(listener_info(&m).malformed, before + 1);
}

START_TEST(no_request)
{
	static const char *const frames[] = {
		"00030000", "10ff0000",         /* an unknown revision */
		"10020000", "1002000380018001", /* enhanced, but too short */
		"00010201", "1002ffff",         /* private data of 513 bytes, of 65535 bytes */
		"0001000000",                   /* bytes behind the request, before a reply */
	};
	uint8_t p[1024];
	size_t len;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
		expect_malformed(p, frame(p, false, frames[i]));
	expect_malformed(p, frame(p, true, "00010000"));
	expect_malformed("GET / HTTP/1.0\r\n\r\n", 18);
	len = frame(p, false, "00010000");
	for (size_t i = 0; i < 16; i++) {       /* detected at the first wrong byte */
		p[i] ^= 1;
		expect_malformed(p, i + 1);
		p[i] ^= 1;
	}
	ck_assert_uint_eq(len, 20);
	ck_assert_uint_eq(listener_info(&m).requests, 0);
	ck_assert_uint_eq(listener_info(&m).halfopen, 0);
	cm_expect_none(m.cm, 0);
	cm_close(&m);
}
END_TEST

/* Requests cut at any place, and in single bytes. */
START_TEST(request_in_pieces)
{
	struct diw_cm_event ev;
	uint8_t p[64];
	size_t len = frame(p, false, "1002000600100010abcd");
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	for (size_t cut = 1; cut <= len; cut++) {
		fd = dial(&m.addr);
		for (size_t i = 0, n; i < len; i += n) {
			n = cut == len ? 1 : i == 0 ? cut : len - cut;
			raw_send(fd, p + i, n);
			sleep_ms(1);
		}
		cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
		ck_assert_uint_eq(ev.data_len, 2);
		ck_assert_mem_eq(ev.data, "\xab\xcd", 2);
		ck_assert_uint_eq(ev.ird, 16);
		ck_assert_int_eq(diw_reject(ev.req, "no", 2), 0);
		expect_frame(fd, true, "30020006000000006e6f");
		close(fd);
	}
	ck_assert_uint_eq(listener_info(&m).waiting, 0);
	cm_close(&m);
}
END_TEST

/* ---- Slow peers, and many ---- */

/* Sends this many octets at intervals of ten milliseconds, until the other end closes. */
static int trickled(void)
{
	uint64_t before = listener_info(&m).timeouts;
	int fd = dial(&m.addr), n = 0;
	uint8_t p[64];

	frame(p, false, "1002000400100010");
	while (n < 20 && send(fd, p + n, 1, MSG_NOSIGNAL) == 1) {
		n++;
		sleep_ms(10);
	}
	if (n < 20)
		ck_assert_uint_eq(listener_info(&m).timeouts, before + 1);
	close(fd);
	listener_wait(&m, halfopen, 0);
	return n;
}

/* The timeout is for the whole request. It expires between the 5th and the 20th octet if the machine is not busy. */
START_TEST(trickle)
{
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	int n = 0;

	la.request_timeout_ns = 100 * (int64_t)DIW_MS;
	cm_open(&m, DIW_PROGRESS_THREAD, &la);
	for (int i = 0; i < 10 && (n < 5 || n == 20); i++)
		n = trickled();
	ck_assert_int_ge(n, 5);
	ck_assert_int_lt(n, 20);
	cm_close(&m);
}
END_TEST

/* The application does not answer. */
START_TEST(unanswered)
{
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_cm_event ev;
	uint64_t begin;
	int fd[2];

	la.request_timeout_ns = 3 * (int64_t)DIW_S;     /* the first is fetched before that, even on a busy machine */
	cm_open(&m, DIW_PROGRESS_THREAD, &la);
	rc_open(&e, &m);
	begin = diw_clock_ns();
	fd[0] = dial(&m.addr);
	send_frame(fd[0], false, "00010000");
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	fd[1] = dial(&m.addr);
	send_frame(fd[1], false, "00010000");
	expect_closed(fd[0]);
	ck_assert_uint_lt(diw_clock_ns() - begin, 8 * DIW_S);   /* less than the default of 10 s */
	expect_closed(fd[1]);
	ck_assert_uint_eq(listener_info(&m).timeouts, 2);
	ck_assert_uint_eq(listener_info(&m).waiting, 0);
	cm_expect_none(m.cm, 0);                /* the other request was not fetched, so it is dropped */
	ck_assert_int_eq(diw_accept(ev.req, e.qp, NULL), -ECONNRESET);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	end_close(&e);
	cm_close(&m);
}
END_TEST

/* Whether the stream stays open for 300 ms after a refusal, and ends within 300 ms after this end has closed if OURS,
 * else soon. */
static bool stays(bool ours)
{
	struct diw_cm_event ev;
	int fd = dial(&m.addr);
	bool good;

	send_frame(fd, false, "1002000400000000");
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_reject(ev.req, "no", 2), 0);
	expect_frame(fd, true, "30020006000000006e6f");
	good = readable(fd, 300) == 0;
	if (ours)
		ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
	good = good && readable(fd, ours ? 300 : 1500) == 1;
	ck_assert_int_eq(readable(fd, KIT_LIMIT_MS), 1);
	ck_assert_int_eq(recv(fd, &ev, 1, 0), 0);       /* no reset */
	close(fd);
	return good;
}

/* A refusal can be read before the stream ends. Its receiver should end the stream; otherwise the responder does so
 * soon. */
START_TEST(refusal_stays)
{
	bool good = false;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	for (int i = 0; i < 10 && !good; i++)
		good = stays(_i == 0);
	ck_assert(good);
	cm_close(&m);
}
END_TEST

/* Refused initiators that do not end their streams hold at most 256 descriptors: the oldest is closed for the next, and
 * its refusal can still be read. */
START_TEST(refused_limit)
{
	struct diw_cm_event ev;
	int fd[300], open = 0;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	for (int i = 0; i < 300; i++) {
		fd[i] = dial(&m.addr);
		send_frame(fd[i], false, "00010000");
		cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
		ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
		expect_frame(fd[i], true, "20010000");
	}
	for (int i = 0; i < 300; i++)
		open += readable(fd[i], 0) == 0;
	ck_assert_int_le(open, 256);
	for (int i = 0; i < 300; i++) {
		ck_assert_int_eq(readable(fd[i], KIT_LIMIT_MS), 1);
		ck_assert_int_eq(recv(fd[i], &ev, 1, 0), 0);    /* no reset */
		close(fd[i]);
	}
	cm_close(&m);
}
END_TEST

#define QUARTER 32                   /* of the descriptors that halfopen_quarter may open */

/* Silent connections fill the table: the next one waits in the kernel, and after a second displaces the oldest. */
START_TEST(halfopen_limit)
{
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_cm_event ev;
	uint64_t begin = diw_clock_ns();
	int fd[5];

	la.max_halfopen = 4;
	cm_open(&m, DIW_PROGRESS_THREAD, &la);
	for (int i = 0; i < 5; i++)
		fd[i] = dial(&m.addr);
	send_frame(fd[4], false, "00010000");
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_uint_ge(diw_clock_ns() - begin, 900 * DIW_MS);
	ck_assert_uint_eq(listener_info(&m).timeouts, 1);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	expect_closed(fd[0]);
	expect_frame(fd[4], true, "20010000");
	ck_assert_uint_eq(listener_info(&m).halfopen, 3);
	for (int i = 1; i < 5; i++)
		close(fd[i]);
	cm_close(&m);
}
END_TEST

/* Silent connections take a quarter of the descriptors at most, whatever the attribute says. */
START_TEST(halfopen_quarter)
{
	struct rlimit was, low;
	int fd[QUARTER + 8];

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	low = was;
	low.rlim_cur = 4 * QUARTER;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	cm_open(&m, DIW_PROGRESS_INLINE, NULL);
	for (int i = 0; i < QUARTER + 8; i++)
		fd[i] = dial(&m.addr);
	cm_until(m.cm, listener_info(&m).halfopen >= QUARTER);
	cm_expect_none(m.cm, 50);
	ck_assert_uint_eq(listener_info(&m).halfopen, QUARTER);
	ck_assert_uint_eq(listener_info(&m).starved, 0);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	for (int i = 0; i < QUARTER + 8; i++)
		close(fd[i]);
	cm_close(&m);
}
END_TEST

/* The displaced connection has an unprocessed event. */
START_TEST(evicted_with_event)
{
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	int fd[2];

	la.max_halfopen = 1;
	cm_open(&m, DIW_PROGRESS_INLINE, &la);
	fd[0] = dial(&m.addr);
	cm_expect_none(m.cm, 1050);
	fd[1] = dial(&m.addr);
	raw_send(fd[0], "M", 1);
	cm_until(m.cm, listener_info(&m).timeouts == 1);
	cm_expect_none(m.cm, 10);
	ck_assert_uint_eq(listener_info(&m).halfopen, 1);
	ck_assert_uint_eq(listener_info(&m).timeouts, 1);
	ck_assert_uint_eq(listener_info(&m).malformed, 0);
	expect_closed(fd[0]);
	close(fd[1]);
	cm_close(&m);
}
END_TEST

START_TEST(backlog)
{
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_cm_event ev;
	int fd[4];

	la.backlog = 2;
	la.request_timeout_ns = 2 * KIT_LIMIT;
	cm_open(&m, DIW_PROGRESS_THREAD, &la);
	for (int i = 0; i < 3; i++) {
		fd[i] = dial(&m.addr);
		send_frame(fd[i], false, "00010000");
		listener_wait(&m, requests + listener_info(&m).refused, (uint64_t)i + 1);
	}
	expect_closed(fd[2]);
	ck_assert_uint_eq(listener_info(&m).refused, 1);
	ck_assert_uint_eq(listener_info(&m).waiting, 2);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	fd[3] = dial(&m.addr);                  /* there is room again */
	send_frame(fd[3], false, "00010000");
	listener_wait(&m, requests, 3);
	ck_assert_uint_eq(listener_info(&m).refused, 1);
	close(fd[0]);
	close(fd[1]);
	close(fd[3]);
	cm_close(&m);
}
END_TEST

#define FLOOD 10000

START_TEST(connect_and_close)
{
	struct diw_cm_event ev;
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	for (int i = 0; i < FLOOD; i++) {
		fd = dial(&m.addr);
		if (i % 2)
			raw_reset(fd);
		else
			close(fd);
	}
	fd = dial(&m.addr);
	send_frame(fd, false, "00010000");
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	expect_frame(fd, true, "20010000");
	close(fd);
	KIT_UNTIL(listener_info(&m).malformed >= FLOOD / 2);    /* a reset may have removed the others before */
	listener_wait(&m, halfopen, 0);
	ck_assert_uint_le(listener_info(&m).malformed, FLOOD);
	cm_close(&m);
}
END_TEST

/* There are no descriptors for new connections: they wait, without a busy loop, and the existing ones continue. */
START_TEST(no_descriptors)
{
	struct rlimit was, low;
	struct diw_cm_event ev;
	uint64_t woken;
	int fd[2];

	cm_open(&m, DIW_PROGRESS_INLINE, NULL);
	rc_open(&e, &m);
	fd[0] = dial(&m.addr);
	raw_send(fd[0], "MPA ID Re", 9);
	cm_until(m.cm, listener_info(&m).halfopen == 1);
	fd[1] = dial(&m.addr);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
	low = was;
	low.rlim_cur = (rlim_t)fd[1] + 1;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	woken = end_counter(&e, "wakeups");
	cm_expect_none(m.cm, 300);
	ck_assert_uint_lt(end_counter(&e, "wakeups") - woken, 20);
	ck_assert_uint_eq(listener_info(&m).halfopen, 1);
	ck_assert_uint_ge(listener_info(&m).starved, 1);
	ck_assert_uint_le(listener_info(&m).starved, 20);
	raw_send(fd[0], "q Frame\0\1\0\0", 11);
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
	cm_until(m.cm, listener_info(&m).halfopen == 1);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	end_close(&e);
	close(fd[0]);
	close(fd[1]);
	cm_close(&m);
}
END_TEST

/* The initiator goes between the request and the answer. */
START_TEST(requester_gone)
{
	struct diw_cm_event ev;
	int fd;

	cm_open(&m, _i % 2 ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE, NULL);
	rc_open(&e, &m);
	fd = dial(&m.addr);
	send_frame(fd, false, "00010000");
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	if (_i < 2)
		raw_reset(fd);
	else
		close(fd);
	ck_assert_int_eq(diw_accept(ev.req, e.qp, NULL), -ECONNRESET);
	ck_assert_int_eq(diw_cm_destroy(m.cm), -EBUSY);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	ck_assert_uint_eq(listener_info(&m).waiting, 0);
	/* The queue pair is in its initial state. */
	fd = dial(&m.addr);
	send_frame(fd, false, "00010000");
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(ev.req, e.qp, NULL), 0);
	cm_expect(m.cm, &ev, DIW_CM_ESTABLISHED);
	end_close(&e);
	close(fd);
	cm_close(&m);
}
END_TEST

/* The socket of this process that is connected to FD. */
static int other_end(int fd)
{
	struct sockaddr_in mine, its;
	socklen_t len = sizeof mine;

	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&mine, &len), 0);
	for (int other = 3; other < 1024; other++) {
		len = sizeof its;
		if (getpeername(other, (struct sockaddr *)&its, &len) == 0 && len == sizeof its &&
		    its.sin_port == mine.sin_port && its.sin_addr.s_addr == mine.sin_addr.s_addr)
			return other;
	}
	ck_abort_msg("no such socket");
}

static int option(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	ck_assert_int_eq(getsockopt(fd, level, name, &v, &len), 0);
	return v;
}

/* Keep-alive and DSCP belong to the connection, at initiator and responder. */
START_TEST(packets)
{
	struct diw_conn_attr a;
	struct diw_cm_event ev;
	struct diw_addr hand;
	int fd, s, lfd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	rc_open(&e, &m);
	plain_attr(&a);
	a.keepalive_s = 7;
	a.dscp = 46;
	if (_i) {
		lfd = raw_listen(&hand, 5);
		ck_assert_int_eq(diw_connect(e.qp, m.cm, &hand, &a), 0);
		fd = raw_accept(lfd);
		close(lfd);
	} else {
		fd = dial(&m.addr);
		send_frame(fd, false, "00010000");
		cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
		ck_assert_int_eq(option(other_end(fd), SOL_SOCKET, SO_KEEPALIVE), 0);
		ck_assert_int_eq(diw_accept(ev.req, e.qp, &a), 0);
	}
	s = other_end(fd);
	ck_assert_int_eq(option(s, SOL_SOCKET, SO_KEEPALIVE), 1);
	ck_assert_int_eq(option(s, IPPROTO_TCP, TCP_KEEPIDLE), 7);
	ck_assert_int_eq(option(s, IPPROTO_TCP, TCP_KEEPINTVL), 7);
	ck_assert_int_eq(option(s, IPPROTO_TCP, TCP_KEEPCNT), 2);
	ck_assert_int_eq(option(s, IPPROTO_TCP, TCP_USER_TIMEOUT), 21000);
	ck_assert_int_eq(option(s, IPPROTO_IP, IP_TOS), 46 << 2);
	end_close(&e);
	close(fd);
	cm_close(&m);
}
END_TEST

/* An accepted queue pair whose peer has not sent its ready-to-receive message is still an attempt. */
START_TEST(abort_before_ready)
{
	struct diw_cm_event ev;
	struct end e;
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	rc_open(&e, &m);
	fd = dial(&m.addr);
	send_frame(fd, false, "1002000480048004");
	cm_expect(m.cm, &ev, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_accept(ev.req, e.qp, NULL), 0);
	ck_assert_int_eq(readable(fd, KIT_LIMIT_MS), 1);
	ck_assert_int_eq(diw_abort(e.qp), 0);
	cm_expect_none(m.cm, 20);
	ck_assert_int_eq(diw_qp_reset(e.qp), 0);
	end_close(&e);
	close(fd);
	cm_close(&m);
}
END_TEST

Suite *suite_cm_peer(void)
{
	Suite *s = suite_create("cm_peer");
	TCase *tc = tcase_create("cm_peer");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, reply_bytes, 0, sizeof replies / sizeof *replies);
	tcase_add_test(tc, no_request);
	tcase_add_test(tc, request_in_pieces);
	tcase_add_test(tc, trickle);
	tcase_add_test(tc, unanswered);
	tcase_add_loop_test(tc, refusal_stays, 0, 2);
	tcase_add_test(tc, refused_limit);
	tcase_add_test(tc, halfopen_limit);
	tcase_add_test(tc, halfopen_quarter);
	tcase_add_test(tc, evicted_with_event);
	tcase_add_test(tc, backlog);
	tcase_add_test(tc, connect_and_close);
	tcase_add_test(tc, no_descriptors);
	tcase_add_loop_test(tc, requester_gone, 0, 4);
	tcase_add_test(tc, abort_before_ready);
	tcase_add_loop_test(tc, packets, 0, 2);
	suite_add_tcase(s, tc);
	return s;
}
