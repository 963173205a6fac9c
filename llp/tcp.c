/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream over a TCP socket. System calls of the data path do not go through the C library, as in llp/udp_sys.c: its
 * calls are cancellation points, which cost time, and a thread that is cancelled in one would leave the device's lock
 * held. A single buffer is sent by send(2), which has no message header for the kernel to copy and check.
 */
#include <errno.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "llp/stream.h"

#define BACKLOG 128
#define EMSS_MIN 536u                /* RFC 9293: every host accepts it */

struct tcp {
	struct diw_stream s;
	int fd;
	uint64_t inode;              /* of FD */
};

struct listener {
	struct diw_stream_listener l;
	int fd, mark;                /* mark: llp/mark.c; -1: none */
	uint64_t inode;              /* of FD */
};

static struct tcp *tcp_of(struct diw_stream *s)
{
	return (struct tcp *)s;
}

static int tcp_set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof value) ? -errno : 0;
}

/* ---- The stream ---- */

/* Whether no packet leaves the host: both addresses are one, or both are the loopback's. */
static bool stream_is_local(const struct diw_stream *s)
{
	return diw_addr_same_host(&s->local, &s->peer) ||
	       (diw_addr_is_v4(&s->local) && diw_addr_is_v4(&s->peer) && s->local.ip[12] == 127 &&
		s->peer.ip[12] == 127);
}

static void learn_addr(int fd, int (*ask)(int, struct sockaddr *, socklen_t *), struct diw_addr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	if (!ask(fd, (struct sockaddr *)&ss, &len))
		diw_addr_from_sockaddr(a, (struct sockaddr *)&ss);
}

static int tcp_connected(struct diw_stream *s)
{
	int fd = tcp_of(s)->fd, err = 0;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	const struct timespec at_once = { 0 };
	socklen_t len = sizeof err;

	if (syscall(SYS_ppoll, &p, 1, &at_once, NULL, 0) != 1)
		return -EAGAIN;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	if (!err) {
		learn_addr(fd, getsockname, &s->local);
		s->near = stream_is_local(s) && (diw_addr_eq(&s->local, &s->peer) || diw_mark_is_there(&s->peer));
	}
	return -err;
}

static ssize_t io_result(long n)
{
	if (n >= 0)
		return n;
	return errno == EINTR || errno == EWOULDBLOCK || errno == ENOBUFS ? -EAGAIN : -errno;
}

static ssize_t tcp_send(struct diw_stream *s, const struct iovec *iov, int n)
{
	const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (s->apart ? MSG_EOR : 0);
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };

	if (n == 1)
		return io_result(syscall(SYS_sendto, tcp_of(s)->fd, iov->iov_base, iov->iov_len, flags, NULL, 0));
	return io_result(syscall(SYS_sendmsg, tcp_of(s)->fd, &m, flags));
}

static ssize_t tcp_recv(struct diw_stream *s, const struct iovec *iov, int n)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };

	if (n == 1)
		return io_result(syscall(SYS_recvfrom, tcp_of(s)->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT, NULL,
					 NULL));
	return io_result(syscall(SYS_recvmsg, tcp_of(s)->fd, &m, MSG_DONTWAIT));
}

static uint32_t tcp_emss(struct diw_stream *s)
{
	socklen_t len = sizeof(int);
	int mss = 0;

	if (getsockopt(tcp_of(s)->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) || mss <= 0)
		return EMSS_MIN;
	return (uint32_t)mss;
}

static int tcp_fd(struct diw_stream *s)
{
	return tcp_of(s)->fd;
}

static void tcp_shutdown(struct diw_stream *s)
{
	shutdown(tcp_of(s)->fd, SHUT_WR);
}

static void tcp_close(struct diw_stream *s, bool abort)
{
	const struct linger none = { .l_onoff = 1 };

	if (abort && diw_inode(tcp_of(s)->fd) == tcp_of(s)->inode)
		setsockopt(tcp_of(s)->fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
	diw_close_socket(tcp_of(s)->fd, tcp_of(s)->inode);
	free(s);
}

static int set_seconds(int fd, int name, unsigned value)
{
	return value ? tcp_set_int(fd, IPPROTO_TCP, name, value < INT_MAX ? (int)value : INT_MAX) : 0;
}

/* Sets the options of a socket. Connections inherit those of their listener. */
static int tcp_set_options(int fd, int family, const struct diw_stream_attr *a)
{
	int err = tcp_set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);

	if (!err && a->keepalive) {
		err = tcp_set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
		if (!err)
			err = set_seconds(fd, TCP_KEEPIDLE, a->keepalive_idle);
		if (!err)
			err = set_seconds(fd, TCP_KEEPINTVL, a->keepalive_interval);
		if (!err)
			err = set_seconds(fd, TCP_KEEPCNT, a->keepalive_count);
	}
	if (!err)
		err = set_seconds(fd, TCP_USER_TIMEOUT, a->user_timeout_ms);
	if (!err && a->tos && family == AF_INET6)
		err = tcp_set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, (int)a->tos);
	if (!err && a->tos)          /* on an IPv6 socket too, for IPv4 peers */
		err = tcp_set_int(fd, IPPROTO_IP, IP_TOS, (int)a->tos);
	if (!err && a->congestion[0] &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, a->congestion, (socklen_t)strlen(a->congestion)))
		err = -errno;
	return err;
}

