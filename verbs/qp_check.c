/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of diw_qp_create() for all types. */
#include <errno.h>
#include <inttypes.h>

#include "base/log.h"
#include "verbs/attr_take.h"
#include "verbs/qp.h"

#define MIN_MULPDU 128u

int diw_qp_check_range(const char *what, uint32_t v, uint32_t lo, uint32_t hi)
{
	if (v >= lo && v <= hi)
		return 0;
	return diw_fail(-EINVAL, "diw_qp_create: %s %" PRIu32 ": not %" PRIu32 " to %" PRIu32, what, v, lo, hi);
}

int diw_qp_check_time(const char *what, int64_t ns, int64_t lo)
{
	if (ns >= lo)
		return 0;
	return diw_fail(-EINVAL, "diw_qp_create: %s %" PRId64 ": less than %" PRId64, what, ns, lo);
}

/* The objects must belong to one device and one protection domain. */
static int check_objects(const struct diw_pd *pd, const struct diw_qp_attr *a)
{
	if (!a->send_cq || !a->recv_cq)
		return diw_fail(-EINVAL, "diw_qp_create: %s is NULL", a->send_cq ? "recv_cq" : "send_cq");
	if (a->send_cq->dev != pd->dev || a->recv_cq->dev != pd->dev)
		return diw_fail(-EINVAL, "diw_qp_create: %s is of another device than the protection domain",
				a->send_cq->dev != pd->dev ? "send_cq" : "recv_cq");
	if (a->srq && a->srq->pd != pd)
		return diw_fail(-EINVAL, "diw_qp_create: srq is of another protection domain");
	return 0;
}

static int check_sizes(const struct diw_qp_attr *a, uint32_t max_mulpdu)
{
	int rc = diw_qp_check_range("sq_depth", a->sq_depth, 1, DIW_DEV_WRS);

	if (rc == 0)
		rc = diw_qp_check_range("rq_depth", a->rq_depth, 1, DIW_DEV_WRS);
	if (rc == 0)
		rc = diw_qp_check_range("max_sge", a->max_sge, 1, DIW_MAX_SGE);
	if (rc == 0)
		rc = diw_qp_check_range("max_inline", a->max_inline, 0, DIW_MAX_INLINE);
	if (rc == 0)
		rc = diw_qp_check_range("weight", a->weight, 1, DIW_MAX_WEIGHT);
	if (rc == 0 && a->mulpdu)
		rc = diw_qp_check_range("mulpdu", a->mulpdu, MIN_MULPDU, max_mulpdu);
	return rc;
}

int diw_qp_check(const struct diw_pd *pd, const struct diw_qp_attr *a, const struct diw_qp_ops *ops)
{
	int rc = check_objects(pd, a);

	if (rc == 0 && !ops)
		rc = diw_fail(-EINVAL, "diw_qp_create: type %d: not UD, UC, RC or RD", (int)a->type);
	if (rc == 0)
		rc = check_sizes(a, ops->max_mulpdu);
	if (rc == 0)
		rc = diw_attr_check_reserved("diw_qp_create", "dgram", a->dgram.reserved);
	if (rc == 0)
		rc = diw_attr_check_reserved("diw_qp_create", "rc", a->rc.reserved);
	if (rc == 0)
		rc = diw_attr_check_reserved("diw_qp_create", "rd", a->rd.reserved);
	return rc == 0 ? ops->check(a) : rc;
}
