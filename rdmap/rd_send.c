/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests over reliable datagrams. Each destination has its own queue. Destinations take turns, so one that accepts
 * nothing delays no other. A request ends when the destination has acknowledged all its segments.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/rng.h"
#include "rdmap/rd.h"

#define TURN 65536                   /* octets to one destination in a turn */

static size_t req_size(const struct diw_rdmap *r)
{
	return offsetof(struct rd_req, wr) + r->request_size;
}

int diw_rdmap_rd_send_init(struct diw_rdmap *r)
{
	uint32_t n = r->requests, dests = n + r->peers, buckets = diw_pool_buckets(dests);
	uint32_t numbers = diw_pool_buckets(DIW_RDMAP_RD_SEGMENTS), answers = r->peers * RD_ASKED;
	struct diw_arena arena = { 0 };
	struct diw_rdmap_rd *rd;
	int rc = diw_arena_init(&arena, diw_arena_round(sizeof *rd) + diw_pool_bytes(req_size(r), n) +
				diw_pool_bytes(sizeof(struct rd_dest), dests) +
				diw_pool_bytes(sizeof(struct rd_answer), answers) +
				diw_pool_bytes(sizeof(struct rd_sent), DIW_RDMAP_RD_SEGMENTS) +
				diw_arena_round(buckets * sizeof *rd->dest) +
				diw_arena_round(numbers * sizeof *rd->number));

	if (rc < 0)
		return rc;
	rd = diw_arena_take(&arena, sizeof *rd);
	rd->arena = arena;
	diw_pool_init(&rd->reqs, &rd->arena, req_size(r), n);
	diw_pool_init(&rd->dests, &rd->arena, sizeof(struct rd_dest), dests);
	diw_pool_init(&rd->answers, &rd->arena, sizeof(struct rd_answer), answers);
	diw_pool_init(&rd->sent, &rd->arena, sizeof(struct rd_sent), DIW_RDMAP_RD_SEGMENTS);
	rd->dest = diw_arena_take(&rd->arena, buckets * sizeof *rd->dest);
	rd->number = diw_arena_take(&rd->arena, numbers * sizeof *rd->number);
	rd->dest_mask = buckets - 1;
	rd->number_mask = numbers - 1;
	rd->seed = diw_random();
	diw_list_init(&rd->ready);
	diw_list_init(&rd->done);
	diw_list_init(&rd->asked);
	rd->probe_at = DIW_NEVER;
	rd->askers_max = r->peers;
	r->rd = rd;
	return 0;
}

void diw_rdmap_rd_send_fini(struct diw_rdmap *r)
{
	struct diw_arena arena = r->rd->arena;

	diw_arena_fini(&arena);
	r->rd = NULL;
}

/* ---- Segments that are not acknowledged ---- */

static struct rd_sent **sent_bucket(struct diw_rdmap_rd *rd, uint32_t first)
{
	return &rd->number[first & rd->number_mask];
}

static struct rd_sent **sent_at(struct diw_rdmap_rd *rd, uint32_t first)
{
	struct rd_sent **at = sent_bucket(rd, first);

	while (*at && (*at)->first != first)
		at = &(*at)->hnext;
	return at;
}

static void sent_hash(struct diw_rdmap_rd *rd, struct rd_sent *s)
{
	struct rd_sent **at = sent_bucket(rd, s->first);

	s->hnext = *at;
	*at = s;
}

void diw_rdmap_rd_sent(struct diw_rdmap_rd *rd, struct rd_msg *msg, uint32_t first, uint32_t n)
{
	struct rd_sent *s = msg->sent;

	if (n == 0)
		return;
	if (s && s->first + s->n == first) {
		s->n += n;
		return;
	}
	s = diw_pool_get(&rd->sent);            /* as many as segments: never NULL */
	*s = (struct rd_sent){ .next = msg->sent, .msg = msg, .first = first, .n = n };
	msg->sent = s;
	sent_hash(rd, s);
}

static void sent_end(struct diw_rdmap_rd *rd, struct rd_sent **at)
{
	struct rd_sent *s = *at, **of = &s->msg->sent;

	*at = s->hnext;
	while (*of != s)
		of = &(*of)->next;
	*of = s->next;
	diw_pool_put(&rd->sent, s);
}

void diw_rdmap_rd_unsent(struct diw_rdmap_rd *rd, struct rd_msg *msg)
{
	while (msg->sent)
		sent_end(rd, sent_at(rd, msg->sent->first));
}

