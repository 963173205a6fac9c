/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf: two ends, one test, and a control connection between them (a socket pair or TCP; one JSON object a
 * line).
 *
 * The client drives. A case is one test of one transport, operation and size; each end makes a rig for it.
 *   open {slot, case, port}  -> {port, stag, to}        the server's rig; the client's follows
 *   peer {slot, stag, to}    -> {}
 *   run {slot, ns}           -> {}, then both run, then -> {part}: the server's counts
 *   close {slot}             -> {}
 *   qos {...}                tools/perf/perf_qos.h
 * While both run, a sink tells {stop}, a source {sent}, and a client whose user has interrupted it {over}.
 * There are several slots, so that the measured transport, over one lower layer or over both, and its baselines
 * alternate in short rounds.
 */
#ifndef DIW_TOOLS_PERF_H
#define DIW_TOOLS_PERF_H

#include "tools/perf/perf_stat.h"
#include "tools/perf/raw.h"
#include "tools/tool.h"

#define PERF_MAX_QPS 4096
#define PERF_MAX_STREAMS 32
#define PERF_MAX_LOAD 16
#define PERF_BATCH 64                /* completions, reposted receives and posted sends in a batch */
#define PERF_LLPS 2
#define PERF_SLOTS (PERF_LLPS + 1 + PERF_QPS - PERF_RAW)     /* 1: RC beside UD */
#define PERF_TICK_NS (200 * DIW_US)  /* interval of polls of the control connection */
#define PERF_PATIENCE_NS (10 * DIW_S)

enum perf_test { PERF_LAT, PERF_BW, PERF_BIBW, PERF_RATE, PERF_CPU, PERF_TESTS };
enum perf_qp { PERF_UD, PERF_UC, PERF_RD, PERF_RC, PERF_RC_CONFIRM, PERF_RAW, PERF_RAW_CRC, PERF_RAW_1, PERF_RAW_TCP,
	       PERF_RAW_TCP_1, PERF_QPS };
enum perf_op { PERF_SEND, PERF_WRITE, PERF_WRITE_IMM, PERF_READ, PERF_FETCH_ADD, PERF_CMP_SWAP, PERF_OPS };
enum perf_mode { PERF_POLL, PERF_WAIT, PERF_EVENTS };
enum perf_unit { PERF_US, PERF_GBPS, PERF_MSGS };
extern const char *const perf_qp_name[PERF_QPS], *const perf_op_name[PERF_OPS];

static inline bool perf_is_rc(enum perf_qp qp)
{
	return qp == PERF_RC || qp == PERF_RC_CONFIRM;
}

static inline bool perf_both_ways(enum perf_test test)
{
	return test == PERF_BIBW || test == PERF_CPU;
}

static inline bool perf_is_dgram(enum perf_qp qp)
{
	return qp <= PERF_RD;
}

/* Numbers of a case. Each is an option, of which a list has a case for each number, a key of the JSON objects, and, if
 * the option was given, a column of the table. */
enum perf_param_id { PERF_SIZE, PERF_DEPTH, PERF_OUTSTANDING, PERF_WINDOW, PERF_MULPDU, PERF_SGE, PERF_MAX_SGE,
	PERF_QUEUE_PAIRS, PERF_ACTIVE, PERF_STREAMS, PERF_LOAD, PERF_SIGNAL, PERF_OFFSET, PERF_BUFFERS, PERF_REUSE,
	PERF_SCHEME, PERF_COMPUTE, PERF_PIN, PERF_PROVIDER, PERF_CRC, PERF_NO_CRC, PERF_MARKERS,
	PERF_CLOSE_LAST, PERF_PARAMS };

/* Values of numbers that have a name on the command line. */
#define PERF_WORD (1u << 20)         /* beyond every number */
enum { PERF_BEST = PERF_WORD };                                      /* outstanding */
enum { PERF_HALF = PERF_WORD, PERF_EQ2, PERF_EQ2_MAX };              /* signal */
enum { PERF_SAME = 1, PERF_EACH };                                   /* buffers */
enum { PERF_DIW = 1, PERF_VERBS };                                   /* provider */
enum { PERF_PIN_NONE = 1, PERF_PIN_RX, PERF_PIN_TX, PERF_PIN_BOTH }; /* pin */

