/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf suite: a fixed set of measurements, and the files that they leave in a directory:
 *   NAME.jsonl     the rows of the measurement NAME (suite_tests in perf_suite.c), a JSON object a line
 *   machine.json   the machine, the commands, and which of them failed
 * diw perf report: these files as one page.
 */
#ifndef DIW_TOOLS_PERF_SUITE_H
#define DIW_TOOLS_PERF_SUITE_H

/* Both are commands; argv[0] is "suite" or "report". */
int perf_suite(int argc, char **argv);
int perf_report(int argc, char **argv);

#endif
