/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of a thread into which datagrams are received, before their messages are copied to the program. */
#ifndef DIW_SOCKETS_STAGE_H
#define DIW_SOCKETS_STAGE_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

#define DIW_STAGE (64u << 10)                /* the largest UDP datagram */
#define DIW_STAGE_SLOTS 16u                  /* datagrams that one recvmmsg() of ours receives */
/* Behind each slot: its control data, and the list of its messages. */
#define DIW_STAGE_CONTROL (8u << 10)
#define DIW_STAGE_PIECES 512u
#define DIW_STAGE_SLOT (DIW_STAGE + DIW_STAGE_CONTROL + DIW_STAGE_PIECES * sizeof(struct iovec))

enum diw_stage_kind { DIW_STAGE_ONE, DIW_STAGE_MANY, DIW_STAGE_KINDS };

struct diw_stage { uint8_t *mem; const void *_Atomic holder; };
extern __thread struct diw_stage diw_stage[DIW_STAGE_KINDS];

struct diw_hold { uint8_t *mem; bool own; };

/* False: there is no memory, and the call fails with ENOMEM. */
bool diw_stage_hold_slowly(enum diw_stage_kind kind, struct diw_hold *h);
void diw_stage_unmap(enum diw_stage_kind kind, uint8_t *mem);

/* Holds the thread's stage. A signal handler that interrupts its holder gets other memory, since the stage contains
 * data. */
static inline bool diw_stage_hold(enum diw_stage_kind kind, struct diw_hold *h)
{
	struct diw_stage *st = &diw_stage[kind];

	if (!DIW_LIKELY(st->mem && !atomic_load_explicit(&st->holder, memory_order_relaxed)))
		return diw_stage_hold_slowly(kind, h);
	atomic_store_explicit(&st->holder, h, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	h->mem = st->mem;
	h->own = true;
	return true;
}

static inline void diw_stage_let_go(enum diw_stage_kind kind, const struct diw_hold *h)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (DIW_LIKELY(h->own))
		atomic_store_explicit(&diw_stage[kind].holder, NULL, memory_order_relaxed);
	else
		diw_stage_unmap(kind, h->mem);
}

#pragma GCC visibility pop

#endif
