/* SPDX-License-Identifier: BSD-2-Clause */
/* The objects that most commands need: device, protection domain, completion queue, queue pair, region. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/tool.h"

static int open_device(struct endpoint *e, const char *dev, const struct diw_addr *dst, enum diw_llp llp)
{
	const struct diw_dev_attr attr = { .llp = llp };
	char buf[DIW_ADDR_STRLEN];
	bool route = !dev && dst;
	int rc = route ? diw_dev_open_route(dst, &attr, &e->dev) : diw_dev_open(dev, &attr, &e->dev);

	if (!rc)
		return 0;
	return route ? tool_failed("no device reaches %s: %s", diw_addr_str(dst, buf), strerror(-rc)) :
		       tool_failed("device %s: %s", dev ? dev : "(any)", strerror(-rc));
}

int endpoint_open(struct endpoint *e, const char *dev, const struct diw_addr *dst, uint32_t cq_depth, bool channel)
{
	return endpoint_open_over(e, dev, dst, cq_depth, channel, DIW_LLP_DEFAULT);
}

int endpoint_open_over(struct endpoint *e, const char *dev, const struct diw_addr *dst, uint32_t cq_depth, bool channel,
		       enum diw_llp llp)
{
	int rc;

	memset(e, 0, sizeof *e);
	rc = open_device(e, dev, dst, llp);
	if (rc)
		return rc;
	rc = diw_dev_query(e->dev, &e->dev_info);
	if (!rc && llp == DIW_LLP_URING && e->dev_info.llp_errno) {
		rc = e->dev_info.llp_errno;
		endpoint_close(e);
		return tool_failed("io_uring: %s", strerror(rc));
	}
	if (!rc)
		rc = diw_pd_alloc(e->dev, &e->pd);
	if (!rc && channel)
		rc = diw_channel_create(e->dev, &e->channel);
	if (!rc)
		rc = diw_cq_create(e->dev, cq_depth, e->channel, NULL, &e->cq);
	if (!rc)
		return TOOL_OK;
	endpoint_close(e);
	return tool_failed("device %s: %s", dev ? dev : "(any)", strerror(-rc));
}

/* The impairment is set afterwards: only that call returns a message about a wrong specification. */
int endpoint_qp(struct endpoint *e, struct diw_qp_attr *attr)
{
	const char *impair = attr->impair, *env = getenv("DIWARP_IMPAIR");
	char buf[DIW_ADDR_STRLEN], err[256] = "";
	bool blamed;
	int rc;

	attr->send_cq = attr->recv_cq = e->cq;
	attr->dgram.qkey = TOOL_QKEY;
	if (impair && attr->type == DIW_QP_RC)
		return tool_usage("--impair is for datagrams, not for --qp rc");
	if (impair)
		attr->impair = "";
	rc = diw_qp_create(e->pd, attr, &e->qp);
	attr->impair = impair;
	blamed = (rc == -EINVAL || rc == -EOPNOTSUPP) && !impair && env;
	if (rc)
		return tool_failed("queue pair at %s: %s%s%s", diw_addr_str(&attr->dgram.local, buf), strerror(-rc),
				   blamed ? "; DIWARP_IMPAIR=" : "", blamed ? env : "");
	if (impair && diw_qp_impair(e->qp, impair, err, sizeof err))
		return tool_usage("--impair: %s", err);
	rc = diw_qp_query(e->qp, &e->info);
	return rc ? tool_failed("queue pair: %s", strerror(-rc)) : TOOL_OK;
}

void endpoint_close(struct endpoint *e)
{
	if (e->qp)
		diw_qp_destroy(e->qp);
	if (e->cq)
		diw_cq_destroy(e->cq);
	if (e->channel)
		diw_channel_destroy(e->channel);
	if (e->pd)
		diw_pd_free(e->pd);
	if (e->dev)
		diw_dev_close(e->dev);
	memset(e, 0, sizeof *e);
}

int endpoint_check_impair(const char *spec)
{
	struct endpoint e;
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	int rc;

	attr.impair = spec;
	rc = endpoint_open(&e, "diw_lo", NULL, 1, false);
	if (!rc)
		rc = endpoint_qp(&e, &attr);
	endpoint_close(&e);
	return rc;
}

void endpoint_report_errors(struct endpoint *e)
{
	struct diw_qp_error err, last = { 0 };
	char buf[DIW_ADDR_STRLEN];

	while (e->qp && diw_qp_error_get(e->qp, &err) == 0) {
		if (err.fault == last.fault && err.errnum == last.errnum && err.remote == last.remote)
			continue;
		last = err;
		tool_failed("%s%s: %s", err.remote ? "reported by " : "peer ", diw_addr_str(&err.peer, buf),
			    err.fault ? diw_fault_str(err.fault) : strerror(err.errnum));
	}
}

int region_alloc(struct region *r, struct diw_pd *pd, size_t len, unsigned access)
{
	int rc;

	memset(r, 0, sizeof *r);
	r->addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->addr == MAP_FAILED) {
		rc = -errno;
		r->addr = NULL;
		return tool_failed("%zu bytes of memory: %s", len, strerror(-rc));
	}
	r->len = len;
	rc = diw_mr_reg(pd, r->addr, len, access, &r->mr);
	return rc ? tool_failed("memory region of %zu bytes: %s", len, strerror(-rc)) : TOOL_OK;
}

void region_free(struct region *r)
{
	if (r->mr)
		diw_mr_dereg(r->mr);
	if (r->addr)
		munmap(r->addr, r->len);
	memset(r, 0, sizeof *r);
}

uint8_t *inbox_at(const struct inbox *in, uint64_t slot)
{
	return (uint8_t *)in->rx.addr + slot * in->size;
}

int inbox_post(const struct inbox *in, uint64_t slot)
{
	struct diw_sge sge = { inbox_at(in, slot), in->size, in->rx.mr->stag };
	struct diw_recv_wr wr = { .wr_id = slot, .sge = &sge, .num_sge = 1 };

	return diw_post_recv(in->qp, &wr, NULL);
}

int inbox_open(struct inbox *in, struct diw_pd *pd, struct diw_qp *qp, uint32_t slots, uint32_t size)
{
	int rc;

	in->qp = qp;
	in->size = size;
	rc = region_alloc(&in->rx, pd, (size_t)slots * size, DIW_ACCESS_LOCAL_WRITE);
	for (uint32_t i = 0; i < slots && !rc; i++) {
		rc = inbox_post(in, i);
		if (rc)
			rc = tool_failed("receive: %s", strerror(-rc));
	}
	return rc;
}

void inbox_close(struct inbox *in)
{
	region_free(&in->rx);
	memset(in, 0, sizeof *in);
}