struct perf_case {
	enum perf_test test;
	enum perf_qp qp;
	enum perf_op op;             /* for bare sockets: PERF_SEND */
	enum perf_mode mode;
	enum diw_llp llp;            /* for bare sockets and RC: DIW_LLP_DEFAULT */
	uint64_t size, depth, outstanding, window, mulpdu, sge, max_sge, qps, active, streams, load, signal, offset,
		buffers, reuse, scheme, compute, pin, provider, crc, no_crc, markers,
		close_last;                          /* 0: default, no */
};

/* How long an end waits for the other one. A message whose memory is touched for the first time comes at some 100 MB/s
 * on a busy virtual machine, and several of them are under way. */
static inline uint64_t perf_patience_ns(const struct perf_case *pc)
{
	return PERF_PATIENCE_NS + pc->size * 50;
}

/* The settings of one end, from its command line and the control connection. */
struct perf_side {
	struct diw_addr local, peer; /* of the control connection, with port 0 */
	const char *dev, *impair;
	bool client;
};

/* The counts of one end in one round. */
struct perf_part {
	double tx_msgs, tx_bytes;    /* sent; of a reader: requested */
	double rx_msgs, rx_bytes;    /* messages received whole; valid bytes */
	double m_msgs, m_bytes, m_ns;/* the same within the measured interval */
	double m_begin;              /* of the interval, by this end's clock */
	double p50_ns, p99_ns;       /* of half round trips; 0: none */
	double close_p99_ns;         /* records: time from the start of the reorder window to the close; 0: no record
				      * closed so */
	double cpu_s;
	double computed;             /* the share of the time in which this end computed */
};

/* ---- perf_case.c ---- */

struct perf_ctl;
struct rig;
typedef int perf_run_fn(struct rig *r, struct perf_ctl *ctl, uint64_t ns, struct perf_part *part);
struct perf_test_info {
	const char *name, *brief;
	enum perf_unit unit;         /* of the figure that the test is about */
	uint64_t size, depth;        /* defaults */
	perf_run_fn *run;            /* a round, at both ends, but not of bare sockets */
};
extern const struct perf_test_info perf_tests[PERF_TESTS];

struct perf_word { const char *name; uint64_t v; };          /* a list of them ends with NULL */
struct perf_param {
	const char *name, *arg;      /* ARG NULL: a flag, which is 0 or 1 */
	const char *help;
	size_t at;                   /* of the uint64_t in struct perf_case */
	bool bytes;                  /* takes k, m, g */
	const struct perf_word *words;       /* or NULL */
	uint64_t min, max;
	uint32_t tests, qps;         /* bits of those that take it; 0: all */
};
extern const struct perf_param perf_params[PERF_PARAMS];
uint64_t perf_get(const struct perf_case *pc, enum perf_param_id id);
void perf_set(struct perf_case *pc, enum perf_param_id id, uint64_t v);
const char *perf_word_of(const struct perf_param *p, uint64_t v);    /* NULL: the value has no name */
/* Equation 1 of the study of FDR (Liu and Russell): how many messages should be outstanding. */
uint64_t perf_best_outstanding(uint64_t size);
bool perf_param_applies(const struct perf_case *pc, enum perf_param_id id);
bool perf_param_of(enum perf_param_id id, enum perf_qp qp);
void perf_param_key(enum perf_param_id id, char key[32]);     /* in rows as JSON */
cJSON *perf_case_json(const struct perf_case *pc);
int perf_case_parse(const cJSON *o, struct perf_case *pc);   /* -EINVAL */

/* ---- perf_ctl.c ---- */

struct perf_ctl {
	int fd;
	bool patient;                /* a first signal does not end the waiting for an object */
	size_t len;
	char buf[32768];             /* the ports of PERF_MAX_QPS queue pairs fit */
};
void ctl_init(struct perf_ctl *c, int fd);
void ctl_close(struct perf_ctl *c);
int ctl_send(struct perf_ctl *c, cJSON *o);          /* frees o; 0 or -errno */
/* The next object. NULL: none came in time, or the other end has gone. */
cJSON *ctl_recv(struct perf_ctl *c, int64_t timeout_ns);
bool ctl_ready(struct perf_ctl *c);                  /* an object has come, or the connection has ended */
double ctl_number(const cJSON *o, const char *key);  /* 0: there is no such key */
void ctl_add_part(cJSON *o, const struct perf_part *p);
void ctl_get_part(const cJSON *o, struct perf_part *p);

/* ---- rigs ---- */

/* Port 0: any; the peer must be known only for UC. Prints errors. */
struct rig *rig_open(const struct perf_case *pc, const struct perf_side *side, uint16_t port, uint16_t peer_port);
/* A free port for the client's UC queue pair: the server's queue pair is created with it, before the client's exists.
 * -errno. */
