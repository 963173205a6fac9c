/* SPDX-License-Identifier: BSD-2-Clause */
/* diw recv: receives files, one at a time; xfer.h describes the protocol. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/wire.h"
#include "tools/cp/ask.h"
#include "tools/cp/group.h"
#include "tools/cp/incoming.h"

#define WC_BATCH 64
#define LINGER_NS (2 * DIW_S)        /* how long a sender that lost our last message gets an answer */
#define ACTIVE_WAIT_NS (2 * DIW_MS)
#define ASK_RETRY_NS (10 * DIW_MS)   /* if a STATUS shows that an ASK was lost */
#define ASK_TIMEOUT_NS (50 * DIW_MS) /* if no STATUS shows it */
#define OPEN_RECORDS 64
#define RELIABLE_WINDOW (8u << 20)   /* TCP and RD have congestion control; this only bounds the requests that wait */
#define RC_DEPTH (2 * XFER_ENTRIES / XFER_PAGE)
#define PASS_BATCHES (XFER_SLOTS * (RC_CONNS + 1) / WC_BATCH)
#define MAX_FILE (1ull << 48)        /* of a memory region */

enum session_state { IDLE, ACTIVE, FINISHED };

struct session {
	enum session_state state;
	struct xfer_peer peer;
	uint64_t id;
	uint8_t sha[32], sha_got[32];
	struct incoming in;
	struct diw_mr *mr;
	struct ask ask;
	uint32_t asked;                      /* entries before it were sent in an ASK */
	uint64_t ask_at, heard_at, began_at, ended_at;
	bool sha_ok, said_bye;
	char why[XFER_TEXT_MAX + 1];         /* the reason why the file could not be kept */
};

struct receiver {
	struct xfer_port port;
	struct rc_server rc;
	struct session s;
	struct bar bar;
	int dirfd;
	bool force, json;
	enum diw_qp_type type;               /* of the queue pair for datagrams */
	uint64_t files, max_files, bad;
	struct diw_range ranges[DIW_MAX_RANGES];
	struct diw_record_info open[OPEN_RECORDS];
	int nopen;                           /* -1: not counted since the last step */
};

static void refuse_peer(const struct xfer_peer *to, uint64_t id, bool busy, const char *text)
{
	struct xfer_msg m = { .type = XFER_REFUSE, .id = id, .flags = busy ? XFER_BUSY : 0 };

	snprintf(m.text, sizeof m.text, "%.*s", (int)XFER_TEXT_MAX, text);
	xfer_send(to, &m);
}

static void send_asks(struct receiver *r, uint64_t now)
{
	struct session *s = &r->s;
	struct ask_entry *e;
	struct xfer_msg m = { .type = XFER_ASK, .id = s->id, .stag = s->mr ? s->mr->stag : 0,
		.to = s->mr ? s->mr->to : 0 };

	while (s->asked != s->ask.head) {
		m.first = s->asked;
		for (m.n = 0; m.n < XFER_PAGE && s->asked != s->ask.head; m.n++) {
			e = &s->ask.entry[s->asked++ % XFER_ENTRIES];
			m.entry[m.n] = (struct xfer_entry){ e->off, e->len, e->again ? XFER_AGAIN : 0 };
		}
		xfer_send(&s->peer, &m);
		s->ask_at = now;
	}
}

/* Sends DONE with the holes from FIRST on. */
static void send_done(struct receiver *r, uint32_t first)
{
	struct session *s = &r->s;
	struct xfer_msg m = { .type = XFER_DONE, .id = s->id, .first = first, .size = s->ask.valid,
		.again = s->ask.again, .elapsed_ns = s->ended_at - s->began_at, .total = (uint32_t)s->ask.nholes };

	m.flags = (s->sha_ok ? XFER_SHA_OK : 0) | (s->why[0] ? XFER_NOT_SAVED : 0);
	snprintf(m.text, sizeof m.text, "%s", s->why);
	for (; m.n < XFER_PAGE && first + m.n < s->ask.nholes; m.n++)
		m.entry[m.n] = (struct xfer_entry){ s->ask.holes[first + m.n].off, s->ask.holes[first + m.n].len, 0 };
	xfer_send(&s->peer, &m);
}

/* ---- the end of a transfer ---- */

