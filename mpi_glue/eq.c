/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues. The provider has no events of its own, since insertions of addresses are complete when the call
 * returns. Events that an application writes are returned to it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/nocancel.h"
#include "mpi_glue/glue.h"

#define EQ_EVENTS 64u
#define EQ_BYTES 128u

struct glue_eq {
	struct fid_eq fid;
	struct fid_fabric *fabric;
	uint32_t users;                  /* endpoints and address vectors; atomic */
	pthread_mutex_t lock;
	sem_t written;                   /* posted for each event: a call that sleeps looks again */
	uint32_t first, count;
	struct { uint32_t event; size_t len; uint8_t data[EQ_BYTES]; } slot[EQ_EVENTS];
};

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct glue_eq *q = (struct glue_eq *)fid;
	ssize_t rc = -FI_EAGAIN;

	pthread_mutex_lock(&q->lock);
	if (q->count) {
		rc = q->slot[q->first].len > len ? -FI_ETOOSMALL : (ssize_t)q->slot[q->first].len;
		*event = q->slot[q->first].event;
		if (rc >= 0)
			memcpy(buf, q->slot[q->first].data, (size_t)rc);
		if (rc >= 0 && !(flags & FI_PEEK)) {
			q->first = (q->first + 1) % EQ_EVENTS;
			q->count--;
		}
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	(void)fid, (void)buf, (void)flags;
	return -FI_EAGAIN;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	struct glue_eq *q = (struct glue_eq *)fid;
	ssize_t rc = -FI_EAGAIN;

	(void)flags;
	if (len > EQ_BYTES)
		return -FI_EINVAL;
	pthread_mutex_lock(&q->lock);
	if (q->count < EQ_EVENTS) {
		uint32_t at = (q->first + q->count++) % EQ_EVENTS;

		q->slot[at].event = event;
		q->slot[at].len = len;
		memcpy(q->slot[at].data, buf, len);
		rc = (ssize_t)len;
		sem_post(&q->written);
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
	struct glue_eq *q = (struct glue_eq *)fid;
	uint64_t until = diw_clock_ns() + (uint64_t)timeout * DIW_MS;
	const struct timespec end = { (time_t)(until / DIW_S), (long)(until % DIW_S) };
	ssize_t rc;

	do
		rc = eq_read(fid, event, buf, len, flags);
	while (rc == -FI_EAGAIN && diw_wait_sem(&q->written, timeout < 0 ? NULL : &end) == 0);
	return rc;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *data, char *buf, size_t len)
{
	(void)fid, (void)data, (void)buf, (void)len;
	return fi_strerror(prov_errno);
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq), .read = eq_read, .readerr = eq_readerr, .write = eq_write, .sread = eq_sread,
	.strerror = eq_strerror,
};

void diw_glue_eq_use(struct fid *eq)
{
	__atomic_add_fetch(&((struct glue_eq *)eq)->users, 1, __ATOMIC_RELAXED);
}

void diw_glue_eq_unuse(struct fid *eq)
{
	if (eq)
		__atomic_sub_fetch(&((struct glue_eq *)eq)->users, 1, __ATOMIC_RELEASE);
}

static int eq_close(struct fid *fid)
{
	struct glue_eq *q = (struct glue_eq *)fid;

	if (__atomic_load_n(&q->users, __ATOMIC_ACQUIRE))
		return -FI_EBUSY;
	diw_glue_fabric_unuse(q->fabric);
	sem_destroy(&q->written);
	pthread_mutex_destroy(&q->lock);
	free(q);
	return 0;
}

static struct fi_ops eq_fi_ops = {
	.size = sizeof(struct fi_ops), .close = eq_close, .bind = diw_glue_no_bind, .control = diw_glue_no_control,
	.ops_open = diw_glue_no_ops,
};

int diw_glue_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out, void *ctx)
{
	struct glue_eq *q;

	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC)
		return -FI_ENOSYS;
	q = calloc(1, sizeof *q);
	if (!q)
		return -FI_ENOMEM;
	q->fabric = fabric;
	diw_glue_fabric_use(fabric);
	pthread_mutex_init(&q->lock, NULL);
	sem_init(&q->written, 0, 0);
	q->fid = (struct fid_eq){ .fid = { FI_CLASS_EQ, ctx, &eq_fi_ops }, .ops = &eq_ops };
	*out = &q->fid;
	return 0;
}
