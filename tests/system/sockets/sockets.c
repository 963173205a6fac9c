/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls datagram sockets in every way and prints the results: sockets.sh compares the output with and without the
 * interposer. With an argument it ends at the end of its standard input, so that its counters can be read. */
#include <aio.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/system/sockets/sockets_kit.h"

/* ---- Each way to send with each way to receive ---- */

static ssize_t by_aio(int fd, void *p, size_t n, bool writes)
{
	struct aiocb cb = { .aio_fildes = fd, .aio_buf = p, .aio_nbytes = n, .aio_sigevent.sigev_notify = SIGEV_NONE };
	const struct aiocb *one[] = { &cb };

	if ((writes ? aio_write(&cb) : aio_read(&cb)) < 0)
		return -1;
	while (aio_error(&cb) == EINPROGRESS)
		aio_suspend(one, 1, NULL);
	errno = aio_error(&cb);
	return aio_return(&cb);
}

static ssize_t send_by(int how, int fd, size_t n, const struct sockaddr_storage *to, socklen_t len)
{
	struct iovec iov[3] = { { out, n / 3 }, { out + n / 3, n / 2 }, { out + n / 3 + n / 2, n - n / 3 - n / 2 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 3, .msg_name = (void *)to, .msg_namelen = to ? len : 0 };
	struct mmsghdr mm = { .msg_hdr = m };

	switch (how) {
	case 0: return sendto(fd, out, n, 0, (const void *)to, len);
	case 1: return sendmsg(fd, &m, 0);
	case 2: return sendmmsg(fd, &mm, 1, 0) == 1 ? (ssize_t)mm.msg_len : -1;
	case 3: return send(fd, out, n, 0);
	case 4: return write(fd, out, n);
	case 5: return writev(fd, iov, 3);
	case 6: return pwritev2(fd, iov, 3, -1, 0);
	case 7: return syscall(SYS_writev, fd, iov, 3);
	default: return by_aio(fd, out, n, true);
	}
}

static ssize_t recv_by(int how, int fd, size_t room)
{
	struct iovec iov[3] = { { in, room / 3 }, { in + room / 3, 7 }, { in + room / 3 + 7, room - room / 3 - 7 } };
	struct sockaddr_storage from;
	socklen_t len = sizeof from;
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = len };
	struct mmsghdr mm[2] = { { .msg_hdr = m } };
	ssize_t rc;

	switch (how) {
	case 0: rc = recvfrom(fd, in, room, MSG_DONTWAIT, (void *)&from, &len); break;
	case 1: rc = recvmsg(fd, &m, MSG_DONTWAIT); say("flags %x, ", m.msg_flags); len = m.msg_namelen; break;
	case 2: rc = recvmmsg(fd, mm, 1, MSG_DONTWAIT, NULL) == 1 ? (ssize_t)mm[0].msg_len : -1; break;
	case 3: return recv(fd, in, room, MSG_DONTWAIT);
	case 4: return read(fd, in, room);
	case 5: return readv(fd, iov, 3);
	case 6: return preadv2(fd, iov, 3, -1, 0);
	case 7: return syscall(SYS_readv, fd, iov, 3);
	default: return by_aio(fd, in, room, false);
	}
	if (rc >= 0)
		say("from %d bytes of %d, ", how == 2 ? mm[0].msg_hdr.msg_namelen : len, from.ss_family);
	return rc;
}

static void ways(int family)
{
	static const size_t sizes[] = { 0, 1, 100, 1316, 1472, 1536, 1537, 9000, 60000, 65471, 65472, 65507, 65508 };
	struct pair p[2] = { pair(family, 0), pair(family, 1) };
	char what[64];

	for (size_t i = 0; i < COUNT(sizes); i++)
		for (int how = 0; how < 9; how++) {
			struct pair *q = &p[how > 2];

			snprintf(what, sizeof what, "IPv%d: %zu by %d", family == AF_INET ? 4 : 6, sizes[i], how);
			if (told(what, send_by(how, q->b, sizes[i], how > 2 ? NULL : &q->addr_a, q->len)) < 0)
				continue;
			if (how > 3 && sizes[i] == 0)
				told("  0 by read", recv(q->a, in, BIG, MSG_DONTWAIT));
			else
				told("  received", recv_by(how, q->a, how % 2 ? BIG : sizes[i] + 40));
		}
	done(&p[0]);
	done(&p[1]);
}

