/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf: queue pairs, memory and posted receives of one round. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "tools/perf/perf_rig.h"

#define WINDOW_MAX 2048u
#define RC_WINDOW_BYTES (4u << 20)
#define RC_LARGE (32u << 20)
#define SKB_OVERHEAD 4096u           /* the most that the kernel counts for the smallest datagram */
#define LAT_RECORD_NS (10 * DIW_MS)
#define READ_TIMEOUT_NS (200 * DIW_MS)       /* a target that loses its core for a while has lost nothing */

/* The number of messages that certainly fit the peer's socket buffer, for which the kernel counts its overhead. */
static uint32_t window_for(uint64_t rcvbuf, uint64_t size)
{
	uint64_t w = rcvbuf / 4 / size, packets = rcvbuf / SKB_OVERHEAD;

	w = w < packets ? w : packets;
	return w < 2 ? 2 : w > WINDOW_MAX ? WINDOW_MAX : (uint32_t)w;
}

/* RC: the stream keeps data until it is received, so the window only has to keep it moving. Of a large message each
 * receive is large, too. */
static uint32_t rc_window_of(uint64_t size)
{
	uint64_t w = RC_WINDOW_BYTES / size, least = size > RC_LARGE ? 2 : 4;

	return w < least ? (uint32_t)least : w > WINDOW_MAX ? WINDOW_MAX : (uint32_t)w;
}

uint32_t rig_outstanding(const struct rig *r)
{
	return (uint32_t)(r->pc.outstanding ? r->pc.outstanding : r->pc.window ? r->pc.window : r->pc.depth);
}

/* This end receives only credits. */
static bool rig_only_sends(const struct rig *r)
{
	return r->pc.test != PERF_LAT && !perf_both_ways(r->pc.test) && r->side.client;
}

/* For credits there are more receives; to the sink of RC's Sends none comes. */
uint32_t rig_recv_depth(const struct rig *r)
{
	uint32_t slack = r->window < 12 ? 12 : r->window > 64 ? 64 : r->window;
	bool none = perf_is_rc(r->pc.qp) && r->pc.op == PERF_SEND && !perf_both_ways(r->pc.test) && !r->side.client;

	return r->pc.test == PERF_LAT ? r->pc.size > RC_LARGE ? 2 : 64 : none ? r->window : r->window + slack;
}

int rig_mem_alloc(struct rig *r, struct rig_mem *m, size_t len, unsigned access)
{
	int rc;

	m->len = len;
	if (r->ibv) {
		m->addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (m->addr != MAP_FAILED)
			return ibv_rig_mem_alloc(r, m, access);
		m->addr = NULL;
		return tool_failed("%zu bytes of memory: %s", len, strerror(errno));
	}
	rc = region_alloc(&m->region, r->ep.pd, len, access);
	if (rc)
		return rc;
	m->addr = m->region.addr;
	m->key = m->remote_key = m->region.mr->stag;
	m->to = m->region.mr->to;
	return 0;
}

void rig_mem_free(struct rig_mem *m)
{
	if (m->addr && !m->region.addr) {
		ibv_rig_mem_free(m);
		munmap(m->addr, m->len);
	}
	region_free(&m->region);
	m->addr = NULL;
}

int rig_send(struct rig *r, const struct diw_send_wr *wr)
{
	return r->ibv ? ibv_rig_send(r, wr) : diw_post_send(r->ep.qp, wr, NULL);
}

