/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of the programs of the exchange.
 *
 * usage: PROGRAM -c ADDRESS | -s LOCAL  -p PORT
 *   -S size     of the largest message       -n reads      outstanding at a time
 *   -d bytes    of private data, sent        -D bytes      expected
 *   -x          the responder refuses        -i            our initiator tells of RFC 7306 behind its data
 *   -e end      disconnect, abort, stale     -b            by this end
 *   -w ms       initiator: waits before its first message
 *   -q          ... and nothing may come meanwhile
 *   -f          the responder sends first, and the initiator after it has received that
 *   -C count    rounds of rping
 * our end only:
 *   -k          CRC                          -m revision   of MPA
 *   -t letters  ready-to-receive: w, r, f
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/interop/exchange.h"

struct plan plan = { .local = "0.0.0.0", .size = 1u << 20, .reads = 1, .count = 10, .end = "disconnect", .revision = 2,
		     .rtr = "wr" };

int complain(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	return -1;
}

uint8_t byte_of(bool of_initiator, size_t at)
{
	return (uint8_t)(((uint32_t)at * 2654435761u + (of_initiator ? 0x5a000000u : 0)) >> 24);
}

void data_fill(uint8_t *p, uint32_t len, bool of_initiator)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = byte_of(of_initiator, i + 77);
}

int data_check(const uint8_t *data, uint32_t len)
{
	uint8_t want[512];

	if (len != plan.peer_data)
		return complain("%u bytes of private data, not %u", len, plan.peer_data);
	data_fill(want, len, !plan.addr);
	return memcmp(data, want, len) == 0 ? 0 : complain("private data is not what was sent");
}

int plan_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "c:s:p:S:n:d:D:xie:bw:qfkm:t:C:")) != -1)
		switch (c) {
		case 'c': plan.addr = optarg; break;
		case 's': plan.local = optarg; break;
		case 'p': plan.port = (uint16_t)atoi(optarg); break;
		case 'S': plan.size = (uint32_t)atoi(optarg); break;
		case 'n': plan.reads = (unsigned)atoi(optarg); break;
		case 'd': plan.data = (uint32_t)atoi(optarg); break;
		case 'D': plan.peer_data = (uint32_t)atoi(optarg); break;
		case 'x': plan.reject = true; break;
		case 'i': plan.discovery = true; break;
		case 'e': plan.end = optarg; break;
		case 'b': plan.ends = true; break;
		case 'w': plan.pause_ms = (unsigned)atoi(optarg); break;
		case 'q': plan.quiet = true; break;
		case 'f': plan.responder_first = true; break;
		case 'k': plan.crc = true; break;
		case 'm': plan.revision = (uint8_t)atoi(optarg); break;
		case 't': plan.rtr = optarg; break;
		case 'C': plan.count = (unsigned)atoi(optarg); break;
		default: return complain("usage: as the head of plan.c says");
		}
	return plan.port && plan.size && plan.reads && plan.data <= 512 && plan.peer_data <= 512 ? 0 :
		complain("a port, a size, a number of Reads; at most 512 bytes of private data");
}
