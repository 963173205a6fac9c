/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that create, close or change descriptors. */
#include <errno.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <string.h>

#include "sockets_preload/dgram/bad_net.h"
#include "sockets_preload/dgram/group.h"
#include "sockets_preload/stream/stream.h"

/* ---- Creating ---- */

static void fd_withdraw(int fd)
{
	struct diw_sock *s = diw_sock_known(fd);

	if (s)
		diw_reg_withdraw(s);
}

static bool fd_end(int fd)
{
	struct diw_sock *s = diw_sock_marked(fd, DIW_MARK_UNKNOWN);
	bool gone = s && diw_stream_leave(s);

	diw_sock_forget(fd);
	return gone;
}

/* The file that had this number was closed, possibly by a call that is not interposed. */
static int fd_fresh(int fd)
{
	if (fd >= 0)
		fd_end(fd);
	return fd;
}

static int fd_duplicate(int fd)
{
	diw_fd_copied();
	return fd_fresh(fd);
}

DIW_API int socket(int domain, int type, int protocol)
{
	int fd;

	diw_preload_init();
	fd = real.socket(domain, type, protocol);
	if (fd_fresh(fd) >= 0)
		diw_sock_is_new(fd, domain, type, protocol);
	return fd;
}

DIW_API int socketpair(int domain, int type, int protocol, int fd[2])
{
	int rc;

	diw_preload_init();
	rc = real.socketpair(domain, type, protocol, fd);
	if (rc == 0) {
		fd_fresh(fd[0]);
		fd_fresh(fd[1]);
	}
	return rc;
}

DIW_API int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sockaddr_storage peer;
	socklen_t room = sizeof peer, got = sizeof peer;
	struct diw_sock l;
	bool streams;
	int to;

	diw_preload_init();
	streams = diw_stream_accepts(fd, &l);
	if (streams && !addr) {              /* the address is needed here */
		addr = (struct sockaddr *)&peer;
		len = &got;
	} else if (streams) {
		room = len ? *len : 0;
	}
	to = fd_fresh(flags ? real.accept4(fd, addr, len, flags) : real.accept(fd, addr, len));
	if (streams && to >= 0)
		diw_stream_accepted(&l, to, room >= sizeof(struct sockaddr_in6) ? addr : NULL);
	return to;
}

DIW_API int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

DIW_API int dup(int fd)
{
	diw_preload_init();
	return fd_duplicate(real.dup(fd));
}

/* ---- Closing ---- */

DIW_API int close(int fd)
{
	struct diw_sock_stream *st;
	uint64_t cookie = 0;
	bool gone;
	int rc;

	diw_preload_init();
	if (diw_sock_stat_is(fd)) {          /* the program did not open it */
		errno = EBADF;
		return -1;
	}
	diw_ask_make_way((unsigned)fd, (unsigned)fd);
	diw_bad_net_flush((unsigned)fd, (unsigned)fd);
	st = diw_stream_slot(fd, &cookie);
	gone = fd_end(fd);
	rc = real.close(fd);
	if (st)
		diw_stream_closed(st, cookie, gone && rc == 0);
	return rc;
}

DIW_API int __close(int fd) DIW_ALIAS(close);

DIW_API int fclose(FILE *f)
{
	int fd = fileno(f), rc;
	void *wide;

	diw_preload_init();
	if (fd >= 0) {
		diw_bad_net_flush((unsigned)fd, (unsigned)fd);
		fd_end(fd);
	}
	wide = diw_file_closes(f);
	rc = real.fclose(f);
	if (wide)
		free(wide);
	return rc;
}

/* The C library gives the descriptor of F to another file, or closes it. It writes first what F holds; this may fail
 * only in part, so the library may write again. */
static FILE *file_reopen(const char *path, const char *mode, FILE *f, __typeof__(&freopen) reopens)
{
	struct diw_sock_stream *st;
	uint64_t cookie = 0;
	bool gone;
	FILE *made;
	int fd;

	flockfile(f);
	fd = fileno(f);
	fflush(f);
	st = diw_stream_slot(fd, &cookie);
	if (fd >= 0)
		diw_bad_net_flush((unsigned)fd, (unsigned)fd);
	gone = fd >= 0 && fd_end(fd);
	diw_file_reopens(f);
	made = reopens(path, mode, f);
	if (fd >= 0)
		fd_end(fd);
	if (st)
		diw_stream_closed(st, cookie, gone);
	funlockfile(f);
	return made;
}

DIW_API FILE *freopen(const char *path, const char *mode, FILE *f)
{
	diw_preload_init();
	return file_reopen(path, mode, f, real.freopen);
}

DIW_API FILE *freopen64(const char *path, const char *mode, FILE *f)
{
	diw_preload_init();
	return file_reopen(path, mode, f, real.freopen64);
}

static void make_way(int to, int fd)
{
	diw_preload_init();
	if (to == fd)
		return;
	if (diw_sock_stat_is(to))
		diw_sock_stat_move();
	diw_ask_make_way((unsigned)to, (unsigned)to);
	diw_bad_net_flush((unsigned)to, (unsigned)to);
	fd_end(to);
}

DIW_API int dup2(int fd, int to)
{
	make_way(to, fd);
	return fd_duplicate(real.dup2(fd, to));
}

DIW_API int __dup2(int fd, int to) __THROW DIW_ALIAS(dup2);

