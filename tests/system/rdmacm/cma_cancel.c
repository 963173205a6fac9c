/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that are cancelled in librdmacm's calls that wait, and in rsockets': afterwards everything works. */
#include "tests/system/rdmacm/cma_kit.h"

#include <rdma/rsocket.h>

#include "tests/system/native/cancel_kit.h"

#define TIMES 1000

static struct rdma_event_channel *srv;
static struct rdma_cm_id *listening, *resolved;
static uint16_t port, rs_port;
static int rs_listener, rs[2];
static char buf[64];

/* ---- Identifiers ---- */

static void get_event(void *arg)
{
	struct rdma_cm_event *ev;

	(void)arg;
	if (rdma_get_cm_event(srv, &ev) == 0)
		rdma_ack_cm_event(ev);
}

/* Cancelled at any instruction. */
static void look_for_events(void *arg)
{
	(void)arg;
	fcntl(srv->fd, F_SETFL, O_NONBLOCK);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		get_event(NULL);
}

/* An identifier whose calls wait for their events. */
static void synchronous(void *arg)
{
	struct rdma_cm_id *id = NULL;

	(void)arg;
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0) {
		if (rdma_resolve_addr(id, NULL, lo(port), 1000) == 0)
			rdma_resolve_route(id, 1000);
		rdma_destroy_id(id);
	}
}

static bool resolves(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	bool good = rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0 &&
		    rdma_resolve_addr(id, NULL, lo(port), 1000) == 0 && comes(ch, RDMA_CM_EVENT_ADDR_RESOLVED) &&
		    rdma_destroy_id(id) == 0;

	rdma_destroy_event_channel(ch);
	return good;
}

/* The next call of rdma_get_cm_event() finds an event. An event of the last call that was not fetched goes with its
 * identifier. */
static bool event_comes(void)
{
	return (!resolved || rdma_destroy_id(resolved) == 0) && resolves() &&
	       rdma_create_id(srv, &resolved, NULL, RDMA_PS_TCP) == 0 &&
	       rdma_resolve_addr(resolved, NULL, lo(port), 1000) == 0 &&
	       poll(&(struct pollfd){ .fd = srv->fd, .events = POLLIN }, 1, 10000) == 1;
}

/* ---- rsockets ---- */

static void rs_accept(void *arg)
{
	int fd = raccept(rs_listener, NULL, NULL);

	(void)arg;
	if (fd >= 0)
		rclose(fd);
}

static void rs_recv(void *arg)
{
	(void)arg;
	rrecv(rs[0], buf, sizeof buf, 0);
}

static void rs_poll(void *arg)
{
	struct pollfd p[2] = { { .fd = rs[0], .events = POLLIN }, { .fd = rs_listener, .events = POLLIN } };

	(void)arg;
	rpoll(p, 2, -1);
}

static void rs_poll_one(void *arg)
{
	struct pollfd p = { .fd = rs[0], .events = POLLIN };

	(void)arg;
	rpoll(&p, 1, -1);
}

static void rs_say(void)
{
	rsend(rs[1], "x", 1, 0);
}

static void rs_come(void)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	rconnect(fd, lo(rs_port), sizeof(struct sockaddr_in));
	rclose(fd);
}

/* A byte goes in each direction. */
static bool rs_works(void)
{
	while (rrecv(rs[0], buf, sizeof buf, MSG_DONTWAIT) > 0)
		;
	return rsend(rs[1], "y", 1, 0) == 1 && rrecv(rs[0], buf, 1, 0) == 1 && rsend(rs[0], "z", 1, 0) == 1 &&
	       rrecv(rs[1], buf, 1, 0) == 1;
}

static bool rs_accepts(void)
{
	int fd, one;

	rfcntl(rs_listener, F_SETFL, O_NONBLOCK);
	while ((fd = raccept(rs_listener, NULL, NULL)) >= 0)
		rclose(fd);
	rfcntl(rs_listener, F_SETFL, 0);
	one = rsocket(AF_INET, SOCK_STREAM, 0);
	if (rconnect(one, lo(rs_port), sizeof(struct sockaddr_in)) || (fd = raccept(rs_listener, NULL, NULL)) < 0)
		return false;
	return rclose(one) == 0 && rclose(fd) == 0;
}

static bool rs_open(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof in;

	rs_listener = rsocket(AF_INET, SOCK_STREAM, 0);
	if (rbind(rs_listener, lo(0), sizeof in) || rlisten(rs_listener, 64) ||
	    rgetsockname(rs_listener, (struct sockaddr *)&in, &len))
		return false;
	rs_port = ntohs(in.sin_port);
	rs[1] = rsocket(AF_INET, SOCK_STREAM, 0);
	if (rconnect(rs[1], lo(rs_port), sizeof in))
		return false;
	rs[0] = raccept(rs_listener, NULL, NULL);
	return rs[0] >= 0;
}

static void tried(void (*call)(void *arg), void (*provoke)(void), bool (*good)(void), int times, const char *name)
{
	char what[128];
	int n = sweep(call, NULL, provoke, good);

	snprintf(what, sizeof what, "a thread is cancelled at each of %d points of %s()", n, name);
	CHECK(n > 1, what);
	if (times)
		CHECK(shoot(call, NULL, times, provoke, good), "... and at any time");
}

int main(void)
{
	alarm(120);
	srv = rdma_create_event_channel();
	listening = listener(srv, RDMA_PS_TCP, &port);
	CHECK(resolves(), "an address is resolved");
	CHECK(event_comes(), "an event is there");
	tried(get_event, NULL, event_comes, 0, "rdma_get_cm_event");
	CHECK(rdma_destroy_id(resolved) == 0, "the event's identifier goes");
	CHECK(shoot(get_event, NULL, TIMES, NULL, resolves), "... and when an event is waited for");
	CHECK(shoot(look_for_events, NULL, TIMES / 5, NULL, resolves), "... or looked for, asynchronously");
	tried(synchronous, NULL, resolves, 0, "synchronous calls");
	CHECK(rs_open() && rs_works() && rs_accepts(), "rsockets are connected");
	tried(rs_recv, rs_say, rs_works, TIMES, "rrecv");
	tried(rs_poll_one, rs_say, rs_works, TIMES, "rpoll of one");
	tried(rs_poll, rs_say, rs_works, TIMES, "rpoll of several");
	tried(rs_accept, rs_come, rs_accepts, TIMES / 10, "raccept");
	CHECK(rclose(rs[0]) == 0 && rclose(rs[1]) == 0 && rclose(rs_listener) == 0, "rsockets close");
	CHECK(rdma_destroy_id(listening) == 0, "the listener goes");
	return failed;
}
