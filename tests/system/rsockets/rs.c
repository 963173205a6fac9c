/* SPDX-License-Identifier: BSD-2-Clause */
/* The socket engine alone: the effects of calls on streams and datagrams. rs_peers.c has peers that end, rs_hostile.c
 * hostile ones. */
#include <netinet/tcp.h>
#include <stdatomic.h>

#include "tests/system/rsockets/rs_kit.h"

/* ---- Bytes ---- */

#define TOTAL (8u << 20)

static uint8_t expected(size_t i)
{
	return (uint8_t)(i * 2654435761u >> 24);
}

struct half {
	int fd;
	size_t done;
	unsigned seed;
	bool good;
};

/* Pieces from one byte to more than the ring's size. */
static size_t piece(unsigned *seed, size_t left)
{
	static const size_t limit[] = { 16, 600, 20000, 700000 };
	size_t n = 1 + (size_t)rand_r(seed) % limit[rand_r(seed) % 4];

	return n < left ? n : left;
}

static void *writer(void *arg)
{
	struct half *h = arg;
	uint8_t *buf = malloc(700000);

	while (h->done < TOTAL) {
		size_t n = piece(&h->seed, TOTAL - h->done);

		for (size_t i = 0; i < n; i++)
			buf[i] = expected(h->done + i);
		if (send_to(h->fd, buf, n, 0) != (ssize_t)n)
			break;
		h->done += n;
	}
	h->good = h->done == TOTAL;
	diw_rs_shutdown(h->fd, SHUT_WR);
	free(buf);
	return NULL;
}

