/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, shared receive queues and completion queues of identifiers. */
#include <stdlib.h>

#include "verbs/cma/cma.h"

/* ---- Completion queues, for programs that pass none ---- */

static void destroy_cqs(struct rdma_cm_id *id)
{
	if (id->recv_cq)
		ibv_destroy_cq(id->recv_cq);
	if (id->recv_cq_channel)
		ibv_destroy_comp_channel(id->recv_cq_channel);
	if (id->send_cq)
		ibv_destroy_cq(id->send_cq);
	if (id->send_cq_channel)
		ibv_destroy_comp_channel(id->send_cq_channel);
	id->recv_cq = id->send_cq = NULL;
	id->recv_cq_channel = id->send_cq_channel = NULL;
}

static struct ibv_cq *create_cq(struct rdma_cm_id *id, uint32_t depth, struct ibv_comp_channel **ch)
{
	struct ibv_cq *cq = NULL;

	*ch = ibv_create_comp_channel(id->verbs);
	if (*ch)
		cq = ibv_create_cq(id->verbs, depth ? (int)depth : 1, id, *ch, 0);
	if (!cq && *ch) {
		ibv_destroy_comp_channel(*ch);
		*ch = NULL;
	}
	return cq;
}

static int create_cqs(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *a)
{
	if (!a->recv_cq) {
		id->recv_cq = create_cq(id, a->cap.max_recv_wr, &id->recv_cq_channel);
		a->recv_cq = id->recv_cq;
	}
	if (a->recv_cq && !a->send_cq) {
		id->send_cq = create_cq(id, a->cap.max_send_wr, &id->send_cq_channel);
		a->send_cq = id->send_cq;
	}
	if (a->recv_cq && a->send_cq)
		return 0;
	destroy_cqs(id);
	return -1;
}

/* ---- Queue pairs ---- */

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};

	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int ud_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RDMA_UDP_QKEY };
	int rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	a.qp_state = IBV_QPS_RTR;
	if (rc == 0)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	return rc ? rc : ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;
	int rc;

	if (id->qp || !id->verbs)
		return cma_result(EINVAL);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
	}
	if (!attr->pd)
		return cma_result(ENOMEM);
	if (attr->pd->context != id->verbs)
		return cma_result(EINVAL);
	if (id->srq && !attr->srq)
		attr->srq = id->srq;
	if (create_cqs(id, attr))
		return -1;
	qp = ibv_create_qp_ex(id->verbs, attr);
	rc = !qp ? errno : qp->qp_type == IBV_QPT_UD ? ud_to_rts(qp) : to_init(qp);
	if (rc) {
		if (qp)
			ibv_destroy_qp(qp);
		destroy_cqs(id);
		return cma_result(rc);
	}
	cma_enter();
	id->pd = attr->pd;
	id->qp = qp;
	cma_leave();
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_context = init->qp_context, .send_cq = init->send_cq, .recv_cq = init->recv_cq, .srq = init->srq,
		.cap = init->cap, .qp_type = init->qp_type, .sq_sig_all = init->sq_sig_all,
		.comp_mask = pd ? IBV_QP_INIT_ATTR_PD : 0, .pd = pd,
	};

	if (rdma_create_qp_ex(id, &a))
		return -1;
	init->send_cq = a.send_cq;
	init->recv_cq = a.recv_cq;
	init->srq = a.srq;
	init->cap = a.cap;
	return 0;
}

/* Ends the connection, too; only an identifier that asked for the end gets an event. */
void rdma_destroy_qp(struct rdma_cm_id *cm_id)
{
	struct cma_id *id = cma_id(cm_id);
	struct ibv_qp *qp;

	cma_enter();
	qp = id->id.qp;
	id->id.qp = NULL;
	cma_unmap(id);
	if (id->state == CMA_CONNECTING || id->state == CMA_CONNECTED) {
		if (id->leaving)
			cma_disconnected(id);
		id->state = CMA_OVER;
	}
	cma_leave();
	if (qp)
		ibv_destroy_qp(qp);
	destroy_cqs(cm_id);
}

