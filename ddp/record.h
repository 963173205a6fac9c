/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records: the validity maps of Write-Records, from the first segment to the completion (docs/ud-profile.md,
 * Write-Record; thesis section 6.3).
 */
#ifndef DIW_DDP_RECORD_H
#define DIW_DDP_RECORD_H

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

enum diw_record_reason {             /* the values of verbs/diw.h's enum diw_record_close */
	DIW_CLOSE_COMPLETE, DIW_CLOSE_WINDOW, DIW_CLOSE_TIMEOUT, DIW_CLOSE_EVICTED, DIW_CLOSE_DEREG, DIW_CLOSE_EPOCH,
};

struct diw_record {
	struct diw_record *hnext;
	struct diw_list src_link;    /* source's open records */
	struct diw_list timer;       /* idle, closing or closed */
	struct diw_source *src;      /* while open */
	struct diw_addr addr;
	uint64_t to;                 /* of the message's first byte */
	uint64_t last_ns;
	uint64_t close_ns;           /* when the reorder window has passed; 0 not begun */
	uint32_t stag, length, msn, imm;
	uint32_t waited_ns;          /* closed by the window: since that began */
	uint16_t epoch;
	uint8_t reason;
	bool imm_valid, solicited, have_last, open;
	bool whole;                  /* of one segment: no run of it was reported before */
	struct diw_range_set ranges;
};

struct diw_records {
	struct diw_pool pool;
	struct diw_range_pools ranges;
	struct diw_record **bucket;
	uint32_t mask, nopen;
	struct diw_list idle;        /* open, by last_ns */
	struct diw_list closing;     /* open, by close_ns */
	struct diw_list closed;      /* wait for room in the completion queue */
	struct diw_record *run;      /* chunk mode: the run that this burst is placing */
	uint32_t run_lo, run_hi;
};

size_t diw_records_bytes(uint32_t max);
void diw_records_init(struct diw_records *r, struct diw_arena *a, uint32_t max);
/* 0 (placed, or known already) or a fault. */
uint16_t diw_record_rx(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now);
void diw_record_burst_end(struct diw_ddp *d);
/* An open one; EPOCH -1: of any. */
struct diw_record *diw_record_find(struct diw_ddp *d, const struct diw_addr *addr, int epoch, uint32_t msn);
/* The open record behind PREV, or the first; NULL: there is none. */
const struct diw_record *diw_record_next(const struct diw_ddp *d, const struct diw_record *prev);
void diw_record_release(struct diw_ddp *d, struct diw_record *r);
/* Closes what lies on that STag, or with STag 0 on none: all of the source. */
void diw_records_dereg(struct diw_ddp *d, uint32_t stag);
void diw_records_close_source(struct diw_ddp *d, struct diw_source *src);
void diw_records_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_records_deadline(const struct diw_ddp *d);

#endif
