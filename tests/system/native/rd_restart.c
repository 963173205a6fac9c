/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process of a queue pair that receives reliable datagrams is killed and started again at its port, while
 * messages are under way to it. Each request ends, with success or because the peer is gone. No message is delivered
 * twice or out of order, and what is sent to the new process arrives. Prints a JSON object; exits 1 with a line on
 * standard error when something is wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbs/diw.h"

#define S 1000000000ll
#define LIVES 8
#define DEPTH 64u
#define RECVS 32u
#define LEN 20000u                   /* of a message at most: many segments */
#define MESSAGES (1u << 20)

/* Of all processes. */
static struct {
	struct diw_addr server;
	atomic_int life, stop, over; /* stop: the sender posts no more; over: the last receiver ends */
	_Atomic uint32_t sent, good, gone;
	_Atomic uint32_t came_in[LIVES];     /* messages of each life, */
	uint32_t first[LIVES];               /* and what was sent first after it began */
	_Atomic uint8_t came[MESSAGES], ended[MESSAGES];     /* by number; ended: 1 success, 2 gone */
	double slowest;                      /* seconds from the end of a life to the first success in the next */
} *all;

static struct diw_dev *dev;
static struct diw_pd *pd;
static struct diw_cq *cq;
static struct diw_mr *mr;
static uint8_t mem[DEPTH][LEN];

static void must(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "rd_restart: %s: %s\n", what, strerror(-rc));
		exit(1);
	}
}
#define MUST(call) must(call, #call)
#define REQUIRE(cond) must((cond) ? 0 : -EBADMSG, #cond)

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static uint32_t len_of(uint32_t k) { return 4 + k * 7919u % (LEN - 3); }

static struct diw_qp *open_all(uint16_t port)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;
	struct diw_qp *qp;

	MUST(diw_dev_open("diw_lo", NULL, &dev));
	MUST(diw_pd_alloc(dev, &pd));
	MUST(diw_cq_create(dev, 2 * DEPTH, NULL, NULL, &cq));
	MUST(diw_mr_reg(pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE, &mr));
	a.type = DIW_QP_RD;
	a.send_cq = a.recv_cq = cq;
	a.sq_depth = a.rq_depth = DEPTH;
	a.mulpdu = 1400;
	a.dgram.local.port = port;
	MUST(diw_qp_create(pd, &a, &qp));
	return qp;
}

/* ---- The process that is killed ---- */

static void recv_post(struct diw_qp *qp, uint32_t i)
{
	struct diw_sge sge = { mem[i], LEN, mr->stag };
	struct diw_recv_wr wr = { .wr_id = i, .sge = &sge, .num_sge = 1 };

	MUST(diw_post_recv(qp, &wr, NULL));
}

static void receiver(int life)
{
	struct diw_qp *qp = open_all(all->server.port);
	struct diw_qp_info info;
	uint32_t next = 0;

	for (uint32_t i = 0; i < RECVS; i++)
		recv_post(qp, i);
	MUST(diw_qp_query(qp, &info));
	all->server = info.local;
	atomic_store(&all->life, life + 1);
	while (!atomic_load(&all->over)) {
		struct diw_wc wc;
		const uint8_t *p;
		uint32_t k;

		if (diw_cq_wait(cq, &wc, 1, S / 10) != 1)
			continue;
		p = mem[wc.wr_id];
		memcpy(&k, p, sizeof k);
		REQUIRE(wc.status == DIW_WC_SUCCESS && k < MESSAGES && wc.byte_len == len_of(k));
		REQUIRE(k >= next);
		for (uint32_t i = 4; i < wc.byte_len; i++)
			REQUIRE(p[i] == (uint8_t)(k + i));
		next = k + 1;
		atomic_fetch_add(&all->came[k], 1);
		atomic_fetch_add(&all->came_in[life], 1);
		recv_post(qp, (uint32_t)wc.wr_id);
	}
	exit(0);
}

/* ---- The sender ---- */

