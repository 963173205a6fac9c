/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the table of its options, and the numbers of perf_params as options. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/perf/perf.h"

#define FIRST 256                    /* the value of the first option for getopt_long() */
#define HELP_COLUMN 26

static int index_of(const char *const *names, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

int perf_opt_names(const char *opt, const char *text, const char *const *names, int n, int *values, int *count)
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

static int set_qp(struct perf_plan *p, const char *arg)
{
	int values[PERF_QPS], rc = perf_opt_names("--qp", arg, perf_qp_name, PERF_QPS, values, &p->nqps);

	for (int i = 0; i < p->nqps; i++)
		p->qps[i] = (enum perf_qp)values[i];
	return rc;
}

static int set_op(struct perf_plan *p, const char *arg)
{
	int values[PERF_OPS], rc = perf_opt_names("--op", arg, perf_op_name, PERF_OPS, values, &p->nops);

	for (int i = 0; i < p->nops; i++)
		p->ops[i] = (enum perf_op)values[i];
	return rc;
}

static int set_llp(struct perf_plan *p, const char *arg)
{
	static const char *const names[PERF_LLPS] = { "udp", "uring" };
	int values[PERF_LLPS], rc = perf_opt_names("--llp", arg, names, PERF_LLPS, values, &p->nllps);

	for (int i = 0; i < p->nllps; i++)
		p->llps[i] = values[i] ? DIW_LLP_URING : DIW_LLP_UDP;
	return rc;
}

static int set_against(struct perf_plan *p, const char *arg)
{
	int values[PERF_QPS], rc;

	rc = perf_opt_names("--against", arg, perf_qp_name + PERF_RAW, PERF_QPS - PERF_RAW, values, &p->nagainst);
	for (int i = 0; i < p->nagainst; i++)
		p->against[i] = (enum perf_qp)(PERF_RAW + values[i]);
	return rc;
}

static int set_mode(struct perf_plan *p, enum perf_mode mode)
{
	if (p->base.mode != PERF_POLL && p->base.mode != mode)
		return tool_usage("only one of --events and --wait");
	p->base.mode = mode;
	return 0;
}

static int set_events(struct perf_plan *p, const char *arg)
{
	(void)arg;
	return set_mode(p, PERF_EVENTS);
}

static int set_wait(struct perf_plan *p, const char *arg)
{
	(void)arg;
	return set_mode(p, PERF_WAIT);
}

static int set_place(struct perf_plan *p, enum perf_place place)
{
	if (p->place != PERF_NOWHERE && p->place != place)
		return tool_usage("only one of --local, --server and --connect");
	p->place = place;
	return 0;
}

static int set_local(struct perf_plan *p, const char *arg)
{
	(void)arg;
	return set_place(p, PERF_LOCAL);
}

static int set_server(struct perf_plan *p, const char *arg)
{
	(void)arg;
	return set_place(p, PERF_SERVER);
}

static int set_connect(struct perf_plan *p, const char *arg)
{
	p->host = arg;
	return set_place(p, PERF_CONNECT);
}

static int set_secs(struct perf_plan *p, const char *arg) { return opt_seconds("--secs", arg, 0.05, 3600, &p->secs); }
static int set_rounds(struct perf_plan *p, const char *arg)
{
	return opt_number("--rounds", arg, 1, PERF_MAX_ROUNDS, &p->rounds);
}

static int set_hist(struct perf_plan *p, const char *arg) { (void)arg; p->hist = true; return 0; }
static int set_impair(struct perf_plan *p, const char *arg) { p->side.impair = arg; return 0; }
static int set_dev(struct perf_plan *p, const char *arg) { p->side.dev = arg; return 0; }
static int set_bind(struct perf_plan *p, const char *arg) { p->bind = arg; return 0; }
static int set_port(struct perf_plan *p, const char *arg) { return opt_port(arg, &p->port); }
static int set_json(struct perf_plan *p, const char *arg) { (void)arg; p->json = true; return 0; }

static const struct option_row {
	const char *name, *arg;      /* ARG NULL: the option takes none */
	const char *help;
	int (*set)(struct perf_plan *p, const char *arg);
	bool server;                 /* the server takes it, too */
} rows[] = {
	{ "local", NULL, "both ends here, each on a core of its own", set_local, true },
	{ "server", NULL, "the other end, for one client after another", set_server, true },
	{ "connect", "HOST", "the server's host", set_connect, false },
	{ "qp", "LIST", "of ud, uc, rd, rc, rc-confirm (completions say that the peer has placed\n"
	  "the data) and the baselines (default ud); with rc and others, the\n"
	  "others' rows have the ratio to rc", set_qp, false },
	{ "op", "LIST", "of send, write, read (default send); a write on ud and rd is a\n"
	  "Write-Record; on rc and rd also fetch-add, cmp-swap; on rc write-imm", set_op, false },
	{ "secs", "N", "time of a case, in all rounds together (default 1)", set_secs, false },
	{ "rounds", "N", "rounds, of which the median counts (default 7; at least 6 for the 95 %\n"
	  "confidence interval)", set_rounds, false },
	{ "events", NULL, "sleep in a completion channel (default: poll)", set_events, false },
	{ "wait", NULL, "sleep in diw_cq_wait", set_wait, false },
	{ "impair", "SPEC", "impairs datagrams at this command's ends (loss, ...), see diwarp(7)", set_impair, true },
	{ "llp", "LIST", "of udp, uring: a row each, in alternating rounds (default DIWARP_LLP)", set_llp, false },
	{ "against", "LIST", "of raw-udp, raw-udp-crc, raw-udp-1, raw-tcp, raw-tcp-1: bare\n"
	  "sockets, in alternating rounds", set_against, false },
	{ "dev", "NAME", "the device (default: the one that reaches the other end)", set_dev, true },
	{ "bind", "ADDR", "the address of this end", set_bind, true },
	{ "port", "N", "TCP port of the control connection (default 4791)", set_port, true },
	{ "hist", NULL, "lat: the distribution of the latencies, too", set_hist, false },
	{ "json", NULL, "one JSON object a row", set_json, false },
};

/* A list of numbers and of the words of Q. */
static int set_words(const struct perf_param *q, const char *opt, const char *arg, struct perf_list *list)
{
	char *copy = strdup(arg), *save, *word;
	const struct perf_word *w;
	int rc = copy ? 0 : tool_failed("out of memory"), n;

	list->n = 0;
	for (word = copy ? strtok_r(copy, ",", &save) : NULL; word && !rc; word = strtok_r(NULL, ",", &save)) {
		for (w = q->words; w->name && strcmp(w->name, word) != 0; w++)
			;
		if (list->n == PERF_VALUES)
			rc = tool_usage("%s: more than %d values", opt, PERF_VALUES);
		else if (w->name)
			list->v[list->n++] = w->v;
		else if (!q->max)
			rc = tool_usage("%s: '%s' is unknown", opt, word);
		else if (!(rc = opt_list(opt, word, q->bytes, q->min, q->max, list->v + list->n,
					 PERF_VALUES - list->n, &n)))
			list->n += n;
	}
	free(copy);
	if (!rc)
		rc = list->n ? opt_each_once(opt, arg, list->v, list->n) :
		     tool_usage("%s: '%s' names nothing", opt, arg);
	return rc;
}

static int set_param(struct perf_plan *p, enum perf_param_id id, const char *arg)
{
	const struct perf_param *q = &perf_params[id];
	struct perf_list *list = &p->list[id];
	char opt[32];

	snprintf(opt, sizeof opt, "--%s", q->name);
	list->given = true;
	if (q->words)
		return set_words(q, opt, arg, list);
	if (q->arg)
		return opt_list(opt, arg, q->bytes, q->min, q->max, list->v, PERF_VALUES, &list->n);
	*list = (struct perf_list){ .v = { 1 }, .n = 1, .given = true };
	return 0;
}

int perf_parse_options(struct perf_plan *p, int argc, char **argv)
{
	struct option opts[PERF_PARAMS + TOOL_COUNT(rows) + 1] = { { 0 } };
	int opt, n = 0, rc = 0;

	for (; n < PERF_PARAMS; n++)
		opts[n] = (struct option){ perf_params[n].name, perf_params[n].arg ? required_argument : no_argument,
			NULL, FIRST + n };
	for (size_t i = 0; i < TOOL_COUNT(rows); i++, n++)
		opts[n] = (struct option){ rows[i].name, rows[i].arg ? required_argument : no_argument, NULL,
			FIRST + n };
	while (!rc && (opt = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (opt < FIRST)
			return tool_bad_option(argv);
		n = opt - FIRST - PERF_PARAMS;
		rc = n < 0 ? set_param(p, (enum perf_param_id)(opt - FIRST), optarg) : rows[n].set(p, optarg);
		if (n < 0 || !rows[n].server)
			p->of_client = opts[opt - FIRST].name;
	}
	return rc;
}

static void print_option(FILE *to, const char *name, const char *arg, const char *help)
{
	int n = fprintf(to, "      --%s%s%s", name, arg ? " " : "", arg ? arg : "");

	fprintf(to, "%*s", n < HELP_COLUMN ? HELP_COLUMN - n : 1, "");
	for (; *help; help++) {
		fputc(*help, to);
		if (*help == '\n')
			fprintf(to, "%*s", HELP_COLUMN, "");
	}
	fputc('\n', to);
}

void perf_print_options(FILE *to)
{
	for (int i = 0; i < PERF_TESTS; i++)
		fprintf(to, "  %-6s %s\n", perf_tests[i].name, perf_tests[i].brief);
	fputs("\nwhere both ends are, what is measured, and how:\n", to);
	for (size_t i = 0; i < TOOL_COUNT(rows); i++)
		print_option(to, rows[i].name, rows[i].arg, rows[i].help);
	fputs("\nnumbers of a case; a list has a row for each number:\n", to);
	for (int i = 0; i < PERF_PARAMS; i++)
		print_option(to, perf_params[i].name, perf_params[i].arg, perf_params[i].help);
}
