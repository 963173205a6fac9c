/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels of connection management. An event is a connection's own list node, so a channel's queue has no limit and
 * posting to it cannot fail. */
#include "verbs/cm_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"

static int add_channel(struct diw_dev *dev)
{
	int rc = diw_engine_lock(&dev->engine);

	if (rc < 0)
		return rc;
	if (diw_cm_engine_get(dev))
		dev->nchannels++;
	else
		rc = -ENOMEM;
	diw_engine_unlock(&dev->engine);
	return rc;
}

int diw_cm_create(struct diw_dev *dev, struct diw_cm **out)
{
	struct diw_cm *cm = calloc(1, sizeof *cm);
	int rc;

	if (!cm)
		return -ENOMEM;
	cm->dev = dev;
	diw_list_init(&cm->events);
	cm->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	rc = cm->fd < 0 ? -EMFILE : diw_thread_use(&dev->engine);
	if (rc == 0) {
		rc = add_channel(dev);
		if (rc < 0)
			diw_thread_unuse(&dev->engine);
	}
	if (rc < 0) {
		if (cm->fd >= 0)
			close(cm->fd);
		free(cm);
		return diw_fail(rc, "diw_cm_create");
	}
	*out = cm;
	return 0;
}

int diw_cm_destroy(struct diw_cm *cm)
{
	struct diw_dev *dev = cm->dev;
	struct diw_list *l;

	if (diw_engine_lock(&dev->engine) == 0) {
		if (cm->users) {
			diw_engine_unlock(&dev->engine);
			return diw_fail(-EBUSY, "diw_cm_destroy: a listener or a connection uses it");
		}
		while ((l = diw_list_first(&cm->events)))
			diw_cm_conn_free(diw_container(l, struct diw_cm_conn, note));
		dev->nchannels--;
		diw_engine_unlock(&dev->engine);
		diw_thread_unuse(&dev->engine);
	}
	close(cm->fd);
	free(cm);
	return 0;
}

int diw_cm_fd(const struct diw_cm *cm)
{
	return diw_engine_alive(&cm->dev->engine) ? cm->fd : -ENODEV;
}

/* ---- Events ---- */

void diw_cm_post(struct diw_cm_conn *c, enum diw_cm_event_type type)
{
	struct diw_cm *cm = c->cm;
	uint64_t one = 1;

	if (diw_list_empty(&cm->events))
		(void)!write(cm->fd, &one, sizeof one);         /* an eventfd at 0 takes it */
	c->event = (uint8_t)type;
	diw_list_add_tail(&cm->events, &c->note);
	diw_engine_wake(&cm->dev->engine, cm);
}

void diw_cm_unpost(struct diw_cm_conn *c)
{
	uint64_t drained;

	if (diw_list_empty(&c->note))
		return;
	diw_list_del(&c->note);
	if (diw_list_empty(&c->cm->events) && diw_engine_alive(&c->cm->dev->engine))
		(void)!read(c->cm->fd, &drained, sizeof drained);
}

static void fill(const struct diw_cm_conn *c, struct diw_cm_event *ev)
{
	const struct diw_cm_nego *n = c->nego;
	bool request = c->event == DIW_CM_CONNECT_REQUEST, up = c->event == DIW_CM_ESTABLISHED;
	const struct diw_listener *l = request ? c->listener : NULL;

	*ev = (struct diw_cm_event){
		.type = c->event, .qp = c->qp, .listener = (struct diw_listener *)l, .local = c->local, .peer = c->peer,
		.req = request ? diw_container((struct diw_cm_conn *)c, struct diw_conn_req, conn) : NULL,
		.ctx = l ? l->ctx : c->qp ? c->qp->ctx : NULL,
	};
	if (!request && !up) {
		ev->errnum = c->errnum;
		ev->fault = c->fault;
	}
	if (!n)
		return;
	ev->revision = n->peer.revision;
	ev->ird = request ? n->peer.ird : n->terms.ird;
	ev->ord = request ? n->peer.ord : n->terms.ord;
	ev->crc = request ? n->peer.crc : n->terms.crc;
	ev->rfc7306 = request ? n->discovered : n->terms.rfc7306;
	ev->data_len = n->peer.len;
	if (n->peer.len)
		memcpy(ev->data, n->peer.data, n->peer.len);
}

static bool take_event(struct diw_cm *cm, struct diw_cm_event *ev)
{
	struct diw_list *l = diw_list_first(&cm->events);
	struct diw_cm_conn *c;

	if (!l)
		return false;
	c = diw_container(l, struct diw_cm_conn, note);
	fill(c, ev);
	diw_cm_unpost(c);
	if (ev->type == DIW_CM_CONNECT_REQUEST) {
		c->taken = true;
	} else if (ev->type != DIW_CM_ESTABLISHED) {
		diw_cm_conn_free(c);
	} else {
		free(c->nego);
		c->nego = NULL;
		if (c->ended)
			diw_cm_post(c, DIW_CM_DISCONNECTED);
	}
	return true;
}

