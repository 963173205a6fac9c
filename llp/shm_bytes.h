/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of octets in memory that two processes share: one process writes, the other one reads. The other process is
 * hostile: it may write anything anywhere in the memory, at any time. Each end has its position in its own memory,
 * reads each shared word once, and checks it. The reader copies octets before anything looks into them.
 */
#ifndef DIW_LLP_SHM_BYTES_H
#define DIW_LLP_SHM_BYTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define DIW_SHM_BYTES (256u << 10)   /* octets of a ring: a power of two */

struct diw_shm_bytes {
	_Alignas(64) _Atomic uint64_t tail;          /* written by the writer: octets written */
	_Alignas(64) _Atomic uint64_t head;          /* written by the reader: octets read */
	_Alignas(64) _Atomic uint32_t asleep;        /* set by the reader, cleared by the writer */
	_Atomic uint32_t full;                       /* set by the writer, cleared by the reader */
	_Alignas(64) uint8_t data[DIW_SHM_BYTES];
};

/* One end of a ring: the positions as far as they are known. */
struct diw_shm_end {
	struct diw_shm_bytes *ring;
	uint64_t tail, head;
};

/* The octets of IOV that the ring has taken, at least 1. -EAGAIN: it has no room. -EPROTO: the reader's position is
 * impossible. */
ssize_t diw_shm_write(struct diw_shm_end *tx, const struct iovec *iov, int n);
/* The octets copied to IOV, at least 1. -EAGAIN: the ring is empty. -EPROTO: the writer's position is impossible. */
ssize_t diw_shm_read(struct diw_shm_end *rx, const struct iovec *iov, int n);
/* There are octets to read, or a fault to find. */
bool diw_shm_readable(const struct diw_shm_end *rx);
/* There is room to write, or a fault to find. */
bool diw_shm_writable(const struct diw_shm_end *tx);
/* After a write: the reader sleeps, and this end is to wake it. */
bool diw_shm_wakes_reader(const struct diw_shm_end *tx);
/* After a read: the writer sleeps until there is room, and this end is to wake it. */
bool diw_shm_wakes_writer(const struct diw_shm_end *rx);

#endif
