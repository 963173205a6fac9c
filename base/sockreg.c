/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sockreg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"

#define INIT_TRIES 1000                  /* of a millisecond, while another process makes the file */

void diw_sockreg_dir(char *path, size_t size)
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

bool diw_sockreg_init(struct diw_sockreg *reg)
{
	pthread_mutexattr_t attr;

	if (pthread_mutexattr_init(&attr) || pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) ||
	    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST))
		return false;
	for (uint32_t i = 0; i < DIW_SOCKREG_OWNERS; i++)
		if (pthread_mutex_init(&reg->owner[i].life, &attr))
			return false;
	reg->version = DIW_SOCKREG_VERSION;
	reg->owners = DIW_SOCKREG_OWNERS;
	reg->entries = DIW_SOCKREG_ENTRIES;
	reg->size = sizeof *reg;
	return true;
}

bool diw_sockreg_is_complete(const struct diw_sockreg *reg)
{
	return atomic_load_explicit(&reg->magic, memory_order_acquire) == DIW_SOCKREG_MAGIC &&
	       reg->version == DIW_SOCKREG_VERSION && reg->owners == DIW_SOCKREG_OWNERS &&
	       reg->entries == DIW_SOCKREG_ENTRIES && reg->size == sizeof *reg;
}

static void *map(int fd)
{
	void *p = mmap(NULL, sizeof(struct diw_sockreg), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Under the file's lock: empty as it is, it becomes a registry. */
static struct diw_sockreg *init(int fd, const char **why)
{
	struct diw_sockreg *reg;

	if (fallocate(fd, 0, 0, sizeof *reg) < 0 || !(reg = map(fd))) {
		*why = strerror(errno);
		if (ftruncate(fd, 0) < 0)
			*why = "it can be neither made nor removed";
		return NULL;
	}
	if (!diw_sockreg_init(reg)) {
		*why = "no robust mutexes here";
		munmap(reg, sizeof *reg);
		return NULL;
	}
	reg->secret[0] = diw_random();
	reg->secret[1] = diw_random();
	atomic_store_explicit(&reg->magic, DIW_SOCKREG_MAGIC, memory_order_release);
	return reg;
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

static struct diw_sockreg *take(int fd, bool create, const char **why)
{
	struct diw_sockreg *reg = NULL;
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_size == 0) {
		*why = NULL;
		return create ? init(fd, why) : NULL;
	}
	if (st.st_size == (off_t)sizeof *reg && (reg = map(fd)) && diw_sockreg_is_complete(reg))
		return reg;
	if (reg)
		munmap(reg, sizeof *reg);
	*why = "it is damaged, or of another version; removing it helps once no program uses it";
	return NULL;
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

int diw_sockreg_file(const char *name, bool create, char *path, size_t size, const char **why)
{
	size_t len;
	int dir, fd;

	*why = NULL;
	diw_sockreg_dir(path, size);
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

struct diw_sockreg *diw_sockreg_open(bool create, char *path, size_t size, const char **why)
{
	struct diw_sockreg *reg;
	int fd = diw_sockreg_file(DIW_SOCKREG_FILE, create, path, size, why);

	if (fd < 0)
		return NULL;
	reg = take(fd, create, why);
	flock(fd, LOCK_UN);                  /* the mapping would keep it */
	close(fd);
	return reg;
}

bool diw_sock_read(const struct diw_sockreg *reg, const struct diw_sock_entry *e, struct diw_sock_entry *copy)
{
	uint64_t seq = atomic_load_explicit(&e->seq, memory_order_acquire);

	if (seq % 4 != DIW_SOCK_SHOWN)
		return false;
	memcpy((char *)copy + sizeof seq, (const char *)e + sizeof seq, sizeof *e - sizeof seq);
	atomic_thread_fence(memory_order_acquire);
	copy->seq = seq;
	return atomic_load_explicit(&e->seq, memory_order_relaxed) == seq &&
	       diw_sock_lives(reg, copy->owner, copy->owner_epoch);
}