/* ---- Flags ---- */

static void next_is(int fd)
{
	int n = -1, rc = ioctl(fd, FIONREAD, &n);

	say("FIONREAD %d %d\n", rc, n);
}

static void flags(void)
{
	static const int set[] = { 0, MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_OOB, MSG_OOB | MSG_PEEK };
	struct pair p = pair(AF_INET, 0);
	struct iovec iov = { in, 50 };

	for (size_t i = 0; i < COUNT(set); i++)
		for (size_t room = 0; room <= 120; room += 20) {
			struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

			give(&p, 100);
			told("recv with flags", recv(p.a, in, room, set[i] | MSG_DONTWAIT));
			if (set[i] & MSG_PEEK)
				told("  again", recv(p.a, in, room, MSG_DONTWAIT));
			give(&p, 100);
			iov.iov_len = room;
			told("recvmsg with flags", recvmsg(p.a, &m, set[i] | MSG_DONTWAIT));
			say("  msg_flags %x\n", m.msg_flags);
			while (recv(p.a, in, 1, MSG_DONTWAIT) >= 0)
				;
			memset(in, 0xa5, sizeof in);
		}
	next_is(p.a);
	give(&p, 123);
	give(&p, 5);
	next_is(p.a);
	told("recv", recv(p.a, in, BIG, 0));
	next_is(p.a);
	told("empty read", read(p.a, in, 0));
	told("recv of 0 bytes", recv(p.a, in, 0, 0));
	told("nothing", recv(p.a, in, BIG, MSG_DONTWAIT));
	done(&p);
}

/* SIZE_MAX, and pieces whose sum is more than that. */
static void huge(void)
{
	struct pair p = pair(AF_INET, 1);
	struct iovec one = { out, SIZE_MAX }, two[2] = { { out, SIZE_MAX }, { out, 100 } };
	struct msghdr m = { .msg_iov = &one, .msg_iovlen = 1 }, n = { .msg_iov = two, .msg_iovlen = 2 };
	struct mmsghdr mm = { .msg_hdr = n };
	int size = 1000;

	for (int i = 0; i < 2; i++) {
		told("huge send", send(p.b, out, SIZE_MAX, 0));
		told("huge sendmsg", sendmsg(p.b, &m, 0));
		told("huge pieces", sendmsg(p.b, &n, 0));
		told("huge sendmmsg", sendmmsg(p.b, &mm, 1, 0));
		told("huge writev", writev(p.b, two, 2));
		setsockopt(p.b, IPPROTO_UDP, 103 /* UDP_SEGMENT */, &size, sizeof size);
	}
	told("nothing came", recv(p.a, in, BIG, MSG_DONTWAIT));
	done(&p);
}

/* The kernel counts how many bytes MSG_PEEK has copied. */
static void peek_offset(void)
{
	struct pair p = pair(AF_INET, 1);
	struct iovec iov = { in, 5 };
	struct mmsghdr mm = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };
	int from = 3, n = -1, off = -1;

	setsockopt(p.a, SOL_SOCKET, SO_PEEK_OFF, &from, sizeof from);
	send(p.b, out, 40, 0);
	send(p.b, out, 20, 0);
	told("peek", recv(p.a, in, 5, MSG_PEEK | MSG_DONTWAIT));
	told("peek by recvmsg", recvmsg(p.a, &mm.msg_hdr, MSG_PEEK | MSG_DONTWAIT));
	told("peek by recvmmsg", recvmmsg(p.a, &mm, 1, MSG_PEEK | MSG_DONTWAIT, NULL));
	ioctl(p.a, FIONREAD, &n);
	told("peek the rest", recv(p.a, in, BIG, MSG_PEEK | MSG_DONTWAIT));
	told("peek the next", recv(p.a, in, 5, MSG_PEEK | MSG_DONTWAIT));
	told("take", recv(p.a, in, BIG, MSG_DONTWAIT));
	told("peek", recv(p.a, in, 5, MSG_PEEK | MSG_DONTWAIT));
	setsockopt(p.a, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof off);
	told("peek from the start", recv(p.a, in, BIG, MSG_PEEK | MSG_DONTWAIT));
	say("FIONREAD %d\n", n);
	done(&p);
}

