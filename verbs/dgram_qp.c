/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions for all types of queue pairs over datagrams: UD, UC and RD. */
#include "verbs/dgram_qp.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "llp/capture.h"
#include "verbs/capture.h"
#include "verbs/loopback.h"

#define MAX_PEER_STATE (1u << 20)    /* sources, records */
#define SEQ_OPEN 0x7fffffffu         /* of a request that is being executed: more segments than can follow */

/* ---- Begin and end ---- */

static int check_dgram_times(const struct diw_qp_attr *a)
{
	int rc = diw_qp_check_time("reorder_window_ns", a->dgram.reorder_window_ns, 0);

	if (rc == 0)
		rc = diw_qp_check_time("record_timeout_ns", a->dgram.record_timeout_ns, 1);
	if (rc == 0)
		rc = diw_qp_check_time("reasm_timeout_ns", a->dgram.reasm_timeout_ns, 1);
	if (rc == 0)
		rc = diw_qp_check_time("read_timeout_ns", a->dgram.read_timeout_ns, 0);
	return rc;
}

int diw_dgram_qp_check(const struct diw_qp_attr *a)
{
	int rc;

	if (a->dgram.local.port == DIW_GROUP_PORT)
		return diw_fail(-EINVAL, "diw_qp_create: local port %u is that of groups", DIW_GROUP_PORT);
	if (a->dgram.record_mode != DIW_RECORD_MESSAGE && a->dgram.record_mode != DIW_RECORD_CHUNK)
		return diw_fail(-EINVAL, "diw_qp_create: record_mode %d: not DIW_RECORD_MESSAGE or DIW_RECORD_CHUNK",
				(int)a->dgram.record_mode);
	rc = check_dgram_times(a);
	if (rc == 0)
		rc = diw_qp_check_range("max_sources", a->dgram.max_sources, 1, MAX_PEER_STATE);
	if (rc == 0)
		rc = diw_qp_check_range("max_records", a->dgram.max_records, 1, MAX_PEER_STATE);
	if (rc == 0)
		rc = diw_qp_check_range("rcvbuf", a->dgram.rcvbuf, 1, UINT32_MAX);
	return rc;
}

/* Opens the sockets, and the impairment above them. */
static int open_dgrams(struct diw_qp *qp, const struct diw_dgram_attr *attr, const struct diw_impair_spec *spec,
		       bool one_peer, struct diw_dgram **out)
{
	struct diw_dgram *d;
	struct diw_capture *capture;
	int rc = qp->dev->transport->open(qp->dev->transport, attr, &d);

	if (rc != 0)
		return rc;
	qp->socket = d;
	/* With one peer the order counts: messages by memory would overtake those by the wire. */
	if (!spec && !one_peer)
		diw_loopback_wrap(qp, &d);
	capture = diw_dev_capture(qp->dev, &d);
	rc = diw_impair_open(d, spec, &qp->impair);
	if (rc < 0) {
		d->ops->close(d);
		return rc;
	}
	*out = qp->impair;
	if (capture)
		diw_capture_top(capture, qp->impair, out);
	return 0;
}

int diw_dgram_qp_seal(struct diw_qp *qp, const struct diw_qp_attr *a, struct diw_dgram *d)
{
	int rc = diw_seal_open(d, a->mulpdu, &diw_ddp_link_up, diw_rdmap_link_ctx(&qp->rdmap), &qp->link);

	if (rc == 0)
		qp->link->stays = true;         /* until the request has left: each run flushes */
	return rc;
}

int diw_dgram_qp_open(struct diw_qp *qp, const struct diw_qp_attr *a, const struct diw_addr *peer,
		      diw_dgram_qp_link *link)
{
	struct diw_dev *dev = qp->dev;
	const char *text = a->impair ? a->impair : getenv("DIWARP_IMPAIR");
	struct diw_dgram_attr da = {
		.local = a->dgram.local, .ifindex = dev->info.ifindex, .mtu = dev->info.mtu, .rcvbuf = a->dgram.rcvbuf,
		.any = a->dgram.any_addr, .broadcast = a->dgram.broadcast, .c = qp->c,
	};
	struct diw_impair_spec *spec = NULL;
	struct diw_dgram *d;
	char err[128], name[DIW_ADDR_STRLEN];
	int rc;

	if (peer)
		da.peer = *peer;
	if (diw_addr_ip_is_zero(&a->dgram.local) && !a->dgram.any_addr) {
		if (dev->info.naddrs == 0)
			return diw_fail(-EADDRNOTAVAIL, "diw_qp_create: %s has no address", dev->info.name);
		da.local = dev->info.addrs[0];
		da.local.port = a->dgram.local.port;
	}
	if (text && *text && diw_impair_parse(text, &spec, err, sizeof err) < 0) {
		diw_log(DIW_LOG_TELL, "%s \"%s\": %s", a->impair ? "impairment" : "DIWARP_IMPAIR", text, err);
		return -EINVAL;
	}
	rc = open_dgrams(qp, &da, spec, peer, &d);
	diw_impair_spec_free(spec);
	if (rc != 0)
		return diw_fail(rc, "diw_qp_create: a UDP socket at %s", diw_addr_str(&da.local, name));
	rc = link(qp, a, d);
	if (rc < 0) {
		d->ops->close(d);
		return rc;
	}
	diw_rdmap_set_link(&qp->rdmap, qp->link);
	return 0;
}

