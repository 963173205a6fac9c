/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes captures that diwarp's programs do not make, for tests/system/tools/dump.sh:  pcap KIND > FILE
 * They are classic pcap files in big-endian order with nanoseconds, of datagrams between two ports of one IPv4 host.
 */
#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "base/wire.h"

#define MAX 2048u
#define HDR 28u                              /* IPv4 and UDP */
#define RECORD (1u << 30)

enum { RAW = 101, ETHERNET = 1, COOKED = 113, COOKED2 = 276, LOOP = 108 };

static const struct { const char *kind; uint32_t link, len; uint8_t bytes[24]; } links[] = {
	{ "vlan", ETHERNET, 22, { [12] = 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0 } },
	{ "sll", COOKED, 16, { [14] = 8, 0 } },
	{ "sll2", COOKED2, 20, { 8, 0 } },
	{ "loop", LOOP, 4, { [3] = 2 } },
};
static const uint8_t *before;                /* in front of each IP header */
static uint32_t before_len;

static void begin(uint32_t link)
{
	uint8_t h[24] = { 0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4 };

	diw_put32(h + 16, 65535);
	diw_put32(h + 20, link);
	fwrite(h, 1, sizeof h, stdout);
}

/* The first CAPTURED bytes of a packet with LEN bytes of payload. */
static void packet(uint32_t sec, uint16_t from, const uint8_t *payload, uint32_t len, uint32_t captured)
{
	uint8_t p[16 + 24 + HDR + MAX] = { 0 }, *ip = p + 16 + before_len;
	uint32_t total = before_len + HDR + len;

	captured = captured < total ? captured : total;
	diw_put32(p, 1700000000 + sec);
	diw_put32(p + 4, 123456789);
	diw_put32(p + 8, captured);
	diw_put32(p + 12, total);
	if (before_len)
		memcpy(p + 16, before, before_len);
	ip[0] = 0x45;
	diw_put16(ip + 2, (uint16_t)(HDR + len));
	ip[8] = 64;
	ip[9] = 17;
	diw_put32(ip + 12, 0x7f000001);
	diw_put32(ip + 16, 0x7f000001);
	diw_put16(ip + 20, from);
	diw_put16(ip + 22, 4791);
	diw_put16(ip + 24, (uint16_t)(8 + len));
	memcpy(ip + HDR, payload, len);
	fwrite(p, 1, 16 + captured, stdout);
}

static uint32_t seal(uint8_t *p, uint32_t len)
{
	diw_put32le(p + len, diw_crc32(0, p, len));
	return len + 4;
}

/* N bytes at MO of a Write-Record (docs/ud-profile.md section 2); the segment's length. */
static uint32_t segment(uint8_t *p, uint32_t mo, uint32_t n, uint32_t length)
{
	memset(p, 0, 32 + n);
	p[0] = mo + n == length ? 0xc1 : 0x81;
	p[1] = 0x4c;
	diw_put32(p + 2, 0x1234);
	diw_put64(p + 6, 0x1000 + mo);
	diw_put32(p + 20, 77);
	diw_put32(p + 24, mo);
	diw_put32(p + 28, length);
	return seal(p, 32 + n);
}

/* A Write-Record of 300 bytes in three segments. */
static void record(int step)
{
	uint8_t p[MAX];

	for (int i = 0; i < 3; i++)
		packet((uint32_t)(10 + i * step), 5000, p, segment(p, 100 * (uint32_t)i, 100, 300), MAX);
}

static void pieces(void)
{
	uint8_t p[MAX];

	for (uint32_t i = 0; i < 5000; i++)
		packet(0, 5000, p, segment(p, i * 8192, 32, RECORD), MAX);
}

/* Two messages whose rest does not come, and much later a third. */
static void quiet(void)
{
	uint8_t p[MAX];

	for (uint32_t i = 0; i < 3; i++)
		packet(i == 2 ? 10 : 0, 5000, p, segment(p, 0, 100, 300 + i), MAX);
}

/* One super-buffer of three segments; the middle one is damaged. */
static void super(void)
{
	uint8_t p[MAX];
	uint32_t len = 0;

	for (uint32_t i = 0; i < 3; i++)
		len += segment(p + len, 100 * i, 100, 300);
	p[200] ^= 1;
	packet(0, 5000, p, len, MAX);
}

static void cut(void)
{
	uint8_t p[MAX];

	packet(0, 5000, p, segment(p, 0, 100, 300), MAX);
	packet(0, 5000, p, segment(p, 100, 100, 300), 80);
}

/* A segment, and between the same ports datagrams too short for a header, and for a CRC. */
static void tiny(void)
{
	uint8_t p[MAX];

	packet(0, 5000, p, segment(p, 0, 100, 300), MAX);
	packet(0, 5000, p, seal(p, 20), MAX);
	packet(0, 5000, p, 3, MAX);
}

/* RoCEv2: an acknowledgement, and one that is cut short. */
static void roce(void)
{
	uint8_t bth[MAX] = { 0x11, 0x40, 0xff, 0xff, [7] = 0x11, [11] = 1, [15] = 1 };

	packet(0, 49152, bth, 20, MAX);
	packet(0, 49152, bth, 5, MAX);
	record(0);
}

/* The CRC is good by chance in the middle of other data. */
static void chance(void)
{
	uint8_t p[MAX];

	memset(p, 'x', sizeof p);
	seal(p, 100);
	packet(0, 5000, p, 500, MAX);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	static const struct { const char *kind; void (*write)(void); } kinds[] = { { "pieces", pieces },
		{ "quiet", quiet }, { "super", super }, { "cut", cut }, { "tiny", tiny }, { "roce", roce },
		{ "chance", chance } };

	for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
		if (!strcmp(kind, links[i].kind)) {
			begin(links[i].link);
			before = links[i].bytes;
			before_len = links[i].len;
			record(0);
			return 0;
		}
	begin(RAW);
	if (!strcmp(kind, "backwards"))
		record(-1);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (!strcmp(kind, kinds[i].kind))
			kinds[i].write();
	return ferror(stdout);
}
