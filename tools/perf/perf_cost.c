/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf setup, mr and post: their options, and the output of their rows. */
#include "tools/perf/perf_cost.h"

#include <getopt.h>
#include <string.h>

static const char *const object_name[COST_OBJECTS] = { "cq", "qp", "conn" };

enum { SETUP = 1, MR = 2, POST = 4 };

/* Which tests take an option. */
static const struct cost_option { struct option getopt; int tests; } cost_options[] = {
	{ { "object", required_argument, NULL, 'o' }, SETUP },
	{ { "qp", required_argument, NULL, 'q' }, SETUP | POST },
	{ { "depth", required_argument, NULL, 'd' }, SETUP | POST },
	{ { "size", required_argument, NULL, 's' }, MR | POST },
	{ { "batch", required_argument, NULL, 'B' }, POST },
	{ { "secs", required_argument, NULL, 't' }, SETUP | MR | POST },
	{ { "dev", required_argument, NULL, 'D' }, SETUP | MR | POST },
	{ { "bind", required_argument, NULL, 'b' }, SETUP | POST },
	{ { "json", no_argument, NULL, 'j' }, SETUP | MR | POST },
};

static const struct cost_test {
	const char *name;
	int bit;
	int (*run)(const struct cost_plan *p);
} cost_tests[] = {
	{ "setup", SETUP, cost_setup_run },
	{ "mr", MR, cost_mr_run },
	{ "post", POST, cost_post_run },
};

static const struct cost_test *cost_test_of(const char *name)
{
	for (size_t i = 0; i < TOOL_COUNT(cost_tests); i++)
		if (!strcmp(name, cost_tests[i].name))
			return &cost_tests[i];
	return NULL;
}

bool perf_is_cost(const char *name)
{
	return cost_test_of(name);
}

static int cost_set_option(struct cost_plan *p, const struct cost_test *t, int opt, char **argv)
{
	int values[PERF_QPS], rc;

	switch (opt) {
	case 'o':
		rc = perf_opt_names("--object", optarg, object_name, COST_OBJECTS, values, &p->nobjects);
		for (int i = 0; i < p->nobjects; i++)
			p->objects[i] = (enum cost_object)values[i];
		return rc;
	case 'q':
		rc = perf_opt_names("--qp", optarg, perf_qp_name, PERF_RAW, values, &p->nqps);
		for (int i = 0; i < p->nqps; i++)
			p->qps[i] = (enum perf_qp)values[i];
		return rc;
	case 'd': return opt_list("--depth", optarg, false, 1, 65536, p->depths, PERF_VALUES, &p->ndepths);
	case 's': return opt_list("--size", optarg, true, 1, t->bit == MR ? DIW_MAX_RDMA : 64u << 10, p->sizes,
				  PERF_VALUES, &p->nsizes);
	case 'B': return opt_list("--batch", optarg, false, 1, PERF_BATCH, p->batches, PERF_VALUES, &p->nbatches);
	case 't': return opt_seconds("--secs", optarg, 0.01, 3600, &p->secs);
	case 'D': p->dev = optarg; return 0;
	case 'b': p->bind = optarg; return 0;
	case 'j': p->json = true; return 0;
	default: return tool_bad_option(argv);
	}
}

static int cost_options_of(struct cost_plan *p, const struct cost_test *t, int argc, char **argv)
{
	struct option opts[TOOL_COUNT(cost_options) + 1];
	int n = 0, opt, rc = 0;

	for (size_t i = 0; i < TOOL_COUNT(cost_options); i++)
		if (cost_options[i].tests & t->bit)
			opts[n++] = cost_options[i].getopt;
	opts[n] = (struct option){ 0 };
	while (!rc && (opt = getopt_long(argc, argv, "", opts, NULL)) != -1)
		rc = cost_set_option(p, t, opt, argv);
	if (!rc && optind < argc)
		rc = tool_usage("'%s': %s takes no argument", argv[optind], t->name);
	return rc ? rc : opt_host(p->bind ? p->bind : "127.0.0.1", 0, &p->local);
}

static void cost_defaults(struct cost_plan *p, const struct cost_test *t)
{
	static const uint64_t mr_sizes[] = { 4u << 10, 64u << 10, 1u << 20, 4u << 20, 16u << 20, 64u << 20 };

	*p = (struct cost_plan){ .objects = { COST_CQ, COST_QP, COST_CONN }, .nobjects = COST_OBJECTS,
		.qps = { PERF_UD, PERF_RC }, .nqps = 2, .depths = { 128 }, .ndepths = 1, .sizes = { 64 }, .nsizes = 1,
		.batches = { 1, 32 }, .nbatches = 2, .secs = 1 };
	if (t->bit == POST)
		p->depths[0] = 1024;
	if (t->bit != MR)
		return;
	memcpy(p->sizes, mr_sizes, sizeof mr_sizes);
	p->nsizes = TOOL_COUNT(mr_sizes);
}

