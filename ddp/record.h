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
	struct diw_list src_link;    /* the source's open records */
	struct diw_list timer;       /* in `idle`, `closing` or `closed` */
	struct diw_source *src;      /* while open */
	struct diw_addr addr;
	uint64_t to;                 /* tagged offset of the message's first byte */
	uint64_t last_ns;
	uint64_t close_ns;           /* end of the reorder window; 0: the window has not begun */
	uint32_t stag, length, msn, imm;
	uint32_t waited_ns;          /* closed by the window: time since the window began */
	uint16_t epoch;
	uint8_t reason;
	bool imm_valid, solicited, have_last, open;
	bool whole;                  /* a message of one segment: no run of it has been reported */
	struct diw_range_set ranges;
};

struct diw_records {
	struct diw_pool pool;
	struct diw_range_pools ranges;
	struct diw_record **bucket;
	uint32_t mask, nopen;
	struct diw_list idle;        /* open records in order of last_ns */
	struct diw_list closing;     /* open records in order of close_ns */
	struct diw_list closed;      /* closed records that wait for room in the completion queue */
	struct diw_record *run;      /* chunk mode: the record of the run that this burst is placing */
	uint32_t run_lo, run_hi;
};

size_t diw_records_bytes(uint32_t max);
void diw_records_init(struct diw_records *r, struct diw_arena *a, uint32_t max);
/* 0: the segment was placed, or is a duplicate; else a fault. */
uint16_t diw_record_rx(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now);
void diw_record_burst_end(struct diw_ddp *d);
/* An open record; EPOCH -1: any epoch. */
struct diw_record *diw_record_find(struct diw_ddp *d, const struct diw_addr *addr, int epoch, uint32_t msn);
/* The open record after PREV, or the first; NULL: there is none. */
const struct diw_record *diw_record_next(const struct diw_ddp *d, const struct diw_record *prev);
void diw_record_release(struct diw_ddp *d, struct diw_record *r);
/* Closes the records on that STag. */
void diw_records_dereg(struct diw_ddp *d, uint32_t stag);
/* Closes all records of the source. */
void diw_records_close_source(struct diw_ddp *d, struct diw_source *src);
void diw_records_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_records_deadline(const struct diw_ddp *d);

#endif
