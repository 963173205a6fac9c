/* SPDX-License-Identifier: BSD-2-Clause */
/* stdio files over streams with frames. The C library's files use calls that are not interposed, so such a stream gets
 * a file with functions of ours. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "sockets_preload/stream/stream.h"

#define STDIO_EACH 1024                  /* files of a block */
#define STDIO_BLOCKS 1024

int __dprintf_chk(int fd, int flag, const char *fmt, ...);

#define WIDE 1024                        /* at least the size of the C library's struct _IO_wide_data */

/* The files of ours, and their descriptors. FD is -1 for a file that freopen() has made an ordinary one, and WIDE is
 * what it needs for wide characters. A block is made when it is needed, and stays. */
struct file { FILE *_Atomic f; _Atomic int fd; void *wide; };
static struct file first[STDIO_EACH], *_Atomic blocks[STDIO_BLOCKS] = { first };
static _Atomic int highest;              /* index of the last used entry, and one more */

static struct file *file_at(int i)
{
	return atomic_load_explicit(&blocks[i / STDIO_EACH], memory_order_acquire) + i % STDIO_EACH;
}

static bool block_make(int n)
{
	struct file *made = calloc(STDIO_EACH, sizeof *made), *other = NULL;

	if (made && !atomic_compare_exchange_strong(&blocks[n], &other, made))
		free(made);
	return made || other;
}

static int file_find(const FILE *f)
{
	int n = atomic_load_explicit(&highest, memory_order_acquire);

	for (int i = 0; i < n; i++)
		if (atomic_load_explicit(&file_at(i)->f, memory_order_acquire) == f)
			return i;
	return -1;
}

static FILE *const taken = (FILE *)&first;   /* marks an entry whose file does not exist yet */

static int file_claim(int fd)
{
	for (int i = 0; i < STDIO_BLOCKS * STDIO_EACH; i++) {
		FILE *none = NULL;
		int n = atomic_load(&highest);

		if (!atomic_load(&blocks[i / STDIO_EACH]) && !block_make(i / STDIO_EACH))
			return -1;
		if (!atomic_compare_exchange_strong(&file_at(i)->f, &none, taken))
			continue;
		atomic_store(&file_at(i)->fd, fd);
		while (n <= i && !atomic_compare_exchange_weak(&highest, &n, i + 1))
			;
		return i;
	}
	return -1;
}

static int fd_of(void *cookie)
{
	return atomic_load(&file_at((int)(intptr_t)cookie)->fd);
}

static ssize_t file_read(void *cookie, char *buf, size_t n)
{
	return read(fd_of(cookie), buf, n);
}

/* Writes all bytes, or returns the stream's error. */
static ssize_t file_write(void *cookie, const char *buf, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t rc = write(fd_of(cookie), buf + done, n - done);

		if (rc <= 0)
			break;
		done += (size_t)rc;
	}
	return (ssize_t)done;
}

/* A socket cannot be positioned, and the C library expects its error. */
static int file_seek(void *cookie, off64_t *at, int whence)
{
	off64_t rc = lseek64(fd_of(cookie), *at, whence);

	if (rc >= 0)
		*at = rc;
	return rc < 0 ? -1 : 0;
}

static int file_close(void *cookie)
{
	int fd = fd_of(cookie);

	atomic_store(&file_at((int)(intptr_t)cookie)->f, NULL);
	return close(fd);
}

static FILE *open_file(int fd, const char *mode)
{
	static const cookie_io_functions_t io = { .read = file_read, .write = file_write,
						  .seek = file_seek, .close = file_close };
	int i = file_claim(fd);
	FILE *f = i < 0 ? NULL : fopencookie((void *)(intptr_t)i, mode, io);

	if (i >= 0)
		atomic_store(&file_at(i)->f, f);
	return f;
}

static bool may_have_frames(int fd)
{
	struct diw_sock tmp;
	uint64_t cookie;

	diw_sock_get(fd, &tmp);
	return diw_stream_slot(fd, &cookie);
}

DIW_API FILE *fdopen(int fd, const char *mode)
{
	FILE *f;

	diw_preload_init();
	f = may_have_frames(fd) ? open_file(fd, mode) : NULL;
	return f ? f : real.fdopen(fd, mode);
}

FILE *_IO_fdopen(int fd, const char *mode);

DIW_API FILE *_IO_fdopen(int fd, const char *mode)
{
	return fdopen(fd, mode);
}

static int own_fd(const FILE *f)
{
	int i = file_find(f);

	return i < 0 ? -1 : atomic_load(&file_at(i)->fd);
}

DIW_API int fileno(FILE *f)
{
	int fd = own_fd(f);

	diw_preload_init();
	return fd < 0 ? real.fileno(f) : fd;
}

DIW_API int fileno_unlocked(FILE *f)
{
	int fd = own_fd(f);

	diw_preload_init();
	return fd < 0 ? real.fileno_unlocked(f) : fd;
}

/* The C library's freopen() replaces the functions of a file, so it makes an ordinary file of one of ours, if the file
 * has the two fields that a file of fopencookie() lacks. */
void diw_file_reopens(FILE *f)
{
	int i = file_find(f), fd = own_fd(f);

	if (fd < 0)
		return;
	file_at(i)->wide = calloc(1, WIDE);
	f->_wide_data = file_at(i)->wide;
	f->_fileno = fd;
	atomic_store(&file_at(i)->fd, -1);
}

void *diw_file_closes(FILE *f)
{
	int i = file_find(f);
	void *wide;

	if (i < 0 || own_fd(f) >= 0)
		return NULL;
	wide = file_at(i)->wide;
	file_at(i)->wide = NULL;
	atomic_store(&file_at(i)->f, NULL);
	return wide;
}

/* A program started by a super-server has the stream as its standard files. */
__attribute__((constructor(103))) static void standard_files(void)
{
	FILE *f;

	if (may_have_frames(STDIN_FILENO) && (f = open_file(STDIN_FILENO, "r")))
		stdin = f;
	if (may_have_frames(STDOUT_FILENO) && (f = open_file(STDOUT_FILENO, "w")))
		stdout = f;
	if (may_have_frames(STDERR_FILENO) && (f = open_file(STDERR_FILENO, "w"))) {
		setvbuf(f, NULL, _IONBF, 0);
		stderr = f;
	}
}

/* ---- Without a file ---- */

static int fd_print(int fd, const char *fmt, va_list ap)
{
	char *text;
	int n = vasprintf(&text, fmt, ap), done = 0;

	while (n >= 0 && done < n) {
		ssize_t rc = write(fd, text + done, (size_t)(n - done));

		if (rc <= 0) {
			free(text);
			return -1;
		}
		done += (int)rc;
	}
	if (n >= 0)
		free(text);
	return n;
}

DIW_API int vdprintf(int fd, const char *fmt, va_list ap)
{
	diw_preload_init();
	return may_have_frames(fd) ? fd_print(fd, fmt, ap) : real.vdprintf(fd, fmt, ap);
}

DIW_API int __vdprintf_chk(int fd, int flag, const char *fmt, va_list ap)
{
	diw_preload_init();
	return may_have_frames(fd) ? fd_print(fd, fmt, ap) : real.__vdprintf_chk(fd, flag, fmt, ap);
}

DIW_API int dprintf(int fd, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vdprintf(fd, fmt, ap);
	va_end(ap);
	return n;
}

DIW_API int __dprintf_chk(int fd, int flag, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = __vdprintf_chk(fd, flag, fmt, ap);
	va_end(ap);
	return n;
}
