/* SPDX-License-Identifier: BSD-2-Clause */
/* llp/tcp.c: listen, connect, errors, blocked sends, and a link over a TCP connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "llp/stream.h"
#include "tests/unit/mpa_kit.h"
#include "tests/unit/unit.h"

static struct diw_stream_listener *l;
static struct diw_stream *a, *b;             /* a connected, b accepted */

static struct diw_addr addr(const char *text, uint16_t port)
{
	struct diw_addr to = { .ip = { [10] = 0xff, 0xff }, .port = port };

	if (strchr(text, ':'))
		ck_assert_int_eq(inet_pton(AF_INET6, text, to.ip), 1);
	else
		ck_assert_int_eq(inet_pton(AF_INET, text, to.ip + 12), 1);
	return to;
}

static void wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	ck_assert_int_eq(poll(&p, 1, 30000), 1);
}

static void meet(const struct diw_stream_attr *to)
{
	ck_assert_int_eq(diw_tcp_connect(to, &a), 0);
	wait_for(a->ops->fd(a), POLLOUT);
	ck_assert_int_eq(a->ops->connected(a), 0);
	wait_for(l->ops->fd(l), POLLIN);
	ck_assert_int_eq(l->ops->accept(l, &b), 0);
	ck_assert(diw_addr_eq(&a->local, &b->peer));
	ck_assert(diw_addr_eq(&a->peer, &b->local));
	ck_assert(diw_addr_eq(&a->peer, &to->peer));
}

static void open_pair(const char *listen, const char *to)
{
	struct diw_stream_attr attr = { .local = addr(listen, 0) };

	ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
	ck_assert_uint_ne(l->local.port, 0);
	ck_assert_int_eq(memcmp(l->local.ip, attr.local.ip, 16), 0);
	ck_assert_int_eq(l->ops->accept(l, &b), -EAGAIN);
	meet(&(struct diw_stream_attr){ .peer = addr(to, l->local.port) });
}

static void close_pair(void)
{
	a->ops->close(a, false);
	b->ops->close(b, false);
	l->ops->close(l);
}

static ssize_t send1(struct diw_stream *s, const void *p, size_t len)
{
	return s->ops->send(s, &(struct iovec){ (void *)p, len }, 1);
}

static ssize_t recv1(struct diw_stream *s, void *p, size_t len)
{
	wait_for(s->ops->fd(s), POLLIN);
	return s->ops->recv(s, &(struct iovec){ p, len }, 1);
}

static int option(struct diw_stream *s, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	ck_assert_int_eq(getsockopt(s->ops->fd(s), level, name, &v, &len), 0);
	return v;
}

static void both_ways(void)
{
	const struct iovec out[3] = { { "one", 3 }, { "", 0 }, { "and two", 7 } };
	char x[4], y[20];
	const struct iovec in[2] = { { x, 4 }, { y, 20 } };

	ck_assert_int_eq(b->ops->recv(b, in, 2), -EAGAIN);
	ck_assert_int_eq(b->ops->recv(b, in, 1), -EAGAIN);
	ck_assert_int_eq(a->ops->send(a, out, 3), 10);
	wait_for(b->ops->fd(b), POLLIN);
	ck_assert_int_eq(b->ops->recv(b, in, 2), 10);
	ck_assert_int_eq(memcmp(x, "onea", 4), 0);
	ck_assert_int_eq(memcmp(y, "nd two", 6), 0);
	ck_assert_int_eq(send1(b, "back", 4), 4);
	ck_assert_int_eq(recv1(a, y, 20), 4);
	ck_assert_int_eq(memcmp(y, "back", 4), 0);
}

/* IPv4; IPv6, or the reason why not; the wildcard, by both. */
START_TEST(families)
{
	static const char *const listen[] = { "127.0.0.1", "::1", "::", "::" }, *const to[] = { "127.0.0.1", "::1",
						"127.0.0.1", "::1" };

	open_pair(listen[_i], to[_i]);
	both_ways();
	ck_assert_int_eq(option(a, IPPROTO_TCP, TCP_NODELAY), 1);
	ck_assert_int_eq(option(b, IPPROTO_TCP, TCP_NODELAY), 1);
	ck_assert_uint_gt(a->ops->emss(a), 535);
	ck_assert_uint_lt(a->ops->emss(a), 65536);
	close_pair();
}
END_TEST