static void *reader(void *arg)
{
	struct half *h = arg;
	uint8_t *buf = malloc(700000);
	bool same = true;
	ssize_t n;

	while ((n = recv_from(h->fd, buf, piece(&h->seed, 700000), 0)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			same &= buf[i] == expected(h->done + (size_t)i);
		h->done += (size_t)n;
	}
	h->good = n == 0 && same && h->done == TOTAL;
	free(buf);
	return NULL;
}

/* Two threads on each socket: one reads and one writes. */
static void test_bytes(void)
{
	pthread_t t[4];
	struct half h[4];
	int fd[2];

	pair(fd);
	for (int i = 0; i < 4; i++) {
		h[i] = (struct half){ .fd = fd[i / 2], .seed = (unsigned)i + 1 };
		pthread_create(&t[i], NULL, i % 2 ? reader : writer, &h[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK(h[0].good && h[2].good, "two writers write 8 MiB in pieces of all sizes");
	CHECK(h[1].good && h[3].good, "each byte arrives, in order, and then the end");
	close_both(fd);
}

static void test_flags(void)
{
	char buf[16] = "";
	int fd[2];

	pair(fd);
	CHECK(recv_from(fd[1], buf, 1, MSG_DONTWAIT) == -EAGAIN, "nothing is there: EAGAIN");
	send_to(fd[0], "abcdef", 6, 0);
	CHECK(polled(fd[1], POLLIN, SOON_MS) == POLLIN, "poll says when something is there");
	CHECK(recv_from(fd[1], buf, 3, MSG_PEEK) == 3 && memcmp(buf, "abc", 3) == 0, "a peek sees the beginning");
	CHECK(recv_from(fd[1], buf, 2, 0) == 2 && memcmp(buf, "ab", 2) == 0, "and leaves it; two bytes are read");
	CHECK(recv_from(fd[1], buf, 16, MSG_DONTWAIT) == 4 && memcmp(buf, "cdef", 4) == 0, "then the rest");
	send_to(fd[0], "gh", 2, 0);
	send_to(fd[0], "ij", 2, 0);
	CHECK(recv_from(fd[1], buf, 4, MSG_WAITALL) == 4 && memcmp(buf, "ghij", 4) == 0, "MSG_WAITALL waits for all");
	CHECK(recv_from(fd[1], buf, 0, 0) == 0, "reading nothing is no end");
	close_both(fd);
}

static void test_vectors(void)
{
	char a[3], b[5], text[] = "12345678";
	struct iovec out[] = { { text, 2 }, { NULL, 0 }, { text + 2, 6 } }, in[] = { { a, 3 }, { b, 5 } };
	struct msghdr to = { .msg_iov = out, .msg_iovlen = 3 }, from = { .msg_iov = in, .msg_iovlen = 2 };
	int fd[2];

	pair(fd);
	CHECK(diw_rs_send(fd[0], &to, 0) == 8, "three pieces are sent as one");
	CHECK(diw_rs_recv(fd[1], &from, MSG_WAITALL) == 8 && memcmp(a, "123", 3) == 0 && memcmp(b, "45678", 5) == 0,
	      "and fill two");
	close_both(fd);
}

/* ---- Room ---- */

static size_t fill(int fd)
{
	static char block[150000];
	size_t total = 0;
	ssize_t n;

	while ((n = send_to(fd, block, sizeof block, MSG_DONTWAIT)) > 0)
		total += (size_t)n;
	return n == -EAGAIN ? total : 0;
}

static void test_room(void)
{
	static char block[100000];
	size_t total, got = 0;
	struct timeval tv = { .tv_usec = 50000 };
	int fd[2];
	ssize_t n;

	pair(fd);
	total = fill(fd[0]);
	CHECK(total > 150000 && total % 150000, "a peer that does not read: some of a write is taken, then EAGAIN");
	CHECK(polled(fd[0], POLLOUT, 0) == 0, "poll knows that there is no room");
	diw_rs_setopt(fd[0], SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
	CHECK(send_to(fd[0], block, 1000, 0) == -EAGAIN, "SO_SNDTIMEO ends a write that waits");
	while (got < total && (n = recv_from(fd[1], block, sizeof block, 0)) > 0)
		got += (size_t)n;
	CHECK(got == total, "all that was taken arrives");
	CHECK(polled(fd[0], POLLOUT, SOON_MS) == POLLOUT, "then there is room");
	diw_rs_setopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	CHECK(recv_from(fd[1], block, 1, 0) == -EAGAIN, "SO_RCVTIMEO ends a read that waits");
	close_both(fd);
}

/* ---- Ends ---- */

static void test_shutdown(void)
{
	char buf[8];
	int fd[2];

	pair(fd);
	send_to(fd[0], "last", 4, 0);
	CHECK(diw_rs_shutdown(fd[0], SHUT_WR) == 0, "one direction ends");
	CHECK(send_to(fd[0], "x", 1, MSG_NOSIGNAL) == -EPIPE, "it cannot be written any more");
	CHECK(recv_from(fd[1], buf, 8, MSG_WAITALL) == 4 && recv_from(fd[1], buf, 8, 0) == 0,
	      "the peer reads up to the end");
	CHECK(polled(fd[1], POLLIN | POLLRDHUP | POLLOUT, 0) == (POLLIN | POLLRDHUP | POLLOUT), "poll says so");
	CHECK(send_to(fd[1], "back", 4, 0) == 4 && recv_from(fd[0], buf, 8, 0) == 4, "the other direction goes on");
	CHECK(diw_rs_shutdown(fd[0], SHUT_RD) == 0 && recv_from(fd[0], buf, 8, 0) == 0, "SHUT_RD: the end at once");
	close_both(fd);

	pair(fd);
	send_to(fd[0], "unread", 6, 0);
	diw_rs_close(fd[0]);
	CHECK(recv_from(fd[1], buf, 8, MSG_WAITALL) == 6 && recv_from(fd[1], buf, 8, 0) == 0,
	      "what was written before close arrives, and the end");
	diw_rs_close(fd[1]);
	CHECK(diw_rs_close(fd[1]) == -EBADF && recv_from(fd[1], buf, 1, 0) == -EBADF, "a closed socket is none");
}

/* ---- Connecting ---- */

static void test_connect(void)
{
	int l = listener(AF_INET, 4), fd, err = 0, other;
	uint16_t port = port_of(l);
	socklen_t len = sizeof err;

	fd = diw_rs_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(polled(l, POLLIN, 0) == 0 && diw_rs_fcntl(l, F_SETFL, O_NONBLOCK) == 0 &&
	      diw_rs_accept(l, NULL, NULL) == -EAGAIN, "nobody has connected yet");
	CHECK(try_connect(fd, AF_INET, port) == -EINPROGRESS, "a connect that does not block is in progress");
	CHECK(polled(fd, POLLOUT, SOON_MS) == POLLOUT, "and made before accept is called");
	CHECK(diw_rs_getopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err == 0, "without error");
	CHECK(try_connect(fd, AF_INET, port) == -EISCONN, "once only");
	CHECK(polled(l, POLLIN, SOON_MS) == POLLIN, "the listener is readable");
	other = diw_rs_accept(l, NULL, NULL);
	nonblocking(fd, false);
	CHECK(other >= 0 && polled(l, POLLIN, 0) == 0 && talk(fd, other), "accept takes it, and there is no other");
	diw_rs_close(l);
	CHECK(talk(fd, other), "it lives on when nobody listens any more");
	diw_rs_close(fd);
	diw_rs_close(other);

	fd = diw_rs_socket(AF_INET, SOCK_STREAM, 0);
	CHECK(try_connect(fd, AF_INET, port) == -ECONNREFUSED, "nobody listens: ECONNREFUSED");
	nonblocking(fd, true);
	try_connect(fd, AF_INET, port);
	CHECK(polled(fd, POLLOUT, SOON_MS) & POLLERR, "told by poll, too");
	CHECK(diw_rs_getopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err == ECONNREFUSED, "and by SO_ERROR");
	diw_rs_close(fd);
}

static void test_names(void)
{
	struct sockaddr_storage a = { 0 }, b = { 0 };
	socklen_t alen = sizeof a, blen = sizeof b;
	int l = listener(AF_INET6, 1), fd = connected(AF_INET6, port_of(l)), other;

	other = diw_rs_accept(l, (struct sockaddr *)&a, &alen);
	diw_rs_name(fd, false, (struct sockaddr *)&b, &blen);
	CHECK(other >= 0 && alen == sizeof(struct sockaddr_in6) && alen == blen && memcmp(&a, &b, alen) == 0,
	      "IPv6: accept tells whose connection it is");
	alen = blen = sizeof a;
	diw_rs_name(fd, true, (struct sockaddr *)&a, &alen);
	diw_rs_name(other, false, (struct sockaddr *)&b, &blen);
	CHECK(alen == blen && memcmp(&a, &b, alen) == 0, "getpeername is the other's getsockname");
	CHECK(talk(fd, other), "and bytes go");
	diw_rs_close(fd);
	diw_rs_close(other);
	diw_rs_close(l);
	fd = diw_rs_socket(AF_INET, SOCK_STREAM, 0);
	alen = sizeof a;
	CHECK(diw_rs_name(fd, true, (struct sockaddr *)&a, &alen) == -ENOTCONN, "nobody is connected: ENOTCONN");
	diw_rs_close(fd);
}

/* An IPv6 socket without an address accepts IPv4 connections. */
static void test_dual(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 }, from;
	socklen_t len = sizeof from;
	int l = diw_rs_socket(AF_INET6, SOCK_STREAM, 0), fd, other;

	CHECK(diw_rs_bind(l, (struct sockaddr *)&any, sizeof any) == 0 && port_of(l) && diw_rs_listen(l, 1) == 0,
	      "a port is there when it is bound");
	fd = connected(AF_INET, port_of(l));
	other = diw_rs_accept(l, (struct sockaddr *)&from, &len);
	CHECK(other >= 0 && from.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&from.sin6_addr), "IPv4 to IPv6");
	CHECK(talk(fd, other), "and bytes go");
	diw_rs_close(fd);
	diw_rs_close(other);
	diw_rs_close(l);
}

/* ---- Readiness ---- */

static void *say_later(void *arg)
{
	usleep(30000);
	send_to(*(int *)arg, "x", 1, 0);
	return NULL;
}

static void *write_later(void *arg)
{
	usleep(30000);
	(void)!write(*(int *)arg, "x", 1);
	return NULL;
}

static void test_poll(void)
{
	struct pollfd p[3];
	fd_set rd, wr;
	pthread_t t;
	int fd[2], pipes[2];
	char c;

	pair(fd);
	if (pipe(pipes) < 0)
		die("pipe", -errno);
	p[0] = (struct pollfd){ .fd = fd[1], .events = POLLIN };
	p[1] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = -1, .events = POLLIN };
	CHECK(diw_rs_poll(p, 3, 20) == 0, "a socket and a pipe: nothing yet");
	pthread_create(&t, NULL, say_later, &fd[0]);
	CHECK(diw_rs_poll(p, 3, SOON_MS) == 1 && p[0].revents == POLLIN && !p[1].revents,
	      "the socket wakes the sleeper");
	pthread_join(t, NULL);
	recv_from(fd[1], &c, 1, 0);
	pthread_create(&t, NULL, write_later, &pipes[1]);
	CHECK(diw_rs_poll(p, 3, SOON_MS) == 1 && !p[0].revents && p[1].revents == POLLIN, "the pipe, too");
	pthread_join(t, NULL);
	FD_ZERO(&rd);
	FD_ZERO(&wr);
	FD_SET(fd[1], &rd);
	FD_SET(pipes[0], &rd);
	FD_SET(fd[0], &wr);
	CHECK(diw_rs_select(64, &rd, &wr, NULL, NULL) == 2 && !FD_ISSET(fd[1], &rd) && FD_ISSET(pipes[0], &rd) &&
	      FD_ISSET(fd[0], &wr), "select says the same");
	p[1].fd = 999;
	CHECK(diw_rs_poll(p, 2, 0) == 1 && p[1].revents == POLLNVAL, "what is no descriptor is POLLNVAL");
	close(pipes[0]);
	close(pipes[1]);
	close_both(fd);
}

static void *accept_later(void *arg)
{
	usleep(30000);
	return (void *)(intptr_t)diw_rs_accept(*(int *)arg, NULL, NULL);
}

/* A connection that is established while its initiator sleeps, since the backlog was full. */
static void test_poll_connect(void)
{
	int l = listener(AF_INET, 0), first = connected(AF_INET, port_of(l)), pipes[2];
	struct pollfd p[2];
	pthread_t t;
	void *other;

	if (pipe(pipes) < 0)
		die("pipe", -errno);
	p[0] = (struct pollfd){ .fd = diw_rs_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), .events = POLLOUT };
	p[1] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	try_connect(p[0].fd, AF_INET, port_of(l));
	pthread_create(&t, NULL, accept_later, &l);
	CHECK(diw_rs_poll(p, 2, SOON_MS) == 1 && p[0].revents == POLLOUT, "a connection that is made wakes who polls");
	pthread_join(t, &other);
	close(pipes[0]);
	close(pipes[1]);
	diw_rs_close(p[0].fd);
	diw_rs_close(first);
	diw_rs_close((int)(intptr_t)other);
	diw_rs_close(l);
}

static void *block_in_recv(void *arg)
{
	char c;

	return (void *)recv_from(*(int *)arg, &c, 1, 0);
}

static void test_closer(void)
{
	pthread_t t;
	void *rc;
	int fd[2];

	pair(fd);
	pthread_create(&t, NULL, block_in_recv, &fd[0]);
	usleep(30000);
	diw_rs_close(fd[0]);
	pthread_join(t, &rc);
	CHECK((ssize_t)rc <= 0, "close ends another thread's read");
	diw_rs_close(fd[1]);
	pair(fd);
	pthread_create(&t, NULL, block_in_recv, &fd[0]);
	usleep(30000);
	diw_rs_shutdown(fd[0], SHUT_RD);
	pthread_join(t, &rc);
	CHECK(rc == NULL, "so does SHUT_RD, which is its end");
	close_both(fd);
}

static void on_signal(int sig)
{
	(void)sig;
}

static atomic_bool interrupted;

/* The thread may come to its read after the first signals. */
static void *interrupt(void *arg)
{
	do {
		usleep(30000);
		pthread_kill(*(pthread_t *)arg, SIGUSR1);
	} while (!atomic_load(&interrupted));
	return NULL;
}

static void test_signal(void)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;
	pthread_t self = pthread_self(), t;
	char c;
	int fd[2];

	pair(fd);
	sigaction(SIGUSR1, &sa, &old);
	pthread_create(&t, NULL, interrupt, &self);
	CHECK(recv_from(fd[0], &c, 1, 0) == -EINTR, "a handler without SA_RESTART ends a read");
	atomic_store(&interrupted, true);
	pthread_join(t, NULL);
	sigaction(SIGUSR1, &old, NULL);
	close_both(fd);
}

