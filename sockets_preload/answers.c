/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of the kernel's answers. An entry is written by one thread at a time, and read without a lock. */
#include "sockets_preload/answers.h"

#include <string.h>

/* The copied part of an answer begins here. */
#define FROM offsetof(struct diw_answer, size)

static struct diw_answer *answer_at(const struct diw_answers *of, uint32_t n)
{
	return (struct diw_answer *)(void *)((char *)of->first + n * of->each);
}

struct diw_answer *diw_answer_slot(const struct diw_answers *in, uint64_t cookie, const struct diw_addr *dst)
{
	return answer_at(in, (uint32_t)(diw_addr_hash(dst, cookie) % in->n));
}

/* noinline: gcc's thread sanitizer does not support fences, and warns of one in an inlined function. */
__attribute__((noinline))
bool diw_answer_recall(const struct diw_answers *in, const struct diw_answer *slot, uint64_t cookie,
		       const struct diw_addr *dst, struct diw_answer *a)
{
	uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire), size = slot->size;

	if (turn % 2 || slot->cookie != cookie || size < sizeof *slot || size > in->each)
		return false;
	memcpy((char *)a + FROM, (const char *)slot + FROM, size - FROM);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slot->turn, memory_order_relaxed) == turn && diw_addr_eq(&a->dst, dst) &&
	       diw_coarse_ns() < a->until;
}

void diw_answer_remember(struct diw_answer *slot, const struct diw_answer *a)
{
	uint32_t turn = atomic_load_explicit(&slot->turn, memory_order_relaxed);

	if (turn % 2 || !atomic_compare_exchange_strong(&slot->turn, &turn, turn + 1))
		return;
	memcpy((char *)slot + FROM, (const char *)a + FROM, a->size - FROM);
	atomic_store_explicit(&slot->turn, turn + 2, memory_order_release);
}

void diw_answers_forked(const struct diw_answers *of)
{
	for (uint32_t i = 0; i < of->n; i++)
		if (atomic_load_explicit(&answer_at(of, i)->turn, memory_order_relaxed) % 2)
			atomic_store(&answer_at(of, i)->turn, 0);
}
