/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * N RC connections between two processes: the rate at which they are set up, the memory of an idle one, that each
 * works, and that all end. Prints a JSON object; exits with 1 and a line on standard error if something fails.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/system/must.h"
#include "tests/system/native/cost.h"
#include "verbs/diw_cm.h"

#define S 1000000000ll
#define WINDOW 512                   /* connections being set up at the same time */
#define DEPTH 16
#define MSG 64

struct conn { struct diw_qp *qp; uint32_t n; };

static struct {
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_mr *mr;
	struct diw_cq *cq;
	struct diw_cm *cm;
	uint8_t (*mem)[2][MSG];      /* for each connection: data to send, received data */
	struct conn *conn;
	uint32_t n;
} me;

static void open_all(uint32_t n)
{
	me.n = n;
	me.conn = calloc(n, sizeof *me.conn);
	me.mem = malloc(n * sizeof *me.mem);
	memset(me.mem, 0, n * sizeof *me.mem);
	memset(me.conn, 0, n * sizeof *me.conn);
	MUST(diw_dev_open("diw_lo", NULL, &me.dev));
	MUST(diw_pd_alloc(me.dev, &me.pd));
	MUST(diw_mr_reg(me.pd, me.mem, n * sizeof *me.mem, DIW_ACCESS_LOCAL_WRITE, &me.mr));
	MUST(diw_cq_create(me.dev, n * DEPTH, NULL, NULL, &me.cq));
	MUST(diw_cm_create(me.dev, &me.cm));
}

static struct conn *add(uint32_t i)
{
	struct conn *c = &me.conn[i];
	struct diw_sge sge = { me.mem[i][1], MSG, me.mr->stag };
	struct diw_recv_wr wr = { .wr_id = i, .sge = &sge, .num_sge = 1 };
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;

	a.type = DIW_QP_RC;
	a.send_cq = a.recv_cq = me.cq;
	a.sq_depth = a.rq_depth = DEPTH;
	a.ctx = c;
	c->n = i;
	MUST(diw_qp_create(me.pd, &a, &c->qp));
	MUST(diw_post_recv(c->qp, &wr, NULL));
	return c;
}

static void send_to(uint32_t i)
{
	struct diw_sge sge = { me.mem[i][0], MSG, me.mr->stag };
	struct diw_send_wr wr = { .wr_id = i, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND };

	MUST(diw_post_send(me.conn[i].qp, &wr, NULL));
}

static void fill(uint8_t *p, uint32_t i)
{
	for (uint32_t k = 0; k < MSG; k++)
		p[k] = (uint8_t)(i * 31 + k);
}

static void expect(struct diw_cm_event *ev, enum diw_cm_event_type type)
{
	MUST(diw_cm_get(me.cm, ev, 60 * S));
	if (ev->type == type && (type != DIW_CM_DISCONNECTED || ev->errnum == 0))
		return;
	fprintf(stderr, "many: %s (%s) instead of %s\n", diw_cm_event_str(ev->type), strerror(ev->errnum),
		diw_cm_event_str(type));
	exit(1);
}

/* Waits for a message on each connection; REPLY: sends it back. */
static void exchange(bool reply)
{
	struct diw_wc wc[64];
	uint8_t want[MSG];

	for (uint32_t left = me.n; left;) {
		int k = diw_cq_wait(me.cq, wc, 64, 60 * S);

		must(k > 0 ? 0 : -ETIMEDOUT, "a message");
		for (int i = 0; i < k; i++) {
			uint32_t c = (uint32_t)wc[i].wr_id;

			fill(want, reply ? me.mem[c][1][0] : c);
			must(wc[i].status ? -EIO : 0, diw_wc_status_str(wc[i].status));
			if (!reply)
				must(memcmp(me.mem[c][1], want, MSG) ? -EBADMSG : 0, "what came back");
			left--;
			if (reply) {
				memcpy(me.mem[c][0], me.mem[c][1], MSG);
				send_to(c);
			}
		}
	}
}

