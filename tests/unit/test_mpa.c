/* SPDX-License-Identifier: BSD-2-Clause */
/* The link over a stream: sending. test_mpa_rx.c has the rest. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/rng.h"
#include "tests/unit/mpa_kit.h"
#include "tests/unit/unit.h"

/* All of them together are long enough to be gathered; the last ones alone are not. */
static const uint32_t lengths[] = { 14, 0, 15, 16, 17, 100, 8205, 8206, 40, 8207, 9000, 20000, 0, 8250, 2000, 60000,
	50000, 300 };
#define LENGTHS ((int)(sizeof lengths / sizeof *lengths))
#define LARGE (LENGTHS - 3)          /* index of the two that are a long message by themselves */

static const uint8_t *ulpdu(int i)
{
	return mkit_bytes + i * 97 % 65536;
}

static void tx_open(struct mkit *k, bool markers, bool crc)
{
	mkit_init(k);
	k->attr.tx_markers = markers;
	k->attr.crc = crc;
	mkit_open(k);
}

static void assert_sent(const struct mkit *k, const struct ref *r)
{
	ck_assert_uint_eq(k->f->ntx, r->len);
	ck_assert_int_eq(memcmp(k->f->tx, r->p, r->len), 0);
	ck_assert_uint_eq(k->c.tx_fpdus, (uint64_t)r->n);
	ck_assert_uint_eq(k->c.tx_bytes, r->len);
	ck_assert_ptr_null(diw_mpa_of(k->l)->tx_own);
}

START_TEST(rfc_vector)
{
	/* The RFC's octets 6 to 47; octet 19 is the 1. */
	const uint8_t p[42] = { 0x41, 0x43, [13] = 1 };
	const uint8_t with[4] = { 0x52, 0x23, 0x99, 0x83 }, without[4] = { 0xb7, 0x24, 0x3e, 0xc3 };

	for (int marked = 0; marked < 2; marked++) {
		struct mkit k;
		size_t len = marked ? 52 : 48;

		tx_open(&k, marked, true);
		ck_assert(mkit_send(&k, p, 42));
		ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
		ck_assert_uint_eq(k.f->ntx, len);
		ck_assert_int_eq(memcmp(k.f->tx + len - 4, marked ? with : without, 4), 0);
		mkit_close(&k);
	}
}
END_TEST

/* _i: markers, CRC. */
START_TEST(as_the_rfc_says)
{
	struct ref r;
	struct mkit k;

	ref_init(&r, _i & 1, _i & 2);
	tx_open(&k, _i & 1, _i & 2);
	for (int i = 0; i < LENGTHS; i++) {
		ref_fpdu(&r, ulpdu(i), lengths[i]);
		ck_assert(mkit_send(&k, ulpdu(i), lengths[i]));
	}
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	assert_sent(&k, &r);
	mkit_close(&k);
	ref_fini(&r);
}
END_TEST

START_TEST(markers_at_every_offset)
{
	static const uint32_t then[] = { 0, 42, 494, 498, 502, 506, 510, 1500, 6000 };

	for (uint32_t i = 0; i <= 128; i++) {
		struct ref r;
		struct mkit k;

		ref_init(&r, true, true);
		tx_open(&k, true, true);
		ref_fpdu(&r, ulpdu(0), 2 + 4 * i);
		ck_assert(mkit_send(&k, ulpdu(0), 2 + 4 * i));
		for (size_t j = 0; j < sizeof then / sizeof *then; j++) {
			ref_fpdu(&r, ulpdu((int)j), then[j]);
			ck_assert(mkit_send(&k, ulpdu((int)j), then[j]));
		}
		ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
		assert_sent(&k, &r);
		mkit_close(&k);
		ref_fini(&r);
	}
}
END_TEST

