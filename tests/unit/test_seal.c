/* SPDX-License-Identifier: BSD-2-Clause */
/* llp/seal.c: super-buffers, CRC-32, and segments that the upper layer does not take. */
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/rng.h"
#include "base/wire.h"
#include "llp/link.h"
#include "tests/unit/fake_dgram.h"
#include "tests/unit/unit.h"

#define HDR 32u
#define OVER (HDR + 4u)
#define MAX_SEGS 8192

/* One side of a test: the segments given in, or those that came out. */
struct log {
	struct { struct diw_addr peer; uint32_t len; uint8_t *data; } s[MAX_SEGS];
	int n;
};

static struct fake *f;
static struct diw_link *l;
static struct log given, got;
static int rx_calls, rx_most, rx_room;       /* room: segments that are taken */
static uint8_t pattern[1 << 17];

static void log_add(struct log *g, const struct diw_addr *peer, const void *a, uint32_t alen, const void *b,
		    uint32_t blen)
{
	ck_assert_int_lt(g->n, MAX_SEGS);
	g->s[g->n].peer = *peer;
	g->s[g->n].len = alen + blen;
	g->s[g->n].data = malloc(alen + blen + 1);
	memcpy(g->s[g->n].data, a, alen);
	memcpy(g->s[g->n].data + alen, b, blen);
	g->n++;
}

static void log_clear(struct log *g)
{
	while (g->n)
		free(g->s[--g->n].data);
}

static int up_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	ck_assert_ptr_eq(ctx, &got);
	ck_assert_uint_eq(now, 77);
	ck_assert_int_ge(n, 1);
	rx_calls++;
	rx_most = n > rx_most ? n : rx_most;
	n = n < rx_room ? n : rx_room;
	for (int i = 0; i < n; i++)
		log_add(&got, src, segs[i].data, segs[i].len, "", 0);
	rx_room -= n;
	return n;
}

static const struct diw_link_up up = { .rx = up_rx };

static void setup(void)
{
	struct diw_rng r = { 3 };

	for (size_t i = 0; i < sizeof pattern; i++)
		pattern[i] = (uint8_t)diw_rng_next(&r);
	f = fake_new();
	ck_assert_int_eq(diw_seal_open(&f->d, 0, &up, &got, &l), 0);
	rx_calls = rx_most = 0;
	rx_room = MAX_SEGS;
}

static void teardown(void)
{
	l->ops->close(l);
	ck_assert_int_eq(f->closed, 1);
	fake_free(f);
	log_clear(&given);
	log_clear(&got);
}

/* Sends COUNT segments of PAYLOAD bytes each. Returns how many were taken; those are in `given`. */
static int send_n(const struct diw_addr *dst, uint32_t payload, int count)
{
	static uint32_t serial;
	int taken = 0;

	for (int i = 0; i < count; i++) {
		uint8_t hdr[HDR] = { 0x01 };
		uint32_t at = serial * 13 % 1000;
		struct iovec iov[3] = { { pattern + at, 5 }, { pattern + at + 5, payload / 2 + 4 },
					{ pattern + at + 9 + payload / 2, payload } };
		struct diw_link_seg seg = { .hdr = hdr, .hdr_len = HDR, .len = payload, .iov = iov, .off = 3 };

		diw_put32(hdr + 4, serial++);
		if (l->ops->send(l, &(struct diw_dest){ .addr = *dst }, &seg, 1, 1) != 1)
			return taken;
		log_add(&given, dst, hdr, HDR, pattern + at + 3, payload);
		taken++;
	}
	return taken;
}

/* Splits everything that the fake got into `got`, and checks each CRC by zlib. */
static void collect(void)
{
	log_clear(&got);
	for (int i = 0; i < f->ntx; i++) {
		const struct fake_burst *b = &f->tx[i];

		ck_assert_uint_le(b->len, b->seg == b->len ? DIW_DGRAM_MAX : DIW_DGRAM_MAX_BURST);
		ck_assert_uint_le((b->len + b->seg - 1) / b->seg, DIW_DGRAM_MAX_SEGS);
		for (uint32_t at = 0; at < b->len; at += b->seg) {
			uint32_t len = b->len - at < b->seg ? b->len - at : b->seg;
			const uint8_t *p = b->data + at;

			ck_assert_uint_gt(len, 4);
			ck_assert_uint_eq(diw_get32le(p + len - 4), crc32(0, p, len - 4));
			log_add(&got, &b->peer.addr, p, len - 4, "", 0);
		}
	}
}

