/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomic operations on a peer's memory (docs/mpi-wire.md section 6): one ATOMIC message for each part of that memory.
 * The target executes the messages in the order of arrival, under the domain's lock, and answers with RESULT. */
#include <string.h>

#include "mpi_glue/atomic_op.h"
#include "mpi_glue/glue.h"

_Static_assert((int)GLUE_MSWAP == (int)FI_MSWAP && (int)GLUE_BXOR == (int)FI_BXOR && (int)GLUE_CSWAP == (int)FI_CSWAP &&
	       (int)GLUE_LONG_DOUBLE_COMPLEX == (int)FI_LONG_DOUBLE_COMPLEX, "numbers of the wire are libfabric's");

/* Calls that change the peer's memory; that fetch the old values; that also compare them. */
enum atomic_form { ATOMIC_WRITES, ATOMIC_FETCHES, ATOMIC_COMPARES };

static bool form_has(enum atomic_form form, uint32_t op, uint32_t type)
{
	return diw_glue_atomic_is_valid(op, type) && glue_atomic_compares(op) == (form == ATOMIC_COMPARES) &&
	       (op != FI_ATOMIC_READ || form == ATOMIC_FETCHES);
}

/* The parameters of an operation, in one form for all entries. */
struct atomic_call {
	enum atomic_form form;
	const struct fi_ioc *operand, *compare, *result;
	size_t operands, compares, results;
	const struct fi_rma_ioc *rma;
	size_t rmas;
	enum fi_datatype type;
	enum fi_op op;
	fi_addr_t addr;
	void *ctx;
};

/* Converts vectors of elements to vectors of octets; returns the octets. */
static uint64_t vectors_of(struct iovec *iov, const struct fi_ioc *ioc, size_t n, uint32_t size)
{
	uint64_t len = 0;

	for (size_t i = 0; i < n; i++) {
		iov[i] = (struct iovec){ ioc[i].addr, ioc[i].count * size };
		len += iov[i].iov_len;
	}
	return len;
}

/* Writes the LEN octets of N vectors from OFF on as vectors; returns their number. */
static uint32_t vectors_slice(struct iovec *to, const struct iovec *iov, size_t n, uint64_t off, uint64_t len)
{
	uint32_t count = 0;

	for (size_t i = 0; i < n && len; i++) {
		uint64_t here = iov[i].iov_len;

		if (off >= here) {
			off -= here;
			continue;
		}
		here = here - off < len ? here - off : len;
		to[count++] = (struct iovec){ (uint8_t *)iov[i].iov_base + off, here };
		len -= here;
		off = 0;
	}
	return count;
}

/* The data that an operation sends to its parts. */
struct atomic_data {
	struct iovec operand[GLUE_IOV], compare[GLUE_IOV];
	size_t operands, compares;
	uint32_t size;                   /* of an element */
	uint64_t len;                    /* octets of the peer's memory, and of each array */
};

/* 0: too many. */
static uint64_t atomic_octets(const struct atomic_call *c, uint32_t size, uint64_t most)
{
	uint64_t len = 0;

	for (size_t i = 0; i < c->rmas; i++) {
		if (c->rma[i].count > (most - len) / size)
			return 0;
		len += c->rma[i].count * size;
	}
	return len;
}

static int atomic_check(const struct glue_ep *ep, const struct atomic_call *c, struct atomic_data *d,
			struct iovec *result)
{
	uint64_t most = ep->domain->set.eager / (glue_atomic_compares(c->op) ? 2 : 1);
	bool fits;

	if (!form_has(c->form, c->op, c->type))
		return -FI_EOPNOTSUPP;
	if (c->operands > GLUE_IOV || c->compares > GLUE_IOV || c->results > GLUE_IOV || c->rmas == 0 ||
	    c->rmas > GLUE_IOV)
		return -FI_EINVAL;
	*d = (struct atomic_data){ .operands = c->operands, .compares = c->compares,
				   .size = diw_glue_type_size((enum glue_type)c->type) };
	d->len = atomic_octets(c, d->size, most);
	fits = !c->results || vectors_of(result, c->result, c->results, d->size) == d->len;
	if (glue_atomic_has_operand(c->op))
		fits &= vectors_of(d->operand, c->operand, c->operands, d->size) == d->len;
	if (glue_atomic_compares(c->op))
		fits &= vectors_of(d->compare, c->compare, c->compares, d->size) == d->len;
	return fits && d->len ? 0 : -FI_EINVAL;
}

