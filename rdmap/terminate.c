/* SPDX-License-Identifier: BSD-2-Clause */
/* The Terminate of a stream (RFC 5040 section 4.8): the last message in either direction. */
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "rdmap/int.h"

#define HDR_ANY (DIW_TERM_M | DIW_TERM_D | DIW_TERM_R)
#define SIW_M 0x01u
#define SIW_D 0x02u
#define SIW_ANY 0x07u
#define QUOTED_READ (DIW_DDP_PLAIN_UNTAGGED_LEN + DIW_RDMAP_READ_LEN)

/* Quotes SEG behind the control at P. Returns the length of both. MPA's own faults have no header to quote (RFC 5044
 * section 8). Neither has a fault without a segment. */
static uint32_t header_quote(uint8_t *p, const struct diw_ddp_seg *seg)
{
	uint32_t n = DIW_TERM_FIXED;

	if (!seg || seg->hdr_len == 0)
		return DIW_TERM_CONTROL;
	p[2] = DIW_TERM_M | DIW_TERM_D;
	diw_put16(p + DIW_TERM_CONTROL, (uint16_t)(seg->hdr_len + seg->len));
	memcpy(p + n, seg->raw, seg->hdr_len);
	n += seg->hdr_len;
	if (!seg->h.tagged && seg->h.opcode == DIW_OP_READ_REQUEST && seg->len == DIW_RDMAP_READ_LEN) {
		p[2] |= DIW_TERM_R;
		memcpy(p + n, seg->payload, DIW_RDMAP_READ_LEN);
		n += DIW_RDMAP_READ_LEN;
	}
	return n;
}

int diw_rdmap_terminate_rest(struct diw_rdmap *r, uint64_t now)
{
	const struct iovec iov = { r->rc.last, r->rc.last_len };
	struct diw_ddp_tx tx = { .dst = *diw_rdmap_peer(r), .h = { .opcode = DIW_OP_TERMINATE, .length = r->rc.last_len,
								   .qn = DIW_QN_TERMINATE } };
	int64_t budget = 1;

	if (r->rc.last_len == 0)
		return 0;
	if (r->rc.place.asks)                   /* the peer's messages before the one at fault are placed */
		diw_rdmap_rc_count(r, &tx.h);
	diw_ddp_set_tx_msn(&r->ddp, DIW_QN_TERMINATE, 1);       /* the first and only message, however often it is
								 * tried */
	diw_ddp_tx_begin(&r->ddp, &tx, true);
	if (diw_ddp_tx_run(&r->ddp, &tx, &iov, &budget, now) != 0)
		return -EAGAIN;
	r->rc.last_len = 0;
	r->rc.place.due = false;
	r->c->terminate_tx++;
	return 0;
}

static bool wr_is_read(const struct diw_rdmap_wr *wr, const uint8_t *rdmap)
{
	struct diw_read_request q = diw_read_request_get(rdmap);

	return wr->opcode == DIW_OP_READ_REQUEST && wr->buf.len == q.length && wr->stag == q.stag && wr->to == q.to;
}

/* The request of ours whose header a Terminate quotes, or NULL. siw may quote an MSN that the request did not have, so
 * RDMAP's header is compared first. */
static struct diw_rdmap_wr *quoted_request(const struct diw_rdmap *r, const uint8_t *p, uint32_t len)
{
	const uint8_t *ddp = p + DIW_TERM_FIXED, *rdmap = ddp + DIW_DDP_PLAIN_UNTAGGED_LEN;
	bool requesting = r->tx.active && !r->tx.h.tagged && r->tx.h.qn == DIW_QN_REQUEST;
	uint32_t msn = diw_ddp_tx_msn(&r->ddp, DIW_QN_REQUEST) - r->rc.nout - requesting;     /* of the oldest */
	struct diw_rdmap_wr *alike = NULL;

	if (!(p[2] & (DIW_TERM_D | SIW_D)) || len < DIW_TERM_FIXED + DIW_DDP_PLAIN_UNTAGGED_LEN ||
	    (ddp[0] & DIW_DDP_TAGGED) || diw_get32(ddp + DIW_U_QN) != DIW_QN_REQUEST)
		return NULL;
	for (struct diw_list *l = r->rc.out.next; l != &r->rc.out; l = l->next, msn++) {
		struct diw_rdmap_wr *wr = diw_container(l, struct diw_rdmap_wr, out);

		if (wr->opcode != (ddp[1] & DIW_RDMAP_OP))
			continue;
		if (wr->opcode == DIW_OP_READ_REQUEST && len >= DIW_TERM_FIXED + QUOTED_READ && !wr_is_read(wr, rdmap))
			continue;
		if (msn == diw_get32(ddp + DIW_U_MSN))
			return wr;
		if (!alike && len >= DIW_TERM_FIXED + QUOTED_READ)
			alike = wr;
	}
	return alike;
}

