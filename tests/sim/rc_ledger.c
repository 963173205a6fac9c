/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks completions against the posted requests, and every byte of memory. */
#include <string.h>

#include "tests/sim/rc.h"

uint8_t rc_octet(const struct rc_msg *m, uint32_t off)
{
	return (uint8_t)(((m->id * 0x9e3779b1u + off) * 0x85ebca6bu) >> 24);
}

/* The value of byte OFF of M's sink or target afterwards. */
static uint8_t becomes(const struct rc_end *e, const struct rc_msg *m, uint32_t off)
{
	if (m->kind == RC_READ)
		return m->of ? rc_octet(m->of, m->from + off) : e->peer->source[m->from + off];
	if (m->kind == RC_ADD || m->kind == RC_SWAP)
		return ((const uint8_t *)&m->before)[off];
	return rc_octet(m, off);
}

/* Checks that M, sent by E, is placed in AT's memory. */
static void verify(struct rc_end *e, struct rc_msg *m, struct rc_end *at)
{
	uint32_t off = 0;

	for (int i = 0; i < m->npieces; i++) {
		const struct rc_piece *p = &m->piece[i];

		for (uint32_t k = 0; k < p->len; k++, off++) {
			uint8_t want = becomes(e, m, off);

			must(at->mem[p->at + k] == want, "end%d: byte %u of message %u is %02x, not %02x", at->index,
			     off, m->id,
			     at->mem[p->at + k], want);
			at->shadow[p->at + k] = want;
		}
	}
}

/* ---- The sender's side ---- */

static void window_ended(struct rc_window *w)
{
	if (w && w->state != RC_STUCK)
		w->state = RC_UNBOUND;
}

static bool has_sink(const struct rc_msg *m)
{
	return m->kind == RC_READ || m->kind == RC_ADD || m->kind == RC_SWAP;
}

static void succeeded(struct rc_end *e, struct rc_msg *m)
{
	/* Only the target knows that it refused a Send or a Write. */
	must(!m->bad || m->kind <= RC_WRITE, "end%d: message %u succeeded", e->index, m->id);
	m->done = true;
	rc.done[m->kind]++;
	if (has_sink(m))
		verify(e, m, e);
	if (m->kind == RC_BIND) {
		m->window->state = RC_BOUND;
		m->window->stag = m->window->mw->stag;
	} else if (m->kind == RC_INV) {
		window_ended(m->window);
	}
	if (m->kind == RC_READ && m->mr)
		must(diw_mr_dereg(m->mr) == 0, "diw_mr_dereg");
	if (m->kind == RC_READ)
		m->mr = NULL;
}

static uint8_t wc_opcode(const struct rc_msg *m)
{
	static const uint8_t opcode[] = { DIW_WC_SEND, DIW_WC_WRITE, DIW_WC_READ, DIW_WC_FETCH_ADD, DIW_WC_CMP_SWAP,
		DIW_WC_BIND_MW, DIW_WC_LOCAL_INV };

	return opcode[m->kind];
}

void rc_sent(struct rc_end *e, const struct diw_wc *wc)
{
	struct rc_msg *m;

	for (;; succeeded(e, m)) {              /* an unsignalled request has succeeded */
		must(e->completed < e->nmsgs, "end%d: completion of message %llu, which is not outstanding", e->index,
		     (unsigned long long)wc->wr_id);
		m = &e->msgs[e->completed++];
		if (m->id == wc->wr_id)
			break;
		must(!m->signaled, "end%d: message %llu completes before message %u", e->index,
		     (unsigned long long)wc->wr_id, m->id);
		must(!e->failed, "end%d: message %u has not completed, though one before it failed", e->index, m->id);
	}
	say("end%d: message %u: %s", e->index, m->id, diw_wc_status_str(wc->status));
	must(wc->opcode == wc_opcode(m), "end%d: message %u completes as %s", e->index, m->id,
	     diw_wc_opcode_str(wc->opcode));
	if (wc->status == DIW_WC_SUCCESS) {
		must(m->signaled, "end%d: unsignalled message %u completes", e->index, m->id);
		must(!e->failed, "end%d: message %u succeeds behind one that failed", e->index, m->id);
		must(wc->byte_len == m->len, "end%d: message %u has %u bytes", e->index, m->id, wc->byte_len);
		succeeded(e, m);
		return;
	}
	must(e->conn->harmed || (wc->status == DIW_WC_FLUSHED && e->hurt), "end%d: message %u: %s, for no reason",
	     e->index, m->id, diw_wc_status_str(wc->status));
	e->failed = true;
	rc.flushed++;
	if (m->window)
		m->window->state = RC_STUCK;
}

