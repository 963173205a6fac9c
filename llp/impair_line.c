/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One direction of an impaired path: which datagrams are lost, duplicated, damaged, held back and delayed. Each
 * decision concerns one datagram. So it does not depend on how datagrams are packed into bursts, and a seed replays it
 * exactly. Only datagrams that wait or are altered are copied; the others stay in the burst's memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "llp/impair.h"

#define HOLD_TIME (500 * DIW_US)     /* a datagram is held back no longer than this */
#define HOLD_BEHIND 8                /* at most this many datagrams overtake it */

int diw_impair_line_set(struct diw_impair_line *l, const struct diw_impair_dir *p, int which)
{
	bool copies = p && (p->dup > 0 || p->reorder > 0 || p->corrupt > 0 || p->delay > 0);

	if (!l->delayed.next) {
		diw_list_init(&l->delayed);
		diw_list_init(&l->held);
	}
	if (copies && !l->arena) {
		l->entry = calloc(DIW_IMPAIR_ENTRIES, sizeof *l->entry);
		l->arena = malloc(DIW_IMPAIR_ARENA);
		if (!l->entry || !l->arena) {
			diw_impair_line_fini(l);
			return -ENOMEM;
		}
	}
	l->p = p ? *p : (struct diw_impair_dir){ 0 };
	l->copies = copies;
	l->active = copies || l->p.loss > 0 || l->p.burst > 0 || l->p.mask;
	memset(&l->s, 0, sizeof l->s);
	l->loss = (uint64_t)(l->p.loss * 0x1p53);
	l->s.rng.state = l->p.seed * 2 + (uint64_t)which;
	l->leave = l->p.burst < 1 ? 1 / (l->p.burst_len > 1 ? l->p.burst_len : 1) : 0;
	l->enter = l->p.burst < 1 ? l->p.burst * l->leave / (1 - l->p.burst) : 1;
	return 0;
}

void diw_impair_line_fini(struct diw_impair_line *l)
{
	free(l->entry);
	free(l->arena);
	l->entry = NULL;
	l->arena = NULL;
}

uint64_t diw_impair_line_deadline(const struct diw_impair_line *l)
{
	uint64_t t = DIW_NEVER;

	if (!diw_list_empty(&l->delayed))
		t = diw_container(l->delayed.next, struct diw_impair_entry, node)->due;
	if (l->nheld)
		t = diw_min64(t, diw_container(l->held.next, struct diw_impair_entry, node)->due);
	return t;
}

/* ---- Entries ---- */

static void line_reclaim(struct diw_impair_line *l)
{
	while (l->entry_count) {
		struct diw_impair_entry *e =
			&l->entry[(l->entry_head + DIW_IMPAIR_ENTRIES - l->entry_count) % DIW_IMPAIR_ENTRIES];

		if (e->used)
			return;
		l->entry_count--;
		l->arena_used -= e->taken;
	}
}

/* Copies LEN bytes of B from AT to an entry; NULL: no room. */
static struct diw_impair_entry *entry_copy(struct diw_impair_line *l, const struct diw_dgram_burst *b,
					   struct diw_impair_cursor at, uint32_t len)
{
	struct diw_impair_entry *e;
	uint32_t gap = l->arena_head + len > DIW_IMPAIR_ARENA ? DIW_IMPAIR_ARENA - l->arena_head : 0;

	if (l->entry_count == DIW_IMPAIR_ENTRIES || l->arena_used + gap + len > DIW_IMPAIR_ARENA)
		return NULL;
	if (gap)
		l->arena_head = 0;
	e = &l->entry[l->entry_head];
	*e = (struct diw_impair_entry){ .peer = b->peer, .data = l->arena + l->arena_head, .len = len,
					.taken = gap + len, .used = true, .group = b->group,
					.to = b->to };
	diw_list_init(&e->node);
	l->entry_head = (l->entry_head + 1) % DIW_IMPAIR_ENTRIES;
	l->entry_count++;
	l->arena_head += len;
	l->arena_used += gap + len;
	l->altered = true;
	for (uint32_t done = 0; done < len;) {
		size_t have = b->iov[at.i].iov_len - at.off, n = have < len - done ? have : len - done;

		memcpy(e->data + done, (uint8_t *)b->iov[at.i].iov_base + at.off, n);
		done += (uint32_t)n;
		at = (struct diw_impair_cursor){ at.i + 1, 0 };
	}
	return e;
}

static void entry_free(struct diw_impair_line *l, struct diw_impair_entry *e)
{
	e->used = false;
	line_reclaim(l);
}

/* ---- Decisions ---- */

