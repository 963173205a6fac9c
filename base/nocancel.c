/* SPDX-License-Identifier: BSD-2-Clause */
/* System calls of the libraries: twins, which are no cancellation points, and waits, which are (nocancel.h). */
#include "base/nocancel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/futex.h>
#include <net/if.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* ---- Waits ---- */

int diw_wait_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
	return poll(p, n, timeout_ms);
}

int diw_wait_ppoll(struct pollfd *p, nfds_t n, const struct timespec *timeout)
{
	return ppoll(p, n, timeout, NULL);
}

int diw_wait_sem(sem_t *sem, const struct timespec *monotonic)
{
	return monotonic ? sem_clockwait(sem, CLOCK_MONOTONIC, monotonic) : sem_wait(sem);
}

/* glibc has no futex(2), so the thread's cancellation becomes asynchronous for this system call alone: nothing in it
 * can be left behind. pthread_cancel() sends such a thread a signal. In glibc up to 2.36 this signal may arrive when
 * cancellation is disabled again. The cancellation points of glibc wait for a signal that is on its way before they
 * return; pthread_setcanceltype() does not. */
int diw_wait_futex(atomic_uint *word, unsigned seen, const struct timespec *timeout)
{
	int type, rc, err;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	rc = (int)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout, NULL, 0);
	err = errno;
	pthread_setcanceltype(type, NULL);
	poll(NULL, 0, 0);
	errno = err;
	return rc;
}

/* A signal of pthread_cancel() that is on its way has arrived when poll() returns (see diw_wait_futex()). */
int diw_cancel_deferred(void)
{
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		poll(NULL, 0, 0);
	return type;
}

void diw_cancel_as(int type, void (*undo)(void *arg), void *arg)
{
	if (!undo) {
		pthread_setcanceltype(type, NULL);
		return;
	}
	pthread_cleanup_push(undo, arg);
	pthread_setcanceltype(type, NULL);
	pthread_cleanup_pop(0);
}

/* ---- Twins. The Makefile reads their names from the lines that begin with TWIN ---- */

