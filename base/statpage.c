/* SPDX-License-Identifier: BSD-2-Clause */
/* The reader of counter pages: checks a page that another process wrote, and copies its slots. */
#include "base/statpage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* Limits above those of any build. They bound what a reader allocates for a hostile page. */
#define MAX_VALUES 1024u
#define MAX_SLOTS 65536u
#define MAX_PEERS 64u
#define PEERS_TRIES 4                    /* attempts to copy the rows while no writer changes them */
#define ROWS_OFF offsetof(struct diw_stat_peers, row)

static uint64_t page_load(const void *page, size_t off)
{
	return atomic_load_explicit((const _Atomic uint64_t *)((const char *)page + off), memory_order_acquire);
}

/* Copies word by word, so a counter that changes meanwhile has its old or its new value. A value that is read after
 * this call, such as seq, is not older than the copy. */
static void copy_words(void *to, const void *page, size_t off, size_t bytes)
{
	char *p = to;

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t w = page_load(page, off + i);

		memcpy(p + i, &w, 8);
	}
}

static bool peers_fit(const struct diw_stat_head *h)
{
	uint64_t rows = (uint64_t)h->peers * sizeof(struct diw_stat_peer);

	return !h->peers || (h->peers_off % 8 == 0 && h->peers_off >= sizeof(struct diw_stat_id) &&
			     h->slot_size >= h->peers_off + ROWS_OFF + rows);
}

static const char *head_fault(const struct diw_stat_head *h, size_t size)
{
	uint64_t names_end = sizeof *h + (uint64_t)h->nvalues * DIW_STAT_NAME;

	if (h->magic != DIW_STAT_MAGIC)
		return h->magic ? "not a page of counters" : "not finished";
	if (h->version != DIW_STAT_VERSION)
		return "a layout of another version of diwarp";
	if (h->nvalues == 0 || h->nvalues > MAX_VALUES || h->ncounters > h->nvalues)
		return "damaged: number of counters";
	if (h->slots == 0 || h->slots > MAX_SLOTS || h->used > h->slots)
		return "damaged: number of slots";
	if (h->peers > MAX_PEERS)
		return "damaged: number of peers";
	if (h->slots_off % 8 || h->slot_size % 8 || h->values_off % 8 || h->slots_off < names_end ||
	    h->values_off < sizeof(struct diw_stat_id) ||
	    h->slot_size < (uint64_t)h->values_off + (uint64_t)h->nvalues * 8 || !peers_fit(h))
		return "damaged: places";
	if (h->slots_off + (uint64_t)h->used * h->slot_size > size)
		return "truncated";
	return NULL;
}

static bool name_is_clean(const char *s)
{
	size_t n = strnlen(s, DIW_STAT_NAME);

	return n > 0 && n < DIW_STAT_NAME && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == n &&
	       (*s < '0' || *s > '9');
}

/* Names are unique, also with the ending that Prometheus gives counters. */
static bool names_are_clean(const char (*names)[DIW_STAT_NAME], uint32_t n)
{
	static const char total[] = "_total";

	for (uint32_t i = 0; i < n; i++) {
		size_t len = strnlen(names[i], DIW_STAT_NAME);

		if (!name_is_clean(names[i]))
			return false;
		if (len >= sizeof total - 1 && strcmp(names[i] + len - (sizeof total - 1), total) == 0)
			return false;
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(names[i], names[k]) == 0)
				return false;
	}
	return true;
}

/* The text ends within its field. Characters that control a terminal are replaced. */
static void clean_text(char *s, size_t size)
{
	s[size - 1] = '\0';
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			*s = '?';
}

