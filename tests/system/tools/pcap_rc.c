/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes captures of connections that no program of ours makes, for tests/system/tools/rc_dump.sh:
 *         pcap_rc KIND > FILE
 * Classic pcap files of IPv4 packets. A connection: request, reply, then 20 Sends of 300 octets one way and one the
 * other.
 *         pcap_rc fuzz SEED > FILE     500 connections, each damaged in another way
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/rng.h"
#include "base/wire.h"

#define MAX (128u << 10)
#define HDR 40u                              /* IPv4 and TCP */
#define SENDS 20
#define SEND_LEN 300u
enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };

struct stream { uint8_t b[MAX]; uint32_t len, at[2 + SENDS]; int n; };      /* at: where each frame and FPDU begins */

static struct stream from_a, from_b;
static uint16_t port = 5000;
static uint32_t isn;                         /* of both ends */
static bool no_crc, markers;

static void begin(void)
{
	uint8_t h[24] = { 0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, [16] = 0, 4, 0, 0, [23] = 101 };

	fwrite(h, 1, sizeof h, stdout);
}

static void packet(bool a, uint8_t flags, uint32_t seq, const uint8_t *p, uint32_t len)
{
	static uint8_t k[16 + HDR + 65536];
	uint8_t *ip = k + 16, *tcp = ip + 20;
	static uint32_t usec, sent[2];

	sent[a] = seq == UINT32_MAX ? 0 : seq + len > sent[a] ? seq + len : sent[a];
	memset(k, 0, 16 + HDR);
	diw_put32(k, 1700000000 + ++usec / 1000000);
	diw_put32(k + 4, usec % 1000000);
	diw_put32(k + 8, HDR + len);
	diw_put32(k + 12, HDR + len);
	ip[0] = 0x45;
	diw_put16(ip + 2, (uint16_t)(HDR + len));
	ip[8] = 64;
	ip[9] = 6;
	diw_put32(ip + 12, a ? 0xc0000201 : 0xc0000202);
	diw_put32(ip + 16, a ? 0xc0000202 : 0xc0000201);
	diw_put16(tcp, a ? port : 4791);
	diw_put16(tcp + 2, a ? 4791 : port);
	diw_put32(tcp + 4, isn + seq);
	diw_put32(tcp + 8, isn + sent[!a]);
	tcp[12] = 0x50;
	tcp[13] = flags;
	if (len)
		memcpy(tcp + 20, p, len);
	fwrite(k, 1, 16 + HDR + len, stdout);
}

static void open_connection(void)
{
	packet(true, SYN, UINT32_MAX, NULL, 0);
	packet(false, SYN | ACK, UINT32_MAX, NULL, 0);
	packet(true, ACK, 0, NULL, 0);
}

static void send_range(const struct stream *s, uint32_t from, uint32_t to)
{
	packet(s == &from_a, PSH | ACK, from, s->b + from, to - from);
}

/* Every frame and FPDU is a segment. */
static void send_item(const struct stream *s, int i)
{
	send_range(s, s->at[i], i + 1 < s->n ? s->at[i + 1] : s->len);
}

static void put_frame(struct stream *s, const char *key, uint8_t flags, const void *data, uint16_t len)
{
	s->len = 0;
	s->n = 1;
	s->at[0] = 0;
	memcpy(s->b, key, 16);
	s->b[16] = flags;
	s->b[17] = 1;
	diw_put16(s->b + 18, len);
	memcpy(s->b + 20, data, len);
	s->len = 20u + len;
}

/* A Send of LEN octets, with a marker wherever MARKERS has one. */
static void put_send(struct stream *s, uint32_t msn, uint32_t len)
{
	uint8_t bare[2 + 18 + SEND_LEN + 8] = { 0 }, *out = s->b + s->len;
	uint32_t n = ((2 + 18 + len + 3) & ~3u), first = s->at[1] ? s->at[1] : s->len, lead = 0, at = 0;

	diw_put16(bare, (uint16_t)(18 + len));
	bare[2] = 0x41;
	bare[3] = 0x43;
	diw_put32(bare + 12, msn);
	for (uint32_t i = 0; i < len; i++)
		bare[20 + i] = (uint8_t)(msn + i);
	s->at[s->n++] = s->len;
	for (uint32_t i = 0; i < n + 4; i++) {
		if (markers && (s->len + at - first) % 512 == 0) {
			diw_put16(out + at, 0);
			diw_put16(out + at + 2, (uint16_t)(at ? at - lead : 0));
			lead = at ? lead : 4;
			at += 4;
		}
		if (i == n)
			diw_put32le(out + at, no_crc ? 0 : diw_crc32c(0, out, at));
		if (i < n)
			out[at++] = bare[i];
		else
			at++;
	}
	s->len += at;
}

