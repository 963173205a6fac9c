/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * N reliable-datagram peers and one queue pair, in two processes: every message arrives once and in order; peers that
 * are killed delay no other peer, and can come back at the same address. Prints a JSON object, with the memory that the
 * queue pair's process has used for them; exits with 1 and a line on standard error if something fails.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/system/must.h"
#include "tests/system/native/cost.h"
#include "verbs/diw.h"

#define S 1000000000ll
#define MESSAGES 3u                  /* of each peer */
#define RECVS 512u                   /* of the single queue pair: small rings take little memory */
#define PEERS_MAX 4096u
#define REPLIES 16u                  /* under way at a time */
#define AGAIN 50u                    /* peers of the second process */

struct msg { uint32_t peer, k; };
struct start { struct diw_addr server; uint16_t port; };       /* port: of the second process' first queue pair */

static struct diw_dev *dev;
static struct diw_pd *pd;
static struct diw_cq *cq;
static struct diw_mr *mr;
static struct msg mem[PEERS_MAX];

#define REQUIRE(cond) must((cond) ? 0 : -EBADMSG, #cond)

static void open_all(uint32_t depth)
{
	MUST(diw_dev_open("diw_lo", NULL, &dev));
	MUST(diw_pd_alloc(dev, &pd));
	MUST(diw_cq_create(dev, depth, NULL, NULL, &cq));
	MUST(diw_mr_reg(pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE, &mr));
}

static struct diw_qp *rd_create(uint32_t sq, uint32_t rq, uint16_t port)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;
	struct diw_qp *qp;

	a.type = DIW_QP_RD;
	a.send_cq = a.recv_cq = cq;
	a.sq_depth = sq;
	a.rq_depth = rq;
	a.dgram.local.port = port;
	MUST(diw_qp_create(pd, &a, &qp));
	return qp;
}

static void recv_post(struct diw_qp *qp, uint32_t i)
{
	struct diw_sge sge = { &mem[i], sizeof mem[i], mr->stag };
	struct diw_recv_wr wr = { .wr_id = i, .sge = &sge, .num_sge = 1 };

	MUST(diw_post_recv(qp, &wr, NULL));
}

static void msg_send(struct diw_qp *qp, const struct diw_addr *to, uint32_t peer, uint32_t k)
{
	struct msg m = { peer, k };
	struct diw_sge sge = { &m, sizeof m, 0 };
	struct diw_send_wr wr = { .wr_id = k, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
				  .flags = DIW_SEND_SIGNALED | DIW_SEND_INLINE, .dst.addr = *to };

	MUST(diw_post_send(qp, &wr, NULL));
}

static struct diw_wc wc_next(void)
{
	struct diw_wc wc;

	REQUIRE(diw_cq_wait(cq, &wc, 1, 60 * S) == 1);
	return wc;
}

/* ---- The peers ---- */

static void peers(uint32_t n, int from, int to)
{
	struct start start;
	uint32_t sent = 0, replies = 0;

	must(read(from, &start, sizeof start) == sizeof start ? 0 : -EPIPE, "the server");
	open_all(n * 8);
	for (uint32_t i = 0; i < n; i++) {
		struct diw_qp *qp = rd_create(MESSAGES, 1, i == 0 ? start.port : 0);

		recv_post(qp, i);
		for (uint32_t k = 0; k < MESSAGES; k++)
			msg_send(qp, &start.server, i, k);
	}
	while (sent < n * MESSAGES || replies < n) {
		struct diw_wc wc = wc_next();

		REQUIRE(wc.status == DIW_WC_SUCCESS);
		if (wc.opcode == DIW_WC_RECV)
			REQUIRE(mem[wc.wr_id].peer == wc.wr_id), replies++;
		else
			sent++;
	}
	must(write(to, "", 1) == 1 ? 0 : -EPIPE, "the server");
	pause();
}

/* ---- Their destination ---- */

struct peer { struct diw_addr addr; uint32_t came; };

static void message_came(struct diw_qp *qp, const struct diw_wc *wc, struct peer *of, uint32_t n)
{
	const struct msg *m = &mem[wc->wr_id];

	REQUIRE(wc->status == DIW_WC_SUCCESS && wc->opcode == DIW_WC_RECV && wc->byte_len == sizeof *m);
	REQUIRE(m->peer < n && m->k == of[m->peer].came);
	if (m->k == 0)
		of[m->peer].addr = wc->src;
	REQUIRE(memcmp(&of[m->peer].addr, &wc->src, sizeof wc->src) == 0);
	of[m->peer].came++;
	recv_post(qp, (uint32_t)wc->wr_id);
}

