/* SPDX-License-Identifier: BSD-2-Clause */
/* A listener gets another channel while requests are queued that the program has not fetched. */
#include "tests/system/rdmacm/cma_kit.h"

static struct rdma_event_channel *cli;

static struct rdma_cm_id *listen_on(struct rdma_event_channel *ch, uint16_t *port)
{
	struct rdma_cm_id *l;

	if (rdma_create_id(ch, &l, NULL, RDMA_PS_TCP) || rdma_bind_addr(l, lo(0)) || rdma_listen(l, 0))
		return NULL;
	*port = ntohs(rdma_get_src_port(l));
	return l;
}

/* A request that is queued on the listener's channel. */
static struct rdma_cm_id *queued(struct rdma_cm_id *l, uint16_t port)
{
	struct pollfd p = { .fd = l->channel->fd, .events = POLLIN };
	struct rdma_cm_id *a = asker(cli, RDMA_PS_TCP, port);

	return rdma_connect(a, NULL) == 0 && poll(&p, 1, SOON_MS) == 1 ? a : NULL;
}

/* FROM NULL: the listener is sync before. */
static void to_channel(struct rdma_event_channel *from, const char *what)
{
	struct rdma_event_channel *to = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *a = NULL, *b, *l;
	uint16_t port = 0;

	CHECK((l = listen_on(from, &port)) && (a = queued(l, port)) && rdma_migrate_id(l, to) == 0, what);
	if (from)
		rdma_destroy_event_channel(from);
	ev = expect(to, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev ? ev->id : NULL;
	CHECK(b && b->channel == to, "the request's identifier has the listener's channel");
	CHECK(b && make_qp(b) && rdma_accept(b, NULL) == 0 && rdma_ack_cm_event(ev) == 0 &&
	      comes(to, RDMA_CM_EVENT_ESTABLISHED) && comes(cli, RDMA_CM_EVENT_ESTABLISHED),
	      "... which tells that it is connected");
	CHECK(b && destroy(a) == 0 && destroy(b) == 0 && rdma_destroy_id(l) == 0, "all go");
	rdma_destroy_event_channel(to);
}

static void to_sync(void)
{
	struct rdma_event_channel *from = rdma_create_event_channel();
	struct rdma_cm_id *a = NULL, *b = NULL, *l;
	uint16_t port = 0;

	CHECK((l = listen_on(from, &port)) && (a = queued(l, port)) && rdma_migrate_id(l, NULL) == 0,
	      "a listener whose calls wait from now on");
	CHECK(rdma_get_request(l, &b) == 0 && b->channel != from && b->channel != l->channel,
	      "the request's identifier has a channel of its own");
	CHECK(b && make_qp(b) && rdma_accept(b, NULL) == 0 && b->event &&
	      b->event->event == RDMA_CM_EVENT_ESTABLISHED && comes(cli, RDMA_CM_EVENT_ESTABLISHED),
	      "... and its calls wait");
	CHECK(b && destroy(a) == 0 && destroy(b) == 0 && rdma_destroy_id(l) == 0, "all go");
	rdma_destroy_event_channel(from);
}

/* Two events: one that moved to the end of its own list would be its last. */
static void to_own_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	uint16_t port;
	struct rdma_cm_id *l = listen_on(ch, &port);

	CHECK(l && write_event(l, EVENT_USER, 0, 1) == 0 && write_event(l, EVENT_USER, 0, 2) == 0, "two events");
	CHECK(rdma_migrate_id(l, ch) == 0, "an identifier gets the channel that it has");
	CHECK(comes(ch, EVENT_USER) && comes(ch, EVENT_USER), "... and keeps its events");
	CHECK(rdma_destroy_id(l) == 0, "it goes");
	rdma_destroy_event_channel(ch);
}

int main(void)
{
	int before;

	cli = rdma_create_event_channel();
	to_channel(NULL, "a sync listener gets a channel");
	before = open_files();
	to_channel(rdma_create_event_channel(), "a listener gets another channel, and the first one is destroyed");
	to_channel(NULL, "a sync listener gets a channel again");
	to_sync();
	to_own_channel();
	CHECK(no_more_files(before), "no descriptor is left");
	rdma_destroy_event_channel(cli);
	return failed;
}
