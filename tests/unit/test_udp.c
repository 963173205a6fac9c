/* SPDX-License-Identifier: BSD-2-Clause */
/* llp/udp*.c on lo: bursts, with and without GSO and GRO, path MTU, and refusals of the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/param.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "llp/dgram.h"
#include "llp/udp.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"

/* ---- Helpers ---- */

static struct diw_counters ca, cb;
static struct diw_dgram *a, *b;
static int (*open_dgram)(const struct diw_dgram_attr *attr, struct diw_dgram **d);

static struct diw_addr loopback(bool v6, uint8_t last)
{
	struct diw_addr l = { .ip = { [15] = 1 } };

	if (!v6)
		l = (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = last } };
	return l;
}

static struct diw_dgram *open_at(struct diw_addr local, bool any, const struct diw_addr *peer, struct diw_counters *c)
{
	struct diw_dgram_attr attr = { .local = local, .any = any, .mtu = 65536, .rcvbuf = 1 << 20, .c = c };
	struct diw_dgram *d;

	if (peer)
		attr.peer = *peer;
	ck_assert_int_eq(open_dgram(&attr, &d), 0);
	return d;
}

static void open_pair(bool v6)
{
	a = open_at(loopback(v6, 1), false, NULL, &ca);
	b = open_at(loopback(v6, 1), false, NULL, &cb);
}

static void close_pair(void)
{
	kernel_refuse = NULL;
	kernel_mtu = 0;
	a->ops->close(a);
	b->ops->close(b);
}

static void setup(void)
{
	memset(&ca, 0, sizeof ca);
	memset(&cb, 0, sizeof cb);
	kernel_sends = 0;
}

static uint8_t out[1 << 17];
static struct iovec out_iov[4096];

/* LEN bytes that depend on their position, in pieces of PIECE bytes. */
static struct diw_dgram_burst make(const struct diw_addr *to, uint32_t len, uint32_t seg, uint32_t piece)
{
	static uint32_t salt;
	int n = 0;

	salt += 12345;
	for (uint32_t i = 0; i + 4 <= sizeof out; i += 4)
		memcpy(out + i, &(uint32_t){ (i + salt) * 2654435761u }, 4);
	for (uint32_t at = 0; at < len; at += piece)
		out_iov[n++] = (struct iovec){ out + at, MIN(piece, len - at) };
	return (struct diw_dgram_burst){ .peer.addr = *to, .iov = out_iov, .niov = n, .len = len, .seg = seg };
}

struct take { uint8_t data[1 << 18]; uint32_t len, datagrams, bursts, longest; struct diw_addr from; };
static struct take got;

/* Receives until WANT bytes have come, or nothing comes for very long. */
static void take_all(struct diw_dgram *d, uint32_t want)
{
	struct diw_dgram_burst r;
	int fd[DIW_DGRAM_FDS], n = d->ops->fds(d, fd);
	struct pollfd p[DIW_DGRAM_FDS];

	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){ fd[i], POLLIN, 0 };
	got.len = got.datagrams = got.bursts = got.longest = 0;
	do {
		while (d->ops->recv(d, &r, 1, 1) == 1) {
			ck_assert_int_eq(r.niov, 1);
			ck_assert_uint_eq(r.iov->iov_len, r.len);
			memcpy(got.data + got.len, r.iov->iov_base, r.len);
			got.len += r.len;
			got.bursts++;
			got.datagrams += r.seg ? (r.len + r.seg - 1) / r.seg : 1;
			got.longest = MAX(got.longest, r.seg);
			got.from = r.peer.addr;
		}
	} while (got.len < want && poll(p, (nfds_t)n, 30000) > 0);
	ck_assert_int_eq(d->ops->recv(d, &r, 1, 1), 0);
}

static void arrives(const struct diw_dgram_burst *t)
{
	take_all(a, t->len);
	ck_assert_uint_eq(got.len, t->len);
	ck_assert_mem_eq(got.data, out, t->len);
	ck_assert_uint_eq(got.datagrams, (t->len + t->seg - 1) / t->seg);
	ck_assert_uint_eq(got.longest, t->seg);
}