static void same(void)
{
	ck_assert_int_eq(got.n, given.n);
	for (int i = 0; i < got.n; i++) {
		ck_assert(diw_addr_eq(&got.s[i].peer, &given.s[i].peer));
		ck_assert_uint_eq(got.s[i].len, given.s[i].len);
		ck_assert_mem_eq(got.s[i].data, given.s[i].data, got.s[i].len);
	}
}

START_TEST(exact_bytes)
{
	static const uint8_t hdr[4] = { '1', '2', '3', '4' }, body[] = "xx56789yy";
	/* CRC-32 of "123456789" is cbf43926; low-order byte first. */
	static const uint8_t wire[] = { '1', '2', '3', '4', '5', '6', '7', '8', '9', 0x26, 0x39, 0xf4, 0xcb };
	struct iovec iov[2] = { { (void *)body, 4 }, { (void *)(body + 4), 5 } };
	struct diw_link_seg seg = { .hdr = hdr, .hdr_len = 4, .len = 5, .iov = iov, .off = 2 };
	struct diw_addr a = fake_addr(9, 5);

	ck_assert_int_eq(l->ops->send(l, &(struct diw_dest){ .addr = a }, &seg, 1, 5), 1);
	ck_assert_int_eq(f->ntx, 0);
	ck_assert_int_eq(l->ops->flush(l, 6), 0);
	ck_assert_int_eq(f->ntx, 1);
	ck_assert(diw_addr_eq(&f->tx[0].peer.addr, &a));
	ck_assert_uint_eq(f->tx[0].now, 6);
	ck_assert_uint_eq(f->tx[0].len, sizeof wire);
	ck_assert_uint_eq(f->tx[0].seg, sizeof wire);
	ck_assert_mem_eq(f->tx[0].data, wire, sizeof wire);
	ck_assert_int_eq(l->ops->flush(l, 7), 0);
	ck_assert_int_eq(f->ntx, 1);
}
END_TEST

START_TEST(messages_coalesce_until_flush)
{
	struct diw_addr a = fake_addr(9, 5);

	ck_assert_int_eq(send_n(&a, 64, 50), 50);
	ck_assert_int_eq(f->ntx, 0);
	ck_assert_int_eq(l->ops->flush(l, 1), 0);
	ck_assert_int_eq(f->ntx, 1);
	ck_assert_uint_eq(f->tx[0].len, 50 * (64 + OVER));
	ck_assert_uint_eq(f->tx[0].seg, 64 + OVER);
	ck_assert_int_eq(f->tx[0].niov, 1);
	collect();
	same();
}
END_TEST

START_TEST(another_destination_sends_first)
{
	struct diw_addr a = fake_addr(9, 5), b = fake_addr(9, 6);

	send_n(&a, 64, 3);
	send_n(&b, 64, 2);
	ck_assert_int_eq(f->ntx, 1);
	ck_assert(diw_addr_eq(&f->tx[0].peer.addr, &a));
	send_n(&a, 64, 1);
	l->ops->flush(l, 1);
	ck_assert_int_eq(f->ntx, 3);
	ck_assert_uint_eq(f->tx[1].len, 2 * (64 + OVER));
	collect();
	same();
}
END_TEST

START_TEST(sizes_open_and_close)
{
	struct diw_addr a = fake_addr(9, 5);

	send_n(&a, 100, 2);
	send_n(&a, 101, 1);          /* larger: the open super-buffer leaves first */
	ck_assert_int_eq(f->ntx, 1);
	ck_assert_uint_eq(f->tx[0].len, 2 * (100 + OVER));
	send_n(&a, 101, 1);
	ck_assert_int_eq(f->ntx, 1);
	send_n(&a, 100, 1);          /* shorter: its last datagram */
	send_n(&a, 100, 1);          /* cannot follow a shorter one */
	ck_assert_int_eq(f->ntx, 2);
	ck_assert_uint_eq(f->tx[1].len, 2 * (101 + OVER) + 100 + OVER);
	ck_assert_uint_eq(f->tx[1].seg, 101 + OVER);
	send_n(&a, 0, 1);
	l->ops->flush(l, 1);
	ck_assert_int_eq(f->ntx, 3);
	ck_assert_uint_eq(f->tx[2].len, 100 + OVER + OVER);
	collect();
	same();
}
END_TEST

