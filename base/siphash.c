/* SPDX-License-Identifier: BSD-2-Clause */
/* SipHash-2-4, the keyed hash of tokens. */
#include "base/siphash.h"

struct sip { uint64_t v[4]; };

static uint64_t word_rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_rounds(struct sip *s, int n)
{
	uint64_t *v = s->v;

	while (n--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = word_rotate(v[1], 13) ^ v[0];
		v[3] = word_rotate(v[3], 16) ^ v[2];
		v[0] = word_rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = word_rotate(v[1], 17) ^ v[2];
		v[3] = word_rotate(v[3], 21) ^ v[0];
		v[2] = word_rotate(v[2], 32);
	}
}

static void sip_word(struct sip *s, uint64_t m)
{
	s->v[3] ^= m;
	sip_rounds(s, 2);
	s->v[0] ^= m;
}

uint64_t diw_siphash(const uint64_t key[2], const void *data, size_t len)
{
	const uint8_t *p = data;
	struct sip s = { { key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
			   key[1] ^ 0x7465646279746573u } };
	uint64_t m = 0;

	for (size_t i = 0; i < len; i++) {              /* little-endian words */
		m |= (uint64_t)p[i] << i % 8 * 8;
		if (i % 8 == 7) {
			sip_word(&s, m);
			m = 0;
		}
	}
	sip_word(&s, m | (uint64_t)len << 56);
	s.v[2] ^= 0xff;
	sip_rounds(&s, 4);
	return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}
