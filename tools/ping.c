/* SPDX-License-Identifier: BSD-2-Clause */
/* diw ping and listen: Sends that come back. Every wait is bounded, since a UD message or its echo may be lost. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "tools/rc.h"

#define PING_MAGIC 0x44495750u
#define PING_HDR 16u                         /* magic 4, sequence 4, time sent 8 */
#define PING_MAX (1u << 20)
#define LISTEN_SLOTS 64u
#define PING_SLOTS 16u
#define SEEN 65536u                          /* echoes that may be in flight, to tell answers from duplicates */
#define FLOOD_WAIT_NS DIW_S

struct ping {
	struct endpoint ep;
	struct inbox in;
	struct region tx;
	struct diw_cm *cm;                   /* RC */
	struct diw_addr dst;
	struct hist rtt;
	uint64_t count, interval_ns, wait_ns, size;
	uint64_t sent, received, duplicates;
	uint64_t sent_at;
	enum diw_qp_type type;
	bool answered;                       /* whether the newest one was answered */
	bool queued;                         /* the stack is using tx */
	bool json, ended;
	uint8_t seen[SEEN / 8];
};

static int open_endpoint_inbox(struct endpoint *ep, struct inbox *in, struct diw_qp_attr *attr, uint32_t slots)
{
	int rc;

	attr->sq_depth = attr->rq_depth = slots;
	rc = endpoint_qp(ep, attr);
	return rc ? rc : inbox_open(in, ep->pd, ep->qp, slots, PING_MAX);
}

/* ---- ping ---- */

static int ping_send(struct ping *p, uint64_t now)
{
	struct diw_sge sge = { p->tx.addr, (uint32_t)p->size, p->tx.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
		.flags = DIW_SEND_SIGNALED, .qkey = TOOL_QKEY, .dst.addr = p->dst };
	uint8_t *h = p->tx.addr;
	int rc;

	diw_put32(h, PING_MAGIC);
	diw_put32(h + 4, (uint32_t)p->sent);
	diw_put64(h + 8, now);
	p->seen[p->sent % SEEN / 8] &= (uint8_t)~(1u << p->sent % 8);
	rc = diw_post_send(p->ep.qp, &wr, NULL);
	if (rc)
		return tool_failed("send: %s", strerror(-rc));
	p->sent++;
	p->sent_at = now;
	p->answered = false;
	p->queued = true;
	return 0;
}

static void ping_answer(struct ping *p, const struct diw_wc *wc, uint64_t now)
{
	const uint8_t *h = inbox_at(&p->in, wc->wr_id);
	char buf[DIW_ADDR_STRLEN];
	uint32_t seq;
	uint64_t rtt;

	if (wc->status != DIW_WC_SUCCESS || wc->byte_len != p->size || diw_get32(h) != PING_MAGIC)
		return;
	seq = diw_get32(h + 4);
	rtt = now - diw_get64(h + 8);
	if ((uint32_t)p->sent - seq - 1 >= SEEN)
		return;
	if (p->seen[seq % SEEN / 8] & 1u << seq % 8) {
		p->duplicates++;
		return;
	}
	p->seen[seq % SEEN / 8] |= (uint8_t)(1u << seq % 8);
	p->received++;
	p->answered |= seq == (uint32_t)p->sent - 1;
	hist_add(&p->rtt, rtt);
	if (!p->json)
		printf("%u B from %s: seq %u, %.1f us\n", wc->byte_len, diw_addr_str(&wc->src, buf), seq,
		       (double)rtt / 1e3);
}

static uint64_t ping_due(const struct ping *p)
{
	if (!p->sent)
		return 0;
	if (p->interval_ns)
		return p->sent_at + p->interval_ns;
	return p->answered ? 0 : p->sent_at + FLOOD_WAIT_NS;
}

/* An RC connection that ends, or an RD peer that is gone, loses all messages in flight. */
static int ping_ended(struct ping *p)
{
	endpoint_report_errors(&p->ep);
	tool_failed(p->type == DIW_QP_RC ? "the connection has ended" : "the listener is gone");
	p->ended = true;
	return TOOL_OK;
}

