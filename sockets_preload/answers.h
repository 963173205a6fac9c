/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of the kernel's that are believed for a while: tables of them, by a socket's cookie and a destination. */
#ifndef DIW_SOCKETS_ANSWERS_H
#define DIW_SOCKETS_ANSWERS_H

#include "sockets_preload/preload.h"

#pragma GCC visibility push(hidden)

/* Each answer begins so; what else it has follows. */
struct diw_answer {
	_Atomic uint32_t turn;               /* odd: being written */
	uint32_t size;                       /* bytes of the answer that are in use */
	uint64_t cookie, until;              /* whose it is; diw_coarse_ns() when it ends */
	struct diw_addr dst;
	struct diw_route route;
};

/* N of them, of EACH bytes, from FIRST. */
struct diw_answers { void *first; uint32_t n; size_t each; };

/* The slot of what COOKIE sends to DST. */
struct diw_answer *diw_answer_slot(const struct diw_answers *in, uint64_t cookie, const struct diw_addr *dst);
/* A consistent copy of SLOT in *A, which has IN's size, if it is of COOKIE and DST and has not ended. */
bool diw_answer_recall(const struct diw_answers *in, const struct diw_answer *slot, uint64_t cookie,
		       const struct diw_addr *dst, struct diw_answer *a);
/* A, of which size, cookie, until and dst are set, is kept in SLOT unless another thread is writing there. */
void diw_answer_remember(struct diw_answer *slot, const struct diw_answer *a);
/* Another thread of the parent's may have been writing. */
void diw_answers_forked(const struct diw_answers *of);

#pragma GCC visibility pop

#endif