/* The DDP header that the Terminate quotes. The peer may quote anything: a header that cannot be read is none. Octets
 * of the payload count only if the length is there, too. */
static void quote_read(struct diw_rdmap *r, const uint8_t *p, uint32_t len)
{
	struct diw_rdmap_rc_quote *q = &r->rc.quote;
	uint32_t hdr_len, seg_len;

	q->header = (p[2] & (DIW_TERM_D | SIW_D)) && len > DIW_TERM_FIXED &&
		    diw_ddp_hdr_decode_plain(&q->h, &hdr_len, diw_ddp_extras(&r->ddp), p + DIW_TERM_FIXED,
					     len - DIW_TERM_FIXED) == 0;
	if (!q->header)
		return;
	seg_len = p[2] & (DIW_TERM_M | SIW_M) ? diw_get16(p + DIW_TERM_CONTROL) : 0;
	q->len = seg_len > hdr_len ? seg_len - hdr_len : 0;
}

bool diw_rdmap_rc_quotes_message(const struct diw_rdmap *r)
{
	const struct diw_rdmap_rc_quote *q = &r->rc.quote;

	return q->header && (q->h.tagged ? q->h.opcode == DIW_OP_WRITE : q->h.qn == DIW_QN_SEND);
}

bool diw_rdmap_rc_quotes(const struct diw_rdmap *r, const struct diw_rdmap_wr *wr, uint32_t msn)
{
	const struct diw_rdmap_rc_quote *q = &r->rc.quote;
	uint64_t off = q->h.to - wr->to;

	if (!q->h.tagged)
		return q->h.msn == msn && (wr->opcode == DIW_OP_SEND || (wr->opcode == DIW_OP_WRITE && wr->imm_valid));
	return wr->opcode == DIW_OP_WRITE && q->h.stag == wr->stag && (off == 0 || off < wr->buf.len) &&
	       q->len <= wr->buf.len - off;
}

static void refuse_quoted(struct diw_rdmap *r, const uint8_t *p, uint32_t len, uint16_t fault)
{
	struct diw_rdmap_wr *wr = quoted_request(r, p, len);

	quote_read(r, p, len);
	if (!wr)
		return;
	wr->fault = fault;
	diw_rdmap_rc_finish(r, wr, DIW_RDMAP_REFUSED);
}

void diw_rdmap_terminate(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	uint8_t *body = r->rc.last;

	diw_term_put(body, diw_fault_for_peer(fault), 0);
	r->rc.last_len = (uint8_t)header_quote(body, seg);
	diw_ddp_end(&r->ddp);
	if (r->rc.self)                         /* the peer will not read it */
		refuse_quoted(r, body, r->rc.last_len, fault);
	if (!diw_rdmap_rc_owes_answers(r))
		diw_rdmap_terminate_rest(r, now);
	r->up->ended(r->up_ctx, fault, false, 0, now);
}

/*
 * The fault of a received Terminate. On little-endian machines the kernel's siw exchanges layer and error type, and
 * puts M, D and R into the lowest bits, which are reserved. Without a quoted header, MPA's errors and RDMAP's errors of
 * operation (2/0 and 0/2) differ by their codes, except 05 to 07. These are MPA's errors of the negotiation (RFC 6581
 * section 8), which an initiator sends first, and RDMAP's errors later. FIRST: the peer is the initiator, and the
 * Terminate is its first message.
 */
static uint16_t sent_fault(const uint8_t *p, bool first)
{
	unsigned layer = p[0] >> 4, etype = p[0] & 15, code = p[1];
	bool quotes = p[2] & HDR_ANY, swapped = p[2] & SIW_ANY;

	if (!quotes && !swapped && ((layer == 2 && etype == 0) || (layer == 0 && etype == 2)))
		return (uint16_t)((code < 5 || (code < 8 && first) ? 0x2000 : 0x0200) | code);
	swapped |= (layer == 2 && (etype != 0 || quotes)) || (layer == 1 && etype == 0 && quotes);
	return swapped ? (uint16_t)(etype << 12 | layer << 8 | code) : diw_get16(p);
}

uint16_t diw_rdmap_terminated(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	uint16_t fault;

	if (seg->len < DIW_TERM_CONTROL)
		return DIW_FAULT_STREAM;
	r->c->terminate_rx++;
	fault = sent_fault(seg->payload, !diw_ddp_seen(&r->ddp));
	refuse_quoted(r, seg->payload, seg->len, fault);
	r->rc.quote.exact = diw_rdmap_rc_is_count(r, &seg->h);
	diw_rdmap_rc_drop_answers(r);
	diw_ddp_end(&r->ddp);
	r->up->ended(r->up_ctx, fault, true, 0, now);
	return 0;
}
