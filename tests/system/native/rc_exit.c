/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that ends without diw_disconnect() as soon as its requests are complete. The peer is slower, and gets every
 * message. Exits 1 with a line on standard error when one is missing.
 *
 * usage: rc_exit send|write LEN MESSAGES
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/must.h"
#include "verbs/diw.h"
#include "verbs/diw_cm.h"

#define S 1000000000ll
#define DEPTH 32u
#define LONGEST 200000u
#define PAUSE_US 200u                /* of the receiver, after so many octets: */
#define PAUSE_EVERY 8000u

struct hello { uint32_t stag; uint64_t to; };

static uint8_t mem[DEPTH][LONGEST];
static struct diw_dev *dev;
static struct diw_pd *pd;
static struct diw_cq *cq;
static struct diw_mr *mr;
static struct diw_qp *qp;
static struct diw_cm *cm;
static uint32_t len, messages;
static bool writes;

static void rc_open(void)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;

	MUST(diw_dev_open("diw_lo", NULL, &dev));
	MUST(diw_pd_alloc(dev, &pd));
	MUST(diw_cq_create(dev, 2 * DEPTH, NULL, NULL, &cq));
	MUST(diw_mr_reg(pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE, &mr));
	a.type = DIW_QP_RC;
	a.send_cq = a.recv_cq = cq;
	a.sq_depth = a.rq_depth = DEPTH;
	MUST(diw_qp_create(pd, &a, &qp));
	MUST(diw_cm_create(dev, &cm));
}

static void event_get(enum diw_cm_event_type type, struct diw_cm_event *ev)
{
	MUST(diw_cm_get(cm, ev, 10 * S));
	must(ev->type == type ? 0 : -EPROTO, diw_cm_event_str(ev->type));
}

/* ---- The sender ---- */

static void message_post(uint32_t k, const struct hello *to)
{
	uint8_t *p = mem[k % DEPTH];
	struct diw_sge sge = { p, len, mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND, .flags = DIW_SEND_SIGNALED };

	memset(p, (int)k, len);
	memcpy(p, &k, sizeof k);
	if (writes) {
		wr.opcode = DIW_WR_WRITE;
		wr.flags |= DIW_SEND_IMM;
		wr.stag = to->stag;
		wr.to = to->to + k % DEPTH * LONGEST;
	}
	MUST(diw_post_send(qp, &wr, NULL));
}

static void send_all(uint16_t port)
{
	struct diw_addr dst = { .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 }, .port = port };
	struct diw_conn_attr attr = DIW_CONN_ATTR_INIT;
	struct diw_cm_event ev;
	struct hello hello;
	struct diw_wc wc;

	rc_open();
	MUST(diw_connect(qp, cm, &dst, &attr));
	event_get(DIW_CM_ESTABLISHED, &ev);
	memcpy(&hello, ev.data, sizeof hello);
	for (uint32_t sent = 0, done = 0; done < messages;) {
		if (sent < messages && sent - done < DEPTH) {
			message_post(sent++, &hello);
			continue;
		}
		while (diw_cq_wait(cq, &wc, 1, S) != 1)
			;
		must(wc.status == DIW_WC_SUCCESS ? 0 : -EIO, "a completion of the sender");
		done++;
	}
	_exit(0);
}

/* ---- The receiver ---- */

static void recv_post(uint32_t k)
{
	struct diw_sge sge = { mem[k % DEPTH], LONGEST, mr->stag };
	struct diw_recv_wr wr = { .wr_id = k, .sge = &sge, .num_sge = writes ? 0 : 1 };

	MUST(diw_post_recv(qp, &wr, NULL));
}

static void message_check(uint32_t k)
{
	const uint8_t *p = mem[k % DEPTH];
	uint32_t got;

	memcpy(&got, p, sizeof got);
	must(got == k && p[sizeof got] == (uint8_t)k && p[len - 1] == (uint8_t)k ? 0 : -EBADMSG, "a message");
}

/* Returns how many messages came. The sender overwrites the area of a Write after DEPTH more, and half as many receives
 * are posted. */
static uint32_t recv_all(int port_fd)
{
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;
	struct diw_conn_attr reply = DIW_CONN_ATTR_INIT;
	struct diw_listener_info info;
	struct diw_listener *l;
	struct diw_cm_event ev;
	struct hello hello;
	struct diw_wc wc;
	uint32_t n = 0;

	rc_open();
	for (uint32_t k = 0; k < DEPTH / 2; k++)
		recv_post(k);
	hello = (struct hello){ mr->stag, (uintptr_t)mem };
	reply.data = &hello;
	reply.data_len = sizeof hello;
	MUST(diw_listen(cm, &attr, &l));
	MUST(diw_listener_query(l, &info));
	must(write(port_fd, &info.local.port, sizeof info.local.port) == sizeof info.local.port ? 0 : -errno, "pipe");
	event_get(DIW_CM_CONNECT_REQUEST, &ev);
	MUST(diw_accept(ev.req, qp, &reply));
	while (diw_cq_wait(cq, &wc, 1, 20 * S) == 1 && wc.status == DIW_WC_SUCCESS) {
		message_check(n);
		recv_post(DEPTH / 2 + n++);
		if (n % (PAUSE_EVERY / len + 1) == 0)
			usleep(PAUSE_US);
	}
	return n;
}

int main(int argc, char **argv)
{
	int fds[2], status = 0;
	uint16_t port;
	uint32_t n;
	pid_t pid = -1;

	must(argc == 4 ? 0 : -EINVAL, "usage: rc_exit send|write LEN MESSAGES");
	writes = strcmp(argv[1], "write") == 0;
	len = (uint32_t)atoi(argv[2]);
	messages = (uint32_t)atoi(argv[3]);
	must(pipe(fds) == 0 && (pid = fork()) >= 0 ? 0 : -errno, "a process");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(fds[0], &port, sizeof port) == sizeof port)
			send_all(port);
		_exit(1);
	}
	n = recv_all(fds[1]);
	if (n != messages)
		fprintf(stderr, "rc_exit: %u of %u messages came\n", n, messages);
	must(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -EIO, "the sender");
	return n != messages;
}