START_TEST(full_is_sent_at_once)
{
	struct diw_addr a = fake_addr(9, 5);
	uint32_t per = DIW_DGRAM_MAX_BURST / 1000;

	send_n(&a, 64, DIW_DGRAM_MAX_SEGS - 1);
	ck_assert_int_eq(f->ntx, 0);
	send_n(&a, 64, 1);
	ck_assert_int_eq(f->ntx, 1);
	ck_assert_uint_eq(f->tx[0].len, DIW_DGRAM_MAX_SEGS * (64 + OVER));
	send_n(&a, 1000 - OVER, (int)per - 1);
	ck_assert_int_eq(f->ntx, 1);
	send_n(&a, 1000 - OVER, 1);
	ck_assert_int_eq(f->ntx, 2);
	ck_assert_uint_eq(f->tx[1].len, per * 1000);
	send_n(&a, 1000 - OVER, 1);
	l->ops->flush(l, 1);
	ck_assert_int_eq(f->ntx, 3);
	collect();
	same();
}
END_TEST

START_TEST(large_segments_are_gathered)
{
	struct diw_addr a = fake_addr(9, 5);
	uint8_t hdr[20][HDR] = { { 0 } };
	struct iovec iov[2] = { { pattern, 40000 }, { pattern + 40000, 80000 } };
	struct diw_link_seg segs[20];
	int n = 0;

	send_n(&a, 64, 1);           /* leaves first: the order is kept */
	for (uint32_t mo = 0; mo < 60000; mo += segs[n++].len) {
		uint32_t len = 60000 - mo < 8000 ? 60000 - mo : 8000;

		hdr[n][7] = (uint8_t)n;
		segs[n] = (struct diw_link_seg){ .hdr = hdr[n], .hdr_len = HDR, .len = len, .iov = iov, .off = 7 + mo };
		if (mo + 7 >= 40000) {
			segs[n].iov = iov + 1;
			segs[n].off = 7 + mo - 40000;
		}
		log_add(&given, &a, hdr[n], HDR, pattern + 7 + mo, len);
	}
	ck_assert_int_eq(n, 8);
	ck_assert_int_eq(l->ops->send(l, &(struct diw_dest){ .addr = a }, segs, n, 1), n);
	ck_assert_int_eq(f->ntx, 2);
	ck_assert_uint_eq(f->tx[1].seg, 8000 + OVER);
	ck_assert_uint_eq(f->tx[1].len, 60000 + 8 * OVER);
	ck_assert_int_gt(f->tx[1].niov, 8);
	collect();
	same();
	/* One more than fits makes a second super-buffer. */
	for (int i = 0; i < 9; i++) {
		segs[i] = (struct diw_link_seg){ .hdr = hdr[0], .hdr_len = HDR, .len = 8000, .iov = iov };
		log_add(&given, &a, hdr[0], HDR, pattern, 8000);
	}
	ck_assert_int_eq(l->ops->send(l, &(struct diw_dest){ .addr = a }, segs, 9, 1), 9);
	ck_assert_int_eq(f->ntx, 4);
	ck_assert_uint_eq(f->tx[2].len, 8 * (8000 + OVER));
	ck_assert_uint_eq(f->tx[3].len, 8000 + OVER);
	collect();
	same();
}
END_TEST

START_TEST(largest_segment)
{
	struct diw_addr a = fake_addr(9, 5);
	uint32_t payload = DIW_DGRAM_MAX - OVER;

	ck_assert_int_eq(send_n(&a, payload, 2), 2);
	ck_assert_int_eq(f->ntx, 2);
	ck_assert_uint_eq(f->tx[0].len, DIW_DGRAM_MAX);
	collect();
	same();
}
END_TEST

