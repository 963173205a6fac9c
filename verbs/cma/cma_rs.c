/* SPDX-License-Identifier: BSD-2-Clause */
/* The rsockets calls: those of verbs/rs, with errno. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>

#pragma GCC visibility push(default)
#include <rdma/rsocket.h>
#pragma GCC visibility pop

#include "base/log.h"
#include "verbs/rs/rs.h"

static long rs_result(long rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* For calls that set up or end a socket: a call that must wait is not logged as a failure. */
#define control(rc) control_at(__func__, rc)
static int control_at(const char *call, long rc)
{
	if (rc < 0 && rc != -EAGAIN && rc != -EINPROGRESS && rc != -EINTR)
		diw_fail((int)rc, "%s", call);
	return (int)rs_result(rc);
}

int rsocket(int domain, int type, int protocol) { return control(diw_rs_socket(domain, type, protocol)); }
int rlisten(int fd, int backlog) { return control(diw_rs_listen(fd, backlog)); }
int rshutdown(int fd, int how) { return control(diw_rs_shutdown(fd, how)); }
int rclose(int fd) { return control(diw_rs_close(fd)); }

int rbind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return control(diw_rs_bind(fd, addr, len));
}

int raccept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return control(diw_rs_accept(fd, addr, len));
}

int rconnect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return control(diw_rs_connect(fd, addr, len));
}

int rgetpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return control(diw_rs_name(fd, true, addr, len));
}

int rgetsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return control(diw_rs_name(fd, false, addr, len));
}

/* ---- Bytes ---- */

ssize_t rrecvmsg(int fd, struct msghdr *msg, int flags)
{
	return rs_result(diw_rs_recv(fd, msg, flags));
}

ssize_t rsendmsg(int fd, const struct msghdr *msg, int flags)
{
	return rs_result(diw_rs_send(fd, msg, flags));
}

ssize_t rrecvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *src, socklen_t *addrlen)
{
	struct iovec iov = { buf, len };
	struct msghdr msg = {
		.msg_name = src, .msg_namelen = src && addrlen ? *addrlen : 0, .msg_iov = &iov, .msg_iovlen = 1,
	};
	ssize_t n = diw_rs_recv(fd, &msg, flags);

	if (n >= 0 && src && addrlen)
		*addrlen = msg.msg_namelen;
	return rs_result(n);
}

ssize_t rsendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *dst, socklen_t addrlen)
{
	struct iovec iov = { (void *)buf, len };
	struct msghdr msg = {
		.msg_name = (void *)dst, .msg_namelen = dst ? addrlen : 0, .msg_iov = &iov, .msg_iovlen = 1,
	};

	return rs_result(diw_rs_send(fd, &msg, flags));
}

ssize_t rrecv(int fd, void *buf, size_t len, int flags) { return rrecvfrom(fd, buf, len, flags, NULL, NULL); }
ssize_t rsend(int fd, const void *buf, size_t len, int flags) { return rsendto(fd, buf, len, flags, NULL, 0); }
ssize_t rread(int fd, void *buf, size_t len) { return rrecv(fd, buf, len, 0); }
ssize_t rwrite(int fd, const void *buf, size_t len) { return rsend(fd, buf, len, 0); }

static bool msg_vector(struct msghdr *msg, const struct iovec *iov, int n)
{
	*msg = (struct msghdr){ .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	return n >= 0 && n <= IOV_MAX;
}

ssize_t rreadv(int fd, const struct iovec *iov, int n)
{
	struct msghdr msg;

	return msg_vector(&msg, iov, n) ? rrecvmsg(fd, &msg, 0) : rs_result(-EINVAL);
}

ssize_t rwritev(int fd, const struct iovec *iov, int n)
{
	struct msghdr msg;

	return msg_vector(&msg, iov, n) ? rsendmsg(fd, &msg, 0) : rs_result(-EINVAL);
}

/* ---- Readiness, options ---- */

int rpoll(struct pollfd *fds, nfds_t n, int timeout) { return (int)rs_result(diw_rs_poll(fds, n, timeout)); }

int rselect(int n, fd_set *in, fd_set *out, fd_set *ex, struct timeval *timeout)
{
	return (int)rs_result(diw_rs_select(n, in, out, ex, timeout));
}

int rsetsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return (int)rs_result(diw_rs_setopt(fd, level, name, value, len));
}

int rgetsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	return (int)rs_result(diw_rs_getopt(fd, level, name, value, len));
}

int rfcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return control(diw_rs_fcntl(fd, cmd, arg));
}

/* ---- Mapped memory ---- */

off_t riomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset)
{
	return rs_result(diw_rs_iomap(fd, buf, len, prot, flags, offset));
}

int riounmap(int fd, void *buf, size_t len) { return control(diw_rs_iounmap(fd, buf, len)); }

size_t riowrite(int fd, const void *buf, size_t len, off_t offset, int flags)
{
	return (size_t)rs_result(diw_rs_iowrite(fd, buf, len, offset, flags));
}
