/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP_SEGMENT and UDP_GRO in every way: sockets.sh compares the program's output with and without the interposer. */
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "tests/system/sockets/sockets_kit.h"

#define UDP_SEGMENT 103
#define UDP_GRO 104
#define LIMIT_MS 30000

static void set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof value))
		abort();
}

/* A pair whose A has room for all that one call sends. */
static struct pair pair_for(int family, int connected, int gro)
{
	struct pair p = pair(family, connected);
	char c;

	set(p.a, SOL_SOCKET, SO_RCVBUF, 4 << 20);
	set(p.a, IPPROTO_UDP, UDP_GRO, gro);
	recv(p.a, &c, 1, MSG_DONTWAIT);
	return p;
}

/* ---- Sending ---- */

union control { struct cmsghdr c; char room[256]; };

/* Behind what is in U already; the room that all takes then. */
static size_t put(union control *u, size_t at, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *c = (void *)(u->room + at);

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type };
	memcpy(CMSG_DATA(c), data, len);
	return at + CMSG_SPACE(len);
}

enum how { BY_CMSG, BY_OPTION, BY_SENDMMSG, BY_WRITEV, WAYS };

static ssize_t send_by(struct pair *p, enum how how, size_t n, uint16_t size)
{
	struct iovec iov[3] = { { out, n / 3 }, { out + n / 3, n / 2 }, { out + n / 3 + n / 2, n - n / 3 - n / 2 } };
	union control u = { 0 };
	struct mmsghdr mm = { .msg_hdr = { .msg_iov = iov, .msg_iovlen = 3, .msg_control = &u } };

	if (how == BY_OPTION || how == BY_WRITEV)
		set(p->b, IPPROTO_UDP, UDP_SEGMENT, size);
	else
		mm.msg_hdr.msg_controllen = put(&u, 0, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size);
	switch (how) {
	case BY_OPTION: return send(p->b, out, n, 0);
	case BY_WRITEV: return writev(p->b, iov, 3);
	case BY_CMSG: return sendmsg(p->b, &mm.msg_hdr, 0);
	default: return sendmmsg(p->b, &mm, 1, 0) == 1 ? (ssize_t)mm.msg_len : -1;
	}
}

/* ---- Receiving ---- */

static int size_of_segments(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
			int size;

			memcpy(&size, CMSG_DATA(c), sizeof size);
			return size;
		}
	return 0;
}

/* All that is there, message by message, however many of them the kernel gave at a time. */
static void tell_messages(int fd)
{
	uint32_t h = 0;
	size_t run = 0, times = 0, all = 0;

	for (;;) {
		union control u;
		struct iovec iov = { in, BIG };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof u };
		ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
		size_t size = n > 0 ? (size_t)size_of_segments(&m) : 0, at = 0;

		if (n < 0)
			break;
		do {
			size_t one = size && size < (size_t)n - at ? size : (size_t)n - at;

			h = h * 31 + sum(in + at, one);
			if (one != run && times) {
				say(" %zu x %zu", times, run);
				times = 0;
			}
			run = one;
			times++;
			at += one;
		} while (at < (size_t)n);
		all += (size_t)n;
	}
	if (times)
		say(" %zu x %zu", times, run);
	say(", %zu bytes, %08x\n", all, h);
	memset(in, 0xa5, sizeof in);
}

/* One call, and all that it tells. */
static void tell_buffer(const char *what, int fd, size_t room, size_t control_room, int flags)
{
	union control u = { 0 };
	struct sockaddr_storage from;
	struct iovec iov[3] = { { in, room / 3 }, { in + room / 3, 7 }, { in + room / 3 + 7, room - room / 3 - 7 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = sizeof from,
		.msg_control = control_room ? &u : NULL, .msg_controllen = control_room };

	if (told(what, recvmsg(fd, &m, flags | MSG_DONTWAIT)) < 0)
		return;
	say("  flags %x, name %u, control %zu, there %d\n", m.msg_flags, m.msg_namelen, m.msg_controllen,
	    m.msg_control == &u);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		say("  level %d type %d length %zu", c->cmsg_level, c->cmsg_type, c->cmsg_len);
		if (c->cmsg_level != SOL_SOCKET)
			say(": %08x", sum(CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0)));
		say("\n");
	}
}

