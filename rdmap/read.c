/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The initiator's side of RDMA Read (RFC 5040 section 5.2) without a reliable lower layer. Only a Read in the list of
 * outstanding Reads authorises responses. Timeouts are checked only when there is other work to do (thesis section
 * 6.4). Reads are idempotent, so the application may repeat them. answer.c has the target's side.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/trace.h"
#include "base/wire.h"
#include "rdmap/int.h"

#define SHORTEST (50 * DIW_MS)
#define REPEATS 4                    /* repetitions because of challenges: bounded, since a proof may find no room */

/* ---- The list of Reads ---- */

int diw_rdmap_reads_init(struct diw_rdmap *r)
{
	struct diw_arena arena = { 0 };
	struct diw_rdmap_reads *rd;
	int rc = diw_arena_init(&arena, diw_arena_round(sizeof *rd) +
				diw_pool_bytes(sizeof(struct diw_rdmap_read), DIW_RDMAP_READS) +
				diw_pool_bytes(sizeof(struct diw_rdmap_answer), DIW_RDMAP_READS) +
				diw_pool_bytes(sizeof(struct diw_rdmap_reader), DIW_RDMAP_READS) +
				diw_range_pools_bytes(DIW_RDMAP_READS));

	if (rc < 0)
		return rc;
	rd = diw_arena_take(&arena, sizeof *rd);
	rd->arena = arena;
	diw_pool_init(&rd->pool, &rd->arena, sizeof(struct diw_rdmap_read), DIW_RDMAP_READS);
	diw_pool_init(&rd->answer_pool, &rd->arena, sizeof(struct diw_rdmap_answer), DIW_RDMAP_READS);
	diw_pool_init(&rd->reader_pool, &rd->arena, sizeof(struct diw_rdmap_reader), DIW_RDMAP_READS);
	diw_range_pools_init(&rd->ranges, &rd->arena, DIW_RDMAP_READS);
	diw_list_init(&rd->active);
	diw_list_init(&rd->done);
	diw_list_init(&rd->readers);
	diw_list_init(&rd->unproved.answers);
	for (int i = 0; i < DIW_RDMAP_READS; i++)
		diw_list_init(&rd->hash[i]);
	rd->unit_ns = 100 * DIW_MS / 8;
	rd->errors.seed = diw_random();
	r->reads = rd;
	return 0;
}

void diw_rdmap_reads_fini(struct diw_rdmap *r)
{
	struct diw_arena arena = r->reads->arena;

	diw_arena_fini(&arena);                 /* the arena holds this struct, so it must be copied first */
	r->reads = NULL;
}

static uint64_t read_units(uint32_t length)
{
	return 1 + length / 65536;
}

static uint64_t timeout_of(const struct diw_rdmap *r, const struct diw_rdmap_wr *wr)
{
	uint64_t t = wr->timeout ? wr->timeout : r->read_timeout;

	if (t)
		return t;
	t = 8 * r->reads->unit_ns * read_units(wr->buf.len);
	if (t < SHORTEST)                       /* a busy machine may not run the target for this long */
		return SHORTEST;
	return t < 10 * DIW_S ? t : 10 * DIW_S;
}

static struct diw_rdmap_read *read_find(const struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn)
{
	const struct diw_list *head = &r->reads->hash[msn % DIW_RDMAP_READS], *l;

	for (l = head->next; l != head; l = l->next) {
		struct diw_rdmap_read *read = diw_container(l, struct diw_rdmap_read, hash);

		if (read->msn == msn && diw_addr_eq(&read->dst.addr, peer))
			return read;
	}
	return NULL;
}

void diw_rdmap_read_release(struct diw_rdmap *r, struct diw_rdmap_read *read)
{
	diw_range_fini(&read->ranges, &r->reads->ranges);
	diw_pool_put(&r->reads->pool, read);
}

