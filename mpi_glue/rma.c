/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and writes of a peer's memory, by the queue pairs' Read and Write (docs/mpi-wire.md section 5). A write is
 * complete when its octets are in the peer's memory. */
#include <string.h>

#include "mpi_glue/glue.h"

/* The parameters of a read or write, in one form for all entries. */
struct rma_call {
	const struct iovec *iov;
	size_t iovs;
	const struct fi_rma_iov *rma;
	size_t rmas;
	fi_addr_t addr;
	void *ctx;
	uint64_t data;
};

/* The peer's memory from octet OFF of the operation on. */
static struct glue_target rma_target_at(const struct glue_op *op, uint64_t off)
{
	uint32_t i = 0;

	while (i + 1 < op->targets && off >= op->target[i].len)
		off -= op->target[i++].len;
	return (struct glue_target){ op->target[i].stag, op->target[i].to + off, op->target[i].len - off };
}

/* The requests of an operation fail with the one before them, so WRITTEN does not follow a Write that was refused. If
 * some of them had to wait, there may be others in between. So WRITTEN waits for the acknowledgement of the Writes. */
int diw_glue_rma_run(struct glue_op *op)
{
	uint64_t most = op->kind == GLUE_OP_WRITE ? DIW_MAX_RDMA : DIW_MAX_READ;
	unsigned apart = DIW_SEND_APART;
	bool resumed = op->queue;
	int rc;

	if (op->entry.err)               /* it ends when its requests have ended */
		return -FI_EAGAIN;
	while (op->posted < op->want || (op->want == 0 && !resumed && op->requests == 0)) {
		struct glue_target t = rma_target_at(op, op->posted);
		uint64_t left = op->want - op->posted, n = left < most ? left : most;

		n = n < t.len ? n : t.len;
		rc = diw_glue_port_rma(op, op->posted, (uint32_t)n, &t,
				       apart | (n < left || op->notes ? DIW_SEND_MORE : 0));
		if (rc < 0)
			return rc;
		apart = 0;
		op->requests++;
		op->posted += n;
	}
	if (!op->notes)
		return 0;
	if (resumed && op->requests)
		return -FI_EAGAIN;
	rc = diw_glue_port_send(op->ep, op->peer, &op->hdr, NULL, 0, 0, op, false);
	if (rc < 0)
		return rc;
	op->requests++;
	op->notes = false;
	return 0;
}

static int rma_describe(struct glue_op *op, const struct rma_call *c)
{
	op->entry.op_context = c->ctx;
	op->iovs = (uint32_t)c->iovs;
	if (c->iovs)
		memcpy(op->iov, c->iov, c->iovs * sizeof *c->iov);
	op->len = op->want = diw_glue_iov_total(c->iov, c->iovs);
	op->posted = 0;
	op->targets = (uint32_t)c->rmas;
	for (size_t i = 0; i < c->rmas; i++) {
		op->target[i] = (struct glue_target){ diw_glue_mr_stag(op->domain, c->rma[i].key), c->rma[i].addr,
						      c->rma[i].len };
		if (!op->target[i].stag)
			return -FI_EKEYREJECTED;
	}
	return 0;
}

/* Begins an operation. If there is room for some of its requests only, the others wait. */
static int rma_begin(struct glue_op *op)
{
	int rc = diw_glue_rma_run(op);

	if (rc == 0 || op->requests == 0)
		return rc;
	if (rc == -FI_EAGAIN)
		diw_glue_pend(op, GLUE_TODO_RMA);
	else
		op->entry.err = -rc;
	return 0;
}

static int rma_start(struct glue_ep *ep, enum glue_op_kind kind, const struct rma_call *c, uint64_t flags)
{
	struct glue_peer *to = ep->enabled ? diw_glue_av_peer(ep->av, c->addr) : NULL;
	struct glue_op *op;
	int rc;

	if (!to)
		return ep->enabled ? -FI_EINVAL : -FI_EOPBADSTATE;
	/* an injected write copies its octets when its requests are posted, so none of them may wait */
	op = diw_glue_port_is_held(ep, to) ||
	     (flags & FI_INJECT && !diw_glue_port_has_room(ep, to, (uint32_t)c->rmas + 1)) ? NULL :
		diw_glue_op_new(ep, kind);
	if (!op)
		return -FI_EAGAIN;
	op->peer = to;
	op->entry.flags = FI_RMA | (kind == GLUE_OP_READ ? FI_READ : FI_WRITE);
	op->silent = flags & GLUE_QUIET || !ep->tx_cq || (ep->tx_selective && !(flags & FI_COMPLETION));
	op->copy = flags & FI_INJECT;
	rc = rma_describe(op, c);
	op->notes = flags & FI_REMOTE_CQ_DATA;
	op->hdr = (struct glue_hdr){ .kind = GLUE_WRITTEN, .imm = c->data, .len = op->want };
	if (rc == 0)
		rc = rma_begin(op);
	if (rc < 0)
		diw_glue_op_put(op);
	return rc;
}

static uint64_t rma_len(const struct rma_call *c)
{
	uint64_t len = 0;

	for (size_t i = 0; i < c->rmas; i++)
		len += c->rma[i].len;
	return len;
}

