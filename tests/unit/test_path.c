/* SPDX-License-Identifier: BSD-2-Clause */
/* Traffic class and hop limit of a destination, as a plain socket receives them. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define ENOUGH 1100                   /* messages in a row: more than HOT_AFTER */

static struct kit k;
static struct end e;
static int fd;
static struct diw_addr to;

static void open_socket(const char *host)
{
	int one = 1;
	bool v4 = !strchr(host, ':');
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	socklen_t len = v4 ? sizeof a4 : sizeof a6;
	struct sockaddr *sa = v4 ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;

	fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
	ck_assert_int_eq(bind(fd, sa, len), 0);
	ck_assert_int_eq(getsockname(fd, sa, &len), 0);
	ck_assert_int_eq(diw_addr_parse(host, ntohs(v4 ? a4.sin_port : a6.sin6_port), &to), 0);
	setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof one);
	setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &one, sizeof one);
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof one);
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &one, sizeof one);
}

static void open_kit(void)
{
	kit_open(&k, DIW_PROGRESS_THREAD);
}

/* LOCAL: its address, or NULL: any. */
static void open_qp(const char *local)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.dgram.any_addr = !local;
	if (local)
		ck_assert_int_eq(diw_addr_parse(local, 0, &attr.dgram.local), 0);
	end_open(&e, &k, &attr, 16);
}

static void close_all(void)
{
	end_close(&e);
	kit_close(&k);
	close(fd);
}

/* Traffic class << 8 | hop limit of the next datagram. */
static int next_path(void)
{
	uint8_t data[256], control[256];
	struct iovec iov = { data, sizeof data };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = sizeof control };
	int tclass = -1, hops = -1;

	ck_assert_int_gt(recvmsg(fd, &m, 0), 0);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_type == IP_TOS && c->cmsg_level == IPPROTO_IP)
			tclass = *CMSG_DATA(c);
		else if (c->cmsg_type == IPV6_TCLASS && c->cmsg_level == IPPROTO_IPV6)
			memcpy(&tclass, CMSG_DATA(c), sizeof tclass);
		else if ((c->cmsg_type == IP_TTL && c->cmsg_level == IPPROTO_IP) ||
			 (c->cmsg_type == IPV6_HOPLIMIT && c->cmsg_level == IPPROTO_IPV6))
			memcpy(&hops, CMSG_DATA(c), sizeof hops);
	}
	return tclass << 8 | hops;
}

/* HEADER: traffic class << 8 | hop limit. */
static void send_with(uint16_t header)
{
	struct diw_sge sge = { k.mem, 10, k.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1,
				  .dst = { to, .tclass = header >> 8, .hop_limit = header & 0xff } };

	ck_assert_int_eq(diw_post_send(e.qp, &wr, NULL), 0);
}

static const char *const hosts[] = { "127.0.0.1", "::1" };

START_TEST(paths)
{
	int usual;

	open_socket(hosts[_i]);
	open_qp(NULL);
	send_with(0);
	usual = next_path();
	send_with(0xb800 | 7);
	ck_assert_int_eq(next_path(), 0xb800 | 7);
	send_with(0x2000);
	ck_assert_int_eq(next_path(), 0x2000 | (usual & 0xff));
	send_with(9);
	ck_assert_int_eq(next_path(), (usual & 0xff00) | 9);
	send_with(0);
	ck_assert_int_eq(next_path(), usual);
}
END_TEST

/* A peer that gets many consecutive messages gets a socket of its own; after that the path of its messages may
 * change. */
START_TEST(many)
{
	static const uint16_t in_turn[] = { 0xb800 | 7, 0, 9, 0xb800 | 7 };
	int usual;

	open_socket(hosts[_i]);
	open_qp(hosts[_i]);
	send_with(0);
	usual = next_path();
	for (int n = 0; n < 4; n++) {
		int tclass = in_turn[n] & 0xff00, hops = in_turn[n] & 0xff;

		for (int i = 0; i < ENOUGH; i++) {
			send_with(in_turn[n]);
			ck_assert_int_eq(next_path(),
					 (tclass ? tclass : usual & 0xff00) | (hops ? hops : usual & 0xff));
		}
		send_with(0x2000);
		ck_assert_int_eq(next_path(), 0x2000 | (usual & 0xff));
		send_with(in_turn[n]);
		ck_assert_int_eq(next_path(), (tclass ? tclass : usual & 0xff00) | (hops ? hops : usual & 0xff));
	}
}
END_TEST

Suite *suite_path(void)
{
	Suite *s = suite_create("path");
	TCase *t = tcase_create("path");

	tcase_add_checked_fixture(t, open_kit, close_all);
	tcase_add_loop_test(t, paths, 0, 2);
	tcase_add_loop_test(t, many, 0, 2);
	suite_add_tcase(s, t);
	return s;
}
