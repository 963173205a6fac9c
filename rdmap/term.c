/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error messages: the layout of a Terminate (RFC 5040 section 4.8), but nothing ends. They say to a source that a
 * message of its was at fault; rate-limited and never larger than their cause, so that they cannot be turned against a
 * third party.
 */
#include "base/clock.h"
#include "base/wire.h"
#include "rdmap/rdmap.h"

#define TERM_HDR_M 0x80u             /* DDP segment length valid */
#define TERM_HDR_D 0x40u             /* DDP header included */
#define TERM_FIXED 6u                /* control 4, DDP segment length 2 */
#define ERRORS_PER_S 100
#define RECENT 65536u                /* messages back that an error may name */

/* Up to which byte the offending header must be there: its MSN. */
static uint32_t msn_offset(bool tagged)
{
	return tagged ? 20 : 10;
}

static uint32_t epoch_offset(bool tagged)
{
	return tagged ? 18 : 22;
}

static bool may_be_told(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint16_t fault)
{
	const struct diw_ddp_hdr *h = &seg->h;

	if (r->type != DIW_TYPE_UD || diw_fault_is_local(fault) || seg->hdr_len == 0 || seg->group ||
	    h->qkey != r->ddp.cfg.qkey)
		return false;
	return h->tagged ? h->opcode != DIW_OP_READ_RESPONSE : h->qn != 2;
}

static bool within_rate(struct diw_rdmap *r, uint64_t now)
{
	if (now - r->errors_since >= DIW_S) {
		r->errors_since = now;
		r->errors_sent = 0;
	}
	return r->errors_sent++ < ERRORS_PER_S;
}

void diw_rdmap_term_send(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	uint32_t room, hdr_len = seg->hdr_len;
	uint8_t body[TERM_FIXED + DIW_DDP_MAX_LEN];
	struct iovec iov = { .iov_base = body };
	struct diw_ddp_tx tx = { .dst = *seg->src };
	int64_t budget = 1;

	if (!may_be_told(r, seg, fault))
		return;
	/* Cut the quoted header so that the whole is no larger than its cause. */
	if (seg->h.imm_valid)
		hdr_len -= 4;
	room = seg->hdr_len + seg->len;
	room = room > DIW_DDP_UNTAGGED_LEN + TERM_FIXED ? room - DIW_DDP_UNTAGGED_LEN - TERM_FIXED : 0;
	if (hdr_len > room)
		hdr_len = room;
	if (hdr_len < msn_offset(seg->h.tagged) + 4 || !within_rate(r, now)) {
		r->c->error_suppressed++;
		return;
	}
	diw_put16(body, fault);
	body[2] = TERM_HDR_M | TERM_HDR_D;
	body[3] = 0;
	diw_put16(body + 4, (uint16_t)(seg->hdr_len + seg->len));
	memcpy(body + TERM_FIXED, seg->raw, hdr_len);
	iov.iov_len = TERM_FIXED + hdr_len;
	tx.h = (struct diw_ddp_hdr){ .opcode = DIW_OP_TERMINATE, .qn = 2, .length = TERM_FIXED + hdr_len };
	diw_ddp_tx_begin(&r->ddp, &tx, true);
	if (diw_ddp_tx_run(&r->ddp, &tx, &iov, &budget, now) == 0)
		r->c->error_tx++;
	else
		r->c->error_suppressed++;
}

/* Of another life of this port, as far as the quotation tells. */
static bool other_epoch(const struct diw_rdmap *r, const uint8_t *quote, uint32_t len, bool tagged)
{
	return len >= epoch_offset(tagged) + 2 && diw_get16(quote + epoch_offset(tagged)) != r->ddp.epoch;
}

void diw_rdmap_term_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	const uint8_t *p = seg->payload;
	uint32_t msn, ago;
	uint16_t fault;
	bool tagged;

	if (seg->len < TERM_FIXED + 2 || !(p[2] & TERM_HDR_D)) {
		r->c->rx_malformed++;
		diw_ddp_dropped(r->ddp.link, seg, "rx_malformed");
		return;
	}
	tagged = p[TERM_FIXED] & DIW_DDP_TAGGED;
	if (seg->len < TERM_FIXED + msn_offset(tagged) + 4) {
		r->c->rx_malformed++;
		diw_ddp_dropped(r->ddp.link, seg, "rx_malformed");
		return;
	}
	fault = diw_get16(p);
	msn = diw_get32(p + TERM_FIXED + msn_offset(tagged));
	ago = (tagged ? r->ddp.msn_tagged : r->ddp.msn_untagged) - msn;
	if (ago == 0 || ago > RECENT || other_epoch(r, p + TERM_FIXED, seg->len - TERM_FIXED, tagged)) {
		r->c->error_rx_ignored++;
		diw_ddp_dropped(r->ddp.link, seg, "error_rx_ignored");
		return;
	}
	r->c->error_rx++;
	if (!tagged && (p[TERM_FIXED + 1] & DIW_RDMAP_OP) == DIW_OP_READ_REQUEST &&
	    diw_rdmap_read_refused(r, seg->src, msn, fault))
		return;
	r->up->peer_error(r->up_ctx, seg->src, msn, fault);
}
