/* SPDX-License-Identifier: BSD-2-Clause */
/* mpa/rx.c: FPDUs in pieces, markers, bad CRCs, back-pressure, and hostile lengths. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/rng.h"
#include "base/wire.h"
#include "tests/unit/mpa_kit.h"
#include "tests/unit/unit.h"

static const uint32_t lengths[] = { 0, 1, 2, 3, 4, 5, 42, 500, 0, 508, 509, 600, 1100, 17 };
#define LENGTHS ((int)(sizeof lengths / sizeof *lengths))

static void ref_mix(struct ref *r, bool markers)
{
	ref_init(r, markers, true);
	for (int i = 0; i < LENGTHS; i++)
		ref_noise(r, lengths[i]);
}

static void rx_open(struct mkit *k, const struct ref *r)
{
	mkit_init(k);
	k->attr.rx_markers = r->markers;
	k->attr.crc = r->crc;
	mkit_open(k);
	ref_give(k, r);
}

/* An idle link holds no buffer. */
static void assert_idle(const struct mkit *k)
{
	ck_assert_ptr_null(diw_mpa_of(k->l)->rx_own);
	ck_assert_ptr_null(diw_mpa_of(k->l)->tx_own);
}

START_TEST(rfc_vector)
{
	/* RFC 5044 section 4.4, with the leading marker and without it. */
	uint8_t v[52] = { [5] = 0x2a, [6] = 0x41, [7] = 0x43, [19] = 1 };
	const uint8_t with[4] = { 0x52, 0x23, 0x99, 0x83 }, without[4] = { 0xb7, 0x24, 0x3e, 0xc3 };
	struct mkit k;

	for (int marked = 0; marked < 2; marked++) {
		mkit_init(&k);
		k.attr.rx_markers = marked;
		mkit_open(&k);
		memcpy(v + 48, marked ? with : without, 4);
		k.f->rx = v + (marked ? 0 : 4);
		k.f->nrx = marked ? 52 : 48;
		mkit_poll(&k);
		ck_assert_int_eq(k.n, 1);
		ck_assert_uint_eq(k.len[0], 42);
		ck_assert_int_eq(memcmp(k.got, v + 6, 42), 0);
		assert_idle(&k);
		mkit_close(&k);
	}
}
END_TEST

/* The stream in two pieces, the first of CUT bytes, with a poll between them. */
static void split_at(const struct ref *r, size_t cut)
{
	struct mkit k;

	rx_open(&k, r);
	k.f->nrx = cut;
	mkit_poll(&k);
	k.f->nrx = r->len;
	k.f->eof = true;
	mkit_poll(&k);
	mkit_got(&k, r, r->n);
	ck_assert_int_eq(k.downs, 1);
	ck_assert_uint_eq(k.fault, 0);
	ck_assert_int_eq(k.err, 0);
	ck_assert_uint_eq(k.c.rx_fpdus, (uint64_t)r->n);
	ck_assert_uint_eq(k.c.rx_bytes, r->len);
	assert_idle(&k);
	mkit_close(&k);
}

START_TEST(every_split)
{
	struct ref r;

	ref_mix(&r, _i);
	for (size_t cut = 0; cut <= r.len; cut++)
		split_at(&r, cut);
	ref_fini(&r);
}
END_TEST

START_TEST(every_split_around_a_large_one)
{
	struct ref r;

	ref_init(&r, _i, true);
	ref_noise(&r, 10);
	ref_noise(&r, _i ? 64768 : 65535);
	ref_noise(&r, 20);
	for (size_t cut = 0; cut <= r.len; cut += cut < 40 || cut > r.len - 60 || (cut > 4100 && cut < 4140) ? 1 : 509)
		split_at(&r, cut);
	ref_fini(&r);
}
END_TEST

START_TEST(in_pieces)
{
	static const size_t piece[] = { 1, 2, 3, 5, 7, 64, 511, 513, 4095, 4096, 4097, 70000 };
	struct ref r;

	ref_mix(&r, _i);
	ref_noise(&r, 9000);
	ref_noise(&r, 30000);
	ref_noise(&r, 5);
	for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
		struct mkit k;

		rx_open(&k, &r);
		k.f->piece = piece[i];
		mkit_poll(&k);
		mkit_got(&k, &r, r.n);
		ck_assert_int_eq(k.downs, 0);
		assert_idle(&k);
		mkit_close(&k);
	}
	ref_fini(&r);
}
END_TEST