static int make_receives(struct rig *r)
{
	int rc;

	r->nrecv = rig_recv_depth(r);
	r->recv_size = r->pc.op == PERF_SEND && r->pc.size > RIG_CTL && !rig_only_sends(r) ? (uint32_t)r->pc.size :
		       RIG_CTL;
	r->recv = calloc(r->nrecv, sizeof *r->recv);
	r->recv_sge = calloc(r->nrecv, sizeof *r->recv_sge);
	if (!r->recv || !r->recv_sge)
		return tool_failed("out of memory");
	rc = rig_mem_alloc(r, &r->rx, (size_t)r->nrecv * r->recv_size, DIW_ACCESS_LOCAL_WRITE);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < r->nrecv; i++) {
		r->recv_sge[i] = (struct diw_sge){ (char *)r->rx.addr + (size_t)i * r->recv_size, r->recv_size,
			r->rx.key };
		r->recv[i] = (struct diw_recv_wr){ .wr_id = i, .sge = &r->recv_sge[i], .num_sge = 1 };
		rig_recv_again(r, i);
	}
	rc = rig_recv_flush(r);
	return rc ? tool_failed("receives: %s", strerror(-rc)) : 0;
}

static int rig_make_qp(struct rig *r, uint16_t port, uint16_t peer_port)
{
	bool is_rc = perf_is_rc(r->pc.qp);
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	int rc;

	attr.type = is_rc ? DIW_QP_RC : r->pc.qp == PERF_UC ? DIW_QP_UC : r->pc.qp == PERF_RD ? DIW_QP_RD : DIW_QP_UD;
	if (!is_rc)
		attr.dgram.local = r->side.local;
	attr.dgram.local.port = is_rc ? 0 : port;
	if (attr.type == DIW_QP_UC) {
		attr.dgram.peer = r->side.peer;
		attr.dgram.peer.port = peer_port;
	}
	attr.rc.confirm = r->pc.qp == PERF_RC_CONFIRM;
	attr.mulpdu = (uint32_t)r->pc.mulpdu;
	attr.impair = r->side.impair;
	attr.max_sge = (uint32_t)(r->pc.max_sge > r->pc.sge ? r->pc.max_sge : r->pc.sge ? r->pc.sge : 1);
	attr.dgram.record_close_last = r->pc.close_last;
	attr.max_inline = DIW_MAX_INLINE;
	attr.sq_depth = RIG_SQ_DEPTH(r);
	r->window = is_rc ? rc_window_of(r->pc.size) : window_for(attr.dgram.rcvbuf * 2ull, r->pc.size);
	if (r->pc.outstanding || r->pc.window)
		r->window = rig_outstanding(r) < r->window || is_rc ? rig_outstanding(r) : r->window;
	attr.rq_depth = rig_recv_depth(r);
	attr.dgram.read_timeout_ns = (int64_t)READ_TIMEOUT_NS;
	if (r->pc.test == PERF_LAT)
		attr.dgram.record_timeout_ns = attr.dgram.reasm_timeout_ns = (int64_t)LAT_RECORD_NS;
	if (r->pc.provider == PERF_VERBS)
		return ibv_rig_open(r, attr.max_sge);
	r->nqps = r->pc.qps ? (uint32_t)r->pc.qps : 1;
	r->active = r->pc.active && r->pc.active < r->nqps ? (uint32_t)r->pc.active : r->nqps;
	rc = endpoint_open_over(&r->ep, r->side.dev, &r->side.peer, attr.sq_depth + attr.rq_depth + WINDOW_MAX,
				r->pc.mode == PERF_EVENTS, r->pc.llp);
	if (!rc && rig_has_many(r))
		rc = qps_prepare(r, &attr);
	if (!rc)
		rc = endpoint_qp(&r->ep, &attr);
	if (!rc && rig_has_many(r))
		rc = qps_open(r, &attr);
	if (rc || is_rc)
		return rc ? rc : rc_rig_open(r);
	if (window_for(r->ep.info.rcvbuf, r->pc.size) < r->window)
		r->window = window_for(r->ep.info.rcvbuf, r->pc.size);
	r->port[0] = r->ep.info.local.port;
	return 0;
}

/* The end that sends is the client; of Reads it is the server. */
static void rig_pin(const struct rig *r)
{
	uint64_t own = r->side.client == op_asks(r->pc.op) ? PERF_PIN_RX : PERF_PIN_TX;

	if (r->pc.pin)
		perf_pin(r->pc.pin != own && r->pc.pin != PERF_PIN_BOTH ? -1 : r->side.client ? 0 : 1);
}

