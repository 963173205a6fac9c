/* SPDX-License-Identifier: BSD-2-Clause */
/* diw dump: the segments and FPDUs of a capture, one a line; or the messages of which they are parts. */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "tools/dump/dump.h"

#define PAIRS 65536u                 /* the most pairs of queue pairs that are remembered; a power of two */

struct dump {
	struct dump_pcap *pcap;
	struct dump_msgs *msgs;      /* --message */
	struct dump_rc *rc;
	uint16_t qp;                 /* filters; 0, NULL: any */
	const char *op;
	bool faults, json;
	uint64_t max, shown;
	uint64_t segments, bad_crc, header_faults, dropped, other;
	uint64_t *pairs;             /* hashes of pairs that exchanged a good segment; 0: free */
	uint32_t npairs;
};

/* ---- diwarp's datagrams: those with a good CRC, and then all between the same two addresses ---- */

/* Whether the pair is known. With LEARN, it is known from here on. */
static bool pair_known(struct dump *x, const struct dump_datagram *d, bool learn)
{
	uint64_t a = diw_addr_hash(&d->src, 1), b = diw_addr_hash(&d->dst, 1);
	uint64_t h = (a < b ? a << 32 | b : b << 32 | a) | 1;  /* the same in both directions, and not 0 */
	uint32_t i = (uint32_t)((h * 0x9e3779b97f4a7c15u) >> 32) % PAIRS;

	while (x->pairs[i] && x->pairs[i] != h)
		i = (i + 1) % PAIRS;
	if (x->pairs[i] == h)
		return true;
	if (learn && x->npairs < PAIRS / 2) {
		x->pairs[i] = h;
		x->npairs++;
	}
	return false;
}

/* ---- Segments, one by one ---- */

static bool is_wanted_segment(const struct dump *x, const struct dump_seg *s)
{
	if (x->qp && s->dg->src.port != x->qp && s->dg->dst.port != x->qp)
		return false;
	if (x->op && (!s->hdr_len || strcmp(dump_op_name(s->opcode), x->op) != 0))
		return false;
	return !x->faults || x->msgs || dump_is_fault(s);
}

static void one_segment(struct dump *x, const struct dump_datagram *d, const uint8_t *data, uint32_t len)
{
	struct dump_seg s;

	dump_decode(&s, d, data, len);
	if (s.crc_good)
		pair_known(x, d, true);
	x->segments++;
	x->bad_crc += !s.crc_good;
	x->header_faults += s.crc_good && s.fault;
	x->dropped += *d->dropped != 0;
	if (!is_wanted_segment(x, &s))
		return;
	if (x->msgs) {
		dump_msgs_add(x->msgs, &s);
		x->shown = dump_msgs_shown(x->msgs);
		return;
	}
	x->shown++;
	if (x->json)
		dump_print_json(&s);
	else
		dump_print(&s);
}

/* A capture on an interface may contain super-buffers: the kernel segments them later, or has coalesced them. */
static void one_datagram(struct dump *x, const struct dump_datagram *d)
{
	uint32_t first = d->dir == DUMP_DIR_UNKNOWN ? dump_first_len(d->data, d->len) : d->len;
	struct dump_seg s;

	dump_decode(&s, d, d->data, first);
	if (!s.crc_good && !*d->dropped && !pair_known(x, d, false)) {
		x->other++;
		return;
	}
	for (uint32_t at = 0, left = d->len; at == 0 || left; at += first, left -= first) {
		first = left < first ? left : first;
		one_segment(x, d, d->data + at, first);
		if (!first || x->shown >= x->max)
			return;
	}
}

/* ---- Connections ---- */

/* A message is shown with its last segment. */
static void show_of_stream(void *ctx, const struct dump_fpdu *f)
{
	struct dump *x = ctx;

	if (x->shown >= x->max || (x->qp && f->dg.src.port != x->qp && f->dg.dst.port != x->qp) ||
	    (x->op && (!f->op || strcmp(f->op, x->op) != 0)) || (x->faults && !fpdu_is_fault(f)) ||
	    (x->msgs && f->kind == MPA_FPDU && !f->last && !fpdu_is_fault(f)))
		return;
	x->shown++;
	if (x->json)
		fpdu_print_json(f);
	else
		fpdu_print(f);
}

/* ---- The whole capture ---- */

static void dump_report(const struct dump *x)
{
	const struct dump_counts *c = dump_counts(x->pcap);
	const struct dump_rc_counts *rc = dump_rc_counts(x->rc);

	fflush(stdout);
	fprintf(stderr, "%llu packets: %llu segments (%llu bad CRC, %llu other header faults, %llu dropped), "
		"%llu of other protocols over UDP, ", (unsigned long long)c->packets,
		(unsigned long long)x->segments, (unsigned long long)x->bad_crc, (unsigned long long)x->header_faults,
		(unsigned long long)x->dropped, (unsigned long long)x->other);
	if (rc->connections)
		fprintf(stderr, "%llu FPDUs and %llu frames of %llu connections (%llu bad CRC, %llu faults, "
			"%llu octets lost), ", (unsigned long long)rc->fpdus, (unsigned long long)rc->frames,
			(unsigned long long)rc->connections, (unsigned long long)rc->bad_crc,
			(unsigned long long)rc->faults, (unsigned long long)rc->lost);
	fprintf(stderr, "%llu of other protocols over TCP, %llu of neither", (unsigned long long)rc->other,
		(unsigned long long)c->neither);
	if (c->fragments)
		fprintf(stderr, ", %llu IP fragments", (unsigned long long)c->fragments);
	if (c->cut)
		fprintf(stderr, ", %llu cut short by the capture", (unsigned long long)c->cut);
	if (c->missed)
		fprintf(stderr, ", %llu that came too fast to be captured", (unsigned long long)c->missed);
	fputc('\n', stderr);
}