static void build(void)
{
	uint8_t flags = (uint8_t)((no_crc ? 0 : 0x40) | (markers ? 0x80 : 0));

	from_a.at[1] = from_b.at[1] = 0;
	put_frame(&from_a, "MPA ID Req Frame", flags, "hello", 5);
	put_frame(&from_b, "MPA ID Rep Frame", flags, "", 0);
	for (uint32_t i = 1; i <= SENDS; i++)
		put_send(&from_a, i, SEND_LEN);
	put_send(&from_b, 1, 10);
}

/* Frames, and all of B's. */
static void begin_stream(void)
{
	build();
	open_connection();
	send_item(&from_a, 0);
	send_item(&from_b, 0);
	send_item(&from_b, 1);
}

static void end_stream(void)
{
	packet(true, FIN | ACK, from_a.len, NULL, 0);
	packet(false, FIN | ACK, from_b.len, NULL, 0);
}

/* A's FPDUs in segments of LEN octets, without segment number MISSING. */
static void in_pieces(uint32_t len, uint32_t missing)
{
	uint32_t i = 0;

	begin_stream();
	for (uint32_t at = from_a.at[1]; at < from_a.len; at += len)
		if (i++ != missing)
			send_range(&from_a, at, at + len < from_a.len ? at + len : from_a.len);
	end_stream();
}

static void items_without(int from, int to)
{
	for (int i = 1; i <= SENDS; i++)
		if (i < from || i > to)
			send_item(&from_a, i);
}

static void kind_whole(void) { in_pieces(1000, UINT32_MAX); }
static void kind_octets(void) { in_pieces(1, UINT32_MAX); }
static void kind_wrap(void) { isn = UINT32_MAX - 2000; in_pieces(1000, UINT32_MAX); }
static void kind_hole(void) { in_pieces(1000, 2); }
static void kind_markers(void) { markers = true; in_pieces(700, UINT32_MAX); }
static void kind_nocrc(void) { no_crc = true; in_pieces(700, UINT32_MAX); }
static void kind_eager(void)
{
	no_crc = true;
	build();
	open_connection();
	send_range(&from_a, 0, from_a.at[2]);
	send_item(&from_a, 2);
	send_range(&from_b, 0, from_b.len);
	for (int i = 3; i <= SENDS; i++)
		send_item(&from_a, i);
	end_stream();
}

static void kind_gap(void) { begin_stream(); items_without(5, 6); end_stream(); }
static void kind_middle(void) { build(); items_without(1, 9); }

static void kind_markers_gap(void)
{
	markers = true;
	in_pieces(700, 3);
}

static void kind_reorder(void)
{
	begin_stream();
	for (int i = 1; i + 3 <= SENDS; i += 4)
		for (int k = 3; k >= 0; k--)
			send_item(&from_a, i + k);
	end_stream();
}

static void kind_again(void)
{
	begin_stream();
	for (uint32_t at = from_a.at[1]; at < from_a.len; at += 500)
		for (uint32_t back = 0; back <= 1000; back += 500)
			send_range(&from_a, at > from_a.at[1] + back ? at - back : at,
				   at + 700 < from_a.len ? at + 700 : from_a.len);
	end_stream();
}

static void kind_damage(void)
{
	begin_stream();
	from_a.b[from_a.at[7] + 100] ^= 1;
	items_without(0, 0);
	end_stream();
}

/* The length field says more than there is. */
static void kind_length(void)
{
	begin_stream();
	diw_put16(from_a.b + from_a.at[7], 65535);
	items_without(0, 0);
	end_stream();
}

static void kind_reuse(void)
{
	kind_whole();
	isn = 99;
	kind_whole();
}

