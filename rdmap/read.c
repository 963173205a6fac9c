/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA Read (RFC 5040 section 5.2) without a reliable lower layer: the initiator keeps the list of outstanding Reads,
 * which alone authorises responses, and looks at their timeouts only when it has work to do anyway (thesis section
 * 6.3). The target keeps nothing after it has answered. Reads are idempotent: the application may ask again.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/trace.h"
#include "base/wire.h"
#include "rdmap/rdmap.h"

#define SHORTEST (50 * DIW_MS)

/* ---- Initiator ---- */

static uint64_t units(uint32_t length)
{
	return 1 + length / 65536;
}

static uint64_t timeout_of(const struct diw_rdmap *r, const struct diw_rdmap_wr *wr)
{
	uint64_t t = wr->timeout ? wr->timeout : r->read_timeout;

	if (t)
		return t;
	t = 8 * r->reads->unit_ns * units(wr->buf.len);
	if (t < SHORTEST)                       /* a busy machine may not run the target for that long */
		return SHORTEST;
	return t < 10 * DIW_S ? t : 10 * DIW_S;
}

static struct diw_rdmap_read *find(const struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn)
{
	const struct diw_list *head = &r->reads->hash[msn % DIW_RDMAP_READS], *l;

	for (l = head->next; l != head; l = l->next) {
		struct diw_rdmap_read *read = diw_container(l, struct diw_rdmap_read, hash);

		if (read->msn == msn && diw_addr_eq(&read->dst, peer))
			return read;
	}
	return NULL;
}

void diw_rdmap_read_release(struct diw_rdmap *r, struct diw_rdmap_read *read)
{
	diw_range_fini(&read->ranges, &r->reads->ranges);
	diw_pool_put(&r->reads->pool, read);
}

static void deliver(struct diw_rdmap *r)
{
	struct diw_list *l;

	while ((l = diw_list_first(&r->reads->done)) && r->up->send_room(r->up_ctx)) {
		struct diw_rdmap_read *read = diw_container(l, struct diw_rdmap_read, link);

		diw_list_del(l);
		if (!r->up->read_done(r->up_ctx, read))
			diw_rdmap_read_release(r, read);
	}
}

static void finish(struct diw_rdmap *r, struct diw_rdmap_read *read, uint8_t status)
{
	read->status = status;
	diw_list_del(&read->hash);
	diw_list_del(&read->link);
	if (status == DIW_RDMAP_OK && !read->signaled) {
		diw_rdmap_read_release(r, read);
		return;
	}
	diw_list_add_tail(&r->reads->done, &read->link);
	deliver(r);
}

static void check_timeouts(struct diw_rdmap *r, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &r->reads->active) {
		struct diw_rdmap_read *read = diw_container(l, struct diw_rdmap_read, link);

		if (now < read->deadline_ns)
			continue;
		r->c->read_timeouts++;
		DIW_TRACE_READ_TIMEOUT(r->c, read->msn, read->length, read->ranges.bytes, read->dst.port);
		finish(r, read, DIW_RDMAP_TIMEOUT);
	}
}

static int send_request(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, uint64_t now)
{
	uint8_t body[DIW_RDMAP_READ_LEN];
	const struct iovec iov = { body, sizeof body };
	int64_t budget = 1;                     /* one segment, whatever the rate limit left */
	struct diw_ddp_tx *tx = &r->tx;

	diw_put32(body, wr->buf.n ? wr->buf.sge[0].stag : 0);
	diw_put64(body + 4, wr->buf.n ? wr->buf.sge[0].to : 0);
	diw_put32(body + 12, wr->buf.len);
	diw_put32(body + 16, wr->stag);
	diw_put64(body + 20, wr->to);
	tx->dst = wr->dst;
	if (!tx->active) {
		tx->h = (struct diw_ddp_hdr){ .opcode = DIW_OP_READ_REQUEST, .qn = 1, .qkey = wr->qkey,
					      .length = sizeof body };
		diw_ddp_tx_begin(&r->ddp, tx, true);
	}
	return diw_ddp_tx_run(&r->ddp, tx, &iov, &budget, now);
}

