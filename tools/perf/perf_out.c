/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: medians, ratios, and a row as a line of the table or JSON. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/perf/perf.h"

double perf_cpu_now(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
		(double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

void perf_add_round(struct perf_figures *f, const struct perf_part *a, const struct perf_part *b)
{
	const struct perf_part *const ends[] = { a, b };
	int r = f->rounds++;

	for (size_t i = 0; i < TOOL_COUNT(ends); i++) {
		const struct perf_part *p = ends[i];

		if (p->m_ns > 0) {
			f->gbps[r] += p->m_bytes / p->m_ns;
			f->msgs[r] += p->m_msgs / p->m_ns * 1e9;
		}
		if (p->p50_ns > 0) {
			f->p50[r] = p->p50_ns / 1e3;
			f->p99[r] = p->p99_ns / 1e3;
		}
		f->close_p99[r] += p->close_p99_ns / 1e3;
		f->tx_bytes += p->tx_bytes;
		f->rx_bytes += p->rx_bytes;
		f->lost += p->tx_msgs - p->rx_msgs;
		f->cpu_s += p->cpu_s;
	}
}

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return a < b ? -1 : a > b;
}

static double median(const double *v, int n)
{
	double s[PERF_ROUNDS];

	if (n < 1)
		return 0;
	memcpy(s, v, (size_t)n * sizeof *s);
	qsort(s, (size_t)n, sizeof *s, by_value);
	return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

/* How far the rounds are apart: the difference of the second and the last but one, as a part of the median. */
static double spread(const double *v, int n)
{
	double s[PERF_ROUNDS], middle = median(v, n);

	if (n < PERF_ROUNDS || middle <= 0)
		return 0;
	memcpy(s, v, sizeof s);
	qsort(s, PERF_ROUNDS, sizeof *s, by_value);
	return (s[PERF_ROUNDS - 2] - s[1]) / middle;
}

/* The figure that a test is about, a round. */
static const double *figures(const struct perf_case *pc, const struct perf_figures *f)
{
	switch (perf_tests[pc->test].unit) {
	case PERF_US: return f->p50;
	case PERF_MSGS: return f->msgs;
	default: return f->gbps;
	}
}

static double figure(const struct perf_case *pc, const struct perf_figures *f)
{
	return median(figures(pc, f), f->rounds);
}

struct ratio { const char *to; double ratio; };      /* 0: the other row has no figure */
struct row {
	const struct perf_case *pc;
	double gbps, msgs, p50, p99, close_p99, noise;
	const struct perf_figures *f;
	struct ratio ratio[PERF_SLOTS];
	int nratios;
	bool lat;
};

/* "ratio" is the one to the first of them. */
static void add_ratios(cJSON *o, const struct row *r)
{
	const struct ratio *first = r->nratios ? &r->ratio[0] : NULL;
	cJSON *all;

	json_add_null_number(o, "ratio", first && first->ratio > 0, first ? first->ratio : 0);
	cJSON_AddItemToObject(o, "baseline", first ? cJSON_CreateString(first->to) : cJSON_CreateNull());
	all = cJSON_AddObjectToObject(o, "ratios");
	for (int i = 0; i < r->nratios; i++)
		json_add_null_number(all, r->ratio[i].to, r->ratio[i].ratio > 0, r->ratio[i].ratio);
}

static void add_param(cJSON *o, const struct perf_case *pc, enum perf_param_id id)
{
	uint64_t v = perf_get(pc, id);
	char key[32];

	snprintf(key, sizeof key, "%s", perf_params[id].name);
	for (char *dash; (dash = strchr(key, '-')); )
		*dash = '_';
	if (!perf_params[id].arg)
		cJSON_AddBoolToObject(o, key, v != 0);
	else if (v)
		json_add_count(o, key, v);
	else
		cJSON_AddNullToObject(o, key);
}

static void print_row_json(const struct row *r)
{
	bool raw = r->pc->qp >= PERF_RAW;
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "test", perf_tests[r->pc->test].name);
	cJSON_AddStringToObject(o, "qp", perf_qp_name[r->pc->qp]);
	cJSON_AddItemToObject(o, "llp", r->f->llp ? cJSON_CreateString(r->f->llp) : cJSON_CreateNull());
	cJSON_AddItemToObject(o, "congestion", r->f->congestion[0] ? cJSON_CreateString(r->f->congestion) :
			      cJSON_CreateNull());
	cJSON_AddItemToObject(o, "op", raw ? cJSON_CreateNull() : cJSON_CreateString(perf_op_name[r->pc->op]));
	for (int i = 0; i < PERF_PARAMS; i++)
		add_param(o, r->pc, i);
	json_add_null_number(o, "GBps", !r->lat, r->gbps);
	json_add_null_number(o, "msgs_per_s", !r->lat, r->msgs);
	json_add_count(o, "bytes_sent", (uint64_t)r->f->tx_bytes);
	json_add_count(o, "bytes_valid", (uint64_t)r->f->rx_bytes);
	json_add_number(o, "lost", r->f->lost > 0 ? r->f->lost : 0);
	json_add_null_number(o, "lat_us_p50", r->lat && r->p50 > 0, r->p50);
	json_add_null_number(o, "lat_us_p99", r->lat && r->p50 > 0, r->p99);
	json_add_null_number(o, "close_us_p99", r->close_p99 > 0, r->close_p99);
	json_add_number(o, "cpu_s", r->f->cpu_s);
	json_add_number(o, "noise", r->noise);
	add_ratios(o, r);
	cJSON_AddItemToObject(o, "machine", machine_json());
	json_print(o);
}

/* Four significant digits, or a dash. */
static const char *cell(char buf[16], bool valid, double v)
{
	int decimals = v < 10 ? 3 : v < 100 ? 2 : v < 1000 ? 1 : 0;

	snprintf(buf, 16, valid ? "%.*f" : "-", decimals, v);
	return buf;
}

static bool has_column(const struct perf_plan *p, enum perf_param_id id)
{
	return id != PERF_SIZE && perf_params[id].arg && p->list[id].given;
}

static const char *param_cell(char buf[24], const struct perf_case *pc, enum perf_param_id id)
{
	uint64_t v = perf_get(pc, id);

	if (!v)
		return "-";
	if (perf_params[id].bytes && v % 1024 == 0)
		return fmt_bytes(v, buf);
	snprintf(buf, 24, perf_params[id].bytes ? "%llu B" : "%llu", (unsigned long long)v);
	return buf;
}

void perf_print_head(const struct perf_plan *p)
{
	if (p->json)
		return;
	machine_print_line();
	printf("%-4s  %-11s  %-5s  %-9s  %9s  ", "test", "qp", "llp", "op", "size");
	for (int i = 0; i < PERF_PARAMS; i++)
		if (has_column(p, i))
			printf("%8s  ", perf_params[i].name);
	printf("%8s  %10s  %10s  %8s  %8s  %8s  %7s  %6s  %s\n", "GB/s", "kmsg/s", "valid MB", "lost", "p50 us",
	       "p99 us", "cpu s", "noise", "ratio");
	fflush(stdout);
}

static void print_row_table(const struct perf_plan *p, const struct row *r)
{
	char size[24], b[6][16], ratio[16];
	const char *under = r->f->llp ? r->f->llp : r->f->congestion[0] ? r->f->congestion : "-";

	printf("%-4s  %-11s  %-5s  %-9s  %9s  ", perf_tests[r->pc->test].name, perf_qp_name[r->pc->qp], under,
	       r->pc->qp >= PERF_RAW ? "-" : perf_op_name[r->pc->op], param_cell(size, r->pc, PERF_SIZE));
	for (int i = 0; i < PERF_PARAMS; i++)
		if (has_column(p, i))
			printf("%8s  ", param_cell(size, r->pc, i));
	printf("%8s  %10s  %10s  %8.0f  %8s  %8s  %7s  %4.1f %%  ", cell(b[0], !r->lat, r->gbps),
	       cell(b[1], !r->lat, r->msgs / 1e3), cell(b[2], true, r->f->rx_bytes / 1e6),
	       r->f->lost > 0 ? r->f->lost : 0, cell(b[3], r->lat && r->p50 > 0, r->p50),
	       cell(b[4], r->lat && r->p50 > 0, r->p99), cell(b[5], true, r->f->cpu_s), r->noise * 100);
	for (int i = 0; i < r->nratios; i++)
		printf("%s%s x %s", i ? ", " : "", cell(ratio, r->ratio[i].ratio > 0, r->ratio[i].ratio),
		       r->ratio[i].to);
	puts(r->nratios ? "" : "-");
	fflush(stdout);
}

void perf_print(const struct perf_plan *p, const struct perf_row *row, const struct perf_row *bases, int nbases)
{
	const struct perf_figures *f = &row->f;
	struct row r = { .pc = &row->pc, .f = f, .lat = perf_tests[row->pc.test].unit == PERF_US, .nratios = nbases,
		.gbps = median(f->gbps, f->rounds), .msgs = median(f->msgs, f->rounds),
		.p50 = median(f->p50, f->rounds), .p99 = median(f->p99, f->rounds),
		.close_p99 = median(f->close_p99, f->rounds), .noise = spread(figures(&row->pc, f), f->rounds) };

	for (int i = 0; i < nbases; i++) {
		double under = figure(&bases[i].pc, &bases[i].f);

		r.ratio[i].to = perf_qp_name[bases[i].pc.qp];
		r.ratio[i].ratio = under > 0 ? figure(&row->pc, f) / under : 0;
	}
	p->json ? print_row_json(&r) : print_row_table(p, &r);
}
