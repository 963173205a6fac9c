/* SPDX-License-Identifier: BSD-2-Clause */
/* A domain: a device with its protection domain, and the operations of all of its endpoints. */
#include <stdlib.h>
#include <string.h>

#include "mpi_glue/port.h"

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

struct glue_op *diw_glue_op_get(struct glue_ep *ep, enum glue_op_kind kind)
{
	struct glue_domain *d = ep->domain;
	struct glue_op *op = diw_pool_get(&d->ops);
	uint32_t id;

	if (!op)
		return NULL;
	id = diw_glue_id_next(op->id, diw_pool_index(&d->ops, op));
	memset(op, 0, offsetof(struct glue_op, hdr));
	op->id = id;
	op->domain = d;
	op->ep = ep;
	op->kind = (uint8_t)kind;
	op->data = NULL;
	op->buf = NULL;
	return op;
}

struct glue_op *diw_glue_op_new(struct glue_ep *ep, enum glue_op_kind kind)
{
	return glue_ops_free(ep->domain) > GLUE_OPS_KEPT ? diw_glue_op_get(ep, kind) : NULL;
}

void diw_glue_op_count(struct glue_op *op, uint32_t *counter)
{
	op->counted = counter;
	++*counter;
}

void diw_glue_op_uncount(struct glue_op *op)
{
	if (op->counted)
		--*op->counted;
	op->counted = NULL;
}

void diw_glue_op_put(struct glue_op *op)
{
	struct glue_domain *d = op->domain;

	diw_glue_op_uncount(op);
	if (op->kept)
		diw_glue_hold_uncount(op);
	if (op->mr)
		diw_mr_dereg(op->mr);
	op->kind = GLUE_OP_FREE;
	diw_pool_put(&d->ops, op);
}

struct glue_op *diw_glue_op_find(struct glue_domain *d, uint32_t id)
{
	uint32_t index = id & (GLUE_OPS - 1);
	struct glue_op *op = diw_pool_at(&d->ops, index);

	return index < d->ops.fresh && op->id == id && op->kind != GLUE_OP_FREE && !op->ended ? op : NULL;
}

static enum glue_event op_event(const struct glue_op *op)
{
	switch (op->kind) {
	case GLUE_OP_SEND: return GLUE_EVENT_SEND;
	case GLUE_OP_READ: return GLUE_EVENT_READ;
	case GLUE_OP_WRITE: return GLUE_EVENT_WRITE;
	case GLUE_OP_ATOMIC: return op->entry.flags & FI_READ ? GLUE_EVENT_READ : GLUE_EVENT_WRITE;
	default: return GLUE_EVENT_RECV;
	}
}

/* The application gets a buffer for many messages back when the last of them is in it. */
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
	bool counts = op->kind != GLUE_OP_MESSAGE && op->kind != GLUE_OP_NOTE && op->kind != GLUE_OP_PEEK;
	bool came = op->kind == GLUE_OP_RECV || op->kind == GLUE_OP_NOTE || op->kind == GLUE_OP_PEEK;
	struct glue_cntr *cntr = counts ? ep->cntr[op_event(op)] : NULL;
	struct glue_cq *cq = came ? ep->rx_cq : ep->tx_cq;

	diw_glue_op_uncount(op);
	if (op->queue)
		diw_glue_unpend(op);
	if (op->mr) {
		diw_mr_dereg(op->mr);
		op->mr = NULL;
	}
	op->entry.err = err;
	if (err && !op->entry.prov_errno)
		op->entry.prov_errno = -err;
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
	op->source = came && op->peer ? op->peer->fi_addr : FI_ADDR_NOTAVAIL;
	op->ended = true;
	diw_glue_cq_push(cq, op);
}

void diw_glue_lock_wait(struct glue_domain *d)
{
	pthread_mutex_lock(&d->turn);
	atomic_store_explicit(&d->wanted, true, memory_order_relaxed);
	pthread_mutex_lock(&d->lock);
	atomic_store_explicit(&d->wanted, false, memory_order_relaxed);
	pthread_mutex_unlock(&d->turn);
}

void diw_glue_progress(struct glue_domain *d)
{
	__atomic_store_n(&d->looked, d->looked + 1, __ATOMIC_RELAXED);
	for (struct diw_list *n = d->eps.next; n != &d->eps; n = n->next)
		diw_glue_port_poll(diw_container(n, struct glue_ep, link));
}

/* ---- fork(2): the thread that forks holds the locks of all domains, and releases them in the child. A thread that
 * waits for a lock holds `turn`, and does not exist in the child, so the child makes `turn` anew. ---- */

static pthread_mutex_t domains_lock = PTHREAD_MUTEX_INITIALIZER;
static struct diw_list domains = { &domains, &domains };
static pthread_once_t atfork_once = PTHREAD_ONCE_INIT;

static struct glue_domain *domain_of_process(struct diw_list *n)
{
	return diw_container(n, struct glue_domain, of_process);
}

static void domains_before_fork(void)
{
	pthread_mutex_lock(&domains_lock);
	for (struct diw_list *n = domains.next; n != &domains; n = n->next)
		glue_lock(domain_of_process(n));
}