START_TEST(markers_at_every_offset)
{
	static const uint32_t then[] = { 0, 42, 494, 498, 502, 506, 510, 1500, 6000 };

	/* A first FPDU of 8 + 4 * i octets shifts the others to each position between two markers. */
	for (uint32_t i = 0; i <= 128; i++) {
		struct ref r;
		struct mkit k;

		ref_init(&r, true, true);
		ref_noise(&r, 2 + 4 * i);
		for (size_t j = 0; j < sizeof then / sizeof *then; j++)
			ref_noise(&r, then[j]);
		rx_open(&k, &r);
		mkit_poll(&k);
		mkit_got(&k, &r, r.n);
		ck_assert_int_eq(k.downs, 0);
		mkit_close(&k);
		ref_fini(&r);
	}
}
END_TEST

START_TEST(every_bit_damaged)
{
	struct ref r;
	size_t from, to;

	ref_init(&r, _i, true);
	ref_noise(&r, 40);
	from = r.len;
	ref_noise(&r, 601);
	to = r.len;
	for (int i = 0; i < 4; i++)
		ref_noise(&r, 700);
	for (size_t bit = from * 8; bit < to * 8; bit++) {
		bool length = bit / 8 < from + 2;
		struct mkit k;

		r.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		rx_open(&k, &r);
		k.f->eof = true;
		mkit_poll(&k);
		mkit_got(&k, &r, 1);
		ck_assert_int_eq(k.downs, 1);
		/* if the length reaches beyond the end, the FPDU is never complete */
		if (length && k.fault == DIW_FAULT_MPA_CLOSED)
			ck_assert_uint_eq(k.c.mpa_closed, 1);
		else
			ck_assert_uint_eq(k.fault, DIW_FAULT_MPA_CRC);
		ck_assert_uint_eq(k.c.rx_crc, k.fault == DIW_FAULT_MPA_CRC);
		k.f->rx_at = to;
		mkit_poll(&k);
		ck_assert_int_eq(k.n, 1);
		ck_assert_int_eq(k.downs, 1);
		mkit_close(&k);
		r.p[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ref_fini(&r);
}
END_TEST

/* Changes the marker at AT of an FPDU that ends at END, and corrects its CRC. */
static void set_marker(struct ref *r, size_t from, size_t at, size_t end, uint32_t marker)
{
	diw_put32(r->p + at, marker);
	diw_put32le(r->p + end - 4, mkit_crc32c(r->p + from, end - 4 - from));
}

START_TEST(marker_points_elsewhere)
{
	struct ref r;
	size_t end;

	ref_init(&r, true, true);
	ref_noise(&r, 40);
	ref_noise(&r, 1200);
	end = r.len;
	ref_noise(&r, 40);
	for (size_t at = 0; at <= 1024; at += 512) {
		size_t from = at ? 52 : 0, fpdu_end = at ? end : 52;
		uint32_t right = at ? (uint32_t)(at - 52) : 0;

		for (uint32_t try = 0; try < 4096; try++) {
			uint32_t ptr = try * 4 + try % 4;
			bool good = (ptr & ~3u) == right;
			struct mkit k;

			set_marker(&r, from, at, fpdu_end, 0xabcd0000u | ptr);
			rx_open(&k, &r);
			mkit_poll(&k);
			ck_assert_uint_eq(k.fault, good ? 0 : DIW_FAULT_MPA_MARKER);
			ck_assert_uint_eq(k.c.mpa_marker, !good);
			ck_assert_int_eq(k.n, good ? 3 : at ? 1 : 0);
			mkit_close(&k);
		}
		set_marker(&r, from, at, fpdu_end, right);
	}
	ref_fini(&r);
}
END_TEST

START_TEST(takes_fewer)
{
	static const size_t piece[] = { 1, 100, 1000, 5000, 100000 };
	struct ref r;

	ref_mix(&r, _i);
	ref_noise(&r, 9000);
	for (int i = 0; i < 40; i++)
		ref_noise(&r, (uint32_t)i);
	ref_noise(&r, 30000);
	for (int i = 0; i < LENGTHS; i++)
		ref_noise(&r, lengths[i]);
	for (int many = 1; many < 20; many++) {
		for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
			struct mkit k;
			int recvs;

			rx_open(&k, &r);
			k.f->piece = piece[i];
			k.take = 0;
			while (k.n < r.n) {
				mkit_poll(&k);
				recvs = k.f->recvs;
				mkit_poll(&k);
				ck_assert(k.f->recvs == recvs || k.n == r.n);
				ck_assert_uint_eq(k.c.rx_fpdus, (uint64_t)k.n);
				k.take = many;
			}
			k.f->eof = true;
			mkit_poll(&k);
			mkit_got(&k, &r, r.n);
			ck_assert_int_eq(k.downs, 1);
			ck_assert_uint_eq(k.fault, 0);
			assert_idle(&k);
			mkit_close(&k);
		}
	}
	ref_fini(&r);
}
END_TEST

START_TEST(damage_behind_what_is_not_taken)
{
	struct ref r;
	struct mkit k;

	ref_init(&r, _i, true);
	for (int i = 0; i < 5; i++)
		ref_noise(&r, 100);
	r.p[r.len - 20] ^= 1;
	rx_open(&k, &r);
	for (int i = 0; i < 4; i++) {
		mkit_got(&k, &r, i);
		k.take = 1;
		mkit_poll(&k);
		mkit_poll(&k);
		/* the fault waits until all segments before it have been taken */
		ck_assert_int_eq(k.downs, i == 3);
	}
	ck_assert_uint_eq(k.fault, DIW_FAULT_MPA_CRC);
	mkit_got(&k, &r, 4);
	mkit_close(&k);
	ref_fini(&r);
}
END_TEST

START_TEST(a_full_scratch_is_not_taken)
{
	struct ref r;
	struct mkit k;

	/* A long remainder, then an FPDU's end and a whole scratch buffer behind it, none of which is taken. */
	ref_init(&r, _i, true);
	ref_noise(&r, 60000);
	while (r.len < 2 * DIW_MPA_SCRATCH + 80000)
		ref_noise(&r, (uint32_t)r.len % 1000);
	rx_open(&k, &r);
	k.f->piece = 50000;
	ck_assert_int_eq(k.l->ops->poll(k.l, 1, KIT_NOW), 1);
	k.f->piece = SIZE_MAX;
	k.take = 0;
	mkit_poll(&k);
	ck_assert_uint_gt(k.f->rx_at, DIW_MPA_SCRATCH);
	ck_assert_int_eq(k.n, 0);
	for (int i = 1; k.n < r.n; i++) {
		k.take = i % 50;
		mkit_poll(&k);
	}
	mkit_got(&k, &r, r.n);
	ck_assert_int_eq(k.downs, 0);
	mkit_close(&k);
	ref_fini(&r);
}
END_TEST

START_TEST(early_bytes)
{
	struct ref r;

	ref_mix(&r, _i);
	for (size_t early = 0; early <= r.len; early += 13) {
		struct mkit k;
		uint8_t *p = malloc(early + 1);

		memcpy(p, r.p, early);
		mkit_init(&k);
		k.attr.rx_markers = _i;
		k.attr.early = p;
		k.attr.early_len = (uint32_t)early;
		mkit_open(&k);
		free(p);
		k.f->rx = r.p + early;
		k.f->nrx = r.len - early;
		mkit_poll(&k);
		mkit_got(&k, &r, r.n);
		assert_idle(&k);
		mkit_close(&k);
	}
	ref_fini(&r);
}
END_TEST

START_TEST(end_of_stream)
{
	struct ref r;

	ref_init(&r, false, true);
	ref_noise(&r, 30);
	ref_noise(&r, 6000);
	for (size_t len = 0; len <= r.len; len++) {
		bool between = len == 0 || len == 36 || len == r.len;
		struct mkit k;

		rx_open(&k, &r);
		k.f->nrx = len;
		k.f->eof = true;
		mkit_poll(&k);
		ck_assert_int_eq(k.downs, 1);
		ck_assert_uint_eq(k.fault, between ? 0 : DIW_FAULT_MPA_CLOSED);
		ck_assert_int_eq(k.err, between ? 0 : ECONNRESET);
		ck_assert_uint_eq(k.c.mpa_closed, !between);
		/* the other half can still send */
		ck_assert(mkit_send(&k, mkit_bytes, 100));
		ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
		ck_assert_uint_eq(k.f->ntx, 108);
		ck_assert_int_eq(k.l->ops->poll(k.l, 1, KIT_NOW), 0);
		mkit_close(&k);
	}
	ref_fini(&r);
}
END_TEST

START_TEST(broken_stream)
{
	struct ref r;
	struct mkit k;

	ref_mix(&r, false);
	rx_open(&k, &r);
	k.f->rx_err = ETIMEDOUT;
	mkit_poll(&k);
	mkit_got(&k, &r, r.n);
	ck_assert_int_eq(k.downs, 1);
	ck_assert_uint_eq(k.fault, DIW_FAULT_MPA_CLOSED);
	ck_assert_int_eq(k.err, ETIMEDOUT);
	ck_assert(!mkit_send(&k, mkit_bytes, 100));
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), -ETIMEDOUT);
	mkit_close(&k);
	ref_fini(&r);
}
END_TEST

