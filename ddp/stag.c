/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of STags: random indexes, open addressing, lookup at each use. */
#include "ddp/stag.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/rng.h"
#include "base/wire.h"

/* Open addressing with linear probing; the index is random, so it is its own hash. */
static uint32_t stag_home(const struct diw_stag_table *t, uint32_t stag)
{
	return (stag >> 8) & t->mask;
}

static struct diw_stag *stag_lookup(const struct diw_stag_table *t, uint32_t stag)
{
	for (uint32_t i = stag_home(t, stag); t->slot[i]; i = (i + 1) & t->mask)
		if (t->slot[i]->stag == stag)
			return t->slot[i];
	return NULL;
}

struct diw_stag *diw_stag_at(const struct diw_stag_table *t, uint32_t stag)
{
	for (uint32_t i = stag_home(t, stag); t->slot[i]; i = (i + 1) & t->mask)
		if (t->slot[i]->stag >> 8 == stag >> 8)
			return t->slot[i];
	return NULL;
}

int diw_stag_init(struct diw_stag_table *t)
{
	t->n = t->of_qps = t->records = 0;
	t->mask = 63;
	t->slot = calloc(t->mask + 1, sizeof(*t->slot));
	return t->slot ? 0 : -ENOMEM;
}

void diw_stag_fini(struct diw_stag_table *t)
{
	free(t->slot);
	t->slot = NULL;
}

static void stag_insert(struct diw_stag_table *t, struct diw_stag *s)
{
	uint32_t i = stag_home(t, s->stag);

	while (t->slot[i])
		i = (i + 1) & t->mask;
	t->slot[i] = s;
}

static int stag_table_grow(struct diw_stag_table *t)
{
	struct diw_stag_table bigger = { .mask = t->mask * 2 + 1, .n = t->n, .of_qps = t->of_qps,
					 .records = t->records };

	bigger.slot = calloc(bigger.mask + 1, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i <= t->mask; i++)
		if (t->slot[i])
			stag_insert(&bigger, t->slot[i]);
	free(t->slot);
	*t = bigger;
	return 0;
}

static int stag_make_room(struct diw_stag_table *t)
{
	if (t->n >= DIW_STAGS)
		return -ENOMEM;
	return t->n * 2 > t->mask ? stag_table_grow(t) : 0;
}

int diw_stag_add(struct diw_stag_table *t, struct diw_stag *s)
{
	uint32_t index;

	if (stag_make_room(t) < 0)
		return -ENOMEM;
	do
		index = (uint32_t)diw_random() & 0xffffff;
	while (index <= DIW_STAG_INDEX_CHOSEN || diw_stag_at(t, index << 8));
	s->stag = index << 8 | (diw_random() & 0xff);
	stag_insert(t, s);
	t->n++;
	return 0;
}

int diw_stag_add_chosen(struct diw_stag_table *t, struct diw_stag *s)
{
	uint32_t index = s->stag >> 8;

	if (index == 0 || index > DIW_STAG_INDEX_CHOSEN)
		return -EINVAL;
	if (diw_stag_at(t, s->stag))
		return -EEXIST;
	if (stag_make_room(t) < 0)
		return -ENOMEM;
	stag_insert(t, s);
	t->n++;
	return 0;
}

void diw_stag_remove(struct diw_stag_table *t, struct diw_stag *s)
{
	uint32_t i = stag_home(t, s->stag);

	while (t->slot[i] != s)
		i = (i + 1) & t->mask;
	t->slot[i] = NULL;
	t->n--;
	/* Closes the gap: an entry that was probed past this slot must still be found. */
	for (i = (i + 1) & t->mask; t->slot[i]; i = (i + 1) & t->mask) {
		struct diw_stag *moved = t->slot[i];

		t->slot[i] = NULL;
		stag_insert(t, moved);
	}
}

static inline struct diw_stag *stag_find(const struct diw_stag_table *t, uint32_t stag,
					 const struct diw_stag_user *user)
{
	struct diw_stag *s = stag_lookup(t, stag);

	return s && !s->invalid && s->pd == user->pd && (!s->qp || s->qp == user->qp) ? s : NULL;
}

struct diw_stag *diw_stag_find(const struct diw_stag_table *t, uint32_t stag, const struct diw_stag_user *user)
{
	return stag_find(t, stag, user);
}

void diw_stag_invalidate(struct diw_stag_table *t, struct diw_stag *s)
{
	if (s->region)
		s->region->windows--;
	s->region = NULL;
	s->invalid = true;
	diw_stag_set_qp(t, s, NULL);
}

void diw_stag_set_qp(struct diw_stag_table *t, struct diw_stag *w, const void *qp)
{
	t->of_qps += (qp != NULL) - (w->qp != NULL);
	w->qp = qp;
}

void diw_stag_forget_qp(struct diw_stag_table *t, const void *qp)
{
	for (uint32_t i = 0; t->of_qps && i <= t->mask; i++)
		if (t->slot[i] && t->slot[i]->qp == qp)
			diw_stag_invalidate(t, t->slot[i]);
}

bool diw_stag_is_for(const struct diw_stag *s, const struct diw_addr *peer)
{
	return !s->bound || (s->peer.port ? diw_addr_eq(peer, &s->peer) : diw_addr_same_host(peer, &s->peer));
}

uint16_t diw_stag_resolve(const struct diw_stag_table *t, uint32_t stag, const struct diw_stag_user *user,
			  unsigned access, const struct diw_addr *peer, uint64_t to, uint32_t len, uint8_t **addr)
{
	const struct diw_stag *s = stag_find(t, stag, user);

	if (!s)
		return DIW_FAULT_STAG;
	if (peer && !diw_stag_is_for(s, peer))
		return DIW_FAULT_STAG;
	if ((s->access & access) != access || (peer && (access & user->deny)))
		return DIW_FAULT_ACCESS;
	if (diw_to_wraps(to, len))
		return DIW_FAULT_WRAP;
	if (to < s->to || to - s->to > s->len || len > s->len - (to - s->to))
		return DIW_FAULT_BOUNDS;
	*addr = s->addr + (to - s->to);
	return 0;
}