/* ---- Every size and number, in each way ---- */

static void matrix(int family, int connected, int gro, enum how how)
{
	static const uint16_t sizes[] = { 1, 2, 37, 100, 536, 1200, 1371, 1372, 1436, 1452, 1472, 9000, 40000, 65500 };
	static const size_t counts[] = { 1, 2, 3, 7, 44, 45, 54, 63, 64, 65, 128, 129 };
	struct pair p = pair_for(family, connected, gro);

	if (!connected && connect(p.b, (void *)&p.addr_a, p.len))
		abort();
	for (size_t i = 0; i < COUNT(sizes); i++)
		for (size_t j = 0; j < COUNT(counts); j++)
			for (int last = 0; last < 3; last++) {
				size_t more = last == 0 ? sizes[i] : last == 1 ? 1 : sizes[i] / 2;
				size_t n = (counts[j] - 1) * sizes[i] + more;
				ssize_t rc;

				if (n > BIG)
					continue;
				rc = send_by(&p, how, n, sizes[i]);
				say("IPv%d, GRO %d, by %d: %zu x %u, the last %zu: %zd %s:",
				    family == AF_INET ? 4 : 6, gro, (int)how, counts[j], sizes[i], more, rc,
				    rc < 0 ? strerrorname_np(errno) : "ok");
				tell_messages(p.a);
			}
	say("nothing: %zd", send_by(&p, how, 0, 100));
	told("", recv(p.a, in, 1, MSG_DONTWAIT));
	done(&p);
}

/* ---- What the receiver's calls say ---- */

static void next_is(int fd)
{
	int n = -1, rc = ioctl(fd, FIONREAD, &n);

	say("FIONREAD %d %d\n", rc, n);
}

static void many(struct pair *p, int flags)
{
	static union control u[20];
	struct mmsghdr mm[20] = { 0 };
	struct iovec iov[20];
	int n;

	for (size_t i = 0; i < 18; i++)
		send_by(p, i % 4 == 3 ? BY_SENDMMSG : BY_CMSG, 100 + i * 210, i % 5 ? 300 : 1200);
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < 20; i++) {
			iov[i] = (struct iovec){ in + i * 3500, i == 4 ? 1000 : 3500 };
			mm[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1, .msg_control = &u[i],
				.msg_controllen = i % 3 == 1 ? 24 : sizeof u[i] };
		}
		n = recvmmsg(p->a, mm, turn ? 20 : 3, MSG_DONTWAIT | flags, NULL);
		for (int i = 0; i < n; i++)
			say("%d of %d: %u bytes, flags %x, control %zu, segments of %d: %08x\n", i, n, mm[i].msg_len,
			    mm[i].msg_hdr.msg_flags, mm[i].msg_hdr.msg_controllen, size_of_segments(&mm[i].msg_hdr),
			    sum(in + i * 3500, 3500));
		memset(in, 0xa5, sizeof in);
	}
	while (recv(p->a, in, BIG, MSG_DONTWAIT) >= 0)
		;
	memset(in, 0xa5, sizeof in);
}

