/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Snapshots. An RDMA Read returns the content that its source had when the Read Request came (docs/rc-wire.md section
 * 7.1), although its response may leave much later. Nothing is copied while no message follows the Request. Before the
 * next Write, Send, Immediate or atomic of the stream takes effect, the sources of all waiting Reads are copied.
 *
 * The copies of a connection are a FIFO of blocks, in the order of the responses, from a pool of the device. A source
 * that exceeds the bound of the connection or of the device is read when its response leaves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmap/int.h"

struct diw_rdmap_snap_block {
	struct diw_rdmap_snap_block *next;
	uint8_t data[DIW_RDMAP_SNAP_BLOCK];
};

struct diw_rdmap_snap_pool {
	struct diw_arena arena;
	struct diw_pool blocks;
};

/* ---- The device's pool ---- */

int diw_rdmap_snap_pool_new(struct diw_rdmap_snap_pool **out)
{
	struct diw_rdmap_snap_pool *p = calloc(1, sizeof *p);
	const size_t size = sizeof(struct diw_rdmap_snap_block);

	if (!p || diw_arena_init(&p->arena, diw_pool_bytes(size, DIW_RDMAP_SNAP_DEV)) < 0) {
		free(p);
		return -ENOMEM;
	}
	diw_pool_init(&p->blocks, &p->arena, size, DIW_RDMAP_SNAP_DEV);
	*out = p;
	return 0;
}

void diw_rdmap_snap_pool_free(struct diw_rdmap_snap_pool *p)
{
	if (p)
		diw_arena_fini(&p->arena);
	free(p);
}

/* ---- The FIFO of a connection ---- */

static uint32_t snap_part(uint32_t len, uint32_t off)
{
	return len < DIW_RDMAP_SNAP_BLOCK - off ? len : DIW_RDMAP_SNAP_BLOCK - off;
}

static bool snap_fits(const struct diw_rdmap_snap *s, uint32_t len)
{
	uint32_t room = s->tail ? DIW_RDMAP_SNAP_BLOCK - s->tail_off : 0, more;

	if (len <= room)
		return true;
	more = (len - room - 1) / DIW_RDMAP_SNAP_BLOCK + 1;
	return s->pool && s->nblocks + more <= DIW_RDMAP_SNAP_CONN &&
	       s->pool->blocks.used + more <= s->pool->blocks.cap;
}

static void snap_grow(struct diw_rdmap_snap *s)
{
	struct diw_rdmap_snap_block *b = diw_pool_get(&s->pool->blocks);

	b->next = NULL;
	if (s->tail)
		s->tail->next = b;
	else
		s->head = b;
	s->tail = b;
	s->tail_off = 0;
	s->nblocks++;
}

static void snap_append(struct diw_rdmap_snap *s, const uint8_t *from, uint32_t len)
{
	while (len) {
		uint32_t n;

		if (!s->tail || s->tail_off == DIW_RDMAP_SNAP_BLOCK)
			snap_grow(s);
		n = snap_part(len, s->tail_off);
		memcpy(s->tail->data + s->tail_off, from, n);
		s->tail_off += n;
		from += n;
		len -= n;
	}
}

static void snap_pop(struct diw_rdmap_snap *s)
{
	struct diw_rdmap_snap_block *b = s->head;

	s->head = b->next;
	s->head_off = 0;
	if (!s->head)
		s->tail = NULL;
	s->nblocks--;
	diw_pool_put(&s->pool->blocks, b);
}

int diw_rdmap_snap_iov(const struct diw_rdmap_snap *s, uint32_t len, struct iovec *iov)
{
	struct diw_rdmap_snap_block *b = s->head;
	uint32_t off = s->head_off;
	int n = 0;

	for (; len; b = b->next, off = 0) {
		uint32_t part = snap_part(len, off);

		if (part)
			iov[n++] = (struct iovec){ b->data + off, part };
		len -= part;
	}
	return n;
}

void diw_rdmap_snap_drop(struct diw_rdmap_snap *s, uint32_t len)
{
	while (len) {
		uint32_t n = snap_part(len, s->head_off);

		s->head_off += n;
		len -= n;
		if (s->head_off == DIW_RDMAP_SNAP_BLOCK || (s->head == s->tail && s->head_off == s->tail_off))
			snap_pop(s);
	}
}

void diw_rdmap_snap_clear(struct diw_rdmap *r)
{
	while (r->rc.snap.head)
		snap_pop(&r->rc.snap);
}

/* ---- Reads that wait ---- */

static void snap_read(struct diw_rdmap *r, struct diw_rdmap_rc_answer *a, uint32_t sent)
{
	uint32_t left = a->read.length - sent;
	uint8_t *from;

	if (left == 0)
		return;
	if (!snap_fits(&r->rc.snap, left)) {
		r->c->read_uncopied++;
		return;
	}
	if (diw_rdmap_rc_source(r, a, &from) != 0)      /* the answer will carry the fault */
		return;
	snap_append(&r->rc.snap, from + sent, left);
	a->copied = true;
	a->read.sent = sent;
	r->c->read_copied++;
}

bool diw_rdmap_rc_snap(struct diw_rdmap *r)
{
	struct diw_rdmap_rc *rc = &r->rc;
	bool all = true;

	for (uint16_t i = 0; i < rc->nanswers; i++) {
		struct diw_rdmap_rc_answer *a = &rc->answers[(rc->answers_head + i) % rc->ird];

		if (a->atomic) {
			all &= a->done;
			continue;
		}
		if (i >= rc->nseen)
			snap_read(r, a, i == 0 && rc->answer_tx.active ? rc->answer_tx.off : 0);
		all &= a->copied || a->read.length == 0;
	}
	rc->nseen = rc->nanswers;
	return all;
}
