/* SPDX-License-Identifier: BSD-2-Clause */
/* Two thousand connections between two devices at the same time: they connect, exchange messages, and end in three
 * ways. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpa/int.h"
#include "tests/sim/rc.h"
#include "verbs/qp.h"

#define MANY 2000
#define DEPTH 4
#define LEN 200u

enum fate { DISCONNECT, ABORT, RESET, FATES };

struct one {
	struct diw_qp *qp[2];
	struct diw_addr addr[2];
	int established, disconnected[2], received[2], sent[2];
};

static struct {
	struct net_host *host[2];
	struct diw_pd *pd[2];
	struct diw_cq *cq[2];
	struct diw_cm *cm[2];
	struct diw_mr *mr[2];
	struct diw_listener *listener;
	uint8_t *mem[2];             /* of each queue pair: memory for sending, and for receiving */
	struct one one[MANY];
	int errnum[FATES][2];
} many;

static void ok(int err, const char *what)
{
	must(err == 0, "%s: %s", what, strerror(-err));
}

static uint8_t octet(int i, int side, uint32_t off)
{
	return (uint8_t)(((uint32_t)(2 * i + side) * 0x9e3779b1u + off * 0x85ebca6bu) >> 24);
}

static uint8_t *mem_of(int i, int side, bool received)
{
	return many.mem[side] + (size_t)(2 * i + received) * LEN;
}

static void open_host(int side)
{
	size_t len = (size_t)MANY * 2 * LEN;

	many.host[side] = net_host_add(sim.net);
	many.mem[side] = calloc(1, len);
	ok(diw_pd_alloc(many.host[side]->dev, &many.pd[side]), "diw_pd_alloc");
	ok(diw_cq_create(many.host[side]->dev, 4 * MANY, NULL, NULL, &many.cq[side]), "diw_cq_create");
	ok(diw_cm_create(many.host[side]->dev, &many.cm[side]), "diw_cm_create");
	ok(diw_mr_reg(many.pd[side], many.mem[side], len, DIW_ACCESS_LOCAL_WRITE, &many.mr[side]), "diw_mr_reg");
}

static void open_qp(int i, int side)
{
	struct diw_sge sge = { mem_of(i, side, true), LEN, many.mr[side]->stag };
	struct diw_recv_wr wr = { .wr_id = (uint64_t)i, .sge = &sge, .num_sge = 1 };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;

	attr.type = DIW_QP_RC;
	attr.send_cq = attr.recv_cq = many.cq[side];
	attr.sq_depth = attr.rq_depth = DEPTH;
	attr.ctx = &many.one[i];
	ok(diw_qp_create(many.pd[side], &attr, &many.one[i].qp[side]), "diw_qp_create");
	ok(diw_post_recv(many.one[i].qp[side], &wr, NULL), "diw_post_recv");
}

static void post(int i, int side)
{
	struct diw_sge sge = { mem_of(i, side, false), LEN, many.mr[side]->stag };
	struct diw_send_wr wr = { .wr_id = (uint64_t)i, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
		.flags = DIW_SEND_SIGNALED };

	for (uint32_t k = 0; k < LEN; k++)
		mem_of(i, side, false)[k] = octet(i, side, k);
	ok(diw_post_send(many.one[i].qp[side], &wr, NULL), "diw_post_send");
}

static void request(const struct diw_cm_event *ev)
{
	int i;

	must(ev->data_len == sizeof i, "private data of %u bytes", ev->data_len);
	memcpy(&i, ev->data, sizeof i);
	must(i >= 0 && i < MANY && !many.one[i].qp[1], "a request of connection %d", i);
	open_qp(i, 1);
	many.one[i].addr[1] = ev->peer;
	ok(diw_accept(ev->req, many.one[i].qp[1], NULL), "diw_accept");
}

static void events(int side)
{
	struct diw_cm_event ev;

	while (diw_cm_get(many.cm[side], &ev, 0) == 0) {
		struct one *o = ev.ctx;

		if (ev.type == DIW_CM_CONNECT_REQUEST) {
			request(&ev);
		} else if (ev.type == DIW_CM_ESTABLISHED) {
			o->established++;
			o->addr[0] = side ? o->addr[0] : ev.local;
		} else {
			must(ev.type == DIW_CM_DISCONNECTED, "%s", diw_cm_event_str(ev.type));
			o->disconnected[side]++;
			many.errnum[(o - many.one) % FATES][side] = ev.errnum;
		}
	}
}

static void completions(int side)
{
	struct diw_wc wc[64];
	int n;

	while ((n = diw_cq_poll(many.cq[side], wc, 64, 0)) > 0)
		for (int k = 0; k < n; k++) {
			int i = (int)wc[k].wr_id;

			must(wc[k].status == DIW_WC_SUCCESS && wc[k].qp == many.one[i].qp[side], "connection %d: %s", i,
			     diw_wc_status_str(wc[k].status));
			if (wc[k].opcode == DIW_WC_RECV)
				many.one[i].received[side]++;
			else
				many.one[i].sent[side]++;
		}
}