static void receiving(int family, int gro)
{
	static const size_t rooms[] = { 0, 8, 15, 16, 19, 20, 23, 24, 32, 40, 48, 60, 64, 80, 200 };
	static const int set_of[] = { 0, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC };
	struct pair p = pair_for(family, 0, gro);
	struct iovec two[2] = { { in, 1000 }, { in + 1000, 60000 } };

	connect(p.b, (void *)&p.addr_a, p.len);
	for (int cmsgs = 0; cmsgs < 3; cmsgs++) {
		if (cmsgs == 1)
			set(p.a, IPPROTO_IP, IP_RECVTTL, 1);
		if (cmsgs == 2)
			set(p.a, SOL_SOCKET, SO_RXQ_OVFL, 1);
		for (size_t i = 0; i < COUNT(rooms); i++) {
			send_by(&p, BY_CMSG, 5 * 700 + 13, 700);
			tell_buffer("control data", p.a, 60000, rooms[i], 0);
			send_by(&p, BY_CMSG, 700, 700);
			tell_buffer("of one", p.a, 60000, rooms[i], 0);
			while (recv(p.a, in, BIG, MSG_DONTWAIT) >= 0)
				;
			memset(in, 0xa5, sizeof in);
		}
	}
	for (size_t i = 0; i < COUNT(set_of); i++)
		for (size_t room = 50; room < 5000; room += 1100) {
			send_by(&p, BY_CMSG, 5 * 700 + 13, 700);
			next_is(p.a);
			tell_buffer("flags", p.a, room, 200, set_of[i]);
			tell_buffer("again", p.a, room, 200, 0);
			while (recv(p.a, in, BIG, MSG_DONTWAIT) >= 0)
				;
			memset(in, 0xa5, sizeof in);
		}
	for (int i = 0; i < 4; i++) {
		send_by(&p, (enum how)i, 2 * 900 + 5, 900);
		switch (i) {
		case 0: told("recv", recv(p.a, in, BIG, MSG_DONTWAIT)); break;
		case 1: told("read", read(p.a, in, 1000)); break;
		case 2: told("readv", readv(p.a, two, 2)); break;
		default: told("recvfrom", recvfrom(p.a, in, BIG, MSG_DONTWAIT, NULL, NULL)); break;
		}
		tell_messages(p.a);
		set(p.b, IPPROTO_UDP, UDP_SEGMENT, 0);
	}
	many(&p, 0);
	many(&p, MSG_PEEK);
	many(&p, MSG_TRUNC);
	set(p.a, IPPROTO_UDP, UDP_GRO, !gro);
	send_by(&p, BY_CMSG, 3000, 1000);
	tell_buffer("switched", p.a, 5000, 200, 0);
	done(&p);
}

/* ---- Control data of the sender ---- */

/* A copy of LEN octets of P at the end of the memory that may be read. */
static void *at_the_end(const void *p, size_t len)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED || mprotect(page + 4096, 4096, PROT_NONE))
		abort();
	return memcpy(page + 4096 - len, p, len);
}