/* ---- Destinations ---- */

static struct rd_dest **dest_bucket(struct diw_rdmap_rd *rd, const struct diw_addr *addr)
{
	return &rd->dest[diw_addr_hash(addr, rd->seed) & rd->dest_mask];
}

struct rd_dest *diw_rdmap_rd_dest(struct diw_rdmap_rd *rd, const struct diw_addr *addr)
{
	struct rd_dest *d = *dest_bucket(rd, addr);

	while (d && !diw_addr_eq(&d->addr, addr))
		d = d->hnext;
	return d;
}

struct rd_dest *diw_rdmap_rd_dest_get(struct diw_rdmap_rd *rd, const struct diw_addr *addr)
{
	struct rd_dest *d = diw_rdmap_rd_dest(rd, addr), **at;

	if (d)
		return d;
	d = diw_pool_get(&rd->dests);           /* as many as requests and askers: never NULL */
	at = dest_bucket(rd, addr);
	*d = (struct rd_dest){ .hnext = *at, .addr = *addr, .state = RD_DEST_IDLE };
	diw_list_init(&d->turn);
	diw_list_init(&d->reqs);
	diw_list_init(&d->answers);
	*at = d;
	return d;
}

static void dest_rests(struct diw_rdmap_rd *rd, struct rd_dest *d, enum rd_dest_state state)
{
	diw_list_del(&d->turn);
	rd->blocked += (state == RD_DEST_BLOCKED) - (d->state == RD_DEST_BLOCKED);
	d->state = state;
}

/* Frees D if it has neither requests nor answers. */
static void dest_settle(struct diw_rdmap_rd *rd, struct rd_dest *d)
{
	struct rd_dest **at = dest_bucket(rd, &d->addr);

	if (!diw_list_empty(&d->reqs) || !diw_list_empty(&d->answers))
		return;
	while (*at != d)
		at = &(*at)->hnext;
	*at = d->hnext;
	dest_rests(rd, d, RD_DEST_IDLE);
	diw_pool_put(&rd->dests, d);
}

void diw_rdmap_rd_dest_ready(struct diw_rdmap_rd *rd, struct rd_dest *d)
{
	if (d->state == RD_DEST_READY)
		return;
	rd->blocked -= d->state == RD_DEST_BLOCKED;
	d->state = RD_DEST_READY;
	diw_list_add_tail(&rd->ready, &d->turn);
}

/* ---- Requests ---- */

bool diw_rdmap_rd_begin(struct diw_rdmap *r, const struct diw_rdmap_wr *wr)
{
	struct diw_rdmap_rd *rd = r->rd;
	struct rd_req *req;
	uint8_t *behind;

	if (diw_rdmap_is_local(wr) && wr->fence && rd->reqs.used)       /* of all destinations */
		return false;
	req = diw_pool_get(&rd->reqs);
	if (!req)
		return false;
	req->asked = req->ended = false;
	req->wr = *wr;
	diw_list_init(&req->msg.link);
	if (diw_rdmap_is_local(wr)) {
		req->wr.status = diw_rdmap_local(r, wr);
		diw_list_add_tail(&rd->done, &req->msg.link);
		return true;
	}
	req->msg = (struct rd_msg){ .dest = diw_rdmap_rd_dest_get(rd, &wr->dst.addr) };
	behind = (uint8_t *)(&req->wr + 1);
	if (wr->inline_data) {
		memcpy(behind, wr->inline_data, wr->buf.len);
		req->wr.inline_data = behind;
	} else {
		memcpy(behind, wr->buf.sge, wr->buf.n * sizeof *wr->buf.sge);
		req->wr.buf.sge = (const struct diw_ddp_sge *)(const void *)behind;
	}
	diw_list_init(&req->msg.link);
	diw_list_add_tail(&req->msg.dest->reqs, &req->msg.link);
	if (!req->msg.dest->next) {
		req->msg.dest->next = req;
		diw_rdmap_rd_dest_ready(rd, req->msg.dest);
	}
	return true;
}

static struct rd_req *req_of(struct diw_list *l)
{
	return diw_container(l, struct rd_req, msg.link);
}

/* Gives ended requests to D to the layer above, up to the first that has not ended. */
static void dest_give_ended(struct diw_rdmap_rd *rd, struct rd_dest *d)
{
	struct diw_list *l;

	while ((l = diw_list_first(&d->reqs)) && req_of(l)->ended) {
		diw_list_del(l);
		diw_list_add_tail(&rd->done, l);
	}
}

