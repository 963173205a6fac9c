/* SPDX-License-Identifier: BSD-2-Clause */
/* Rigs of bare sockets (raw.h), measured under the same conditions as queue pairs. They are never impaired. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/perf/perf_rig.h"

#define RAW_SAMPLES 1000000u
#define CRC_LEN 4u
#define UDP_HDR 8u
#define MAX_UDP 65507u

static bool is_tcp(const struct rig *r)
{
	return r->pc.qp == PERF_RAW_TCP || r->pc.qp == PERF_RAW_TCP_1;
}

static bool gso(const struct rig *r)
{
	return r->pc.qp != PERF_RAW_1;
}

static int ways(const struct rig *r)
{
	return perf_both_ways(r->pc.test) ? 2 : 1;
}

/* Datagrams are as large as the stack's, but UDP_SEGMENT makes none that IP would fragment. */
static uint32_t datagram_size(const struct rig *r)
{
	uint32_t fits = r->ep.dev_info.mtu - (diw_addr_is_v4(&r->side.peer) ? 20 : 40) - UDP_HDR;
	uint32_t seg = r->pc.mulpdu ? (uint32_t)r->pc.mulpdu + CRC_LEN : fits;

	if (gso(r) && seg > fits)
		seg = fits;
	return seg < MAX_UDP ? seg : MAX_UDP;
}

static int raw_failed(const struct rig *r, int err)
{
	return tool_failed("%s: %s", perf_qp_name[r->pc.qp], strerror(-err));
}

static int open_udp(struct rig *r)
{
	int rc = endpoint_open(&r->ep, r->side.dev, &r->side.peer, 1, false);
	if (rc)
		return rc;
	r->raw_seg = datagram_size(r);
	endpoint_close(&r->ep);
	return 0;
}

/* With TCP the server listens, and the client has no socket before it knows the port. */
int raw_rig_open(struct rig *r)
{
	struct diw_addr local = r->side.local, bound;
	int rc = is_tcp(r) ? 0 : open_udp(r);

	if (rc || (is_tcp(r) && r->side.client))
		return rc;
	local.port = 0;
	for (int i = 0; i < ways(r); i++) {
		r->fd[i] = is_tcp(r) ? raw_tcp_listen(&local, &bound) : raw_udp_open(&local, gso(r), 0, &bound);
		if (r->fd[i] < 0)
			return raw_failed(r, r->fd[i]);
		r->port[i] = bound.port;
	}
	return 0;
}

/* bibw: the client sends by the first socket, the server by the second. */
int raw_rig_connect(struct rig *r, const cJSON *peer)
{
	static const char *const key[2] = { "port", "port2" };
	struct diw_addr to = r->side.peer, local = r->side.local;
	int rc = 0;

	if (is_tcp(r) && !r->side.client)
		return 0;                    /* the connection is accepted when the round begins */
	local.port = 0;
	for (int i = 0; i < ways(r) && rc >= 0; i++) {
		to.port = (uint16_t)ctl_number(peer, key[i]);
		rc = is_tcp(r) ? (r->fd[i] = raw_tcp_connect(&local, &to)) : raw_udp_connect(r->fd[i], &to);
	}
	return rc < 0 ? raw_failed(r, rc) : 0;
}

static int accept_all(struct rig *r)
{
	int fd;

	for (int i = 0; i < ways(r); i++) {
		fd = raw_tcp_accept(r->fd[i], &r->side.peer);
		if (fd < 0)
			return raw_failed(r, fd);
		close(r->fd[i]);
		r->fd[i] = fd;
	}
	return 0;
}

const char *raw_rig_congestion(const struct rig *r, char buf[RAW_CONGESTION_LEN])
{
	return is_tcp(r) ? raw_tcp_congestion(r->fd[0], buf) : buf;
}

void raw_rig_close(struct rig *r)
{
	for (int i = 0; i < 2; i++)
		if (r->fd[i] >= 0)
			close(r->fd[i]);
}

struct way { struct raw_attr attr; struct raw_result result; int rc; };

