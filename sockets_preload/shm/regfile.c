/* SPDX-License-Identifier: BSD-2-Clause */
/* Files of shared memory in the user's directory: opened, checked, mapped. */
#include "sockets_preload/shm/regfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LEFT 0100u                       /* mode of a kept file that was found unmapped */
#define LEFT_S 2                         /* seconds after which such a file is removed */
#define INIT_TRIES 1000                  /* of 1 ms each, while another process makes the file */

static char *place;                      /* the directory that the configuration file names */

void diw_regfile_place(const char *dir)
{
	free(place);
	place = strdup(dir);
}

static void registry_directory(char *path, size_t size)
{
	const char *chosen = secure_getenv("DIWARP_SOCKETS_DIR"), *run = secure_getenv("XDG_RUNTIME_DIR");

	if (!chosen || !*chosen)
		chosen = place;
	if (chosen && *chosen)
		snprintf(path, size, "%s/diwarp-%u", chosen, (unsigned)geteuid());
	else if (run && *run == '/')
		snprintf(path, size, "%s/diwarp", run);
	else
		snprintf(path, size, "/dev/shm/diwarp-%u", (unsigned)geteuid());
}

static bool file_is_ours(const struct stat *st, const char **why)
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

	if (*path != '/') {
		*why = "it is no absolute path";
		return -1;
	}
	if (create && mkdir(path, 0700) < 0 && errno != EEXIST) {
		*why = strerror(errno);
		return -1;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		*why = !create && errno == ENOENT ? NULL : strerror(errno);
		return -1;
	}
	if (fstat(fd, &st) == 0 && file_is_ours(&st, why))
		return fd;
	close(fd);
	return -1;
}

static bool file_lock(int fd, int how)
{
	for (int i = 0; i < INIT_TRIES; i++) {
		if (flock(fd, how | LOCK_NB) == 0)
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = (long)DIW_MS }, NULL);
	}
	return false;
}

/* HOW: the kind of lock; 0: none. */
static bool is_file(int fd, int how, const char **why)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		*why = "not a file";
		return false;
	}
	if (!file_is_ours(&st, why))
		return false;
	if (how && !file_lock(fd, how)) {
		*why = "another process holds its lock";
		return false;
	}
	return true;
}

static int regfile_open_file(const char *name, bool create, int how, char *path, size_t size, const char **why)
{
	size_t len;
	int dir, fd;

	*why = NULL;
	registry_directory(path, size);
	dir = open_dir(create, path, why);
	if (dir < 0)
		return -1;
	len = strlen(path);
	snprintf(path + len, size - len, "/%s", name);
	fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
	if (fd < 0)
		*why = !create && errno == ENOENT ? NULL : strerror(errno);
	close(dir);
	if (fd < 0 || is_file(fd, how, why))
		return fd;
	close(fd);
	return -1;
}

void *diw_map_unlocked(size_t size, int flags, int fd)
{
	void *p = mmap(NULL, size, PROT_NONE, flags, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	munlock(p, size);
	if (mprotect(p, size, PROT_READ | PROT_WRITE) == 0)
		return p;
	munmap(p, size);
	return NULL;
}

/* MADV_POPULATE_WRITE exists since Linux 5.14. Before, all pages get memory at the beginning. */
bool diw_can_back_pages(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool can = page != MAP_FAILED && madvise(page, size, MADV_POPULATE_WRITE) == 0;

	if (page != MAP_FAILED)
		munmap(page, size);
	return can;
}

bool diw_back_pages(const void *at, size_t n)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)at & ~(size - 1);

	return madvise((void *)first, (uintptr_t)at + n - first, MADV_POPULATE_WRITE) == 0;
}

/* ---- Segments ---- */

static bool are_fixed;

void diw_segments_fix(void)
{
	are_fixed = true;
}

/* Maps SIZE bytes of the file behind the mapping that ends at AT. mremap() with an old length of 0 maps the pages of a
 * shared mapping a second time, together with the part of the file behind them. */
static char *map_behind(char *at, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mremap(at - page, 0, page + size, MREMAP_MAYMOVE);

	if (p == MAP_FAILED)
		return NULL;
	munmap(p, page);
	return p + page;
}

char *diw_segment(struct diw_segments *s, unsigned k)
{
	char *p = atomic_load_explicit(&s->at[k], memory_order_acquire), *before, *none = NULL;
	size_t size = s->bytes << k;

	if (p || k == 0 || are_fixed)
		return p;
	before = diw_segment(s, k - 1);
	p = before ? map_behind(before + size / 2, size) : NULL;
	if (!p || atomic_compare_exchange_strong(&s->at[k], &none, p))
		return p;
	munmap(p, size);
	return none;
}

void diw_segments_begin(struct diw_segments *s, void *at, size_t bytes)
{
	s->bytes = bytes;
	for (unsigned k = 1; k < DIW_SEGMENTS_MOST; k++)
		atomic_store(&s->at[k], NULL);
	atomic_store(&s->at[0], at);
}

bool diw_segments_have(struct diw_segments *s, const void *p, size_t *at)
{
	for (unsigned k = 0; k < DIW_SEGMENTS_MOST; k++) {
		const char *begin = atomic_load_explicit(&s->at[k], memory_order_acquire);

		*at = (size_t)((uintptr_t)p - (uintptr_t)begin);
		if (begin && *at < s->bytes << k) {
			*at += s->bytes * ((1u << k) - 1);
			return true;
		}
	}
	return false;
}

/* ---- Making and mapping ---- */