START_TEST(without_crc)
{
	struct ref r;
	struct mkit k;

	ref_init(&r, _i, false);
	for (int i = 0; i < LENGTHS; i++)
		ref_noise(&r, lengths[i]);
	for (int i = 0; i < 4; i++)
		r.p[r.len - 1 - (size_t)i] = 0x5a;
	rx_open(&k, &r);
	mkit_poll(&k);
	mkit_got(&k, &r, r.n);
	ck_assert_int_eq(k.downs, 0);
	mkit_close(&k);
	ref_fini(&r);
}
END_TEST

/* The peer sends random bytes without CRC: every length is accepted, and no byte is read that is not there. */
/* FPDUs that are received in place, in pieces of many sizes. _i: segments that are taken at a time; 0: all. */
START_TEST(in_place)
{
	static const uint32_t sizes[] = { 14, 65535, 20, 8300, 40000, 0, 41, 60001, 60002, 60003, 300, 9000, 65535 };
	static const size_t pieces[] = { 1000, 4095, 8191, 40001, 65536, 100000, 1000000 };
	struct ref r;

	ref_init(&r, false, false);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		ref_noise(&r, sizes[i]);
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		struct mkit k;

		rx_open(&k, &r);
		k.f->piece = pieces[i];
		k.reaches = -1;
		k.take = _i ? 0 : -1;
		mkit_poll(&k);
		while (_i && k.n < r.n) {
			k.take = _i;
			k.l->ops->poll(k.l, 3, KIT_NOW);
		}
		mkit_got(&k, &r, r.n);
		ck_assert_int_gt(k.reached, i < 6 ? 3 : 0);
		ck_assert_uint_eq(k.c.rx_fpdus, (uint64_t)r.n);
		assert_idle(&k);
		mkit_close(&k);
	}
	ref_fini(&r);
}
END_TEST

