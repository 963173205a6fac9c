/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of RDMA_PS_TCP and the TCP ports that carry them: docs/rc-wire.md section 2.2. */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "verbs/host/port.h"
#include "tests/unit/unit.h"

static int range_of(uint16_t port)
{
	return port < 1024 ? 0 : port < 32768 ? 1 : port < 61000 ? 2 : 3;
}

START_TEST(partners)
{
	for (uint32_t p = 0; p <= UINT16_MAX; p++) {
		uint16_t other = diw_port_partner((uint16_t)p);

		ck_assert_uint_eq(diw_port_partner(other), p);
		ck_assert_int_eq(range_of(other), range_of((uint16_t)p));
		ck_assert_int_eq(other == p, p == 0 || p == 512);
	}
}
END_TEST

static const uint16_t page[][2] = {
	{ 1, 513 }, { 445, 957 }, { 1024, 16896 }, { 3260, 19132 }, { 6379, 22251 }, { 7471, 23343 }, { 20049, 4177 },
	{ 32767, 16895 }, { 32768, 46884 }, { 60999, 46883 }, { 61000, 63268 }, { 65535, 63267 },
};

START_TEST(of_the_page)
{
	ck_assert_uint_eq(diw_port_partner(page[_i][0]), page[_i][1]);
}
END_TEST

static struct diw_addr loopback(uint16_t port)
{
	return (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 }, .port = port };
}

static int keep(uint16_t *port, bool rdma, bool reuse)
{
	struct diw_addr a = loopback(*port);
	const struct diw_port_hold how = { .type = SOCK_STREAM, .rdma = rdma, .reuse = reuse };
	int fd = diw_port_hold(&a, &how);

	*port = a.port;
	return fd;
}

/* The kernel never chooses a port that is in use, however many are kept. A kept port of either kind is reported
 * correctly. */
START_TEST(held)
{
	enum { N = 500 };
	static uint16_t port[N];
	static int fd[N];
	uint16_t same;

	for (int i = 0; i < N; i++) {
		fd[i] = keep(&port[i], _i, true);
		ck_assert_int_ge(fd[i], 0);
		for (int j = 0; j < i; j++)
			ck_assert_uint_ne(port[i], port[j]);
	}
	same = port[0];
	ck_assert_int_eq(keep(&same, _i, false), -EADDRINUSE);
	for (int i = 0; i < N; i++)
		close(fd[i]);
	/* A port of RDMA_PS_TCP that the kernel chooses is free as a TCP port, too: neither is in TIME_WAIT. */
	port[0] = 0;
	close(keep(&port[0], true, false));
	same = port[0];
	fd[0] = keep(&same, _i, false);
	ck_assert_int_ge(fd[0], 0);
	ck_assert_uint_eq(same, port[0]);
	fd[1] = keep(&same, !_i, false);
	ck_assert_int_ge(fd[1], 0);
	close(fd[0]);
	close(fd[1]);
}
END_TEST

/* The kernel chooses odd ports first. Here each odd port that is free has a partner that is in use. */
START_TEST(odd_ones_are_used)
{
	const struct diw_port_hold how = { .type = SOCK_STREAM, .rdma = true };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f030201) };
	struct diw_addr any = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, 3, 2, 1 } };
	struct rlimit l;
	int fd;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
	l.rlim_cur = l.rlim_max;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
	if (l.rlim_cur < DIW_PORT_DYNAMIC / 4 + 100) {
		puts("SKIP: port: too few descriptors are allowed");
		return;
	}
	for (uint32_t p = DIW_PORT_FIRST_DYNAMIC + 1; p < DIW_PORT_FIRST_DYNAMIC + DIW_PORT_DYNAMIC / 2; p += 2) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		ck_assert_int_ge(fd, 0);
		a.sin_port = htons((uint16_t)p);
		bind(fd, (struct sockaddr *)&a, sizeof a);       /* or another program has it */
	}
	fd = diw_port_hold(&any, &how);
	ck_assert_int_ge(fd, 0);
	ck_assert_uint_ne(any.port, 0);
	close(fd);
}
END_TEST

/* A kept port cannot be used by others; remaining connections do not prevent keeping it. */
START_TEST(kept_alone)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint16_t port = 0, again;
	int fd = keep(&port, false, false), l, c, s;

	ck_assert_int_ge(fd, 0);
	again = port;
	ck_assert_int_eq(keep(&again, false, false), -EADDRINUSE);
	a.sin_port = htons(port);
	l = socket(AF_INET, SOCK_STREAM, 0);
	c = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)), 0);
	ck_assert_int_eq(bind(l, (struct sockaddr *)&a, sizeof a), 0);
	close(fd);
	ck_assert_int_eq(listen(l, 1), 0);
	ck_assert_int_eq(connect(c, (struct sockaddr *)&a, sizeof a), 0);
	s = accept(l, NULL, NULL);
	ck_assert_int_ge(s, 0);
	ck_assert_int_eq(keep(&again, false, false), -EADDRINUSE);
	close(l);
	close(s);
	close(c);
	fd = keep(&again, false, false);
	ck_assert_int_ge(fd, 0);
	close(fd);
}
END_TEST

Suite *suite_port(void)
{
	Suite *s = suite_create("port");
	TCase *tc = tcase_create("port");

	tcase_add_test(tc, partners);
	tcase_add_loop_test(tc, of_the_page, 0, sizeof page / sizeof *page);
	tcase_add_loop_test(tc, held, 0, 2);
	tcase_add_test(tc, odd_ones_are_used);
	tcase_add_test(tc, kept_alone);
	suite_add_tcase(s, tc);
	return s;
}