static ssize_t rma_post(struct fid_ep *fid, enum glue_op_kind kind, const struct rma_call *c, uint64_t flags)
{
	struct glue_ep *ep = (struct glue_ep *)fid;
	uint64_t len = c->iovs <= GLUE_IOV ? diw_glue_iov_total(c->iov, c->iovs) : 0;
	ssize_t rc;

	if (flags & GLUE_FLAGS_REFUSED)
		return -FI_EBADFLAGS;
	if (c->iovs > GLUE_IOV || c->rmas == 0 || c->rmas > GLUE_IOV || len != rma_len(c) || len > GLUE_MSG_MAX)
		return -FI_EINVAL;
	if (flags & FI_INJECT && len > ep->domain->set.eager)
		return -FI_EMSGSIZE;
	glue_lock(ep->domain);
	rc = rma_start(ep, kind, c, flags);
	if (rc == -FI_EAGAIN)
		diw_glue_port_poll(ep);
	glue_unlock(ep->domain);
	return rc;
}

static uint64_t rma_flags(const struct fid_ep *ep)
{
	return ((const struct glue_ep *)ep)->tx_flags;
}

/* ---- Entries ---- */

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
	const struct rma_call c = { m->msg_iov, m->iov_count, m->rma_iov, m->rma_iov_count, m->addr, m->context, 0 };

	return rma_post(ep, GLUE_OP_READ, &c, flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA));
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src,
			 uint64_t addr, uint64_t key, void *ctx)
{
	const struct fi_rma_iov rma = { addr, count <= GLUE_IOV ? diw_glue_iov_total(iov, count) : 0, key };
	const struct rma_call c = { iov, count, &rma, 1, src, ctx, 0 };

	(void)desc;
	return rma_post(ep, GLUE_OP_READ, &c, rma_flags(ep) & ~FI_INJECT);
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t addr,
			uint64_t key, void *ctx)
{
	struct iovec iov = { buf, len };

	return rma_readv(ep, &iov, &desc, len > 0, src, addr, key, ctx);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
	const struct rma_call c = { m->msg_iov, m->iov_count, m->rma_iov, m->rma_iov_count, m->addr, m->context,
				    m->data };

	return rma_post(ep, GLUE_OP_WRITE, &c, flags);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dst,
			  uint64_t addr, uint64_t key, void *ctx)
{
	const struct fi_rma_iov rma = { addr, count <= GLUE_IOV ? diw_glue_iov_total(iov, count) : 0, key };
	const struct rma_call c = { iov, count, &rma, 1, dst, ctx, 0 };

	(void)desc;
	return rma_post(ep, GLUE_OP_WRITE, &c, rma_flags(ep));
}

/* Writes one buffer; FLAGS may ask for data for the peer's completion queue. */
static ssize_t rma_write_buffer(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dst,
				uint64_t addr, uint64_t key, void *ctx, uint64_t flags)
{
	const struct iovec iov = { (void *)(uintptr_t)buf, len };
	const struct fi_rma_iov rma = { addr, len, key };
	const struct rma_call c = { &iov, len > 0, &rma, 1, dst, ctx, data };

	return rma_post(ep, GLUE_OP_WRITE, &c, flags);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dst, uint64_t addr,
			 uint64_t key, void *ctx)
{
	(void)desc;
	return rma_write_buffer(ep, buf, len, 0, dst, addr, key, ctx, rma_flags(ep));
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dst, uint64_t addr, uint64_t key)
{
	return rma_write_buffer(ep, buf, len, 0, dst, addr, key, NULL, GLUE_INJECT);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dst,
			     uint64_t addr, uint64_t key, void *ctx)
{
	(void)desc;
	return rma_write_buffer(ep, buf, len, data, dst, addr, key, ctx, rma_flags(ep) | FI_REMOTE_CQ_DATA);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dst,
			      uint64_t addr, uint64_t key)
{
	return rma_write_buffer(ep, buf, len, data, dst, addr, key, NULL, GLUE_INJECT | FI_REMOTE_CQ_DATA);
}

struct fi_ops_rma diw_glue_ops_rma = {
	.size = sizeof(struct fi_ops_rma), .read = rma_read, .readv = rma_readv, .readmsg = rma_readmsg,
	.write = rma_write, .writev = rma_writev, .writemsg = rma_writemsg, .inject = rma_inject,
	.writedata = rma_writedata, .injectdata = rma_injectdata,
};

/* ---- The target ---- */

void diw_glue_written_came(struct glue_ep *ep, struct glue_peer *from, const struct glue_hdr *h)
{
	struct glue_op *op;

	if (!ep->notified) {             /* an application without RMA expects no such completion */
		diw_glue_drop(ep, from, GLUE_DROP_STRAY);
		return;
	}
	op = ep->rx_cq ? diw_glue_op_get(ep, GLUE_OP_NOTE) : NULL;
	if (!op) {
		diw_glue_drop(ep, from, GLUE_DROP_NO_ROOM);
		return;
	}
	op->peer = from;
	op->entry.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
	op->entry.data = h->imm;
	op->entry.len = h->len;
	diw_glue_op_end(op, 0);
}
