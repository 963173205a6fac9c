/* SPDX-License-Identifier: BSD-2-Clause */
/* The log of the libraries: reads DIWARP_LOG and DIWARP_LOG_FILE, formats a line, and writes it without a lock. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/path.h"

#define LINE 512                     /* not above PIPE_BUF, so that a pipe takes a line whole or not at all */
#define LINES_A_SECOND 10u

atomic_int diw_log_level = DIW_LOG_UNREAD;

static struct diw_log_how how = { .name = "diwarp", .level = DIW_LOG_TELL, .call = syscall };
static struct stat stderr_then;      /* the file of descriptor 2 when the library was loaded */
static bool stderr_there;

/* ---- The destination of a line ---- */

/* Runs before other constructors, since these may log. */
__attribute__((constructor(101))) static void stderr_remember(void)
{
	stderr_there = stderr_there || fstat(STDERR_FILENO, &stderr_then) == 0;
}

/* A log line must not get into a connection: the peer would read it as data of its protocol. */
static bool is_network(int fd)
{
	socklen_t len = sizeof(int);
	int domain = 0;

	return how.call(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain != AF_UNIX;
}

/* The program may have closed descriptor 2, and another file or socket may have its number. So a line goes only to the
 * file that descriptor 2 was when the library was loaded. */
static bool stderr_is_a_log(void)
{
	int flags = (int)how.call(SYS_fcntl, STDERR_FILENO, F_GETFL);
	struct stat now;

	return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && stderr_there && fstat(STDERR_FILENO, &now) == 0 &&
	       now.st_dev == stderr_then.st_dev && now.st_ino == stderr_then.st_ino &&
	       !(S_ISSOCK(now.st_mode) && is_network(STDERR_FILENO));
}

/* Opens an ordinary file that the user owns and that has no second link. The file is opened for each line, so the
 * program never finds a descriptor of the log. */
static __attribute__((noinline)) int log_open(const char *path)
{
	char name[PATH_MAX];
	struct stat st;
	int fd;

	if (diw_path_expand(path, name, sizeof name) < 0)
		return -1;
	fd = (int)how.call(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
			  O_NOCTTY | O_CLOEXEC, 0600);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)) {
		how.call(SYS_close, fd);
		return -1;
	}
	return fd;
}

/* The kernel ends a program that exceeds RLIMIT_FSIZE (SIGXFSZ). So the function checks the limit first. */
static bool file_has_room(int fd, size_t len)
{
	struct rlimit l;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || getrlimit(RLIMIT_FSIZE, &l) < 0)
		return true;
	return l.rlim_cur == RLIM_INFINITY || (uint64_t)st.st_size + len <= l.rlim_cur;
}

/* Drops the line if the write would block. SIGPIPE is blocked meanwhile: a pipe without a reader must not end the
 * program. */
static void line_write(int fd, const char *line, size_t len)
{
	const struct timespec at_once = { 0 };
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct timespec none = { 0 };
	sigset_t pipe, before, pending;
	bool was_pending;

	if (how.call(SYS_ppoll, &p, 1, &at_once, NULL, 0) != 1 || !(p.revents & POLLOUT) || !file_has_room(fd, len))
		return;
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
	pthread_sigmask(SIG_BLOCK, &pipe, &before);
	if (how.call(SYS_write, fd, line, len) < 0 && errno == EPIPE && !was_pending)
		how.call(SYS_rt_sigtimedwait, &pipe, NULL, &none, 8);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- Levels ---- */

int diw_log_parse(const char *word)
{
	static const char *const words[] = { "off", "", "error", "warn", "info", "debug" };

	for (int i = 0; i < 6; i++)
		if (words[i][0] && strcmp(word, words[i]) == 0)
			return DIW_LOG_OFF + i;
	return -2;
}

void diw_log_begin(const struct diw_log_how *h)
{
	how = *h;
	stderr_remember();
}

void diw_log_reread(void)
{
	atomic_store_explicit(&diw_log_level, DIW_LOG_UNREAD, memory_order_relaxed);
}

static int level_now(void)
{
	int level = atomic_load_explicit(&diw_log_level, memory_order_relaxed);
	const char *env;

	if (level != DIW_LOG_UNREAD)
		return level;
	env = getenv("DIWARP_LOG");
	level = env && *env ? diw_log_parse(env) : how.level;
	atomic_store_explicit(&diw_log_level, level == -2 ? how.level : level, memory_order_relaxed);
	if (level == -2) {
		diw_log_write(DIW_LOG_TELL, "DIWARP_LOG=%.64s: not one of off, error, warn, info, debug", env);
		level = how.level;
	}
	return level;
}

/* ---- Lines ---- */

/* Replaces control characters. Text of a peer or of the program must not control a terminal, and must not begin a line
 * of its own. */
static void line_sanitize(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			s[i] = '?';
}

static size_t line_append(char *line, size_t n, const char *fmt, va_list ap)
{
	int m = vsnprintf(line + n, LINE - 1 - n, fmt, ap);

	return m < 0 ? n : n + (size_t)m < LINE - 2 ? n + (size_t)m : LINE - 2;
}

static size_t line_add(char *line, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static size_t line_add(char *line, size_t n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	n = line_append(line, n, fmt, ap);
	va_end(ap);
	return n;
}

/* A line in a file begins with the time, in seconds since 1970. A line on stderr has no time. */
static void log_message(int level, const char *err, const char *fmt, va_list ap)
{
	static const char *const names[] = { "", "error: ", "warn: ", "info: ", "debug: " };
	const char *path = secure_getenv("DIWARP_LOG_FILE");
	struct timespec ts;
	char line[LINE];
	size_t n = 0;
	int fd;

	if (how.muted && how.muted())
		return;
	if (path && *path) {
		clock_gettime(CLOCK_REALTIME, &ts);
		n = line_add(line, n, "%lld.%06ld ", (long long)ts.tv_sec, ts.tv_nsec / 1000);
	}
	n = line_add(line, n, "%s: %.64s[%ld]: %s", how.name, program_invocation_short_name, (long)getpid(),
		     names[level]);
	n = line_append(line, n, fmt, ap);
	if (err)
		n = line_add(line, n, " (%s)", err);
	line_sanitize(line, n);
	line[n++] = '\n';
	fd = path && *path ? log_open(path) : STDERR_FILENO;
	if (fd < 0 || (fd == STDERR_FILENO && !(path && *path) && !stderr_is_a_log()))
		return;
	line_write(fd, line, n);
	if (path && *path)
		how.call(SYS_close, fd);
}

void diw_log_write(int level, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (level <= level_now()) {
		va_start(ap, fmt);
		log_message(level, NULL, fmt, ap);
		va_end(ap);
	}
	errno = saved;
}

int diw_log_fail(int rc, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (level_now() >= DIW_LOG_ERROR) {
		va_start(ap, fmt);
		log_message(DIW_LOG_ERROR, strerrorname_np(rc < 0 ? -rc : rc), fmt, ap);
		va_end(ap);
	}
	errno = saved;
	return rc;
}

bool diw_log_may(struct diw_log_limit *l, uint64_t now)
{
	uint64_t second = now / 1000000000u + 1, then = atomic_load_explicit(&l->second, memory_order_relaxed);

	if (then != second && atomic_compare_exchange_strong(&l->second, &then, second))
		atomic_store_explicit(&l->lines, 0, memory_order_relaxed);
	return atomic_fetch_add_explicit(&l->lines, 1, memory_order_relaxed) < LINES_A_SECOND;
}
