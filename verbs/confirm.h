/* SPDX-License-Identifier: BSD-2-Clause */
/* When a request of an RC queue pair with the attribute confirm is complete. The device's lock is held. */
#ifndef DIW_VERBS_CONFIRM_H
#define DIW_VERBS_CONFIRM_H

#include <stdbool.h>
#include <stdint.h>

struct diw_qp;
struct diw_rdmap_wr;

/* W is about to be executed, or goes on; NEXT is behind it, or NULL. */
void diw_confirm_begin(struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_rdmap_wr *next);
/* W has left. */
void diw_confirm_sent(struct diw_qp *qp, struct diw_rdmap_wr *w);
/* W's completion has to wait. */
bool diw_confirm_holds(const struct diw_qp *qp, const struct diw_rdmap_wr *w);
/* A completion of QP has to wait. */
bool diw_confirm_waits(const struct diw_qp *qp);
/* Behind the requests: ask the peer, and answer it. */
void diw_confirm_run(struct diw_qp *qp, uint64_t now);
/* Before the stream ends: answer it. */
void diw_confirm_last(struct diw_qp *qp, uint64_t now);
uint64_t diw_confirm_deadline(const struct diw_qp *qp);

#endif
