/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: those of the device, and those that this library detects. The context's async_fd is an epoll set
 * of both sources. So it is readable when either has an event, and a program may set O_NONBLOCK on it.
 *
 * An object counts its events that were fetched. It is not destroyed before they are acknowledged.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "base/fault.h"
#include "base/nocancel.h"
#include "base/restart.h"
#include "base/sys.h"
#include "verbs/of/of.h"

#define QUEUE 256
/* Those events of the device that verbs have; of_async_watch() adds those of RC. */
#define EVENTS (1u << DIW_EVENT_LAST_WQE | 1u << DIW_EVENT_SQ_DRAINED | 1u << DIW_EVENT_SRQ_LIMIT)

struct of_async {
	int fd;                      /* readable while n > 0 */
	pthread_mutex_t lock;        /* guards the fields below; taken within the context's lock, or alone */
	uint32_t head, n;
	struct ibv_async_event queue[QUEUE];
};

static int epoll_watch(int epfd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return fd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -EMFILE : 0;
}

int of_async_open(struct of_context *ctx)
{
	struct of_async *a = calloc(1, sizeof *a);
	int *fd = &ctx->v.context.async_fd;
	int rc;

	if (!a)
		return -ENOMEM;
	pthread_mutex_init(&a->lock, NULL);
	a->fd = diw_above_std(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	*fd = diw_above_std(epoll_create1(EPOLL_CLOEXEC));
	rc = *fd < 0 || epoll_watch(*fd, a->fd) < 0 || epoll_watch(*fd, diw_event_fd(ctx->dev)) < 0 ? -EMFILE : 0;
	diw_dev_set_events(ctx->dev, EVENTS);
	ctx->async = a;
	ctx->guard.locks[1] = &a->lock;
	if (rc < 0)
		of_async_close(ctx);
	return rc;
}

void of_async_close(struct of_context *ctx)
{
	if (ctx->v.context.async_fd >= 0)
		close(ctx->v.context.async_fd);
	if (ctx->async->fd >= 0)
		close(ctx->async->fd);
	pthread_mutex_destroy(&ctx->async->lock);
	free(ctx->async);
	ctx->async = NULL;
}

/* ---- Events of this library ---- */

/* If the program fetches no events, the newest are dropped, as by a kernel whose queue is full. */
static void async_put(struct of_async *a, const struct ibv_async_event *ev)
{
	if (a->n == QUEUE)
		return;
	a->queue[(a->head + a->n++) % QUEUE] = *ev;
	diw_eventfd_set(a->fd);
}

static void async_drained(struct of_async *a)
{
	if (a->n == 0)
		diw_eventfd_clear(a->fd);
}

void of_async(struct of_context *ctx, const struct ibv_async_event *ev)
{
	pthread_mutex_lock(&ctx->async->lock);
	async_put(ctx->async, ev);
	pthread_mutex_unlock(&ctx->async->lock);
}

static bool is_qp_event(enum ibv_event_type t)
{
	return t == IBV_EVENT_QP_FATAL || t == IBV_EVENT_QP_REQ_ERR || t == IBV_EVENT_QP_ACCESS_ERR ||
	       t == IBV_EVENT_COMM_EST || t == IBV_EVENT_SQ_DRAINED || t == IBV_EVENT_QP_LAST_WQE_REACHED;
}

static bool is_srq_event(enum ibv_event_type t)
{
	return t == IBV_EVENT_SRQ_ERR || t == IBV_EVENT_SRQ_LIMIT_REACHED;
}

static bool take_own(struct of_async *a, struct ibv_async_event *ev)
{
	bool got;

	pthread_mutex_lock(&a->lock);
	got = a->n > 0;
	if (got) {
		*ev = a->queue[a->head];
		a->head = (a->head + 1) % QUEUE;
		a->n--;
		async_drained(a);
	}
	pthread_mutex_unlock(&a->lock);
	return got;
}

/* ---- Events of the device ---- */

static bool is_access(uint16_t fault)
{
	switch (fault) {
	case DIW_FAULT_READ_STAG: case DIW_FAULT_READ_BOUNDS: case DIW_FAULT_ACCESS: case DIW_FAULT_READ_WRAP:
	case DIW_FAULT_INVALIDATE: case DIW_FAULT_STAG: case DIW_FAULT_BOUNDS: case DIW_FAULT_WRAP:
		return true;
	default:
		return false;
	}
}

/* Selects the errors of a queue pair for which the device raises an event. It raises none that verbs do not have, since
 * ibv_get_async_event() must not wait when the descriptor is readable. A fault of the peer that an RC queue pair finds
 * raises an event. A fault of this end, which the peer names in a Terminate message, raises one for an RNIC only (RFC
 * 5040 section 4.8). Completions report such faults, and lost connections. A fault does not end a datagram queue
 * pair. */
void of_async_watch(const struct of_qp *qp)
{
	if (qp->init.qp_type == IBV_QPT_RC)
		diw_qp_set_errors(qp->diw, qp->rnic ? DIW_RAISE_FOUND | DIW_RAISE_TOLD : DIW_RAISE_FOUND);
}

/* The queue pair is in ERR from the event on, also if it has no requests whose completions would tell so. */
static void error_event(struct of_qp *qp, struct ibv_async_event *ev)
{
	struct diw_qp_error e;

	of_qp_failed(qp->ctx, qp->qp.qp_num);
	ev->event_type = IBV_EVENT_QP_FATAL;
	while (diw_qp_error_get(qp->diw, &e) == 0)
		if (!e.remote && is_access(e.fault))
			ev->event_type = IBV_EVENT_QP_ACCESS_ERR;
}

/* Translates a device's event to verbs. False: verbs do not have it. The lock is held. An object and its events vanish
 * together, with the lock held, so the event's object exists. */
static bool event_translate(const struct diw_event *d, struct ibv_async_event *ev)
{
	switch (d->type) {
	case DIW_EVENT_QP_ERROR:
		ev->element.qp = d->ctx;
		error_event(d->ctx, ev);
		return true;
	case DIW_EVENT_LAST_WQE:
	case DIW_EVENT_SQ_DRAINED:
		ev->element.qp = d->ctx;
		ev->event_type = d->type == DIW_EVENT_LAST_WQE ? IBV_EVENT_QP_LAST_WQE_REACHED : IBV_EVENT_SQ_DRAINED;
		return true;
	case DIW_EVENT_SRQ_LIMIT:
		ev->element.srq = d->ctx;
		ev->event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
		return true;
	default:
		return false;
	}
}

/* ---- Fetching ---- */

static bool async_next(struct of_context *ctx, struct ibv_async_event *ev)
{
	struct diw_event d;
	bool got;

	pthread_mutex_lock(&ctx->lock);
	got = take_own(ctx->async, ev);
	while (!got && diw_event_get(ctx->dev, &d, 0) == 0)
		got = event_translate(&d, ev);
	if (got && is_qp_event(ev->event_type))
		of_qp(ev->element.qp)->events_taken++;
	else if (got && is_srq_event(ev->event_type))
		((struct of_srq *)ev->element.srq)->events_taken++;
	pthread_mutex_unlock(&ctx->lock);
	return got;
}

static int get_async_event(struct ibv_context *c, struct ibv_async_event *ev)
{
	struct of_context *ctx = of_context(c);
	struct pollfd p = { .fd = c->async_fd, .events = POLLIN };

	memset(ev, 0, sizeof *ev);
	pthread_testcancel();
	while (!async_next(ctx, ev)) {
		if (fcntl(c->async_fd, F_GETFL) & O_NONBLOCK) {
			errno = EAGAIN;
			return -1;
		}
		if (diw_wait_poll(&p, 1, -1) < 0 && (errno != EINTR || !diw_call_restarts()))
			return -1;
	}
	return 0;
}

static void events_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

static void ack_async_event(void *ev)
{
	ibv_ack_async_event(ev);
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *ev)
{
	const int type = diw_cancel_deferred();
	int rc = get_async_event(c, ev);

	diw_cancel_as(type, rc == 0 ? ack_async_event : NULL, ev);
	return rc;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
	struct ibv_qp *qp = ev->element.qp;
	struct ibv_srq *srq = ev->element.srq;

	if (is_qp_event(ev->event_type))
		events_ack(&qp->mutex, &qp->cond, &qp->events_completed);
	else if (is_srq_event(ev->event_type))
		events_ack(&srq->mutex, &srq->cond, &srq->events_completed);
}

/* ---- Destruction of objects ---- */

static void async_forget(struct of_context *ctx, const void *object, bool (*mine)(enum ibv_event_type))
{
	struct of_async *a = ctx->async;
	uint32_t n, at;

	pthread_mutex_lock(&a->lock);
	n = a->n;
	at = a->head;
	for (a->n = 0; n; n--, at = (at + 1) % QUEUE) {
		const struct ibv_async_event *ev = &a->queue[at];

		if (!mine(ev->event_type) || (const void *)ev->element.qp != object)
			a->queue[(a->head + a->n++) % QUEUE] = *ev;
	}
	async_drained(a);
	pthread_mutex_unlock(&a->lock);
}

static void acks_await(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, uint32_t taken)
{
	pthread_mutex_lock(mutex);
	while ((int32_t)(taken - *completed) > 0)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

void of_async_forget_qp(struct of_context *ctx, struct of_qp *qp)
{
	uint32_t taken;

	pthread_mutex_lock(&ctx->lock);
	async_forget(ctx, &qp->qp, is_qp_event);
	taken = qp->events_taken;
	pthread_mutex_unlock(&ctx->lock);
	acks_await(&qp->qp.mutex, &qp->qp.cond, &qp->qp.events_completed, taken);
}

void of_async_forget_srq(struct of_context *ctx, struct of_srq *srq)
{
	uint32_t taken;

	pthread_mutex_lock(&ctx->lock);
	async_forget(ctx, &srq->srq, is_srq_event);
	taken = srq->events_taken;
	pthread_mutex_unlock(&ctx->lock);
	acks_await(&srq->srq.mutex, &srq->srq.cond, &srq->srq.events_completed, taken);
}
