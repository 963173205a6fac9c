/* SPDX-License-Identifier: BSD-2-Clause */
/* diw recv --group: receives the files that senders announce to a group, one at a time. xfer.h has the protocol. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/wire.h"
#include "tools/cp/blocks.h"
#include "tools/cp/group.h"
#include "tools/cp/incoming.h"

#define WC_BATCH 64
#define LINGER_NS (2 * DIW_S)        /* answers a sender that has not heard that the file is kept */
#define JOIN_SPREAD_US 20000u        /* members answer an announcement within that time */
#define JOIN_RETRY_NS (200 * DIW_MS)
#define KEPT_RETRY_NS (20 * DIW_MS)
#define HAVE_NS (200 * DIW_MS)
#define OPEN_NS (50 * DIW_MS)        /* so long an answer waits for open records; the sender closes them */
#define WANT_BURST 16                /* pages of the bitmap between two looks at what comes */
#define OPEN_RECORDS 64
#define IDS 16                       /* of transfers that have ended, not to be received again */

enum listen_state { WAITING, RECEIVING, KEPT };

struct group_recv {
	const struct group_options *o;
	struct xfer_port port;
	struct diw_addr group;
	enum listen_state state;
	struct xfer_peer peer;               /* the sender */
	uint64_t id, token, nonce, old[IDS]; /* nonce: only a host that has had our JOIN knows it */
	uint8_t sha[32], sha_got[32];
	uint64_t size;
	uint32_t block, nold;
	struct incoming in;
	struct diw_mr *mr;
	struct blocks missing;
	uint64_t got, again;                 /* bytes that came in closed records; that were asked for */
	uint32_t mark, pass;                 /* pass: whose end is to be answered */
	bool accepted, answering, sha_ok, over;
	uint64_t answer_at, answer_by, want_next;    /* want_next: the next page to ask for */
	uint64_t join_at, kept_at, heard_at, began_at, ended_at, had_at;
	char why[XFER_TEXT_MAX + 1];
	uint64_t files, bad, complete_records, partial_records;
	struct bar bar;
	struct diw_range ranges[DIW_MAX_RANGES];
	struct diw_record_info open[OPEN_RECORDS];
};

static void group_say(struct group_recv *r, struct xfer_msg *m)
{
	m->id = r->id;
	m->token = r->token;
	xfer_send(&r->peer, m);
}

/* Bytes that have come, those of records that are still open included. */
static uint64_t bytes_come(struct group_recv *r)
{
	int n = diw_qp_records(r->port.ep.qp, r->open, OPEN_RECORDS);
	uint64_t sum = r->got;

	for (int i = 0; i < n && i < OPEN_RECORDS; i++)
		if (r->mr && r->open[i].stag == r->mr->stag)
			sum += r->open[i].byte_len;
	return sum;
}

static void say_report(struct group_recv *r, uint32_t flags)
{
	struct xfer_msg m = { .type = XFER_REPORT, .flags = flags, .mark = r->mark, .pass = r->pass,
		.bytes = bytes_come(r) };

	group_say(r, &m);
}

static void say_join(struct group_recv *r, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_JOIN, .nonce = r->nonce, .bytes = bytes_come(r),
		.rcvbuf = r->port.ep.info.rcvbuf };

	group_say(r, &m);
	r->join_at = now + JOIN_RETRY_NS + diw_random() % JOIN_SPREAD_US * DIW_US;
}

static void say_kept(struct group_recv *r, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_KEPT, .elapsed_ns = r->had_at - r->began_at };

	m.flags = (r->sha_ok ? XFER_SHA_OK : 0) | (r->why[0] ? XFER_NOT_SAVED : 0);
	snprintf(m.text, sizeof m.text, "%s", r->why);
	group_say(r, &m);
	r->kept_at = now;
}

/* ---- The end of a transfer ---- */

static void group_recv_report(const struct group_recv *r)
{
	double sec = (double)(r->had_at - r->began_at) / 1e9, gb = sec > 0 ? (double)r->size / sec / 1e9 : 0;
	char hex[65], from[DIW_ADDR_STRLEN], a[24], b[24];
	cJSON *o;

	xfer_hex(r->sha_got, hex);
	diw_addr_str(&r->peer.addr, from);
	if (!r->o->json) {
		printf("%s: %s from %s in %.3f s, %.3f GB/s, %s asked for again\n", r->in.name, fmt_bytes(r->size, a),
		       from, sec, gb, fmt_bytes(r->again, b));
		printf("SHA-256 %s %s\n", hex, r->sha_ok ? "matches" : "DIFFERS");
		if (r->why[0])
			tool_failed("%s: not saved: %s", r->in.name, r->why);
		fflush(stdout);
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "from", from);
	cJSON_AddStringToObject(o, "name", r->in.name);
	json_add_count(o, "size", r->size);
	json_add_count(o, "bytes_came", r->got);
	json_add_count(o, "bytes_asked_again", r->again);
	json_add_number(o, "seconds", sec);
	json_add_number(o, "GBps", gb);
	json_add_count(o, "records_complete", r->complete_records);
	json_add_count(o, "records_partial", r->partial_records);
	cJSON_AddStringToObject(o, "sha256", hex);
	cJSON_AddBoolToObject(o, "sha256_ok", r->sha_ok);
	cJSON_AddBoolToObject(o, "saved", !r->why[0]);
	json_print(o);
	fflush(stdout);
}

