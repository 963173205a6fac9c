/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions for all types of queue pairs over datagrams (UD, UC, RD): see struct diw_qp_ops. */
#ifndef DIW_VERBS_DGRAM_QP_H
#define DIW_VERBS_DGRAM_QP_H

#include "verbs/qp.h"
#include "wire/seal.h"

#define DIW_DGRAM_QP_OPS \
	.first = DIW_QPS_RTS, .max_mulpdu = DIW_DGRAM_MAX - DIW_SEAL_LEN, .max_errors = 64, .qkey = true, \
	.reset = diw_dgram_qp_reset, .abort = diw_dgram_qp_abort, .leave = diw_dgram_qp_abort, \
	.query = diw_dgram_qp_query, .outstanding = diw_sq_is_staged, \
	.give_up = diw_dgram_qp_give_up, .begin = diw_dgram_qp_begin, .settle = diw_dgram_qp_settle

int diw_dgram_qp_check(const struct diw_qp_attr *a);
/* Opens qp->link over D. PEER: the socket is connected to it; or NULL. */
typedef int diw_dgram_qp_link(struct diw_qp *qp, const struct diw_qp_attr *a, struct diw_dgram *d);
int diw_dgram_qp_open(struct diw_qp *qp, const struct diw_qp_attr *a, const struct diw_addr *peer,
		      diw_dgram_qp_link *link);
diw_dgram_qp_link diw_dgram_qp_seal;     /* for UD and UC */
int diw_dgram_qp_reset(struct diw_qp *qp);
void diw_dgram_qp_abort(struct diw_qp *qp, uint64_t now);
void diw_dgram_qp_query(const struct diw_qp *qp, struct diw_qp_info *info);
/* Checks the destination that a request names. */
int diw_dgram_qp_check_dst(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len);
bool diw_dgram_qp_give_up(struct diw_qp *qp, struct diw_rdmap_wr *w, bool executed);
bool diw_dgram_qp_begin(struct diw_qp *qp, uint64_t now);
int diw_dgram_qp_run_queue(struct diw_qp *qp, int64_t *budget, uint64_t now);
void diw_dgram_qp_settle(struct diw_qp *qp, uint64_t now);

#endif
