/* SPDX-License-Identifier: BSD-2-Clause */
/* The ledger: what was sent, where it may be placed, and whether the stack's completions are true. */
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "tests/sim/sim.h"

#define MAGIC 0xd1a7a900u

static uint8_t mix(uint64_t key, uint64_t off)
{
	uint64_t h = (key + 1) * 0x9e3779b97f4a7c15u ^ (off + 1) * 0xd6e8feb86659fd93u;

	return (uint8_t)(h >> 37 ^ h >> 11 ^ h >> 59);
}

/* The first eight octets of a message that is long enough identify it. */
uint8_t msg_octet(const struct msg *m, uint32_t off)
{
	if (m->kind == MSG_READ)
		return source_octet(m->to, m->source_off + off);
	if (m->length >= 8 && off < 8)
		return (uint8_t)((off < 4 ? MAGIC : m->id) >> (8 * (3 - off % 4)));
	return mix(m->id, off);
}

uint8_t source_octet(const struct ep *ep, uint64_t off)
{
	return mix(0x50000000u + (uint64_t)ep->index, off);
}

static uint8_t poison(const struct ep *ep, const struct slot *s, uint32_t off)
{
	return mix(0x90000000u + s->gen, (uint64_t)(s->mem - ep->target) + off);
}

struct msg *msg_new(enum msg_kind kind, struct ep *from, struct ep *to, uint32_t length)
{
	struct msg *m = &sim.msgs[sim.nmsgs];

	must(sim.nmsgs < SIM_MAX_MSGS, "the scenario posts too many messages");
	*m = (struct msg){ .id = sim.nmsgs++, .kind = kind, .from = from, .to = to, .length = length,
		.from_life = from->life, .to_life = to->life };
	return m;
}

/* ---- Slots ---- */

static void slot_poison(struct ep *ep, struct slot *s)
{
	s->gen++;
	for (uint32_t i = 0; i < s->cap; i++)
		s->mem[i] = poison(ep, s, i);
}

static void slot_untouched(struct ep *ep, struct slot *s)
{
	for (uint32_t i = 0; i < s->cap; i++)
		if (s->mem[i] != poison(ep, s, i))
			sim_fail("ep%d: octet %u of the slot at +%td changed although no message is on its way there",
				 ep->index, i, s->mem - ep->target);
}

struct slot *slot_take(struct ep *ep, uint32_t length)
{
	struct slot *s;

	if (chance(0.5))
		for (int i = 0; i < ep->nslots; i++) {
			s = &ep->slots[i];
			if (!s->msg && !s->frozen && s->cap >= length && s->cap <= 4 * length + 64) {
				slot_untouched(ep, s);
				slot_poison(ep, s);
				return s;
			}
		}
	if (ep->nslots == SIM_MAX_SLOTS || SIM_REGION - ep->target_used < length + SIM_GUARD)
		return NULL;
	s = &ep->slots[ep->nslots++];
	*s = (struct slot){ .mem = ep->target + ep->target_used, .cap = length };
	ep->target_used += length + SIM_GUARD;
	slot_poison(ep, s);
	return s;
}

void slot_done(struct slot *s)
{
	struct ep *ep = s->msg->kind == MSG_READ ? s->msg->from : s->msg->to;

	s->msg = NULL;
	free(s->frozen);
	s->frozen = NULL;
	slot_poison(ep, s);
}

void slots_freeze(struct ep *ep)
{
	for (int i = 0; i < ep->nslots; i++) {
		struct slot *s = &ep->slots[i];

		if (!s->msg || s->frozen)
			continue;
		s->msg->spoiled = true;
		s->frozen = malloc(s->cap ? s->cap : 1);
		memcpy(s->frozen, s->mem, s->cap);
	}
}

/* Checks an octet of the slot's memory that no completion declared valid. */
static void octet_undeclared(struct ep *ep, const struct slot *s, uint32_t i)
{
	if (s->mem[i] != poison(ep, s, i))
		sim_fail("ep%d: message %u: octet %u of %u was written, but its map does not say so", ep->index,
			 s->msg->id, i, s->msg->length);
}

static void octet_declared(struct ep *ep, const struct msg *m, const uint8_t *at, uint32_t i)
{
	if (*at != msg_octet(m, i))
		sim_fail("ep%d: message %u: octet %u of %u is declared valid and is %02x instead of %02x", ep->index,
			 m->id, i, m->length, *at, msg_octet(m, i));
}

