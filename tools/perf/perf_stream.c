/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bw, bibw and rate of send and write.
 *
 * The sink ends the measurement by its own clock, and tells the source over the control connection. In between neither
 * makes a system call or reads the clock for a single message: completions come in batches, and requests are posted as
 * lists.
 *
 * UD has no flow control, so the source sends at most a window beyond what the sink has accounted for. The sink
 * identifies messages by their MSNs, so a later message accounts for lost ones before it. Cumulative counts make a lost
 * credit harmless. A source that stalls reports how much it has sent, which accounts for everything before.
 *
 * RC loses nothing, so its sink counts. Its Writes are plain ones: a Send behind each list of Writes says how many
 * there were, and its arrival proves theirs. With many queue pairs the sink counts, too; a report of a stall accounts
 * for lost messages.
 */
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "tools/perf/perf_rig.h"

#define CREDIT_LEN RIG_CREDIT_LEN    /* consumed 8, sent 8, flags 4, round 4; a solicited Send, unlike messages */
#define CREDIT_SYNC 1u
#define STALL_NS (500 * DIW_US)
#define QUIET_NS (130 * DIW_MS)      /* longer than the timeouts of records and reassembly */
#define DRAIN_NS DIW_S
#define OPEN_NS (20 * DIW_US)
#define OPEN_MAX 256
#define COMPUTE_NS (200 * DIW_US)
#define COMPUTE_POLL_NS (5 * DIW_US)

enum tx_state { TX_RUN, TX_DRAIN, TX_DONE };

struct stream {
	struct rig *r;
	struct perf_ctl *ctl;
	bool tx, rx;
	enum tx_state tx_state;
	uint64_t sent, limit;                /* in messages */
	uint64_t marked;                     /* RC Writes: those that the sink was told of */
	uint64_t credit_at, drain_at;
	uint64_t patience;                   /* until the next SYNC, each of which takes a receive of the peer */
	uint32_t credit_msn;
	bool credited;                       /* credit_msn is valid */
	struct meter m;
	uint64_t arrived;                    /* completions, including incomplete messages */
	uint64_t consumed, returned;         /* messages of the peer: accounted for; reported */
	uint64_t anchor_count;               /* the peer's message with this MSN is its message number anchor_count */
	uint32_t anchor_msn, last_msn;
	bool anchored, seen;
	uint64_t data_at, tick_at, open_at, begin;
	int64_t peer_sent;                   /* -1: not reported yet */
	bool stopped, rx_done;               /* the peer was told to stop; everything has come */
	bool ended;                          /* the client's user has ended the round */
	double tx_cpu;
	uint64_t slice_at, computed;         /* cpu: when the turn of communication began; time of computation */
	struct hist closing;                 /* for records that the reorder window closed */
};

static bool is_rc(const struct stream *s)
{
	return perf_is_rc(s->r->pc.qp);
}

static bool is_tagged(const struct stream *s)
{
	return s->r->pc.op == PERF_WRITE;
}

/* Messages are counted, and not identified by their MSNs. */
static bool is_counted(const struct stream *s)
{
	return is_rc(s) || rig_has_many(s->r);
}

static bool has_marks(const struct stream *s)
{
	return is_rc(s) && is_tagged(s);
}

/* ---- Credits ---- */

static int send_credit(struct stream *s, uint32_t flags)
{
	uint8_t buf[CREDIT_LEN];
	struct diw_sge sge = { buf, CREDIT_LEN, 0 };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND, .qkey = TOOL_QKEY,
		.dst.addr = s->r->dst, .flags = DIW_SEND_INLINE | DIW_SEND_SOLICITED };
	int rc;

	diw_put64(buf, s->consumed);
	diw_put64(buf + 8, s->sent);
	diw_put32(buf + 16, flags);
	diw_put32(buf + 20, s->r->round);
	rc = rig_send(s->r, &wr);
	if (!rc) {
		s->returned = s->consumed;
		s->marked = s->sent;
	}
	return rc == -ENOMEM ? 0 : rc;       /* full: the next batch tries again */
}

static void anchor(struct stream *s, uint64_t count, uint32_t msn)
{
	s->anchored = true;
	s->anchor_count = s->consumed = count;
	s->anchor_msn = msn;
}

