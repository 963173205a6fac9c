/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters. Reading a counter makes progress for the domain's endpoints. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/nocancel.h"
#include "mpi_glue/glue.h"

static uint64_t cntr_get(struct fid_cntr *fid, bool errors, bool progress)
{
	struct glue_cntr *c = (struct glue_cntr *)fid;
	uint64_t v;

	glue_lock(c->domain);
	if (progress)
		diw_glue_progress(c->domain);
	v = errors ? c->errors : c->value;
	glue_unlock(c->domain);
	return v;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	return cntr_get(fid, false, true);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	return cntr_get(fid, true, true);
}

static void cntr_change(struct fid_cntr *fid, bool errors, bool add, uint64_t value)
{
	struct glue_cntr *c = (struct glue_cntr *)fid;
	uint64_t *v = errors ? &c->errors : &c->value;

	glue_lock(c->domain);
	*v = add ? *v + value : value;
	glue_unlock(c->domain);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	cntr_change(fid, false, true, value);
	return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	cntr_change(fid, false, false, value);
	return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	cntr_change(fid, true, true, value);
	return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	cntr_change(fid, true, false, value);
	return 0;
}

/* TIMEOUT in milliseconds; negative: no limit. An error that has come already, and is to be counted by the first look,
 * ends the wait, too. */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	uint64_t until = diw_clock_ns() + (uint64_t)timeout * DIW_MS, errors = cntr_get(fid, true, false);

	for (;;) {
		if (cntr_read(fid) >= threshold)
			return 0;
		if (cntr_readerr(fid) != errors)
			return -FI_EAVAIL;
		if (timeout >= 0 && diw_clock_ns() >= until)
			return -FI_ETIMEDOUT;
		diw_wait_poll(NULL, 0, 0);       /* the thread may be cancelled here */
	}
}

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr), .read = cntr_read, .readerr = cntr_readerr, .add = cntr_add,
	.set = cntr_set, .wait = cntr_wait, .adderr = cntr_adderr, .seterr = cntr_seterr,
};

static int cntr_close(struct fid *fid)
{
	struct glue_cntr *c = (struct glue_cntr *)fid;

	glue_lock(c->domain);
	if (c->users) {
		glue_unlock(c->domain);
		return -FI_EBUSY;
	}
	c->domain->users--;
	glue_unlock(c->domain);
	free(c);
	return 0;
}

static struct fi_ops cntr_fi_ops = {
	.size = sizeof(struct fi_ops), .close = cntr_close, .bind = diw_glue_no_bind, .control = diw_glue_no_control,
	.ops_open = diw_glue_no_ops,
};

int diw_glue_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **out, void *ctx)
{
	struct glue_cntr *c;

	if (attr->events != FI_CNTR_EVENTS_COMP || attr->flags ||
	    (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC))
		return -FI_ENOSYS;
	c = calloc(1, sizeof *c);
	if (!c)
		return -FI_ENOMEM;
	c->domain = (struct glue_domain *)domain;
	c->fid = (struct fid_cntr){ .fid = { FI_CLASS_CNTR, ctx, &cntr_fi_ops }, .ops = &cntr_ops };
	glue_lock(c->domain);
	c->domain->users++;
	glue_unlock(c->domain);
	*out = &c->fid;
	return 0;
}