static void asking(void)
{
	struct pair p = pair_for(AF_INET, 1, 1);
	uint16_t size = 500, none = 0, large = 65535;
	int wide = 500, tos = 0x28, ttl = 9, one = 1;
	union control u;
	struct iovec iov = { out, 2100 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u };

	set(p.a, IPPROTO_IP, IP_RECVTOS, 1);
	set(p.a, IPPROTO_IP, IP_RECVTTL, 1);
	for (int i = 0; i < 9; i++) {
		size_t n = 0;

		memset(&u, 0, sizeof u);
		set(p.b, IPPROTO_UDP, UDP_SEGMENT, i % 2 ? 700 : 0);
		if (i < 2) {
			n = put(&u, 0, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl);
			n = put(&u, n, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size);
			n = put(&u, n, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
		} else if (i < 4) {
			n = put(&u, 0, IPPROTO_UDP, UDP_SEGMENT, &none, sizeof none);
		} else if (i == 4) {
			n = put(&u, 0, IPPROTO_UDP, UDP_SEGMENT, &wide, sizeof wide);
		} else if (i < 7) {
			n = put(&u, 0, IPPROTO_UDP, UDP_SEGMENT, &large, sizeof large);
		}
		if (i == 5 || i == 7)
			n = put(&u, n, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size);
		if (i == 7)
			n = put(&u, n, IPPROTO_IPV6, 62, &one, sizeof one);
		if (i == 8)
			n = put(&u, 0, IPPROTO_UDP, UDP_GRO, &size, sizeof size);
		m.msg_controllen = n;
		told("asked by control data", sendmsg(p.b, &m, 0));
		tell_buffer("  got", p.a, 5000, 200, 0);
		tell_messages(p.a);
	}
	put(&u, 0, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size);
	m.msg_control = at_the_end(&u, CMSG_LEN(0));
	m.msg_controllen = CMSG_LEN(0);
	told("with control data shorter than their entry", sendmsg(p.b, &m, 0));
	set(p.b, IPPROTO_UDP, UDP_SEGMENT, 700);
	told("more", send(p.b, out, 500, MSG_MORE));
	told("and the end", send(p.b, out + 500, 1500, 0));
	tell_messages(p.a);
	set(p.b, SOL_SOCKET, SO_NO_CHECK, 1);
	told("without checksums", send(p.b, out, 2000, 0));
	tell_messages(p.a);
	close(p.a);
	set(p.b, SOL_SOCKET, SO_NO_CHECK, 0);
	told("to nobody", send(p.b, out, 2000, 0));
	told("refused", send(p.b, out, 2000, 0));
	p.a = -1;
	done(&p);
}

/* Segments do not fit the path with a frame, or not even without. */
static void path(void)
{
	static const int sizes[] = { 1332, 1336, 1337, 1360, 1372, 1373, 1400 };
	struct pair p = pair_for(AF_INET, 1, 1);
	struct ifreq r = { .ifr_name = "lo", .ifr_mtu = 1400 };

	say("MTU: %d\n", ioctl(p.a, SIOCSIFMTU, &r));
	for (size_t i = 0; i < COUNT(sizes); i++)
		for (size_t n = 1; n < 4; n++) {
			told("by a narrow path", send_by(&p, BY_CMSG, n * (size_t)sizes[i] - 5, (uint16_t)sizes[i]));
			tell_messages(p.a);
		}
	r.ifr_mtu = 65536;
	say("MTU: %d\n", ioctl(p.a, SIOCSIFMTU, &r));
	done(&p);
}

/* ---- Times of what was sent, which the error queue has as one packet ---- */

static void come_back(int family)
{
	static const size_t sizes[] = { 90, 100, 101, 250, 300, 9050, 60000 };
	struct pair p = pair_for(family, 1, 1);
	size_t link_and_ip = family == AF_INET ? 14 + 20 : 14 + 40;

	set(p.b, SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_SOFTWARE |
	    SOF_TIMESTAMPING_OPT_ID);
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct pollfd f = { .fd = p.b };
		ssize_t n;

		told("watched", send_by(&p, BY_CMSG, sizes[i], sizes[i] > 50000 ? 1200 : 100));
		if (poll(&f, 1, LIMIT_MS) != 1)
			abort();
		n = recv(p.b, in, BIG, MSG_ERRQUEUE);
		say("  came back: %zd", n);
		if (n > (ssize_t)link_and_ip + 8)
			say(", UDP %u bytes, data %08x", in[link_and_ip + 4] << 8 | in[link_and_ip + 5],
			    sum(in + link_and_ip + 8, (size_t)n - link_and_ip - 8));
		say("\n");
		memset(in, 0xa5, sizeof in);
		told("  no more", recv(p.b, in, BIG, MSG_ERRQUEUE | MSG_DONTWAIT));
		tell_messages(p.a);
	}
	done(&p);
}

int main(void)
{
	begin();
	for (int gro = 0; gro < 2; gro++) {
		for (int how = 0; how < WAYS; how++)
			matrix(how % 2 ? AF_INET6 : AF_INET, how > 1, gro, (enum how)how);
		receiving(AF_INET, gro);
		receiving(AF_INET6, gro);
	}
	asking();
	path();
	come_back(AF_INET);
	come_back(AF_INET6);
	say("end\n");
	return 0;
}
