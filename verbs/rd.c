/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams. Every request names its destination, as with UD, and completes when the destination has
 * acknowledged it. Requests to one destination take effect in order. Requests to several destinations complete in any
 * order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "verbs/dgram_qp.h"
#include "wire/rd_hdr.h"

#define DEAD_NS (10 * DIW_S)
#define IDLE_NS (60 * DIW_S)
#define ACK_NS (40 * DIW_US)
#define PEER_SEGMENTS 2048u
#define HELD 1024u

/* ---- Begin and end ---- */

static int rd_qp_check(const struct diw_qp_attr *a)
{
	const char *crc = getenv("DIWARP_CRC");

	if (crc && *crc && strcmp(crc, "on") != 0 && strcmp(crc, "off") != 0 && strcmp(crc, "auto") != 0)
		return diw_fail(-EINVAL, "diw_qp_create: DIWARP_CRC=%.64s: not on, off or auto", crc);
	if (a->dgram.grh)
		return diw_fail(-EINVAL, "diw_qp_create: grh: only for UD queue pairs");
	if (a->rd.error != DIW_RD_ERROR_PEER && a->rd.error != DIW_RD_ERROR_QP)
		return diw_fail(-EINVAL, "diw_qp_create: rd.error %d: not DIW_RD_ERROR_PEER or DIW_RD_ERROR_QP",
				(int)a->rd.error);
	return diw_dgram_qp_check(a);
}

static int rd_qp_open_link(struct diw_qp *qp, const struct diw_qp_attr *a, struct diw_dgram *d)
{
	const char *crc = getenv("DIWARP_CRC");
	uint32_t mtu = qp->dev->info.mtu, seg = a->mulpdu > mtu ? a->mulpdu : mtu;
	const struct diw_rd_cfg cfg = {
		.dead_ns = DEAD_NS, .idle_ns = IDLE_NS, .ack_ns = ACK_NS, .peers = a->dgram.max_sources,
		.slots = DIW_RDMAP_RD_SEGMENTS, .peer_slots = PEER_SEGMENTS, .held = HELD,
		.window = HELD,
		.max_seg = seg < DIW_DGRAM_MAX ? seg : DIW_DGRAM_MAX,
		.bare = !crc || strcmp(crc, "on") != 0,
		.suspended = diw_clock_suspended_ns,
		.clock = qp->dev->engine.clock, .clock_ctx = qp->dev->engine.clock_ctx,
	};

	return diw_rd_open(d, a->mulpdu ? a->mulpdu + DIW_RD_HDR_MAX : 0, &cfg, &diw_ddp_peers_up,
			   diw_rdmap_link_ctx(&qp->rdmap), &qp->link);
}

static int rd_qp_open(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	return diw_dgram_qp_open(qp, a, NULL, rd_qp_open_link);
}

/* Completes ended requests as far as there is room. False: some remain. */
static bool rd_qp_retire(struct diw_qp *qp)
{
	struct diw_rdmap_wr *w;

	while ((w = diw_rdmap_rd_done(&qp->rdmap))) {
		bool told = w->signaled || w->status != DIW_RDMAP_OK;

		if (told && !diw_qp_has_room(qp, qp->send_cq, 1))
			return false;
		/* A fault with another status: the memory was gone, and the peer refused the segment without it. */
		qp->rd_failed |= w->status == DIW_RDMAP_REFUSED || w->status == DIW_RDMAP_PEER_GONE || w->fault;
		if (told) {
			diw_qp_fill_send_wc(qp, w, w->status);
			diw_rdmap_rd_release(&qp->rdmap, w);
			diw_cq_push(qp->send_cq);
		} else {
			diw_rdmap_rd_release(&qp->rdmap, w);
		}
	}
	return true;
}

static void rd_qp_flush_requests(struct diw_qp *qp)
{
	diw_rdmap_rd_flush(&qp->rdmap);
	if (rd_qp_retire(qp))                      /* completions of these come before those of requests that have not
						    * begun */
		diw_qp_flush(qp);
}

static void rd_qp_abort(struct diw_qp *qp, uint64_t now)
{
	(void)now;
	if (qp->state != DIW_QPS_ERROR)
		diw_qp_tell_last_recv(qp);
	qp->state = DIW_QPS_ERROR;
	diw_rdmap_stop(&qp->rdmap);
	rd_qp_flush_requests(qp);
	qp->link->ops->discard(qp->link);
}