static void session_report_json(const struct receiver *r)
{
	const struct session *s = &r->s;
	double sec = (double)(s->ended_at - s->began_at) / 1e9;
	char hex[65], from[DIW_ADDR_STRLEN];
	cJSON *o = cJSON_CreateObject(), *a, *pair;

	xfer_hex(s->sha_got, hex);
	cJSON_AddStringToObject(o, "from", diw_addr_str(&s->peer.addr, from));
	cJSON_AddStringToObject(o, "qp", opt_qp_name(s->peer.type));
	cJSON_AddStringToObject(o, "name", s->in.name);
	json_add_count(o, "size", s->ask.size);
	json_add_count(o, "bytes_valid", s->ask.valid);
	json_add_count(o, "bytes_asked_again", s->ask.again);
	json_add_number(o, "seconds", sec);
	json_add_number(o, "GBps", sec > 0 ? (double)s->ask.valid / sec / 1e9 : 0);
	json_add_count(o, "records_complete", s->ask.complete_records);
	json_add_count(o, "records_partial", s->ask.partial_records);
	json_add_count(o, "records_lost", s->ask.lost_records);
	cJSON_AddBoolToObject(o, "once", s->ask.once);
	cJSON_AddStringToObject(o, "sha256", hex);
	cJSON_AddBoolToObject(o, "sha256_ok", s->sha_ok);
	cJSON_AddBoolToObject(o, "saved", !s->why[0]);
	a = cJSON_AddArrayToObject(o, "missing");
	for (size_t i = 0; i < s->ask.nholes; i++) {
		pair = cJSON_CreateArray();
		cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)s->ask.holes[i].off));
		cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)s->ask.holes[i].len));
		cJSON_AddItemToArray(a, pair);
	}
	json_print(o);
}

static void session_report(const struct receiver *r)
{
	const struct session *s = &r->s;
	double sec = (double)(s->ended_at - s->began_at) / 1e9;
	char from[DIW_ADDR_STRLEN], a[24], b[24], c[24], hex[65];

	if (r->json) {
		session_report_json(r);
		return;
	}
	xfer_hex(s->sha_got, hex);
	printf("%s: %s from %s in %.3f s, %.3f GB/s", s->in.name, fmt_bytes(s->ask.size, a),
	       diw_addr_str(&s->peer.addr, from), sec, sec > 0 ? (double)s->ask.valid / sec / 1e9 : 0);
	if (s->ask.once)
		printf(", %s valid, %s missing in %zu ranges\n", fmt_bytes(s->ask.valid, b),
		       fmt_bytes(s->ask.size - s->ask.valid, c), s->ask.nholes);
	else if (xfer_is_reliable(&s->peer))
		printf(" over %s\n", s->peer.type == DIW_QP_RC ? "RC" : "RD");
	else
		printf(", %s asked for again\n", fmt_bytes(s->ask.again, b));
	printf("SHA-256 %s %s\n", hex, s->sha_ok ? "matches" : "DIFFERS");
	if (s->ask.once && s->ask.nholes)
		map_print(stdout, s->ask.size, s->ask.holes, s->ask.nholes);
	if (s->why[0])
		tool_failed("%s: not saved: %s", s->in.name, s->why);
	fflush(stdout);
}

/* Ends all rights to write. Called before the file is read, renamed or dropped. */
static void session_withdraw(struct session *s)
{
	if (s->mr)
		diw_mr_dereg(s->mr);
	s->mr = NULL;
}

static void session_drop(struct session *s)
{
	session_withdraw(s);
	if (s->state != IDLE)
		incoming_close(&s->in);
	ask_fini(&s->ask);
	s->state = IDLE;
}

/* Drops a message, which its sender will repeat; its receive must be posted again. */
static void pass_over(struct receiver *r)
{
	struct diw_wc wc[WC_BATCH];
	const struct rc_conn *conn;
	struct xfer_msg m;
	int n;

	for (uint32_t left = PASS_BATCHES; left && (n = diw_cq_poll(r->port.ep.cq, wc, WC_BATCH, 0)) > 0; left--)
		for (int i = 0; i < n; i++) {
			conn = rc_conn_of(&r->rc, wc[i].qp);
			xfer_take(conn ? &conn->in : &r->port.in, &wc[i], &m);
			diw_wc_release(&wc[i]);
		}
	rc_serve_step(&r->rc);
}

