/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error messages: they have the layout of a Terminate (RFC 5040 section 4.8), but end nothing. An error message reports
 * to a source that a message of its own was at fault. It is rate-limited and never larger than its cause, so it cannot
 * be used against a third party.
 */
#include "base/clock.h"
#include "base/wire.h"
#include "rdmap/int.h"

#define ERROR_NS (DIW_S / 100)       /* the cost of one error message in time */
#define RECENT 65536u                /* an error may refer to so many messages back */

/* The length up to which the offending header must be present: including its MSN. */
static uint32_t msn_offset(bool tagged)
{
	return tagged ? DIW_T_MSN : DIW_U_MSN;
}

static uint32_t epoch_offset(bool tagged)
{
	return tagged ? DIW_T_EPOCH : DIW_U_EPOCH;
}

static bool may_be_told(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint16_t fault)
{
	const struct diw_ddp_hdr *h = &seg->h;

	if (diw_fault_is_local(fault) || seg->hdr_len == 0 || seg->group ||
	    !diw_ddp_is_qkey(&r->ddp, h->qkey) || diw_rdmap_ops[h->opcode].any_qkey)
		return false;
	return h->tagged || h->qn != DIW_QN_TERMINATE;
}

/* A peer that floods uses up its own budget, and that of the few sources that share it. Forged addresses can use up all
 * budgets of addresses that are not proved. */
static struct diw_rdmap_error_budget *error_budget(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	const struct diw_source *src = diw_source_find(&r->ddp, seg->src, seg->h.epoch);
	struct diw_rdmap_errors *e = &r->reads->errors;

	return &e->budget[src && src->proved][diw_addr_hash(seg->src, e->seed) % DIW_RDMAP_ERROR_BUDGETS];
}

/* Hash of a message's source, kind, MSN and epoch; never 0. */
static uint32_t message_hash(const struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	const struct diw_ddp_hdr *h = &seg->h;
	uint64_t which = (uint64_t)h->msn << 32 | (uint32_t)h->epoch << 1 | h->tagged;

	return (uint32_t)diw_addr_hash(seg->src, r->reads->errors.seed ^ (which + 1) * 0x9e3779b97f4a7c15u) | 1;
}

/* One error message for each message, however many of its segments are at fault; 100 a second. */
static bool error_allowed(const struct diw_rdmap_error_budget *b, uint32_t message, uint64_t now)
{
	for (int i = 0; i < DIW_RDMAP_ERROR_TOLD; i++)
		if (b->told[i] == message)
			return false;
	return b->paid_until + ERROR_NS <= now + DIW_S;
}

static void error_pay(struct diw_rdmap_error_budget *b, uint32_t message, uint64_t now)
{
	b->paid_until = (b->paid_until > now ? b->paid_until : now) + ERROR_NS;
	b->told[b->ntold++ % DIW_RDMAP_ERROR_TOLD] = message;
}

void diw_rdmap_term_send(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	uint32_t room, hdr_len = seg->hdr_len;
	uint8_t body[DIW_TERM_FIXED + DIW_DDP_MAX_LEN];
	struct iovec iov = { .iov_base = body };
	struct diw_ddp_tx tx = { .dst = { .addr = *seg->src } };
	struct diw_rdmap_error_budget *b;
	uint32_t message;
	int64_t budget = 1;

	if (!may_be_told(r, seg, fault))
		return;
	b = error_budget(r, seg);
	message = message_hash(r, seg);
	/* The quoted header is cut, so that the error message is not larger than its cause. */
	if (seg->h.imm_valid)
		hdr_len -= 4;
	room = seg->hdr_len + seg->len;
	room = room > DIW_DDP_UNTAGGED_LEN + DIW_TERM_FIXED ? room - DIW_DDP_UNTAGGED_LEN - DIW_TERM_FIXED : 0;
	if (hdr_len > room)
		hdr_len = room;
	if (hdr_len < msn_offset(seg->h.tagged) + 4 || !error_allowed(b, message, now)) {
		r->c->error_suppressed++;
		return;
	}
	diw_term_put(body, fault, DIW_TERM_M | DIW_TERM_D);
	diw_put16(body + DIW_TERM_CONTROL, (uint16_t)(seg->hdr_len + seg->len));
	memcpy(body + DIW_TERM_FIXED, seg->raw, hdr_len);
	iov.iov_len = DIW_TERM_FIXED + hdr_len;
	tx.h = (struct diw_ddp_hdr){ .opcode = DIW_OP_TERMINATE, .qn = DIW_QN_TERMINATE,
				     .length = DIW_TERM_FIXED + hdr_len };
	diw_ddp_tx_begin(&r->ddp, &tx, true);
	if (diw_ddp_tx_run(&r->ddp, &tx, &iov, &budget, now) != 0) {
		r->c->error_suppressed++;
		return;
	}
	r->c->error_tx++;
	error_pay(b, message, now);
}

bool diw_rdmap_is_recent(const struct diw_rdmap *r, bool tagged, uint32_t msn)
{
	uint32_t ago = diw_ddp_msn(&r->ddp, tagged) - msn;

	return ago != 0 && ago <= RECENT;
}

/* Whether the quoted segment is of another epoch of this port, as far as the quotation shows. */
static bool other_epoch(const struct diw_rdmap *r, const uint8_t *quote, uint32_t len, bool tagged)
{
	return len >= epoch_offset(tagged) + 2 && diw_get16(quote + epoch_offset(tagged)) != diw_ddp_epoch(&r->ddp);
}

void diw_rdmap_term_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const uint8_t *p = seg->payload;
	uint32_t msn;
	uint16_t fault;
	bool tagged;

	if (seg->len < DIW_TERM_FIXED + 2 || !(p[2] & DIW_TERM_D)) {
		r->c->rx_malformed++;
		diw_ddp_dropped(&r->ddp, seg, "rx_malformed", now);
		return;
	}
	tagged = p[DIW_TERM_FIXED] & DIW_DDP_TAGGED;
	if (seg->len < DIW_TERM_FIXED + msn_offset(tagged) + 4) {
		r->c->rx_malformed++;
		diw_ddp_dropped(&r->ddp, seg, "rx_malformed", now);
		return;
	}
	fault = diw_get16(p);
	msn = diw_get32(p + DIW_TERM_FIXED + msn_offset(tagged));
	if (!diw_rdmap_is_recent(r, tagged, msn) ||
	    other_epoch(r, p + DIW_TERM_FIXED, seg->len - DIW_TERM_FIXED, tagged)) {
		r->c->error_rx_ignored++;
		diw_ddp_dropped(&r->ddp, seg, "error_rx_ignored", now);
		return;
	}
	r->c->error_rx++;
	if (!tagged && (p[DIW_TERM_FIXED + 1] & DIW_RDMAP_OP) == DIW_OP_READ_REQUEST &&
	    diw_rdmap_read_refused(r, seg->src, msn, fault))
		return;
	r->up->peer_error(r->up_ctx, seg->src, msn, fault);
}
