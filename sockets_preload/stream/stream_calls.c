/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that move data, on TCP connections; on a plain connection the kernel gets the call unchanged. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/stream/stream.h"

/* ---- Calls named as in send.c, recv.c and calls.c ---- */

static ssize_t call_counted(enum diw_sock_counter which, ssize_t rc)
{
	if (rc > 0)
		diw_add(which, (uint64_t)rc);
	return rc;
}

/* Whether the kernel refuses the length of an address before it sends or receives. */
static bool has_bad_length(const void *name, socklen_t len)
{
	return name && (int)len < 0;
}

ssize_t diw_stream_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
			  socklen_t addr_len)
{
	ssize_t rc;

	if ((buf || !len) && !has_bad_length(addr, addr_len) && !(addr && addr_len > sizeof(struct sockaddr_storage)) &&
	    diw_stream_send(fd, &(struct iovec){ (void *)buf, len }, 1, flags, &rc))
		return rc;
	return call_counted(DIW_C_sock_stream_tx_plain, real.sendto(fd, buf, len, flags, addr, addr_len));
}

ssize_t diw_stream_write(int fd, const void *buf, size_t len)
{
	ssize_t rc;

	if (!buf || !diw_stream_send(fd, &(struct iovec){ (void *)buf, len }, 1, 0, &rc))
		return call_counted(DIW_C_sock_stream_tx_plain, real.write(fd, buf, len));
	return diw_sock_is_mistaken(fd, rc) ? real.write(fd, buf, len) : rc;
}

ssize_t diw_stream_writev(int fd, const struct iovec *iov, int n)
{
	ssize_t rc;

	if (n <= 0 || n > UIO_MAXIOV || !iov || !diw_stream_send(fd, iov, (size_t)n, 0, &rc))
		return call_counted(DIW_C_sock_stream_tx_plain, real.writev(fd, iov, n));
	return diw_sock_is_mistaken(fd, rc) ? real.writev(fd, iov, n) : rc;
}

ssize_t diw_stream_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t rc;

	if (msg && msg->msg_iov && msg->msg_iovlen <= UIO_MAXIOV && !has_bad_length(msg->msg_name, msg->msg_namelen) &&
	    diw_stream_send(fd, msg->msg_iov, msg->msg_iovlen, flags, &rc))
		return rc;
	return call_counted(DIW_C_sock_stream_tx_plain, real.sendmsg(fd, msg, flags));
}

/* The kernel has no address of a TCP peer. It checks the length after it has received. */
static ssize_t no_address(socklen_t *len, ssize_t rc)
{
	if (!len || (int)*len < 0) {
		errno = len ? EINVAL : EFAULT;
		return -1;
	}
	*len = 0;
	return rc;
}

ssize_t diw_stream_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *addr_len)
{
	ssize_t rc;

	if ((!buf && !(flags & MSG_TRUNC)) || !diw_stream_recv(fd, &(struct iovec){ buf, len }, 1, flags, &rc))
		return call_counted(DIW_C_sock_stream_rx_plain, real.recvfrom(fd, buf, len, flags, addr, addr_len));
	return rc >= 0 && addr ? no_address(addr_len, rc) : rc;
}

ssize_t diw_stream_read(int fd, void *buf, size_t len)
{
	ssize_t rc;

	if (!buf || !diw_stream_recv(fd, &(struct iovec){ buf, len }, 1, 0, &rc))
		return call_counted(DIW_C_sock_stream_rx_plain, real.read(fd, buf, len));
	return diw_sock_is_mistaken(fd, rc) ? real.read(fd, buf, len) : rc;
}

ssize_t diw_stream_readv(int fd, const struct iovec *iov, int n)
{
	ssize_t rc;

	if (n <= 0 || n > UIO_MAXIOV || !iov || !diw_stream_recv(fd, iov, (size_t)n, 0, &rc))
		return call_counted(DIW_C_sock_stream_rx_plain, real.readv(fd, iov, n));
	return diw_sock_is_mistaken(fd, rc) ? real.readv(fd, iov, n) : rc;
}

ssize_t diw_stream_recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t rc;

	if (!msg || !msg->msg_iov || msg->msg_iovlen > UIO_MAXIOV || has_bad_length(msg->msg_name, msg->msg_namelen) ||
	    !diw_stream_recv(fd, msg->msg_iov, msg->msg_iovlen, flags, &rc))
		return call_counted(DIW_C_sock_stream_rx_plain, real.recvmsg(fd, msg, flags));
	if (rc >= 0) {
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
		msg->msg_flags = flags & MSG_CMSG_CLOEXEC;
	}
	return rc;
}

/* Returns how many were sent, or the error of the first. A message that is sent in part is the last one, as in the
 * kernel. */
int diw_stream_sendmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags)
{
	bool whole = true;
	unsigned i;

	for (i = 0; i < n && i < UIO_MAXIOV && whole; i++) {
		const struct msghdr *m = &vec[i].msg_hdr;
		ssize_t rc = diw_stream_sendmsg(fd, m, flags);

		if (rc < 0)
			return i ? (int)i : -1;
		vec[i].msg_len = (unsigned)rc;
		whole = !rc || (size_t)rc == diw_iov_len(m->msg_iov, m->msg_iovlen);
	}
	return (int)i;
}

/* Checks the timeout after each message only, as the kernel does. */
int diw_stream_recvmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags, struct timespec *timeout)
{
	uint64_t begun = diw_clock_ns(), limit = UINT64_MAX;
	unsigned i;

	if (timeout && (timeout->tv_sec < 0 || (unsigned long)timeout->tv_nsec >= DIW_S)) {
		errno = EINVAL;
		return -1;
	}
	if (timeout)
		limit = (uint64_t)timeout->tv_sec * DIW_S + (uint64_t)timeout->tv_nsec;
	for (i = 0; i < n && (!i || diw_clock_ns() - begun < limit); i++) {
		ssize_t rc = diw_stream_recvmsg(fd, &vec[i].msg_hdr, flags & ~MSG_WAITFORONE);

		if (rc < 0)
			return i ? (int)i : -1;
		vec[i].msg_len = (unsigned)rc;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
	}
	return (int)i;
}