static void errors(void)
{
	struct pair p = pair(AF_INET, 0), c = pair(AF_INET, 1);
	struct sockaddr_in broadcast = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = ~0u };
	struct mmsghdr mm = { 0 };

	told("no destination", send(p.b, out, 10, 0));
	told("no descriptor", recv(9999, in, 10, 0));
	told("descriptor -1", sendto(-1, out, 10, 0, (void *)&p.addr_a, p.len));
	told("short address", sendto(p.b, out, 10, 0, (void *)&p.addr_a, 4));
	told("broadcast", sendto(p.b, out, 10, 0, (void *)&broadcast, sizeof broadcast));
	told("no message", sendmmsg(p.b, &mm, 0, 0));
	told("probe", recvmmsg(-1, NULL, 0, 0, NULL));
	told("no msghdr", recvmsg(p.a, NULL, MSG_DONTWAIT));
	told("out of band", send(c.b, out, 10, MSG_OOB));
	close(c.a);
	told("to nobody", send(c.b, out, 10, 0));
	told("refused", recv(c.b, in, 10, MSG_DONTWAIT));
	told("once", recv(c.b, in, 10, MSG_DONTWAIT));
	shutdown(c.b, SHUT_WR);
	told("shut down", send(c.b, out, 10, MSG_NOSIGNAL));
	c.a = -1;
	done(&p);
	done(&c);
}

/* ---- Waiting ---- */

static volatile int side = -1;

static void on_alarm(int sig)
{
	char buf[200];

	(void)sig;
	if (side >= 0)
		say("in a handler: %zd\n", recv(side, buf, sizeof buf, MSG_DONTWAIT));
	side = -1;
}

static void waiting(void)
{
	struct pair p = pair(AF_INET, 0), q = pair(AF_INET, 0);
	struct timeval tv = { .tv_usec = 30000 };
	struct sigaction sa = { .sa_handler = on_alarm };

	setsockopt(p.a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	told("timeout", recv(p.a, in, BIG, 0));
	give(&p, 200);
	told("before the timeout", recv(p.a, in, BIG, 0));
	sigaction(SIGALRM, &sa, NULL);
	alarm_in(30, 30);
	told("interrupted", recv(q.a, in, BIG, 0));
	alarm_in(0, 0);
	give(&p, 77);
	side = p.a;
	alarm_in(30, 30);
	told("interrupted by a handler that receives", recv(q.a, in, BIG, 0));
	alarm_in(0, 0);
	give(&q, 1000);
	told("afterwards", recv(q.a, in, BIG, 0));
	fcntl(q.a, F_SETFL, O_NONBLOCK);
	told("not blocking", read(q.a, in, BIG));
	fcntl(q.a, F_SETFL, 0);
	give(&q, 10);
	told("blocking", read(q.a, in, BIG));
	done(&p);
	done(&q);
}

static void readiness(void)
{
	struct pair p = pair(AF_INET, 0);
	struct pollfd f = { .fd = p.a, .events = POLLIN };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET }, got;
	int level = epoll_create1(0), edge = epoll_create1(0);

	epoll_ctl(edge, EPOLL_CTL_ADD, p.a, &ev);
	ev.events = EPOLLIN;
	epoll_ctl(level, EPOLL_CTL_ADD, p.a, &ev);
	say("nothing: %d %d %d\n", poll(&f, 1, 0), epoll_wait(level, &got, 1, 0), epoll_wait(edge, &got, 1, 0));
	give(&p, 10);
	give(&p, 20);
	for (int i = 0; i < 3; i++) {
		say("poll %d, level %d, edge %d\n", poll(&f, 1, 0), epoll_wait(level, &got, 1, 0),
		    epoll_wait(edge, &got, 1, 0));
		told("one", recv(p.a, in, BIG, MSG_DONTWAIT));
	}
	close(level);
	close(edge);
	done(&p);
}