/* Posts the message for part I, whose octets begin at OFF. */
static int atomic_post(struct glue_op *op, const struct atomic_call *c, const struct atomic_data *d, size_t i,
		       uint64_t off)
{
	uint64_t len = c->rma[i].count * d->size, sent = 0;
	struct glue_hdr h = {
		.kind = GLUE_ATOMIC, .flags = c->results ? GLUE_FETCH : 0, .id = op->id, .op = (uint8_t)c->op,
		.type = (uint8_t)c->type, .stag = op->target[i].stag, .to = c->rma[i].addr,
		.count = (uint32_t)c->rma[i].count, .offset = (uint32_t)off,
	};
	struct iovec iov[2 * GLUE_IOV];
	uint32_t n = 0;

	if (glue_atomic_has_operand(c->op)) {
		n = vectors_slice(iov, d->operand, d->operands, off, len);
		sent = len;
	}
	if (glue_atomic_compares(c->op)) {
		vectors_slice(iov + n, d->compare, d->compares, off, len);
		sent += len;
	}
	return diw_glue_port_send(op->ep, op->peer, &h, iov, 0, (uint32_t)sent, op, i + 1 < c->rmas);
}

static int atomic_begin(struct glue_op *op, const struct atomic_call *c, const struct atomic_data *d)
{
	uint64_t off = 0;

	for (size_t i = 0; i < c->rmas; i++) {
		op->target[i].stag = diw_glue_mr_stag(op->domain, c->rma[i].key);
		if (!op->target[i].stag)
			return -FI_EKEYREJECTED;
	}
	for (size_t i = 0; i < c->rmas; i++) {
		int rc = atomic_post(op, c, d, i, off);

		if (rc < 0)
			return rc;
		op->requests++;
		off += c->rma[i].count * d->size;
	}
	return 0;
}

static int atomic_start(struct glue_ep *ep, const struct atomic_call *c, const struct atomic_data *d,
			const struct iovec *result, uint64_t flags)
{
	struct glue_peer *to = ep->enabled ? diw_glue_av_peer(ep->av, c->addr) : NULL;
	struct glue_op *op;
	int rc;

	if (!to)
		return ep->enabled ? -FI_EINVAL : -FI_EOPBADSTATE;
	/* either all parts are posted, or none */
	op = diw_glue_port_is_held(ep, to) || to->atomics_out >= GLUE_ATOMICS_MAX ||
	     !diw_glue_port_has_room(ep, to, (uint32_t)c->rmas) ? NULL : diw_glue_op_new(ep, GLUE_OP_ATOMIC);
	if (!op)
		return -FI_EAGAIN;
	diw_glue_op_count(op, &to->atomics_out);
	op->peer = to;
	op->entry.op_context = c->ctx;
	op->entry.flags = FI_ATOMIC | (c->results ? FI_READ : FI_WRITE);
	op->silent = flags & GLUE_QUIET || !ep->tx_cq || (ep->tx_selective && !(flags & FI_COMPLETION));
	op->iovs = (uint32_t)c->results;
	memcpy(op->iov, result, c->results * sizeof *result);
	op->len = d->len;
	op->hdr = (struct glue_hdr){ .kind = GLUE_ATOMIC };
	rc = atomic_begin(op, c, d);
	if (rc < 0)
		diw_glue_op_put(op);
	return rc;
}

static ssize_t atomic_call(struct fid_ep *fid, const struct atomic_call *c, uint64_t flags)
{
	struct glue_ep *ep = (struct glue_ep *)fid;
	struct iovec result[GLUE_IOV];
	struct atomic_data d;
	ssize_t rc = flags & FI_REMOTE_CQ_DATA ? -FI_EOPNOTSUPP : atomic_check(ep, c, &d, result);

	if (flags & GLUE_FLAGS_REFUSED)
		return -FI_EBADFLAGS;
	if (rc < 0)
		return rc;
	glue_lock(ep->domain);
	rc = atomic_start(ep, c, &d, result, flags);
	if (rc == -FI_EAGAIN)
		diw_glue_port_poll(ep);
	glue_unlock(ep->domain);
	return rc;
}

