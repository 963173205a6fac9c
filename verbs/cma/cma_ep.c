/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that do several steps at once, on identifiers that wait for their own events. */
#include <stdlib.h>

#include "verbs/cma/cma.h"

#define RESOLVE_MS 2000

static int ep_keep(struct cma_id *id, const struct rdma_addrinfo *res, const struct ibv_qp_init_attr *init)
{
	uint32_t len = res->ai_connect_len < CMA_DATA ? (uint32_t)res->ai_connect_len : CMA_DATA;

	if (len) {
		id->data = malloc(len);
		if (!id->data)
			return -1;
		memcpy(id->data, res->ai_connect, len);
		id->data_len = (uint8_t)len;
	}
	if (init && (res->ai_flags & RAI_PASSIVE)) {
		id->init = malloc(sizeof *id->init);
		if (!id->init)
			return -1;
		*id->init = *init;
		id->init->qp_type = res->ai_qp_type;
	}
	return 0;
}

static int set_up(struct rdma_cm_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	if (ep_keep(cma_id(id), res, init))
		return -1;
	if (res->ai_flags & RAI_PASSIVE) {
		id->pd = pd;
		return rdma_bind_addr(id, res->ai_src_addr);
	}
	if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS))
		return -1;
	if (rdma_resolve_route(id, RESOLVE_MS))
		return -1;
	if (!init)
		return 0;
	init->qp_type = res->ai_qp_type;
	return rdma_create_qp(id, pd, init);
}

int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct rdma_cm_id *id;
	int err;

	if (!out || !res)
		return cma_result(EINVAL);
	if (rdma_create_id(NULL, &id, NULL, res->ai_port_space))
		return -1;
	if (set_up(id, res, pd, init)) {
		err = errno;
		rdma_destroy_ep(id);
		return cma_result(err);
	}
	*out = id;
	return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	rdma_destroy_id(id);
}

int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct cma_id *l = cma_id(listen);
	struct rdma_cm_event *ev;
	struct ibv_qp_init_attr init;
	int err;

	if (!l->sync || l->state != CMA_LISTENING || !out)
		return cma_result(EINVAL);
	if (listen->event) {
		rdma_ack_cm_event(listen->event);
		listen->event = NULL;
	}
	if (rdma_get_cm_event(listen->channel, &ev))
		return -1;
	/* Of the listener itself: its device has gone, or the program wrote the event. */
	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
		err = cma_event_errno(ev);
		rdma_ack_cm_event(ev);
		return cma_result(err ? err : EINVAL);
	}
	if (l->init) {
		init = *l->init;
		if (rdma_create_qp(ev->id, listen->pd, &init)) {
			err = errno;
			rdma_destroy_id(ev->id);
			rdma_ack_cm_event(ev);
			return cma_result(err);
		}
	}
	/* its data must be valid until the next call */
	ev->id->event = ev;
	*out = ev->id;
	return 0;
}
