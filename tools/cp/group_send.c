/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp --group: sends a file to a group in passes, each of what one or more receivers lack, as xfer.h tells. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/siphash.h"
#include "base/wire.h"
#include "tools/cp/blocks.h"
#include "tools/cp/cwnd.h"
#include "tools/cp/members.h"
#include "tools/cp/outgoing.h"

#define WC_BATCH 64
#define MARKS 256u                   /* remembered; a power of two */
#define MESSAGE_MIN 16384u
#define RCVBUF_LEAST (256u << 10)    /* what a receiver says of less is not believed: it would slow down all */
#define BURST 8                      /* Write-Records between two looks at what came */
#define REMARK_NS (2 * DIW_MS)       /* a mark is repeated after two round trips, this at least */
#define STALL_NS (200 * DIW_MS)      /* no progress for eight, this at least: the window is closed */
#define NO_JOIN_NS (5 * DIW_S)
#define GATHER_NS (30 * DIW_S)
#define SETTLE_NS (300 * DIW_MS)     /* without --receivers: between the first that joins and the start */
#define END_NS (20 * DIW_MS)
#define BACKOFF_US 200u              /* a receiver */
#define PASSES 100u                  /* that a receiver may answer with gaps */
#define ASKED_MAX 3u                 /* times the file that a receiver may ask for */
#define HASH_NS (60 * DIW_S)         /* and 20 ns a byte */
#define BYES 3
#define BYE_NS (500 * DIW_MS)        /* so long they may wait for what was posted before */

enum phase { GATHERING, SENDING, ENDING };

struct group_send {
	const struct group_options *o;
	struct xfer_port port;
	struct xfer_peer to;                 /* the group */
	struct outgoing out;
	const char *name;
	struct diw_mr *mr;
	uint64_t id, key[2];
	uint32_t stag, block;
	enum phase phase;
	struct members members;
	struct blocks wanted;                /* of this pass, and then of the next */
	uint64_t cursor;                     /* blocks before it have been looked at in this pass */
	uint32_t pass, mark, passes;         /* mark: the latest one's number; passes: that sent something */
	uint64_t mark_sent[MARKS], mark_at[MARKS];   /* what had been sent by it, and when it was */
	uint64_t rtt;                        /* smoothed: from a mark to the report of the slowest */
	uint64_t sent, again, marked, unwatched;     /* bytes; marked: by the latest mark */
	struct cwnd cwnd;
	uint64_t announced_at, marked_at, progress_at, phase_at, began_at, ended_at, first_join_at, unwatched_at;
	uint64_t joins_refused, wants_refused, bad_messages;
	struct bar bar;
};

static void tell(struct group_send *s, const struct diw_addr *to, struct xfer_msg *m)
{
	struct xfer_peer peer = s->to;

	if (to)
		peer.addr = *to;
	m->id = s->id;
	xfer_send(&peer, m);
}

static void announce(struct group_send *s, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_ANNOUNCE, .size = s->out.size, .message = s->block, .stag = s->stag };

	memcpy(m.sha, s->out.sha, 32);
	snprintf(m.text, sizeof m.text, "%s", s->name);
	tell(s, NULL, &m);
	s->announced_at = now;
}

static void send_mark(struct group_send *s, bool end, uint64_t now)
{
	struct xfer_msg m = { .type = XFER_MARK, .flags = end ? XFER_END : 0, .mark = ++s->mark, .pass = s->pass,
		.bytes = s->sent, .backoff_us = BACKOFF_US * members_open(&s->members) };

	s->mark_sent[s->mark % MARKS] = s->marked = s->sent;
	s->marked_at = s->mark_at[s->mark % MARKS] = now;
	tell(s, NULL, &m);
}

/* Behind an empty Write-Record: a later message closes the records whose end was lost. */
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

/* ---- What receivers say ---- */

static uint64_t member_token(const struct group_send *s, const struct diw_addr *addr)
{
	return diw_siphash(s->key, addr, sizeof *addr) | 1;
}

