/* SPDX-License-Identifier: BSD-2-Clause */
/* What diw_qp_create() refuses, and why. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "verbs/qp.h"

#define MIN_MULPDU 128u
#define MAX_DEPTH 65536u
#define MAX_PEER_STATE (1u << 20)    /* sources, records */

static int check_range(const char *what, uint32_t v, uint32_t lo, uint32_t hi)
{
	if (v >= lo && v <= hi)
		return 0;
	return diw_fail(-EINVAL, "diw_qp_create: %s %" PRIu32 ": not %" PRIu32 " to %" PRIu32, what, v, lo, hi);
}

static int check_time(const char *what, int64_t ns, int64_t lo)
{
	if (ns >= lo)
		return 0;
	return diw_fail(-EINVAL, "diw_qp_create: %s %" PRId64 ": less than %" PRId64, what, ns, lo);
}

/* The objects that it is made of belong to one device, and to one protection domain. */
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

static int check_sizes(const struct diw_qp_attr *a)
{
	int rc = check_range("sq_depth", a->sq_depth, 1, MAX_DEPTH);

	if (rc == 0)
		rc = check_range("rq_depth", a->rq_depth, 1, MAX_DEPTH);
	if (rc == 0)
		rc = check_range("max_sge", a->max_sge, 1, DIW_MAX_SGE);
	if (rc == 0)
		rc = check_range("max_inline", a->max_inline, 0, DIW_MAX_INLINE);
	if (rc == 0 && a->mulpdu)
		rc = check_range("mulpdu", a->mulpdu, MIN_MULPDU,
				 a->type == DIW_QP_RC ? DIW_MPA_MAX_ULPDU : DIW_DGRAM_MAX - 4);
	return rc;
}

static int check_dgram_times(const struct diw_qp_attr *a)
{
	int rc = check_time("reorder_window_ns", a->reorder_window_ns, 0);

	if (rc == 0)
		rc = check_time("record_timeout_ns", a->record_timeout_ns, 1);
	if (rc == 0)
		rc = check_time("reasm_timeout_ns", a->reasm_timeout_ns, 1);
	if (rc == 0)
		rc = check_time("read_timeout_ns", a->read_timeout_ns, 0);
	return rc;
}

static int check_dgram(const struct diw_qp_attr *a)
{
	int rc;

	if (a->grh && a->type != DIW_QP_UD)
		return diw_fail(-EINVAL, "diw_qp_create: grh: of UD alone");
	if (a->local.port == DIW_GROUP_PORT)
		return diw_fail(-EINVAL, "diw_qp_create: local port %u is that of groups", DIW_GROUP_PORT);
	if (a->record_mode != DIW_RECORD_MESSAGE && a->record_mode != DIW_RECORD_CHUNK)
		return diw_fail(-EINVAL, "diw_qp_create: record_mode %d: not DIW_RECORD_MESSAGE or DIW_RECORD_CHUNK",
				(int)a->record_mode);
	rc = check_dgram_times(a);
	if (rc == 0)
		rc = check_range("max_sources", a->max_sources, 1, MAX_PEER_STATE);
	if (rc == 0)
		rc = check_range("max_records", a->max_records, 1, MAX_PEER_STATE);
	if (rc == 0)
		rc = check_range("rcvbuf", a->rcvbuf, 1, UINT32_MAX);
	return rc;
}

/* An impairment loses, delays and damages datagrams: what it could do to a stream TCP would undo, or end it. */
static int check_stream(const struct diw_qp_attr *a)
{
	const char *env = getenv("DIWARP_IMPAIR");

	if (a->impair ? *a->impair : env && *env) {
		diw_log(DIW_LOG_TELL, "diw_qp_create: %s=%s is for datagrams (UD, UC): an RC queue pair is refused",
			a->impair ? "impair" : "DIWARP_IMPAIR", a->impair ? a->impair : env);
		return -EOPNOTSUPP;
	}
	return check_time("rnr_timeout_ns", a->rnr_timeout_ns, 0);
}

int diw_qp_check(const struct diw_pd *pd, const struct diw_qp_attr *a)
{
	int rc = check_objects(pd, a);

	if (rc == 0 && a->type != DIW_QP_UD && a->type != DIW_QP_UC && a->type != DIW_QP_RC)
		rc = diw_fail(-EINVAL, "diw_qp_create: type %d: not UD, UC or RC", (int)a->type);
	if (rc == 0)
		rc = check_sizes(a);
	if (rc == 0)
		rc = a->type == DIW_QP_RC ? check_stream(a) : check_dgram(a);
	return rc;
}