static void kind_reset(void)
{
	begin_stream();
	items_without(2, 2);                     /* a gap that nothing will fill */
	packet(true, RST, from_a.len, NULL, 0);
}

static void kind_reject(void)
{
	build();
	from_b.b[16] |= 0x20;
	send_item(&from_a, 0);
	send_item(&from_b, 0);
}

static void kind_longdata(void)
{
	build();
	diw_put16(from_a.b + 18, 513);
	send_range(&from_a, 0, from_a.len);
}

/* More connections than are followed at a time. */
static void kind_many(void)
{
	build();
	for (port = 5000; port < 10000; port++) {
		send_item(&from_a, 0);
		send_item(&from_b, 0);
		send_range(&from_a, from_a.at[1], from_a.at[1] + 10);    /* which is never completed */
	}
}

static void kind_foreign(void)
{
	packet(true, PSH | ACK, 0, (const uint8_t *)"GET / HTTP/1.0\r\n\r\n", 18);
	packet(false, PSH | ACK, 0, (const uint8_t *)"MPA ID R", 8);
	packet(false, PSH | ACK, 8, (const uint8_t *)"oadrunner", 9);
	packet(false, FIN | ACK, 17, NULL, 0);
}

static void fuzz(uint64_t seed)
{
	struct diw_rng r = { seed };

	for (int i = 0; i < 500; i++, port++) {
		uint32_t at[2] = { 0, 0 }, faults = diw_rng_next(&r) % 4;
		struct stream *both[2] = { &from_a, &from_b };

		markers = diw_rng_next(&r) % 2;
		no_crc = diw_rng_next(&r) % 4 == 0;
		isn = (uint32_t)diw_rng_next(&r);
		build();
		open_connection();
		while (faults--) {
			struct stream *s = both[diw_rng_next(&r) % 2];
			uint32_t item = s->at[diw_rng_next(&r) % (uint32_t)s->n], at_all = diw_rng_next(&r) % s->len;
			uint32_t where = diw_rng_next(&r) % 2 ? item + diw_rng_next(&r) % 24 : at_all;
			uint8_t extreme = diw_rng_next(&r) % 2 ? 255 : 0, any = (uint8_t)diw_rng_next(&r);

			s->b[where % s->len] = diw_rng_next(&r) % 2 ? any : extreme;
		}
		while (at[0] < from_a.len || at[1] < from_b.len) {
			int side = diw_rng_next(&r) % 2;
			struct stream *s = both[side];
			uint32_t len = 1 + (uint32_t)(diw_rng_next(&r) % 700);
			uint64_t what = diw_rng_next(&r) % 64;

			if (at[side] >= s->len)
				continue;
			len = len < s->len - at[side] ? len : s->len - at[side];
			if (what != 0)
				send_range(s, at[side], at[side] + len);
			if (what == 1)
				packet(!side, (uint8_t)diw_rng_next(&r), at[side] + (uint32_t)diw_rng_next(&r), s->b,
				       len);
			if (what == 2)
				at[side] = at[side] / 2;
			else
				at[side] += len;
		}
	}
}

int main(int argc, char **argv)
{
	static const struct { const char *kind; void (*write)(void); } kinds[] = {
		{ "whole", kind_whole }, { "octets", kind_octets }, { "wrap", kind_wrap }, { "hole", kind_hole },
		{ "markers", kind_markers }, { "markers-gap", kind_markers_gap }, { "nocrc", kind_nocrc },
		{ "eager", kind_eager },
		{ "gap", kind_gap }, { "middle", kind_middle }, { "reorder", kind_reorder }, { "again", kind_again },
		{ "damage", kind_damage },
		{ "length", kind_length }, { "reuse", kind_reuse }, { "reset", kind_reset }, { "reject", kind_reject },
		{ "longdata", kind_longdata }, { "many", kind_many }, { "foreign", kind_foreign },
	};

	begin();
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (argc > 1 && !strcmp(argv[1], kinds[i].kind))
			kinds[i].write();
	if (argc > 2 && !strcmp(argv[1], "fuzz"))
		fuzz(strtoull(argv[2], NULL, 10));
	return ferror(stdout);
}
