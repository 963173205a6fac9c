/* SPDX-License-Identifier: BSD-2-Clause */
/* Matching: see match.h. The hash has a seed, so that a peer cannot choose which messages share a bucket. */
#include <errno.h>
#include <stdlib.h>

#include "mpi_glue/match.h"

int diw_match_init(struct match *m, uint64_t seed)
{
	struct diw_list *heads = malloc(2 * MATCH_BUCKETS * sizeof *heads);

	if (!heads)
		return -ENOMEM;
	for (uint32_t i = 0; i < 2 * MATCH_BUCKETS; i++)
		diw_list_init(&heads[i]);
	*m = (struct match){ .posted = heads, .unexpected = heads + MATCH_BUCKETS, .seed = seed };
	diw_list_init(&m->wild);
	diw_list_init(&m->arrived);
	return 0;
}

void diw_match_fini(struct match *m)
{
	free(m->posted);
}

static struct diw_list *match_bucket(const struct match *m, struct diw_list *heads, const void *source, uint64_t tag)
{
	uint64_t h = ((tag & ~m->mask) ^ m->seed) * 0x9e3779b97f4a7c15u;

	h = (h ^ (h >> 32) ^ (uintptr_t)source) * 0xd6e8feb86659fd93u;
	return &heads[(h ^ (h >> 32)) % MATCH_BUCKETS];
}

static bool key_fits(const struct match_key *receive, const void *source, uint64_t tag)
{
	return (!receive->source || receive->source == source) && ((receive->tag ^ tag) & ~receive->ignore) == 0;
}

static struct match_key *key_of_hash(struct diw_list *n) { return diw_container(n, struct match_key, hash); }
static struct match_key *key_of_order(struct diw_list *n) { return diw_container(n, struct match_key, order); }

static bool match_hashes(const struct match *m, const void *source, uint64_t ignore)
{
	return source && (ignore & ~m->mask) == 0;
}

/* Receives of one chain keep their order: those that match one message were in one bucket before, too. */
static void receives_rehash(struct match *m)
{
	struct diw_list all, *n, *next;

	diw_list_init(&all);
	for (uint32_t i = 0; i < MATCH_BUCKETS; i++)
		diw_list_for_each_safe(n, next, &m->posted[i]) {
			diw_list_del(n);
			diw_list_add_tail(&all, n);
		}
	diw_list_for_each_safe(n, next, &all) {
		struct match_key *k = key_of_hash(n);

		diw_list_del(n);
		diw_list_add_tail(match_bucket(m, m->posted, k->source, k->tag), n);
	}
}

/* In the order of arrival, since messages of several buckets may come into one. */
static void messages_rehash(struct match *m)
{
	for (struct diw_list *n = m->arrived.next; n != &m->arrived; n = n->next)
		diw_list_del(&key_of_order(n)->hash);
	for (struct diw_list *n = m->arrived.next; n != &m->arrived; n = n->next) {
		struct match_key *k = key_of_order(n);

		diw_list_add_tail(match_bucket(m, m->unexpected, k->source, k->tag), &k->hash);
	}
}

/* If receives ignore a few bits more than any before (a protocol's bits in the tag), everything is hashed again without
 * these bits. */
static void match_widen(struct match *m, const void *source, uint64_t ignore)
{
	if (!source || (ignore & ~m->mask) == 0 || __builtin_popcountll(ignore | m->mask) > MATCH_FEW)
		return;
	m->mask |= ignore;
	receives_rehash(m);
	messages_rehash(m);
}

void diw_match_post(struct match *m, struct match_key *k)
{
	match_widen(m, k->source, k->ignore);
	k->number = m->number++;
	diw_list_init(&k->hash);
	diw_list_init(&k->order);
	m->nposted++;
	if (match_hashes(m, k->source, k->ignore)) {
		diw_list_add_tail(match_bucket(m, m->posted, k->source, k->tag), &k->hash);
		m->nhashed++;
	} else {
		diw_list_add_tail(&m->wild, &k->order);
	}
}

void diw_match_unpost(struct match *m, struct match_key *k)
{
	m->nposted--;
	if (!diw_list_empty(&k->hash))
		m->nhashed--;
	diw_list_del(&k->hash);
	diw_list_del(&k->order);
}

void diw_match_arrive(struct match *m, struct match_key *k)
{
	diw_list_add_tail(match_bucket(m, m->unexpected, k->source, k->tag), &k->hash);
	diw_list_add_tail(&m->arrived, &k->order);
}

void diw_match_take(struct match_key *k)
{
	diw_list_del(&k->hash);
	diw_list_del(&k->order);
}

struct match_key *diw_match_find_receive(const struct match *m, const void *source, uint64_t tag)
{
	struct match_key *best = NULL;
	struct diw_list *head = match_bucket(m, m->posted, source, tag);

	for (struct diw_list *n = m->nhashed ? head->next : head; n != head && !best; n = n->next)
		if (key_fits(key_of_hash(n), source, tag))
			best = key_of_hash(n);
	for (struct diw_list *n = m->wild.next; n != &m->wild; n = n->next) {
		struct match_key *k = key_of_order(n);

		if (best && k->number > best->number)
			break;
		if (key_fits(k, source, tag))
			return k;
	}
	return best;
}

struct match_key *diw_match_find_message(const struct match *m, const void *source, uint64_t tag, uint64_t ignore)
{
	const struct match_key receive = { .source = source, .tag = tag, .ignore = ignore };
	struct diw_list *head, *n;

	if (diw_list_empty(&m->arrived))
		return NULL;
	if (match_hashes(m, source, ignore)) {
		head = match_bucket(m, m->unexpected, source, tag);
		for (n = head->next; n != head; n = n->next)
			if (key_fits(&receive, key_of_hash(n)->source, key_of_hash(n)->tag))
				return key_of_hash(n);
		return NULL;
	}
	for (n = m->arrived.next; n != &m->arrived; n = n->next)
		if (key_fits(&receive, key_of_order(n)->source, key_of_order(n)->tag))
			return key_of_order(n);
	return NULL;
}

struct match_key *diw_match_each(const struct match *m, bool (*each)(struct match_key *, void *), void *arg)
{
	struct diw_list *n, *next;

	diw_list_for_each_safe(n, next, &m->wild)
		if (each(key_of_order(n), arg))
			return key_of_order(n);
	for (uint32_t i = 0; i < MATCH_BUCKETS && m->nhashed; i++)
		diw_list_for_each_safe(n, next, &m->posted[i])
			if (each(key_of_hash(n), arg))
				return key_of_hash(n);
	return NULL;
}