/* The peer's Sends have the same MSN sequence as its untagged messages; tagged ones have another. */
static int on_credit(struct stream *s, const struct diw_wc *wc, uint64_t now, uint64_t *msgs)
{
	const uint8_t *p = (uint8_t *)s->r->rx.addr + wc->wr_id * s->r->recv_size;
	uint64_t sent;
	bool sync;

	if (wc->byte_len != CREDIT_LEN || diw_get32(p + 20) != s->r->round)
		return 0;
	sent = diw_get64(p + 8);
	sync = diw_get32(p + 16) & CREDIT_SYNC;
	if (!s->credited || diw_serial_after(wc->msn, s->credit_msn)) {
		s->credited = true;
		s->credit_msn = wc->msn;
		s->limit = diw_get64(p) + s->r->window;
		s->credit_at = now;
		s->patience = STALL_NS;
	}
	if (rig_has_many(s->r)) {
		if (sync && !is_rc(s) && sent > s->consumed)
			s->consumed = sent;
	} else if (is_rc(s)) {
		*msgs += sent - s->consumed;
		s->arrived += sent - s->consumed;
		s->consumed = sent;
	} else if (!is_tagged(s))
		anchor(s, sent, wc->msn);
	else if (sync && s->seen)
		anchor(s, sent, s->last_msn);
	else if (sync)
		s->consumed = sent;
	return sync ? send_credit(s, 0) : 0;
}

/* The source has sent everything up to that message. */
static void account_sent(struct stream *s, uint32_t msn)
{
	int64_t count;

	if (!s->anchored)
		anchor(s, s->consumed, msn - 1);
	if (!s->seen || diw_serial_after(msn, s->last_msn))
		s->last_msn = msn;
	s->seen = true;
	count = (int64_t)s->anchor_count + (int32_t)(msn - s->anchor_msn);
	if (count > (int64_t)s->consumed)
		s->consumed = (uint64_t)count;
}

/* A record with holes stays open for the reorder window. It must not delay the source, so it is accounted for when a
 * later record is open. */
static void look_at_open(struct stream *s, uint64_t now)
{
	struct diw_record_info open[OPEN_MAX];
	uint32_t newest;
	int n;

	if (now - s->open_at < OPEN_NS)
		return;
	s->open_at = now;
	n = diw_qp_records(s->r->ep.qp, open, OPEN_MAX);
	if (n < 1 || !s->anchored)
		return;
	newest = open[0].msn;
	for (int i = 1; i < n && i < OPEN_MAX; i++)
		if (diw_serial_after(open[i].msn, newest))
			newest = open[i].msn;
	account_sent(s, newest - 1);
}

/* ---- Parts of the loop ---- */

/* Handles a batch of completions; 0 or -errno. */
static int take_batch(struct stream *s, struct diw_wc *wc, int n, uint64_t now)
{
	uint64_t msgs = 0, bytes = 0, told = 0;
	int rc = 0;

	for (int i = 0; i < n && !rc; i++) {
		if (wc[i].status != DIW_WC_SUCCESS)
			return tool_failed("%s: %s", diw_wc_opcode_str(wc[i].opcode), diw_wc_status_str(wc[i].status));
		if (wc[i].opcode == DIW_WC_RECV_WRITE_RECORD || wc[i].opcode == DIW_WC_RECV_WRITE_IMM ||
		    (wc[i].opcode == DIW_WC_RECV && !(wc[i].flags & DIW_WC_SOLICITED))) {
			if (is_counted(s))
				s->consumed++;
			else
				account_sent(s, wc[i].msn);
			s->arrived++;
			msgs += wc[i].byte_len == wc[i].msg_len;
			bytes += wc[i].byte_len;
		} else if (wc[i].opcode == DIW_WC_RECV) {
			rc = on_credit(s, &wc[i], now, &told);
		}
		if (wc[i].opcode == DIW_WC_RECV_WRITE_RECORD && wc[i].close == DIW_RECORD_WINDOW)
			hist_add(&s->closing, wc[i].waited_ns);
		if (wc[i].opcode == DIW_WC_RECV_WRITE_RECORD)
			diw_wc_release(&wc[i]);
		else if (wc[i].opcode == DIW_WC_RECV || wc[i].opcode == DIW_WC_RECV_WRITE_IMM)
			rig_recv_again(s->r, wc[i].wr_id);
	}
	if (!rc)
		rc = rig_recv_flush(s->r);
	msgs += told;
	bytes += told * s->r->pc.size;
	if (msgs + bytes)
		s->data_at = now;
	if (s->rx)
		meter_batch(&s->m, now, msgs, bytes);
	return rc;
}