static int ping_loop(struct ping *p)
{
	struct diw_wc wc[PING_SLOTS];
	uint64_t now, until;
	int rc, n;

	while (!tool_stopped && p->received < p->count) {
		now = diw_clock_ns();
		if (p->sent < p->count && !p->queued && now >= ping_due(p)) {
			rc = ping_send(p, now);
			if (rc)
				return rc;
		}
		until = p->sent < p->count ? ping_due(p) : p->sent_at + p->wait_ns;
		if (p->sent == p->count && now >= until)
			break;
		n = diw_cq_wait(p->ep.cq, wc, PING_SLOTS,
				until > now ? (int64_t)diw_min64(until - now, 100 * DIW_MS) : 0);
		if (n < 0)
			return tool_failed("waiting for a completion: %s", strerror(-n));
		now = diw_clock_ns();
		for (int i = 0; i < n; i++) {
			if (wc[i].status == DIW_WC_PEER_GONE || (p->type == DIW_QP_RC && wc[i].status))
				return ping_ended(p);
			if (wc[i].opcode != DIW_WC_RECV) {
				p->queued = false;
				continue;
			}
			ping_answer(p, &wc[i], now);
			inbox_post(&p->in, wc[i].wr_id);
		}
		if (!p->json)
			fflush(stdout);
	}
	return TOOL_OK;
}

static void ping_report(const struct ping *p, const char *host)
{
	uint64_t lost = p->sent - p->received;
	double loss = p->sent ? 100.0 * (double)lost / (double)p->sent : 0;
	double us[4] = { p->rtt.n ? (double)p->rtt.min / 1e3 : 0, hist_quantile(&p->rtt, 0.5) / 1e3,
		hist_quantile(&p->rtt, 0.99) / 1e3, (double)p->rtt.max / 1e3 };
	static const char *const key[4] = { "rtt_us_min", "rtt_us_p50", "rtt_us_p99", "rtt_us_max" };
	char buf[DIW_ADDR_STRLEN];
	cJSON *o;

	if (!p->json) {
		printf("--- %s: %llu sent, %llu received, %.1f %% lost", host, (unsigned long long)p->sent,
		       (unsigned long long)p->received, loss);
		if (p->duplicates)
			printf(", %llu duplicates", (unsigned long long)p->duplicates);
		if (p->rtt.n)
			printf("\nround trip min/p50/p99/max = %.1f/%.1f/%.1f/%.1f us", us[0], us[1], us[2], us[3]);
		putchar('\n');
		return;
	}
	o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "host", host);
	cJSON_AddStringToObject(o, "address", diw_addr_str(&p->dst, buf));
	cJSON_AddStringToObject(o, "qp", opt_qp_name(p->type));
	json_add_count(o, "size", p->size);
	json_add_count(o, "sent", p->sent);
	json_add_count(o, "received", p->received);
	json_add_count(o, "duplicates", p->duplicates);
	json_add_number(o, "loss_percent", loss);
	for (int i = 0; i < 4; i++)
		json_add_null_number(o, key[i], p->rtt.n > 0, us[i]);
	json_print(o);
}

static int ping_unanswered(const struct ping *p, const char *host)
{
	return tool_failed("%s: no answer (is 'diw listen%s' running there%s?)", host,
			   p->type == DIW_QP_RD ? " --qp rd" : "", p->type == DIW_QP_UD ? ", without --qp rd" : "");
}

static int ping_run(struct ping *p, const char *host)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	int rc;

	attr.type = p->type;
	rc = p->type == DIW_QP_RC ? 0 : local_addr_for(&p->dst, &attr.dgram.local);
	if (rc)
		return tool_failed("%s: %s", host, strerror(-rc));
	rc = endpoint_open(&p->ep, NULL, &p->dst, 4 * PING_SLOTS, false);
	if (!rc)
		rc = open_endpoint_inbox(&p->ep, &p->in, &attr, PING_SLOTS);
	if (!rc && p->type == DIW_QP_RC)
		rc = rc_connect(&p->ep, &p->dst, host, "diw listen", &p->cm);
	if (!rc)
		rc = region_alloc(&p->tx, p->ep.pd, p->size, DIW_ACCESS_LOCAL_READ);
	if (!rc)
		rc = ping_loop(p);
	if (!rc) {
		ping_report(p, host);
		endpoint_report_errors(&p->ep);
		if (!p->received)
			rc = ping_unanswered(p, host);
		else if (p->ended)
			rc = TOOL_FAILED;
	}
	rc_disconnect(&p->ep, p->cm);
	region_free(&p->tx);
	inbox_close(&p->in);
	endpoint_close(&p->ep);
	return rc;
}

