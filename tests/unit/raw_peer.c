/* SPDX-License-Identifier: BSD-2-Clause */
/* An RC peer on a plain socket, with MPA framing, markers and CRC by RFC 5044. */
#include "tests/unit/raw_peer.h"

#include <check.h>
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WAIT_MS 30000

/* RFC 3720's CRC-32C, bit by bit. */
uint32_t raw_crc32c(const uint8_t *p, uint32_t n)
{
	uint32_t crc = ~0u;

	while (n--) {
		crc ^= *p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

uint64_t raw_get(const uint8_t *p, int octets)
{
	uint64_t v = 0;

	while (octets--)
		v = v << 8 | *p++;
	return v;
}

void raw_put(uint8_t *p, int octets, uint64_t v)
{
	while (octets--) {
		p[octets] = (uint8_t)v;
		v >>= 8;
	}
}

/* ---- Segments ---- */

static void parse(struct seg *s, const char *text)
{
	char pair[3] = "";

	s->n = 0;
	while (*text) {
		if (*text == ' ') {
			text++;
			continue;
		}
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
			ck_abort_msg("no hex: %s", text);
		pair[0] = *text++;
		pair[1] = *text++;
		s->b[s->n++] = (uint8_t)strtoul(pair, NULL, 16);
	}
}

#define FORMAT(s, fmt) \
	do { \
		char text_[8192]; \
		va_list ap_; \
		va_start(ap_, fmt); \
		ck_assert_int_lt(vsnprintf(text_, sizeof text_, fmt, ap_), (int)sizeof text_); \
		va_end(ap_); \
		parse(s, text_); \
	} while (0)

void seg_hex(struct seg *s, const char *fmt, ...)
{
	FORMAT(s, fmt);
}

void seg_add(struct seg *s, const void *p, uint32_t n)
{
	memcpy(s->b + s->n, p, n);
	s->n += n;
}

/* ---- Sending ---- */

struct out { uint8_t *p; uint32_t n, start; };

/* RFC 5044 section 4.3: a marker at every 512th octet, which points back at the FPDU's length field. */
static void marker(struct raw *r, struct out *o, bool begun)
{
	if (!r->tx_markers || r->tx_pos % 512)
		return;
	raw_put(o->p + o->n, 4, begun ? o->n - o->start : 0);
	o->n += 4;
	r->tx_pos += 4;
}

static void emit(struct raw *r, struct out *o, uint8_t octet)
{
	marker(r, o, true);
	o->p[o->n++] = octet;
	r->tx_pos++;
}

uint32_t raw_fpdu(struct raw *r, uint8_t *out, const struct seg *s)
{
	struct out o = { .p = out };
	uint32_t crc;

	marker(r, &o, false);
	o.start = o.n;
	emit(r, &o, (uint8_t)(s->n >> 8));
	emit(r, &o, (uint8_t)s->n);
	for (uint32_t i = 0; i < s->n; i++)
		emit(r, &o, s->b[i]);
	for (uint32_t i = s->n + 2; i % 4; i++)
		emit(r, &o, 0);
	marker(r, &o, true);
	crc = r->crc ? raw_crc32c(out, o.n) : 0;
	for (int i = 0; i < 4; i++)
		emit(r, &o, (uint8_t)(crc >> 8 * i));
	return o.n;
}

void raw_octets(struct raw *r, const void *p, uint32_t n)
{
	ck_assert_int_eq(send(r->fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
}

void raw_seg(struct raw *r, const struct seg *s)
{
	uint8_t *p = malloc(FPDU_MAX);

	raw_octets(r, p, raw_fpdu(r, p, s));
	free(p);
}

void raw_hex(struct raw *r, const char *fmt, ...)
{
	static struct seg s;

	FORMAT(&s, fmt);
	raw_seg(r, &s);
}

/* ---- Receiving ---- */

static ssize_t take(struct raw *r, uint8_t *p, uint32_t n)
{
	struct pollfd pfd = { .fd = r->fd, .events = POLLIN };

	ck_assert_msg(poll(&pfd, 1, WAIT_MS) == 1, "nothing comes");
	return recv(r->fd, p, n, 0);
}

/* False: the stream ended before the first octet. */
static bool read_all(struct raw *r, uint8_t *p, uint32_t n)
{
	for (uint32_t have = 0; have < n;) {
		ssize_t got = take(r, p + have, n - have);

		if (got == 0 && have == 0)
			return false;
		ck_assert_msg(got > 0, "the stream ended within: %s", got ? strerror(errno) : "FIN");
		have += (uint32_t)got;
	}
	return true;
}

struct in { uint8_t b[FPDU_MAX]; uint32_t n, start; };

/* Reads octets of the FPDU without its markers, up to one marker at a time. */
static bool pull(struct raw *r, struct in *in, uint8_t *p, uint32_t n)
{
	while (n) {
		uint32_t run = r->rx_markers ? 512 - r->rx_pos % 512 : n;

		if (r->rx_markers && r->rx_pos % 512 == 0) {
			bool first = in->n == 0;

			if (!read_all(r, in->b + in->n, 4))
				return false;
			ck_assert_uint_eq(raw_get(in->b + in->n, 4), first ? 0 : in->n - in->start);
			in->n += 4;
			in->start = first ? in->n : in->start;
			r->rx_pos += 4;
			run = 508;
		}
		run = run < n ? run : n;
		if (!read_all(r, in->b + in->n, run)) {
			ck_assert_uint_eq(in->n, 0);
			return false;
		}
		memcpy(p, in->b + in->n, run);
		in->n += run;
		r->rx_pos += run;
		p += run;
		n -= run;
	}
	return true;
}

bool raw_read(struct raw *r, struct seg *s)
{
	static struct in in;
	uint8_t len[2], pad[4], tail[4];
	uint32_t crc, covered;

	in.n = in.start = 0;
	if (!pull(r, &in, len, 2))
		return false;
	s->n = (uint32_t)raw_get(len, 2);
	ck_assert(pull(r, &in, s->b, s->n));
	ck_assert(pull(r, &in, pad, -(s->n + 2) % 4));
	for (uint32_t i = 0; i < -(s->n + 2) % 4; i++)
		ck_assert_uint_eq(pad[i], 0);
	ck_assert(pull(r, &in, tail, 4));
	covered = in.n - 4;
	crc = r->crc ? raw_crc32c(in.b, covered) : 0;
	ck_assert_uint_eq(tail[0] | tail[1] << 8 | tail[2] << 16 | (uint32_t)tail[3] << 24, crc);
	return true;
}

static void show(char *text, const struct seg *s)
{
	for (uint32_t i = 0; i < s->n && i < 100; i++)
		text += sprintf(text, "%02x%s", s->b[i], i % 4 == 3 ? " " : "");
	*text = 0;
}

void raw_expect_seg(struct raw *r, const struct seg *want)
{
	static struct seg got;
	char a[300], b[300];

	ck_assert_msg(raw_read(r, &got), "the stream has ended");
	show(a, &got);
	show(b, want);
	ck_assert_msg(got.n == want->n && memcmp(got.b, want->b, got.n) == 0, "%u octets %s, not %u %s", got.n, a,
		      want->n, b);
}

void raw_expect(struct raw *r, const char *fmt, ...)
{
	static struct seg s;

	FORMAT(&s, fmt);
	raw_expect_seg(r, &s);
}

void raw_expect_end(struct raw *r)
{
	uint8_t c;

	ck_assert_int_eq(take(r, &c, 1), 0);
}

void raw_drain(struct raw *r)
{
	uint8_t b[4096];

	while (take(r, b, sizeof b) > 0)
		continue;
}

uint32_t raw_read_frame(struct raw *r, uint8_t hdr[20], uint8_t *data, uint32_t max)
{
	uint32_t n;

	ck_assert(read_all(r, hdr, 20));
	n = (uint32_t)raw_get(hdr + 18, 2);
	ck_assert_uint_le(n, max);
	ck_assert(n == 0 || read_all(r, data, n));
	return n;
}