static int dump_packets(struct dump *x)
{
	struct dump_datagram d;
	int rc = 0;

	while (x->shown < x->max && !ferror(stdout) && (rc = dump_next(x->pcap, &d)) > 0)
		if (d.tcp)
			dump_rc_add(x->rc, &d);
		else
			one_datagram(x, &d);
	if (x->msgs && x->shown < x->max)
		dump_msgs_end(x->msgs);
	dump_rc_end(x->rc);
	dump_report(x);
	if (rc < 0)
		return TOOL_FAILED;
	return x->segments || dump_rc_counts(x->rc)->connections ? TOOL_OK :
	       tool_failed("no segment of iWARP was seen");
}

/* ---- Options ---- */

struct options { const char *ifname, *path; bool message; };

static int parse_op(struct dump *x, const char *name)
{
	x->op = name;
	return dump_is_op(name) || fpdu_is_op(name) ? 0 : tool_usage("--op: '%s' is not write, read-request, "
		"read-response, send, send-se, error, write-record, flow, validation, send-inv, send-se-inv, "
		"terminate, immediate, immediate-se, atomic-request, atomic-response, mpa-request or mpa-reply", name);
}

static int parse(struct dump *x, struct options *o, int argc, char **argv)
{
	static const struct option opts[] = { { "json", no_argument, NULL, 'j' }, { "message", no_argument, NULL, 'm' },
		{ "fault", no_argument, NULL, 'f' }, { "qp", required_argument, NULL, 'q' },
		{ "op", required_argument, NULL, 'o' }, { "count", required_argument, NULL, 'c' },
		{ "interface", required_argument, NULL, 'i' }, { "read", required_argument, NULL, 'r' }, { 0 } };
	uint64_t v;
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "c:i:r:", opts, NULL)) != -1) {
		switch (opt) {
		case 'j': x->json = true; break;
		case 'm': o->message = true; break;
		case 'f': x->faults = true; break;
		case 'i': o->ifname = optarg; break;
		case 'r': o->path = optarg; break;
		case 'o': rc = parse_op(x, optarg); break;
		case 'c': rc = opt_number("-c", optarg, 1, UINT64_MAX, &x->max); break;
		case 'q':
			rc = opt_number("--qp", optarg, 1, 65535, &v);
			x->qp = (uint16_t)v;
			break;
		default: rc = tool_bad_option(argv);
		}
	}
	if (!rc && optind < argc)
		rc = tool_usage("'%s': dump takes no argument (a file is read with -r)", argv[optind]);
	if (!rc && !o->ifname == !o->path)
		rc = tool_usage("either -i IFACE or -r FILE");
	return rc;
}

static int dump_main(int argc, char **argv)
{
	struct dump x = { .max = UINT64_MAX };
	struct options o = { 0 };
	int rc = parse(&x, &o, argc, argv);

	if (rc)
		return rc;
	signal(SIGPIPE, SIG_DFL);               /* `diw dump -i lo | head` must end with head */
	x.pairs = calloc(PAIRS, sizeof *x.pairs);
	x.rc = dump_rc_new(show_of_stream, &x);
	x.msgs = o.message ? dump_msgs_new(x.json, x.faults, x.max) : NULL;
	if (!x.pairs || !x.rc || (o.message && !x.msgs))
		rc = tool_failed("out of memory");
	if (!rc)
		rc = o.ifname ? dump_open_live(o.ifname, &x.pcap) : dump_open_file(o.path, &x.pcap);
	if (!rc) {
		if (o.ifname)
			setvbuf(stdout, NULL, _IOLBF, 0);
		rc = dump_packets(&x);
		dump_close(x.pcap);
	}
	dump_rc_free(x.rc);
	dump_msgs_free(x.msgs);
	free(x.pairs);
	return rc;
}

const struct tool_cmd cmd_dump = {
	.name = "dump", .run = dump_main, .args = "-i IFACE | -r FILE [OPTION]...",
	.brief = "Shows the segments and FPDUs of a capture, or its messages and records",
	.help = "  -i, --interface IFACE  captures from IFACE, with privileges (without: DIWARP_PCAP, diwarp(7))\n"
		"  -r, --read FILE        a pcap or pcapng file; - for standard input\n"
		"      --message          a line for each message: how it ended, its map, its lost segments;\n"
		"                         of a connection the last FPDU of each message\n"
		"      --qp PORT          only segments that this queue pair, or TCP port, sent or received\n"
		"      --op NAME          write, read-request, read-response, send, send-se, error, write-record,\n"
		"                         flow, validation; of RD and connections also send-inv, send-se-inv,\n"
		"                         atomic-request, atomic-response; of connections also terminate,\n"
		"                         immediate, immediate-se, mpa-request, mpa-reply\n"
		"      --fault            only segments that are faulty, were dropped, or report a fault\n"
		"  -c, --count N          ends after N lines\n"
		"      --json             one JSON object a line\n"
		"Exit status 1 when there was no segment and no FPDU, or the file is damaged.\n",
};
