/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs that send to each other, by shared memory or by the wire. `echo` returns every message until it is
 * killed. `talk` sends messages of many lengths, and checks what comes back. `kill` has a partner that it kills again
 * and again, at any instant. talk and kill print a JSON object, and exit 1 with a line on standard error when something
 * is wrong.
 *
 * usage: shm echo ud|rd DEV PORT [MULPDU] | talk ud|rd DEV ADDRESS PORT MESSAGES [--wait] | kill ud|rd TIMES
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/system/must.h"
#include "tests/system/tools/counter.h"

#define S 1000000000ll
#define DEPTH 32u
#define LEN 150000u
#define WINDOW 8u
#define PAIRED 200u                  /* messages after which a pair exists */

static struct diw_dev *dev;
static struct diw_pd *pd;
static struct diw_cq *scq, *rcq;
static struct diw_mr *mr;
static struct diw_qp *qp;
#define AREAS 128u                   /* of sends: more than may be outstanding */

static uint8_t mem[DEPTH + AREAS][LEN];      /* of receives; of sends */

#define REQUIRE(cond) must((cond) ? 0 : -EBADMSG, #cond)

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * S + ts.tv_nsec;
}

static enum diw_qp_type type_of(const char *name)
{
	return strcmp(name, "rd") == 0 ? DIW_QP_RD : DIW_QP_UD;
}

static void recv_post(uint64_t i)
{
	struct diw_sge sge = { mem[i], LEN, mr->stag };
	struct diw_recv_wr wr = { .wr_id = i, .sge = &sge, .num_sge = 1 };

	MUST(diw_post_recv(qp, &wr, NULL));
}

static void open_all(enum diw_qp_type type, const char *name, uint16_t port)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;

	MUST(diw_dev_open(name, NULL, &dev));
	MUST(diw_pd_alloc(dev, &pd));
	MUST(diw_cq_create(dev, 2 * DEPTH, NULL, NULL, &scq));
	MUST(diw_cq_create(dev, 2 * DEPTH, NULL, NULL, &rcq));
	MUST(diw_mr_reg(pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE, &mr));
	a.type = type;
	a.send_cq = scq;
	a.recv_cq = rcq;
	a.sq_depth = a.rq_depth = DEPTH;
	a.dgram.local.port = port;
	MUST(diw_qp_create(pd, &a, &qp));
	for (uint64_t i = 0; i < DEPTH; i++)
		recv_post(i);
}

/* Sends the LEN bytes of send area AREA. Waits while the queue is full. */
static void message_send(const struct diw_addr *dst, uint32_t area, uint32_t len)
{
	struct diw_sge sge = { mem[DEPTH + area % AREAS], len, mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND, .flags = DIW_SEND_SIGNALED,
				  .dst.addr = *dst };
	struct diw_wc wc;
	int rc;

	while ((rc = diw_post_send(qp, &wr, NULL)) == -ENOBUFS || rc == -ENOMEM || rc == -EAGAIN)
		diw_cq_wait(scq, &wc, 1, S / 1000);
	MUST(rc);
	while (diw_cq_wait(scq, &wc, 1, 0) == 1)
		;
}

/* ---- The partner ---- */

static void echo(void)
{
	struct diw_wc wc;

	for (uint32_t n = 0;;) {
		if (diw_cq_wait(rcq, &wc, 1, S) != 1)
			continue;
		REQUIRE(wc.status == DIW_WC_SUCCESS);
		memcpy(mem[DEPTH + n % AREAS], mem[wc.wr_id], wc.byte_len);
		recv_post(wc.wr_id);
		message_send(&wc.src, n++, wc.byte_len);
	}
}

/* ---- Messages and their answers ---- */

static uint32_t len_of(uint32_t k)
{
	return k % 8 ? 4 + k * 797u % 1500 : 4 + k * 7919u % (LEN - 4);
}

static void fill(uint32_t k)
{
	uint8_t *p = mem[DEPTH + k % AREAS];

	memcpy(p, &k, sizeof k);
	for (uint32_t i = 4; i < len_of(k); i++)
		p[i] = (uint8_t)(k + i);
}

/* Takes an answer, of message *K. False: none came in time. */
static bool answer(int64_t timeout, uint32_t *k)
{
	struct diw_wc wc;
	const uint8_t *p;

	if (diw_cq_wait(rcq, &wc, 1, timeout) != 1)
		return false;
	REQUIRE(wc.status == DIW_WC_SUCCESS && wc.byte_len >= 4);
	p = mem[wc.wr_id];
	memcpy(k, p, sizeof *k);
	REQUIRE(wc.byte_len == len_of(*k));
	for (uint32_t i = 4; i < wc.byte_len; i++)
		REQUIRE(p[i] == (uint8_t)(*k + i));
	recv_post(wc.wr_id);
	return true;
}