/* A connection has ended, possibly that of the transfer. */
static void on_gone(void *ctx, struct rc_conn *conn)
{
	struct receiver *r = ctx;

	if (r->s.peer.qp == conn->in.qp)
		r->s.peer.qp = NULL;
}

/* Hashing a large file takes seconds: an ASK without entries keeps the sender waiting. */
static bool session_while_hashing(void *ctx, uint64_t done)
{
	struct receiver *r = ctx;
	struct xfer_msg m = { .type = XFER_ASK, .id = r->s.id, .first = r->s.ask.head };
	uint64_t now = diw_clock_ns();

	(void)done;
	pass_over(r);
	if (now - r->s.ask_at > XFER_RETRY_NS) {
		xfer_send(&r->s.peer, &m);
		r->s.ask_at = now;
	}
	return !tool_stopped;
}

static void session_finish(struct receiver *r)
{
	struct session *s = &r->s;
	int rc;

	s->ended_at = diw_clock_ns();
	session_withdraw(s);
	bar_end(&r->bar);
	ask_sort_holes(&s->ask);
	for (size_t i = 0; i < s->ask.nholes; i++)
		memset((char *)s->in.map + s->ask.holes[i].off, 0, s->ask.holes[i].len);
	rc = xfer_sha256(s->in.map, s->ask.size, s->sha_got, session_while_hashing, r);
	s->sha_ok = !rc && !memcmp(s->sha, s->sha_got, 32);
	if (!rc && !s->sha_ok && !s->ask.nholes)
		snprintf(s->why, sizeof s->why, "every byte came, but SHA-256 differs: the file changed meanwhile");
	if (!rc && !s->why[0])
		rc = incoming_commit(&s->in, r->force);
	if (rc)
		snprintf(s->why, sizeof s->why, "%s", strerror(-rc));
	incoming_close(&s->in);
	s->state = FINISHED;
	s->heard_at = diw_clock_ns();
	r->files++;
	r->bad += !s->sha_ok || s->why[0];
	send_done(r, 0);
	session_report(r);
}

static void session_abort(struct receiver *r, const char *why)
{
	char buf[DIW_ADDR_STRLEN];

	bar_end(&r->bar);
	tool_failed("%s from %s: %s after %llu of %llu bytes", r->s.in.name, diw_addr_str(&r->s.peer.addr, buf), why,
		    (unsigned long long)r->s.ask.valid, (unsigned long long)r->s.ask.size);
	r->files++;
	r->bad++;
	session_drop(&r->s);
}

/* ---- The beginning of a transfer ---- */

static int session_register(struct receiver *r, const struct xfer_peer *from)
{
	struct session *s = &r->s;
	struct diw_mr_attr attr = { .addr = s->in.map, .length = s->in.size, .peer = &from->addr,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE };

	return s->in.size ? diw_mr_reg_attr(r->port.ep.pd, &attr, &s->mr) : 0;
}

/* Entries are small enough that several fit into the socket buffer, for which the kernel counts its overhead. */
static void session_begin(struct receiver *r, const struct xfer_peer *from, const struct xfer_msg *m, uint64_t now)
{
	struct session *s = &r->s;
	uint64_t window = xfer_is_reliable(from) ? RELIABLE_WINDOW : r->port.ep.info.rcvbuf / 4, piece;

	if (window < 16384)
		window = 16384;
	piece = window / 4 < m->message ? window / 4 : m->message;
	s->state = ACTIVE;
	s->peer = *from;
	s->id = m->id;
	memcpy(s->sha, m->sha, 32);
	ask_init(&s->ask, m->size, (uint32_t)piece, window, m->flags & XFER_ONCE);
	s->asked = 0;
	s->heard_at = s->ask_at = now;
	s->began_at = diw_clock_ns();   /* taking the space took time */
	s->sha_ok = s->said_bye = false;
	s->why[0] = '\0';
	bar_init(&r->bar, s->in.name);
}