static void slot_check(struct ep *ep, struct slot *s)
{
	if (!s->msg) {
		slot_untouched(ep, s);
		return;
	}
	if (s->frozen && memcmp(s->frozen, s->mem, s->cap) != 0)
		sim_fail("ep%d: message %u was placed after its region was deregistered", ep->index, s->msg->id);
	for (uint32_t i = 0; i < s->cap; i++)
		if (s->mem[i] != poison(ep, s, i) && (i >= s->msg->length || s->mem[i] != msg_octet(s->msg, i)))
			sim_fail("ep%d: octet %u of the slot of message %u is neither old nor the message's", ep->index,
				 i, s->msg->id);
}

/* Octet I of a receive, whose buffer is two entries with a gap. */
static uint32_t recv_at(const struct ep *ep, uint32_t i)
{
	uint32_t half = ep->recv_size / 2;

	return i < half ? i : i + SIM_GUARD;
}

void recv_poison(struct ep *ep, struct recv_slot *r)
{
	r->gen++;
	for (uint32_t i = 0; i < ep->recv_size; i++)
		r->mem[recv_at(ep, i)] = mix(0xb0000000u + r->gen, i);
}

void recv_untouched(struct ep *ep, const struct recv_slot *r)
{
	for (uint32_t i = 0; i < ep->recv_size; i++)
		if (r->mem[recv_at(ep, i)] != mix(0xb0000000u + r->gen, i))
			sim_fail("ep%d: octet %u of receive %td changed, which is not posted", ep->index, i,
				 r - ep->recvs);
}

void memory_check(struct ep *ep)
{
	uint32_t at = 0;

	for (int i = 0; i < ep->nslots; i++) {
		slot_check(ep, &ep->slots[i]);
		at = (uint32_t)(ep->slots[i].mem - ep->target) + ep->slots[i].cap;
		for (uint32_t g = 0; g < SIM_GUARD; g++)
			must(ep->target[at + g] == 0xa5, "ep%d: the gap at +%u behind slot %d was written", ep->index,
			     at + g, i);
	}
	for (at = ep->target_used; at < SIM_REGION + SIM_GUARD; at++)
		must(ep->target[at] == 0xa5, "ep%d: +%u was written, where nothing lies", ep->index, at);
	for (int i = 0; i < ep->nrecvs; i++) {
		const struct recv_slot *r = &ep->recvs[i];

		for (uint32_t g = 0; g < SIM_GUARD; g++)
			must(r->mem[ep->recv_size / 2 + g] == 0xa5 && r->mem[ep->recv_size + SIM_GUARD + g] == 0xa5,
			     "ep%d: the gap of receive %d was written", ep->index, i);
		if (!r->posted)
			recv_untouched(ep, r);
	}
	for (at = 0; at < SIM_REGION; at += 251)
		must(ep->source[at] == source_octet(ep, at), "ep%d: its source region was written", ep->index);
}

/* ---- Records ---- */

/* The message that is to be placed at that tagged offset. */
static struct msg *find_target(struct ep *ep, uint64_t to)
{
	for (int i = 0; i < ep->nslots; i++)
		if (ep->slots[i].msg && (uint64_t)(uintptr_t)ep->slots[i].mem == to)
			return ep->slots[i].msg;
	return NULL;
}

static void check_ranges(struct ep *ep, struct msg *m, const struct diw_range *r, uint32_t n, uint32_t bytes,
			 bool strict)
{
	uint32_t at = 0, sum = 0;

	for (uint32_t k = 0; k < n; k++) {
		must(r[k].len > 0 && r[k].off >= at && (k == 0 || r[k].off > at) && r[k].off <= m->length &&
		     r[k].len <= m->length - r[k].off, "ep%d: message %u: range %u is [%u, +%u) of %u", ep->index,
		     m->id, k, r[k].off,
		     r[k].len, m->length);
		for (; strict && at < r[k].off; at++)
			octet_undeclared(ep, m->slot, at);
		for (uint32_t i = 0; i < r[k].len; i++)
			octet_declared(ep, m, m->slot->mem + r[k].off + i, r[k].off + i);
		at = r[k].off + r[k].len;
		sum += r[k].len;
	}
	for (; strict && at < m->slot->cap; at++)
		octet_undeclared(ep, m->slot, at);
	must(sum == bytes, "ep%d: message %u: ranges of %u octets, but byte_len %u", ep->index, m->id, sum, bytes);
}

static void check_chunk(struct ep *ep, struct msg *m, const struct diw_wc *wc)
{
	if (!m->declared)
		m->declared = calloc(1, m->length + 1);
	must(wc->mo <= m->length && wc->byte_len <= m->length - wc->mo, "ep%d: message %u: chunk [%u, +%u) of %u",
	     ep->index, m->id, wc->mo, wc->byte_len, m->length);
	for (uint32_t i = wc->mo; i < wc->mo + wc->byte_len; i++) {
		must(!m->declared[i], "ep%d: message %u: octet %u is in two chunks", ep->index, m->id, i);
		m->declared[i] = 1;
		octet_declared(ep, m, m->slot->mem + i, i);
	}
	for (uint32_t i = 0; (wc->flags & DIW_WC_END) && i < m->slot->cap; i++)
		if (i >= m->length || !m->declared[i])
			octet_undeclared(ep, m->slot, i);
}