static void run(uint64_t duration)
{
	for (uint64_t end = sim.net->now + duration; net_step(sim.net, end);)
		for (int side = 0; side < 2; side++) {
			events(side);
			completions(side);
		}
}

static void check_talk(int i)
{
	struct one *o = &many.one[i];

	must(o->established == 2, "connection %d is not established", i);
	must(diw_addr_eq(&o->addr[0], &o->addr[1]), "connection %d was answered by another's queue pair", i);
	for (int side = 0; side < 2; side++) {
		struct diw_mpa *m = diw_mpa_of(o->qp[side]->link);

		must(o->sent[side] == 1 && o->received[side] == 1, "connection %d, side %d: %d sent, %d received", i,
		     side,
		     o->sent[side], o->received[side]);
		must(!m->tx_own && !m->rx_own, "connection %d, side %d keeps a buffer", i, side);
		for (uint32_t k = 0; k < LEN; k++)
			must(mem_of(i, side, true)[k] == octet(i, !side, k), "connection %d, side %d: byte %u", i,
			     side, k);
	}
}

static void end_one(int i)
{
	struct diw_listener_info info;
	struct one *o = &many.one[i];

	switch (i % FATES) {
	case DISCONNECT:
		ok(diw_disconnect(o->qp[i % 2]), "diw_disconnect");
		break;
	case ABORT:
		ok(diw_abort(o->qp[0]), "diw_abort");
		break;
	case RESET:
		ok(diw_listener_query(many.listener, &info), "diw_listener_query");
		must(net_stream_reset(sim.net, &o->addr[0], &info.local), "there is no stream of connection %d", i);
	}
}

static void close_all(void)
{
	ok(diw_listener_close(many.listener), "diw_listener_close");
	for (int side = 0; side < 2; side++) {
		for (int i = 0; i < MANY; i++)
			ok(diw_qp_destroy(many.one[i].qp[side]), "diw_qp_destroy");
		ok(diw_cm_destroy(many.cm[side]), "diw_cm_destroy");
		ok(diw_mr_dereg(many.mr[side]), "diw_mr_dereg");
		ok(diw_cq_destroy(many.cq[side]), "diw_cq_destroy");
		ok(diw_pd_free(many.pd[side]), "diw_pd_free");
		ok(diw_dev_close(many.host[side]->dev), "diw_dev_close");
		many.host[side]->dev = NULL;
		free(many.mem[side]);
	}
	net_run(sim.net, DIW_S);
	net_free(sim.net);
	sim.net = NULL;
}

static void connect_all(void)
{
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;
	struct diw_listener_info info;
	struct diw_conn_attr conn = DIW_CONN_ATTR_INIT;

	conn.data_len = sizeof(int);
	attr.backlog = MANY;
	ok(diw_listen(many.cm[1], &attr, &many.listener), "diw_listen");
	ok(diw_listener_query(many.listener, &info), "diw_listener_query");
	for (int i = 0; i < MANY; i++) {
		open_qp(i, 0);
		conn.data = &i;
		ok(diw_connect(many.one[i].qp[0], many.cm[0], &info.local, &conn), "diw_connect");
	}
}

START_TEST(two_thousand)
{
	sim_begin(1);
	memset(&many, 0, sizeof many);
	sim.net->stream_window = 65536;
	open_host(0);
	open_host(1);
	connect_all();
	run(DIW_S);
	for (int i = 0; i < MANY; i++) {
		post(i, 0);
		post(i, 1);
	}
	run(DIW_S);
	for (int i = 0; i < MANY; i++)
		check_talk(i);
	for (int i = 0; i < MANY; i++)
		end_one(i);
	run(30 * DIW_S);
	for (int i = 0; i < MANY; i++)
		for (int side = 0; side < 2; side++)
			must(many.one[i].disconnected[side] == 1, "connection %d, side %d, ended %d times", i, side,
			     many.one[i].disconnected[side]);
	ck_assert_int_eq(many.errnum[DISCONNECT][0], 0);
	ck_assert_int_eq(many.errnum[DISCONNECT][1], 0);
	ck_assert_int_eq(many.errnum[ABORT][0], ECONNABORTED);
	ck_assert_int_eq(many.errnum[ABORT][1], ECONNRESET);
	ck_assert_int_eq(many.errnum[RESET][0], ECONNRESET);
	ck_assert_int_eq(many.errnum[RESET][1], ECONNRESET);
	close_all();
}
END_TEST

Suite *suite_rc(void)
{
	Suite *s = suite_create("rc");
	TCase *tc = tcase_create("many");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, two_thousand);
	suite_add_tcase(s, tc);
	suite_add_tcase(s, tcase_rc_exact());
	return s;
}
