/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp --group: sends a file to a group in passes, each of the blocks that one or more receivers lack. xfer.h
 * describes the protocol. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/siphash.h"
#include "base/wire.h"
#include "tools/cp/group_send.h"

#define MESSAGE_MIN 16384u
#define RCVBUF_LEAST (256u << 10)    /* a smaller value from a receiver is not believed, since it would slow all others
				      * down */
#define BURST 8                      /* Write-Records between two polls */
#define REMARK_NS (2 * DIW_MS)       /* a mark is repeated after two round trips, and at least this */
#define STALL_NS (200 * DIW_MS)      /* after eight round trips without progress, and at least this, the window is
				      * closed */
#define STILL_NS (10 * DIW_S)        /* without the report of a new mark a receiver is refused */
#define NO_JOIN_NS (5 * DIW_S)
#define GATHER_NS (30 * DIW_S)
#define SETTLE_NS (300 * DIW_MS)     /* without --receivers: time from the first join to the start */
#define END_NS (20 * DIW_MS)
#define BACKOFF_US 200u              /* for each receiver */
#define PASSES 100u                  /* the most answers with gaps of a receiver */
#define ASKED_MAX 3u                 /* the most that a receiver may request, in multiples of the file */
#define HASH_NS (60 * DIW_S)         /* plus 20 ns a byte */
#define BYES 3

static void tell(struct group_send *s, const struct diw_addr *to, struct xfer_msg *m)
{
	struct xfer_peer peer = s->to;

	if (to)
		peer.addr = *to;
	m->id = s->id;
	xfer_send(&peer, m);
}

/* Adds the description of the file to the message. */
static void tell_file(struct group_send *s, const struct diw_addr *to, struct xfer_msg *m)
{
	m->size = s->out.size;
	m->message = s->block;
	m->stag = s->stag;
	memcpy(m->sha, s->out.sha, 32);
	snprintf(m->text, sizeof m->text, "%s", s->name);
	tell(s, to, m);
}

static void announce(struct group_send *s, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_ANNOUNCE };

	tell_file(s, NULL, &m);
	s->announced_at = now;
}

static void send_mark(struct group_send *s, bool end, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_MARK, .flags = end ? XFER_END : 0, .mark = ++s->mark, .pass = s->pass,
		.bytes = s->sent, .backoff_us = BACKOFF_US * members_open(&s->members) };

	s->mark_sent[s->mark % GROUP_MARKS] = s->marked = s->sent;
	s->marked_at = s->mark_at[s->mark % GROUP_MARKS] = now;
	tell(s, NULL, &m);
}

/* Sent behind an empty Write-Record: a later message closes the records whose end was lost. */
static void send_end(struct group_send *s, uint64_t now)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE_RECORD, .qkey = TOOL_QKEY, .dst.addr = s->to.addr,
		.stag = s->stag };

	diw_post_send(s->port.ep.qp, &wr, NULL);
	send_mark(s, true, now);
}

static void refuse_member(struct group_send *s, const struct diw_addr *to, const char *why)
{
	struct xfer_msg m = { .type = XFER_REFUSE };

	snprintf(m.text, sizeof m.text, "%s", why);
	tell(s, to, &m);
}

/* ---- Messages of receivers ---- */

static uint64_t member_token(const struct group_send *s, const struct diw_addr *addr)
{
	return diw_siphash(s->key, addr, sizeof *addr) | 1;
}

/* With --rate, at most 50 ms of data: messages wait behind the posted data. */
static void cap_window(struct group_send *s)
{
	s->cwnd.cap = members_rcvbuf(&s->members) / 4;
	if (s->o->rate && s->cwnd.cap > s->o->rate / 20)
		s->cwnd.cap = s->o->rate / 20;
	if (s->cwnd.cap < s->cwnd.floor)
		s->cwnd.cap = s->cwnd.floor;
}

/* Only an address that returns the token gets a place: a host cannot join for another. */
static void on_join(struct group_send *s, const struct diw_addr *src, const struct xfer_msg *m, uint64_t now)
{
	struct xfer_msg answer = { .type = XFER_WELCOME, .token = member_token(s, src), .nonce = m->nonce };
	struct member *member = member_of_addr(&s->members, src);

	if (m->token == answer.token && !member) {
		member = member_add(&s->members, src, now);
		if (!member) {
			s->joins_refused++;
			refuse_member(s, src, "the sender has as many receivers as it can, in all or at this address");
			return;
		}
		member->rcvbuf = m->rcvbuf > RCVBUF_LEAST ? m->rcvbuf : RCVBUF_LEAST;
		member->at = member->base = s->sent;
		member->base_got = m->bytes;
		member->mark = s->mark;
		cap_window(s);
		if (!s->first_join_at)
			s->first_join_at = now;
	}
	answer.flags = member ? XFER_ACCEPTED : 0;
	tell_file(s, src, &answer);
}