static int ping_options(struct ping *p, int argc, char **argv, uint16_t *port)
{
	static const struct option opts[] = { { "json", no_argument, NULL, 'j' },
		{ "port", required_argument, NULL, 'p' }, { "qp", required_argument, NULL, 'q' },
		{ "count", required_argument, NULL, 'c' }, { "interval", required_argument, NULL, 'i' },
		{ "size", required_argument, NULL, 's' }, { "wait", required_argument, NULL, 'W' }, { 0 } };
	double sec;
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "c:i:s:W:", opts, NULL)) != -1) {
		switch (opt) {
		case 'c': rc = opt_number("-c", optarg, 1, 1000000000, &p->count); break;
		case 's': rc = opt_size("-s", optarg, PING_HDR, PING_MAX, &p->size); break;
		case 'p': rc = opt_port(optarg, port); break;
		case 'j': p->json = true; break;
		case 'q': rc = opt_qp(optarg, OPT_QP_ALL, &p->type); break;
		case 'i':
			rc = opt_seconds("-i", optarg, 0, 3600, &sec);
			p->interval_ns = (uint64_t)(sec * 1e9);
			break;
		case 'W':
			rc = opt_seconds("-W", optarg, 0.001, 3600, &sec);
			p->wait_ns = (uint64_t)(sec * 1e9);
			break;
		default: rc = tool_bad_option(argv);
		}
	}
	if (!rc && argc - optind != 1)
		rc = tool_usage(argc == optind ? "HOST is missing" : "one HOST only");
	return rc;
}

static int ping_main(int argc, char **argv)
{
	struct ping *p = calloc(1, sizeof *p);
	uint16_t port = DIW_PORT;
	int rc;

	if (!p || hist_init(&p->rtt)) {
		free(p);
		return tool_failed("out of memory");
	}
	p->count = 5;
	p->size = 64;
	p->interval_ns = 200 * DIW_MS;
	p->wait_ns = DIW_S;
	rc = ping_options(p, argc, argv, &port);
	if (!rc)
		rc = opt_host(argv[optind], port, &p->dst);
	if (!rc)
		rc = ping_run(p, argv[optind]);
	hist_fini(&p->rtt);
	free(p);
	return rc;
}

/* ---- listen ---- */

struct listener {
	struct endpoint ep;
	struct inbox in;                     /* of the queue pair for datagrams */
	struct rc_server rc;
	uint64_t messages, bytes, unsent;
};

static void listen_wc(struct listener *l, const struct diw_wc *wc)
{
	struct rc_conn *conn = rc_conn_of(&l->rc, wc->qp);
	const struct inbox *in = conn ? &conn->in : &l->in;
	struct diw_sge sge = { inbox_at(in, wc->wr_id), wc->byte_len, in->rx.mr->stag };
	struct diw_send_wr wr = { .wr_id = wc->wr_id, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
		.flags = DIW_SEND_SIGNALED, .qkey = TOOL_QKEY, .dst.addr = wc->src };

	if (conn && wc->status == DIW_WC_FLUSHED)
		return;                      /* an event reports the end of the connection */
	if (wc->opcode == DIW_WC_RECV && wc->status == DIW_WC_SUCCESS) {
		l->messages++;
		l->bytes += wc->byte_len;
		if (diw_post_send(in->qp, &wr, NULL) == 0)
			return;              /* its completion frees the slot */
		l->unsent++;
	}
	inbox_post(in, wc->wr_id);
}