/* ---- Many at once ---- */

static void many(void)
{
	struct pair p = pair(AF_INET, 1);
	struct mmsghdr mm[5] = { 0 };
	struct iovec iov[5];
	struct timespec ts = { .tv_sec = 60 };
	int n;

	for (int i = 0; i < 5; i++) {
		iov[i] = (struct iovec){ out + i, (size_t)(i * 300) };
		mm[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	say("sendmmsg %d:", sendmmsg(p.b, mm, 5, 0));
	for (int i = 0; i < 5; i++) {
		say(" %u", mm[i].msg_len);
		iov[i] = (struct iovec){ in + i * 1000, 900 };
		mm[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	n = recvmmsg(p.a, mm, 3, 0, &ts);
	say("\nrecvmmsg %d: %u %u %u, flags %x\n", n, mm[0].msg_len, mm[1].msg_len, mm[2].msg_len,
	    mm[2].msg_hdr.msg_flags);
	n = recvmmsg(p.a, mm, 5, MSG_WAITFORONE, NULL);
	say("recvmmsg %d: %u %u, flags %x\n", n, mm[0].msg_len, mm[1].msg_len, mm[1].msg_hdr.msg_flags);
	memset(in, 0xa5, sizeof in);
	told("no more", recvmmsg(p.a, mm, 5, MSG_DONTWAIT, NULL));
	done(&p);
}

/* ---- Options ---- */

static void error_queue(void)
{
	struct pair p = pair(AF_INET, 1);
	int on = 1;

	setsockopt(p.b, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
	close(p.a);
	send(p.b, out, 33, 0);
	told("refused", recv(p.b, in, BIG, MSG_DONTWAIT));
	told("error queue", recv(p.b, in, BIG, MSG_ERRQUEUE | MSG_DONTWAIT));
	p.a = -1;
	done(&p);
}

static void composed(void)
{
	struct pair p = pair(AF_INET, 1);
	int on = 1, off = 0, size = 100;

	send(p.b, out, 100, MSG_MORE);
	send(p.b, out + 100, 50, 0);
	told("of two pieces", recv(p.a, in, BIG, MSG_DONTWAIT));
	setsockopt(p.b, IPPROTO_UDP, UDP_CORK, &on, sizeof on);
	send(p.b, out, 70, 0);
	send(p.b, out + 70, 70, 0);
	setsockopt(p.b, IPPROTO_UDP, UDP_CORK, &off, sizeof off);
	told("corked", recv(p.a, in, BIG, MSG_DONTWAIT));
	setsockopt(p.b, IPPROTO_UDP, 103 /* UDP_SEGMENT */, &size, sizeof size);
	send(p.b, out, 250, 0);
	for (int i = 0; i < 4; i++)
		told("segment", recv(p.a, in, BIG, MSG_DONTWAIT));
	done(&p);
}

static void control_data(void)
{
	struct pair p = pair(AF_INET, 0);
	char room[256];
	struct iovec iov = { in, BIG };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room };
	int on = 1;

	setsockopt(p.a, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
	setsockopt(p.a, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
	give(&p, 800);
	told("with control data", recvmsg(p.a, &m, MSG_DONTWAIT));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		say("  level %d type %d length %zu\n", c->cmsg_level, c->cmsg_type, c->cmsg_len);
	m.msg_controllen = 8;
	give(&p, 800);
	told("without room for it", recvmsg(p.a, &m, MSG_DONTWAIT));
	say("  flags %x, %zu\n", m.msg_flags, m.msg_controllen);
	done(&p);
}

/* ---- Addresses ---- */

static void dual_stack(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 };
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	int a = socket(AF_INET6, SOCK_DGRAM, 0), b = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_storage from;
	socklen_t len = sizeof any;

	bind(a, (void *)&any, sizeof any);
	getsockname(a, (void *)&any, &len);
	recv(a, in, 1, MSG_DONTWAIT);
	v4.sin_port = any.sin6_port;
	for (int i = 0; i < 3; i++) {
		v4.sin_addr.s_addr = htonl(i == 0 ? INADDR_LOOPBACK : i == 1 ? INADDR_ANY : 0x7f010203);
		told("to both stacks", sendto(b, out, 40, 0, (void *)&v4, sizeof v4));
		len = sizeof from;
		told("  got", recvfrom(a, in, BIG, MSG_DONTWAIT, (void *)&from, &len));
		say("  family %d, %u bytes\n", from.ss_family, len);
	}
	told("answer", sendto(a, out, 41, 0, (void *)&from, len));
	told("  got", recv(b, in, BIG, MSG_DONTWAIT));
	told("answer", sendto(a, out, 42, 0, (void *)&from, len));
	told("  got", recv(b, in, BIG, MSG_DONTWAIT));
	close(a);
	close(b);
}

/* Like iperf3's server: one socket for each peer on the listener's port. */
static void siblings(void)
{
	struct pair p = pair(AF_INET, 0);
	int on = 1, late;

	setsockopt(p.a, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	give(&p, 60);
	told("first", recv(p.a, in, BIG, MSG_DONTWAIT));
	connect(p.a, (void *)&p.addr_b, p.len);
	late = socket(AF_INET, SOCK_DGRAM, 0);
	setsockopt(late, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	say("second bound: %d\n", bind(late, (void *)&p.addr_a, p.len));
	recv(late, in, 1, MSG_DONTWAIT);
	give(&p, 61);
	told("connected", recv(p.a, in, BIG, MSG_DONTWAIT));
	told("listening", recv(late, in, BIG, MSG_DONTWAIT));
	recv(p.a, in, 1, MSG_DONTWAIT);
	give(&p, 62);
	told("connected", recv(p.a, in, BIG, MSG_DONTWAIT));
	close(p.a);
	give(&p, 63);
	told("listening", recv(late, in, BIG, MSG_DONTWAIT));
	close(late);
	p.a = -1;
	done(&p);
}

/* A datagram that looks like a frame, with a key of no socket. */
static void lookalike(void)
{
	uint8_t frame[36 + 20] = { 0x41, 0x63, [27] = 20 };
	struct pair p = pair(AF_INET, 0);

	for (size_t n = 0; n <= sizeof frame; n += 4) {
		sendto(p.b, frame, n, 0x4000000 /* MSG_ZEROCOPY: so it leaves as it is */, (void *)&p.addr_a, p.len);
		told("looks like a frame", recv(p.a, in, BIG, MSG_DONTWAIT));
	}
	done(&p);
}

static ssize_t sends(struct pair *p)
{
	return sendto(p->b, out, 100, 0, (void *)&p->addr_a, p->len);
}

static ssize_t receives(struct pair *p)
{
	return recv(p->a, in, BIG, MSG_DONTWAIT);
}

static void was_cancelled(void *status)
{
	_exit(*(int *)status);
}

/* A single thread can be cancelled only by itself. Its calls are cancellation points nevertheless. */
static void cancels_itself(ssize_t (*call)(struct pair *), const char *what)
{
	struct pair p = pair(AF_INET, 0);
	int status, alone = __libc_single_threaded != 0;
	pid_t child;

	child = fork();
	if (child == 0) {
		for (int i = 0; i < 2; i++) {        /* so that nothing about the sockets remains to be found out */
			sends(&p);
			receives(&p);
		}
		pthread_cleanup_push(was_cancelled, &(int){ 7 });
		pthread_cancel(pthread_self());
		call(&p);
		pthread_cleanup_pop(0);
		_exit(1);
	}
	waitpid(child, &status, 0);
	say("cancelled by itself, alone %d, in %s: %d\n", alone, what, WEXITSTATUS(status));
	done(&p);
}

int main(int argc, char **argv)
{
	(void)argv;
	begin();
	ways(AF_INET);
	ways(AF_INET6);
	flags();
	huge();
	peek_offset();
	errors();
	waiting();
	readiness();
	many();
	error_queue();
	composed();
	control_data();
	dual_stack();
	siblings();
	lookalike();
	cancels_itself(sends, "sendto");
	cancels_itself(receives, "recv");
	say("end\n");
	while (argc == 2 && getchar() != EOF)
		;
	return 0;
}
