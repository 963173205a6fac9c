/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Confirmation (docs/rc-wire.md section 7.2). With the attribute `confirm`, a signalled request of an RC queue pair
 * completes when the peer has placed it and all that was posted before it, as on InfiniBand. Without it, the request
 * completes when TCP has taken it.
 *
 * If the peer accepts placement words, a signalled Send or Write asks for confirmation in its own header. Otherwise a
 * Read of no bytes behind it asks; one such Read is outstanding at a time. No request asks if a Read or atomic follows,
 * since its Response confirms the same.
 */
#include "verbs/confirm.h"

#include "verbs/qp.h"

/* The longest time that the peer's confirmations may wait behind a message without a receive. */
#define STALL_NS (100 * DIW_MS)

static bool can_confirm(const struct diw_qp *qp)
{
	return qp->rc.confirm && (diw_rdmap_rc_place(&qp->rdmap)->words || diw_rdmap_rc_ord(&qp->rdmap));
}

bool diw_confirm_waits(const struct diw_qp *qp)
{
	return diw_rdmap_rc_after(qp->rc.wanted, diw_rdmap_rc_place(&qp->rdmap)->placed);
}

bool diw_confirm_asked(const struct diw_qp *qp)
{
	return diw_rdmap_rc_after(qp->rc.asked, diw_rdmap_rc_place(&qp->rdmap)->placed);
}

bool diw_confirm_lacks(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	return w->unconfirmed && diw_rdmap_rc_after(w->seq, diw_rdmap_rc_place(&qp->rdmap)->placed);
}

bool diw_confirm_holds(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	return w->signaled && diw_confirm_lacks(qp, w);
}

void diw_confirm_begin(struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_rdmap_wr *next)
{
	if (diw_rdmap_is_sending(&qp->rdmap))
		return;
	w->ask = qp->rc.confirm && diw_rdmap_rc_place(&qp->rdmap)->words && w->signaled && diw_wr_is_message(w) &&
		 !(next && diw_wr_has_response(next));
}

void diw_confirm_sent(struct diw_qp *qp, struct diw_rdmap_wr *w)
{
	const struct diw_rdmap_rc_place *p = diw_rdmap_rc_place(&qp->rdmap);

	if (!can_confirm(qp) || diw_wr_has_response(w))
		return;
	if (diw_wr_is_message(w))
		qp->rc.seq = p->sent;
	w->seq = qp->rc.seq;
	w->unconfirmed = diw_rdmap_rc_after(w->seq, p->placed);
	if (!w->signaled || !w->unconfirmed)
		return;
	qp->rc.wanted = w->seq;
	if (w->ask)
		qp->rc.asked = w->seq;
}

/* No request that is under way will bring the confirmation. */
static bool must_ask(const struct diw_qp *qp)
{
	const struct diw_rdmap *r = &qp->rdmap;

	return diw_confirm_waits(qp) && !diw_rc_is(qp, DIW_RC_PEER_ENDED) &&
	       !diw_confirm_asked(qp) && !diw_rdmap_rc_will_tell(r, qp->rc.wanted);
}

/* The peer's stream waits for a receive, or for room for a completion. Confirmations behind the waiting message cannot
 * be read, and the program may wait for a confirmed completion before it posts a receive. */
static bool is_stalled(const struct diw_qp *qp, uint64_t now)
{
	uint64_t since = diw_rdmap_rc_waits_since(&qp->rdmap);

	return since != DIW_NEVER && now - since >= STALL_NS;
}

void diw_confirm_run(struct diw_qp *qp, uint64_t now)
{
	struct diw_rdmap *r = &qp->rdmap;
	uint32_t upto = diw_rdmap_rc_place(r)->sent;
	bool ask;

	if (diw_confirm_waits(qp) && is_stalled(qp, now))
		diw_rdmap_rc_confirm(r, upto);
	if (diw_rdmap_is_sending(r) || diw_rdmap_rc_answering(r))
		return;
	ask = must_ask(qp);
	if ((diw_rdmap_rc_owes(r, now) || ask) && diw_rdmap_rc_tell(r, ask, now) == 0 && ask)
		qp->rc.asked = upto;
}

/* The peer has asked, and an answer can be sent. */
static bool may_answer(const struct diw_rdmap *r)
{
	return diw_rdmap_rc_place(r)->due && !diw_rdmap_is_sending(r) && !diw_rdmap_rc_answering(r);
}

void diw_confirm_last(struct diw_qp *qp, uint64_t now)
{
	struct diw_rdmap *r = &qp->rdmap;

	if (may_answer(r))
		diw_rdmap_rc_tell(r, false, now);
}

uint64_t diw_confirm_deadline(const struct diw_qp *qp)
{
	const struct diw_rdmap *r = &qp->rdmap;
	bool may = diw_rc_is(qp, DIW_RC_SENDS) && !diw_rc_is(qp, DIW_RC_IS_SHUT) && !qp->blocked;

	if (may && may_answer(r))
		return diw_rdmap_rc_place(r)->until;
	return may && diw_rdmap_is_waiting(r) && diw_confirm_waits(qp) ? diw_rdmap_rc_waits_since(r) + STALL_NS :
									 DIW_NEVER;
}