/* On one host there is neither loss nor delay. BBR, the default of many systems, halves the goodput there by its
 * pacing, so another algorithm is chosen. A user without the right to choose gets the system's default. */
static void choose_congestion(const struct tcp *t, const struct diw_stream_attr *a)
{
	if (!a->congestion[0] && memcmp(t->s.local.ip, t->s.peer.ip, sizeof t->s.peer.ip) == 0)
		setsockopt(t->fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
}

static int tcp_tune(struct diw_stream *s, const struct diw_stream_attr *a)
{
	const struct tcp *t = (struct tcp *)s;

	choose_congestion(t, a);
	return tcp_set_options(t->fd, diw_addr_is_v4(&s->peer) ? AF_INET : AF_INET6, a);
}

static bool tcp_hung_up(struct diw_stream *s)
{
	struct pollfd p = { .fd = tcp_of(s)->fd, .events = POLLRDHUP };
	const struct timespec at_once = { 0 };

	return syscall(SYS_ppoll, &p, 1, &at_once, NULL, 0) == 1;
}

static bool tcp_unsent(struct diw_stream *s)
{
	int octets = 0;

	return ioctl(tcp_of(s)->fd, SIOCOUTQNSD, &octets) == 0 && octets > 0;
}

static const struct diw_stream_ops tcp_ops = {
	.name = "tcp", .connected = tcp_connected, .send = tcp_send, .recv = tcp_recv, .emss = tcp_emss, .fd = tcp_fd,
	.hung_up = tcp_hung_up, .unsent = tcp_unsent, .tune = tcp_tune, .shutdown = tcp_shutdown, .close = tcp_close,
};

/* Takes ownership of FD. */
static int tcp_new(int fd, struct diw_stream **s)
{
	struct tcp *t = calloc(1, sizeof *t);

	if (!t) {
		close(fd);
		return -ENOMEM;
	}
	t->s.ops = &tcp_ops;
	t->fd = fd;
	t->inode = diw_inode(fd);
	*s = &t->s;
	return 0;
}

/* ---- Connecting ---- */

static int bind_to(int fd, int family, const struct diw_addr *local)
{
	struct diw_addr a = *local;
	struct sockaddr_storage ss;
	socklen_t len;

	if (diw_addr_ip_is_zero(&a) && family == AF_INET)
		a.ip[10] = a.ip[11] = 0xff;
	len = diw_addr_to_sockaddr(&a, &ss);
	return bind(fd, (struct sockaddr *)&ss, len) ? -errno : 0;
}

/* Connects a socket to its own address: a simultaneous open (RFC 9293 section 3.5) of the socket with itself. It
 * receives the bytes that it sends. */
static int connect_self(int fd, int family, struct diw_addr own)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	int err;

	own.port = 0;
	err = bind_to(fd, family, &own);

	if (!err && (getsockname(fd, (struct sockaddr *)&ss, &len) ||
		     (connect(fd, (struct sockaddr *)&ss, len) && errno != EINPROGRESS)))
		err = -errno;
	return err;
}

static int tcp_begin_connect(int fd, int family, const struct diw_stream_attr *a)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_addr_to_sockaddr(&a->peer, &ss);
	int err = tcp_set_options(fd, family, a);

	if (!err && family == AF_INET6)
		err = tcp_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!err && a->self)
		return connect_self(fd, family, a->peer);
	/* With the address alone given, the kernel chooses a port that is free for this pair of addresses, so there may
	 * be more connections than ports. */
	if (!err && !a->local.port)
		tcp_set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	if (!err && a->local.port)
		err = tcp_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (!err && (a->local.port || !diw_addr_ip_is_zero(&a->local)))
		err = bind_to(fd, family, &a->local);
	if (!err && connect(fd, (struct sockaddr *)&ss, len) && errno != EINPROGRESS)
		err = -errno;
	return err;
}