/* ---- The receiver's side ---- */

static bool consumes(const struct rc_msg *m)
{
	return m->kind == RC_SEND || (m->kind == RC_WRITE && m->has_imm);
}

static uint8_t recv_byte(const struct rc_rq *rq, const struct rc_recv *r, uint32_t off)
{
	int i = 0;

	while (off >= r->piece[i].len)
		off -= r->piece[i++].len;
	return rq->mem[r->piece[i].at + off];
}

static void poison_guards(const struct rc_rq *rq, const struct rc_recv *r)
{
	for (int i = 0; i < r->npieces; i++)
		for (uint32_t k = 0; k < 16; k++) {
			must(rq->mem[r->piece[i].at + r->piece[i].len + k] == RC_POISON,
			     "a byte behind a receive was written");
			must(rq->mem[r->piece[i].at - 1 - k] == RC_POISON, "a byte before a receive was written");
		}
}

/* The receive holds a prefix of M, or nothing. Returns whether it holds any byte. */
static bool holds_part(const struct rc_rq *rq, const struct rc_recv *r, const struct rc_msg *m)
{
	bool some = false;
	uint32_t k = 0;

	poison_guards(rq, r);
	for (; m && k < m->len && k < r->len && recv_byte(rq, r, k) == rc_octet(m, k); k++)
		some |= recv_byte(rq, r, k) != RC_POISON;
	for (; k < r->len; k++)
		must(rq->torn || recv_byte(rq, r, k) == RC_POISON,
		     "byte %u of a receive that was not used was written", k);
	return some;
}

void rc_recv_untouched(const struct rc_rq *rq, const struct rc_recv *r)
{
	holds_part(rq, r, NULL);
}

static void holds_all(struct rc_end *e, const struct rc_recv *r, const struct rc_msg *m)
{
	uint32_t len = m->kind == RC_SEND ? m->len : 0;

	poison_guards(e->rq, r);
	for (uint32_t k = 0; k < r->len; k++) {
		uint8_t is = recv_byte(e->rq, r, k), want = k < len ? rc_octet(m, k) : RC_POISON;

		must(is == want || (e->rq->torn && k >= len), "end%d: byte %u of message %u is %02x, not %02x",
		     e->index, k,
		     m->id, is, want);
	}
}

/* A fenced request was not sent before all Reads and atomics before it were complete. */
static void verify_fence(struct rc_end *from, const struct rc_msg *m)
{
	for (struct rc_msg *b = from->msgs; b < m; b++)
		if (!b->done && has_sink(b) && !b->mr)
			verify(from, b, from);
}

static void message_placed(struct rc_end *e, struct rc_msg *m)
{
	struct rc_end *from = e->peer;

	must(!m->bad, "end%d: message %u arrived", e->index, m->id);
	if (m->kind == RC_WRITE)
		verify(from, m, e);
	if (m->fence && m->kind <= RC_WRITE)
		verify_fence(from, m);
	if (m->kind == RC_SEND && m->invalidate) {
		window_ended(m->window);
		if (m->mr)
			must(diw_mr_dereg(m->mr) == 0, "diw_mr_dereg");
		m->mr = NULL;
	}
	m->placed = true;
	from->placed++;
}

/* The next message that takes a receive of E, if all before it have arrived. NULL: none was sent. */
static struct rc_msg *next_for(struct rc_end *e, bool arrived)
{
	struct rc_end *from = e->peer;

