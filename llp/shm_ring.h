/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of super-buffers in memory that two processes share: one process writes, the other one reads. A record is one
 * super-buffer: a mark, its length, the size of its datagrams, its octets. Records begin at cache lines. The mark is
 * written last, and is the record's position plus a random number. So the reader finds a record without another cache
 * line, and old octets of the ring look like no record.
 *
 * The other process is hostile: it may write anything anywhere in the memory, at any time. Each end has its position in
 * its own memory, reads each shared word once, and checks it. The reader copies a record before anything looks into it.
 */
#ifndef DIW_LLP_SHM_RING_H
#define DIW_LLP_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "llp/dgram.h"

#define DIW_SHM_LINE 64u
#define DIW_SHM_RING (256u << 10)    /* octets of records: a power of two; four of the largest super-buffers */

struct diw_shm_ring {
	uint64_t key;                /* the random number */
	_Alignas(DIW_SHM_LINE) _Atomic uint64_t head;        /* written by the reader: octets read */
	_Alignas(DIW_SHM_LINE) _Atomic uint32_t asleep;      /* set by the reader, cleared by the writer */
	_Alignas(DIW_SHM_LINE) uint8_t data[DIW_SHM_RING];
};

struct diw_shm_tx {
	struct diw_shm_ring *ring;
	uint64_t key, tail, head;    /* octets written; octets read, as far as known */
};

struct diw_shm_rx {
	struct diw_shm_ring *ring;
	uint64_t key, head;
	uint64_t at;                 /* after a look: the record's position, and the octets of its super-buffer */
	uint32_t len;
};

/* Both ends begin with a ring that one of them has made of a memory of zeros. */
void diw_shm_ring_make(struct diw_shm_ring *ring);
void diw_shm_ring_begin(struct diw_shm_ring *write, struct diw_shm_tx *tx, struct diw_shm_ring *read,
			struct diw_shm_rx *rx);

/* 0: B is in the ring. -EAGAIN: there is no room. -EPROTO: the reader's position is impossible. */
int diw_shm_put(struct diw_shm_tx *tx, const struct diw_dgram_burst *b);
/* After a put: the reader sleeps, and this end is to wake it. */
bool diw_shm_wants_wake(struct diw_shm_tx *tx);
/* Looks for the oldest super-buffer. 1: its length and the size of its datagrams; 0: there is none. -EPROTO: no such
 * record can be. */
int diw_shm_look(struct diw_shm_rx *rx, uint32_t *len, uint32_t *seg);
/* After a look: copies LEN octets of the super-buffer, from FROM on. The writer may change them at any time. */
void diw_shm_copy(const struct diw_shm_rx *rx, uint32_t from, void *to, uint32_t len);
/* After a look: removes the super-buffer. */
void diw_shm_drop(struct diw_shm_rx *rx);
bool diw_shm_has(const struct diw_shm_rx *rx);
/* The reader is about to sleep, or is awake. */
static inline void diw_shm_sleeps(struct diw_shm_rx *rx, bool asleep)
{
	atomic_store(&rx->ring->asleep, asleep);
}

#endif