/* ---- The kernel of this host ---- */

START_TEST(bursts_arrive)
{
	static const char *const env[] = { "all", "none", "gso", "gro" };
	static const uint32_t shape[][3] = {         /* bytes; bytes of each datagram; bytes of each piece of memory */
		{ 1, 1, 1 }, { 64, 64, 64 }, { 6400, 64, 6400 }, { 128 * 64, 64, 11 }, { 5000, 1452, 999 },
		{ 44 * 1472, 1472, 44 * 1472 }, { 65200, 8000, 333 }, { 65000, 65000, 4096 }, { 3001, 1000, 3001 },
		{ 65507, 65507, 65507 },
	};
	bool v6 = _i & 1, many;

	setenv("DIWARP_OFFLOAD", env[_i / 2], 1);
	open_pair(v6);
	many = diw_udp_offload().gso && diw_udp_offload().gro;
	ck_assert(!(_i / 2 == 1 || _i / 2 == 3) || !diw_udp_offload().gso);
	ck_assert(!(_i / 2 == 1 || _i / 2 == 2) || !diw_udp_offload().gro);
	ck_assert_uint_ge(a->rcvbuf, 65536);
	ck_assert_uint_ne(a->local.port, 0);
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
		struct diw_dgram_burst t = make(&a->local, shape[i][0], shape[i][1], shape[i][2]);
		uint64_t bursts = cb.tx_bursts, datagrams = cb.tx_datagrams;
		uint32_t n = (t.len + t.seg - 1) / t.seg;

		ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
		arrives(&t);
		ck_assert(diw_addr_eq(&got.from, &b->local));
		ck_assert_uint_eq(cb.tx_datagrams - datagrams, n);
		ck_assert_uint_eq(cb.tx_bursts - bursts, diw_udp_offload().gso ? 1 : n);
		ck_assert_uint_eq(got.bursts, many ? 1 : n);
	}
	ck_assert_uint_eq(ca.rx_bytes, cb.tx_bytes);
	ck_assert_uint_eq(ca.rx_datagrams, cb.tx_datagrams);
	ck_assert_uint_eq(cb.tx_error + cb.tx_blocked + ca.rx_truncated, 0);
	close_pair();
}
END_TEST

START_TEST(several_bursts_a_call)
{
	struct diw_dgram_burst t[3];
	struct diw_dgram *c;

	open_pair(false);
	c = open_at(loopback(false, 1), false, NULL, &ca);
	t[0] = make(&a->local, 3000, 1000, 3000);
	t[1] = t[2] = t[0];
	t[1].peer.addr = c->local;
	ck_assert_int_eq(b->ops->send(b, t, 3, 1), 3);
	take_all(a, 6000);
	ck_assert_uint_eq(got.datagrams, 6);
	take_all(c, 3000);
	ck_assert_uint_eq(got.datagrams, 3);
	c->ops->close(c);
	close_pair();
}
END_TEST

START_TEST(empty_datagram)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_storage ss;
	struct diw_dgram_burst r;
	socklen_t len;

	open_pair(false);
	len = diw_addr_to_sockaddr(&a->local, &ss);
	ck_assert_int_eq(sendto(fd, "", 0, 0, (struct sockaddr *)&ss, len), 0);
	for (int i = 0; i < 30000 && a->ops->recv(a, &r, 1, 1) == 0; i++)
		usleep(1000);
	ck_assert_uint_eq(r.len + r.seg, 0);
	ck_assert_uint_eq(ca.rx_datagrams, 1);
	close(fd);
	close_pair();
}
END_TEST