/* Copies the rows of one moment. If a writer changes them during each attempt, there are no rows. */
static void copy_peers(const void *page, size_t off, const struct diw_stat_head *h, struct diw_stat_qp *qp,
		       struct diw_stat_peer *row)
{
	for (int i = 0; i < PEERS_TRIES; i++) {
		uint64_t before = page_load(page, off);
		uint32_t counts[2];

		if (before % 2)
			continue;
		copy_words(counts, page, off + offsetof(struct diw_stat_peers, n), sizeof counts);
		qp->npeers = counts[0] < h->peers ? counts[0] : h->peers;
		copy_words(row, page, off + ROWS_OFF, qp->npeers * sizeof *row);
		if (page_load(page, off) != before)
			continue;
		qp->all_peers = counts[1];
		qp->peer = row;
		for (uint32_t k = 0; k < qp->npeers; k++)
			row[k].addr.reserved = 0;
		return;
	}
	qp->npeers = qp->all_peers = 0;
}

/* False if the slot is free, or if its user changed meanwhile. */
static bool copy_slot(const void *page, const struct diw_stat_head *h, uint32_t slot, struct diw_stat_qp *qp,
		      uint64_t *values, struct diw_stat_peer *row)
{
	size_t off = h->slots_off + (size_t)slot * h->slot_size;
	const _Atomic uint64_t *seq = (const void *)((const char *)page + off);
	uint64_t before = atomic_load_explicit(seq, memory_order_acquire);

	if (before % 2 == 0)
		return false;
	copy_words(&qp->id, page, off, sizeof qp->id);
	copy_words(values, page, off + h->values_off, h->nvalues * sizeof *values);
	if (h->peers)
		copy_peers(page, off + h->peers_off, h, qp, row);
	if (atomic_load_explicit(seq, memory_order_relaxed) != before)
		return false;
	qp->id.seq = before;
	clean_text(qp->id.device, sizeof qp->id.device);
	qp->id.local.reserved = qp->id.peer.reserved = 0;
	qp->slot = slot;
	qp->values = values;
	return true;
}

static struct diw_stat_copy *copy_alloc(const struct diw_stat_head *h)
{
	struct diw_stat_copy *c = calloc(1, sizeof *c + (size_t)h->nvalues * DIW_STAT_NAME +
					 h->used * (sizeof *c->qp + h->nvalues * sizeof(uint64_t) +
						    h->peers * sizeof *c->qp->peer));

	if (!c)
		return NULL;
	memcpy(&c->head, h, sizeof *h);
	c->qp = (void *)(c + 1);
	return c;
}

int diw_stat_copy(const void *page, size_t size, struct diw_stat_copy **out, const char **why)
{
	struct diw_stat_head h;
	struct diw_stat_copy *c;
	struct diw_stat_peer *rows;
	uint64_t *values;
	char *names;

	*why = "too small";
	if (size < sizeof h)
		return -EINVAL;
	copy_words(&h, page, 0, sizeof h);
	*why = head_fault(&h, size);
	if (*why)
		return -EINVAL;
	c = copy_alloc(&h);
	if (!c)
		return -ENOMEM;
	clean_text(c->head.program, sizeof c->head.program);
	values = (void *)(c->qp + h.used);
	rows = (void *)(values + (size_t)h.used * h.nvalues);
	names = (char *)(rows + (size_t)h.used * h.peers);
	c->names = (void *)names;
	copy_words(names, page, sizeof h, (size_t)h.nvalues * DIW_STAT_NAME);
	if (!names_are_clean(c->names, h.nvalues)) {
		*why = "damaged: names";
		diw_stat_copy_free(c);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < h.used; i++)
		if (copy_slot(page, &h, i, &c->qp[c->nqps], values + (size_t)c->nqps * h.nvalues,
			      rows + (size_t)c->nqps * h.peers))
			c->nqps++;
	*out = c;
	return 0;
}

void diw_stat_copy_free(struct diw_stat_copy *copy)
{
	free(copy);
}

const uint64_t *diw_stat_value(const struct diw_stat_copy *c, const struct diw_stat_qp *qp, const char *name)
{
	for (uint32_t i = 0; i < c->head.nvalues; i++)
		if (strcmp(c->names[i], name) == 0)
			return &qp->values[i];
	return NULL;
}

bool diw_stat_is_held(int fd, pid_t *pid)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd, F_GETLK, &l) < 0 || l.l_type == F_UNLCK)
		return false;
	*pid = l.l_pid > 0 ? l.l_pid : 0;
	return true;
}
