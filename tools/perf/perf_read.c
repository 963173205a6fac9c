/* SPDX-License-Identifier: BSD-2-Clause */
/* bw, bibw and rate of RDMA Reads and atomics: the requester is the sink, and the target only waits. */
#include <errno.h>
#include <string.h>

#include "tools/perf/perf_rig.h"

#define READ_END_NS (2 * DIW_S)      /* for reads that are outstanding at the end */

struct reads {
	struct rig *r;
	struct perf_ctl *ctl;
	bool ask;                            /* this end sends requests */
	bool told, peer_over;
	struct meter m;
	uint64_t posted, finished;
	uint32_t depth;
	uint64_t begin, over_at, tick_at;
};

static int post_reads(struct reads *s)
{
	uint32_t room = s->depth - (uint32_t)(s->posted - s->finished);
	int n;

	if (!s->ask || s->m.over || !room)
		return 0;
	n = rig_post(s->r, room);
	if (n > 0)
		s->posted += (uint64_t)n;
	return n;
}

static int take_reads(struct reads *s, struct diw_wc *wc, int n, uint64_t now)
{
	uint64_t msgs = 0, bytes = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].status == DIW_WC_FLUSHED)
			return tool_failed("the connection has ended");
		if (wc[i].opcode != DIW_WC_READ && wc[i].opcode != DIW_WC_FETCH_ADD && wc[i].opcode != DIW_WC_CMP_SWAP)
			continue;
		if (wc[i].status != DIW_WC_SUCCESS && wc[i].status != DIW_WC_TIMEOUT)
			return tool_failed("%s: %s", diw_wc_opcode_str(wc[i].opcode), diw_wc_status_str(wc[i].status));
		s->finished++;
		msgs += wc[i].status == DIW_WC_SUCCESS;
		bytes += wc[i].byte_len;
		diw_wc_release(&wc[i]);
	}
	meter_batch(&s->m, now, msgs, bytes);
	return 0;
}

static void reads_tell(struct reads *s, const char *key)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, key, 1);
	ctl_send(s->ctl, o);
}

static int reads_tick(struct reads *s, uint64_t now)
{
	bool client = s->r->side.client;
	cJSON *o;

	if (now - s->tick_at < PERF_TICK_NS)
		return 0;
	s->tick_at = now;
	meter_batch(&s->m, now, 0, 0);
	if (!s->peer_over && ctl_ready(s->ctl)) {
		o = ctl_recv(s->ctl, DIW_S);
		if (!o)
			return tool_failed("the other end has gone");
		s->peer_over |= cJSON_HasObjectItem(o, "stop");
		s->m.over |= cJSON_HasObjectItem(o, "over");
		cJSON_Delete(o);
	}
	if (client && tool_stopped && !s->m.over) {
		s->m.over = true;
		reads_tell(s, "over");
	}
	if (s->ask && !s->m.over && !s->m.first && now - s->begin > 2 * s->m.ns + 2 * DIW_S)
		s->m.over = true;            /* nothing came at all */
	if (s->ask && s->m.over && !s->over_at) {
		s->over_at = now;
		meter_stop(&s->m);
	}
	if (s->ask && s->over_at && !s->told && (s->posted == s->finished || now - s->over_at > READ_END_NS)) {
		s->told = true;
		reads_tell(s, "stop");
	}
	if (tool_stopped > client || now - s->begin > 3 * s->m.ns + perf_patience_ns(&s->r->pc))
		return tool_failed(tool_stopped > client ? "interrupted" : "the other end does not finish");
	return 0;
}

int read_run(struct rig *r, struct perf_ctl *ctl, uint64_t ns, struct perf_part *part)
{
	bool both = perf_both_ways(r->pc.test);
	struct reads s = { .r = r, .ctl = ctl, .ask = both || r->side.client, .peer_over = !both && r->side.client };
	struct diw_wc wc[PERF_BATCH];
	uint64_t now;
	int n, rc = 0;

	s.depth = r->pc.depth < RIG_READS ? (uint32_t)r->pc.depth : RIG_READS;
	s.depth = s.depth < r->window ? s.depth : r->window;
	s.told = !s.ask;
	s.begin = diw_clock_ns();
	meter_init(&s.m, ns);
	while (!rc && !(s.told && s.peer_over)) {
		n = post_reads(&s);
		if (n < 0)
			return tool_failed("posting a request: %s", strerror(-n));
		n = rig_take(r, wc, PERF_BATCH, (int64_t)PERF_TICK_NS);
		if (n < 0)
			return tool_failed("completion queue: %s", strerror(-n));
		now = diw_clock_ns();
		rc = n ? take_reads(&s, wc, n, now) : 0;
		if (!rc)
			rc = reads_tick(&s, now);
	}
	if (!s.ask)
		meter_stop(&s.m);
	meter_part(&s.m, part);
	part->tx_msgs = (double)s.posted;
	part->tx_bytes = (double)(s.posted * r->pc.size);
	return rc;
}
