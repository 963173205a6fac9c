/* SPDX-License-Identifier: BSD-2-Clause */
/* The capturing stream: the TCP segments in the file for data that was sent and received, for ends and resets. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/wire.h"
#include "llp/capture.h"
#include "llp/pcapng.h"
#include "tests/unit/fake_stream.h"
#include "tests/unit/pcapng_kit.h"
#include "tests/unit/unit.h"

static char path[40];
static struct diw_pcapng *file;
static struct fake_stream *f;
static struct diw_stream *s;
static uint64_t now;
static int connected;
static struct diw_stream_ops ops;
static struct png g;

static uint64_t clock_of(void *ctx)
{
	return *(uint64_t *)ctx;
}

static int fake_connected(struct diw_stream *stream)
{
	stream->local.port = 1001;
	return connected;
}

static void setup(void)
{
	int fd;

	strcpy(path, "/tmp/diw-capture-stream-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(diw_pcapng_open(path, &file), 0);
	f = fake_stream_new();
	ops = *f->s.ops;
	ops.connected = fake_connected;
	f->s.ops = &ops;
	now = 5;
	connected = 0;
}

static void teardown(void)
{
	unlink(path);
	fake_stream_free(f);
}

static void open_stream(bool accepted)
{
	const struct diw_capture_clock clock = { .now = clock_of, .ctx = &now, .epoch_ns = 1000 };

	s = &f->s;
	ck_assert_int_eq(diw_capture_stream(file, &clock, accepted, &s), 0);
	ck_assert_ptr_ne(s, &f->s);
}

static ssize_t send_text(const char *a, const char *b)
{
	struct iovec iov[3] = { { (char *)a, strlen(a) }, { (char *)"", 0 }, { (char *)b, strlen(b) } };

	return s->ops->send(s, iov, 3);
}

static ssize_t recv_text(const char *text, bool eof, int err)
{
	uint8_t buf[64];
	struct iovec iov = { buf, sizeof buf };

	f->rx = (const uint8_t *)text;
	f->nrx = strlen(text);
	f->rx_at = 0;
	f->eof = eof;
	f->rx_err = err;
	return s->ops->recv(s, &iov, 1);
}

/* The content of the file so far: "DIRECTION FLAGS SEQ/ACK PAYLOAD" for each segment. */
static const char *said(void)
{
	static char text[2048];
	size_t n = 0;

	png_read(&g, path);
	text[0] = '\0';
	for (int i = 0; i < g.n; i++) {
		const uint8_t *ip = g.packet[i].data, *t = ip + 20;
		bool out = g.packet[i].flags == 2;

		ck_assert_mem_eq(ip + (out ? 12 : 16), f->s.local.ip + 12, 4);
		ck_assert_mem_eq(ip + (out ? 16 : 12), f->s.peer.ip + 12, 4);
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s%s%s%s%s %u/%u %.*s", i ? "; " : "",
				      out ? "out" : "in", t[13] & 2 ? "S" : "", t[13] & 1 ? "F" : "",
				      t[13] & 4 ? "R" : "", t[13] & 8 ? "P" : "", t[13] & 16 ? "." : "",
				      diw_get32(t + 4), diw_get32(t + 8), (int)(g.packet[i].len - 40),
				      (const char *)t + 20);
	}
	png_free(&g);
	return text;
}

START_TEST(initiator)
{
	open_stream(false);
	connected = -EAGAIN;
	ck_assert_int_eq(s->ops->connected(s), -EAGAIN);
	ck_assert_str_eq(said(), "out S 0/0 ");
	connected = 0;
	ck_assert_int_eq(s->ops->connected(s), 0);
	ck_assert_uint_eq(s->local.port, 1001);
	now = 77;
	ck_assert_int_eq(send_text("ab", "cde"), 5);
	ck_assert_int_eq(recv_text("xyz", false, 0), 3);
	ck_assert_int_eq(recv_text("", false, 0), -EAGAIN);
	ck_assert_int_eq(send_text("", "f"), 1);
	s->ops->shutdown(s);
	ck_assert_int_eq(f->shut, 1);
	ck_assert_int_eq(recv_text("", true, 0), 0);
	ck_assert_int_eq(recv_text("", true, 0), 0);
	s->ops->close(s, false);
	ck_assert(f->closed == 1 && !f->aborted);
	ck_assert_str_eq(said(), "out S 0/0 ; in S. 0/1 ; out . 1/1 ; out P. 1/1 abcde; in P. 1/6 xyz; out P. 6/4 f; "
			 "out F. 7/4 ; in F. 4/8 ");
	ck_assert_uint_eq(g.packet[0].ns, 1005);
	ck_assert_uint_eq(g.packet[3].ns, 1077);
	diw_pcapng_close(file);
}
END_TEST

