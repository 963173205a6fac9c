/* SPDX-License-Identifier: BSD-2-Clause */
/* The second socket, for the peer that most bursts go to: it must change nothing but the speed. */
#include <poll.h>

#include "base/clock.h"
#include "llp/dgram.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"

#define MANY 1100                    /* consecutive bursts: more than llp/udp.c waits for */

static struct diw_counters c;
static struct diw_dgram *a, *b, *stranger;
static uint64_t now;
static int (*open_dgram)(const struct diw_dgram_attr *attr, struct diw_dgram **d);

/* The local addresses of the sockets. */
static const struct diw_addr homes[] = {
	{ .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } },
	{ .ip = { [15] = 1 } },
};
static const struct diw_addr *home;
static bool any;

/* Bound to an address: kinds 0 and 1, IPv4 and IPv6; to all addresses: 2 and 3. */
static struct diw_dgram *open_one(int kind)
{
	struct diw_dgram_attr attr = { .mtu = 65536, .rcvbuf = 4 << 20, .c = &c };
	struct diw_dgram *d;

	home = &homes[kind % 2];
	any = attr.any = kind > 1;
	if (!any)
		attr.local = *home;
	ck_assert_int_eq(open_dgram(&attr, &d), 0);
	return d;
}

static struct diw_addr addr_of(const struct diw_dgram *d)
{
	struct diw_addr a = *home;

	a.port = d->local.port;
	return a;
}

static void send_one(struct diw_dgram *from, const struct diw_dgram *to, uint32_t value)
{
	struct iovec iov = { &value, sizeof value };
	struct diw_dgram_burst out = { .peer.addr = addr_of(to), .iov = &iov, .niov = 1, .len = sizeof value,
				       .seg = sizeof value };

	ck_assert_int_eq(from->ops->send(from, &out, 1, now), 1);
}

/* Whether poll(2) on its descriptors reports a datagram within MS. */
static bool readable(struct diw_dgram *d, int ms)
{
	int fd[DIW_DGRAM_FDS], n = d->ops->fds(d, fd);
	struct pollfd p[DIW_DGRAM_FDS];

	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){ fd[i], POLLIN, 0 };
	return poll(p, (nfds_t)n, ms) > 0;
}

/* VALUE is the next datagram from FROM, received at the first poll if that is not a spinning one. */
static void expect(struct diw_dgram *d, const struct diw_dgram *from, uint32_t value)
{
	const struct diw_addr peer = addr_of(from), own = addr_of(d);
	struct diw_dgram_burst in;

	ck_assert(readable(d, 30000));  /* a busy kernel delivers later than it sends */
	ck_assert_int_eq(d->ops->recv(d, &in, 1, now += 10000), 1);
	ck_assert_uint_eq(in.len, sizeof value);
	ck_assert_mem_eq(in.iov->iov_base, &value, sizeof value);
	ck_assert(diw_addr_eq(&in.peer.addr, &peer));
	if (any)
		ck_assert(!in.group && diw_addr_eq(&in.to, &own));
}

static void exchange(struct diw_dgram *x, struct diw_dgram *y, int times)
{
	for (int i = 0; i < times; i++) {
		send_one(x, y, 2u * (uint32_t)i);
		expect(y, x, 2u * (uint32_t)i);
		send_one(y, x, 2u * (uint32_t)i + 1);
		expect(x, y, 2u * (uint32_t)i + 1);
	}
}

/* The number of sockets, without the ring of io_uring. */
static int sockets(struct diw_dgram *d)
{
	int fd[DIW_DGRAM_FDS];

	return d->ops->fds(d, fd) - (open_dgram == diw_uring_open);
}

START_TEST(hot_peer)
{
	a = open_one(_i);
	b = open_one(_i);
	stranger = open_one(_i);
	ck_assert_int_eq(sockets(a), 1);
	exchange(a, b, MANY);
	ck_assert_int_eq(sockets(a), 2);
	ck_assert(a->state->fds_changed);
	exchange(a, b, MANY);
	/* Datagrams of other peers come between. */
	for (uint32_t i = 0; i < 50; i++) {
		send_one(stranger, a, i);
		expect(a, stranger, i);
		exchange(a, b, 3);
		exchange(a, stranger, 1);
	}
	/* Another peer becomes the hot one if the socket has one address. The first is still received from, and its
	 * datagrams from before the change are not lost. */
	for (uint32_t i = 0; i < 8; i++)
		send_one(b, a, 1000 + i);
	for (uint32_t i = 0; i < MANY; i++) {
		send_one(a, stranger, i);
		expect(stranger, a, i);
	}
	for (uint32_t i = 0; i < 8; i++)
		expect(a, b, 1000 + i);
	exchange(a, b, 20);
	exchange(a, stranger, 20);
	ck_assert_int_eq(sockets(a), 2);
	a->ops->close(a);
	b->ops->close(b);
	stranger->ops->close(stranger);
}
END_TEST