START_TEST(connected)
{
	struct diw_addr nobody, peer;
	struct diw_dgram *c;
	struct diw_dgram_burst t, r;

	open_pair(false);
	nobody = b->local;
	c = open_at(loopback(false, 1), false, &a->local, &cb);
	t = make(&c->local, 3000, 1000, 3000);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);      /* a stranger */
	take_all(c, 0);
	ck_assert_uint_eq(got.len, 0);
	ck_assert_int_eq(a->ops->send(a, &t, 1, 1), 1);      /* the peer */
	take_all(c, 3000);
	ck_assert_uint_eq(got.len, 3000);
	ck_assert(diw_addr_eq(&got.from, &a->local));
	t.peer.addr = a->local;
	ck_assert_int_eq(c->ops->send(c, &t, 1, 1), 1);
	take_all(a, 3000);
	ck_assert_uint_eq(got.len, 3000);
	/* The peer is closed and opened again at the same port: datagrams sent meanwhile are not refused; ICMP reports
	 * them. */
	peer = a->local;
	a->ops->close(a);
	for (int i = 0; i < 6; i++) {
		ck_assert_int_eq(c->ops->send(c, &t, 1, 1), 1);
		if (i & 1)
			ck_assert_int_eq(c->ops->recv(c, &r, 1, 1), 0);
	}
	ck_assert_int_eq(c->state->tx_errno, ECONNREFUSED);
	ck_assert(c->state->tx_icmp && diw_addr_eq(&c->state->tx_errpeer, &peer));
	ck_assert_uint_gt(cb.tx_error, 0);
	a = open_at(peer, false, NULL, &ca);
	ck_assert_int_eq(c->ops->send(c, &t, 1, 1), 1);
	take_all(a, 3000);
	ck_assert_uint_eq(got.len, 3000);
	ck_assert(!diw_addr_eq(&got.from, &nobody));
	c->ops->close(c);
	close_pair();
}
END_TEST

/* A wildcard socket answers from the address that was asked, of either family. */
START_TEST(answers_from_where_it_was_asked)
{
	struct diw_counters cs = { 0 };
	struct diw_addr none = { .port = 0 }, to;
	struct diw_dgram *s = open_at(none, true, NULL, &cs), *c6;
	struct diw_dgram_burst t;

	ck_assert(diw_addr_ip_is_zero(&s->local));
	open_pair(false);
	for (int round = 0; round < 3; round++)
		for (int who = 0; who < 2; who++) {
			struct diw_dgram *c = who ? b : a;

			to = loopback(false, (uint8_t)(2 + who + round));
			to.port = s->local.port;
			t = make(&to, 100, 100, 100);
			ck_assert_int_eq(c->ops->send(c, &t, 1, 1), 1);
			take_all(s, 100);
			ck_assert_uint_eq(got.len, 100);
			ck_assert(diw_addr_eq(&got.from, &c->local));
			t = make(&c->local, round == 1 ? 100 : 3100, round == 1 ? 100 : 1000, 500);
			ck_assert_int_eq(s->ops->send(s, &t, 1, 1), 1);
			take_all(c, t.len);
			ck_assert_uint_eq(got.len, t.len);
			ck_assert(diw_addr_eq(&got.from, &to));
		}
	c6 = open_at(loopback(true, 1), false, NULL, &cb);
	to = c6->local;
	to.port = s->local.port;
	t = make(&to, 2100, 1000, 2100);
	ck_assert_int_eq(c6->ops->send(c6, &t, 1, 1), 1);
	take_all(s, 2100);
	ck_assert(diw_addr_eq(&got.from, &c6->local));
	t = make(&c6->local, 2100, 1000, 2100);
	ck_assert_int_eq(s->ops->send(s, &t, 1, 1), 1);
	take_all(c6, 2100);
	ck_assert_uint_eq(got.len, 2100);
	ck_assert(diw_addr_eq(&got.from, &to));
	ck_assert_uint_eq(cs.tx_error, 0);
	c6->ops->close(c6);
	s->ops->close(s);
	close_pair();
}
END_TEST

