/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive queues: slots with the posted entries, a FIFO of slot numbers that also takes back at the front. */
#include <errno.h>
#include <stdlib.h>

#include "verbs/qp.h"

static struct diw_rwqe *slot_at(const struct diw_rq *rq, uint32_t i)
{
	size_t size = sizeof(struct diw_rwqe) + rq->max_sge * sizeof(struct diw_ddp_sge);

	return (void *)(rq->slots + i * size);
}

int diw_rq_init(struct diw_rq *rq, uint32_t depth, uint32_t max_sge)
{
	pthread_mutex_init(&rq->lock, NULL);
	rq->depth = depth;
	rq->max_sge = max_sge;
	rq->head = rq->posted = 0;
	rq->slots = calloc(depth, sizeof(struct diw_rwqe) + max_sge * sizeof(struct diw_ddp_sge));
	rq->fifo = calloc(depth, sizeof *rq->fifo);
	rq->free = calloc(depth, sizeof *rq->free);
	if (!rq->slots || !rq->fifo || !rq->free) {
		diw_rq_fini(rq);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < depth; i++) {
		slot_at(rq, i)->slot = i;
		rq->free[i] = depth - 1 - i;
	}
	rq->nfree = depth;
	return 0;
}

void diw_rq_fini(struct diw_rq *rq)
{
	if (rq->depth)
		pthread_mutex_destroy(&rq->lock);
	free(rq->slots);
	free(rq->fifo);
	free(rq->free);
	*rq = (struct diw_rq){ 0 };
}

static int post_one(struct diw_rq *rq, const struct diw_recv_wr *wr)
{
	struct diw_rwqe *w;
	uint64_t len = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
		return -EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sge[i].length;
	if (len > UINT32_MAX)
		return -EINVAL;
	if (rq->nfree == 0)
		return -ENOMEM;
	w = slot_at(rq, rq->free[--rq->nfree]);
	for (int i = 0; i < wr->num_sge; i++)
		w->sge[i] = (struct diw_ddp_sge){ (uintptr_t)wr->sge[i].addr, wr->sge[i].length, wr->sge[i].stag };
	w->recv.wr_id = wr->wr_id;
	w->recv.buf = (struct diw_ddp_buf){ w->sge, (uint32_t)wr->num_sge, (uint32_t)len };
	rq->fifo[(rq->head + rq->posted++) % rq->depth] = w->slot;
	return 0;
}

int diw_rq_post(struct diw_rq *rq, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad)
{
	int rc = 0;

	pthread_mutex_lock(&rq->lock);
	for (; wr && rc == 0; wr = wr->next) {
		rc = post_one(rq, wr);
		if (rc < 0 && bad)
			*bad = wr;
	}
	pthread_mutex_unlock(&rq->lock);
	return rc;
}

uint32_t diw_rq_posted(struct diw_rq *rq)
{
	uint32_t n;

	pthread_mutex_lock(&rq->lock);
	n = rq->posted;
	pthread_mutex_unlock(&rq->lock);
	return n;
}

struct diw_recv *diw_rq_take(struct diw_rq *rq)
{
	struct diw_recv *r = NULL;

	pthread_mutex_lock(&rq->lock);
	if (rq->posted) {
		r = &slot_at(rq, rq->fifo[rq->head])->recv;
		rq->head = (rq->head + 1) % rq->depth;
		rq->posted--;
	}
	pthread_mutex_unlock(&rq->lock);
	return r;
}

void diw_rq_return(struct diw_rq *rq, struct diw_recv *r)
{
	struct diw_rwqe *w = diw_container(r, struct diw_rwqe, recv);

	pthread_mutex_lock(&rq->lock);
	rq->head = (rq->head + rq->depth - 1) % rq->depth;
	rq->fifo[rq->head] = w->slot;
	rq->posted++;
	pthread_mutex_unlock(&rq->lock);
}

void diw_rq_done(struct diw_rq *rq, struct diw_recv *r)
{
	struct diw_rwqe *w = diw_container(r, struct diw_rwqe, recv);

	pthread_mutex_lock(&rq->lock);
	rq->free[rq->nfree++] = w->slot;
	pthread_mutex_unlock(&rq->lock);
}

/* ---- Shared receive queues ---- */

int diw_srq_create(struct diw_pd *pd, uint32_t depth, uint32_t max_sge, void *ctx, struct diw_srq **out)
{
	struct diw_srq *srq;
	int rc;

	if (depth == 0 || depth > 65536 || max_sge == 0 || max_sge > DIW_MAX_SGE)
		return -EINVAL;
	srq = calloc(1, sizeof *srq);
	if (!srq)
		return -ENOMEM;
	rc = diw_rq_init(&srq->rq, depth, max_sge);
	if (rc == 0)
		rc = diw_dev_lock(pd->dev);
	if (rc < 0) {
		diw_rq_fini(&srq->rq);
		free(srq);
		return rc;
	}
	srq->pd = pd;
	srq->ctx = ctx;
	pd->users++;
	diw_dev_unlock(pd->dev);
	*out = srq;
	return 0;
}

int diw_srq_set_limit(struct diw_srq *srq, uint32_t limit)
{
	int rc = diw_dev_lock(srq->pd->dev);

	if (rc < 0)
		return rc;
	if (limit > srq->rq.depth)
		rc = -EINVAL;
	else
		srq->limit = limit;
	diw_dev_unlock(srq->pd->dev);
	return rc;
}

int diw_srq_destroy(struct diw_srq *srq)
{
	struct diw_dev *dev = srq->pd->dev;

	if (diw_dev_lock(dev) == 0) {
		if (srq->nqps) {
			diw_dev_unlock(dev);
			return -EBUSY;
		}
		srq->pd->users--;
		diw_dev_unlock(dev);
	}
	diw_rq_fini(&srq->rq);
	free(srq);
	return 0;
}

int diw_post_srq_recv(struct diw_srq *srq, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad)
{
	return diw_dev_alive(srq->pd->dev) ? diw_rq_post(&srq->rq, wr, bad) : -ENODEV;
}

int diw_post_recv(struct diw_qp *qp, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad)
{
	if (!diw_dev_alive(qp->dev))
		return -ENODEV;
	return qp->srq ? -EINVAL : diw_rq_post(&qp->own_rq, wr, bad);
}