START_TEST(one_family_only)
{
	struct diw_stream_attr attr = { .local = addr("::1", 0) };

	ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
	attr.peer = addr("127.0.0.1", l->local.port);
	ck_assert_int_eq(diw_tcp_connect(&attr, &a), -EAFNOSUPPORT);
	l->ops->close(l);
}
END_TEST

START_TEST(refused)
{
	struct diw_stream_attr attr = { .local = addr("127.0.0.1", 0) };
	int err;

	ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
	attr.peer = l->local;
	l->ops->close(l);
	err = diw_tcp_connect(&attr, &a);
	if (!err) {
		wait_for(a->ops->fd(a), POLLOUT);
		err = a->ops->connected(a);
		a->ops->close(a, false);
	}
	ck_assert_int_eq(err, -ECONNREFUSED);
}
END_TEST

/* No answer comes: the queue of a listener that does not accept is full. */
START_TEST(not_yet)
{
	struct diw_stream_attr attr = { .local = addr("127.0.0.1", 0), .backlog = 1 };
	struct diw_stream *s[8];
	int waiting = 0;

	ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
	attr = (struct diw_stream_attr){ .peer = l->local };
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(diw_tcp_connect(&attr, &s[i]), 0);
	usleep(50000);
	for (int i = 0; i < 8; i++) {
		int err = s[i]->ops->connected(s[i]);

		ck_assert(err == 0 || err == -EAGAIN);
		waiting += err == -EAGAIN;
		s[i]->ops->close(s[i], true);
	}
	ck_assert_int_gt(waiting, 0);
	l->ops->close(l);
}
END_TEST

START_TEST(misuse)
{
	struct diw_stream_attr attr = { .peer = addr("127.0.0.1", 0) };

	ck_assert_int_eq(diw_tcp_connect(&attr, &a), -EINVAL);
	attr.peer = addr("::", 5);
	ck_assert_int_eq(diw_tcp_connect(&attr, &a), -EINVAL);
	attr.peer = addr("224.0.0.1", 5);
	ck_assert_int_eq(diw_tcp_connect(&attr, &a), -EINVAL);
	attr.local = addr("224.0.0.1", 5);
	ck_assert_int_eq(diw_tcp_listen(&attr, &l), -EINVAL);
	attr.local = addr("192.0.2.77", 0);
	ck_assert_int_eq(diw_tcp_listen(&attr, &l), -EADDRNOTAVAIL);
}
END_TEST

START_TEST(port_in_use)
{
	struct diw_stream_attr attr = { .local = addr("127.0.0.1", 0) };
	struct diw_stream_listener *second;

	ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
	attr.local = l->local;
	ck_assert_int_eq(diw_tcp_listen(&attr, &second), -EADDRINUSE);
	/* Connections of an earlier listener do not prevent the next one on its port. */
	attr.peer = l->local;
	attr.local = addr("127.0.0.1", 0);
	meet(&attr);
	b->ops->close(b, false);
	ck_assert_int_eq(recv1(a, &(char){ 0 }, 1), 0);
	a->ops->close(a, false);
	l->ops->close(l);
	attr.local = attr.peer;
	ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
	l->ops->close(l);
}
END_TEST

START_TEST(from_an_address)
{
	struct diw_stream_attr attr = { .local = addr("127.0.0.1", 0) };

	ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
	attr = (struct diw_stream_attr){ .local = addr("127.0.0.9", 0), .peer = l->local };
	meet(&attr);
	ck_assert_int_eq(memcmp(b->peer.ip, attr.local.ip, 16), 0);
	close_pair();
}
END_TEST

START_TEST(half_close)
{
	char x[8];

	open_pair("127.0.0.1", "127.0.0.1");
	ck_assert_int_eq(send1(a, "last", 4), 4);
	a->ops->shutdown(a);
	ck_assert_int_eq(recv1(b, x, 8), 4);
	ck_assert_int_eq(recv1(b, x, 8), 0);
	ck_assert_int_eq(recv1(b, x, 8), 0);
	ck_assert_int_eq(send1(b, "still", 5), 5);
	ck_assert_int_eq(recv1(a, x, 8), 5);
	ck_assert_int_eq(send1(a, "x", 1), -EPIPE);      /* and no signal */
	close_pair();
}
END_TEST

