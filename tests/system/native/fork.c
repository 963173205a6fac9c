/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(): a child's inherited objects do not work and disturb nothing, the parent's continue to work, and the child may
 * open its own. Prints "ok - ..." and "not ok - ..." for tests/system/native/fork.sh; with any argument it only leaves
 * a child behind.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/diw.h"

#define SIZE 100000u
#define WAIT_NS 30000000000ll

struct node {
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_channel *channel;
	struct diw_cq *cq;
	struct diw_srq *srq;
	struct diw_mr *from, *to;
	struct diw_qp *a, *b;
	struct diw_addr b_addr;
	char *src, *sink;
};

static int failed;

static void say(int good, const char *what)
{
	printf("%s - %s\n", good ? "ok" : "not ok", what);
	fflush(stdout);
	failed |= !good;
}

static int node_open(struct node *n)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_qp_info info;

	n->src = malloc(SIZE);
	n->sink = calloc(1, SIZE);
	memset(n->src, 'd', SIZE);
	if (diw_dev_open("diw_lo", NULL, &n->dev) || diw_pd_alloc(n->dev, &n->pd) ||
	    diw_channel_create(n->dev, &n->channel) || diw_cq_create(n->dev, 64, n->channel, NULL, &n->cq) ||
	    diw_srq_create(n->pd, 8, 1, NULL, &n->srq) ||
	    diw_mr_reg(n->pd, n->src, SIZE, DIW_ACCESS_LOCAL_READ, &n->from) ||
	    diw_mr_reg(n->pd, n->sink, SIZE, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE, &n->to))
		return -1;
	attr.send_cq = attr.recv_cq = n->cq;
	if (diw_qp_create(n->pd, &attr, &n->a) || diw_qp_create(n->pd, &attr, &n->b) || diw_qp_query(n->b, &info))
		return -1;
	n->b_addr = info.local;
	return 0;
}

static int post_write(struct node *n)
{
	struct diw_sge sge = { n->src, SIZE, n->from->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE_RECORD, .dst.addr = n->b_addr,
		.stag = n->to->stag, .to = n->to->to };

	return diw_post_send(n->a, &wr, NULL);
}

static int write_arrives(struct node *n)
{
	struct diw_wc wc;

	memset(n->sink, 0, SIZE);
	return post_write(n) == 0 && diw_cq_wait(n->cq, &wc, 1, WAIT_NS) == 1 &&
		wc.opcode == DIW_WC_RECV_WRITE_RECORD && wc.byte_len == SIZE && !memcmp(n->src, n->sink, SIZE);
}