/* ---- Options, datagrams, mapped memory ---- */

static void test_options(void)
{
	int fd = diw_rs_socket(AF_INET, SOCK_STREAM, 0), v = 1;
	struct linger linger = { 1, 5 }, back;
	socklen_t len = sizeof v;

	CHECK(diw_rs_setopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, sizeof v) == 0, "TCP_NODELAY is taken");
	v = 300000;
	diw_rs_setopt(fd, SOL_SOCKET, SO_SNDBUF, &v, sizeof v);
	v = 0;
	CHECK(diw_rs_getopt(fd, SOL_SOCKET, SO_SNDBUF, &v, &len) == 0 && v >= 300000, "SO_SNDBUF is told back");
	CHECK(diw_rs_getopt(fd, SOL_SOCKET, SO_TYPE, &v, &len) == 0 && v == SOCK_STREAM, "SO_TYPE");
	diw_rs_setopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	len = sizeof back;
	CHECK(diw_rs_getopt(fd, SOL_SOCKET, SO_LINGER, &back, &len) == 0 && back.l_linger == 5, "SO_LINGER");
	CHECK(diw_rs_setopt(fd, SOL_SOCKET, 9999, &v, sizeof v) == -ENOPROTOOPT, "an unknown one is ENOPROTOOPT");
	CHECK(diw_rs_fcntl(fd, F_GETFL, 0) == O_RDWR, "F_GETFL");
	diw_rs_close(fd);
	CHECK(diw_rs_socket(AF_UNIX, SOCK_STREAM, 0) == -EAFNOSUPPORT, "no AF_UNIX");
}