START_TEST(reset)
{
	char x[8];

	open_pair("127.0.0.1", "127.0.0.1");
	ck_assert_int_eq(send1(a, "lost?", 5), 5);
	a->ops->close(a, true);
	/* Data that came before the reset can be read. */
	ck_assert_int_eq(recv1(b, x, 8), 5);
	ck_assert_int_eq(recv1(b, x, 8), -ECONNRESET);
	ck_assert_int_eq(send1(b, "x", 1), -EPIPE);
	b->ops->close(b, false);
	l->ops->close(l);
}
END_TEST

START_TEST(close_sends_the_rest)
{
	static char out[4 << 20], in[4 << 20];
	size_t sent = 0, got = 0;
	ssize_t n;

	open_pair("127.0.0.1", "127.0.0.1");
	while ((n = send1(a, out, sizeof out)) > 0)
		sent += (size_t)n;
	ck_assert_int_eq(n, -EAGAIN);
	a->ops->close(a, false);
	while ((n = recv1(b, in, sizeof in)) > 0)
		got += (size_t)n;
	ck_assert_int_eq(n, 0);
	ck_assert_uint_eq(got, sent);
	b->ops->close(b, false);
	l->ops->close(l);
}
END_TEST

START_TEST(options)
{
	struct diw_stream_attr attr = { .local = addr("::", 0), .keepalive = true, .keepalive_idle = 11,
					.keepalive_interval = 7, .keepalive_count = 3, .user_timeout_ms = 9000,
					.tos = 0x20 };
	bool v6 = _i;

	ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
	attr.peer = addr(v6 ? "::1" : "127.0.0.1", l->local.port);
	meet(&attr);
	for (int i = 0; i < 2; i++) {
		struct diw_stream *s = i ? b : a;

		ck_assert_int_eq(option(s, SOL_SOCKET, SO_KEEPALIVE), 1);
		ck_assert_int_eq(option(s, IPPROTO_TCP, TCP_KEEPIDLE), 11);
		ck_assert_int_eq(option(s, IPPROTO_TCP, TCP_KEEPINTVL), 7);
		ck_assert_int_eq(option(s, IPPROTO_TCP, TCP_KEEPCNT), 3);
		ck_assert_int_eq(option(s, IPPROTO_TCP, TCP_USER_TIMEOUT), 9000);
		ck_assert_int_eq(option(s, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TCLASS : IP_TOS), 0x20);
	}
	close_pair();
}
END_TEST

static uint32_t data_segments(struct diw_stream *s)
{
	struct tcp_info i;
	socklen_t len = sizeof i;

	ck_assert_int_eq(getsockopt(s->ops->fd(s), IPPROTO_TCP, TCP_INFO, &i, &len), 0);
	ck_assert_uint_ge(len, offsetof(struct tcp_info, tcpi_data_segs_out) + sizeof i.tcpi_data_segs_out);
	return i.tcpi_data_segs_out;
}

/* The number of segments in which eight sends leave that wait for each other. */
static uint32_t corked(void)
{
	const int on = 1, off = 0;
	uint32_t before = data_segments(a);
	char x[400];

	ck_assert_int_eq(setsockopt(a->ops->fd(a), IPPROTO_TCP, TCP_CORK, &on, sizeof on), 0);
	for (int i = 0; i < 8; i++) {
		const struct iovec two[2] = { { "01234", 5 }, { "56789", 5 } };

		ck_assert_int_eq(i % 2 ? send1(a, "0123456789", 10) : a->ops->send(a, two, 2), 10);
	}
	ck_assert_int_eq(setsockopt(a->ops->fd(a), IPPROTO_TCP, TCP_CORK, &off, sizeof off), 0);
	for (ssize_t got = 0; got < 80;)
		got += recv1(b, x, sizeof x);
	return data_segments(a) - before;
}

/* Bytes of two sends share no packet if the owner wants them apart, even if they wait for each other. */
START_TEST(apart)
{
	uint32_t want = _i ? 8 : 1, segments = 0;

	open_pair("127.0.0.1", "127.0.0.1");
	a->apart = _i;
	for (int i = 0; i < 10 && segments != want; i++)        /* corked data leaves after 200 ms in any case */
		segments = corked();
	ck_assert_uint_eq(segments, want);
	close_pair();
}
END_TEST

