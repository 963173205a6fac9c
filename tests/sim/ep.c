/* SPDX-License-Identifier: BSD-2-Clause */
/* An application with one queue pair: opens, posts, polls, ends, and keeps its memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

static void ok(int rc, const char *what)
{
	must(rc == 0, "%s: %s", what, strerror(-rc));
}

/* ---- Memory ---- */

static void reg_target(struct ep *ep)
{
	ok(diw_mr_reg(ep->pd, ep->target, SIM_REGION, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE, &ep->target_mr),
	   "diw_mr_reg");
}

static uint32_t recv_stride(const struct ep *ep)
{
	return ep->recv_size + 2 * SIM_GUARD;
}

static void open_memory(struct ep *ep)
{
	size_t recv_len = (size_t)ep->nrecvs * recv_stride(ep) + 1;

	ep->target = malloc(SIM_REGION + SIM_GUARD);
	ep->source = malloc(SIM_REGION);
	ep->send = malloc(SIM_SEND_MEM);
	ep->recv = malloc(recv_len);
	memset(ep->target, 0xa5, SIM_REGION + SIM_GUARD);
	memset(ep->recv, 0xa5, recv_len);
	for (uint32_t i = 0; i < SIM_REGION; i++)
		ep->source[i] = source_octet(ep, i);
	for (int i = 0; i < ep->nrecvs; i++) {
		ep->recvs[i].mem = ep->recv + (size_t)i * recv_stride(ep);
		recv_poison(ep, &ep->recvs[i]);
	}
	reg_target(ep);
	ok(diw_mr_reg(ep->pd, ep->source, SIM_REGION, DIW_ACCESS_REMOTE_READ, &ep->source_mr), "diw_mr_reg");
	ok(diw_mr_reg(ep->pd, ep->send, SIM_SEND_MEM, DIW_ACCESS_LOCAL_READ, &ep->send_mr), "diw_mr_reg");
	ok(diw_mr_reg(ep->pd, ep->recv, recv_len, DIW_ACCESS_LOCAL_WRITE, &ep->recv_mr), "diw_mr_reg");
}

/* ---- Beginning and end ---- */

static void create_qp(struct ep *ep)
{
	struct diw_qp_info info;

	ok(diw_qp_create(ep->pd, &ep->attr, &ep->qp), "diw_qp_create");
	ok(diw_qp_query(ep->qp, &info), "diw_qp_query");
	ep->addr = ep->attr.dgram.local = info.local;
	ep->mtu_payload = info.mulpdu - 28;
	ep->life++;
	say("ep%d: port %u, MULPDU %u, epoch %04x", ep->index, info.local.port, info.mulpdu, info.epoch);
}

struct ep *ep_open(struct net_host *host, const struct diw_qp_attr *attr, uint32_t cq_depth, uint32_t nrecvs,
		   uint32_t recv_size)
{
	struct ep *ep = &sim.eps[sim.neps];

	*ep = (struct ep){ .index = sim.neps++, .host = host, .attr = *attr, .nrecvs = (int)nrecvs,
		.recv_size = recv_size };
	ok(diw_pd_alloc(host->dev, &ep->pd), "diw_pd_alloc");
	ok(diw_cq_create(host->dev, cq_depth, NULL, ep, &ep->scq), "diw_cq_create");
	ok(diw_cq_create(host->dev, cq_depth, NULL, ep, &ep->rcq), "diw_cq_create");
	ep->attr.send_cq = ep->scq;
	ep->attr.recv_cq = ep->rcq;
	ep->attr.dgram.qkey = SIM_QKEY;
	ep->attr.max_inline = 64;
	open_memory(ep);
	create_qp(ep);
	ep_post_recvs(ep, ep->nrecvs);
	return ep;
}

/* Messages that are on their way to or from it may end in any way, or not at all. */
static void spoil(struct ep *ep)
{
	for (uint32_t i = 0; i < sim.nmsgs; i++)
		if (sim.msgs[i].to == ep || sim.msgs[i].from == ep)
			sim.msgs[i].spoiled = true;
}

void ep_dereg(struct ep *ep)
{
	say("ep%d: deregisters its region", ep->index);
	ep->stale_stag = ep->target_mr->stag;
	ok(diw_mr_dereg(ep->target_mr), "diw_mr_dereg");
	slots_freeze(ep);
	reg_target(ep);
}

void ep_kill(struct ep *ep)
{
	say("ep%d: dies", ep->index);
	ep_release(ep, SIM_MAX_HELD);
	while (ep_poll(ep, 64) > 0)
		;
	ep_release(ep, SIM_MAX_HELD);
	ok(diw_qp_destroy(ep->qp), "diw_qp_destroy");
	while (ep_poll(ep, 64) > 0)                      /* completions left in its queues stay there */
		;
	ep->nheld = 0;
	ep->qp = NULL;
	ep_dereg(ep);
	spoil(ep);
	for (int i = 0; i < ep->nrecvs; i++) {
		if (ep->recvs[i].posted)
			recv_poison(ep, &ep->recvs[i]);
		ep->recvs[i].posted = false;
	}
	ep->life++;
}