static void test_datagrams(void)
{
	struct sockaddr_storage ss;
	socklen_t len = lo(AF_INET, 0, &ss);
	char buf[100] = "";
	struct iovec iov = { buf, sizeof buf };
	struct msghdr m = { .msg_name = &ss, .msg_namelen = sizeof ss, .msg_iov = &iov, .msg_iovlen = 1 };
	int a = diw_rs_socket(AF_INET, SOCK_DGRAM, 0), b = diw_rs_socket(AF_INET, SOCK_DGRAM, 0);

	CHECK(diw_rs_bind(a, (struct sockaddr *)&ss, len) == 0 && port_of(a), "a socket for datagrams has a port");
	CHECK(try_connect(b, AF_INET, port_of(a)) == 0 && send_to(b, "hello", 6, 0) == 6, "one is sent to it");
	CHECK(polled(a, POLLIN, SOON_MS) == POLLIN && diw_rs_recv(a, &m, 0) == 6 && strcmp(buf, "hello") == 0,
	      "and arrives whole");
	iov.iov_len = 3;
	m.msg_namelen = sizeof(struct sockaddr_in);
	memcpy(buf, "abc", 3);
	CHECK(diw_rs_send(a, &m, 0) == 3 && recv_from(b, buf + 10, 50, 0) == 3 && memcmp(buf + 10, "abc", 3) == 0,
	      "the answer finds its way by the address that came with it");
	send_to(b, "longer", 7, 0);
	CHECK(recv_from(a, buf, 2, MSG_TRUNC) == 7, "MSG_TRUNC tells the real length");
	CHECK(recv_from(a, buf, 2, MSG_DONTWAIT) == -EAGAIN, "the rest of a datagram is gone");
	CHECK(send_to(b, buf, 70000, 0) == -EMSGSIZE, "a datagram has a greatest length");
	CHECK(send_to(a, buf, 1, 0) == -EDESTADDRREQ, "and a destination");
	diw_rs_close(a);
	diw_rs_close(b);
}

