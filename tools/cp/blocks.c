/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets of a file's blocks: bitmaps that are searched word by word. */
#include "tools/cp/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"

static bool block_in(const struct blocks *b, uint64_t i)
{
	return b->bit[i / 8] >> (i % 8) & 1;
}

static uint64_t pages_of(uint64_t n)
{
	return n / XFER_BITS + 1;
}

int blocks_init(struct blocks *b, uint64_t n, bool all)
{
	*b = (struct blocks){ .n = n, .count = all ? n : 0 };
	b->bit = calloc(pages_of(n), XFER_BITS / 8);
	if (!b->bit)
		return -ENOMEM;
	if (all && n) {
		memset(b->bit, 0xff, n / 8);
		b->bit[n / 8] = (uint8_t)((1u << n % 8) - 1);
	}
	return 0;
}

void blocks_fini(struct blocks *b)
{
	free(b->bit);
	*b = (struct blocks){ 0 };
}

uint64_t blocks_next(const struct blocks *b, uint64_t i)
{
	while (i < b->n && !block_in(b, i)) {
		if (i % 8 == 0 && b->bit[i / 8] == 0)
			i += 8;
		else
			i++;
	}
	return i < b->n ? i : b->n;
}

uint64_t blocks_run(const struct blocks *b, uint64_t i, uint64_t max)
{
	uint64_t n = 0;

	while (n < max && i + n < b->n && block_in(b, i + n))
		n++;
	return n;
}

void blocks_remove(struct blocks *b, uint64_t i, uint64_t n)
{
	for (; n && i < b->n; i++, n--)
		if (block_in(b, i)) {
			b->bit[i / 8] &= (uint8_t)~(1u << i % 8);
			b->count--;
		}
}

const uint8_t *blocks_page(const struct blocks *b, uint64_t first)
{
	return b->bit + first / 8;
}

uint64_t blocks_merge(struct blocks *b, uint64_t first, const uint8_t page[XFER_BITS / 8], uint64_t *fresh)
{
	uint64_t asked = 0, before = b->count;
	uint8_t *at = b->bit + first / 8, mine;

	for (uint64_t i = 0; i < XFER_BITS / 8 && first + 8 * i < b->n; i++) {
		mine = page[i];
		if (b->n - first - 8 * i < 8)
			mine &= (uint8_t)((1u << (b->n - first - 8 * i)) - 1);
		asked += (uint64_t)__builtin_popcount(mine);
		b->count += (uint64_t)__builtin_popcount(mine & (uint8_t)~at[i]);
		at[i] |= mine;
	}
	*fresh = b->count - before;
	return asked;
}
