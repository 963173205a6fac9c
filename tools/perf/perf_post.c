/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf post: the cost of posting sends and receives, and of polling a completion queue that has completions or has
 * none. The peer is a process of its own, on another core, which takes and forgets what is sent to it.
 *
 * Each act has a thread: the kernel tells a thread's user time, but not a call's. The threads take turns of DEPTH
 * requests on one core.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "tools/perf/perf_cost.h"
#include "verbs/diw_cm.h"

#define POST_GOAL_NS 100             /* of user time, to post and poll a work request */
#define SETTLE_NS (50 * DIW_US)

struct post {
	const struct cost_plan *plan;
	enum perf_qp qp;
	uint32_t depth, size, batch;
	struct perf_ctl ctl;                 /* to the peer */
	struct endpoint ep;
	struct diw_qp *spare;                /* for receives that nothing consumes */
	struct diw_cm *cm;
	struct region data;
	struct diw_send_wr send[PERF_BATCH];
	struct diw_recv_wr recv[PERF_BATCH];
	struct diw_sge sge;
	uint64_t end;                        /* of the turns */
	bool over;
	int rc;
};

/* The queue pair ends before its connection manager and its memory. */
static void post_end_close(struct endpoint *ep, struct diw_cm *cm, struct region *data)
{
	if (ep->qp)
		diw_qp_destroy(ep->qp);
	ep->qp = NULL;
	if (cm)
		diw_cm_destroy(cm);
	region_free(data);
	endpoint_close(ep);
}

/* ---- The peer ---- */

struct post_peer {
	struct endpoint ep;
	struct region target;
	struct diw_cm *cm;
	struct diw_listener *listener;
	struct diw_addr at;
};

static int peer_open(struct post_peer *e, const struct cost_plan *p, enum perf_qp qp, uint32_t size)
{
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;
	struct diw_listener_info info;
	struct diw_qp_attr qp_attr;
	int rc = endpoint_open(&e->ep, p->dev, &p->local, 16, false);

	cost_qp_attr(p, qp, &qp_attr);
	if (!rc)
		rc = endpoint_qp(&e->ep, &qp_attr);
	if (!rc)
		rc = region_alloc(&e->target, e->ep.pd, size, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE);
	e->at = e->ep.info.local;
	if (rc || !perf_is_rc(qp))
		return rc;
	attr.local = p->local;
	rc = diw_cm_create(e->ep.dev, &e->cm);
	if (!rc)
		rc = diw_listen(e->cm, &attr, &e->listener);
	if (!rc)
		rc = diw_listener_query(e->listener, &info);
	if (!rc)
		e->at = info.local;
	return rc ? tool_failed("listen: %s", strerror(-rc)) : 0;
}

static void peer_close(struct post_peer *e)
{
	if (e->listener)
		diw_listener_close(e->listener);
	post_end_close(&e->ep, e->cm, &e->target);
}

static int peer_accept(struct post_peer *e)
{
	struct diw_cm_event ev;
	int rc = diw_cm_get(e->cm, &ev, (int64_t)PERF_PATIENCE_NS);

	if (!rc && ev.type == DIW_CM_CONNECT_REQUEST)
		rc = diw_accept(ev.req, e->ep.qp, NULL);
	return rc ? tool_failed("accept: %s", strerror(-rc)) : 0;
}

/* The peer's process: the library's own thread receives, until the control connection ends. */
static int peer_serve(struct perf_ctl *ctl, const struct cost_plan *p, enum perf_qp qp, uint32_t size)
{
	struct post_peer e;
	cJSON *o;
	int rc;

	memset(&e, 0, sizeof e);
	rc = peer_open(&e, p, qp, size);
	if (!rc) {
		o = cJSON_CreateObject();
		cJSON_AddNumberToObject(o, "port", e.at.port);
		cJSON_AddNumberToObject(o, "stag", e.target.mr->stag);
		cJSON_AddNumberToObject(o, "to", (double)e.target.mr->to);
		rc = ctl_send(ctl, o);
	}
	if (!rc && perf_is_rc(qp))
		rc = peer_accept(&e);
	if (!rc)
		cJSON_Delete(ctl_recv(ctl, 3600 * (int64_t)DIW_S));
	peer_close(&e);
	return rc ? TOOL_FAILED : TOOL_OK;
}

