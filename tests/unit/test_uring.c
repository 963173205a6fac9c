/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the io_uring dgram alone. test_udp.c and test_udp_hot.c have those for both dgrams. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "llp/dgram.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define MANY 100                     /* datagrams: more than the ring has buffers */

static struct diw_counters c;
static struct diw_dgram *a, *b;
static uint32_t sent, expected;
static uint64_t now;

static struct diw_dgram *open_one(uint16_t port)
{
	struct diw_dgram_attr attr = { .mtu = 65536, .rcvbuf = 4 << 20, .c = &c,
		.local = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 }, .port = port } };
	struct diw_dgram *d;

	ck_assert_int_eq(diw_uring_open(&attr, &d), 0);
	return d;
}

static void setup(void)
{
	sent = expected = 0;
	a = open_one(0);
	b = open_one(0);
}

static void teardown(void)
{
	a->ops->close(a);
	b->ops->close(b);
}

static void send_next(struct diw_dgram *from, const struct diw_dgram *to)
{
	uint32_t value = sent++;
	struct iovec iov = { &value, sizeof value };
	struct diw_dgram_burst out = { .peer.addr = to->local, .iov = &iov, .niov = 1, .len = sizeof value,
		.seg = sizeof value };

	ck_assert_int_eq(from->ops->send(from, &out, 1, now), 1);
	value = ~0u;                    /* the caller may use its memory again */
}

/* The next datagram in order has come, possibly after a while. */
static void expect_next(struct diw_dgram *d)
{
	struct diw_dgram_burst in;
	int n = 0;

	for (int i = 0; i < 2 * KIT_LIMIT_MS && n == 0; i++) {
		n = d->ops->recv(d, &in, 1, now += 20 * DIW_US);
		if (!n)
			usleep(500);
	}
	ck_assert_int_eq(n, 1);
	ck_assert_uint_eq(in.len, sizeof expected);
	ck_assert_mem_eq(in.iov->iov_base, &expected, sizeof expected);
	expected++;
}

static bool readable(struct diw_dgram *d, int timeout)
{
	int fd[DIW_DGRAM_FDS], n = d->ops->fds(d, fd);
	struct pollfd p[DIW_DGRAM_FDS];

	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){ fd[i], POLLIN, 0 };
	return poll(p, (nfds_t)n, timeout) > 0;
}

/* More datagrams than buffers: the receive ends and is armed again, no datagram is lost, and poll(2) reports them. */
START_TEST(more_than_buffers)
{
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < MANY; i++)
			send_next(b, a);
		for (int i = 0; i < MANY; i++) {
			ck_assert(readable(a, KIT_LIMIT_MS));
			expect_next(a);
		}
		ck_assert(!readable(a, 0));
	}
}
END_TEST

/* Completions of receives stand before that of a send: the send finds its own, and leaves the others to wake a
 * sleeper. */
START_TEST(sends_between)
{
	for (int i = 0; i < MANY; i++) {
		send_next(b, a);
		send_next(a, a);
	}
	for (int i = 0; i < 2 * MANY; i++) {
		ck_assert(readable(a, KIT_LIMIT_MS));
		expect_next(a);
	}
}
END_TEST

static void *look(void *arg)
{
	for (int i = 0; i < MANY; i++) {
		send_next(b, arg);
		expect_next(arg);
	}
	return NULL;
}

/* The receive belongs to the thread that armed it: other threads take it over, and it outlives its thread. */
START_TEST(threads_come_and_go)
{
	for (int i = 0; i < 6; i++) {
		pthread_t t;

		ck_assert_int_eq(pthread_create(&t, NULL, look, a), 0);
		pthread_join(t, NULL);
		send_next(b, a);
		ck_assert(readable(a, KIT_LIMIT_MS));
		expect_next(a);
		for (int k = 0; k < i * 10; k++)
			look(a);
	}
}
END_TEST

static atomic_int busy;

/* Arms the receive, and then computes without a system call. */
static void *compute(void *arg)
{
	struct diw_dgram_burst in;

	for (int i = 0; i < 100; i++)
		((struct diw_dgram *)arg)->ops->recv(arg, &in, 1, 1);
	for (atomic_store(&busy, 1); atomic_load(&busy) != 2;)
		;
	return NULL;
}

