/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1: N connections (default 10,000) begin and end on lo, BATCH at a time, both ends in this process and
 * each with a queue pair of its own. Prints how many a second were set up: from rdma_create_id() to both ends'
 * ESTABLISHED. "cma_many --rate" prints that number alone.
 */
#include "tests/system/rdmacm/cma_kit.h"

#define BATCH 200
#define LIMIT_MS 30000

static struct rdma_event_channel *ch;
static struct ibv_cq *cq;
static struct rdma_cm_id *ids[2 * BATCH];       /* both ends', as they became established */
static unsigned established, disconnected, odd;

static bool shared_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };

	if (!cq)
		cq = ibv_create_cq(id->verbs, 4 * 2 * BATCH, NULL, NULL, 0);
	a.send_cq = a.recv_cq = cq;
	return cq && rdma_create_qp(id, NULL, &a) == 0;
}

static bool handle(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return rdma_resolve_route(id, 1000) == 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return shared_qp(id) && rdma_connect(id, NULL) == 0;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return shared_qp(id) && rdma_accept(id, NULL) == 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (established < 2 * BATCH)
			ids[established] = id;
		established++;
		return true;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected++;
		return true;
	default:
		return false;
	}
}

/* Handles events until the count is reached. */
static bool until(const unsigned *count, unsigned want)
{
	struct rdma_cm_event *ev;

	while (*count < want && !odd) {
		enum rdma_cm_event_type type;
		struct rdma_cm_id *id;

		ev = next(ch, LIMIT_MS);
		if (!ev)
			return false;
		id = ev->id;
		type = ev->event;
		if (rdma_ack_cm_event(ev) || !handle(id, type)) {
			printf("# %s: %s\n", rdma_event_str(type), strerror(errno));
			odd++;
		}
	}
	return *count == want;
}

static bool batch(uint16_t port, double *took)
{
	double begin = seconds();
	bool good = true;

	established = disconnected = 0;
	for (int i = 0; i < BATCH; i++) {
		struct rdma_cm_id *id;

		if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) || rdma_resolve_addr(id, NULL, lo(port), 1000))
			return false;
	}
	if (!until(&established, 2 * BATCH))
		return false;
	*took += seconds() - begin;
	for (int i = 0; i < 2 * BATCH; i++)
		rdma_disconnect(ids[i]);
	good = until(&disconnected, 2 * BATCH);
	for (int i = 0; i < 2 * BATCH; i++)
		good &= destroy(ids[i]) == 0;
	return good;
}

int main(int argc, char **argv)
{
	bool rate = argc > 1 && strcmp(argv[1], "--rate") == 0;
	unsigned n = argc > 1 && !rate ? (unsigned)atoi(argv[1]) : 10000, done = 0;
	double took = 0;
	uint16_t port;
	int before;

	ch = rdma_create_event_channel();
	listener(ch, RDMA_PS_TCP, &port);
	if (!batch(port, &took))
		return 2;
	before = open_files();
	took = 0;
	while (done < n && batch(port, &took))
		done += BATCH;
	if (rate) {
		printf("%.0f\n", done / took);
		return done < n;
	}
	printf("# %u connections set up, %.0f a second\n", done, done / took);
	CHECK(done >= n, "so many connections begin and end, and tell each end of both");
	CHECK(!next(ch, 0), "and nothing else");
	CHECK(open_files() == before, "no descriptor is left");
	return failed;
}
