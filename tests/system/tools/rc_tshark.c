/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every operation of RC queue pairs once between two of this process, and a Terminate at the end, for
 * rc_tshark.sh and rc_dump.sh to capture. Prints a line for each, and last the FPDUs that both have sent and received.
 * usage: rc_tshark IP LONG [markers | loose | plain]
 * LONG: octets of the messages that take several FPDUs. loose: FPDUs of up to 64 KiB, wherever TCP cuts them; with
 * private data, placement words, and a Send with immediate. plain: loose, without these, and without CRC.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/system/must.h"
#include "tests/system/tools/counter.h"
#include "verbs/diw_cm.h"

#define SIZE (1u << 20)
#define WAIT 5000000000ll
#define RIGHTS (DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_ATOMIC)

static struct diw_dev *dev;
static struct diw_pd *pd;
static struct diw_cq *scq, *rcq;
static struct diw_mr *mr, *ends[2];
static struct diw_cm *cm;
static struct diw_qp *a, *b;
static uint8_t mem[2 * SIZE] __attribute__((aligned(8)));

static struct diw_qp *open_qp(bool packed, bool confirm)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_qp *qp;

	attr.type = DIW_QP_RC;
	attr.send_cq = scq;
	attr.recv_cq = rcq;
	attr.rc.packed = packed;
	attr.rc.confirm = confirm;
	must(diw_qp_create(pd, &attr, &qp), "queue pair");
	return qp;
}

static void event(enum diw_cm_event_type type, struct diw_cm_event *ev)
{
	must(diw_cm_get(cm, ev, WAIT), "event");
	if (ev->type == type)
		return;
	printf("event %s, not %s\n", diw_cm_event_str(ev->type), diw_cm_event_str(type));
	exit(1);
}

static void connect_both(const char *ip, const char *how)
{
	struct diw_listener_info info;
	struct diw_listen_attr la = DIW_LISTEN_ATTR_INIT;
	struct diw_listener *l;
	struct diw_conn_attr ca = DIW_CONN_ATTR_INIT;
	struct diw_cm_event ev;

	must(diw_addr_parse(ip, 0, &la.local), "address");
	must(diw_listen(cm, &la, &l), "listener");
	must(diw_listener_query(l, &info), "query");
	ca.markers = !strcmp(how, "markers");
	ca.plain = !strcmp(how, "plain");
	ca.crc = !ca.plain;
	if (!strcmp(how, "loose")) {
		ca.data = "initiator";
		ca.data_len = 9;
	}
	ca.rtr = DIW_RTR_WRITE;
	must(diw_connect(a, cm, &info.local, &ca), "connect");
	event(DIW_CM_CONNECT_REQUEST, &ev);
	must(diw_accept(ev.req, b, &ca), "accept");
	event(DIW_CM_ESTABLISHED, &ev);
	event(DIW_CM_ESTABLISHED, &ev);
	must(diw_listener_close(l), "close");
}

static void receive(struct diw_qp *qp)
{
	struct diw_sge sge = { mem + SIZE, SIZE, mr->stag };
	struct diw_recv_wr wr = { .sge = &sge, .num_sge = 1 };

	must(diw_post_recv(qp, &wr, NULL), "receive");
}

static void complete(const char *what, struct diw_cq *cq, int status)
{
	struct diw_wc wc;

	if (diw_cq_wait(cq, &wc, 1, WAIT) != 1) {
		printf("%s: no completion\n", what);
		exit(1);
	}
	printf("%s: %s of %u, %s\n", what, diw_wc_opcode_str(wc.opcode), wc.byte_len, diw_wc_status_str(wc.status));
	if (wc.status != status)
		exit(1);
}

static void run(const char *what, struct diw_qp *from, struct diw_qp *to, struct diw_send_wr wr, uint32_t len)
{
	struct diw_sge sge = { mem, len, mr->stag };

	wr.sge = &sge;
	wr.num_sge = 1;
	wr.flags |= DIW_SEND_SIGNALED;
	wr.stag = wr.stag ? wr.stag : mr->stag;
	wr.to = mr->to + SIZE;
	if (to)
		receive(to);
	must(diw_post_send(from, &wr, NULL), what);
	complete(what, scq, wr.stag == mr->stag ? DIW_WC_SUCCESS : DIW_WC_REM_ACCESS_ERR);
	if (to)
		complete(what, rcq, DIW_WC_SUCCESS);
}