/* A file larger than the limit would raise SIGXFSZ. */
static bool may_grow(size_t size)
{
	struct rlimit l;

	return getrlimit(RLIMIT_FSIZE, &l) == 0 && (l.rlim_cur == RLIM_INFINITY || l.rlim_cur >= size);
}

/* A file that cannot be extended holds fewer entries. */
static void registry_extend(const struct diw_regfile *what, int fd)
{
	off_t most = (off_t)what->most;
	struct rlimit l;
	struct stat st;

	if (getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur < what->most)
		most = (off_t)l.rlim_cur;
	if (fstat(fd, &st) == 0 && st.st_size < most && diw_can_back_pages())
		(void)!ftruncate(fd, most);
}

static void *regfile_init(const struct diw_regfile *what, int fd, const char **why)
{
	void *reg;

	if (!may_grow(what->size) || !may_grow(what->backed)) {
		*why = "the limit on the size of files (ulimit -f) is less than the file needs";
		return NULL;
	}
	if (ftruncate(fd, (off_t)what->size) < 0 || fallocate(fd, 0, 0, (off_t)what->backed) < 0 ||
	    !(reg = diw_map_unlocked(what->size, MAP_SHARED, fd))) {
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

/* The file is of no use: its maker was killed before it was complete, or all of its users are gone. */
static bool is_of_no_use(const struct diw_regfile *what, const void *reg)
{
	if (atomic_load_explicit((const _Atomic uint64_t *)reg, memory_order_acquire) == 0)
		return true;
	return what->is_complete(reg) && what->is_over && what->is_over(reg);
}

/* With CREATE, call under the file's lock. */
static void *regfile_take(const struct diw_regfile *what, int fd, bool create, const char **why)
{
	struct stat st = { 0 };
	void *reg = NULL;

	*why = NULL;
	if (fstat(fd, &st) == 0 && st.st_size >= (off_t)what->size && st.st_size <= (off_t)what->most) {
		reg = diw_map_unlocked(what->size, MAP_SHARED, fd);
		if (!reg) {
			*why = strerror(errno);
			return NULL;
		}
		if (!is_of_no_use(what, reg) && what->is_complete(reg))
			return reg;
		if (is_of_no_use(what, reg) && (!create || ftruncate(fd, 0) == 0))
			st.st_size = 0;
		munmap(reg, what->size);
	}
	if (st.st_size == 0)
		return create ? regfile_init(what, fd, why) : NULL;
	*why = "it is damaged: remove it when no program uses it";
	return NULL;
}

static void *open_shared(const struct diw_regfile *what, bool create, char *path, size_t size, const char **why)
{
	int fd = regfile_open_file(what->name, create, create ? LOCK_EX : 0, path, size, why);
	void *reg;

	if (fd < 0)
		return NULL;
	reg = regfile_take(what, fd, create, why);
	if (reg && create)
		registry_extend(what, fd);
	flock(fd, LOCK_UN);                  /* otherwise the mapping would keep the lock */
	close(fd);
	return reg;
}

/* ---- Files that are kept ---- */

static bool is_removed(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

/* Takes a lock of the kind HOW. *AGAIN: the file was removed meanwhile. */
static void *try_kept(const struct diw_regfile *what, int how, char *path, size_t size, const char **why, bool *again)
{
	int fd = regfile_open_file(what->name, true, how, path, size, why);
	void *reg;

	if (fd < 0)
		return NULL;
	reg = regfile_take(what, fd, how == LOCK_EX, why);
	if (reg && how == LOCK_EX)
		file_lock(fd, LOCK_SH);
	*again = is_removed(fd);
	if (reg && *again) {
		munmap(reg, what->size);
		reg = NULL;
	}
	if (reg) {
		fchmod(fd, 0600);            /* the mode is no longer LEFT */
		registry_extend(what, fd);
	}
	close(fd);                           /* the mapping keeps the lock */
	return reg;
}

static void *open_kept(const struct diw_regfile *what, char *path, size_t size, const char **why)
{
	void *reg = NULL;
	bool again = true;

	for (int i = 0; !reg && again && i < INIT_TRIES; i++) {
		again = false;
		reg = try_kept(what, LOCK_SH, path, size, why, &again);
		if (!reg && !again && !*why)
			reg = try_kept(what, LOCK_EX, path, size, why, &again);
	}
	return reg;
}

/* Removes a file that no process maps, when it is found so for the second time after a while: a process that executes
 * another program maps it again soon. The file's mode records the first time. */
static void remove_left(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const char *why = NULL;
	struct timespec now;
	struct stat st;

	if (fd < 0)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	if (is_file(fd, 0, &why) && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0) {
		if (!(st.st_mode & LEFT))
			fchmod(fd, (st.st_mode & 0777) | LEFT);
		else if (now.tv_sec - st.st_ctim.tv_sec >= LEFT_S)
			unlinkat(dir, name, 0);
	}
	close(fd);
}

void diw_regfile_clean(const char *name)
{
	size_t len = (size_t)(strrchr(name, '.') - name) + 1;
	const char *why = NULL;
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d;
	int dir;

	registry_directory(path, sizeof path);
	dir = open_dir(false, path, &why);
	d = dir < 0 ? NULL : fdopendir(dir);
	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, name, len) && strcmp(e->d_name, name) != 0)
			remove_left(dir, e->d_name);
	if (d)
		closedir(d);
	else if (dir >= 0)
		close(dir);
}

void *diw_regfile_open(const struct diw_regfile *what, bool create, char *path, size_t size, const char **why)
{
	if (!create || !what->kept)
		return open_shared(what, create, path, size, why);
	return open_kept(what, path, size, why);
}