/* Ends the group's right to write; called before the file is read, renamed or dropped. */
static void group_recv_withdraw(struct group_recv *r)
{
	if (r->mr)
		diw_mr_dereg(r->mr);
	r->mr = NULL;
}

static void group_recv_drop(struct group_recv *r)
{
	r->answering = false;
	group_recv_withdraw(r);
	if (r->state == RECEIVING)
		incoming_close(&r->in);
	blocks_fini(&r->missing);
	r->state = WAITING;
}

static void group_recv_forget(struct group_recv *r)
{
	r->old[r->nold++ % IDS] = r->id;
}

static void group_recv_end(struct group_recv *r, bool good)
{
	group_recv_forget(r);
	r->files++;
	r->bad += !good;
}

static void group_recv_abort(struct group_recv *r, const char *why)
{
	char buf[DIW_ADDR_STRLEN];

	bar_end(&r->bar);
	tool_failed("%s from %s: %s, %llu of %llu blocks missing", r->in.name, diw_addr_str(&r->peer.addr, buf), why,
		    (unsigned long long)r->missing.count, (unsigned long long)r->missing.n);
	group_recv_end(r, false);
	group_recv_drop(r);
}

/* The sender waits for a receiver that hashes; what comes meanwhile is repeated by it. */
static bool group_recv_while_hashing(void *ctx, uint64_t done)
{
	struct group_recv *r = ctx;
	struct diw_wc wc[WC_BATCH];
	struct xfer_msg m;
	uint64_t now = diw_clock_ns();
	int n;

	(void)done;
	for (int i = XFER_SLOTS / WC_BATCH; i > 0 && (n = diw_cq_poll(r->port.ep.cq, wc, WC_BATCH, 0)) > 0; i--)
		for (int k = 0; k < n; k++) {
			xfer_take(&r->port.in, &wc[k], &m);
			diw_wc_release(&wc[k]);
		}
	if (now - r->kept_at > HAVE_NS) {
		say_report(r, XFER_HAVE);
		r->kept_at = now;
	}
	return !tool_stopped;
}

static void group_recv_finish(struct group_recv *r)
{
	int rc;

	r->had_at = r->kept_at = diw_clock_ns();
	say_report(r, XFER_HAVE);
	r->answering = false;
	group_recv_withdraw(r);
	bar_end(&r->bar);
	rc = xfer_sha256(r->in.map, r->size, r->sha_got, group_recv_while_hashing, r);
	r->sha_ok = !rc && !memcmp(r->sha, r->sha_got, 32);
	if (!rc && !r->sha_ok)
		snprintf(r->why, sizeof r->why, "every byte came, but SHA-256 differs");
	if (!rc && !r->why[0])
		rc = incoming_commit(&r->in, r->o->force);
	if (rc)
		snprintf(r->why, sizeof r->why, "%s", strerror(-rc));
	incoming_close(&r->in);
	r->state = KEPT;
	r->ended_at = r->heard_at = diw_clock_ns();
	group_recv_end(r, r->sha_ok && !r->why[0]);
	say_kept(r, r->ended_at);
	group_recv_report(r);
}

/* ---- Its beginning ---- */

static bool group_recv_ended(const struct group_recv *r, uint64_t id)
{
	for (uint32_t i = 0; i < IDS && i < r->nold; i++)
		if (r->old[i] == id)
			return true;
	return false;
}

/* What cannot be received is told to the sender as what cannot be kept. */
static int group_recv_prepare(struct group_recv *r, const struct xfer_msg *m)
{
	struct diw_mr_attr attr = { .length = m->size, .use_iova = true, .iova = 0, .peer = &r->peer.addr,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_GROUP_WRITE, .stag = m->stag };
	int rc;

	if (!xfer_name_ok(m->text)) {
		snprintf(r->why, sizeof r->why, "that name is not one inside the directory");
		return -EINVAL;
	}
	if (m->message < 64 || m->message > TOOL_MAX_MULPDU || m->size / m->message >= BLOCKS_MAX) {
		snprintf(r->why, sizeof r->why, "size out of range");
		return -EINVAL;
	}
	rc = incoming_create(&r->in, r->o->dirfd, m->text, m->size, r->o->force, r->why, sizeof r->why);
	if (rc)
		return rc;
	rc = blocks_init(&r->missing, (m->size + m->message - 1) / m->message, true);
	attr.addr = r->in.map;
	if (!rc && m->size)
		rc = diw_mr_reg_attr(r->port.ep.pd, &attr, &r->mr);
	if (rc)
		snprintf(r->why, sizeof r->why, "%s", strerror(-rc));
	return rc;
}

