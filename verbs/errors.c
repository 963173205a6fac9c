/* SPDX-License-Identifier: BSD-2-Clause */
/* The error queue of a queue pair. */
#include <errno.h>

#include "verbs/qp.h"

/* Whether E raises an event. */
static bool is_raised(const struct diw_qp *qp, const struct diw_qp_error *e)
{
	if (diw_dev_raises(qp->dev, DIW_EVENT_QP_ERROR))
		return true;
	return e->fault && e->fault != DIW_FAULT_MPA_CLOSED &&
	       (qp->raise & (e->remote ? DIW_RAISE_TOLD : DIW_RAISE_FOUND));
}

void diw_qp_error(struct diw_qp *qp, const struct diw_qp_error *e)
{
	qp->errors[(qp->errors_head + qp->errors_n) % qp->errors_max] = *e;
	if (qp->errors_n < qp->errors_max) {
		qp->errors_n++;
	} else {
		qp->errors_head = (qp->errors_head + 1) % qp->errors_max;
		if (!qp->errors_lost && diw_dev_raises(qp->dev, DIW_EVENT_OVERRUN))
			diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_OVERRUN, .qp = qp,
								    .ctx = qp->ctx });
		qp->errors_lost = true;
	}
	if (qp->error_event || !is_raised(qp, e))
		return;
	qp->error_event = true;
	diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_QP_ERROR, .qp = qp, .ctx = qp->ctx });
}

int diw_qp_error_get(struct diw_qp *qp, struct diw_qp_error *e)
{
	int rc = diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	if (qp->errors_n) {
		*e = qp->errors[qp->errors_head];
		qp->errors_head = (qp->errors_head + 1) % qp->errors_max;
		qp->errors_n--;
	} else {
		rc = -EAGAIN;
	}
	if (qp->errors_n == 0)
		qp->error_event = qp->errors_lost = false;
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}
