/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp: offers a file and sends the parts that the receiver requests; xfer.h describes the protocol. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tools/cp/group.h"
#include "tools/cp/outgoing.h"

#define WC_BATCH 64
#define STATUS_BYTES (64u << 10)     /* RC, RD: after an entry of at least this size, a STATUS is sent at once */
#define BYE_NS (500 * DIW_MS)        /* the longest time that BYE waits for earlier messages */

enum copy_state { OFFERING, SENDING, FETCHING };     /* FETCHING: DONE came, but not all of its holes */

struct copy {
	struct xfer_port port;
	struct outgoing out;
	char host[256], name[XFER_NAME_MAX + 1];
	struct diw_addr dst;
	struct xfer_peer peer;               /* its type is the type of the queue pair */
	struct diw_cm *cm;                   /* RC */
	uint64_t message;
	struct diw_mr *mr;
	uint64_t id;
	enum copy_state state;
	uint32_t next;                       /* the first entry that was not sent */
	uint64_t sent, sent_again, began_at;
	uint64_t spoke_at, heard_at;
	bool once, json, busy_said, finished, sha_ok;
	struct xfer_msg done;                /* its first page has the figures */
	struct hole *holes;
	uint32_t nholes;
	struct bar bar;
};

static void speak(struct copy *c, enum xfer_type type, uint32_t first, uint64_t now)
{
	struct xfer_msg m = { .type = (uint8_t)type, .id = c->id, .first = first };

	if (type == XFER_OFFER) {
		m.flags = c->once ? XFER_ONCE : 0;
		m.size = c->out.size;
		m.message = (uint32_t)c->message;
		memcpy(m.sha, c->out.sha, 32);
		snprintf(m.text, sizeof m.text, "%s", c->name);
	}
	xfer_send(&c->peer, &m);
	c->spoke_at = now;
}

/* 0; -ENOMEM: the queue is full; or another -errno. */
static int send_entry(struct copy *c, const struct xfer_msg *m, uint32_t i)
{
	const struct xfer_entry *e = &m->entry[i];
	struct diw_sge sge = { (char *)c->out.map + e->off, (uint32_t)e->len, c->mr ? c->mr->stag : 0 };
	bool reliable = xfer_is_reliable(&c->peer);
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = reliable ? DIW_WR_WRITE : DIW_WR_WRITE_RECORD,
		.flags = reliable ? 0 : DIW_SEND_IMM, .imm = m->first + i, .qkey = TOOL_QKEY, .dst.addr = c->dst,
		.stag = m->stag, .to = m->to + e->off };
	int rc;

	if (!e->len || e->len > DIW_MAX_RDMA || e->off > c->out.size || e->len > c->out.size - e->off)
		return -ERANGE;
	rc = diw_post_send(c->port.ep.qp, &wr, NULL);
	if (!rc && e->flags & XFER_AGAIN)
		c->sent_again += e->len;
	else if (!rc)
		c->sent += e->len;
	return rc;
}

static int on_ask(struct copy *c, const struct xfer_msg *m, uint64_t now)
{
	int rc = 0;

	if (c->state == OFFERING) {
		c->state = SENDING;
		c->began_at = now;
		bar_init(&c->bar, c->name);
	}
	for (uint32_t i = c->next - m->first; i < m->n && !rc; i++) {
		rc = send_entry(c, m, i);
		if (!rc)
			c->next++;
		if (!rc && xfer_is_reliable(&c->peer) && m->entry[i].len >= STATUS_BYTES)
			speak(c, XFER_STATUS, c->next, now);
	}
	if (rc && rc != -ENOMEM)
		return tool_failed("%s requested a range that cannot be sent: %s", c->host, strerror(-rc));
	speak(c, XFER_STATUS, c->next, now);
	return 0;
}

static int on_done(struct copy *c, const struct xfer_msg *m, uint64_t now)
{
	if (c->state != FETCHING) {
		c->state = FETCHING;
		c->done = *m;
		xfer_printable(c->done.text);
		c->holes = calloc(m->total ? m->total : 1, sizeof *c->holes);
		if (!c->holes)
			return tool_failed("out of memory for %u missing ranges", m->total);
	}
	if (m->first == c->nholes)
		for (uint32_t i = 0; i < m->n && c->nholes < c->done.total; i++)
			c->holes[c->nholes++] = (struct hole){ m->entry[i].off, m->entry[i].len };
	c->finished = c->nholes == c->done.total;
	speak(c, c->finished ? XFER_BYE : XFER_MORE, c->nholes, now);
	return 0;
}

