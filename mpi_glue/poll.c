/* SPDX-License-Identifier: BSD-2-Clause */
/* Poll sets: completion queues and counters that an application asks about together. */
#include <stdlib.h>

#include "mpi_glue/glue.h"

struct glue_poll {
	struct fid_poll fid;
	struct glue_domain *domain;
	struct diw_list members;
};

/* A counter has an event when it has changed since it was reported. */
struct poll_member {
	struct diw_list link;
	struct fid *fid;
	uint64_t value;
};

static uint64_t member_value(const struct poll_member *m)
{
	const struct glue_cntr *c = (const struct glue_cntr *)m->fid;

	return m->fid->fclass == FI_CLASS_CNTR ? c->value + c->errors : 0;
}

static uint32_t *member_users(struct fid *fid)
{
	return fid->fclass == FI_CLASS_CNTR ? &((struct glue_cntr *)fid)->users : &((struct glue_cq *)fid)->users;
}

static const struct glue_domain *member_domain(struct fid *fid)
{
	return fid->fclass == FI_CLASS_CNTR ? ((struct glue_cntr *)fid)->domain : ((struct glue_cq *)fid)->domain;
}

static bool member_has_event(struct poll_member *m)
{
	uint64_t value = member_value(m);
	bool changed = value != m->value;

	m->value = value;
	return m->fid->fclass == FI_CLASS_CNTR ? changed : !diw_list_empty(&((struct glue_cq *)m->fid)->ready);
}

static int poll_look(struct fid_poll *fid, void **ctx, int count)
{
	struct glue_poll *p = (struct glue_poll *)fid;
	int n = 0;

	glue_lock(p->domain);
	diw_glue_progress(p->domain);
	for (struct diw_list *l = p->members.next; l != &p->members && n < count; l = l->next) {
		struct poll_member *m = diw_container(l, struct poll_member, link);

		if (member_has_event(m))
			ctx[n++] = m->fid->context;
	}
	glue_unlock(p->domain);
	return n;
}

static int poll_add(struct fid_poll *fid, struct fid *event, uint64_t flags)
{
	struct glue_poll *p = (struct glue_poll *)fid;
	struct poll_member *m;

	if (flags || (event->fclass != FI_CLASS_CQ && event->fclass != FI_CLASS_CNTR) ||
	    member_domain(event) != p->domain)
		return -FI_EINVAL;
	m = calloc(1, sizeof *m);
	if (!m)
		return -FI_ENOMEM;
	m->fid = event;
	glue_lock(p->domain);
	m->value = member_value(m);
	++*member_users(event);
	diw_list_add_tail(&p->members, &m->link);
	glue_unlock(p->domain);
	return 0;
}

static void member_free(struct poll_member *m)
{
	--*member_users(m->fid);
	diw_list_del(&m->link);
	free(m);
}

static int poll_del(struct fid_poll *fid, struct fid *event, uint64_t flags)
{
	struct glue_poll *p = (struct glue_poll *)fid;
	struct diw_list *l, *next;
	int rc = -FI_EINVAL;

	(void)flags;
	glue_lock(p->domain);
	diw_list_for_each_safe(l, next, &p->members)
		if (rc && diw_container(l, struct poll_member, link)->fid == event) {
			member_free(diw_container(l, struct poll_member, link));
			rc = 0;
		}
	glue_unlock(p->domain);
	return rc;
}

static int poll_close(struct fid *fid)
{
	struct glue_poll *p = (struct glue_poll *)fid;
	struct diw_list *l;

	glue_lock(p->domain);
	while ((l = diw_list_first(&p->members)))
		member_free(diw_container(l, struct poll_member, link));
	p->domain->users--;
	glue_unlock(p->domain);
	free(p);
	return 0;
}

static struct fi_ops poll_fi_ops = {
	.size = sizeof(struct fi_ops), .close = poll_close, .bind = diw_glue_no_bind,
	.control = diw_glue_no_control, .ops_open = diw_glue_no_ops,
};

static struct fi_ops_poll poll_ops = {
	.size = sizeof(struct fi_ops_poll), .poll = poll_look, .poll_add = poll_add, .poll_del = poll_del,
};

int diw_glue_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **out)
{
	struct glue_poll *p;

	if (attr && attr->flags)
		return -FI_EINVAL;
	p = calloc(1, sizeof *p);
	if (!p)
		return -FI_ENOMEM;
	p->domain = (struct glue_domain *)domain;
	p->fid = (struct fid_poll){ .fid = { FI_CLASS_POLL, NULL, &poll_fi_ops }, .ops = &poll_ops };
	diw_list_init(&p->members);
	glue_lock(p->domain);
	p->domain->users++;
	glue_unlock(p->domain);
	*out = &p->fid;
	return 0;
}