static int listen_loop(struct listener *l, enum diw_qp_type type, uint16_t port, bool json)
{
	struct diw_wc wc[2 * LISTEN_SLOTS];
	char buf[24];
	cJSON *o;
	int n;

	if (!json) {
		printf("listening on UDP%s%s port %u\n", type == DIW_QP_RD ? " (RD)" : "",
		       l->rc.listener ? " and TCP" : "", l->ep.info.local.port);
		fflush(stdout);
	}
	while (!tool_stopped) {
		n = diw_cq_wait(l->ep.cq, wc, (int)TOOL_COUNT(wc), 100 * (int64_t)DIW_MS);
		if (n < 0)
			return tool_failed("waiting for a completion: %s", strerror(-n));
		for (int i = 0; i < n; i++)
			listen_wc(l, &wc[i]);
		if (rc_serve_step(&l->rc))
			return TOOL_FAILED;
	}
	endpoint_report_errors(&l->ep);
	if (!json) {
		printf("--- %llu messages echoed, %s, %llu not echoed\n", (unsigned long long)(l->messages - l->unsent),
		       fmt_bytes(l->bytes, buf), (unsigned long long)l->unsent);
		return TOOL_OK;
	}
	o = cJSON_CreateObject();
	cJSON_AddNumberToObject(o, "port", port);
	json_add_count(o, "messages", l->messages);
	json_add_count(o, "bytes", l->bytes);
	json_add_count(o, "unsent", l->unsent);
	json_add_count(o, "rc_connections", l->rc.accepted);
	json_print(o);
	return TOOL_OK;
}

static int listen_main(int argc, char **argv)
{
	static const struct option opts[] = { { "json", no_argument, NULL, 'j' },
		{ "port", required_argument, NULL, 'p' }, { "qp", required_argument, NULL, 'q' }, { 0 } };
	struct listener l = { .rc = { .slots = PING_SLOTS, .slot_size = PING_MAX, .sq_depth = PING_SLOTS } };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	uint16_t port = DIW_PORT;
	bool json = false;
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (opt == 'p')
			rc = opt_port(optarg, &port);
		else if (opt == 'q')
			rc = opt_qp(optarg, OPT_QP_SERVED, &attr.type);
		else if (opt == 'j')
			json = true;
		else
			rc = tool_bad_option(argv);
	}
	if (!rc && optind < argc)
		rc = tool_usage("'%s': listen takes no argument", argv[optind]);
	if (rc)
		return rc;
	attr.dgram.any_addr = true;
	attr.dgram.local.port = port;
	l.rc.ep = &l.ep;
	rc = endpoint_open(&l.ep, NULL, NULL, 4 * LISTEN_SLOTS + 2 * RC_CONNS * PING_SLOTS, false);
	if (!rc)
		rc = open_endpoint_inbox(&l.ep, &l.in, &attr, LISTEN_SLOTS);
	if (!rc)
		rc = rc_serve(&l.rc, port);
	if (!rc)
		rc = listen_loop(&l, attr.type, port, json);
	rc_serve_end(&l.rc);
	if (l.ep.qp)
		diw_qp_destroy(l.ep.qp);
	l.ep.qp = NULL;
	inbox_close(&l.in);
	endpoint_close(&l.ep);
	return rc;
}

const struct tool_cmd cmd_ping = {
	.name = "ping", .run = ping_main,
	.args = "HOST [--qp ud|rd|rc] [-c N] [-i SECONDS] [-s SIZE] [-W SECONDS] [--port N] [--json]",
	.brief = "Sends messages to 'diw listen' and times their return",
	.help = "  -c, --count N           messages (default 5)\n"
		"  -i, --interval SECONDS  between two messages; 0: send the next when one is back (default 0.2)\n"
		"  -s, --size SIZE         bytes of a message, 16 to 1m (default 64)\n"
		"  -W, --wait SECONDS      time to wait for the last answers (default 1)\n"
		"      --qp ud|rd|rc       by datagrams, by reliable datagrams, or over an RC connection (default ud)\n"
		"      --port N            of the listener (default 4791)\n"
		"      --json              one JSON object\n"
		"Exit status 1 when nothing came back.\n",
};

const struct tool_cmd cmd_listen = {
	.name = "listen", .run = listen_main, .args = "[--qp ud|rd] [--port N] [--json]",
	.brief = "Sends every message back to where it came from",
	.help = "  --qp ud|rd  answer datagrams, or reliable datagrams; RC also (default ud)\n"
		"  --port N    UDP and TCP port (default 4791), on all addresses\n"
		"  --json      one JSON object when it ends\n"
		"Ends by SIGINT or SIGTERM.\n",
};
