/* SPDX-License-Identifier: BSD-2-Clause */
/* diw recv --group: one file, from the sender's WELCOME to KEPT. xfer.h describes the protocol. */
#include "tools/cp/transfer.h"

#include <errno.h>
#include <string.h>

#include "base/rng.h"
#include "base/wire.h"

#define JOIN_RETRY_NS (200 * DIW_MS)
#define KEPT_RETRY_NS (20 * DIW_MS)
#define HAVE_NS (200 * DIW_MS)
#define OPEN_NS (50 * DIW_MS)        /* the longest time that an answer waits for open records, which the sender
				      * closes */
#define STILL_NS (60 * DIW_S)        /* the longest time without a new byte, whatever the sender reports */
#define AHEAD (4u << 20)             /* bytes, of incoming_reach(): two windows of most senders */
#define WANT_BURST 16                /* pages of the bitmap that are sent before the next poll */

bool transfer_is(const struct transfer *t, const struct diw_addr *src, uint64_t id)
{
	return t->state != TRANSFER_NONE && t->id == id && memcmp(src, &t->peer.addr, sizeof *src) == 0;
}

static void transfer_say(struct transfer *t, struct xfer_msg *m)
{
	m->id = t->id;
	m->token = t->token;
	xfer_send(&t->peer, m);
}

/* The bytes received, including those of open records. */
static uint64_t bytes_come(const struct transfer *t)
{
	struct diw_record_info open[TRANSFER_OPEN];
	int n = diw_qp_records(t->port->ep.qp, open, TRANSFER_OPEN);
	uint64_t sum = t->got;

	for (int i = 0; i < n && i < TRANSFER_OPEN; i++)
		if (t->mr && open[i].stag == t->mr->stag)
			sum += open[i].byte_len;
	return sum;
}

static void say_report(struct transfer *t, uint32_t flags)
{
	struct xfer_msg m = { .type = XFER_REPORT, .flags = flags, .mark = t->mark, .pass = t->pass,
		.bytes = bytes_come(t) };

	transfer_say(t, &m);
}

static void say_join(struct transfer *t, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_JOIN, .nonce = t->nonce, .bytes = bytes_come(t),
		.rcvbuf = t->port->ep.info.rcvbuf };

	transfer_say(t, &m);
	t->join_at = now + JOIN_RETRY_NS + diw_random() % (20 * DIW_MS);
}

static void say_kept(struct transfer *t, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_KEPT, .elapsed_ns = t->had_at - t->began_at };

	m.flags = (t->sha_ok ? XFER_SHA_OK : 0) | (t->why[0] ? XFER_NOT_SAVED : 0);
	snprintf(m.text, sizeof m.text, "%s", t->why);
	transfer_say(t, &m);
	t->kept_at = now;
}

void transfer_say_have(struct transfer *t, uint64_t now)
{
	if (now - t->kept_at <= HAVE_NS)
		return;
	say_report(t, XFER_HAVE);
	t->kept_at = now;
}

/* ---- The beginning ---- */

static int transfer_prepare(struct transfer *t, const struct xfer_msg *m)
{
	struct diw_mr_attr attr = { .length = m->size, .use_iova = true, .iova = 0, .peer = &t->peer.addr,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_GROUP_WRITE, .stag = m->stag };
	int rc;

	if (!xfer_name_ok(m->text)) {
		snprintf(t->why, sizeof t->why, "that name is not one inside the directory");
		return -EINVAL;
	}
	if (m->message < 64 || m->message > TOOL_MAX_MULPDU || m->size / m->message >= BLOCKS_MAX) {
		snprintf(t->why, sizeof t->why, "size out of range");
		return -EINVAL;
	}
	rc = incoming_create(&t->in, t->o->dirfd, m->text, m->size, t->o->force, t->why, sizeof t->why);
	if (rc)
		return rc;
	rc = blocks_init(&t->missing, (m->size + m->message - 1) / m->message, true);
	attr.addr = t->in.map;
	if (!rc && m->size)
		rc = diw_mr_reg_attr(t->port->ep.pd, &attr, &t->mr);
	if (rc)
		snprintf(t->why, sizeof t->why, "%s", strerror(-rc));
	return rc;
}

