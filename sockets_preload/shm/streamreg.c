/* SPDX-License-Identifier: BSD-2-Clause */
/* The file of stream slots: maps its segments, and finds the slot of a socket by its cookie. */
#include "sockets_preload/shm/streamreg.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sockets_preload/shm/regfile.h"

/* Slots that have memory from the start, if memory cannot be allocated on demand. */
#define FROM_THE_START DIW_SEGMENTS_ALL(DIW_STREAMREG_FIRST, 5)

/* The id of this boot: cookies start again with each boot, and a registry may be on a disk. */
static uint64_t this_boot(void)
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

static bool streamreg_is_complete(const void *p)
{
	const struct diw_streamreg *reg = p;

	return atomic_load_explicit(&reg->magic, memory_order_acquire) == DIW_STREAMREG_MAGIC &&
	       reg->version == DIW_STREAMREG_VERSION && reg->slots == DIW_STREAMREG_SLOTS && reg->size == sizeof *reg;
}

static struct diw_segments segments;

struct diw_sock_stream *diw_streamreg_slot(uint32_t n)
{
	uint32_t at;
	unsigned k = diw_segment_of(n, DIW_STREAMREG_FIRST, &at);
	struct diw_sock_stream *first = (struct diw_sock_stream *)(void *)diw_segment(&segments, k);

	return first ? first + at : NULL;
}

/* The search continues in the next segment: an initiator's slot may be there although acceptors had room in this
 * one. */
struct diw_sock_stream *diw_streamreg_find(const struct diw_streamreg *reg, uint64_t cookie)
{
	for (unsigned k = 0; k < DIW_STREAMREG_SEGMENTS; k++)
		for (uint32_t i = 0; i < DIW_STREAMREG_WINDOW; i++) {
			struct diw_sock_stream *st;
			uint64_t is = diw_streamreg_used(reg, diw_streamreg_at(cookie, k, i), &st);

			if (is == cookie)
				return st;
			if (is == 0 && i < DIW_STREAMREG_INITIATOR)
				return NULL;
			if (is == 0)
				break;
		}
	return NULL;
}

void diw_streamreg_map_used(const struct diw_streamreg *reg)
{
	struct diw_sock_stream *st;

	for (uint32_t n = 0; n < DIW_STREAMREG_SLOTS; n += DIW_STREAMREG_GROUP)
		diw_streamreg_used(reg, n, &st);
}

struct diw_sock_stream *diw_streamreg_back(struct diw_streamreg *reg, uint32_t n)
{
	uint32_t group = n / DIW_STREAMREG_GROUP;
	struct diw_sock_stream *st = diw_streamreg_slot(n), *first;

	if (!st || diw_streamreg_is_backed(reg, n))
		return st;
	first = st - n % DIW_STREAMREG_GROUP;
	if (!diw_back_pages(first, sizeof *first * DIW_STREAMREG_GROUP))
		return NULL;
	atomic_fetch_or_explicit(&reg->backed[group / 64], 1ull << group % 64, memory_order_release);
	return st;
}

bool diw_streamreg_back_part(struct diw_streamreg *reg, uint32_t part)
{
	if (atomic_load_explicit(&reg->backed_part[part / 64], memory_order_acquire) >> part % 64 & 1)
		return true;
	if (!diw_back_pages(&reg->part[part], sizeof reg->part[part]))
		return false;
	atomic_fetch_or_explicit(&reg->backed_part[part / 64], 1ull << part % 64, memory_order_release);
	return true;
}

static bool streamreg_init(void *p, const char **why)
{
	struct diw_streamreg *reg = p;

	(void)why;
	if (!diw_can_back_pages()) {
		for (uint32_t n = 0; n < FROM_THE_START / DIW_STREAMREG_GROUP; n++)
			atomic_fetch_or(&reg->backed[n / 64], 1ull << n % 64);
		memset((void *)reg->backed_part, 0xff, sizeof reg->backed_part);
	}
	reg->version = DIW_STREAMREG_VERSION;
	reg->slots = DIW_STREAMREG_SLOTS;
	reg->size = sizeof *reg;
	reg->boot = this_boot();
	atomic_store_explicit(&reg->magic, DIW_STREAMREG_MAGIC, memory_order_release);
	return true;
}

static bool streamreg_is_over(const void *p)
{
	const struct diw_streamreg *reg = p;

	return reg->boot != this_boot();
}

/* Thread ids are valid in their PID namespace only, so each namespace has its own file. */
struct diw_streamreg *diw_streamreg_open(bool create, char *path, size_t size, const char **why)
{
	char name[48];
	const size_t first = sizeof(struct diw_streamreg);
	const size_t all = offsetof(struct diw_streamreg, slot) + DIW_STREAMREG_SLOTS * sizeof(struct diw_sock_stream);
	const size_t backed = diw_can_back_pages() ? offsetof(struct diw_streamreg, part) :
			      offsetof(struct diw_streamreg, slot) + FROM_THE_START * sizeof(struct diw_sock_stream);
	const struct diw_regfile what = { .name = name, .size = first, .most = all, .backed = backed,
					  .init = streamreg_init, .is_complete = streamreg_is_complete,
					  .is_over = streamreg_is_over, .kept = true };
	struct diw_streamreg *reg;
	struct stat st = { 0 };

	if (stat("/proc/self/ns/pid", &st) < 0)
		st.st_ino = 0;
	snprintf(name, sizeof name, DIW_STREAMREG_FILE "-%u.%llu", DIW_STREAMREG_VERSION,
		 (unsigned long long)st.st_ino);
	if (create)
		diw_regfile_clean(name);
	reg = diw_regfile_open(&what, create, path, size, why);
	if (reg)
		diw_segments_begin(&segments, reg->slot, sizeof reg->slot);
	return reg;
}