START_TEST(opening)
{
	struct diw_dgram_attr attr = { .mtu = 1500, .c = &ca };
	struct diw_addr v4 = loopback(false, 9), v6 = loopback(true, 1);
	socklen_t len = sizeof(int);
	struct diw_dgram *d, *e;
	int fd[DIW_DGRAM_FDS], on = 0;

	ck_assert_int_eq(open_dgram(&attr, &d), -EINVAL);          /* the zero address needs `any` */
	attr.local = (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 224, [15] = 1 } };
	ck_assert_int_eq(open_dgram(&attr, &d), -EINVAL);
	attr.local = (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 192, 0, 2, 1 } };
	ck_assert_int_eq(open_dgram(&attr, &d), -EADDRNOTAVAIL);
	attr.local = loopback(false, 1);
	attr.broadcast = true;
	ck_assert_int_eq(open_dgram(&attr, &d), 0);
	ck_assert_int_eq(d->ops->fds(d, fd), 1 + (open_dgram == diw_uring_open));
	ck_assert_int_eq(getsockopt(fd[0], SOL_SOCKET, SO_BROADCAST, &on, &len), 0);
	ck_assert_int_eq(on, 1);
	ck_assert_int_ne(fcntl(fd[0], F_GETFL) & O_NONBLOCK, 0);
	ck_assert_int_ne(fcntl(fd[0], F_GETFD) & FD_CLOEXEC, 0);
	ck_assert_uint_eq(d->ops->mtu(d, &v4), 1472);
	ck_assert_uint_eq(d->ops->mtu(d, &v6), 1452);
	ck_assert_uint_eq(d->ops->deadline(d), DIW_NEVER);
	attr.local = d->local;
	ck_assert_int_eq(open_dgram(&attr, &e), -EADDRINUSE);
	d->ops->close(d);
	ck_assert_int_eq(fcntl(fd[0], F_GETFD), -1);
	attr.mtu = 65536;
	ck_assert_int_eq(open_dgram(&attr, &d), 0);                /* the port is free again */
	ck_assert_uint_eq(d->ops->mtu(d, &v4), DIW_DGRAM_MAX);
	ck_assert_uint_eq(d->ops->mtu(d, &v6), 65536 - 48);
	d->ops->close(d);
}
END_TEST

/* ---- Refusals ---- */

static int salt_of_refusal;

static int refuse_at_random(const struct msghdr *m, int call)
{
	struct diw_rng r = { (uint64_t)call * 31 + (uint64_t)salt_of_refusal };

	(void)m;
	return diw_rng_chance(&r, 0.3) ? (int[]){ EAGAIN, ENOBUFS, EINTR }[call % 3] : 0;
}

/* Datagram by datagram, with a socket that fills up at any place: none is lost or duplicated, and the order is kept. */
START_TEST(blocked_anywhere)
{
	static uint8_t sent[1 << 18];
	uint32_t len = 0;
	int blocked = 0;

	setenv("DIWARP_OFFLOAD", _i & 1 ? "none" : "all", 1);
	open_pair(false);
	salt_of_refusal = _i;
	kernel_refuse = refuse_at_random;
	for (int i = 0; i < 60; i++) {
		struct diw_dgram_burst t = make(&a->local, 40 * 50 + 17, 50, 33);
		int rc = b->ops->send(b, &t, 1, 1);

		ck_assert(rc == 1 || rc == -EAGAIN);
		blocked += rc != 1;
		if (rc == 1) {
			memcpy(sent + len, out, t.len);
			len += t.len;
		}
	}
	/* The rest of the last burst is sent when the dgram is called to receive, as it has requested. */
	for (int i = 0; i < 100 && b->ops->deadline(b) != DIW_NEVER; i++)
		take_all(b, 0);
	ck_assert_uint_eq(b->ops->deadline(b), DIW_NEVER);
	take_all(a, len);
	ck_assert_uint_eq(got.len, len);
	ck_assert_mem_eq(got.data, sent, len);
	ck_assert_int_gt(blocked, 0);
	ck_assert_uint_ge(cb.tx_blocked, blocked);
	ck_assert_uint_eq(cb.tx_error, 0);
	close_pair();
}
END_TEST

