/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading without GRO while datagrams are alone (struct diw_udp_reads): nothing but the speed may differ. */
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "llp/dgram.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"

#define LONE 600                     /* more lone datagrams than llp/udp.c waits for */
#define HOT 1024                     /* consecutive bursts, after which the peer has a socket of its own */
#define SEG 100u
#define MANY 20u                     /* datagrams of a burst */

static struct diw_counters c;
static struct diw_dgram *a, *b;
static struct diw_addr home;
static uint64_t now;
static int came;                     /* datagrams */

static struct diw_dgram *open_one(bool v4, bool any)
{
	struct diw_dgram_attr attr = { .mtu = 65536, .rcvbuf = 4 << 20, .c = &c, .any = any };
	struct diw_dgram *d;

	home = (struct diw_addr){ .ip = { [15] = 1 } };
	if (v4)
		home = (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };
	if (!any)
		attr.local = home;
	ck_assert_int_eq(diw_udp_open(&attr, &d), 0);
	return d;
}

static bool has_gro(struct diw_dgram *d, int i)
{
	int fd[DIW_DGRAM_FDS], v = 0;
	socklen_t len = sizeof v;

	ck_assert_int_gt(d->ops->fds(d, fd), i);
	ck_assert_int_eq(getsockopt(fd[i], SOL_UDP, UDP_GRO, &v, &len), 0);
	return v;
}

/* N datagrams as one burst; datagram i is SEG octets of the value FIRST + i. */
static void send_burst(struct diw_dgram *from, const struct diw_dgram *to, uint32_t n, int first)
{
	uint8_t data[MANY * SEG];
	struct iovec iov = { data, n * SEG };
	struct diw_dgram_burst out = { .peer.addr = home, .iov = &iov, .niov = 1, .len = n * SEG, .seg = SEG };

	out.peer.addr.port = to->local.port;
	for (uint32_t i = 0; i < n; i++)
		memset(data + i * SEG, first + (int)i, SEG);
	ck_assert_int_eq(from->ops->send(from, &out, 1, now), 1);
}

/* Receives what is there, with COST ns between the calls. The next datagram has the value of `came`. Returns the
 * number of bursts. */
static int receive(struct diw_dgram *d, const struct diw_dgram *from, uint64_t cost)
{
	struct diw_dgram_burst in;
	int bursts = 0;

	for (; d->ops->recv(d, &in, 1, now += cost) == 1; bursts++) {
		const uint8_t *p = in.iov->iov_base;

		ck_assert_uint_eq(in.peer.addr.port, from->local.port);
		ck_assert_uint_eq(in.seg, SEG);
		ck_assert_uint_eq(in.len % SEG, 0);
		for (uint32_t i = 0; i < in.len; i++)
			ck_assert_uint_eq(p[i], (uint8_t)(came + (int)(i / SEG)));
		came += (int)(in.len / SEG);
	}
	return bursts;
}

static int receive_until(struct diw_dgram *d, const struct diw_dgram *from, int total, uint64_t cost)
{
	int fd[DIW_DGRAM_FDS], bursts = 0, n;

	while (came < total) {
		struct pollfd p[DIW_DGRAM_FDS];

		n = d->ops->fds(d, fd);
		for (int i = 0; i < n; i++)
			p[i] = (struct pollfd){ fd[i], POLLIN, 0 };
		ck_assert_int_gt(poll(p, (nfds_t)n, 30000), 0);
		bursts += receive(d, from, cost);
	}
	ck_assert_int_eq(came, total);
	return bursts;
}

static void lone(struct diw_dgram *from, struct diw_dgram *to, int times)
{
	came = 0;
	for (int i = 0; i < times; i++) {
		send_burst(from, to, 1, i);
		receive_until(to, from, i + 1, 1000);
	}
}

static void burst(struct diw_dgram *from, struct diw_dgram *to, uint32_t n)
{
	came = 0;
	send_burst(from, to, n, 0);
	receive_until(to, from, (int)n, 1000);
}

/* False: the kernel has no GRO, or DIWARP_OFFLOAD forbids it. */
static bool open_pair(bool v4, bool any)
{
	if (!diw_udp_offload().gro) {
		puts("SKIP - no UDP_GRO");
		return false;
	}
	a = open_one(v4, any);
	b = open_one(v4, any);
	now = DIW_MS;
	return true;
}

static void close_pair(void)
{
	a->ops->close(a);
	b->ops->close(b);
}

/* GRO is off while datagrams are alone. A burst without it arrives complete, and is the reason to turn it on. */
START_TEST(plain)
{
	if (!open_pair(_i, false))
		return;
	ck_assert(has_gro(b, 0));
	lone(a, b, LONE);
	ck_assert(!has_gro(b, 0));
	burst(a, b, MANY);
	ck_assert(has_gro(b, 0));
	came = 0;
	send_burst(a, b, MANY, 0);
	ck_assert_int_eq(receive_until(b, a, MANY, 1000), 1);
	lone(a, b, LONE);
	ck_assert(!has_gro(b, 0));
	/* Pairs do not turn it on: the first of each is alone. Triples do. */
	for (int i = 0; i < 50; i++)
		burst(a, b, 2);
	ck_assert(!has_gro(b, 0));
	for (int i = 0; i < 50; i++)
		burst(a, b, 3);
	ck_assert(has_gro(b, 0));
	close_pair();
}
END_TEST

