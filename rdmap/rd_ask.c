/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads and atomics over reliable datagrams at the requester. A peer answers in the order of the requests. The link
 * notices a lost peer only while segments to it are not acknowledged. So a peer that has owed an answer for long is
 * probed by a Write of no octets.
 */
#include <errno.h>

#include "base/wire.h"
#include "rdmap/rd.h"

#define PROBE_NS DIW_S

static bool rd_wr_reads(const struct diw_rdmap_wr *wr)
{
	return wr->opcode == DIW_OP_READ_REQUEST;
}

bool diw_rdmap_rd_ask_waits(const struct rd_dest *d, const struct diw_rdmap_wr *wr)
{
	bool asks = rd_wr_reads(wr) || wr->opcode == DIW_OP_ATOMIC_REQUEST;

	return (wr->fence && d->nasked) || (asks && d->nasked == RD_ASKED);
}

/* Writes the request. Returns its octets. */
static uint32_t request_put(uint8_t *body, const struct diw_rdmap_wr *wr)
{
	struct diw_read_request q;

	if (!rd_wr_reads(wr)) {
		diw_rdmap_atomic_put(body, wr, wr->seq);
		return DIW_RDMAP_ATOMIC_LEN;
	}
	q = diw_rdmap_read_of(wr);
	diw_read_request_put(body, &q);
	return DIW_RDMAP_READ_LEN;
}

int diw_rdmap_rd_ask(struct diw_rdmap *r, struct rd_dest *d, struct rd_req *req, uint64_t now)
{
	struct diw_rdmap_wr *wr = &req->wr;
	uint8_t body[DIW_RDMAP_ATOMIC_LEN];
	struct iovec iov = { .iov_base = body };
	uint32_t first = diw_ddp_taken(&r->ddp);
	int64_t budget = 1;                     /* one segment, independent of the rate limit */
	int rc;

	if (!d->tx.active) {
		if (!(rd_wr_reads(wr) ? diw_rdmap_sink_is_writable : diw_rdmap_atomic_sink)(r, &wr->buf)) {
			wr->status = DIW_RDMAP_LOCAL_PROT;
			return 0;
		}
		d->tx.dst = wr->dst;
		d->tx.owner = NULL;
		d->tx.h = (struct diw_ddp_hdr){
			.opcode = wr->opcode, .qn = DIW_QN_REQUEST, .qkey = wr->qkey,
			.length = rd_wr_reads(wr) ? DIW_RDMAP_READ_LEN : DIW_RDMAP_ATOMIC_LEN,
		};
		diw_ddp_tx_begin(&r->ddp, &d->tx, true);
		wr->seq = d->tx.h.msn;
	}
	iov.iov_len = request_put(body, wr);
	rc = diw_ddp_tx_run(&r->ddp, &d->tx, &iov, &budget, now);
	if (rc < 0)
		return rc;
	diw_rdmap_rd_sent(r->rd, &req->msg, first, 1);
	r->c->read_requests_tx += rd_wr_reads(wr);
	r->c->atomics_tx += !rd_wr_reads(wr);
	wr->got = 0;
	req->asked = true;
	req->probed = false;
	req->heard = now;
	diw_list_init(&req->ask);
	diw_list_add_tail(&r->rd->asked, &req->ask);
	r->rd->probe_at = diw_min64(r->rd->probe_at, now + PROBE_NS);
	d->nasked++;
	return 0;
}

void diw_rdmap_rd_unask(struct rd_req *req)
{
	req->asked = false;
	req->msg.dest->nasked--;
	diw_list_del(&req->ask);
}

/* The oldest request that D has not answered, or NULL. */
static struct rd_req *asked_first(const struct rd_dest *d)
{
	const struct diw_list *l = d->nasked ? d->reqs.next : NULL;
	struct rd_req *req;

	if (!l)
		return NULL;
	while (!(req = diw_container((struct diw_list *)l, struct rd_req, msg.link))->asked)
		l = l->next;
	return req;
}

/* The same if its MSN is MSN; else NULL. */
static struct rd_req *asked_oldest(struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn)
{
	const struct rd_dest *d = diw_rdmap_rd_dest(r->rd, peer);
	struct rd_req *req = d ? asked_first(d) : NULL;

	return req && req->wr.seq == msn ? req : NULL;
}

static void ask_end(struct diw_rdmap *r, struct rd_req *req, uint8_t status)
{
	req->wr.status = status;
	diw_rdmap_rd_unask(req);
	if (req->msg.dest->next)                /* the next request may have waited for this one */
		diw_rdmap_rd_dest_ready(r->rd, req->msg.dest);
	diw_rdmap_rd_settle(r->rd, &req->msg);
}

/* ---- Answers ---- */

/* An answer shows that the peer has taken the request. A probe may be behind a message that the peer does not take. */
static void ask_answered(struct diw_rdmap *r, struct rd_req *req, uint8_t status)
{
	diw_rdmap_rd_unsent(r->rd, &req->msg);
	ask_end(r, req, status);
}

