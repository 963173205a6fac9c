/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf report: what diw perf suite has measured, as one page of HTML that needs no network and no script. */
#include "tools/perf/perf_report.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/perf/perf_suite.h"

#define PATH_LEN 4096

/* ---- Files of a run ---- */

/* NULL, and errno, which is ENODATA if the file is empty. */
static char *text_of_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;
	int err = 0;

	if (!f)
		return NULL;
	errno = ENODATA;
	if (getdelim(&text, &room, '\0', f) < 0) {
		err = errno;
		free(text);
		text = NULL;
	}
	fclose(f);
	errno = err;
	return text;
}

static int read_about(struct report_run *run)
{
	char path[PATH_LEN], *text;

	snprintf(path, sizeof path, "%s/machine.json", run->dir);
	text = text_of_file(path);
	if (!text)
		return tool_failed("%s: %s (is it of 'diw perf suite'?)", path,
				   errno == ENODATA ? "empty" : strerror(errno));
	run->about = cJSON_Parse(text);
	free(text);
	if (cJSON_IsArray(report_child(run->about, "commands")))
		return 0;
	return tool_failed("%s: not of 'diw perf suite'", path);
}

/* NAME is of machine.json, and names no file elsewhere. */
static bool name_is_plain(const char *name)
{
	return name && name[0] && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] == '\0';
}

/* A measurement that the run does not have has no rows. */
static int read_rows(struct report_run *run, const char *name)
{
	char path[PATH_LEN], *line = NULL;
	size_t room = 0;
	int rc = 0, at = 0;
	cJSON *row;
	FILE *f;

	cJSON_Delete(run->rows);
	run->rows = cJSON_CreateArray();
	snprintf(path, sizeof path, "%s/%s.jsonl", run->dir, name);
	f = fopen(path, "re");
	while (f && !rc && getline(&line, &room, f) > 0) {
		at++;
		row = cJSON_Parse(line);
		if (cJSON_IsObject(row)) {
			cJSON_AddItemToArray(run->rows, row);
			continue;
		}
		cJSON_Delete(row);
		rc = tool_failed("%s line %d: not a JSON object", path, at);
	}
	free(line);
	if (f)
		fclose(f);
	return rc;
}

/* ---- The page ---- */

static void page_begin(FILE *out)
{
	fputs("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><title>diw perf report</title>\n<style>\n"
	      "body { font: 14px sans-serif; margin: 2em; max-width: 100em }\n"
	      "table { border-collapse: collapse; margin: 1em 0 }\n"
	      "th, td { border: 1px solid #bbb; padding: 2px 8px; text-align: right; vertical-align: top }\n"
	      "th { white-space: nowrap }\n"
	      "thead th, .machine th { background: #eee; text-align: left }\n"
	      ".machine td { text-align: left }\n"
	      "tbody th { font-weight: normal; text-align: left }\n"
	      "svg { display: block; max-width: 900px; height: auto }\n"
	      "</style></head><body>\n<h1>diw perf report</h1>\n", out);
}

static int page_section(FILE *out, struct report_run *runs, int nruns, const char *name)
{
	int rc = 0;

	for (int i = 0; i < nruns && !rc; i++)
		rc = read_rows(&runs[i], name);
	if (rc)
		return rc;
	fprintf(out, "<section id=\"%s\"><h2>%s</h2>\n", name, name);
	rc = report_plot(out, name, runs, nruns);
	report_table(out, runs, nruns);
	fputs("</section>\n", out);
	return rc;
}

static void page_commands(FILE *out, const struct report_run *run)
{
	const cJSON *command, *word;

	fputs("<h2>commands of ", out);
	html_text(out, run->dir);
	fputs("</h2>\n<ul>\n", out);
	cJSON_ArrayForEach(command, report_child(run->about, "commands")) {
		double status = report_number(command, "status");
		const char *why = cJSON_GetStringValue(report_child(command, "left_out"));

		fputs("<li><code>diw", out);
		cJSON_ArrayForEach(word, report_child(command, "command")) {
			fputc(' ', out);
			html_text(out, cJSON_IsString(word) ? word->valuestring : "?");
		}
		fputs("</code>", out);
		if (why) {
			fputs(" <b>left out</b>: ", out);
			html_text(out, why);
		}
		if (status > 0)
			fprintf(out, " <b>failed with status %.0f</b>", status);
		fputs("</li>\n", out);
	}
	fputs("</ul>\n", out);
}

