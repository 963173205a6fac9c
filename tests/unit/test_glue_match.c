/* SPDX-License-Identifier: BSD-2-Clause */
/* Matching (mpi_glue/match.c) against a simple implementation: two lists in the order of posts and arrivals. */
#include <stdlib.h>

#include "mpi_glue/match.h"
#include "tests/unit/unit.h"

#define STEPS 20000
#define KEYS 400

static char sources[3];                  /* only their addresses are used */

struct model { struct match_key *posted[KEYS], *arrived[KEYS]; int nposted, narrived; };

static bool model_fits(const struct match_key *r, const struct match_key *m)
{
	return (!r->source || r->source == m->source) && ((r->tag ^ m->tag) & ~r->ignore) == 0;
}

static void model_remove(struct match_key **list, int *n, int i)
{
	(*n)--;
	for (; i < *n; i++)
		list[i] = list[i + 1];
}

/* Tags that often match, in high and low bits; masks of none, few and many bits. */
static struct match_key *key_random(unsigned *seed, bool receive)
{
	static const uint64_t ignores[] = { 0, 0, 3ull << 32, 1ull << 32, 0xffffffff, ~0ull, 0xff };
	struct match_key *k = calloc(1, sizeof *k);

	ck_assert_ptr_nonnull(k);
	k->tag = (uint64_t)(rand_r(seed) % 3) << 32 | (uint64_t)(rand_r(seed) % 4);
	k->source = &sources[rand_r(seed) % 3];
	if (receive) {
		k->ignore = ignores[rand_r(seed) % 7];
		if (rand_r(seed) % 4 == 0)
			k->source = NULL;
	}
	return k;
}

static void step_receive(struct match *m, struct model *model, unsigned *seed)
{
	struct match_key *k = key_random(seed, true), *got = diw_match_find_message(m, k->source, k->tag, k->ignore);
	int i;

	for (i = 0; i < model->narrived && !model_fits(k, model->arrived[i]); i++)
		;
	ck_assert_ptr_eq(got, i < model->narrived ? model->arrived[i] : NULL);
	if (got) {
		diw_match_take(got);
		model_remove(model->arrived, &model->narrived, i);
		free(got);
		free(k);
	} else if (model->nposted < KEYS) {
		diw_match_post(m, k);
		model->posted[model->nposted++] = k;
	} else {
		free(k);
	}
}

static void step_message(struct match *m, struct model *model, unsigned *seed)
{
	struct match_key *k = key_random(seed, false), *got = diw_match_find_receive(m, k->source, k->tag);
	int i;

	for (i = 0; i < model->nposted && !model_fits(model->posted[i], k); i++)
		;
	ck_assert_ptr_eq(got, i < model->nposted ? model->posted[i] : NULL);
	if (got) {
		diw_match_unpost(m, got);
		model_remove(model->posted, &model->nposted, i);
		free(got);
		free(k);
	} else if (model->narrived < KEYS) {
		diw_match_arrive(m, k);
		model->arrived[model->narrived++] = k;
	} else {
		free(k);
	}
}

static bool is_key(struct match_key *k, void *arg)
{
	return k == arg;
}

static void step_cancel(struct match *m, struct model *model, unsigned *seed)
{
	int i = rand_r(seed) % (model->nposted + 1);

	if (i == model->nposted)
		return;
	ck_assert_ptr_eq(diw_match_each(m, is_key, model->posted[i]), model->posted[i]);
	diw_match_unpost(m, model->posted[i]);
	free(model->posted[i]);
	model_remove(model->posted, &model->nposted, i);
}

START_TEST(as_two_lists)
{
	unsigned seed = (unsigned)_i;
	struct model model = { .nposted = 0 };
	struct match m;

	ck_assert_int_eq(diw_match_init(&m, (uint64_t)_i * 0x12345), 0);
	for (int n = 0; n < STEPS; n++) {
		switch (rand_r(&seed) % 9) {
		case 0: step_cancel(&m, &model, &seed); break;
		case 1: case 2: case 3: case 4: step_receive(&m, &model, &seed); break;
		default: step_message(&m, &model, &seed);
		}
		ck_assert_uint_eq(m.nposted, (uint32_t)model.nposted);
	}
	while (model.nposted)
		free(model.posted[--model.nposted]);
	while (model.narrived)
		free(model.arrived[--model.narrived]);
	diw_match_fini(&m);
}
END_TEST

/* A receive that ignores a few bits is hashed, and one that ignores the whole tag is not. */
START_TEST(few_bits_are_hashed)
{
	struct match_key few = { .source = sources, .tag = 7, .ignore = 3ull << 30 };
	struct match_key all = { .source = sources, .ignore = ~0ull };
	struct match m;

	ck_assert_int_eq(diw_match_init(&m, 1), 0);
	diw_match_post(&m, &few);
	diw_match_post(&m, &all);
	ck_assert_uint_eq(m.nhashed, 1);
	ck_assert_ptr_eq(diw_match_find_receive(&m, sources, 7 | 1u << 31), &few);
	ck_assert_ptr_eq(diw_match_find_receive(&m, sources, 8), &all);
	ck_assert_ptr_null(diw_match_find_receive(&m, sources + 1, 7));
	diw_match_fini(&m);
}
END_TEST

Suite *suite_glue_match(void)
{
	Suite *s = suite_create("glue_match");
	TCase *tc = tcase_create("glue_match");

	tcase_add_loop_test(tc, as_two_lists, 0, 8);
	tcase_add_test(tc, few_bits_are_hashed);
	suite_add_tcase(s, tc);
	return s;
}
