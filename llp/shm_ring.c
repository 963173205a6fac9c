/* SPDX-License-Identifier: BSD-2-Clause */
/* A ring of super-buffers in shared memory: see llp/shm_ring.h. */
#include "llp/shm_ring.h"

#include <errno.h>
#include <string.h>

#define SKIP UINT32_MAX              /* a length that means: the next record is at the begin of the ring */

struct record {
	_Atomic uint32_t len;
	uint32_t seg;
};

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "processes share no lock");
_Static_assert((DIW_SHM_RING & (DIW_SHM_RING - 1)) == 0, "positions are modulo 2^32");

static struct record *record_at(struct diw_shm_ring *ring, uint32_t pos)
{
	return (void *)(ring->data + pos % DIW_SHM_RING);
}

static uint32_t record_octets(uint32_t len)
{
	return (uint32_t)(sizeof(struct record) + len + DIW_SHM_LINE - 1) & ~(DIW_SHM_LINE - 1);
}

/* Octets from POS to the begin of a record of SIZE octets, which is in one piece. */
static uint32_t record_skip(uint32_t pos, uint32_t size)
{
	uint32_t left = DIW_SHM_RING - pos % DIW_SHM_RING;

	return size > left ? left : 0;
}

/* ---- Writer ---- */

/* 0: there is room for NEED octets. */
static int shm_ring_room(struct diw_shm_tx *tx, uint32_t need)
{
	uint32_t used = tx->tail - tx->head, head;

	if (need <= DIW_SHM_RING - used)
		return 0;
	head = atomic_load_explicit(&tx->ring->head, memory_order_acquire);
	if (head - tx->head > used)
		return -EPROTO;
	tx->head = head;
	return need <= DIW_SHM_RING - (tx->tail - head) ? 0 : -EAGAIN;
}

int diw_shm_put(struct diw_shm_tx *tx, const struct diw_dgram_burst *b)
{
	uint32_t size = record_octets(b->len), skip = record_skip(tx->tail, size), at = tx->tail + skip;
	struct record *r = record_at(tx->ring, at);
	uint8_t *to = (uint8_t *)(r + 1);
	int rc = shm_ring_room(tx, skip + size + DIW_SHM_LINE);     /* and the length behind this record, which is 0 */

	if (rc)
		return rc;
	if (skip)
		atomic_store_explicit(&r->len, 0, memory_order_relaxed);
	for (int i = 0; i < b->niov; i++) {
		if (b->iov[i].iov_len)
			memcpy(to, b->iov[i].iov_base, b->iov[i].iov_len);
		to += b->iov[i].iov_len;
	}
	r->seg = b->seg;
	atomic_store_explicit(&record_at(tx->ring, at + size)->len, 0, memory_order_relaxed);
	atomic_store(&r->len, b->len);
	if (skip)
		atomic_store(&record_at(tx->ring, tx->tail)->len, SKIP);
	tx->tail = at + size;
	return 0;
}

bool diw_shm_wants_wake(struct diw_shm_tx *tx)
{
	return atomic_load(&tx->ring->asleep) && atomic_exchange(&tx->ring->asleep, 0);
}

/* ---- Reader ---- */

bool diw_shm_has(const struct diw_shm_rx *rx)
{
	return atomic_load(&record_at(rx->ring, rx->head)->len) != 0;
}

int diw_shm_get(struct diw_shm_rx *rx, uint8_t *buf, uint32_t *len, uint32_t *seg)
{
	uint32_t at = rx->head;
	struct record *r = record_at(rx->ring, at);
	uint32_t n = atomic_load_explicit(&r->len, memory_order_acquire), each;

	if (!n)
		return 0;
	if (n == SKIP) {
		at += DIW_SHM_RING - at % DIW_SHM_RING;
		r = record_at(rx->ring, at);
		n = atomic_load_explicit(&r->len, memory_order_acquire);
	}
	each = *(volatile uint32_t *)&r->seg;
	if (!n || n > DIW_DGRAM_MAX || record_skip(at, record_octets(n)) || !each || each > n ||
	    (n - 1) / each >= DIW_DGRAM_MAX_SEGS)
		return -EPROTO;
	memcpy(buf, r + 1, n);
	*len = n;
	*seg = each;
	rx->head = at + record_octets(n);
	atomic_store_explicit(&rx->ring->head, rx->head, memory_order_release);
	return 1;
}
