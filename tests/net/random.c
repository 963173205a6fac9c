/* SPDX-License-Identifier: BSD-2-Clause */
/* getrandom() of the test programs, in place of libc's: a failing seed replays with the same keys and epochs. */
#include <string.h>
#include <sys/random.h>

#include "tests/net/net.h"

static struct diw_rng random_state;

void net_random_seed(uint64_t seed)
{
	random_state.state = seed;
}

__attribute__((visibility("default"))) ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
	uint8_t *p = buf;

	(void)flags;
	for (size_t done = 0; done < len; done += 8) {
		uint64_t v = diw_rng_next(&random_state);

		memcpy(p + done, &v, len - done < 8 ? len - done : 8);
	}
	return (ssize_t)len;
}
