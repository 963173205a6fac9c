/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of the interposer, with any content. The source of frame.c is included: the preloaded library itself would
 * intercept this program's calls. */
#include "sockets_preload/dgram/frame.c"

#include <stdlib.h>

#include "tests/unit/unit.h"

static _Atomic uint64_t counted[DIW_SOCK_NCOUNTERS];
_Atomic uint64_t *_Atomic diw_sock_count = counted;
const char *diw_alone = "";

static const struct diw_keys sock = { .key = { 0x1122334455667788u, 0x99aabbccddeeff00u }, .stag = 0xabcd01 };
static const uint64_t sibling = 0x5151515151515151u;

bool diw_reg_is_sibling(uint16_t port, uint64_t key, bool *crc)
{
	(void)port;
	*crc = true;
	return key == sibling;
}

struct diw_sock_conf diw_conf;
static const uint64_t of_peers = 0x6161616161616161u;

uint64_t diw_reg_peer_key(uint16_t port)
{
	return of_peers + port;
}

uint64_t diw_reg_group_key(uint16_t port, bool crc)
{
	return (crc ? 0x7171717171717171u : 0x8181818181818181u) + port;
}

uint64_t diw_reg_mark(const struct diw_sock *s, uint64_t key)
{
	return (s->cookie + key) * 0x9e3779b97f4a7c15u;
}

/* Makes a frame of N bytes of payload in an allocation of exactly its size, so that a read beyond it is detected. */
static uint8_t *make(size_t n, uint64_t key, uint32_t stag, size_t *len)
{
	struct diw_route r = { .key = key, .stag = stag };
	size_t head = diw_frame_head_len(&r);
	uint8_t *p = malloc(head + n + 4);

	*len = head + n + 4;
	diw_frame_head(p, &r, n);
	memset(p + head, 'x', n);
	diw_put32le(p + head + n, diw_crc32(0, p, head + n));
	return p;
}

static enum diw_frame check(const uint8_t *p, size_t n)
{
	size_t head;

	return diw_frame_check(&sock, p, n, &head);
}

static const uint32_t stags[] = { 0, 0xabcd01 };

START_TEST(there_and_back)
{
	for (size_t n = 0; n < 2000; n += n < 40 ? 1 : 191) {
		struct diw_ddp_hdr h;
		uint32_t hdr_len;
		size_t len, head;
		uint8_t *p = make(n, sock.key[0], stags[_i], &len);

		ck_assert_int_eq(diw_frame_check(&sock, p, len, &head), DIW_FRAME_GOOD);
		ck_assert_uint_eq(len - head - 4, n);
		/* for a program without the interposer it is a valid segment */
		ck_assert_uint_eq(diw_ddp_hdr_decode(&h, &hdr_len, p, (uint32_t)len - 4), 0);
		ck_assert_uint_eq(hdr_len, head);
		ck_assert_uint_eq(h.opcode, stags[_i] ? 12 : 3);
		ck_assert_uint_eq((uint64_t)h.qkey << 32 | h.imm, sock.key[0]);
		ck_assert_uint_eq(h.stag, stags[_i]);
		free(p);
	}
}
END_TEST

START_TEST(cut_or_damaged)
{
	size_t len;
	uint8_t *p = make(60, sock.key[0], stags[_i], &len);

	for (size_t n = 0; n < len; n++) {
		uint8_t *cut = malloc(n);

		memcpy(cut, p, n);
		ck_assert_int_ne(check(cut, n), DIW_FRAME_GOOD);
		free(cut);
	}
	for (size_t bit = 0; bit < len * 8; bit++) {
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_ne(check(p, len), DIW_FRAME_GOOD);
		p[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_int_eq(check(p, len), DIW_FRAME_GOOD);
	free(p);
}
END_TEST

/* With the key of frames without a CRC, only the header identifies a frame. */
START_TEST(headers_without_crc)
{
	size_t len;
	uint8_t *p = make(60, sock.key[1], stags[_i], &len);
	struct diw_rng r = { 11 };

	for (int i = 0; i < 200000; i++) {
		size_t at = diw_rng_next(&r) % len, n = diw_rng_next(&r) % (len + 1), head = 0;
		uint8_t was = p[at], *exact = malloc(n);

		p[at] = (uint8_t)diw_rng_next(&r);
		memcpy(exact, p, n);
		if (diw_frame_check(&sock, exact, n, &head) == DIW_FRAME_GOOD)
			ck_assert_uint_ge(n, head + 4);
		free(exact);
		p[at] = was;
	}
	free(p);
}
END_TEST

START_TEST(keys)
{
	size_t len;
	uint8_t *p = make(60, sibling, stags[_i], &len);

	ck_assert_int_eq(check(p, len), DIW_FRAME_GOOD);
	p[len - 1] ^= 1;
	ck_assert_int_eq(check(p, len), DIW_FRAME_NONE);
	free(p);
	for (int crc = 0; crc < 2; crc++) {
		p = make(60, diw_reg_group_key(sock.port, crc), stags[_i], &len);
		ck_assert_int_eq(check(p, len), DIW_FRAME_GOOD);
		p[len - 1] ^= 1;
		ck_assert_int_eq(check(p, len), crc ? DIW_FRAME_BAD : DIW_FRAME_GOOD);
		free(p);
		p = make(60, diw_reg_group_key((uint16_t)(sock.port + 1), crc), stags[_i], &len);
		ck_assert_int_eq(check(p, len), DIW_FRAME_NONE);
		free(p);
	}
	p = make(60, sock.key[0] ^ 4, stags[_i], &len);
	ck_assert_int_eq(check(p, len), DIW_FRAME_NONE);
	free(p);
	p = make(60, sock.key[0], 0xabcd03, &len);
	ck_assert_int_eq(check(p, len), DIW_FRAME_BAD);
	free(p);
}
END_TEST

/* The configured key is for frames with the CRC, to the socket's own port. */
START_TEST(keys_of_peers)
{
	size_t len;
	uint8_t *p = make(60, of_peers, 0, &len);

	ck_assert_int_eq(check(p, len), DIW_FRAME_NONE);
	diw_conf.have_key = true;
	ck_assert_int_eq(check(p, len), DIW_FRAME_GOOD);
	p[len - 1] ^= 1;
	ck_assert_int_eq(check(p, len), DIW_FRAME_BAD);
	free(p);
	p = make(60, of_peers + 1, 0, &len);
	ck_assert_int_eq(check(p, len), DIW_FRAME_NONE);
	free(p);
	diw_conf.have_key = false;
}
END_TEST

Suite *suite_sockframe(void)
{
	Suite *s = suite_create("sockframe");
	TCase *t = tcase_create("frames");

	tcase_add_unchecked_fixture(t, diw_frame_init, NULL);
	tcase_add_loop_test(t, there_and_back, 0, 2);
	tcase_add_loop_test(t, cut_or_damaged, 0, 2);
	tcase_add_loop_test(t, headers_without_crc, 0, 2);
	tcase_add_loop_test(t, keys, 0, 2);
	tcase_add_test(t, keys_of_peers);
	suite_add_tcase(s, t);
	return s;
}
