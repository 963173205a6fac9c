/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For LD_PRELOAD, under Debian's rping as it connects to siw: it gets ESTABLISHED half a second late. siw's acceptor
 * sends its reply before it listens to the connection, so it finds data that comes at once only when more data
 * comes.
 */
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#pragma GCC visibility push(default)
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int (*get)(struct rdma_event_channel *, struct rdma_cm_event **) = NULL;
	int rc;

	*(void **)&get = dlsym(RTLD_NEXT, "rdma_get_cm_event");
	rc = get(channel, event);
	if (rc == 0 && (*event)->event == RDMA_CM_EVENT_ESTABLISHED)
		usleep(500000);
	return rc;
}
#pragma GCC visibility pop
