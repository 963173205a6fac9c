/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider's objects: what may be bound to what, what is busy, and what an endpoint may be told. */
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>

#include "tests/system/mpi/fabric_kit.h"

static struct fi_info *hints;

#define BINDERS 2
#define BOUND 500

static uint32_t bind_steps;              /* of both threads */

/* Waits, awake, until the other thread has come as far, so that both bind at the same time. */
static void bind_together(uint32_t step)
{
	__atomic_add_fetch(&bind_steps, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&bind_steps, __ATOMIC_ACQUIRE) < step * BINDERS)
		sched_yield();
}

static void *binder(void *arg)
{
	struct fid_ep *ep[BOUND];
	uint32_t step = 0;

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < BOUND; i++)
			REQUIRE(fi_endpoint(domain, info, &ep[i], NULL) == 0);
		for (int i = 0; i < BOUND; i++) {
			if (i % 10 == 0)
				bind_together(++step);
			REQUIRE(fi_ep_bind(ep[i], arg, FI_TRANSMIT) == 0);
			REQUIRE(fi_ep_bind(ep[i], arg, FI_RECV) == 0);
		}
		for (int i = 0; i < BOUND; i++)
			REQUIRE(fi_close(&ep[i]->fid) == 0);
	}
	return NULL;
}

/* Endpoints of several threads leave a queue unused when they are closed. */
static void check_binders(void)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED };
	pthread_t thread[BINDERS];
	struct fid_cq *cq;

	REQUIRE(fi_cq_open(domain, &attr, &cq, NULL) == 0);
	for (int i = 0; i < BINDERS; i++)
		REQUIRE(pthread_create(&thread[i], NULL, binder, &cq->fid) == 0);
	for (int i = 0; i < BINDERS; i++)
		REQUIRE(pthread_join(thread[i], NULL) == 0);
	REQUIRE(fi_close(&cq->fid) == 0);
}

/* An endpoint and a poll set take no object of another domain, which another lock guards. */
static void check_other_domain(void)
{
	struct fi_cntr_attr cntr_attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_poll_attr poll_attr = { 0 };
	struct fid_domain *inside;
	struct fid_cntr *cntr;
	struct fid_poll *poll;
	struct fid_av *vector;
	struct fid_cq *cq;
	struct fid_ep *ep;

	REQUIRE(fi_domain(fabric, info, &inside, NULL) == 0 && fi_endpoint(domain, info, &ep, NULL) == 0);
	REQUIRE(fi_cq_open(inside, &cq_attr, &cq, NULL) == 0 && fi_av_open(inside, &av_attr, &vector, NULL) == 0);
	REQUIRE(fi_cntr_open(inside, &cntr_attr, &cntr, NULL) == 0);
	REQUIRE(fi_poll_open(domain, &poll_attr, &poll) == 0);
	REQUIRE(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == -FI_EINVAL);
	REQUIRE(fi_ep_bind(ep, &cntr->fid, FI_SEND) == -FI_EINVAL);
	REQUIRE(fi_ep_bind(ep, &vector->fid, 0) == -FI_EINVAL);
	REQUIRE(fi_poll_add(poll, &cq->fid, 0) == -FI_EINVAL && fi_poll_add(poll, &cntr->fid, 0) == -FI_EINVAL);
	REQUIRE(fi_close(&poll->fid) == 0 && fi_close(&ep->fid) == 0);
	REQUIRE(fi_close(&cq->fid) == 0 && fi_close(&cntr->fid) == 0 && fi_close(&vector->fid) == 0);
	REQUIRE(fi_close(&inside->fid) == 0);
}

/* An event queue to which something is bound is busy. */
static void check_bound_events(void)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fid_av *vector;
	struct fid_eq *eq;
	struct fid_ep *ep;

	REQUIRE(fi_eq_open(fabric, &attr, &eq, NULL) == 0 && fi_av_open(domain, &av_attr, &vector, NULL) == 0);
	REQUIRE(fi_endpoint(domain, info, &ep, NULL) == 0 && fi_ep_bind(ep, &eq->fid, 0) == 0);
	REQUIRE(fi_av_bind(vector, &eq->fid, 0) == 0);
	REQUIRE(fi_close(&eq->fid) == -FI_EBUSY && fi_close(&ep->fid) == 0);
	REQUIRE(fi_close(&eq->fid) == -FI_EBUSY && fi_close(&vector->fid) == 0);
	REQUIRE(fi_close(&eq->fid) == 0);
}

