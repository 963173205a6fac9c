/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that librdmacm got after rdma-core 44, as a program of rdma-core 65 makes them. */
#include "tests/system/rdmacm/cma_kit.h"

#include <poll.h>
#include <stdint.h>

enum { EVENT_ADDRINFO_RESOLVED = 16, SUBNET = 0x10 };

int resolve(struct rdma_cm_id *id, const char *node, const char *service, const struct rdma_addrinfo *hints)
	__asm__("rdma_resolve_addrinfo");
int query(struct rdma_cm_id *id, struct rdma_addrinfo **info) __asm__("rdma_query_addrinfo");
int later_repoll_create(int flags) __asm__("repoll_create");

static bool fails(int rc, int errnum)
{
	return rc == -1 && errno == errnum;
}

int main(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *info = NULL;
	struct rdma_cm_event *ev = NULL;
	struct rdma_cm_id *id = NULL;
	uint64_t arg = 0;

	CHECK(ch && rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0, "an identifier");
	CHECK(write_event(id, EVENT_USER, -7, 0x123456789abcdef0u) == 0 && rdma_get_cm_event(ch, &ev) == 0,
	      "an event of the program's own comes");
	if (ev)
		memcpy(&arg, &ev->param, sizeof arg);
	CHECK(ev && (int)ev->event == EVENT_USER && ev->id == id && ev->status == -7 && arg == 0x123456789abcdef0u &&
	      strcmp(rdma_event_str(ev->event), "RDMA_CM_EVENT_USER") == 0, "... as it was written");
	rdma_ack_cm_event(ev);
	CHECK(fails(write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL), "no other event can be written");
	CHECK(fails(query(id, &info), ENOENT), "nothing is resolved yet");
	hints.ai_flags |= SUBNET;
	CHECK(fails(resolve(id, NULL, "service", &hints), ENOTSUP), "there is no subnet administration to ask");
	hints.ai_flags = RAI_NUMERICHOST;
	CHECK(resolve(id, "no.address", "7471", &hints) == -1, "an address that is none fails at once");
	CHECK(resolve(id, "127.0.0.1", "7471", &hints) == 0 && rdma_get_cm_event(ch, &ev) == 0 &&
	      (int)ev->event == EVENT_ADDRINFO_RESOLVED && ev->id == id && ev->status == 0, "an address is resolved");
	rdma_ack_cm_event(ev);
	CHECK(fails(resolve(id, "127.0.0.1", "7471", &hints), EBUSY), "... one at a time");
	CHECK(query(id, &info) == 0 && info && info->ai_dst_addr && info->ai_port_space == RDMA_PS_TCP &&
	      ((struct sockaddr_in *)info->ai_dst_addr)->sin_port == htons(7471), "... and is told");
	rdma_freeaddrinfo(info);
	CHECK(fails(query(id, &info), ENOENT), "... once");
	CHECK(resolve(id, "127.0.0.1", "1", &hints) == 0, "one that nobody asks for");
	CHECK(fails(later_repoll_create(0), EOPNOTSUPP), "no epoll over rsockets");
	CHECK(rdma_destroy_id(id) == 0, "... ends with its identifier");
	rdma_destroy_event_channel(ch);
	return failed;
}
