/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls by number, syscall(2): libuv, and so Node and dig, send and close by these. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "sockets_preload/preload.h"

#define FD ((int)a[0])
#define LEN ((size_t)a[2])

/* Handles calls that move data. False: any other call. */
static bool raw_moves_data(long number, const long a[6], long *rc)
{
	switch (number) {
	case SYS_sendto:
		*rc = sendto(FD, (void *)a[1], LEN, (int)a[3], (void *)a[4], (socklen_t)a[5]);
		return true;
	case SYS_sendmsg:
		*rc = sendmsg(FD, (void *)a[1], (int)a[2]);
		return true;
	case SYS_sendmmsg:
		*rc = sendmmsg(FD, (void *)a[1], (unsigned)a[2], (int)a[3]);
		return true;
	case SYS_recvfrom:
		*rc = recvfrom(FD, (void *)a[1], LEN, (int)a[3], (void *)a[4], (void *)a[5]);
		return true;
	case SYS_recvmsg:
		*rc = recvmsg(FD, (void *)a[1], (int)a[2]);
		return true;
	case SYS_recvmmsg:
		*rc = recvmmsg(FD, (void *)a[1], (unsigned)a[2], (int)a[3], (void *)a[4]);
		return true;
	case SYS_read:
		*rc = read(FD, (void *)a[1], LEN);
		return true;
	case SYS_write:
		*rc = write(FD, (void *)a[1], LEN);
		return true;
	case SYS_readv:
		*rc = readv(FD, (void *)a[1], (int)a[2]);
		return true;
	case SYS_writev:
		*rc = writev(FD, (void *)a[1], (int)a[2]);
		return true;
	case SYS_preadv2:                    /* a[4] is the upper half of the offset, which a[3] holds completely
					      * here */
		*rc = preadv2(FD, (void *)a[1], (int)a[2], a[3], (int)a[5]);
		return true;
	case SYS_pwritev2:
		*rc = pwritev2(FD, (void *)a[1], (int)a[2], a[3], (int)a[5]);
		return true;
	case SYS_sendfile:
		*rc = sendfile(FD, (int)a[1], (void *)a[2], (size_t)a[3]);
		return true;
	case SYS_splice:
		*rc = splice(FD, (void *)a[1], (int)a[2], (void *)a[3], (size_t)a[4], (unsigned)a[5]);
		return true;
	default:
		return false;
	}
}

/* Handles calls that change descriptors, or the process. False: any other call. */
static bool raw_changes_files(long number, const long a[6], long *rc)
{
	switch (number) {
	case SYS_close:
		*rc = close(FD);
		return true;
	case SYS_close_range:
		*rc = close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
		return true;
	case SYS_dup3:
		*rc = dup3(FD, (int)a[1], (int)a[2]);
		return true;
	case SYS_dup:
		*rc = dup(FD);
		return true;
#ifdef SYS_dup2
	case SYS_dup2:
		*rc = dup2(FD, (int)a[1]);
		return true;
#endif
	case SYS_fcntl:
		*rc = fcntl(FD, (int)a[1], a[2]);
		return true;
	case SYS_ioctl:
		*rc = ioctl(FD, (unsigned long)a[1], a[2]);
		return true;
	case SYS_epoll_ctl:
		*rc = epoll_ctl(FD, (int)a[1], (int)a[2], (void *)a[3]);
		return true;
	case SYS_prctl:
		*rc = prctl((int)a[0], a[1], a[2], a[3], a[4]);
		return true;
	case SYS_execve:
		*rc = execve((const char *)a[0], (void *)a[1], (void *)a[2]);
		return true;
	case SYS_execveat:
		*rc = execveat(FD, (const char *)a[1], (void *)a[2], (void *)a[3], (int)a[4]);
		return true;
	default:
		return false;
	}
}

/* Handles calls that make sockets, and set their addresses and options. False: any other call. */
static bool raw_sets_up_sockets(long number, const long a[6], long *rc)
{
	switch (number) {
	case SYS_socketpair:
		*rc = socketpair(FD, (int)a[1], (int)a[2], (void *)a[3]);
		return true;
	case SYS_socket:
		*rc = socket(FD, (int)a[1], (int)a[2]);
		return true;
	case SYS_connect:
		*rc = connect(FD, (void *)a[1], (socklen_t)a[2]);
		return true;
	case SYS_listen:
		*rc = listen(FD, (int)a[1]);
		return true;
#ifdef SYS_accept
	case SYS_accept:
		*rc = accept(FD, (void *)a[1], (void *)a[2]);
		return true;
#endif
	case SYS_accept4:
		*rc = accept4(FD, (void *)a[1], (void *)a[2], (int)a[3]);
		return true;
	case SYS_bind:
		*rc = bind(FD, (void *)a[1], (socklen_t)a[2]);
		return true;
	case SYS_getsockopt:
		*rc = getsockopt(FD, (int)a[1], (int)a[2], (void *)a[3], (void *)a[4]);
		return true;
	case SYS_setsockopt:
		*rc = setsockopt(FD, (int)a[1], (int)a[2], (void *)a[3], (socklen_t)a[4]);
		return true;
	default:
		return false;
	}
}

DIW_API int prctl(int option, ...)
{
	unsigned long a[4];
	unsigned before = diw_denied;
	va_list ap;
	int rc;

	va_start(ap, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, unsigned long);
	va_end(ap);
	diw_preload_init();
	if (option == PR_SET_SECCOMP)
		before = diw_confine(a[0] == SECCOMP_MODE_FILTER ? (const struct sock_fprog *)a[1] : NULL);
	rc = real.prctl(option, a[0], a[1], a[2], a[3]);
	if (rc < 0)
		diw_denied = before;
	return rc;
}

static long restrict_calls(const long a[6])
{
	unsigned before = diw_confine(a[0] == SECCOMP_SET_MODE_FILTER ? (const struct sock_fprog *)a[2] : NULL);
	long rc = real.syscall(SYS_seccomp, a[0], a[1], a[2]);

	if (rc < 0)
		diw_denied = before;
	return rc;
}

/* The new process, or the descriptor that is taken from another one, is not seen by other calls here. */
static bool copies_descriptors(long number)
{
#ifdef SYS_fork
	if (number == SYS_fork || number == SYS_vfork)
		return true;
#endif
	return number == SYS_clone || number == SYS_clone3 || number == SYS_pidfd_getfd;
}

DIW_API long syscall(long number, ...)
{
	long a[6], rc;
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	diw_preload_init();
	if (number == SYS_seccomp && a[0] != SECCOMP_GET_ACTION_AVAIL)
		return restrict_calls(a);
	if (number == SYS_io_uring_setup)
		diw_lend_to_ring();
	if (copies_descriptors(number))
		diw_fd_copied();
	if (raw_moves_data(number, a, &rc) || raw_changes_files(number, a, &rc) ||
	    raw_sets_up_sockets(number, a, &rc))
		return rc;
	return real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
