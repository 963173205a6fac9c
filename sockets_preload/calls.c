/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that move data, under all names that the C library gives them. send.c and recv.c have the most frequent
 * calls. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "sockets_preload/stream/stream.h"

/* ---- preadv2() and pwritev2(): on a socket, they are readv() and writev() with flags ---- */

#define RWF_KNOWN (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND)

static bool moves_vector(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	struct diw_sock tmp;

	return (diw_sock_get(fd, &tmp) || diw_stream_get(fd)) && at == -1 && !(flags & ~RWF_KNOWN) && iov && n > 0 &&
	       n <= UIO_MAXIOV && diw_iov_len(iov, (size_t)n) > 0;
}

DIW_API ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };

	if (!moves_vector(fd, iov, n, at, flags))
		return real.preadv2(fd, iov, n, at, flags);
	return recvmsg(fd, &m, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

DIW_API ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };

	if (!moves_vector(fd, iov, n, at, flags))
		return real.pwritev2(fd, iov, n, at, flags);
	return sendmsg(fd, &m, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

DIW_API ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags) DIW_ALIAS(preadv2);
DIW_API ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags) DIW_ALIAS(pwritev2);

/* ---- Sending ---- */

/* Calls EACH for each descriptor in the control data of MSG. If the message is to be sent, the kernel has not checked
 * its lengths. */
static void passed_each(const struct msghdr *msg, void (*each)(int fd))
{
	struct msghdr m = *msg;
	const uint8_t *end = (const uint8_t *)m.msg_control + m.msg_controllen;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		size_t len = c->cmsg_len, n = 0;

		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && len >= CMSG_LEN(0) &&
		    len <= (size_t)(end - (const uint8_t *)c))
			n = (len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			each(fd);
		}
	}
}

/* Descriptors that a message passes may go to a program that is not interposed. */
static void lend_passed(const struct msghdr *msg)
{
	if (msg && msg->msg_control && msg->msg_controllen)
		passed_each(msg, diw_lend_passed);
}

static int send_many_foreign(int fd, struct mmsghdr *vec, unsigned n, int flags)
{
	for (unsigned i = 0; vec && i < n && i < UIO_MAXIOV; i++)
		lend_passed(&vec[i].msg_hdr);
	return real.sendmmsg(fd, vec, n, flags);
}

DIW_API ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);

	if (s)
		return diw_sock_sendmsg(fd, s, msg, flags);
	if (diw_stream_get(fd))
		return diw_stream_sendmsg(fd, msg, flags);
	lend_passed(msg);
	return real.sendmsg(fd, msg, flags);
}

DIW_API int sendmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);

	if (s && vec && n)
		return diw_sock_sendmmsg(fd, s, vec, n, flags);
	return vec && diw_stream_get(fd) ? diw_stream_sendmmsg(fd, vec, n, flags) :
					   send_many_foreign(fd, vec, n, flags);
}

/* Without bytes the kernel does nothing, as in readv() and read(). */
DIW_API ssize_t writev(int fd, const struct iovec *iov, int n)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	ssize_t rc;

	if (!s || n <= 0 || n > UIO_MAXIOV || !iov || diw_iov_len(iov, (size_t)n) == 0)
		return diw_stream_get(fd) ? diw_stream_writev(fd, iov, n) : real.writev(fd, iov, n);
	rc = diw_sock_sendmsg(fd, s, &m, 0);
	return diw_sock_is_mistaken(fd, rc) ? real.writev(fd, iov, n) : rc;
}

/* ---- Receiving ---- */

DIW_API ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *addr,
			       socklen_t *len)
{
	return n > room ? real.__recvfrom_chk(fd, buf, n, room, flags, addr, len) :
			  recvfrom(fd, buf, n, flags, addr, len);
}

DIW_API ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
	return n > room ? real.__recv_chk(fd, buf, n, room, flags) : recv(fd, buf, n, flags);
}

/* Descriptors that a message brings are new files: forgets what was known of their numbers. */
static void forget_passed(const struct msghdr *msg)
{
	if (msg->msg_control && msg->msg_controllen)
		passed_each(msg, diw_sock_forget);
}

DIW_API ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);
	ssize_t n;

	if (s)
		return diw_sock_recvmsg(fd, s, msg, flags);
	if (diw_stream_get(fd))
		return diw_stream_recvmsg(fd, msg, flags);
	n = real.recvmsg(fd, msg, flags);
	if (n >= 0)
		forget_passed(msg);
	return n;
}

static int recv_many_foreign(int fd, struct mmsghdr *vec, unsigned n, int flags, struct timespec *timeout)
{
	int got = real.recvmmsg(fd, vec, n, flags, timeout);

	for (int i = 0; i < got; i++)
		forget_passed(&vec[i].msg_hdr);
	return got;
}

DIW_API int recvmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags, struct timespec *timeout)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);

	if (!s && vec && diw_stream_get(fd))
		return diw_stream_recvmmsg(fd, vec, n, flags, timeout);
	if (!s || !vec || !n)
		return recv_many_foreign(fd, vec, n, flags, timeout);
	return diw_sock_recvmmsg(fd, s, vec, n, flags, timeout);
}

DIW_API ssize_t __read_chk(int fd, void *buf, size_t n, size_t room)
{
	return n > room ? real.__read_chk(fd, buf, n, room) : read(fd, buf, n);
}

DIW_API ssize_t readv(int fd, const struct iovec *iov, int n)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	ssize_t rc;

	if (!s || n <= 0 || n > UIO_MAXIOV || !iov || diw_iov_len(iov, (size_t)n) == 0)
		return diw_stream_get(fd) ? diw_stream_readv(fd, iov, n) : real.readv(fd, iov, n);
	rc = diw_sock_recvmsg(fd, s, &m, 0);
	return diw_sock_is_mistaken(fd, rc) ? real.readv(fd, iov, n) : rc;
}
