/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC with confirmation: which request the peer's Terminate refuses (docs/rc-wire.md section 7.2). It completes with the
 * error, also if it is not signalled, and the requests behind it are flushed. Requests that are not signalled leave the
 * queue before they are confirmed. The slots of the last ones keep their contents (diw_sq_oldest()), so the head of the
 * queue returns to the one that was refused.
 */
#include "base/fault.h"
#include "verbs/confirm.h"
#include "verbs/qp.h"

/* It has an MSN on the queue of Sends. */
static bool wr_takes_recv(const struct diw_rdmap_wr *w)
{
	return w->opcode == DIW_OP_SEND || (w->opcode == DIW_OP_WRITE && w->imm_valid);
}

/* A Write without immediate needs no receive. */
static bool may_refuse(const struct diw_rdmap_wr *w, uint16_t fault)
{
	return fault != DIW_FAULT_NO_BUFFER || w->opcode != DIW_OP_WRITE || w->imm_valid;
}

static bool has_begun(const struct diw_qp *qp)
{
	return qp->rc.confirm && diw_rdmap_is_sending(&qp->rdmap);
}

/* ---- Each returns a number from FROM on, or NEXT: the request that has begun, or none ---- */

static uint32_t refused_read(const struct diw_sq *sq, uint32_t from, uint32_t next)
{
	while (from != next && diw_sq_slot(sq, from)->status != DIW_RDMAP_REFUSED)
		from++;
	return from;
}

static uint32_t first_not_placed(const struct diw_qp *qp, uint32_t from, uint32_t next)
{
	for (; from != next; from++) {
		const struct diw_rdmap_wr *w = diw_sq_slot(&qp->sq, from);

		if (diw_wr_is_message(w) && diw_confirm_lacks(qp, w))
			break;
	}
	return from;
}

/* Without a quoted header it is the oldest request that the peer has not confirmed: that one or a younger one was
 * refused. */
static uint32_t first_held(const struct diw_qp *qp, uint32_t from, uint32_t next, uint16_t fault)
{
	for (; from != next; from++) {
		const struct diw_rdmap_wr *w = diw_sq_slot(&qp->sq, from);

		if (diw_confirm_holds(qp, w) && may_refuse(w, fault))
			break;
	}
	return from;
}

/* The oldest message that fits the quoted header. False: none does. */
static bool find_quoted(const struct diw_qp *qp, uint32_t from, uint32_t next, uint32_t *found)
{
	uint32_t msn = diw_rdmap_rc_send_msn(&qp->rdmap);
	bool any = has_begun(qp) && diw_rdmap_rc_quotes(&qp->rdmap, diw_sq_slot(&qp->sq, next), msn);

	*found = next;
	for (uint32_t i = next; i-- != from; ) {
		const struct diw_rdmap_wr *w = diw_sq_slot(&qp->sq, i);

		msn -= wr_takes_recv(w);
		if (!diw_confirm_lacks(qp, w) || !diw_rdmap_rc_quotes(&qp->rdmap, w, msn))
			continue;
		*found = i;
		any = true;
	}
	return any;
}

/* ---- The end of the request ---- */

/* Requests before AT have been placed. A Read has its status already. */
static void refuse_at(struct diw_qp *qp, uint32_t at, uint8_t status, uint16_t fault)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);
	struct diw_rdmap_wr *w = diw_sq_slot(sq, at);

	for (uint32_t i = head; (int32_t)(at - i) > 0; i++)
		diw_sq_slot(sq, i)->unconfirmed = false;
	w->unconfirmed = false;
	if (w->status == DIW_RDMAP_OK) {
		w->status = status;
		w->fault = fault;
	}
	if ((int32_t)(head - at) > 0)
		atomic_store_explicit(&sq->head, at, memory_order_release);
}

void diw_rc_refuse(struct diw_qp *qp, uint16_t fault)
{
	const struct diw_rdmap_rc_quote *q = diw_rdmap_rc_quote(&qp->rdmap);
	const struct diw_sq *sq = &qp->sq;
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed);
	bool other = q->header && !diw_rdmap_rc_quotes_message(&qp->rdmap);      /* an answer, or a Read */
	uint32_t at = refused_read(sq, head, next);

	if (at == next && q->exact)
		at = first_not_placed(qp, diw_sq_oldest(sq), next);
	else if (at == next && !other && !(q->header && find_quoted(qp, diw_sq_oldest(sq), next, &at)))
		at = first_held(qp, head, next, fault);
	if (at == next) {                       /* the peer may refuse a message before all of it was sent */
		struct diw_rdmap_wr *w = diw_sq_slot(sq, next);

		if (other || !has_begun(qp) || !may_refuse(w, fault))
			return;
		w->first = qp->link->taken;
		atomic_store_explicit(&qp->sq.next, next + 1, memory_order_relaxed);
	}
	refuse_at(qp, at, other ? DIW_RDMAP_FLUSHED : DIW_RDMAP_REFUSED, fault);
}
