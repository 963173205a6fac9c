/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm.so.1: an interface goes, and comes again. */
#include "tests/system/cma_kit.h"

#include <sys/socket.h>

#define ADDRESS 0xc6336401                   /* 198.51.100.1 */

static bool add(void)
{
	return system("ip link add diwgone type veth peer name diwpeer && ip addr add 198.51.100.1/24 dev diwgone && "
		      "ip link set diwgone up && ip link set diwpeer up") == 0;
}

static struct rdma_cm_id *bound(struct rdma_event_channel *ch)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(ADDRESS) };
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP))
		return NULL;
	if (rdma_bind_addr(id, (struct sockaddr *)&in) == 0)
		return id;
	rdma_destroy_id(id);
	return NULL;
}

int main(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel(), *other = rdma_create_event_channel();
	struct rdma_cm_id *a, *b, *l, *again = NULL;
	struct rdma_cm_event *ev;
	uint16_t port;

	if (!add()) {
		printf("SKIP: no veth pair here\n");
		return 0;
	}
	l = listener(other, RDMA_PS_TCP, &port);
	a = asker(other, RDMA_PS_TCP, port);
	b = bound(ch);
	CHECK(b && b->verbs && strcmp(b->verbs->device->name, "diw_diwgone") == 0, "an identifier of an interface");
	CHECK(system("ip link del diwgone") == 0, "the interface goes");
	ev = next(ch, 30000);
	CHECK(ev && ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL && ev->id == b && rdma_ack_cm_event(ev) == 0,
	      "its identifier is told: DEVICE_REMOVAL");
	CHECK(!next(ch, 100) && !next(other, 0), "once, and nobody else is");
	CHECK(!bound(ch) && errno == EADDRNOTAVAIL, "its address is nobody's");
	CHECK(add() && (again = bound(ch)) && again->verbs != b->verbs, "an interface of that name is another device");
	CHECK(again && rdma_destroy_id(b) == 0 && rdma_destroy_id(again) == 0, "both identifiers go");
	CHECK(rdma_connect(a, NULL) == 0 && (ev = expect(other, RDMA_CM_EVENT_CONNECT_REQUEST)) &&
	      rdma_destroy_id(ev->id) == 0 && rdma_ack_cm_event(ev) == 0, "a device that stayed connects as before");
	CHECK(destroy(a) == 0 && rdma_destroy_id(l) == 0 && system("ip link del diwgone") == 0, "all go");
	return failed;
}
