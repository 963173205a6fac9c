/* SPDX-License-Identifier: BSD-2-Clause */
/* diw recv: chooses the parts of a file to request next, new or missing. */
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "tools/cp/ask.h"

void ask_init(struct ask *a, uint64_t size, uint32_t message, uint64_t window, bool once)
{
	memset(a, 0, sizeof *a);
	a->size = size;
	a->message = message;
	a->window = window;
	a->once = once;
}

void ask_fini(struct ask *a)
{
	free(a->holes);
	a->holes = NULL;
}

static void add_hole(struct ask *a, uint64_t off, uint64_t len)
{
	struct hole *h;
	size_t max;

	if (a->nholes == a->max_holes) {
		max = a->max_holes ? 2 * a->max_holes : 256;
		h = realloc(a->holes, max * sizeof *h);
		if (!h) {
			a->failed = true;
			return;
		}
		a->holes = h;
		a->max_holes = max;
	}
	a->holes[a->nholes++] = (struct hole){ off, len };
}

static void add_entry(struct ask *a, uint64_t off, uint32_t len, bool again)
{
	a->entry[a->head++ % XFER_ENTRIES] = (struct ask_entry){ .off = off, .len = len, .again = again };
	a->outstanding += len;
	if (again)
		a->again += len;
}

/* Holes first, so that few must be kept; the order of requests has no effect. */
void ask_fill(struct ask *a)
{
	struct hole *h;
	uint32_t len;

	while (a->head - a->tail < XFER_ENTRIES && a->outstanding < a->window) {
		if (!a->once && a->nholes) {
			h = &a->holes[--a->nholes];
			add_entry(a, h->off, (uint32_t)h->len, true);
		} else if (a->next_off < a->size) {
			len = a->size - a->next_off < a->message ? (uint32_t)(a->size - a->next_off) : a->message;
			add_entry(a, a->next_off, len, false);
			a->next_off += len;
		} else {
			return;
		}
	}
}

static void entry_resolve(struct ask *a, struct ask_entry *e)
{
	e->resolved = true;
	a->outstanding -= e->len;
	while (a->tail != a->head && a->entry[a->tail % XFER_ENTRIES].resolved)
		a->tail++;
}

bool ask_record(struct ask *a, uint32_t index, uint64_t off, uint32_t len, const struct diw_range *r, int n)
{
	struct ask_entry *e = &a->entry[index % XFER_ENTRIES];
	uint32_t at = 0;

	if (index - a->tail >= a->head - a->tail || e->resolved || e->off != off || e->len != len)
		return false;
	for (int i = 0; i < n; i++) {
		if (r[i].off > at)
			add_hole(a, off + at, r[i].off - at);
		at = r[i].off + r[i].len;
		a->valid += r[i].len;
	}
	if (at < len)
		add_hole(a, off + at, len - at);
	if (n == 1 && r[0].len == len)
		a->complete_records++;
	else
		a->partial_records++;
	entry_resolve(a, e);
	return true;
}

bool ask_acked(struct ask *a, uint32_t next, uint64_t now)
{
	if (next - a->acked > a->head - a->acked)
		return !diw_serial_after(next, a->head);     /* an old STATUS that was overtaken */
	for (; a->acked != next; a->acked++)
		a->entry[a->acked % XFER_ENTRIES].acked_at = now;
	return true;
}

void ask_expire(struct ask *a, uint64_t now, bool (*is_open)(void *ctx, uint64_t off), void *ctx)
{
	struct ask_entry *e;

	for (uint32_t i = a->tail; i != a->head && diw_serial_after(a->acked, i); i++) {
		e = &a->entry[i % XFER_ENTRIES];
		if (e->resolved || now < e->acked_at + ASK_GRACE_NS || is_open(ctx, e->off))
			continue;
		add_hole(a, e->off, e->len);
		a->lost_records++;
		entry_resolve(a, e);
	}
}

bool ask_done(const struct ask *a)
{
	return a->next_off == a->size && a->head == a->tail && (a->once || !a->nholes);
}

static int by_offset(const void *x, const void *y)
{
	const struct hole *a = x, *b = y;

	return a->off < b->off ? -1 : a->off > b->off;
}

void ask_sort_holes(struct ask *a)
{
	size_t n = 0;

	if (a->nholes)
		qsort(a->holes, a->nholes, sizeof *a->holes, by_offset);
	for (size_t i = 0; i < a->nholes; i++) {
		if (n && a->holes[n - 1].off + a->holes[n - 1].len == a->holes[i].off)
			a->holes[n - 1].len += a->holes[i].len;
		else
			a->holes[n++] = a->holes[i];
	}
	a->nholes = n;
}
