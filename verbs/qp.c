/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/rng.h"
#include "llp/capture.h"
#include "verbs/capture.h"
#include "verbs/confirm.h"

/* Super-buffers that one queue pair receives before another has its turn. One: the look that finds the socket empty
 * costs a third of a microsecond, and the next step looks anyway. */
#define RX_SHARE 1

void diw_qp_attr_init(struct diw_qp_attr *attr)
{
	*attr = (struct diw_qp_attr){
		.sq_depth = 128, .rq_depth = 128, .max_sge = 4, .max_inline = 128,
		.reorder_window_ns = 1 * DIW_MS, .record_timeout_ns = 100 * DIW_MS, .reasm_timeout_ns = 100 * DIW_MS,
		.rate_burst = 256 << 10, .max_sources = 16384, .max_records = 16384, .rcvbuf = 4 << 20,
		.rnr_timeout_ns = 5 * DIW_S,
	};
}

static const struct diw_member_ops qp_member_ops;

/* Sockets below, the impairment above them. */
static int open_dgrams(struct diw_qp *qp, const struct diw_dgram_attr *attr, const struct diw_impair_spec *spec,
		       struct diw_dgram **out)
{
	struct diw_dgram *d;
	struct diw_capture *capture;
	int rc = qp->dev->transport->open(qp->dev->transport, attr, &d);

