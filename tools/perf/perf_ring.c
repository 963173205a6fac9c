/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the buffers of a rig, and the requests that use them in turn. */
#include <errno.h>
#include <string.h>

#include "tools/perf/perf_rig.h"

#define SLOT_BYTES (2u << 20)        /* of all message buffers together: fits a cache */
#define EACH_BYTES (512u << 20)      /* the same with --buffers each */
#define PAGE 4096u

static uint32_t slots_by_default(uint64_t size)
{
	uint32_t n = RIG_RING;

	while (n > 1 && n * size > SLOT_BYTES)
		n /= 2;
	return n;
}

static uint32_t slots_each(const struct rig *r)
{
	uint64_t n = rig_outstanding(r), most = EACH_BYTES / r->stride;

	n = n < RIG_RING ? n : RIG_RING;
	n = n < most ? n : most;
	return n ? (uint32_t)n : 1;
}

/* Scheme 2 of the study MIBA: buffer 0 for a share of the messages, a new one for each other message. */
static uint32_t slots_of_new(uint64_t size)
{
	uint64_t n = RIG_NEW_BYTES / size;

	return n < 2 ? 2 : n < RIG_NEW_SLOTS ? (uint32_t)n : RIG_NEW_SLOTS;
}

void ring_plan(struct rig *r)
{
	const struct perf_case *pc = &r->pc;

	r->stride = pc->offset ? (pc->size + PAGE - 1) / PAGE * PAGE : pc->size;
	if (pc->reuse)
		r->slots = pc->scheme == 2 ? slots_of_new(pc->size) : (uint32_t)((100 + pc->reuse / 2) / pc->reuse);
	else
		r->slots = pc->buffers == PERF_SAME ? 1 : pc->buffers == PERF_EACH ? slots_each(r) :
			   slots_by_default(pc->size);
}

/* Touches every page: otherwise all pages of the source would be the same page of zeros. */
int ring_make_memory(struct rig *r)
{
	size_t len = r->slots * r->stride + (r->pc.offset ? PAGE : 0);
	int rc = rig_mem_alloc(r, &r->tx, op_asks(r->pc.op) ? PAGE : len, DIW_ACCESS_LOCAL_READ);

	if (!rc)
		rc = rig_mem_alloc(r, &r->target, r->pc.op == PERF_SEND ? PAGE : len,
				  DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ |
				  (perf_is_rc(r->pc.qp) || r->pc.qp == PERF_RD ? DIW_ACCESS_REMOTE_ATOMIC : 0));
	if (rc)
		return rc;
	memset(r->tx.addr, 0x5a, r->tx.len);
	memset(r->target.addr, 0xa5, r->target.len);
	return 0;
}

/* ---- Requests ---- */

/* The buffer of a request, in equal entries. The last entry has the rest. */
static void ring_set_slot(struct rig *r, uint32_t at, uint32_t slot)
{
	size_t off = slot * r->stride + r->pc.offset;
	struct rig_mem *from = op_asks(r->pc.op) ? &r->target : &r->tx;
	struct diw_sge *sge = &r->sge[at * DIW_MAX_SGE];
	uint32_t n = (uint32_t)r->wr[at].num_sge, part = (uint32_t)r->pc.size / n;

	for (uint32_t i = 0; i < n; i++)
		sge[i] = (struct diw_sge){ (char *)from->addr + off + (size_t)i * part,
			i + 1 < n ? part : (uint32_t)r->pc.size - i * part, from->key };
	r->wr[at].to = r->to + off;
}

/* Equation 2 of the study of FDR (Liu and Russell), as printed, where the first case is always 1; or with the greater
 * one of the two there. DEPTH is the send queue's. */
static uint64_t signal_eq2(const struct rig *r, uint64_t depth, bool max)
{
	uint64_t b = rig_outstanding(r), half = b / 2 > 1 ? b / 2 : 1, rest = depth > b ? depth - b : 1;

	if (r->pc.size > 16u << 10 && r->pc.size < 128u << 10)
		return max ? half : 1;
	return depth / 2 < rest ? depth / 2 : rest;
}

static uint32_t signal_of(const struct rig *r)
{
	uint64_t half = rig_outstanding(r) / 2;

	switch (r->pc.signal) {
	case PERF_HALF: return half ? (uint32_t)half : 1;
	case PERF_EQ2:
	case PERF_EQ2_MAX: return (uint32_t)signal_eq2(r, RIG_SQ_DEPTH(r), r->pc.signal == PERF_EQ2_MAX);
	default: return (uint32_t)r->pc.signal;
	}
}

