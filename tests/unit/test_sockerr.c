/* SPDX-License-Identifier: BSD-2-Clause */
/* The view of a program of the interposer's error queue, for all links, protocols and checksums, and hostile contents.
 * The source of errqueue.c is included, as that of frame.c is in test_sockframe.c. */
#include "sockets_preload/dgram/errqueue.c"

#include <stdlib.h>

#include "base/crc.h"
#include "base/rng.h"
#include "tests/unit/unit.h"

/* Nothing here makes system calls. */
struct diw_real real;
__thread struct diw_stage diw_stage[DIW_STAGE_KINDS];

bool diw_stage_hold_slowly(enum diw_stage_kind kind, struct diw_hold *h)
{
	(void)kind;
	(void)h;
	return false;
}

void diw_stage_unmap(enum diw_stage_kind kind, uint8_t *mem)
{
	(void)kind;
	(void)mem;
}

size_t diw_iov_fill(const struct iovec *iov, size_t n, const uint8_t *data, size_t len)
{
	(void)iov;
	(void)n;
	(void)data;
	return len;
}

static const struct diw_sock sock = { .cookie = 77 };
enum checksum { NONE, PARTIAL, FULL };

struct shape {
	size_t link;
	bool v6;
	size_t between;                      /* options, or extension headers */
	enum checksum checksum;
	uint32_t stag;
};

static const struct shape shapes[] = {
	{ 14, false, 0, PARTIAL, 0 }, { 14, false, 0, FULL, 0 }, { 14, false, 0, NONE, 0 }, { 0, false, 8, FULL, 5 },
	{ 18, false, 40, PARTIAL, 5 }, { 64, false, 0, FULL, 0 }, { 14, true, 0, PARTIAL, 0 }, { 14, true, 0, FULL, 5 },
	{ 4, true, 24, FULL, 0 },
};

/* Makes the packet with N bytes of UDP payload at DATA, in an allocation of exactly its size: *LEN bytes. */
static uint8_t *packet(const struct shape *sh, const uint8_t *data, size_t n, size_t *len)
{
	size_t head = (sh->v6 ? 40 : 20) + sh->between;
	uint8_t *p = calloc(1, *len = sh->link + head + UDP + n), *ip = p + sh->link, *udp = ip + head;
	uint16_t c;

	memset(p, 0x11, sh->link);
	if (sh->v6) {
		ip[0] = 0x60;
		diw_put16(ip + 4, (uint16_t)(sh->between + UDP + n));
		ip[6] = sh->between ? IPPROTO_HOPOPTS : IPPROTO_UDP;
		memset(ip + 8, 0xfd, 32);
		if (sh->between) {
			ip[40] = IPPROTO_DSTOPTS;
			ip[41] = 0;
			ip[48] = IPPROTO_UDP;
			ip[49] = (uint8_t)((sh->between - 8) / 8 - 1);
		}
	} else {
		ip[0] = (uint8_t)(0x45 + sh->between / 4);
		diw_put16(ip + 2, (uint16_t)(head + UDP + n));
		ip[9] = IPPROTO_UDP;
		memset(ip + 12, 0x7e, 8);
		memset(ip + 20, 1, sh->between);
		diw_put16(ip + 10, (uint16_t)~sum_fold(sum_add(0, ip, head)));
	}
	diw_put32(udp, 0x12345678);
	diw_put16(udp + 4, (uint16_t)(UDP + n));
	memcpy(udp + UDP, data, n);
	c = sum_fold(pseudo_sum(ip, UDP + n));
	if (sh->checksum == FULL)
		c = (uint16_t)~sum_fold(sum_add(pseudo_sum(ip, UDP + n), udp, UDP + n));
	diw_put16(udp + 6, sh->checksum == NONE ? 0 : c);
	return p;
}

static void frame(uint8_t *p, uint32_t stag, const uint8_t *data, size_t n, bool crc)
{
	struct diw_route r = { .key = 0x123456789abcdef0u, .stag = stag };
	size_t head = diw_frame_head_len(&r);

	diw_frame_head(p, &r, n);
	diw_frame_mark(p, &r, &sock);
	memcpy(p + head, data, n);
	diw_put32le(p + head + n, crc ? diw_crc32(0, p, head + n) : 0);
}

static void fill(uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		data[i] = (uint8_t)(i * 5 + 3);
}

START_TEST(as_without)
{
	const struct shape *sh = &shapes[_i];
	size_t head = sh->stag ? DIW_FRAME_WRITE : DIW_FRAME_SEND;
	uint8_t data[1500], framed[1600];

	fill(data, sizeof data);
	for (size_t n = 0; n <= sizeof data; n += n < 40 ? 1 : 73) {
		size_t len, wanted_len, got;
		uint8_t *wanted = packet(sh, data, n, &wanted_len), *p, *seen;

		frame(framed, sh->stag, data, n, n % 2);
		p = packet(sh, framed, head + n + 4, &len);
		frame_strip(&sock, p, len, &got);
		seen = p;
		ck_assert_uint_eq(got, wanted_len);
		ck_assert_mem_eq(seen, wanted, got);
		/* A plain packet is unchanged. */
		frame_strip(&sock, wanted, wanted_len, &got);
		seen = wanted;
		ck_assert(seen == wanted && got == wanted_len);
		free(p);
		p = packet(sh, data, n, &len);
		ck_assert_mem_eq(wanted, p, len);
		free(p);
		free(wanted);
	}
}
END_TEST

