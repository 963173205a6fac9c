/* SPDX-License-Identifier: BSD-2-Clause */
/* The shared memory of a device: a fixed member of its engine. */
#include "verbs/loopback.h"

#include <errno.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/log.h"
#include "llp/capture.h"
#include "llp/shm_stream.h"
#include "verbs/qp.h"

struct diw_loopback {
	struct diw_member member;
	struct diw_engine *engine;
	struct diw_shm_host host;
};

static struct diw_loopback *loopback_of(const struct diw_member *m)
{
	return diw_container((struct diw_member *)m, struct diw_loopback, member);
}

/* No datagrams are taken while a message waits for a receive. */
static bool loopback_ready(void *owner)
{
	struct diw_qp *qp = owner;

	if (diw_rdmap_is_waiting(&qp->rdmap) || !qp->link || qp->link->down)
		return false;
	diw_engine_starve(&qp->dev->engine, &qp->member);
	diw_engine_recheck(&qp->dev->engine);
	return true;
}

static void loopback_wakes(void *owner)
{
	struct diw_qp *qp = owner;

	diw_engine_starve(&qp->dev->engine, &qp->member);
	diw_engine_recheck(&qp->dev->engine);
	diw_engine_kick(&qp->dev->engine);      /* a send of a thread that does not step may have found the room */
}

/* While another thread sleeps on the descriptors, this one may take its wake-up, and need not empty the rings. */
static bool loopback_serve(struct diw_member *m, uint64_t now)
{
	struct diw_loopback *l = loopback_of(m);
	bool led = diw_engine_is_led(l->engine);
	bool any = diw_shm_host_serve(&l->host, led, !l->engine->epoll_on, now);

	if (any && led)
		diw_engine_kick(l->engine);
	return any;
}

/* A pair that a send has asked for is made at once. */
static uint64_t loopback_deadline(const struct diw_member *m, bool waiting)
{
	(void)waiting;
	return loopback_of(m)->host.look_at ? DIW_NEVER : 0;
}

static int loopback_fds(const struct diw_member *m, struct pollfd *p)
{
	p[0] = (struct pollfd){ .fd = loopback_of(m)->host.epfd, .events = POLLIN };
	return 1;
}

static void loopback_rest(struct diw_member *m)
{
	struct diw_loopback *l = loopback_of(m);

	if (diw_shm_host_rest(&l->host))
		diw_engine_kick(l->engine);
}

static const struct diw_member_ops loopback_ops = {
	.serve = loopback_serve, .deadline = loopback_deadline, .fds = loopback_fds, .rest = loopback_rest,
};

static bool wants_memory(void)
{
	static const char *const words[] = { "wire", "memory", NULL };

	return diw_env_word("DIWARP_LOOPBACK", words, 0, 0) == 1;
}

int diw_loopback_init(struct diw_dev *dev)
{
	struct diw_loopback *l;
	int rc;

	if (!wants_memory())
		return 0;
	l = calloc(1, sizeof *l);
	if (!l)
		return -ENOMEM;
	rc = diw_shm_host_open(&l->host);
	if (rc < 0) {
		free(l);
		return rc;
	}
	l->host.ready = loopback_ready;
	l->host.wakes = loopback_wakes;
	l->engine = &dev->engine;
	l->member.ops = &loopback_ops;
	dev->loopback = l;
	diw_engine_add_fixed(&dev->engine, &l->member);
	return 0;
}

void diw_loopback_fini(struct diw_dev *dev)
{
	if (!dev->loopback)
		return;
	diw_shm_host_close(&dev->loopback->host);
	free(dev->loopback);
}

void diw_loopback_wrap(struct diw_qp *qp, struct diw_dgram **d)
{
	if (!qp->dev->loopback || diw_capture_path())
		return;
	if (diw_shm_open(&qp->dev->loopback->host, qp, *d, d) == 0)
		qp->memory = *d;
	else
		diw_log(DIW_LOG_WARN, "diw_qp_create: no memory; a queue pair uses the wire alone");
}

void diw_loopback_stream(struct diw_qp *qp, bool initiator, struct diw_stream **s)
{
	if (!qp->dev->loopback || diw_capture_path())
		return;
	if (initiator)
		diw_shm_stream_join(&qp->dev->loopback->host, qp, qp->c, s);
	else
		diw_shm_stream_offer(&qp->dev->loopback->host, qp, qp->c, s);
}
