/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups: the device's socket of the group port, and the queue pairs that are attached to each group. */
#include "verbs/group.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/rng.h"
#include "verbs/qp.h"

#define GROUP_BUCKETS 64u
#define RCVBUF (4u << 20)
/* The interval at which a spinning thread reads the socket while it is idle: each read costs 0.3 us. */
#define LOOK_NS (5 * DIW_US)

struct group {
	struct group *next;          /* in the same bucket */
	struct diw_addr addr;        /* scope and port are 0: there is one interface and one port */
	struct diw_list members;
};

struct member {
	struct diw_list of_group, of_qp, by_age;
	struct diw_qp *qp;
	struct group *group;
};

struct diw_group_port {
	struct diw_member member;    /* a fixed member */
	struct diw_dgram *d;
	struct diw_counters c;       /* not shown: the attached queue pairs count */
	uint64_t seed, look_at;
	int ngroups;
	struct group *bucket[GROUP_BUCKETS];
	struct diw_list by_age;      /* all groups, oldest first */
};

/* ---- The port ---- */

static const struct diw_member_ops port_ops;

static int port_open(struct diw_dev *dev)
{
	struct diw_group_port *p = calloc(1, sizeof *p);
	struct diw_dgram_attr attr = {
		.local.port = DIW_GROUP_PORT, .ifindex = dev->info.ifindex, .mtu = dev->info.mtu, .rcvbuf = RCVBUF,
		.any = true, .group = true,
	};
	int rc;

	if (!p)
		return -ENOMEM;
	attr.c = &p->c;
	rc = dev->transport->open(dev->transport, &attr, &p->d);
	if (rc != 0) {
		free(p);
		return rc;
	}
	p->seed = diw_random();
	diw_list_init(&p->by_age);
	p->member.ops = &port_ops;
	dev->groups = p;
	diw_engine_add_fixed(&dev->engine, &p->member);
	return 0;
}

/* The lock is released while this function waits for threads that sleep on the port. Another thread may open a new port
 * meanwhile. */
static void port_close_if_idle(struct diw_dev *dev)
{
	struct diw_group_port *p = dev->groups;

	if (!p || p->ngroups)
		return;
	dev->groups = NULL;
	diw_engine_remove_fixed(&p->member);
	diw_engine_rouse(&dev->engine);
	p->d->ops->close(p->d);
	free(p);
}

/* ---- Groups ---- */

static struct group **group_slot(struct diw_group_port *p, const struct diw_addr *addr)
{
	struct group **at = &p->bucket[diw_addr_hash(addr, p->seed) % GROUP_BUCKETS];

	while (*at && !diw_addr_eq(&(*at)->addr, addr))
		at = &(*at)->next;
	return at;
}

static int group_get(struct diw_group_port *p, const struct diw_addr *addr, struct group **out)
{
	struct group **at = group_slot(p, addr), *g = *at;
	int rc;

	*out = g;
	if (g)
		return 0;
	if (p->ngroups == DIW_MAX_GROUPS)
		return -ENOBUFS;
	g = calloc(1, sizeof *g);
	if (!g)
		return -ENOMEM;
	rc = p->d->ops->member(p->d, addr, true);
	if (rc < 0) {
		free(g);
		return rc;
	}
	g->addr = *addr;
	diw_list_init(&g->members);
	*at = *out = g;
	p->ngroups++;
	return 0;
}

static void group_put(struct diw_group_port *p, struct group *g)
{
	if (!diw_list_empty(&g->members))
		return;
	p->d->ops->member(p->d, &g->addr, false);
	*group_slot(p, &g->addr) = g->next;
	p->ngroups--;
	free(g);
}

/* ---- Members ---- */

static struct member *member_find(const struct diw_qp *qp, const struct diw_addr *addr)
{
	struct diw_list *l;

	for (l = qp->groups.next; l != &qp->groups; l = l->next) {
		struct member *m = diw_container(l, struct member, of_qp);

		if (diw_addr_eq(&m->group->addr, addr))
			return m;
	}
	return NULL;
}

static int member_enter(struct diw_qp *qp, const struct diw_addr *addr)
{
	struct member *m = calloc(1, sizeof *m);
	struct diw_group_port *p;
	int rc = m ? 0 : -ENOMEM;

	if (rc == 0 && !qp->dev->groups)
		rc = port_open(qp->dev);
	p = qp->dev->groups;
	if (rc == 0)
		rc = group_get(p, addr, &m->group);
	if (rc < 0) {
		free(m);
		port_close_if_idle(qp->dev);
		return rc;
	}
	m->qp = qp;
	diw_list_add_tail(&m->group->members, &m->of_group);
	diw_list_add_tail(&qp->groups, &m->of_qp);
	diw_list_add_tail(&p->by_age, &m->by_age);
	return 0;
}

static void member_leave(struct member *m)
{
	diw_list_del(&m->of_group);
	diw_list_del(&m->of_qp);
	diw_list_del(&m->by_age);
	group_put(m->qp->dev->groups, m->group);
	free(m);
}

