/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf qos: streams of one device that compete. Some are preferred: they have a weight, and the streams beside them
 * have the weight 1. Each stream is a queue pair, and sends messages all the time.
 *
 * A row has a session of its own, of which the client begins each by "qos" (perf.h):
 *   qos {prefer, nprefer, beside, nbeside, size}  -> {ports, rc}      the server's queue pairs; RC's listener
 *   {begin}, and after the time {end}             -> {ns, bytes}      what each stream has received between these
 */
#ifndef DIW_TOOLS_PERF_QOS_H
#define DIW_TOOLS_PERF_QOS_H

#include "tools/perf/perf.h"
#include "verbs/diw_cm.h"

#define QOS_STREAMS 32               /* of both classes */
#define QOS_MAX_SIZE (1u << 20)

struct qos_class { enum perf_qp qp; uint64_t n; };

struct qos_plan {
	struct qos_class prefer, beside;
	uint64_t weights[PERF_VALUES], sizes[PERF_VALUES];
	int nweights, nsizes, nmodes;
	enum diw_arbiter_mode modes[2];
	uint64_t weight, size;               /* of the present row */
	enum diw_arbiter_mode mode;
};

/* The queue pairs of one end: first those that are preferred. */
struct qos_stream {
	struct diw_qp *qp;
	struct inbox in;                     /* server */
	struct diw_addr to;                  /* client: the server's end */
	uint32_t waiting;                    /* client: messages that are not complete */
	uint64_t bytes;                      /* since `begin`: received; client: sent */
};
struct qos_end {
	const struct qos_plan *p;
	const struct perf_side *side;
	struct endpoint ep;
	struct diw_cm *cm;
	struct diw_listener *listener;
	struct region tx;
	uint32_t depth;                      /* client: messages that wait, a stream */
	int n, nrc, established;             /* streams; those of RC; those that are connected */
	struct qos_stream stream[QOS_STREAMS];
};

/* The command "diw perf qos"; argv[0] is "qos". */
int perf_qos(int argc, char **argv);

/* perf_qos_end.c: opens device, queue pairs and memory; prints errors. Close also after a failure. */
int qos_end_open(struct qos_end *e, const struct qos_plan *p, const struct perf_side *side);
int qos_end_listen(struct qos_end *e, uint16_t *port);
/* RC, client. */
int qos_end_connect(struct qos_end *e, const struct diw_addr *dst);
/* RC: handles an event of connections. 0; TOOL_FAILED after printing why. */
int qos_end_cm(struct qos_end *e, int64_t timeout_ns);
bool qos_is_rc(const struct qos_plan *p, int i);
void qos_end_close(struct qos_end *e);

/* perf_qos_serve.c: the server's session, whose first message is O. Returns its last answer. */
cJSON *qos_serve(const cJSON *o, struct perf_ctl *ctl, const struct perf_side *side);

#endif