START_TEST(the_largest)
{
	for (int markers = 0; markers < 2; markers++) {
		struct ref r;
		struct mkit k;

		ref_init(&r, markers, true);
		tx_open(&k, markers, true);
		ck_assert_uint_eq(k.l->ops->mulpdu(k.l, NULL), markers ? 64768 : 65535);
		for (int i = 0; i < 3; i++) {
			ref_fpdu(&r, ulpdu(i), k.l->ops->mulpdu(k.l, NULL));
			ck_assert(mkit_send(&k, ulpdu(i), k.l->ops->mulpdu(k.l, NULL)));
		}
		ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
		assert_sent(&k, &r);
		mkit_close(&k);
		ref_fini(&r);
	}
}
END_TEST

/* A burst of small and large segments, of which several are offered at once. */
static int offer(struct mkit *k, int from, int to)
{
	static uint8_t hdr[LENGTHS][DIW_LINK_MAX_HDR];
	struct diw_link_seg segs[LENGTHS];
	struct iovec iov[LENGTHS];
	int n = 0;

	for (int i = from; i < to; i++, n++) {
		uint32_t h = lengths[i] < 14 ? lengths[i] : 14;

		memcpy(hdr[n], ulpdu(i), h);
		iov[n] = (struct iovec){ (void *)(ulpdu(i) + h), lengths[i] - h };
		segs[n] = (struct diw_link_seg){ .hdr = hdr[n], .hdr_len = h, .len = lengths[i] - h, .iov = &iov[n] };
	}
	n = k->l->ops->send(k->l, NULL, segs, n, KIT_NOW);
	memset(hdr, 0xee, sizeof hdr);           /* it is not borrowed any more */
	return n;
}

/* The stream takes ROOM bytes, then STEP more at a time. */
static void send_blocked(const struct ref *r, bool markers, size_t room, size_t step)
{
	struct mkit k;
	int at = 0;

	tx_open(&k, markers, true);
	k.f->room = room;
	for (int i = 0; k.f->ntx < r->len; i++) {
		if (at < LENGTHS)
			at += offer(&k, at, LENGTHS);
		if (k.l->ops->flush(k.l, KIT_NOW) == 0 && at < LENGTHS)
			ck_assert_ptr_null(diw_mpa_of(k.l)->tx_own);
		k.f->room += step;
	}
	ck_assert_int_eq(at, LENGTHS);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	assert_sent(&k, r);
	mkit_close(&k);
}

/* At every byte near the ends of an FPDU, and at some within. */
START_TEST(blocked_at_every_byte)
{
	struct ref r;
	size_t from = 0;

	ref_init(&r, _i, true);
	for (int i = 0; i < LENGTHS; i++)
		ref_fpdu(&r, ulpdu(i), lengths[i]);
	for (int i = 0; i < LENGTHS; i++) {
		size_t to = from + diw_fpdu_bare(lengths[i]);

		for (size_t room = from; room < to; room += room < from + 40 || room + 40 > to ? 1 : 97)
			send_blocked(&r, _i, room, r.len);
		from = to + (_i ? 4 * diw_fpdu_markers((uint32_t)from, (uint32_t)(to - from)) : 0);
	}
	ck_assert_uint_eq(from, r.len);
	send_blocked(&r, _i, 0, 1);
	for (size_t step = 10; step < r.len; step = step * 5 / 4)
		send_blocked(&r, _i, 0, step);
	ref_fini(&r);
}
END_TEST

/* Messages whose payload stays until flush, some of two segments that are offered at once. */
static const uint32_t staying[] = { 300, 20000, 40, 17000, 16398, 60000, 60000, 60000, 65535, 9000, 20001, 0, 60000,
	30000, 15, 40000 };
#define STAYING ((int)(sizeof staying / sizeof *staying))

static uint8_t stays_at[STAYING][65536];

