/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of interposed sockets: made, mapped, read. Its entries get memory page by page. */
#include "sockets_preload/shm/sockreg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "sockets_preload/shm/regfile.h"

/* Of the registry opened last. */
static struct diw_segments segments;

struct diw_sock_entry *diw_sockreg_beyond(struct diw_sockreg *reg, unsigned k, uint32_t at)
{
	static struct diw_sock_entry none;
	struct diw_sock_entry *e = NULL;

	if ((char *)reg->entry == atomic_load_explicit(&segments.at[0], memory_order_acquire))
		e = (struct diw_sock_entry *)(void *)diw_segment(&segments, k);
	return e ? e + at : &none;
}

struct diw_sock_entry *diw_sockreg_entry(struct diw_sockreg *reg, uint32_t n)
{
	uint32_t at;
	unsigned k = diw_segment_of(n, DIW_SOCKREG_FIRST, &at);

	return k == 0 ? &reg->entry[at] : diw_sockreg_beyond(reg, k, at);
}

uint32_t diw_sockreg_number_beyond(const struct diw_sockreg *reg, const struct diw_sock_entry *e)
{
	size_t at;

	if ((const char *)reg->entry != atomic_load_explicit(&segments.at[0], memory_order_acquire) ||
	    !diw_segments_have(&segments, e, &at))
		return DIW_SOCKREG_ENTRIES;
	return (uint32_t)(at / sizeof *e);
}

bool diw_sockreg_back(struct diw_sockreg *reg, const struct diw_sock_entry *e)
{
	uint32_t page = diw_sockreg_number(reg, e) / DIW_SOCKREG_PER_PAGE;

	if (diw_sockreg_is_backed(reg, e))
		return true;
	if (page >= DIW_SOCKREG_PAGES || !diw_back_pages(e, 1))
		return false;
	atomic_fetch_or_explicit(&reg->backed[page / 64], 1ull << page % 64, memory_order_release);
	return true;
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
	if (!diw_can_back_pages())
		for (uint32_t i = 0; i < DIW_SOCKREG_FIRST / DIW_SOCKREG_PER_PAGE / 64; i++)
			atomic_store(&reg->backed[i], UINT64_MAX);
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

static bool sockreg_init(void *p, const char **why)
{
	struct diw_sockreg *reg = p;

	if (!diw_sockreg_init(reg)) {
		*why = "no robust mutexes here";
		return false;
	}
	reg->secret[0] = diw_random();
	reg->secret[1] = diw_random();
	atomic_store_explicit(&reg->magic, DIW_SOCKREG_MAGIC, memory_order_release);
	return true;
}

static bool sockreg_is_complete(const void *reg)
{
	return diw_sockreg_is_complete(reg);
}

struct diw_sockreg *diw_sockreg_open(bool create, char *path, size_t size, const char **why)
{
	char name[32];
	const size_t backed = diw_can_back_pages() ? offsetof(struct diw_sockreg, entry) : sizeof(struct diw_sockreg);
	const size_t all = offsetof(struct diw_sockreg, entry) + DIW_SOCKREG_ENTRIES * sizeof(struct diw_sock_entry);
	const struct diw_regfile what = { .name = name, .size = sizeof(struct diw_sockreg), .most = all,
					  .backed = backed, .init = sockreg_init, .is_complete = sockreg_is_complete };
	struct diw_sockreg *reg;

	snprintf(name, sizeof name, DIW_SOCKREG_FILE "-%u", DIW_SOCKREG_VERSION);
	reg = diw_regfile_open(&what, create, path, size, why);
	if (reg)
		diw_segments_begin(&segments, reg->entry, sizeof reg->entry);
	return reg;
}

bool diw_sock_read(const struct diw_sockreg *reg, const struct diw_sock_entry *e, struct diw_sock_entry *copy)
{
	uint64_t seq = diw_sock_seq(reg, e);

	if (seq % 4 != DIW_SOCK_SHOWN)
		return false;
	memcpy((char *)copy + sizeof seq, (const char *)e + sizeof seq, sizeof *e - sizeof seq);
	atomic_thread_fence(memory_order_acquire);
	copy->seq = seq;
	return atomic_load_explicit(&e->seq, memory_order_relaxed) == seq &&
	       diw_sock_lives(reg, copy->owner, copy->owner_epoch);
}