static void deliver_reads(struct diw_rdmap *r)
{
	struct diw_list *l;

	while ((l = diw_list_first(&r->reads->done)) && r->up->send_room(r->up_ctx)) {
		struct diw_rdmap_read *read = diw_container(l, struct diw_rdmap_read, link);

		diw_list_del(l);
		if (!r->up->read_done(r->up_ctx, read))
			diw_rdmap_read_release(r, read);
	}
}

static void read_finish(struct diw_rdmap *r, struct diw_rdmap_read *read, uint8_t status)
{
	read->status = status;
	diw_list_del(&read->hash);
	diw_list_del(&read->link);
	if (status == DIW_RDMAP_OK && !read->signaled) {
		diw_rdmap_read_release(r, read);
		return;
	}
	diw_list_add_tail(&r->reads->done, &read->link);
	deliver_reads(r);
}

static void check_timeouts(struct diw_rdmap *r, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &r->reads->active) {
		struct diw_rdmap_read *read = diw_container(l, struct diw_rdmap_read, link);

		if (now < read->deadline_ns)
			continue;
		r->c->read_timeouts++;
		DIW_TRACE_READ_TIMEOUT(r->c, read->msn, read->length, read->ranges.bytes, read->dst.addr.port);
		read_finish(r, read, DIW_RDMAP_TIMEOUT);
	}
}

/* ---- Requests ---- */

/* Sends the request, with the MSN that TX has or with a new one. */
static int send_request(struct diw_rdmap *r, struct diw_rdmap_read *read, struct diw_ddp_tx *tx, bool draw_msn,
			uint64_t now)
{
	uint8_t body[DIW_RDMAP_READ_LEN];
	const struct iovec iov = { body, sizeof body };
	int64_t budget = 1;                     /* one segment, independent of the rate limit */

	diw_read_request_put(body, &(struct diw_read_request){ read->stag, read->to, read->length, read->from_stag,
							       read->from_to });
	tx->dst = read->dst;
	read->seg = diw_ddp_taken(&r->ddp);
	if (!tx->active) {
		tx->h = (struct diw_ddp_hdr){ .opcode = DIW_OP_READ_REQUEST, .qn = DIW_QN_REQUEST, .qkey = read->qkey,
					      .length = sizeof body, .msn = read->msn };
		diw_ddp_tx_begin(&r->ddp, tx, draw_msn);
	}
	return diw_ddp_tx_run(&r->ddp, tx, &iov, &budget, now);
}

bool diw_rdmap_read_may_repeat(const struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn)
{
	const struct diw_rdmap_read *read = read_find(r, peer, msn);

	return read && read->repeats < REPEATS;
}

/* Sends the request again behind the proof that the responder asked for. A segment that the link does not take is lost,
 * as in the network. */
void diw_rdmap_read_repeat(struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn, uint64_t now)
{
	struct diw_rdmap_read *read = read_find(r, peer, msn);
	struct diw_ddp_tx tx = { 0 };

	read->repeats++;
	send_request(r, read, &tx, false, now);
}

bool diw_rdmap_sink_is_writable(const struct diw_rdmap *r, const struct diw_ddp_buf *buf)
{
	for (uint32_t i = 0; i < buf->n; i++) {
		uint8_t *addr;

		if (buf->sge[i].len &&
		    diw_ddp_resolve(&r->ddp, buf->sge[i].stag, DIW_STAG_LOCAL_WRITE, NULL, buf->sge[i].to,
				    buf->sge[i].len, &addr) != 0)
			return false;
	}
	return true;
}