/* An open domain in the hints restricts the answer to its device. */
static void check_open_domain(void)
{
	struct fi_info *h = fi_allocinfo(), *found = NULL;
	struct fid_fabric other = { 0 };

	h->fabric_attr->prov_name = strdup("diwarp");
	h->domain_attr->domain = domain;
	REQUIRE(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, h, &found) == 0 && found);
	for (struct fi_info *i = found; i; i = i->next)
		REQUIRE(strcmp(i->domain_attr->name, info->domain_attr->name) == 0 && i->domain_attr->domain == domain);
	fi_freeinfo(found);
	h->fabric_attr->fabric = fabric;
	REQUIRE(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, h, &found) == 0 && found->fabric_attr->fabric == fabric);
	fi_freeinfo(found);
	h->domain_attr->domain = NULL;
	h->fabric_attr->fabric = &other;
	REQUIRE(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, h, &found) == -FI_ENODATA);
	h->fabric_attr->fabric = NULL;
	fi_freeinfo(h);
}

static int flags_set(uint64_t flags)
{
	return fi_control(&a.ep->fid, FI_SETOPSFLAG, &flags);
}

/* Flags of operations that are set have one direction, and are flags that such operations may have. */
static void check_default_flags(void)
{
	uint64_t flags = FI_TRANSMIT, before;

	REQUIRE(fi_control(&a.ep->fid, FI_GETOPSFLAG, &flags) == 0);
	before = flags;
	REQUIRE(flags_set(FI_TRANSMIT | FI_DELIVERY_COMPLETE) == 0);
	flags = FI_TRANSMIT;
	REQUIRE(fi_control(&a.ep->fid, FI_GETOPSFLAG, &flags) == 0 && flags == FI_DELIVERY_COMPLETE);
	REQUIRE(flags_set(FI_DELIVERY_COMPLETE) == -FI_EINVAL);
	REQUIRE(flags_set(FI_TRANSMIT | FI_RECV) == -FI_EINVAL);
	REQUIRE(flags_set(FI_TRANSMIT | FI_FENCE) == -FI_EINVAL && flags_set(FI_RECV | FI_INJECT) == -FI_EINVAL);
	for (int i = 0; i < 2; i++) {
		flags = i ? FI_TRANSMIT | FI_RECV : 0;
		REQUIRE(fi_control(&a.ep->fid, FI_GETOPSFLAG, &flags) == -FI_EINVAL);
	}
	REQUIRE(flags_set(FI_TRANSMIT | before) == 0);
}

/* A name that is shorter than its family needs, or of another family, is refused. */
static void check_names(void)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_UNIX };
	struct fid_ep *ep;

	REQUIRE(fi_endpoint(domain, info, &ep, NULL) == 0);
	REQUIRE(fi_setname(&ep->fid, &in6, sizeof in) == -FI_EINVAL);
	REQUIRE(fi_setname(&ep->fid, &in, sizeof in) == -FI_EINVAL);
	in.sin_family = AF_INET;
	REQUIRE(fi_setname(&ep->fid, &in, sizeof in - 1) == -FI_EINVAL && fi_setname(&ep->fid, &in, 0) == -FI_EINVAL);
	REQUIRE(fi_setname(&ep->fid, &in, sizeof in) == 0);
	REQUIRE(fi_close(&ep->fid) == 0);
}

static void check_too_long(void)
{
	REQUIRE(fi_send(a.ep, out, info->ep_attr->max_msg_size + 1, NULL, b.addr, NULL) == -FI_EMSGSIZE);
	REQUIRE(fi_tsend(a.ep, out, info->ep_attr->max_msg_size + 1, NULL, b.addr, 0, NULL) == -FI_EMSGSIZE);
}

int main(int argc, char **argv)
{
	hints = fi_allocinfo();
	REQUIRE(hints && argc == 2);
	hints->caps = FI_MSG | FI_TAGGED;
	ends_open(argv[1], FI_VERSION(1, 9), hints);
#define CHECK(what) doing = #what, check_##what(), puts("right: " #what)
	CHECK(binders);
	CHECK(other_domain);
	CHECK(bound_events);
	CHECK(open_domain);
	CHECK(default_flags);
	CHECK(names);
	CHECK(too_long);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
