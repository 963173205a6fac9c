/* SPDX-License-Identifier: BSD-2-Clause */
/* Groups are not here: each call says so. */
#include "verbs/of/cma.h"

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
	(void)id;
	(void)attr;
	(void)context;
	return cma_result(EOPNOTSUPP);
}

int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
	(void)addr;
	return rdma_join_multicast_ex(id, NULL, context);
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)id;
	(void)addr;
	return cma_result(EOPNOTSUPP);
}