/* raw-udp-1 blocks in its streams, like the plain program that it represents; bibw has two threads on one core. */
static void raw_make_way(const struct rig *r, int i, uint64_t ns, struct way *w)
{
	bool lat = r->pc.test == PERF_LAT;

	memset(w, 0, sizeof *w);
	w->attr = (struct raw_attr){ .fd = r->fd[i], .test = lat ? RAW_LAT : RAW_STREAM,
		.sender = r->side.client == (i == 0), .gso = gso(r), .crc = r->pc.qp == PERF_RAW_CRC,
		.size = (uint32_t)r->pc.size, .seg = r->raw_seg,
		.batch = !is_tcp(r) ? 0 : r->pc.qp == PERF_RAW_TCP ? RAW_BATCH : 1,
		.spinning = r->pc.mode == PERF_POLL && r->pc.test != PERF_BIBW && (lat || r->pc.qp != PERF_RAW_1),
		.slots = r->slots, .stop = r->side.client == (i == 0) ? &tool_stopped : NULL,
		.duration_ns = ns, .warmup_ns = ns / 10 < 20 * DIW_MS ? ns / 10 : 20 * DIW_MS };
}

static void *run_way(void *arg)
{
	struct way *w = arg;

	w->rc = (w->attr.batch ? raw_tcp_run : raw_udp_run)(&w->attr, &w->result);
	return NULL;
}

static void add_latencies(const struct rig *r, const struct way *w, struct perf_part *part)
{
	struct hist h;

	if (hist_init(&h))
		return;
	for (uint32_t i = 0; i < w->result.lat_n; i++)
		hist_add(&h, w->attr.lat[i]);
	part->p50_ns = hist_quantile(&h, 0.5);
	part->p99_ns = hist_quantile(&h, 0.99);
	if (r->all)
		hist_merge(r->all, &h);
	hist_fini(&h);
}

static void add_way(const struct rig *r, const struct way *w, struct perf_part *part)
{
	uint64_t msgs = w->result.bytes_all / w->attr.size;

	part->cpu_s += w->result.cpu_s;
	if (w->attr.sender) {
		part->tx_msgs += (double)msgs;
		part->tx_bytes += (double)w->result.bytes_all;
	}
	if (w->attr.test == RAW_LAT && w->attr.sender) {
		part->tx_msgs += (double)w->result.lost;
		part->tx_bytes += (double)w->result.lost * w->attr.size;
		part->rx_msgs = (double)w->result.msgs;
		part->rx_bytes = (double)w->result.bytes;
		add_latencies(r, w, part);
	} else if (w->attr.test == RAW_STREAM && !w->attr.sender) {
		part->rx_msgs += (double)msgs;
		part->rx_bytes += (double)w->result.bytes_all;
		part->m_msgs += (double)w->result.msgs;
		part->m_bytes += (double)w->result.bytes;
		part->m_ns = (double)w->result.elapsed_ns;
	}
}

int raw_rig_run(struct rig *r, uint64_t ns, struct perf_part *part)
{
	int n = ways(r), rc = is_tcp(r) && !r->side.client ? accept_all(r) : 0;
	struct way way[2];
	pthread_t thread;
	bool started = false;

	if (rc)
		return rc;
	for (int i = 0; i < n; i++)
		raw_make_way(r, i, ns, &way[i]);
	if (way[0].attr.test == RAW_LAT) {
		way[0].attr.lat_max = RAW_SAMPLES;
		way[0].attr.lat = calloc(RAW_SAMPLES, sizeof *way[0].attr.lat);
		if (!way[0].attr.lat)
			return tool_failed("out of memory");
	}
	if (n == 2)
		started = pthread_create(&thread, NULL, run_way, &way[1]) == 0;
	run_way(&way[0]);
	if (started)
		pthread_join(thread, NULL);
	for (int i = 0; i < n && !rc; i++) {
		rc = way[i].rc;
		add_way(r, &way[i], part);
	}
	free(way[0].attr.lat);
	return rc ? raw_failed(r, rc) : 0;
}
