/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive queues, own and shared. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "verbs/qp.h"

static size_t slot_size(const struct diw_rq *rq)
{
	return sizeof(struct diw_rwqe) + rq->max_sge * sizeof(struct diw_ddp_sge);
}

static struct diw_rwqe *rq_slot(const struct diw_rq *rq, uint32_t i)
{
	return (void *)(rq->slots + i * slot_size(rq));
}

static uint32_t slot_of(const struct diw_recv *r)
{
	return ((const struct diw_rwqe *)r)->slot;
}

static uint32_t ring_len(const struct diw_slot_ring *r)
{
	return atomic_load_explicit(&r->tail, memory_order_acquire) -
	       atomic_load_explicit(&r->head, memory_order_acquire);
}

/* Cannot overflow: the ring has at least as many entries as there are slots. */
static void ring_push(struct diw_slot_ring *r, uint32_t slot)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);

	r->slot[tail & r->mask] = slot;
	atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
}

static bool ring_pop(struct diw_slot_ring *r, uint32_t *slot)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	if (head == atomic_load_explicit(&r->tail, memory_order_acquire))
		return false;
	*slot = r->slot[head & r->mask];
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
	return true;
}

static int ring_init(struct diw_slot_ring *r, uint32_t depth)
{
	uint32_t size = 1;

	while (size < depth)
		size *= 2;
	r->mask = size - 1;
	r->slot = calloc(size, sizeof *r->slot);
	return r->slot ? 0 : -ENOMEM;
}

int diw_rq_init(struct diw_rq *rq, uint32_t depth, uint32_t max_sge)
{
	pthread_mutex_init(&rq->post, NULL);
	rq->depth = depth;
	rq->max_sge = max_sge;
	rq->slots = calloc(depth, slot_size(rq));
	rq->returned = calloc(depth, sizeof *rq->returned);
	if (!rq->slots || !rq->returned || ring_init(&rq->fifo, depth) < 0 || ring_init(&rq->free, depth) < 0) {
		diw_rq_fini(rq);
		return -ENOMEM;
	}
	return 0;
}

void diw_rq_fini(struct diw_rq *rq)
{
	if (rq->depth)
		pthread_mutex_destroy(&rq->post);
	free(rq->slots);
	free(rq->returned);
	free(rq->fifo.slot);
	free(rq->free.slot);
	*rq = (struct diw_rq){ 0 };
}

static int post_one(struct diw_rq *rq, const struct diw_recv_wr *wr)
{
	struct diw_rwqe *w;
	uint64_t len = 0;
	uint32_t slot;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge || (wr->num_sge && !wr->sge))
		return diw_fail(-EINVAL, "diw_post_recv: num_sge %d: not 0 to %u, or sge is NULL", wr->num_sge,
				rq->max_sge);
	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sge[i].length;
	if (len > UINT32_MAX)
		return diw_fail(-EINVAL, "diw_post_recv: %llu bytes: more than %u", (unsigned long long)len,
				UINT32_MAX);
	if (!ring_pop(&rq->free, &slot)) {
		if (rq->fresh == rq->depth)
			return -ENOMEM;
		slot = rq->fresh++;             /* a slot that was never used takes no memory until now */
	}
	w = rq_slot(rq, slot);
	for (int i = 0; i < wr->num_sge; i++)
		w->sge[i] = (struct diw_ddp_sge){ (uintptr_t)wr->sge[i].addr, wr->sge[i].length, wr->sge[i].stag };
	w->slot = slot;
	w->recv.wr_id = wr->wr_id;
	w->skipped = w->cut = 0;
	w->len = (uint32_t)len;
	w->recv.buf = (struct diw_ddp_buf){ w->sge, (uint32_t)wr->num_sge, (uint32_t)len };
	ring_push(&rq->fifo, slot);
	return 0;
}

/* *WAITS: a message was waiting for a receive. */
static int rq_post(struct diw_rq *rq, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad, bool *waits)
{
	int rc = 0;

	*waits = false;

	pthread_mutex_lock(&rq->post);
	for (; wr && rc == 0; wr = wr->next) {
		rc = post_one(rq, wr);
		if (rc < 0 && bad)
			*bad = wr;
	}
	pthread_mutex_unlock(&rq->post);
	if (rq->awaited) {
		/* Pairs with a thread that found the queue empty: at least one of the two sees the other's store. */
		atomic_thread_fence(memory_order_seq_cst);
		*waits = atomic_load_explicit(&rq->wanted, memory_order_relaxed);
	}
	return rc;
}

uint32_t diw_rq_posted(const struct diw_rq *rq)
{
	return rq->nreturned + ring_len(&rq->fifo);
}