int diw_dgram_qp_reset(struct diw_qp *qp)
{
	int rc = diw_qp_renew(qp);

	if (rc < 0)
		return rc;
	qp->link->ops->discard(qp->link);
	qp->state = DIW_QPS_RTS;
	return 0;
}

void diw_dgram_qp_abort(struct diw_qp *qp, uint64_t now)
{
	(void)now;
	if (qp->state != DIW_QPS_ERROR)
		diw_qp_tell_last_recv(qp);
	qp->state = DIW_QPS_ERROR;
	diw_rdmap_stop(&qp->rdmap);
	diw_qp_flush(qp);
	qp->link->ops->discard(qp->link);
}

/* ---- State for display ---- */

void diw_dgram_qp_query(const struct diw_qp *qp, struct diw_qp_info *info)
{
	const struct diw_addr *peer = &info->peer, *local = &info->local;

	if (peer->port == 0)                    /* any address of the queue pair's family on the same network */
		peer = diw_addr_ip_is_zero(local) ? &qp->dev->info.addrs[0] : local;
	info->rcvbuf = qp->link->dgram->rcvbuf;
	info->mulpdu = qp->link->ops->mulpdu(qp->link, peer);
	info->epoch = diw_rdmap_epoch(&qp->rdmap);
}

/* ---- Requests ---- */

int diw_dgram_qp_check_dst(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len)
{
	(void)len;
	if (wr->dst.addr.port == 0 || diw_addr_ip_is_zero(&wr->dst.addr))
		return diw_fail(-EINVAL, "diw_post_send: no destination");
	if (!diw_dgram_reaches(qp->socket, &wr->dst.addr))
		return diw_fail(-EAFNOSUPPORT,
				"diw_post_send: the queue pair's address is of IPv%d, the destination is not",
				qp->socket->only);
	return opcode;
}

bool diw_dgram_qp_give_up(struct diw_qp *qp, struct diw_rdmap_wr *w, bool executed)
{
	executed &= !diw_sq_is_staged(qp, w);
	w->seq = qp->link->left;
	return executed;
}

bool diw_dgram_qp_begin(struct diw_qp *qp, uint64_t now)
{
	(void)now;
	if (qp->state == DIW_QPS_ERROR)
		diw_qp_flush(qp);
	return qp->state != DIW_QPS_ERROR;
}

/* Executes and completes requests. A request over datagrams is complete when its segments have left, or were refused;
 * Reads continue by themselves. Returns why it stopped. 0: the queue is empty. -ENOBUFS: no room for a completion.
 * Others: as of diw_rdmap_send(). */
int diw_dgram_qp_run_queue(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	const struct diw_link *link = qp->link;
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed);

	while (next != atomic_load_explicit(&sq->tail, memory_order_acquire) &&
	       (!qp->hold || diw_rdmap_is_sending(&qp->rdmap))) {
		struct diw_rdmap_wr *w = diw_sq_slot(sq, next);
		bool read = w->opcode == DIW_OP_READ_REQUEST;
		uint8_t status;
		int rc;

		if (w->signaled && !read && !diw_qp_has_room(qp, qp->send_cq, 1))
			return -ENOBUFS;
		/* other segments may have been sent between two parts of a message */
		if (!diw_rdmap_is_sending(&qp->rdmap) || !diw_sq_is_staged(qp, w))
			w->first = link->taken;
		if (w->dst.addr.port == 0)      /* UC */
			w->dst = *diw_rdmap_peer(&qp->rdmap);
		w->seq = link->taken + SEQ_OPEN;
		rc = diw_rdmap_send(&qp->rdmap, w, budget, &status, now);
		w->seq = link->taken;
		if (rc < 0)
			return rc;
		if (status != DIW_RDMAP_OK)
			w->status = status;
		else if (read)
			w->signaled = false;    /* the Read completes by itself */
		atomic_store_explicit(&sq->next, ++next, memory_order_relaxed);
	}
	return 0;
}

void diw_dgram_qp_settle(struct diw_qp *qp, uint64_t now)
{
	(void)now;
	if (diw_sq_has_executed(qp))
		diw_sq_retire(qp);
	diw_rdmap_reads_settle(&qp->rdmap);
}
