/* SPDX-License-Identifier: BSD-2-Clause */
/* Identifiers: creation and destruction, addresses, options. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/host/port.h"
#include "verbs/cma/cma.h"

struct diw_list cma_ids = { &cma_ids, &cma_ids };

/* ---- Creation and destruction ---- */

struct cma_id *cma_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
			  enum ibv_qp_type type)
{
	struct cma_id *id = calloc(1, sizeof *id);

	if (!id)
		return NULL;
	id->sync = !channel;
	id->id.channel = channel ? channel : rdma_create_event_channel();
	if (!id->id.channel) {
		free(id);
		return NULL;
	}
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->hold = -1;
	id->ack_timeout = CMA_ACK_TIMEOUT;
	diw_list_init(&id->groups);
	diw_list_add_tail(&cma_ids, &id->link);
	return id;
}

static bool space_is_known(enum rdma_port_space ps, enum ibv_qp_type *type)
{
	*type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	return ps == RDMA_PS_UDP || ps == RDMA_PS_TCP;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context, enum rdma_port_space ps)
{
	enum ibv_qp_type type;
	struct cma_id *id;

	if (!out)
		return cma_result(EINVAL);
	if (!space_is_known(ps, &type))
		return cma_result(EPROTONOSUPPORT);
	cma_enter();
	id = cma_id_new(channel, context, ps, type);
	cma_leave();
	if (!id)
		return -1;
	*out = &id->id;
	return 0;
}

void cma_id_free(struct cma_id *id)
{
	struct rdma_event_channel *own = id->sync ? id->id.channel : NULL;

	id->dying = true;
	cma_events_forget(id, NULL);
	cma_groups_forget(id);
	cma_conn_forget(id);
	cma_hold_drop(id);
	diw_list_del(&id->link);
	if (own) {
		close(own->fd);
		free(own);
	}
	free(id->id.route.path_rec);
	free(id->init);
	free(id->data);
	rdma_freeaddrinfo(id->resolved);
	free(id);
}

int rdma_destroy_id(struct rdma_cm_id *cm_id)
{
	struct cma_id *id = cma_id(cm_id);
	struct diw_loop_thread *unused;
	int rc;

	if (!id)
		return cma_result(EINVAL);
	cma_own_event_drop(id);
	cma_enter();
	rc = id->dying ? EINVAL : 0;
	if (rc == 0) {
		id->dying = true;
		cma_events_forget(id, NULL);
		rc = cma_events_await(&id->events);
		if (rc)
			id->dying = false;
		else
			cma_id_free(id);
	}
	unused = cma_thread_unused();
	cma_leave();
	diw_loop_join(unused);
	return cma_result(rc);
}

int rdma_migrate_id(struct rdma_cm_id *cm_id, struct rdma_event_channel *channel)
{
	struct cma_id *id = cma_id(cm_id);
	struct rdma_event_channel *own;
	bool sync = !channel;
	int rc;

	if (id->sync && sync)
		return cma_result(EINVAL);
	cma_own_event_drop(id);
	if (sync)
		channel = rdma_create_event_channel();
	if (!channel)
		return -1;
	cma_enter();
	rc = cma_events_await(&id->events);
	own = id->sync ? id->id.channel : NULL;
	if (rc == 0)
		cma_events_move(id, channel, sync);
	cma_leave();
	if (rc && sync)
		rdma_destroy_event_channel(channel);
	else if (!rc && own)
		rdma_destroy_event_channel(own);
	return cma_result(rc);
}

/* ---- Addresses ---- */

void cma_id_device(struct cma_id *id, struct cma_dev *dev)
{
	id->dev = dev;
	id->id.verbs = dev->verbs;
	id->id.port_num = 1;
	if (!id->id.pd)
		id->id.pd = cma_dev_pd(dev);    /* for programs that create their queue pairs themselves */
}

