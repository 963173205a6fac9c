/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels of connection management: opened, closed, read. */
#include "verbs/cm/int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"

static int add_channel(struct diw_dev *dev)
{
	int rc = diw_engine_lock(&dev->engine);

	if (rc < 0)
		return rc;
	if (diw_cm_engine_get(dev))
		dev->nchannels++;
	else
		rc = -errno;                    /* no memory, or no descriptor */
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
	cm->fd = diw_above_std(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
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
	diw_engine_close_fd(&dev->engine, cm->fd);
	free(cm);
	return 0;
}

int diw_cm_fd(const struct diw_cm *cm)
{
	return diw_engine_alive(&cm->dev->engine) ? cm->fd : -ENODEV;
}

/* ---- Events ---- */

static void event_fill(const struct diw_cm_conn *c, struct diw_cm_event *ev)
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
	ev->rfc7306 = request ? n->takes.rfc7306 : n->terms.rfc7306;
	ev->data_len = n->peer.len;
	if (n->peer.len)
		memcpy(ev->data, n->peer.data, n->peer.len);
}

static bool cm_take_event(struct diw_cm *cm, struct diw_cm_event *ev)
{
	struct diw_list *l = diw_list_first(&cm->events);
	struct diw_cm_conn *c;

	if (!l)
		return false;
	c = diw_container(l, struct diw_cm_conn, note);
	event_fill(c, ev);
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

static bool event_look(struct diw_cm *cm, struct diw_cm_event *ev, uint64_t now)
{
	if (cm_take_event(cm, ev))
		return true;
	cm->dev->cm->look_at = 0;
	diw_engine_step(&cm->dev->engine, now);
	return cm_take_event(cm, ev);
}

static bool wait_event(struct diw_cm *cm, struct diw_cm_event *ev, uint64_t until)
{
	struct diw_dev *dev = cm->dev;
	struct diw_waiter w;
	uint64_t now;
	bool got;

	diw_waiter_init(&dev->engine, &w, cm);
	while (now = diw_engine_now(&dev->engine), !(got = event_look(cm, ev, now)) && now < until)
		diw_engine_sleep(&dev->engine, &w, until);
	diw_waiter_fini(&dev->engine, &w);
	return got;
}

/* With timeout 0 the call runs the device's step, but does not sleep, so it needs no waiter. */
int diw_cm_get(struct diw_cm *cm, struct diw_cm_event *ev, int64_t timeout_ns)
{
	struct diw_dev *dev = cm->dev;
	uint64_t now;
	bool got;
	int rc = diw_engine_lock_wait(&dev->engine, timeout_ns);

	if (rc < 0)
		return rc;
	now = diw_engine_now(&dev->engine);
	got = timeout_ns ? wait_event(cm, ev, diw_until(now, timeout_ns)) : event_look(cm, ev, now);
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
