/* SPDX-License-Identifier: BSD-2-Clause */
/* Random requests of all kinds: those that the peer can execute, and some that it cannot. */
#include <errno.h>
#include <string.h>

#include "tests/sim/rc.h"

static const char *const kind_name[] = { "Send", "Write", "Read", "FetchAdd", "CmpSwap", "Bind", "LocalInv" };

static uint32_t some_length(uint32_t max)
{
	static const uint32_t scale[] = { 1, 16, 100, 1500, 20000, 70000, 200000 };
	uint32_t n = scale[below(7)];

	if (chance(0.02))
		return max < 200000 ? max : 200000;
	return below((n < max ? n : max) + 1);
}

static struct rc_msg *new_msg(struct rc_end *e, enum rc_kind kind, uint32_t len)
{
	struct rc_msg *m = &e->msgs[e->nmsgs];

	*m = (struct rc_msg){ .id = ++rc.ids, .kind = kind, .len = len };
	m->signaled = chance(0.7);
	m->fence = chance(0.15);
	return m;
}

/* Posts M's request. False: the queue is full, or the call refuses it for a valid reason. */
static bool post(struct rc_end *e, struct rc_msg *m, struct diw_send_wr *wr)
{
	int rc_post;

	wr->wr_id = m->id;
	wr->flags |= (m->signaled ? DIW_SEND_SIGNALED : 0) | (m->fence ? DIW_SEND_FENCE : 0) |
		     (m->has_imm ? DIW_SEND_IMM : 0) | (m->solicited ? DIW_SEND_SOLICITED : 0) |
		     (m->invalidate ? DIW_SEND_INVALIDATE : 0) | (!sim.net->strict && chance(0.2) ? DIW_SEND_MORE : 0);
	wr->imm = m->imm;
	wr->inv_stag = m->inv_stag;
	e->nmsgs++;                             /* it may complete within the call */
	rc_post = diw_post_send(e->qp, wr, NULL);
	must(rc_post == 0 || rc_post == -ENOMEM, "ep%d: %s of %u bytes: %s", e->index, kind_name[m->kind], m->len,
	     strerror(-rc_post));
	if (rc_post < 0) {
		e->nmsgs--;
		return false;
	}
	say("end%d: message %u: %s of %u bytes%s%s%s%s%s%s", e->index, m->id, kind_name[m->kind], m->len,
	    m->signaled ? "" : ", unsignalled", m->fence ? ", fenced" : "", m->has_imm ? ", immediate" : "",
	    wr->flags & DIW_SEND_INLINE ? ", inline" : "", m->invalidate ? ", invalidates" : "", m->bad ? ", bad" : "");
	return true;
}

/* Whether the peer accepts immediates and atomics, which is known when it is connected. */
static bool takes_7306(struct rc_end *e)
{
	return e->conn->rfc7306 && rc_state(e) != DIW_QPS_CONNECTING && (e->up || rc_state(e) == DIW_QPS_RTS);
}

static void choose_imm(struct rc_end *e, struct rc_msg *m)
{
	m->has_imm = takes_7306(e) && chance(0.3);
	m->imm = (uint32_t)diw_rng_next(&sim.rng);
	m->solicited = chance(0.1);
}

/* Writes the octets of M to memory of the end, in several entries; 0: there is none. */
static int fill(struct rc_end *e, struct rc_msg *m, struct diw_sge *sge)
{
	struct rc_piece p;
	uint32_t at = 0;
	int n = 0;

	if (!rc_alloc(&e->used, RC_MEM, m->len, &p))
		return 0;
	for (uint32_t i = 0; i < m->len; i++)
		e->mem[p.at + i] = e->shadow[p.at + i] = rc_octet(m, i);
	while (n < 3 && chance(0.3)) {
		uint32_t part = below(m->len - at + 1);

		sge[n++] = (struct diw_sge){ (void *)(uintptr_t)(RC_IOVA + p.at + at), part, e->mr->stag };
		at += part;
	}
	sge[n++] = (struct diw_sge){ (void *)(uintptr_t)(RC_IOVA + p.at + at), m->len - at, e->mr->stag };
	return n;
}

/* Posts the octets of fill(), or sends them inline from memory that changes at once. */
static bool post_filled(struct rc_end *e, struct rc_msg *m, struct diw_send_wr *wr)
{
	struct diw_sge sge[4];
	uint8_t data[DIW_MAX_INLINE];
	bool posted;

	if (m->len <= e->attr.max_inline && chance(0.4)) {
		for (uint32_t i = 0; i < m->len; i++)
			data[i] = rc_octet(m, i);
		sge[0] = (struct diw_sge){ data, m->len, 0 };
		wr->flags |= DIW_SEND_INLINE;
		wr->num_sge = 1;
	} else {
		wr->num_sge = fill(e, m, sge);
	}
	wr->sge = sge;
	posted = wr->num_sge && post(e, m, wr);
	memset(data, 0x5a, sizeof data);
	return posted;
}