static int give_credit(struct stream *s, uint64_t now)
{
	int64_t owed, least;
	int rc = 0;

	if (is_tagged(s) && !is_counted(s) && s->rx && s->r->pc.size > s->r->ep.info.mulpdu)
		look_at_open(s, now);
	owed = (int64_t)(s->consumed - s->returned);
	least = s->r->pc.outstanding ? 1 : s->r->pc.window ? s->r->window / 2 : s->r->window / 4;
	if (owed > 0 && owed >= least)
		rc = send_credit(s, 0);
	return rc ? tool_failed("posting a request: %s", strerror(-rc)) : 0;
}

/* 1: all was posted; 0: an event must come first; or -errno. */
static int post_some(struct stream *s)
{
	uint64_t room = s->limit - s->sent;
	uint32_t want = room < RIG_RING ? (uint32_t)room : RIG_RING;
	bool marks = has_marks(s);
	int n;

	/* The sink gives no credit before a list's mark: a list that fills the window would leave both ends idle. */
	if (marks && !s->r->pc.outstanding && want > (s->r->window + 1) / 2)
		want = (s->r->window + 1) / 2;
	if (marks && s->marked != s->sent) {
		n = send_credit(s, 0);
		if (n || s->marked != s->sent)
			return n;            /* no room for it, so none for more Writes */
	}
	if (s->tx_state != TX_RUN || (int64_t)room <= 0 || (s->r->pc.window && room < s->r->window / 2))
		return 0;
	n = rig_post(s->r, want);
	if (n < 0)
		return n;
	s->sent += (uint64_t)n;
	if (marks && n > 0) {
		int rc = send_credit(s, 0);

		if (rc)
			return rc;
	}
	return n > 0;
}

static void tell_peer(struct stream *s, const char *key, double v)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, key, v);
	ctl_send(s->ctl, o);         /* an error means that the other end has gone, which the next poll finds */
}

/* Reads one "stop" at a source, one "sent" at a sink: later objects belong to the next round. */
static int look_at_ctl(struct stream *s, uint64_t now)
{
	bool expecting = (s->tx && s->tx_state == TX_RUN) || (s->rx && s->peer_sent < 0);
	cJSON *o;

	if (!expecting || !ctl_ready(s->ctl))
		return 0;
	o = ctl_recv(s->ctl, DIW_S);
	if (!o)
		return tool_failed("the other end has gone");
	if (cJSON_HasObjectItem(o, "stop") && s->tx_state == TX_RUN) {
		s->tx_state = TX_DRAIN;
		s->drain_at = now;
		s->tx_cpu = perf_cpu_now() - s->m.cpu0;
	}
	if (cJSON_HasObjectItem(o, "over"))
		s->m.over = true;
	if (cJSON_HasObjectItem(o, "sent"))
		s->peer_sent = (int64_t)ctl_number(o, "sent");
	cJSON_Delete(o);
	return 0;
}

static void tick_tx(struct stream *s, uint64_t now)
{
	uint32_t pending;

	if (!is_rc(s) && s->tx_state == TX_RUN && (int64_t)(s->limit - s->sent) <= 0 &&
	    now - s->credit_at > s->patience) {
		send_credit(s, CREDIT_SYNC);
		s->credit_at = now;
		s->patience *= 2;
	}
	if (s->tx_state != TX_DRAIN)
		return;
	pending = rig_pending(s->r);
	if ((pending || (has_marks(s) && s->marked != s->sent)) && (is_rc(s) || now - s->drain_at < DRAIN_NS))
		return;
	s->tx_state = TX_DONE;
	tell_peer(s, "sent", (double)s->sent);
}