int diw_rdmap_read_begin(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now)
{
	struct diw_rdmap_read *read;
	int rc;

	check_timeouts(r, now);
	if (!r->tx.active && !diw_rdmap_sink_is_writable(r, &wr->buf)) {
		*status = DIW_RDMAP_LOCAL_PROT;
		return 0;
	}
	if (r->reads->pool.used == r->reads->pool.cap)
		return -ENOSPC;
	read = diw_pool_get(&r->reads->pool);
	read->stag = diw_rdmap_sink_stag(wr);
	read->to = diw_rdmap_sink_to(wr);
	read->from_stag = wr->stag;
	read->from_to = wr->to;
	read->qkey = wr->qkey;
	read->dst = wr->dst;
	read->length = wr->buf.len;
	read->fault = 0;
	read->unsent = false;
	diw_list_add_tail(&r->reads->active, &read->link);      /* before the request is sent: it may be refused within
								 * that call */
	rc = send_request(r, read, &r->tx, true, now);
	if (rc < 0) {
		diw_list_del(&read->link);
		diw_pool_put(&r->reads->pool, read);
		return rc;
	}
	r->c->read_requests_tx++;
	read->wr_id = wr->wr_id;
	read->begun_ns = now;
	read->deadline_ns = now + timeout_of(r, wr);
	read->msn = r->tx.h.msn;
	read->repeats = 0;
	read->signaled = wr->signaled;
	memcpy(read->sge, wr->buf.sge, wr->buf.n * sizeof *read->sge);
	read->buf = (struct diw_ddp_buf){ read->sge, wr->buf.n, wr->buf.len };
	diw_range_init(&read->ranges);
	diw_list_add_tail(&r->reads->hash[read->msn % DIW_RDMAP_READS], &read->hash);
	return 0;
}

uint16_t diw_rdmap_read_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t)
{
	struct diw_rdmap_read *read = read_find(r, seg->src, seg->h.msn);

	if (!read || seg->h.length != read->length || seg->h.stag != read->stag || seg->h.to - seg->h.mo != read->to)
		return DIW_FAULT_READ_UNMATCHED;
	t->buf = read->buf;
	t->cookie = read;
	return 0;
}

void diw_rdmap_read_placed(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap_read *read = cookie;
	struct diw_rdmap *r = ctx;
	uint64_t unit;

	if (seg->len && diw_range_add(&read->ranges, &r->reads->ranges, seg->h.mo, seg->h.mo + seg->len) < 0)
		r->c->record_ranges_full++;
	if (read->ranges.bytes == read->length) {
		unit = (now - read->begun_ns) / read_units(read->length);
		r->reads->unit_ns += (unit >> 3) - (r->reads->unit_ns >> 3);
		read_finish(r, read, DIW_RDMAP_OK);
	}
	check_timeouts(r, now);
}

bool diw_rdmap_read_refused(struct diw_rdmap *r, const struct diw_addr *src, uint32_t msn, uint16_t fault)
{
	struct diw_rdmap_read *read = read_find(r, src, msn);

	if (!read)
		return false;
	read->fault = fault;
	read_finish(r, read, DIW_RDMAP_REFUSED);
	return true;
}

void diw_rdmap_reads_unsent(struct diw_rdmap *r, uint32_t first, uint32_t n, int errnum)
{
	const struct diw_list *l;

	for (l = r->reads->active.next; l != &r->reads->active; l = l->next) {
		struct diw_rdmap_read *read = diw_container(l, struct diw_rdmap_read, link);

		if (read->seg - first >= n)
			continue;
		read->unsent = r->reads->unsent = true;
		read->fault = (uint16_t)errnum;
	}
}

void diw_rdmap_reads_settle(struct diw_rdmap *r)
{
	struct diw_list *l, *next;

	if (!r->reads || !r->reads->unsent)
		return;
	r->reads->unsent = false;
	diw_list_for_each_safe(l, next, &r->reads->active) {
		struct diw_rdmap_read *read = diw_container(l, struct diw_rdmap_read, link);

		if (read->unsent)
			read_finish(r, read, DIW_RDMAP_UNSENT);
	}
}

/* ---- Timers ---- */

void diw_rdmap_reads_timers(struct diw_rdmap *r, uint64_t now)
{
	check_timeouts(r, now);
	deliver_reads(r);
}

uint64_t diw_rdmap_reads_deadline(const struct diw_rdmap *r)
{
	const struct diw_list *l, *head = &r->reads->active;
	uint64_t t = DIW_NEVER;

	for (l = head->next; l != head; l = l->next)
		t = diw_min64(t, diw_container(l, struct diw_rdmap_read, link)->deadline_ns);
	return t;
}
