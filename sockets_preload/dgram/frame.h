/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames: a message in a datagram of the datagram profile, docs/ud-profile.md section 17. */
#ifndef DIW_SOCKETS_FRAME_H
#define DIW_SOCKETS_FRAME_H

#include "sockets_preload/preload.h"
#include "wire/hdr.h"
#include "wire/seal.h"

#pragma GCC visibility push(hidden)

#define DIW_FRAME_SEND (DIW_DDP_UNTAGGED_LEN + DIW_DDP_IMM_LEN)
#define DIW_FRAME_WRITE (DIW_DDP_TAGGED_LEN + DIW_DDP_IMM_LEN)
#define DIW_FRAME_EXTRA (DIW_FRAME_WRITE + DIW_SEAL_LEN)    /* the most */
#define DIW_FRAME_MAX 65507u

/* The part of Sends' headers that is the same for all Sends of this process. */
extern uint8_t diw_frame_common[DIW_FRAME_SEND];

void diw_frame_init(void);

/* ---- Making a frame ---- */

static inline size_t diw_frame_head_len(const struct diw_route *r)
{
	return r->stag ? DIW_FRAME_WRITE : DIW_FRAME_SEND;
}

void diw_frame_head_write(uint8_t *p, const struct diw_route *r, uint32_t payload, uint32_t msn);

static inline void diw_frame_head(uint8_t *p, const struct diw_route *r, size_t payload)
{
	uint32_t msn = (uint32_t)diw_count(DIW_C_sock_tx_framed);
	uint64_t stamp = r->stamp ? r->stamp : msn;

	if (!DIW_LIKELY(!r->stag)) {
		diw_frame_head_write(p, r, (uint32_t)payload, msn);
		return;
	}
	memcpy(p, diw_frame_common, sizeof diw_frame_common);
	diw_put32(p + DIW_U_MSN, (uint32_t)stamp);
	diw_put16(p + DIW_U_EPOCH, (uint16_t)(stamp >> 32));
	diw_put32(p + DIW_U_QKEY, (uint32_t)(r->key >> 32));
	diw_put32(p + DIW_U_LENGTH, (uint32_t)payload);
	diw_put32(p + DIW_DDP_UNTAGGED_LEN, (uint32_t)r->key);
}

/* Marks a frame that may come back to S through the error queue (errqueue.c). */
void diw_frame_mark(uint8_t *p, const struct diw_route *r, const struct diw_sock *s);

static inline void diw_frame_begin(uint8_t *p, const struct diw_route *r, size_t payload, const struct diw_sock *s,
				   bool marked)
{
	diw_frame_head(p, r, payload);
	if (!DIW_LIKELY(!marked))
		diw_frame_mark(p, r, s);
}

/* Writes the end of the frame at P, whose message ends at END. Returns the frame's length. */
static inline size_t diw_frame_end(const uint8_t *p, uint8_t *end, const struct diw_route *r)
{
	diw_seal_put(end, r->crc ? diw_crc32(0, p, (size_t)(end - p)) : 0);
	return (size_t)(end - p) + DIW_SEAL_LEN;
}

/* Returns the length of the header at P, of N bytes, if diw_frame_mark() has marked it for S; else 0. *LEN: length of
 * the message, of which less may be there. */
size_t diw_frame_own(const struct diw_sock *s, const uint8_t *p, size_t n, size_t *len);

/* ---- Recognising a frame ---- */

enum diw_frame { DIW_FRAME_NONE, DIW_FRAME_GOOD, DIW_FRAME_BAD };

/* The header describes one message of one segment, a Send with Invalidate STag 0 and QN 0. */
static inline bool diw_frame_is_send(const uint8_t *p, size_t n)
{
	return n >= DIW_FRAME_SEND + DIW_SEAL_LEN && memcmp(p, diw_frame_common, DIW_DDP_CONTROL) == 0 &&
	       diw_get64(p + DIW_U_INV_STAG) == 0 && diw_get32(p + DIW_U_MO) == 0 &&
	       diw_get32(p + DIW_U_LENGTH) == n - DIW_FRAME_SEND - DIW_SEAL_LEN;
}

static inline uint64_t diw_frame_key(const uint8_t *p)
{
	return (uint64_t)diw_get32(p + DIW_U_QKEY) << 32 | diw_get32(p + DIW_DDP_UNTAGGED_LEN);
}

/* Echoes, which tell a frame's sender that it has arrived (route.h). */
extern _Atomic uint64_t *diw_frame_echoes;
static inline void diw_frame_echo(const uint8_t *p)
{
	uint64_t stamp = (uint64_t)diw_get16(p + DIW_U_EPOCH) << 32 | diw_get32(p + DIW_U_MSN);

	atomic_store_explicit(&diw_frame_echoes[stamp >> (48 - DIW_SOCKREG_ECHO_BITS)], stamp, memory_order_relaxed);
}

/* The check for all cases but the usual one. */
DIW_COLD enum diw_frame diw_frame_check_any(const struct diw_keys *k, const uint8_t *p, size_t n, size_t *head);

/* Classifies a datagram of N bytes at P for a socket with these keys, and counts it. *HEAD: the header's length of a
 * good frame; 0: no frame. */
static inline enum diw_frame diw_frame_check(const struct diw_keys *k, const uint8_t *p, size_t n, size_t *head)
{
	if (DIW_LIKELY(diw_frame_is_send(p, n) &&
		       (diw_frame_key(p) == k->key[1] ||
			(diw_frame_key(p) == k->key[0] && diw_seal_is_good(p, n))))) {
		diw_frame_echo(p);
		*head = DIW_FRAME_SEND;
		return DIW_FRAME_GOOD;
	}
	return diw_frame_check_any(k, p, n, head);
}

#pragma GCC visibility pop

#endif