/* What the private data must agree to. */
static void extensions(const char *how)
{
	struct diw_send_wr write = { .opcode = DIW_WR_WRITE, .imm = 8 };
	struct diw_send_wr send = { .opcode = DIW_WR_SEND, .imm = 0xdeadbeef };
	struct diw_send_wr add = { .opcode = DIW_WR_FETCH_ADD, .compare_add = 1 };
	struct diw_send_wr swap = { .opcode = DIW_WR_CMP_SWAP, .compare_add = 1, .swap = 2 };

	run("fetch-add", b, NULL, add, 8);
	run("cmp-swap", a, NULL, swap, 8);
	write.flags = DIW_SEND_IMM;
	run("write-imm", a, b, write, 105);
	write.flags = DIW_SEND_IMM | DIW_SEND_SOLICITED;
	run("write-imm-se", a, b, write, 106);
	send.flags = DIW_SEND_IMM;
	if (!strcmp(how, "loose"))
		run("send-imm", b, a, send, 108);
}

static void operations(uint32_t len, const char *how)
{
	struct diw_send_wr send = { .opcode = DIW_WR_SEND, .imm = 7 }, write = { .opcode = DIW_WR_WRITE, .imm = 8 };
	struct diw_send_wr rd = { .opcode = DIW_WR_READ };

	run("send", a, b, send, 100);
	run("send of nothing", b, a, send, 0);
	run("long send", b, a, send, len);
	send.flags = DIW_SEND_SOLICITED;
	run("send-se", b, a, send, 101);
	for (int i = 0; i < 2; i++) {
		send.flags = DIW_SEND_INVALIDATE | (i ? DIW_SEND_SOLICITED : 0);
		send.inv_stag = ends[i]->stag;
		run("send-inv", a, b, send, 102);
	}
	run("write", a, NULL, write, 103);
	run("long write", b, NULL, write, len);
	run("read", a, NULL, rd, 104);
	run("long read", a, NULL, rd, len);
	if (strcmp(how, "plain") != 0)
		extensions(how);
	rd.stag = mr->stag ^ 1;
	run("refused read", a, NULL, rd, 107);
}

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[3] : "";
	bool packed = strcmp(how, "loose") != 0 && strcmp(how, "plain") != 0;
	struct diw_cm_event ev;

	if (argc < 3 || strtoul(argv[2], NULL, 10) > SIZE) {
		puts("usage: rc_tshark IP LONG [markers | loose | plain]");
		return 2;
	}
	for (size_t i = 0; i < sizeof mem; i++)
		mem[i] = (uint8_t)(i * 7 + i / 251);
	must(diw_dev_open("diw_lo", NULL, &dev), "device");
	must(diw_pd_alloc(dev, &pd), "protection domain");
	must(diw_cq_create(dev, 64, NULL, NULL, &scq), "completion queue");
	must(diw_cq_create(dev, 64, NULL, NULL, &rcq), "completion queue");
	must(diw_mr_reg(pd, mem, sizeof mem, RIGHTS, &mr), "memory");
	for (int i = 0; i < 2; i++)
		must(diw_mr_reg(pd, mem, 64, DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_INVALIDATE, &ends[i]),
		     "memory");
	must(diw_cm_create(dev, &cm), "channel");
	a = open_qp(packed, !strcmp(how, "loose"));
	b = open_qp(packed, !strcmp(how, "loose"));
	connect_both(argv[1], how);
	operations((uint32_t)strtoul(argv[2], NULL, 10), how);
	event(DIW_CM_DISCONNECTED, &ev);
	event(DIW_CM_DISCONNECTED, &ev);
	printf("fpdus %lu %lu\n", counter(a, "tx_fpdus") + counter(b, "tx_fpdus"),
	       counter(a, "rx_fpdus") + counter(b, "rx_fpdus"));
	must(diw_qp_destroy(a), "destroy");
	must(diw_qp_destroy(b), "destroy");
	must(diw_cm_destroy(cm), "channel");
	for (int i = 0; i < 2; i++)
		must(diw_mr_dereg(ends[i]), "memory");
	must(diw_mr_dereg(mr), "memory");
	must(diw_cq_destroy(scq), "completion queue");
	must(diw_cq_destroy(rcq), "completion queue");
	must(diw_pd_free(pd), "protection domain");
	must(diw_dev_close(dev), "device");
	return 0;
}