static void print_counters(uint32_t sent, uint32_t came, int more)
{
	printf("{ \"sent\": %u, \"came\": %u, \"datagrams\": %lu, \"by_memory\": %lu, \"back_by_memory\": %lu, "
	       "\"refused\": %lu, \"rx_crc\": %lu, \"more\": %d }\n", sent, came, counter(qp, "tx_datagrams"),
	       counter(qp, "shm_tx_datagrams"), counter(qp, "shm_rx_datagrams"), counter(qp, "shm_refused"),
	       counter(qp, "rx_crc") + counter(qp, "rx_short"), more);
}

/* WAITS: sleeps between the messages, and so do the partner's threads. */
static void talk(const struct diw_addr *dst, uint32_t messages, bool waits)
{
	uint32_t sent = 0, came = 0, k;
	int64_t slowest = 0;

	while (came < messages) {
		int64_t begin = now_ns();

		for (; sent < messages && sent - came < (waits ? 1 : WINDOW); sent++) {
			fill(sent);
			message_send(dst, sent, len_of(sent));
		}
		REQUIRE(answer(60 * S, &k));
		REQUIRE(k < sent);
		came++;
		if (now_ns() - begin > slowest)
			slowest = now_ns() - begin;
		if (waits)
			usleep(k % 7 * 300);
	}
	print_counters(sent, came, (int)(slowest / 1000000));
}

/* ---- The partner is killed ---- */

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	REQUIRE(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Its port is that of ADDR, or a new one. */
static pid_t partner(enum diw_qp_type type, struct diw_addr *addr)
{
	struct diw_qp_info info;
	int fd[2];
	pid_t pid;

	MUST(pipe(fd));
	pid = fork();
	if (pid == 0) {
		open_all(type, "diw_lo", addr->port);
		MUST(diw_qp_query(qp, &info));
		REQUIRE(write(fd[1], &info.local, sizeof info.local) == sizeof info.local);
		close(fd[1]);
		echo();
	}
	close(fd[1]);
	REQUIRE(read(fd[0], addr, sizeof *addr) == sizeof *addr);
	close(fd[0]);
	return pid;
}

/* This end talks to partners, each of which is killed some microseconds after the pair was made. It must go on, and
 * each partner must get a pair. */
static void kill_often(enum diw_qp_type type, int times)
{
	uint32_t sent = 0, came = 0, before = 0, k;
	struct diw_addr dst = { 0 };
	int fds = 0;

	for (int i = 0; i < times; i++) {
		uint64_t had = qp ? counter(qp, "shm_tx_datagrams") : 0;
		pid_t pid = partner(type, &dst);
		int64_t end = 0, give_up = now_ns() + 60 * S;

		if (!qp)
			open_all(type, "diw_lo", 0);
		while (!end || now_ns() < end) {
			for (; sent - came < WINDOW; sent++) {
				fill(sent);
				message_send(&dst, sent, len_of(sent));
			}
			if (!answer(S / 50, &k))
				came = sent;    /* lost with a partner, or by a full socket */
			else if (k >= before)
				came++;
			REQUIRE(now_ns() < give_up);
			if (!end && counter(qp, "shm_tx_datagrams") > had + PAIRED)
				end = now_ns() + (int64_t)(k * 2654435761u % 3000) * 1000;
		}
		kill(pid, SIGKILL);
		REQUIRE(waitpid(pid, NULL, 0) == pid);
		came = before = sent;
		if (i == 1)
			fds = entries("/proc/self/fd");
	}
	for (int i = 0; i < 1000 && entries("/proc/self/fd") > fds; i++)
		diw_cq_wait(rcq, &(struct diw_wc){ 0 }, 1, S / 100);
	print_counters(sent, came, entries("/proc/self/fd") - fds);
}

int main(int argc, char **argv)
{
	struct diw_addr dst = { .ip = { [10] = 0xff, [11] = 0xff } };

	REQUIRE(argc >= 4);
	if (strcmp(argv[1], "kill") == 0) {
		kill_often(type_of(argv[2]), atoi(argv[3]));
	} else if (strcmp(argv[1], "echo") == 0) {
		open_all(type_of(argv[2]), argv[3], (uint16_t)atoi(argv[4]));
		echo();
	} else {
		open_all(type_of(argv[2]), argv[3], 0);
		REQUIRE(inet_pton(AF_INET, argv[4], dst.ip + 12) == 1);
		dst.port = (uint16_t)atoi(argv[5]);
		talk(&dst, (uint32_t)atoi(argv[6]), argc > 7);
	}
	return 0;
}
