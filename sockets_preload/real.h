/* SPDX-License-Identifier: BSD-2-Clause */
/* The C library's own functions, or those of a preload behind this one. */
#ifndef DIW_SOCKETS_REAL_H
#define DIW_SOCKETS_REAL_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define DIW_REALS(X) \
	X(send) X(sendto) X(sendmsg) X(sendmmsg) X(write) X(writev) \
	X(recv) X(recvfrom) X(recvmsg) X(recvmmsg) X(read) X(readv) \
	X(__recv_chk) X(__recvfrom_chk) X(__read_chk) \
	X(socket) X(socketpair) X(accept) X(accept4) X(bind) X(listen) X(connect) X(setsockopt) \
	X(sendfile) X(splice) X(fdopen) X(fileno) X(fileno_unlocked) \
	X(vdprintf) X(__vdprintf_chk) \
	X(close) X(close_range) X(closefrom) X(dup) X(dup2) X(dup3) X(fcntl) X(ioctl) X(fclose) X(syscall) X(prctl)

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *addr, socklen_t *len);
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);

int __vdprintf_chk(int fd, int flag, const char *fmt, va_list ap);

struct diw_real {
#define X(name) __typeof__(&name) name;
	DIW_REALS(X)
#undef X
};

/* Valid once diw_preload_init() has returned. */
extern struct diw_real real;

#endif