/* Every call that names an object, except those that close one. */
static int all_dead(struct node *n)
{
	struct diw_recv_wr recv = { 0 };
	struct diw_dev_info dev_info;
	struct diw_qp_info qp_info;
	struct diw_qp_error error;
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_event event;
	struct diw_wc wc;
	struct diw_pd *pd;
	struct diw_cq *cq;
	struct diw_qp *qp;
	struct diw_mr *mr;
	struct diw_srq *srq;
	struct diw_channel *channel;
	struct diw_record_info record;
	uint64_t value;

	attr.send_cq = attr.recv_cq = n->cq;
	attr.dgram.local = n->b_addr;         /* in use, which has no effect here */
	const struct { const char *name; int rc; } call[] = {
		{ "diw_dev_query", diw_dev_query(n->dev, &dev_info) },
		{ "diw_event_fd", diw_event_fd(n->dev) },
		{ "diw_event_get", diw_event_get(n->dev, &event, 0) },
		{ "diw_pd_alloc", diw_pd_alloc(n->dev, &pd) },
		{ "diw_mr_reg", diw_mr_reg(n->pd, n->src, SIZE, 0, &mr) },
		{ "diw_cq_create", diw_cq_create(n->dev, 1, NULL, NULL, &cq) },
		{ "diw_cq_poll", diw_cq_poll(n->cq, &wc, 1, 0) },
		{ "diw_cq_wait", diw_cq_wait(n->cq, &wc, 1, WAIT_NS) },
		{ "diw_cq_arm", diw_cq_arm(n->cq, false) },
		{ "diw_channel_create", diw_channel_create(n->dev, &channel) },
		{ "diw_channel_fd", diw_channel_fd(n->channel) },
		{ "diw_channel_get", diw_channel_get(n->channel, &cq, 0) },
		{ "diw_srq_create", diw_srq_create(n->pd, 1, 1, NULL, &srq) },
		{ "diw_srq_set_limit", diw_srq_set_limit(n->srq, 1) },
		{ "diw_post_srq_recv", diw_post_srq_recv(n->srq, &recv, NULL) },
		{ "diw_qp_create", diw_qp_create(n->pd, &attr, &qp) },
		{ "diw_qp_query", diw_qp_query(n->a, &qp_info) },
		{ "diw_qp_impair", diw_qp_impair(n->a, NULL, NULL, 0) },
		{ "diw_qp_error_get", diw_qp_error_get(n->a, &error) },
		{ "diw_qp_counters", diw_qp_counters(n->a, &value, 1) },
		{ "diw_qp_count", diw_qp_count(n->a, 0, 1) },
		{ "diw_qp_records", diw_qp_records(n->a, &record, 1) },
		{ "diw_post_send", post_write(n) },
		{ "diw_post_recv", diw_post_recv(n->a, &recv, NULL) },
	};
	int good = 1;

	for (size_t i = 0; i < sizeof call / sizeof call[0]; i++)
		if (call[i].rc != -ENODEV) {
			printf("# in the child %s returns %d\n", call[i].name, call[i].rc);
			good = 0;
		}
	return good;
}

static void node_close(struct node *n)
{
	if (diw_qp_destroy(n->a) || diw_qp_destroy(n->b) || diw_mr_dereg(n->from) || diw_mr_dereg(n->to) ||
	    diw_srq_destroy(n->srq) || diw_cq_destroy(n->cq) || diw_channel_destroy(n->channel) || diw_pd_free(n->pd) ||
	    diw_dev_close(n->dev))
		say(0, "an object closes without an error");
	free(n->src);
	free(n->sink);
}

static int child(struct node *inherited)
{
	struct node own = { 0 };

	failed = 0;
	say(all_dead(inherited), "in the child every call on an inherited object returns -ENODEV");
	say(node_open(&own) == 0 && write_arrives(&own), "the child opens a device and queue pairs of its own");
	node_close(&own);
	node_close(inherited);
	say(!failed, "the child closes both without an error");
	return failed;
}

/* Prints the process id of its child, ends before it, and closes nothing. It ends once the child runs its own code: the
   library's handler in the child, which releases the capture file, is then done. */
static void orphan(void)
{
	int running[2];
	char c;
	pid_t pid;

	if (pipe(running) < 0)
		_exit(1);
	pid = fork();
	if (pid == 0) {
		fclose(stdout);
		fclose(stderr);
		if (write(running[1], "r", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	if (pid < 0 || read(running[0], &c, 1) != 1)
		_exit(1);
	printf("%d\n", (int)pid);
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct node n = { 0 };
	struct diw_wc wc;
	int status;
	pid_t pid;

	(void)argv;
	if (node_open(&n)) {
		say(0, "queue pairs on lo");
		return 1;
	}
	if (argc > 1)
		orphan();
	say(write_arrives(&n), "before the fork a Write-Record arrives");
	pid = fork();
	if (pid == 0)
		_exit(child(&n));
	for (int i = 0; i < 100; i++)
		failed |= !write_arrives(&n);
	say(!failed, "the parent's Write-Records arrive while the child lives");
	say(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ends well");
	say(write_arrives(&n), "after the child has closed everything the parent's still arrive");
	say(diw_cq_poll(n.cq, &wc, 1, 50000000) == 0, "and nothing else came");
	node_close(&n);
	return failed;
}