DIW_API int dup3(int fd, int to, int flags)
{
	make_way(to, fd);
	return fd_duplicate(real.dup3(fd, to, flags));
}

static int close_part(unsigned first, unsigned last, int flags)
{
	return first > last ? 0 : real.close_range(first, last, flags);
}

DIW_API int close_range(unsigned first, unsigned last, int flags)
{
	unsigned ours;
	int rc;

	diw_preload_init();
	if (!real.close_range) {
		errno = ENOSYS;
		return -1;
	}
	ours = (unsigned)diw_sock_stat_fd();
	if (first > last || flags & CLOSE_RANGE_CLOEXEC)     /* an error, or no descriptor is closed */
		return real.close_range(first, last, flags);
	diw_bad_net_flush(first, last);
	diw_sock_forget_range(first, last);
	diw_ask_make_way(first, last);
	if (ours == (unsigned)-1 || ours < first || ours > last)
		return real.close_range(first, last, flags);
	rc = ours ? close_part(first, ours - 1, flags) : 0;
	return rc || ours == last ? rc : close_part(ours + 1, last, flags);
}

DIW_API void closefrom(int first)
{
	diw_preload_init();
	if (first < 0)
		first = 0;
	if (!real.close_range || close_range((unsigned)first, ~0u, 0) < 0)
		real.closefrom(first);
}

/* ---- Changing ---- */

DIW_API int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	int rc;

	diw_preload_init();
	diw_bad_net_flush((unsigned)fd, (unsigned)fd);
	fd_withdraw(fd);
	diw_stream_binds(fd);
	rc = real.bind(fd, addr, len);
	diw_sock_ask_again(fd);
	return rc;
}

/* The senders that the socket accepts change, so its entry is withdrawn first; the next receive makes a new one. */
DIW_API int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int rc;

	diw_preload_init();
	if (addr && len >= sizeof addr->sa_family && !diw_sock_known(fd) && diw_stream_is_tcp(fd))
		return diw_stream_connect(fd, addr, len);
	diw_bad_net_flush((unsigned)fd, (unsigned)fd);
	fd_withdraw(fd);
	rc = real.connect(fd, addr, len);
	diw_sock_ask_again(fd);
	return rc;
}

DIW_API int shutdown(int fd, int how)
{
	diw_preload_init();
	diw_bad_net_flush((unsigned)fd, (unsigned)fd);
	return real.shutdown(fd, how);
}

DIW_API int listen(int fd, int backlog)
{
	int rc;

	diw_preload_init();
	rc = real.listen(fd, backlog);
	if (rc == 0)
		diw_stream_listens(fd);
	return rc;
}

DIW_API int __connect(int fd, const struct sockaddr *addr, socklen_t len) DIW_ALIAS(connect);

/* Whether sock_describe() of fd.c reads the option. */
static bool option_matters(int level, int name)
{
	if (level == IPPROTO_IP)
		return name == IP_RECVERR || name == IP_MTU_DISCOVER || name == IP_OPTIONS ||
		       name == IP_RECVERR_RFC4884;
	if (level == IPPROTO_IPV6)
		return name == IPV6_RECVERR || name == IPV6_V6ONLY || name == IPV6_ADDRFORM ||
		       name == IPV6_MTU_DISCOVER || name == IPV6_DONTFRAG || name == IPV6_RECVERR_RFC4884;
	if (level != SOL_SOCKET)
		return level == IPPROTO_UDP;
	switch (name) {
	case SO_RCVTIMEO:
	case SO_TIMESTAMPING:
	case SO_BROADCAST:
	case SO_PEEK_OFF:
	case SO_BINDTODEVICE:
	case SO_BINDTOIFINDEX:
	case SO_ATTACH_FILTER:
	case SO_ATTACH_BPF:
	case SO_DETACH_FILTER:
		return true;
	default:
		return false;
	}
}

DIW_API int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	int rc;

	diw_preload_init();
	rc = diw_stream_refuses(fd, level, name, value, len);
	if (rc) {
		errno = rc;
		return -1;
	}
	if (level != SOL_SOCKET)
		diw_bad_net_flush((unsigned)fd, (unsigned)fd);
	if (option_matters(level, name))
		fd_withdraw(fd);
	rc = real.setsockopt(fd, level, name, value, len);
	if (rc == 0)
		diw_home_option(fd, level, name, value, len);
	if (option_matters(level, name))
		diw_sock_ask_again(fd);
	diw_stream_option(fd, level, name);
	return rc;
}

/* The third argument is a number, a pointer, or absent: all are passed in the same register. */
DIW_API int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;
	int rc;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	diw_preload_init();
	rc = real.fcntl(fd, cmd, arg);
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? fd_duplicate(rc) : rc;
}

DIW_API int fcntl64(int fd, int cmd, ...) DIW_ALIAS(fcntl);
DIW_API int __fcntl(int fd, int cmd, ...) DIW_ALIAS(fcntl);

DIW_API int ioctl(int fd, unsigned long request, ...)
{
	struct diw_sock tmp, *s;
	va_list ap;
	void *arg;

	diw_preload_init();
	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	s = request == FIONREAD && arg ? diw_sock_get(fd, &tmp) : NULL;
	if (s)
		return diw_sock_next(fd, s, arg);
	return request == FIONREAD && arg && diw_stream_next(fd, arg) ? 0 : real.ioctl(fd, request, arg);
}