/* ---- Answers ---- */

void diw_glue_result_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h,
			  const uint8_t *data, uint32_t len)
{
	struct glue_op *op = diw_glue_op_of(ep, from, h->id, GLUE_OP_ATOMIC);

	if (!op)
		return;
	if (h->offset > op->len || len > op->len - h->offset) {
		diw_glue_drop(ep, from, GLUE_DROP_MALFORMED);
		return;
	}
	diw_glue_copy_in(op, h->offset, data, len);
	if (h->status && !op->entry.err)
		op->entry.err = diw_glue_status_errno(h->status);
	if (--op->requests == 0)
		diw_glue_op_end(op, op->entry.err);
}

/* ---- The target ---- */

static uint64_t atomic_access(const struct glue_hdr *h)
{
	uint64_t access = h->op == GLUE_ATOMIC_READ ? 0 : FI_REMOTE_WRITE;

	return h->flags & GLUE_FETCH || !access ? access | FI_REMOTE_READ : access;
}

/* The memory that a message names, which has as many operands as it needs; or NULL, and why. */
static void *target_resolve(const struct glue_ep *ep, const struct glue_hdr *h, uint32_t len, uint32_t *status)
{
	uint64_t size, octets;
	uint8_t *at;

	*status = FI_EINVAL;
	if (!diw_glue_atomic_is_valid(h->op, h->type))
		return NULL;
	size = diw_glue_type_size(h->type);
	octets = size * h->count;
	if (octets > ep->domain->set.eager ||
	    len != octets * (glue_atomic_has_operand(h->op) + glue_atomic_compares(h->op)))
		return NULL;
	at = diw_glue_mr_resolve(ep->domain, h->stag, h->to, octets, atomic_access(h));
	if (!at)
		*status = FI_EACCES;
	else if ((uintptr_t)at % diw_glue_type_align(h->type) == 0)
		*status = 0;
	return *status ? NULL : at;
}

/* Half of the send queue is for answers. A peer may have as many that it has not acknowledged as are free for others,
 * so that a peer that acknowledges none leaves room. Large answers need buffers, too. */
static struct glue_op *answer_get(struct glue_ep *ep, struct glue_peer *to, bool large)
{
	struct glue_op *op = NULL;

	if (ep->answers[large] + to->answers[large] < (large ? GLUE_TX : GLUE_SQ) / 2 &&
	    diw_glue_port_has_room(ep, to, 1))
		op = diw_glue_op_get(ep, GLUE_OP_ANSWER);
	if (!op)
		return NULL;
	op->peer = to;
	op->large = large;
	diw_glue_op_count(op, &to->answers[large]);
	ep->answers[large]++;
	return op;
}

void diw_glue_answer_done(struct glue_op *op)
{
	op->ep->answers[op->large]--;
	diw_glue_op_put(op);
}

int diw_glue_atomic_came(struct glue_ep *ep, struct glue_peer *from, const struct glue_hdr *h, const uint8_t *data,
			 uint32_t len)
{
	struct glue_hdr answer = { .kind = GLUE_RESULT, .id = h->id, .offset = h->offset };
	uint32_t octets = 0;
	struct iovec iov = { 0 };
	void *at = target_resolve(ep, h, len, &answer.status);
	struct glue_op *op;
	int rc;

	if (at) {
		octets = h->count * diw_glue_type_size(h->type);
		iov = (struct iovec){ ep->scratch, h->flags & GLUE_FETCH ? octets : 0 };
	}
	op = answer_get(ep, from, iov.iov_len > GLUE_INLINE - GLUE_HDR_MAX);
	if (!op)
		return -FI_EAGAIN;
	if (at)
		diw_glue_atomic_do(h->op, h->type, at, h->count, glue_atomic_has_operand(h->op) ? data : NULL,
				   glue_atomic_compares(h->op) ? data + octets : NULL,
				   h->flags & GLUE_FETCH ? ep->scratch : NULL);
	rc = diw_glue_port_send(ep, from, &answer, &iov, 0, (uint32_t)iov.iov_len, op, false);
	if (rc < 0) {                    /* the operation was executed; only the link's state ERROR comes here */
		diw_glue_answer_done(op);
		diw_glue_drop(ep, from, GLUE_DROP_NO_ROOM);
	}
	return 0;
}

