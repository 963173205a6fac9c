/* SPDX-License-Identifier: BSD-2-Clause */
/* splitmix64: a seeded sequence for impairment and the simulator. Keys and epochs come from diw_random(). */
#ifndef DIW_BASE_RNG_H
#define DIW_BASE_RNG_H

#include <stdint.h>
#include <sys/random.h>

struct diw_rng { uint64_t state; };

static inline uint64_t diw_rng_next(struct diw_rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* True with probability p. */
static inline int diw_rng_chance(struct diw_rng *r, double p)
{
	return (double)(diw_rng_next(r) >> 11) * 0x1p-53 < p;
}

/* A number that a peer cannot predict. The kernel's pool is initialised before programs run, so the call always
 * succeeds. */
static inline uint64_t diw_random(void)
{
	uint64_t v;

	while (getrandom(&v, sizeof v, 0) != sizeof v)
		;
	return v;
}

#endif