static void close_all(void)
{
	for (uint32_t i = 0; i < me.n; i++)
		MUST(diw_qp_destroy(me.conn[i].qp));
	MUST(diw_cq_destroy(me.cq));
	MUST(diw_cm_destroy(me.cm));
	MUST(diw_mr_dereg(me.mr));
	MUST(diw_pd_free(me.pd));
	MUST(diw_dev_close(me.dev));
}

static long serve(uint32_t n, int port_fd, int go_fd)
{
	struct diw_listener_info info;
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_listener *l;
	struct diw_cm_event ev;
	uint32_t requests = 0, up = 0;
	long before, idle;
	char go;

	open_all(n);
	MUST(diw_addr_parse("127.0.0.1", 0, &la.local));
	la.backlog = WINDOW;
	MUST(diw_listen(me.cm, &la, &l));
	MUST(diw_listener_query(l, &info));
	must(write(port_fd, &info.local.port, sizeof info.local.port) > 0 ? 0 : -EPIPE, "the port");
	before = resident();
	while (up < n) {
		MUST(diw_cm_get(me.cm, &ev, 60 * S));
		if (ev.type == DIW_CM_CONNECT_REQUEST)
			MUST(diw_accept(ev.req, add(requests++)->qp, NULL));
		else
			must(ev.type == DIW_CM_ESTABLISHED ? 0 : -EPROTO, diw_cm_event_str(ev.type)), up++;
	}
	idle = resident() - before;
	must(write(port_fd, &idle, sizeof idle) > 0 ? 0 : -EPIPE, "the memory");
	must(read(go_fd, &go, 1) == 1 ? 0 : -EPIPE, "the client");
	exchange(true);
	for (uint32_t i = 0; i < n; i++)
		expect(&ev, DIW_CM_DISCONNECTED);
	MUST(diw_listener_close(l));
	close_all();
	return idle;
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000, begun = 0, up = 0;
	struct rlimit lim;
	struct diw_addr dst;
	struct diw_cm_event ev;
	int ports[2], gos[2], status;
	double begin, set_up, ended;
	long before, idle, served;
	uint16_t port;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	if (pipe(ports) || pipe(gos))
		return 1;
	if (fork() == 0) {
		serve(n, ports[1], gos[0]);
		exit(0);
	}
	close(ports[1]);
	must(read(ports[0], &port, sizeof port) == sizeof port ? 0 : -EPIPE, "the server");
	open_all(n);
	MUST(diw_addr_parse("127.0.0.1", port, &dst));
	before = resident();
	begin = now();
	while (up < n) {
		for (; begun < n && begun - up < WINDOW; begun++)
			MUST(diw_connect(add(begun)->qp, me.cm, &dst, NULL));
		expect(&ev, DIW_CM_ESTABLISHED);
		up++;
	}
	must(read(ports[0], &served, sizeof served) == sizeof served ? 0 : -EPIPE, "the server");
	set_up = now() - begin;
	idle = resident() - before;
	for (uint32_t i = 0; i < n; i++) {
		fill(me.mem[i][0], i);
		send_to(i);
	}
	must(write(gos[1], "", 1) == 1 ? 0 : -EPIPE, "the server");
	exchange(false);
	ended = now();
	for (uint32_t i = 0; i < n; i++)
		MUST(diw_disconnect(me.conn[i].qp));
	for (uint32_t i = 0; i < n; i++)
		expect(&ev, DIW_CM_DISCONNECTED);
	ended = now() - ended;
	close_all();
	must(wait(&status) > 0 && status == 0 ? 0 : -ECHILD, "the server's end");
	printf("{\"connections\":%u,\"setup_per_s\":%.0f,\"close_per_s\":%.0f,\"idle_bytes\":%ld,"
	       "\"idle_bytes_server\":%ld}\n", n, n / set_up, n / ended, idle / (long)n, served / (long)n);
	return 0;
}
