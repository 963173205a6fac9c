/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_bad PORT: a hostile peer of an interposed listener. It sends bytes that no interposed peer sends, some of
 * them with the listener's key. It prints the lines that `tcp.py tell` should print of each connection. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "base/crc.h"
#include "base/wire.h"
#include "sockets_preload/shm/sockreg.h"
#include "wire/hdr.h"
#include "wire/mpa_frame.h"

#define HELLO 48u
#define HEAD 20u

static uint16_t port;
static uint64_t key;
static uint8_t buf[200000];
static size_t len;
static uint8_t got[200000];              /* the data that the program should get */
static size_t ngot;

static void find_key(void)
{
	char path[PATH_MAX];
	const char *why;
	struct diw_sockreg *reg = diw_sockreg_open(false, path, sizeof path, &why);
	struct diw_sock_entry copy;

	for (uint32_t i = 0; reg && i < DIW_SOCKREG_ENTRIES; i++)
		if (diw_sock_read(reg, diw_sockreg_entry(reg, i), &copy) && copy.flags & DIW_SOCK_STREAM &&
		    copy.local.port == port && !copy.remote.port)
			key = copy.key[0];
	if (!key) {
		fprintf(stderr, "no listener\n");
		exit(1);
	}
}

static void hello(uint64_t k, bool crc)
{
	uint8_t data[28] = "diwstrm\1";
	struct diw_mpa_frame f = { .crc = crc, .revision = 1, .len = sizeof data, .data = data };

	diw_put64(data + 8, k);
	diw_put64(data + 16, 12345);
	diw_put32(data + 24, 4096);
	len += diw_mpa_frame_encode(buf + len, &f);
}

static struct diw_ddp_hdr header(uint32_t msn)
{
	return (struct diw_ddp_hdr){ .plain = true, .last = true, .opcode = 3, .msn = msn };
}

/* An FPDU of N bytes with that header. ULPDU: the value of its length field; 0: the real one. */
static void fpdu(const struct diw_ddp_hdr *h, size_t n, uint16_t ulpdu)
{
	uint8_t *p = buf + len;
	size_t pad = -(2 + 18 + n) % 4, head = diw_ddp_hdr_encode(p + 2, h);

	diw_put16(p, ulpdu ? ulpdu : (uint16_t)(head + n));
	for (size_t i = 0; i < n; i++)
		p[2 + head + i] = (uint8_t)(i * 7 + n);
	memset(p + 2 + head + n, 0, pad);
	diw_put32le(p + 2 + head + n + pad, diw_crc32c(0, p, 2 + head + n + pad));
	len += 2 + head + n + pad + 4;
	memcpy(got + ngot, p + 2 + head, n);
	ngot += n;
}

static void good(uint32_t msn, size_t n)
{
	struct diw_ddp_hdr h = header(msn);

	fpdu(&h, n, 0);
}

/* Sends it, in pieces of STEP bytes behind the first FIRST, and waits until the program has read enough. */
static void play(const char *outcome, size_t n, size_t first, size_t step)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	char rest[4096];

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(fd, (void *)&to, sizeof to) < 0)
		exit(1);
	for (size_t at = 0; at < len; ) {
		size_t piece = at < first ? first - at : step;
		ssize_t rc = send(fd, buf + at, piece < len - at ? piece : len - at, MSG_NOSIGNAL);

		if (rc < 0)
			break;
		at += (size_t)rc;
	}
	shutdown(fd, SHUT_WR);
	while (recv(fd, rest, sizeof rest, 0) > 0)
		;
	close(fd);
	printf("%s %zu %08lx\n", outcome, n, adler32(1, got, (unsigned)n));
	fflush(stdout);
	len = ngot = 0;
}

/* The bytes are no frames: the program gets them unchanged. */
static void plain(void)
{
	memcpy(got, buf, len);
	play("end", len, len, 1);
}

static void delivered(size_t first, size_t step)
{
	play("end", ngot, first, step);
}

/* Behind a good FPDU of 5 bytes. */
static void malformed(void)
{
	play("ECONNRESET", 5, len, 1);
}

static void begin(bool crc)
{
	hello(key, crc);
	good(1, 5);
}

static void not_framed(void)
{
	static const size_t parts[] = { 1, 5, 16, 17, 20, 28, 36, 47 };

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		hello(key, false);
		len = parts[i];
		plain();
	}
	hello(key ^ 1, false);
	good(1, 100);
	plain();
	for (size_t i = 0; i < 36; i++) {    /* every byte counts, except the choice of the CRC */
		hello(key, false);
		buf[i] ^= i == 16 ? 0x80 : 1;
		good(1, 10);
		plain();
	}
	memset(buf, 0, len = 60);
	plain();
}

static void framed(void)
{
	for (int crc = 0; crc < 2; crc++) {
		hello(key, crc);
		delivered(len, 1);
		for (size_t step = 1; step < 30; step += 4) {
			hello(key, crc);
			for (uint32_t i = 1; i < 9; i++)
				good(i, i * 3);
			delivered(HELLO, step);
		}
		hello(key, crc);
		for (uint32_t i = 1; i < 20; i++)
			good(i, i * 211);
		delivered(HELLO + 10, 1000);
	}
	hello(key, false);
	good(1, 65504);
	good(2, 65504);
	delivered(HELLO, 65536);
}

static void bad_headers(void)
{
	for (int what = 0; what < 10; what++) {
		struct diw_ddp_hdr h = header(2);
		uint16_t ulpdu = 0;
		size_t at;

		begin(false);
		at = len;
		switch (what) {
		case 0: h.msn = 1; break;
		case 1: h.msn = 3; break;
		case 2: h.qn = 1; break;
		case 3: h.mo = 1; break;
		case 4: h.last = false; break;
		case 5: h.opcode = 4; break;
		case 6: h.inv_stag = 9; break;
		case 7: ulpdu = 17; break;
		case 8: ulpdu = 18; break;
		default: break;
		}
		fpdu(&h, 40, ulpdu);
		if (what == 9)
			buf[at + 2] ^= 1;    /* DDP's version */
		malformed();
	}
	begin(false);
	memset(buf + len, 0, 100);
	len += 100;
	malformed();
}

static void cut(void)
{
	for (size_t n = 1; n < HEAD + 8; n++) {
		size_t before;

		begin(false);
		before = len;
		good(2, 4);
		len = before + n;
		if (n <= HEAD)
			play("ECONNRESET", 5, len, 1);
		else
			play("ECONNRESET", 5 + (n - HEAD < 4 ? n - HEAD : 4), len, 1);
		begin(true);
		before = len;
		good(2, 4);
		len = before + n;
		play("ECONNRESET", 5, len, 1);
	}
}

static void bad_crc(void)
{
	for (size_t i = 0; i < HEAD + 8; i++) {
		size_t at;

		if (i == 0)
			continue;            /* the FPDU would be longer, and cut */
		begin(true);
		at = len;
		good(2, 4);
		buf[at + i] ^= 0x10;
		play("ECONNRESET", 5, len, 1);
	}
	hello(key, true);
	good(1, 4097);
	play("ECONNRESET", 0, len, 1);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	port = (uint16_t)atoi(argv[1]);
	find_key();
	not_framed();
	framed();
	bad_headers();
	cut();
	bad_crc();
	return 0;
}