static int refuse_errno;

static int refuse_gso(const struct msghdr *m, int call)
{
	(void)call;
	return kernel_gso_of(m) ? refuse_errno : 0;
}

static int refuse_more_than_64(const struct msghdr *m, int call)
{
	(void)call;
	return kernel_gso_of(m) && kernel_bytes_of(m) > 64 * kernel_gso_of(m) ? EINVAL : 0;
}

static int refuse_gso_over_mtu(const struct msghdr *m, int call)
{
	(void)call;
	return kernel_gso_of(m) > 1272 ? refuse_errno : 0;
}

static int refuse_all(const struct msghdr *m, int call)
{
	(void)m;
	(void)call;
	return refuse_errno;
}

/* A device without checksum offload: EIO. An unexpected error: EINVAL. After one refusal, no super-buffer is tried. */
START_TEST(super_buffers_refused)
{
	struct diw_dgram_burst t;

	open_pair(false);
	kernel_refuse = refuse_gso;
	refuse_errno = _i ? EINVAL : EIO;
	t = make(&a->local, 20 * 100 + 7, 100, 44);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	arrives(&t);
	kernel_sends = 0;
	t = make(&a->local, 20 * 100 + 7, 100, 44);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	ck_assert_int_eq(kernel_sends, 21);
	arrives(&t);
	ck_assert_uint_eq(cb.tx_error, 0);
	ck_assert_int_eq(b->state->tx_errno, 0);
	ck_assert(!b->state->mtu_changed);
	close_pair();
}
END_TEST

START_TEST(old_kernel_takes_64)
{
	struct diw_dgram_burst t;

	open_pair(false);
	kernel_refuse = refuse_more_than_64;
	for (int i = 0; i < 2; i++) {
		kernel_sends = 0;
		t = make(&a->local, 120 * 100 + 7, 100, 1000);
		ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
		ck_assert_int_eq(kernel_sends, i ? 2 : 3);
		arrives(&t);
	}
	ck_assert_uint_eq(cb.tx_error, 0);
	close_pair();
}
END_TEST

START_TEST(path_mtu_shrinks)
{
	static const int errs[] = { EMSGSIZE, EINVAL };
	struct diw_addr other = loopback(false, 7);
	struct diw_dgram_burst t;

	open_pair(false);
	kernel_refuse = refuse_gso_over_mtu;
	refuse_errno = errs[_i];
	kernel_mtu = 1300;
	t = make(&a->local, 10 * 1400, 1400, 14000);
	ck_assert_int_eq(b->ops->send(b, &t, 1, DIW_S), 1);
	arrives(&t);
	ck_assert_uint_eq(cb.tx_emsgsize, 1);
	ck_assert_uint_eq(cb.tx_error, 0);
	ck_assert(b->state->mtu_changed);
	ck_assert_uint_eq(b->ops->mtu(b, &a->local), 1272);
	ck_assert_uint_eq(b->ops->mtu(b, &other), DIW_DGRAM_MAX);
	/* A size that was too large is not tried again; a smaller one is sent as a super-buffer. */
	kernel_sends = 0;
	ck_assert_int_eq(b->ops->send(b, &t, 1, 2 * DIW_S), 1);
	ck_assert_int_eq(kernel_sends, 10);
	arrives(&t);
	kernel_sends = 0;
	t = make(&a->local, 10 * 1272, 1272, 12720);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 2 * DIW_S), 1);
	ck_assert_int_eq(kernel_sends, 1);
	arrives(&t);
	ck_assert_uint_eq(cb.tx_emsgsize, 1);
	/* Ten minutes later it is forgotten. */
	ck_assert_int_eq(b->ops->send(b, &t, 0, 600 * DIW_S), 0);
	ck_assert_uint_eq(b->ops->mtu(b, &a->local), 1272);
	ck_assert_int_eq(b->ops->send(b, &t, 0, 601 * DIW_S + 1), 0);
	ck_assert_uint_eq(b->ops->mtu(b, &a->local), DIW_DGRAM_MAX);
	close_pair();
}
END_TEST

