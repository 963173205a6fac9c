/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf report: a plot of the rows of a measurement, which gnuplot draws as SVG. */
#include "tools/perf/perf_report.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLOT_CURVES 64
#define PLOT_TICS 64

struct plot {
	struct report_key x, keys[REPORT_KEYS];      /* keys: of a curve */
	int nkeys, ncurves, ntics;
	char curve[PLOT_CURVES][512];
	double tic[PLOT_TICS];
	bool many_runs;
};

/* A file may have been written by anybody, and gnuplot runs commands that its input names: nothing but these
 * characters goes into a title. */
static void plot_title(char *to, size_t room, const char *from)
{
	size_t len = strlen(to);

	for (; *from && len + 1 < room; from++)
		to[len++] = (char)(isalnum((unsigned char)*from) || strchr(" .,:%=+-_/", *from) ? *from : '?');
	to[len] = '\0';
}

/* The number that varies most usefully along x: the size, or else the first other number. */
static bool plot_choose(struct plot *p, const struct report_run *runs, int nruns)
{
	struct report_key varying[REPORT_KEYS];
	int n = report_varying(runs, nruns, varying), x = -1;
	const cJSON *row = NULL;

	for (int i = 0; i < nruns && !row; i++)
		row = cJSON_GetArrayItem(runs[i].rows, 0);
	for (int i = 0; i < n; i++)
		if (!strcmp(varying[i].name, "size") && cJSON_GetArraySize(runs[0].rows) > 2)
			x = i;
	for (int i = 0; i < n && x < 0; i++)
		if (cJSON_IsNumber(report_child(row, varying[i].name)))
			x = i;
	if (x < 0)
		return false;
	p->x = varying[x];
	p->nkeys = 0;
	for (int i = 0; i < n; i++)
		if (i != x && strcmp(varying[i].name, "llp") != 0)
			p->keys[p->nkeys++] = varying[i];
	return true;
}

static void curve_name(const struct plot *p, const struct report_run *run, const cJSON *row, char name[512])
{
	char value[REPORT_TEXT];

	name[0] = '\0';
	for (int i = 0; i < p->nkeys; i++) {
		if (!strcmp(report_value(row, &p->keys[i], value), "-"))
			continue;
		plot_title(name, 512, name[0] ? " " : "");
		if (cJSON_IsNumber(report_child(row, p->keys[i].name))) {
			plot_title(name, 512, p->keys[i].name);
			plot_title(name, 512, " ");
		}
		plot_title(name, 512, value);
	}
	if (p->many_runs) {
		plot_title(name, 512, " - ");
		plot_title(name, 512, run->dir);
	}
}

static bool is_in(const double *v, int n, double x)
{
	for (int i = 0; i < n; i++)
		if (v[i] == x)
			return true;
	return false;
}

static void plot_add_tic(struct plot *p, double x)
{
	if (p->ntics < PLOT_TICS && !is_in(p->tic, p->ntics, x))
		p->tic[p->ntics++] = x;
}

/* The number of the curve NAME, which is new or known; -1: there are too many. */
static int plot_curve(struct plot *p, const char *name)
{
	for (int i = 0; i < p->ncurves; i++)
		if (!strcmp(p->curve[i], name))
			return i;
	if (p->ncurves == PLOT_CURVES)
		return -1;
	snprintf(p->curve[p->ncurves], sizeof p->curve[0], "%s", name);
	return p->ncurves++;
}

static void plot_find_curves(struct plot *p, const struct report_run *runs, int nruns)
{
	const cJSON *row;
	char name[512];

	for (int i = 0; i < nruns; i++) {
		cJSON_ArrayForEach(row, runs[i].rows) {
			if (isnan(report_figure_of(row).median) || isnan(report_number(row, p->x.name)))
				continue;
			curve_name(p, &runs[i], row, name);
			if (plot_curve(p, name) >= 0)
				plot_add_tic(p, report_number(row, p->x.name));
		}
	}
}

/* Of a case that was measured twice, as RC beside two others, the first is drawn. */
static void plot_data(FILE *f, const struct plot *p, const struct report_run *runs, int nruns, int curve)
{
	double drawn[PLOT_TICS];
	const cJSON *row;
	char name[512];
	int n = 0;

	fprintf(f, "$c%d << EOD\n", curve);
	for (int i = 0; i < nruns; i++) {
		cJSON_ArrayForEach(row, runs[i].rows) {
			struct report_figure v = report_figure_of(row);
			double x = report_number(row, p->x.name);

			curve_name(p, &runs[i], row, name);
			if (isnan(v.median) || isnan(x) || strcmp(name, p->curve[curve]) != 0 || is_in(drawn, n, x) ||
			    n == PLOT_TICS)
				continue;
			drawn[n++] = x;
			fprintf(f, "%.10g %.10g %.10g %.10g\n", x, v.median, isnan(v.low) ? v.median : v.low,
				isnan(v.high) ? v.median : v.high);
		}
	}
	fputs("EOD\n", f);
}

