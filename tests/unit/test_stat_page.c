/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading the counter page of another build, and damaged or hostile pages. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/statpage.h"
#include "tests/unit/unit.h"

#define NVALUES 3u
#define NSLOTS 4u

struct image {
	struct diw_stat_head head;
	char names[NVALUES][DIW_STAT_NAME];
	struct { struct diw_stat_id id; uint64_t v[NVALUES]; } slot[NSLOTS];
};

static void image_fill(struct image *im)
{
	memset(im, 0, sizeof *im);
	im->head = (struct diw_stat_head){
		.magic = DIW_STAT_MAGIC, .version = DIW_STAT_VERSION, .nvalues = NVALUES, .ncounters = 2,
		.slots_off = offsetof(struct image, slot), .slot_size = sizeof im->slot[0],
		.values_off = sizeof(struct diw_stat_id), .slots = NSLOTS, .used = 3, .pid = 1, .program = "prog",
	};
	strcpy(im->names[0], "first");
	strcpy(im->names[1], "of_a_later_version");
	strcpy(im->names[2], "gauge");
	for (unsigned i = 0; i < NSLOTS; i++) {
		im->slot[i].id.seq = i == 1 ? 2 : 1;
		im->slot[i].id.num = i;
		strcpy(im->slot[i].id.device, "diw_x");
		for (unsigned k = 0; k < NVALUES; k++)
			im->slot[i].v[k] = 10 * i + k;
	}
}

/* A page of another build, with other counters. */
START_TEST(page_of_another_build)
{
	struct image im;
	struct diw_stat_copy *c;
	const char *why;

	image_fill(&im);
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), 0);
	ck_assert_uint_eq(c->nqps, 2);
	ck_assert_uint_eq(c->qp[0].id.num, 0);
	ck_assert_uint_eq(c->qp[1].id.num, 2);
	ck_assert_uint_eq(*diw_stat_value(c, &c->qp[1], "of_a_later_version"), 21);
	ck_assert_uint_eq(*diw_stat_value(c, &c->qp[1], "gauge"), 22);
	diw_stat_copy_free(c);
}
END_TEST

/* The image is refused, for REASON, when one 32-bit field of its head is changed. */
static void refused(size_t field, uint32_t value, const char *reason)
{
	struct image im;
	struct diw_stat_copy *c;
	const char *why;

	image_fill(&im);
	memcpy((char *)&im + field, &value, sizeof value);
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), -EINVAL);
	ck_assert_str_eq(why, reason);
}

#define HEAD(field) offsetof(struct diw_stat_head, field)

START_TEST(damaged_heads)
{
	static const uint32_t huge[] = { 0xffffffff, 0x80000000, 0x7fffffff, 0x10000, 0xfffffff8 };

	refused(HEAD(magic), 7, "not a page of counters");
	refused(HEAD(version), DIW_STAT_VERSION + 1, "a layout of another version of diwarp");
	refused(HEAD(nvalues), 0, "damaged: number of counters");
	refused(HEAD(ncounters), NVALUES + 1, "damaged: number of counters");
	refused(HEAD(nvalues), NVALUES + 1, "damaged: places");
	refused(HEAD(slots), 0, "damaged: number of slots");
	refused(HEAD(used), NSLOTS + 1, "damaged: number of slots");
	refused(HEAD(slots_off), 8, "damaged: places");
	refused(HEAD(slots_off), offsetof(struct image, slot) + 1, "damaged: places");
	refused(HEAD(slot_size), 8, "damaged: places");
	refused(HEAD(slot_size), 0, "damaged: places");
	refused(HEAD(values_off), 0, "damaged: places");
	refused(HEAD(slots_off), sizeof(struct image), "truncated");
	for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
		refused(HEAD(nvalues), huge[i], "damaged: number of counters");
		refused(HEAD(slots_off), huge[i] & ~7u, "truncated");
		refused(HEAD(slot_size), huge[i] & ~7u, "truncated");
		refused(HEAD(values_off), huge[i] & ~7u, "damaged: places");
	}
}
END_TEST