int diw_tcp_connect(const struct diw_stream_attr *attr, struct diw_stream **s)
{
	int family = diw_addr_is_v4(&attr->peer) ? AF_INET : AF_INET6;
	int fd, err;

	if ((!attr->peer.port && !attr->self) || diw_addr_ip_is_zero(&attr->peer) || diw_addr_is_multicast(&attr->peer))
		return -EINVAL;
	if (!diw_addr_ip_is_zero(&attr->local) && diw_addr_is_v4(&attr->local) != (family == AF_INET))
		return -EAFNOSUPPORT;
	fd = diw_socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = tcp_begin_connect(fd, family, attr);
	if (err) {
		close(fd);
		return err;
	}
	err = tcp_new(fd, s);
	if (err)
		return err;
	learn_addr(fd, getsockname, &(*s)->local);
	(*s)->peer = attr->self ? (*s)->local : attr->peer;
	choose_congestion((struct tcp *)*s, attr);
	return 0;
}

/* ---- Listening ---- */

/* Whether ERR of accept(2) means that the connection broke before it was accepted. */
static bool broke_before_accept(int err)
{
	return err == ECONNABORTED || err == EINTR || err == EPROTO || err == ENETDOWN || err == ENOPROTOOPT ||
	       err == EHOSTDOWN || err == ENONET || err == EHOSTUNREACH || err == EOPNOTSUPP || err == ENETUNREACH;
}

static int tcp_accept(struct diw_stream_listener *l, struct diw_stream **s)
{
	struct sockaddr_storage ss;
	socklen_t len;
	int fd, err;

	do {
		len = sizeof ss;
		fd = diw_above_std((int)syscall(SYS_accept4, ((struct listener *)l)->fd, &ss, &len,
						SOCK_NONBLOCK | SOCK_CLOEXEC));
	} while (fd < 0 && broke_before_accept(errno));
	if (fd < 0)
		return -errno;
	err = tcp_new(fd, s);
	if (err)
		return err;
	diw_addr_from_sockaddr(&(*s)->peer, (struct sockaddr *)&ss);
	learn_addr(fd, getsockname, &(*s)->local);
	(*s)->near = stream_is_local(*s);
	return 0;
}

static int listener_fd(struct diw_stream_listener *l)
{
	return ((struct listener *)l)->fd;
}

static void tcp_listener_close(struct diw_stream_listener *l)
{
	struct listener *n = (struct listener *)l;

	if (n->mark >= 0 && diw_inode(n->fd) == n->inode)
		close(n->mark);
	diw_close_socket(n->fd, n->inode);
	free(l);
}

static const struct diw_stream_listener_ops listener_ops = {
	.accept = tcp_accept, .fd = listener_fd, .close = tcp_listener_close,
};

/* The wildcard accepts peers of both families if the host has IPv6. */
static int listen_socket(const struct diw_stream_attr *a, int *family)
{
	const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	bool any = diw_addr_ip_is_zero(&a->local);
	int fd;

	*family = diw_addr_is_v4(&a->local) ? AF_INET : AF_INET6;
	fd = diw_socket(*family, type, 0);
	if (fd < 0 && any && !a->v6only) {
		*family = AF_INET;
		fd = diw_socket(AF_INET, type, 0);
	}
	if (fd < 0)
		return -errno;
	if (*family == AF_INET6)
		tcp_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, !any || a->v6only);
	return fd;
}

static int tcp_begin_listen(int fd, int family, const struct diw_stream_attr *a)
{
	int err = tcp_set_options(fd, family, a);

	if (!err)                    /* connections of an earlier process may be in TIME-WAIT */
		err = tcp_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (!err)
		err = bind_to(fd, family, &a->local);
	if (!err && listen(fd, a->backlog > 0 ? a->backlog : BACKLOG))
		err = -errno;
	return err;
}

int diw_tcp_listen(const struct diw_stream_attr *attr, struct diw_stream_listener **l)
{
	struct listener *n;
	int family, err, fd;
	char any;

	if (diw_addr_is_multicast(&attr->local))
		return -EINVAL;
	fd = listen_socket(attr, &family);
	if (fd < 0)
		return fd;
	n = calloc(1, sizeof *n);
	err = n ? tcp_begin_listen(fd, family, attr) : -ENOMEM;
	if (err) {
		close(fd);
		free(n);
		return err;
	}
	n->l.ops = &listener_ops;
	n->fd = fd;
	n->inode = diw_inode(fd);
	learn_addr(fd, getsockname, &n->l.local);
	any = diw_addr_ip_is_zero(&attr->local) ? family == AF_INET ? '4' : attr->v6only ? '6' : '*' : 0;
	n->mark = diw_mark_open(&n->l.local, any);
	if (any)
		memset(n->l.local.ip, 0, sizeof n->l.local.ip);
	*l = &n->l;
	return 0;
}