static void req_end(struct diw_rdmap_rd *rd, struct rd_req *req)
{
	req->ended = true;
	dest_give_ended(rd, req->msg.dest);
}

void diw_rdmap_rd_settle(struct diw_rdmap_rd *rd, struct rd_msg *msg)
{
	struct rd_dest *d = msg->dest;

	if (!msg->left || msg->sent)
		return;
	if (msg->answer)
		diw_rdmap_rd_answer_end(rd, (struct rd_answer *)msg);
	else if (!((struct rd_req *)msg)->asked)
		req_end(rd, (struct rd_req *)msg);
	dest_settle(rd, d);
}

struct diw_rdmap_wr *diw_rdmap_rd_done(struct diw_rdmap *r)
{
	struct diw_list *l = diw_list_first(&r->rd->done);

	return l ? &diw_container(l, struct rd_req, msg.link)->wr : NULL;
}

void diw_rdmap_rd_release(struct diw_rdmap *r, struct diw_rdmap_wr *wr)
{
	struct rd_req *req = diw_container(wr, struct rd_req, wr);

	diw_list_del(&req->msg.link);
	diw_pool_put(&r->rd->reqs, req);
}

bool diw_rdmap_rd_waits(const struct diw_rdmap *r)
{
	return r->rd && (r->rd->blocked || r->rd->reqs.used > r->requests / 2);
}

bool diw_rdmap_rd_busy(const struct diw_rdmap *r)
{
	return r->rd && r->rd->reqs.used;
}

bool diw_rdmap_rd_rests(const struct diw_rdmap *r)
{
	return diw_list_empty(&r->rd->ready) && diw_list_empty(&r->rd->done);
}

/* Nothing of REQ is under way any more. */
static void req_recall(struct diw_rdmap_rd *rd, struct rd_req *req)
{
	diw_rdmap_rd_unsent(rd, &req->msg);
	if (req->asked)
		diw_rdmap_rd_unask(req);
	req->msg.left = false;
}

/* REQ has had no effect, and is sent again. It may have been given up, with its answer, before it was acknowledged. */
static void req_again(struct diw_rdmap_rd *rd, struct rd_req *req)
{
	req_recall(rd, req);
	if (req->ended)                         /* it failed at this end */
		return;
	req->wr.status = DIW_RDMAP_OK;
	req->wr.fault = 0;
}

/* Ends the requests to D from FROM to the one before END. Those from END on, which have had no effect, are sent
 * again. */
static void dest_fail_until(struct diw_rdmap_rd *rd, struct rd_dest *d, struct rd_req *from, struct diw_list *end,
			    uint8_t status, uint16_t fault)
{
	struct diw_list *l;

	dest_rests(rd, d, RD_DEST_IDLE);
	d->next = end == &d->reqs ? NULL : req_of(end);
	d->tx.active = false;
	for (l = end; l != &d->reqs; l = l->next)
		req_again(rd, req_of(l));
	for (l = &from->msg.link; l != end; l = l->next) {
		struct rd_req *req = req_of(l);

		req_recall(rd, req);
		if (!req->ended && req->wr.status == DIW_RDMAP_OK) {
			req->wr.status = status;
			req->wr.fault = fault;
		}
		req->ended = true;
	}
	dest_give_ended(rd, d);
	if (d->answer || d->next)
		diw_rdmap_rd_dest_ready(rd, d);
	dest_settle(rd, d);
}

/* Ends the requests to D, beginning with FROM. */
static void dest_fail(struct diw_rdmap_rd *rd, struct rd_dest *d, struct rd_req *from, uint8_t status, uint16_t fault)
{
	dest_fail_until(rd, d, from, &d->reqs, status, fault);
}

/* REQ is refused, and those behind it fail with it, up to the first that is apart. */
static void dest_refuse(struct diw_rdmap_rd *rd, struct rd_dest *d, struct rd_req *req)
{
	struct diw_list *l = req->msg.link.next;

	while (l != &d->reqs && !req_of(l)->wr.apart)
		l = l->next;
	dest_fail_until(rd, d, req, l, DIW_RDMAP_FLUSHED, 0);
}

static struct rd_req *dest_first(const struct rd_dest *d)
{
	return diw_container(d->reqs.next, struct rd_req, msg.link);
}