static void plot_tics(FILE *f, const struct plot *p)
{
	struct report_key key = p->x;
	char buf[REPORT_TEXT];
	int step = p->ntics / 12 + 1;

	fputs("set xtics (", f);
	for (int i = 0; i < p->ntics; i += step) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddNumberToObject(o, key.name, p->tic[i]);
		fprintf(f, "%s\"%s\" %.10g", i ? ", " : "", report_value(o, &key, buf), p->tic[i]);
		cJSON_Delete(o);
	}
	fputs(") rotate by -40\n", f);
}

/* A little more than the points, so that the outermost have their labels. */
static void plot_range(FILE *f, const struct plot *p, bool log_x)
{
	double least = p->tic[0], most = p->tic[0], more;

	for (int i = 1; i < p->ntics; i++) {
		least = fmin(least, p->tic[i]);
		most = fmax(most, p->tic[i]);
	}
	more = (most - least) / 50;
	fprintf(f, "set xrange [%.10g:%.10g]\n", log_x ? least / 1.1 : least - more, log_x ? most * 1.1 : most + more);
}

static void plot_script(FILE *f, const struct plot *p, const char *name, const struct report_run *runs, int nruns)
{
	bool log_x = p->x.bytes;
	const char *unit = "";
	const cJSON *row = NULL;

	for (int i = 0; i < nruns && !row; i++)
		row = cJSON_GetArrayItem(runs[i].rows, 0);
	unit = report_figure_of(row).unit;
	fprintf(f, "set terminal svg size 900,%d dynamic noenhanced name \"%s\" background \"white\"\n",
		380 + 9 * p->ncurves, name);
	fprintf(f, "set key below\nset rmargin 8\nset grid\nset ylabel \"%s\"\nset xlabel \"%s\"\n", unit, p->x.name);
	if (log_x)
		fputs("set logscale x 2\n", f);
	fputs(strcmp(unit, "GB/s") ? "set logscale y\n" : "set yrange [0:*]\n", f);
	plot_range(f, p, log_x);
	plot_tics(f, p);
	for (int i = 0; i < p->ncurves; i++)
		plot_data(f, p, runs, nruns, i);
	for (int i = 0; i < p->ncurves; i++)
		fprintf(f, "%s$c%d with yerrorlines title \"%s\"", i ? ", " : "plot ", i, p->curve[i]);
	fputc('\n', f);
}

/* The page has the SVG's element alone, without the XML declaration before it. */
static bool plot_copy(FILE *out, FILE *svg)
{
	char *line = NULL;
	size_t room = 0;
	bool begun = false;

	rewind(svg);
	while (getline(&line, &room, svg) > 0) {
		begun |= !strncmp(line, "<svg", 4);
		if (begun)
			fputs(line, out);
	}
	free(line);
	return begun;
}

static int plot_run(FILE *script, FILE *svg)
{
	int status = 0;
	pid_t pid;

	rewind(script);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(fileno(script), STDIN_FILENO);
		dup2(fileno(svg), STDOUT_FILENO);
		execlp("gnuplot", "gnuplot", (char *)NULL);
		execlp("gnuplot-nox", "gnuplot-nox", (char *)NULL);
		_exit(127);
	}
	if (pid < 0)
		return tool_failed("fork: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return tool_failed("gnuplot, which draws the plots, is missing: install Debian's gnuplot-nox, or "
				   "put it in PATH");
	return status ? tool_failed("gnuplot failed") : 0;
}

int report_plot(FILE *out, const char *name, const struct report_run *runs, int nruns)
{
	FILE *script, *svg;
	struct plot *p;
	int rc;

	p = calloc(1, sizeof *p);
	script = tmpfile();
	svg = tmpfile();
	if (p && script && svg) {
		p->many_runs = nruns > 1;
		rc = 0;
		if (plot_choose(p, runs, nruns))
			plot_find_curves(p, runs, nruns);
		if (p->ntics > 1) {
			plot_script(script, p, name, runs, nruns);
			rc = plot_run(script, svg);
			if (!rc && !plot_copy(out, svg))
				rc = tool_failed("gnuplot has drawn nothing of %s", name);
		}
	} else {
		rc = tool_failed("a temporary file: %s", strerror(errno));
	}
	if (script)
		fclose(script);
	if (svg)
		fclose(svg);
	free(p);
	return rc;
}
