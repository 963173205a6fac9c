/* SPDX-License-Identifier: BSD-2-Clause */
/* An MPA link over a fake stream, and an FPDU encoder that shares no code with mpa/. */
#include "tests/unit/mpa_kit.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/wire.h"

#define HDR 14u

uint8_t mkit_bytes[1 << 18];
struct diw_mpa_pool *mkit_pool;

/* P, which holds USED bytes, with room for MORE. Sizes are powers of two, so P is seldom reallocated. */
static void *grown(void *p, size_t used, size_t more)
{
	size_t room = 256, need = used + more + 1;

	while (room < need)
		room *= 2;
	return p && room / 2 < used ? p : realloc(p, room);
}

/* ---- The link and its upper layer ---- */

static int up_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct mkit *k = ctx;
	int i;

	ck_assert_uint_eq(now, KIT_NOW);
	ck_assert_int_ge(n, 1);
	ck_assert(diw_addr_eq(src, &k->f->s.peer));
	ck_assert_int_eq(k->downs, 0);
	k->calls++;
	for (i = 0; i < n && k->take; i++) {
		k->got = grown(k->got, k->got_len, segs[i].len);
		k->len = grown(k->len, (size_t)k->n * sizeof *k->len, sizeof *k->len);
		memcpy(k->got + k->got_len, segs[i].data, segs[i].len - segs[i].placed);
		if (segs[i].placed)
			memcpy(k->got + k->got_len + segs[i].len - segs[i].placed,
			       k->place + segs[i].len - segs[i].placed, segs[i].placed);
		k->got_len += segs[i].len;
		k->len[k->n++] = segs[i].len;
		if (k->take > 0)
			k->take--;
	}
	return i;
}

/* Gives a place in two parts, if the octets are more than one. */
static int up_reach(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *seg, uint32_t from,
		    struct iovec *iov, uint64_t now)
{
	struct mkit *k = ctx;
	uint32_t half = (seg->len - from) / 2;

	ck_assert_uint_eq(now, KIT_NOW);
	ck_assert(diw_addr_eq(src, &k->f->s.peer));
	ck_assert_uint_ge(from, DIW_LINK_MAX_HDR);
	ck_assert_uint_lt(from, seg->len);
	if (k->reaches == 0)
		return 0;
	k->reaches--;
	k->reached++;
	if (!k->place)
		k->place = malloc(DIW_MPA_MAX_ULPDU);
	iov[0] = (struct iovec){ k->place + from, half };
	iov[1] = (struct iovec){ k->place + from + half, seg->len - from - half };
	return 2;
}

static void up_down(void *ctx, uint16_t fault, int errnum, uint64_t now)
{
	struct mkit *k = ctx;

	ck_assert_uint_eq(now, KIT_NOW);
	k->downs++;
	k->fault = fault;
	k->err = errnum;
}

static const struct diw_link_up up = { .rx = up_rx, .reach = up_reach, .down = up_down };

void mkit_begin(void)
{
	struct diw_rng r = { 5 };

	for (size_t i = 0; i < sizeof mkit_bytes; i++)
		mkit_bytes[i] = (uint8_t)diw_rng_next(&r);
	ck_assert_int_eq(diw_mpa_pool_new(&mkit_pool), 0);
}

void mkit_end(void)
{
	diw_mpa_pool_free(mkit_pool);
}

void mkit_init(struct mkit *k)
{
	memset(k, 0, sizeof *k);
	k->f = fake_stream_new();
	k->take = -1;
	k->attr = (struct diw_mpa_attr){ .stream = &k->f->s, .pool = mkit_pool, .c = &k->c, .crc = true };
}

void mkit_open(struct mkit *k)
{
	ck_assert_int_eq(diw_mpa_open(&k->attr, &up, k, &k->l), 0);
	ck_assert(k->l->ordered);
}

void mkit_close(struct mkit *k)
{
	k->l->ops->close(k->l);
	ck_assert_int_eq(k->f->closed, 1);
	fake_stream_free(k->f);
	free(k->got);
	free(k->len);
	free(k->place);
}

