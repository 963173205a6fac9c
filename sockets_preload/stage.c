/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread's stage, mapped when it is needed first, since that may be in a signal handler. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "sockets_preload/shm/regfile.h"
#include "sockets_preload/stage.h"

__thread struct diw_stage diw_stage[DIW_STAGE_KINDS];
static const size_t size[DIW_STAGE_KINDS] = { DIW_STAGE_SLOT, DIW_STAGE_SLOT * DIW_STAGE_SLOTS };
static pthread_key_t at_thread_end[DIW_STAGE_KINDS];
static bool have_key;

/* Destructors of the program may receive afterwards: they get a new stage. */
static void stage_unmap(enum diw_stage_kind kind, void *p)
{
	diw_stage[kind].mem = NULL;
	diw_stage[kind].holder = NULL;
	munmap(p, size[kind]);
}

static void unmap_one(void *p)
{
	stage_unmap(DIW_STAGE_ONE, p);
}

static void unmap_many(void *p)
{
	stage_unmap(DIW_STAGE_MANY, p);
}

__attribute__((constructor(102))) static void make_keys(void)
{
	have_key = pthread_key_create(&at_thread_end[DIW_STAGE_ONE], unmap_one) == 0 &&
		   pthread_key_create(&at_thread_end[DIW_STAGE_MANY], unmap_many) == 0;
}

static uint8_t *stage_map(enum diw_stage_kind kind)
{
	return diw_map_unlocked(size[kind], MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* Whether a signal handler has left the holder of the stage by longjmp(). It has if the holder's frame is on the stack
 * of FRAME, and further down than FRAME: at a lower address. */
static bool stage_is_abandoned(const struct diw_stage *st, const void *frame)
{
	stack_t ss;

	return sigaltstack(NULL, &ss) == 0 && !(ss.ss_flags & SS_ONSTACK) &&
	       (uintptr_t)atomic_load_explicit(&st->holder, memory_order_relaxed) < (uintptr_t)frame;
}

__attribute__((noinline)) bool diw_stage_hold_slowly(enum diw_stage_kind kind, struct diw_hold *h)
{
	struct diw_stage *st = &diw_stage[kind];
	int saved = errno;

	h->own = false;
	if (!st->holder || stage_is_abandoned(st, h)) {
		if (!st->mem) {
			st->mem = stage_map(kind);
			if (st->mem && have_key)
				pthread_setspecific(at_thread_end[kind], st->mem);
		}
		h->own = st->mem;
		h->mem = st->mem;
		if (h->own)
			atomic_store_explicit(&st->holder, h, memory_order_relaxed);
	} else {
		h->mem = stage_map(kind);
	}
	errno = h->mem ? saved : ENOMEM;
	return h->mem;
}

void diw_stage_unmap(enum diw_stage_kind kind, uint8_t *mem)
{
	int saved = errno;

	munmap(mem, size[kind]);
	errno = saved;
}