/* With --rate no more than 50 ms of it: what is said waits behind the data that is posted. */
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
			refuse_member(s, src, "the sender has as many receivers as it can");
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
	tell(s, src, &answer);
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
		m->have_at = s->ended_at = now;
	}
	if (msg->flags & XFER_ANSWER && msg->pass == s->pass && s->phase == ENDING && m->answered != s->pass + 1) {
		m->answered = s->pass + 1;
		if (m->state == MEMBER_LIVE && ++m->passes > PASSES)
			member_exclude(s, m, "it has had its repairs");
	}
	if (!diw_serial_after(msg->mark, m->mark) || diw_serial_after(msg->mark, s->mark) ||
	    s->mark - msg->mark >= MARKS)
		return;
	s->rtt += (now - s->mark_at[msg->mark % MARKS]) / 8;
	s->rtt -= s->rtt / 8;
	loss = member_report(m, msg->mark, s->mark_sent[msg->mark % MARKS], msg->bytes, now);
	if (loss > 0 && m == members_worst(&s->members))
		cwnd_lost(&s->cwnd, msg->mark, s->mark);
}

static void on_want(struct group_send *s, struct member *m, const struct xfer_msg *msg)
{
	uint64_t asked;

	if (m->state != MEMBER_LIVE || s->phase != ENDING || msg->pass != s->pass || m->answered == s->pass + 1)
		return;
	if (msg->block % XFER_BITS || msg->block >= s->wanted.n) {
		s->bad_messages++;
		return;
	}
	if (m->asked > ASKED_MAX * s->wanted.n) {
		s->wants_refused++;
		member_exclude(s, m, "it has asked for more than three times the file");
		return;
	}
	asked = blocks_merge(&s->wanted, msg->block, msg->page);
	m->asked += asked;
	m->again += asked * s->block;
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

static void phase_begin(struct group_send *s, enum phase phase, uint64_t now)
{
	s->phase = phase;
	s->phase_at = s->progress_at = now;
	s->cursor = 0;
	s->passes += phase == SENDING;
}

/* Bytes that may leave now. Where no receiver is waited for, a window each 50 ms. */
static uint64_t window_room(struct group_send *s, uint64_t now)
{
	uint64_t least = members_slowest(&s->members), out;

	if (least == UINT64_MAX) {
		if (now - s->unwatched_at > 50 * DIW_MS) {
			s->unwatched = s->sent;
			s->unwatched_at = now;
		}
		least = s->unwatched;
	}
	out = s->sent > least ? s->sent - least : 0;
	return out < s->cwnd.window ? s->cwnd.window - out : 0;
}

/* Blocks of the next Write-Record. The last block of the file has its own: else the segments would not be blocks. */
static uint64_t piece_at(const struct group_send *s, uint64_t first)
{
	uint64_t max = s->cwnd.window / 4 < s->o->message ? s->cwnd.window / 4 : s->o->message;
	uint64_t n = blocks_run(&s->wanted, first, max > s->block ? max / s->block : 1);

	return n > 1 && first + n == s->wanted.n ? n - 1 : n;
}

/* 0, -EAGAIN: the queue is full, or another -errno. */
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
			phase_begin(s, ENDING, now);
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

/* Reports open the window. Where none comes the mark is repeated, and later the window closed. */
static void pace(struct group_send *s, uint64_t before, uint64_t now)
{
	uint64_t least = members_slowest(&s->members);

	if (least != UINT64_MAX && before != UINT64_MAX && least > before) {
		cwnd_acked(&s->cwnd, least - before);
		s->progress_at = now;
	}
	if (s->phase != SENDING || least >= s->sent)
		return;
	if (now - s->progress_at > STALL_NS && now - s->progress_at > 8 * s->rtt) {
		cwnd_timeout(&s->cwnd, s->mark);
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
		phase_begin(s, SENDING, now);
		bar_init(&s->bar, s->name);
		return 0;
	}
	if (s->o->receivers && now - s->phase_at > GATHER_NS)
		return tool_failed("%u of %llu receivers have joined", n, (unsigned long long)s->o->receivers);
	if (!s->o->receivers && now - s->phase_at > NO_JOIN_NS)
		return tool_failed("no receiver has joined (is 'diw recv --group %s' running?)", s->o->group);
	return 0;
}

/* The end of a pass: each receiver has answered, or is given up. */
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
		phase_begin(s, SENDING, now);
	} else if (now - s->marked_at > wait) {
		if (!left) {
			s->pass++;
			s->phase_at = now;
		}
		send_end(s, now);
	}
}