/* Offers as many as are taken, from memory that holds nothing else. Returns the index of the first one not taken. */
static int offer_staying(struct mkit *k, int at)
{
	while (at < STAYING) {
		int n = at + 1 < STAYING && staying[at] == 60000 && staying[at + 1] == 60000 ? 2 : 1, taken;
		struct diw_link_seg segs[2];
		struct iovec iov[2];

		for (int i = 0; i < n; i++) {
			uint32_t len = staying[at + i], h = len < 14 ? len : 14;
			uint8_t *p = memcpy(stays_at[at + i], ulpdu(at + i), len);

			iov[i] = (struct iovec){ p + h, len - h };
			segs[i] = (struct diw_link_seg){ .hdr = p, .hdr_len = h, .len = len - h, .iov = &iov[i] };
		}
		taken = k->l->ops->send(k->l, NULL, segs, n, KIT_NOW);
		at += taken;
		if (taken < n)
			break;
	}
	return at;
}

/* After flush the memory is the caller's again, however little the stream has taken. */
static void send_staying(const struct ref *r, size_t room, size_t step)
{
	struct mkit k;
	bool all;
	int at = 0;

	tx_open(&k, false, true);
	k.l->stays = true;
	k.f->room = room;
	while (k.f->ntx < r->len) {
		at = offer_staying(&k, at);
		ck_assert_uint_eq(k.l->taken, (uint32_t)at);
		all = k.l->ops->flush(k.l, KIT_NOW) == 0;
		ck_assert_uint_le(k.l->left, (uint32_t)at);
		ck_assert_int_eq(k.l->left == (uint32_t)at, all);
		for (int i = 0; i < at; i++)
			memset(stays_at[i], 0xee, staying[i]);
		k.f->room += step;
	}
	ck_assert_int_eq(at, STAYING);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	assert_sent(&k, r);
	mkit_close(&k);
}

START_TEST(payload_that_stays)
{
	struct ref r;
	struct mkit k;

	ref_init(&r, false, true);
	for (int i = 0; i < STAYING; i++)
		ref_fpdu(&r, ulpdu(i), staying[i]);
	send_staying(&r, r.len, 0);
	for (size_t step = 100; step < r.len; step = step * 5 / 4)
		send_staying(&r, step / 3, step);
	ref_fini(&r);

	tx_open(&k, false, true);
	k.l->stays = true;
	memset(stays_at, 0x11, sizeof stays_at);
	ck_assert(mkit_send(&k, stays_at[0], 20000));
	ck_assert(mkit_send(&k, stays_at[1], 20000));
	ck_assert_uint_eq(k.f->ntx, 0);
	ck_assert_uint_eq(k.l->taken - k.l->left, 2);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	ck_assert_uint_eq(k.l->taken - k.l->left, 0);
	ck_assert_uint_eq(k.c.tx_bursts, 1);
	/* Long messages share writes as well. The first one of a run has up to 128 KiB, each further one twice as
	 * many: 120,000 octets, some 245,000, the last message. */
	ck_assert_int_eq(offer_staying(&k, 5), STAYING);
	ck_assert_uint_eq(k.c.tx_bursts, 3);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	ck_assert_uint_eq(k.c.tx_bursts, 4);
	mkit_close(&k);
}
END_TEST

/* Memory that is changed before flush: the FPDU has its length and a wrong CRC, and FPDUs of other links are intact. */
START_TEST(payload_that_is_changed)
{
	static uint8_t changed[20000];
	struct ref r[2];
	struct mkit k[2];

	for (int i = 0; i < 2; i++) {
		ref_init(&r[i], false, true);
		tx_open(&k[i], false, true);
		k[i].l->stays = true;
		ref_fpdu(&r[i], changed, sizeof changed);
		ck_assert(mkit_send(&k[i], changed, sizeof changed));
		changed[10000] ^= (uint8_t)(i ? 0 : 1);
	}
	ck_assert_int_eq(k[1].l->ops->flush(k[1].l, KIT_NOW), 0);
	r[0].p[DIW_MPA_LEN + 10000] ^= 1;
	for (int i = 0; i < 2; i++) {
		assert_sent(&k[i], &r[i]);
		mkit_close(&k[i]);
		ref_fini(&r[i]);
	}
}
END_TEST