static void on_offer(struct receiver *r, const struct xfer_peer *from, const struct xfer_msg *m, uint64_t now)
{
	struct session *s = &r->s;
	char err[XFER_TEXT_MAX + 1];
	int rc;

	if (s->state == ACTIVE)
		refuse_peer(from, m->id, true, "another transfer is under way");
	else if (!xfer_name_ok(m->text))
		refuse_peer(from, m->id, false, "that name is not one inside the directory");
	else if (m->size > MAX_FILE || !m->message || m->message > DIW_MAX_RDMA)
		refuse_peer(from, m->id, false, "size out of range");
	else if (r->max_files && r->files >= r->max_files)
		refuse_peer(from, m->id, false, "the receiver is ending");
	else {
		session_drop(s);
		rc = incoming_create(&s->in, r->dirfd, m->text, m->size, r->force, err, sizeof err);
		if (rc) {
			refuse_peer(from, m->id, false, err);
			return;
		}
		s->state = ACTIVE;
		rc = session_register(r, from);
		if (rc) {
			session_drop(s);
			refuse_peer(from, m->id, false, strerror(-rc));
			return;
		}
		session_begin(r, from, m, now);
	}
}

/* ---- Received messages ---- */

static uint64_t ask_patience(const struct session *s, uint64_t ud)
{
	return xfer_is_reliable(&s->peer) ? XFER_RELIABLE_RETRY_NS : ud;
}

/* RC, RD: Writes before the STATUS were placed before it came (RFC 5040 section 5.5). */
static void on_status(struct session *s, uint32_t next, uint64_t now)
{
	uint32_t i = s->ask.tail;
	const struct ask_entry *e;

	if (!ask_acked(&s->ask, next, now))
		return;
	for (; xfer_is_reliable(&s->peer) && diw_serial_after(s->ask.acked, i); i++) {
		e = &s->ask.entry[i % XFER_ENTRIES];
		ask_record(&s->ask, i, e->off, e->len, &(struct diw_range){ 0, e->len }, 1);
	}
	if (s->ask.acked != s->asked && now - s->ask_at > ask_patience(s, ASK_RETRY_NS))
		s->asked = s->ask.acked;
}

static void session_on_message(struct receiver *r, const struct xfer_peer *from, const struct xfer_msg *m, uint64_t now)
{
	struct session *s = &r->s;
	bool known = s->state != IDLE && m->id == s->id && from->qp == s->peer.qp &&
		     !memcmp(&from->addr, &s->peer.addr, sizeof from->addr);

	if (m->type == XFER_OFFER && !known) {
		on_offer(r, from, m, now);
		return;
	}
	if (!known)
		return;
	s->heard_at = now;
	if (s->state == FINISHED) {
		if (m->type == XFER_BYE)
			s->said_bye = true;
		else
			send_done(r, m->type == XFER_MORE ? m->first : 0);
	} else if (m->type == XFER_OFFER) {
		s->asked = s->ask.acked;     /* the first ASK was lost */
	} else if (m->type == XFER_STATUS) {
		on_status(s, m->first, now);
	} else if (m->type == XFER_BYE) {
		session_abort(r, "given up by the sender");
	}
}

static void on_record(struct receiver *r, struct diw_wc *wc, uint64_t now)
{
	struct session *s = &r->s;
	int n = diw_wc_ranges(wc, r->ranges, DIW_MAX_RANGES);

	if (s->state == ACTIVE && !xfer_is_reliable(&s->peer) && s->mr && wc->stag == s->mr->stag &&
	    wc->flags & DIW_WC_IMM && n >= 0 && n <= DIW_MAX_RANGES) {
		if (ask_record(&s->ask, wc->imm, wc->to - s->mr->to, wc->msg_len, r->ranges, n))
			s->heard_at = now;
	}
	diw_wc_release(wc);
}

static bool record_is_open(void *ctx, uint64_t off)
{
	struct receiver *r = ctx;

	if (r->nopen < 0)
		r->nopen = diw_qp_records(r->port.ep.qp, r->open, OPEN_RECORDS);
	if (r->nopen > OPEN_RECORDS)
		return true;                 /* not known: the record timeout will decide */
	for (int i = 0; i < r->nopen; i++)
		if (r->open[i].stag == r->s.mr->stag && r->open[i].to == r->s.mr->to + off)
			return true;
	return false;
}

