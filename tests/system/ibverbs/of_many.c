/* SPDX-License-Identifier: BSD-2-Clause */
/* Thousands of objects: to destroy them in the order of their creation takes as long as in the reverse order, and to
 * deregister memory takes as long with thousands of queue pairs as with none. The times are those of this thread's
 * processor, and the best of several runs. */
#include "of_kit.h"

#include <time.h>

#define RUNS 5
#define SLOWER 3                     /* the order that comes first is in the caches: some difference is normal */

static struct ibv_context *dev;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static void *object[(1 << 20) + 1];

static void *new_srq(void)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(pd, &a);
}

static int end_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static void *new_cq(void)
{
	return ibv_create_cq(dev, 1, NULL, channel, 0);
}

static int end_cq(void *p)
{
	return ibv_destroy_cq(p);
}

static void *new_qp(void)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = { .max_send_wr = 1, .max_recv_wr = 1 },
	};

	return ibv_create_qp(pd, &a);
}

static int end_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static void *new_mr(void)
{
	return ibv_reg_mr(pd, object, sizeof object, 0);
}

static int end_mr(void *mr)
{
	return ibv_dereg_mr(mr);
}

static double cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* The time to destroy N objects; -1: a call fails. */
static double destroy(int n, bool reverse, void *(*create)(void), int (*end)(void *))
{
	double begin;

	for (int i = 0; i < n; i++)
		if (!(object[i] = create()))
			return -1;
	begin = cpu();
	for (int i = 0; i < n; i++)
		if (end(object[reverse ? n - 1 - i : i]))
			return -1;
	return cpu() - begin;
}

static void orders(const char *what, int n, void *(*create)(void), int (*end)(void *))
{
	double best[2] = { 1e9, 1e9 };

	for (int i = 0; i < 2 * RUNS; i++) {
		double took = destroy(n, i % 2, create, end);

		if (took < 0) {
			CHECK(took >= 0, what);
			return;
		}
		if (took < best[i % 2])
			best[i % 2] = took;
	}
	printf("# %s: %.0f and %.0f us\n", what, best[0] * 1e6, best[1] * 1e6);
	CHECK(best[0] < best[1] * SLOWER, what);
}

static double deregister(void)
{
	double best = 1e9;

	for (int i = 0; i < RUNS; i++) {
		double took = destroy(2000, false, new_mr, end_mr);

		if (took >= 0 && took < best)
			best = took;
	}
	return best;
}

static void deregistration(void)
{
	static void *qp[4096];
	double none = deregister(), many;
	bool good = true;

	for (int i = 0; i < 4096; i++)
		good &= (qp[i] = new_qp()) != NULL;
	many = deregister();
	for (int i = 0; i < 4096; i++)
		good &= qp[i] && end_qp(qp[i]) == 0;
	printf("# 2000 deregistrations: %.0f us, with 4096 queue pairs %.0f us\n", none * 1e6, many * 1e6);
	CHECK(good && many < none * SLOWER, "deregistration with many queue pairs");
}

static void *new_pd(void)
{
	return ibv_alloc_pd(dev);
}

static int end_pd(void *p)
{
	return ibv_dealloc_pd(p);
}

static void *new_ah(void)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };

	ibv_query_gid(dev, 1, 0, &a.grh.dgid);
	return ibv_create_ah(pd, &a);
}

static int end_ah(void *ah)
{
	return ibv_destroy_ah(ah);
}

/* MOST objects can be created, and no more. */
static void limit(const char *what, int most, void *(*create)(void), int (*end)(void *))
{
	int n = 0;
	bool good;

	while (n <= most && (object[n] = create()))
		n++;
	good = CHECK(n == most && errno == ENOMEM, what) && end(object[0]) == 0 && (object[0] = create());
	CHECK(good, "another one, when one has been destroyed");
	for (int i = 0; i < n; i++)
		good &= end(object[i]) == 0;
	CHECK(good, "all of them are destroyed");
}

static void limits(void)
{
	struct ibv_device_attr a;

	if (!CHECK(ibv_query_device(dev, &a) == 0 && a.max_pd < 1 << 20 && a.max_srq < 1 << 20 &&
		   a.max_ah <= 1 << 20, "limits"))
		return;
	limit("max_pd", a.max_pd - 1, new_pd, end_pd);
	limit("max_srq", a.max_srq, new_srq, end_srq);
	limit("max_ah", a.max_ah, new_ah, end_ah);
}

int main(void)
{
	dev = open_lo();
	pd = ibv_alloc_pd(dev);
	cq = ibv_create_cq(dev, 1, NULL, NULL, 0);
	channel = ibv_create_comp_channel(dev);
	orders("shared receive queues", 16384, new_srq, end_srq);
	orders("queue pairs", 8192, new_qp, end_qp);
	orders("completion queues of a channel", 16384, new_cq, end_cq);
	deregistration();
	limits();
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0 && ibv_dealloc_pd(pd) == 0 &&
	      ibv_close_device(dev) == 0, "all of it is destroyed");
	return failed;
}
