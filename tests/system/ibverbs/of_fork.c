/* SPDX-License-Identifier: BSD-2-Clause */
/* libibverbs and fork(): a child destroys inherited objects, whatever the parent's threads are doing, and opens a
 * device of its own. The parent's objects continue to work. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "of_pair.h"

#define FORKS 40
#define PAUSE_US 200                 /* during which the forking thread may get the lock */

static struct ibv_comp_channel *channel;
static atomic_bool stop;

/* Takes and releases the context's lock continuously. */
static void *churn_qps(void *arg)
{
	struct side s = { 0 };

	(void)arg;
	while (!atomic_load(&stop))
		if (side_open(&s, IBV_QPT_RC, 0, NULL)) {
			to_init(&s);
			side_close(&s);
			usleep(PAUSE_US);
		}
	return NULL;
}

/* Takes and releases the channel's lock continuously. */
static void *churn_cqs(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		struct ibv_cq *cq = ibv_create_cq(dev, 1, NULL, channel, 0);

		if (cq)
			ibv_destroy_cq(cq);
		usleep(PAUSE_US);
	}
	return NULL;
}

static bool own_device(void)
{
	struct ibv_context *c = open_lo();
	struct ibv_pd *p = ibv_alloc_pd(c);

	return p && ibv_dealloc_pd(p) == 0 && ibv_close_device(c) == 0;
}

static int in_child(struct side *s, struct ibv_cq *cq)
{
	alarm(60);
	if (!own_device())
		return 1;
	if (side_close(s) || ibv_destroy_cq(cq))
		return 2;
	ibv_close_device(dev);
	return 0;
}

int main(void)
{
	pthread_t qps, cqs;
	struct side s = { 0 };
	struct ibv_cq *cq;
	int status = 0;

	open_all();
	channel = ibv_create_comp_channel(dev);
	cq = ibv_create_cq(dev, 1, NULL, channel, 0);
	CHECK(cq && side_open(&s, IBV_QPT_RC, 0, NULL), "a channel, a completion queue, a queue pair");
	pthread_create(&qps, NULL, churn_qps, NULL);
	pthread_create(&cqs, NULL, churn_cqs, NULL);
	for (int i = 0; i < FORKS && status == 0; i++) {
		pid_t child = fork();

		if (child == 0)
			_exit(in_child(&s, cq));
		waitpid(child, &status, 0);
	}
	atomic_store(&stop, true);
	pthread_join(qps, NULL);
	pthread_join(cqs, NULL);
	CHECK(status == 0, "children that no thread's lock stops destroy what they inherited, and open a device");
	CHECK(to_init(&s) == 0 && to_rtr(&s, s.qp->qp_num) == 0 && to_rts(&s) == 0, "the parent's queue pair goes on");
	CHECK(side_close(&s) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0 &&
	      close_all() == 0, "all is given back");
	return failed;
}