static int copy_on_message(struct copy *c, struct xfer_msg *m, uint64_t now)
{
	c->heard_at = now;
	switch (m->type) {
	case XFER_ASK:
		return c->state == FETCHING ? 0 : on_ask(c, m, now);
	case XFER_DONE:
		return on_done(c, m, now);
	case XFER_REFUSE:
		if (!(m->flags & XFER_BUSY))
			return tool_failed("%s refuses %s: %s", c->host, c->name, xfer_printable(m->text));
		if (!c->busy_said)
			tool_failed("%s is busy: waiting (%s)", c->host, xfer_printable(m->text));
		c->busy_said = true;
		return 0;
	}
	return 0;
}

static uint64_t copy_retry_ns(const struct copy *c)
{
	if (xfer_is_reliable(&c->peer))
		return XFER_RELIABLE_RETRY_NS;
	return c->state == OFFERING ? XFER_RETRY_NS : XFER_STATUS_NS;
}

/* RD has no connection, so nothing has proved yet that there is a receiver. */
static uint64_t copy_silence_ns(const struct copy *c)
{
	bool met = c->peer.type == DIW_QP_RC || c->state != OFFERING;

	return xfer_is_reliable(&c->peer) && met ? XFER_RELIABLE_SILENCE_NS : XFER_SILENCE_NS;
}

static int tell_silent(struct copy *c)
{
	endpoint_report_errors(&c->port.ep);
	if (c->state != OFFERING)
		return tool_failed("%s does not answer any more", c->host);
	return tool_failed("%s: no answer (is 'diw recv%s' running there%s?)", c->host,
			   c->peer.type == DIW_QP_RD ? " --qp rd" : "",
			   c->peer.type == DIW_QP_UD ? ", without --qp rd" : "");
}

/* Repeats messages that were not answered. */
static int copy_tick(struct copy *c, uint64_t now)
{
	uint64_t quiet = now - c->spoke_at, retry = copy_retry_ns(c);

	if (now - c->heard_at > copy_silence_ns(c))
		return tell_silent(c);
	if (quiet < retry)
		return 0;
	if (c->state == OFFERING)
		speak(c, XFER_OFFER, 0, now);
	else if (c->state == SENDING)
		speak(c, XFER_STATUS, c->next, now);
	else
		speak(c, XFER_MORE, c->nholes, now);
	return 0;
}

/* RD: the receiver is gone, or has refused a Write. */
static int tell_send_failed(const struct copy *c, const struct diw_wc *wc)
{
	const char *why = wc->errnum ? strerror(wc->errnum) : wc->fault ? diw_fault_str(wc->fault) : NULL;

	return tool_failed("%s: send: %s%s%s", c->host, diw_wc_status_str(wc->status), why ? ", " : "", why ? why : "");
}

static int copy_on_wc(struct copy *c, const struct diw_wc *wc, uint64_t now)
{
	bool rc = c->peer.type == DIW_QP_RC;
	struct xfer_msg m;

	if (rc && wc->status != DIW_WC_SUCCESS) {
		endpoint_report_errors(&c->port.ep);
		return tool_failed("%s: the connection has ended", c->host);
	}
	if (wc->status == DIW_WC_LOC_QP_OP_ERR) /* counts as lost in the network */
		return 0;
	if (wc->opcode != DIW_WC_RECV && wc->status != DIW_WC_SUCCESS)
		return tell_send_failed(c, wc);
	if (xfer_take(&c->port.in, wc, &m) || m.id != c->id)
		return 0;
	return rc || !memcmp(&wc->src, &c->dst, sizeof c->dst) ? copy_on_message(c, &m, now) : 0;
}