START_TEST(flush_blocked_keeps_it_staged)
{
	struct diw_addr a = fake_addr(9, 5);

	f->room = 0;
	send_n(&a, 64, 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(l->ops->flush(l, 1), -EAGAIN);
	ck_assert_int_eq(send_n(&a, 64, 1), 1);      /* there is still room for it */
	ck_assert_int_eq(send_n(&a, 65, 1), 0);
	ck_assert_int_eq(send_n(&a, 8000, 1), 0);
	f->room = -1;
	ck_assert_int_eq(l->ops->flush(l, 1), 0);
	ck_assert_int_eq(f->ntx, 1);
	collect();
	same();
}
END_TEST

START_TEST(full_and_blocked)
{
	struct diw_addr a = fake_addr(9, 5);

	f->room = 0;
	ck_assert_int_eq(send_n(&a, 64, 1000), DIW_DGRAM_MAX_SEGS);
	f->room = 1;
	ck_assert_int_eq(send_n(&a, 64, 1000), DIW_DGRAM_MAX_SEGS);
	f->room = -1;
	ck_assert_int_eq(l->ops->flush(l, 1), 0);
	ck_assert_int_eq(f->ntx, 2);
	collect();
	same();
}
END_TEST

/* A socket that blocks at random: taken segments arrive once, in order, whatever their sizes and destinations. */
START_TEST(blocked_anywhere)
{
	struct diw_rng r = { (uint64_t)_i + 1 };
	static const uint32_t sizes[] = { 0, 64, 64, 64, 1000, 1416, 4000, 6108, 6109, 8000, 8916, 30000, 65471 };

	f->room = 0;
	while (given.n < 600) {
		struct diw_addr a = fake_addr(9, (uint16_t)(1 + diw_rng_next(&r) % 2));
		uint32_t size = sizes[diw_rng_next(&r) % (sizeof sizes / sizeof *sizes)];
		int count = 1 + (int)(diw_rng_next(&r) % 20), fresh = given.n;
		struct diw_link_seg segs[20];
		uint8_t hdrs[20][HDR] = { { 0 } };
		struct iovec iov = { pattern, sizeof pattern };

		for (int i = 0; i < count; i++) {
			diw_put64(hdrs[i], diw_rng_next(&r));
			segs[i] = (struct diw_link_seg){ .hdr = hdrs[i], .hdr_len = HDR, .len = size, .iov = &iov,
							.off = diw_rng_next(&r) % 1000 };
			if (diw_rng_chance(&r, 0.1))
				segs[i].len -= size / 5;
		}
		f->room = (int)(diw_rng_next(&r) % 3);
		count = l->ops->send(l, &(struct diw_dest){ .addr = a }, segs, count, 1);
		ck_assert_int_ge(count, 0);
		for (int i = 0; i < count; i++)
			log_add(&given, &a, hdrs[i], HDR, pattern + segs[i].off, segs[i].len);
		ck_assert_int_eq(given.n, fresh + count);
		if (diw_rng_chance(&r, 0.2))
			l->ops->flush(l, 1);
	}
	f->room = -1;
	ck_assert_int_eq(l->ops->flush(l, 1), 0);
	collect();
	same();
}
END_TEST

/* ---- Receive ---- */

static uint32_t seal_into(uint8_t *to, uint32_t len, uint8_t tag)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = (uint8_t)(tag + i);
	diw_put32le(to + len, (uint32_t)crc32(0, to, len));
	return len + 4;
}

static int poll_all(void)
{
	return l->ops->poll(l, 100000, 77);
}

