/* SPDX-License-Identifier: BSD-2-Clause */
/* Event channels. The descriptor is an eventfd with the value 1 while there is an event. So it is readable only then,
 * and a program may set O_NONBLOCK on it. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "base/nocancel.h"
#include "base/restart.h"
#include "base/sys.h"
#include "verbs/cma/cma.h"

/* A thread that destroys an identifier, and has itself fetched an event of it, waits this long for another thread to
 * acknowledge the event. */
#define OWN_EVENT_S 1

struct channel {
	struct rdma_event_channel ch;        /* must be first */
	struct diw_list events;
};

static pthread_cond_t acked = PTHREAD_COND_INITIALIZER;

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	c->ch.fd = diw_above_std(eventfd(0, EFD_CLOEXEC));
	if (c->ch.fd < 0) {
		free(c);
		return NULL;
	}
	diw_list_init(&c->events);
	return &c->ch;
}

/* ---- Posting ---- */

struct cma_event *cma_event_new(struct cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct cma_event *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	e->ev.id = &id->id;
	e->ev.event = type;
	e->ev.status = status;
	e->owner = id;
	diw_list_init(&e->link);
	return e;
}

/* The private data is at the same place in both kinds of parameters. */
_Static_assert(offsetof(struct rdma_conn_param, private_data) == offsetof(struct rdma_ud_param, private_data) &&
	       offsetof(struct rdma_conn_param, private_data_len) == offsetof(struct rdma_ud_param, private_data_len),
	       "private data");

void cma_event_data(struct cma_event *e, const void *data, uint32_t len)
{
	if (len > CMA_DATA)
		len = CMA_DATA;
	if (len)
		memcpy(e->data, data, len);
	e->ev.param.conn.private_data = len ? e->data : NULL;
	e->ev.param.conn.private_data_len = (uint8_t)len;
}

static void event_put(struct channel *c, struct cma_event *e)
{
	diw_eventfd_set(c->ch.fd);
	diw_list_add_tail(&c->events, &e->link);
}

static void unlink_event(struct channel *c, struct cma_event *e)
{
	diw_list_del(&e->link);
	if (diw_list_empty(&c->events))
		diw_eventfd_clear(c->ch.fd);
}

void cma_event_post(struct cma_event *e)
{
	if (e->owner->dying || !e->owner->id.channel)
		free(e);
	else
		event_put((struct channel *)e->owner->id.channel, e);
}

void cma_post(struct cma_id *id, enum rdma_cm_event_type type, int status)
{
	struct cma_event *e = cma_event_new(id, type, status);

	if (e)
		cma_event_post(e);
}

/* ---- Fetching ---- */

static void event_count(struct cma_count *n)
{
	n->taken++;
	n->taker = pthread_self();
}

/* The event is not counted as queued any more. */
static void event_uncount(const struct cma_event *e)
{
	if (e->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		e->owner->queued--;
	else if (e->ev.event == RDMA_CM_EVENT_ADDR_CHANGE)
		e->owner->hinted = false;
}

static struct cma_event *event_take(struct channel *c)
{
	struct diw_list *l = diw_list_first(&c->events);
	struct cma_event *e;

	if (!l)
		return NULL;
	e = diw_container(l, struct cma_event, link);
	unlink_event(c, e);
	event_count(&e->owner->events);
	if (e->more)
		event_count(e->more);
	event_uncount(e);
	if (e->ev.event == RDMA_CM_EVENT_MULTICAST_JOIN)
		cma_group_attach(e);
	return e;
}

static int get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct pollfd p = { .events = POLLIN };
	struct cma_event *e;

	if (!channel || !event)
		return cma_result(EINVAL);
	p.fd = channel->fd;
	pthread_testcancel();
	for (;;) {
		cma_enter();
		e = event_take((struct channel *)channel);
		cma_leave();
		if (e)
			break;
		if (fcntl(channel->fd, F_GETFL) & O_NONBLOCK)
			return cma_result(EAGAIN);
		if (diw_wait_poll(&p, 1, -1) < 0 && (errno != EINTR || !diw_call_restarts()))
			return -1;
	}
	*event = &e->ev;
	return 0;
}

static void ack_cm_event(void *event)
{
	rdma_ack_cm_event(event);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	const int type = diw_cancel_deferred();
	int rc = get_cm_event(channel, event);

	diw_cancel_as(type, rc == 0 ? ack_cm_event : NULL, rc == 0 ? *event : NULL);
	return rc;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct cma_event *e = (struct cma_event *)event;

	if (!event)
		return cma_result(EINVAL);
	cma_enter();
	e->owner->events.acked++;
	if (e->more)
		e->more->acked++;
	pthread_cond_broadcast(&acked);
	cma_leave();
	free(e);
	return 0;
}

int cma_event_errno(const struct rdma_cm_event *ev)
{
	switch ((int)ev->event) {
	case CMA_EVENT_ADDRINFO_ERROR:
		return ev->status < 0 ? -ev->status : EINVAL;
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return ENODEV;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
		return ev->status < 0 ? -ev->status : ECONNABORTED;
	default:
		return 0;
	}
}

void cma_own_event_drop(struct cma_id *id)
{
	if (id->id.event)
		rdma_ack_cm_event(id->id.event);
	id->id.event = NULL;
}