/* ---- Requests ---- */

static int rd_qp_check_send(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len)
{
	if (diw_sq_check_reliable(wr, opcode, len) < 0)
		return -EINVAL;
	if (opcode == DIW_OP_LOCAL_INV || opcode == DIW_OP_BIND_MW)
		return opcode;
	return diw_dgram_qp_check_dst(qp, wr, opcode, len);
}

static void rd_qp_fill(const struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
{
	(void)qp;
	w->dst = wr->dst;
	diw_sq_fill_reliable(w, wr);
}

static bool rd_qp_outstanding(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	(void)qp, (void)w;
	return false;                           /* a begun request is not in the ring any more */
}

static bool rd_qp_give_up(struct diw_qp *qp, struct diw_rdmap_wr *w, bool executed)
{
	(void)qp, (void)w;
	return executed;
}

static bool rd_qp_begin(struct diw_qp *qp, uint64_t now)
{
	(void)now;
	if (qp->state == DIW_QPS_ERROR)
		rd_qp_flush_requests(qp);
	return qp->state != DIW_QPS_ERROR;
}

/* Moves requests from the ring to the queues of their destinations. */
static void rd_qp_take_requests(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed), first = next;

	while (next != atomic_load_explicit(&sq->tail, memory_order_acquire) && !qp->hold &&
	       diw_rdmap_rd_begin(&qp->rdmap, diw_sq_slot(sq, next)))
		next++;
	if (next == first)
		return;
	atomic_store_explicit(&sq->next, next, memory_order_relaxed);
	atomic_store_explicit(&sq->head, next, memory_order_release);
}

static void rd_qp_run(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now)
{
	(void)rc_answers;
	rd_qp_retire(qp);                          /* their places become free */
	rd_qp_take_requests(qp);
	*rc = diw_rdmap_rd_run(&qp->rdmap, budget, now);
}

static void rd_qp_settle(struct diw_qp *qp, uint64_t now)
{
	rd_qp_retire(qp);
	if (qp->rd_failed && qp->rd_error == DIW_RD_ERROR_QP && qp->state != DIW_QPS_ERROR)
		rd_qp_abort(qp, now);
}

/* An acknowledgement may have ended requests, and made room for others. */
static bool rd_qp_rests(struct diw_qp *qp)
{
	rd_qp_retire(qp);
	return diw_rdmap_rd_rests(&qp->rdmap) && !diw_rdmap_is_waiting(&qp->rdmap) &&
	       !qp->link->ops->staged(qp->link) && !qp->rd_failed && !qp->metered;
}

static int rd_qp_reset(struct diw_qp *qp)
{
	qp->rd_failed = false;
	return diw_dgram_qp_reset(qp);
}

const struct diw_qp_ops diw_qp_ops_rd = {
	.type = DIW_QP_RD, .rdmap = &diw_rdmap_type_rd, .first = DIW_QPS_RTS,
	.max_mulpdu = DIW_DGRAM_MAX - DIW_SEAL_LEN - DIW_RD_HDR_MAX, .max_errors = 64,
	.qkey = true, .awaits_recv = true,
	.requests = 1u << DIW_WR_SEND | 1u << DIW_WR_WRITE | 1u << DIW_WR_WRITE_RECORD | 1u << DIW_WR_READ |
		    1u << DIW_WR_FETCH_ADD | 1u << DIW_WR_CMP_SWAP | 1u << DIW_WR_LOCAL_INV | 1u << DIW_WR_BIND_MW,
	.flags = DIW_SEND_FENCE | DIW_SEND_INVALIDATE | DIW_SEND_APART,
	.check = rd_qp_check, .open = rd_qp_open, .reset = rd_qp_reset, .abort = rd_qp_abort,
	.leave = rd_qp_abort, .query = diw_dgram_qp_query, .check_send = rd_qp_check_send, .fill = rd_qp_fill,
	.outstanding = rd_qp_outstanding, .give_up = rd_qp_give_up, .begin = rd_qp_begin, .run = rd_qp_run,
	.settle = rd_qp_settle, .rests = rd_qp_rests,
};