START_TEST(refused_for_good)
{
	struct diw_dgram_burst t;

	open_pair(false);
	kernel_refuse = refuse_all;
	refuse_errno = EPERM;
	t = make(&a->local, 10 * 100 + 1, 100, 100);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	ck_assert_uint_eq(cb.tx_error, 11);
	ck_assert_int_eq(b->state->tx_errno, EPERM);
	ck_assert_uint_eq(cb.tx_datagrams, 0);
	kernel_refuse = NULL;
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	arrives(&t);
	/* There is no route: the kernel itself refuses. */
	t.peer.addr = (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 255, 255, 255, 255 }, .port = 9 };
	b->state->tx_errno = 0;
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	ck_assert_int_ne(b->state->tx_errno, 0);
	close_pair();
}
END_TEST

START_TEST(truncated_is_dropped)
{
	struct diw_dgram_burst t;

	open_pair(false);
	t = make(&a->local, 100, 100, 100);
	b->ops->send(b, &t, 1, 1);
	b->ops->send(b, &t, 1, 1);
	kernel_truncate = 1;
	take_all(a, 100);
	ck_assert_uint_eq(got.len, 100);
	ck_assert_uint_eq(ca.rx_truncated, 1);
	close_pair();
}
END_TEST

/* ---- A path whose MTU becomes smaller: loopback of a separate network namespace ---- */

START_TEST(path_mtu_for_real)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_mtu = 1300 };
	struct diw_dgram_burst t;
	int fd;

	ck_assert(kernel_own_network());
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	open_pair(false);
	t = make(&a->local, 10 * 1400 + 9, 1400, 14009);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	arrives(&t);
	ck_assert_int_eq(ioctl(fd, SIOCSIFMTU, &r), 0);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	arrives(&t);                                         /* in IP fragments */
	ck_assert_uint_eq(cb.tx_error, 0);
	if (diw_udp_offload().gso) {
		ck_assert_uint_eq(cb.tx_emsgsize, 1);
		ck_assert(b->state->mtu_changed);
		ck_assert_uint_eq(b->ops->mtu(b, &a->local), 1272);
	}
	t = make(&a->local, 65507, 65507, 65507);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	arrives(&t);
	close(fd);
	close_pair();
}
END_TEST

static void setup_udp(void) { setup(); open_dgram = diw_udp_open; }
static void setup_uring(void) { setup(); open_dgram = diw_uring_open; }

static Suite *suite_of(const char *name, void (*fixture)(void))
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, fixture, NULL);
	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, bursts_arrive, 0, 8);
	tcase_add_test(t, several_bursts_a_call);
	tcase_add_test(t, empty_datagram);
	tcase_add_test(t, connected);
	tcase_add_test(t, answers_from_where_it_was_asked);
	tcase_add_test(t, opening);
	tcase_add_loop_test(t, blocked_anywhere, 0, 10);
	tcase_add_loop_test(t, super_buffers_refused, 0, 2);
	tcase_add_test(t, old_kernel_takes_64);
	tcase_add_loop_test(t, path_mtu_shrinks, 0, 2);
	tcase_add_test(t, refused_for_good);
	tcase_add_test(t, truncated_is_dropped);
	if (kernel_can_own_network())
		tcase_add_test(t, path_mtu_for_real);
	else
		printf("SKIP: %s: no network namespaces here for path_mtu_for_real\n", name);
	suite_add_tcase(s, t);
	return s;
}

Suite *suite_udp(void)
{
	return suite_of("udp", setup_udp);
}
Suite *suite_uring(void)
{
	return kernel_has_uring() ? suite_of("uring", setup_uring) : suite_create("uring");
}
