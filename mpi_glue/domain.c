/* SPDX-License-Identifier: BSD-2-Clause */
/* A domain is one device: its protection domain, registered regions, and the operations of all of its endpoints. */
#include <stdlib.h>
#include <string.h>

#include "mpi_glue/glue.h"

#define USER_END (1ull << 47)            /* of the address space of a process */

struct domain_mr {
	struct fid_mr fid;
	struct glue_domain *domain;
	struct diw_mr *mr;
};

int diw_glue_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid, (void)bfid, (void)flags;
	return -FI_ENOSYS;
}

int diw_glue_no_control(struct fid *fid, int command, void *arg)
{
	(void)fid, (void)command, (void)arg;
	return -FI_ENOSYS;
}

int diw_glue_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *ctx)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)ctx;
	return -FI_ENOSYS;
}

static uint32_t op_index(const struct glue_domain *d, const struct glue_op *op)
{
	return (uint32_t)((size_t)((const uint8_t *)op - d->ops.base) / d->ops.size);
}

struct glue_op *diw_glue_op_get(struct glue_ep *ep, enum glue_op_kind kind)
{
	struct glue_domain *d = ep->domain;
	struct glue_op *op = diw_pool_get(&d->ops);
	uint32_t generation;

	if (!op)
		return NULL;
	generation = (op->id >> GLUE_OP_BITS) + 1;
	memset(op, 0, offsetof(struct glue_op, hdr));
	op->id = generation << GLUE_OP_BITS | op_index(d, op);
	op->domain = d;
	op->ep = ep;
	op->kind = (uint8_t)kind;
	op->data = NULL;
	op->buf = NULL;
	return op;
}

void diw_glue_op_put(struct glue_op *op)
{
	struct glue_domain *d = op->domain;

	if (op->mr)
		diw_mr_dereg(op->mr);
	op->kind = GLUE_OP_FREE;
	diw_pool_put(&d->ops, op);
}

struct glue_op *diw_glue_op_find(struct glue_domain *d, uint32_t id)
{
	uint32_t index = id & (GLUE_OPS - 1);
	struct glue_op *op = (struct glue_op *)(void *)(d->ops.base + index * d->ops.size);

	return index < d->ops.fresh && op->id == id && op->kind != GLUE_OP_FREE && !op->ended ? op : NULL;
}

static enum glue_event op_event(const struct glue_op *op)
{
	switch (op->kind) {
	case GLUE_OP_SEND: return GLUE_EVENT_SEND;
	case GLUE_OP_READ: return GLUE_EVENT_READ;
	case GLUE_OP_WRITE: return GLUE_EVENT_WRITE;
	default: return GLUE_EVENT_RECV;
	}
}

/* A buffer of many messages is the application's again when the last of them is in it. */
static void op_leave_parent(struct glue_op *op)
{
	struct glue_op *parent = op->parent;

	op->parent = NULL;
	if (--parent->children == 0 && parent->released) {
		op->entry.flags |= FI_MULTI_RECV;
		op->silent = false;
		diw_glue_op_put(parent);
	}
}

void diw_glue_op_end(struct glue_op *op, int err)
{
	struct glue_ep *ep = op->ep;
	struct glue_cntr *cntr = op->kind == GLUE_OP_MESSAGE ? NULL : ep->cntr[op_event(op)];
	struct glue_cq *cq = op->kind == GLUE_OP_RECV ? ep->rx_cq : ep->tx_cq;

	if (op->queued)
		diw_list_del(&op->link);
	op->queued = false;
	if (op->mr) {
		diw_mr_dereg(op->mr);
		op->mr = NULL;
	}
	op->entry.err = err;
	if (cntr && err)
		cntr->errors++;
	else if (cntr)
		cntr->value++;
	if (op->parent)
		op_leave_parent(op);
	if (!cq || op->kind == GLUE_OP_MESSAGE || (!err && op->silent)) {
		diw_glue_op_put(op);
		return;
	}
	op->source = op->kind == GLUE_OP_RECV && op->peer ? op->peer->fi_addr : FI_ADDR_NOTAVAIL;
	op->ended = true;
	diw_glue_cq_push(cq, op);
}

void diw_glue_progress(struct glue_domain *d)
{
	for (struct diw_list *n = d->eps.next; n != &d->eps; n = n->next)
		diw_glue_port_poll(diw_container(n, struct glue_ep, link));
}

static int mr_close(struct fid *fid)
{
	struct domain_mr *m = (struct domain_mr *)fid;

	diw_mr_dereg(m->mr);
	glue_lock(m->domain);
	m->domain->users--;
	glue_unlock(m->domain);
	free(m);
	return 0;
}