int cma_complete(struct cma_id *id)
{
	if (!id->sync)
		return 0;
	cma_own_event_drop(id);
	if (rdma_get_cm_event(id->id.channel, &id->id.event))
		return -1;
	return cma_result(cma_event_errno(id->id.event));
}

/* ---- Destruction of identifiers ---- */

/* Drops an event with its child, which no other thread knows. */
static void event_drop(struct cma_event *e)
{
	struct cma_id *child = e->ev.id == &e->owner->id ? NULL : cma_id(e->ev.id);

	event_uncount(e);
	free(e);
	if (child)
		cma_id_free(child);
}

/* The search restarts after each event: with a child, the events of the child are dropped, too. */
void cma_events_forget(struct cma_id *id, const struct cma_count *more)
{
	struct channel *c = (struct channel *)id->id.channel;
	struct diw_list *l, *next;
	bool found = c;

	while (found) {
		found = false;
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the search restarts after each freed event */
		diw_list_for_each_safe(l, next, &c->events) {
			struct cma_event *e = diw_container(l, struct cma_event, link);

			if (e->owner != id || (more && e->more != more))
				continue;
			unlink_event(c, e);
			event_drop(e);
			found = true;
			break;
		}
	}
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct channel *c = (struct channel *)channel;
	struct diw_list *l;

	if (!c)
		return;
	cma_enter();
	while ((l = diw_list_first(&c->events)))
		cma_events_forget(diw_container(l, struct cma_event, link)->owner, NULL);
	/* its identifiers may live on, without events */
	for (l = cma_ids.next; l != &cma_ids; l = l->next)
		if (diw_container(l, struct cma_id, link)->id.channel == channel)
			diw_container(l, struct cma_id, link)->id.channel = NULL;
	cma_leave();
	close(c->ch.fd);
	free(c);
}

int cma_events_await(const struct cma_count *events)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += OWN_EVENT_S;
	while (events->acked != events->taken) {
		if (!pthread_equal(events->taker, pthread_self()))
			pthread_cond_wait(&acked, &cma_lock);
		else if (pthread_cond_timedwait(&acked, &cma_lock, &until) == ETIMEDOUT)
			return EDEADLK;
	}
	return 0;
}

static void events_move(struct cma_id *id, struct rdma_event_channel *to)
{
	struct channel *from = (struct channel *)id->id.channel;
	struct diw_list *l, *next;

	id->id.channel = to;
	if (!from || &from->ch == to)
		return;
	diw_list_for_each_safe(l, next, &from->events) {
		struct cma_event *e = diw_container(l, struct cma_event, link);

		if (e->owner != id)
			continue;
		unlink_event(from, e);
		event_put((struct channel *)to, e);
	}
}

/* Moves the identifier of a queued request, which the program does not know yet. -1: its listener is sync, and there is
 * no descriptor for a channel of its own. */
static int child_move(struct cma_id *child, const struct cma_id *listener)
{
	struct rdma_event_channel *own = child->sync ? child->id.channel : NULL;
	struct rdma_event_channel *to = listener->sync ? rdma_create_event_channel() : listener->id.channel;

	if (!to)
		return -1;
	events_move(child, to);
	child->sync = listener->sync;
	if (own) {
		close(own->fd);
		free(own);
	}
	return 0;
}

/* A child that cannot be moved is refused: it must not stay on a channel that the program may destroy. Other events are
 * behind those of ID, so the list can change there. */
void cma_events_move(struct cma_id *id, struct rdma_event_channel *to, bool sync)
{
	struct channel *c = (struct channel *)to;
	struct diw_list *l, *next;

	events_move(id, to);
	id->sync = sync;
	diw_list_for_each_safe(l, next, &c->events) {
		struct cma_event *e = diw_container(l, struct cma_event, link);

		if (e->owner != id || e->ev.id == &id->id || child_move(cma_id(e->ev.id), id) == 0)
			continue;
		unlink_event(c, e);
		event_drop(e);
	}
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAME(type) [type] = #type
	static const char *const names[] = {
		NAME(RDMA_CM_EVENT_ADDR_RESOLVED), NAME(RDMA_CM_EVENT_ADDR_ERROR), NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),
		NAME(RDMA_CM_EVENT_ROUTE_ERROR), NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
		NAME(RDMA_CM_EVENT_CONNECT_RESPONSE), NAME(RDMA_CM_EVENT_CONNECT_ERROR),
		NAME(RDMA_CM_EVENT_UNREACHABLE), NAME(RDMA_CM_EVENT_REJECTED), NAME(RDMA_CM_EVENT_ESTABLISHED),
		NAME(RDMA_CM_EVENT_DISCONNECTED), NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
		NAME(RDMA_CM_EVENT_MULTICAST_JOIN), NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
		NAME(RDMA_CM_EVENT_ADDR_CHANGE), NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
		[CMA_EVENT_ADDRINFO_RESOLVED] = "RDMA_CM_EVENT_ADDRINFO_RESOLVED",
		[CMA_EVENT_ADDRINFO_ERROR] = "RDMA_CM_EVENT_ADDRINFO_ERROR",
		[CMA_EVENT_USER] = "RDMA_CM_EVENT_USER",
	};
#undef NAME
	return (unsigned)event < sizeof names / sizeof *names ? names[event] : "UNKNOWN EVENT";
}
