/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf --provider verbs, RC by librdmacm, which is loaded when it is needed. iWARP devices need it: ibv_modify_qp()
 * does not connect their queue pairs, and their GIDs are made of MAC addresses.
 */
#include "tools/perf/perf_ibv.h"

#ifdef HAVE_IBV
#if __has_include(<rdma/rdma_cma.h>)
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_cma.h>

#include "base/addr.h"

#define RESOLVE_MS 5000

static struct {
	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *ch);
	int (*create_id)(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *ctx, enum rdma_port_space ps);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	__be16 (*get_src_port)(struct rdma_cm_id *id);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int ms);
	int (*resolve_route)(struct rdma_cm_id *id, int ms);
	int (*create_qp)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	void (*destroy_qp)(struct rdma_cm_id *id);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*disconnect)(struct rdma_cm_id *id);
	int (*get_cm_event)(struct rdma_event_channel *ch, struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
	const char *(*event_str)(enum rdma_cm_event_type event);
} cm;

static const struct { const char *name; void *at; } cm_names[] = {
#define F(name) { "rdma_" #name, &cm.name }
	F(create_event_channel), F(destroy_event_channel), F(create_id), F(destroy_id), F(bind_addr), F(listen),
	F(get_src_port), F(resolve_addr), F(resolve_route), F(create_qp), F(destroy_qp), F(connect), F(accept),
	F(disconnect), F(get_cm_event), F(ack_cm_event), F(event_str),
#undef F
};

struct ibv_link {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id, *listener;    /* the client has no listener */
	bool established;
};

static int cm_load(void)
{
	static void *handle;

	if (handle)
		return 0;
	handle = dlopen("librdmacm.so.1", RTLD_NOW);
	if (!handle)
		return -1;
	for (size_t i = 0; i < TOOL_COUNT(cm_names); i++) {
		*(void **)cm_names[i].at = dlsym(handle, cm_names[i].name);
		if (!*(void **)cm_names[i].at)
			return tool_failed("--provider verbs: %s is not in librdmacm.so.1", cm_names[i].name);
	}
	return 0;
}

static int cm_failed(const char *what)
{
	return tool_failed("--provider verbs: %s: %s", what, strerror(errno));
}

/* ID: of the event, or NULL. */
static int link_await(struct ibv_link *l, enum rdma_cm_event_type want, struct rdma_cm_id **id)
{
	struct pollfd p = { .fd = l->ch->fd, .events = POLLIN };
	enum rdma_cm_event_type got;
	struct rdma_cm_event *event;
	int status;

	if (poll(&p, 1, (int)(PERF_PATIENCE_NS / DIW_MS)) <= 0)
		return tool_failed("--provider verbs: no %s came", cm.event_str(want));
	if (cm.get_cm_event(l->ch, &event))
		return cm_failed("rdma_get_cm_event");
	got = event->event;
	status = event->status;
	if (id)
		*id = event->id;
	cm.ack_cm_event(event);
	return got == want ? 0 : tool_failed("--provider verbs: %s, status %d", cm.event_str(got), status);
}

/* iWARP has no immediate data. */
static int link_suits(const struct rig *r)
{
	bool imm = r->pc.op == PERF_WRITE_IMM || (r->pc.op == PERF_WRITE && r->pc.test == PERF_LAT);

	if (!imm || r->ibv->ctx->device->transport_type != IBV_TRANSPORT_IWARP)
		return 0;
	return tool_failed("--provider verbs: %s is an iWARP device, which has no immediate data",
			   r->ibv->ctx->device->name);
}

static int link_listen(struct rig *r, struct ibv_link *l)
{
	l->listener = l->id;
	l->id = NULL;
	if (cm.listen(l->listener, 1))
		return cm_failed("rdma_listen");
	r->port[0] = ntohs(cm.get_src_port(l->listener));
	return 0;
}