START_TEST(responder)
{
	open_stream(true);
	f->room = 3;
	ck_assert_int_eq(send_text("ab", "cde"), 3);             /* bytes that the socket does not take are not
								  * captured */
	ck_assert_int_eq(send_text("ab", "cde"), -EAGAIN);
	s->ops->close(s, true);
	ck_assert(f->closed == 1 && f->aborted);
	ck_assert_str_eq(said(), "in S 0/0 ; out S. 0/1 ; in . 1/1 ; out P. 1/1 abc; out R. 4/1 ");
	diw_pcapng_close(file);
}
END_TEST

START_TEST(refused)
{
	open_stream(false);
	connected = -ECONNREFUSED;
	ck_assert_int_eq(s->ops->connected(s), -ECONNREFUSED);
	s->ops->close(s, true);
	ck_assert_str_eq(said(), "out S 0/0 ; in R. 0/1 ");
	diw_pcapng_close(file);
}
END_TEST

START_TEST(reset)
{
	open_stream(true);
	if (_i == 0) {
		ck_assert_int_eq(recv_text("", false, ECONNRESET), -ECONNRESET);
	} else {
		f->tx_err = EPIPE;
		ck_assert_int_eq(send_text("a", "b"), -EPIPE);
	}
	s->ops->close(s, true);
	ck_assert_str_eq(said(), "in S 0/0 ; out S. 0/1 ; in . 1/1 ; in R. 1/1 ");
	diw_pcapng_close(file);
}
END_TEST

/* Segments are as long as IPv4 allows, and all bytes are there, in order. */
START_TEST(long_sends)
{
	static uint8_t data[200000], got[200000];
	struct iovec iov[3] = { { data, 1 }, { data + 1, 120000 }, { data + 120001, 79999 } };
	size_t n = 0;

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	open_stream(true);
	ck_assert_int_eq(s->ops->send(s, iov, 3), sizeof data);
	s->ops->close(s, false);
	diw_pcapng_close(file);
	png_read(&g, path);
	ck_assert_int_eq(g.n, 3 + 4 + 1);
	for (int i = 3; i < 7; i++) {
		uint32_t len = g.packet[i].len - 40;

		ck_assert_uint_le(len, DIW_PCAPNG_MAX_TCP);
		ck_assert_uint_eq(diw_get32(g.packet[i].data + 24), 1 + n);
		ck_assert_uint_eq(g.packet[i].data[33], i == 6 ? 0x18 : 0x10);
		memcpy(got + n, g.packet[i].data + 40, len);
		n += len;
	}
	ck_assert_uint_eq(n, sizeof data);
	ck_assert_mem_eq(got, data, sizeof data);
	png_free(&g);
}
END_TEST

/* A field that the owner sets in the stream is copied to the socket's. */
START_TEST(apart)
{
	open_stream(true);
	s->apart = true;
	ck_assert_int_eq(send_text("a", "b"), 2);
	ck_assert(f->s.apart);
	ck_assert_uint_eq(s->ops->emss(s), 1448);
	ck_assert_int_eq(s->ops->fd(s), -1);
	ck_assert(!s->ops->hung_up(s));
	ck_assert_int_eq(s->ops->tune(s, NULL), 0);
	s->ops->close(s, true);
	diw_pcapng_close(file);
}
END_TEST

Suite *suite_capture_stream(void)
{
	Suite *suite = suite_create("capture_stream");
	TCase *tc = tcase_create("capture_stream");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, initiator);
	tcase_add_test(tc, responder);
	tcase_add_test(tc, refused);
	tcase_add_loop_test(tc, reset, 0, 2);
	tcase_add_test(tc, long_sends);
	tcase_add_test(tc, apart);
	suite_add_tcase(suite, tc);
	return suite;
}
