/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the commands of `diw` share. They use the library only through verbs/diw.h and verbs/diw_cm.h. */
#ifndef DIW_TOOLS_TOOL_H
#define DIW_TOOLS_TOOL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "base/clock.h"
#include "verbs/diw.h"

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };        /* exit statuses */

#define TOOL_QKEY 0x64697721u        /* of every queue pair of the tools */
#define TOOL_MIN_MULPDU 128          /* the least that the verbs accept */
#define TOOL_MAX_MULPDU 65503
#define TOOL_COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct tool_cmd {
	const char *name;
	int (*run)(int argc, char **argv);           /* argv[0] is the subcommand; returns the exit status */
	const char *args;                            /* for the usage line */
	const char *brief;
	const char *help;                            /* or a function that prints it */
	void (*print_help)(FILE *to);
	bool foreign_args;                           /* arguments behind its first operand belong to another program */
};
extern const struct tool_cmd cmd_info, cmd_ping, cmd_listen, cmd_cp, cmd_recv, cmd_perf, cmd_stat, cmd_dump, cmd_run,
	cmd_sockets;
extern const struct tool_cmd *tool_cmd;              /* the running command */

/* ---- util.c: messages, options, hosts ---- */

/* Both print "diw SUB: ..." to stderr, and return the exit status. */
int tool_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int tool_failed(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int tool_help(const struct tool_cmd *cmd, FILE *to);
/* Handles '?' and ':' of getopt_long(); returns the exit status. */
int tool_bad_option(char **argv);

/* The value of option OPT, which is named in an error; 0 or TOOL_USAGE. Sizes may end in k, m, g (powers of 1024). */
int opt_number(const char *opt, const char *text, uint64_t min, uint64_t max, uint64_t *value);
int opt_size(const char *opt, const char *text, uint64_t min, uint64_t max, uint64_t *value);
/* A comma-separated list, each value once. FROM:TO is FROM and each double of it up to TO, FROM:TO:xN each N-fold. */
int opt_list(const char *opt, const char *text, bool size, uint64_t min, uint64_t max, uint64_t *values,
	     int max_values, int *n);
int opt_each_once(const char *opt, const char *text, const uint64_t *values, int n);
int opt_seconds(const char *opt, const char *text, double min, double max, double *value);
int opt_port(const char *text, uint16_t *port);
int opt_host(const char *host, uint16_t port, struct diw_addr *addr);

/* The address from which the kernel would send to DST, with port 0. -errno. */
int local_addr_for(const struct diw_addr *dst, struct diw_addr *local);

extern volatile sig_atomic_t tool_stopped;           /* how often SIGINT or SIGTERM has come */
extern volatile sig_atomic_t tool_signal;            /* the last of them */
void tool_catch_signals(void);

const char *fmt_bytes(uint64_t n, char buf[24]);     /* "64 B", "1.5 MiB" */
bool tool_utf8(void);
int tool_columns(FILE *f);                           /* width of the terminal; 80 if there is none */

/* Prints an object on one line and frees it. */
void json_print(cJSON *o);
cJSON *json_number(double v);                        /* six significant digits */
void json_add_number(cJSON *o, const char *key, double v);
void json_add_count(cJSON *o, const char *key, uint64_t v);
void json_add_null_number(cJSON *o, const char *key, bool valid, double v);

/* ---- machine.c: what a figure depends on beside the program ---- */

cJSON *machine_json(void);                           /* the caller's to free; caches in octets */
/* Measures on this thread's core for 50 ms how much of it other work takes. Once; machine_json() does it otherwise. */
void machine_measure(void);
void machine_print(void);
void machine_print_line(void);

/* ---- hist.c: latencies in ns, with a resolution of 1/128 ---- */

struct hist { uint64_t *count; uint64_t n, sum, min, max; };
int hist_init(struct hist *h);
void hist_fini(struct hist *h);
void hist_reset(struct hist *h);
void hist_add(struct hist *h, uint64_t ns);
double hist_quantile(const struct hist *h, double q);            /* in ns; 0 if empty */
void hist_merge(struct hist *to, const struct hist *from);
/* The bins that are not empty, four for each power of two (below 256 ns of 32 ns each); how many. */
#define HIST_BINS 232
struct hist_bin { uint64_t begin, end, count; };
int hist_bins(const struct hist *h, struct hist_bin bins[HIST_BINS]);

/* ---- bar.c ---- */

struct bar { const char *label; uint64_t next_ns; bool on; };
void bar_init(struct bar *b, const char *label);     /* draws only if stderr is a terminal */
void bar_draw(struct bar *b, uint64_t now, uint64_t done, uint64_t total, double gbps, uint64_t again);
void bar_end(struct bar *b);

struct hole { uint64_t off, len; };
/* The validity map of SIZE bytes with these holes (ascending, disjoint), as rows of cells and as ranges. */
void map_print(FILE *f, uint64_t size, const struct hole *holes, size_t n);
/* The same as one row of at most 64 cells of equal size. */
void map_bar(FILE *f, uint64_t size, const struct hole *holes, size_t n);

/* ---- endpoint.c: the objects from a device to a queue pair ---- */

struct endpoint {
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_channel *channel;                 /* or NULL */
	struct diw_cq *cq;
	struct diw_qp *qp;
	struct diw_dev_info dev_info;
	struct diw_qp_info info;
};
/* Prints errors; TOOL_OK or TOOL_FAILED. DEV NULL: the device that reaches DST; with DST NULL the first one. */
int endpoint_open(struct endpoint *e, const char *dev, const struct diw_addr *dst, uint32_t cq_depth, bool channel);
/* The same over the lower layer LLP. */
int endpoint_open_over(struct endpoint *e, const char *dev, const struct diw_addr *dst, uint32_t cq_depth, bool channel,
		       enum diw_llp llp);
/* Sets the completion queues and the Q_Key. */
int endpoint_qp(struct endpoint *e, struct diw_qp_attr *attr);
void endpoint_close(struct endpoint *e);
/* TOOL_OK, or TOOL_USAGE if SPEC is not a valid impairment. */
int endpoint_check_impair(const char *spec);
/* Prints the contents of the queue pair's error queue, one line a fault. */
void endpoint_report_errors(struct endpoint *e);

struct region { void *addr; size_t len; struct diw_mr *mr; };
int region_alloc(struct region *r, struct diw_pd *pd, size_t len, unsigned access);
void region_free(struct region *r);

/* The receives of a queue pair: SLOTS buffers of SIZE bytes, one for each receive, whose wr_id is the slot. */
struct inbox { struct diw_qp *qp; struct region rx; uint32_t size; };
int inbox_open(struct inbox *in, struct diw_pd *pd, struct diw_qp *qp, uint32_t slots, uint32_t size);
/* Posts the receive of the slot again. */
int inbox_post(const struct inbox *in, uint64_t slot);
uint8_t *inbox_at(const struct inbox *in, uint64_t slot);
/* Call after the queue pair was destroyed. */
void inbox_close(struct inbox *in);

#endif
