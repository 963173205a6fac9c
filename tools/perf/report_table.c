/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf report: the tables of its page. */
#include <math.h>
#include <string.h>

#include "tools/perf/perf_report.h"

/* What comes from files is never markup. */
void html_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&': fputs("&amp;", out); break;
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		case '"': fputs("&quot;", out); break;
		default: fputc(*text, out);
		}
	}
}

static void html_cell(FILE *out, const char *tag, const char *text)
{
	fprintf(out, "<%s>", tag);
	html_text(out, text);
	fprintf(out, "</%s>", tag);
}

/* Four significant digits. */
static const char *figure_text(char buf[REPORT_TEXT], double v)
{
	snprintf(buf, REPORT_TEXT, isnan(v) ? "-" : fabs(v) >= 1000 ? "%.0f" : "%.4g", v);
	return buf;
}

static void html_number(FILE *out, double v)
{
	char buf[REPORT_TEXT];

	html_cell(out, "td", figure_text(buf, v));
}

/* ---- Figures of a run ---- */

/* The columns of a run: of rows with rounds, of the cost of calls, of a group. KEYS NULL: html_rounds() has them. */
struct columns { int n; const char *const *heads, *const *keys; };
static const char *const stats_heads[] = { "median", "least", "most", "95 % interval", "p99 us", "lost", "cpu s",
	"ratio within the run (95 % interval)" };
static const char *const cost_heads[] = { "p50 ns", "p99 ns", "mean ns", "user ns", "count" };
static const char *const cost_keys[] = { "ns_p50", "ns_p99", "ns_mean", "user_ns", "count" };
static const char *const group_heads[] = { "sum GB/s", "sent GB/s", "least GB/s", "x one", "stalls", "cpu s" };
static const char *const group_keys[] = { "GBps_aggregate", "GBps_sent", "GBps_min", "scaling", "stalls", "cpu_s" };
static const struct columns of_rounds = { TOOL_COUNT(stats_heads), stats_heads, NULL };
static const struct columns of_cost = { TOOL_COUNT(cost_heads), cost_heads, cost_keys };
static const struct columns of_group = { TOOL_COUNT(group_heads), group_heads, group_keys };

static const struct columns *columns_of(const cJSON *row)
{
	return report_child(row, "stats") ? &of_rounds : report_child(row, "GBps_aggregate") ? &of_group : &of_cost;
}

static void html_interval(FILE *out, const char *before, double low, double high, const char *behind)
{
	char a[REPORT_TEXT], b[REPORT_TEXT];

	if (!isnan(low))
		fprintf(out, "%s%s..%s%s", before, figure_text(a, low), figure_text(b, high), behind);
}

static void html_ratios(FILE *out, const cJSON *row)
{
	const cJSON *ratio, *intervals = report_child(row, "ratios_ci95");
	char buf[REPORT_TEXT];

	fputs("<td>", out);
	cJSON_ArrayForEach(ratio, report_child(row, "ratios")) {
		const cJSON *ci = report_child(intervals, ratio->string);

		if (ratio->prev && ratio->prev->next)
			fputs(", ", out);
		fprintf(out, "%s", figure_text(buf, cJSON_IsNumber(ratio) ? ratio->valuedouble : NAN));
		if (cJSON_GetArraySize(ci) == 2)
			html_interval(out, " (", cJSON_GetNumberValue(cJSON_GetArrayItem(ci, 0)),
				      cJSON_GetNumberValue(cJSON_GetArrayItem(ci, 1)), ")");
		fputs(" of ", out);
		html_text(out, ratio->string);
	}
	fputs("</td>", out);
}

static void html_rounds(FILE *out, const cJSON *row)
{
	struct report_figure f = report_figure_of(row);
	const cJSON *stats = report_child(row, "stats");

	html_number(out, f.median);
	html_number(out, report_number(stats, "min"));
	html_number(out, report_number(stats, "max"));
	fputs("<td>", out);
	html_interval(out, "", f.low, f.high, "");
	fputs("</td>", out);
	html_number(out, report_number(row, "lat_us_p99"));
	html_number(out, report_number(row, "lost"));
	html_number(out, report_number(row, "cpu_s"));
	html_ratios(out, row);
}

/* ROW NULL: the run has not measured it. */
static void html_figures(FILE *out, const cJSON *row, const struct columns *c)
{
	if (!c->keys)
		html_rounds(out, row);
	for (int i = 0; i < c->n && c->keys; i++)
		html_number(out, report_number(row, c->keys[i]));
}

/* ---- The table of a measurement ---- */

