/* SPDX-License-Identifier: BSD-2-Clause */
/* Unreliable datagrams: every request names its destination; Reads are sent and answered. */
#include <errno.h>

#include "verbs/dgram_qp.h"

static int ud_open(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	return diw_dgram_qp_open(qp, a, NULL, diw_dgram_qp_seal);
}

static void ud_fill(const struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
{
	(void)qp;
	w->dst = wr->dst;
}

static void ud_run(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now)
{
	bool answers_first = !qp->answers_first;

	if (answers_first)
		*rc_answers = diw_rdmap_answer(&qp->rdmap, budget, now);
	if (*rc_answers != -EAGAIN)
		*rc = diw_dgram_qp_run_queue(qp, budget, now);
	if (!answers_first && *rc != -EAGAIN)
		*rc_answers = diw_rdmap_answer(&qp->rdmap, budget, now);
}

static bool ud_rests(struct diw_qp *qp)
{
	return !diw_rdmap_has_answers(&qp->rdmap);
}

const struct diw_qp_ops diw_qp_ops_ud = {
	.type = DIW_QP_UD, .rdmap = &diw_rdmap_type_ud,
	.requests = 1u << DIW_WR_SEND | 1u << DIW_WR_WRITE_RECORD | 1u << DIW_WR_READ,
	.check = diw_dgram_qp_check, .open = ud_open, .check_send = diw_dgram_qp_check_dst, .fill = ud_fill,
	.run = ud_run, .rests = ud_rests,
	DIW_DGRAM_QP_OPS,
};
