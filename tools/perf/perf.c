/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the command, and which options go together. */
#include <getopt.h>
#include <string.h>

#include "tools/perf/perf_cost.h"
#include "tools/perf/perf_group.h"
#include "tools/perf/perf_qos.h"
#include "tools/perf/perf_suite.h"

static bool has_op(const struct perf_plan *p, enum perf_op op)
{
	for (int i = 0; i < p->nops; i++)
		if (p->ops[i] == op)
			return true;
	return false;
}

static bool has_dgram(const struct perf_plan *p)
{
	return perf_has_qp(p, PERF_UD) || perf_has_qp(p, PERF_UC) || perf_has_qp(p, PERF_RD);
}

static int find_test(const char *name)
{
	for (int i = 0; i < PERF_TESTS; i++)
		if (!strcmp(perf_tests[i].name, name))
			return i;
	return -1;
}

/* Each number that was asked for is one of the test, and of one of the queue pair types. */
static int check_params(const struct perf_plan *p)
{
	const char *test = perf_tests[p->base.test].name;

	for (int i = 0; i < PERF_PARAMS; i++) {
		const struct perf_param *q = &perf_params[i];
		bool of_qp = false;

		for (int k = 0; k < p->nqps; k++)
			of_qp |= perf_param_of(i, p->qps[k]);
		if (p->list[i].given && q->tests && !(q->tests >> p->base.test & 1))
			return tool_usage("--%s: %s does not take it", q->name, test);
		if (p->list[i].given && !of_qp)
			return tool_usage("--%s: none of --qp takes it", q->name);
	}
	return 0;
}

/* cpu: only the library's queue pairs compute. */
static int check_cpu(const struct perf_plan *p)
{
	if (p->base.test != PERF_CPU)
		return 0;
	for (int i = 0; i < p->nqps; i++)
		if (p->qps[i] >= PERF_RAW)
			return tool_usage("--qp %s: cpu does not take it", perf_qp_name[p->qps[i]]);
	return p->nagainst ? tool_usage("--against: cpu does not take it") : 0;
}

/* No number of A, if any was given, is above one of B. */
static int check_above(const struct perf_plan *p, enum perf_param_id a, enum perf_param_id b)
{
	const struct perf_list *small = &p->list[a], *large = &p->list[b];

	for (int i = 0; i < small->n; i++)
		for (int k = 0; k < large->n; k++)
			if (small->v[i] > large->v[k])
				return tool_usage("--%s %llu is above --%s %llu", perf_params[a].name,
						  (unsigned long long)small->v[i], perf_params[b].name,
						  (unsigned long long)large->v[k]);
	return 0;
}

/* Options that need or exclude others. */
static int check_together(const struct perf_plan *p)
{
	static const struct { enum perf_param_id a, b; } never[] = { { PERF_OUTSTANDING, PERF_WINDOW },
		{ PERF_BUFFERS, PERF_REUSE }, { PERF_LOAD, PERF_STREAMS }, { PERF_CRC, PERF_NO_CRC } };
	int rc;

	for (size_t i = 0; i < TOOL_COUNT(never); i++)
		if (p->list[never[i].a].given && p->list[never[i].b].given)
			return tool_usage("only one of --%s and --%s", perf_params[never[i].a].name,
					  perf_params[never[i].b].name);
	if (p->list[PERF_SCHEME].given && !p->list[PERF_REUSE].given)
		return tool_usage("--scheme needs --reuse");
	if (p->list[PERF_ACTIVE].given && !p->list[PERF_QUEUE_PAIRS].given)
		return tool_usage("--active needs --qps");
	if (p->list[PERF_QUEUE_PAIRS].given && has_op(p, PERF_WRITE) &&
	    (perf_has_qp(p, PERF_RC) || perf_has_qp(p, PERF_RC_CONFIRM)))
		return tool_usage("--qps: rc needs --op write-imm, not write: nothing tells that a write has come");
	if (p->list[PERF_SGE].given && (has_op(p, PERF_FETCH_ADD) || has_op(p, PERF_CMP_SWAP)))
		return tool_usage("--sge: an atomic has one entry");
	for (int i = 0; i < p->nops; i++)
		if (p->list[PERF_CLOSE_LAST].given && p->ops[i] != PERF_WRITE)
			return tool_usage("--close-last needs --op write");
	if (p->llps[0] != DIW_LLP_DEFAULT && !has_dgram(p))
		return tool_usage("--llp: none of --qp takes it");
	rc = check_above(p, PERF_SGE, PERF_MAX_SGE);
	if (!rc)
		rc = check_above(p, PERF_ACTIVE, PERF_QUEUE_PAIRS);
	return rc ? rc : check_cpu(p);
}