static bool sink_is_writable(const struct diw_rdmap *r, const struct diw_ddp_buf *buf)
{
	for (uint32_t i = 0; i < buf->n; i++) {
		uint8_t *addr;

		if (buf->sge[i].len &&
		    diw_stag_resolve(r->ddp.stags, buf->sge[i].stag, &r->ddp.user, DIW_STAG_LOCAL_WRITE, NULL,
				     buf->sge[i].to, buf->sge[i].len, &addr) != 0)
			return false;
	}
	return true;
}

int diw_rdmap_read_begin(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now)
{
	struct diw_rdmap_read *read;
	int rc;

	check_timeouts(r, now);
	if (!r->tx.active && !sink_is_writable(r, &wr->buf)) {
		*status = DIW_RDMAP_LOCAL_PROT;
		return 0;
	}
	if (r->reads->pool.used == r->reads->pool.cap)
		return -ENOSPC;
	rc = send_request(r, wr, now);
	if (rc < 0)
		return rc;
	r->c->read_requests_tx++;
	read = diw_pool_get(&r->reads->pool);
	read->wr_id = wr->wr_id;
	read->stag = wr->buf.n ? wr->buf.sge[0].stag : 0;
	read->to = wr->buf.n ? wr->buf.sge[0].to : 0;
	read->begun_ns = now;
	read->deadline_ns = now + timeout_of(r, wr);
	read->dst = wr->dst;
	read->dst.path = 0;             /* the peer is the same whichever way */
	read->length = wr->buf.len;
	read->msn = r->tx.h.msn;
	read->fault = 0;
	read->signaled = wr->signaled;
	memcpy(read->sge, wr->buf.sge, wr->buf.n * sizeof *read->sge);
	read->buf = (struct diw_ddp_buf){ read->sge, wr->buf.n, wr->buf.len };
	diw_range_init(&read->ranges);
	diw_list_add_tail(&r->reads->active, &read->link);
	diw_list_add_tail(&r->reads->hash[read->msn % DIW_RDMAP_READS], &read->hash);
	return 0;
}

uint16_t diw_rdmap_read_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t)
{
	struct diw_rdmap_read *read = find(r, seg->src, seg->h.msn);

	if (!read || seg->h.length != read->length || seg->h.stag != read->stag || seg->h.to - seg->h.mo != read->to)
		return DIW_FAULT_READ_UNMATCHED;
	t->buf = read->buf;
	t->cookie = read;
	return 0;
}

void diw_rdmap_read_placed(struct diw_rdmap *r, struct diw_rdmap_read *read, const struct diw_ddp_seg *seg,
			   uint64_t now)
{
	uint64_t unit;

	if (seg->len && diw_range_add(&read->ranges, &r->reads->ranges, seg->h.mo, seg->h.mo + seg->len) < 0)
		r->c->record_ranges_full++;
	if (read->ranges.bytes == read->length) {
		unit = (now - read->begun_ns) / units(read->length);
		r->reads->unit_ns += (unit >> 3) - (r->reads->unit_ns >> 3);
		finish(r, read, DIW_RDMAP_OK);
	}
	check_timeouts(r, now);
}

bool diw_rdmap_read_refused(struct diw_rdmap *r, const struct diw_addr *src, uint32_t msn, uint16_t fault)
{
	struct diw_rdmap_read *read = find(r, src, msn);

	if (!read)
		return false;
	read->fault = fault;
	finish(r, read, DIW_RDMAP_REFUSED);
	return true;
}

/* ---- Target ---- */

static uint16_t admit(struct diw_rdmap *r, const struct diw_ddp_seg *seg, bool *merged)
{
	struct diw_list *l, *head = &r->reads->answers;
	int of_source = 0;

	*merged = false;
	for (l = head->next; l != head; l = l->next) {
		struct diw_rdmap_answer *a = diw_container(l, struct diw_rdmap_answer, link);

		if (!diw_addr_eq(&a->tx.dst, seg->src))
			continue;
		if (a->msn == seg->h.msn && a->epoch == seg->h.epoch) {
			r->c->read_merged++;
			*merged = true;
			return 0;
		}
		of_source++;
	}
	if (of_source >= DIW_RDMAP_READS_SOURCE || r->reads->answer_pool.used == DIW_RDMAP_READS)
		return DIW_FAULT_READ_LIMIT;
	return 0;
}