/* BYE leaves behind all earlier messages; on RD it completes when the receiver has taken it. */
static void await_bye(struct copy *c)
{
	uint64_t until = diw_clock_ns() + BYE_NS;
	struct diw_wc wc[WC_BATCH];
	bool left = false;

	while (!left && diw_clock_ns() < until) {
		int n = diw_cq_wait(c->port.ep.cq, wc, WC_BATCH, 10 * DIW_MS);

		left = n < 0;
		for (int i = 0; i < n; i++)
			left |= wc[i].opcode == DIW_WC_SEND;
	}
}

static int copy_loop(struct copy *c)
{
	struct diw_wc wc[WC_BATCH];
	uint64_t now = diw_clock_ns();
	double sec;
	int n, rc = 0;

	c->heard_at = now;
	speak(c, XFER_OFFER, 0, now);
	while (!rc && !c->finished && !tool_stopped) {
		n = diw_cq_wait(c->port.ep.cq, wc, WC_BATCH, XFER_STATUS_NS);
		if (n < 0)
			return tool_failed("waiting for a completion: %s", strerror(-n));
		now = diw_clock_ns();
		for (int i = 0; i < n && !rc && !c->finished; i++)
			rc = copy_on_wc(c, &wc[i], now);
		if (!rc && !c->finished)
			rc = copy_tick(c, now);
		sec = (double)(now - c->began_at) / 1e9;
		if (c->state == SENDING)
			bar_draw(&c->bar, now, c->sent, c->out.size, sec > 0 ? (double)c->sent / sec / 1e9 : 0,
				 c->sent_again);
	}
	if (c->state != OFFERING)
		bar_end(&c->bar);
	if (tool_stopped) {
		speak(c, XFER_BYE, 0, now);
		rc = tool_failed("interrupted");
	}
	if (c->finished || tool_stopped)
		await_bye(c);
	return rc;
}

static void copy_report_json(const struct copy *c, const char *hex, double sec)
{
	cJSON *o = cJSON_CreateObject(), *a, *pair;
	char buf[DIW_ADDR_STRLEN];

	cJSON_AddStringToObject(o, "file", c->out.path);
	cJSON_AddStringToObject(o, "to", diw_addr_str(&c->dst, buf));
	cJSON_AddStringToObject(o, "qp", opt_qp_name(c->peer.type));
	cJSON_AddStringToObject(o, "name", c->name);
	json_add_count(o, "size", c->out.size);
	json_add_count(o, "bytes_valid", c->done.size);
	json_add_count(o, "bytes_asked_again", c->done.again);
	json_add_number(o, "seconds", sec);
	json_add_number(o, "GBps", sec > 0 ? (double)c->done.size / sec / 1e9 : 0);
	cJSON_AddBoolToObject(o, "once", c->once);
	cJSON_AddStringToObject(o, "sha256", hex);
	cJSON_AddBoolToObject(o, "sha256_ok", c->sha_ok);
	cJSON_AddBoolToObject(o, "saved", !(c->done.flags & XFER_NOT_SAVED));
	a = cJSON_AddArrayToObject(o, "missing");
	for (uint32_t i = 0; i < c->nholes; i++) {
		pair = cJSON_CreateArray();
		cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)c->holes[i].off));
		cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)c->holes[i].len));
		cJSON_AddItemToArray(a, pair);
	}
	json_print(o);
}

static int copy_report(struct copy *c)
{
	double sec = (double)c->done.elapsed_ns / 1e9;
	char hex[65], a[24], b[24], d[24];

	c->sha_ok = c->done.flags & XFER_SHA_OK;
	xfer_hex(c->out.sha, hex);
	if (c->json) {
		copy_report_json(c, hex, sec);
	} else {
		printf("%s: %s to %s in %.3f s, %.3f GB/s", c->name, fmt_bytes(c->out.size, a), c->host, sec,
		       sec > 0 ? (double)c->done.size / sec / 1e9 : 0);
		if (c->once)
			printf(", %s valid, %s missing in %u ranges\n", fmt_bytes(c->done.size, b),
			       fmt_bytes(c->out.size - c->done.size, d), c->nholes);
		else if (xfer_is_reliable(&c->peer))
			printf(" over %s\n", c->peer.type == DIW_QP_RC ? "RC" : "RD");
		else
			printf(", %s asked for again\n", fmt_bytes(c->done.again, b));
		printf("SHA-256 %s %s\n", hex, c->sha_ok ? "matches" : "DIFFERS at the receiver");
		if (c->once && c->nholes)
			map_print(stdout, c->out.size, c->holes, c->nholes);
	}
	if (c->done.flags & XFER_NOT_SAVED)
		return tool_failed("%s did not save %s: %s", c->host, c->name, c->done.text);
	return c->sha_ok ? TOOL_OK : TOOL_FAILED;
}