/* The address in the form that identifies a group, or -EINVAL. */
static int group_name(const char *call, const struct diw_qp *qp, const struct diw_addr *given, struct diw_addr *addr)
{
	bool group = diw_addr_is_v4(given) ? (given->ip[12] & 0xf0) == 0xe0 : given->ip[0] == 0xff;
	char text[DIW_ADDR_STRLEN];

	if (qp->ops != &diw_qp_ops_ud)
		return diw_fail(-EINVAL, "%s: the queue pair is not UD", call);
	if (!group || (given->port && given->port != DIW_GROUP_PORT) ||
	    (given->scope && given->scope != qp->dev->info.ifindex))
		return diw_fail(-EINVAL, "%s: %s: no group at port %u of %s", call, diw_addr_str(given, text),
				DIW_GROUP_PORT, qp->dev->info.name);
	*addr = (struct diw_addr){ 0 };
	memcpy(addr->ip, given->ip, sizeof addr->ip);
	return 0;
}

int diw_qp_attach(struct diw_qp *qp, const struct diw_addr *group)
{
	char text[DIW_ADDR_STRLEN];
	struct diw_addr addr;
	int rc = group_name("diw_qp_attach", qp, group, &addr);

	if (rc == 0)
		rc = diw_engine_lock(&qp->dev->engine);
	if (rc < 0)
		return rc;
	if (!qp->socket->ops->member)
		rc = -EOPNOTSUPP;
	else if (!member_find(qp, &addr))
		rc = member_enter(qp, &addr);
	diw_engine_unlock(&qp->dev->engine);
	return rc < 0 ? diw_fail(rc, "diw_qp_attach: %s", diw_addr_str(&addr, text)) : 0;
}

int diw_qp_detach(struct diw_qp *qp, const struct diw_addr *group)
{
	struct diw_addr addr;
	struct member *m;
	int rc = group_name("diw_qp_detach", qp, group, &addr);

	if (rc == 0)
		rc = diw_engine_lock(&qp->dev->engine);
	if (rc < 0)
		return rc;
	m = member_find(qp, &addr);
	if (m)
		member_leave(m);
	port_close_if_idle(qp->dev);
	diw_engine_unlock(&qp->dev->engine);
	return m ? 0 : diw_fail(-EINVAL, "diw_qp_detach: the queue pair is not attached to that group");
}

void diw_group_leave_all(struct diw_qp *qp)
{
	struct diw_list *l;

	while ((l = diw_list_first(&qp->groups)))
		member_leave(diw_container(l, struct member, of_qp));
	port_close_if_idle(qp->dev);
}

void diw_group_fini(struct diw_dev *dev)
{
	struct diw_group_port *p = dev->groups;
	struct diw_list *l, *next;

	if (!p)
		return;
	diw_list_for_each_safe(l, next, &p->by_age)
		free(diw_container(l, struct member, by_age));
	for (unsigned i = 0; i < GROUP_BUCKETS; i++)
		for (struct group *g = p->bucket[i], *after; g; g = after) {
			after = g->next;
			free(g);
		}
	p->d->ops->close(p->d);
	free(p);
	dev->groups = NULL;
}

/* ---- Work ---- */

/* An impairment may hand up other datagrams before this burst, may lose it, or hand it up in pieces. All of that
 * happens here, while the burst's memory is valid. */
static void group_deliver(struct diw_qp *qp, const struct diw_dgram_burst *b, uint64_t now)
{
	struct diw_link *l = qp->link;

	qp->socket->given = b;
	while (l->ops->poll(l, 1, now) && (qp->socket->given || l->ops->deadline(l) == DIW_DGRAM_AT_HAND))
		;
	qp->socket->given = NULL;
	diw_qp_run(qp, now);
}

static bool port_serve(struct diw_member *m, uint64_t now)
{
	struct diw_group_port *p = diw_container(m, struct diw_group_port, member);
	struct diw_dgram_burst b;
	struct diw_addr name;
	struct diw_list *l;
	struct group *g;

	if (now < p->look_at)
		return false;
	if (p->d->ops->recv(p->d, &b, 1, now) < 1) {
		p->look_at = now + LOOK_NS;
		return false;
	}
	name = b.to;
	name.port = 0;
	g = *group_slot(p, &name);
	if (!g) {
		diw_container(diw_list_first(&p->by_age), struct member, by_age)->qp->c->rx_group_stray +=
			b.seg ? (b.len + b.seg - 1) / b.seg : 1;
		return true;
	}
	for (l = g->members.next; l != &g->members; l = l->next)
		group_deliver(diw_container(l, struct member, of_group)->qp, &b, now);
	return true;
}

static uint64_t port_deadline(const struct diw_member *m, bool waiting)
{
	const struct diw_group_port *p = diw_container((struct diw_member *)m, struct diw_group_port, member);

	(void)waiting;
	return p->d->ops->deadline(p->d);
}

static int port_fds(const struct diw_member *m, struct pollfd *pfd)
{
	const struct diw_group_port *p = diw_container((struct diw_member *)m, struct diw_group_port, member);
	int fd[DIW_DGRAM_FDS], n = p->d->ops->fds(p->d, fd);

	for (int i = 0; i < n; i++)
		pfd[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
	return n;
}

static const struct diw_member_ops port_ops = { .serve = port_serve, .deadline = port_deadline, .fds = port_fds };