/* DIWARP_OFFLOAD forbids GRO, also after a burst. */
START_TEST(forbidden)
{
	setenv("DIWARP_OFFLOAD", "gso", 1);
	a = open_one(true, false);
	b = open_one(true, false);
	now = DIW_MS;
	for (int i = 0; i < 3; i++) {
		lone(a, b, LONE);
		ck_assert(!has_gro(b, 0));
		burst(a, b, MANY);
		ck_assert(!has_gro(b, 0));
	}
	close_pair();
}
END_TEST

/* With GRO a lone super-buffer is no lone datagram. */
START_TEST(super_buffers)
{
	if (!open_pair(true, false))
		return;
	for (int i = 0; i < LONE; i++)
		burst(a, b, 2);
	ck_assert(has_gro(b, 0));
	close_pair();
}
END_TEST

/* A thread that sleeps finds no empty socket between datagrams; there the time tells. */
START_TEST(time_tells)
{
	if (!open_pair(true, false))
		return;
	lone(a, b, LONE);
	came = 0;
	for (int i = 0; i < LONE; i++)
		send_burst(a, b, 1, i);
	receive_until(b, a, LONE, 11 * DIW_US);
	ck_assert(!has_gro(b, 0));
	came = 0;
	for (int i = 0; i < LONE; i++)
		send_burst(a, b, 1, i);
	receive_until(b, a, LONE, DIW_US);
	ck_assert(has_gro(b, 0));
	close_pair();
}
END_TEST

static void send_one_burst(void)
{
	kernel_read = NULL;
	send_burst(a, b, MANY, came + 1);
}

/* A super-buffer comes between the last lone datagram and the end of GRO: its segment size must not get lost. One of
 * the loops has it behind the lone datagram that is enough. */
START_TEST(burst_between)
{
	int before = 250 + _i;

	if (!open_pair(true, false))
		return;
	lone(a, b, before);
	ck_assert(has_gro(b, 0));
	send_burst(a, b, 1, came);
	kernel_read = send_one_burst;
	receive_until(b, a, before + 1 + (int)MANY, 1000);
	ck_assert(has_gro(b, 0));
	close_pair();
}
END_TEST

static void send_to_nobody(void)
{
	uint8_t data[SEG] = { 0 };
	struct iovec iov = { data, SEG };
	struct diw_dgram_burst out = { .peer.addr = home, .iov = &iov, .niov = 1, .len = SEG, .seg = SEG };

	kernel_read = NULL;
	out.peer.addr.port = 9;
	ck_assert_int_eq(b->ops->send(b, &out, 1, now), 1);
}

/* An ICMP message comes between the last lone datagram and the end of GRO: it is counted, and leaves the socket asleep.
 * One of the loops has it behind the lone datagram that is enough. */
START_TEST(icmp_between)
{
	int before = 250 + _i, fd[DIW_DGRAM_FDS];
	struct pollfd p = { .events = POLLIN };

	if (!open_pair(true, false))
		return;
	lone(a, b, before);
	send_burst(a, b, 1, came);
	kernel_read = send_to_nobody;
	receive_until(b, a, before + 1, 1000);
	ck_assert_uint_eq(c.tx_error, 1);
	b->ops->fds(b, fd);
	p.fd = fd[0];
	ck_assert_int_eq(poll(&p, 1, 0), 0);
	close_pair();
}
END_TEST

/* A socket of all addresses needs the control message of the destination address. Its second socket does not. */
START_TEST(all_addresses)
{
	if (!open_pair(_i, true))
		return;
	lone(a, b, LONE);
	ck_assert(has_gro(b, 0));
	for (int i = 0; i < HOT + LONE; i++) {
		lone(a, b, 1);
		lone(b, a, 1);
	}
	ck_assert(!has_gro(a, 0));      /* the hot socket is the first, since it sends */
	ck_assert(has_gro(a, 1));
	burst(b, a, MANY);
	ck_assert(has_gro(a, 0));
	close_pair();
}
END_TEST

Suite *suite_udp_plain(void)
{
	Suite *s = suite_create("udp_plain");
	TCase *t = tcase_create("udp_plain");

	tcase_add_loop_test(t, plain, 0, 2);
	tcase_add_test(t, forbidden);
	tcase_add_test(t, super_buffers);
	tcase_add_test(t, time_tells);
	tcase_add_loop_test(t, burst_between, 0, 6);
	tcase_add_loop_test(t, icmp_between, 0, 6);
	tcase_add_loop_test(t, all_addresses, 0, 2);
	suite_add_tcase(s, t);
	return s;
}
