/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many senders of reliable datagrams begin at the same time; all send to one queue pair:
 *
 *   rd_incast recv PORT SENDERS                            prints a JSON object when all messages have come
 *   rd_incast send HOST PORT FIRST COUNT GO                COUNT senders from number FIRST on. They are ready and say
 *                                                          so; they begin when a process opens the FIFO GO to write
 *
 * Each message must come once and in order, and each request must succeed. Otherwise the program exits with 1 and
 * prints a line on standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/system/must.h"
#include "tests/system/native/cost.h"
#include "verbs/diw.h"

#define S 1000000000ll
#define SENDERS_MAX 64u
#define MESSAGES 384u                /* of each sender */
#define SIZE 8192u
#define RECVS 512u
#define DEPTH 32u

struct msg { uint32_t sender, k; uint8_t rest[SIZE - 8]; };

static struct diw_dev *dev;
static struct diw_pd *pd;
static struct diw_cq *cq;
static struct diw_mr *mr;
static struct msg mem[RECVS];

#define REQUIRE(cond) must((cond) ? 0 : -EBADMSG, #cond)

static struct diw_qp *rd_create(const struct diw_addr *local, uint32_t sq, uint32_t rq)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;
	struct diw_qp *qp;

	a.type = DIW_QP_RD;
	a.send_cq = a.recv_cq = cq;
	a.sq_depth = sq;
	a.rq_depth = rq;
	a.dgram.any_addr = true;
	a.dgram.local = *local;
	MUST(diw_qp_create(pd, &a, &qp));
	return qp;
}

static void open_all(const struct diw_addr *dst)
{
	if (dst)
		MUST(diw_dev_open_route(dst, NULL, &dev));
	else
		MUST(diw_dev_open(NULL, NULL, &dev));
	MUST(diw_pd_alloc(dev, &pd));
	MUST(diw_cq_create(dev, 4096, NULL, NULL, &cq));
	MUST(diw_mr_reg(pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE, &mr));
}

/* ---- The senders ---- */

static void msg_send(struct diw_qp *qp, const struct diw_addr *to, uint32_t slot, uint32_t sender, uint32_t k)
{
	struct msg *m = &mem[slot];
	struct diw_sge sge = { m, sizeof *m, mr->stag };
	struct diw_send_wr wr = { .wr_id = sender, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
				  .flags = DIW_SEND_SIGNALED, .dst.addr = *to };

	m->sender = sender;
	m->k = k;
	memset(m->rest, (int)(sender + k), sizeof m->rest);
	MUST(diw_post_send(qp, &wr, NULL));
}

static void wait_for(const char *go)
{
	int fd;

	puts("ready");
	fflush(stdout);
	fd = open(go, O_RDONLY | O_CLOEXEC);
	must(fd < 0 ? -errno : 0, go);
	close(fd);
}

/* A sender has one message under way in each of its slots. */
static void senders_run(const struct diw_addr *to, uint32_t first, uint32_t count, const char *go)
{
	const struct diw_addr any = { .port = 0 };
	struct diw_qp *qp[SENDERS_MAX];
	uint32_t sent[SENDERS_MAX] = { 0 }, done = 0, slots = RECVS / count < DEPTH ? RECVS / count : DEPTH;
	struct diw_wc wc;

	open_all(to);
	for (uint32_t i = 0; i < count; i++)
		qp[i] = rd_create(&any, DEPTH, 1);
	wait_for(go);
	for (; sent[0] < slots; sent[0]++)
		for (uint32_t i = 0; i < count; i++)
			msg_send(qp[i], to, i * slots + sent[0] % slots, first + i, sent[0]);
	for (uint32_t i = 1; i < count; i++)
		sent[i] = sent[0];
	for (; done < count * MESSAGES; done++) {
		REQUIRE(diw_cq_wait(cq, &wc, 1, 60 * S) == 1);
		if (wc.status != DIW_WC_SUCCESS)
			fprintf(stderr, "sender %u: %s\n", (unsigned)wc.wr_id, diw_wc_status_str(wc.status));
		REQUIRE(wc.status == DIW_WC_SUCCESS);
		uint32_t i = (uint32_t)wc.wr_id - first;

		if (sent[i] < MESSAGES) {
			msg_send(qp[i], to, i * slots + sent[i] % slots, first + i, sent[i]);
			sent[i]++;
		}
	}
}

/* ---- The one that they send to ---- */

static void recv_post(struct diw_qp *qp, uint32_t i)
{
	struct diw_sge sge = { &mem[i], sizeof mem[i], mr->stag };
	struct diw_recv_wr wr = { .wr_id = i, .sge = &sge, .num_sge = 1 };

	MUST(diw_post_recv(qp, &wr, NULL));
}

/* The fairness index of the senders' received bytes (Jain, Chiu, Hawe 1984): 1 when all are equal. */
static double jain(const uint32_t *came, uint32_t n)
{
	double sum = 0, squares = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += came[i];
		squares += (double)came[i] * came[i];
	}
	return sum * sum / n / squares;
}

static void receiver_run(uint16_t port, uint32_t n)
{
	const struct diw_addr local = { .port = port };
	uint32_t came[SENDERS_MAX] = { 0 }, least = MESSAGES;
	double begin = 0, fair = 0, sec;
	struct diw_qp *qp;
	struct diw_wc wc;

	open_all(NULL);
	qp = rd_create(&local, 16, RECVS);
	for (uint32_t i = 0; i < RECVS; i++)
		recv_post(qp, i);
	for (uint32_t all = 0; all < n * MESSAGES; all++) {
		const struct msg *m;

		REQUIRE(diw_cq_wait(cq, &wc, 1, 60 * S) == 1 && wc.status == DIW_WC_SUCCESS);
		m = &mem[wc.wr_id];
		REQUIRE(wc.byte_len == sizeof *m && m->sender < n && m->k == came[m->sender]);
		REQUIRE(m->rest[0] == (uint8_t)(m->sender + m->k) && m->rest[sizeof m->rest - 1] == m->rest[0]);
		if (++came[m->sender] == MESSAGES && fair == 0) {
			fair = jain(came, n);
			for (uint32_t i = 0; i < n; i++)
				least = came[i] < least ? came[i] : least;
		}
		if (all == 0)
			begin = now();
		recv_post(qp, (uint32_t)wc.wr_id);
	}
	sec = now() - begin;
	/* A message that comes now is a duplicate. */
	REQUIRE(diw_cq_wait(cq, &wc, 1, S) == 0);
	printf("{ \"senders\": %u, \"messages\": %u, \"seconds\": %.2f, \"mbit\": %.1f, \"jain\": %.3f, "
	       "\"least\": %.2f }\n", n, n * MESSAGES, sec, n * MESSAGES * (double)SIZE * 8 / sec / 1e6, fair,
	       (double)least / MESSAGES);
}

int main(int argc, char **argv)
{
	struct diw_addr to;

	if (argc == 4 && strcmp(argv[1], "recv") == 0 && atoi(argv[3]) <= (int)SENDERS_MAX) {
		receiver_run((uint16_t)atoi(argv[2]), (uint32_t)atoi(argv[3]));
	} else if (argc == 7 && strcmp(argv[1], "send") == 0 && atoi(argv[5]) <= (int)SENDERS_MAX) {
		MUST(diw_addr_parse(argv[2], (uint16_t)atoi(argv[3]), &to));
		senders_run(&to, (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[5]), argv[6]);
	} else {
		fprintf(stderr, "usage: rd_incast recv PORT SENDERS | send HOST PORT FIRST COUNT GO\n");
		return 2;
	}
	return 0;
}