	for (uint32_t i = from->placed; i < from->nmsgs; i++) {
		struct rc_msg *m = &from->msgs[i];

		if (consumes(m))
			return m;
		if (arrived)
			message_placed(e, m);
	}
	return NULL;
}

static struct rc_recv *take_recv(struct rc_end *e, const struct diw_wc *wc)
{
	struct rc_rq *rq = e->rq;

	must(rq->srq || wc->wr_id == rq->next++, "end%d: receive %llu completes out of order", e->index,
	     (unsigned long long)wc->wr_id);
	for (int i = 0; i < RC_RECVS; i++)
		if (rq->recvs[i].posted && rq->recvs[i].seq == wc->wr_id) {
			rq->recvs[i].posted = false;
			return &rq->recvs[i];
		}
	sim_fail("end%d: receive %llu completes, which is not posted", e->index, (unsigned long long)wc->wr_id);
}

static void recv_failed(struct rc_end *e, const struct rc_recv *r, const struct diw_wc *wc)
{
	struct rc_msg *m = next_for(e, false);
	bool part = holds_part(e->rq, r, m);

	must(wc->status == DIW_WC_FLUSHED || (wc->status == DIW_WC_LOC_LEN_ERR && m && m->bad),
	     "end%d: receive: %s", e->index, diw_wc_status_str(wc->status));
	must(!part || !e->cut, "end%d: two receives hold parts of messages", e->index);
	if (part)
		next_for(e, true);
	e->cut |= part || wc->status == DIW_WC_LOC_LEN_ERR;
}

void rc_received(struct rc_end *e, const struct diw_wc *wc)
{
	struct rc_recv *r = take_recv(e, wc);
	bool write = wc->opcode == DIW_WC_RECV_WRITE_IMM;
	struct rc_msg *m;

	say("end%d: receive %llu: %s, %u bytes", e->index, (unsigned long long)wc->wr_id, diw_wc_status_str(wc->status),
	    wc->byte_len);
	if (wc->status != DIW_WC_SUCCESS) {
		recv_failed(e, r, wc);
		return;
	}
	m = next_for(e, true);
	must(m, "end%d: a message that nobody sent", e->index);
	must(write == (m->kind == RC_WRITE) && (write || wc->opcode == DIW_WC_RECV), "end%d: message %u as %s",
	     e->index,
	     m->id, diw_wc_opcode_str(wc->opcode));
	must(wc->byte_len == m->len, "end%d: message %u has %u bytes, not %u", e->index, m->id, wc->byte_len, m->len);
	must(!(wc->flags & DIW_WC_IMM) == !m->has_imm && (!m->has_imm || wc->imm == m->imm),
	     "end%d: message %u: immediate %x, flags %x", e->index, m->id, wc->imm, wc->flags);
	must(!(wc->flags & DIW_WC_SOLICITED) == !m->solicited, "end%d: message %u: flags %x", e->index, m->id,
	     wc->flags);
	must(!(wc->flags & DIW_WC_INVALIDATED) == !m->invalidate && (!m->invalidate || wc->stag == m->inv_stag),
	     "end%d: message %u: flags %x, STag %x", e->index, m->id, wc->flags, wc->stag);
	holds_all(e, r, m);
	message_placed(e, m);
}

/* ---- Memory ---- */

/* The request that may be writing to byte OFF of E's memory. *END: the end of its bytes; *AT: its offset of that
 * byte. */
static const struct rc_msg *writing(struct rc_end *e, struct rc_end *of, uint32_t off, uint32_t *end, uint32_t *at)
{
	for (uint32_t i = 0; i < of->nmsgs; i++) {
		const struct rc_msg *m = &of->msgs[i];

		*at = 0;
		if (m->bad || (of == e ? m->done || !has_sink(m) : m->placed || m->kind != RC_WRITE))
			continue;
		for (int k = 0; k < m->npieces; k++) {
			const struct rc_piece *p = &m->piece[k];

			if (off >= p->at && off < p->at + p->len) {
				*end = p->at + p->len;
				*at += off - p->at;
				return m;
			}
			*at += p->len;
		}
	}
	return NULL;
}

