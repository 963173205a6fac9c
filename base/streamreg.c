/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/streamreg.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regfile.h"

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

static bool is_complete(const void *p)
{
	const struct diw_streamreg *reg = p;

	return atomic_load_explicit(&reg->magic, memory_order_acquire) == DIW_STREAMREG_MAGIC &&
	       reg->version == DIW_STREAMREG_VERSION && reg->slots == DIW_STREAMREG_SLOTS && reg->size == sizeof *reg;
}

static bool init(void *p, const char **why)
{
	struct diw_streamreg *reg = p;

	(void)why;
	reg->version = DIW_STREAMREG_VERSION;
	reg->slots = DIW_STREAMREG_SLOTS;
	reg->size = sizeof *reg;
	reg->boot = boot();
	atomic_store_explicit(&reg->magic, DIW_STREAMREG_MAGIC, memory_order_release);
	return true;
}

static bool is_over(const void *p)
{
	const struct diw_streamreg *reg = p;

	return reg->boot != boot();
}

/* Threads are named by numbers that mean something only in their PID namespace: it has a file of its own. */
struct diw_streamreg *diw_streamreg_open(bool create, char *path, size_t size, const char **why)
{
	char name[48];
	const struct diw_regfile what = { .name = name, .size = sizeof(struct diw_streamreg), .init = init,
					  .is_complete = is_complete, .is_over = is_over };
	struct stat st = { 0 };

	if (stat("/proc/self/ns/pid", &st) < 0)
		st.st_ino = 0;
	snprintf(name, sizeof name, DIW_STREAMREG_FILE "-%u.%llu", DIW_STREAMREG_VERSION,
		 (unsigned long long)st.st_ino);
	return diw_regfile_open(&what, create, path, size, why);
}