static void domains_after_fork(void)
{
	for (struct diw_list *n = domains.next; n != &domains; n = n->next)
		glue_unlock(domain_of_process(n));
	pthread_mutex_unlock(&domains_lock);
}

static void domains_in_child(void)
{
	for (struct diw_list *n = domains.next; n != &domains; n = n->next) {
		struct glue_domain *d = domain_of_process(n);

		d->forked = true;
		d->wanted = false;
		pthread_mutex_init(&d->turn, NULL);
	}
	domains_after_fork();
}

static void domains_watch_forks(void)
{
	pthread_atfork(domains_before_fork, domains_after_fork, domains_in_child);
}

static void domain_enlist(struct glue_domain *d)
{
	pthread_once(&atfork_once, domains_watch_forks);
	pthread_mutex_lock(&domains_lock);
	diw_list_add_tail(&domains, &d->of_process);
	pthread_mutex_unlock(&domains_lock);
}

static void domain_delist(struct glue_domain *d)
{
	pthread_mutex_lock(&domains_lock);
	diw_list_del(&d->of_process);
	pthread_mutex_unlock(&domains_lock);
}

/* ---- Begin and end ---- */

static void domain_free(struct glue_domain *d)
{
	domain_delist(d);
	diw_glue_progress_end(d);
	if (d->set.port->end)
		d->set.port->end(d);
	diw_glue_threads_close(d);
	if (d->memory)
		diw_mr_dereg(d->memory);
	if (d->pd)
		diw_pd_free(d->pd);
	if (d->dev)
		diw_dev_close(d->dev);
	diw_arena_fini(&d->arena);
	pthread_mutex_destroy(&d->lock);
	pthread_mutex_destroy(&d->turn);
	diw_glue_fabric_unuse(&d->fabric->fid);
	free(d);
}

static int domain_close(struct fid *fid)
{
	struct glue_domain *d = (struct glue_domain *)fid;
	uint32_t users;

	glue_lock(d);
	users = d->users;
	glue_unlock(d);
	if (users)
		return -FI_EBUSY;
	domain_free(d);
	return 0;
}

static int domain_no_sep(struct fid_domain *d, struct fi_info *i, struct fid_ep **ep, void *ctx)
{
	(void)d, (void)i, (void)ep, (void)ctx;
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
	.poll_open = diw_glue_poll_open, .stx_ctx = domain_no_stx, .srx_ctx = domain_no_srx,
	.query_atomic = diw_glue_query_atomic,
};

static struct fi_ops domain_fi_ops = {
	.size = sizeof(struct fi_ops), .close = domain_close, .bind = diw_glue_no_bind, .control = diw_glue_no_control,
	.ops_open = diw_glue_no_ops,
};

int diw_glue_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out, void *ctx)
{
	struct glue_domain *d = calloc(1, sizeof *d);
	int rc;

	if (!d)
		return -FI_ENOMEM;
	d->fid = (struct fid_domain){ .fid = { FI_CLASS_DOMAIN, ctx, &domain_fi_ops }, .ops = &domain_ops,
				     .mr = &diw_glue_ops_mr };
	d->fabric = (struct glue_fabric *)fabric;
	diw_glue_fabric_use(fabric);
	d->set = *diw_glue_settings();
	d->epoll = d->wake = -1;
	d->automatic = info->domain_attr->data_progress == FI_PROGRESS_AUTO;
	d->locks = d->automatic || d->set.port->threaded || info->domain_attr->threading != FI_THREAD_DOMAIN;
	d->virt_addr = info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);
	d->prov_key = info->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_BASIC);
	pthread_mutex_init(&d->lock, NULL);
	pthread_mutex_init(&d->turn, NULL);
	diw_list_init(&d->eps);
	diw_list_init(&d->inboxes);
	domain_enlist(d);
	for (uint32_t i = 0; i < GLUE_REGIONS; i++)
		diw_list_init(&d->regions[i]);
	rc = diw_arena_init(&d->arena, diw_pool_bytes(sizeof(struct glue_op), GLUE_OPS));
	if (rc == 0) {
		diw_pool_init(&d->ops, &d->arena, sizeof(struct glue_op), GLUE_OPS);
		rc = diw_dev_open(info->domain_attr->name, NULL, &d->dev);
	}
	if (rc == 0)
		rc = diw_pd_alloc(d->dev, &d->pd);
	if (rc == 0)
		rc = diw_mr_reg(d->pd, (void *)(uintptr_t)1, GLUE_USER_END - 1, DIW_ACCESS_LOCAL_WRITE, &d->memory);
	if (rc == 0 && (d->automatic || d->set.port->threaded))
		rc = diw_glue_threads_open(d);
	if (rc == 0 && d->automatic)
		rc = diw_glue_progress_begin(d);
	if (rc == 0 && d->set.port->begin)
		rc = d->set.port->begin(d);
	if (rc < 0) {
		domain_free(d);
		return rc;
	}
	*out = &d->fid;
	return 0;
}
