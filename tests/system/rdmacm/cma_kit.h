/* SPDX-License-Identifier: BSD-2-Clause */
/* For programs that test librdmacm: identifiers on lo, and their events. */
#ifndef DIW_TESTS_CMA_KIT_H
#define DIW_TESTS_CMA_KIT_H

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <time.h>
#include <unistd.h>

#include "tests/system/ibverbs/of_kit.h"
#include "verbs/host/port.h"

#define EVENT_USER 18           /* the event that rdma_write_cm_event() writes */
#define SOON_MS 30000           /* only a failure takes so long */

/* rdma_write_cm_event(), which older headers do not declare. */
int write_event(struct rdma_cm_id *id, int event, int status, uint64_t arg) __asm__("rdma_write_cm_event");

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static inline struct sockaddr *lo(uint16_t port)
{
	static _Thread_local struct sockaddr_in in;

	in = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	return (struct sockaddr *)&in;
}

/* TCP's address of an identifier that listens on PORT. */
static inline struct sockaddr *lo_tcp(uint16_t port)
{
	return lo(diw_port_tcp(port));
}

/* The next event within this time, or NULL. */
static inline struct rdma_cm_event *next(struct rdma_event_channel *ch, int ms)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	if (poll(&p, 1, ms) != 1 || rdma_get_cm_event(ch, &ev))
		return NULL;
	return ev;
}

/* The next event, which must have that type; otherwise NULL, and the event is printed. */
static inline struct rdma_cm_event *expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = next(ch, SOON_MS);

	if (ev && ev->event == type)
		return ev;
	printf("# %s, not %s\n", ev ? rdma_event_str(ev->event) : "nothing", rdma_event_str(type));
	if (ev)
		rdma_ack_cm_event(ev);
	return NULL;
}

static inline bool comes(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev = expect(ch, type);

	return ev && rdma_ack_cm_event(ev) == 0;
}

static inline bool make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {
		.qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }, .sq_sig_all = 1,
	};

	return rdma_create_qp(id, NULL, &a) == 0;
}

static inline struct rdma_cm_id *listener(struct rdma_event_channel *ch, enum rdma_port_space ps, uint16_t *port)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, ps) || rdma_bind_addr(id, lo(0)) || rdma_listen(id, 0)) {
		printf("not ok - a listener: %s\n", strerror(errno));
		exit(1);
	}
	*port = ntohs(rdma_get_src_port(id));
	return id;
}

/* Ready to connect. */
static inline struct rdma_cm_id *asker(struct rdma_event_channel *ch, enum rdma_port_space ps, uint16_t port)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(ch, &id, NULL, ps) || rdma_resolve_addr(id, NULL, lo(port), SOON_MS) ||
	    !comes(ch, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(id, SOON_MS) ||
	    !comes(ch, RDMA_CM_EVENT_ROUTE_RESOLVED) || !make_qp(id)) {
		printf("not ok - an identifier that may connect: %s\n", strerror(errno));
		exit(1);
	}
	return id;
}

static inline int destroy(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	return rdma_destroy_id(id);
}

static inline int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Soon: closed objects may still wait for their peers. */
static inline bool no_more_files(int than)
{
	for (int ms = 0; ms < SOON_MS && open_files() > than; ms += 10)
		usleep(10000);
	return open_files() <= than;
}

#endif
