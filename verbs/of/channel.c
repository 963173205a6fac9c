/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels. Their descriptor is the native channel's. */
#include <fcntl.h>
#include <stdlib.h>

#include "base/nocancel.h"
#include "base/restart.h"
#include "verbs/of/of.h"

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct of_channel *ch = calloc(1, sizeof *ch);
	int rc = ch ? diw_channel_create(of_context(c)->dev, &ch->diw) : -ENOMEM;

	if (rc < 0) {
		free(ch);
		return of_null(-rc);
	}
	ch->ch.context = c;
	ch->ch.fd = diw_channel_fd(ch->diw);
	/* Blocking until the program changes that: the native channel's descriptor is non-blocking. */
	fcntl(ch->ch.fd, F_SETFL, fcntl(ch->ch.fd, F_GETFL) & ~O_NONBLOCK);
	return &ch->ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct of_channel *ch = (struct of_channel *)ibv;
	int rc = diw_channel_destroy(ch->diw);

	if (rc < 0)
		return -rc;
	free(ch);
	return 0;
}

/* A queue that has an event which is not acknowledged is not destroyed. */
static int get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **out, void **ctx)
{
	struct of_channel *ch = (struct of_channel *)ibv;
	bool nonblock = fcntl(ibv->fd, F_GETFL) & O_NONBLOCK;
	struct diw_cq *diw;
	int rc;

	do
		rc = diw_channel_get(ch->diw, &diw, nonblock ? 0 : -1);
	while (rc == -EINTR && diw_call_restarts());
	if (rc < 0) {
		errno = -rc;
		return -1;
	}
	*out = diw_cq_ctx(diw);
	*ctx = (*out)->cq_context;
	return 0;
}

static void ack_cq_event(void *cq)
{
	ibv_ack_cq_events(cq, 1);
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **out, void **ctx)
{
	const int type = diw_cancel_deferred();
	int rc = get_cq_event(ibv, out, ctx);

	diw_cancel_as(type, rc == 0 ? ack_cq_event : NULL, rc == 0 ? *out : NULL);
	return rc;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

void of_cq_await(struct of_cq *cq, uint32_t taken)
{
	pthread_mutex_lock(&cq->cq.mutex);
	while ((int32_t)(taken - cq->cq.comp_events_completed) > 0)
		pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
	pthread_mutex_unlock(&cq->cq.mutex);
}
