/* SPDX-License-Identifier: BSD-2-Clause */
/* The error queue after sends, read in every way: sockets.sh compares the output with and without the interposer.
 * The argument is an address of this host behind a route with an MTU of 1500. */
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <poll.h>
#include <stdbool.h>
#include <time.h>

#include "tests/system/sockets/sockets_kit.h"

#define TX_TIMES (SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_SOFTWARE)
#define LIMIT_MS 30000

static char control[512];

static void set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof value))
		abort();
}

static void wait_for_error(int fd)
{
	struct pollfd p = { .fd = fd };

	if (poll(&p, 1, LIMIT_MS) != 1)
		abort();
}

/* ---- The contents of a packet ---- */

static uint32_t add(uint32_t h, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h += i % 2 ? p[i] : (uint32_t)p[i] << 8;
	while (h >> 16)
		h = (h & 0xffff) + (h >> 16);
	return h;
}

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static const char *checksum_of(const uint8_t *ip, const uint8_t *udp, size_t have)
{
	unsigned len = get16(udp + 4), is = get16(udp + 6);
	uint32_t pseudo = ip[0] >> 4 == 4 ? add(17 + len, ip + 12, 8) : add(17 + len, ip + 8, 32);

	if (!is)
		return "none";
	if (is == pseudo)
		return "left to the device";
	return have < len ? "of more" : add(pseudo, udp, len) == 0xffff ? "good" : "bad";
}

/* As in chronyd: N bytes in IN, behind a link's header of 14. */
static void tell_packet(size_t n)
{
	const uint8_t *ip = in + 14, *udp;
	bool v4 = ip[0] >> 4 == 4;

	if (n < 14 + 48) {
		say("  no packet\n");
		return;
	}
	udp = ip + (v4 ? (ip[0] & 15) * 4 : 40);
	say("  type %04x, IP %u bytes of %zu, %s, protocol %u, fragment %04x\n", get16(in + 12),
	    v4 ? get16(ip + 2) : get16(ip + 4) + 40, n - 14, v4 && add(0, ip, 20) != 0xffff ? "bad" : "good",
	    v4 ? ip[9] : ip[6], v4 ? get16(ip + 6) : 0);
	say("  UDP %u bytes, checksum %s, data %08x\n", get16(udp + 4), checksum_of(ip, udp, n - (size_t)(udp - in)),
	    sum(udp + 8, n - (size_t)(udp + 8 - in)));
}

static void tell_control(struct msghdr *m)
{
	say("  flags %x, name %u, control %zu\n", m->msg_flags, m->msg_namelen, m->msg_controllen);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		const struct sock_extended_err *e = (const void *)CMSG_DATA(c);
		const struct timespec *ts = (const void *)CMSG_DATA(c);

		say("  level %d type %d length %zu", c->cmsg_level, c->cmsg_type, c->cmsg_len);
		if (c->cmsg_len >= CMSG_LEN(sizeof *e) &&
		    ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
		     (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)))
			say(": %u, origin %u, type %u, code %u, info %u, data %u", e->ee_errno, e->ee_origin,
			    e->ee_type, e->ee_code, e->ee_info, e->ee_data);
		if (c->cmsg_level == SOL_SOCKET)
			say(": %s", ts->tv_sec > 1000000000 ? "a time" : "no time");
		say("\n");
	}
}

/* Masks the fields that differ from run to run in the N bytes in IN: the packet's number, its checksum and flow, the
 * ports. */
static ssize_t masked(ssize_t n)
{
	static const uint8_t v4[] = { 14 + 4, 14 + 5, 14 + 10, 14 + 11, 34, 35, 36, 37 },
		v6[] = { 14 + 1, 14 + 2, 14 + 3, 54, 55, 56, 57 };
	bool is_v4 = in[14] >> 4 == 4;

	for (size_t i = 0; i < (is_v4 ? sizeof v4 : sizeof v6); i++) {
		size_t at = is_v4 ? v4[i] : v6[i];

		if ((ssize_t)at < n)
			in[at] = 0;
	}
	return n;
}

/* ---- Ways to read ---- */

