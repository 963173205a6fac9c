/* SPDX-License-Identifier: BSD-2-Clause */
/* For the programs that test the provider by libfabric's calls: two endpoints of one process, and their completions. */
#ifndef DIW_TESTS_FABRIC_KIT_H
#define DIW_TESTS_FABRIC_KIT_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE 30                      /* seconds */
#define LARGE (3u << 20)

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct end {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_cntr *sent, *received;
	fi_addr_t addr;                  /* as the other endpoint knows it */
} a, b;
static const char *doing = "";
static uint8_t out[LARGE], in[LARGE];

#define REQUIRE(cond) \
	do { \
		if (!(cond)) { \
			printf("wrong: %s: line %d: %s\n", doing, __LINE__, #cond); \
			exit(1); \
		} \
	} while (0)

static inline void end_open(struct end *e)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD };
	struct fi_cntr_attr cntr = { .events = FI_CNTR_EVENTS_COMP };
	uint8_t name[64];
	size_t len = sizeof name;

	REQUIRE(fi_endpoint(domain, info, &e->ep, NULL) == 0);
	REQUIRE(fi_cq_open(domain, &cq, &e->cq, NULL) == 0);
	REQUIRE(fi_cntr_open(domain, &cntr, &e->sent, NULL) == 0);
	REQUIRE(fi_cntr_open(domain, &cntr, &e->received, NULL) == 0);
	REQUIRE(fi_ep_bind(e->ep, &av->fid, 0) == 0);
	REQUIRE(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
	REQUIRE(fi_ep_bind(e->ep, &e->sent->fid, FI_SEND | FI_WRITE | FI_READ) == 0);
	REQUIRE(fi_ep_bind(e->ep, &e->received->fid, FI_RECV) == 0);
	REQUIRE(fi_enable(e->ep) == 0);
	REQUIRE(fi_getname(&e->ep->fid, name, &len) == 0 && len <= sizeof name);
	REQUIRE(fi_av_insert(av, name, 1, &e->addr, 0, NULL) == 1);
}

static inline void end_close(struct end *e)
{
	REQUIRE(fi_close(&e->cq->fid) == -FI_EBUSY);
	REQUIRE(fi_close(&e->ep->fid) == 0);
	REQUIRE(fi_close(&e->cq->fid) == 0);
	REQUIRE(fi_close(&e->sent->fid) == 0);
	REQUIRE(fi_close(&e->received->fid) == 0);
}

/* The next completion of E; for an error, its number is returned. */
static inline int next(struct end *e, struct end *other, struct fi_cq_tagged_entry *c, fi_addr_t *from)
{
	time_t until = time(NULL) + PATIENCE;
	struct fi_cq_err_entry err;
	fi_addr_t src;
	ssize_t n;

	while ((n = fi_cq_readfrom(e->cq, c, 1, from ? from : &src)) == -FI_EAGAIN && time(NULL) < until)
		fi_cq_readfrom(other->cq, NULL, 0, NULL);
	if (n == -FI_EAVAIL) {
		REQUIRE(fi_cq_readerr(e->cq, &err, 0) == 1);
		*c = (struct fi_cq_tagged_entry){ err.op_context, err.flags, err.len, err.buf, err.data, err.tag };
		return err.err;
	}
	REQUIRE(n == 1);
	return 0;
}

/* Makes progress, whatever the queues contain. */
static inline void progress(void)
{
	fi_cntr_read(a.sent);
}

static inline bool over_rc(void)
{
	const char *mode = getenv("FI_DIWARP_MODE");

	return mode && strncmp(mode, "rc", 2) == 0;
}

static inline void expect_none(struct end *e)
{
	struct fi_cq_tagged_entry c;

	for (int i = 0; i < 1000; i++)
		REQUIRE(fi_cq_read(e->cq, &c, 1) == -FI_EAGAIN);
}

static inline void fill(uint8_t seed)
{
	for (size_t i = 0; i < sizeof out; i++)
		out[i] = (uint8_t)(seed + i * 7 + (i >> 11));
	memset(in, 0xee, sizeof in);
}

static inline void expect_in(size_t len)
{
	REQUIRE(memcmp(in, out, len) == 0);
	REQUIRE(len == sizeof in || in[len] == 0xee);
}

/* Fabric, domain and endpoints of a device, by HINTS; with FABRIC_AUTO in the environment, with automatic progress. */
static inline void ends_open(const char *dev, uint32_t version, struct fi_info *hints)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };

	doing = "open";
	hints->fabric_attr->prov_name = strdup("diwarp");
	hints->domain_attr->name = strdup(dev);
	hints->ep_attr->type = FI_EP_RDM;
	if (getenv("FABRIC_AUTO"))
		hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	REQUIRE(fi_getinfo(version, NULL, NULL, 0, hints, &info) == 0);
	REQUIRE(strcmp(info->fabric_attr->prov_name, "diwarp") == 0);
	REQUIRE(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
	REQUIRE(fi_domain(fabric, info, &domain, NULL) == 0);
	REQUIRE(fi_av_open(domain, &attr, &av, NULL) == 0);
	end_open(&a);
	end_open(&b);
}

static inline void ends_close(void)
{
	doing = "close";
	REQUIRE(fi_close(&domain->fid) == -FI_EBUSY);
	end_close(&a);
	end_close(&b);
	REQUIRE(fi_close(&av->fid) == 0 && fi_close(&domain->fid) == 0 && fi_close(&fabric->fid) == 0);
	fi_freeinfo(info);
}

#endif