static void test_mapped(void)
{
	static char memory[4096];
	char c;
	int fd[2];
	off_t at;

	pair(fd);
	CHECK(diw_rs_iowrite(fd[1], "x", 1, 0, 0) == -EINVAL, "nothing is mapped");
	at = diw_rs_iomap(fd[0], memory, sizeof memory, PROT_WRITE, 0, -1);
	send_to(fd[0], "!", 1, 0);
	recv_from(fd[1], &c, 1, 0);
	CHECK(at >= 0 && diw_rs_iowrite(fd[1], "written", 7, at + 100, 0) == 7, "the peer writes what was mapped");
	send_to(fd[1], "!", 1, 0);
	recv_from(fd[0], &c, 1, 0);
	CHECK(memcmp(memory + 100, "written", 7) == 0, "and it is there when what was sent behind it is");
	CHECK(diw_rs_iowrite(fd[1], "x", 1, at + 4096, 0) == -EINVAL, "not beyond its end");
	CHECK(diw_rs_iounmap(fd[0], memory, sizeof memory) == 0 && diw_rs_iounmap(fd[0], memory, 1) == -EINVAL,
	      "it is taken back once");
	CHECK(talk(fd[0], fd[1]) && diw_rs_iowrite(fd[1], "x", 1, at, 0) == -EINVAL, "then it is not mapped any more");
	close_both(fd);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_bytes();
	test_flags();
	test_vectors();
	test_room();
	test_shutdown();
	test_connect();
	test_names();
	test_dual();
	test_poll();
	test_poll_connect();
	test_closer();
	test_signal();
	test_options();
	test_datagrams();
	test_mapped();
	return failures > 0;
}