void ring_make(struct rig *r)
{
	static const enum diw_wr_opcode opcode[PERF_OPS] = { DIW_WR_SEND, DIW_WR_WRITE_RECORD, DIW_WR_WRITE,
		DIW_WR_READ, DIW_WR_FETCH_ADD, DIW_WR_CMP_SWAP };
	bool write = r->pc.op == PERF_WRITE, asks = op_asks(r->pc.op);
	bool ud = r->pc.qp == PERF_UD || r->pc.qp == PERF_RD;
	bool lat = r->pc.test == PERF_LAT, small = lat && r->pc.size <= DIW_MAX_INLINE && !asks;
	bool imm = r->pc.op == PERF_WRITE_IMM || (write && (r->pc.qp == PERF_UC || (lat && !ud)));
	unsigned flags = (imm ? DIW_SEND_IMM : 0) | (small ? DIW_SEND_INLINE : 0) | (asks ? DIW_SEND_SIGNALED : 0);
	uint32_t signaled = r->pc.depth / 4 < RIG_SIGNALED ? (uint32_t)r->pc.depth / 4 + 1 : RIG_SIGNALED;
	uint32_t slot = 0;

	r->ring = r->slots < RIG_RING ? RIG_RING / r->slots * r->slots : RIG_RING;
	r->signal = asks ? 0 : signal_of(r);
	if (r->ibv && !asks)                 /* only a completion gives its place in the send queue back */
		r->signal = !r->signal || r->signal > signaled ? signaled : r->signal;
	for (uint32_t i = 0; i < r->ring; i++) {
		r->wr[i] = (struct diw_send_wr){ .next = i + 1 < r->ring ? &r->wr[i + 1] : NULL, .wr_id = i,
			.sge = &r->sge[i * DIW_MAX_SGE], .num_sge = r->pc.sge ? (int)r->pc.sge : 1, .qkey = TOOL_QKEY,
			.dst.addr = r->dst, .opcode = write && !ud ? DIW_WR_WRITE : opcode[r->pc.op], .flags = flags,
			.stag = r->stag, .compare_add = 1, .swap = 1 };
		ring_set_slot(r, i, slot);
		slot = slot + 1 < r->slots ? slot + 1 : 0;
		if ((perf_is_rc(r->pc.qp) || r->pc.qp == PERF_RD) && !lat && i % signaled == 0)
			r->wr[i].flags |= DIW_SEND_SIGNALED;         /* wakes the thread that fills a full queue */
	}
}

/* How many of the first M messages have the buffer that is used again. */
static uint64_t reused(const struct rig *r, uint64_t m)
{
	return (m * r->pc.reuse + 99) / 100;
}

/* What is not the same in each turn of the ring: a buffer that is new, and which request has a completion. */
static void ring_update(struct rig *r, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct diw_send_wr *wr = &r->wr[r->at + i];
		uint64_t m = r->seq + i;

		if (r->pc.scheme == 2)
			ring_set_slot(r, r->at + i, reused(r, m + 1) > reused(r, m) ? 0 :
				      1 + (uint32_t)((m - reused(r, m)) % (r->slots - 1)));
		if (r->signal)
			wr->flags = (wr->flags & ~(unsigned)DIW_SEND_SIGNALED) |
				((m + 1) % r->signal ? 0 : DIW_SEND_SIGNALED);
	}
}

static int ring_advance(struct rig *r, int n)
{
	if (n > 0) {
		r->at = (r->at + (uint32_t)n) % r->ring;
		r->seq += (uint64_t)n;
	}
	return n;
}

int rig_post(struct rig *r, uint32_t n)
{
	const struct diw_send_wr *bad = NULL;
	struct diw_send_wr *first = &r->wr[r->at], *last, *next;
	struct diw_qp *qp;
	int rc;

	if (n > r->ring - r->at)
		n = r->ring - r->at;
	if (r->pc.scheme == 2 || r->signal)
		ring_update(r, n);
	if (r->ibv)
		return ring_advance(r, ibv_rig_post(r, n));
	qp = rig_has_many(r) ? qps_next(r, first, n) : r->ep.qp;
	last = first + n - 1;
	next = last->next;
	last->next = NULL;
	rc = diw_post_send(qp, first, &bad);
	last->next = next;
	if (rc)
		n = (uint32_t)(bad - first);
	return rc && rc != -ENOMEM ? rc : ring_advance(r, (int)n);
}