struct rig *rig_open(const struct perf_case *pc, const struct perf_side *side, uint16_t port, uint16_t peer_port)
{
	struct rig *r = calloc(1, sizeof *r);
	int rc;

	if (!r) {
		tool_failed("out of memory");
		return NULL;
	}
	r->pc = *pc;
	r->side = *side;
	r->raw = pc->qp >= PERF_RAW;
	r->fd[0] = r->fd[1] = -1;
	ring_plan(r);
	rig_pin(r);
	if (rig_has_streams(r)) {
		rc = streams_open(r);
	} else if (r->raw) {
		rc = raw_rig_open(r);
	} else {
		rc = rig_make_qp(r, port, peer_port);
		if (!rc)
			rc = ring_make_memory(r);
		if (!rc)
			rc = make_receives(r);
		if (!rc && r->pc.load)
			rc = load_open(r);
	}
	if (!rc)
		return r;
	rig_close(r);
	return NULL;
}

void rig_close(struct rig *r)
{
	streams_close(r);
	load_close(r);
	if (r->raw)
		raw_rig_close(r);
	if (r->ep.qp)
		diw_qp_destroy(r->ep.qp);
	r->ep.qp = NULL;
	qps_close(r);
	ibv_rig_end(r);
	rc_rig_close(r);
	rig_mem_free(&r->tx);
	rig_mem_free(&r->rx);
	rig_mem_free(&r->target);
	endpoint_close(&r->ep);
	ibv_rig_close(r);
	free(r->recv);
	free(r->recv_sge);
	free(r);
}

int rig_free_port(const struct perf_side *side)
{
	struct sockaddr_storage ss;
	struct diw_addr a = side->local;
	socklen_t len;
	int fd, rc;

	a.port = 0;
	len = diw_addr_to_sockaddr(&a, &ss);
	fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = bind(fd, (struct sockaddr *)&ss, len);
	len = sizeof ss;
	if (!rc)
		rc = getsockname(fd, (struct sockaddr *)&ss, &len);
	rc = rc ? -errno : 0;
	close(fd);
	if (rc)
		return rc;
	diw_addr_from_sockaddr(&a, (struct sockaddr *)&ss);
	return a.port;
}

/* Most datagrams, or octets of the stream, of the queue pair have left by shared memory. */
static bool rig_by_memory(const struct rig *r)
{
	bool stream = perf_is_rc(r->pc.qp);
	const char *all = stream ? "tx_bytes" : "tx_datagrams";
	const char *those = stream ? "shm_tx_bytes" : "shm_tx_datagrams";
	uint64_t v[512], sent = 0, memory = 0;
	int n = diw_qp_counters(r->ep.qp, v, 512);

	for (int i = 0; i < n && i < 512; i++) {
		if (strcmp(diw_counter_name(i), all) == 0)
			sent = v[i];
		else if (strcmp(diw_counter_name(i), those) == 0)
			memory = v[i];
	}
	return memory > sent / 2;
}

const char *rig_llp(const struct rig *r)
{
	r = streams_first(r);
	if (r->ep.qp && rig_by_memory(r))
		return "memory";
	return r->raw ? NULL : r->ibv ? "verbs" : perf_is_rc(r->pc.qp) ? "tcp" : r->ep.dev_info.llp;
}

const char *rig_congestion(const struct rig *r, char buf[RAW_CONGESTION_LEN])
{
	buf[0] = '\0';
	if (r->raw)
		return raw_rig_congestion(r, buf);
	if (perf_is_rc(r->pc.qp) && !r->ibv)
		raw_tcp_congestion_choice(buf);
	return buf;
}

void rig_describe(const struct rig *r, cJSON *o)
{
	if (r->streams) {
		streams_describe(r, o);
		return;
	}
	cJSON_AddNumberToObject(o, "port", r->port[0]);
	cJSON_AddNumberToObject(o, "port2", r->port[1]);
	if (r->raw)
		return;
	cJSON_AddNumberToObject(o, "stag", r->target.remote_key);
	cJSON_AddNumberToObject(o, "to", (double)r->target.to);
	cJSON_AddNumberToObject(o, "window", r->window);
	if (rig_has_many(r))
		qps_describe(r, o);
	if (r->ibv)
		ibv_rig_describe(r, o);
	if (r->load)
		load_describe(r, o);
}