/* ---- The measured end ---- */

static int post_connect(struct post *s, const struct diw_addr *to)
{
	struct diw_conn_attr attr = DIW_CONN_ATTR_INIT;
	struct diw_cm_event ev;
	int rc = diw_cm_create(s->ep.dev, &s->cm);

	attr.connect.local = s->plan->local;
	if (!rc)
		rc = diw_connect(s->ep.qp, s->cm, to, &attr);
	if (!rc)
		rc = diw_cm_get(s->cm, &ev, (int64_t)PERF_PATIENCE_NS);
	if (!rc && ev.type != DIW_CM_ESTABLISHED)
		rc = ev.errnum ? -ev.errnum : -EPROTO;
	return rc ? tool_failed("connect: %s", strerror(-rc)) : 0;
}

/* Requests that are made once, and posted as lists of BATCH. UD sends, RC writes: neither needs a receive. */
static void post_make_requests(struct post *s, const struct diw_addr *to, uint32_t stag, uint64_t at)
{
	bool rc_qp = perf_is_rc(s->qp);

	s->sge = (struct diw_sge){ s->data.addr, s->size, s->data.mr->stag };
	for (uint32_t i = 0; i < s->batch; i++) {
		s->send[i] = (struct diw_send_wr){ .sge = &s->sge, .num_sge = 1, .flags = DIW_SEND_SIGNALED,
			.opcode = rc_qp ? DIW_WR_WRITE : DIW_WR_SEND, .qkey = TOOL_QKEY, .dst.addr = *to,
			.stag = stag, .to = at };
		s->recv[i] = (struct diw_recv_wr){ .sge = &s->sge, .num_sge = 1 };
		if (i) {
			s->send[i - 1].next = &s->send[i];
			s->recv[i - 1].next = &s->recv[i];
		}
	}
}

static int post_open(struct post *s)
{
	struct diw_addr to = s->plan->local;
	struct diw_qp_attr attr;
	cJSON *o = ctl_recv(&s->ctl, (int64_t)PERF_PATIENCE_NS);
	int rc = o ? 0 : tool_failed("the peer has gone");

	cost_qp_attr(s->plan, s->qp, &attr);
	attr.sq_depth = attr.rq_depth = s->depth;
	to.port = (uint16_t)ctl_number(o, "port");
	if (!rc)
		rc = endpoint_open(&s->ep, s->plan->dev, &s->plan->local, 2 * s->depth, false);
	if (!rc)
		rc = endpoint_qp(&s->ep, &attr);
	if (!rc && (rc = diw_qp_create(s->ep.pd, &attr, &s->spare)) < 0)
		rc = tool_failed("queue pair: %s", strerror(-rc));
	if (!rc)
		rc = region_alloc(&s->data, s->ep.pd, s->size, DIW_ACCESS_LOCAL_WRITE);
	if (!rc) {
		memset(s->data.addr, 0x5a, s->size);
		post_make_requests(s, &to, (uint32_t)ctl_number(o, "stag"), (uint64_t)ctl_number(o, "to"));
		rc = perf_is_rc(s->qp) ? post_connect(s, &to) : 0;
	}
	cJSON_Delete(o);
	return rc;
}

static void post_close(struct post *s)
{
	if (s->spare)
		diw_qp_destroy(s->spare);
	post_end_close(&s->ep, s->cm, &s->data);
}

/* ---- Turns: what each does DEPTH times; 0 or -errno ---- */

static int turn_send(struct post *s)
{
	int rc = 0;

	for (uint32_t i = 0; i < s->depth && !rc; i += s->batch)
		rc = diw_post_send(s->ep.qp, s->send, NULL);
	return rc;
}

/* Awaits that TCP has taken what was posted: the cost of polling has no waiting in it. */
static int turn_settle(struct post *s)
{
	const struct timespec pause = { .tv_nsec = SETTLE_NS };
	struct diw_qp_info info;
	int rc;

	while (!(rc = diw_qp_query(s->ep.qp, &info)) && info.sq_pending && info.state == DIW_QPS_RTS)
		nanosleep(&pause, NULL);
	return rc;
}