static void group_recv_begin(struct group_recv *r, const struct diw_addr *src, const struct xfer_msg *m, uint64_t now)
{
	group_recv_drop(r);
	r->peer = (struct xfer_peer){ r->port.ep.qp, *src, DIW_QP_UD };
	r->id = m->id;
	r->token = 0;
	r->nonce = diw_random();
	r->size = m->size;
	r->block = m->message;
	memcpy(r->sha, m->sha, 32);
	r->got = r->again = r->complete_records = r->partial_records = 0;
	r->mark = r->pass = 0;
	r->accepted = r->answering = r->sha_ok = r->over = false;
	r->why[0] = '\0';
	r->heard_at = r->began_at = r->ended_at = r->had_at = now;
	r->join_at = now + diw_random() % JOIN_SPREAD_US * DIW_US;
	r->state = RECEIVING;
	memset(&r->in, 0, sizeof r->in);
	r->in.fd = -1;
	if (group_recv_prepare(r, m)) {
		tool_failed("%s: %s", *r->in.name ? r->in.name : "a file", r->why);
		group_recv_forget(r);        /* refused: not one of --count */
		group_recv_drop(r);
		r->state = KEPT;
		return;
	}
	bar_init(&r->bar, r->in.name);
}

/* ---- What comes ---- */

static void group_recv_on_mark(struct group_recv *r, const struct xfer_msg *m, uint64_t now)
{
	if (!r->accepted)
		return;
	if (r->state == KEPT) {
		if (m->flags & XFER_END && now - r->kept_at > KEPT_RETRY_NS)
			say_kept(r, now);
		return;
	}
	r->mark = m->mark;
	if (!(m->flags & XFER_END)) {
		say_report(r, 0);
	} else if (!r->answering || r->pass != m->pass) {
		r->answering = true;
		r->pass = m->pass;
		r->want_next = 0;
		r->answer_at = now + diw_random() % (m->backoff_us % 1000000u + 1) * DIW_US;
		r->answer_by = r->answer_at + OPEN_NS;
	}
}

static void group_recv_on_message(struct group_recv *r, const struct diw_addr *src, const struct xfer_msg *m,
				  uint64_t now)
{
	bool known = r->state != WAITING && m->id == r->id && !memcmp(src, &r->peer.addr, sizeof *src);

	if (m->type == XFER_ANNOUNCE && !known && r->state != RECEIVING && !group_recv_ended(r, m->id) &&
	    (!r->o->count || r->files < r->o->count))
		group_recv_begin(r, src, m, now);
	if (!known)
		return;
	r->heard_at = now;
	if (m->type == XFER_WELCOME && m->nonce == r->nonce) {
		if (!r->accepted && !(m->flags & XFER_ACCEPTED) && !r->token) {
			r->token = m->token;
			say_join(r, now);
		}
		if (m->flags & XFER_ACCEPTED && m->token == r->token && !r->accepted) {
			r->accepted = true;
			if (r->state == KEPT)
				say_kept(r, now);
		}
	} else if (m->type == XFER_MARK) {
		group_recv_on_mark(r, m, now);
	} else if (m->type == XFER_BYE) {
		r->over = true;
	} else if (m->type == XFER_REFUSE) {
		snprintf(r->why, sizeof r->why, "%.*s", (int)XFER_TEXT_MAX, m->text);
		r->over = true;
	}
}

/* The blocks that a valid range covers whole. */
static void range_came(struct group_recv *r, uint64_t from, uint64_t to)
{
	uint64_t first = (from + r->block - 1) / r->block, end = to == r->size ? r->missing.n : to / r->block;

	r->got += to - from;
	if (end > first)
		blocks_remove(&r->missing, first, end - first);
}

static void group_recv_on_record(struct group_recv *r, struct diw_wc *wc, uint64_t now)
{
	int n = diw_wc_ranges(wc, r->ranges, DIW_MAX_RANGES);

	if (r->state == RECEIVING && r->mr && wc->stag == r->mr->stag && n >= 0 && n <= DIW_MAX_RANGES) {
		if (!r->got)
			r->began_at = now;
		for (int i = 0; i < n; i++)
			range_came(r, wc->to + r->ranges[i].off, wc->to + r->ranges[i].off + r->ranges[i].len);
		if (wc->byte_len == wc->msg_len)
			r->complete_records++;
		else
			r->partial_records++;
		r->heard_at = now;
	}
	diw_wc_release(wc);
}