START_TEST(damaged_names)
{
	static const char *const bad[] = { "", "UPPER", "a b", "a\"b", "new\nline", "\033[2J", "9lives",
		"long_enough_to_have_no_end_in_it", "first", "gauge", "first_total", "_total" };
	struct image im;
	struct diw_stat_copy *c;
	const char *why;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		image_fill(&im);
		memset(im.names[1], 0, DIW_STAT_NAME);
		memcpy(im.names[1], bad[i], strlen(bad[i]));
		ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), -EINVAL);
		ck_assert_str_eq(why, "damaged: names");
	}
	image_fill(&im);
	memset(im.head.program, '\033', sizeof im.head.program);
	memset(im.slot[0].id.device, 0xff, sizeof im.slot[0].id.device);
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), 0);
	ck_assert_str_eq(c->head.program, "???????????????");
	ck_assert_str_eq(c->qp[0].id.device, "???????????????????????");
	diw_stat_copy_free(c);
}
END_TEST

/* A page with a slot that has rows of peers. */
struct peers_image {
	struct diw_stat_head head;
	char names[1][DIW_STAT_NAME];
	struct { struct diw_stat_id id; uint64_t v[1]; struct diw_stat_peers peers; } slot[1];
};

static void peers_image_fill(struct peers_image *im)
{
	memset(im, 0, sizeof *im);
	im->head = (struct diw_stat_head){
		.magic = DIW_STAT_MAGIC, .version = DIW_STAT_VERSION, .nvalues = 1, .ncounters = 1,
		.slots_off = offsetof(struct peers_image, slot), .slot_size = sizeof im->slot[0],
		.values_off = sizeof(struct diw_stat_id), .slots = 1, .used = 1, .pid = 1, .program = "prog",
		.peers_off = sizeof(struct diw_stat_id) + sizeof im->slot[0].v, .peers = DIW_STAT_PEERS,
	};
	strcpy(im->names[0], "first");
	im->slot[0].id.seq = 1;
	im->slot[0].peers.n = 2;
	im->slot[0].peers.all = 20;
	for (uint32_t i = 0; i < DIW_STAT_PEERS; i++)
		im->slot[0].peers.row[i] = (struct diw_stat_peer){ .window = i, .addr.reserved = 7 };
}

static void peers_refused(const struct peers_image *im, const char *reason)
{
	struct diw_stat_copy *c;
	const char *why;

	ck_assert_int_eq(diw_stat_copy(im, sizeof *im, &c, &why), -EINVAL);
	ck_assert_str_eq(why, reason);
}

START_TEST(rows_of_peers)
{
	struct peers_image im;
	struct diw_stat_copy *c;
	const char *why;

	peers_image_fill(&im);
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), 0);
	ck_assert_uint_eq(c->qp[0].npeers, 2);
	ck_assert_uint_eq(c->qp[0].all_peers, 20);
	ck_assert_uint_eq(c->qp[0].peer[1].window, 1);
	ck_assert_uint_eq(c->qp[0].peer[1].addr.reserved, 0);
	diw_stat_copy_free(c);
	im.slot[0].peers.n = 0xffffffff;        /* more rows than there are */
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), 0);
	ck_assert_uint_eq(c->qp[0].npeers, DIW_STAT_PEERS);
	ck_assert_uint_eq(c->qp[0].peer[DIW_STAT_PEERS - 1].window, DIW_STAT_PEERS - 1);
	diw_stat_copy_free(c);
	im.slot[0].peers.seq = 1;               /* its writer is changing the rows */
	ck_assert_int_eq(diw_stat_copy(&im, sizeof im, &c, &why), 0);
	ck_assert_uint_eq(c->nqps, 1);
	ck_assert_uint_eq(c->qp[0].npeers, 0);
	diw_stat_copy_free(c);
	im.head.peers++;
	peers_refused(&im, "damaged: places");
	im.head.peers = 0xffffffff;
	peers_refused(&im, "damaged: number of peers");
	im.head.peers = DIW_STAT_PEERS;
	im.head.peers_off++;
	peers_refused(&im, "damaged: places");
	im.head.peers_off = 0xfffffff8;
	peers_refused(&im, "damaged: places");
	im.head.peers_off = 8;
	peers_refused(&im, "damaged: places");
}
END_TEST