static void message_send(struct diw_qp *qp, uint32_t k)
{
	uint8_t *p = mem[k % DEPTH];
	struct diw_sge sge = { p, len_of(k), mr->stag };
	struct diw_send_wr wr = { .wr_id = k, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
				  .flags = DIW_SEND_SIGNALED, .dst.addr = all->server };

	memcpy(p, &k, sizeof k);
	for (uint32_t i = 4; i < sge.length; i++)
		p[i] = (uint8_t)(k + i);
	MUST(diw_post_send(qp, &wr, NULL));
}

static void sender(void)
{
	struct diw_qp *qp = open_all(0);
	uint32_t done = 0;

	while (atomic_load(&all->life) == 0)
		usleep(1000);
	for (;;) {
		struct diw_wc wc;
		uint32_t sent = atomic_load(&all->sent);

		for (; sent - done < DEPTH && sent < MESSAGES && !atomic_load(&all->stop); sent++)
			message_send(qp, sent);
		atomic_store(&all->sent, sent);
		if (done == sent)
			exit(0);
		REQUIRE(diw_cq_wait(cq, &wc, 1, 20 * S) == 1);
		REQUIRE(wc.wr_id == done);      /* requests to one destination end in order */
		REQUIRE(wc.status == DIW_WC_SUCCESS || (wc.status == DIW_WC_PEER_GONE && wc.errnum == ECONNRESET));
		atomic_fetch_add(wc.status == DIW_WC_SUCCESS ? &all->good : &all->gone, 1);
		atomic_store(&all->ended[done++], wc.status == DIW_WC_SUCCESS ? 1 : 2);
	}
}

/* ---- All of them ---- */

static pid_t start(void (*run)(int), int arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		run(arg);
		exit(1);
	}
	return pid;
}

static void sender_runs(int unused)
{
	(void)unused;
	sender();
}

static void ends(pid_t pid, int status)
{
	int how;

	REQUIRE(waitpid(pid, &how, 0) == pid);
	REQUIRE(status ? WIFSIGNALED(how) && WTERMSIG(how) == status : WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* A life lasts until some messages have come, at a point that no message knows of. */
static pid_t life_begin(int life)
{
	pid_t pid = start(receiver, life);
	double begin = now();

	while (atomic_load(&all->life) <= life)
		usleep(1000);
	all->first[life] = atomic_load(&all->sent);
	while (atomic_load(&all->came_in[life]) < 100) {
		REQUIRE(now() - begin < 60);
		usleep(1000);
	}
	if (now() - begin > all->slowest)
		all->slowest = now() - begin;
	usleep((useconds_t)(now() * 1e6) % 30000);
	return pid;
}

/* A message that was taken by a process before that was killed may be in no count; of the last process all are. */
static void account(uint32_t sent)
{
	uint32_t last = all->first[LIVES - 1], uncounted = 0;

	for (uint32_t k = 0; k < sent; k++) {
		REQUIRE(all->ended[k] && all->came[k] <= 1);
		uncounted += all->ended[k] == 1 && !all->came[k];
		REQUIRE(k < last || all->ended[k] == 2 || all->came[k] == 1);
	}
	REQUIRE(uncounted <= (LIVES - 1) * RECVS);
	printf("{ \"restarts\": %d, \"sent\": %u, \"arrived\": %u, \"gone\": %u, \"uncounted\": %u, "
	       "\"slowest\": %.2f }\n", LIVES - 1, sent, all->good, all->gone, uncounted, all->slowest);
}

int main(void)
{
	pid_t from, to;
	double begin;

	all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(all != MAP_FAILED);
	from = start(sender_runs, 0);
	for (int life = 0;; life++) {
		to = life_begin(life);
		if (life == LIVES - 1)
			break;
		kill(to, SIGKILL);
		ends(to, SIGKILL);
	}
	atomic_store(&all->stop, 1);
	begin = now();
	ends(from, 0);
	while (atomic_load(&all->came[all->sent - 1]) == 0 && now() - begin < 60)
		usleep(1000);
	atomic_store(&all->over, 1);
	ends(to, 0);
	account(all->sent);
	return 0;
}