/* Options for which libibverbs has no equivalent, or another one. */
static int check_provider(const struct perf_plan *p)
{
	static const enum perf_param_id ours[] = { PERF_MULPDU, PERF_CRC, PERF_NO_CRC, PERF_MARKERS, PERF_CLOSE_LAST,
		PERF_QUEUE_PAIRS, PERF_LOAD };
	const struct perf_list *l = &p->list[PERF_PROVIDER];
	bool verbs = false;

	for (int i = 0; i < l->n; i++)
		verbs |= l->v[i] == PERF_VERBS;
	for (size_t i = 0; i < TOOL_COUNT(ours) && verbs; i++)
		if (p->list[ours[i]].given)
			return tool_usage("--provider verbs does not take --%s", perf_params[ours[i]].name);
	if (verbs && (p->side.impair || p->llps[0] != DIW_LLP_DEFAULT || p->base.mode == PERF_WAIT))
		return tool_usage("--provider verbs does not take --impair, --llp and --wait");
	for (int i = 0; i < p->nqps && verbs; i++)
		if (p->qps[i] != PERF_UD && p->qps[i] != PERF_RC && p->qps[i] < PERF_RAW)
			return tool_usage("--provider verbs: --qp is ud or rc, not %s", perf_qp_name[p->qps[i]]);
	for (int i = 0; i < p->nops && verbs; i++)
		if (p->ops[i] > PERF_READ || (p->ops[i] != PERF_SEND && perf_has_qp(p, PERF_UD)))
			return tool_usage("--provider verbs: --op is send, with rc also write, write-imm and read");
	return 0;
}

/* The longest messages of datagrams (diw_dev(3)). RC's are as long as --size may be. */
static int check_lengths(const struct perf_plan *p)
{
	static const struct { enum perf_op op; uint64_t max; const char *what; } limits[] = {
		{ PERF_SEND, DIW_MAX_SEND, "send" }, { PERF_READ, DIW_MAX_READ, "read" } };
	const struct perf_list *sizes = &p->list[PERF_SIZE];
	char max[24];

	for (size_t k = 0; k < TOOL_COUNT(limits) && has_dgram(p); k++)
		for (int i = 0; i < sizes->n && has_op(p, limits[k].op); i++)
			if (sizes->v[i] > limits[k].max)
				return tool_usage("--size: a %s of ud, uc and rd has at most %s, not %llu B",
						  limits[k].what, fmt_bytes(limits[k].max, max),
						  (unsigned long long)sizes->v[i]);
	return 0;
}

static int check_ops(const struct perf_plan *p)
{
	for (int i = 0; i < p->nqps; i++)
		if (has_op(p, PERF_WRITE_IMM) && !perf_is_rc(p->qps[i]) && p->qps[i] < PERF_RAW)
			return tool_usage("--op write-imm needs --qp rc");
	if (perf_has_qp(p, PERF_UC) && has_op(p, PERF_READ))
		return tool_usage("--op read cannot be combined with --qp uc");
	if ((perf_has_qp(p, PERF_UD) || perf_has_qp(p, PERF_UC)) &&
	    (has_op(p, PERF_FETCH_ADD) || has_op(p, PERF_CMP_SWAP)))
		return tool_usage("--op fetch-add and cmp-swap need --qp rc or rd");
	return check_lengths(p);
}

static void set_shares(struct perf_plan *p)
{
	if (!p->list[PERF_COMPUTE].n)
		p->list[PERF_COMPUTE] = (struct perf_list){ .v = { 0, 50, 80, 90, 95 }, .n = 5, .given = true };
}

static void set_default(struct perf_plan *p, enum perf_param_id id, uint64_t v)
{
	if (!p->list[id].n)
		p->list[id] = (struct perf_list){ .v = { v }, .n = 1 };
}

/* Checks that need all options; sets the defaults. */
static int complete_plan(struct perf_plan *p, int argc, char **argv)
{
	int test = optind < argc ? find_test(argv[optind]) : -1, rc;

	if (optind < argc && test < 0)
		return tool_usage("'%s' is not a test: lat, bw, bibw, rate, cpu, group, qos, setup, mr, post, suite, "
				  "report", argv[optind]);
	if (p->place == PERF_NOWHERE)
		return tool_usage("one of --local, --server and --connect HOST is needed");
	if (argc - optind > 1)
		return tool_usage("'%s': one test only", argv[optind + 1]);
	if (p->place == PERF_SERVER)
		return p->of_client ? tool_usage("--server takes only --port, --bind, --dev, --impair, not --%s",
						 p->of_client) : 0;
	if (test < 0)
		return tool_usage("the test is missing: lat, bw, bibw, rate, cpu");
	p->base.test = (enum perf_test)test;
	rc = check_params(p);
	if (!rc)
		rc = check_together(p);
	if (!rc)
		rc = check_provider(p);
	if (!rc)
		rc = check_ops(p);
	if (test == PERF_CPU)
		set_shares(p);
	if (!rc && p->side.impair && (perf_has_qp(p, PERF_RC) || perf_has_qp(p, PERF_RC_CONFIRM)))
		rc = tool_usage("--impair cannot be combined with --qp rc");
	if (!rc && p->hist && perf_tests[test].unit != PERF_US)
		rc = tool_usage("--hist: %s has no latencies", perf_tests[test].name);
	set_default(p, PERF_SIZE, perf_tests[test].size);
	set_default(p, PERF_DEPTH, perf_tests[test].depth);
	return rc;
}