void diw_rdmap_rd_flush(struct diw_rdmap *r)
{
	struct diw_rdmap_rd *rd = r->rd;

	for (uint32_t i = 0; i <= rd->dest_mask; i++)
		for (struct rd_dest *d = rd->dest[i], *next; d; d = next) {
			next = d->hnext;
			if (!diw_list_empty(&d->reqs))
				dest_fail(rd, d, dest_first(d), DIW_RDMAP_FLUSHED, 0);
		}
}

/* ---- Sending ---- */

/* 0: REQ has left, or failed. -EAGAIN: the link has no room for D. -EBUSY: the budget is used up. */
static int req_send(struct diw_rdmap *r, struct rd_dest *d, struct rd_req *req, int64_t *budget, uint64_t now)
{
	uint32_t first = diw_ddp_taken(&r->ddp);
	struct iovec iov[DIW_DDP_MAX_SGE];
	int rc;

	if (req->wr.inline_data) {
		iov[0] = (struct iovec){ (void *)req->wr.inline_data, req->wr.buf.len };
	} else if (diw_ddp_gather(&r->ddp, &req->wr.buf, iov) != 0) {
		d->tx.active = false;           /* the next message ends the unfinished one at the receiver */
		req->wr.status = DIW_RDMAP_LOCAL_PROT;
		return 0;
	}
	if (!d->tx.active) {
		d->tx.owner = req;
		diw_rdmap_message_begin(r, &d->tx, &req->wr);
	}
	rc = diw_ddp_tx_run(&r->ddp, &d->tx, iov, budget, now);
	diw_rdmap_rd_sent(r->rd, &req->msg, first, diw_ddp_taken(&r->ddp) - first);
	return rc;
}

/* The program must not deregister its memory before the request is complete. If it does, the request fails. */
int diw_rdmap_rd_payload(void *ctx, void *owner, uint32_t at, uint32_t len, struct iovec *iov)
{
	struct diw_rdmap *r = ctx;
	struct diw_rdmap_wr *wr = &((struct rd_req *)owner)->wr;
	int n;

	if (wr->inline_data) {
		*iov = (struct iovec){ (void *)(wr->inline_data + at), len };
		return 1;
	}
	n = diw_ddp_gather_part(&r->ddp, &wr->buf, at, len, iov);
	if (n == 0 && wr->status == DIW_RDMAP_OK)
		wr->status = DIW_RDMAP_LOCAL_PROT;
	return n;
}

/* Sends requests of D. 0: no more can leave at the moment. */
static int dest_send(struct diw_rdmap *r, struct rd_dest *d, int64_t *budget, uint64_t now)
{
	while (d->next) {
		struct rd_req *req = d->next;
		bool asks = req->wr.opcode == DIW_OP_READ_REQUEST || req->wr.opcode == DIW_OP_ATOMIC_REQUEST;
		struct diw_list *l;
		int rc;

		if (!d->tx.active && diw_rdmap_rd_ask_waits(d, &req->wr))
			return 0;
		if (req->ended)                 /* it has failed before a request in front of it was refused */
			rc = 0;
		else
			rc = asks ? diw_rdmap_rd_ask(r, d, req, now) : req_send(r, d, req, budget, now);
		if (rc < 0)
			return rc;
		req->msg.left = true;
		l = req->msg.link.next;
		d->next = l == &d->reqs ? NULL : diw_container(l, struct rd_req, msg.link);
		if (!req->msg.sent && !req->asked)
			req_end(r->rd, req);    /* D is settled after its turn */
	}
	return 0;
}

/* Runs a turn of D, which may be freed by it. */
static void dest_run(struct diw_rdmap *r, struct rd_dest *d, int64_t *budget, uint64_t now)
{
	bool answers = d->answers_first;
	int rc;

	d->answers_first = !answers;
	rc = answers ? diw_rdmap_rd_answer(r, d, budget, now) : dest_send(r, d, budget, now);
	if (rc == 0)
		rc = answers ? dest_send(r, d, budget, now) : diw_rdmap_rd_answer(r, d, budget, now);
	if (rc != -EBUSY)
		dest_rests(r->rd, d, rc == 0 ? RD_DEST_IDLE : RD_DEST_BLOCKED);
	dest_settle(r->rd, d);
}

int diw_rdmap_rd_run(struct diw_rdmap *r, int64_t *budget, uint64_t now)
{
	struct diw_rdmap_rd *rd = r->rd;
	struct diw_list *l;

	while ((l = diw_list_first(&rd->ready))) {
		struct rd_dest *d = diw_container(l, struct rd_dest, turn);
		int64_t turn = *budget < TURN ? *budget : TURN, left = turn;

		if (*budget <= 0)
			return -EBUSY;
		diw_list_del(&d->turn);
		diw_list_add_tail(&rd->ready, &d->turn);
		dest_run(r, d, &left, now);
		*budget -= turn - left;
	}
	return 0;
}

