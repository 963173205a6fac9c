/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of librdmacm and of the library below it: they exist while an identifier or an rsocket needs them, and
 * not longer. */
#include <rdma/rsocket.h>
#include <sys/wait.h>

#include "tests/system/rdmacm/cma_kit.h"

#define ROUNDS 30

static int tasks(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Soon: a joined thread may still be visible for a moment. */
static bool alone(void)
{
	for (int ms = 0; ms < SOON_MS && tasks() != 1; ms++)
		usleep(1000);
	return tasks() == 1;
}

enum order { IN_ORDER, WHILE_CONNECTED, QUEUE_PAIR_LAST };

static bool connection(enum order order)
{
	struct rdma_event_channel *srv = rdma_create_event_channel(), *cli = rdma_create_event_channel();
	struct rdma_cm_id *l, *a, *b;
	struct rdma_cm_event *ev;
	struct ibv_cq *cq[2] = { NULL };
	struct ibv_qp *qp = NULL;
	uint16_t port;
	bool good;

	l = listener(srv, RDMA_PS_TCP, &port);
	a = asker(cli, RDMA_PS_TCP, port);
	if (rdma_connect(a, NULL) || !(ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)))
		return false;
	b = ev->id;
	good = make_qp(b) && rdma_accept(b, NULL) == 0 && rdma_ack_cm_event(ev) == 0 &&
	       comes(cli, RDMA_CM_EVENT_ESTABLISHED) && comes(srv, RDMA_CM_EVENT_ESTABLISHED) && tasks() > 1;
	if (order == IN_ORDER)
		good &= rdma_disconnect(a) == 0 && comes(cli, RDMA_CM_EVENT_DISCONNECTED);
	if (order == QUEUE_PAIR_LAST) {
		qp = a->qp;
		cq[0] = a->send_cq;
		cq[1] = a->recv_cq;
		a->qp = NULL;
	}
	good &= destroy(a) == 0 && destroy(b) == 0 && rdma_destroy_id(l) == 0;
	rdma_destroy_event_channel(srv);
	rdma_destroy_event_channel(cli);
	if (qp) {
		good &= ibv_destroy_qp(qp) == 0;
		for (int i = 0; i < 2; i++) {
			struct ibv_comp_channel *ch = cq[i]->channel;

			good &= ibv_destroy_cq(cq[i]) == 0 && ibv_destroy_comp_channel(ch) == 0;
		}
	}
	return good;
}

static bool rsockets(void)
{
	struct sockaddr_in in;
	socklen_t len = sizeof in;
	int l = rsocket(AF_INET, SOCK_STREAM, 0), a = rsocket(AF_INET, SOCK_STREAM, 0), b;
	int u = rsocket(AF_INET, SOCK_DGRAM, 0);
	char byte;
	bool good = rbind(l, lo(0), len) == 0 && rlisten(l, 4) == 0 &&
		    rgetsockname(l, (struct sockaddr *)&in, &len) == 0 &&
		    rconnect(a, (struct sockaddr *)&in, len) == 0 && rbind(u, lo(0), len) == 0 &&
		    (b = raccept(l, NULL, NULL)) >= 0 && rwrite(a, "x", 1) == 1 && rread(b, &byte, 1) == 1 &&
		    tasks() > 1;

	return good && rclose(a) == 0 && rclose(b) == 0 && rclose(l) == 0 && rclose(u) == 0;
}

static bool rounds(const char *what, bool (*round)(int), int kinds)
{
	int files = 0;
	bool good = true;

	for (int i = 0; i < ROUNDS && good; i++) {
		good = round(i % kinds) && alone();
		if (i == kinds)
			files = open_files();
	}
	CHECK(good, what);
	return CHECK(no_more_files(files), "... and no descriptor stays");
}

static bool connections(int i) { return connection((enum order)i); }
static bool sockets(int i) { (void)i; return rsockets(); }

static bool both(int i)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	uint16_t port;
	struct rdma_cm_id *l = listener(ch, i ? RDMA_PS_UDP : RDMA_PS_TCP, &port);
	bool good = rsockets() && tasks() > 1 && rdma_destroy_id(l) == 0;

	rdma_destroy_event_channel(ch);
	return good;
}

/* A child has none of the threads, and exits regularly whenever it was forked. */
static void forks(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	uint16_t port;
	struct rdma_cm_id *l = listener(ch, RDMA_PS_TCP, &port);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0), status;
	pid_t pid;

	CHECK(rbind(fd, lo(0), sizeof(struct sockaddr_in)) == 0 && rlisten(fd, 4) == 0, "both are there");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		rclose(fd);
		exit(tasks() != 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ends well");
	CHECK(rdma_destroy_id(l) == 0 && rclose(fd) == 0 && alone(), "the parent's threads still end");
	rdma_destroy_event_channel(ch);
}

static void *loop(void *arg)
{
	bool good = true;

	for (int i = 0; i < ROUNDS && good; i++) {
		struct rdma_event_channel *ch = rdma_create_event_channel();
		uint16_t port;
		struct rdma_cm_id *l = listener(ch, RDMA_PS_TCP, &port);

		good = rdma_destroy_id(l) == 0 && (arg || rsockets());
		rdma_destroy_event_channel(ch);
	}
	return (void *)(intptr_t)good;
}

/* The last identifier is destroyed and a new one created at the same time. */
static void at_once(void)
{
	pthread_t t[4];
	bool good = true;
	void *got;

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, loop, i % 2 ? &t[i] : NULL);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &got);
		good &= got != NULL;
	}
	CHECK(good && alone(), "four threads that begin and end");
}

int main(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);

	CHECK(list && list[0] && alone(), "a list of devices needs no thread");
	rdma_free_devices(list);
	rounds("connections leave no thread", connections, 3);
	rounds("rsockets leave none", sockets, 1);
	rounds("both together leave none", both, 2);
	forks();
	at_once();
	return failed;
}