static void html_heads(FILE *out, const struct report_run *runs, int nruns, const struct report_key *keys, int nkeys,
		       const struct columns *c)
{
	fputs("<thead>", out);
	if (nruns > 1) {
		fprintf(out, "<tr><th colspan=%d></th>", nkeys);
		for (int i = 0; i < nruns; i++) {
			fprintf(out, "<th class=run colspan=%d>", c->n);
			html_text(out, runs[i].dir);
			fputs("</th>", out);
		}
		fputs("</tr>", out);
	}
	fputs("<tr>", out);
	for (int i = 0; i < nkeys; i++)
		html_cell(out, "th", keys[i].name);
	for (int i = 0; i < c->n * nruns; i++)
		html_cell(out, "th", c->heads[i % c->n]);
	fputs("</tr></thead>\n", out);
}

static void html_row(FILE *out, const cJSON *row, const struct report_key *keys, int nkeys, const cJSON *const *of_run,
		     int nruns, const struct columns *c)
{
	char buf[REPORT_TEXT];

	fputs("<tr>", out);
	for (int i = 0; i < nkeys; i++)
		html_cell(out, "th", report_value(row, &keys[i], buf));
	for (int i = 0; i < nruns; i++)
		html_figures(out, of_run[i], c);
	fputs("</tr>\n", out);
}

/* What is the same in all rows. */
static void html_common(FILE *out, const struct report_run *runs, int nruns, const cJSON *row, const char *unit)
{
	struct report_key all[REPORT_KEYS], varying[REPORT_KEYS];
	int n = report_keys(all), nvarying = report_varying(runs, nruns, varying), k;
	char buf[REPORT_TEXT];

	fputs("<p>", out);
	for (int i = 0; i < n; i++) {
		for (k = 0; k < nvarying && strcmp(varying[k].name, all[i].name) != 0; k++)
			;
		if (k < nvarying || !strcmp(report_value(row, &all[i], buf), "-") || !strcmp(buf, "no"))
			continue;
		html_text(out, all[i].name);
		fputc(' ', out);
		html_text(out, buf);
		fputs("; ", out);
	}
	fprintf(out, "figures in %s</p>\n", unit);
}

void report_table(FILE *out, const struct report_run *runs, int nruns)
{
	const cJSON *row, *of_run[REPORT_RUNS], *first = NULL;
	struct report_key keys[REPORT_KEYS];
	int nkeys = report_varying(runs, nruns, keys);
	const struct columns *c;

	for (int i = 0; i < nruns && !first; i++)
		first = cJSON_GetArrayItem(runs[i].rows, 0);
	if (!first) {
		fputs("<p>no rows</p>\n", out);
		return;
	}
	c = columns_of(first);
	html_common(out, runs, nruns, first, report_figure_of(first).unit);
	fputs("<table class=rows>\n", out);
	html_heads(out, runs, nruns, keys, nkeys, c);
	for (int i = 0; i < nruns; i++) {
		cJSON_ArrayForEach(row, runs[i].rows) {
			if (i && report_twin(&runs[0], &runs[i], row))
				continue;
			for (int k = 0; k < nruns; k++)
				of_run[k] = k == i ? row : report_twin(&runs[k], &runs[i], row);
			html_row(out, row, keys, nkeys, of_run, nruns, c);
		}
	}
	fputs("</table>\n", out);
}

/* ---- The machines ---- */

/* An object's members are listed in one cell. */
static void html_any(FILE *out, const cJSON *v)
{
	const char *comma = "";
	const cJSON *i;
	char buf[REPORT_TEXT];

	if (cJSON_IsString(v)) {
		html_text(out, v->valuestring);
	} else if (cJSON_IsNumber(v)) {
		snprintf(buf, sizeof buf, "%.10g", v->valuedouble);
		html_text(out, buf);
	} else if (cJSON_IsObject(v)) {
		cJSON_ArrayForEach(i, v) {
			fputs(comma, out);
			html_text(out, i->string);
			fputs(": ", out);
			html_any(out, i);
			comma = "<br>";
		}
	} else {
		fputc('-', out);
	}
}

static void html_machine_row(FILE *out, const struct report_run *runs, int nruns, const char *in, const char *key)
{
	fputs("<tr>", out);
	html_cell(out, "th", key);
	for (int i = 0; i < nruns; i++) {
		fputs("<td>", out);
		html_any(out, report_child(in ? report_child(runs[i].about, in) : runs[i].about, key));
		fputs("</td>", out);
	}
	fputs("</tr>\n", out);
}

void report_machines(FILE *out, const struct report_run *runs, int nruns)
{
	static const char *const settings[] = { "suite", "version", "begin", "seconds", "other_end" };
	const cJSON *i;

	fputs("<table class=machine><tr><th>directory</th>", out);
	for (int k = 0; k < nruns; k++)
		html_cell(out, "th", runs[k].dir);
	fputs("</tr>\n", out);
	for (size_t k = 0; k < TOOL_COUNT(settings); k++)
		html_machine_row(out, runs, nruns, NULL, settings[k]);
	cJSON_ArrayForEach(i, report_child(runs[0].about, "machine"))
		html_machine_row(out, runs, nruns, "machine", i->string);
	fputs("</table>\n", out);
}
