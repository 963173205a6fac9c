/* SPDX-License-Identifier: BSD-2-Clause */
/* The window of a user, a System V segment. Unlike a file, it cannot be made shorter while others read it, and the
 * kernel knows its creator. */
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>

#include "base/clock.h"
#include "sockets_preload/shm/sockreg.h"

#define KEYS 8u                          /* keys that may be a user's, since another user may occupy some of them */
#define INIT_TRIES 100                   /* of 1 ms each, while another process makes it */

static key_t key_of(uint32_t uid, uint32_t i)
{
	uint64_t h = (DIW_SOCKREG_MAGIC ^ uid ^ (uint64_t)(DIW_SOCKREG_VERSION * KEYS + i) << 32) * 0x9e3779b97f4a7c15u;
	key_t key = (key_t)(h >> 32);

	return key == IPC_PRIVATE ? 1 : key;
}

static bool is_made_by(int id, uint32_t uid)
{
	struct shmid_ds ds;

	return shmctl(id, IPC_STAT, &ds) == 0 && ds.shm_perm.cuid == uid && ds.shm_segsz == sizeof(struct diw_sockreg);
}

static struct diw_sockreg *window_attach(int id, void *at, int flags)
{
	void *p = shmat(id, at, flags | (at ? SHM_REMAP : 0));

	if (p == (void *)-1)
		return NULL;
	munlock(p, sizeof(struct diw_sockreg));      /* it is locked after mlockall(MCL_FUTURE) */
	return p;
}

static bool is_ready(const struct diw_sockreg *reg)
{
	for (int i = 0; i < INIT_TRIES; i++) {
		if (diw_sockreg_is_complete(reg))
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = (long)DIW_MS }, NULL);
	}
	return false;
}

/* Abandons a segment whose maker was killed before it was complete. The next process makes another. */
static struct diw_sockreg *window_abandon(struct diw_sockreg *reg, int id)
{
	shmdt(reg);
	shmctl(id, IPC_RMID, NULL);
	return NULL;
}

static struct diw_sockreg *window_make(int id)
{
	struct diw_sockreg *reg = window_attach(id, NULL, 0);

	if (!reg || !diw_sockreg_init(reg))
		return reg ? window_abandon(reg, id) : NULL;
	atomic_store_explicit(&reg->magic, DIW_SOCKREG_MAGIC, memory_order_release);
	return reg;
}

static struct diw_sockreg *open_own(uint32_t uid)
{
	for (uint32_t i = 0; i < KEYS; i++) {
		int id = shmget(key_of(uid, i), sizeof(struct diw_sockreg), IPC_CREAT | IPC_EXCL | 0644);
		struct diw_sockreg *reg;

		if (id >= 0)
			return window_make(id);
		id = shmget(key_of(uid, i), 0, 0);
		if (id < 0 || !is_made_by(id, uid) || !(reg = window_attach(id, NULL, 0)))
			continue;
		return is_ready(reg) ? reg : window_abandon(reg, id);
	}
	return NULL;
}

struct diw_sockreg *diw_sockwin_open(uint32_t uid, bool writable, void *at, int *id)
{
	if (writable)
		return open_own(uid);
	for (uint32_t i = 0; i < KEYS; i++) {
		int found = shmget(key_of(uid, i), 0, 0);

		if (found < 0 || !is_made_by(found, uid))
			continue;
		if (found == *id)
			return NULL;
		*id = found;
		return window_attach(found, at, SHM_RDONLY);
	}
	return NULL;
}