static void wc_record(struct ep *ep, const struct diw_wc *wc)
{
	struct msg *m = find_target(ep, wc->to);
	struct diw_range r[DIW_MAX_RANGES];
	int n;

	must(m && m->kind == MSG_RECORD, "ep%d: a record at TO %llx that is no message's", ep->index,
	     (unsigned long long)wc->to);
	say("ep%d: record of message %u: %u of %u in %u ranges, %s%s", ep->index, m->id, wc->byte_len, wc->msg_len,
	    wc->nranges, diw_record_close_str(wc->close), wc->flags & DIW_WC_END ? "" : " (chunk)");
	must(m->recv_wcs == 0, "ep%d: message %u completes twice", ep->index, m->id);
	must(wc->status == DIW_WC_SUCCESS && wc->msg_len == m->length && wc->wr_id == 0,
	     "ep%d: message %u: wrong completion", ep->index, m->id);
	must(diw_addr_eq(&wc->src, &m->from->addr), "ep%d: message %u: wrong source", ep->index, m->id);
	must(!!(wc->flags & DIW_WC_IMM) == (m->has_imm && (wc->flags & DIW_WC_END)), "ep%d: message %u: no immediate",
	     ep->index, m->id);
	must(!(wc->flags & DIW_WC_IMM) || wc->imm == m->imm, "ep%d: message %u: wrong immediate", ep->index, m->id);
	if (ep->attr.dgram.record_mode == DIW_RECORD_CHUNK) {
		check_chunk(ep, m, wc);
	} else {
		n = diw_wc_ranges(wc, r, DIW_MAX_RANGES);
		must(n == (int)wc->nranges, "ep%d: message %u: nranges %u, but %d", ep->index, m->id, wc->nranges, n);
		check_ranges(ep, m, r, wc->nranges, wc->byte_len, true);
		must((wc->close == DIW_RECORD_COMPLETE) == (wc->byte_len == m->length),
		     "ep%d: message %u: closed as %s with %u of %u",
		     ep->index, m->id, diw_record_close_str(wc->close), wc->byte_len, m->length);
	}
	if (!(wc->flags & DIW_WC_END))
		return;
	m->recv_wcs++;
	sim.delivered[MSG_RECORD]++;
	sim.partial += wc->close != DIW_RECORD_COMPLETE;
	slot_done(m->slot);
}

void records_check(struct ep *ep)
{
	struct diw_record_info info[64];
	struct diw_range r[DIW_MAX_RANGES];
	int n;

	if (!ep->qp)
		return;
	n = diw_qp_records(ep->qp, info, 64);
	must(n >= 0, "diw_qp_records");
	for (int i = 0; i < n && i < 64; i++) {
		struct msg *m = find_target(ep, info[i].to);
		int k = diw_qp_record_ranges(ep->qp, &info[i], r, DIW_MAX_RANGES);

		must(m, "ep%d: an open record at TO %llx is no message's", ep->index, (unsigned long long)info[i].to);
		must(k == (int)info[i].nranges, "ep%d: open record of message %u: %d ranges instead of %u", ep->index,
		     m->id, k, info[i].nranges);
		check_ranges(ep, m, r, info[i].nranges, info[i].byte_len, true);
	}
}

/* ---- Sends and Writes ---- */

static void wc_write_imm(struct ep *ep, const struct diw_wc *wc)
{
	struct msg *m = &sim.msgs[wc->imm];

	must(wc->imm < sim.nmsgs && m->kind == MSG_WRITE && m->to == ep && m->has_imm, "ep%d: a Write that nobody sent",
	     ep->index);
	say("ep%d: Write %u with immediate", ep->index, m->id);
	must(m->recv_wcs++ == 0, "ep%d: Write %u completes twice", ep->index, m->id);
	must(wc->msg_len == m->length, "ep%d: Write %u: wrong length", ep->index, m->id);
	for (uint32_t i = 0; i < m->length; i++)
		octet_declared(ep, m, m->slot->mem + i, i);
	sim.delivered[MSG_WRITE]++;
	slot_done(m->slot);
}

static struct msg *find_send(struct ep *ep, const struct diw_wc *wc)
{
	const uint8_t *mem = ep->recvs[wc->wr_id].mem;
	uint8_t head[8];
	uint32_t id;

