/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the tests, the numbers that a case has, and a case as JSON on the control connection. */
#include <errno.h>
#include <string.h>

#include "tools/perf/perf_rig.h"

const char *const perf_qp_name[] = { "ud", "uc", "rd", "rc", "rc-confirm", "raw-udp", "raw-udp-crc", "raw-udp-1",
	"raw-tcp", "raw-tcp-1" };
const char *const perf_op_name[] = { "send", "write", "write-imm", "read", "fetch-add", "cmp-swap" };

const struct perf_test_info perf_tests[PERF_TESTS] = {
	[PERF_LAT] = { "lat", "half round trips of a ping-pong", PERF_US, 64, 64, lat_run },
	[PERF_BW] = { "bw", "goodput one way", PERF_GBPS, 512u << 10, 64, bw_run },
	[PERF_BIBW] = { "bibw", "goodput both ways", PERF_GBPS, 512u << 10, 64, bw_run },
	[PERF_RATE] = { "rate", "messages a second", PERF_MSGS, 64, 256, bw_run },
	[PERF_CPU] = { "cpu", "goodput both ways while both ends compute, too", PERF_GBPS, 512u << 10, 64, bw_run },
};

static const struct perf_word providers[] = { { "diw", PERF_DIW }, { "verbs", PERF_VERBS }, { NULL, 0 } };

#define AT(field) offsetof(struct perf_case, field)
#define RC_QPS (1u << PERF_RC | 1u << PERF_RC_CONFIRM)
#define OUR_QPS ((1u << PERF_RAW) - 1)
#define NOT_LAT ((1u << PERF_TESTS) - 1 - (1u << PERF_LAT))

static const struct perf_word best[] = { { "best", PERF_BEST }, { NULL, 0 } };
static const struct perf_word signals[] = { { "half", PERF_HALF }, { "eq2", PERF_EQ2 }, { "eq2-max", PERF_EQ2_MAX },
	{ NULL, 0 } };
static const struct perf_word buffers[] = { { "same", PERF_SAME }, { "each", PERF_EACH }, { NULL, 0 } };
static const struct perf_word pins[] = { { "none", PERF_PIN_NONE }, { "rx", PERF_PIN_RX }, { "tx", PERF_PIN_TX },
	{ "both", PERF_PIN_BOTH }, { NULL, 0 } };

const struct perf_param perf_params[PERF_PARAMS] = {
	[PERF_SIZE] = { "size", "LIST", "of bytes, like 64,1k or 1:1m (doubled) or 1:1m:x4 (default 512k;\n"
			"lat and rate 64)", AT(size), true, NULL, 1, DIW_MAX_RDMA, 0, 0 },
	[PERF_DEPTH] = { "depth", "LIST", "send requests outstanding, not of lat (default 64; rate 256)", AT(depth),
			 false, NULL, 1, 65000, NOT_LAT, 0 },
	[PERF_OUTSTANDING] = { "outstanding", "LIST", "messages that the other end has not acknowledged, one by one;\n"
			       "best: by the size (Liu and Russell, equation 1)", AT(outstanding), false, best, 1,
			       65000, NOT_LAT, OUR_QPS },
	[PERF_WINDOW] = { "window", "LIST", "the same, acknowledged and sent in halves", AT(window), false, NULL, 2,
			  65000, NOT_LAT, OUR_QPS },
	[PERF_MULPDU] = { "mulpdu", "LIST", "bytes of one segment, headers included (default: what the MTU allows)",
			  AT(mulpdu), true, NULL, TOOL_MIN_MULPDU, TOOL_MAX_MULPDU, 0, 0 },
	[PERF_SGE] = { "sge", "LIST", "scatter/gather entries of a request, of equal length", AT(sge), false, NULL, 1,
		       DIW_MAX_SGE, 0, OUR_QPS },
	[PERF_MAX_SGE] = { "max-sge", "LIST", "entries that the queue pair is made for", AT(max_sge), false, NULL, 1,
			   DIW_MAX_SGE, 0, OUR_QPS },
	[PERF_QUEUE_PAIRS] = { "qps", "LIST", "queue pairs of each end, which take turns (default 1)", AT(qps), false,
			       NULL, 1, PERF_MAX_QPS, 0, OUR_QPS & ~(1u << PERF_UC) },
	[PERF_ACTIVE] = { "active", "LIST", "how many of them send (default all)", AT(active), false, NULL, 1,
			  PERF_MAX_QPS, 0, OUR_QPS & ~(1u << PERF_UC) },
	[PERF_STREAMS] = { "streams", "LIST", "pairs of ends that run at once, each with a thread and a device",
			   AT(streams), false, NULL, 1, PERF_MAX_STREAMS, 0, OUR_QPS & ~(1u << PERF_UC) },
	[PERF_LOAD] = { "load", "LIST", "others that write 4 bytes after 4 bytes to the sender's device", AT(load),
			false, NULL, 0, PERF_MAX_LOAD, 1u << PERF_BW, OUR_QPS },
	[PERF_SIGNAL] = { "signal", "LIST", "one request in N has a completion; half: in half of those\n"
			  "outstanding; eq2, eq2-max: Liu and Russell, equation 2", AT(signal), false, signals, 1,
			  65000, NOT_LAT, OUR_QPS },
	[PERF_OFFSET] = { "offset", "LIST", "of each message's memory in a page", AT(offset), false, NULL, 0, 4095, 0,
			  OUR_QPS },
	[PERF_BUFFERS] = { "buffers", "LIST", "same: all messages have one buffer; each: one each of those\n"
			   "outstanding (default: as many as fit 2 MiB)", AT(buffers), false, buffers, 1, 0, 0,
			   OUR_QPS },
	[PERF_REUSE] = { "reuse", "LIST", "percent of the messages with a buffer that was used before", AT(reuse),
			 false, NULL, 1, 100, 0, OUR_QPS },
	[PERF_SCHEME] = { "scheme", "LIST", "of --reuse P: 1: 100/P buffers in turn (default); 2: one buffer, and\n"
			  "for the other messages new ones", AT(scheme), false, NULL, 1, 2, 0, OUR_QPS },
	[PERF_COMPUTE] = { "compute", "LIST", "percent of the time in which each end computes (default\n"
			   "0,50,80,90,95)", AT(compute), false, NULL, 0, 99, 1u << PERF_CPU, OUR_QPS },
	[PERF_PIN] = { "pin", "LIST", "which end is pinned to a core: none, rx, tx, both (default: both\n"
		       "with --local, else none)", AT(pin), false, pins, 1, 0, 0, 0 },
	[PERF_PROVIDER] = { "provider", "LIST", "diw (default), or verbs: the libibverbs.so.1 that the loader finds",
			    AT(provider), false, providers, 1, 0, 0, OUR_QPS },
	[PERF_CRC] = { "crc", NULL, "rc with CRC-32C, even within one host", AT(crc), false, NULL, 0, 1, 0, RC_QPS },
	[PERF_NO_CRC] = { "no-crc", NULL, "rc without CRC-32C", AT(no_crc), false, NULL, 0, 1, 0, RC_QPS },
	[PERF_MARKERS] = { "markers", NULL, "rc with markers both ways", AT(markers), false, NULL, 0, 1, 0, RC_QPS },
	[PERF_CLOSE_LAST] = { "close-last", NULL, "a record whose last segment is lost does not count", AT(close_last),
			      false, NULL, 0, 1, NOT_LAT, 1u << PERF_UD | 1u << PERF_RD },
};