/* The thread in whose context the kernel receives makes no system call: others get the datagrams nevertheless. */
START_TEST(its_thread_computes)
{
	pthread_t t;

	atomic_store(&busy, 0);
	ck_assert_int_eq(pthread_create(&t, NULL, compute, a), 0);
	while (atomic_load(&busy) != 1)
		usleep(100);
	for (int i = 0; i < MANY; i++) {
		send_next(b, a);
		ck_assert(readable(a, KIT_LIMIT_MS));
		expect_next(a);
	}
	atomic_store(&busy, 2);
	pthread_join(t, NULL);
}
END_TEST

/* The port is free as soon as the dgram is closed, whichever thread has armed the receive. */
START_TEST(port_is_free)
{
	uint16_t port = a->local.port;

	for (int i = 0; i < 20; i++) {
		send_next(b, a);
		if (i & 1)
			expect_next(a);
		a->ops->close(a);
		a = open_one(port);
		expected = sent;
	}
}
END_TEST

/* A child that closes inherited objects takes nothing from its parent. */
START_TEST(child_closes)
{
	int status;
	pid_t pid;

	send_next(b, a);
	pid = fork();
	if (!pid) {
		a->ops->close(a);
		b->ops->close(b);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	expect_next(a);
	for (int i = 0; i < MANY; i++) {
		send_next(b, a);
		expect_next(a);
	}
}
END_TEST

/* A burst stays valid until the next recv, while more arrive than there are buffers. */
START_TEST(held_until_the_next)
{
	struct diw_dgram_burst in;

	for (int i = 0; i < MANY; i++)
		send_next(b, a);
	while (a->ops->recv(a, &in, 1, now) == 0)
		;
	for (int i = 0; i < MANY; i++)
		send_next(b, a);
	readable(a, 100);
	ck_assert_mem_eq(in.iov->iov_base, &expected, sizeof expected);
	expected++;
	for (int i = 1; i < 2 * MANY; i++)
		expect_next(a);
}
END_TEST

/* Runs as a user without rings in other processes. */
static void few_rings(void)
{
	enum { N = 12, NOBODY_ELSE = 61234 };
	struct rlimit some = { 64 << 10, 64 << 10 };
	bool root = geteuid() == 0;
	struct diw_dev_info info;
	struct end e[N];
	struct diw_wc wc;
	struct kit k;

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &some), 0);
	ck_assert(!root || setresuid(NOBODY_ELSE, NOBODY_ELSE, NOBODY_ELSE) == 0);
	setenv("DIWARP_LLP", "uring", 1);
	kit_open(&k, DIW_PROGRESS_INLINE);
	ck_assert_int_eq(diw_dev_query(k.dev, &info), 0);
	ck_assert(!root || strcmp(info.llp, "uring") == 0);
	for (int i = 0; i < N; i++)
		end_open(&e[i], &k, NULL, 16);
	for (int i = 0; i < N; i++) {
		struct end *to = &e[(i + 1) % N];

		ck_assert_int_eq(end_recv(to, 4096, 4096, 1), 0);
		ck_assert_int_eq(end_send(&e[i], to, 0, 100, 0), 0);
		ck_assert_int_eq(diw_cq_wait(to->rcq, &wc, 1, KIT_LIMIT), 1);
	}
	for (int i = 0; i < N; i++)
		end_close(&e[i]);
	kit_close(&k);
}

/* A user may lock memory for a few rings only: further queue pairs use sockets, and all of them work together. */
START_TEST(no_room_for_rings)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		few_rings();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

Suite *suite_uring_ring(void)
{
	Suite *s = suite_create("uring_ring");
	TCase *t = tcase_create("uring_ring");

	if (!kernel_has_uring())
		return s;
	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, more_than_buffers);
	tcase_add_test(t, sends_between);
	tcase_add_test(t, threads_come_and_go);
	tcase_add_test(t, its_thread_computes);
	tcase_add_test(t, port_is_free);
	tcase_add_test(t, child_closes);
	tcase_add_test(t, held_until_the_next);
	tcase_add_test(t, no_room_for_rings);
	suite_add_tcase(s, t);
	return s;
}