static void replies_send(struct diw_qp *qp, const struct peer *of, uint32_t n)
{
	uint32_t begun = 0, done = 0;

	while (done < n) {
		for (; begun < n && begun - done < REPLIES; begun++)
			msg_send(qp, &of[begun].addr, begun, 0);
		struct diw_wc wc = wc_next();

		REQUIRE(wc.opcode == DIW_WC_SEND && wc.status == DIW_WC_SUCCESS);
		done++;
	}
}

/* Two messages to killed peers, while others come, one of them at the address of the first: both messages fail, and the
 * others are not affected. Returns the seconds until the second fails. */
static double killed(struct diw_qp *qp, struct peer *of, int to, int from, const struct start *start)
{
	struct peer again[AGAIN] = { 0 };
	uint32_t failed = 0, came = 0;
	double begin = now();
	char c;

	msg_send(qp, &of[0].addr, 0, 1000);
	msg_send(qp, &of[1].addr, 1, 1001);
	must(write(to, start, sizeof *start) == sizeof *start ? 0 : -EPIPE, "the second process");
	while (came < AGAIN * MESSAGES) {
		struct diw_wc wc = wc_next();

		if (wc.opcode == DIW_WC_SEND)
			REQUIRE(wc.status == DIW_WC_PEER_GONE), failed++;
		else
			message_came(qp, &wc, again, AGAIN), came++;
	}
	REQUIRE(failed < 2);                    /* before the dead peer is given up */
	REQUIRE(memcmp(&again[0].addr, &of[0].addr, sizeof of[0].addr) == 0);
	for (; failed < 2; failed++)
		REQUIRE(wc_next().status == DIW_WC_PEER_GONE);
	begin = now() - begin;
	replies_send(qp, again, AGAIN);
	must(read(from, &c, 1) == 1 ? 0 : -EPIPE, "the second process");
	return begin;
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 2000, came;
	struct peer *of = malloc(n * sizeof *of);
	int to[2][2], from[2][2];
	struct diw_qp_info info;
	struct rlimit lim;
	struct start start;
	struct diw_qp *qp;
	double begin, all, gone;
	pid_t child[2];
	long memory;
	char c;

	REQUIRE(n >= 2 && n <= PEERS_MAX);
	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	for (int i = 0; i < 2; i++) {
		REQUIRE(pipe(to[i]) == 0 && pipe(from[i]) == 0);
		child[i] = fork();
		if (child[i] == 0) {
			peers(i ? AGAIN : n, to[i][0], from[i][1]);
			exit(1);
		}
		close(from[i][1]);
	}
	memset(of, 0, n * sizeof *of);
	open_all(RECVS + REPLIES);
	qp = rd_create(REPLIES, RECVS, 0);
	for (uint32_t i = 0; i < RECVS; i++)
		recv_post(qp, i);
	MUST(diw_qp_query(qp, &info));
	start = (struct start){ .server = info.local };
	memory = resident();
	begin = now();
	must(write(to[0][1], &start, sizeof start) == sizeof start ? 0 : -EPIPE, "the peers");
	for (came = 0; came < n * MESSAGES; came++) {
		struct diw_wc wc = wc_next();

		message_came(qp, &wc, of, n);
	}
	replies_send(qp, of, n);
	must(read(from[0][0], &c, 1) == 1 ? 0 : -EPIPE, "the peers");
	all = now() - begin;
	memory = resident() - memory;
	REQUIRE(kill(child[0], SIGKILL) == 0 && waitpid(child[0], NULL, 0) == child[0]);
	start.port = of[0].addr.port;
	gone = killed(qp, of, to[1][1], from[1][0], &start);
	kill(child[1], SIGKILL);
	MUST(diw_qp_destroy(qp));
	MUST(diw_mr_dereg(mr));
	MUST(diw_cq_destroy(cq));
	MUST(diw_pd_free(pd));
	MUST(diw_dev_close(dev));
	printf("{ \"peers\": %u, \"seconds\": %.2f, \"memory\": %ld, \"gone_seconds\": %.1f }\n", n, all, memory, gone);
	return 0;
}