uint16_t diw_rdmap_read_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	const uint8_t *p = seg->payload;
	struct diw_rdmap_answer *a;
	uint8_t *from;
	uint32_t length;
	uint16_t fault;
	bool merged;

	r->c->read_requests_rx++;
	if (seg->group)                         /* one small datagram would draw an answer of every host */
		return DIW_FAULT_GROUP;
	if (seg->len != DIW_RDMAP_READ_LEN)
		return DIW_FAULT_SHORT;
	length = diw_get32(p + 12);
	if (length > DIW_RDMAP_MAX_READ)
		return DIW_FAULT_TOO_LONG;
	fault = diw_stag_resolve(r->ddp.stags, diw_get32(p + 16), &r->ddp.user, DIW_STAG_REMOTE_READ, seg->src,
				 diw_get64(p + 20), length, &from);
	if (fault == 0)
		fault = admit(r, seg, &merged);
	if (fault || merged)
		return fault;
	a = diw_pool_get(&r->reads->answer_pool);
	a->stag = diw_get32(p + 16);
	a->to = diw_get64(p + 20);
	a->msn = seg->h.msn;
	a->epoch = seg->h.epoch;
	a->cause = *seg;
	memcpy(a->raw, seg->raw, sizeof a->raw);
	a->cause.raw = a->raw;
	a->tx.dst = *seg->src;
	a->tx.h = (struct diw_ddp_hdr){ .tagged = true, .opcode = DIW_OP_READ_RESPONSE, .msn = seg->h.msn,
					.length = length, .stag = diw_get32(p), .to = diw_get64(p + 4) };
	diw_ddp_tx_begin(&r->ddp, &a->tx, false);
	diw_list_add_tail(&r->reads->answers, &a->link);
	return 0;
}

/* Those in progress take turns, a burst each. The STag is looked up again each time: it may have been deregistered. */
int diw_rdmap_answer(struct diw_rdmap *r, int64_t *budget, uint64_t now)
{
	struct diw_list *l;

	if (r->type == DIW_TYPE_RC)
		return diw_rdmap_rc_answer(r, budget, now);

	while ((l = diw_list_first(&r->reads->answers))) {
		struct diw_rdmap_answer *a = diw_container(l, struct diw_rdmap_answer, link);
		int64_t turn = *budget < 65536 ? *budget : 65536, left = turn;
		struct iovec iov;
		uint8_t *from;
		uint16_t fault;
		int rc = 0;

		fault = diw_stag_resolve(r->ddp.stags, a->stag, &r->ddp.user, DIW_STAG_REMOTE_READ, &a->tx.dst, a->to,
					 a->tx.h.length, &from);
		if (fault == 0) {
			iov = (struct iovec){ from, a->tx.h.length };
			rc = diw_ddp_tx_run(&r->ddp, &a->tx, &iov, &left, now);
			*budget -= turn - left;
		} else {
			a->cause.src = &a->tx.dst;
			diw_fault_count(r->c, fault);
			diw_rdmap_term_send(r, &a->cause, fault, now);
		}
		diw_list_del(&a->link);
		if (rc == 0) {
			r->c->read_answered += fault == 0;
			diw_pool_put(&r->reads->answer_pool, a);
			continue;
		}
		diw_list_add_tail(&r->reads->answers, &a->link);
		if (rc == -EAGAIN || *budget <= 0)
			return rc;
	}
	return 0;
}

/* ---- Both ---- */

void diw_rdmap_timers(struct diw_rdmap *r, uint64_t now)
{
	if (r->type == DIW_TYPE_RC)             /* what waits there is asked anew at every look */
		return;
	diw_ddp_timers(&r->ddp, now);
	diw_rdmap_write_timer(r, now);
	check_timeouts(r, now);
	deliver(r);
}

uint64_t diw_rdmap_deadline(const struct diw_rdmap *r, bool waiting)
{
	const struct diw_list *l, *head;
	uint64_t t;

	if (r->type == DIW_TYPE_RC)
		return r->ddp.order.waits_until ? diw_min64(r->ddp.order.waits_until, r->ddp.order.asks_at) : DIW_NEVER;
	t = diw_min64(diw_ddp_deadline(&r->ddp), diw_rdmap_write_deadline(r));
	if (r->ddp.order.waits_until)
		t = diw_min64(t, r->ddp.order.waits_until);
	head = &r->reads->active;
	if (waiting)
		for (l = head->next; l != head; l = l->next)
			t = diw_min64(t, diw_container(l, struct diw_rdmap_read, link)->deadline_ns);
	return t;
}