/* Each measurement once, in the order of the runs. */
static int page_sections(FILE *out, struct report_run *runs, int nruns)
{
	cJSON *done = cJSON_CreateObject();
	const cJSON *command;
	int rc = 0;

	for (int i = 0; i < nruns; i++) {
		cJSON_ArrayForEach(command, report_child(runs[i].about, "commands")) {
			const char *name = cJSON_GetStringValue(report_child(command, "name"));

			if (rc || !name_is_plain(name) || report_child(done, name))
				continue;
			cJSON_AddTrueToObject(done, name);
			rc = page_section(out, runs, nruns, name);
		}
	}
	cJSON_Delete(done);
	return rc;
}

static int page_write(FILE *out, struct report_run *runs, int nruns)
{
	int rc;

	page_begin(out);
	report_machines(out, runs, nruns);
	fputs("<p>A figure is the median of its rounds. The bars of a plot are its 95 % confidence interval. A "
	      "ratio is of rows whose rounds took turns; there is none of two runs, which had different "
	      "conditions. RC has a row for each type that is compared with it; the plot has the first.</p>\n", out);
	rc = page_sections(out, runs, nruns);
	for (int i = 0; i < nruns; i++)
		page_commands(out, &runs[i]);
	fputs("</body></html>\n", out);
	return rc;
}

/* ---- The file ---- */

/* The page is written to TMP, which is beside PATH and takes its place once it is whole. What is no regular file (a
 * device, a pipe, a link) is written itself: TMP is PATH. */
static FILE *page_create(const char *path, char tmp[PATH_LEN])
{
	struct stat st;
	bool replace = lstat(path, &st) || S_ISREG(st.st_mode);
	FILE *out = NULL;

	if (snprintf(tmp, PATH_LEN, "%s%s", path, replace ? ".tmp" : "") < PATH_LEN)
		out = fopen(tmp, "we");
	else
		errno = ENAMETOOLONG;
	if (!out)
		tool_failed("%s: %s", tmp, strerror(errno));
	return out;
}

/* RC is the status of writing the page: only a page that succeeded takes the place of the old one. */
static int page_finish(FILE *out, const char *path, const char *tmp, int rc)
{
	bool bad = ferror(out), replace = strcmp(path, tmp) != 0;

	if ((fclose(out) || bad) && !rc)
		rc = tool_failed("%s: %s", tmp, strerror(errno));
	if (!rc && replace && rename(tmp, path))
		rc = tool_failed("%s: %s", path, strerror(errno));
	if (rc && replace)
		unlink(tmp);
	return rc;
}

static int page_to(const char *path, struct report_run *runs, int nruns)
{
	char tmp[PATH_LEN];
	FILE *out;

	if (!path)
		return page_write(stdout, runs, nruns);
	out = page_create(path, tmp);
	return out ? page_finish(out, path, tmp, page_write(out, runs, nruns)) : TOOL_FAILED;
}

int perf_report(int argc, char **argv)
{
	static const struct option opts[] = { { "output", required_argument, NULL, 'o' }, { 0 } };
	struct report_run runs[REPORT_RUNS] = { { .dir = NULL } };
	const char *path = NULL;
	int opt, n = 0, rc = 0;

	while ((opt = getopt_long(argc, argv, "o:", opts, NULL)) != -1) {
		if (opt != 'o')
			return tool_bad_option(argv);
		path = optarg;
	}
	if (path && !path[0])
		return tool_usage("report: -o FILE is empty");
	if (optind == argc || argc - optind > REPORT_RUNS)
		return tool_usage("report: one or two directories of 'diw perf suite' are needed");
	for (; optind + n < argc && !rc; n++) {
		runs[n].dir = argv[optind + n];
		rc = read_about(&runs[n]);
	}
	if (!rc)
		rc = page_to(path, runs, n);
	for (int i = 0; i < n; i++) {
		cJSON_Delete(runs[i].about);
		cJSON_Delete(runs[i].rows);
	}
	return rc;
}