/* The next entry, with this much room. */
static ssize_t error(int fd, size_t room, size_t control_room, int flags)
{
	struct sockaddr_storage from;
	struct iovec iov[2] = { { in, room / 3 }, { in + room / 3, room - room / 3 } };
	struct msghdr m = { .msg_name = &from, .msg_namelen = sizeof from, .msg_iov = iov, .msg_iovlen = 2,
		.msg_control = control_room ? control : NULL, .msg_controllen = control_room };
	ssize_t n;

	wait_for_error(fd);
	n = recvmsg(fd, &m, MSG_ERRQUEUE | flags);
	if (n >= 0)
		tell_control(&m);
	return n;
}

static void all_of_it(int fd)
{
	ssize_t n = error(fd, BIG, sizeof control, 0);

	if (n >= 0)
		tell_packet((size_t)n);
	told("  whole", masked(n));
}

static void nothing_more(int fd)
{
	struct mmsghdr mm = { 0 };
	struct timespec ts = { .tv_sec = 60 };

	told("  no more", recv(fd, in, BIG, MSG_ERRQUEUE));
	told("  no more", recvmmsg(fd, &mm, 1, MSG_ERRQUEUE, &ts));
}

static void receive_all(int fd)
{
	while (recv(fd, in, BIG, MSG_DONTWAIT) >= 0)
		;
	memset(in, 0xa5, sizeof in);
}

/* ---- Times of datagrams that left ---- */

static void times(int family, int connected, int options)
{
	/* Near the limit: sizes that fit lo's MTU with a frame, and sizes that do not. */
	static const size_t v4[] = { 0, 1, 100, 1316, 1537, 9001, 60000, 65467, 65472, 65507 },
		v6[] = { 0, 1, 100, 1316, 1537, 9001, 60000, 65448, 65472, 65488 };
	const size_t *sizes = family == AF_INET ? v4 : v6;
	struct pair p = pair(family, connected);

	set(p.b, SOL_SOCKET, SO_TIMESTAMPING, TX_TIMES | options);
	for (size_t i = 0; i < COUNT(v4); i++) {
		struct iovec iov[2] = { { out, sizes[i] / 2 }, { out + sizes[i] / 2, sizes[i] - sizes[i] / 2 } };
		struct mmsghdr mm = { .msg_hdr = { .msg_iov = iov, .msg_iovlen = 2 } };

		if (!connected)
			mm.msg_hdr.msg_name = &p.addr_a, mm.msg_hdr.msg_namelen = p.len;
		say("IPv%d, options %x, %zu bytes:\n", family == AF_INET ? 4 : 6, options, sizes[i]);
		if (i % 3 == 0)
			told("  sent", sendto(p.b, out, sizes[i], 0, connected ? NULL : (void *)&p.addr_a,
					      connected ? 0 : p.len));
		else if (i % 3 == 1)
			told("  sent", sendmsg(p.b, &mm.msg_hdr, 0));
		else
			told("  sent", sendmmsg(p.b, &mm, 1, 0));
		all_of_it(p.b);
		if (options & SOF_TIMESTAMPING_TX_SCHED)
			all_of_it(p.b);
		nothing_more(p.b);
		receive_all(p.a);
	}
	done(&p);
}

static void little_room(int family)
{
	static const size_t rooms[] = { 0, 1, 13, 14, 41, 42, 62, 63, 100, 141, 142, 161, 162, 177, 178, 179, 300 };
	struct pair p = pair(family, 0);
	struct sockaddr_storage from;
	socklen_t len = sizeof from;

	set(p.b, SOL_SOCKET, SO_TIMESTAMPING, TX_TIMES);
	for (size_t i = 0; i < COUNT(rooms); i++) {
		give(&p, 100);
		told("little room", masked(error(p.b, rooms[i], sizeof control, i % 2 ? MSG_PEEK : MSG_TRUNC)));
		give(&p, 100);
		told("without control data", masked(error(p.b, rooms[i], 0, 0)));
		give(&p, 100);
		wait_for_error(p.b);
		told("recv", masked(recv(p.b, in, rooms[i], MSG_ERRQUEUE)));
		give(&p, 100);
		told("with little of it", masked(error(p.b, rooms[i], 20, 0)));
		nothing_more(p.b);
		receive_all(p.a);
	}
	give(&p, 100);
	wait_for_error(p.b);
	told("recvfrom", masked(recvfrom(p.b, in, BIG, MSG_ERRQUEUE, (void *)&from, &len)));
	say("  from %u bytes\n", len);
	done(&p);
}