static void session_step(struct receiver *r, uint64_t now)
{
	struct session *s = &r->s;
	double sec = (double)(now - s->began_at) / 1e9;

	if (s->state == FINISHED && !s->peer.qp)
		s->said_bye = true;
	if (s->state != ACTIVE)
		return;
	r->nopen = -1;
	ask_expire(&s->ask, now, record_is_open, r);
	ask_fill(&s->ask);
	if (s->ask.acked != s->asked && now - s->ask_at > ask_patience(s, ASK_TIMEOUT_NS))
		s->asked = s->ask.acked;
	send_asks(r, now);
	incoming_reach(&s->in, 0, s->ask.next_off);
	bar_draw(&r->bar, now, s->ask.valid, s->ask.size, sec > 0 ? (double)s->ask.valid / sec / 1e9 : 0, s->ask.again);
	if (s->ask.failed)
		session_abort(r, "out of memory");
	else if (ask_done(&s->ask))
		session_finish(r);
	else if (!s->peer.qp)
		session_abort(r, "the connection ended");
	else if (now - s->heard_at > (xfer_is_reliable(&s->peer) ? XFER_RELIABLE_SILENCE_NS : XFER_SILENCE_NS))
		session_abort(r, "no message from the sender any more (is 'diw cp' still running there?)");
}

static bool receiver_is_over(const struct receiver *r)
{
	if (tool_stopped)
		return true;
	if (!r->max_files || r->files < r->max_files)
		return false;
	return r->s.state == IDLE || r->s.said_bye || diw_clock_ns() - r->s.heard_at > LINGER_NS;
}

/* RD: the sender did not take our message. */
static void on_unsent(struct receiver *r, const struct diw_wc *wc)
{
	struct session *s = &r->s;

	if (wc->status != DIW_WC_PEER_GONE || wc->wr_id != s->id)
		return;
	if (s->state == ACTIVE)
		session_abort(r, "the sender is gone");
	else
		s->said_bye = true;
}

static void receiver_on_wc(struct receiver *r, struct diw_wc *wc, uint64_t now)
{
	const struct rc_conn *conn = rc_conn_of(&r->rc, wc->qp);
	const struct xfer_peer from = { wc->qp, wc->src, conn ? DIW_QP_RC : r->type };
	struct xfer_msg m;

	if (wc->opcode == DIW_WC_RECV_WRITE_RECORD)
		on_record(r, wc, now);
	else if (wc->opcode == DIW_WC_SEND)
		on_unsent(r, wc);
	else if (xfer_take(conn ? &conn->in : &r->port.in, wc, &m) == 0)
		session_on_message(r, &from, &m, now);
}

static int receive_files(struct receiver *r)
{
	struct diw_wc wc[WC_BATCH];
	uint64_t now;
	int n;

	while (!receiver_is_over(r)) {
		n = diw_cq_wait(r->port.ep.cq, wc, WC_BATCH, r->s.state == ACTIVE ? ACTIVE_WAIT_NS : 100 * DIW_MS);
		if (n < 0)
			return tool_failed("waiting for a completion: %s", strerror(-n));
		now = diw_clock_ns();
		for (int i = 0; i < n; i++)
			receiver_on_wc(r, &wc[i], now);
		if (rc_serve_step(&r->rc))
			return TOOL_FAILED;
		session_step(r, now);
	}
	if (r->s.state == ACTIVE)
		session_abort(r, "interrupted");
	if (r->type == DIW_QP_RD && r->s.said_bye)       /* cp waits until its BYE is acknowledged */
		diw_cq_wait(r->port.ep.cq, wc, 1, DIW_MS);
	session_drop(&r->s);
	endpoint_report_errors(&r->port.ep);
	return r->bad ? TOOL_FAILED : TOOL_OK;
}