static bool look(struct diw_cm *cm, struct diw_cm_event *ev, uint64_t now)
{
	if (take_event(cm, ev))
		return true;
	cm->dev->cm->look_at = 0;
	diw_engine_step(&cm->dev->engine, now);
	return take_event(cm, ev);
}

static bool wait_event(struct diw_cm *cm, struct diw_cm_event *ev, uint64_t until)
{
	struct diw_dev *dev = cm->dev;
	struct diw_waiter w;
	uint64_t now;
	bool got;

	diw_waiter_init(&dev->engine, &w, cm);
	while (now = diw_engine_now(&dev->engine), !(got = look(cm, ev, now)) && now < until)
		diw_engine_sleep(&dev->engine, &w, until);
	diw_waiter_fini(&dev->engine, &w);
	return got;
}

/* A thread that only looks sleeps on the descriptor, if at all: it is none that will do the device's work. */
int diw_cm_get(struct diw_cm *cm, struct diw_cm_event *ev, int64_t timeout_ns)
{
	struct diw_dev *dev = cm->dev;
	uint64_t now;
	bool got;
	int rc = diw_engine_lock_wait(&dev->engine, timeout_ns);

	if (rc < 0)
		return rc;
	now = diw_engine_now(&dev->engine);
	got = timeout_ns ? wait_event(cm, ev, diw_until(now, timeout_ns)) : look(cm, ev, now);
	diw_engine_unlock(&dev->engine);
	return got ? 0 : -EAGAIN;
}

const char *diw_cm_event_str(int type)
{
	static const char *const names[] = {
		[DIW_CM_CONNECT_REQUEST] = "connect request", [DIW_CM_ESTABLISHED] = "established",
		[DIW_CM_REJECTED] = "rejected", [DIW_CM_FAILED] = "failed", [DIW_CM_DISCONNECTED] = "disconnected",
	};

	return type >= 0 && type < (int)(sizeof names / sizeof *names) ? names[type] : "unknown";
}

/* ---- Attributes ---- */

#define DEFAULT_TIMEOUT_NS ((int64_t)(10 * DIW_S))

void diw_conn_attr_init(struct diw_conn_attr *attr)
{
	*attr = (struct diw_conn_attr){
		.ird = 16, .ord = 16, .crc = true, .rtr = DIW_RTR_WRITE | DIW_RTR_READ,
		.timeout_ns = DEFAULT_TIMEOUT_NS,
		.revision = 2,
	};
}

void diw_listen_attr_init(struct diw_listen_attr *attr)
{
	*attr = (struct diw_listen_attr){
		.backlog = 128, .max_halfopen = 1024, .request_timeout_ns = DEFAULT_TIMEOUT_NS,
	};
}

int diw_cm_attr_check(const struct diw_conn_attr *a, bool enhanced)
{
	const unsigned kinds = DIW_RTR_FPDU | DIW_RTR_WRITE | DIW_RTR_READ;
	const uint32_t most = DIW_MAX_PRIVATE - (enhanced ? 4u : 0u);

	if (a->ird > DIW_MAX_IRD || a->ord > DIW_MAX_IRD)
		return diw_fail(-EINVAL, "connecting: ird %u, ord %u: more than %d", a->ird, a->ord, DIW_MAX_IRD);
	if (a->rtr & ~kinds)
		return diw_fail(-EINVAL, "connecting: rtr %#x: %#x is unknown", a->rtr, a->rtr & ~kinds);
	if (a->timeout_ns <= 0)
		return diw_fail(-EINVAL, "connecting: timeout_ns %lld: not positive", (long long)a->timeout_ns);
	if (a->dscp > 63)
		return diw_fail(-EINVAL, "connecting: dscp %u: more than 63", a->dscp);
	if (a->revision > 2)
		return diw_fail(-EINVAL, "connecting: revision %u: more than 2", a->revision);
	if (a->data_len && !a->data)
		return diw_fail(-EINVAL, "connecting: %u bytes of private data at NULL", a->data_len);
	if (a->data_len > most)
		return diw_fail(-EMSGSIZE, "connecting: %u bytes of private data: more than %u", a->data_len, most);
	return 0;
}

void diw_cm_ask(struct diw_cm_ask *ask, const struct diw_conn_attr *a)
{
	*ask = (struct diw_cm_ask){
		.crc = a->crc, .markers = a->markers, .plain = a->plain, .rtr = (uint8_t)a->rtr,
		.revision = a->revision, .ird = a->ird, .ord = a->ord,
	};
}

/* Asked after k seconds of silence, and twice more in k seconds each: given up after 3 k, with data under way as well.
 */
void diw_cm_stream_attr(struct diw_stream_attr *sa, const struct diw_conn_attr *a)
{
	unsigned k = a->keepalive_s < 1u << 15 ? a->keepalive_s : (1u << 15) - 1;       /* what the kernel takes */

	sa->keepalive = k != 0;
	sa->keepalive_idle = sa->keepalive_interval = k;
	sa->keepalive_count = 2;
	sa->user_timeout_ms = 3000 * k;
	sa->tos = (unsigned)a->dscp << 2;
	memcpy(sa->congestion, a->congestion, sizeof sa->congestion);
	sa->congestion[sizeof sa->congestion - 1] = '\0';
}
