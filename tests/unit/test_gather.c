/* SPDX-License-Identifier: BSD-2-Clause */
/* llp/seal.c: payload that stays in the caller's memory until flush. */
#include <errno.h>
#include <zlib.h>

#include "base/wire.h"
#include "llp/link.h"
#include "tests/unit/fake_dgram.h"
#include "tests/unit/unit.h"

#define HDR 32u
#define OVER (HDR + 4u)
#define LARGE 16000u

static struct fake *socket_fake;
static struct diw_link *sealed;
static uint8_t memory[3][LARGE];

static void gather_setup(void)
{
	static const struct diw_link_up up = { 0 };

	socket_fake = fake_new();
	ck_assert_int_eq(diw_seal_open(&socket_fake->d, 0, &up, NULL, &sealed), 0);
	sealed->stays = true;
	for (uint32_t i = 0; i < sizeof memory; i++)
		memory[i / LARGE][i % LARGE] = (uint8_t)(i * 7 + i / 251);
}

static void gather_teardown(void)
{
	sealed->ops->close(sealed);
	fake_free(socket_fake);
}

/* A segment of the LEN octets of IOV; the first octet of its header is TAG. */
static int gather_send(uint8_t tag, const struct iovec *iov, uint32_t len)
{
	struct diw_dest to = { .addr = fake_addr(9, 5) };
	uint8_t hdr[HDR] = { tag };

	struct diw_link_seg seg = { .hdr = hdr, .hdr_len = HDR, .len = len, .iov = iov };

	return sealed->ops->send(sealed, &to, &seg, 1, 1);
}

static int gather_send_row(int row, uint32_t len)
{
	return gather_send((uint8_t)row, &(struct iovec){ memory[row], LARGE }, len);
}

/* The datagram at AT of the burst B is the one of TAG that carries LEN octets of PAYLOAD. */
static void gather_expect(const struct fake_burst *b, uint32_t at, uint8_t tag, const uint8_t *payload, uint32_t len)
{
	const uint8_t *p = b->data + at;

	ck_assert_uint_le(at + len + OVER, b->len);
	ck_assert_uint_eq(p[0], tag);
	ck_assert_mem_eq(p + HDR, payload, len);
	ck_assert_uint_eq(diw_get32le(p + HDR + len), crc32(0, p, HDR + len));
}

/* Messages of one segment each share a super-buffer, until a shorter one ends it. */
START_TEST(messages_share_a_burst)
{
	const struct fake_burst *b = socket_fake->tx;

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(gather_send_row(i, LARGE), 1);
	ck_assert_int_eq(socket_fake->ntx, 0);
	ck_assert_int_eq(gather_send_row(2, 64), 1);
	ck_assert_int_eq(socket_fake->ntx, 1);
	ck_assert_uint_eq(b->seg, LARGE + OVER);
	ck_assert_uint_eq(b->len, 3 * (LARGE + OVER) + 64 + OVER);
	for (int i = 0; i < 3; i++)
		gather_expect(b, (uint32_t)i * b->seg, (uint8_t)i, memory[i], LARGE);
	gather_expect(b, 3 * b->seg, 2, memory[2], 64);
	ck_assert_int_eq(gather_send_row(1, LARGE), 1);
	ck_assert_int_eq(socket_fake->ntx, 1);
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), 0);
	ck_assert_int_eq(socket_fake->ntx, 2);
	gather_expect(b + 1, 0, 1, memory[1], LARGE);
}
END_TEST

/* What flush could not send is copied: behind it the memory is the caller's again. */
START_TEST(flush_copies_what_is_blocked)
{
	static uint8_t before[3][LARGE];

	memcpy(before, memory, sizeof before);
	socket_fake->room = 0;
	ck_assert_int_eq(gather_send_row(0, LARGE), 1);
	ck_assert_int_eq(gather_send_row(1, LARGE), 1);
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), -EAGAIN);
	memset(memory, 0xee, 2 * LARGE);
	ck_assert_int_eq(gather_send_row(2, LARGE), 1);
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), -EAGAIN);
	memset(memory, 0xdd, sizeof memory);
	socket_fake->room = -1;
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), 0);
	ck_assert_int_eq(socket_fake->ntx, 1);
	for (uint32_t i = 0; i < 3; i++)
		gather_expect(socket_fake->tx, i * (LARGE + OVER), (uint8_t)i, before[i], LARGE);
}
END_TEST

