/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In personality ca a completion means that the peer has placed the data, as with an adapter. So a program that then
 * tells a third one cannot be overtaken by its own Write. The peer is a process that is stopped. `now`: completions are
 * expected when TCP has taken the data, as with DIWARP_CONFIRM=off and in personality rnic.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "of_pair.h"

#define LEN 4096u

struct hello { uint32_t qpn, rkey; };

static uint8_t *shared;              /* the peer's memory */

static void peer(int in, int out)
{
	struct side s = { 0 };
	struct hello h;
	struct ibv_mr *m;
	struct ibv_wc wc;

	open_all();
	m = ibv_reg_mr(pd, shared, 2 * LEN, ALL_ACCESS);
	side_open(&s, IBV_QPT_RC, 0, NULL);
	h = (struct hello){ s.qp->qp_num, m->rkey };
	(void)!write(out, &h, sizeof h);
	(void)!read(in, &h, sizeof h);
	to_init(&s);
	post_recv(&s, HALF, 64, 1);
	post_recv(&s, HALF, 64, 2);
	to_rtr(&s, h.qpn);
	to_rts(&s);
	for (;;)
		next_wc(&s, &wc, SOON);
}

static int post_write(struct side *s, uint32_t rkey, uint64_t id)
{
	struct ibv_sge sge = sge_at(0, LEN);
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;

	wr.wr.rdma.remote_addr = (uintptr_t)shared;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(s->qp, &wr, &bad);
}

static void stop(pid_t pid)
{
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
}

int main(int argc, char **argv)
{
	bool now = argc > 1 && strcmp(argv[1], "now") == 0;
	struct side s = { 0 };
	int to[2], from[2];
	struct hello h, own;
	pid_t pid;

	shared = mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pipe(to) || pipe(from) || shared == MAP_FAILED)
		return 1;
	pid = fork();                           /* before any process opens a device */
	if (pid == 0)
		peer(to[0], from[1]);
	open_all();
	side_open(&s, IBV_QPT_RC, 0, NULL);
	own = (struct hello){ s.qp->qp_num, 0 };
	(void)!write(to[1], &own, sizeof own);
	(void)!read(from[0], &h, sizeof h);
	CHECK(to_init(&s) == 0 && to_rtr(&s, h.qpn) == 0 && to_rts(&s) == 0, "a peer in another process");
	memset(mem, 0x11, LEN);
	CHECK(post_write(&s, h.rkey, 1) == 0 && next_is(&s, 1, IBV_WC_SUCCESS), "a Write to it completes");
	CHECK(now || (shared[0] == 0x11 && shared[LEN - 1] == 0x11), "... and is placed then");
	stop(pid);
	memset(mem, 0x22, LEN);
	CHECK(post_write(&s, h.rkey, 2) == 0, "it is stopped; a Write");
	if (now) {
		CHECK(next_is(&s, 2, IBV_WC_SUCCESS), "... completes");
	} else {
		CHECK(none(&s) && shared[0] == 0x11, "... is not complete while it is not placed");
		kill(pid, SIGCONT);
		CHECK(next_is(&s, 2, IBV_WC_SUCCESS), "... it goes on: completes");
		CHECK(shared[0] == 0x22 && shared[LEN - 1] == 0x22, "... and is placed");
		stop(pid);
		CHECK(post_send(&s, 0, 64, 3) == 0 && none(&s), "a Send is not complete, either");
		CHECK(post_send(&s, 0, 64, 4) == 0 && none(&s), "nor one behind it");
		kill(pid, SIGCONT);
		CHECK(next_is(&s, 3, IBV_WC_SUCCESS) && next_is(&s, 4, IBV_WC_SUCCESS), "... until it goes on");
	}
	if (!now) {
		stop(pid);
		CHECK(post_send(&s, 0, 64, 5) == 0, "a Send to the peer, which is stopped and then dies");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (!now) {
		CHECK(none(&s),
		      "... does not fail before retry_cnt retries: other queue pairs' completions may be first");
		CHECK(next_is(&s, 5, IBV_WC_RETRY_EXC_ERR), "... then it fails");
	}
	CHECK(side_close(&s) == 0 && close_all() == 0, "everything is closed");
	return failed;
}
