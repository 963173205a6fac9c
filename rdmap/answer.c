/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target's side of RDMA Reads over datagrams (docs/ud-profile.md section 8): which requests are answered, to which
 * address, and in which order. A request from an address that is not proved causes a challenge, or an answer that is
 * not much larger than the request. Sources take turns. No state of a Read remains after its answer.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/wire.h"
#include "rdmap/int.h"
#include "wire/seal.h"

#define ANSWER_TURN 65536
#define REQUEST (DIW_DDP_UNTAGGED_LEN + DIW_RDMAP_READ_LEN + DIW_SEAL_LEN)      /* with its CRC */
#define AMPLIFICATION 3u             /* RFC 9000 section 8 */
#define EXPIRY_NS (10 * DIW_S)       /* the longest time that a requester waits, unless its application sets another
				      * timeout */
#define DISPLACE_NS DIW_S

/* ---- Places for answers ---- */

static void drop_answer(struct diw_rdmap *r, struct diw_rdmap_answer *a)
{
	struct diw_rdmap_reader *reader = a->reader;

	diw_list_del(&a->link);
	diw_pool_put(&r->reads->answer_pool, a);
	if (--reader->n)
		return;
	diw_list_del(&reader->turn);
	if (!reader->src)
		return;
	reader->src->reader = NULL;
	diw_source_changed(&r->ddp, reader->src);
	diw_pool_put(&r->reads->reader_pool, reader);
}

static struct diw_rdmap_answer *oldest_answer(const struct diw_rdmap_reader *reader)
{
	const struct diw_list *head = &reader->answers, *l;
	struct diw_rdmap_answer *oldest = diw_container(head->next, struct diw_rdmap_answer, link);

	for (l = head->next; l != head; l = l->next) {
		struct diw_rdmap_answer *a = diw_container(l, struct diw_rdmap_answer, link);

		if (a->asked_ns < oldest->asked_ns)
			oldest = a;
	}
	return oldest;
}

/* All places are taken. The source with the most places loses one to a source with fewer, or to any source after a
 * while. */
static bool answer_displace(struct diw_rdmap *r, uint32_t own, uint64_t now)
{
	const struct diw_list *head = &r->reads->readers, *l;
	struct diw_rdmap_answer *victim = NULL;

	for (l = head->next; l != head; l = l->next) {
		struct diw_rdmap_answer *a = oldest_answer(diw_container(l, struct diw_rdmap_reader, turn));

		if (!victim || a->reader->n > victim->reader->n ||
		    (a->reader->n == victim->reader->n && a->asked_ns < victim->asked_ns))
			victim = a;
	}
	if (victim->reader->n < own + 2 && now < victim->asked_ns + DISPLACE_NS)
		return false;
	r->c->read_displaced++;
	drop_answer(r, victim);
	return true;
}

/* All sources that have not proved their address share one reader. */
static struct diw_rdmap_reader *reader_of(struct diw_rdmap *r, struct diw_source *src)
{
	struct diw_rdmap_reader *reader = src ? src->reader : &r->reads->unproved;

	if (!reader) {
		reader = src->reader = diw_pool_get(&r->reads->reader_pool);     /* as many as answers: never NULL */
		diw_list_init(&reader->answers);
		reader->src = src;
		reader->n = 0;
		diw_source_changed(&r->ddp, src);
	}
	if (reader->n == 0)
		diw_list_add_tail(&r->reads->readers, &reader->turn);
	return reader;
}

static uint16_t admit_request(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_source *src, uint64_t now,
			      bool *merged)
{
	const struct diw_rdmap_reader *reader = src ? src->reader : &r->reads->unproved;
	const struct diw_list *head = reader ? &reader->answers : NULL, *l;

	*merged = false;
	for (l = head ? head->next : NULL; l != head; l = l->next) {
		struct diw_rdmap_answer *a = diw_container(l, struct diw_rdmap_answer, link);

		if (a->msn == seg->h.msn && a->epoch == seg->h.epoch && diw_addr_eq(&a->tx.dst.addr, seg->src)) {
			r->c->read_merged++;
			*merged = true;
			return 0;
		}
	}
	if (reader && reader->n >= DIW_RDMAP_READS_SOURCE)
		return DIW_FAULT_READ_LIMIT;
	if (r->reads->answer_pool.used == DIW_RDMAP_READS && !answer_displace(r, reader ? reader->n : 0, now))
		return DIW_FAULT_READ_LIMIT;
	return 0;
}

/* ---- Requests ---- */

/* An address that is not proved is sent at most a small multiple of the octets that came from it, and only while there
 * is room. */
static bool needs_no_proof(const struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint32_t length)
{
	return length + DIW_DDP_TAGGED_LEN + DIW_SEAL_LEN <= AMPLIFICATION * REQUEST &&
	       length + DIW_DDP_TAGGED_LEN <= diw_ddp_mulpdu(&r->ddp, seg->src) &&
	       r->reads->unproved.n < DIW_RDMAP_READS_SOURCE;
}

