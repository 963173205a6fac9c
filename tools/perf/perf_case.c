/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: the tests, the numbers that a case has, and a case as JSON on the control connection. */
#include <errno.h>

#include "tools/perf/perf_rig.h"

const char *const perf_qp_name[] = { "ud", "uc", "rd", "rc", "rc-confirm", "raw-udp", "raw-udp-crc", "raw-udp-1",
	"raw-tcp", "raw-tcp-1" };
const char *const perf_op_name[] = { "send", "write", "read", "fetch-add", "cmp-swap" };

const struct perf_test_info perf_tests[PERF_TESTS] = {
	[PERF_LAT] = { "lat", "half round trips of a ping-pong", PERF_US, 64, 64, lat_run },
	[PERF_BW] = { "bw", "goodput one way", PERF_GBPS, 512u << 10, 64, bw_run },
	[PERF_BIBW] = { "bibw", "goodput both ways", PERF_GBPS, 512u << 10, 64, bw_run },
	[PERF_RATE] = { "rate", "messages a second", PERF_MSGS, 64, 256, bw_run },
};

#define AT(field) offsetof(struct perf_case, field)
#define RC_QPS (1u << PERF_RC | 1u << PERF_RC_CONFIRM)

const struct perf_param perf_params[PERF_PARAMS] = {
	[PERF_SIZE] = { "size", "LIST", "of bytes, like 64,1k or 1:1m (doubled) or 1:1m:x4 (default 512k;\n"
			"lat and rate 64)", AT(size), true, 1, DIW_MAX_RDMA, 0, 0 },
	[PERF_DEPTH] = { "depth", "LIST", "send requests outstanding (default 64; rate 256)", AT(depth), false, 1,
			 65000, 0, 0 },
	[PERF_MULPDU] = { "mulpdu", "LIST", "bytes of one segment, headers included (default: what the MTU allows)",
			  AT(mulpdu), true, TOOL_MIN_MULPDU, TOOL_MAX_MULPDU, 0, 0 },
	[PERF_NO_CRC] = { "no-crc", NULL, "rc without CRC-32C", AT(no_crc), false, 0, 1, 0, RC_QPS },
	[PERF_MARKERS] = { "markers", NULL, "rc with markers both ways", AT(markers), false, 0, 1, 0, RC_QPS },
};

uint64_t perf_get(const struct perf_case *pc, enum perf_param_id id)
{
	return *(const uint64_t *)((const char *)pc + perf_params[id].at);
}

void perf_set(struct perf_case *pc, enum perf_param_id id, uint64_t v)
{
	*(uint64_t *)((char *)pc + perf_params[id].at) = v;
}

bool perf_param_of(enum perf_param_id id, enum perf_qp qp)
{
	return !perf_params[id].qps || perf_params[id].qps >> qp & 1;
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

		if (!in_range(o, p->name, 0, (double)p->max, &v) || (v < (double)p->min && v >= 1))
			return -EINVAL;
		perf_set(pc, i, (uint64_t)v);
	}
	return pc->size && pc->depth ? 0 : -EINVAL;
}
