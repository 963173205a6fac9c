/* SPDX-License-Identifier: BSD-2-Clause */
/* A ring of octets in shared memory: see llp/shm_bytes.h. */
#include "llp/shm_bytes.h"

#include <errno.h>
#include <string.h>

#define SHARE 16384u                 /* octets after which the other end may go on */

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share no lock");

static uint64_t bytes_room(const struct diw_shm_end *tx)
{
	return DIW_SHM_BYTES - (tx->tail - tx->head);
}

/* The octets behind position POS that are in one piece, at most MOST. */
static size_t bytes_piece(uint64_t pos, size_t most)
{
	size_t left = DIW_SHM_BYTES - pos % DIW_SHM_BYTES;

	return left < most ? left : most;
}

static size_t bytes_min(size_t a, uint64_t b)
{
	return b < a ? (size_t)b : a;
}

/* ---- Writer ---- */

/* Learns what the reader has read. False: it cannot have read that. */
static bool learn_head(struct diw_shm_end *tx)
{
	uint64_t head = atomic_load_explicit(&tx->ring->head, memory_order_acquire);

	if (tx->tail - head > tx->tail - tx->head)
		return false;
	tx->head = head;
	return true;
}

ssize_t diw_shm_write(struct diw_shm_end *tx, const struct iovec *iov, int n)
{
	size_t done = 0;

	for (int i = 0; i < n; i++) {
		const uint8_t *from = iov[i].iov_base;

		for (size_t at = 0, len; at < iov[i].iov_len; at += len, done += len, tx->tail += len) {
			if (bytes_room(tx) < SHARE && !learn_head(tx))
				return -EPROTO;
			len = bytes_piece(tx->tail, bytes_min(bytes_min(iov[i].iov_len - at, SHARE), bytes_room(tx)));
			if (len == 0)
				goto out;
			memcpy(tx->ring->data + tx->tail % DIW_SHM_BYTES, from + at, len);
			if (len == SHARE)
				atomic_store_explicit(&tx->ring->tail, tx->tail + len, memory_order_release);
		}
	}
out:
	atomic_store(&tx->ring->tail, tx->tail);
	return done ? (ssize_t)done : -EAGAIN;
}

bool diw_shm_writable(const struct diw_shm_end *tx)
{
	return atomic_load(&tx->ring->head) != tx->tail - DIW_SHM_BYTES;
}

bool diw_shm_wakes_reader(const struct diw_shm_end *tx)
{
	return atomic_load(&tx->ring->asleep) && atomic_exchange(&tx->ring->asleep, 0);
}

/* ---- Reader ---- */

/* Learns what the writer has written. False: there is no room for that. */
static bool learn_tail(struct diw_shm_end *rx)
{
	uint64_t tail = atomic_load_explicit(&rx->ring->tail, memory_order_acquire);

	if (tail - rx->head > DIW_SHM_BYTES || tail - rx->head < rx->tail - rx->head)
		return false;
	rx->tail = tail;
	return true;
}

ssize_t diw_shm_read(struct diw_shm_end *rx, const struct iovec *iov, int n)
{
	size_t done = 0;

	if (rx->tail == rx->head && !learn_tail(rx))
		return -EPROTO;
	if (rx->tail == rx->head)
		return -EAGAIN;
	for (int i = 0; i < n; i++) {
		uint8_t *to = iov[i].iov_base;

		for (size_t at = 0, len; at < iov[i].iov_len; at += len, done += len) {
			if (rx->tail == rx->head && !learn_tail(rx))
				return -EPROTO;
			len = bytes_piece(rx->head, bytes_min(bytes_min(iov[i].iov_len - at, SHARE),
							      rx->tail - rx->head));
			if (len == 0)
				goto out;
			memcpy(to + at, rx->ring->data + rx->head % DIW_SHM_BYTES, len);
			rx->head += len;
			if (len == SHARE)
				atomic_store_explicit(&rx->ring->head, rx->head, memory_order_release);
		}
	}
out:
	atomic_store(&rx->ring->head, rx->head);
	return (ssize_t)done;
}

bool diw_shm_readable(const struct diw_shm_end *rx)
{
	return atomic_load(&rx->ring->tail) != rx->head;
}

/* A writer that waits for room gets half a ring at once. */
bool diw_shm_wakes_writer(const struct diw_shm_end *rx)
{
	if (!atomic_load(&rx->ring->full) || atomic_load(&rx->ring->tail) - rx->head > DIW_SHM_BYTES / 2)
		return false;
	return atomic_exchange(&rx->ring->full, 0);
}