static struct fi_ops mr_fi_ops = {
	.size = sizeof(struct fi_ops), .close = mr_close, .bind = diw_glue_no_bind, .control = diw_glue_no_control,
	.ops_open = diw_glue_no_ops,
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *a, uint64_t flags, struct fid_mr **out)
{
	struct glue_domain *d = (struct glue_domain *)fid;
	struct domain_mr *m = calloc(1, sizeof *m);
	unsigned access = 0;
	int rc;

	if (!m)
		return -FI_ENOMEM;
	if (a->access & (FI_RECV | FI_READ | FI_REMOTE_WRITE))
		access |= DIW_ACCESS_LOCAL_WRITE;
	if (a->access & FI_REMOTE_WRITE)
		access |= DIW_ACCESS_REMOTE_WRITE;
	if (a->access & FI_REMOTE_READ)
		access |= DIW_ACCESS_REMOTE_READ;
	rc = a->iov_count != 1 || flags ? -FI_EINVAL :
		diw_mr_reg(d->pd, a->mr_iov->iov_base, a->mr_iov->iov_len, access, &m->mr);
	if (rc < 0) {
		free(m);
		return rc;
	}
	m->domain = d;
	m->fid = (struct fid_mr){ .fid = { FI_CLASS_MR, a->context, &mr_fi_ops }, .key = m->mr->stag };
	m->fid.mem_desc = m;
	glue_lock(d);
	d->users++;
	glue_unlock(d);
	*out = &m->fid;
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
		   uint64_t key, uint64_t flags, struct fid_mr **mr, void *ctx)
{
	struct fi_mr_attr a = { .mr_iov = iov, .iov_count = count, .access = access, .offset = offset,
				.requested_key = key, .context = ctx };

	return mr_regattr(fid, &a, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
		  uint64_t flags, struct fid_mr **mr, void *ctx)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return mr_regv(fid, &iov, 1, access, offset, key, flags, mr, ctx);
}

static struct fi_ops_mr mr_ops = { .size = sizeof(struct fi_ops_mr), .reg = mr_reg, .regv = mr_regv,
				  .regattr = mr_regattr };

static void domain_free(struct glue_domain *d)
{
	if (d->memory)
		diw_mr_dereg(d->memory);
	if (d->pd)
		diw_pd_free(d->pd);
	if (d->dev)
		diw_dev_close(d->dev);
	diw_arena_fini(&d->arena);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static int domain_close(struct fid *fid)
{
	struct glue_domain *d = (struct glue_domain *)fid;

	if (d->users)
		return -FI_EBUSY;
	domain_free(d);
	return 0;
}

static int domain_no_sep(struct fid_domain *d, struct fi_info *i, struct fid_ep **ep, void *ctx)
{
	(void)d, (void)i, (void)ep, (void)ctx;
	return -FI_ENOSYS;
}

static int domain_no_poll(struct fid_domain *d, struct fi_poll_attr *a, struct fid_poll **p)
{
	(void)d, (void)a, (void)p;
	return -FI_ENOSYS;
}

static int domain_no_stx(struct fid_domain *d, struct fi_tx_attr *a, struct fid_stx **stx, void *ctx)
{
	(void)d, (void)a, (void)stx, (void)ctx;
	return -FI_ENOSYS;
}

static int domain_no_srx(struct fid_domain *d, struct fi_rx_attr *a, struct fid_ep **ep, void *ctx)
{
	(void)d, (void)a, (void)ep, (void)ctx;
	return -FI_ENOSYS;
}

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain), .av_open = diw_glue_av_open, .cq_open = diw_glue_cq_open,
	.endpoint = diw_glue_ep_open, .scalable_ep = domain_no_sep, .cntr_open = diw_glue_cntr_open,
	.poll_open = domain_no_poll, .stx_ctx = domain_no_stx, .srx_ctx = domain_no_srx,
};

static struct fi_ops domain_fi_ops = {
	.size = sizeof(struct fi_ops), .close = domain_close, .bind = diw_glue_no_bind, .control = diw_glue_no_control,
	.ops_open = diw_glue_no_ops,
};

int diw_glue_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out, void *ctx)
{
	const struct diw_dev_attr inl = { .progress = DIW_PROGRESS_DEFAULT };
	struct glue_domain *d = calloc(1, sizeof *d);
	int rc;

	if (!d)
		return -FI_ENOMEM;
	d->fid = (struct fid_domain){ .fid = { FI_CLASS_DOMAIN, ctx, &domain_fi_ops }, .ops = &domain_ops,
				     .mr = &mr_ops };
	d->fabric = (struct glue_fabric *)fabric;
	d->set = *diw_glue_settings();
	d->locks = info->domain_attr->threading != FI_THREAD_DOMAIN;
	pthread_mutex_init(&d->lock, NULL);
	diw_list_init(&d->eps);
	rc = diw_arena_init(&d->arena, diw_pool_bytes(sizeof(struct glue_op), GLUE_OPS));
	if (rc == 0) {
		diw_pool_init(&d->ops, &d->arena, sizeof(struct glue_op), GLUE_OPS);
		rc = diw_dev_open(info->domain_attr->name, &inl, &d->dev);
	}
	if (rc == 0)
		rc = diw_pd_alloc(d->dev, &d->pd);
	if (rc == 0)
		rc = diw_mr_reg(d->pd, (void *)(uintptr_t)1, USER_END - 1, DIW_ACCESS_LOCAL_WRITE, &d->memory);
	if (rc < 0) {
		domain_free(d);
		return rc;
	}
	*out = &d->fid;
	return 0;
}