/* ---- Entries ---- */

static uint64_t atomic_flags(const struct fid_ep *ep)
{
	return ((const struct glue_ep *)ep)->tx_flags;
}

static uint64_t ioc_elements(const struct fi_ioc *ioc, size_t n)
{
	uint64_t count = 0;

	for (size_t i = 0; i < n && n <= GLUE_IOV; i++)
		count += ioc[i].count;
	return count;
}

/* Operations on one part of the peer's memory. */
static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dst,
			     uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *ctx)
{
	const struct fi_rma_ioc rma = { addr, ioc_elements(iov, count), key };
	const struct atomic_call c = { .form = ATOMIC_WRITES,
				       .operand = iov, .operands = count, .rma = &rma, .rmas = 1, .type = type,
				       .op = op, .addr = dst, .ctx = ctx };

	(void)desc;
	return atomic_call(ep, &c, atomic_flags(ep));
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t dst,
			    uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *ctx)
{
	const struct fi_ioc ioc = { (void *)(uintptr_t)buf, count };

	return atomic_writev(ep, &ioc, &desc, 1, dst, addr, key, type, op, ctx);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, uint64_t flags)
{
	const struct atomic_call c = { .form = ATOMIC_WRITES,
				       .operand = m->msg_iov, .operands = m->iov_count, .rma = m->rma_iov,
				       .rmas = m->rma_iov_count, .type = m->datatype, .op = m->op, .addr = m->addr,
				       .ctx = m->context };

	return atomic_call(ep, &c, flags);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dst, uint64_t addr,
			     uint64_t key, enum fi_datatype type, enum fi_op op)
{
	const struct fi_ioc ioc = { (void *)(uintptr_t)buf, count };
	const struct fi_rma_ioc rma = { addr, count, key };
	const struct atomic_call c = { .form = ATOMIC_WRITES,
				       .operand = &ioc, .operands = 1, .rma = &rma, .rmas = 1, .type = type,
				       .op = op, .addr = dst };

	return atomic_call(ep, &c, GLUE_INJECT);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
				 struct fi_ioc *result, void **result_desc, size_t results, fi_addr_t dst,
				 uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *ctx)
{
	const struct fi_rma_ioc rma = { addr, ioc_elements(result, results), key };
	const struct atomic_call c = { .form = ATOMIC_FETCHES,
				       .operand = iov, .operands = count, .result = result, .results = results,
				       .rma = &rma, .rmas = 1, .type = type, .op = op, .addr = dst, .ctx = ctx };

	(void)desc, (void)result_desc;
	return atomic_call(ep, &c, atomic_flags(ep));
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
				void *result_desc, fi_addr_t dst, uint64_t addr, uint64_t key,
				enum fi_datatype type, enum fi_op op, void *ctx)
{
	const struct fi_ioc ioc = { (void *)(uintptr_t)buf, count };
	struct fi_ioc res = { result, count };

