/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lat: a ping-pong of Sends, or of Writes that complete at the target; a read is timed as a whole. All results are half
 * round trips.
 */
#include <errno.h>
#include <string.h>

#include "tools/perf/perf_rig.h"

#define LAT_FIRST_NS DIW_S           /* for the first round trip, which determines how long to wait for others */
#define LAT_SLACK_NS (20 * DIW_MS)   /* longer than the record and reassembly timeouts of a lat rig */
#define LAT_RC_NS (10 * DIW_S)       /* RC loses nothing: a round trip that is given up would be missing in the
				      * distribution */
#define LAT_QUIET_NS (5 * DIW_MS)
#define LAT_STALLED 9u               /* the most intervals by which a round without a round trip is longer */
#define LAT_IDLE_NS DIW_MS           /* then the responder polls the control connection */

struct lat {
	struct rig *r;
	struct hist hist;
	uint64_t wait_ns, sent, whole;
};

/* RC: the immediate proves that the Write before it has arrived. */
static bool message_is_whole(const struct lat *l, const struct diw_wc *wc)
{
	return wc->status == DIW_WC_SUCCESS &&
		(wc->byte_len == l->r->pc.size || (perf_is_rc(l->r->pc.qp) && wc->opcode == DIW_WC_RECV_WRITE_IMM));
}

/* 1: a message arrived whole; 0: another completion, or none in time; -errno. */
static int await_message(struct lat *l, uint64_t wait_ns)
{
	uint64_t end = diw_clock_ns() + wait_ns, now;
	struct diw_wc wc;
	bool arrived;
	int n;

	for (;;) {
		n = rig_take(l->r, &wc, 1, (int64_t)wait_ns);
		if (n < 0)
			return n;
		if (n == 0)
			return 0;
		if (wc.status == DIW_WC_FLUSHED)
			return -ECONNRESET;
		if (wc.opcode == DIW_WC_RECV || wc.opcode == DIW_WC_RECV_WRITE_IMM)
			rig_recv_again(l->r, wc.wr_id);
		arrived = wc.opcode == DIW_WC_RECV || wc.opcode == DIW_WC_RECV_WRITE_IMM ||
			wc.opcode == DIW_WC_RECV_WRITE_RECORD || wc.opcode == DIW_WC_READ ||
			wc.opcode == DIW_WC_FETCH_ADD || wc.opcode == DIW_WC_CMP_SWAP;
		if (arrived && message_is_whole(l, &wc))
			return 1;
		diw_wc_release(&wc);
		now = diw_clock_ns();
		if (now >= end || wc.opcode == DIW_WC_READ)
			return 0;
		wait_ns = end - now;         /* part of a message: the rest was lost */
	}
}

static int post_message(struct lat *l)
{
	int n = rig_post(l->r, 1);

	if (n == 0)
		return -ENOMEM;
	l->sent++;
	return n < 0 ? n : 0;
}

/* 1 and the times; 0: lost; -errno. */
static int round_trip(struct lat *l, uint64_t *begin, uint64_t *end)
{
	int rc;

	*begin = diw_clock_ns();
	rc = post_message(l);
	if (!rc)
		rc = await_message(l, l->wait_ns);
	*end = diw_clock_ns();
	if (rc > 0) {
		l->whole++;
		return rig_recv_flush(l->r) ? -EIO : 1;
	}
	while (!rc && await_message(l, LAT_QUIET_NS) > 0)
		;                            /* late messages must not answer the next one */
	if (!rc)
		rc = rig_recv_flush(l->r);
	return rc;
}

static int initiate(struct lat *l, struct perf_ctl *ctl, uint64_t ns, struct perf_part *part)
{
	uint64_t warm = diw_clock_ns() + (ns / 10 < 20 * DIW_MS ? ns / 10 : 20 * DIW_MS), stop = warm + ns, begin, end;
	uint64_t sent0 = 0, whole0 = 0;
	double cpu0 = perf_cpu_now();
	bool measuring = false, rc_qp = perf_is_rc(l->r->pc.qp);
	cJSON *o;
	int rc;

	l->wait_ns = rc_qp ? LAT_RC_NS : LAT_FIRST_NS;
	do {
		rc = round_trip(l, &begin, &end);
		if (rc > 0 && l->whole == 1 && !rc_qp)
			l->wait_ns = 4 * (end - begin) + LAT_SLACK_NS;
		if (rc > 0 && measuring)
			hist_add(&l->hist, (end - begin) / 2);
		if (!measuring && end >= warm) {
			measuring = true;
			cpu0 = perf_cpu_now();
			sent0 = l->sent;
			whole0 = l->whole;
		}
	} while (rc >= 0 && (end < stop || (!l->hist.n && end < stop + LAT_STALLED * ns)) && !tool_stopped);
	part->cpu_s = perf_cpu_now() - cpu0;
	part->tx_msgs = (double)(l->sent - sent0);
	part->rx_msgs = (double)(l->whole - whole0);
	part->tx_bytes = part->tx_msgs * (double)l->r->pc.size;
	part->rx_bytes = part->rx_msgs * (double)l->r->pc.size;
	part->p50_ns = hist_quantile(&l->hist, 0.5);
	part->p99_ns = hist_quantile(&l->hist, 0.99);
	o = cJSON_CreateObject();
	cJSON_AddNumberToObject(o, "stop", 1);
	ctl_send(ctl, o);
	return rc < 0 ? tool_failed("ping-pong: %s", strerror(-rc)) : 0;
}

/* Runs until the initiator reports the end. A reader's target only waits. */
static int respond(struct lat *l, struct perf_ctl *ctl, struct perf_part *part)
{
	double cpu0 = perf_cpu_now();
	bool idle;
	cJSON *o;
	int rc;

	for (;;) {
		rc = await_message(l, LAT_IDLE_NS);
		idle = rc == 0;
		if (rc > 0)
			rc = post_message(l);
		if (!rc)
			rc = rig_recv_flush(l->r);
		if (rc < 0)
			return tool_failed("ping-pong: %s", strerror(-rc));
		if (tool_stopped)
			return tool_failed("interrupted");
		if (idle && ctl_ready(ctl))
			break;
	}
	part->cpu_s = perf_cpu_now() - cpu0;
	o = ctl_recv(ctl, DIW_S);
	if (!o)
		return tool_failed("the other end has gone");
	cJSON_Delete(o);
	return 0;
}

int lat_run(struct rig *r, struct perf_ctl *ctl, uint64_t ns, struct perf_part *part)
{
	struct lat l = { .r = r };
	int rc;

	if (hist_init(&l.hist))
		return tool_failed("out of memory");
	rc = r->side.client ? initiate(&l, ctl, ns, part) : respond(&l, ctl, part);
	if (r->all)
		hist_merge(r->all, &l.hist);
	hist_fini(&l.hist);
	return rc;
}
