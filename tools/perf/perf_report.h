/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of diw perf report: what a run has left in its directory, and the parts of the page. */
#ifndef DIW_TOOLS_PERF_REPORT_H
#define DIW_TOOLS_PERF_REPORT_H

#include "tools/perf/perf.h"

#define REPORT_RUNS 2
#define REPORT_KEYS (PERF_PARAMS + 16)
#define REPORT_TEXT 64

struct report_run {
	const char *dir;
	cJSON *about;                        /* of machine.json */
	cJSON *rows;                         /* of one measurement: an array */
};

/* ---- report_rows.c: the rows of a measurement ---- */

/* The keys that tell what was measured, and whether the value is of bytes. */
struct report_key { char name[32]; bool bytes; };
int report_keys(struct report_key keys[REPORT_KEYS]);
/* The value of a key for people; "-" for null. */
const char *report_value(const cJSON *row, const struct report_key *key, char buf[REPORT_TEXT]);
/* Which of the keys do not have the same value in all rows of all runs. */
int report_varying(const struct report_run *runs, int nruns, struct report_key keys[REPORT_KEYS]);
/* The row of RUN for the same case as ROW of OF, or NULL. A case that was measured twice, as RC beside two others, has
 * as many twins. */
const cJSON *report_twin(const struct report_run *run, const struct report_run *of, const cJSON *row);
bool report_same_case(const cJSON *a, const cJSON *b);
/* The figure of a row, and its 95 % interval, which may be NAN. */
struct report_figure { double median, low, high; const char *unit; };
struct report_figure report_figure_of(const cJSON *row);
double report_number(const cJSON *o, const char *key);               /* NAN: there is none */
cJSON *report_child(const cJSON *o, const char *key);

/* ---- report_table.c ---- */

void html_text(FILE *out, const char *text);
void report_table(FILE *out, const struct report_run *runs, int nruns);
void report_machines(FILE *out, const struct report_run *runs, int nruns);

/* ---- report_plot.c ---- */

/* Draws the rows by gnuplot, if a number of them varies. Prints errors. */
int report_plot(FILE *out, const char *name, const struct report_run *runs, int nruns);

#endif