static inline int cancel_disable(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

#define TWIN(type, name, params, args)                   \
	type diw_nocancel_##name params;                 \
	type diw_nocancel_##name params                  \
	{                                                \
		int state = cancel_disable();                       \
		type rc = name args;                     \
							 \
		pthread_setcancelstate(state, NULL);     \
		return rc;                               \
	}
/* For functions with "..." at the end; the twin takes these arguments as a list. */
#define TWIN_LIST(type, name, vname, params, last, args) \
	type diw_nocancel_##name params;                 \
	type diw_nocancel_##name params                  \
	{                                                \
		int state = cancel_disable();                       \
		va_list ap;                              \
		type rc;                                 \
							 \
		va_start(ap, last);                      \
		rc = vname args;                         \
		va_end(ap);                              \
		pthread_setcancelstate(state, NULL);     \
		return rc;                               \
	}

TWIN(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
TWIN(ssize_t, pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
TWIN(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
TWIN(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
TWIN(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
TWIN(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
TWIN(int, close, (int fd), (fd))
TWIN(int, creat, (const char *path, mode_t mode), (path, mode))
TWIN(int, fsync, (int fd), (fd))
TWIN(int, fdatasync, (int fd), (fd))
TWIN(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
TWIN(int, poll, (struct pollfd *p, nfds_t n, int ms), (p, n, ms))
TWIN(int, ppoll, (struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *s), (p, n, ts, s))
TWIN(int, select, (int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *tv), (n, r, w, x, tv))
TWIN(int, epoll_wait, (int fd, struct epoll_event *e, int n, int ms), (fd, e, n, ms))
TWIN(int, epoll_pwait, (int fd, struct epoll_event *e, int n, int ms, const sigset_t *s), (fd, e, n, ms, s))
TWIN(int, connect, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
TWIN(int, accept, (int fd, struct sockaddr *a, socklen_t *len), (fd, a, len))
TWIN(int, accept4, (int fd, struct sockaddr *a, socklen_t *len, int flags), (fd, a, len, flags))
TWIN(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
TWIN(ssize_t, recvfrom, (int fd, void *p, size_t n, int flags, struct sockaddr *a, socklen_t *len),
     (fd, p, n, flags, a, len))
TWIN(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
TWIN(int, recvmmsg, (int fd, struct mmsghdr *m, unsigned n, int flags, struct timespec *ts), (fd, m, n, flags, ts))
TWIN(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
TWIN(ssize_t, sendto, (int fd, const void *p, size_t n, int flags, const struct sockaddr *a, socklen_t len),
     (fd, p, n, flags, a, len))
TWIN(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
TWIN(int, sendmmsg, (int fd, struct mmsghdr *m, unsigned n, int flags), (fd, m, n, flags))
TWIN(ssize_t, getrandom, (void *p, size_t n, unsigned flags), (p, n, flags))
TWIN(int, nanosleep, (const struct timespec *ts, struct timespec *left), (ts, left))
TWIN(int, clock_nanosleep, (clockid_t c, int flags, const struct timespec *ts, struct timespec *left),
     (c, flags, ts, left))
TWIN(int, usleep, (useconds_t us), (us))
TWIN(unsigned, sleep, (unsigned s), (s))
TWIN(int, sem_wait, (sem_t *sem), (sem))
TWIN(int, sem_timedwait, (sem_t *sem, const struct timespec *ts), (sem, ts))
TWIN(int, sem_clockwait, (sem_t *sem, clockid_t c, const struct timespec *ts), (sem, c, ts))
TWIN(int, pthread_cond_wait, (pthread_cond_t *c, pthread_mutex_t *m), (c, m))
TWIN(int, pthread_cond_timedwait, (pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *ts), (c, m, ts))
TWIN(int, pthread_cond_clockwait, (pthread_cond_t *c, pthread_mutex_t *m, clockid_t k, const struct timespec *ts),
     (c, m, k, ts))
TWIN(int, pthread_join, (pthread_t t, void **value), (t, value))
TWIN(DIR *, opendir, (const char *path), (path))
TWIN(DIR *, fdopendir, (int fd), (fd))
TWIN(struct dirent *, readdir, (DIR *d), (d))
TWIN(int, closedir, (DIR *d), (d))
TWIN(FILE *, fopen, (const char *path, const char *mode), (path, mode))
TWIN(FILE *, fdopen, (int fd, const char *mode), (fd, mode))
TWIN(int, fclose, (FILE *f), (f))
TWIN(int, fflush, (FILE *f), (f))
TWIN(int, fgetc, (FILE *f), (f))
TWIN(int, getc, (FILE *f), (f))
TWIN(char *, fgets, (char *p, int n, FILE *f), (p, n, f))
TWIN(ssize_t, getline, (char **p, size_t *n, FILE *f), (p, n, f))
TWIN(ssize_t, __getdelim, (char **p, size_t *n, int c, FILE *f), (p, n, c, f))
TWIN(size_t, fread, (void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
TWIN(size_t, fwrite, (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
TWIN(int, fputs, (const char *s, FILE *f), (s, f))
TWIN(int, fputc, (int c, FILE *f), (c, f))
TWIN(int, putc, (int c, FILE *f), (c, f))
TWIN(int, vfprintf, (FILE *f, const char *fmt, va_list ap), (f, fmt, ap))
TWIN(int, vdprintf, (int fd, const char *fmt, va_list ap), (fd, fmt, ap))
TWIN(int, getifaddrs, (struct ifaddrs **list), (list))
TWIN(int, getaddrinfo, (const char *n, const char *s, const struct addrinfo *h, struct addrinfo **r), (n, s, h, r))
TWIN(int, getnameinfo,
     (const struct sockaddr *a, socklen_t len, char *n, socklen_t nl, char *s, socklen_t sl, int flags),
     (a, len, n, nl, s, sl, flags))
TWIN(struct if_nameindex *, if_nameindex, (void), ())
TWIN(unsigned, if_nametoindex, (const char *name), (name))
TWIN(char *, if_indextoname, (unsigned index, char *name), (index, name))
TWIN_LIST(int, fprintf, vfprintf, (FILE *f, const char *fmt, ...), fmt, (f, fmt, ap))
TWIN_LIST(int, dprintf, vdprintf, (int fd, const char *fmt, ...), fmt, (fd, fmt, ap))
TWIN_LIST(int, fscanf, vfscanf, (FILE *f, const char *fmt, ...), fmt, (f, fmt, ap))
TWIN_LIST(int, open, open, (const char *path, int flags, ...), flags, (path, flags, va_arg(ap, unsigned)))
TWIN_LIST(int, openat, openat, (int dir, const char *path, int flags, ...), flags,
     (dir, path, flags, va_arg(ap, unsigned)))
TWIN_LIST(int, fcntl, fcntl, (int fd, int cmd, ...), cmd, (fd, cmd, va_arg(ap, void *)))

#ifdef __GLIBC__
/* The names that headers put in the place of these calls: with _FORTIFY_SOURCE, and in C99. */
#define GNU(type, name, params) type name params;
GNU(ssize_t, __read_chk, (int fd, void *p, size_t n, size_t room))
GNU(ssize_t, __pread_chk, (int fd, void *p, size_t n, off_t at, size_t room))
GNU(ssize_t, __recv_chk, (int fd, void *p, size_t n, size_t room, int flags))
GNU(ssize_t, __recvfrom_chk, (int fd, void *p, size_t n, size_t room, int flags, struct sockaddr *a, socklen_t *len))
GNU(int, __poll_chk, (struct pollfd *p, nfds_t n, int ms, size_t room))
GNU(int, __ppoll_chk, (struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *s, size_t room))
GNU(int, __open_2, (const char *path, int flags))
GNU(int, __openat_2, (int dir, const char *path, int flags))
GNU(char *, __fgets_chk, (char *p, size_t room, int n, FILE *f))
GNU(size_t, __fread_chk, (void *p, size_t room, size_t size, size_t n, FILE *f))
GNU(int, __vfprintf_chk, (FILE *f, int level, const char *fmt, va_list ap))
GNU(int, __vdprintf_chk, (int fd, int level, const char *fmt, va_list ap))
TWIN(ssize_t, __read_chk, (int fd, void *p, size_t n, size_t room), (fd, p, n, room))
TWIN(ssize_t, __pread_chk, (int fd, void *p, size_t n, off_t at, size_t room), (fd, p, n, at, room))
TWIN(ssize_t, __recv_chk, (int fd, void *p, size_t n, size_t room, int flags), (fd, p, n, room, flags))
TWIN(ssize_t, __recvfrom_chk, (int fd, void *p, size_t n, size_t room, int flags, struct sockaddr *a, socklen_t *len),
     (fd, p, n, room, flags, a, len))
TWIN(int, __poll_chk, (struct pollfd *p, nfds_t n, int ms, size_t room), (p, n, ms, room))
TWIN(int, __ppoll_chk, (struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *s, size_t room),
     (p, n, ts, s, room))
TWIN(int, __open_2, (const char *path, int flags), (path, flags))
TWIN(int, __openat_2, (int dir, const char *path, int flags), (dir, path, flags))
TWIN(char *, __fgets_chk, (char *p, size_t room, int n, FILE *f), (p, room, n, f))
TWIN(size_t, __fread_chk, (void *p, size_t room, size_t size, size_t n, FILE *f), (p, room, size, n, f))
TWIN(int, __vfprintf_chk, (FILE *f, int level, const char *fmt, va_list ap), (f, level, fmt, ap))
TWIN(int, __vdprintf_chk, (int fd, int level, const char *fmt, va_list ap), (fd, level, fmt, ap))
TWIN_LIST(int, __fprintf_chk, __vfprintf_chk, (FILE *f, int level, const char *fmt, ...), fmt, (f, level, fmt, ap))
TWIN_LIST(int, __dprintf_chk, __vdprintf_chk, (int fd, int level, const char *fmt, ...), fmt, (fd, level, fmt, ap))
TWIN_LIST(int, __isoc99_fscanf, vfscanf, (FILE *f, const char *fmt, ...), fmt, (f, fmt, ap))
TWIN_LIST(int, __isoc23_fscanf, vfscanf, (FILE *f, const char *fmt, ...), fmt, (f, fmt, ap))
#endif