void ep_restart(struct ep *ep)
{
	ep_kill(ep);
	create_qp(ep);
	ep_post_recvs(ep, ep->nrecvs);
}

void ep_close(struct ep *ep)
{
	struct diw_qp_info info;

	memory_check(ep);
	ep_release(ep, SIM_MAX_HELD);
	if (ep->qp) {
		ok(diw_qp_query(ep->qp, &info), "diw_qp_query");
		must(info.memory == 0 && info.sources == 0 && info.records_open == 0 && info.records_held == 0 &&
		     info.reasm_open == 0 && info.reads_open == 0,
		     "ep%d: %zu octets, %u sources, %u+%u records, %u partial sends, %u reads are left", ep->index,
		     info.memory, info.sources, info.records_open, info.records_held, info.reasm_open, info.reads_open);
		must(info.sq_pending == 0, "ep%d: %u requests are left", ep->index, info.sq_pending);
		int posted = 0;
		for (int i = 0; i < ep->nrecvs; i++)
			posted += ep->recvs[i].posted;
		must(info.rq_posted == (uint32_t)posted, "ep%d: %u receives are posted instead of %d", ep->index,
		     info.rq_posted, posted);
		ok(diw_qp_destroy(ep->qp), "diw_qp_destroy");
	}
	ok(diw_mr_dereg(ep->target_mr), "diw_mr_dereg");
	ok(diw_mr_dereg(ep->source_mr), "diw_mr_dereg");
	ok(diw_mr_dereg(ep->send_mr), "diw_mr_dereg");
	ok(diw_mr_dereg(ep->recv_mr), "diw_mr_dereg");
	ok(diw_cq_destroy(ep->scq), "diw_cq_destroy");
	ok(diw_cq_destroy(ep->rcq), "diw_cq_destroy");
	ok(diw_pd_free(ep->pd), "diw_pd_free");
	for (int i = 0; i < ep->nslots; i++)
		free(ep->slots[i].frozen);
	free(ep->target);
	free(ep->source);
	free(ep->send);
	free(ep->recv);
}

/* ---- Receiving ---- */

void ep_post_recvs(struct ep *ep, int n)
{
	for (int i = 0; ep->qp && i < ep->nrecvs && n > 0; i++) {
		struct recv_slot *r = &ep->recvs[i];
		uint32_t half = ep->recv_size / 2;
		struct diw_sge sge[2] = { { r->mem, half, ep->recv_mr->stag },
			{ r->mem + half + SIM_GUARD, ep->recv_size - half, ep->recv_mr->stag } };
		struct diw_recv_wr wr = { .wr_id = (uint64_t)i, .sge = sge, .num_sge = 2 };

		if (r->posted)
			continue;
		recv_untouched(ep, r);
		ok(diw_post_recv(ep->qp, &wr, NULL), "diw_post_recv");
		r->posted = true;
		n--;
	}
}

void ep_release(struct ep *ep, int n)
{
	while (n-- > 0 && ep->nheld > 0)
		diw_wc_release(&ep->held[--ep->nheld]);
}

static void keep(struct ep *ep, struct diw_wc *wc)
{
	if (ep->nheld < SIM_MAX_HELD && chance(0.3))
		ep->held[ep->nheld++] = *wc;
	else
		diw_wc_release(wc);
}

int ep_poll(struct ep *ep, int n)
{
	struct diw_wc wc[64];
	int got = diw_cq_poll(ep->rcq, wc, n, 0), sent;

	must(got >= 0 && got <= n, "diw_cq_poll: %d", got);
	for (int i = 0; i < got; i++) {
		wc_recv(ep, &wc[i]);
		keep(ep, &wc[i]);
	}
	sent = diw_cq_poll(ep->scq, wc, n, 0);
	must(sent >= 0 && sent <= n, "diw_cq_poll: %d", sent);
	for (int i = 0; i < sent; i++) {
		wc_send(ep, &wc[i]);
		keep(ep, &wc[i]);
	}
	return got + sent;
}

/* Nothing of its traffic is on its way any more. */
bool ep_quiet(struct ep *ep)
{
	struct diw_qp_info info;

	if (!ep->qp)
		return true;
	ok(diw_qp_query(ep->qp, &info), "diw_qp_query");
	return info.sq_pending == 0 && info.records_open == 0 && info.reasm_open == 0 && info.reads_open == 0;
}

/* ---- Posting ---- */

