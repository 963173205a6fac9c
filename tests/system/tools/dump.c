/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every operation of the datagram profile once, and its faults, between queue pairs of this process:
 * tests/system/tools/dump.sh captures it. Prints one line for each: the values that the program itself knows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/system/must.h"
#include "tests/system/tools/counter.h"
#include "verbs/diw.h"

#define SIZE (64u << 10)
#define WAIT 2000000000ll
#define LOSSES "mask=8"              /* the fourth datagram */

static struct diw_dev *dev;
static struct diw_pd *pd;
static struct diw_cq *scq, *rcq;
static struct diw_mr *mr;
static uint8_t mem[2 * SIZE];

static struct diw_qp *open_qp(struct diw_qp_attr *attr, const char *ip, struct diw_addr *addr)
{
	struct diw_qp_info info;
	struct diw_qp *qp;

	attr->send_cq = scq;
	attr->recv_cq = rcq;
	attr->mulpdu = 1452;
	attr->dgram.qkey = 0x1badcafe;
	must(diw_addr_parse(ip, attr->dgram.local.port, &attr->dgram.local), "address");
	must(diw_qp_create(pd, attr, &qp), "queue pair");
	must(diw_qp_query(qp, &info), "query");
	*addr = info.local;
	return qp;
}

static void receive(struct diw_qp *qp)
{
	struct diw_sge sge = { mem + SIZE, SIZE, mr->stag };
	struct diw_recv_wr wr = { .sge = &sge, .num_sge = 1 };

	must(diw_post_recv(qp, &wr, NULL), "receive");
}

static void post(struct diw_qp *qp, const struct diw_addr *to, enum diw_wr_opcode op, uint32_t len, unsigned flags,
		 uint32_t stag)
{
	struct diw_sge sge = { mem, len, mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = op, .flags = flags, .imm = 0xdeadbeef,
				  .qkey = 0x1badcafe, .dst.addr = *to, .stag = stag, .to = mr->to + SIZE };

	must(diw_post_send(qp, &wr, NULL), "post");
}

static void expect(const char *what, struct diw_cq *cq)
{
	struct diw_wc wc;

	if (diw_cq_wait(cq, &wc, 1, WAIT) != 1) {
		printf("%s: no completion\n", what);
		exit(1);
	}
	printf("%s %u of %u, %s\n", what, wc.byte_len, wc.msg_len, diw_wc_status_str(wc.status));
	diw_wc_release(&wc);
}

static void wait_error(const char *what, struct diw_qp *qp)
{
	struct diw_qp_error e;
	struct diw_event ev;

	must(diw_event_get(dev, &ev, WAIT), "event");
	must(diw_qp_error_get(qp, &e), "error");
	printf("%s %s\n", what, diw_fault_str(e.fault));
}

static void datagrams(const char *ip)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_addr to_a, to_b;
	struct diw_qp *a, *b;

	b = open_qp(&attr, ip, &to_b);
	a = open_qp(&attr, ip, &to_a);
	for (int i = 0; i < 3; i++)
		receive(b);
	post(a, &to_b, DIW_WR_SEND, 100, DIW_SEND_IMM, 0);
	expect("send", rcq);
	post(a, &to_b, DIW_WR_SEND, 0, DIW_SEND_SOLICITED, 0);
	expect("send-se", rcq);
	post(a, &to_b, DIW_WR_SEND, 10000, 0, 0);
	expect("long send", rcq);
	post(a, &to_b, DIW_WR_SEND, 100, 0, 0);
	wait_error("send without a receive:", a);
	must(diw_qp_impair(a, LOSSES, NULL, 0), "impairment");
	post(a, &to_b, DIW_WR_WRITE_RECORD, 10000, DIW_SEND_IMM | DIW_SEND_SOLICITED, mr->stag);
	expect("write-record", rcq);
	must(diw_qp_impair(a, "corrupt=1,seed=1", NULL, 0), "impairment");
	post(a, &to_b, DIW_WR_WRITE_RECORD, 500, 0, mr->stag);
	must(diw_qp_impair(a, NULL, NULL, 0), "impairment");
	post(a, &to_b, DIW_WR_WRITE_RECORD, 500, 0, mr->stag ^ 1);
	wait_error("write-record to a wrong STag:", a);
	post(a, &to_b, DIW_WR_READ, 10000, DIW_SEND_SIGNALED, mr->stag);
	expect("read", scq);
	post(a, &to_b, DIW_WR_READ, 10000, DIW_SEND_SIGNALED, mr->stag ^ 1);
	expect("read of a wrong STag", scq);
	must(diw_qp_destroy(a), "destroy");
	must(diw_qp_destroy(b), "destroy");
}

static void open_connected(const char *ip, struct diw_qp **a, struct diw_qp **b)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_addr to_a, to_b;

	*a = open_qp(&attr, ip, &to_a);              /* only to find a port that is free a moment later */
	must(diw_qp_destroy(*a), "destroy");
	attr = (struct diw_qp_attr)DIW_QP_ATTR_INIT;
	attr.type = DIW_QP_UC;
	attr.dgram.peer = to_a;
	*b = open_qp(&attr, ip, &to_b);
	attr.dgram.peer = to_b;
	attr.dgram.local.port = to_a.port;
	*a = open_qp(&attr, ip, &to_a);
}

static void connected(const char *ip)
{
	struct diw_addr none = { .port = 0 };
	struct diw_qp *a, *b;

	open_connected(ip, &a, &b);
	receive(b);
	post(a, &none, DIW_WR_WRITE, 5000, DIW_SEND_IMM, mr->stag);
	expect("uc write", rcq);
	must(diw_qp_destroy(a), "destroy");
	must(diw_qp_destroy(b), "destroy");
}

/* Enough Writes that A sends a request of flow control to B; waits for the answer. */
static void paced(const char *ip)
{
	struct diw_wc wc;
	struct diw_addr none = { .port = 0 };
	struct diw_qp *a, *b;

	open_connected(ip, &a, &b);
	receive(b);
	post(a, &none, DIW_WR_WRITE, 50000, DIW_SEND_IMM, mr->stag);
	expect("long uc write", rcq);
	for (int i = 0; i < 3000 && counter(a, "rx_segments") == 0; i++)
		diw_cq_wait(rcq, &wc, 1, 10000000);
	printf("%llu questions\n", (unsigned long long)counter(a, "flow_asked"));
	must(diw_qp_destroy(a), "destroy");
	must(diw_qp_destroy(b), "destroy");
}

int main(int argc, char **argv)
{
	const char *ip = argc > 1 ? argv[1] : "127.0.0.1";

	for (size_t i = 0; i < sizeof mem; i++)
		mem[i] = (uint8_t)(i * 7 + i / 251);
	must(diw_dev_open("diw_lo", NULL, &dev), "device");
	must(diw_pd_alloc(dev, &pd), "protection domain");
	must(diw_cq_create(dev, 64, NULL, NULL, &scq), "completion queue");
	must(diw_cq_create(dev, 64, NULL, NULL, &rcq), "completion queue");
	must(diw_mr_reg(pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ,
			&mr), "memory");
	datagrams(ip);
	connected(ip);
	paced(ip);
	must(diw_mr_dereg(mr), "memory");
	must(diw_cq_destroy(scq), "completion queue");
	must(diw_cq_destroy(rcq), "completion queue");
	must(diw_pd_free(pd), "protection domain");
	must(diw_dev_close(dev), "device");
	return 0;
}