	return atomic_readwritev(ep, &ioc, &desc, 1, &res, &result_desc, 1, dst, addr, key, type, op, ctx);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, struct fi_ioc *result,
				   void **result_desc, size_t results, uint64_t flags)
{
	const struct atomic_call c = { .form = ATOMIC_FETCHES,
				       .operand = m->msg_iov, .operands = m->iov_count, .result = result,
				       .results = results, .rma = m->rma_iov, .rmas = m->rma_iov_count,
				       .type = m->datatype, .op = m->op, .addr = m->addr, .ctx = m->context };

	(void)result_desc;
	return results ? atomic_call(ep, &c, flags & ~FI_INJECT) : -FI_EINVAL;
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
				 const struct fi_ioc *compare, void **compare_desc, size_t compares,
				 struct fi_ioc *result, void **result_desc, size_t results, fi_addr_t dst,
				 uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *ctx)
{
	const struct fi_rma_ioc rma = { addr, ioc_elements(result, results), key };
	const struct atomic_call c = { .form = ATOMIC_COMPARES,
				       .operand = iov, .operands = count, .compare = compare, .compares = compares,
				       .result = result, .results = results, .rma = &rma, .rmas = 1, .type = type,
				       .op = op, .addr = dst, .ctx = ctx };

	(void)desc, (void)compare_desc, (void)result_desc;
	return atomic_call(ep, &c, atomic_flags(ep));
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare,
				void *compare_desc, void *result, void *result_desc, fi_addr_t dst, uint64_t addr,
				uint64_t key, enum fi_datatype type, enum fi_op op, void *ctx)
{
	const struct fi_ioc ioc = { (void *)(uintptr_t)buf, count }, cmp = { (void *)(uintptr_t)compare, count };
	struct fi_ioc res = { result, count };

	return atomic_compwritev(ep, &ioc, &desc, 1, &cmp, &compare_desc, 1, &res, &result_desc, 1, dst, addr, key,
				 type, op, ctx);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, const struct fi_ioc *compare,
				   void **compare_desc, size_t compares, struct fi_ioc *result, void **result_desc,
				   size_t results, uint64_t flags)
{
	const struct atomic_call c = { .form = ATOMIC_COMPARES,
				       .operand = m->msg_iov, .operands = m->iov_count, .compare = compare,
				       .compares = compares, .result = result, .results = results, .rma = m->rma_iov,
				       .rmas = m->rma_iov_count, .type = m->datatype, .op = m->op, .addr = m->addr,
				       .ctx = m->context };

	(void)compare_desc, (void)result_desc;
	return results ? atomic_call(ep, &c, flags & ~FI_INJECT) : -FI_EINVAL;
}

/* ---- Which operations there are ---- */

static int atomic_query(const struct glue_domain *d, enum fi_datatype type, enum fi_op op, enum atomic_form form,
			struct fi_atomic_attr *attr)
{
	uint32_t arrays = glue_atomic_compares(op) ? 2 : 1;

	if (!form_has(form, op, type))
		return -FI_EOPNOTSUPP;
	attr->size = diw_glue_type_size((enum glue_type)type);
	attr->count = d->set.eager / arrays / attr->size;
	return 0;
}

int diw_glue_query_atomic(struct fid_domain *fid, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
			  uint64_t flags)
{
	enum atomic_form form = flags & FI_COMPARE_ATOMIC ? ATOMIC_COMPARES : flags & FI_FETCH_ATOMIC ?
				ATOMIC_FETCHES : ATOMIC_WRITES;

	if (flags & ~(FI_COMPARE_ATOMIC | FI_FETCH_ATOMIC))
		return -FI_EOPNOTSUPP;
	return atomic_query((struct glue_domain *)fid, type, op, form, attr);
}

static int atomic_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, enum atomic_form form, size_t *count)
{
	struct fi_atomic_attr attr = { 0 };
	int rc = atomic_query(((struct glue_ep *)ep)->domain, type, op, form, &attr);

	if (rc == 0 && count)
		*count = attr.count;
	return rc;
}

static int atomic_write_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	return atomic_valid(ep, type, op, ATOMIC_WRITES, count);
}

static int atomic_readwrite_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	return atomic_valid(ep, type, op, ATOMIC_FETCHES, count);
}

static int atomic_compwrite_valid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	return atomic_valid(ep, type, op, ATOMIC_COMPARES, count);
}

struct fi_ops_atomic diw_glue_ops_atomic = {
	.size = sizeof(struct fi_ops_atomic), .write = atomic_write, .writev = atomic_writev,
	.writemsg = atomic_writemsg, .inject = atomic_inject, .readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev, .readwritemsg = atomic_readwritemsg, .compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev, .compwritemsg = atomic_compwritemsg, .writevalid = atomic_write_valid,
	.readwritevalid = atomic_readwrite_valid, .compwritevalid = atomic_compwrite_valid,
};