/* Seven entries are there: reads ASKED of them, and then the rest. */
static void many(unsigned asked, int timed)
{
	struct pair p = pair(AF_INET, 0);
	static char c[9][256];
	struct mmsghdr mm[9] = { 0 };
	struct iovec iov[9];
	struct timespec ts = { .tv_sec = timed == 1 ? 60 : 0 };
	int n, flags = MSG_ERRQUEUE | (timed ? 0 : MSG_WAITFORONE);

	set(p.b, SOL_SOCKET, SO_TIMESTAMPING, TX_TIMES | SOF_TIMESTAMPING_OPT_ID);
	for (size_t i = 0; i < 7; i++)
		give(&p, 10 + i * 300);
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 9; i++) {
			iov[i] = (struct iovec){ in + i * 2000, i == 2 ? 100 : 2000 };
			mm[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1, .msg_control = c[i],
				.msg_controllen = i == 1 ? 0 : sizeof c[i] };
		}
		n = recvmmsg(p.b, mm, turn ? 9 : asked, flags, timed ? &ts : NULL);
		say("many: %d of %u, timeout %d\n", n, asked, timed && ts.tv_sec > 50);
		for (int i = 0; i < n; i++) {
			say("  %u bytes: %08x\n", mm[i].msg_len, sum(in + i * 2000 + 38, mm[i].msg_len - 38));
			tell_control(&mm[i].msg_hdr);
		}
		memset(in, 0xa5, sizeof in);
	}
	done(&p);
}

/* The control data of one message asks for its times. */
static void asked_for_one(void)
{
	union { struct cmsghdr c; char room[CMSG_SPACE(sizeof(int))]; } u = { 0 };
	struct pair p = pair(AF_INET, 0);
	struct iovec iov = { out, 200 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_name = &p.addr_a, .msg_namelen = p.len,
		.msg_control = &u, .msg_controllen = sizeof u };
	struct mmsghdr mm = { .msg_hdr = m };
	int how = SOF_TIMESTAMPING_TX_SOFTWARE;

	u.c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof how), .cmsg_level = SOL_SOCKET,
				.cmsg_type = SO_TIMESTAMPING };
	memcpy(CMSG_DATA(&u.c), &how, sizeof how);
	told("with control data", sendmsg(p.b, &m, 0));
	all_of_it(p.b);
	told("with control data", sendmmsg(p.b, &mm, 1, 0));
	all_of_it(p.b);
	give(&p, 200);
	nothing_more(p.b);
	done(&p);
}

/* The kernel begins to report times of arrival a while after the request. */
static void wait_for_times(struct pair *p)
{
	for (int i = 0; i < LIMIT_MS; i++) {
		struct msghdr m = { .msg_control = control, .msg_controllen = sizeof control };

		give(p, 1);
		recvmsg(p->a, &m, 0);
		if (m.msg_controllen)
			return;
		usleep(1000);
	}
	abort();
}

/* Times of received datagrams are in their control data. */
static void times_of_arrival(int family)
{
	static const int names[] = { SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMPING };
	struct pair p = pair(family, 0);
	struct iovec iov = { in, BIG };

	for (size_t i = 0; i < COUNT(names); i++) {
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			.msg_controllen = sizeof control };
		struct mmsghdr mm = { .msg_hdr = m };

		set(p.a, SOL_SOCKET, names[i], names[i] == SO_TIMESTAMPING ?
		    SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE : 1);
		wait_for_times(&p);
		give(&p, 900);
		give(&p, 901);
		told("with its time", recvmsg(p.a, &m, MSG_DONTWAIT));
		tell_control(&m);
		say("%d, %u bytes\n", recvmmsg(p.a, &mm, 1, MSG_DONTWAIT, NULL), mm.msg_len);
		tell_control(&mm.msg_hdr);
		memset(in, 0xa5, sizeof in);
		set(p.a, SOL_SOCKET, names[i], 0);
	}
	done(&p);
}

/* ---- Errors ---- */

/* Closed by a call that the interposer does not see, so that it is still sent frames. */
static void close_silently(int fd)
{
	FILE *f = fdopen(fd, "r");

	if (!f || !freopen("/dev/null", "r", f))
		abort();
}

