/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf --load: the server has more senders, each with a thread and a device of its own. Each writes 4 bytes again
 * and again to a UC queue pair on the device by which the client sends, which takes them without a completion. UC has
 * no flow control: what the client's device cannot take is lost.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tools/perf/perf_rig.h"

#define LOAD_BYTES 4u
#define LOAD_LIST 32u

struct loader {
	struct rig *r;
	struct endpoint ep;                  /* the client's: a queue pair alone, on the device of the rig */
	uint16_t port;
	pthread_t thread;
	bool running;
};

struct load {
	int n;
	atomic_bool over;
	struct region target;                /* the client's */
	uint32_t stag;                       /* of the peer's */
	uint64_t to;
	struct loader loader[];
};

static int loader_open(struct rig *r, struct loader *l)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_qp_info info;
	int rc = 0;

	l->r = r;
	attr.type = DIW_QP_UC;
	attr.dgram.local = r->side.local;
	attr.dgram.peer = r->side.peer;
	if (r->side.client) {
		attr.send_cq = attr.recv_cq = r->ep.cq;
		attr.dgram.qkey = TOOL_QKEY;
		rc = diw_qp_create(r->ep.pd, &attr, &l->ep.qp);
		if (!rc)
			rc = diw_qp_query(l->ep.qp, &info);
		l->port = info.local.port;
		return rc ? tool_failed("queue pair for --load: %s", strerror(-rc)) : 0;
	}
	rc = endpoint_open(&l->ep, r->side.dev, &r->side.peer, 16, false);
	if (!rc)
		rc = endpoint_qp(&l->ep, &attr);
	l->port = l->ep.info.local.port;
	return rc;
}

int load_open(struct rig *r)
{
	int n = (int)r->pc.load, rc = 0;

	r->load = calloc(1, sizeof(struct load) + (size_t)n * sizeof(struct loader));
	if (!r->load)
		return tool_failed("out of memory");
	r->load->n = n;
	if (r->side.client)
		rc = region_alloc(&r->load->target, r->ep.pd, LOAD_BYTES,
				  DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE);
	for (int i = 0; i < n && !rc; i++)
		rc = loader_open(r, &r->load->loader[i]);
	return rc;
}

void load_describe(const struct rig *r, cJSON *o)
{
	cJSON *ports = cJSON_AddArrayToObject(o, "load");

	for (int i = 0; i < r->load->n; i++)
		cJSON_AddItemToArray(ports, cJSON_CreateNumber(r->load->loader[i].port));
	if (!r->side.client)
		return;
	cJSON_AddNumberToObject(o, "load_stag", r->load->target.mr->stag);
	cJSON_AddNumberToObject(o, "load_to", (double)r->load->target.mr->to);
}

int load_connect(struct rig *r, const cJSON *peer)
{
	const cJSON *ports = cJSON_GetObjectItemCaseSensitive(peer, "load"), *port;
	int rc = 0;

	r->load->stag = (uint32_t)ctl_number(peer, "load_stag");
	r->load->to = (uint64_t)ctl_number(peer, "load_to");
	for (int i = 0; i < r->load->n && !rc; i++) {
		struct diw_dest to = { .addr = r->side.peer };

		port = cJSON_GetArrayItem(ports, i);
		to.addr.port = cJSON_IsNumber(port) ? (uint16_t)port->valuedouble : 0;
		rc = diw_qp_set_peer(r->load->loader[i].ep.qp, &to, NULL);
	}
	return rc ? tool_failed("peer of --load: %s", strerror(-rc)) : 0;
}

static void *load_run(void *arg)
{
	struct loader *l = arg;
	struct load *load = l->r->load;
	uint32_t data = 0;
	struct diw_sge sge = { &data, sizeof data, 0 };
	struct diw_send_wr wr[LOAD_LIST];
	struct diw_wc wc;
	int rc = 0;

	perf_pin(-1);                        /* the core of the measured end is not for others */
	for (uint32_t i = 0; i < LOAD_LIST; i++)
		wr[i] = (struct diw_send_wr){ .next = i + 1 < LOAD_LIST ? &wr[i + 1] : NULL, .sge = &sge, .num_sge = 1,
			.opcode = DIW_WR_WRITE, .flags = DIW_SEND_INLINE, .qkey = TOOL_QKEY, .stag = load->stag,
			.to = load->to };
	while ((!rc || rc == -ENOMEM) && !atomic_load(&load->over)) {
		rc = diw_post_send(l->ep.qp, wr, NULL);
		if (rc == -ENOMEM)
			diw_cq_poll(l->ep.cq, &wc, 1, 0);
	}
	if (rc && rc != -ENOMEM)
		tool_failed("load: %s", strerror(-rc));
	return NULL;
}

int load_start(struct rig *r)
{
	struct load *load = r->load;
	int rc = 0;

	atomic_store(&load->over, false);
	for (int i = 0; i < load->n && !r->side.client && !rc; i++) {
		rc = pthread_create(&load->loader[i].thread, NULL, load_run, &load->loader[i]);
		load->loader[i].running = !rc;
	}
	if (rc)
		load_stop(r);
	return rc ? tool_failed("thread: %s", strerror(rc)) : 0;
}

void load_stop(struct rig *r)
{
	struct load *load = r->load;

	atomic_store(&load->over, true);
	for (int i = 0; i < load->n; i++) {
		if (load->loader[i].running)
			pthread_join(load->loader[i].thread, NULL);
		load->loader[i].running = false;
	}
}

void load_close(struct rig *r)
{
	if (!r->load)
		return;
	for (int i = 0; i < r->load->n; i++)
		endpoint_close(&r->load->loader[i].ep);
	region_free(&r->load->target);
	free(r->load);
	r->load = NULL;
}
