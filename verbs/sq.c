/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring of a send queue: its requests complete, are refused, or are flushed. The device's lock is held. */
#include <errno.h>

#include "verbs/qp.h"

int diw_sq_init(struct diw_sq *sq, const struct diw_qp_attr *attr, bool keep)
{
	uint32_t size = 1;

	while (size < attr->sq_depth)
		size *= 2;
	if (keep)
		size *= 2;
	sq->depth = attr->sq_depth;
	sq->mask = size - 1;
	sq->max_sge = attr->max_sge;
	sq->max_inline = attr->max_inline;
	atomic_store_explicit(&sq->open, DIW_SQ_CLOSED, memory_order_relaxed);
	sq->slot_size = sizeof(struct diw_rdmap_wr) + sq->max_sge * sizeof(struct diw_ddp_sge) + sq->max_inline;
	sq->slot_size = (sq->slot_size + 15) & ~(size_t)15;
	if (diw_arena_init(&sq->arena, size * sq->slot_size) < 0)
		return -ENOMEM;
	sq->slots = diw_arena_take(&sq->arena, size * sq->slot_size);
	pthread_mutex_init(&sq->post, NULL);
	return 0;
}

void diw_sq_fini(struct diw_sq *sq)
{
	if (sq->slots)
		pthread_mutex_destroy(&sq->post);
	diw_arena_fini(&sq->arena);
}

/* ---- The end of a request ---- */

/* Removes W, after which HEAD is the oldest request. The slot becomes free before the completion is published, so that
 * a thread that polls the completion can post at once. */
static void wr_leave(struct diw_qp *qp, const struct diw_rdmap_wr *w, uint32_t head, bool told, uint8_t status)
{
	if (told)
		diw_qp_fill_send_wc(qp, w, status);
	atomic_store_explicit(&qp->sq.head, head, memory_order_release);
	if (told)
		diw_cq_push(qp->send_cq);
}

/* Posters fill at most `depth` slots from the head on. The slots in front of these are not filled again. */
uint32_t diw_sq_oldest(const struct diw_sq *sq)
{
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);
	uint32_t left = head - sq->since, kept = sq->mask + 1 - sq->depth;

	return head - (left < kept ? left : kept);
}

void diw_sq_unsent(struct diw_qp *qp, uint32_t first, uint32_t n, int errnum)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t end = atomic_load_explicit(&sq->next, memory_order_relaxed) + diw_rdmap_is_sending(&qp->rdmap);

	for (uint32_t i = atomic_load_explicit(&sq->head, memory_order_relaxed); i != end; i++) {
		struct diw_rdmap_wr *w = diw_sq_slot(sq, i);
		bool among = (int32_t)(w->first - (first + n)) < 0 && (int32_t)(w->seq - first) > 0;

		if (!among || w->status != DIW_RDMAP_OK || w->opcode == DIW_OP_READ_REQUEST)
			continue;
		w->status = DIW_RDMAP_UNSENT;
		w->fault = (uint16_t)errnum;
	}
}

/* Whether the refusal of an unsignalled request needs no completion. A program that asks for no completions may never
 * poll, so a refusal must not stop its other requests. */
static bool may_be_silent(const struct diw_rdmap_wr *w)
{
	return !w->signaled && w->status == DIW_RDMAP_UNSENT;
}

bool diw_sq_retire(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);

	while (head != atomic_load_explicit(&sq->next, memory_order_relaxed)) {
		const struct diw_rdmap_wr *w = diw_sq_slot(sq, head);
		bool told;

		if (qp->ops->outstanding(qp, w))
			break;
		told = w->signaled || w->status != DIW_RDMAP_OK;
		if (told && !diw_qp_has_room(qp, qp->send_cq, 1)) {
			if (!may_be_silent(w))
				return false;
			told = false;
		}
		wr_leave(qp, w, ++head, told, w->status);
	}
	return true;
}

void diw_sq_flush(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t tail = atomic_load_explicit(&sq->tail, memory_order_acquire);
	bool failed = false;                    /* no request succeeds behind one that failed */

	diw_sq_close(sq);
	for (uint32_t i = atomic_load_explicit(&sq->head, memory_order_relaxed); i != tail; i++) {
		struct diw_rdmap_wr *w = diw_sq_slot(sq, i);
		bool executed = i - atomic_load_explicit(&sq->next, memory_order_relaxed) >= sq->depth;

		if (!qp->ops->give_up(qp, w, executed) || (failed && w->status == DIW_RDMAP_OK))
			w->status = DIW_RDMAP_FLUSHED;
		failed |= w->status != DIW_RDMAP_OK;
	}
	atomic_store_explicit(&sq->next, tail, memory_order_relaxed);
	diw_sq_retire(qp);
}

/* ---- An empty queue ---- */

/* Whether a request has begun and is not complete. A Read of UD leaves the queue when its request was sent. */
bool diw_sq_busy(const struct diw_qp *qp)
{
	const struct diw_rdmap *r = &qp->rdmap;

	return diw_rdmap_is_sending(r) || diw_sq_has_executed(qp) || diw_rdmap_has_reads(r) ||
	       diw_rdmap_rd_busy(r);
}

void diw_sq_tell_drained(struct diw_qp *qp)
{
	if (!qp->tell_drained || diw_sq_busy(qp))
		return;
	qp->tell_drained = false;
	diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_SQ_DRAINED, .qp = qp, .ctx = qp->ctx });
}
