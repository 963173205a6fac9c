/* SPDX-License-Identifier: BSD-2-Clause */
/* The capturing dgrams around the impairment: what the file says of datagrams that left, arrived, or were dropped, with
 * the reason. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "llp/capture.h"
#include "llp/pcapng.h"
#include "tests/unit/fake_dgram.h"
#include "tests/unit/pcapng_kit.h"
#include "tests/unit/unit.h"

#define EPOCH 1000000000000ull
#define SEG 4u

static char path[32];
static struct diw_pcapng *file;
static struct fake *f;
static struct diw_dgram *top, *impair;
static struct diw_addr peer;
static struct png g;

static void setup(void)
{
	struct diw_capture *c;
	struct diw_dgram *wire;
	int fd;

	strcpy(path, "/tmp/diw-capture-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(diw_pcapng_open(path, &file), 0);
	f = fake_new();
	f->d.local = fake_addr(1, 1000);
	peer = fake_addr(2, 2000);
	ck_assert_int_eq(diw_capture_open(file, EPOCH, &f->d, &c, &wire), 0);
	ck_assert_int_eq(diw_impair_open(wire, NULL, &impair), 0);
	diw_capture_top(c, impair, &top);
}

static void teardown(void)
{
	unlink(path);
	fake_free(f);
}

static void impaired(const char *text)
{
	struct diw_impair_spec *spec;
	char err[128];

	ck_assert_int_eq(diw_impair_parse(text, &spec, err, sizeof err), 0);
	ck_assert_int_eq(diw_impair_set(impair, spec), 0);
	diw_impair_spec_free(spec);
}

/* Sends "aaaabbbbcccc..", one datagram for each letter. */
static int send_letters(int n, uint64_t now)
{
	uint8_t data[SEG * 26];
	struct iovec iov[2] = { { data, 6 }, { data + 6, SEG * (size_t)n - 6 } };
	struct diw_dgram_burst b = { .peer.addr = peer, .iov = iov, .niov = 2, .len = SEG * (uint32_t)n, .seg = SEG };

	for (uint32_t i = 0; i < b.len; i++)
		data[i] = (uint8_t)('a' + i / SEG);
	return top->ops->send(top, &b, 1, now);
}

/* Closes everything. Returns the file's content as "a b! ": ! dropped, < received. */
static const char *said(void)
{
	static char text[1024];
	size_t n = 0;

	top->ops->close(top);
	diw_pcapng_close(file);
	png_read(&g, path);
	text[0] = '\0';
	for (int i = 0; i < g.n; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%c%s%s%s", i ? " " : "",
				      g.packet[i].len > 28 ? g.packet[i].data[28] : '-',
				      g.packet[i].flags == 1 ? "<" : "", *g.packet[i].comment ? "!" : "",
				      g.packet[i].comment);
	png_free(&g);
	return text;
}

START_TEST(sent)
{
	ck_assert_int_eq(send_letters(3, 7), 1);
	ck_assert_str_eq(said(), "a b c");
	ck_assert_uint_eq(g.packet[0].ns, EPOCH + 7);
}
END_TEST

START_TEST(lost_when_sent)
{
	impaired("mask=6");
	ck_assert_int_eq(send_letters(4, 0), 1);
	ck_assert_str_eq(said(), "a d b!impair_lost c!impair_lost");
}
END_TEST

/* With duplicates, datagrams take another path through the impairment. */
START_TEST(lost_and_doubled)
{
	impaired("mask=6,dup=1");
	ck_assert_int_eq(send_letters(4, 0), 1);
	ck_assert_str_eq(said(), "a a d d b!impair_lost c!impair_lost");
}
END_TEST

/* A datagram that a full socket did not take is decided again, and captured once. */
START_TEST(blocked)
{
	impaired(_i ? "mask=6,dup=1" : "mask=6");
	f->room = 0;
	ck_assert_int_eq(send_letters(4, 0), -EAGAIN);
	ck_assert_int_eq(send_letters(4, 1), -EAGAIN);
	f->room = -1;
	ck_assert_int_eq(send_letters(4, 2), 1);
	ck_assert_str_eq(said(), _i ? "a a d d b!impair_lost c!impair_lost" : "a d b!impair_lost c!impair_lost");
}
END_TEST

START_TEST(received)
{
	struct diw_dgram_burst b;

	fake_deliver(f, &peer, "aaaabbbbccccd", 13, SEG);
	ck_assert_int_eq(top->ops->recv(top, &b, 1, 0), 1);
	diw_dgram_dropped(top, (uint8_t *)b.iov->iov_base + 5, "rx_stag");
	diw_dgram_dropped(top, (uint8_t *)b.iov->iov_base + 12, "rx_short");
	top->watch->seen(top->watch, 5);
	fake_deliver(f, &peer, "", 0, 0);
	ck_assert_int_eq(top->ops->recv(top, &b, 1, 6), 1);
	diw_dgram_dropped(top, b.iov->iov_base, "rx_short");
	top->watch->seen(top->watch, 6);
	ck_assert_str_eq(said(), "a< b<!rx_stag c< d<!rx_short -<!rx_short");
	ck_assert_uint_eq(g.packet[0].ns, EPOCH + 5);
}
END_TEST

START_TEST(lost_when_received)
{
	struct diw_dgram_burst b;

	impaired("rx.mask=2");
	fake_deliver(f, &peer, "aaaabbbbcccc", 12, SEG);
	while (top->ops->recv(top, &b, 1, 0) == 1)
		top->watch->seen(top->watch, 0);
	ck_assert_str_eq(said(), "b<!impair_lost a< c<");
}
END_TEST

/* The packet is in the file after a while, although nothing was closed. */
START_TEST(flushed)
{
	struct diw_dgram_burst b;

	f->deadline = DIW_NEVER;
	ck_assert_uint_eq(top->ops->deadline(top), DIW_NEVER);
	ck_assert_int_eq(send_letters(2, 1), 1);
	ck_assert_uint_eq(top->ops->deadline(top), 1 + 100 * DIW_MS);
	png_read(&g, path);
	ck_assert_int_eq(g.n, 0);
	png_free(&g);
	ck_assert_int_eq(top->ops->recv(top, &b, 1, 1 + 100 * DIW_MS), 0);
	ck_assert_uint_eq(top->ops->deadline(top), DIW_NEVER);
	png_read(&g, path);
	ck_assert_int_eq(g.n, 2);
	png_free(&g);
	said();
}
END_TEST

Suite *suite_capture(void)
{
	Suite *s = suite_create("capture");
	TCase *tc = tcase_create("capture");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, sent);
	tcase_add_test(tc, lost_when_sent);
	tcase_add_test(tc, lost_and_doubled);
	tcase_add_loop_test(tc, blocked, 0, 2);
	tcase_add_test(tc, received);
	tcase_add_test(tc, lost_when_received);
	tcase_add_test(tc, flushed);
	suite_add_tcase(s, tc);
	return s;
}