bool mkit_send(struct mkit *k, const uint8_t *ulpdu, uint32_t len)
{
	uint32_t hdr = len < HDR ? len : HDR, third = (len - hdr) / 3;
	const uint8_t *p = ulpdu + hdr;
	/* Bytes before the payload, an empty piece, and pieces of different lengths. */
	const struct iovec iov[4] = { { (void *)(p - (hdr ? 1 : 0)), third + (hdr ? 1 : 0) }, { NULL, 0 },
				      { (void *)(p + third), 2 * third }, { (void *)(p + 3 * third), len } };
	const struct diw_link_seg g = { .hdr = ulpdu, .hdr_len = hdr, .len = len - hdr, .iov = iov,
					.off = hdr ? 1 : 0 };

	return k->l->ops->send(k->l, NULL, &g, 1, KIT_NOW) == 1;
}

void mkit_poll(struct mkit *k)
{
	int n, before;

	do {
		before = k->calls + k->downs;
		n = k->l->ops->poll(k->l, 3, KIT_NOW);
		ck_assert_int_le(n, 3);
	} while (n || (k->calls + k->downs != before && k->take));
}

void mkit_got(const struct mkit *k, const struct ref *r, int n)
{
	size_t bytes = 0;

	ck_assert_int_eq(k->n, n);
	for (int i = 0; i < n; i++) {
		ck_assert_uint_eq(k->len[i], r->ulpdu_len[i]);
		bytes += r->ulpdu_len[i];
	}
	ck_assert_uint_eq(k->got_len, bytes);
	ck_assert(!bytes || memcmp(k->got, r->ulpdus, bytes) == 0);
}

/* ---- An independent implementation ---- */

/* Bit by bit. */
uint32_t mkit_crc32c(const uint8_t *p, size_t len)
{
	uint32_t crc = ~0u;

	while (len--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

void ref_init(struct ref *r, bool markers, bool crc)
{
	memset(r, 0, sizeof *r);
	r->markers = markers;
	r->crc = crc;
}

void ref_fini(struct ref *r)
{
	free(r->p);
	free(r->ulpdus);
	free(r->ulpdu_len);
}

static void raw(struct ref *r, uint8_t b)
{
	if (r->len == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 4096;
		r->p = realloc(r->p, r->cap);
	}
	r->p[r->len++] = b;
}

static void marker(struct ref *r, size_t pointer)
{
	raw(r, 0);
	raw(r, 0);
	raw(r, (uint8_t)(pointer >> 8));
	raw(r, (uint8_t)pointer);
}

static void octet(struct ref *r, uint8_t b)
{
	if (r->markers && r->len % 512 == 0)
		marker(r, r->len - r->start);
	raw(r, b);
}

void ref_fpdu(struct ref *r, const uint8_t *ulpdu, uint32_t len)
{
	size_t from = r->len;
	uint32_t crc;

	if (r->markers && r->len % 512 == 0)
		marker(r, 0);
	r->start = r->len;
	raw(r, (uint8_t)(len >> 8));
	raw(r, (uint8_t)len);
	for (uint32_t i = 0; i < len; i++)
		octet(r, ulpdu[i]);
	while (r->len % 4)
		octet(r, 0);
	if (r->markers && r->len % 512 == 0)
		marker(r, r->len - r->start);
	crc = r->crc ? mkit_crc32c(r->p + from, r->len - from) : 0;
	for (int i = 0; i < 4; i++)
		raw(r, (uint8_t)(crc >> 8 * i));
	r->ulpdus = grown(r->ulpdus, r->ulpdus_len, len);
	r->ulpdu_len = grown(r->ulpdu_len, (size_t)r->n * sizeof *r->ulpdu_len, sizeof *r->ulpdu_len);
	memcpy(r->ulpdus + r->ulpdus_len, ulpdu, len);
	r->ulpdus_len += len;
	r->ulpdu_len[r->n++] = len;
}

void ref_noise(struct ref *r, uint32_t len)
{
	ref_fpdu(r, mkit_bytes + (uint32_t)(r->n * 97) % 65536, len);
}

void ref_give(struct mkit *k, const struct ref *r)
{
	k->f->rx = r->p;
	k->f->nrx = r->len;
}
