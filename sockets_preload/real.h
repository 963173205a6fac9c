/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that the interposer calls: the C library's own, or those of a library preloaded behind this one. */
#ifndef DIW_SOCKETS_REAL_H
#define DIW_SOCKETS_REAL_H

#include <aio.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define DIW_REALS(X) \
	X(send) X(sendto) X(sendmsg) X(sendmmsg) X(write) X(writev) \
	X(recv) X(recvfrom) X(recvmsg) X(recvmmsg) X(read) X(readv) X(preadv2) X(pwritev2) \
	X(__recv_chk) X(__recvfrom_chk) X(__read_chk) \
	X(socket) X(socketpair) X(accept) X(accept4) X(bind) X(listen) X(connect) X(setsockopt) X(getsockopt) \
	X(sendfile) X(splice) X(fdopen) X(fileno) X(fileno_unlocked) \
	X(vdprintf) X(__vdprintf_chk) \
	X(aio_read) X(aio_write) X(aio_suspend) X(aio_cancel) X(lio_listio) \
	X(execve) X(execv) X(execvp) X(execvpe) X(fexecve) X(execveat) \
	X(posix_spawn) X(posix_spawnp) X(system) X(popen) X(clone) X(_Fork) \
	X(poll) X(ppoll) X(__poll_chk) X(__ppoll_chk) X(select) X(pselect) X(epoll_ctl) \
	X(close) X(close_range) X(closefrom) X(dup) X(dup2) X(dup3) X(fcntl) X(ioctl) X(fclose) X(syscall) X(prctl) \
	X(freopen) X(freopen64) X(shutdown) X(_exit) X(unshare) X(setns) \
	X(__libc_single_threaded)

ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *addr, socklen_t *len);
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);

int __poll_chk(struct pollfd *p, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t room);
int __vdprintf_chk(int fd, int flag, const char *fmt, va_list ap);

struct diw_real {
#define X(name) __typeof__(&name) name;
	DIW_REALS(X)
#undef X
};

/* Valid after diw_preload_init(). */
extern struct diw_real real;

/* Points to a byte that is not 0 while the process has only one thread: __libc_single_threaded of the C library. The
 * system calls below are made without the C library then. If another preloaded library has one of their functions, the
 * byte is always 0. */
extern const char *diw_alone;

#if defined(__x86_64__) && !defined(__ILP32__)
#pragma GCC visibility push(hidden)
ssize_t diw_failed(long rc);
#pragma GCC visibility pop

/* A system call without the C library's function, and so without the return from it: a mitigation in the kernel clears
 * the processor's return predictions, and each return after a system call is mispredicted. */
static inline ssize_t diw_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long rc;

	__asm__ volatile("syscall" : "=a" (rc)
			 : "a" (number), "D" (a), "S" (b), "d" (c), "r" (r10), "r" (r8), "r" (r9)
			 : "rcx", "r11", "memory");
	return __builtin_expect(rc >= 0, 1) ? rc : diw_failed(rc);
}

static inline ssize_t diw_real_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
				      socklen_t len)
{
	if (__builtin_expect(*diw_alone, 1))
		return diw_syscall(SYS_sendto, fd, (long)buf, (long)n, flags, (long)addr, len);
	return real.sendto(fd, buf, n, flags, addr, len);
}

static inline ssize_t diw_real_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr, socklen_t *len)
{
	if (__builtin_expect(*diw_alone, 1))
		return diw_syscall(SYS_recvfrom, fd, (long)buf, (long)n, flags, (long)addr, (long)len);
	return real.recvfrom(fd, buf, n, flags, addr, len);
}

static inline ssize_t diw_real_send(int fd, const void *buf, size_t n, int flags)
{
	if (__builtin_expect(*diw_alone, 1))
		return diw_syscall(SYS_sendto, fd, (long)buf, (long)n, flags, 0, 0);
	return real.send(fd, buf, n, flags);
}

static inline ssize_t diw_real_recv(int fd, void *buf, size_t n, int flags)
{
	if (__builtin_expect(*diw_alone, 1))
		return diw_syscall(SYS_recvfrom, fd, (long)buf, (long)n, flags, 0, 0);
	return real.recv(fd, buf, n, flags);
}

static inline ssize_t diw_real_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (__builtin_expect(*diw_alone, 1))
		return diw_syscall(SYS_sendmsg, fd, (long)msg, flags, 0, 0, 0);
	return real.sendmsg(fd, msg, flags);
}

static inline ssize_t diw_real_recvmsg(int fd, struct msghdr *msg, int flags)
{
	if (__builtin_expect(*diw_alone, 1))
		return diw_syscall(SYS_recvmsg, fd, (long)msg, flags, 0, 0, 0);
	return real.recvmsg(fd, msg, flags);
}
#else
#define diw_real_send real.send
#define diw_real_sendmsg real.sendmsg
#define diw_real_recvmsg real.recvmsg
#define diw_real_recv real.recv
#define diw_real_sendto real.sendto
#define diw_real_recvfrom real.recvfrom
#endif

#endif
