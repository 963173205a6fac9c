/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: a list of completed operations, so a queue never overruns. Reading a queue makes progress for the
 * domain's endpoints. A queue with a wait object has one descriptor, which is readable when the queue may have
 * something to read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/eventfd.h"
#include "base/nocancel.h"
#include "base/sys.h"
#include "mpi_glue/glue.h"

#define CQ_LOOK DIW_S                    /* the longest sleep of a program that waits for operations */
#define CQ_AGAIN (5 * DIW_US)            /* a call so soon after one that read something asks whether that was all */

static const size_t cq_entry_size[] = {
	[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry), [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
	[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
	[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
};

/* Each format is a prefix of the longest one, which is a prefix of an error's entry. */
_Static_assert(offsetof(struct fi_cq_err_entry, tag) == offsetof(struct fi_cq_tagged_entry, tag) &&
	       offsetof(struct fi_cq_err_entry, data) == offsetof(struct fi_cq_data_entry, data) &&
	       offsetof(struct fi_cq_err_entry, len) == offsetof(struct fi_cq_msg_entry, len), "formats are prefixes");

void diw_glue_cq_push(struct glue_cq *cq, struct glue_op *op)
{
	if (!cq->domain->forked && diw_list_empty(&cq->ready) && !diw_eventfd_set(cq->wake))
		GLUE_LOG("a completion queue's descriptors were closed by the program\n");
	diw_list_add_tail(&cq->ready, &op->link);
}

static struct glue_op *cq_first(const struct glue_cq *cq)
{
	struct diw_list *n = diw_list_first(&cq->ready);

	return n ? diw_container(n, struct glue_op, link) : NULL;
}

static void cq_pop(struct glue_op *op)
{
	diw_list_del(&op->link);
	diw_glue_op_put(op);
}

/* Programs read a queue until it is empty, and then act on what they read (OpenMPI's mtl/ofi). So the call behind one
 * that read something does not look at the sockets. A call for no entry asks for progress alone. */
static void cq_progress(struct glue_cq *cq, size_t count)
{
	if (count && cq->read_at && diw_clock_ns() - cq->read_at < CQ_AGAIN)
		cq->read_at = 0;
	else
		diw_glue_progress(cq->domain);
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct glue_cq *cq = (struct glue_cq *)fid;
	size_t size = cq_entry_size[cq->format];
	uint8_t *to = buf;
	struct glue_op *op;
	ssize_t n = 0;

	glue_lock(cq->domain);
	if (count == 0 || diw_list_empty(&cq->ready))
		cq_progress(cq, count);
	while ((size_t)n < count && (op = cq_first(cq)) && !op->entry.err) {
		memcpy(to + (size_t)n * size, &op->entry, size);
		if (src)
			src[n] = op->source;
		n++;
		cq_pop(op);
	}
	op = cq_first(cq);
	cq->read_at = n ? diw_clock_ns() : 0;
	glue_unlock(cq->domain);
	return n ? n : op && op->entry.err ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

/* The provider has no data about errors: none goes into a buffer of the application, nor is there one of its own. */
static void cq_no_data(const struct glue_cq *cq, struct fi_cq_err_entry *e)
{
	if (FI_VERSION_LT(cq->domain->fabric->fid.api_version, FI_VERSION(1, 5))) {
		e->err_data = NULL;      /* such a program has no room behind it */
		return;
	}
	if (e->err_data_size == 0)
		e->err_data = NULL;
	e->err_data_size = 0;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *e, uint64_t flags)
{
	struct glue_cq *cq = (struct glue_cq *)fid;
	struct glue_op *op;
	ssize_t rc = -FI_EAGAIN;

	(void)flags;
	glue_lock(cq->domain);
	op = cq_first(cq);
	if (op && op->entry.err) {
		memcpy(e, &op->entry, offsetof(struct fi_cq_err_entry, err_data));
		cq_no_data(cq, e);
		cq_pop(op);
		rc = 1;
	}
	glue_unlock(cq->domain);
	return rc;
}

/* False: the program has closed the descriptors. Only a queue that could not be opened has some of them. */
static bool cq_has_fds(const struct glue_cq *cq)
{
	return cq->timer < 0 || diw_epoll_has_own(cq->epoll, cq->wake);
}

/* While there are operations, a program that sleeps looks once in a sweep of alive.c. */
static void cq_set_timer(struct glue_cq *cq)
{
	bool waits = cq->domain->ops.used;
	const struct itimerspec in = { .it_value.tv_sec = waits ? CQ_LOOK / DIW_S : 0 };
	uint64_t now = diw_clock_ns();

	if (now < cq->timer_at || (!waits && !cq->timer_at))
		return;
	cq->timer_at = waits ? now + CQ_LOOK : 0;
	if (cq_has_fds(cq) && timerfd_settime(cq->timer, 0, &in, NULL) < 0)
		GLUE_LOG("timerfd: %s\n", strerror(errno));
}

/* 0: the descriptor becomes readable for the next completion. -FI_EAGAIN: there is a completion, or a signal. */
static int cq_arm_wait(struct glue_cq *cq)
{
	int rc = 0;

	if (cq->epoll < 0)
		return -FI_EINVAL;
	glue_lock(cq->domain);
	diw_glue_progress(cq->domain);
	diw_glue_alive_finish(cq->domain);
	if (diw_list_empty(&cq->ready))  /* otherwise another thread may still have to wake */
		diw_eventfd_clear(cq->wake);
	cq_set_timer(cq);
	for (struct diw_list *n = cq->domain->eps.next; n != &cq->domain->eps; n = n->next) {
		struct glue_ep *ep = diw_container(n, struct glue_ep, link);

		if (ep->channel && ep->enabled)
			diw_glue_port_arm(ep);
	}
	if (!diw_list_empty(&cq->ready) || __atomic_load_n(&cq->signalled, __ATOMIC_ACQUIRE))
		rc = -FI_EAGAIN;
	glue_unlock(cq->domain);
	return rc;
}

int diw_glue_cq_trywait(struct glue_cq *cq)
{
	int rc = cq_arm_wait(cq);

	if (rc == -FI_EAGAIN)            /* the program looks: fi_cq_signal() has done its work */
		__atomic_store_n(&cq->signalled, false, __ATOMIC_RELEASE);
	return rc;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src, const void *cond, int timeout)
{
	struct glue_cq *cq = (struct glue_cq *)fid;
	uint64_t until = diw_clock_ns() + (uint64_t)timeout * DIW_MS, now;
	struct pollfd sleep = { .fd = cq->epoll, .events = POLLIN };
	ssize_t rc;

	(void)cond;
	if (cq->epoll < 0)
		return -FI_ENOSYS;
	for (;;) {
		rc = cq_readfrom(fid, buf, count, src);
		now = diw_clock_ns();
		if (rc != -FI_EAGAIN || (timeout >= 0 && now >= until) ||
		    __atomic_exchange_n(&cq->signalled, false, __ATOMIC_ACQ_REL))
			return rc;
		if (cq_arm_wait(cq) != 0)
			continue;
		if (diw_wait_poll(&sleep, 1, timeout < 0 ? -1 : (int)((until - now) / DIW_MS) + 1) < 0)
			return errno == EINTR ? -FI_EAGAIN : -errno;
	}
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct glue_cq *cq = (struct glue_cq *)fid;

	if (cq->wake < 0)
		return -FI_ENOSYS;
	__atomic_store_n(&cq->signalled, true, __ATOMIC_RELEASE);
	return diw_eventfd_set(cq->wake) ? 0 : -FI_EBADF;
}

/* PROV_ERRNO: a status of the link, or a negative errno of libfabric where the link has none. */
static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *data, char *buf, size_t len)
{
	const char *text = prov_errno < 0 ? fi_strerror(-prov_errno) : diw_wc_status_str(prov_errno);

	(void)fid, (void)data;
	if (!buf || len == 0)
		return text;
	snprintf(buf, len, "%s", text);
	return buf;
}

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq), .read = cq_read, .readfrom = cq_readfrom, .readerr = cq_readerr,
	.sread = cq_sread, .sreadfrom = cq_sreadfrom, .signal = cq_signal, .strerror = cq_strerror,
};

static void cq_delete(struct glue_cq *cq)
{
	int fds[] = { cq->timer, cq->wake, cq->epoll };
	bool own = cq_has_fds(cq);

	for (size_t i = 0; own && i < sizeof fds / sizeof *fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(cq);
}

static int cq_close(struct fid *fid)
{
	struct glue_cq *cq = (struct glue_cq *)fid;
	struct glue_op *op;

	glue_lock(cq->domain);
	if (cq->users) {
		glue_unlock(cq->domain);
		return -FI_EBUSY;
	}
	while ((op = cq_first(cq)))
		cq_pop(op);
	cq->domain->users--;
	glue_unlock(cq->domain);
	cq_delete(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct glue_cq *cq = (struct glue_cq *)fid;

	if (cq->epoll < 0)
		return -FI_ENODATA;
	if (command == FI_GETWAIT)
		*(int *)arg = cq->epoll;
	else if (command == FI_GETWAITOBJ)
		*(enum fi_wait_obj *)arg = FI_WAIT_FD;
	else
		return -FI_ENOSYS;
	return 0;
}

static struct fi_ops cq_fi_ops = {
	.size = sizeof(struct fi_ops), .close = cq_close, .bind = diw_glue_no_bind, .control = cq_control,
	.ops_open = diw_glue_no_ops,
};

int diw_glue_cq_watch(struct glue_cq *cq, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(cq->epoll, EPOLL_CTL_ADD, fd, &ev) < 0 && errno != EEXIST ? -errno : 0;
}

static int cq_open_wait(struct glue_cq *cq)
{
	int rc;

	cq->epoll = diw_above_std(epoll_create1(EPOLL_CLOEXEC));
	cq->wake = cq->epoll < 0 ? -1 : diw_above_std(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	rc = cq->wake < 0 ? -errno : diw_glue_cq_watch(cq, cq->wake);
	if (rc < 0)
		return rc;
	cq->timer = diw_above_std(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	return cq->timer < 0 ? -errno : diw_glue_cq_watch(cq, cq->timer);
}

int diw_glue_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **out, void *ctx)
{
	struct glue_cq *cq;
	int rc = 0;

	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC && attr->wait_obj != FI_WAIT_FD)
		return -FI_ENOSYS;
	if ((size_t)attr->format >= sizeof cq_entry_size / sizeof *cq_entry_size)
		return -FI_EINVAL;
	cq = calloc(1, sizeof *cq);
	if (!cq)
		return -FI_ENOMEM;
	cq->domain = (struct glue_domain *)domain;
	cq->epoll = cq->wake = cq->timer = -1;
	cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
	diw_list_init(&cq->ready);
	if (attr->wait_obj != FI_WAIT_NONE)
		rc = cq_open_wait(cq);
	if (rc < 0) {
		cq_delete(cq);
		return rc;
	}
	cq->fid = (struct fid_cq){ .fid = { FI_CLASS_CQ, ctx, &cq_fi_ops }, .ops = &cq_ops };
	glue_lock(cq->domain);
	cq->domain->users++;
	glue_unlock(cq->domain);
	*out = &cq->fid;
	return 0;
}