/* The Read of which SEG is the next segment of the Response, or NULL. */
static struct rd_req *asked_read(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	const struct diw_ddp_hdr *h = &seg->h;
	struct rd_req *req = asked_oldest(r, seg->src, h->msn);
	const struct diw_rdmap_wr *wr = req ? &req->wr : NULL;

	return wr && rd_wr_reads(wr) && h->length == wr->buf.len && h->stag == diw_rdmap_sink_stag(wr) &&
	       h->to - h->mo == diw_rdmap_sink_to(wr) && h->mo == wr->got ? req : NULL;
}

uint16_t diw_rdmap_rd_response(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t)
{
	struct rd_req *req = asked_read(r, seg);

	if (!req)
		return DIW_FAULT_READ_UNMATCHED;
	if (req->wr.status != DIW_RDMAP_OK || !diw_rdmap_sink_is_writable(r, &req->wr.buf))
		t->kind = DIW_TARGET_MESSAGE;
	t->buf = req->wr.buf;
	t->cookie = req;
	return 0;
}

/* A deregistered sink takes no bytes. The Read still waits for the end of its Response, since the peer counts it until
 * then. */
uint16_t diw_rdmap_rd_response_dropped(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	struct rd_req *req = asked_read(r, seg);

	req->wr.status = DIW_RDMAP_LOCAL_PROT;
	diw_rdmap_rd_response_placed(r, req, seg->len);
	return DIW_FAULT_READ_UNMATCHED;
}

void diw_rdmap_rd_response_placed(struct diw_rdmap *r, struct rd_req *req, uint32_t len)
{
	const struct diw_rdmap_wr *wr = &req->wr;

	req->wr.got += len;
	if (wr->got != wr->buf.len)
		return;
	if (wr->invalidate && wr->buf.n && wr->status == DIW_RDMAP_OK)
		diw_ddp_invalidate(&r->ddp, diw_rdmap_sink_stag(wr), NULL, false);
	ask_answered(r, req, wr->status);
}

uint16_t diw_rdmap_rd_atomic_response(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	struct rd_req *req = asked_oldest(r, seg->src, seg->h.msn);

	if (!req || rd_wr_reads(&req->wr))
		return DIW_FAULT_READ_UNMATCHED;
	if (seg->len != DIW_RDMAP_ATOMIC_RESPONSE_LEN)
		return DIW_FAULT_STREAM;
	ask_answered(r, req, diw_rdmap_atomic_place(r, &req->wr, seg));
	return 0;
}

uint16_t diw_rdmap_rd_terminated(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	struct rd_req *req;

	if (seg->len < DIW_TERM_FIXED + DIW_U_MSN + 4)
		return DIW_FAULT_SHORT;
	req = asked_oldest(r, seg->src, diw_get32(seg->payload + DIW_TERM_FIXED + DIW_U_MSN));
	if (!req)
		return DIW_FAULT_READ_UNMATCHED;
	r->c->error_rx++;
	req->wr.fault = diw_get16(seg->payload);
	ask_answered(r, req, DIW_RDMAP_REFUSED);
	return 0;
}

void diw_rdmap_rd_asked_again(struct diw_rdmap *r, const struct diw_addr *peer)
{
	const struct rd_dest *d = diw_rdmap_rd_dest(r->rd, peer);
	struct rd_req *req = d ? asked_first(d) : NULL;

	if (req)                                /* no part of the other Responses has come */
		req->wr.got = 0;
}

void diw_rdmap_rd_asked_fail(struct diw_rdmap *r, const struct diw_addr *peer, int errnum)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &r->rd->asked) {
		struct rd_req *req = diw_container(l, struct rd_req, ask);

		if (!diw_addr_eq(&req->msg.dest->addr, peer) || (!errnum && req->msg.sent && !req->probed))
			continue;
		req->wr.fault = (uint16_t)(errnum ? errnum : ECONNRESET);
		ask_end(r, req, DIW_RDMAP_PEER_GONE);
	}
}

/* ---- Probes of peers that owe an answer ---- */

static void dest_probe(struct diw_rdmap *r, struct rd_req *req, uint64_t now)
{
	uint32_t first = diw_ddp_taken(&r->ddp);
	struct diw_ddp_tx tx = { .dst = req->wr.dst,
				 .h = { .tagged = true, .opcode = DIW_OP_WRITE, .qkey = req->wr.qkey } };
	const struct iovec none = { NULL, 0 };
	int64_t budget = 1;

	diw_ddp_tx_begin(&r->ddp, &tx, true);
	if (diw_ddp_tx_run(&r->ddp, &tx, &none, &budget, now) == 0)
		diw_rdmap_rd_sent(r->rd, &req->msg, first, 1);
}

void diw_rdmap_rd_probe(struct diw_rdmap *r, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &r->rd->asked) {
		struct rd_req *req = diw_container(l, struct rd_req, ask);
		struct rd_dest *d = req->msg.dest;

		/* A segment to the peer is in flight, or the Write would be between the segments of a message. A
		 * request that has not begun does not count: it may wait for this answer. */
		if (now - req->heard < PROBE_NS || now - d->probed < PROBE_NS || req->msg.sent || d->tx.active)
			continue;
		d->probed = req->heard = now;
		req->probed = true;
		dest_probe(r, req, now);
	}
	r->rd->probe_at = diw_list_empty(&r->rd->asked) ? DIW_NEVER : now + PROBE_NS;
}