static int copy_run(struct copy *c, struct diw_qp_attr *attr)
{
	int rc = outgoing_open(&c->out);

	if (!rc && attr->type != DIW_QP_RC) {
		rc = local_addr_for(&c->dst, &attr->dgram.local);
		if (rc)
			rc = tool_failed("%s: %s", c->host, strerror(-rc));
	}
	if (!rc)
		rc = xfer_open(&c->port, NULL, &c->dst, attr);
	if (!rc && attr->type == DIW_QP_RC)
		rc = rc_connect(&c->port.ep, &c->dst, c->host, "diw recv", &c->cm);
	c->peer = (struct xfer_peer){ c->port.ep.qp, c->dst, attr->type };
	if (!rc && c->out.size) {
		rc = diw_mr_reg(c->port.ep.pd, c->out.map, c->out.size, DIW_ACCESS_LOCAL_READ, &c->mr);
		if (rc)
			rc = tool_failed("%s: memory region: %s", c->out.path, strerror(-rc));
	}
	if (!rc && getrandom(&c->id, sizeof c->id, 0) != sizeof c->id)
		rc = tool_failed("getrandom: %s", strerror(errno));
	if (!rc)
		rc = copy_loop(c);
	if (!rc)
		rc = copy_report(c);
	if (attr->type == DIW_QP_RC)
		rc_disconnect(&c->port.ep, c->cm);
	if (c->mr)
		diw_mr_dereg(c->mr);
	xfer_close(&c->port);
	free(c->holes);
	outgoing_close(&c->out);
	return rc;
}

/* "HOST:" or "[2001:db8::1]:"; a NAME may follow, which the file gets there. */
static int parse_target(struct copy *c, const char *arg, uint16_t port)
{
	const char *bracket = arg[0] == '[' ? strchr(arg, ']') : NULL;
	const char *host = bracket ? arg + 1 : arg, *colon = bracket ? bracket + 1 : strrchr(arg, ':');
	size_t len;
	const char *slash = strrchr(c->out.path, '/'), *name = slash ? slash + 1 : c->out.path;

	if (!colon || *colon != ':')
		return tool_usage("'%s': the target must be HOST: (with its colon)", arg);
	len = (size_t)((bracket ? bracket : colon) - host);
	if (!len || len >= sizeof c->host)
		return tool_usage("'%s': no HOST before the colon", arg);
	if (colon[1])
		name = colon + 1;
	if (!xfer_name_ok(name))
		return tool_usage("'%s' cannot be the file's name at the receiver", name);
	snprintf(c->host, sizeof c->host, "%.*s", (int)len, host);
	snprintf(c->name, sizeof c->name, "%s", name);
	return opt_host(c->host, port, &c->dst);
}

struct copy_args { struct copy c; struct group_options group; struct diw_qp_attr attr; uint16_t port; };

static int copy_options(struct copy_args *a, int argc, char **argv)
{
	static const struct option opts[] = { { "json", no_argument, NULL, 'j' },
		{ "port", required_argument, NULL, 'p' }, { "qp", required_argument, NULL, 'q' },
		{ "once", no_argument, NULL, 'o' }, { "mulpdu", required_argument, NULL, 'm' },
		{ "message", required_argument, NULL, 'M' }, { "impair", required_argument, NULL, 'I' },
		{ "group", required_argument, NULL, 'g' }, { "dev", required_argument, NULL, 'd' },
		{ "receivers", required_argument, NULL, 'R' }, { "rate", required_argument, NULL, 'r' }, { 0 } };
	uint64_t v;
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		switch (opt) {
		case 'j': a->c.json = a->group.json = true; break;
		case 'o': a->c.once = true; break;
		case 'q': rc = opt_qp(optarg, OPT_QP_ALL, &a->attr.type); break;
		case 'p': rc = opt_port(optarg, &a->port); break;
		case 'M': rc = opt_size("--message", optarg, 1024, 64u << 20, &a->c.message); break;
		case 'I': a->attr.impair = optarg; break;
		case 'g': a->group.group = optarg; break;
		case 'd': a->group.dev = optarg; break;
		case 'R': rc = opt_number("--receivers", optarg, 1, GROUP_MEMBERS, &a->group.receivers); break;
		case 'r': rc = opt_size("--rate", optarg, 1024, 1ull << 40, &a->group.rate); break;
		case 'm':
			rc = opt_size("--mulpdu", optarg, TOOL_MIN_MULPDU, TOOL_MAX_MULPDU, &v);
			a->attr.mulpdu = (uint32_t)v;
			break;
		default: rc = tool_bad_option(argv);
		}
	}
	return rc;
}