START_TEST(small_ones_leave_together)
{
	struct mkit k;

	tx_open(&k, false, true);
	for (int i = 0; i < 100; i++)
		ck_assert(mkit_send(&k, ulpdu(i), 80));
	ck_assert_uint_eq(k.f->ntx, 0);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	ck_assert_int_eq(k.f->sends, 1);
	ck_assert_uint_eq(k.c.tx_bursts, 1);
	ck_assert_uint_eq(k.f->ntx, 100 * 88);
	/* A message of 30,000 octets waits with them. */
	ck_assert(mkit_send(&k, ulpdu(0), 80));
	ck_assert(mkit_send(&k, ulpdu(0), 30000));
	ck_assert_int_eq(k.f->sends, 1);
	/* A long message takes the staged ones along. Its large segments have left when send returns. */
	ck_assert_int_eq(offer(&k, LARGE, LENGTHS - 1), LENGTHS - 1 - LARGE);
	ck_assert_int_eq(k.f->sends, 2);
	ck_assert_uint_eq(k.f->ntx, 101 * 88 + 30008 + 60008 + 50008);
	mkit_close(&k);
}
END_TEST

START_TEST(packed)
{
	struct mkit k;

	mkit_init(&k);
	k.attr.packed = true;
	k.attr.mulpdu = 9000;
	mkit_open(&k);
	ck_assert(k.f->s.apart);
	for (int i = 0; i < LENGTHS; i++) {
		size_t before = k.f->ntx;

		ck_assert(mkit_send(&k, ulpdu(i), lengths[i]));
		ck_assert_int_eq(k.f->sends, i + 1);
		ck_assert_uint_eq(k.f->ntx - before, diw_fpdu_bare(lengths[i]));
	}
	mkit_close(&k);
}
END_TEST

/* RFC 5044 section 5.1: wherever an FPDU begins, it fits the segment. */
START_TEST(packed_mulpdu)
{
	for (uint32_t emss = 536; emss < 9100; emss += 7) {
		uint32_t plain = emss - (6 + emss % 4), marked = emss - (6 + 4 * ((emss + 511) / 512) + emss % 4);

		for (int markers = 0; markers < 2; markers++) {
			struct mkit k;
			uint32_t mulpdu;

			mkit_init(&k);
			k.f->emss = emss;
			k.attr.packed = true;
			k.attr.tx_markers = markers;
			mkit_open(&k);
			mulpdu = k.l->ops->mulpdu(k.l, NULL);
			ck_assert_uint_eq(mulpdu, markers ? marked : plain);
			for (uint32_t pos = 0; markers && pos < 512; pos += 4) {
				uint32_t bare = diw_fpdu_bare(mulpdu);

				ck_assert_uint_le(bare + 4 * diw_fpdu_markers(pos, bare), emss);
			}
			mkit_close(&k);
		}
	}
}
END_TEST

START_TEST(mulpdu_as_set)
{
	struct diw_link *l;
	struct mkit k;

	mkit_init(&k);
	k.attr.mulpdu = DIW_LINK_MAX_HDR;
	ck_assert_int_eq(diw_mpa_open(&k.attr, NULL, NULL, &l), -EINVAL);
	ck_assert_int_eq(k.f->closed, 0);
	k.attr.mulpdu = 1000;
	mkit_open(&k);
	ck_assert_uint_eq(k.l->ops->mulpdu(k.l, NULL), 1000);
	k.f->emss = 100;
	k.attr.packed = true;
	ck_assert(k.l->ops->deadline(k.l) == DIW_NEVER);
	mkit_close(&k);
	mkit_init(&k);
	k.attr.mulpdu = 100000;
	mkit_open(&k);
	ck_assert_uint_eq(k.l->ops->mulpdu(k.l, NULL), 65535);
	mkit_close(&k);
}
END_TEST

