/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains; parent and thread domains, which have no effect here. */
#include <stdlib.h>

#include "verbs/of/of.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct of_pd *p = calloc(1, sizeof *p);
	int rc = p ? diw_pd_alloc(of_context(c)->dev, &p->diw) : -ENOMEM;

	if (rc < 0) {
		free(p);
		return of_null(-rc);
	}
	p->pd.context = c;
	return &p->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct of_pd *p = (struct of_pd *)pd;
	int rc;

	if (atomic_load(&p->users))
		return of_result(diw_fail(EBUSY, "ibv_dealloc_pd: objects of it exist"));
	if (p->parent) {
		of_pd_drop(&p->parent->pd);
		if (p->td)
			atomic_fetch_sub(&p->td->users, 1);
	} else {
		rc = diw_pd_free(p->diw);
		if (rc < 0)
			return of_result(-rc);
	}
	free(p);
	return 0;
}

/* The parent domain's allocators are for the memory of hardware queues. They are not called, since our queues are in
 * the library's memory. */
struct ibv_pd *of_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	struct of_pd *p, *under = (struct of_pd *)attr->pd;

	if (attr->comp_mask & ~known)
		return of_null(diw_fail(EOPNOTSUPP, "ibv_alloc_parent_domain: comp_mask %#x: only %#x", attr->comp_mask,
					known));
	if (!under || under->pd.context != c || (attr->td && attr->td->context != c))
		return of_null(diw_fail(EINVAL, "ibv_alloc_parent_domain: no domain, or one of another device"));
	p = calloc(1, sizeof *p);
	if (!p)
		return of_null(ENOMEM);
	p->pd.context = c;
	p->diw = under->diw;
	p->parent = under;
	p->td = (struct of_td *)attr->td;
	of_pd_hold(&under->pd);
	if (p->td)
		atomic_fetch_add(&p->td->users, 1);
	return &p->pd;
}

struct ibv_td *of_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr)
{
	struct of_td *t;

	if (attr->comp_mask)
		return of_null(diw_fail(EINVAL, "ibv_alloc_td: comp_mask %#x", attr->comp_mask));
	t = calloc(1, sizeof *t);
	if (!t)
		return of_null(ENOMEM);
	t->td.context = c;
	return &t->td;
}

int of_dealloc_td(struct ibv_td *td)
{
	struct of_td *t = (struct of_td *)td;

	if (atomic_load(&t->users))
		return diw_fail(EBUSY, "ibv_dealloc_td: a parent domain uses it");
	free(t);
	return 0;
}

/* Not possible, for the reason of ibv_import_device(). */
struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t handle)
{
	(void)c;
	(void)handle;
	return of_null(EOPNOTSUPP);
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}
