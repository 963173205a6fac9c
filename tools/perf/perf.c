/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: its options, and the cases and rounds that they select. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/perf/perf_group.h"

static int index_of(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

/* Reads a comma-separated list of NAMES into VALUES, each once. */
static int opt_names(const char *opt, const char *text, const char *const *names, int n, int *values, int *count)
{
	char *copy = strdup(text), *save, *word;
	int rc = 0, v;

	*count = 0;
	for (word = copy ? strtok_r(copy, ",", &save) : NULL; word && !rc; word = strtok_r(NULL, ",", &save)) {
		v = index_of(names, n, word);
		if (v < 0)
			rc = tool_usage("%s: '%s' is unknown", opt, word);
		for (int i = 0; i < *count && !rc; i++)
			if (values[i] == v)
				rc = tool_usage("%s: '%s' twice", opt, word);
		if (!rc)
			values[(*count)++] = v;
	}
	free(copy);
	return rc || *count ? rc : tool_usage("%s: '%s' names nothing", opt, text);
}

static int set_place(struct perf_plan *p, enum perf_place place)
{
	if (p->place != PERF_NOWHERE && p->place != place)
		return tool_usage("only one of --local, --server and --connect");
	p->place = place;
	return 0;
}

enum { QP = 256, OP, SIZE, SECS, DEPTH, EVENTS, WAIT, MULPDU, IMPAIR, LLP, AGAINST, LOCAL, SERVER, CONNECT, DEV, NO_CRC,
	MARKERS, BIND, PORT, JSON };

static const struct option options[] = {
	{ "qp", required_argument, NULL, QP }, { "op", required_argument, NULL, OP },
	{ "size", required_argument, NULL, SIZE }, { "secs", required_argument, NULL, SECS },
	{ "depth", required_argument, NULL, DEPTH },
	{ "events", no_argument, NULL, EVENTS }, { "wait", no_argument, NULL, WAIT },
	{ "mulpdu", required_argument, NULL, MULPDU }, { "impair", required_argument, NULL, IMPAIR },
	{ "no-crc", no_argument, NULL, NO_CRC }, { "markers", no_argument, NULL, MARKERS },
	{ "llp", required_argument, NULL, LLP },
	{ "against", required_argument, NULL, AGAINST }, { "local", no_argument, NULL, LOCAL },
	{ "server", no_argument, NULL, SERVER }, { "connect", required_argument, NULL, CONNECT },
	{ "dev", required_argument, NULL, DEV }, { "bind", required_argument, NULL, BIND },
	{ "port", required_argument, NULL, PORT }, { "json", no_argument, NULL, JSON }, { 0 },
};

static const char *const llp_name[PERF_LLPS] = { "udp", "uring" };

/* Options that select cases. */
static int set_case(struct perf_plan *p, int opt, const char *arg)
{
	int values[PERF_QPS], rc;
	uint64_t v = 0;

	switch (opt) {
	case QP:
		rc = opt_names("--qp", arg, perf_qp_name, PERF_QPS, values, &p->nqps);
		for (int i = 0; i < p->nqps; i++)
			p->qps[i] = (enum perf_qp)values[i];
		return rc;
	case OP:
		rc = opt_names("--op", arg, perf_op_name, PERF_OPS, values, &p->nops);
		for (int i = 0; i < p->nops; i++)
			p->ops[i] = (enum perf_op)values[i];
		return rc;
	case SIZE:
		return opt_sizes("--size", arg, 1, DIW_MAX_RDMA, p->sizes, PERF_SIZES, &p->nsizes);
	case SECS:
		return opt_seconds("--secs", arg, 0.05, 3600, &p->secs);
	case DEPTH:
		rc = opt_number("--depth", arg, 1, 65000, &v);
		p->base.depth = (uint32_t)v;
		return rc;
	case MULPDU:
		rc = opt_size("--mulpdu", arg, TOOL_MIN_MULPDU, TOOL_MAX_MULPDU, &v);
		p->base.mulpdu = (uint32_t)v;
		return rc;
	case LLP:
		rc = opt_names("--llp", arg, llp_name, PERF_LLPS, values, &p->nllps);
		for (int i = 0; i < p->nllps; i++)
			p->llps[i] = values[i] ? DIW_LLP_URING : DIW_LLP_UDP;
		return rc;
	case AGAINST:
		rc = opt_names("--against", arg, perf_qp_name + PERF_RAW, PERF_QPS - PERF_RAW, values, &p->nagainst);
		for (int i = 0; i < p->nagainst; i++)
			p->against[i] = (enum perf_qp)(PERF_RAW + values[i]);
		return rc;
	case NO_CRC: p->base.no_crc = true; return 0;
	case MARKERS: p->base.markers = true; return 0;
	case EVENTS:
	case WAIT:
		if (p->base.mode != PERF_POLL && p->base.mode != (opt == EVENTS ? PERF_EVENTS : PERF_WAIT))
			return tool_usage("only one of --events and --wait");
		p->base.mode = opt == EVENTS ? PERF_EVENTS : PERF_WAIT;
	}
	return 0;
}

static int plan_set_option(struct perf_plan *p, int opt, char **argv)
{
	switch (opt) {
	case IMPAIR: p->side.impair = optarg; return 0;
	case DEV: p->side.dev = optarg; return 0;
	case BIND: p->bind = optarg; return 0;
	case PORT: return opt_port(optarg, &p->port);
	case JSON: p->json = true; return 0;
	case LOCAL: return set_place(p, PERF_LOCAL);
	case SERVER: return set_place(p, PERF_SERVER);
	case CONNECT: p->host = optarg; return set_place(p, PERF_CONNECT);
	case '?': return tool_bad_option(argv);
	default: return set_case(p, opt, optarg);
	}
}

static bool has_op(const struct perf_plan *p, enum perf_op op)
{
	for (int i = 0; i < p->nops; i++)
		if (p->ops[i] == op)
			return true;
	return false;
}

/* Checks that need all options; sets the defaults. */
static int complete_plan(struct perf_plan *p, int argc, char **argv)
{
	bool rc = perf_has_qp(p, PERF_RC) || perf_has_qp(p, PERF_RC_CONFIRM);
	bool dgram = perf_has_qp(p, PERF_UD) || perf_has_qp(p, PERF_UC) || perf_has_qp(p, PERF_RD);
	int test = optind < argc ? index_of(perf_test_name, PERF_TESTS, argv[optind]) : -1;

	if (p->place == PERF_NOWHERE)
		return tool_usage("one of --local, --server and --connect HOST is needed");
	if (optind < argc && test < 0)
		return tool_usage("'%s' is not lat, bw, bibw or rate", argv[optind]);
	if (argc - optind > 1)
		return tool_usage("'%s': one test only", argv[optind + 1]);
	if (p->place == PERF_SERVER)
		return 0;
	if (test < 0)
		return tool_usage("the test is missing: lat, bw, bibw or rate");
	p->base.test = (enum perf_test)test;
	if (!p->base.depth)
		p->base.depth = test == PERF_RATE ? 256 : 64;
	if (!p->nsizes) {
		p->sizes[0] = test == PERF_LAT || test == PERF_RATE ? 64 : 512u << 10;
		p->nsizes = 1;
	}
	if (perf_has_qp(p, PERF_UC) && has_op(p, PERF_READ))
		return tool_usage("--op read cannot be combined with --qp uc");
	if ((perf_has_qp(p, PERF_UD) || perf_has_qp(p, PERF_UC)) &&
	    (has_op(p, PERF_FETCH_ADD) || has_op(p, PERF_CMP_SWAP)))
		return tool_usage("--op fetch-add and cmp-swap need --qp rc or rd");
	if (!rc && (p->base.no_crc || p->base.markers))
		return tool_usage("--no-crc and --markers need --qp rc");
	if (rc && p->side.impair)
		return tool_usage("--impair cannot be combined with --qp rc");
	for (int i = 0; i < p->nsizes; i++)
		if (dgram && has_op(p, PERF_SEND) && p->sizes[i] > DIW_MAX_SEND)
			return tool_usage("--size: a send has at most 16m bytes, not %llu",
					  (unsigned long long)p->sizes[i]);
	return 0;
}

static int perf_run_command(int argc, char **argv)
{
	struct perf_plan p = { .port = DIW_PORT, .secs = 1, .qps = { PERF_UD }, .nqps = 1, .ops = { PERF_SEND },
		.nops = 1, .llps = { DIW_LLP_DEFAULT }, .nllps = 1 };
	int opt, rc = 0;

	if (argc > 1 && !strcmp(argv[1], "group"))
		return perf_group(argc - 1, argv + 1);
	while (!rc && (opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		rc = plan_set_option(&p, opt, argv);
	if (!rc)
		rc = complete_plan(&p, argc, argv);
	if (!rc && p.side.impair)            /* an error here is still one of usage */
		rc = endpoint_check_impair(p.side.impair);
	if (rc)
		return rc;
	return p.place == PERF_LOCAL ? perf_local(&p) : p.place == PERF_SERVER ? perf_server(&p) : perf_connect(&p);
}

const struct tool_cmd cmd_perf = {
	.name = "perf", .run = perf_run_command,
	.args = "lat|bw|bibw|rate [OPTION]... --local | --server | --connect HOST\n"
		"       diw perf group ADDRESS [--receivers LIST] [OPTION]... | group --join HOST",
	.brief = "Measures latency, goodput or message rate, on request beside bare sockets",
	.help = "  lat    half round trips of a ping-pong             bw    goodput one way\n"
		"  rate   messages a second (64 B)                    bibw  goodput both ways\n\n"
		"      --local             both ends here, each on a core of its own\n"
		"      --server            the other end, for one client after another\n"
		"      --connect HOST      the server's host\n"
		"      --qp LIST           of ud, uc, rd, rc, rc-confirm (completions say that the peer has placed\n"
		"                          the data) and the baselines (default ud); with rc and others, the\n"
		"                          others' rows have the ratio to rc\n"
		"      --op LIST           of send, write, read (default send); a write on ud and rd is a\n"
		"                          Write-Record; on rc and rd also fetch-add, cmp-swap\n"
		"      --size LIST         of bytes, like 64,1k,512k (default 512k; lat and rate 64)\n"
		"      --secs N            time of a case, in five rounds (default 1)\n"
		"      --depth N           send requests outstanding (default 64; rate 256)\n"
		"      --events | --wait   sleep in a completion channel | in diw_cq_wait (default: poll)\n"
		"      --mulpdu N          bytes of one segment, headers included (default: what the MTU allows)\n"
		"      --no-crc            rc without CRC-32C     --markers  with markers both ways\n"
		"      --impair SPEC       impairs datagrams at this command's ends (loss, ...), see diwarp(7)\n"
		"      --llp LIST          of udp, uring: a row each, in alternating rounds (default DIWARP_LLP)\n"
		"      --against LIST      of raw-udp, raw-udp-crc, raw-udp-1, raw-tcp, raw-tcp-1: bare\n"
		"                          sockets, in alternating rounds\n"
		"      --dev NAME, --bind ADDR, --port N (default 4791)\n"
		"      --json              one JSON object a row\n\n"
		"  group  goodput of one sender at each of 1 to 16 receivers, and of all together. ADDRESS is a\n"
		"         multicast group, a broadcast address, or, to compare, one receiver's\n"
		"      --receivers LIST    how many, like 1,2,4,8,16: a row each (default 1)\n"
		"      --op OP             send or write: Write-Record (default write)\n"
		"      --bind ADDR         waits at ADDR for receivers with --join, and starts none itself\n"
		"      --join HOST         is a receiver, and joins the sender on HOST\n"
		"      --size N (default 256k), --secs N, --mulpdu N, --impair SPEC, --dev NAME, --port N, --json\n",
};