START_TEST(discard_forgets_it)
{
	ck_assert_int_eq(gather_send_row(0, LARGE), 1);
	sealed->ops->discard(sealed);
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), 0);
	ck_assert_int_eq(socket_fake->ntx, 0);
	ck_assert_int_eq(gather_send_row(1, LARGE), 1);
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), 0);
	ck_assert_uint_eq(socket_fake->tx->len, LARGE + OVER);
	gather_expect(socket_fake->tx, 0, 1, memory[1], LARGE);
}
END_TEST

/* Small datagrams get their CRCs when they leave: in a super-buffer that was blocked and grew, and with a shorter one
 * at its end. */
START_TEST(small_ones_are_sealed)
{
	static const uint32_t lens[] = { 64, 64, 64, 20, 470, 470, 1, 500, 500 };
	static const uint32_t bursts[] = { 4, 3, 2 };
	uint32_t at, k = 0;

	socket_fake->room = 0;
	for (uint8_t i = 0; i < 4; i++) {
		ck_assert_int_eq(gather_send_row(0, lens[i]), 1);
		ck_assert_int_eq(sealed->ops->flush(sealed, 1), -EAGAIN);
	}
	socket_fake->room = -1;
	for (uint8_t i = 4; i < 9; i++)
		ck_assert_int_eq(gather_send_row(0, lens[i]), 1);
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), 0);
	ck_assert_int_eq(socket_fake->ntx, 3);
	for (int b = 0; b < 3; b++) {
		at = 0;
		for (uint32_t i = 0; i < bursts[b]; i++, k++) {
			gather_expect(socket_fake->tx + b, at, 0, memory[0], lens[k]);
			at += lens[k] + OVER;
		}
		ck_assert_uint_eq(socket_fake->tx[b].len, at);
	}
}
END_TEST

/* More entries than a super-buffer has pieces; every third is empty. */
START_TEST(many_entries)
{
	static struct iovec iov[3 * LARGE / 16];
	uint32_t n = 0;

	for (uint32_t at = 0; at < LARGE; at += 16) {
		iov[n++] = (struct iovec){ memory[0] + at, 8 };
		iov[n++] = (struct iovec){ memory[2], 0 };
		iov[n++] = (struct iovec){ memory[0] + at + 8, 8 };
	}
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(gather_send(7, iov, LARGE), 1);
	/* As many as are gathered: the pieces of seven segments fill a super-buffer before their octets do. */
	for (int i = 0; i < 32; i++)
		iov[i] = (struct iovec){ memory[0] + 200 * i, 200 };
	for (int i = 0; i < 9; i++)
		ck_assert_int_eq(gather_send(8, iov, 6400), 1);
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), 0);
	ck_assert_int_eq(socket_fake->ntx, 3);
	for (uint32_t i = 0; i < 3; i++)
		gather_expect(socket_fake->tx, i * (LARGE + OVER), 7, memory[0], LARGE);
	gather_expect(socket_fake->tx, 3 * (LARGE + OVER), 8, memory[0], 6400);
	ck_assert_uint_eq(socket_fake->tx[1].len, 7 * (6400 + OVER));
	for (uint32_t i = 0; i < 7; i++)
		gather_expect(socket_fake->tx + 1, i * (6400 + OVER), 8, memory[0], 6400);
	gather_expect(socket_fake->tx + 2, 0, 8, memory[0], 6400);
}
END_TEST

/* Without that promise it leaves, or is copied, before send returns. */
START_TEST(payload_does_not_stay)
{
	static uint8_t before[LARGE];

	memcpy(before, memory[0], LARGE);
	sealed->stays = false;
	ck_assert_int_eq(gather_send_row(1, LARGE), 1);
	ck_assert_int_eq(socket_fake->ntx, 1);
	gather_expect(socket_fake->tx, 0, 1, memory[1], LARGE);
	socket_fake->room = 0;
	ck_assert_int_eq(gather_send_row(0, LARGE), 1);
	memset(memory[0], 0xee, LARGE);
	socket_fake->room = -1;
	ck_assert_int_eq(sealed->ops->flush(sealed, 1), 0);
	ck_assert_int_eq(socket_fake->ntx, 2);
	gather_expect(socket_fake->tx + 1, 0, 0, before, LARGE);
}
END_TEST

Suite *suite_gather(void)
{
	Suite *s = suite_create("gather");
	TCase *t = tcase_create("gather");

	tcase_add_checked_fixture(t, gather_setup, gather_teardown);
	tcase_add_test(t, messages_share_a_burst);
	tcase_add_test(t, flush_copies_what_is_blocked);
	tcase_add_test(t, discard_forgets_it);
	tcase_add_test(t, small_ones_are_sealed);
	tcase_add_test(t, many_entries);
	tcase_add_test(t, payload_does_not_stay);
	suite_add_tcase(s, t);
	return s;
}
