/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm.so.1: an interface is removed and added again; its addresses change. */
#include "tests/system/rdmacm/cma_kit.h"

#include <sys/socket.h>

#define ADDRESS 0xc6336401                   /* 198.51.100.1 */
#define NOBODY 0xc6336463                    /* 198.51.100.99 */
#define MARK 0xcb007101                      /* 203.0.113.1 */

static struct rdma_event_channel *ch, *other;

static bool sh(const char *line)
{
	return system(line) == 0;
}

static bool add(void)
{
	return sh("ip link add diwgone type veth peer name diwpeer && ip addr add 198.51.100.1/24 dev diwgone && "
		  "ip link set diwgone up && ip link set diwpeer up");
}

static struct sockaddr *in(uint32_t ip, uint16_t port)
{
	static _Thread_local struct sockaddr_in to;

	to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip) };
	return (struct sockaddr *)&to;
}

static struct rdma_cm_id *bound(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, ps))
		return NULL;
	if (rdma_bind_addr(id, in(ADDRESS, 0)) == 0)
		return id;
	rdma_destroy_id(id);
	return NULL;
}

static bool is_of(const struct rdma_cm_id *id, const char *device)
{
	return id && id->verbs && strcmp(id->verbs->device->name, device) == 0;
}

/* The next event has this type, and is of ID. */
static bool told(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = expect(ch, type);
	bool good = ev && ev->id == id && ev->status == 0;

	if (ev)
		rdma_ack_cm_event(ev);
	return good;
}

/* Netlink reports in order: everything before this has been reported, too. */
static bool settled(void)
{
	struct rdma_event_channel *marks = rdma_create_event_channel();
	struct rdma_cm_id *id;
	bool good = sh("ip addr add 203.0.113.1/32 dev lo") && rdma_create_id(marks, &id, NULL, RDMA_PS_TCP) == 0 &&
		    rdma_bind_addr(id, in(MARK, 0)) == 0 && sh("ip addr del 203.0.113.1/32 dev lo") &&
		    comes(marks, RDMA_CM_EVENT_ADDR_CHANGE) && rdma_destroy_id(id) == 0;

	rdma_destroy_event_channel(marks);
	return good;
}

static bool quiet(void)
{
	return settled() && !next(ch, 0) && !next(other, 0);
}

/* ---- Addresses ---- */

static void other_hardware(void)
{
	struct rdma_cm_id *b = bound(RDMA_PS_TCP), *u = bound(RDMA_PS_UDP);

	CHECK(sh("ip link set diwgone mtu 1400") && quiet(), "that an interface changes otherwise is no event");
	CHECK(sh("ip link set diwgone address 02:00:00:00:00:01") && told(b, RDMA_CM_EVENT_ADDR_CHANGE) &&
	      told(u, RDMA_CM_EVENT_ADDR_CHANGE) && quiet(),
	      "another hardware address: ADDR_CHANGE for all of the interface");
	CHECK(sh("for i in 2 3 4 5 6 7 8 9; do ip link set diwgone address 02:00:00:00:00:0$i; done") && settled() &&
	      told(b, RDMA_CM_EVENT_ADDR_CHANGE) && told(u, RDMA_CM_EVENT_ADDR_CHANGE) && quiet(),
	      "eight more that nobody fetched are one event");
	CHECK(rdma_destroy_id(b) == 0 && rdma_destroy_id(u) == 0, "both go");
}