int rig_free_port(const struct perf_side *side);
const char *rig_llp(const struct rig *r);            /* after a round. NULL: bare sockets */
/* TCP's congestion control; "": not TCP, or unknown. */
const char *rig_congestion(const struct rig *r, char buf[RAW_CONGESTION_LEN]);
void rig_describe(const struct rig *r, cJSON *o);
int rig_connect(struct rig *r, const cJSON *peer);
/* Latencies are also added to ALL, if it is not NULL. */
int rig_run(struct rig *r, struct perf_ctl *ctl, uint64_t ns, struct hist *all, struct perf_part *part);
void rig_close(struct rig *r);
/* perf_ibv.c: --provider verbs has a device with that address, or, with NULL, any device. */
bool ibv_rig_has_device(const char *address);

/* ---- perf_opt.c ---- */

#define PERF_VALUES 64
struct qos_plan;
struct perf_list { uint64_t v[PERF_VALUES]; int n; bool given; };    /* n 0: the default */
enum perf_place { PERF_NOWHERE, PERF_LOCAL, PERF_SERVER, PERF_CONNECT };
struct perf_plan {
	enum perf_place place;
	const char *host, *bind;
	uint16_t port;
	struct perf_side side;
	struct perf_case base;       /* test and mode; the rest is set for each case */
	enum perf_qp qps[PERF_QPS], against[PERF_QPS - PERF_RAW];
	enum perf_op ops[PERF_OPS];
	struct perf_list list[PERF_PARAMS];
	int nqps, nagainst, nops;
	const char *of_client;       /* an option that was given and that the server does not take; or NULL */
	enum diw_llp llps[PERF_LLPS];
	int nllps;
	bool json, hist;
	double secs;
	uint64_t rounds;
	/* The client's end, with the server on FD. */
	int (*run)(const struct perf_plan *p, int fd);
	struct qos_plan *qos;        /* diw perf qos */
};
/* Reads a comma-separated list of NAMES into VALUES, each once. */
int perf_opt_names(const char *opt, const char *text, const char *const *names, int n, int *values, int *count);
int perf_parse_options(struct perf_plan *p, int argc, char **argv);
void perf_print_options(FILE *to);

/* ---- perf.c ---- */

int perf_command(int argc, char **argv);     /* argv[0] is "perf" */

/* ---- perf_out.c ---- */

struct perf_figures {
	double gbps[PERF_MAX_ROUNDS], msgs[PERF_MAX_ROUNDS], p50[PERF_MAX_ROUNDS], p99[PERF_MAX_ROUNDS];
	double close_p99[PERF_MAX_ROUNDS], computed[PERF_MAX_ROUNDS];
	int rounds;
	struct hist hist;            /* latencies of all rounds */
	const char *llp;             /* NULL: bare sockets */
	char congestion[RAW_CONGESTION_LEN];
	double tx_bytes, rx_bytes, lost, cpu_s;
};
void perf_add_round(struct perf_figures *f, const struct perf_part *a, const struct perf_part *b);
struct perf_row {
	struct perf_case pc;
	struct perf_figures f;
};
/* A round has the figure that the test is about. */
bool perf_has_figure(const struct perf_row *row);
void perf_print_head(const struct perf_plan *p);
void perf_print_end(void);
/* Prints a row, compared with the NBASES rows at BASES. */
void perf_print(const struct perf_plan *p, const struct perf_row *row, const struct perf_row *bases, int nbases);

/* ---- perf_serve.c ---- */

void perf_serve_client(struct perf_ctl *ctl, const struct perf_side *side);

/* ---- perf_run.c ---- */

bool perf_has_qp(const struct perf_plan *p, enum perf_qp qp);
/* Runs the cases of the plan with the server on FD. */
int perf_run_cases(const struct perf_plan *p, int fd);

/* ---- perf_net.c ---- */

int perf_local(struct perf_plan *p);
int perf_server(struct perf_plan *p);
int perf_connect(struct perf_plan *p);
/* Pins the thread to the WHICH-th core of those that this process might use at first, or, with -1, to all of them.
 * With a single core it does nothing. */
void perf_pin(int which);

/* Forks; *pid is 0 in the child, and *fd is each process's end of a control connection. 0, or a printed error. */
int perf_fork(pid_t *pid, int *fd);
int perf_join(pid_t pid);            /* the status of waitpid() */

double perf_cpu_now(void);           /* seconds of all threads of this process */

#endif
