/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of a file's blocks, as a bitmap: the blocks that a receiver of `diw recv --group` lacks, and those that its
 * sender was asked for. One message carries one page of the bitmap. It does no I/O.
 */
#ifndef DIW_TOOLS_BLOCKS_H
#define DIW_TOOLS_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/cp/xfer.h"

#define BLOCKS_MAX (1ull << 32)      /* blocks of a file: 512 MiB of bitmap */

struct blocks {
	uint64_t n;                  /* blocks of the file */
	uint64_t count;              /* blocks in the set */
	uint8_t *bit;                /* in whole pages */
};

int blocks_init(struct blocks *b, uint64_t n, bool all);         /* -ENOMEM */
void blocks_fini(struct blocks *b);
/* The first block of the set from I on; n: none. */
uint64_t blocks_next(const struct blocks *b, uint64_t i);
/* The number of consecutive blocks of the set from I on, at most MAX. */
uint64_t blocks_run(const struct blocks *b, uint64_t i, uint64_t max);
/* Removes [I, I + N) from the set. */
void blocks_remove(struct blocks *b, uint64_t i, uint64_t n);
/* The page that begins with block FIRST, a multiple of XFER_BITS. */
const uint8_t *blocks_page(const struct blocks *b, uint64_t first);
/* Adds a page. Returns the number of its blocks; *FRESH: those that were not in the set. Bits behind the last block are
 * ignored. */
uint64_t blocks_merge(struct blocks *b, uint64_t first, const uint8_t page[XFER_BITS / 8], uint64_t *fresh);

#endif
