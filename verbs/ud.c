/* SPDX-License-Identifier: BSD-2-Clause */
/* Unreliable datagrams: every request names its destination, and Reads are asked for and answered. */
#include <errno.h>

#include "base/log.h"
#include "verbs/dgram_qp.h"

static int ud_open(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	return diw_dgram_qp_open(qp, a, NULL);
}

static int ud_check_send(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len)
{
	(void)len;
	if (wr->dst.addr.port == 0 || diw_addr_ip_is_zero(&wr->dst.addr))
		return diw_fail(-EINVAL, "diw_post_send: no destination");
	if (!diw_dgram_reaches(qp->socket, &wr->dst.addr))
		return diw_fail(-EAFNOSUPPORT,
				"diw_post_send: the queue pair's address is of IPv%d, the destination is not",
				qp->socket->only);
	return opcode;
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

const struct diw_qp_ops diw_qp_ops_ud = {
	.type = DIW_QP_UD, .rdmap = &diw_rdmap_type_ud,
	.requests = 1u << DIW_WR_SEND | 1u << DIW_WR_WRITE_RECORD | 1u << DIW_WR_READ,
	.check = diw_dgram_qp_check, .open = ud_open, .check_send = ud_check_send, .fill = ud_fill, .run = ud_run,
	DIW_DGRAM_QP_OPS,
};