START_TEST(burst_is_split)
{
	struct diw_addr a = fake_addr(9, 5);
	static uint8_t buf[65536];
	uint32_t at = 0;

	for (int i = 0; i < 40; i++)
		at += seal_into(buf + at, 100, (uint8_t)i);
	at += seal_into(buf + at, 33, 99);
	fake_deliver(f, &a, buf, at, 104);
	ck_assert_int_eq(poll_all(), 1);
	ck_assert_int_eq(got.n, 41);
	for (int i = 0; i < 40; i++) {
		ck_assert_uint_eq(got.s[i].len, 100);
		ck_assert_mem_eq(got.s[i].data, buf + i * 104, 100);
		ck_assert(diw_addr_eq(&got.s[i].peer, &a));
	}
	ck_assert_uint_eq(got.s[40].len, 33);
	ck_assert_mem_eq(got.s[40].data, buf + 40 * 104, 33);
	ck_assert_int_le(rx_most, 16);
	ck_assert_int_eq(rx_calls, 3);
	ck_assert_uint_eq(f->c.rx_crc + f->c.rx_short, 0);
}
END_TEST

START_TEST(one_bad_of_many)
{
	struct diw_addr a = fake_addr(9, 5);
	static uint8_t buf[65536];

	for (int bad = 0; bad < 33; bad++) {
		uint32_t at = 0;

		for (int i = 0; i < 33; i++)
			at += seal_into(buf + at, 50, (uint8_t)i);
		buf[bad * 54 + 10] ^= 1;
		fake_deliver(f, &a, buf, at, 54);
		ck_assert_int_eq(poll_all(), 1);
		ck_assert_int_eq(got.n, 32);
		for (int i = 0; i < 32; i++)
			ck_assert_uint_eq(got.s[i].data[0], i < bad ? i : i + 1);
		ck_assert_uint_eq(f->c.rx_crc, bad + 1);
		log_clear(&got);
	}
}
END_TEST