static int post(struct msg *m, struct diw_send_wr *wr, const struct diw_sge *sge, int num_sge)
{
	static const char *const kind[] = { "Send", "Write-Record", "Read", "Write" };
	int rc;

	wr->wr_id = m->id;
	wr->sge = sge;
	wr->num_sge = num_sge;
	wr->imm = m->imm;
	wr->flags |= m->has_imm ? DIW_SEND_IMM : 0;
	m->signaled = m->kind == MSG_READ || sim.plain || chance(0.7);
	wr->flags |= m->signaled ? DIW_SEND_SIGNALED : 0;
	wr->flags |= chance(0.1) ? DIW_SEND_SOLICITED : 0;
	wr->flags |= chance(0.2) ? DIW_SEND_MORE : 0;
	wr->qkey = SIM_QKEY;
	wr->dst.addr = m->to->addr;
	rc = diw_post_send(m->from->qp, wr, NULL);
	must(rc == 0 || rc == -ENOMEM, "diw_post_send: %s", strerror(-rc));
	m->posted = rc == 0;
	say("ep%d: posts message %u to ep%d: %s, %u octets%s%s", m->from->index, m->id, m->to->index, kind[m->kind],
	    m->length, m->signaled ? "" : ", unsignalled", rc ? ": queue full" : "");
	return rc;
}

/* Writes the message's octets to memory that is not used again, cut into several entries. */
static int fill(struct msg *m, struct diw_sge *sge)
{
	struct ep *ep = m->from;
	uint8_t *mem = ep->send + ep->send_used;
	uint32_t at = 0;
	int n = 0;

	must(SIM_SEND_MEM - ep->send_used >= m->length, "the scenario sends too much");
	ep->send_used += m->length;
	for (uint32_t i = 0; i < m->length; i++)
		mem[i] = msg_octet(m, i);
	while (n < 3 && at < m->length && chance(0.3)) {
		uint32_t part = below(m->length - at + 1);

		sge[n++] = (struct diw_sge){ mem + at, part, ep->send_mr->stag };
		at += part;
	}
	sge[n++] = (struct diw_sge){ mem + at, m->length - at, ep->send_mr->stag };
	return n;
}

void post_send(struct ep *from, struct ep *to, uint32_t length)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };
	struct msg *m = msg_new(MSG_SEND, from, to, length);
	struct diw_sge sge[4];
	int n;

	m->has_imm = length < 8 || chance(0.2);
	m->imm = m->id;
	n = fill(m, sge);
	if (length <= 64 && chance(0.5))
		wr.flags |= DIW_SEND_INLINE;
	post(m, &wr, sge, n);
}

void post_record(struct ep *from, struct ep *to, uint32_t length)
{
	struct slot *s = slot_take(to, length);
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE_RECORD };
	struct diw_sge sge[4];
	struct msg *m;
	int n;

	if (!s)
		return;
	m = msg_new(MSG_RECORD, from, to, length);
	m->has_imm = chance(0.3);
	m->imm = (uint32_t)diw_rng_next(&sim.rng);
	n = fill(m, sge);
	wr.to = (uint64_t)(uintptr_t)s->mem;
	wr.stag = to->target_mr->stag;
	if (to->stale_stag && chance(0.1)) {
		wr.stag = to->stale_stag;
		m->spoiled = true;
	}
	if (post(m, &wr, sge, n) == 0) {
		m->slot = s;
		s->msg = m;
	}
}

void post_read(struct ep *from, struct ep *to, uint32_t length, int64_t timeout_ns)
{
	post_read_at(from, to, length, below(SIM_REGION - length + 1), timeout_ns);
}

void post_read_at(struct ep *from, struct ep *to, uint32_t length, uint64_t off, int64_t timeout_ns)
{
	struct slot *s = slot_take(from, length);
	struct diw_send_wr wr = { .opcode = DIW_WR_READ, .timeout_ns = timeout_ns };
	struct diw_sge sge[2];
	struct msg *m;

	if (!s)
		return;
	m = msg_new(MSG_READ, from, to, length);
	m->source_off = off;
	wr.to = (uint64_t)(uintptr_t)to->source + m->source_off;
	wr.stag = to->source_mr->stag;
	if (chance(0.05)) {
		wr.stag = to->target_mr->stag;           /* its access does not allow Reads */
		m->spoiled = true;
	}
	sge[0] = (struct diw_sge){ s->mem, length / 2, from->target_mr->stag };
	sge[1] = (struct diw_sge){ s->mem + length / 2, length - length / 2, from->target_mr->stag };
	if (post(m, &wr, sge, 2) == 0) {
		m->slot = s;
		s->msg = m;
	}
}

void post_write(struct ep *from, uint32_t length)
{
	struct slot *s = slot_take(from->peer, length);
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE };
	struct diw_sge sge[4];
	struct msg *m;
	int n;

	if (!s)
		return;
	m = msg_new(MSG_WRITE, from, from->peer, length);
	m->has_imm = chance(0.5);
	m->imm = m->id;
	n = fill(m, sge);
	wr.to = (uint64_t)(uintptr_t)s->mem;
	wr.stag = from->peer->target_mr->stag;
	if (post(m, &wr, sge, n) == 0) {
		m->slot = s;
		s->msg = m;
	}
}