static void post_send_msg(struct rc_end *e)
{
	struct rc_window *w = &e->peer->window;
	struct rc_msg *m = new_msg(e, RC_SEND, some_length(e->peer->rq->limit));
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };

	choose_imm(e, m);
	if (w->type == DIW_MW_TYPE_2 && w->state == RC_BOUND && chance(0.4)) {
		m->invalidate = true;
		m->inv_stag = w->stag;
		m->window = w;
	} else if (e->peer->qp && chance(0.1)) {
		must(diw_mr_reg(e->peer->host->pd, e->peer->source, 1 + below(1000),
				DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_INVALIDATE, &m->mr) == 0, "diw_mr_reg");
		m->invalidate = true;
		m->inv_stag = m->mr->stag;
	}
	if (post_filled(e, m, &wr)) {
		if (m->window)
			w->state = RC_ENDING;
	} else if (m->mr) {
		diw_mr_dereg(m->mr);
	}
}

static void post_write_msg(struct rc_end *e)
{
	struct rc_window *w = &e->peer->window;
	struct rc_msg *m = new_msg(e, RC_WRITE, some_length(200000));
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .stag = e->peer->mr->stag };

	choose_imm(e, m);
	m->solicited &= m->has_imm;
	if (w->state == RC_BOUND && w->piece.len && chance(0.7)) {
		if (m->len > w->piece.len)
			m->len = w->piece.len;
		m->piece[0] = (struct rc_piece){ w->piece.at, m->len };
		w->piece.at += m->len;          /* every byte is written once */
		w->piece.len -= m->len;
		wr.stag = w->stag;
	} else if (!rc_alloc(&e->peer->used, RC_MEM, m->len, &m->piece[0])) {
		return;
	}
	m->npieces = 1;
	wr.to = RC_IOVA + m->piece[0].at;
	post_filled(e, m, &wr);
}

/* A sink of several entries with gaps. */
static int sink(struct rc_end *e, struct rc_msg *m, struct diw_sge *sge, uint32_t stag)
{
	uint32_t left = m->len;

	do {
		uint32_t part = m->npieces < 3 && chance(0.4) ? below(left + 1) : left;
		struct rc_piece *p = &m->piece[m->npieces];

		if (!rc_alloc(&e->used, RC_MEM, part, p))
			return 0;
		sge[m->npieces++] = (struct diw_sge){ (void *)(uintptr_t)(RC_IOVA + p->at), part, stag };
		left -= part;
	} while (left);
	return m->npieces;
}

/* A Write of this end whose data is to be read: a Read does not overtake a Write. */
static const struct rc_msg *written(struct rc_end *e)
{
	const struct rc_msg *m = e->nmsgs ? &e->msgs[below(e->nmsgs)] : NULL;

	return m && m->kind == RC_WRITE && !m->bad && m->len ? m : NULL;
}

static void post_read_msg(struct rc_end *e)
{
	const struct rc_msg *of = chance(0.4) ? written(e) : NULL;
	struct rc_msg *m = new_msg(e, RC_READ, some_length(of ? of->len : RC_SOURCE));
	struct diw_send_wr wr = { .opcode = DIW_WR_READ, .stag = of ? e->peer->mr->stag : e->peer->source_mr->stag };
	struct diw_sge sge[4];
	uint32_t stag = e->mr->stag;

	m->of = of;
	m->from = below((of ? of->len : RC_SOURCE) - m->len + 1);
	wr.to = (of ? RC_IOVA + of->piece[0].at : 0) + m->from;
	if (e->attr.max_sge && chance(0.1)) {
		must(diw_mr_reg_attr(e->host->pd, &(struct diw_mr_attr){ .addr = e->mem, .length = RC_MEM,
			.access = DIW_ACCESS_LOCAL_WRITE, .use_iova = true, .iova = RC_IOVA }, &m->mr) == 0,
			    "diw_mr_reg");
		m->invalidate = true;
		stag = m->mr->stag;
	}
	wr.num_sge = sink(e, m, sge, stag);
	wr.sge = sge;
	if ((!wr.num_sge || !post(e, m, &wr)) && m->mr)
		diw_mr_dereg(m->mr);
}