static void begin_answer(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_source *src,
			 const struct diw_read_request *q, uint64_t now)
{
	struct diw_rdmap_reader *reader = reader_of(r, src);
	struct diw_rdmap_answer *a = diw_pool_get(&r->reads->answer_pool);

	a->reader = reader;
	a->asked_ns = now;
	a->stag = q->stag;
	a->to = q->to;
	a->msn = seg->h.msn;
	a->epoch = seg->h.epoch;
	a->cause = *seg;
	memcpy(a->raw, seg->raw, sizeof a->raw);
	a->cause.raw = a->raw;
	a->tx.dst = (struct diw_dest){ .addr = *seg->src };
	a->tx.h = (struct diw_ddp_hdr){ .tagged = true, .opcode = DIW_OP_READ_RESPONSE, .msn = seg->h.msn,
					.length = q->length, .stag = q->sink_stag, .to = q->sink_to };
	diw_ddp_tx_begin(&r->ddp, &a->tx, false);
	diw_list_add_tail(&reader->answers, &a->link);
	reader->n++;
}

uint16_t diw_rdmap_read_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_read_request q;
	struct diw_source *src;
	uint8_t *from;
	uint16_t fault;
	bool merged;

	r->c->read_requests_rx++;
	if (seg->group)                         /* one small datagram would cause an answer of every host */
		return DIW_FAULT_GROUP;
	if (seg->len != DIW_RDMAP_READ_LEN)
		return DIW_FAULT_MO;
	q = diw_read_request_get(seg->payload);
	if (q.length > DIW_RDMAP_MAX_READ)
		return DIW_FAULT_TOO_LONG;
	fault = diw_ddp_resolve(&r->ddp, q.stag, DIW_STAG_REMOTE_READ, seg->src, q.to, q.length, &from);
	if (fault)
		return fault;
	src = diw_source_find(&r->ddp, seg->src, seg->h.epoch);
	if (src && now < src->over_until_ns)
		return DIW_FAULT_EPOCH_OLD;
	if (!src || !src->reads) {
		src = NULL;
		if (!needs_no_proof(r, seg, q.length)) {
			diw_rdmap_challenge(r, seg, now);
			return DIW_FAULT_READ_UNPROVED;
		}
	} else {
		diw_source_touch(&r->ddp, src, now);
	}
	fault = admit_request(r, seg, src, now, &merged);
	if (fault == 0 && !merged)
		begin_answer(r, seg, src, &q, now);
	return fault;
}

void diw_rdmap_answers_end_epochs(struct diw_rdmap *r, uint64_t now)
{
	struct diw_list *l, *next;

	if (!r->reads)
		return;
	diw_list_for_each_safe(l, next, &r->reads->readers) {
		struct diw_rdmap_reader *reader = diw_container(l, struct diw_rdmap_reader, turn);

		if (reader->src && now < reader->src->over_until_ns)
			for (uint32_t n = reader->n; n; n--)
				drop_answer(r, diw_container(reader->answers.next, struct diw_rdmap_answer, link));
	}
}

/* ---- Answers ---- */

/* Sends a burst of the answer. 0: the answer is complete, or ended by a fault. The STag is looked up each time, since
 * it may have been deregistered. */
static int answer_turn(struct diw_rdmap *r, struct diw_rdmap_answer *a, int64_t *budget, uint64_t now)
{
	int64_t turn = *budget < ANSWER_TURN ? *budget : ANSWER_TURN, left = turn;
	struct iovec iov;
	uint8_t *from;
	uint16_t fault;
	int rc;

	fault = diw_ddp_resolve(&r->ddp, a->stag, DIW_STAG_REMOTE_READ, &a->tx.dst.addr, a->to, a->tx.h.length, &from);
	if (fault) {
		a->cause.src = &a->tx.dst.addr;
		diw_fault_count(r->c, fault);
		diw_rdmap_term_send(r, &a->cause, fault, now);
		return 0;
	}
	iov = (struct iovec){ from, a->tx.h.length };
	rc = diw_ddp_tx_run(&r->ddp, &a->tx, &iov, &left, now);
	*budget -= turn - left;
	r->c->read_answered += rc == 0;
	return rc;
}

/* The requester has probably gone, and other requests wait. */
static bool is_expired(const struct diw_rdmap *r, const struct diw_rdmap_answer *a, uint64_t now)
{
	return now >= a->asked_ns + EXPIRY_NS && r->reads->answer_pool.used > a->reader->n;
}

bool diw_rdmap_has_answers(const struct diw_rdmap *r)
{
	return !diw_list_empty(&r->reads->readers) || r->reads->unsent;
}

/* Sources take turns, and so do the answers of one source: a burst each. */
int diw_rdmap_answer(struct diw_rdmap *r, int64_t *budget, uint64_t now)
{
	struct diw_list *l;

	while ((l = diw_list_first(&r->reads->readers))) {
		struct diw_rdmap_reader *reader = diw_container(l, struct diw_rdmap_reader, turn);
		struct diw_rdmap_answer *a = diw_container(reader->answers.next, struct diw_rdmap_answer, link);
		int rc;

		if (is_expired(r, a, now)) {
			r->c->read_expired++;
			drop_answer(r, a);
			continue;
		}
		if (*budget <= 0)
			return -EBUSY;
		rc = answer_turn(r, a, budget, now);
		diw_list_del(&reader->turn);
		diw_list_add_tail(&r->reads->readers, &reader->turn);
		if (rc == 0) {
			drop_answer(r, a);
			continue;
		}
		diw_list_del(&a->link);
		diw_list_add_tail(&reader->answers, &a->link);
		if (rc == -EAGAIN)
			return rc;
	}
	return 0;
}