static int turn_poll(struct post *s)
{
	struct diw_wc wc[PERF_BATCH];
	uint32_t taken = 0;
	int n;

	while (taken < s->depth) {
		n = diw_cq_poll(s->ep.cq, wc, (int)s->batch, 0);
		if (n < 0)
			return n;
		for (int i = 0; i < n; i++)
			if (wc[i].status != DIW_WC_SUCCESS)
				return wc[i].errnum ? -wc[i].errnum : -EIO;
		taken += (uint32_t)n;
	}
	return 0;
}

static int turn_recv(struct post *s)
{
	int rc = 0;

	for (uint32_t i = 0; i < s->depth && !rc; i += s->batch)
		rc = diw_post_recv(s->spare, s->recv, NULL);
	return rc;
}

static int turn_reset(struct post *s)
{
	return diw_qp_reset(s->spare);
}

static int turn_poll_empty(struct post *s)
{
	struct diw_wc wc[PERF_BATCH];
	int n = 0;

	for (uint32_t i = 0; i < s->depth && !n; i++)
		n = diw_cq_poll(s->ep.cq, wc, (int)s->batch, 0);
	return n > 0 ? -EIO : n;
}

/* ---- Actors ---- */

struct actor {
	const char *act;                     /* NULL: it is not measured */
	int (*turn)(struct post *s);
	struct post *s;
	sem_t begin;
	struct actor *next;
	pthread_t thread;
	struct hist each;                    /* a turn's time over its requests */
	uint64_t count, cpu_ns;
	double user_ns, user_part;           /* of the whole thread */
};

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * DIW_S + (uint64_t)t.tv_nsec;
}