/* The number of IP fragments. A fragment carries a multiple of 8 bytes (RFC 791 section 3.2, RFC 8200 section 4.5). */
static uint32_t ip_fragments(const struct diw_impair_line *l, const struct diw_addr *peer, uint32_t len)
{
	uint32_t ip = diw_addr_is_v4(peer) ? 20 : 40, each;

	len += 8;
	if (!l->p.mtu || ip + len <= l->p.mtu)
		return 1;
	ip += ip == 40 ? 8 : 0;
	each = l->p.mtu > ip + 8 ? (l->p.mtu - ip) & ~7u : 8;
	return (len + each - 1) / each;
}

/* The two-state model of Gilbert (1960): in the bad state every datagram is lost. */
static bool burst_loses(struct diw_impair_line *l)
{
	l->s.bad = l->s.bad ? !diw_rng_chance(&l->s.rng, l->leave) : diw_rng_chance(&l->s.rng, l->enter);
	return l->s.bad;
}

static bool line_loses(struct diw_impair_line *l, const struct diw_addr *peer, uint32_t len)
{
	bool lost = l->p.mask >> l->s.index & 1;

	l->s.index = (l->s.index + 1) % 64;
	if (l->loss || l->p.burst > 0)
		for (uint32_t n = ip_fragments(l, peer, len); n > 0; n--) {
			if (l->loss && diw_rng_next(&l->s.rng) >> 11 < l->loss)
				lost = true;
			if (l->p.burst > 0 && burst_loses(l))
				lost = true;
		}
	return lost;
}

static bool line_chance(struct diw_impair_line *l, double p)
{
	return p > 0 && diw_rng_chance(&l->s.rng, p);
}

/* ---- A datagram's way: held back, delayed, out ---- */

/* Loses E, or if E is NULL, the LEN bytes at AT of the burst that is being decided. */
static void datagram_lose(struct diw_impair_line *l, struct diw_impair_cursor at, uint32_t len,
			  struct diw_impair_entry *e, uint64_t now)
{
	l->c->impair_lost++;
	if (l->watch && e) {
		struct iovec iov = { e->data, e->len };

		l->watch->lost(l->watch, l->tx, &e->peer.addr, &iov, 0, e->len, now);
	} else if (l->watch && l->nlost < DIW_IMPAIR_RUN) {
		l->lost[l->nlost++] = (struct diw_impair_item){ NULL, at, len };
	}
	if (e)
		entry_free(l, e);
}

void diw_impair_line_tell(struct diw_impair_line *l, const struct diw_dgram_burst *b, bool taken, uint64_t now)
{
	for (int i = 0; taken && i < l->nlost; i++) {
		const struct diw_impair_item *r = &l->lost[i];

		l->watch->lost(l->watch, l->tx, &b->peer.addr, b->iov + r->at.i, r->at.off, r->len, now);
	}
	l->nlost = 0;
}

static void entry_delay(struct diw_impair_line *l, struct diw_impair_entry *e, uint64_t due)
{
	e->due = due;
	diw_list_add_tail(&l->delayed, &e->node);
	l->altered = true;
}

/* Passes E, or if E is NULL, the LEN bytes of B at AT. */
static void datagram_pass(struct diw_impair_line *l, const struct diw_dgram_burst *b, struct diw_impair_cursor at,
			  uint32_t len, struct diw_impair_entry *e, uint64_t now)
{
	if (l->p.delay) {
		if (!e)
			e = entry_copy(l, b, at, len);
		if (!e) {
			datagram_lose(l, at, len, NULL, now);
			return;
		}
		l->c->impair_delayed++;
		entry_delay(l, e, now + l->p.delay);
	} else if (l->nrun < DIW_IMPAIR_RUN) {
		l->run[l->nrun++] = (struct diw_impair_item){ e, e ? (struct diw_impair_cursor){ 0, 0 } : at, len };
	} else {
		datagram_lose(l, at, len, e, now);
	}
}

/* A datagram has come behind those that are held back, some of which may leave now. CAME is its entry if it is itself
 * held back. */
static void entries_overtaken(struct diw_impair_line *l, const struct diw_impair_entry *came, uint64_t now)
{
	struct diw_list *pos, *tmp;

	l->altered = true;
	diw_list_for_each_safe(pos, tmp, &l->held) {
		struct diw_impair_entry *e = diw_container(pos, struct diw_impair_entry, node);

		if (e == came || --e->behind > 0)
			continue;
		diw_list_del(&e->node);
		l->nheld--;
		datagram_pass(l, NULL, (struct diw_impair_cursor){ 0, 0 }, e->len, e, now);
	}
}

static void hold_entry(struct diw_impair_line *l, struct diw_impair_entry *e, int behind, uint64_t now)
{
	e->behind = behind;
	e->due = now + HOLD_TIME;
	diw_list_add_tail(&l->held, &e->node);
	l->nheld++;
	l->c->impair_reordered++;
}

