/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that are cancelled in the calls of diw.h that wait, alone and beside others: afterwards everything works. */
#include <string.h>

#include "tests/system/native/cancel_kit.h"
#include "verbs/diw_cm.h"

#define S 1000000000ll
#define TIMES 1000
#define QKEY 0x1234u

static struct diw_dev *dev;
static struct diw_channel *ch;
static struct diw_cm *cm;
static struct diw_cq *cq, *scq;      /* ch reports events of scq */
static struct diw_qp *qp;
static struct diw_mr *mr;
static struct diw_addr self;
static uint8_t mem[4096];
static int failed;

static void check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	fflush(stdout);
	failed |= !good;
}

static void must(int rc, const char *what)
{
	if (rc < 0) {
		printf("not ok - %s: %s\n", what, strerror(-rc));
		exit(1);
	}
}
#define MUST(call) must(call, #call)

static void open_all(void)
{
	struct diw_pd *pd;
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_qp_info info;

	MUST(diw_dev_open("diw_lo", NULL, &dev));
	MUST(diw_pd_alloc(dev, &pd));
	MUST(diw_mr_reg(pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE, &mr));
	MUST(diw_channel_create(dev, &ch));
	MUST(diw_cm_create(dev, &cm));
	MUST(diw_cq_create(dev, 1024, NULL, NULL, &cq));
	MUST(diw_cq_create(dev, 1024, ch, NULL, &scq));
	attr.send_cq = scq;
	attr.recv_cq = cq;
	attr.dgram.qkey = QKEY;
	MUST(diw_qp_create(pd, &attr, &qp));
	MUST(diw_qp_query(qp, &info));
	self = info.local;
}

static void send_one(void)
{
	struct diw_sge out = { mem, 64, mr->stag }, in = { mem + 1024, 64, mr->stag };

	MUST(diw_cq_arm(scq, false));
	MUST(diw_post_recv(qp, &(struct diw_recv_wr){ .sge = &in, .num_sge = 1 }, NULL));
	MUST(diw_post_send(qp, &(struct diw_send_wr){ .opcode = DIW_WR_SEND, .sge = &out, .num_sge = 1,
						      .dst.addr = self, .qkey = QKEY,
						      .flags = DIW_SEND_SIGNALED }, NULL));
}

static bool works(void)
{
	struct diw_cq *which;
	struct diw_wc wc;

	usleep(50);
	while (diw_cq_poll(cq, &wc, 1, 0) > 0 || diw_cq_poll(scq, &wc, 1, 0) > 0)
		;
	while (diw_channel_get(ch, &which, 0) == 0)
		;
	send_one();
	return diw_cq_wait(cq, &wc, 1, 30 * S) == 1 && diw_channel_get(ch, &which, 30 * S) == 0 && which == scq &&
	       diw_cq_poll(scq, &wc, 1, 30 * S) == 1;
}

static void wait_cq(void *arg)
{
	struct diw_wc wc;

	(void)arg;
	diw_cq_wait(cq, &wc, 1, 5 * S);
}

static void wait_channel(void *arg)
{
	struct diw_cq *which;

	(void)arg;
	diw_channel_get(ch, &which, 5 * S);
}

static void wait_event(void *arg)
{
	struct diw_event ev;

	(void)arg;
	diw_event_get(dev, &ev, *(int64_t *)arg);
}

static void wait_cm(void *arg)
{
	struct diw_cm_event ev;

	diw_cm_get(cm, &ev, *(int64_t *)arg);
}

static void each(const char *beside)
{
	static int64_t short_ns = S / 500, long_ns = 5 * S;
	char what[128];
	const struct { const char *name; void (*call)(void *arg); void (*provoke)(void); } calls[] = {
		{ "diw_cq_wait", wait_cq, send_one }, { "diw_channel_get", wait_channel, send_one },
		{ "diw_event_get", wait_event, NULL }, { "diw_cm_get", wait_cm, NULL },
	};

	for (int i = 0; i < 4; i++) {
		int n = sweep(calls[i].call, &short_ns, calls[i].provoke, works);

		snprintf(what, sizeof what, "a thread is cancelled at each of %d points of %s()%s", n, calls[i].name,
			 beside);
		check(n > 1, what);
		snprintf(what, sizeof what, "... and at any time%s", beside);
		check(shoot(calls[i].call, &long_ns, calls[i].provoke ? TIMES : TIMES / 5, calls[i].provoke, works),
		      what);
	}
}

static void lead(void *arg)
{
	for (;;)
		wait_event(arg);
}

int main(void)
{
	static int64_t ever = -1;
	struct victim leader = { .call = lead, .arg = &ever };

	alarm(120);
	open_all();
	check(works(), "a message arrives");
	each("");
	victim_start(&leader);
	usleep(1000);
	each(", beside another");
	pthread_cancel(leader.thread);
	victim_join(&leader);
	check(works(), "the other is cancelled, too");
	return failed;
}
