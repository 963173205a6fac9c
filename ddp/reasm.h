/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reassembly of untagged messages of several segments, all or nothing (docs/ud-profile.md, Send).
 */
#ifndef DIW_DDP_REASM_H
#define DIW_DDP_REASM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/range.h"
#include "ddp/source.h"

struct diw_ddp;
struct diw_ddp_seg;
struct diw_recv;

#define DIW_REASM_PER_SOURCE 4

struct diw_reasm {
	struct diw_reasm *hnext;
	struct diw_list timer;       /* open ones in order of last_ns, tombstones in order of their end */
	struct diw_list src_link;    /* the open ones of the source, oldest first */
	struct diw_source *src;      /* while open */
	struct diw_addr addr;
	struct diw_recv *recv;       /* NULL: a tombstone, which keeps late segments of the message from taking another
				      * receive */
	uint64_t last_ns;
	uint32_t msn, length, imm;
	uint16_t epoch;
	uint8_t opcode;
	bool imm_valid;
	struct diw_range_set ranges;
};

struct diw_reasms {
	struct diw_pool pool;
	struct diw_range_pools ranges;
	struct diw_reasm **bucket;
	uint32_t mask, nopen;
	struct diw_list open, tombs;
};

size_t diw_reasms_bytes(uint32_t max);
void diw_reasms_init(struct diw_reasms *r, struct diw_arena *a, uint32_t max);
uint16_t diw_reasm_rx(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now);
/* Ends all messages of the source without a completion; their receives are returned. */
void diw_reasms_close_source(struct diw_ddp *d, struct diw_source *src, uint64_t now);
void diw_reasms_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_reasms_deadline(const struct diw_ddp *d);

#endif