	if (rc != 0)
		return rc;
	qp->socket = d;
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

static int open_link(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	struct diw_dev *dev = qp->dev;
	const char *text = a->impair ? a->impair : getenv("DIWARP_IMPAIR");
	struct diw_dgram_attr da = {
		.local = a->local, .ifindex = dev->info.ifindex, .mtu = dev->info.mtu, .rcvbuf = a->rcvbuf,
		.any = a->any_addr, .broadcast = a->broadcast, .c = qp->c,
	};
	struct diw_impair_spec *spec = NULL;
	struct diw_dgram *d;
	char err[128], name[DIW_ADDR_STRLEN];
	int rc;

	if (a->type == DIW_QP_UC)               /* one that is told later is checked by DDP alone */
		da.peer = a->peer;
	if (diw_addr_ip_is_zero(&a->local) && !a->any_addr) {
		if (dev->info.naddrs == 0)
			return diw_fail(-EADDRNOTAVAIL, "diw_qp_create: %s has no address", dev->info.name);
		da.local = dev->info.addrs[0];
		da.local.port = a->local.port;
	}
	if (text && *text && diw_impair_parse(text, &spec, err, sizeof err) < 0) {
		diw_log(DIW_LOG_TELL, "%s \"%s\": %s", a->impair ? "impairment" : "DIWARP_IMPAIR", text, err);
		return -EINVAL;
	}
	rc = open_dgrams(qp, &da, spec, &d);
	diw_impair_spec_free(spec);
	if (rc != 0)
		return diw_fail(rc, "diw_qp_create: a UDP socket at %s", diw_addr_str(&da.local, name));
	rc = diw_seal_open(d, a->mulpdu, &diw_ddp_link_up, &qp->rdmap.ddp, &qp->link);
	if (rc < 0) {
		d->ops->close(d);
		return rc;
	}
	qp->rdmap.ddp.link = qp->link;
	return 0;
}

/* The longest that stays clear of wrapping when times are added up: 36 years. */
static uint64_t bounded(int64_t ns)
{
	return diw_min64((uint64_t)ns, 1ull << 60);
}

static int init_protocol(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	static const enum diw_rdmap_type types[] = {
		[DIW_QP_UD] = DIW_TYPE_UD, [DIW_QP_UC] = DIW_TYPE_UC, [DIW_QP_RC] = DIW_TYPE_RC,
	};
	struct diw_rdmap *r = &qp->rdmap;
	struct diw_ddp *d = &r->ddp;

	r->type = types[a->type];
	r->up = &diw_qp_up;
	r->up_ctx = qp;
	r->read_timeout = bounded(a->read_timeout_ns);
	d->c = qp->c;
	d->stags = &qp->dev->stags;
	d->user = (struct diw_stag_user){ .pd = qp->pd, .qp = qp };
	d->epoch = (uint16_t)diw_random();
	d->msn_tagged = (uint32_t)diw_random();
	d->msn_untagged = (uint32_t)diw_random();
	d->cfg = (struct diw_ddp_cfg){
		.qkey = a->type == DIW_QP_RC ? 0 : a->qkey,  /* iWARP's headers have none */
		.fixed_peer = a->type == DIW_QP_UC, .peer = a->peer, .path = a->peer.path,
		.chunks = a->record_mode == DIW_RECORD_CHUNK, .close_last = a->record_close_last,
		.reorder_window = bounded(a->reorder_window_ns), .record_timeout = bounded(a->record_timeout_ns),
		.reasm_timeout = bounded(a->reasm_timeout_ns), .max_sources = a->max_sources,
		.max_records = a->max_records, .max_reasm = a->max_sources, .rnr_timeout = bounded(a->rnr_timeout_ns),
		.rnr_most = bounded(a->rnr_timeout_ns),
	};
	d->cfg.peer.path = 0;
	return diw_rdmap_init(r);
}

static struct diw_dgram *dgram_of(const struct diw_qp *qp)
{
	return qp->link->dgram;
}

static int enlist(struct diw_qp *qp)
{
	int rc = diw_engine_add(&qp->dev->engine, &qp->member);

	if (rc < 0)
		return rc;
	qp->pd->users++;
	qp->send_cq->nqps++;
	qp->recv_cq->nqps++;
	if (qp->srq)
		qp->srq->nqps++;
	diw_list_add_tail(&qp->dev->qps, &qp->of_dev);
	qp->dev->nqps++;
	diw_stat_show(qp);
	return 0;
}

static void qp_free(struct diw_qp *qp)
{
	if (qp->protocol)
		diw_rdmap_fini(&qp->rdmap);
	if (qp->link)
		qp->link->ops->close(qp->link);
	diw_sq_fini(&qp->sq);
	diw_rq_fini(&qp->own_rq);
	free(qp->errors);
	diw_stat_give(qp);                      /* the layers count until they are gone */
	free(qp);
}

static int build(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	int rc = diw_sq_init(&qp->sq, a);

	qp->errors_max = a->type == DIW_QP_RC ? DIW_QP_ERRORS_RC : DIW_QP_ERRORS;
	qp->errors = calloc(qp->errors_max, sizeof *qp->errors);
	if (rc == 0 && !qp->errors)
		rc = -ENOMEM;

	if (rc == 0 && !a->srq)
		rc = diw_rq_init(&qp->own_rq, a->rq_depth, a->max_sge);
	if (rc == 0)
		rc = init_protocol(qp, a);
	qp->protocol = rc == 0;
	if (rc == 0 && a->type != DIW_QP_RC)
		rc = open_link(qp, a);
	return rc;
}

int diw_qp_create(struct diw_pd *pd, const struct diw_qp_attr *a, struct diw_qp **out)
{
	struct diw_qp *qp;
	int rc = diw_engine_alive(&pd->dev->engine) ? diw_qp_check(pd, a) :
		 diw_fail(-ENODEV, "diw_qp_create: the device was opened before fork()");

	if (rc < 0)
		return rc;
	qp = calloc(1, sizeof *qp);
	if (!qp)
		return -ENOMEM;
	diw_list_init(&qp->groups);
	qp->member.ops = &qp_member_ops;
	qp->dev = pd->dev;
	qp->pd = pd;
	qp->ctx = a->ctx;
	qp->num = a->num;
	qp->type = a->type;
	qp->state = a->type == DIW_QP_RC ? DIW_QPS_IDLE : DIW_QPS_RTS;
	qp->rc.mulpdu = a->mulpdu;
	qp->rc.packed = a->packed;
	qp->rc.early = a->early;
	qp->rc.confirm = a->confirm;
	qp->rc.keep = a->keep_recvs;
	qp->rc.until = DIW_NEVER;
	qp->send_cq = a->send_cq;
	qp->recv_cq = a->recv_cq;
	qp->srq = a->srq;
	qp->rq = a->srq ? &a->srq->rq : &qp->own_rq;
	qp->rq->awaited |= a->type != DIW_QP_UD;
	qp->sig_all = a->sq_sig_all;
	qp->grh = a->grh;
	qp->rate = a->rate_limit;
	qp->rate_burst = qp->tokens = a->rate_burst ? a->rate_burst : 1;
	qp->rate_at = diw_engine_now(&pd->dev->engine);
	rc = diw_stat_take(qp);
	if (rc == 0)
		rc = build(qp, a);
	if (rc == 0)
		rc = diw_engine_lock(&qp->dev->engine);
	if (rc == 0) {
		rc = enlist(qp);
		diw_engine_unlock(&qp->dev->engine);
	}
	if (rc < 0) {
		qp_free(qp);
		return rc;
	}
	*out = qp;
	return 0;
}

int diw_qp_destroy(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;

	if (diw_engine_lock(&dev->engine) == 0) {
		if (qp->type == DIW_QP_RC)
			diw_qp_forget_conn(qp, true);
		diw_group_leave_all(qp);
		diw_stag_forget_qp(&dev->stags, qp);
		diw_list_del(&qp->of_dev);
		dev->nqps--;
		dev->stat.nshown -= qp->shown;
		diw_engine_remove(&dev->engine, &qp->member);
		diw_engine_rouse(&dev->engine);
		diw_cq_forget_maps(qp->send_cq, qp);
		diw_cq_forget_maps(qp->recv_cq, qp);
		diw_dev_forget_events(dev, qp);
		qp->pd->users--;
		qp->send_cq->nqps--;
		qp->recv_cq->nqps--;
		if (qp->srq)
			qp->srq->nqps--;
		qp_free(qp);                    /* under the lock: held receives go back to a shared queue */
		diw_engine_unlock(&dev->engine);
		return 0;
	}
	qp_free(qp);
	return 0;
}

/* ---- Work; the lock is held ---- */

static struct diw_qp *qp_of(const struct diw_member *m)
{
	return diw_container((struct diw_member *)m, struct diw_qp, member);
}

/* Receive, then run if there is anything to do. */
static bool qp_serve(struct diw_member *m, uint64_t now)
{
	struct diw_qp *qp = qp_of(m);
	int n = qp->link ? qp->link->ops->poll(qp->link, RX_SHARE, now) : 0;

	if (n || now >= m->deadline || qp->blocked || (qp->socket && qp->link->dgram->tx_errno) || m->starved ||
	    !diw_sq_empty(&qp->sq))
		diw_qp_run(qp, now);
	return n;
}

static void qp_posted(struct diw_member *m, uint64_t now)
{
	struct diw_qp *qp = qp_of(m);

	if (m->starved)
		qp_serve(m, now);
	else if (!diw_sq_empty(&qp->sq) || qp->state == DIW_QPS_ERROR)
		diw_qp_run(qp, now);
}

static uint64_t qp_sleeps_until(const struct diw_member *m, bool waiting)
{
	const struct diw_qp *qp = qp_of(m);

	return diw_qp_deadline(qp, waiting || qp->send_cq->armed);
}

static const struct diw_member_ops qp_member_ops = {
	.serve = qp_serve, .deadline = qp_sleeps_until, .fds = diw_qp_fds, .posted = qp_posted,
};

/* ---- Looking at it ---- */

static void query_rc(struct diw_qp *qp, struct diw_qp_info *info)
{
	const struct diw_rdmap_rc *rc = &qp->rdmap.rc;

	*info = (struct diw_qp_info){
		.state = qp->state, .peer = qp->rdmap.ddp.cfg.peer, .ird = rc->ird, .ord = rc->ord, .crc = qp->rc.crc,
		.rfc7306 = rc->rfc7306, .reads_open = rc->nout, .rq_posted = diw_rq_posted(qp->rq),
		.sq_pending = atomic_load(&qp->sq.tail) - atomic_load(&qp->sq.head), .sq_busy = diw_sq_busy(qp),
	};
	if (!qp->link)
		return;
	info->leaving = qp->rc.drain && qp->link->ops->flush(qp->link, diw_engine_now(&qp->dev->engine)) != 0;
	info->local = qp->link->local;
	info->num = diw_qp_num(qp);
	info->mulpdu = qp->link->ops->mulpdu(qp->link, &info->peer);
}

int diw_qp_query(struct diw_qp *qp, struct diw_qp_info *info)
{
	const struct diw_ddp *d = &qp->rdmap.ddp;
	const struct diw_addr *local, *peer = &d->cfg.peer;
	int rc = diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	if (qp->type == DIW_QP_RC) {
		query_rc(qp, info);
		diw_engine_unlock(&qp->dev->engine);
		return 0;
	}
	local = &dgram_of(qp)->local;
	if (!d->cfg.fixed_peer)                 /* then a neighbour, of the family that the queue pair has */
		peer = diw_addr_ip_is_zero(local) ? &qp->dev->info.addrs[0] : local;
	*info = (struct diw_qp_info){
		.num = diw_qp_num(qp), .state = qp->state, .local = *local, .peer = d->cfg.peer,
		.rcvbuf = dgram_of(qp)->rcvbuf,
		.mulpdu = qp->link->ops->mulpdu(qp->link, peer), .epoch = d->epoch,
		.sq_pending = atomic_load(&qp->sq.tail) - atomic_load(&qp->sq.head), .rq_posted = diw_rq_posted(qp->rq),
		.sources = d->dg->sources.pool.used, .records_open = d->dg->records.nopen,
		.records_held = d->dg->records.pool.used - d->dg->records.nopen, .reasm_open = d->dg->reasms.nopen,
		.sq_busy = diw_sq_busy(qp), .reads_open = qp->rdmap.reads->pool.used, .memory = diw_ddp_memory(d),
	};
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_impair(struct diw_qp *qp, const char *text, char *err, size_t errlen)
{
	struct diw_impair_spec *spec = NULL;
	char why[128];
	int rc = qp->type == DIW_QP_RC ? diw_fail(-EOPNOTSUPP, "diw_qp_impair: RC, whose network is TCP's") : 0;

	if (rc == 0 && text && *text)
		rc = diw_impair_parse(text, &spec, why, sizeof why);
	if (rc == -EINVAL)
		diw_fail(rc, "diw_qp_impair: \"%s\": %s", text, why);
	if (rc == -EINVAL && err && errlen)
		snprintf(err, errlen, "%s", why);
	if (rc == 0)
		rc = diw_engine_lock(&qp->dev->engine);
	if (rc == 0) {
		rc = diw_impair_set(qp->impair, spec);
		diw_engine_unlock(&qp->dev->engine);
	}
	diw_impair_spec_free(spec);
	return rc;
}

int diw_qp_counters(struct diw_qp *qp, uint64_t *values, int max)
{
	int n = diw_counter_count(), rc = diw_engine_lock(&qp->dev->engine);
	const uint64_t *c = (const uint64_t *)qp->c;

	if (rc < 0)
		return rc;
	qp->c->wakeups = qp->dev->engine.wakeups;
	for (int i = 0; i < n && i < max; i++)
		values[i] = c[i];
	diw_engine_unlock(&qp->dev->engine);
	return n;
}

static int list_open(const struct diw_list *head, struct diw_record_info *info, int max, int n)
{
	const struct diw_list *l;

	for (l = head->next; l != head; l = l->next, n++) {
		const struct diw_record *r = diw_container(l, struct diw_record, timer);

		if (n < max)
			info[n] = (struct diw_record_info){
				.src = r->addr, .msn = r->msn, .stag = r->stag, .msg_len = r->length, .to = r->to,
				.byte_len = r->ranges.bytes, .nranges = r->ranges.n,
			};
	}
	return n;
}

int diw_qp_records(struct diw_qp *qp, struct diw_record_info *info, int max)
{
	const struct diw_records *rs = &qp->rdmap.ddp.dg->records;
	int n = qp->type == DIW_QP_RC ? -EINVAL : diw_engine_lock(&qp->dev->engine);

	if (n < 0)
		return n;
	n = list_open(&rs->idle, info, max, 0);
	n = list_open(&rs->closing, info, max, n);
	diw_engine_unlock(&qp->dev->engine);
	return n;
}

int diw_qp_record_ranges(struct diw_qp *qp, const struct diw_record_info *info, struct diw_range *ranges, int max)
{
	const struct diw_record *r;
	int n = qp->type == DIW_QP_RC ? -EINVAL : diw_engine_lock(&qp->dev->engine);

	if (n < 0)
		return n;
	r = diw_record_find(&qp->rdmap.ddp, &info->src, -1, info->msn);
	n = r ? (int)r->ranges.n : -ENOENT;
	for (int i = 0; i < n && i < max; i++)
		ranges[i] = (struct diw_range){ r->ranges.v[i].lo, r->ranges.v[i].hi - r->ranges.v[i].lo };
	diw_engine_unlock(&qp->dev->engine);
	return n;
}
