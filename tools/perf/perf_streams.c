/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf --streams: a rig that is several rigs, each with a thread, a device and a control connection of its own.
 * They run at once. Their figures are added, but latencies are means.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/perf/perf_rig.h"

struct stream_end {
	struct rig *rig;
	struct perf_ctl ctl;
	pthread_t thread;
	uint64_t ns;
	struct hist *all;
	struct perf_part part;
	int rc;
};

struct streams {
	int n, listener;                     /* listener: of the server's control connections */
	uint16_t port;
	bool connected;
	struct stream_end end[];
};

int streams_open(struct rig *r)
{
	struct diw_addr local = r->side.local, bound;
	struct perf_case one = r->pc;
	int n = (int)r->pc.streams;

	r->streams = calloc(1, sizeof(struct streams) + (size_t)n * sizeof(struct stream_end));
	if (!r->streams)
		return tool_failed("out of memory");
	r->streams->listener = -1;
	for (int i = 0; i < n; i++)
		ctl_init(&r->streams->end[i].ctl, -1);
	one.streams = 0;
	r->streams->n = n;
	for (int i = 0; i < n; i++) {
		r->streams->end[i].rig = rig_open(&one, &r->side, 0, 0);
		if (!r->streams->end[i].rig)
			return TOOL_FAILED;
	}
	if (r->side.client)
		return 0;
	local.port = 0;
	r->streams->listener = raw_tcp_listen(&local, &bound);
	if (r->streams->listener < 0)
		return tool_failed("listen: %s", strerror(-r->streams->listener));
	r->streams->port = bound.port;
	return listen(r->streams->listener, n) ? tool_failed("listen: %s", strerror(errno)) : 0;
}

void streams_describe(const struct rig *r, cJSON *o)
{
	cJSON *list = cJSON_AddArrayToObject(o, "streams"), *one;

	cJSON_AddNumberToObject(o, "control", r->streams->port);
	for (int i = 0; i < r->streams->n; i++) {
		one = cJSON_CreateObject();
		rig_describe(r->streams->end[i].rig, one);
		cJSON_AddItemToArray(list, one);
	}
}

/* The client connects the control connections; the server accepts them, in the same order, when the first round
 * begins. */
static int control_connect(struct rig *r, struct stream_end *e, uint16_t port)
{
	struct diw_addr local = r->side.local, to = r->side.peer;
	int fd;

	local.port = 0;
	to.port = port;
	fd = raw_tcp_connect(&local, &to);
	if (fd < 0)
		return tool_failed("control connection of a stream: %s", strerror(-fd));
	ctl_init(&e->ctl, fd);
	e->ctl.patient = true;
	return 0;
}

static int control_accept(struct rig *r)
{
	int fd;

	for (int i = 0; i < r->streams->n && !r->side.client && !r->streams->connected; i++) {
		fd = raw_tcp_accept(r->streams->listener, &r->side.peer);
		if (fd < 0)
			return tool_failed("control connection of a stream: %s", strerror(-fd));
		ctl_init(&r->streams->end[i].ctl, fd);
	}
	r->streams->connected = true;
	return 0;
}

int streams_connect(struct rig *r, const cJSON *peer)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(peer, "streams");
	uint16_t port = (uint16_t)ctl_number(peer, "control");
	int rc = 0;

	for (int i = 0; i < r->streams->n && !rc; i++) {
		rc = rig_connect(r->streams->end[i].rig, cJSON_GetArrayItem(list, i));
		if (!rc && r->side.client)
			rc = control_connect(r, &r->streams->end[i], port);
	}
	return rc;
}

static void *stream_thread(void *arg)
{
	struct stream_end *e = arg;

	e->rc = rig_run(e->rig, &e->ctl, e->ns, e->all, &e->part);
	return NULL;
}

/* The measured interval is from the begin of the first one to the end of the last one: streams that do not run at once
 * must not look so. Processor time is the whole process's already. */
static void part_add(struct perf_part *sum, const struct perf_part *p, int n)
{
	double end = sum->m_begin + sum->m_ns;

	if (p->m_ns > 0) {
		end = sum->m_ns > 0 && end > p->m_begin + p->m_ns ? end : p->m_begin + p->m_ns;
		sum->m_begin = sum->m_ns > 0 && sum->m_begin < p->m_begin ? sum->m_begin : p->m_begin;
		sum->m_ns = end - sum->m_begin;
	}
	sum->tx_msgs += p->tx_msgs;
	sum->tx_bytes += p->tx_bytes;
	sum->rx_msgs += p->rx_msgs;
	sum->rx_bytes += p->rx_bytes;
	sum->m_msgs += p->m_msgs;
	sum->m_bytes += p->m_bytes;
	sum->p50_ns += p->p50_ns / n;
	sum->p99_ns += p->p99_ns / n;
	sum->computed += p->computed / n;
	sum->close_p99_ns = p->close_p99_ns > sum->close_p99_ns ? p->close_p99_ns : sum->close_p99_ns;
	sum->cpu_s = p->cpu_s > sum->cpu_s ? p->cpu_s : sum->cpu_s;
}

/* The distribution of latencies is that of the first stream. */
int streams_run(struct rig *r, uint64_t ns, struct hist *all, struct perf_part *part)
{
	struct stream_end *end = r->streams->end;
	int started = 0, rc = control_accept(r);

	for (; started < r->streams->n && !rc; started += !rc) {
		end[started].ns = ns;
		end[started].all = started ? NULL : all;
		rc = pthread_create(&end[started].thread, NULL, stream_thread, &end[started]);
		if (rc)
			rc = tool_failed("thread: %s", strerror(rc));
	}
	for (int i = 0; i < started; i++) {
		pthread_join(end[i].thread, NULL);
		rc = rc ? rc : end[i].rc;
		part_add(part, &end[i].part, r->streams->n);
	}
	return rc;
}

const struct rig *streams_first(const struct rig *r)
{
	return r->streams ? r->streams->end[0].rig : r;
}

void streams_close(struct rig *r)
{
	if (!r->streams)
		return;
	for (int i = 0; i < r->streams->n; i++) {
		ctl_close(&r->streams->end[i].ctl);
		if (r->streams->end[i].rig)
			rig_close(r->streams->end[i].rig);
	}
	if (r->streams->listener >= 0)
		close(r->streams->listener);
	free(r->streams);
}