static void member_exclude(struct group_send *s, struct member *m, const char *why)
{
	m->state = MEMBER_REFUSED;
	snprintf(m->why, sizeof m->why, "%s", why);
	refuse_member(s, &m->addr, why);
}

static void on_report(struct group_send *s, struct member *m, const struct xfer_msg *msg, uint64_t now)
{
	double loss;

	if (msg->flags & XFER_HAVE && m->state == MEMBER_LIVE) {
		m->state = MEMBER_HAVE;
		s->ended_at = now;
		if (!m->have_at)
			m->have_at = now;
	}
	if (msg->flags & XFER_ANSWER && msg->pass == s->pass && s->phase == GROUP_ENDING &&
	    m->answered != s->pass + 1) {
		m->answered = s->pass + 1;
		if (m->state == MEMBER_LIVE && ++m->passes > PASSES)
			member_exclude(s, m, "it has had its repairs");
	}
	if (!diw_serial_after(msg->mark, m->mark) || diw_serial_after(msg->mark, s->mark) ||
	    s->mark - msg->mark >= GROUP_MARKS)
		return;
	s->rtt += (now - s->mark_at[msg->mark % GROUP_MARKS]) / 8;
	s->rtt -= s->rtt / 8;
	loss = member_report(m, msg->mark, s->mark_sent[msg->mark % GROUP_MARKS], msg->bytes, now);
	if (loss > 0 && m == members_worst(&s->members))
		cwnd_lost(&s->cwnd, msg->mark, s->mark);
}

static void on_want(struct group_send *s, struct member *m, const struct xfer_msg *msg)
{
	uint64_t fresh;

	if (m->state != MEMBER_LIVE || s->phase != GROUP_ENDING || msg->pass != s->pass || m->answered == s->pass + 1)
		return;
	if (msg->block % XFER_BITS || msg->block >= s->wanted.n) {
		s->bad_messages++;
		return;
	}
	m->again += blocks_merge(&s->wanted, msg->block, msg->page, &fresh) * s->block;
	m->asked += fresh;
	if (m->asked > ASKED_MAX * s->wanted.n) {
		s->wants_refused++;
		member_exclude(s, m, "it has asked for more than three times the file");
	}
}

static void on_kept(struct group_send *s, struct member *m, const struct xfer_msg *msg, uint64_t now)
{
	if (!member_is_open(m))
		return;
	if (m->state == MEMBER_LIVE)
		s->ended_at = now;
	m->elapsed_ns = msg->elapsed_ns;
	m->state = msg->flags & XFER_SHA_OK && !(msg->flags & XFER_NOT_SAVED) ? MEMBER_DONE : MEMBER_FAILED;
	snprintf(m->why, sizeof m->why, "%.*s", (int)XFER_TEXT_MAX, msg->text);
	xfer_printable(m->why);
}

static void send_on_message(struct group_send *s, const struct diw_addr *src, const struct xfer_msg *m, uint64_t now)
{
	struct member *member;

	if (m->type == XFER_JOIN) {
		on_join(s, src, m, now);
		return;
	}
	member = member_of_addr(&s->members, src);
	if (!member || m->token != member_token(s, src)) {
		s->bad_messages++;
		return;
	}
	member->heard_at = now;
	if (member->state == MEMBER_LOST) {
		member->state = MEMBER_LIVE;
		member->behind = true;
	}
	switch (m->type) {
	case XFER_REPORT: on_report(s, member, m, now); break;
	case XFER_WANT: on_want(s, member, m); break;
	case XFER_KEPT: on_kept(s, member, m, now); break;
	default: s->bad_messages++;
	}
}

/* ---- Sending ---- */

static void phase_begin(struct group_send *s, enum group_phase phase, uint64_t now)
{
	s->phase = phase;
	s->phase_at = s->progress_at = now;
	s->cursor = 0;
	s->passes += phase == GROUP_SENDING;
}

