/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of the kernel's answers, which are valid for a limited time, by a socket's cookie and a destination. */
#ifndef DIW_SOCKETS_ANSWERS_H
#define DIW_SOCKETS_ANSWERS_H

#include "base/clock.h"
#include "sockets_preload/preload.h"

#define DIW_ANSWER_BELIEVED (10 * DIW_MS)    /* validity of the kernel's answer about a socket of this user */

#pragma GCC visibility push(hidden)

/* The head of each answer; its other fields follow. */
struct diw_answer {
	_Atomic uint32_t turn;               /* odd: a thread is writing it */
	uint32_t size;                       /* bytes of the answer that are used */
	uint64_t cookie, until;              /* the socket; the value of diw_coarse_ns() at which the answer expires */
	struct diw_addr dst;
	struct diw_route route;
};

/* N answers of EACH bytes, beginning at FIRST. */
struct diw_answers { void *first; uint32_t n; size_t each; };

/* The slot for datagrams of COOKIE to DST. */
struct diw_answer *diw_answer_slot(const struct diw_answers *in, uint64_t cookie, const struct diw_addr *dst);
/* Copies SLOT to *A, which has IN's size, if it is valid and of COOKIE and DST. The copy is consistent. */
bool diw_answer_recall(const struct diw_answers *in, const struct diw_answer *slot, uint64_t cookie,
		       const struct diw_addr *dst, struct diw_answer *a);
/* Stores A, whose size, cookie, until and dst are set, in SLOT, unless another thread is writing there. */
void diw_answer_remember(struct diw_answer *slot, const struct diw_answer *a);
/* Call in a child: another thread of the parent may have been writing at fork(2). */
void diw_answers_forked(const struct diw_answers *of);

#pragma GCC visibility pop

#endif