uint64_t perf_get(const struct perf_case *pc, enum perf_param_id id)
{
	return *(const uint64_t *)((const char *)pc + perf_params[id].at);
}

void perf_set(struct perf_case *pc, enum perf_param_id id, uint64_t v)
{
	*(uint64_t *)((char *)pc + perf_params[id].at) = v;
}

const char *perf_word_of(const struct perf_param *p, uint64_t v)
{
	for (const struct perf_word *w = p->words; w && w->name; w++)
		if (w->v == v)
			return w->name;
	return NULL;
}

uint64_t perf_best_outstanding(uint64_t size)
{
	uint64_t n = size <= 128u << 10 ? ((3u << 20) + size - 1) / size : ((4u << 20) + size - 1) / size;

	return size <= 128u << 10 ? n < 128 ? n : 128 : n > 2 ? n : 2;
}

bool perf_param_of(enum perf_param_id id, enum perf_qp qp)
{
	return !perf_params[id].qps || perf_params[id].qps >> qp & 1;
}

bool perf_param_applies(const struct perf_case *pc, enum perf_param_id id)
{
	uint32_t tests = perf_params[id].tests;

	return perf_param_of(id, pc->qp) && (!tests || tests >> pc->test & 1);
}

void perf_param_key(enum perf_param_id id, char key[32])
{
	snprintf(key, 32, "%s", perf_params[id].name);
	for (char *dash; (dash = strchr(key, '-')); )
		*dash = '_';
}

cJSON *perf_case_json(const struct perf_case *pc)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "test", pc->test);
	cJSON_AddNumberToObject(o, "qp", pc->qp);
	cJSON_AddNumberToObject(o, "op", pc->op);
	cJSON_AddNumberToObject(o, "mode", pc->mode);
	cJSON_AddNumberToObject(o, "llp", pc->llp);
	for (int i = 0; i < PERF_PARAMS; i++)
		cJSON_AddNumberToObject(o, perf_params[i].name, (double)perf_get(pc, i));
	return o;
}

/* Values of a peer are checked like any input. */
static bool in_range(const cJSON *o, const char *key, double min, double max, double *v)
{
	*v = ctl_number(o, key);
	return *v >= min && *v <= max;
}

int perf_case_parse(const cJSON *o, struct perf_case *pc)
{
	double test, qp, op, mode, llp, v;

	if (!in_range(o, "test", 0, PERF_TESTS - 1, &test) || !in_range(o, "qp", 0, PERF_QPS - 1, &qp) ||
	    !in_range(o, "op", 0, PERF_OPS - 1, &op) || !in_range(o, "mode", 0, PERF_EVENTS, &mode) ||
	    !in_range(o, "llp", 0, DIW_LLP_URING, &llp))
		return -EINVAL;
	*pc = (struct perf_case){ .test = (enum perf_test)test, .qp = (enum perf_qp)qp, .op = (enum perf_op)op,
		.mode = (enum perf_mode)mode, .llp = (enum diw_llp)llp };
	for (int i = 0; i < PERF_PARAMS; i++) {
		const struct perf_param *p = &perf_params[i];

		if (!in_range(o, p->name, 0, 2 * DIW_MAX_RDMA, &v))
			return -EINVAL;
		if (v >= 1 && !perf_word_of(p, (uint64_t)v) && (v < (double)p->min || v > (double)p->max))
			return -EINVAL;
		perf_set(pc, i, (uint64_t)v);
	}
	return pc->size && pc->depth ? 0 : -EINVAL;
}