/* The bytes that may leave at once. If all receivers are behind, a window each 50 ms leaves whatever they report. */
static uint64_t window_room(struct group_send *s, uint64_t now)
{
	uint64_t least = members_slowest(&s->members), out;

	if (members_all_behind(&s->members)) {
		if (now - s->unwatched_at > 50 * DIW_MS) {
			s->unwatched = s->sent;
			s->unwatched_at = now;
		}
		if (least == UINT64_MAX || least < s->unwatched)
			least = s->unwatched;
	}
	out = s->sent > least ? s->sent - least : 0;
	return out < s->cwnd.window ? s->cwnd.window - out : 0;
}

/* The blocks of the next Write-Record. The last block of the file has its own Write-Record: otherwise segments would
 * not be blocks. */
static uint64_t piece_at(const struct group_send *s, uint64_t first)
{
	uint64_t max = s->cwnd.window / 4 < s->o->message ? s->cwnd.window / 4 : s->o->message;
	uint64_t n = blocks_run(&s->wanted, first, max > s->block ? max / s->block : 1);

	return n > 1 && first + n == s->wanted.n ? n - 1 : n;
}

/* 0; -EAGAIN: the queue is full; or another -errno. */
static int group_send_piece(struct group_send *s, uint64_t first, uint64_t n)
{
	uint64_t off = first * s->block, end = off + n * s->block, len = (end < s->out.size ? end : s->out.size) - off;
	struct diw_sge sge = { (char *)s->out.map + off, (uint32_t)len, s->mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE_RECORD, .qkey = TOOL_QKEY,
		.dst.addr = s->to.addr, .stag = s->stag, .to = off };
	int rc = diw_post_send(s->port.ep.qp, &wr, NULL);

	if (rc)
		return rc;
	blocks_remove(&s->wanted, first, n);
	s->cursor = first + n;
	s->sent += len;
	if (s->pass)
		s->again += len;
	return 0;
}

/* Returns whether more may leave at once. */
static bool group_send_some(struct group_send *s, uint64_t now)
{
	uint64_t first, n, interval;

	for (int i = 0; i < BURST; i++) {
		first = blocks_next(&s->wanted, s->cursor);
		if (first == s->wanted.n) {
			phase_begin(s, GROUP_ENDING, now);
			send_end(s, now);
			return false;
		}
		n = piece_at(s, first);
		if (window_room(s, now) < n * s->block || group_send_piece(s, first, n))
			return false;
		interval = s->cwnd.window / 4 > s->block ? s->cwnd.window / 4 : s->block;
		if (s->sent - s->marked >= interval)
			send_mark(s, false, now);
	}
	return true;
}

/* Reports open the window. Without reports the mark is repeated, and later the window closed. */
static void pace(struct group_send *s, uint64_t before, uint64_t now)
{
	uint64_t least = members_slowest(&s->members);

	if (least != UINT64_MAX && before != UINT64_MAX && least > before) {
		cwnd_reported(&s->cwnd, least);
		cwnd_acked(&s->cwnd, least - before);
		s->progress_at = now;
	}
	if (s->phase != GROUP_SENDING || least >= s->sent)
		return;
	if (now - s->progress_at > STALL_NS && now - s->progress_at > 8 * s->rtt) {
		cwnd_timeout(&s->cwnd, s->mark, s->sent);
		s->progress_at = now;
	}
	if (now - s->marked_at > REMARK_NS && now - s->marked_at > 2 * s->rtt)
		send_mark(s, false, now);
}

/* ---- Phases ---- */

static int group_gather(struct group_send *s, uint64_t now)
{
	uint32_t n = s->members.n;

	if (s->o->receivers ? n >= s->o->receivers : n && now - s->first_join_at > SETTLE_NS) {
		for (uint32_t i = 0; i < s->members.n; i++)
			s->members.m[i].heard_at = s->members.m[i].progress_at = now;
		s->began_at = s->ended_at = s->unwatched_at = now;
		phase_begin(s, GROUP_SENDING, now);
		bar_init(&s->bar, s->name);
		return 0;
	}
	if (s->o->receivers && now - s->phase_at > GATHER_NS)
		return tool_failed("%u of %llu receivers have joined", n, (unsigned long long)s->o->receivers);
	if (!s->o->receivers && now - s->phase_at > NO_JOIN_NS)
		return tool_failed("no receiver has joined (is 'diw recv --group %s' running?)", s->o->group);
	return 0;
}