/* Commands that have options of their own. */
static const struct { const char *name; int (*run)(int argc, char **argv); } others[] = {
	{ "group", perf_group }, { "qos", perf_qos }, { "suite", perf_suite }, { "report", perf_report },
};

int perf_command(int argc, char **argv)
{
	struct perf_plan p = { .port = DIW_PORT, .secs = 1, .rounds = 7, .qps = { PERF_UD }, .nqps = 1,
		.ops = { PERF_SEND }, .nops = 1, .llps = { DIW_LLP_DEFAULT }, .nllps = 1, .run = perf_run_cases };
	int rc;

	for (size_t i = 0; argc > 1 && i < TOOL_COUNT(others); i++)
		if (!strcmp(argv[1], others[i].name))
			return others[i].run(argc - 1, argv + 1);
	if (argc > 1 && perf_is_cost(argv[1]))
		return perf_cost(argc - 1, argv + 1);
	rc = perf_parse_options(&p, argc, argv);
	if (!rc)
		rc = complete_plan(&p, argc, argv);
	if (!rc && p.side.impair)            /* an error here is still one of usage */
		rc = endpoint_check_impair(p.side.impair);
	if (rc)
		return rc;
	return p.place == PERF_LOCAL ? perf_local(&p) : p.place == PERF_SERVER ? perf_server(&p) : perf_connect(&p);
}

static void print_help(FILE *to)
{
	perf_print_options(to);
	fputs("\n  group  goodput of one sender at each of 1 to 16 receivers, and of all together. ADDRESS is a\n"
	      "         multicast group, a broadcast address, or, to compare, one receiver's\n"
	      "      --receivers LIST    how many, like 1,2,4,8,16: a row each (default 1)\n"
	      "      --op OP             send or write: Write-Record (default write)\n"
	      "      --bind ADDR         waits at ADDR for receivers with --join, and starts none itself\n"
	      "      --join HOST         is a receiver, and joins the sender on HOST\n"
	      "      --size LIST (default 256k), --secs N, --mulpdu N, --impair SPEC, --dev NAME, --port N, --json\n\n"
	      "  qos    goodput of streams of one device, of which some are preferred by a weight; with --local, or\n"
	      "         --connect to a 'diw perf --server'\n"
	      "      --prefer QP[:N], --beside QP[:N]   types and numbers of the streams: ud, rd, rc (default ud:1)\n"
	      "      --weight LIST       of the preferred streams, 1 to 255 (default 1,4,16,64,255)\n"
	      "      --mode LIST         of weighted and blocking (default weighted)\n"
	      "      --size LIST (default 64k), --secs N of a row, --bind ADDR, --dev NAME, --port N, --json\n\n"
	      "  setup  cost of creating, changing and destroying objects, in this process\n"
	      "      --object LIST       of cq, qp, conn: a connection (default all)\n"
	      "      --qp LIST (default ud,rc), --depth LIST (default 128)\n"
	      "  mr     cost of registering and deregistering memory\n"
	      "      --size LIST         (default 4k,64k,1m,4m,16m,64m)\n"
	      "  post   cost of posting, and of polling full and empty; user time of each\n"
	      "      --batch LIST        requests a call (default 1,32)\n"
	      "      --qp LIST           of ud, rc, rc-confirm (default ud,rc)\n"
	      "      --size LIST (default 64), --depth LIST (default 1024)\n"
	      "      all three: --secs N of all rows (default 1), --dev NAME, --json; setup, post: --bind ADDR\n\n"
	      "  suite  all of these but qos, quick (default, 4 minutes) or full (half an hour)\n"
	      "      -o DIR              where the rows of each measurement are written, and machine.json\n"
	      "      --secs N            time of a case (default 0.5; full 1); setup, mr and post: time of all\n"
	      "                          their rows (default 2)\n"
	      "      --connect HOST, --port N, --rounds N\n\n"
	      "  report a page of HTML with all figures of one suite, or of two side by side (draws by gnuplot)\n"
	      "      -o FILE             (default: standard output)\n", to);
}

const struct tool_cmd cmd_perf = {
	.name = "perf", .run = perf_command, .print_help = print_help,
	.args = "lat|bw|bibw|rate|cpu [OPTION]... --local | --connect HOST\n"
		"       diw perf --server [--port N] [--bind ADDR] [--dev NAME] [--impair SPEC]\n"
		"       diw perf group ADDRESS [--receivers LIST] [OPTION]... | group --join HOST\n"
		"       diw perf qos [OPTION]... --local | --connect HOST\n"
		"       diw perf setup|mr|post [OPTION]...\n"
		"       diw perf suite [quick|full] -o DIR [OPTION]...\n"
		"       diw perf report DIR [DIR2] [-o FILE]",
	.brief = "Measures latency, goodput or message rate, on request beside bare sockets",
};
