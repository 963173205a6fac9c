/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of a file's blocks, as a bitmap: the blocks that a receiver of `diw recv --group` lacks, and those that its
 * sender has been asked for. A page of the bitmap is what one message carries. No I/O in here.
 */
#ifndef DIW_TOOLS_BLOCKS_H
#define DIW_TOOLS_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/cp/xfer.h"

#define BLOCKS_MAX (1ull << 32)      /* of one file: 512 MiB of bitmap */

struct blocks {
	uint64_t n;                  /* blocks of the file */
	uint64_t count;              /* of them in the set */
	uint8_t *bit;                /* whole pages */
};

int blocks_init(struct blocks *b, uint64_t n, bool all);         /* -ENOMEM */
void blocks_fini(struct blocks *b);
/* The first block of the set from I on, or n. */
uint64_t blocks_next(const struct blocks *b, uint64_t i);
/* How many blocks from I on are in the set without a gap, at most MAX. */
uint64_t blocks_run(const struct blocks *b, uint64_t i, uint64_t max);
/* Takes [I, I + N) out of the set. */
void blocks_remove(struct blocks *b, uint64_t i, uint64_t n);
/* The page that begins with block FIRST, a multiple of XFER_BITS. */
const uint8_t *blocks_page(const struct blocks *b, uint64_t first);
/* Adds a page; returns how many blocks are in it. What lies behind the last block does not count. */
uint64_t blocks_merge(struct blocks *b, uint64_t first, const uint8_t page[XFER_BITS / 8]);

#endif