static void other_interface(void)
{
	struct rdma_cm_id *b = bound(RDMA_PS_TCP), *u = bound(RDMA_PS_UDP), *c, *again;
	double begin;

	CHECK(rdma_create_id(ch, &c, NULL, RDMA_PS_TCP) == 0 &&
	      rdma_resolve_addr(c, NULL, in(NOBODY, 1), SOON_MS) == 0 && told(c, RDMA_CM_EVENT_ADDR_RESOLVED) &&
	      rdma_resolve_route(c, SOON_MS) == 0 && told(c, RDMA_CM_EVENT_ROUTE_RESOLVED) && make_qp(c),
	      "one that may connect");
	CHECK(sh("ip addr add 198.51.100.2/24 dev diwgone && ip addr del 198.51.100.2/24 dev diwgone") && quiet(),
	      "another address goes");
	CHECK(sh("ip addr del 198.51.100.1/24 dev diwgone && ip addr add 198.51.100.1/24 dev diwpeer"),
	      "an address goes to another interface");
	CHECK(told(b, RDMA_CM_EVENT_ADDR_CHANGE) && told(u, RDMA_CM_EVENT_ADDR_CHANGE) &&
	      told(c, RDMA_CM_EVENT_ADDR_CHANGE) && quiet(), "ADDR_CHANGE for all that have it");
	again = bound(RDMA_PS_TCP);
	CHECK(is_of(b, "diw_diwgone") && is_of(again, "diw_diwpeer"), "who binds to it now has the other device");
	CHECK(rdma_destroy_id(b) == 0 && rdma_destroy_id(u) == 0 && again && rdma_destroy_id(again) == 0, "they go");
	CHECK(sh("ip addr del 198.51.100.1/24 dev diwpeer") && settled(), "the address goes for good");
	begin = seconds();
	CHECK(rdma_connect(c, NULL) == -1 && errno == EADDRNOTAVAIL && seconds() - begin < 20,
	      "connecting from it: EADDRNOTAVAIL");
	CHECK(destroy(c) == 0 && sh("ip addr add 198.51.100.1/24 dev diwgone"), "it goes, too");
}

static void of_ipv6(void)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct rdma_cm_id *id;

	inet_pton(AF_INET6, "2001:db8::1", &six.sin6_addr);
	CHECK(sh("ip addr add 2001:db8::1/64 dev diwgone nodad") && rdma_create_id(ch, &id, NULL, RDMA_PS_UDP) == 0 &&
	      rdma_bind_addr(id, (struct sockaddr *)&six) == 0 && sh("ip addr del 2001:db8::1/64 dev diwgone") &&
	      told(id, RDMA_CM_EVENT_ADDR_CHANGE) && quiet(), "so it is with IPv6");
	CHECK(rdma_destroy_id(id) == 0, "it goes");
}

static struct rdma_cm_id *connected(struct rdma_cm_id *l)
{
	struct rdma_cm_event *ev = NULL;
	struct rdma_cm_id *a, *b;