static void tick_rx(struct stream *s, uint64_t now)
{
	meter_batch(&s->m, now, 0, 0);
	if (!s->stopped && (s->m.over || (!s->m.first && now - s->begin > 2 * s->m.ns + 2 * DIW_S))) {
		meter_stop(&s->m);
		s->stopped = true;
		tell_peer(s, "stop", 1);
	}
	if (s->stopped && s->peer_sent >= 0)
		s->rx_done = (int64_t)s->arrived >= s->peer_sent || (!is_rc(s) && now - s->data_at > QUIET_NS);
}

/* The client's user wants no more: the client ends its measurement, and asks for the end of the server's. */
static void stream_end_early(struct stream *s)
{
	s->ended = s->m.over = true;
	tell_peer(s, "over", 1);
}

static int stream_tick(struct stream *s, uint64_t now)
{
	bool client = s->r->side.client;
	int rc;

	if (now - s->tick_at < PERF_TICK_NS)
		return 0;
	s->tick_at = now;
	rc = look_at_ctl(s, now);
	if (!rc && s->tx)
		tick_tx(s, now);
	if (!rc && s->rx)
		tick_rx(s, now);
	if (client && tool_stopped && !s->ended)
		stream_end_early(s);
	if (!rc && (tool_stopped > client || now - s->begin > 3 * s->m.ns + perf_patience_ns(&s->r->pc)))
		rc = tool_failed(tool_stopped > client ? "interrupted" : "the other end does not finish");
	return rc;
}

/* cpu: communication has its share of a turn, then computation has the rest. */
static void stream_compute(struct stream *s, uint64_t now)
{
	uint64_t share = s->r->pc.compute, end = now + COMPUTE_NS;
	volatile double x = 1;

	if (!share || now - s->slice_at < COMPUTE_NS * (100 - share) / share)
		return;
	do
		for (int i = 0; i < 100; i++)
			x = x * 1.0000001 + 0.5;
	while ((s->slice_at = diw_clock_ns()) < end);
	s->computed += s->slice_at - now;
}

static int stream_loop(struct stream *s)
{
	struct diw_wc wc[PERF_BATCH];
	uint64_t now;
	int posted, n, rc = 0;

	while (!rc && ((s->tx && s->tx_state != TX_DONE) || (s->rx && !s->rx_done))) {
		posted = s->tx ? post_some(s) : 0;
		if (posted < 0)
			return tool_failed("posting a request: %s", strerror(-posted));
		if (posted && !s->rx && s->limit - s->sent > s->r->window / 2)
			continue;            /* enough credits for the next list */
		n = rig_take(s->r, wc, PERF_BATCH, posted ? 0 : s->r->pc.compute ? (int64_t)COMPUTE_POLL_NS :
			     (int64_t)PERF_TICK_NS);
		if (n < 0)
			return tool_failed("completion queue: %s", strerror(-n));
		now = diw_clock_ns();
		if (s->r->pc.compute)
			stream_compute(s, now);
		rc = n ? take_batch(s, wc, n, now) : 0;
		if (!rc)
			rc = give_credit(s, now);
		if (!rc)
			rc = stream_tick(s, now);
	}
	return rc;
}

int stream_run(struct rig *r, struct perf_ctl *ctl, uint64_t ns, struct perf_part *part)
{
	struct stream s = { .r = r, .ctl = ctl, .tx = r->side.client || perf_both_ways(r->pc.test),
		.rx = !r->side.client || perf_both_ways(r->pc.test), .limit = r->window, .patience = STALL_NS,
		.peer_sent = -1 };
	int rc;

	if (hist_init(&s.closing))
		return tool_failed("out of memory");
	meter_init(&s.m, ns);
	s.begin = s.credit_at = s.data_at = s.slice_at = diw_clock_ns();
	rc = stream_loop(&s);
	if (s.rx)
		meter_part(&s.m, part);
	else
		part->cpu_s = s.tx_cpu;
	part->computed = (double)s.computed / (double)(diw_clock_ns() - s.begin);
	part->close_p99_ns = hist_quantile(&s.closing, 0.99);
	hist_fini(&s.closing);
	part->tx_msgs = (double)s.sent;
	part->tx_bytes = (double)(s.sent * r->pc.size);
	return rc;
}