/* Ends a pass: each receiver has answered, or is given up. */
static void end_pass(struct group_send *s, uint64_t now)
{
	uint32_t left = members_unanswered(&s->members, s->pass);
	uint64_t wait = END_NS + 2ull * BACKOFF_US * DIW_US * members_open(&s->members);

	if (left && now - s->phase_at > GROUP_SILENCE_NS)
		for (uint32_t i = 0; i < s->members.n; i++)
			if (s->members.m[i].state == MEMBER_LIVE && s->members.m[i].answered != s->pass + 1)
				member_exclude(s, &s->members.m[i], "it has not said what it lacks");
	if (!left && s->wanted.count) {
		s->pass++;
		phase_begin(s, GROUP_SENDING, now);
	} else if (now - s->marked_at > wait) {
		if (!left) {
			s->pass++;
			s->phase_at = now;
		}
		send_end(s, now);
	}
}

/* Without this, a receiver that sends messages but no reports of new marks could keep the sender for ever. */
static void exclude_still(struct group_send *s, uint64_t now)
{
	for (uint32_t i = 0; i < s->members.n; i++) {
		struct member *m = &s->members.m[i];

		if (m->state == MEMBER_LIVE && now - m->progress_at > STILL_NS)
			member_exclude(s, m, "it reports no progress");
	}
}

static int group_send_step(struct group_send *s, bool *more, uint64_t now)
{
	uint64_t hash_ns = HASH_NS + 20 * s->out.size;

	*more = false;
	if (now - s->announced_at > GROUP_ANNOUNCE_NS)
		announce(s, now);
	if (s->phase == GROUP_GATHERING)
		return group_gather(s, now);
	members_expire(&s->members, s->marked, hash_ns, now);
	exclude_still(s, now);
	if (s->phase == GROUP_SENDING)
		*more = group_send_some(s, now);
	else
		end_pass(s, now);
	bar_draw(&s->bar, now, s->sent < s->out.size ? s->sent : s->out.size, s->out.size,
		 (double)s->sent / ((double)(now - s->began_at) + 1), s->again);
	return 0;
}

static int send_on_wc(struct group_send *s, const struct diw_wc *wc, uint64_t now)
{
	struct xfer_msg m;

	if (wc->opcode != DIW_WC_RECV && wc->status != DIW_WC_SUCCESS && wc->status != DIW_WC_LOC_QP_OP_ERR)
		return tool_failed("send: %s", diw_wc_status_str(wc->status));
	if (xfer_take(&s->port.in, wc, &m) == 0 && m.id == s->id)
		send_on_message(s, &wc->src, &m, now);
	return 0;
}

void group_send_bye(struct group_send *s)
{
	struct xfer_msg m = { .type = XFER_BYE };

	for (int i = 0; i < BYES; i++)
		tell(s, NULL, &m);
}

void group_send_start(struct group_send *s, uint64_t now)
{
	phase_begin(s, GROUP_GATHERING, now);
	announce(s, now);
}

bool group_send_is_over(const struct group_send *s)
{
	return s->phase != GROUP_GATHERING && !members_open(&s->members);
}

int group_send_turn(struct group_send *s, const struct diw_wc *wc, int n, bool *more, uint64_t now)
{
	uint64_t before = members_slowest(&s->members);
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = send_on_wc(s, &wc[i], now);
	pace(s, before, now);
	return rc ? rc : group_send_step(s, more, now);
}

/* ---- The beginning and the end ---- */

int group_send_init(struct group_send *s)
{
	uint64_t random[4];
	int rc = 0;

	if (getrandom(random, sizeof random, 0) != sizeof random)
		return tool_failed("getrandom: %s", strerror(errno));
	s->id = random[0];
	s->key[0] = random[1];
	s->key[1] = random[2];
	s->stag = DIW_STAG_CHOSEN_MIN + (uint32_t)(random[3] % (DIW_STAG_CHOSEN_MAX - DIW_STAG_CHOSEN_MIN));
	s->block = s->port.ep.info.mulpdu - XFER_RECORD_HDR;
	if (s->out.size / s->block >= BLOCKS_MAX ||
	    blocks_init(&s->wanted, (s->out.size + s->block - 1) / s->block, true))
		return tool_failed("%s: too large", s->out.path);
	cwnd_init(&s->cwnd, s->block, MESSAGE_MIN);
	if (s->out.size)
		rc = diw_mr_reg(s->port.ep.pd, s->out.map, s->out.size, DIW_ACCESS_LOCAL_READ, &s->mr);
	return rc ? tool_failed("%s: memory region: %s", s->out.path, strerror(-rc)) : 0;
}

void group_send_fini(struct group_send *s)
{
	if (s->mr)
		diw_mr_dereg(s->mr);
	s->mr = NULL;
	blocks_fini(&s->wanted);
}