	if (rdma_create_id(ch, &a, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(a, NULL, in(ADDRESS, ntohs(rdma_get_src_port(l))), SOON_MS) ||
	    !told(a, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(a, SOON_MS) ||
	    !told(a, RDMA_CM_EVENT_ROUTE_RESOLVED) || !make_qp(a) || rdma_connect(a, NULL) ||
	    !(ev = expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST)))
		return NULL;
	b = ev->id;
	a->context = b;
	return make_qp(b) && rdma_accept(b, NULL) == 0 && rdma_ack_cm_event(ev) == 0 &&
	       comes(ch, RDMA_CM_EVENT_ESTABLISHED) && comes(ch, RDMA_CM_EVENT_ESTABLISHED) ? a : NULL;
}

/* A connection does not end with its address, but after three times 10 s of silence. */
static void stranded(void)
{
	struct rdma_cm_id *l = bound(RDMA_PS_TCP), *a = NULL;
	bool both = true;

	CHECK(rdma_listen(l, 0) == 0 && (a = connected(l)), "a connection within an address");
	CHECK(sh("ip addr del 198.51.100.1/24 dev diwgone"), "... which goes");
	for (int i = 0; i < 3; i++)
		both &= comes(ch, RDMA_CM_EVENT_ADDR_CHANGE);
	CHECK(both && quiet(), "ADDR_CHANGE for both ends, and for who listens there");
	for (int i = 0; i < 2; i++) {
		struct rdma_cm_event *ev = next(ch, 10 * SOON_MS);

		both &= ev && ev->event == RDMA_CM_EVENT_DISCONNECTED;
		if (ev)
			rdma_ack_cm_event(ev);
	}
	CHECK(both, "both ends are told that it is over");
	CHECK(a && destroy(a->context) == 0 && destroy(a) == 0 && rdma_destroy_id(l) == 0 &&
	      sh("ip addr add 198.51.100.1/24 dev diwgone"), "all three go");
}

/* ---- Interfaces that are removed ---- */

static void gone(void)
{
	struct rdma_cm_id *b = bound(RDMA_PS_TCP), *again = NULL;

	CHECK(is_of(b, "diw_diwgone"), "an identifier of an interface");
	CHECK(sh("ip link del diwgone"), "the interface goes");
	CHECK(told(b, RDMA_CM_EVENT_DEVICE_REMOVAL), "its identifier is told: DEVICE_REMOVAL");
	CHECK(quiet(), "once, and nobody else is");
	CHECK(!bound(RDMA_PS_TCP) && errno == EADDRNOTAVAIL, "its address is nobody's");
	CHECK(add() && (again = bound(RDMA_PS_TCP)) && again->verbs != b->verbs,
	      "an interface of that name is another device");
	CHECK(again && rdma_destroy_id(b) == 0 && rdma_destroy_id(again) == 0, "both identifiers go");
}

static void *connect_sync(void *id)
{
	return (void *)(intptr_t)(rdma_connect(id, NULL) ? errno : 0);
}

/* Its peer does not exist, which nothing reports: without the event it would wait for 20 s. TCP port 513 carries port 1
 * of personality ca. */
static void gone_meanwhile(void)
{
	struct rdma_cm_id *id;
	pthread_t t;
	void *errnum;

	CHECK(sh("ip neigh replace 198.51.100.99 lladdr 02:00:00:00:00:63 dev diwgone") &&
	      rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0 &&
	      rdma_resolve_addr(id, NULL, in(NOBODY, 1), SOON_MS) == 0 && rdma_resolve_route(id, SOON_MS) == 0 &&
	      make_qp(id), "an identifier that waits itself");
	pthread_create(&t, NULL, connect_sync, id);
	CHECK(sh("for i in $(seq 600); do "
		 "grep -q ' 636433C6:0[02]01 02 ' /proc/net/tcp && exit; sleep 0.05; done; exit 1"),
	      "it asks");
	CHECK(sh("ip link set diwgone address 02:00:00:00:00:0a") && settled(), "a hint is no outcome");
	CHECK(sh("ip link del diwgone"), "its interface goes");
	pthread_join(t, &errnum);
	CHECK((intptr_t)errnum == ENODEV, "that is the outcome: ENODEV");
	CHECK(destroy(id) == 0 && add(), "it goes");
}

static void *request_sync(void *l)
{
	struct rdma_cm_id *id;

	return (void *)(intptr_t)(rdma_get_request(l, &id) ? errno : 0);
}

static void gone_below_listener(void)
{
	struct rdma_cm_id *l;
	pthread_t t;
	void *errnum;

	CHECK(rdma_create_id(NULL, &l, NULL, RDMA_PS_TCP) == 0 && rdma_bind_addr(l, in(ADDRESS, 0)) == 0 &&
	      rdma_listen(l, 0) == 0, "a listener that waits itself");
	pthread_create(&t, NULL, request_sync, l);
	CHECK(sh("ip link del diwgone"), "its interface goes");
	pthread_join(t, &errnum);
	CHECK((intptr_t)errnum == ENODEV, "that is no request: ENODEV");
	CHECK(rdma_destroy_id(l) == 0 && add(), "it goes");
}

int main(void)
{
	struct rdma_cm_id *a, *l;
	struct rdma_cm_event *ev;
	uint16_t port;

	ch = rdma_create_event_channel();
	other = rdma_create_event_channel();
	if (!add()) {
		printf("SKIP: no veth pair here\n");
		return 0;
	}
	l = listener(other, RDMA_PS_TCP, &port);
	a = asker(other, RDMA_PS_TCP, port);
	other_hardware();
	other_interface();
	of_ipv6();
	if (getenv("DIW_TEST_FULL"))
		stranded();
	gone_meanwhile();
	gone_below_listener();
	gone();
	CHECK(rdma_connect(a, NULL) == 0 && (ev = expect(other, RDMA_CM_EVENT_CONNECT_REQUEST)) &&
	      rdma_destroy_id(ev->id) == 0 && rdma_ack_cm_event(ev) == 0, "a device that stayed connects as before");
	CHECK(destroy(a) == 0 && rdma_destroy_id(l) == 0 && sh("ip link del diwgone"), "all go");
	return failed;
}