START_TEST(every_bit_counts)
{
	struct diw_addr a = fake_addr(9, 5);
	uint8_t buf[104];
	uint32_t len = seal_into(buf, 100, 5);

	for (uint32_t bit = 0; bit < len * 8; bit++) {
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
		fake_deliver(f, &a, buf, len, len);
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_int_eq(poll_all(), (int)len * 8);
	ck_assert_int_eq(got.n, 0);
	ck_assert_uint_eq(f->c.rx_crc, len * 8);
	fake_deliver(f, &a, buf, len, len);
	poll_all();
	ck_assert_int_eq(got.n, 1);
}
END_TEST

START_TEST(every_truncation)
{
	struct diw_addr a = fake_addr(9, 5);
	uint8_t buf[104];
	uint32_t len = seal_into(buf, 100, 5);

	for (uint32_t n = 0; n < len; n++)
		fake_deliver(f, &a, buf, n, n);
	ck_assert_int_eq(poll_all(), (int)len);
	ck_assert_int_eq(got.n, 0);
	ck_assert_uint_eq(f->c.rx_short, 6);
	ck_assert_uint_eq(f->c.rx_crc, len - 6);
}
END_TEST

START_TEST(shortest_segment)
{
	struct diw_addr a = fake_addr(9, 5);
	uint8_t buf[8];

	/* A valid CRC does not make a header: 0 and 1 bytes are too short. */
	for (uint32_t n = 0; n < 3; n++) {
		uint32_t len = seal_into(buf, n, 7);

		fake_deliver(f, &a, buf, len, len);
	}
	poll_all();
	ck_assert_int_eq(got.n, 1);
	ck_assert_uint_eq(got.s[0].len, 2);
	ck_assert_uint_eq(f->c.rx_short, 2);
}
END_TEST

START_TEST(budget)
{
	struct diw_addr a = fake_addr(9, 5);
	uint8_t buf[104];
	uint32_t len = seal_into(buf, 100, 5);

	for (int i = 0; i < 10; i++)
		fake_deliver(f, &a, buf, len, len);
	ck_assert_int_eq(l->ops->poll(l, 4, 77), 4);
	ck_assert_int_eq(got.n, 4);
	ck_assert_int_eq(l->ops->poll(l, 0, 77), 0);
	ck_assert_int_eq(l->ops->poll(l, 100, 77), 6);
	ck_assert_int_eq(l->ops->poll(l, 100, 77), 0);
	ck_assert_int_eq(got.n, 10);
}
END_TEST

/* Segments that are not taken are offered again, wherever in the burst they are, and nothing is received meanwhile; a
 * damaged datagram is counted once. */
START_TEST(not_now)
{
	struct diw_addr a = fake_addr(9, 5);
	static uint8_t buf[65536];
	uint32_t at = 0;

	for (int i = 0; i < 40; i++)
		at += seal_into(buf + at, 50, (uint8_t)i);
	buf[3 * 54 + 10] ^= 1;
	buf[20 * 54 + 10] ^= 1;
	fake_deliver(f, &a, buf, at, 54);
	fake_deliver(f, &a, buf, at, 54);
	rx_room = _i;
	for (int i = 0; i < 80 && got.n < 76; i++) {
		int before = got.n, room = rx_room;

		l->ops->poll(l, 1, 77);
		ck_assert_int_le(got.n - before, room);
		ck_assert_int_le(f->next_rx, got.n < 38 ? 1 : 2);
		if (got.n < 38)
			ck_assert_uint_eq(l->ops->deadline(l), UINT64_MAX);
		rx_room = 1 + _i;
	}
	ck_assert_int_eq(got.n, 76);
	for (int i = 0, want = 0; i < 76; i++, want = (want + 1) % 40) {
		want += want == 3 || want == 20;
		ck_assert_uint_eq(got.s[i].data[0], want);
	}
	ck_assert_uint_eq(f->c.rx_crc, 4);
}
END_TEST

START_TEST(mulpdu)
{
	struct diw_addr a = fake_addr(9, 5);
	static const struct { uint32_t set, mtu, want; } v[] = {
		{ 0, 1472, 1468 }, { 0, 65507, 65503 }, { 0, 3, DIW_LINK_MAX_HDR + 1 }, { 1000, 1472, 1000 },
		{ 9000, 1472, 9000 }, { 65503, 1472, 65503 }, { 70000, 1472, 65503 }, { 41, 1472, 41 },
	};

	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct diw_link *m;

		f->mtu = v[i].mtu;
		ck_assert_int_eq(diw_seal_open(&f->d, v[i].set, &up, NULL, &m), 0);
		ck_assert_uint_eq(m->ops->mulpdu(m, &a), v[i].want);
		m->ops->close(m);
	}
	ck_assert_int_eq(diw_seal_open(&f->d, DIW_LINK_MAX_HDR, &up, NULL, &l), -EINVAL);
	f->closed = 0;
	f->mtu = 1472;
	ck_assert_uint_eq(l->ops->mulpdu(l, &a), 1468);
	f->mtu = 1300;               /* the path's MTU became smaller */
	ck_assert_uint_eq(l->ops->mulpdu(l, &a), 1296);
	f->deadline = 4711;
	ck_assert_uint_eq(l->ops->deadline(l), 4711);
	ck_assert(!l->ordered);
	ck_assert_ptr_eq(l->dgram, &f->d);
}
END_TEST

Suite *suite_seal(void)
{
	Suite *s = suite_create("seal");
	TCase *tx = tcase_create("send"), *rx = tcase_create("receive");

	tcase_add_checked_fixture(tx, setup, teardown);
	tcase_add_checked_fixture(rx, setup, teardown);
	tcase_add_test(tx, exact_bytes);
	tcase_add_test(tx, messages_coalesce_until_flush);
	tcase_add_test(tx, another_destination_sends_first);
	tcase_add_test(tx, sizes_open_and_close);
	tcase_add_test(tx, full_is_sent_at_once);
	tcase_add_test(tx, large_segments_are_gathered);
	tcase_add_test(tx, largest_segment);
	tcase_add_test(tx, flush_blocked_keeps_it_staged);
	tcase_add_test(tx, full_and_blocked);
	tcase_add_loop_test(tx, blocked_anywhere, 0, 40);
	tcase_add_test(rx, burst_is_split);
	tcase_add_test(rx, one_bad_of_many);
	tcase_add_test(rx, every_bit_counts);
	tcase_add_test(rx, every_truncation);
	tcase_add_test(rx, shortest_segment);
	tcase_add_test(rx, budget);
	tcase_add_loop_test(rx, not_now, 0, 40);
	tcase_add_test(rx, mulpdu);
	suite_add_tcase(s, tx);
	suite_add_tcase(s, rx);
	return s;
}