START_TEST(an_empty_one)
{
	const uint8_t wire[8] = { 0 };
	struct mkit k;
	struct ref r;

	ref_init(&r, false, true);
	ref_fpdu(&r, wire, 0);
	tx_open(&k, false, true);
	ck_assert_int_eq(diw_mpa_send_empty(k.l, KIT_NOW), 0);
	ck_assert_uint_eq(k.f->ntx, 0);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	assert_sent(&k, &r);
	k.f->room = 3;
	ck_assert_int_eq(diw_mpa_send_empty(k.l, KIT_NOW), 0);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), -EAGAIN);
	ck_assert_int_eq(diw_mpa_send_empty(k.l, KIT_NOW), -EAGAIN);
	mkit_close(&k);
	ref_fini(&r);
}
END_TEST

START_TEST(links_share_a_stage)
{
	struct ref a, b;
	struct mkit k[2];

	ref_init(&a, false, true);
	ref_init(&b, false, true);
	tx_open(&k[0], false, true);
	tx_open(&k[1], false, true);
	k[0].f->room = 50;
	for (int i = 0; i < 20; i++) {
		uint32_t len = i == 11 ? 10000 : 20;

		ref_fpdu(i & 1 ? &b : &a, ulpdu(i), len);
		k[0].f->room += 1000;
		ck_assert(mkit_send(&k[i & 1], ulpdu(i), len));
	}
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(k[i].l->ops->flush(k[i].l, KIT_NOW), 0);
	assert_sent(&k[0], &a);
	assert_sent(&k[1], &b);
	/* Bytes that a closed link had staged are not sent by another link. */
	ck_assert(mkit_send(&k[0], ulpdu(1), 500));
	mkit_close(&k[0]);
	ref_fpdu(&b, ulpdu(2), 600);
	ck_assert(mkit_send(&k[1], ulpdu(2), 600));
	ck_assert_int_eq(k[1].l->ops->flush(k[1].l, KIT_NOW), 0);
	assert_sent(&k[1], &b);
	mkit_close(&k[1]);
	ref_fini(&a);
	ref_fini(&b);
}
END_TEST

START_TEST(a_dead_stream)
{
	struct ref r;
	struct mkit k;

	ref_init(&r, false, true);
	ref_noise(&r, 100);
	tx_open(&k, false, true);
	ref_give(&k, &r);
	k.f->tx_err = EPIPE;
	ck_assert(mkit_send(&k, ulpdu(0), 100));
	ck_assert_int_eq(offer(&k, LARGE, LENGTHS), 0);
	ck_assert(!mkit_send(&k, ulpdu(0), 100));
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), -ECONNRESET);
	ck_assert_int_eq(k.downs, 0);
	/* Bytes that came before are still received. */
	mkit_poll(&k);
	mkit_got(&k, &r, 1);
	ck_assert_int_eq(k.downs, 1);
	ck_assert_uint_eq(k.fault, DIW_FAULT_MPA_CLOSED);
	ck_assert_int_eq(k.err, ECONNRESET);
	mkit_close(&k);
	ck_assert_int_eq(r.n, 1);
	ref_fini(&r);
}
END_TEST

/* _i: which of both halves end. Only a stream whose peer will not see the end is reset. */
START_TEST(ends)
{
	bool shut = _i & 1, eof = _i & 2, blocked = _i & 4;
	struct fake_stream f;
	struct mkit k;

	tx_open(&k, false, true);
	k.f->eof = eof;
	k.f->room = blocked ? 20 : SIZE_MAX;
	ck_assert(mkit_send(&k, ulpdu(0), 100));
	if (shut)
		k.l->ops->shutdown(k.l, KIT_NOW);
	else
		k.l->ops->flush(k.l, KIT_NOW);
	ck_assert_uint_eq(k.f->ntx, blocked ? 20 : 108);
	ck_assert_int_eq(k.f->shut, shut && !blocked);
	ck_assert_int_eq(mkit_send(&k, ulpdu(0), 100), !shut && !blocked);
	mkit_poll(&k);
	ck_assert_int_eq(k.downs, eof);
	/* close() frees nothing of the fake, which is checked before mkit_close(). */
	k.l->ops->close(k.l);
	f = *k.f;
	ck_assert_int_eq(f.aborted, !(shut && !blocked));
	fake_stream_free(k.f);
}
END_TEST