/* No other request uses the words, so the value that each finds is known. */
static void post_atomic(struct rc_end *e)
{
	bool swap = chance(0.4);
	struct rc_msg *m = new_msg(e, swap ? RC_SWAP : RC_ADD, 8);
	uint32_t w = below(RC_WORDS);
	uint64_t *model = &e->peer->model[w], expect = chance(0.6) ? *model : diw_rng_next(&sim.rng);
	struct diw_send_wr wr = { .opcode = swap ? DIW_WR_CMP_SWAP : DIW_WR_FETCH_ADD,
		.stag = e->peer->words_mr->stag, .to = 8 * w };
	struct diw_sge sge;

	if (!takes_7306(e) || !rc_alloc(&e->used, RC_MEM, 8, &m->piece[0]))
		return;
	sge = (struct diw_sge){ (void *)(uintptr_t)(RC_IOVA + m->piece[0].at), 8, e->mr->stag };
	wr.sge = &sge;
	wr.num_sge = m->npieces = 1;
	m->before = *model;
	m->from = w;
	m->value = diw_rng_next(&sim.rng);
	wr.compare_add = swap ? expect : m->value;
	wr.swap = m->value;
	m->value = swap ? (expect == *model ? m->value : *model) : *model + m->value;
	if (post(e, m, &wr))
		*model = m->value;
}

static void post_bind(struct rc_end *e)
{
	struct rc_window *w = &e->window;
	struct rc_msg *m = new_msg(e, RC_BIND, 0);
	struct diw_send_wr wr = { .opcode = DIW_WR_BIND_MW };
	struct rc_piece p;

	if (w->state != RC_UNBOUND || !rc_alloc(&e->used, RC_MEM, 1 + some_length(100000), &p))
		return;
	if (!w->mw) {
		w->type = chance(0.5) ? DIW_MW_TYPE_1 : DIW_MW_TYPE_2;
		must(diw_mw_alloc(e->host->pd, w->type, &w->mw) == 0, "diw_mw_alloc");
	}
	wr.bind.mw = w->mw;
	wr.bind.mr = e->mr;
	wr.bind.to = RC_IOVA + p.at;
	wr.bind.length = p.len;
	wr.bind.access = DIW_ACCESS_REMOTE_WRITE;
	wr.bind.key = (uint8_t)below(256);
	m->signaled = true;
	m->window = w;
	w->state = RC_BINDING;
	w->piece = p;
	if (!post(e, m, &wr)) {
		w->state = RC_UNBOUND;
		return;
	}
}

/* Invalidates a window that the peer has not used, or through which all has arrived. */
static void post_inv(struct rc_end *e)
{
	struct rc_window *w = &e->window;
	struct rc_msg *m = new_msg(e, RC_INV, 0);
	struct diw_send_wr wr = { .opcode = DIW_WR_LOCAL_INV, .inv_stag = w->stag };

	if (w->state != RC_BOUND || w->type != DIW_MW_TYPE_2 || e->peer->placed < e->peer->nmsgs)
		return;
	m->signaled = true;
	m->window = w;
	m->inv_stag = w->stag;
	w->state = RC_ENDING;
	if (!post(e, m, &wr))
		w->state = RC_BOUND;
}

static bool may_post(const struct rc_end *e)
{
	return e->qp && e->peer->mem && e->nmsgs < RC_MSGS && !e->disconnects;
}

void rc_post_write(struct rc_end *e)
{
	if (may_post(e))
		post_write_msg(e);
}

void rc_post(struct rc_end *e)
{
	if (!may_post(e) || rc_state(e) == DIW_QPS_IDLE)
		return;
	switch (below(12)) {
	case 0: case 1: case 2: case 3: post_send_msg(e); break;
	case 4: case 5: case 6: post_write_msg(e); break;
	case 7: case 8: post_read_msg(e); break;
	case 9: case 10: post_atomic(e); break;
	default: (chance(0.5) ? post_bind : post_inv)(e);
	}
}

void rc_post_bad(struct rc_end *e)
{
	static const enum diw_wr_opcode opcode[] = { DIW_WR_SEND, DIW_WR_WRITE, DIW_WR_READ, DIW_WR_SEND, DIW_WR_WRITE,
		DIW_WR_LOCAL_INV };
	static const enum rc_kind kind[] = { RC_SEND, RC_WRITE, RC_READ, RC_SEND, RC_WRITE, RC_INV };
	uint32_t how = below(6);
	struct diw_send_wr wr = { .opcode = opcode[how], .stag = 0x12345678, .to = 1000 };
	struct diw_sge sge[4] = { { (void *)(uintptr_t)RC_IOVA, 100, e->mr->stag } };
	struct rc_msg *m;

	if (!may_post(e) || rc_state(e) == DIW_QPS_IDLE)
		return;
	m = new_msg(e, kind[how], 100);
	m->bad = true;
	if (how == 0)                           /* longer than any receive, if there is one */
		m->len = 250000;
	if (how == 3) {
		m->invalidate = true;
		m->inv_stag = 0x777;
	}
	if (how == 4)
		sge[0].stag ^= 0x100;           /* an STag that does not exist */
	wr.sge = sge;
	wr.num_sge = how == 5 ? 0 : m->kind == RC_SEND ? fill(e, m, sge) : 1;
	if ((wr.num_sge || how == 5) && post(e, m, &wr))
		e->conn->harmed = true;
}
