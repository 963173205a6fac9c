/* SPDX-License-Identifier: BSD-2-Clause */
/* librdmacm and fork(): inherited identifiers of a child fail and do no harm, whatever the parent's threads were doing.
 * The child may have identifiers of its own; the parent's continue to work. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "tests/system/rdmacm/cma_kit.h"

#define FORKS 100

static atomic_bool stop;

/* Takes and releases the library's lock continuously. */
static void *churn(void *ch)
{
	struct rdma_cm_id *id;

	while (!atomic_load(&stop))
		if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0)
			rdma_destroy_id(id);
	return NULL;
}

static bool own(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	uint16_t port;
	struct rdma_cm_id *l = listener(ch, RDMA_PS_TCP, &port);
	bool good = l && rdma_destroy_id(l) == 0;

	rdma_destroy_event_channel(ch);
	return good;
}

static int in_child(struct rdma_cm_id *a)
{
	alarm(60);
	if (!own())
		return 1;
	if (rdma_connect(a, NULL) == 0 || rdma_disconnect(a) == 0)
		return 2;
	a->qp = NULL;
	return rdma_destroy_id(a) ? 3 : 0;
}

int main(void)
{
	struct rdma_event_channel *srv = rdma_create_event_channel(), *cli = rdma_create_event_channel(),
				  *busy = rdma_create_event_channel();
	struct rdma_cm_id *l, *a, *b;
	struct rdma_cm_event *ev = NULL;
	pthread_t thread;
	uint16_t port;
	int status = 0;
	bool good;

	l = listener(srv, RDMA_PS_TCP, &port);
	a = asker(cli, RDMA_PS_TCP, port);
	good = rdma_connect(a, NULL) == 0 && (ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST));
	b = good ? ev->id : NULL;
	CHECK(good && make_qp(b) && rdma_accept(b, NULL) == 0 && rdma_ack_cm_event(ev) == 0 &&
	      comes(cli, RDMA_CM_EVENT_ESTABLISHED) && comes(srv, RDMA_CM_EVENT_ESTABLISHED), "a connection");
	pthread_create(&thread, NULL, churn, busy);
	for (int i = 0; i < FORKS && status == 0; i++) {
		pid_t child = fork();

		if (child == 0)
			_exit(in_child(a));
		waitpid(child, &status, 0);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	CHECK(status == 0, "children that a thread's lock does not stop, with identifiers of their own");
	CHECK(rdma_disconnect(a) == 0 && comes(cli, RDMA_CM_EVENT_DISCONNECTED) &&
	      comes(srv, RDMA_CM_EVENT_DISCONNECTED),
	      "the parent's connection lives until it ends it");
	CHECK(destroy(a) == 0 && destroy(b) == 0 && rdma_destroy_id(l) == 0, "all is given back");
	return failed;
}