void transfer_begin(struct transfer *t, const struct diw_addr *src, const struct xfer_msg *m, uint64_t now)
{
	*t = (struct transfer){ .state = TRANSFER_RECEIVING, .o = t->o, .port = t->port,
		.peer = { t->port->ep.qp, *src, DIW_QP_UD }, .id = m->id, .token = m->token, .nonce = m->nonce,
		.size = m->size, .block = m->message, .stag = m->stag, .accepted = m->flags & XFER_ACCEPTED,
		.in.fd = -1, .join_at = now, .heard_at = now, .came_at = now, .began_at = now, .had_at = now };
	memcpy(t->sha, m->sha, sizeof t->sha);
	if (transfer_prepare(t, m)) {
		tool_failed("%s: %s", *t->in.name ? t->in.name : "a file", t->why);
		transfer_drop(t);
		t->refused = true;
		t->state = TRANSFER_KEPT;
	} else {
		bar_init(&t->bar, t->in.name);
	}
	if (!t->accepted)
		say_join(t, now);
}

/* ---- The end ---- */

static void transfer_withdraw(struct transfer *t)
{
	t->answering = false;
	if (t->mr)
		diw_mr_dereg(t->mr);
	t->mr = NULL;
}

void transfer_drop(struct transfer *t)
{
	transfer_withdraw(t);
	if (t->state == TRANSFER_RECEIVING || t->state == TRANSFER_WHOLE) {
		bar_end(&t->bar);
		incoming_close(&t->in);
	}
	blocks_fini(&t->missing);
	t->state = TRANSFER_NONE;
}

void transfer_give_up(struct transfer *t, const char *why, uint64_t now)
{
	snprintf(t->why, sizeof t->why, "%s", why);
	if (t->accepted)
		say_kept(t, now);
}

bool transfer_finish(struct transfer *t, bool (*tick)(void *ctx, uint64_t done), void *ctx, uint64_t now)
{
	int rc;

	t->had_at = t->kept_at = now;
	say_report(t, XFER_HAVE);
	transfer_withdraw(t);
	bar_end(&t->bar);
	rc = xfer_sha256(t->in.map, t->size, t->sha_got, tick, ctx);
	t->sha_ok = !rc && !memcmp(t->sha, t->sha_got, 32);
	if (!rc && !t->sha_ok)
		snprintf(t->why, sizeof t->why, "every byte came, but SHA-256 differs");
	if (!rc && !t->why[0])
		rc = incoming_commit(&t->in, t->o->force);
	if (rc)
		snprintf(t->why, sizeof t->why, "%s", strerror(-rc));
	incoming_close(&t->in);
	t->state = TRANSFER_KEPT;
	if (t->accepted)
		say_kept(t, now);
	return !t->why[0];
}

/* ---- Received messages ---- */

static void transfer_on_mark(struct transfer *t, const struct xfer_msg *m, uint64_t now)
{
	if (!t->accepted || t->state == TRANSFER_WHOLE)
		return;
	if (t->state == TRANSFER_KEPT) {
		if (m->flags & XFER_END && now - t->kept_at > KEPT_RETRY_NS)
			say_kept(t, now);
		return;
	}
	t->mark = m->mark;
	if (!(m->flags & XFER_END)) {
		say_report(t, 0);
	} else if (!t->answering || t->pass != m->pass) {
		t->answering = true;
		t->pass = m->pass;
		t->want_next = 0;
		t->answer_at = now + diw_random() % (m->backoff_us % 1000000u + 1) * DIW_US;
		t->answer_by = t->answer_at + OPEN_NS;
	}
}

