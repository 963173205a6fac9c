/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of all types: created, destroyed, served by the engine, queried. */
#include "verbs/qp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/statpage.h"
#include "llp/shm.h"
#include "verbs/attr_take.h"

/* One queue pair receives at most 1 << RX_DOUBLINGS super-buffers before the turn of another. */
#define RX_DOUBLINGS 4

static const struct diw_member_ops qp_member_ops;

/* The longest time that cannot overflow when times are added: 36 years. */
static uint64_t time_bounded(int64_t ns)
{
	return diw_min64((uint64_t)ns, 1ull << 60);
}

static int init_protocol(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	const struct diw_rdmap_attr attr = {
		.type = qp->ops->rdmap, .up = &diw_qp_up, .up_ctx = qp,
		.read_timeout = time_bounded(a->dgram.read_timeout_ns),
		.requests = a->sq_depth, .peers = a->dgram.max_sources, .request_size = qp->sq.slot_size,
		.ddp.c = qp->c, .ddp.stags = &qp->dev->stags, .ddp.user = { .pd = qp->pd, .qp = qp },
		.ddp.cfg = {
			.qkey = qp->ops->qkey ? a->dgram.qkey : 0, .peer.addr = a->dgram.peer,
			.chunks = a->dgram.record_mode == DIW_RECORD_CHUNK, .close_last = a->dgram.record_close_last,
			.reorder_window = time_bounded(a->dgram.reorder_window_ns),
			.record_timeout = time_bounded(a->dgram.record_timeout_ns),
			.reasm_timeout = time_bounded(a->dgram.reasm_timeout_ns), .max_sources = a->dgram.max_sources,
			.max_records = a->dgram.max_records, .max_reasm = a->dgram.max_sources,
			.rnr_timeout = time_bounded(a->rc.rnr_timeout_ns),
			.rnr_most = time_bounded(a->rc.rnr_timeout_ns),
		},
	};

	return diw_rdmap_init(&qp->rdmap, &attr);
}

static int qp_enlist(struct diw_qp *qp, uint32_t weight)
{
	int rc = diw_dev_has_room(qp->dev->nqps);

	if (rc == 0)
		rc = diw_engine_add(&qp->dev->engine, &qp->member);
	if (rc < 0)
		return rc;
	qp->pd->users++;
	qp->send_cq->nqps++;
	qp->recv_cq->nqps++;
	if (qp->srq)
		qp->srq->nqps++;
	diw_list_add_tail(&qp->dev->qps, &qp->of_dev);
	qp->dev->nqps++;
	diw_arbiter_weigh(qp, weight, diw_engine_time(&qp->dev->engine));
	diw_stat_show(qp, NULL);
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
	diw_stat_give(qp);                      /* last: the layers count until they are freed */
	free(qp);
}

static int qp_build(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	/* With `early`, diw_qp_confirm() may set `confirm` until the queue pair is connected. */
	int rc = diw_sq_init(&qp->sq, a, qp->ops->confirms && (a->rc.confirm || a->rc.early));

	qp->errors_max = qp->ops->max_errors;
	qp->errors = calloc(qp->errors_max, sizeof *qp->errors);
	if (rc == 0 && !qp->errors)
		rc = -ENOMEM;
	if (rc == 0 && !a->srq)
		rc = diw_rq_init(&qp->own_rq, a->rq_depth, a->max_sge);
	if (rc == 0)
		rc = init_protocol(qp, a);
	qp->protocol = rc == 0;
	return rc == 0 ? qp->ops->open(qp, a) : rc;
}

/* The operations of the type, or NULL. */
static const struct diw_qp_ops *ops_of(enum diw_qp_type type)
{
	static const struct diw_qp_ops *const ops[] = {
#define X(NAME, name) [DIW_QP_##NAME] = &diw_qp_ops_##name,
		DIW_QP_TYPES(X)
#undef X
	};

	return (unsigned)type < sizeof ops / sizeof *ops ? ops[type] : NULL;
}

/* Reads the program's attributes GIVEN, and finds the operations of their type. */
static int take_attr(const struct diw_pd *pd, const struct diw_qp_attr *given, struct diw_qp_attr *a,
		     const struct diw_qp_ops **ops)
{
	int rc = diw_attr_take("diw_qp_create", a, sizeof *a, given);

	if (rc < 0)
		return rc;
	*ops = ops_of(a->type);
	return diw_qp_check(pd, a, *ops);
}

