/* SPDX-License-Identifier: BSD-2-Clause */
/* The two CRCs of the wires: CRC-32 of datagrams, CRC-32C of FPDUs. ISA-L computes them, or zlib and a table. */
#include "base/crc.h"

#ifdef HAVE_ISAL

#include "base/copy.h"

#include <isa-l/crc.h>
#include <stdbool.h>

/*
 * ISA-L 2.30 computes CRCs in 512-bit registers on a CPU with AVX-512, and leaves their upper halves in use. Each SSE
 * instruction then depends on the old upper half of its destination register, and is several times slower until
 * vzeroupper clears the upper halves (Intel 64 and IA-32 Optimization Reference Manual, "Mixing AVX Code with SSE
 * Code").
 */
static inline void crc_clear_upper_halves(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f"))
		__asm__ volatile("vzeroupper" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
				 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

#define CRC_PART 1024u

/* Whether long buffers are read in parts: where ISA-L's CRC waits for memory. Other processors that were measured read
 * ahead by themselves, and parts cost a quarter of the rate (docs/performance.md). */
static inline bool crc_reads_ahead(void)
{
#ifdef __x86_64__
	return __builtin_cpu_is("intel") && !__builtin_cpu_supports("vpclmulqdq");
#else
	return false;
#endif
}

/* The octets of P that the next call of ISA-L takes. Those behind them are prefetched meanwhile. */
static inline size_t crc_part(const uint8_t *p, size_t len)
{
	if (len <= 2 * CRC_PART || !crc_reads_ahead())
		return len;
	diw_prefetch(p + CRC_PART, CRC_PART);
	return CRC_PART;
}

uint32_t diw_crc32c(uint32_t crc, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	size_t n;

	crc = ~crc;
	for (; len; p += n, len -= n) {
		n = crc_part(p, len);
		crc = crc32_iscsi((unsigned char *)p, (int)n, crc);
	}
	crc_clear_upper_halves();
	return ~crc;
}

uint32_t diw_crc32(uint32_t crc, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	size_t n;

	for (; len; p += n, len -= n) {
		n = crc_part(p, len);
		crc = crc32_gzip_refl(crc, p, n);
	}
	crc_clear_upper_halves();
	return crc;
}

const char *diw_crc_engine(void)
{
	return "isal";
}

#else

#include <pthread.h>
#include <zlib.h>

/* CRC-32C without ISA-L: zlib has none. One table for each of eight byte positions, eight bytes a step. */
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78 : 0);
		table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xff];
}

uint32_t diw_crc32c(uint32_t crc, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	pthread_once(&table_once, fill_table);
	crc = ~crc;
	for (; len >= 8; len -= 8, p += 8) {
		crc ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		crc = table[7][crc & 0xff] ^ table[6][crc >> 8 & 0xff] ^ table[5][crc >> 16 & 0xff] ^
		      table[4][crc >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
	}
	while (len--)
		crc = table[0][(crc ^ *p++) & 0xff] ^ crc >> 8;
	return ~crc;
}

uint32_t diw_crc32(uint32_t crc, const void *buf, size_t len)
{
	return (uint32_t)crc32_z(crc, buf, len);
}

const char *diw_crc_engine(void)
{
	return "zlib";
}

#endif