/* A link at each end, over a TCP connection. */
START_TEST(links_over_it)
{
	struct mkit k[2];
	struct ref r;
	int sent = 0;

	mkit_begin();
	open_pair("127.0.0.1", "127.0.0.1");
	ref_init(&r, false, true);
	for (int i = 0; i < 2; i++) {
		int fd[DIW_DGRAM_FDS];

		mkit_init(&k[i]);             /* only the common part of a stream is used of the fake */
		fake_stream_free(k[i].f);
		k[i].f = (struct fake_stream *)(i ? b : a);
		k[i].attr.stream = i ? b : a;
		mkit_open(&k[i]);
		ck_assert_int_eq(k[i].l->ops->fds(k[i].l, fd), 1);
		ck_assert_int_eq(fd[0], a->ops->fd(i ? b : a));
	}
	while (k[1].n < 2000) {
		uint32_t len = sent % 50 ? (uint32_t)sent % 700 : 40000;

		if (sent < 2000 && mkit_send(&k[0], mkit_bytes + r.n * 97 % 65536, len)) {
			ref_noise(&r, len);
			sent++;
		} else {
			k[0].l->ops->flush(k[0].l, KIT_NOW);
			k[1].l->ops->poll(k[1].l, 4, KIT_NOW);
		}
	}
	mkit_got(&k[1], &r, 2000);
	k[0].l->ops->shutdown(k[0].l, KIT_NOW);
	wait_for(b->ops->fd(b), POLLIN);
	mkit_poll(&k[1]);
	ck_assert_int_eq(k[1].downs, 1);
	ck_assert_uint_eq(k[1].fault, 0);
	k[1].l->ops->close(k[1].l);
	/* That end was not shut down, so the other end sees a reset. */
	wait_for(a->ops->fd(a), POLLIN);
	mkit_poll(&k[0]);
	ck_assert_int_eq(k[0].err, ECONNRESET);
	k[0].l->ops->close(k[0].l);
	l->ops->close(l);
	for (int i = 0; i < 2; i++) {
		free(k[i].got);
		free(k[i].len);
	}
	ref_fini(&r);
	mkit_end();
}
END_TEST

/* The peer is a listener of this library, at exactly this address. */
START_TEST(near)
{
	static const struct { const char *listen, *to; bool v6only; } cases[] = {
		{ "127.0.0.1", "127.0.0.1", false }, { "127.0.0.2", "127.0.0.2", false }, { "::1", "::1", false },
		{ "::", "127.0.0.1", false }, { "::", "::1", false }, { "::", "::1", true },
	};
	struct diw_addr at, other;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct diw_stream_attr attr = { .local = addr(cases[i].listen, 0), .v6only = cases[i].v6only };

		ck_assert_int_eq(diw_tcp_listen(&attr, &l), 0);
		at = addr(cases[i].to, l->local.port);
		meet(&(struct diw_stream_attr){ .peer = at });
		ck_assert(a->near);
		ck_assert(b->near);
		other = addr(cases[i].v6only ? "127.0.0.1" : "127.0.0.3", l->local.port);
		ck_assert_int_eq(diw_mark_is_there(&other), !cases[i].v6only && !strcmp(cases[i].listen, "::"));
		close_pair();
		ck_assert(!diw_mark_is_there(&at));
	}
}
END_TEST

/* The listener may be a program that forwards the stream to another host. */
START_TEST(near_a_stranger)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof in;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct diw_stream_attr attr = { .peer = addr("127.0.0.1", 0) };

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, len), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	attr.peer.port = ntohs(in.sin_port);
	ck_assert_int_eq(diw_tcp_connect(&attr, &a), 0);
	wait_for(a->ops->fd(a), POLLOUT);
	ck_assert_int_eq(a->ops->connected(a), 0);
	ck_assert(!a->near);
	a->ops->close(a, true);
	close(fd);
}
END_TEST

Suite *suite_tcp(void)
{
	Suite *s = suite_create("tcp");
	TCase *t = tcase_create("sockets");

	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, families, 0, 4);
	tcase_add_test(t, one_family_only);
	tcase_add_test(t, refused);
	tcase_add_test(t, not_yet);
	tcase_add_test(t, misuse);
	tcase_add_test(t, port_in_use);
	tcase_add_test(t, from_an_address);
	tcase_add_test(t, half_close);
	tcase_add_test(t, reset);
	tcase_add_test(t, close_sends_the_rest);
	tcase_add_loop_test(t, options, 0, 2);
	tcase_add_loop_test(t, apart, 0, 2);
	tcase_add_test(t, near);
	tcase_add_test(t, near_a_stranger);
	tcase_add_test(t, links_over_it);
	suite_add_tcase(s, t);
	return s;
}