/* Checks that options and arguments are compatible. */
static int copy_check(const struct copy_args *a, int n)
{
	const struct group_options *g = &a->group;

	if (a->attr.type == DIW_QP_RC && a->attr.impair)
		return tool_usage("--impair is for datagrams: an RC connection loses nothing");
	if (a->attr.type != DIW_QP_UD && a->c.once)
		return tool_usage("--once is for --qp ud: %s loses nothing", opt_qp_name(a->attr.type));
	if (g->group && (a->c.once || a->attr.type != DIW_QP_UD))
		return tool_usage("--group: without %s%s", a->c.once ? "--once" : "--qp ",
				  a->c.once ? "" : opt_qp_name(a->attr.type));
	if (!g->group && (g->dev || g->receivers || g->rate))
		return tool_usage("--dev, --receivers and --rate are for --group");
	if (n != (g->group ? 1 : 2))
		return tool_usage("FILE and %s are needed, not %d arguments", g->group ? "--group" : "HOST:", n);
	return 0;
}

static int copy_to_group(struct copy_args *a)
{
	const char *path = a->c.out.path, *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!xfer_name_ok(name))
		return tool_usage("'%s' cannot be the file's name at the receiver", name);
	a->group.message = a->c.message;
	return group_copy(&a->group, path, name, &a->attr);
}

static int cp_run(int argc, char **argv)
{
	struct copy_args a = { .c = { .message = XFER_MESSAGE }, .port = DIW_PORT, .attr = DIW_QP_ATTR_INIT };
	int rc = copy_options(&a, argc, argv);

	if (!rc)
		rc = copy_check(&a, argc - optind);
	if (rc)
		return rc;
	a.c.out = (struct outgoing){ .path = argv[optind], .fd = -1 };
	xfer_catch_sigbus();
	if (a.group.group)
		return copy_to_group(&a);
	rc = parse_target(&a.c, argv[optind + 1], a.port);
	return rc ? rc : copy_run(&a.c, &a.attr);
}

const struct tool_cmd cmd_cp = {
	.name = "cp", .run = cp_run,
	.args = "FILE (HOST:[NAME] [--qp ud|rd|rc] [--once] [--port N] | --group ADDRESS [--receivers N] [--rate SIZE] "
		"[--dev NAME]) [--message SIZE] [--mulpdu N] [--impair SPEC] [--json]",
	.brief = "Sends a file to 'diw recv' by RDMA Write-Record, and repeats what the network lost",
	.help = "      --qp ud|rd|rc    by datagrams, by reliable datagrams, or over an RC connection (default ud)\n"
		"      --group ADDRESS  to all that run 'diw recv --group ADDRESS', a multicast address\n"
		"      --receivers N    with --group: begin when so many have joined (default: soon after the first)\n"
		"      --rate SIZE      with --group: bytes a second at most\n"
		"      --dev NAME       with --group: the device (default: that of the route to the group)\n"
		"      --once           send once: holes are filled with zeros, and the validity map is shown\n"
		"      --message SIZE   bytes of one Write-Record or Write at most (default 256k)\n"
		"      --mulpdu N       bytes of one segment, headers included (default: what the MTU allows)\n"
		"      --impair SPEC    impair datagrams at this end (loss, reorder, ...), see diwarp(7)\n"
		"      --port N         port of the receiver (default 4791)\n"
		"      --json           one JSON object\n"
		"Exit status 1 when the file did not arrive whole, with --group at each that joined.\n",
};