struct diw_recv *diw_rq_take(struct diw_rq *rq)
{
	uint32_t slot;

	if (rq->nreturned)
		slot = rq->returned[--rq->nreturned];
	else if (!ring_pop(&rq->fifo, &slot))
		return NULL;
	return &rq_slot(rq, slot)->recv;
}

void diw_rq_return(struct diw_rq *rq, struct diw_recv *r)
{
	rq->returned[rq->nreturned++] = slot_of(r);
}

void diw_rq_done(struct diw_rq *rq, struct diw_recv *r)
{
	ring_push(&rq->free, slot_of(r));
}

/* ---- Shared receive queues ---- */

static int srq_enlist(struct diw_srq *srq)
{
	struct diw_dev *dev = srq->pd->dev;
	int rc = diw_engine_lock(&dev->engine);

	if (rc < 0)
		return rc;
	rc = diw_dev_has_room(dev->nsrqs);
	dev->nsrqs += rc == 0;
	srq->pd->users += rc == 0;
	diw_engine_unlock(&dev->engine);
	return rc;
}

int diw_srq_create(struct diw_pd *pd, uint32_t depth, uint32_t max_sge, void *ctx, struct diw_srq **out)
{
	struct diw_srq *srq;
	int rc;

	if (depth == 0 || depth > DIW_DEV_WRS)
		return diw_fail(-EINVAL, "diw_srq_create: depth %u: not 1 to %u", depth, DIW_DEV_WRS);
	if (max_sge == 0 || max_sge > DIW_MAX_SGE)
		return diw_fail(-EINVAL, "diw_srq_create: max_sge %u: not 1 to %d", max_sge, DIW_MAX_SGE);
	srq = calloc(1, sizeof *srq);
	if (!srq)
		return -ENOMEM;
	rc = diw_rq_init(&srq->rq, depth, max_sge);
	srq->pd = pd;
	srq->ctx = ctx;
	if (rc == 0)
		rc = srq_enlist(srq);
	if (rc < 0) {
		diw_rq_fini(&srq->rq);
		free(srq);
		return diw_fail(rc, "diw_srq_create: depth %u", depth);
	}
	*out = srq;
	return 0;
}

int diw_srq_set_limit(struct diw_srq *srq, uint32_t limit)
{
	int rc = diw_engine_lock(&srq->pd->dev->engine);

	if (rc < 0)
		return rc;
	if (limit > srq->rq.depth)
		rc = diw_fail(-EINVAL, "diw_srq_set_limit: %u: more than its depth, %u", limit, srq->rq.depth);
	else
		srq->limit = limit;
	diw_engine_unlock(&srq->pd->dev->engine);
	return rc;
}

int diw_srq_query(struct diw_srq *srq, struct diw_srq_info *info)
{
	int rc = diw_engine_lock(&srq->pd->dev->engine);

	if (rc < 0)
		return rc;
	*info = (struct diw_srq_info){ .posted = diw_rq_posted(&srq->rq), .limit = srq->limit };
	diw_engine_unlock(&srq->pd->dev->engine);
	return 0;
}

int diw_srq_destroy(struct diw_srq *srq)
{
	struct diw_dev *dev = srq->pd->dev;

	if (diw_engine_lock(&dev->engine) == 0) {
		if (srq->nqps) {
			diw_engine_unlock(&dev->engine);
			return diw_fail(-EBUSY, "diw_srq_destroy: a queue pair uses it");
		}
		srq->pd->users--;
		dev->nsrqs--;
		diw_dev_forget_events(dev, srq);
		diw_engine_unlock(&dev->engine);
	}
	diw_rq_fini(&srq->rq);
	free(srq);
	return 0;
}

int diw_post_srq_recv(struct diw_srq *srq, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad)
{
	struct diw_dev *dev = srq->pd->dev;
	bool waits;
	int rc;

	if (!diw_engine_alive(&dev->engine))
		return -ENODEV;
	rc = rq_post(&srq->rq, wr, bad, &waits);
	if (waits)
		diw_engine_nudge(&dev->engine);
	return rc;
}

int diw_post_recv(struct diw_qp *qp, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad)
{
	bool waits;
	int rc;

	if (!diw_engine_alive(&qp->dev->engine))
		return -ENODEV;
	if (qp->srq)
		return diw_fail(-EINVAL, "diw_post_recv: the queue pair has a shared receive queue");
	rc = rq_post(&qp->own_rq, wr, bad, &waits);
	if (waits || qp->state == DIW_QPS_ERROR)
		diw_engine_nudge(&qp->dev->engine);
	return rc;
}