/* poll(2) on its descriptors reports a datagram in either socket. */
START_TEST(hot_peer_wakes)
{
	struct diw_dgram *from[2];

	a = open_one(0);
	from[0] = b = open_one(0);
	from[1] = stranger = open_one(0);
	exchange(a, b, MANY);
	for (int i = 0; i < 2; i++) {
		ck_assert(!readable(a, 0));
		send_one(from[i], a, 7);
		ck_assert(readable(a, 30000));
		expect(a, from[i], 7);
	}
	a->ops->close(a);
	b->ops->close(b);
	stranger->ops->close(stranger);
}
END_TEST

/* Calls of recvmsg(2) until the datagram VALUE from FROM is received, by a thread that reads each GAP ns. */
static int calls_for(const struct diw_dgram *from, uint32_t value, uint64_t gap)
{
	struct diw_dgram_burst in;
	int before = kernel_receives;

	ck_assert(readable(a, 30000));
	for (int i = 0; a->ops->recv(a, &in, 1, now += gap) == 0; i++)
		ck_assert_int_lt(i, 100);
	ck_assert_uint_eq(in.len, sizeof value);
	ck_assert_mem_eq(in.iov->iov_base, &value, sizeof value);
	ck_assert_uint_eq(in.peer.addr.port, from->local.port);
	return kernel_receives - before;
}

static void drain(uint64_t gap)
{
	struct diw_dgram_burst in;

	ck_assert_int_eq(a->ops->recv(a, &in, 1, now += gap), 0);
}

/* The socket of the last datagram is the first to be read, and a thread that spins reads the other one seldom. */
START_TEST(lone_datagram)
{
	struct diw_dgram *from[2];

	a = open_one(0);
	from[0] = b = open_one(0);
	from[1] = stranger = open_one(0);
	exchange(a, b, MANY);
	ck_assert_int_eq(sockets(a), 2);
	for (uint32_t i = 0; i < 20; i++) {             /* woken by each: one call finds it */
		drain(10 * DIW_US);
		send_one(from[i / 10], a, i);
		ck_assert_int_eq(calls_for(from[i / 10], i, 100 * DIW_US), 1 + (i == 10));
	}
	now += DIW_S;
	drain(0);
	for (uint32_t i = 0; i < 10; i++) {
		send_one(stranger, a, i);
		ck_assert_int_eq(calls_for(stranger, i, 100), 1);
	}
	send_one(b, a, 77);                             /* the thread spins */
	ck_assert_int_le(calls_for(b, 77, 1 * DIW_US), 25);
	for (uint32_t i = 0; i < 10; i++) {             /* now both are in use */
		send_one(from[i % 2], a, i);
		ck_assert_int_le(calls_for(from[i % 2], i, 100), 2);
	}
	a->ops->close(a);
	b->ops->close(b);
	stranger->ops->close(stranger);
}
END_TEST

/* Datagrams that keep coming to one socket do not hold up those of the other one. */
START_TEST(busy_socket)
{
	uint32_t waited = 0, got = 0;
	struct diw_dgram_burst in;

	a = open_one(0);
	b = open_one(0);
	stranger = open_one(0);
	exchange(a, b, MANY);
	for (uint32_t i = 0; i < 500; i++)
		send_one(b, a, i);
	for (uint32_t i = 0; i < 20; i++)
		send_one(stranger, a, i);
	ck_assert(readable(a, 30000));
	for (uint32_t i = 0; got < 20; i++) {
		ck_assert_int_lt(i, 500);
		now += DIW_US;
		if (a->ops->recv(a, &in, 1, now) == 1 && in.peer.addr.port == stranger->local.port)
			got++;
		waited = got ? waited : i;
	}
	ck_assert_uint_le(waited, 25);
	a->ops->close(a);
	b->ops->close(b);
	stranger->ops->close(stranger);
}
END_TEST

static void setup(void)
{
	open_dgram = diw_udp_open;
}

static void setup_uring(void)
{
	open_dgram = diw_uring_open;
}

static Suite *suite_of(const char *name, void (*fixture)(void))
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);

	tcase_add_checked_fixture(t, fixture, NULL);
	tcase_add_loop_test(t, hot_peer, 0, 4);
	tcase_add_test(t, hot_peer_wakes);
	if (fixture == setup) {
		tcase_add_test(t, lone_datagram);
		tcase_add_test(t, busy_socket);
	}
	suite_add_tcase(s, t);
	return s;
}

Suite *suite_udp_hot(void)
{
	return suite_of("udp_hot", setup);
}

Suite *suite_uring_hot(void)
{
	return kernel_has_uring() ? suite_of("uring_hot", setup_uring) : suite_create("uring_hot");
}