static double seconds_of(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

static void actor_turn(struct actor *a)
{
	uint64_t cpu = thread_cpu_ns(), begin = diw_clock_ns(), now;
	struct post *s = a->s;
	int rc = a->turn(s);

	now = diw_clock_ns();
	a->cpu_ns += thread_cpu_ns() - cpu;
	a->count += s->depth;
	hist_add(&a->each, (now - begin) / s->depth);
	s->rc = s->rc ? s->rc : rc;
	/* Every actor has as many turns as the others: the last one decides. */
	if (rc || ((now >= s->end || tool_stopped) && a->next->count >= a->count))
		s->over = true;
}

static void *actor_run(void *arg)
{
	struct actor *a = arg;
	struct rusage ru;
	double all;

	for (;;) {
		sem_wait(&a->begin);
		if (a->s->over)
			break;
		actor_turn(a);
		sem_post(&a->next->begin);
	}
	sem_post(&a->next->begin);
	getrusage(RUSAGE_THREAD, &ru);
	a->user_ns = seconds_of(&ru.ru_utime) * 1e9;
	all = a->user_ns + seconds_of(&ru.ru_stime) * 1e9;
	a->user_part = all > 0 ? a->user_ns / all : 0;
	return NULL;
}

/* Runs the actors in turns; 0, or an error that was printed. */
static int actors_run(struct post *s, struct actor *a, int n, uint64_t ns)
{
	int started = 0, rc = 0;

	s->over = false;
	s->end = diw_clock_ns() + ns;
	for (int i = 0; i < n; i++) {
		a[i].s = s;
		a[i].next = &a[(i + 1) % n];
		sem_init(&a[i].begin, 0, 0);
	}
	for (; started < n && !rc; started += !rc)
		rc = -pthread_create(&a[started].thread, NULL, actor_run, &a[started]);
	s->over = rc;
	sem_post(&a[0].begin);
	for (int i = 0; i < started; i++)
		pthread_join(a[i].thread, NULL);
	for (int i = 0; i < n; i++)
		sem_destroy(&a[i].begin);
	rc = rc ? rc : s->rc;
	return rc ? tool_failed("post: %s", strerror(-rc)) : tool_stopped ? tool_failed("interrupted") : 0;
}

/* ---- Rows ---- */

static struct cost_row post_row(const struct post *s, const char *act)
{
	return (struct cost_row){ .test = "post", .qp = perf_qp_name[s->qp], .act = act, .depth = s->depth,
		.size = s->size, .batch = s->batch };
}

static void post_print(const struct post *s, const struct actor *a)
{
	struct cost_row r = post_row(s, a->act);

	r.user_ns = a->user_part * (double)a->cpu_ns / (double)a->count;
	r.p50_ns = hist_quantile(&a->each, 0.5);
	r.p99_ns = hist_quantile(&a->each, 0.99);
	r.mean_ns = a->each.n ? (double)a->each.sum / (double)a->each.n : 0;
	r.count = a->count;
	cost_print(s->plan, &r);
}

/* A request from its post to its completion: the user time of the whole process, the library's thread included. */
static void post_print_request(const struct post *s, const struct actor *a, double user_s)
{
	struct cost_row r = post_row(s, "request");

	r.count = a[0].count;
	r.mean_ns = (double)(a[0].each.sum + a[2].each.sum) / (double)a[0].each.n;
	r.user_ns = (user_s * 1e9 - a[1].user_ns) / (double)r.count;
	r.goal_ns = POST_GOAL_NS;
	cost_print(s->plan, &r);
}

static double user_now(void)
{
	struct rusage ru;

	getrusage(RUSAGE_SELF, &ru);
	return seconds_of(&ru.ru_utime);
}

/* The acts of one group. Requests, the first group, also have a row for all acts together. */
static int post_group(struct post *s, struct actor *a, int n, uint64_t ns, bool requests)
{
	double user = user_now();
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = cost_hists_init(&a[i].each, 1);
	if (!rc)
		rc = actors_run(s, a, n, ns);
	user = user_now() - user;
	for (int i = 0; i < n; i++) {
		if (a[i].act && !rc)
			post_print(s, &a[i]);
		hist_fini(&a[i].each);
	}
	if (requests && !rc)
		post_print_request(s, a, user);
	return rc;
}

static int post_measure(struct post *s, uint64_t ns)
{
	struct actor sends[] = { { .act = "post-send", .turn = turn_send }, { .turn = turn_settle },
		{ .act = "poll", .turn = turn_poll } };
	struct actor recvs[] = { { .act = "post-recv", .turn = turn_recv }, { .turn = turn_reset } };
	struct actor empty[] = { { .act = "poll-empty", .turn = turn_poll_empty } };
	int rc = post_group(s, sends, TOOL_COUNT(sends), ns / 2, true);

	if (!rc)
		rc = post_group(s, recvs, TOOL_COUNT(recvs), ns / 4, false);
	return rc ? rc : post_group(s, empty, TOOL_COUNT(empty), ns / 4, false);
}

/* ---- Cases ---- */

/* The peer is forked before the library has threads here. */
static int post_case(struct post *s, uint64_t ns)
{
	pid_t pid;
	int fd, rc;

	rc = perf_fork(&pid, &fd);
	if (rc)
		return rc;
	ctl_init(&s->ctl, fd);
	perf_pin(pid > 0 ? 0 : 1);
	if (!pid)
		_exit(peer_serve(&s->ctl, s->plan, s->qp, s->size));
	rc = post_open(s);
	if (!rc)
		rc = post_measure(s, ns);
	post_close(s);
	ctl_close(&s->ctl);
	perf_join(pid);
	return rc;
}

static int post_cases(const struct cost_plan *p, enum perf_qp qp, uint32_t depth, uint32_t size)
{
	uint64_t ns = (uint64_t)(p->secs * 1e9 / p->nqps / p->ndepths / p->nsizes / p->nbatches);
	int rc = 0;

	for (int b = 0; b < p->nbatches && !rc; b++) {
		struct post s = { .plan = p, .qp = qp, .size = size, .batch = (uint32_t)p->batches[b] };

		s.depth = (depth + s.batch - 1) / s.batch * s.batch;
		rc = post_case(&s, ns);
	}
	return rc;
}

int cost_post_run(const struct cost_plan *p)
{
	int rc = 0;

	for (int q = 0; q < p->nqps; q++)
		if (p->qps[q] != PERF_UD && !perf_is_rc(p->qps[q]))
			return tool_usage("post: --qp is ud, rc or rc-confirm, not %s", perf_qp_name[p->qps[q]]);
	for (int q = 0; q < p->nqps && !rc; q++)
		for (int d = 0; d < p->ndepths && !rc; d++)
			for (int s = 0; s < p->nsizes && !rc; s++)
				rc = post_cases(p, p->qps[q], (uint32_t)p->depths[d], (uint32_t)p->sizes[s]);
	return rc;
}