void transfer_on_message(struct transfer *t, const struct xfer_msg *m, uint64_t now)
{
	t->heard_at = now;
	if (m->type == XFER_WELCOME && m->nonce == t->nonce && m->token == t->token) {
		if (m->flags & XFER_ACCEPTED && !t->accepted) {
			t->accepted = true;
			if (t->state == TRANSFER_KEPT)
				say_kept(t, now);
		}
	} else if (m->type == XFER_MARK) {
		transfer_on_mark(t, m, now);
	} else if (m->type == XFER_BYE) {
		t->over = true;
	} else if (m->type == XFER_REFUSE) {
		if (t->state == TRANSFER_RECEIVING)
			snprintf(t->why, sizeof t->why, "%.*s", (int)XFER_TEXT_MAX, m->text);
		xfer_printable(t->why);
		t->over = true;
	}
}

/* The blocks that are completely in a valid range. */
static void range_came(struct transfer *t, uint64_t from, uint64_t to)
{
	uint64_t first = (from + t->block - 1) / t->block, end = to == t->size ? t->missing.n : to / t->block;

	t->got += to - from;
	if (end > first)
		blocks_remove(&t->missing, first, end - first);
}

void transfer_on_record(struct transfer *t, const struct diw_wc *wc, const struct diw_range *range, int n,
			uint64_t now)
{
	uint64_t before = t->missing.count;

	if (!t->got)
		t->began_at = now;
	for (int i = 0; i < n; i++)
		range_came(t, wc->to + range[i].off, wc->to + range[i].off + range[i].len);
	incoming_reach(&t->in, wc->to, wc->to + wc->msg_len + AHEAD);
	if (wc->byte_len == wc->msg_len)
		t->complete_records++;
	else
		t->partial_records++;
	t->heard_at = now;
	if (t->missing.count < before)
		t->came_at = now;
}

/* ---- Timers ---- */

/* Sends some pages of the bitmap of missing blocks. When all are sent, the answer is complete. */
static void say_wants(struct transfer *t, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_WANT, .pass = t->pass };
	uint64_t first, before = 0;

	for (int i = 0; i < WANT_BURST; i++) {
		first = blocks_next(&t->missing, t->want_next);
		if (first == t->missing.n) {
			t->answering = false;
			say_report(t, XFER_ANSWER);
			return;
		}
		m.block = first / XFER_BITS * XFER_BITS;
		memcpy(m.page, blocks_page(&t->missing, m.block), sizeof m.page);
		for (size_t k = before = 0; k < sizeof m.page; k++)
			before += (uint64_t)__builtin_popcount(m.page[k]);
		t->again += before * t->block;
		transfer_say(t, &m);
		t->want_next = m.block + XFER_BITS;
	}
	t->answer_at = now + DIW_MS;
}

/* The reason why the transfer is over although bytes are missing; NULL: it continues. */
static const char *transfer_lost(const struct transfer *t, uint64_t now)
{
	if (t->over)
		return t->why[0] ? t->why : "the sender has ended";
	if (now - t->heard_at > XFER_SILENCE_NS)
		return "no message from the sender any more (is 'diw cp' still running there?)";
	return now - t->came_at > STILL_NS ? "the sender sends nothing that is missing" : NULL;
}

bool transfer_step(struct transfer *t, uint64_t now)
{
	double sec = (double)(now - t->began_at) / 1e9;
	const char *lost;

	if (!t->accepted && !t->over && now >= t->join_at)
		say_join(t, now);
	if (t->state != TRANSFER_RECEIVING)
		return true;
	if (!t->missing.count) {
		t->state = TRANSFER_WHOLE;
		return true;
	}
	lost = transfer_lost(t, now);
	if (lost) {
		memmove(t->why, lost, strlen(lost) + 1);
		return false;
	}
	if (t->answering && now >= t->answer_at &&
	    (now >= t->answer_by || diw_qp_records(t->port->ep.qp, NULL, 0) == 0))
		say_wants(t, now);
	bar_draw(&t->bar, now, t->size - t->missing.count * t->block, t->size,
		 sec > 0 ? (double)t->got / sec / 1e9 : 0, t->again);
	return true;
}
