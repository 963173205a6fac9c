/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that execute another program, and calls that set up io_uring. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sockets_preload/stream/stream.h"

struct io_uring;
struct io_uring_params;
int io_uring_setup(unsigned entries, struct io_uring_params *p);
int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *p);
int io_uring_queue_init_mem(unsigned entries, struct io_uring *ring, struct io_uring_params *p, void *buf, size_t size);

/* Finds FILE in PATH, as the shell does. */
static const char *find_program(const char *file, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");

	if (!file || strchr(file, '/'))
		return file;
	for (dirs = dirs ? dirs : "/bin:/usr/bin"; *dirs; dirs += dirs[strcspn(dirs, ":")] == ':') {
		int n = (int)strcspn(dirs, ":");

		snprintf(path, PATH_MAX, "%.*s/%s", n, n ? dirs : ".", file);
		if (access(path, X_OK) == 0)
			return path;
		dirs += n;
	}
	return file;
}

static void lend_found(const char *file, char *const envp[], bool all)
{
	char path[PATH_MAX];
	int saved = errno;

	diw_lend(find_program(file, path), envp, all);
	errno = saved;
}

DIW_API int execve(const char *path, char *const argv[], char *const envp[])
{
	diw_lend(path, envp, false);
	return real.execve(path, argv, envp);
}

DIW_API int execv(const char *path, char *const argv[])
{
	diw_lend(path, environ, false);
	return real.execv(path, argv);
}

DIW_API int execvp(const char *file, char *const argv[])
{
	lend_found(file, environ, false);
	return real.execvp(file, argv);
}

DIW_API int execvpe(const char *file, char *const argv[], char *const envp[])
{
	lend_found(file, envp, false);
	return real.execvpe(file, argv, envp);
}

/* A file without a readable path counts as a program of an unknown kind. */
DIW_API int fexecve(int fd, char *const argv[], char *const envp[])
{
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	diw_lend(path, envp, false);
	return real.fexecve(fd, argv, envp);
}

DIW_API int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	char at[PATH_MAX];

	snprintf(at, sizeof at, *path ? "/proc/self/fd/%d/%s" : "/proc/self/fd/%d", dir, path);
	diw_lend(dir == AT_FDCWD || *path == '/' ? path : at, envp, false);
	return real.execveat(dir, path, argv, envp, flags);
}

/* Collects FIRST and the arguments in AP, up to NULL. */
static void args_collect(char **argv, const char *first, va_list ap, int n)
{
	argv[0] = (char *)first;
	for (int i = 1; i < n; i++)
		argv[i] = va_arg(ap, char *);
}

static int count_args(const char *first, va_list ap)
{
	int n = 1;

	for (; first; n++)
		first = va_arg(ap, const char *);
	return n;
}

/* Makes ARGV of FIRST and the arguments behind it; AP is then behind these. */
#define LIST(first) \
	va_list ap; \
	int n; \
	va_start(ap, first); \
	n = count_args(first, ap); \
	va_end(ap); \
	char *argv[n]; \
	va_start(ap, first); \
	args_collect(argv, first, ap, n)

DIW_API int execl(const char *path, const char *first, ...)
{
	LIST(first);
	va_end(ap);
	return execv(path, argv);
}

DIW_API int execlp(const char *file, const char *first, ...)
{
	LIST(first);
	va_end(ap);
	return execvp(file, argv);
}

DIW_API int execle(const char *path, const char *first, ...)
{
	char **envp;

	LIST(first);
	envp = va_arg(ap, char **);
	va_end(ap);
	return execve(path, argv, envp);
}

/* The effect of the actions on descriptors is not known. */
DIW_API int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *acts,
			const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	diw_lend(path, envp, acts);
	return real.posix_spawn(pid, path, acts, attr, argv, envp);
}

DIW_API int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *acts,
			 const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	lend_found(file, envp, acts);
	return real.posix_spawnp(pid, file, acts, attr, argv, envp);
}

DIW_API int system(const char *command)
{
	if (command)
		diw_lend("/bin/sh", environ, false);
	return real.system(command);
}

DIW_API FILE *popen(const char *command, const char *type)
{
	diw_lend("/bin/sh", environ, false);
	return real.popen(command, type);
}

/* ---- Processes without the handlers of pthread_atfork() ---- */

DIW_API pid_t _Fork(void)
{
	diw_preload_init();
	diw_fd_copied();
	return real._Fork();
}

/* The kernel ignores the last three arguments if FLAGS does not name them, so they may be missing. */
DIW_API int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	pid_t *parent, *child;
	void *tls;
	va_list ap;

	diw_preload_init();
	diw_fd_copied();
	va_start(ap, arg);
	parent = va_arg(ap, pid_t *);
	tls = va_arg(ap, void *);
	child = va_arg(ap, pid_t *);
	va_end(ap);
	return real.clone(fn, stack, flags, arg, parent, tls, child);
}

/* ---- io_uring through liburing: the system calls of liburing itself are not visible ---- */

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))
#define MADE(name, ...) do { \
	__typeof__(&(name)) next = NEXT(name); \
	diw_lend_to_ring(); \
	return next ? next(__VA_ARGS__) : -ENOSYS; \
} while (0)

DIW_API int io_uring_setup(unsigned entries, struct io_uring_params *p)
{
	MADE(io_uring_setup, entries, p);
}

DIW_API int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	MADE(io_uring_queue_init, entries, ring, flags);
}

DIW_API int io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *p)
{
	MADE(io_uring_queue_init_params, entries, ring, p);
}

DIW_API int io_uring_queue_init_mem(unsigned entries, struct io_uring *ring, struct io_uring_params *p, void *buf,
				    size_t size)
{
	MADE(io_uring_queue_init_mem, entries, ring, p, buf, size);
}