static void refused(int family, int connected)
{
	static const size_t sizes[] = { 0, 1, 33, 100, 480, 1400 };
	int level = family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, name = family == AF_INET ? IP_RECVERR : IPV6_RECVERR;
	struct pair p = pair(family, connected);

	set(p.b, level, name, 1);
	close_silently(p.a);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		ssize_t n;

		say("IPv%d, refused, %zu bytes:\n", family == AF_INET ? 4 : 6, sizes[i]);
		told("  sent", connected ? send(p.b, out, sizes[i], 0) : give(&p, sizes[i]));
		n = error(p.b, BIG, sizeof control, 0);
		/* ICMP quotes less of a large message, by a frame's header. */
		if (n > 480)
			memset(in + 480, 0xa5, sizeof in - 480);
		told("  quoted, of 480", n > 480 ? 480 : n);
		told("  refused", recv(p.b, in, 1, MSG_DONTWAIT));
		told("  once", recv(p.b, in, 1, MSG_DONTWAIT));
	}
	set(p.b, level, name, 0);
	done(&p);
}

/* ---- A route with a small MTU ---- */

static struct pair pair_at(const char *addr)
{
	struct pair p = { .a = socket(AF_INET, SOCK_DGRAM, 0), .b = socket(AF_INET, SOCK_DGRAM, 0) };
	struct sockaddr_in at = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, addr, &at.sin_addr) != 1 || bind(p.a, (void *)&at, sizeof at))
		abort();
	place(p.a, &p.addr_a, &p.len);
	recv(p.a, in, 1, MSG_DONTWAIT);
	return p;
}

/* A message that was refused with its frame, and has left without, is no error. */
static void too_large(const char *addr)
{
	static const size_t sizes[] = { 1400, 1436, 1437, 1460, 1472, 1473, 3000 };
	struct pair p = pair_at(addr);

	set(p.b, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	set(p.b, IPPROTO_IP, IP_RECVERR, 1);
	set(p.b, SOL_SOCKET, SO_TIMESTAMPING, TX_TIMES | SOF_TIMESTAMPING_OPT_ID);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		say("unfragmented, %zu bytes:\n", sizes[i]);
		told("  sent", give(&p, sizes[i]));
		all_of_it(p.b);
		nothing_more(p.b);
	}
	receive_all(p.a);
	done(&p);
}

/* The first fragment comes back. It may contain less of the message, by the size of a frame. */
static void fragments(const char *addr)
{
	static const size_t sizes[] = { 1400, 1436, 1437, 1440, 1441, 1472, 1473, 9000, 65467 };
	struct pair p = pair_at(addr);

	set(p.b, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
	set(p.b, SOL_SOCKET, SO_TIMESTAMPING, TX_TIMES);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		const uint8_t *ip = in + 14, *udp = ip + 20;
		size_t n, most = sizes[i] < 1472 ? sizes[i] : 1472;

		say("fragmented, %zu bytes: %zd sent\n", sizes[i], give(&p, sizes[i]));
		n = (size_t)error(p.b, BIG, sizeof control, 0);
		say("  header %s, UDP %u bytes, lengths %s\n", add(0, ip, 20) == 0xffff ? "good" : "bad",
		    get16(udp + 4), get16(ip + 2) == n - 14 ? "agree" : "differ");
		n -= 14 + 20 + 8;
		say("  its beginning: %s, %s\n", sum(udp + 8, n) == sum(out, n) ? "yes" : "no",
		    n <= most && n + 36 >= most ? "enough" : "another length");
		say("  more: %s\n", !(get16(ip + 6) & 0x2000) == (n == sizes[i]) ? "as it should be" : "wrong");
	}
	done(&p);
}

int main(int argc, char **argv)
{
	begin();
	if (argc > 1) {
		too_large(argv[1]);
		fragments(argv[1]);
		say("end\n");
		return 0;
	}
	for (int family = AF_INET;; family = AF_INET6) {
		times(family, 0, 0);
		times(family, 1, SOF_TIMESTAMPING_OPT_ID);
		times(family, 0, SOF_TIMESTAMPING_OPT_TSONLY);
		times(family, 0, SOF_TIMESTAMPING_OPT_CMSG | SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_OPT_ID);
		little_room(family);
		times_of_arrival(family);
		refused(family, 0);
		refused(family, 1);
		if (family == AF_INET6)
			break;
	}
	many(3, 0);
	many(7, 1);
	many(9, 1);
	many(2, 2);
	asked_for_one();
	say("end\n");
	return 0;
}