void cma_id_show(struct cma_id *id)
{
	struct rdma_addr *a = &id->id.route.addr;

	if (!diw_addr_ip_is_zero(&id->local) || id->local.port)
		cma_addr_put(&a->src_storage, &id->local);
	if (!diw_addr_ip_is_zero(&id->peer))
		cma_addr_put(&a->dst_storage, &id->peer);
	a->addr.ibaddr.pkey = htons(0xffff);
	memcpy(a->addr.ibaddr.sgid.raw, id->local.ip, sizeof id->local.ip);
	memcpy(a->addr.ibaddr.dgid.raw, id->peer.ip, sizeof id->peer.ip);
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(cma_id(id)->local.port);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return htons(cma_id(id)->peer.port);
}

/* ---- Ports: a socket keeps an identifier's port until it listens or connects ---- */

void cma_hold_drop(struct cma_id *id)
{
	if (id->hold >= 0)
		close(id->hold);
	id->hold = -1;
}

static int port_hold(struct cma_id *id, struct diw_addr *local)
{
	const struct diw_port_hold how = {
		.type = cma_is_ud(id) ? SOCK_DGRAM : SOCK_STREAM, .rdma = !cma_is_ud(id),
		.reuse = id->reuse, .v6only = id->afonly,
	};
	int fd = diw_port_hold(local, &how);

	id->hold = fd < 0 ? -1 : fd;
	return fd < 0 ? -fd : 0;
}

/* Whether another identifier of this process keeps the address. The kernel does not detect two sockets that only keep a
 * port. */
static bool address_is_taken(const struct cma_id *id, const struct diw_addr *a)
{
	for (struct diw_list *l = cma_ids.next; l != &cma_ids; l = l->next) {
		const struct cma_id *o = diw_container(l, struct cma_id, link);

		if (o != id && o->hold >= 0 && o->local.port == a->port && cma_is_ud(o) == cma_is_ud(id) &&
		    !(o->reuse && id->reuse) && diw_addr_is_v4(&o->local) == diw_addr_is_v4(a) &&
		    (diw_route_is_any(&o->local) || diw_route_is_any(a) || diw_addr_same_host(&o->local, a)))
			return true;
	}
	return false;
}

static bool is_loopback(const struct diw_addr *a)
{
	static const uint8_t one[16] = { [15] = 1 };

	return diw_addr_is_v4(a) ? a->ip[12] == 127 : memcmp(a->ip, one, sizeof one) == 0;
}

/* For a loopback address the kernel's librdmacm chooses no device. libfabric binds to "localhost" to list all devices,
 * and would find only lo otherwise. */
int cma_bind(struct cma_id *id, const struct diw_addr *want)
{
	struct diw_addr local = *want;
	struct cma_dev *dev = NULL;
	int rc;

	if (id->state != CMA_IDLE)
		return EINVAL;
	if (!diw_route_is_any(&local)) {
		dev = cma_dev_of(&local);
		if (!dev)
			return errno;
	}
	if (local.port && address_is_taken(id, &local))
		return EADDRINUSE;
	id->any_port = !local.port;
	rc = port_hold(id, &local);
	if (rc)
		return rc;
	id->local = local;
	if (dev && !is_loopback(&local))
		cma_id_device(id, dev);
	id->state = CMA_BOUND;
	cma_id_show(id);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct diw_addr a;
	int rc = cma_addr_get(&a, addr);

	if (rc == 0) {
		cma_enter();
		rc = cma_bind(cma_id(id), &a);
		cma_leave();
	}
	return cma_result(rc);
}

/* ---- Resolving: the kernel knows the route at once; a missing peer is found when connecting ---- */