/* Every length of a valid page; no byte behind its end is read: there is none. */
START_TEST(truncated)
{
	const size_t pagesize = (size_t)sysconf(_SC_PAGESIZE), room = (sizeof(struct image) / pagesize + 1) * pagesize;
	uint8_t *mem = mmap(NULL, room + pagesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const size_t needed = offsetof(struct image, slot[3]);
	struct image im;

	image_fill(&im);
	ck_assert_int_eq(mprotect(mem + room, pagesize, PROT_NONE), 0);
	for (size_t size = 0; size <= sizeof im; size += 8) {
		struct diw_stat_copy *c;
		const char *why;
		int rc;

		memcpy(mem + room - size, &im, size);
		rc = diw_stat_copy(mem + room - size, size, &c, &why);
		ck_assert_int_eq(rc, size < needed ? -EINVAL : 0);
		if (rc == 0)
			diw_stat_copy_free(c);
		else
			ck_assert_str_eq(why, size < sizeof im.head ? "too small" : "truncated");
	}
	munmap(mem, room + pagesize);
}
END_TEST

static void read_all(const struct diw_stat_copy *c)
{
	static volatile uint64_t sum;

	for (uint32_t i = 0; i < c->nqps; i++) {
		for (uint32_t v = 0; v < c->head.nvalues; v++)
			sum = sum + *diw_stat_value(c, &c->qp[i], c->names[v]);
		for (uint32_t v = 0; v < c->qp[i].npeers; v++)
			sum = sum + c->qp[i].peer[v].window;
	}
	ck_assert_uint_le(c->nqps, c->head.used);
	for (const char *s = c->head.program; *s; s++)
		ck_assert(*s >= 0x20 && *s < 0x7f);
}

/* Random damage, mostly in the head, at the very end of readable memory. */
START_TEST(fuzz)
{
	const size_t pagesize = (size_t)sysconf(_SC_PAGESIZE), room = (sizeof(struct image) / pagesize + 1) * pagesize;
	uint8_t *mem = mmap(NULL, room + pagesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct diw_rng rng = { 3 };
	int good = 0, bad = 0;

	ck_assert_int_eq(mprotect(mem + room, pagesize, PROT_NONE), 0);
	for (int round = 0; round < 100000; round++) {
		uint8_t *at = mem + room - sizeof(struct image);
		struct diw_stat_copy *c;
		const char *why = NULL;
		struct image im;

		image_fill(&im);
		for (uint64_t n = 1 + diw_rng_next(&rng) % 4; n; n--) {
			size_t span = diw_rng_next(&rng) % 4 ? sizeof im.head : sizeof im;
			size_t word = diw_rng_next(&rng) % (span / 4) * 4;
			uint32_t v = (uint32_t)diw_rng_next(&rng) >> diw_rng_next(&rng) % 32;

			if (word >= 8 || diw_rng_next(&rng) % 8 == 0)    /* mostly behind the magic */
				memcpy((char *)&im + word, &v, sizeof v);
		}
		memcpy(at, &im, sizeof im);
		if (diw_stat_copy(at, sizeof im, &c, &why) == 0) {
			read_all(c);
			diw_stat_copy_free(c);
			good++;
		} else {
			ck_assert_ptr_nonnull(why);
			bad++;
		}
	}
	ck_assert_int_gt(good, 1000);
	ck_assert_int_gt(bad, 1000);
	munmap(mem, room + pagesize);
}
END_TEST

Suite *suite_stat_page(void)
{
	Suite *s = suite_create("stat_page");
	TCase *tc = tcase_create("stat_page");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, page_of_another_build);
	tcase_add_test(tc, damaged_heads);
	tcase_add_test(tc, damaged_names);
	tcase_add_test(tc, rows_of_peers);
	tcase_add_test(tc, truncated);
	tcase_add_test(tc, fuzz);
	suite_add_tcase(s, tc);
	return s;
}