int perf_cost(int argc, char **argv)
{
	const struct cost_test *t = cost_test_of(argv[0]);
	struct cost_plan p;
	int rc;

	cost_defaults(&p, t);
	rc = cost_options_of(&p, t, argc, argv);
	return rc ? rc : t->run(&p);
}

/* ---- For the tests ---- */

int cost_hists_init(struct hist *h, int n)
{
	memset(h, 0, (size_t)n * sizeof *h);
	for (int i = 0; i < n; i++) {
		if (hist_init(&h[i]) == 0)
			continue;
		cost_hists_fini(h, i);
		return tool_failed("out of memory");
	}
	return 0;
}

void cost_hists_fini(struct hist *h, int n)
{
	for (int i = 0; i < n; i++)
		hist_fini(&h[i]);
}

void cost_qp_attr(const struct cost_plan *p, enum perf_qp qp, struct diw_qp_attr *attr)
{
	static const enum diw_qp_type type[PERF_RAW] = { [PERF_UD] = DIW_QP_UD, [PERF_UC] = DIW_QP_UC,
		[PERF_RD] = DIW_QP_RD, [PERF_RC] = DIW_QP_RC, [PERF_RC_CONFIRM] = DIW_QP_RC };

	*attr = (struct diw_qp_attr)DIW_QP_ATTR_INIT;
	attr->type = type[qp];
	attr->rc.confirm = qp == PERF_RC_CONFIRM;
	if (attr->type != DIW_QP_RC)
		attr->dgram.local = p->local;
}

/* ---- Output ---- */

static void cost_add_count(cJSON *o, const char *key, uint64_t n)
{
	cJSON_AddItemToObject(o, key, n ? cJSON_CreateNumber((double)n) : cJSON_CreateNull());
}

static void cost_print_json(const struct cost_row *r)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "test", r->test);
	cJSON_AddItemToObject(o, "object", r->object ? cJSON_CreateString(r->object) : cJSON_CreateNull());
	cJSON_AddItemToObject(o, "qp", r->qp ? cJSON_CreateString(r->qp) : cJSON_CreateNull());
	cJSON_AddStringToObject(o, "act", r->act);
	cost_add_count(o, "depth", r->depth);
	cost_add_count(o, "size", r->size);
	cost_add_count(o, "batch", r->batch);
	json_add_count(o, "count", r->count);
	json_add_null_number(o, "ns_p50", r->p50_ns > 0, r->p50_ns);
	json_add_null_number(o, "ns_p99", r->p99_ns > 0, r->p99_ns);
	json_add_null_number(o, "ns_mean", r->mean_ns > 0, r->mean_ns);
	json_add_null_number(o, "user_ns", r->user_ns > 0, r->user_ns);
	json_add_null_number(o, "goal_ns", r->goal_ns > 0, r->goal_ns);
	cJSON_AddItemToObject(o, "machine", machine_json());
	json_print(o);
}

static const char *cost_cell(char buf[16], double ns)
{
	if (ns > 0)
		snprintf(buf, 16, "%.*f", ns < 10000 ? 3 : 1, ns / 1e3);
	return ns > 0 ? buf : "-";
}

static const char *count_cell(char buf[16], uint64_t n)
{
	snprintf(buf, 16, n ? "%llu" : "-", (unsigned long long)n);
	return buf;
}

static void cost_print_table(const struct cost_row *r)
{
	static bool headed;
	char size[24], b[6][16], goal[48] = "";

	if (!headed) {
		machine_print_line();
		printf("%-5s  %-6s  %-10s  %-10s  %6s  %9s  %5s  %9s  %9s  %9s  %9s  %9s\n", "test", "object", "qp",
		       "act", "depth", "size", "batch", "count", "p50 us", "p99 us", "mean us", "user us");
	}
	headed = true;
	if (r->goal_ns > 0)
		snprintf(goal, sizeof goal, "  goal %.0f ns of user time: %s", r->goal_ns,
			 r->user_ns <= r->goal_ns ? "met" : "missed");
	printf("%-5s  %-6s  %-10s  %-10s  %6s  %9s  %5s  %9llu  %9s  %9s  %9s  %9s%s\n", r->test,
	       r->object ? r->object : "-", r->qp ? r->qp : "-", r->act, count_cell(b[0], r->depth),
	       r->size ? fmt_bytes(r->size, size) : "-", count_cell(b[1], r->batch), (unsigned long long)r->count,
	       cost_cell(b[2], r->p50_ns), cost_cell(b[3], r->p99_ns), cost_cell(b[4], r->mean_ns),
	       cost_cell(b[5], r->user_ns), goal);
	fflush(stdout);
}

void cost_print(const struct cost_plan *p, const struct cost_row *r)
{
	p->json ? cost_print_json(r) : cost_print_table(r);
}

void cost_print_hist(const struct cost_plan *p, struct cost_row *r, const struct hist *h)
{
	r->count = h->n;
	r->p50_ns = hist_quantile(h, 0.5);
	r->p99_ns = hist_quantile(h, 0.99);
	r->mean_ns = h->n ? (double)h->sum / (double)h->n : 0;
	cost_print(p, r);
}