/* ---- Upcalls of the link ---- */

void diw_rdmap_rd_acked(void *ctx, uint32_t first, uint32_t n)
{
	struct diw_rdmap *r = ctx;
	struct diw_rdmap_rd *rd = r->rd;

	while (n) {
		struct rd_sent **at = sent_at(rd, first), *s = *at;
		uint32_t took = s ? s->n < n ? s->n : n : 1;   /* a segment that belongs to no request */

		first += took;
		n -= took;
		if (!s)
			continue;
		if (took == s->n) {
			struct rd_msg *msg = s->msg;

			sent_end(rd, at);
			diw_rdmap_rd_settle(rd, msg);
			continue;
		}
		*at = s->hnext;
		s->first += took;
		s->n -= took;
		sent_hash(rd, s);
	}
}

/* Called once for each refused segment. The first of a request ends all requests to its destination. */
void diw_rdmap_rd_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	struct diw_rdmap *r = ctx;

	for (; n; first++, n--) {
		struct rd_sent *s = *sent_at(r->rd, first);

		if (s && s->msg->answer)
			diw_rdmap_rd_answers_again(r->rd, s->msg->dest);
		else if (s)
			dest_fail(r->rd, s->msg->dest, dest_first(s->msg->dest), DIW_RDMAP_PEER_GONE, (uint16_t)errnum);
	}
}

/* REQ has the rejected segment. The peer has taken all segments of the requests before REQ. Only their probes
 * (rdmap/rd_ask.c) may be behind the rejected segment, and the link refuses these next. */
static void req_forget_probes(struct diw_rdmap_rd *rd, const struct rd_dest *d, const struct rd_req *req)
{
	for (struct diw_list *l = d->reqs.next; l != &req->msg.link; l = l->next) {
		diw_rdmap_rd_unsent(rd, &req_of(l)->msg);
		req_of(l)->ended |= !req_of(l)->asked;
	}
}

/* Messages that had begun behind the rejected segment are lost with it, except requests that are apart, and answers:
 * these are sent again. An answer that is itself rejected is not: it would be rejected again. */
void diw_rdmap_rd_rejected(void *ctx, uint32_t number, uint16_t fault)
{
	struct diw_rdmap *r = ctx;
	struct rd_sent *s = *sent_at(r->rd, number);
	struct rd_dest *d = s ? s->msg->dest : NULL;
	struct rd_req *req;

	if (!s)
		return;
	if (s->msg->answer) {
		diw_rdmap_rd_answer_end(r->rd, (struct rd_answer *)s->msg);
		dest_settle(r->rd, d);
		return;
	}
	if (d->answer_tx.active)                /* all that has left may be acknowledged: none of it is refused */
		diw_rdmap_rd_answers_again(r->rd, d);
	req = (struct rd_req *)s->msg;
	req->wr.fault = fault;
	if (req->wr.status == DIW_RDMAP_OK)
		req->wr.status = DIW_RDMAP_REFUSED;
	req_forget_probes(r->rd, d, req);
	dest_refuse(r->rd, d, req);
}

void diw_rdmap_rd_room(void *ctx, const struct diw_addr *peer)
{
	struct diw_rdmap *r = ctx;
	struct rd_dest *d = peer ? diw_rdmap_rd_dest(r->rd, peer) : NULL;

	if (d && d->state == RD_DEST_BLOCKED)
		diw_rdmap_rd_dest_ready(r->rd, d);
	for (uint32_t i = 0; !peer && i <= r->rd->dest_mask; i++)
		for (d = r->rd->dest[i]; d; d = d->hnext)
			if (d->state == RD_DEST_BLOCKED)
				diw_rdmap_rd_dest_ready(r->rd, d);
}

/* Fails the requests to D, if D still exists. */
void diw_rdmap_rd_gone(void *ctx, const struct diw_addr *peer, int errnum)
{
	struct diw_rdmap *r = ctx;
	struct rd_dest *d = diw_rdmap_rd_dest(r->rd, peer);

	if (!d)
		return;
	diw_rdmap_rd_answers_end(r->rd, d);
	if (diw_list_empty(&d->reqs))
		dest_settle(r->rd, d);
	else
		diw_rdmap_rd_asked_fail(r, peer, errnum);
}
