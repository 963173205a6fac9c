/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/of/of.h"

static int srq_check_init(const struct ibv_context *c, const struct ibv_srq_init_attr_ex *a)
{
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !a->pd || a->pd->context != c)
		return diw_fail(EINVAL, "ibv_create_srq: no pd of this context");
	if ((a->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE)) ||
	    ((a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && a->srq_type != IBV_SRQT_BASIC))
		return diw_fail(EOPNOTSUPP, "ibv_create_srq_ex: comp_mask %#x, or a type that is not basic",
				a->comp_mask);
	/* ibv_create_srq(3): srq_limit is irrelevant. Programs leave it unset. */
	if (a->attr.max_wr == 0 || a->attr.max_wr > OF_MAX_SRQ_WR || a->attr.max_sge > OF_MAX_SGE)
		return diw_fail(EINVAL, "ibv_create_srq: max_wr %u: not 1 to %d; max_sge %u: at most %d",
				a->attr.max_wr, OF_MAX_SRQ_WR, a->attr.max_sge, OF_MAX_SGE);
	return 0;
}

static struct of_srq *new_srq(struct ibv_context *c, const struct ibv_srq_init_attr_ex *a)
{
	struct of_srq *srq = calloc(1, sizeof *srq);

	if (!srq)
		return NULL;
	srq->srq = (struct ibv_srq){ .context = c, .srq_context = a->srq_context, .pd = a->pd };
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	srq->max_wr = a->attr.max_wr;
	srq->max_sge = a->attr.max_sge < 2 ? 2 : a->attr.max_sge;
	return srq;
}

static void free_srq(struct of_srq *srq)
{
	pthread_cond_destroy(&srq->srq.cond);
	pthread_mutex_destroy(&srq->srq.mutex);
	free(srq);
}

static void of_srq_enlist(struct of_context *ctx, struct of_srq *srq)
{
	pthread_mutex_lock(&ctx->lock);
	srq->num = ++ctx->last_srq;
	srq->srq.handle = srq->num;
	ctx->nsrqs++;
	pthread_mutex_unlock(&ctx->lock);
}

struct ibv_srq *of_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr)
{
	int rc = srq_check_init(c, attr);
	struct of_srq *srq = rc ? NULL : new_srq(c, attr);

	if (rc == 0 && !srq)
		rc = ENOMEM;
	if (rc == 0)
		rc = -diw_srq_create(of_diw_pd(attr->pd), srq->max_wr, srq->max_sge, srq, &srq->diw);
	if (rc) {
		if (srq)
			free_srq(srq);
		errno = rc;
		return NULL;
	}
	of_pd_hold(attr->pd);
	of_srq_enlist(of_context(c), srq);
	attr->attr.max_wr = srq->max_wr;
	attr->attr.max_sge = srq->max_sge;
	return &srq->srq;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct ibv_srq_init_attr_ex a = {
		.srq_context = init->srq_context, .attr = init->attr, .comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_srq *srq;

	if (!pd) {
		errno = diw_fail(EINVAL, "ibv_create_srq: no protection domain");
		return NULL;
	}
	srq = of_create_srq_ex(pd->context, &a);
	if (srq)
		init->attr = a.attr;
	return srq;
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct of_srq *srq = (struct of_srq *)ibsrq;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return of_result(diw_fail(EINVAL, "ibv_modify_srq: attributes %#x", mask));
	if (mask & IBV_SRQ_MAX_WR)              /* resizing is not among the capabilities (IBV_DEVICE_SRQ_RESIZE) */
		return of_result(diw_fail(EOPNOTSUPP, "ibv_modify_srq: the device cannot resize them"));
	return mask & IBV_SRQ_LIMIT ? of_result(-diw_srq_set_limit(srq->diw, attr->srq_limit)) : 0;
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct of_srq *srq = (struct of_srq *)ibsrq;
	struct diw_srq_info info;
	int rc = -diw_srq_query(srq->diw, &info);

	if (rc == 0)
		*attr = (struct ibv_srq_attr){ srq->max_wr, srq->max_sge, info.limit };
	return rc;
}

int of_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	*num = ((struct of_srq *)srq)->num;
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct of_srq *srq = (struct of_srq *)ibsrq;
	struct of_context *ctx = of_context(ibsrq->context);
	int rc;

	pthread_mutex_lock(&ctx->lock);
	rc = -diw_srq_destroy(srq->diw);
	ctx->nsrqs -= rc == 0;
	pthread_mutex_unlock(&ctx->lock);
	if (rc)
		return of_result(rc);
	of_async_forget_srq(ctx, srq);
	of_pd_drop(ibsrq->pd);
	free_srq(srq);
	return 0;
}