/* A payload that ICMP quotes, cut at any place, with and without data behind it. */
START_TEST(quoted)
{
	uint32_t stag = _i ? 5 : 0;
	size_t head = stag ? DIW_FRAME_WRITE : DIW_FRAME_SEND, n = 60, all = head + n + 4;
	uint8_t data[60], framed[200];

	fill(data, n);
	for (size_t have = head; have <= all + 30; have++) {
		uint8_t *p = malloc(have), *seen;
		size_t got, message = have - head < n ? have - head : n;

		frame(framed, stag, data, n, true);
		memset(framed + all, 'e', 30);
		memcpy(p, framed, have);
		frame_strip(&sock, p, have, &got);
		seen = p;
		ck_assert_uint_eq(got, message + (have > all ? have - all : 0));
		ck_assert_mem_eq(seen, data, message);
		for (size_t i = message; i < got; i++)
			ck_assert_uint_eq(seen[i], 'e');
		free(p);
	}
}
END_TEST

/* The first fragment, of any length. */
START_TEST(fragment)
{
	const struct shape *sh = &shapes[_i];
	size_t head = sh->stag ? DIW_FRAME_WRITE : DIW_FRAME_SEND, n = 300, len, got;
	uint8_t data[300], framed[400];

	fill(data, n);
	frame(framed, sh->stag, data, n, true);
	for (size_t less = 0; less <= n + 4; less++) {
		uint8_t *whole = packet(sh, framed, head + n + 4, &len), *p = malloc(len - less), *ip, *udp, *seen;
		size_t here = less > 4 ? n - (less - 4) : n, before = len - (head + n + 4);

		memcpy(p, whole, len - less);
		ip = p + sh->link;
		if (!sh->v6)
			diw_put16(ip + 6, MORE_FRAGMENTS);
		frame_strip(&sock, p, len - less, &got);
		seen = p;
		ip = seen + sh->link;
		udp = seen + before - UDP;
		ck_assert_uint_eq(got, before + here);
		ck_assert_mem_eq(seen + before, data, here);
		ck_assert_uint_eq(diw_get16(udp + 4), UDP + n);
		if (!sh->v6) {
			ck_assert_uint_eq(sum_fold(sum_add(0, ip, 20 + sh->between)), 0xffff);
			ck_assert_uint_eq(diw_get16(ip + 6), here == n ? 0 : MORE_FRAGMENTS);
		}
		free(p);
		free(whole);
	}
}
END_TEST

static const struct diw_sock another = { .cookie = 78 };

/* Frames of other sockets, and damaged ones, are not recognised as ours. No byte beyond the packet is read, whatever
 * its content. */
START_TEST(not_ours)
{
	const struct shape *sh = &shapes[_i];
	uint8_t data[60], framed[200];
	struct diw_rng r = { 5 };
	size_t len, got, head = sh->stag ? DIW_FRAME_WRITE : DIW_FRAME_SEND, n = sizeof data;
	uint8_t *good, *seen;

	fill(data, n);
	frame(framed, sh->stag, data, n, true);
	good = packet(sh, framed, head + n + 4, &len);
	frame_strip(&another, good, len, &got);
	seen = good;
	ck_assert(seen == good && got == len);
	for (int i = 0; i < 100000; i++) {
		size_t have = diw_rng_next(&r) % (len + 1);
		uint8_t *p = malloc(have);

		if (have)
			memcpy(p, good, have);
		for (int k = 0; have && k < 2; k++)
			p[diw_rng_next(&r) % have] = (uint8_t)diw_rng_next(&r);
		frame_strip(&sock, p, have, &got);
		seen = p;
		ck_assert_uint_le(got, have);
		ck_assert(seen >= p && seen + got <= p + have);
		free(p);
	}
	free(good);
}
END_TEST

Suite *suite_sockerr(void)
{
	Suite *s = suite_create("sockerr");
	TCase *t = tcase_create("what comes back");

	tcase_add_unchecked_fixture(t, diw_frame_init, NULL);
	tcase_add_loop_test(t, as_without, 0, sizeof shapes / sizeof shapes[0]);
	tcase_add_loop_test(t, quoted, 0, 2);
	tcase_add_loop_test(t, fragment, 0, sizeof shapes / sizeof shapes[0]);
	tcase_add_loop_test(t, not_ours, 0, sizeof shapes / sizeof shapes[0]);
	suite_add_tcase(s, t);
	return s;
}
