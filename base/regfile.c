/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/regfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define INIT_TRIES 1000                  /* of a millisecond, while another process makes the file */

static void directory(char *path, size_t size)
{
	const char *run = secure_getenv("XDG_RUNTIME_DIR");

	if (run && *run == '/')
		snprintf(path, size, "%s/diwarp", run);
	else
		snprintf(path, size, "/dev/shm/diwarp-%u", (unsigned)geteuid());
}

static bool is_ours(const struct stat *st, const char **why)
{
	if (st->st_uid != geteuid())
		*why = "it belongs to another user";
	else if (st->st_mode & 022)
		*why = "others may write it";
	else
		return true;
	return false;
}

static int open_dir(bool create, const char *path, const char **why)
{
	struct stat st;
	int fd;

	if (create && mkdir(path, 0700) < 0 && errno != EEXIST) {
		*why = strerror(errno);
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		*why = !create && errno == ENOENT ? NULL : strerror(errno);
		return -1;
	}
	if (fstat(fd, &st) == 0 && is_ours(&st, why))
		return fd;
	close(fd);
	return -1;
}

static bool lock(int fd)
{
	for (int i = 0; i < INIT_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = (long)DIW_MS }, NULL);
	}
	return false;
}

static bool is_file(int fd, bool create, const char **why)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		*why = "not a file";
		return false;
	}
	if (!is_ours(&st, why))
		return false;
	if (create && !lock(fd)) {
		*why = "another process holds its lock";
		return false;
	}
	return true;
}

static int open_file(const char *name, bool create, char *path, size_t size, const char **why)
{
	size_t len;
	int dir, fd;

	*why = NULL;
	directory(path, size);
	dir = open_dir(create, path, why);
	if (dir < 0)
		return -1;
	len = strlen(path);
	snprintf(path + len, size - len, "/%s", name);
	fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
	if (fd < 0)
		*why = !create && errno == ENOENT ? NULL : strerror(errno);
	close(dir);
	if (fd < 0 || is_file(fd, create, why))
		return fd;
	close(fd);
	return -1;
}

static void *map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void *init(const struct diw_regfile *what, int fd, const char **why)
{
	void *reg;

	if (fallocate(fd, 0, 0, (off_t)what->size) < 0 || !(reg = map(fd, what->size))) {
		*why = strerror(errno);
		if (ftruncate(fd, 0) < 0)
			*why = "it can be neither made nor removed";
		return NULL;
	}
	if (what->init(reg, why))
		return reg;
	munmap(reg, what->size);
	return NULL;
}

/* Nobody has it mapped, or ever will: whoever began to make it was killed, or its users are all gone. */
static bool is_of_no_use(const struct diw_regfile *what, const void *reg)
{
	if (atomic_load_explicit((const _Atomic uint64_t *)reg, memory_order_acquire) == 0)
		return true;
	return what->is_complete(reg) && what->is_over && what->is_over(reg);
}

/* Under the file's lock if CREATE. */
static void *take(const struct diw_regfile *what, int fd, bool create, const char **why)
{
	struct stat st = { 0 };
	void *reg = NULL;

	*why = NULL;
	if (fstat(fd, &st) == 0 && st.st_size == (off_t)what->size && (reg = map(fd, what->size))) {
		if (!is_of_no_use(what, reg) && what->is_complete(reg))
			return reg;
		if (is_of_no_use(what, reg) && (!create || ftruncate(fd, 0) == 0))
			st.st_size = 0;
		munmap(reg, what->size);
	}
	if (st.st_size == 0)
		return create ? init(what, fd, why) : NULL;
	*why = "it is damaged; removing it helps once no program uses it";
	return NULL;
}

void *diw_regfile_open(const struct diw_regfile *what, bool create, char *path, size_t size, const char **why)
{
	int fd = open_file(what->name, create, path, size, why);
	void *reg;

	if (fd < 0)
		return NULL;
	reg = take(what, fd, create, why);
	flock(fd, LOCK_UN);                  /* the mapping would keep it */
	close(fd);
	return reg;
}
