/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/streamreg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sockreg.h"

/* Cookies begin anew with each boot, and a registry may lie on a disk. */
static uint64_t boot(void)
{
	uint64_t h = 0xcbf29ce484222325u;
	char id[64];
	ssize_t n = 0;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		n = pread(fd, id, sizeof id, 0);
		close(fd);
	}
	for (ssize_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)id[i]) * 0x100000001b3u;
	return h;
}

static bool is_complete(const struct diw_streamreg *reg)
{
	return atomic_load_explicit(&reg->magic, memory_order_acquire) == DIW_STREAMREG_MAGIC &&
	       reg->version == DIW_STREAMREG_VERSION && reg->slots == DIW_STREAMREG_SLOTS && reg->size == sizeof *reg;
}

static struct diw_streamreg *map(int fd)
{
	void *p = mmap(NULL, sizeof(struct diw_streamreg), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static struct diw_streamreg *init(int fd, const char **why)
{
	struct diw_streamreg *reg;

	if (fallocate(fd, 0, 0, sizeof *reg) < 0 || !(reg = map(fd))) {
		*why = strerror(errno);
		if (ftruncate(fd, 0) < 0)
			*why = "it can be neither made nor removed";
		return NULL;
	}
	reg->version = DIW_STREAMREG_VERSION;
	reg->slots = DIW_STREAMREG_SLOTS;
	reg->size = sizeof *reg;
	reg->boot = boot();
	atomic_store_explicit(&reg->magic, DIW_STREAMREG_MAGIC, memory_order_release);
	return reg;
}

/* Under the file's lock. Nobody who lives uses one of another boot. */
static struct diw_streamreg *take(int fd, bool create, const char **why)
{
	struct diw_streamreg *reg = NULL;
	struct stat st;

	*why = NULL;
	if (fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof *reg && (reg = map(fd)) && is_complete(reg)) {
		if (reg->boot == boot())
			return reg;
		if (create && ftruncate(fd, 0) == 0)
			st.st_size = 0;
	}
	if (reg)
		munmap(reg, sizeof *reg);
	if (st.st_size == 0)
		return create ? init(fd, why) : NULL;
	*why = "it is damaged, or of another version; removing it helps once no program uses it";
	return NULL;
}

/* Threads are named by numbers that mean something only in their PID namespace: it has a file of its own. */
static void file_name(char *name, size_t size)
{
	struct stat st = { 0 };

	if (stat("/proc/self/ns/pid", &st) < 0)
		st.st_ino = 0;
	snprintf(name, size, DIW_STREAMREG_FILE ".%llu", (unsigned long long)st.st_ino);
}

struct diw_streamreg *diw_streamreg_open(bool create, char *path, size_t size, const char **why)
{
	struct diw_streamreg *reg = NULL;
	char name[48];
	int fd;

	file_name(name, sizeof name);
	fd = diw_sockreg_file(name, create, path, size, why);
	if (fd < 0)
		return NULL;
	reg = take(fd, create, why);
	flock(fd, LOCK_UN);                  /* the mapping would keep it */
	close(fd);
	return reg;
}
