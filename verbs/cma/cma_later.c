/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that librdmacm got after rdma-core 44, versions 1.4 and 1.5. Installed headers may not declare them. */
#include <stdlib.h>

#include "verbs/cma/cma.h"

#define RAI_SUBNET 0x10               /* RAI_SA: InfiniBand's subnet administration is asked */

#pragma GCC visibility push(default)
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int cma_write_cm_event(struct rdma_cm_id *id, int event, int status, uint64_t arg) __asm__("rdma_write_cm_event");
int cma_repoll_create(int flags) __asm__("repoll_create");
int cma_repoll_ctl(void) __asm__("repoll_ctl");
int cma_repoll_wait(void) __asm__("repoll_wait");
#pragma GCC visibility pop

/* ---- Events of the program ---- */

_Static_assert(sizeof(uint64_t) <= sizeof ((struct rdma_cm_event *)0)->param, "its argument is a parameter");

int cma_write_cm_event(struct rdma_cm_id *id, int event, int status, uint64_t arg)
{
	struct cma_event *e;

	if (!id || event != CMA_EVENT_USER)
		return cma_result(EINVAL);
	cma_enter();
	e = cma_event_new(cma_id(id), (enum rdma_cm_event_type)event, status);
	if (e) {
		memcpy(&e->ev.param, &arg, sizeof arg);
		cma_event_post(e);
	}
	cma_leave();
	return cma_result(e ? 0 : ENOMEM);
}

/* ---- rdma_getaddrinfo() with an event: the look-up is done before the call returns, as in rdma-core ---- */

static int connect_start(struct cma_id *id)
{
	int rc;

	cma_enter();
	rc = id->resolving ? EBUSY : 0;
	id->resolving = true;
	cma_leave();
	return rc;
}

int rdma_resolve_addrinfo(struct rdma_cm_id *cm_id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	struct cma_id *id = cma_id(cm_id);
	struct rdma_addrinfo *found = NULL;
	int rc;

	if (!id)
		return cma_result(EINVAL);
	if (hints && hints->ai_flags & RAI_SUBNET)
		return cma_result(ENOTSUP);
	rc = connect_start(id);
	if (rc)
		return cma_result(rc);
	rc = rdma_getaddrinfo(node, service, hints, &found) ? errno : 0;
	cma_enter();
	id->resolving = rc == 0;
	id->resolved = found;
	if (rc == 0)
		cma_post(id, (enum rdma_cm_event_type)CMA_EVENT_ADDRINFO_RESOLVED, 0);
	cma_leave();
	return rc ? cma_result(rc) : cma_complete(id);
}

int rdma_query_addrinfo(struct rdma_cm_id *cm_id, struct rdma_addrinfo **info)
{
	struct cma_id *id = cma_id(cm_id);
	int rc = 0;

	if (!id || !info)
		return cma_result(EINVAL);
	cma_enter();
	if (!id->resolving || !id->resolved) {
		rc = ENOENT;
	} else {
		*info = id->resolved;
		id->resolved = NULL;
		id->resolving = false;
	}
	cma_leave();
	return cma_result(rc);
}

/* ---- epoll over rsockets, which is not supported; rpoll() and rselect() are ---- */

int cma_repoll_create(int flags)
{
	(void)flags;
	return cma_result(EOPNOTSUPP);
}

int cma_repoll_ctl(void)
{
	return cma_result(EBADF);               /* no such descriptor exists */
}

int cma_repoll_wait(void)
{
	return cma_result(EBADF);
}