int rig_connect(struct rig *r, const cJSON *peer)
{
	double window = ctl_number(peer, "window");
	int rc;

	if (r->streams)
		return streams_connect(r, peer);
	if (r->raw)
		return raw_rig_connect(r, peer);
	r->dst = r->side.peer;
	r->dst.port = (uint16_t)ctl_number(peer, "port");
	r->stag = (uint32_t)ctl_number(peer, "stag");
	r->to = (uint64_t)ctl_number(peer, "to");
	if (window >= 1 && window < r->window)
		r->window = (uint32_t)window;        /* both ends use the smaller one */
	if (r->ibv && (rc = ibv_rig_connect(r, peer)) != 0)
		return rc;
	if (r->load && (rc = load_connect(r, peer)) != 0)
		return rc;
	ring_make(r);
	if (rig_has_many(r) && (rc = qps_connect(r, peer)) != 0)
		return rc;
	return perf_is_rc(r->pc.qp) && !r->ibv ? rc_rig_connect(r) : 0;
}

int bw_run(struct rig *r, struct perf_ctl *ctl, uint64_t ns, struct perf_part *part)
{
	return (op_asks(r->pc.op) ? read_run : stream_run)(r, ctl, ns, part);
}

int rig_run(struct rig *r, struct perf_ctl *ctl, uint64_t ns, struct hist *all, struct perf_part *part)
{
	int rc = 0;

	memset(part, 0, sizeof *part);
	if (r->streams)
		return streams_run(r, ns, all, part);
	if (r->ibv)
		rc = ibv_rig_establish(r);
	else if (perf_is_rc(r->pc.qp))
		rc = rc_rig_establish(r);
	r->all = all;
	r->round++;
	if (rc)
		return rc;
	if (r->load && (rc = load_start(r)) != 0)
		return rc;
	if (r->raw)
		rc = raw_rig_run(r, ns, part);
	else
		rc = perf_tests[r->pc.test].run(r, ctl, ns, part);
	if (r->load)
		load_stop(r);
	if (!r->raw)
		endpoint_report_errors(&r->ep);
	return rc;
}

int rig_take(struct rig *r, struct diw_wc *wc, int n, int64_t timeout_ns)
{
	struct diw_cq *cq;
	int rc;

	if (r->ibv)
		return ibv_rig_take(r, wc, n, timeout_ns);
	if (r->pc.mode == PERF_WAIT)
		return diw_cq_wait(r->ep.cq, wc, n, timeout_ns);
	if (r->pc.mode == PERF_POLL)
		return diw_cq_poll(r->ep.cq, wc, n, timeout_ns);
	rc = diw_cq_poll(r->ep.cq, wc, n, 0);
	if (rc || !timeout_ns)
		return rc;
	rc = diw_cq_arm(r->ep.cq, false);
	if (!rc)
		rc = diw_channel_get(r->ep.channel, &cq, timeout_ns);
	return rc && rc != -EAGAIN && rc != -EINTR ? rc : diw_cq_poll(r->ep.cq, wc, n, 0);
}

void rig_recv_again(struct rig *r, uint64_t slot)
{
	struct diw_recv_wr *wr = &r->recv[slot];

	wr->next = NULL;
	if (r->again)
		r->again_last->next = wr;
	else
		r->again = wr;
	r->again_last = wr;
}

int rig_recv_flush(struct rig *r)
{
	int rc = !r->again ? 0 : r->ibv ? ibv_rig_recv(r, r->again) :
		 r->srq ? diw_post_srq_recv(r->srq, r->again, NULL) : diw_post_recv(r->ep.qp, r->again, NULL);

	r->again = NULL;
	return rc;
}