static uint32_t first_difference(const struct rc_end *e, uint32_t off, uint32_t end)
{
	while (end - off >= 4096 && memcmp(e->mem + off, e->shadow + off, 4096) == 0)
		off += 4096;
	while (off < end && e->mem[off] == e->shadow[off])
		off++;
	return off;
}

void rc_check(struct rc_end *e)
{
	uint32_t off = 0, limit = e->used < RC_MEM ? e->used : RC_MEM, end, at;

	if (!e->mem)
		return;
	while ((off = first_difference(e, off, limit)) < limit) {
		struct rc_end *of = e;
		const struct rc_msg *m = writing(e, e, off, &end, &at);

		if (!m) {
			of = e->peer;
			m = writing(e, of, off, &end, &at);
		}
		must(m, "end%d: byte %u of its memory was written, by nobody", e->index, off);
		for (; off < end; off++, at++)
			must(e->mem[off] == e->shadow[off] || e->mem[off] == becomes(of, m, at),
			     "end%d: byte %u of message %u is %02x", e->index, at, m->id, e->mem[off]);
	}
}

/* ---- The end ---- */

/* The peer's requests were executed in order, so each word has had one of its expected values. */
static void check_words(struct rc_end *e)
{
	for (uint32_t w = 0; w < RC_WORDS; w++) {
		bool seen = e->words[w] == 0;

		must(e->conn->harmed || e->peer->hurt || e->words[w] == e->model[w],
		     "end%d: word %u is %llx, not %llx", e->index, w,
		     (unsigned long long)e->words[w], (unsigned long long)e->model[w]);
		for (uint32_t i = 0; i < e->peer->nmsgs; i++) {
			const struct rc_msg *m = &e->peer->msgs[i];

			seen |= (m->kind == RC_ADD || m->kind == RC_SWAP) && m->from == w && m->value == e->words[w];
		}
		must(seen, "end%d: word %u is %llx, which it never was", e->index, w, (unsigned long long)e->words[w]);
	}
}

static bool there(struct rc_end *e, const struct rc_msg *m, bool all)
{
	const struct rc_piece *p = &m->piece[0];
	bool some = false, full = true;

	for (uint32_t k = 0; k < p->len; k++) {
		some |= e->mem[p->at + k] != RC_POISON;
		full &= e->mem[p->at + k] == rc_octet(m, k);
	}
	return all ? full : some;
}

/* The Writes of the peer have arrived as a prefix: up to some Write, and none behind it. */
static void check_prefix(struct rc_end *e)
{
	bool ended = false;

	for (uint32_t i = 0; i < e->peer->nmsgs; i++) {
		const struct rc_msg *m = &e->peer->msgs[i];

		if (m->kind != RC_WRITE || m->bad || !m->len)
			continue;
		must(!ended || !there(e, m, false), "end%d: message %u is there, but not all before it", e->index,
		     m->id);
		ended |= !there(e, m, true);
		must(!ended || e->conn->harmed || e->peer->hurt, "end%d: message %u never arrived", e->index, m->id);
	}
}

void rc_account(struct rc_end *e)
{
	struct rc_conn *c = e->conn;

	for (; e->completed < e->nmsgs && !e->destroyed; succeeded(e, &e->msgs[e->completed++])) {
		const struct rc_msg *m = &e->msgs[e->completed];

		must(!m->signaled && !e->failed, "end%d: message %u never completed", e->index, m->id);
	}
	if (!c->harmed && !e->peer->hurt)
		next_for(e, true);
	must(c->harmed || e->peer->hurt || e->peer->placed == e->peer->nmsgs, "end%d: message %u never arrived",
	     e->index,
	     e->peer->msgs[e->peer->placed].id);
	for (int i = 0; i < RC_RECVS && !e->rq->srq && (e->over || e->left) && !e->destroyed; i++)
		must(!e->rq->recvs[i].posted, "end%d: receive %llu was not flushed", e->index,
		     (unsigned long long)e->rq->recvs[i].seq);
	rc_check(e);
	check_prefix(e);
	check_words(e);
}