	if (wc->byte_len < 8) {
		id = wc->imm;
	} else {
		for (uint32_t i = 0; i < 8; i++)
			head[i] = mem[recv_at(ep, i)];
		must(diw_get32(head) == MAGIC, "ep%d: a message that nobody sent", ep->index);
		id = diw_get32(head + 4);
	}
	must(id < sim.nmsgs, "ep%d: a message that nobody sent", ep->index);
	return &sim.msgs[id];
}

static void wc_send_arrived(struct ep *ep, const struct diw_wc *wc)
{
	struct recv_slot *r = &ep->recvs[wc->wr_id];
	struct msg *m = find_send(ep, wc);

	say("ep%d: receive %u: message %u, %u octets", ep->index, (unsigned)wc->wr_id, m->id, wc->byte_len);
	must(m->kind == MSG_SEND && m->to == ep, "ep%d: message %u is another's", ep->index, m->id);
	must(wc->byte_len == m->length && wc->msg_len == m->length, "ep%d: message %u: %u octets of %u", ep->index,
	     m->id, wc->byte_len, m->length);
	must(diw_addr_eq(&wc->src, &m->from->addr), "ep%d: message %u: wrong source", ep->index, m->id);
	must(!!(wc->flags & DIW_WC_IMM) == m->has_imm && (!m->has_imm || wc->imm == m->imm),
	     "ep%d: message %u: wrong immediate", ep->index, m->id);
	must(m->recv_wcs == 0 || (sim.may_dup && (m->length <= m->from->mtu_payload || m->to_life != ep->life)),
	     "ep%d: message %u of %u octets is delivered twice", ep->index, m->id, m->length);
	m->recv_wcs++;
	sim.delivered[MSG_SEND]++;
	for (uint32_t i = 0; i < m->length; i++)
		octet_declared(ep, m, r->mem + recv_at(ep, i), i);
}

void wc_recv(struct ep *ep, const struct diw_wc *wc)
{
	if (wc->opcode == DIW_WC_RECV_WRITE_RECORD) {
		wc_record(ep, wc);
		return;
	}
	must(wc->wr_id < (uint64_t)ep->nrecvs && ep->recvs[wc->wr_id].posted, "ep%d: receive %u was not posted",
	     ep->index, (unsigned)wc->wr_id);
	ep->recvs[wc->wr_id].posted = false;
	must(wc->status == DIW_WC_SUCCESS, "ep%d: receive %u: %s", ep->index, (unsigned)wc->wr_id,
	     diw_wc_status_str(wc->status));
	if (wc->opcode == DIW_WC_RECV_WRITE_IMM)
		wc_write_imm(ep, wc);
	else
		wc_send_arrived(ep, wc);
	recv_poison(ep, &ep->recvs[wc->wr_id]);
}

/* ---- The sender's side ---- */

static void wc_read(struct ep *ep, struct msg *m, const struct diw_wc *wc)
{
	struct diw_range r[DIW_MAX_RANGES];
	int n = diw_wc_ranges(wc, r, DIW_MAX_RANGES);

	must(wc->status == DIW_WC_SUCCESS || wc->status == DIW_WC_TIMEOUT || (m->spoiled &&
	     (wc->status == DIW_WC_REM_ACCESS_ERR || wc->status == DIW_WC_LOC_PROT_ERR)),
	     "ep%d: Read %u: %s, fault %04x", ep->index, m->id, diw_wc_status_str(wc->status), wc->fault);
	must(wc->status != DIW_WC_SUCCESS || wc->byte_len == m->length, "ep%d: Read %u: success with %u of %u",
	     ep->index, m->id, wc->byte_len, m->length);
	must(n == (int)wc->nranges, "ep%d: Read %u: nranges %u, but %d", ep->index, m->id, wc->nranges, n);
	check_ranges(ep, m, r, wc->nranges, wc->byte_len, true);
	sim.delivered[MSG_READ] += wc->status == DIW_WC_SUCCESS;
	slot_done(m->slot);
}

void wc_send(struct ep *ep, const struct diw_wc *wc)
{
	struct msg *m = &sim.msgs[wc->wr_id];

	must(wc->wr_id < sim.nmsgs && m->from == ep && m->from_life == ep->life,
	     "ep%d: completion of a request that was not posted", ep->index);
	say("ep%d: request %u: %s", ep->index, m->id, diw_wc_status_str(wc->status));
	must(m->send_wcs++ == 0, "ep%d: request %u completes twice", ep->index, m->id);
	must(m->signaled || wc->status != DIW_WC_SUCCESS, "ep%d: request %u completes though it is unsignalled",
	     ep->index, m->id);
	if (m->kind == MSG_READ)
		wc_read(ep, m, wc);
	else
		must(wc->status == DIW_WC_SUCCESS, "ep%d: request %u: %s", ep->index, m->id,
		     diw_wc_status_str(wc->status));
}