static int group_send_step(struct group_send *s, bool *more, uint64_t now)
{
	uint64_t hash_ns = HASH_NS + 20 * s->out.size;

	*more = false;
	if (now - s->announced_at > GROUP_ANNOUNCE_NS)
		announce(s, now);
	if (s->phase == GATHERING)
		return group_gather(s, now);
	members_expire(&s->members, s->marked, hash_ns, now);
	if (s->phase == SENDING)
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

static void say_bye(struct group_send *s)
{
	uint64_t until = diw_clock_ns() + BYE_NS;
	struct diw_wc wc[WC_BATCH];
	struct xfer_msg m = { .type = XFER_BYE };
	struct diw_qp_info info;

	for (int i = 0; i < BYES; i++)
		tell(s, NULL, &m);
	do
		diw_cq_wait(s->port.ep.cq, wc, WC_BATCH, DIW_MS);
	while (diw_qp_query(s->port.ep.qp, &info) == 0 && info.sq_pending && diw_clock_ns() < until);
}

static int group_send_loop(struct group_send *s)
{
	struct diw_wc wc[WC_BATCH];
	uint64_t now = diw_clock_ns(), before;
	bool more = false;
	int n, rc = 0;

	phase_begin(s, GATHERING, now);
	announce(s, now);
	while (!rc && !tool_stopped && (s->phase == GATHERING || members_open(&s->members))) {
		n = diw_cq_wait(s->port.ep.cq, wc, WC_BATCH, more ? 0 : DIW_MS);
		if (n < 0)
			return tool_failed("wait: %s", strerror(-n));
		now = diw_clock_ns();
		before = members_slowest(&s->members);
		for (int i = 0; i < n && !rc; i++)
			rc = send_on_wc(s, &wc[i], now);
		pace(s, before, now);
		if (!rc)
			rc = group_send_step(s, &more, now);
	}
	if (s->phase != GATHERING)
		bar_end(&s->bar);
	say_bye(s);
	return tool_stopped ? tool_failed("interrupted") : rc;
}

/* ---- The end ---- */

static double gbps(uint64_t bytes, double sec)
{
	return sec > 0 ? (double)bytes / sec / 1e9 : 0;
}

static void send_report_json(const struct group_send *s, double sec, uint64_t wire)
{
	uint32_t done = members_in(&s->members, MEMBER_DONE);
	cJSON *o = cJSON_CreateObject(), *list, *row;
	char buf[DIW_ADDR_STRLEN], hex[65];

	xfer_hex(s->out.sha, hex);
	cJSON_AddStringToObject(o, "file", s->out.path);
	cJSON_AddStringToObject(o, "group", diw_addr_str(&s->to.addr, buf));
	cJSON_AddStringToObject(o, "name", s->name);
	json_add_count(o, "size", s->out.size);
	json_add_count(o, "block", s->block);
	json_add_count(o, "joined", s->members.n);
	json_add_count(o, "done", done);
	json_add_count(o, "passes", s->passes);
	json_add_count(o, "bytes_sent", s->sent);
	json_add_count(o, "bytes_sent_again", s->again);
	json_add_count(o, "tx_bytes", wire);
	json_add_count(o, "window_cuts", s->cwnd.cuts);
	json_add_count(o, "window_timeouts", s->cwnd.timeouts);
	json_add_count(o, "window", s->cwnd.window);
	json_add_number(o, "rtt_us", (double)s->rtt / 1e3);
	json_add_count(o, "marks", s->mark);
	json_add_count(o, "joins_refused", s->joins_refused);
	json_add_count(o, "wants_refused", s->wants_refused);
	json_add_count(o, "bad_messages", s->bad_messages);
	json_add_number(o, "seconds", sec);
	json_add_number(o, "GBps", gbps(s->out.size, sec));
	json_add_number(o, "GBps_aggregate", gbps(s->out.size * done, sec));
	cJSON_AddStringToObject(o, "sha256", hex);
	list = cJSON_AddArrayToObject(o, "receivers");
	for (uint32_t i = 0; i < s->members.n; i++) {
		const struct member *m = &s->members.m[i];

		row = cJSON_CreateObject();
		cJSON_AddStringToObject(row, "addr", diw_addr_str(&m->addr, buf));
		cJSON_AddStringToObject(row, "state", member_state_str(m->state));
		json_add_count(row, "bytes_asked_again", m->again);
		json_add_number(row, "seconds", (double)m->elapsed_ns / 1e9);
		cJSON_AddBoolToObject(row, "behind", m->behind);
		cJSON_AddStringToObject(row, "why", m->why);
		cJSON_AddItemToArray(list, row);
	}
	json_print(o);
}

static uint64_t send_counter(const struct group_send *s, const char *name)
{
	uint64_t v[512];
	int n = diw_qp_counters(s->port.ep.qp, v, 512);

	for (int i = 0; i < n && i < 512; i++)
		if (strcmp(diw_counter_name(i), name) == 0)
			return v[i];
	return 0;
}

static int group_send_report(const struct group_send *s)
{
	double sec = (double)(s->ended_at - s->began_at) / 1e9;
	uint32_t done = members_in(&s->members, MEMBER_DONE);
	char buf[DIW_ADDR_STRLEN], a[24], b[24], hex[65];

	if (s->o->json) {
		send_report_json(s, sec, send_counter(s, "tx_bytes"));
	} else {
		xfer_hex(s->out.sha, hex);
		printf("%s: %s to %u receivers in %.3f s, %.3f GB/s each, %.3f GB/s together, %s sent again\n", s->name,
		       fmt_bytes(s->out.size, a), done, sec, gbps(s->out.size, sec), gbps(s->out.size * done, sec),
		       fmt_bytes(s->again, b));
		printf("SHA-256 %s matches at %u of %u\n", hex, done, s->members.n);
	}
	for (uint32_t i = 0; i < s->members.n; i++)
		if (s->members.m[i].state != MEMBER_DONE)
			tool_failed("%s: %s: %s", diw_addr_str(&s->members.m[i].addr, buf),
				    member_state_str(s->members.m[i].state), s->members.m[i].why);
	return done == s->members.n ? TOOL_OK : TOOL_FAILED;
}

static int send_prepare(struct group_send *s)
{
	uint64_t random[4];
	int rc = 0;

	if (getrandom(random, sizeof random, 0) != sizeof random)
		return tool_failed("no random number: %s", strerror(errno));
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

static int group_send_run(struct group_send *s, struct diw_qp_attr *attr)
{
	int rc;

	attr->rate_limit = s->o->rate;
	rc = group_open(&s->port, s->o, attr, &s->to.addr);
	s->to.qp = s->port.ep.qp;
	if (!rc)
		rc = outgoing_open(&s->out);
	if (!rc)
		rc = send_prepare(s);
	if (!rc)
		rc = group_send_loop(s);
	if (!rc)
		rc = group_send_report(s);
	if (s->mr)
		diw_mr_dereg(s->mr);
	xfer_close(&s->port);
	blocks_fini(&s->wanted);
	outgoing_close(&s->out);
	return rc;
}

int group_copy(const struct group_options *o, const char *file, const char *name, struct diw_qp_attr *attr)
{
	struct group_send *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return tool_failed("out of memory");
	s->o = o;
	s->out = (struct outgoing){ .path = file, .fd = -1 };
	s->name = name;
	rc = group_send_run(s, attr);
	free(s);
	return rc;
}