static int receiver_options(struct receiver *r, struct group_options *g, struct diw_qp_attr *attr, int argc,
			    char **argv)
{
	static const struct option opts[] = { { "json", no_argument, NULL, 'j' },
		{ "port", required_argument, NULL, 'p' }, { "qp", required_argument, NULL, 'q' },
		{ "force", no_argument, NULL, 'f' }, { "count", required_argument, NULL, 'c' },
		{ "group", required_argument, NULL, 'g' }, { "dev", required_argument, NULL, 'd' },
		{ "impair", required_argument, NULL, 'I' }, { 0 } };
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "fc:", opts, NULL)) != -1) {
		switch (opt) {
		case 'j': r->json = true; break;
		case 'f': r->force = true; break;
		case 'p': rc = opt_port(optarg, &attr->dgram.local.port); break;
		case 'q': rc = opt_qp(optarg, OPT_QP_SERVED, &attr->type); break;
		case 'c': rc = opt_number("--count", optarg, 1, 1000000000, &r->max_files); break;
		case 'I': attr->impair = optarg; break;
		case 'g': g->group = optarg; break;
		case 'd': g->dev = optarg; break;
		default: rc = tool_bad_option(argv);
		}
	}
	if (!rc && g->dev && !g->group)
		rc = tool_usage("--dev is for --group");
	if (!rc && g->group && attr->type != DIW_QP_UD)
		rc = tool_usage("--group: without --qp %s", opt_qp_name(attr->type));
	if (!rc && argc - optind != 1)
		rc = tool_usage(argc == optind ? "DIR is missing" : "one DIR only");
	return rc;
}

static int serve_rc(struct receiver *r, uint16_t port)
{
	r->rc = (struct rc_server){ .ep = &r->port.ep, .slots = XFER_SLOTS, .slot_size = XFER_MAX,
		.sq_depth = RC_DEPTH, .max_inline = XFER_MAX, .gone = on_gone, .ctx = r };
	return rc_serve(&r->rc, port);
}

static int receive_from_peers(struct receiver *r, struct diw_qp_attr *attr, const char *dir)
{
	int rc;

	r->type = attr->type;
	attr->dgram.any_addr = true;
	attr->dgram.record_timeout_ns = (int64_t)XFER_RECORD_NS;
	rc = xfer_open(&r->port, NULL, NULL, attr);
	if (!rc)
		rc = serve_rc(r, attr->dgram.local.port);
	if (!rc && !r->json) {
		printf("receiving into %s on UDP%s%s port %u\n", dir, r->type == DIW_QP_RD ? " (RD)" : "",
		       r->rc.listener ? " and TCP" : "", r->port.ep.info.local.port);
		fflush(stdout);
	}
	if (!rc)
		rc = receive_files(r);
	rc_serve_end(&r->rc);
	xfer_close(&r->port);
	return rc;
}

static int receive_from_group(const struct receiver *r, struct group_options *g, struct diw_qp_attr *attr)
{
	attr->dgram.local.port = 0;
	g->count = r->max_files;
	g->dirfd = r->dirfd;
	g->json = r->json;
	g->force = r->force;
	return group_receive(g, attr);
}

static int recv_run(int argc, char **argv)
{
	struct receiver *r = calloc(1, sizeof *r);
	struct group_options group = { 0 };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	int rc;

	if (!r)
		return tool_failed("out of memory");
	attr.dgram.local.port = DIW_PORT;
	rc = receiver_options(r, &group, &attr, argc, argv);
	r->dirfd = rc ? -1 : open(argv[optind], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!rc && r->dirfd < 0)
		rc = tool_failed("%s: %s", argv[optind], strerror(errno));
	if (!rc) {
		xfer_catch_sigbus();
		rc = group.group ? receive_from_group(r, &group, &attr) : receive_from_peers(r, &attr, argv[optind]);
	}
	if (r->dirfd >= 0)
		close(r->dirfd);
	free(r);
	return rc;
}

const struct tool_cmd cmd_recv = {
	.name = "recv", .run = recv_run,
	.args = "DIR [--qp ud|rd | --group ADDRESS [--dev NAME]] [--count N] [--force] [--port N] [--impair SPEC] "
		"[--json]",
	.brief = "Receives files from 'diw cp' into a directory",
	.help = "  -c, --count N       end after N transfers (default: by SIGINT or SIGTERM)\n"
		"  -f, --force         overwrite files that exist\n"
		"      --qp ud|rd      by datagrams, or by reliable datagrams; by RC also (default ud)\n"
		"      --group ADDRESS from 'diw cp --group ADDRESS' alone, a multicast address\n"
		"      --dev NAME      with --group: the device (default: that of the route to the group)\n"
		"      --port N        UDP and TCP port (default 4791), on all addresses\n"
		"      --impair SPEC   impair datagrams at this end (loss, reorder, ...), see diwarp(7)\n"
		"      --json          one JSON object a transfer\n"
		"Exit status 1 when a file came incomplete or not at all.\n",
};