START_TEST(ends_behind_what_is_blocked)
{
	struct mkit k;

	tx_open(&k, false, true);
	k.f->room = 20;
	ck_assert(mkit_send(&k, ulpdu(0), 100));
	k.l->ops->shutdown(k.l, KIT_NOW);
	ck_assert_int_eq(k.f->shut, 0);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), -EAGAIN);
	k.f->room = 1000;
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	ck_assert_int_eq(k.l->ops->flush(k.l, KIT_NOW), 0);
	ck_assert_uint_eq(k.f->ntx, 108);
	ck_assert_int_eq(k.f->shut, 1);
	mkit_close(&k);
}
END_TEST

/* The bytes of one link are fed to the other, all random. */
START_TEST(there_and_back)
{
	struct diw_rng g = { (uint64_t)_i + 1 };
	struct mkit a, b;
	struct ref r;

	ref_init(&r, false, false);
	tx_open(&a, _i & 1, _i & 2);
	mkit_init(&b);
	b.attr.rx_markers = _i & 1;
	b.attr.crc = _i & 2;
	mkit_open(&b);
	for (int i = 0; i < 3000; i++) {
		uint32_t len = diw_rng_next(&g) % 10 ? (uint32_t)diw_rng_next(&g) % 300 :
							(uint32_t)diw_rng_next(&g) % 64000;

		a.f->room = diw_rng_next(&g) % 3 ? a.f->room + 300 : diw_rng_next(&g) % 40000;
		if (mkit_send(&a, mkit_bytes + r.n * 97 % 65536, len))
			ref_noise(&r, len);
		if (diw_rng_next(&g) % 4 == 0)
			a.l->ops->flush(a.l, KIT_NOW);
		b.f->rx = a.f->tx;
		b.f->nrx = a.f->ntx;
		b.f->piece = 1 + diw_rng_next(&g) % 100000;
		b.take = (int)(diw_rng_next(&g) % 8) - 1;
		b.l->ops->poll(b.l, 2, KIT_NOW);
	}
	a.f->room = SIZE_MAX;
	ck_assert_int_eq(a.l->ops->flush(a.l, KIT_NOW), 0);
	b.f->rx = a.f->tx;
	b.f->nrx = a.f->ntx;
	b.take = -1;
	mkit_poll(&b);
	ck_assert_int_gt(r.n, 500);
	mkit_got(&b, &r, r.n);
	ck_assert_int_eq(b.downs, 0);
	mkit_close(&a);
	mkit_close(&b);
	ref_fini(&r);
}
END_TEST

Suite *suite_mpa(void)
{
	Suite *s = suite_create("mpa");
	TCase *t = tcase_create("send");

	tcase_add_checked_fixture(t, mkit_begin, mkit_end);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, rfc_vector);
	tcase_add_loop_test(t, as_the_rfc_says, 0, 4);
	tcase_add_test(t, markers_at_every_offset);
	tcase_add_test(t, the_largest);
	tcase_add_loop_test(t, blocked_at_every_byte, 0, 2);
	tcase_add_test(t, payload_that_stays);
	tcase_add_test(t, payload_that_is_changed);
	tcase_add_test(t, small_ones_leave_together);
	tcase_add_test(t, packed);
	tcase_add_test(t, packed_mulpdu);
	tcase_add_test(t, mulpdu_as_set);
	tcase_add_test(t, an_empty_one);
	tcase_add_test(t, links_share_a_stage);
	tcase_add_test(t, a_dead_stream);
	tcase_add_loop_test(t, ends, 0, 8);
	tcase_add_test(t, ends_behind_what_is_blocked);
	tcase_add_loop_test(t, there_and_back, 0, 8);
	suite_add_tcase(s, t);
	return s;
}
