/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls of the data path, without the C library: its calls are cancellation points in a program with threads,
 * which costs two atomic operations a call. The unit tests replace this file by a simulated kernel.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "llp/udp.h"

ssize_t diw_sys_sendmsg(int fd, const struct msghdr *m)
{
	return syscall(SYS_sendmsg, fd, m, 0);
}

ssize_t diw_sys_sendto(int fd, const void *buf, size_t len, const struct sockaddr *to, socklen_t tolen)
{
	return syscall(SYS_sendto, fd, buf, len, 0, to, tolen);
}

ssize_t diw_sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	return syscall(SYS_recvmsg, fd, m, flags);
}

ssize_t diw_sys_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *fromlen)
{
	return syscall(SYS_recvfrom, fd, buf, len, flags, from, fromlen);
}

ssize_t diw_sys_errmsg(int fd, struct msghdr *m)
{
	return syscall(SYS_recvmsg, fd, m, MSG_ERRQUEUE | MSG_DONTWAIT);
}