static int id_resolve(struct cma_id *id, const struct diw_addr *src, const struct diw_addr *dst)
{
	struct diw_addr from;
	struct cma_dev *dev;
	int rc = 0;

	if (id->state == CMA_IDLE && !diw_route_is_any(src))
		rc = cma_bind(id, src);
	if (rc == 0 && id->state != CMA_IDLE && id->state != CMA_BOUND)
		rc = EINVAL;
	if (rc == 0 && (diw_route_is_any(dst) || (diw_addr_is_multicast(dst) && !cma_is_ud(id))))
		rc = EINVAL;
	if (rc == 0)
		rc = -diw_route_source(dst, &id->local, &from);
	if (rc)
		return rc;
	dev = cma_dev_of(&from);
	if (!dev)
		return errno;
	from.port = id->local.port;
	id->local = from;
	id->peer = *dst;
	cma_id_device(id, dev);
	id->state = CMA_ADDR_RESOLVED;
	cma_id_show(id);
	cma_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *cm_id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	struct diw_addr from = { 0 }, to;
	int rc = cma_addr_get(&to, dst);

	(void)timeout_ms;
	if (rc == 0 && src)
		rc = cma_addr_get(&from, src);
	if (rc == 0) {
		cma_enter();
		rc = id_resolve(cma_id(cm_id), &from, &to);
		cma_leave();
	}
	return rc ? cma_result(rc) : cma_complete(cma_id(cm_id));
}

/* Fills in the path to the peer, as a subnet manager would report it. An RNIC has no path. */
static int id_fill_path(struct cma_id *id)
{
	struct ibv_sa_path_rec *p;
	struct ibv_port_attr port;

	if (id->dev->rnic || id->id.route.path_rec)
		return 0;
	p = calloc(1, sizeof *p);
	if (!p)
		return ENOMEM;
	memcpy(p->sgid.raw, id->local.ip, sizeof id->local.ip);
	memcpy(p->dgid.raw, id->peer.ip, sizeof id->peer.ip);
	p->hop_limit = 64;
	p->traffic_class = id->tos;
	p->reversible = 1;
	p->numb_path = 1;
	p->pkey = htons(0xffff);
	p->mtu_selector = p->rate_selector = p->packet_life_time_selector = 2;  /* exactly */
	p->mtu = ibv_query_port(id->id.verbs, 1, &port) ? IBV_MTU_1024 : (uint8_t)port.active_mtu;
	p->rate = IBV_RATE_10_GBPS;
	p->packet_life_time = CMA_PACKET_LIFE;
	id->id.route.path_rec = p;
	id->id.route.num_paths = 1;
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *cm_id, int timeout_ms)
{
	struct cma_id *id = cma_id(cm_id);
	int rc;

	(void)timeout_ms;
	cma_enter();
	rc = id->state == CMA_ADDR_RESOLVED ? id_fill_path(id) : EINVAL;
	if (rc == 0) {
		id->state = CMA_ROUTE_RESOLVED;
		cma_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	cma_leave();
	return rc ? cma_result(rc) : cma_complete(id);
}

/* ---- Options ---- */

static int set_bool(struct cma_id *id, bool *to, const void *val, size_t len)
{
	int v;

	if (len != sizeof v || id->state != CMA_IDLE)
		return EINVAL;
	memcpy(&v, val, sizeof v);
	*to = v != 0;
	return 0;
}

static int set_option(struct cma_id *id, int name, const void *val, size_t len)
{
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (len != sizeof id->tos)
			return EINVAL;
		memcpy(&id->tos, val, sizeof id->tos);
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		return set_bool(id, &id->reuse, val, len);
	case RDMA_OPTION_ID_AFONLY:
		return set_bool(id, &id->afonly, val, len);
	case RDMA_OPTION_ID_ACK_TIMEOUT:        /* reported only: TCP has its own timer */
		if (len != sizeof id->ack_timeout)
			return EINVAL;
		memcpy(&id->ack_timeout, val, sizeof id->ack_timeout);
		return 0;
	default:
		return ENOSYS;
	}
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *val, size_t len)
{
	int rc;

	if (!val)
		return cma_result(EINVAL);
	if (level != RDMA_OPTION_ID)
		return cma_result(ENOSYS);
	cma_enter();
	rc = set_option(cma_id(id), name, val, len);
	cma_leave();
	return cma_result(rc);
}
