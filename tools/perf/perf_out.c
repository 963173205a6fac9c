/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the figures of rounds, and a row of them as a line of the table or as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/perf/perf.h"

static const char *const mode_name[] = { "poll", "wait", "events" };

double perf_cpu_now(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
		(double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

/* A figure that neither end has stays NAN; those of both ends are added. */
static void add_figure(double *sum, bool valid, double v)
{
	if (valid)
		*sum = isnan(*sum) ? v : *sum + v;
}

void perf_add_round(struct perf_figures *f, const struct perf_part *a, const struct perf_part *b)
{
	const struct perf_part *const ends[] = { a, b };
	int r = f->rounds++;

	f->gbps[r] = f->msgs[r] = f->p50[r] = f->p99[r] = f->close_p99[r] = NAN;
	for (size_t i = 0; i < TOOL_COUNT(ends); i++) {
		const struct perf_part *p = ends[i];

		add_figure(&f->gbps[r], p->m_ns > 0, p->m_bytes / p->m_ns);
		add_figure(&f->msgs[r], p->m_ns > 0, p->m_msgs / p->m_ns * 1e9);
		add_figure(&f->p50[r], p->p50_ns > 0, p->p50_ns / 1e3);
		add_figure(&f->p99[r], p->p50_ns > 0, p->p99_ns / 1e3);
		add_figure(&f->close_p99[r], p->close_p99_ns > 0, p->close_p99_ns / 1e3);
		f->computed[r] += p->computed / 2;
		f->tx_bytes += p->tx_bytes;
		f->rx_bytes += p->rx_bytes;
		f->lost += p->tx_msgs - p->rx_msgs;
		f->cpu_s += p->cpu_s;
	}
}

/* The figure that a test is about: its key, its heading and its rounds. */
static const char *const unit_key[] = { [PERF_US] = "lat_us_p50", [PERF_GBPS] = "GBps", [PERF_MSGS] = "msgs_per_s" };
static const char *const unit_head[] = { [PERF_US] = "us", [PERF_GBPS] = "GB/s", [PERF_MSGS] = "kmsg/s" };

static const double *figures(const struct perf_case *pc, const struct perf_figures *f)
{
	switch (perf_tests[pc->test].unit) {
	case PERF_US: return f->p50;
	case PERF_MSGS: return f->msgs;
	default: return f->gbps;
	}
}

bool perf_has_figure(const struct perf_row *row)
{
	return perf_stat_of(figures(&row->pc, &row->f), row->f.rounds).n > 0;
}

struct ratio { const char *to; struct perf_stat stat; };
struct row {
	const struct perf_plan *plan;
	const struct perf_case *pc;
	const struct perf_figures *f;
	enum perf_unit unit;
	struct perf_stat stat;               /* of the figure that the test is about */
	double gbps, msgs, p50, p99, close_p99;
	struct ratio ratio[PERF_SLOTS];
	int nratios;
};

/* ---- JSON ---- */

static void add_interval(cJSON *o, const char *key, const struct perf_stat *s)
{
	cJSON *a;

	if (!s->certain) {
		cJSON_AddNullToObject(o, key);
		return;
	}
	a = cJSON_AddArrayToObject(o, key);
	cJSON_AddItemToArray(a, json_number(s->low));
	cJSON_AddItemToArray(a, json_number(s->high));
}

static void add_stats(cJSON *o, const struct row *r)
{
	const double *v = figures(r->pc, r->f);
	cJSON *s = cJSON_AddObjectToObject(o, "stats"), *all;

	cJSON_AddStringToObject(s, "of", unit_key[r->unit]);
	json_add_count(s, "rounds", (uint64_t)r->stat.n);
	json_add_null_number(s, "min", r->stat.n, r->stat.min);
	json_add_null_number(s, "median", r->stat.n, r->stat.median);
	json_add_null_number(s, "max", r->stat.n, r->stat.max);
	add_interval(s, "ci95", &r->stat);
	all = cJSON_AddArrayToObject(s, "values");
	for (int i = 0; i < r->f->rounds; i++)
		cJSON_AddItemToArray(all, isnan(v[i]) ? cJSON_CreateNull() : json_number(v[i]));
}

/* "ratio" is the one to the first of them. */
static void add_ratios(cJSON *o, const struct row *r)
{
	const struct ratio *first = r->nratios ? &r->ratio[0] : NULL;
	cJSON *all, *intervals;

	json_add_null_number(o, "ratio", first && first->stat.n, first ? first->stat.median : 0);
	cJSON_AddItemToObject(o, "baseline", first ? cJSON_CreateString(first->to) : cJSON_CreateNull());
	all = cJSON_AddObjectToObject(o, "ratios");
	intervals = cJSON_AddObjectToObject(o, "ratios_ci95");
	for (int i = 0; i < r->nratios; i++) {
		json_add_null_number(all, r->ratio[i].to, r->ratio[i].stat.n, r->ratio[i].stat.median);
		add_interval(intervals, r->ratio[i].to, &r->ratio[i].stat);
	}
}

static void add_param(cJSON *o, const struct perf_case *pc, enum perf_param_id id)
{
	uint64_t v = perf_get(pc, id);
	char key[32];

	perf_param_key(id, key);
	if (perf_word_of(&perf_params[id], v))
		cJSON_AddStringToObject(o, key, perf_word_of(&perf_params[id], v));
	else if (!perf_params[id].arg)
		cJSON_AddBoolToObject(o, key, v != 0);
	else if (v || (!perf_params[id].min && perf_param_applies(pc, id)))
		json_add_count(o, key, v);
	else
		cJSON_AddNullToObject(o, key);
}

/* Quantiles of all rounds; and, if asked for, how many latencies each bin has: [from, to, count], in microseconds. */
static void add_hist(cJSON *o, const struct row *r)
{
	const struct hist *h = &r->f->hist;
	struct hist_bin bins[HIST_BINS];
	cJSON *all, *bin;

	json_add_null_number(o, "lat_us_min", h->n, (double)h->min / 1e3);
	json_add_null_number(o, "lat_us_p999", h->n, hist_quantile(h, 0.999) / 1e3);
	json_add_null_number(o, "lat_us_max", h->n, (double)h->max / 1e3);
	if (!r->plan->hist)
		return;
	all = cJSON_AddArrayToObject(o, "hist");
	for (int i = 0, n = hist_bins(h, bins); i < n; i++) {
		bin = cJSON_CreateArray();
		cJSON_AddItemToArray(bin, json_number((double)bins[i].begin / 1e3));
		cJSON_AddItemToArray(bin, json_number((double)bins[i].end / 1e3));
		cJSON_AddItemToArray(bin, cJSON_CreateNumber((double)bins[i].count));
		cJSON_AddItemToArray(all, bin);
	}
}

static void add_case(cJSON *o, const struct row *r)
{
	const struct perf_case *pc = r->pc;
	const struct perf_figures *f = r->f;
	const char *impair = perf_is_dgram(pc->qp) ? r->plan->side.impair : NULL;

	cJSON_AddStringToObject(o, "test", perf_tests[pc->test].name);
	cJSON_AddStringToObject(o, "qp", perf_qp_name[pc->qp]);
	cJSON_AddItemToObject(o, "llp", f->llp ? cJSON_CreateString(f->llp) : cJSON_CreateNull());
	cJSON_AddItemToObject(o, "congestion", f->congestion[0] ? cJSON_CreateString(f->congestion) :
			      cJSON_CreateNull());
	cJSON_AddItemToObject(o, "op", pc->qp >= PERF_RAW ? cJSON_CreateNull() :
			      cJSON_CreateString(perf_op_name[pc->op]));
	for (int i = 0; i < PERF_PARAMS; i++)
		add_param(o, pc, i);
	cJSON_AddStringToObject(o, "mode", mode_name[pc->mode]);
	cJSON_AddItemToObject(o, "impair", impair ? cJSON_CreateString(impair) : cJSON_CreateNull());
	json_add_number(o, "secs", r->plan->secs);
}

static void print_row_json(const struct row *r)
{
	cJSON *o = cJSON_CreateObject();

	add_case(o, r);
	json_add_null_number(o, "GBps", !isnan(r->gbps), r->gbps);
	json_add_null_number(o, "msgs_per_s", !isnan(r->msgs), r->msgs);
	json_add_count(o, "bytes_sent", (uint64_t)r->f->tx_bytes);
	json_add_count(o, "bytes_valid", (uint64_t)r->f->rx_bytes);
	json_add_number(o, "lost", r->f->lost > 0 ? r->f->lost : 0);
	json_add_null_number(o, "lat_us_p50", !isnan(r->p50), r->p50);
	json_add_null_number(o, "lat_us_p99", !isnan(r->p99), r->p99);
	add_hist(o, r);
	json_add_null_number(o, "close_us_p99", !isnan(r->close_p99), r->close_p99);
	json_add_number(o, "cpu_s", r->f->cpu_s);
	json_add_null_number(o, "computed", r->pc->test == PERF_CPU, perf_stat_of(r->f->computed, r->f->rounds).median);
	json_add_number(o, "noise", r->stat.spread);
	add_stats(o, r);
	add_ratios(o, r);
	cJSON_AddItemToObject(o, "machine", machine_json());
	json_print(o);
}

/* ---- The table ---- */

/* Four significant digits, or a dash. */
static const char *cell(char buf[16], double v)
{
	int decimals = v < 10 ? 3 : v < 100 ? 2 : v < 1000 ? 1 : 0;

	snprintf(buf, 16, isnan(v) ? "-" : "%.*f", decimals, v);
	return buf;
}

static bool has_column(const struct perf_plan *p, enum perf_param_id id)
{
	return id != PERF_SIZE && perf_params[id].arg && p->list[id].given;
}

static const char *param_cell(char buf[24], const struct perf_case *pc, enum perf_param_id id)
{
	uint64_t v = perf_get(pc, id);

	if (perf_word_of(&perf_params[id], v))
		return perf_word_of(&perf_params[id], v);
	if (!v && !(!perf_params[id].min && perf_param_applies(pc, id)))
		return "-";
	if (perf_params[id].bytes && v % 1024 == 0)
		return fmt_bytes(v, buf);
	snprintf(buf, 24, perf_params[id].bytes ? "%llu B" : "%llu", (unsigned long long)v);
	return buf;
}

/* Of the column of a number. */
static int param_width(enum perf_param_id id)
{
	int n = (int)strlen(perf_params[id].name);

	return n > 8 ? n : 8;
}

void perf_print_head(const struct perf_plan *p)
{
	enum perf_unit unit = perf_tests[p->base.test].unit;

	machine_measure();
	if (p->json)
		return;
	machine_print_line();
	printf("# %s: median of %llu rounds, in %s; least, most, and 95 %% confidence interval of the median\n",
	       perf_tests[p->base.test].brief, (unsigned long long)p->rounds, unit_head[unit]);
	printf("%-4s  %-11s  %-5s  %-9s  %9s  ", "test", "qp", "llp", "op", "size");
	for (int i = 0; i < PERF_PARAMS; i++)
		if (has_column(p, i))
			printf("%*s  ", param_width(i), perf_params[i].name);
	if (unit == PERF_US)
		printf("%8s  %8s  ", "p50 us", "p99 us");
	else
		printf("%8s  %8s  ", "GB/s", "kmsg/s");
	printf("%8s  %8s  %17s  %8s  %7s  %s\n", "least", "most", "95 % interval", "lost", "cpu s", "ratio");
	fflush(stdout);
}

static void print_interval(const struct perf_stat *s, double scale)
{
	char low[16], high[16], both[40];

	snprintf(both, sizeof both, "%s..%s", cell(low, s->low / scale), cell(high, s->high / scale));
	printf("%17s  ", s->certain ? both : "-");
}

static void print_ratios(const struct row *r)
{
	char v[16], low[16], high[16];

	for (int i = 0; i < r->nratios; i++) {
		const struct perf_stat *s = &r->ratio[i].stat;

		printf("%s%s", i ? ", " : "", cell(v, s->median));
		if (s->certain)
			printf(" (%s..%s)", cell(low, s->low), cell(high, s->high));
		printf(" x %s", r->ratio[i].to);
	}
	puts(r->nratios ? "" : "-");
}

static void print_row_table(const struct row *r)
{
	double scale = r->unit == PERF_MSGS ? 1e3 : 1;
	bool us = r->unit == PERF_US;
	char size[24], b[5][16];
	const char *under = r->f->llp ? r->f->llp : r->f->congestion[0] ? r->f->congestion : "-";

	printf("%-4s  %-11s  %-5s  %-9s  %9s  ", perf_tests[r->pc->test].name, perf_qp_name[r->pc->qp], under,
	       r->pc->qp >= PERF_RAW ? "-" : perf_op_name[r->pc->op], param_cell(size, r->pc, PERF_SIZE));
	for (int i = 0; i < PERF_PARAMS; i++)
		if (has_column(r->plan, i))
			printf("%*s  ", param_width(i), param_cell(size, r->pc, i));
	printf("%8s  %8s  %8s  %8s  ", cell(b[0], us ? r->p50 : r->gbps), cell(b[1], us ? r->p99 : r->msgs / 1e3),
	       cell(b[2], r->stat.n ? r->stat.min / scale : NAN), cell(b[3], r->stat.n ? r->stat.max / scale : NAN));
	print_interval(&r->stat, scale);
	printf("%8.0f  %7s  ", r->f->lost > 0 ? r->f->lost : 0, cell(b[4], r->f->cpu_s));
	print_ratios(r);
	fflush(stdout);
}

/* ---- Distributions, behind the table ---- */

#define HIST_BAR 50

static struct { FILE *f; char *text; size_t len; } hists;

/* The last thousandth of the latencies is one line. */
static void keep_hist(const struct row *r)
{
	const struct hist *h = &r->f->hist;
	struct hist_bin bins[HIST_BINS];
	uint64_t most = 1, shown = 0;
	char size[24];
	int n = hist_bins(h, bins), width;

	if (!hists.f)
		hists.f = open_memstream(&hists.text, &hists.len);
	if (!hists.f)
		return;
	for (int i = 0; i < n; i++)
		most = bins[i].count > most ? bins[i].count : most;
	fprintf(hists.f, "\n%s %s %s, %s: %llu latencies, us\n", perf_tests[r->pc->test].name,
		perf_qp_name[r->pc->qp], r->pc->qp >= PERF_RAW ? "" : perf_op_name[r->pc->op],
		param_cell(size, r->pc, PERF_SIZE), (unsigned long long)h->n);
	for (int i = 0; i < n; i++) {
		if (shown * 1000 > h->n * 999 && n - i > 1) {
			fprintf(hists.f, "%10.3f ..             %9llu\n", (double)bins[i].begin / 1e3,
				(unsigned long long)(h->n - shown));
			break;
		}
		shown += bins[i].count;
		width = (int)(bins[i].count * HIST_BAR / most);
		fprintf(hists.f, "%10.3f .. %10.3f  %9llu  %5.1f %%  %.*s\n", (double)bins[i].begin / 1e3,
			(double)bins[i].end / 1e3, (unsigned long long)bins[i].count,
			100.0 * (double)bins[i].count / (double)h->n, width ? width : 1,
			"##################################################");
	}
	fprintf(hists.f, "least %.3f, p50 %.3f, p99 %.3f, p99.9 %.3f, most %.3f\n",
		(double)(h->n ? h->min : 0) / 1e3, hist_quantile(h, 0.5) / 1e3, hist_quantile(h, 0.99) / 1e3,
		hist_quantile(h, 0.999) / 1e3, (double)h->max / 1e3);
}

void perf_print_end(void)
{
	if (!hists.f)
		return;
	fclose(hists.f);
	fputs(hists.text, stdout);
	fflush(stdout);
	free(hists.text);
}

void perf_print(const struct perf_plan *p, const struct perf_row *row, const struct perf_row *bases, int nbases)
{
	const struct perf_figures *f = &row->f;
	struct row r = { .plan = p, .pc = &row->pc, .f = f, .unit = perf_tests[row->pc.test].unit, .nratios = nbases,
		.stat = perf_stat_of(figures(&row->pc, f), f->rounds),
		.gbps = perf_stat_of(f->gbps, f->rounds).median, .msgs = perf_stat_of(f->msgs, f->rounds).median,
		.p50 = perf_stat_of(f->p50, f->rounds).median, .p99 = perf_stat_of(f->p99, f->rounds).median,
		.close_p99 = perf_stat_of(f->close_p99, f->rounds).median };

	for (int i = 0; i < nbases; i++) {
		const struct perf_figures *b = &bases[i].f;
		int n = f->rounds < b->rounds ? f->rounds : b->rounds;

		r.ratio[i] = (struct ratio){ perf_qp_name[bases[i].pc.qp],
			perf_ratio_of(figures(&row->pc, f), figures(&bases[i].pc, b), n) };
	}
	if (p->json)
		print_row_json(&r);
	else
		print_row_table(&r);
	if (p->hist && !p->json)
		keep_hist(&r);
}