/* ---- The states of a queue pair that its program modifies itself ---- */

static int init_attr(struct ibv_qp_attr *a, const struct cma_id *id)
{
	a->port_num = 1;
	if (cma_is_ud(id)) {
		a->qkey = RDMA_UDP_QKEY;
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	}
	a->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_ATOMIC;
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

uint8_t cma_gid_index(const struct cma_id *id)
{
	union ibv_gid gid;

	for (int i = 0; i < DIW_MAX_DEV_ADDRS; i++)
		if (ibv_query_gid(id->id.verbs, 1, i, &gid) == 0 && memcmp(gid.raw, id->local.ip, sizeof gid.raw) == 0)
			return (uint8_t)i;
	return 0;
}

static int rtr_attr(struct ibv_qp_attr *a, const struct cma_id *id)
{
	struct ibv_port_attr port;

	if (cma_is_ud(id))
		return IBV_QP_STATE;
	a->path_mtu = ibv_query_port(id->id.verbs, 1, &port) ? IBV_MTU_1024 : port.active_mtu;
	a->ah_attr.is_global = 1;
	a->ah_attr.port_num = 1;
	a->ah_attr.grh.sgid_index = cma_gid_index(id);
	a->ah_attr.grh.hop_limit = 64;
	a->ah_attr.grh.traffic_class = id->tos;
	memcpy(a->ah_attr.grh.dgid.raw, id->peer.ip, sizeof id->peer.ip);
	a->dest_qp_num = DIW_OF_QPN_CM;
	a->max_dest_rd_atomic = DIW_MAX_IRD;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int rts_attr(struct ibv_qp_attr *a, const struct cma_id *id)
{
	if (cma_is_ud(id))
		return IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->timeout = id->ack_timeout;
	a->retry_cnt = a->rnr_retry = 7;
	a->max_rd_atomic = DIW_MAX_IRD;
	return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC;
}

void cma_qp_connected(const struct cma_id *id)
{
	struct ibv_qp_attr a = { 0 };

	rtr_attr(&a, id);
	rts_attr(&a, id);
	diw_of_connected(id->id.verbs, id->qp_num, &a);
}

int rdma_init_qp_attr(struct rdma_cm_id *cm_id, struct ibv_qp_attr *attr, int *mask)
{
	struct cma_id *id = cma_id(cm_id);
	enum ibv_qp_state to;
	int rc = 0;

	if (!id || !attr || !mask)
		return cma_result(EINVAL);
	to = attr->qp_state;
	cma_enter();
	if (!id->dev || (to != IBV_QPS_INIT && to != IBV_QPS_RTR && to != IBV_QPS_RTS)) {
		rc = EINVAL;
	} else {
		memset(attr, 0, sizeof *attr);
		attr->qp_state = to;
		*mask = to == IBV_QPS_INIT ? init_attr(attr, id) :
			to == IBV_QPS_RTR ? rtr_attr(attr, id) : rts_attr(attr, id);
	}
	cma_leave();
	return cma_result(rc);
}

/* ---- Shared receive queues ---- */

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq;

	if (id->srq || !id->verbs)
		return cma_result(EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = id->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (!attr->pd)
		return cma_result(ENOMEM);
	srq = ibv_create_srq_ex(id->verbs, attr);
	if (!srq)
		return -1;
	if (!id->pd)
		id->pd = attr->pd;
	id->srq = srq;
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex a = {
		.srq_context = init->srq_context, .attr = init->attr, .srq_type = IBV_SRQT_BASIC,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | (pd ? IBV_SRQ_INIT_ATTR_PD : 0), .pd = pd,
	};

	if (rdma_create_srq_ex(id, &a))
		return -1;
	init->attr = a.attr;
	return 0;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	if (id->srq)
		ibv_destroy_srq(id->srq);
	id->srq = NULL;
}