/* ---- What is due ---- */

/* Some pages of the bitmap of what is missing; when all are said, that was the answer. */
static void say_wants(struct group_recv *r, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_WANT, .pass = r->pass };
	uint64_t first, before = 0;

	for (int i = 0; i < WANT_BURST; i++) {
		first = blocks_next(&r->missing, r->want_next);
		if (first == r->missing.n) {
			r->answering = false;
			say_report(r, XFER_ANSWER);
			return;
		}
		m.block = first / XFER_BITS * XFER_BITS;
		memcpy(m.page, blocks_page(&r->missing, m.block), sizeof m.page);
		for (size_t k = before = 0; k < sizeof m.page; k++)
			before += (uint64_t)__builtin_popcount(m.page[k]);
		r->again += before * r->block;
		group_say(r, &m);
		r->want_next = m.block + XFER_BITS;
	}
	r->answer_at = now + DIW_MS;
}

static void receiving_step(struct group_recv *r, uint64_t now)
{
	double sec = (double)(now - r->began_at) / 1e9;

	if (!r->missing.count) {
		group_recv_finish(r);
	} else if (r->over) {
		group_recv_abort(r, r->why[0] ? r->why : "the sender has ended");
	} else if (now - r->heard_at > XFER_SILENCE_NS) {
		group_recv_abort(r, "the sender fell silent");
	} else {
		if (r->answering && now >= r->answer_at &&
		    (now >= r->answer_by || diw_qp_records(r->port.ep.qp, r->open, 0) == 0))
			say_wants(r, now);
		bar_draw(&r->bar, now, r->size - r->missing.count * r->block, r->size,
			 sec > 0 ? (double)r->got / sec / 1e9 : 0, r->again);
	}
}

static void group_recv_step(struct group_recv *r, uint64_t now)
{
	if (r->state != WAITING && !r->accepted && !r->over && now >= r->join_at)
		say_join(r, now);
	if (r->state == RECEIVING)
		receiving_step(r, now);
}

static bool group_recv_is_over(const struct group_recv *r, uint64_t now)
{
	if (tool_stopped)
		return true;
	if (!r->o->count || r->files < r->o->count)
		return false;
	return r->state == WAITING || (r->state == KEPT && (r->over || now - r->heard_at > LINGER_NS));
}

static int group_recv_loop(struct group_recv *r)
{
	struct diw_wc wc[WC_BATCH];
	struct xfer_msg m;
	uint64_t now;
	int n;

	while (!group_recv_is_over(r, diw_clock_ns())) {
		n = diw_cq_wait(r->port.ep.cq, wc, WC_BATCH, r->answering ? DIW_MS : 10 * DIW_MS);
		if (n < 0)
			return tool_failed("wait: %s", strerror(-n));
		now = diw_clock_ns();
		for (int i = 0; i < n; i++)
			if (wc[i].opcode == DIW_WC_RECV_WRITE_RECORD)
				group_recv_on_record(r, &wc[i], now);
			else if (xfer_take(&r->port.in, &wc[i], &m) == 0)
				group_recv_on_message(r, &wc[i].src, &m, now);
		group_recv_step(r, now);
	}
	if (r->state == RECEIVING)
		group_recv_abort(r, "interrupted");
	group_recv_drop(r);
	endpoint_report_errors(&r->port.ep);
	return r->bad ? TOOL_FAILED : TOOL_OK;
}

static int group_recv_run(struct group_recv *r, struct diw_qp_attr *attr)
{
	char buf[DIW_ADDR_STRLEN];
	int rc = group_open(&r->port, r->o, attr, &r->group);

	if (!rc) {
		rc = diw_qp_attach(r->port.ep.qp, &r->group);
		if (rc)
			rc = tool_failed("%s: %s", diw_addr_str(&r->group, buf), strerror(-rc));
	}
	if (!rc && !r->o->json) {
		printf("receiving from group %s\n", diw_addr_str(&r->group, buf));
		fflush(stdout);
	}
	if (!rc)
		rc = group_recv_loop(r);
	xfer_close(&r->port);
	return rc;
}

int group_receive(const struct group_options *o, struct diw_qp_attr *attr)
{
	struct group_recv *r = calloc(1, sizeof *r);
	int rc;

	if (!r)
		return tool_failed("out of memory");
	r->o = o;
	rc = group_recv_run(r, attr);
	free(r);
	return rc;
}