/* The place is withdrawn while the FPDU is received: at first the link keeps all of it, later it drops the rest. */
START_TEST(place_withdrawn)
{
	struct ref r;

	ref_init(&r, false, false);
	for (int i = 0; i < 4; i++)
		ref_noise(&r, 60000);
	for (int reaches = 0; reaches < 40; reaches++) {
		struct mkit k;

		rx_open(&k, &r);
		k.f->piece = 5000;
		k.reaches = reaches;
		mkit_poll(&k);
		ck_assert_int_eq(k.n, r.n);
		for (int i = 0; i < r.n; i++)
			ck_assert_uint_eq(k.len[i], 60000);
		ck_assert_int_eq(k.reached, reaches);
		assert_idle(&k);
		mkit_close(&k);
	}
	ref_fini(&r);
}
END_TEST

START_TEST(noise)
{
	static uint8_t bytes[100000];
	struct diw_rng g = { (uint64_t)_i + 1 };

	for (int round = 0; round < 30; round++) {
		struct mkit k;

		for (size_t i = 0; i < sizeof bytes; i++)
			bytes[i] = diw_rng_next(&g) % 3 ? 0 : (uint8_t)diw_rng_next(&g);
		mkit_init(&k);
		k.attr.crc = false;
		k.attr.rx_markers = round % 2;
		mkit_open(&k);
		k.f->rx = bytes;
		k.f->nrx = sizeof bytes;
		k.f->piece = 1 + diw_rng_next(&g) % 9000;
		k.f->eof = true;
		mkit_poll(&k);
		ck_assert_int_eq(k.downs, 1);
		ck_assert_uint_le(k.got_len, sizeof bytes);
		mkit_close(&k);
	}
}
END_TEST

Suite *suite_mpa_rx(void)
{
	Suite *s = suite_create("mpa_rx");
	TCase *t = tcase_create("receive");

	tcase_add_checked_fixture(t, mkit_begin, mkit_end);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, rfc_vector);
	tcase_add_loop_test(t, every_split, 0, 2);
	tcase_add_loop_test(t, every_split_around_a_large_one, 0, 2);
	tcase_add_loop_test(t, in_pieces, 0, 2);
	tcase_add_test(t, markers_at_every_offset);
	tcase_add_loop_test(t, every_bit_damaged, 0, 2);
	tcase_add_test(t, marker_points_elsewhere);
	tcase_add_loop_test(t, takes_fewer, 0, 2);
	tcase_add_loop_test(t, damage_behind_what_is_not_taken, 0, 2);
	tcase_add_loop_test(t, a_full_scratch_is_not_taken, 0, 2);
	tcase_add_loop_test(t, early_bytes, 0, 2);
	tcase_add_test(t, end_of_stream);
	tcase_add_test(t, broken_stream);
	tcase_add_loop_test(t, without_crc, 0, 2);
	tcase_add_loop_test(t, in_place, 0, 3);
	tcase_add_test(t, place_withdrawn);
	tcase_add_loop_test(t, noise, 0, 4);
	suite_add_tcase(s, t);
	return s;
}
