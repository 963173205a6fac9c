/* SPDX-License-Identifier: BSD-2-Clause */
/* A ring of super-buffers in shared memory: see llp/shm_ring.h. */
#include "llp/shm_ring.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"

#define SKIP UINT32_MAX              /* a length that means: the next record is at the begin of the ring */

struct record {
	_Atomic uint64_t mark;
	uint32_t len, seg;
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share no lock");

static struct record *record_at(struct diw_shm_ring *ring, uint64_t pos)
{
	return (void *)(ring->data + pos % DIW_SHM_RING);
}

static uint32_t record_octets(uint32_t len)
{
	return (uint32_t)(sizeof(struct record) + len + DIW_SHM_LINE - 1) & ~(DIW_SHM_LINE - 1);
}

/* Octets from POS to the begin of a record of SIZE octets, which is in one piece. */
static uint32_t record_skip(uint64_t pos, uint32_t size)
{
	uint32_t left = DIW_SHM_RING - (uint32_t)(pos % DIW_SHM_RING);

	return size > left ? left : 0;
}

void diw_shm_ring_make(struct diw_shm_ring *ring)
{
	ring->key = diw_random() | 1;           /* 0 is no mark */
	ring->asleep = 1;                       /* until its reader says something else */
}

void diw_shm_ring_begin(struct diw_shm_ring *write, struct diw_shm_tx *tx, struct diw_shm_ring *read,
			struct diw_shm_rx *rx)
{
	*tx = (struct diw_shm_tx){ .ring = write, .key = write->key };
	*rx = (struct diw_shm_rx){ .ring = read, .key = read->key };
}

/* ---- Writer ---- */

/* 0: there is room for NEED octets. */
static int shm_ring_room(struct diw_shm_tx *tx, uint32_t need)
{
	uint64_t used = tx->tail - tx->head, head;

	if (used + need <= DIW_SHM_RING)
		return 0;
	head = atomic_load_explicit(&tx->ring->head, memory_order_acquire);
	if (head - tx->head > used)
		return -EPROTO;
	tx->head = head;
	return tx->tail - head + need <= DIW_SHM_RING ? 0 : -EAGAIN;
}

int diw_shm_put(struct diw_shm_tx *tx, const struct diw_dgram_burst *b)
{
	uint32_t size = record_octets(b->len), skip = record_skip(tx->tail, size);
	uint64_t at = tx->tail + skip;
	struct record *r = record_at(tx->ring, at), *before = record_at(tx->ring, tx->tail);
	uint8_t *to = (uint8_t *)(r + 1);
	int rc = shm_ring_room(tx, skip + size);

	if (rc)
		return rc;
	for (int i = 0; i < b->niov; i++) {
		if (b->iov[i].iov_len)
			memcpy(to, b->iov[i].iov_base, b->iov[i].iov_len);
		to += b->iov[i].iov_len;
	}
	r->len = b->len;
	r->seg = b->seg;
	atomic_store(&r->mark, tx->key + at);
	if (skip) {
		before->len = SKIP;
		atomic_store(&before->mark, tx->key + tx->tail);
	}
	tx->tail = at + size;
	return 0;
}

bool diw_shm_wants_wake(struct diw_shm_tx *tx)
{
	return atomic_load(&tx->ring->asleep) && atomic_exchange(&tx->ring->asleep, 0);
}

/* ---- Reader ---- */

static bool record_is(const struct record *r, const struct diw_shm_rx *rx, uint64_t pos)
{
	return atomic_load_explicit(&r->mark, memory_order_acquire) == rx->key + pos;
}

/* The compiler must not read the word again: it may be another one then. */
static uint32_t word_read_once(const uint32_t *shared)
{
	return *(const volatile uint32_t *)shared;
}

bool diw_shm_has(const struct diw_shm_rx *rx)
{
	return atomic_load(&record_at(rx->ring, rx->head)->mark) == rx->key + rx->head;
}

int diw_shm_look(struct diw_shm_rx *rx, uint32_t *len, uint32_t *seg)
{
	uint64_t at = rx->head;
	const struct record *r = record_at(rx->ring, at);
	uint32_t n, each;

	if (!record_is(r, rx, at))
		return 0;
	n = word_read_once(&r->len);
	if (n == SKIP) {
		at += DIW_SHM_RING - at % DIW_SHM_RING;
		r = record_at(rx->ring, at);
		n = record_is(r, rx, at) ? word_read_once(&r->len) : 0;
	}
	each = word_read_once(&r->seg);
	if (!n || n > DIW_DGRAM_MAX || record_skip(at, record_octets(n)) || !each || each > n ||
	    (n - 1) / each >= DIW_DGRAM_MAX_SEGS)
		return -EPROTO;
	rx->at = at;
	rx->len = *len = n;
	*seg = each;
	return 1;
}

void diw_shm_copy(const struct diw_shm_rx *rx, uint32_t from, void *to, uint32_t len)
{
	memcpy(to, (const uint8_t *)(record_at(rx->ring, rx->at) + 1) + from, len);
}

void diw_shm_drop(struct diw_shm_rx *rx)
{
	rx->head = rx->at + record_octets(rx->len);
	atomic_store_explicit(&rx->ring->head, rx->head, memory_order_release);
}