static void one_copy(struct diw_impair_line *l, const struct diw_dgram_burst *b, struct diw_impair_cursor at,
		     uint32_t len, uint64_t now)
{
	bool corrupt = len && line_chance(l, l->p.corrupt);
	uint64_t bit = corrupt ? diw_rng_next(&l->s.rng) % (len * 8ull) : 0;
	bool late = line_chance(l, l->p.reorder);
	int behind = late ? 1 + (int)(diw_rng_next(&l->s.rng) % HOLD_BEHIND) : 0;
	struct diw_impair_entry *e = NULL;

	late = late && l->nheld < DIW_IMPAIR_HELD;
	if (corrupt || late) {
		e = entry_copy(l, b, at, len);
		if (!e) {
			datagram_lose(l, at, len, NULL, now);
			return;
		}
	}
	if (corrupt) {
		e->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		l->c->impair_corrupted++;
	}
	if (late)
		hold_entry(l, e, behind, now);
	else
		datagram_pass(l, b, at, len, e, now);
	if (l->nheld)
		entries_overtaken(l, late ? e : NULL, now);
}

void diw_impair_advance(const struct iovec *iov, struct diw_impair_cursor *at, uint32_t len)
{
	while (len > 0) {
		size_t have = iov[at->i].iov_len - at->off;

		if (have > len) {
			at->off += len;
			return;
		}
		len -= (uint32_t)have;
		*at = (struct diw_impair_cursor){ at->i + 1, 0 };
	}
}

int diw_impair_line_thin(struct diw_impair_line *l, const struct diw_dgram_burst *b, struct diw_impair_run *runs,
			 uint64_t now)
{
	int n = 0;

	for (uint32_t at = 0, end = 0; at < b->len; at += b->seg) {
		uint32_t len = b->len - at < b->seg ? b->len - at : b->seg;

		if (line_loses(l, &b->peer.addr, len)) {
			struct diw_impair_cursor from = { 0, 0 };

			if (l->watch)
				diw_impair_advance(b->iov, &from, at);
			datagram_lose(l, from, len, NULL, now);
			continue;
		}
		if (n && end == at)
			runs[n - 1].len += len;
		else
			runs[n++] = (struct diw_impair_run){ at, len };
		end = at + len;
	}
	return n;
}

void diw_impair_line_plan(struct diw_impair_line *l, const struct diw_dgram_burst *b, uint64_t now)
{
	struct diw_impair_cursor at = { 0, 0 };
	uint32_t left = b->len;

	l->altered = false;
	do {
		uint32_t len = left < b->seg ? left : b->seg;

		if (line_loses(l, &b->peer.addr, len)) {
			datagram_lose(l, at, len, NULL, now);
		} else {
			bool twice = line_chance(l, l->p.dup);

			one_copy(l, b, at, len, now);
			if (twice) {
				l->c->impair_duplicated++;
				one_copy(l, b, at, len, now);
			}
		}
		diw_impair_advance(b->iov, &at, len);
		left -= len;
	} while (left > 0);
}

void diw_impair_line_release(struct diw_impair_line *l, uint64_t now)
{
	struct diw_list *pos, *tmp;

	diw_list_for_each_safe(pos, tmp, &l->held) {
		struct diw_impair_entry *e = diw_container(pos, struct diw_impair_entry, node);

		if (e->due > now)
			break;
		diw_list_del(&e->node);
		l->nheld--;
		entry_delay(l, e, now + l->p.delay);
	}
	while (l->nrun < DIW_IMPAIR_RUN && !diw_list_empty(&l->delayed)) {
		struct diw_impair_entry *e = diw_container(l->delayed.next, struct diw_impair_entry, node);

		if (e->due > now)
			break;
		diw_list_del(&e->node);
		l->run[l->nrun++] = (struct diw_impair_item){ e, { 0, 0 }, e->len };
	}
}

void diw_impair_line_end(struct diw_impair_line *l, const struct diw_dgram_burst *b, int done, uint64_t now)
{
	for (int i = 0; i < done; i++)
		if (l->run[i].e)
			entry_free(l, l->run[i].e);
	/* The oldest must be at the front of the list, so the loop goes from the last to the first. */
	for (int i = l->nrun - 1; i >= done; i--) {
		struct diw_impair_item *r = &l->run[i];
		struct diw_impair_entry *e = r->e ? r->e : l->arena ? entry_copy(l, b, r->at, r->len) : NULL;

		if (!e) {
			datagram_lose(l, r->at, r->len, NULL, now);
			continue;
		}
		e->due = now;
		diw_list_add_tail(l->delayed.next, &e->node);
	}
	l->nrun = 0;
}