int ibv_link_open(struct rig *r)
{
	struct ibv_rig *v = r->ibv;
	struct sockaddr_storage ss;
	struct ibv_link *l;
	int rc = cm_load();

	if (rc)
		return rc;
	l = v->link = calloc(1, sizeof *l);
	if (!l)
		return tool_failed("out of memory");
	l->ch = cm.create_event_channel();
	if (!l->ch)
		return -1;                   /* the kernel has no RDMA */
	if (cm.create_id(l->ch, &l->id, NULL, RDMA_PS_TCP))
		return cm_failed("rdma_create_id");
	diw_addr_to_sockaddr(&r->side.local, &ss);
	if (cm.bind_addr(l->id, (struct sockaddr *)&ss) || !l->id->verbs ||
	    (r->side.dev && strcmp(l->id->verbs->device->name, r->side.dev) != 0))
		return -1;
	v->ctx = l->id->verbs;
	rc = link_suits(r);
	return rc || r->side.client ? rc : link_listen(r, l);
}

static int link_make_qp(struct rig *r)
{
	struct ibv_link *l = r->ibv->link;
	int rc;

	if (cm.create_qp(l->id, r->ibv->pd, &r->ibv->init))
		return cm_failed("rdma_create_qp");
	r->ibv->qp = l->id->qp;
	r->ibv->max_inline = r->ibv->init.cap.max_inline_data;
	for (uint32_t i = 0; i < r->nrecv; i++)
		rig_recv_again(r, i);
	rc = rig_recv_flush(r);
	return rc ? tool_failed("--provider verbs: receives: %s", strerror(-rc)) : 0;
}

static const struct rdma_conn_param link_param = { .initiator_depth = RIG_READS, .responder_resources = RIG_READS,
	.retry_count = 7, .rnr_retry_count = 7 };

int ibv_link_connect(struct rig *r)
{
	struct rdma_conn_param param = link_param;
	struct ibv_link *l = r->ibv->link;
	struct sockaddr_storage to;
	int rc;

	diw_addr_to_sockaddr(&r->dst, &to);
	if (cm.resolve_addr(l->id, NULL, (struct sockaddr *)&to, RESOLVE_MS))
		return cm_failed("rdma_resolve_addr");
	rc = link_await(l, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (!rc && cm.resolve_route(l->id, RESOLVE_MS))
		rc = cm_failed("rdma_resolve_route");
	if (!rc)
		rc = link_await(l, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	if (!rc)
		rc = link_make_qp(r);
	return !rc && cm.connect(l->id, &param) ? cm_failed("rdma_connect") : rc;
}

/* Other hosts are refused. */
static int link_accept(struct rig *r)
{
	struct rdma_conn_param param = link_param;
	struct ibv_link *l = r->ibv->link;
	struct diw_addr from;
	int rc = link_await(l, RDMA_CM_EVENT_CONNECT_REQUEST, &l->id);

	if (rc)
		return rc;
	diw_addr_from_sockaddr(&from, &l->id->route.addr.dst_addr);
	if (memcmp(from.ip, r->side.peer.ip, sizeof from.ip) != 0)
		return tool_failed("--provider verbs: a connection of another host than the client");
	rc = link_make_qp(r);
	return !rc && cm.accept(l->id, &param) ? cm_failed("rdma_accept") : rc;
}

int ibv_link_establish(struct rig *r)
{
	struct ibv_link *l = r->ibv->link;
	int rc = 0;

	if (l->established)
		return 0;
	if (!r->side.client)
		rc = link_accept(r);
	if (!rc)
		rc = link_await(l, RDMA_CM_EVENT_ESTABLISHED, NULL);
	l->established = !rc;
	return rc;
}

void ibv_link_end(struct rig *r)
{
	struct ibv_link *l = r->ibv->link;

	if (l->established)
		cm.disconnect(l->id);
	if (r->ibv->qp)
		cm.destroy_qp(l->id);
}

void ibv_link_close(struct ibv_rig *v)
{
	if (v->link->id)
		cm.destroy_id(v->link->id);
	if (v->link->listener)
		cm.destroy_id(v->link->listener);
	if (v->link->ch)
		cm.destroy_event_channel(v->link->ch);
	free(v->link);
	v->link = NULL;
	v->ctx = NULL;                       /* librdmacm has it open */
}

#else

int ibv_link_open(struct rig *r) { (void)r; return -1; }
int ibv_link_connect(struct rig *r) { (void)r; return TOOL_FAILED; }
int ibv_link_establish(struct rig *r) { (void)r; return TOOL_FAILED; }
void ibv_link_end(struct rig *r) { (void)r; }
void ibv_link_close(struct ibv_rig *v) { (void)v; }

#endif
#endif
