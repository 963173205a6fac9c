/* SPDX-License-Identifier: BSD-2-Clause */
/* The attribute `confirm` of RC queue pairs: a request completes when the peer has placed it. The device's lock is
 * held. */
#ifndef DIW_VERBS_CONFIRM_H
#define DIW_VERBS_CONFIRM_H

#include <stdbool.h>
#include <stdint.h>

struct diw_qp;
struct diw_rdmap_wr;

/* W is about to be executed or continued. NEXT is the request behind it, or NULL. */
void diw_confirm_begin(struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_rdmap_wr *next);
/* All of W has left. */
void diw_confirm_sent(struct diw_qp *qp, struct diw_rdmap_wr *w);
/* Whether W has left, and the peer has not confirmed that it is placed. */
bool diw_confirm_lacks(const struct diw_qp *qp, const struct diw_rdmap_wr *w);
/* Whether W's completion must wait for that. A request that is not signalled does not. */
bool diw_confirm_holds(const struct diw_qp *qp, const struct diw_rdmap_wr *w);
/* Whether any completion of QP must wait. */
bool diw_confirm_waits(const struct diw_qp *qp);
/* Whether the peer was asked, and has not answered. */
bool diw_confirm_asked(const struct diw_qp *qp);
/* Called after the requests have run: asks the peer, and answers it. */
void diw_confirm_run(struct diw_qp *qp, uint64_t now);
/* Called before the stream ends: answers the peer. */
void diw_confirm_last(struct diw_qp *qp, uint64_t now);
uint64_t diw_confirm_deadline(const struct diw_qp *qp);

#endif