int diw_qp_create(struct diw_pd *pd, const struct diw_qp_attr *attr, struct diw_qp **out)
{
	struct diw_qp_attr copy = DIW_QP_ATTR_INIT, *a = &copy;
	const struct diw_qp_ops *ops = NULL;
	struct diw_qp *qp;
	int rc = diw_engine_alive(&pd->dev->engine) ? take_attr(pd, attr, a, &ops) :
		 diw_fail(-ENODEV, "diw_qp_create: the device was opened before fork()");

	if (rc < 0)
		return rc;
	qp = calloc(1, sizeof *qp);
	if (!qp)
		return -ENOMEM;
	diw_list_init(&qp->groups);
	diw_list_init(&qp->share.link);
	qp->share.weight = 1;
	qp->member.ops = &qp_member_ops;
	qp->dev = pd->dev;
	qp->pd = pd;
	qp->ctx = a->ctx;
	qp->num = a->num;
	qp->ops = ops;
	qp->state = ops->first;
	qp->send_cq = a->send_cq;
	qp->recv_cq = a->recv_cq;
	qp->srq = a->srq;
	qp->rq = a->srq ? &a->srq->rq : &qp->own_rq;
	qp->rq->awaited |= ops->awaits_recv;
	qp->sig_all = a->sq_sig_all;
	qp->grh = a->dgram.grh;
	qp->rd_error = a->rd.error;
	qp->rate = a->rate_limit;
	qp->rate_burst = qp->tokens = a->rate_burst ? a->rate_burst : 1;
	qp->rate_at = diw_engine_now(&pd->dev->engine);
	rc = diw_stat_take(qp);
	if (rc == 0)
		rc = qp_build(qp, a);
	if (rc == 0)
		rc = diw_engine_lock(&qp->dev->engine);
	if (rc == 0) {
		rc = qp_enlist(qp, a->weight);
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
		diw_qp_forget_conn(qp, true);
		diw_group_leave_all(qp);
		diw_stag_forget_qp(&dev->stags, qp);
		diw_list_del(&qp->of_dev);
		diw_arbiter_weigh(qp, 1, diw_engine_time(&dev->engine));
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
		qp_free(qp);                    /* under the lock: held receives are returned to a shared queue */
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

/* Whether a burst that was received has left nothing to send, to complete or to tell. It may have set a timer. */
static bool burst_left_nothing(struct diw_qp *qp)
{
	return qp->ops->rests && qp->state == DIW_QPS_RTS && qp->link->taken == qp->link->left &&
	       !(qp->link->dgram && qp->link->dgram->state->mtu_changed) && !diw_sq_has_executed(qp) &&
	       !qp->tell_drained && qp->ops->rests(qp);
}

/* Receives one super-buffer, since to find the socket empty would cost another 0.3 us, and the next step reads again
 * anyway. A process that seldom gets a processor has more in its socket, so a step that has not emptied the socket
 * doubles the number, except where messages that find no receive are dropped. */
static int qp_receive(struct diw_qp *qp, uint64_t now)
{
	int share = 1 << qp->rx_doublings;
	int n = qp->link ? qp->link->ops->poll(qp->link, share, now) : 0;

	if (n < share)
		qp->rx_doublings = 0;
	else if (qp->ops->awaits_recv && qp->rx_doublings < RX_DOUBLINGS)
		qp->rx_doublings++;
	return n;
}

/* Receives, then runs the queue pair if there is anything to do. */
static bool qp_serve(struct diw_member *m, uint64_t now)
{
	struct diw_qp *qp = qp_of(m);
	int n = qp_receive(qp, now);
	bool run = n;

	if (n && burst_left_nothing(qp)) {
		run = false;
		diw_engine_due_at(&qp->dev->engine, m, diw_qp_deadline(qp, true));
	}
	if (run || now >= m->deadline || qp->blocked || (qp->socket && qp->socket->state->tx_errno) || m->starved ||
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

static void qp_flush(struct diw_member *m, uint64_t now)
{
	diw_qp_run(qp_of(m), now);
}

static const struct diw_member_ops qp_member_ops = {
	.serve = qp_serve, .deadline = qp_sleeps_until, .fds = diw_qp_fds, .posted = qp_posted, .flush = qp_flush,
};

/* ---- Queries ---- */

int diw_qp_query(struct diw_qp *qp, struct diw_qp_info *info)
{
	struct diw_gauges g;
	int rc = diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	g = diw_qp_gauges(qp);
	*info = (struct diw_qp_info){
		.state = qp->state, .peer = diw_rdmap_peer(&qp->rdmap)->addr, .sq_pending = g.sq_pending,
		.rq_posted = g.rq_posted, .sources = g.sources, .records_open = g.records_open,
		.records_held = g.records_held, .reasm_open = g.reasm_open, .reads_open = g.reads_open,
		.memory = g.memory, .sq_busy = diw_sq_busy(qp),
	};
	if (qp->link) {
		info->num = diw_qp_num(qp);
		info->local = qp->link->local;
	}
	qp->ops->query(qp, info);
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_peer(struct diw_qp *qp, const struct diw_addr *peer, uint64_t *renewed_ns, uint64_t *restarted_ns)
{
	const struct diw_link *l;
	int rc = diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	l = qp->link;
	if (!l || !l->ops->renewed)
		rc = diw_fail(-EOPNOTSUPP, "diw_qp_peer: only for RD queue pairs");
	else if (!l->ops->renewed(l, peer, renewed_ns, restarted_ns))
		rc = -ENOENT;
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}

int diw_qp_impair(struct diw_qp *qp, const char *text, char *err, size_t errlen)
{
	struct diw_impair_spec *spec = NULL;
	char why[128];
	int rc = qp->impair ? 0 : diw_fail(-EOPNOTSUPP, "diw_qp_impair: only for UD, UC and RD queue pairs");

	if (rc == 0 && text && *text)
		rc = diw_impair_parse(text, &spec, why, sizeof why);
	if (rc == -EINVAL)
		diw_fail(rc, "diw_qp_impair: \"%s\": %s", text, why);
	if (rc == -EINVAL && err && errlen)
		snprintf(err, errlen, "%s", why);
	if (rc == 0)
		rc = diw_engine_lock(&qp->dev->engine);
	if (rc == 0) {
		diw_engine_flush(&qp->dev->engine);
		if (qp->memory)                 /* an open burst has no CRCs, and would be impaired without */
			diw_shm_pause(qp->memory, spec, diw_engine_time(&qp->dev->engine));
		if (qp->memory && spec)
			qp->link->ops->flush(qp->link, diw_engine_time(&qp->dev->engine));
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
	diw_qp_count_device(qp, qp->c);
	for (int i = 0; i < n && i < max; i++)
		values[i] = __atomic_load_n(&c[i], __ATOMIC_RELAXED);    /* diw_qp_count() takes no lock */
	diw_engine_unlock(&qp->dev->engine);
	return n;
}

int diw_qp_count(struct diw_qp *qp, int i, uint64_t n)
{
	const int first = offsetof(struct diw_counters, fabric_malformed) / sizeof(uint64_t);
	const int last = offsetof(struct diw_counters, fabric_held) / sizeof(uint64_t);

	if (!diw_engine_alive(&qp->dev->engine))
		return -ENODEV;
	if (i < first || i > last)
		return diw_fail(-EINVAL, "diw_qp_count: counter %d is not fabric_*: %d to %d", i, first, last);
	__atomic_fetch_add((uint64_t *)qp->c + i, n, __ATOMIC_RELAXED);
	return 0;
}

int diw_qp_records(struct diw_qp *qp, struct diw_record_info *info, int max)
{
	const struct diw_record *r = NULL;
	int n, rc = qp->socket ? diw_engine_lock(&qp->dev->engine) : -EINVAL;

	if (rc < 0)
		return rc;
	for (n = 0; (r = diw_rdmap_record_next(&qp->rdmap, r)); n++)
		if (n < max)
			info[n] = (struct diw_record_info){
				.src = r->addr, .msn = r->msn, .stag = r->stag, .msg_len = r->length, .to = r->to,
				.byte_len = r->ranges.bytes, .nranges = r->ranges.n,
			};
	diw_engine_unlock(&qp->dev->engine);
	return n;
}

int diw_qp_record_ranges(struct diw_qp *qp, const struct diw_record_info *info, struct diw_range *ranges, int max)
{
	const struct diw_record *r;
	int n = qp->socket ? diw_engine_lock(&qp->dev->engine) : -EINVAL;

	if (n < 0)
		return n;
	r = diw_rdmap_record_find(&qp->rdmap, &info->src, info->msn);
	n = r ? (int)r->ranges.n : -ENOENT;
	for (int i = 0; i < n && i < max; i++)
		ranges[i] = (struct diw_range){ r->ranges.v[i].lo, r->ranges.v[i].hi - r->ranges.v[i].lo };
	diw_engine_unlock(&qp->dev->engine);
	return n;
}
