/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups of UD queue pairs. There is no subnet manager: joining is complete when the kernel, which sends IGMP and MLD,
 * has accepted it. The result is reported by an event nevertheless. The queue pair that the identifier has when the
 * program fetches the event joins the group. An identifier that joins only to send is no member, and receives nothing.
 */
#include <infiniband/ib.h>
#include <stdlib.h>

#include "verbs/cma/cma.h"

#define QPN_GROUP 0xffffffu
#define HOP_LIMIT 1                  /* the kernel's default for groups */

struct cma_group {
	struct diw_list link;                /* in the list of its identifier */
	struct cma_count events;             /* events that name this group */
	union ibv_gid gid;
	bool full;
};

/* The GID of an address. A GID is an IP address; AF_IB addresses contain it. A positive errno. */
static int gid_of(union ibv_gid *gid, const struct sockaddr *sa)
{
	struct diw_addr a = { 0 };
	int rc = 0;

	if (sa && sa->sa_family == AF_IB)
		memcpy(a.ip, &((const struct sockaddr_ib *)sa)->sib_addr, sizeof a.ip);
	else
		rc = cma_addr_get(&a, sa);
	if (rc == 0 && (!diw_addr_is_multicast(&a) || (diw_addr_is_v4(&a) && a.ip[12] == 255)))
		rc = EINVAL;
	memcpy(gid->raw, a.ip, sizeof gid->raw);
	return rc;
}

static struct cma_group *group_find(const struct cma_id *id, const union ibv_gid *gid)
{
	for (struct diw_list *l = id->groups.next; l != &id->groups; l = l->next) {
		struct cma_group *g = diw_container(l, struct cma_group, link);

		if (memcmp(&g->gid, gid, sizeof *gid) == 0)
			return g;
	}
	return NULL;
}

static void event_tell(struct cma_event *e, const struct cma_id *id, const struct cma_group *g, void *context)
{
	struct rdma_ud_param *ud = &e->ev.param.ud;

	ud->private_data = context;             /* with length 0: by this field rdma_join_multicast(3) returns the
						 * context */
	ud->qp_num = QPN_GROUP;
	ud->qkey = RDMA_UDP_QKEY;
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = 1;
	ud->ah_attr.grh.dgid = g->gid;
	ud->ah_attr.grh.sgid_index = cma_gid_index(id);
	ud->ah_attr.grh.hop_limit = HOP_LIMIT;
	ud->ah_attr.grh.traffic_class = id->tos;
}

static int group_join(struct cma_id *id, const union ibv_gid *gid, bool full, void *context)
{
	struct cma_group *g;
	struct cma_event *e;

	if (!id->dev || !cma_is_ud(id) || id->state < CMA_BOUND || id->state > CMA_ROUTE_RESOLVED)
		return EINVAL;
	g = calloc(1, sizeof *g);
	e = g ? cma_event_new(id, RDMA_CM_EVENT_MULTICAST_JOIN, 0) : NULL;
	if (!e) {
		free(g);
		return ENOMEM;
	}
	g->gid = *gid;
	g->full = full;
	diw_list_add_tail(&id->groups, &g->link);
	e->more = &g->events;
	event_tell(e, id, g, context);
	cma_event_post(e);
	return 0;
}

void cma_group_attach(struct cma_event *e)
{
	const struct cma_group *g = diw_container(e->more, struct cma_group, events);
	int rc = g->full && e->owner->id.qp ? ibv_attach_mcast(e->owner->id.qp, &g->gid, 0) : 0;

	if (!rc)
		return;
	e->ev.event = RDMA_CM_EVENT_MULTICAST_ERROR;
	e->ev.status = -rc;
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	const uint32_t flags = attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS ? attr->join_flags :
			       RDMA_MC_JOIN_FLAG_FULLMEMBER;
	union ibv_gid gid;
	int rc;

	if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED || flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return cma_result(ENOTSUP);
	if (!(attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS))
		return cma_result(EINVAL);
	rc = gid_of(&gid, attr->addr);
	if (rc == 0) {
		cma_enter();
		rc = group_join(cma_id(id), &gid, flags == RDMA_MC_JOIN_FLAG_FULLMEMBER, context);
		cma_leave();
	}
	return rc ? cma_result(rc) : cma_complete(cma_id(id));
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS, .addr = addr };

	return rdma_join_multicast_ex(id, &attr, context);
}

/* The group is removed from the list before the wait, so another thread that leaves the same group does not find it. */
static int group_leave(struct cma_id *id, const union ibv_gid *gid)
{
	struct cma_group *g = group_find(id, gid);
	int rc;

	if (!g)
		return EADDRNOTAVAIL;
	diw_list_del(&g->link);
	cma_events_forget(id, &g->events);
	rc = cma_events_await(&g->events);
	if (rc) {
		diw_list_add_tail(&id->groups, &g->link);
		return rc;
	}
	/* An error means that the queue pair is not attached, which is the same result. */
	if (g->full && id->id.qp)
		ibv_detach_mcast(id->id.qp, gid, 0);
	free(g);
	return 0;
}

int rdma_leave_multicast(struct rdma_cm_id *cm_id, struct sockaddr *addr)
{
	struct cma_id *id = cma_id(cm_id);
	union ibv_gid gid;
	int rc = gid_of(&gid, addr);

	if (rc)
		return cma_result(rc);
	cma_own_event_drop(id);
	cma_enter();
	rc = group_leave(id, &gid);
	cma_leave();
	return cma_result(rc);
}

/* Drops the groups. A remaining queue pair leaves them when it is destroyed. */
void cma_groups_forget(struct cma_id *id)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &id->groups)
		free(diw_container(l, struct cma_group, link));
}
