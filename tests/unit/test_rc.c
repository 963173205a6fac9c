/* SPDX-License-Identifier: BSD-2-Clause */
/* Every operation of RC queue pairs between two that are connected on lo, and their end. */
#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "base/rng.h"
#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"

#define HALF (KIT_SIZE / 2)

static struct pair p;

static void open_default(void)
{
	pair_open(&p, NULL, NULL);
}

static void close_all(void)
{
	pair_close(&p);
}

static void fill(uint32_t off, uint32_t len, uint64_t seed)
{
	struct diw_rng r = { seed };

	for (uint32_t i = 0; i < len; i++)
		p.k.mem[off + i] = (uint8_t)diw_rng_next(&r);
}

static void same(uint32_t a, uint32_t b, uint32_t len)
{
	ck_assert_mem_eq(p.k.mem + a, p.k.mem + b, len);
}

static void sent(struct end *e, int status)
{
	struct diw_wc wc = rc_wc(e->scq);

	if (wc.status != status)
		ck_abort_msg("%s: %s", diw_wc_opcode_str(wc.opcode), diw_wc_status_str(wc.status));
}

/* ---- Operations ---- */

START_TEST(sends)
{
	static const uint32_t lens[] = { 0, 1, 3, 64, 1000, 8192, 65500, 65536, 1000000, HALF };

	for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
		struct end *from = i % 2 ? &p.b : &p.a, *to = i % 2 ? &p.a : &p.b;
		struct diw_send_wr wr = { .wr_id = i, .opcode = DIW_WR_SEND };
		struct diw_wc wc;

		fill(0, lens[i], i);
		ck_assert_int_eq(rc_recv(&p, to, HALF, HALF, 100 + i), 0);
		ck_assert_int_eq(rc_post(&p, from, &wr, 0, lens[i]), 0);
		wc = rc_wc(to->rcq);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		ck_assert_int_eq(wc.opcode, DIW_WC_RECV);
		ck_assert_uint_eq(wc.wr_id, 100 + i);
		ck_assert_uint_eq(wc.byte_len, lens[i]);
		ck_assert_int_eq(wc.flags, DIW_WC_END);
		same(0, HALF, lens[i]);
		sent(from, DIW_WC_SUCCESS);
	}
}
END_TEST

START_TEST(writes_and_reads)
{
	static const uint32_t lens[] = { 0, 1, 100, 65522, 65521, 300000, HALF };

	for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
		struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .to = HALF };
		struct diw_send_wr rd = { .opcode = DIW_WR_READ, .to = HALF };

		fill(0, lens[i], i);
		ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, lens[i]), 0);
		sent(&p.a, DIW_WC_SUCCESS);
		rd.flags = DIW_SEND_FENCE;
		memset(p.k.mem, 0, lens[i]);
		ck_assert_int_eq(rc_post(&p, &p.a, &rd, 0, lens[i]), 0);
		sent(&p.a, DIW_WC_SUCCESS);
		same(0, HALF, lens[i]);
	}
	ck_assert_uint_eq(end_counter(&p.b, "read_answered"), sizeof lens / sizeof *lens + 0);
}
END_TEST

/* Completions come in the order of the posts, although Reads take longer than Sends. */
START_TEST(completions_in_order)
{
	for (uint64_t i = 0; i < 60; i++) {
		struct diw_send_wr wr = { .wr_id = i, .opcode = i % 3 ? DIW_WR_WRITE : DIW_WR_READ, .to = HALF };

		ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, i % 3 ? 10 : 100000), 0);
	}
	for (uint64_t i = 0; i < 60; i++) {
		struct diw_wc wc = rc_wc(p.a.scq);

		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, i);
	}
}
END_TEST

START_TEST(immediates)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .flags = DIW_SEND_IMM, .imm = 0x12345678, .to = HALF };
	struct diw_send_wr send = { .opcode = DIW_WR_SEND, .flags = DIW_SEND_IMM | DIW_SEND_SOLICITED, .imm = 7 };
	struct diw_wc wc;

	fill(0, 100000, 9);
	rc_recv(&p, &p.b, HALF + 200000, 10, 1);
	rc_recv(&p, &p.b, HALF + 200000, 10, 2);
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 100000), 0);
	ck_assert_int_eq(rc_post(&p, &p.a, &send, 0, 10), 0);
	wc = rc_wc(p.b.rcq);
	ck_assert_int_eq(wc.opcode, DIW_WC_RECV_WRITE_IMM);
	ck_assert_uint_eq(wc.imm, 0x12345678);
	ck_assert_uint_eq(wc.byte_len, 100000);
	ck_assert_uint_eq(wc.wr_id, 1);
	same(0, HALF, 100000);
	wc = rc_wc(p.b.rcq);
	ck_assert_int_eq(wc.opcode, DIW_WC_RECV);
	ck_assert_int_eq(wc.flags, DIW_WC_END | DIW_WC_IMM | DIW_WC_SOLICITED);
	ck_assert_uint_eq(wc.imm, 7);
	same(0, HALF + 200000, 10);
	sent(&p.a, DIW_WC_SUCCESS);
	sent(&p.a, DIW_WC_SUCCESS);
}
END_TEST

START_TEST(atomics)
{
	uint64_t *word = (void *)(p.k.mem + HALF), *got = (void *)p.k.mem;
	struct diw_send_wr add = { .opcode = DIW_WR_FETCH_ADD, .to = HALF, .compare_add = 5 };
	struct diw_send_wr swap = { .opcode = DIW_WR_CMP_SWAP, .to = HALF, .compare_add = 46, .swap = UINT64_MAX };

	*word = 41;
	ck_assert_int_eq(rc_post(&p, &p.a, &add, 0, 8), 0);
	sent(&p.a, DIW_WC_SUCCESS);
	ck_assert_uint_eq(*got, 41);
	ck_assert_uint_eq(*word, 46);
	ck_assert_int_eq(rc_post(&p, &p.a, &swap, 0, 8), 0);
	sent(&p.a, DIW_WC_SUCCESS);
	ck_assert_uint_eq(*got, 46);
	ck_assert_uint_eq(*word, UINT64_MAX);
	swap.stag = 0;
	swap.to = HALF;
	ck_assert_int_eq(rc_post(&p, &p.a, &swap, 0, 8), 0);     /* the comparison fails at the second attempt */
	sent(&p.a, DIW_WC_SUCCESS);
	ck_assert_uint_eq(*got, UINT64_MAX);
	add.stag = 0;
	add.to = HALF + 4;
	ck_assert_int_eq(rc_post(&p, &p.a, &add, 0, 8), -EINVAL);
}
END_TEST

/* The post refuses each operation; the memory is not checked yet. */
START_TEST(messages_too_long)
{
	static const int ops[] = { DIW_WR_SEND, DIW_WR_WRITE, DIW_WR_READ };

	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		struct diw_sge sge[2] = { { (void *)8, DIW_MAX_RC, 1 }, { (void *)8, 1, 1 } };
		struct diw_send_wr wr = { .opcode = ops[i], .stag = 1, .sge = sge, .num_sge = 2 };

		ck_assert_int_eq(diw_post_send(p.a.qp, &wr, NULL), -EMSGSIZE);
		sge[0].length = sge[1].length = UINT32_MAX;
		ck_assert_int_eq(diw_post_send(p.a.qp, &wr, NULL), -EMSGSIZE);
		wr.num_sge = 1;
		ck_assert_int_eq(diw_post_send(p.a.qp, &wr, NULL), -EMSGSIZE);
	}
}
END_TEST

START_TEST(invalidation)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .flags = DIW_SEND_INVALIDATE };
	struct diw_mr *mr;
	struct diw_wc wc;

	ck_assert_int_eq(diw_mr_reg(p.k.pd, p.k.mem, 100, DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_INVALIDATE, &mr),
			 0);
	wr.inv_stag = mr->stag;
	rc_recv(&p, &p.b, HALF, 10, 1);
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 10), 0);
	wc = rc_wc(p.b.rcq);
	ck_assert_int_eq(wc.flags, DIW_WC_END | DIW_WC_INVALIDATED);
	ck_assert_uint_eq(wc.stag, mr->stag);
	sent(&p.a, DIW_WC_SUCCESS);
	/* Again: it has already been invalidated, so this ends the connection. */
	rc_recv(&p, &p.b, HALF, 10, 2);
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 10), 0);
	wc = rc_wc(p.b.rcq);
	ck_assert_int_eq(wc.status, DIW_WC_FLUSHED);
	sent(&p.a, DIW_WC_SUCCESS);
	ck_assert_int_eq(cm_event(&p, DIW_CM_DISCONNECTED).fault, DIW_FAULT_INVALIDATE);
	ck_assert_int_eq(cm_event(&p, DIW_CM_DISCONNECTED).fault, DIW_FAULT_INVALIDATE);
	ck_assert_int_eq(rc_state(&p.a), DIW_QPS_ERROR);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
}
END_TEST

START_TEST(windows)
{
	struct diw_send_wr bind = { .opcode = DIW_WR_BIND_MW, .flags = DIW_SEND_SIGNALED };
	struct diw_send_wr write = { .opcode = DIW_WR_WRITE }, inv = { .opcode = DIW_WR_LOCAL_INV };
	struct diw_send_wr send = { .opcode = DIW_WR_SEND };
	struct diw_mw *mw;

	ck_assert_int_eq(diw_mw_alloc(p.k.pd, DIW_MW_TYPE_2, &mw), 0);
	bind.bind.mw = mw;
	bind.bind.mr = p.all;
	bind.bind.to = p.all->to + HALF;
	bind.bind.length = 100;
	bind.bind.access = DIW_ACCESS_REMOTE_WRITE;
	bind.bind.key = 0x5a;
	ck_assert_int_eq(diw_post_send(p.b.qp, &bind, NULL), 0);
	sent(&p.b, DIW_WC_SUCCESS);
	ck_assert_uint_eq(mw->stag & 0xff, 0x5a);
	ck_assert_int_eq(diw_mr_dereg(p.all), -EBUSY);
	fill(0, 100, 4);
	write.stag = mw->stag;
	write.to = p.all->to + HALF;
	ck_assert_int_eq(rc_post(&p, &p.a, &write, 0, 100), 0);
	sent(&p.a, DIW_WC_SUCCESS);
	inv.flags = DIW_SEND_SIGNALED;
	inv.inv_stag = mw->stag;
	rc_recv(&p, &p.b, HALF + 1000, 10, 1);
	ck_assert_int_eq(rc_post(&p, &p.a, &send, 0, 10), 0);
	ck_assert_int_eq(rc_wc(p.b.rcq).status, DIW_WC_SUCCESS);
	same(0, HALF, 100);
	sent(&p.a, DIW_WC_SUCCESS);
	ck_assert_int_eq(diw_post_send(p.b.qp, &inv, NULL), 0);
	sent(&p.b, DIW_WC_SUCCESS);
	ck_assert_int_eq(rc_post(&p, &p.a, &write, 0, 100), 0);
	ck_assert_int_eq(cm_event(&p, DIW_CM_DISCONNECTED).fault, DIW_FAULT_STAG);
	ck_assert_int_eq(diw_mw_free(mw), 0);
}
END_TEST

static struct diw_mw *bind_window(struct end *e)
{
	struct diw_send_wr bind = { .opcode = DIW_WR_BIND_MW, .flags = DIW_SEND_SIGNALED };
	struct diw_mw *mw;

	ck_assert_int_eq(diw_mw_alloc(p.k.pd, DIW_MW_TYPE_2, &mw), 0);
	bind.bind.mw = mw;
	bind.bind.mr = p.all;
	bind.bind.to = p.all->to;
	bind.bind.length = 100;
	bind.bind.access = DIW_ACCESS_LOCAL_WRITE;
	ck_assert_int_eq(diw_post_send(e->qp, &bind, NULL), -EINVAL);
	bind.bind.access = DIW_ACCESS_REMOTE_WRITE;
	ck_assert_int_eq(diw_post_send(e->qp, &bind, NULL), 0);
	sent(e, DIW_WC_SUCCESS);
	return mw;
}

/* A region with a bound window cannot be invalidated. */
START_TEST(window_holds_region)
{
	struct diw_send_wr inv = { .opcode = DIW_WR_LOCAL_INV, .flags = DIW_SEND_SIGNALED };
	struct diw_mw *mw = bind_window(&p.b);

	inv.inv_stag = p.all->stag;
	ck_assert_int_eq(diw_post_send(p.b.qp, &inv, NULL), 0);
	sent(&p.b, DIW_WC_MW_BIND_ERR);
	ck_assert_int_eq(diw_mw_free(mw), 0);
}
END_TEST

START_TEST(window_goes_with_queue_pair)
{
	struct diw_mw *mw;
	struct end a, b;

	pair_connect(&p, &a, &b, NULL, NULL);
	mw = bind_window(&b);
	ck_assert_int_eq(diw_mr_dereg(p.all), -EBUSY);
	end_close(&b);
	end_close(&a);
	ck_assert_int_eq(diw_mr_dereg(p.all), 0);
	ck_assert_int_eq(diw_mr_reg(p.k.pd, p.k.mem, KIT_SIZE, DIW_ACCESS_LOCAL_WRITE, &p.all), 0);
	ck_assert_int_eq(diw_mw_free(mw), 0);
}
END_TEST

/* ---- The variants of the wire ---- */

static const struct {
	bool crc, markers, packed, plain;
	uint8_t revision;
	unsigned rtr;
	uint32_t mulpdu;
	bool responder_first;
} wires[] = {
	{ .crc = true, .revision = 2, .rtr = DIW_RTR_WRITE, .responder_first = true },
	{ .crc = true, .revision = 2, .rtr = DIW_RTR_READ, .responder_first = true },
	{ .crc = true, .revision = 2, .rtr = DIW_RTR_FPDU, .responder_first = true },
	{ .crc = false, .revision = 2, .rtr = 7, .responder_first = true },
	{ .crc = true, .revision = 2 },
	{ .crc = true, .revision = 1 },
	{ .crc = false, .revision = 0 },
	{ .crc = true, .markers = true, .revision = 1 },
	{ .crc = false, .markers = true, .revision = 2, .rtr = DIW_RTR_WRITE, .mulpdu = 600 },
	{ .crc = true, .packed = true, .revision = 2, .rtr = DIW_RTR_WRITE },
	{ .crc = true, .packed = true, .markers = true, .revision = 1, .plain = true },
	{ .crc = true, .revision = 2, .plain = true, .rtr = DIW_RTR_WRITE, .mulpdu = 128 },
};

START_TEST(every_wire)
{
	static const uint32_t lens[] = { 0, 1, 1000, 65521, 200000 };
	struct diw_conn_attr conn = DIW_CONN_ATTR_INIT;
	struct diw_qp_attr attr;
	struct diw_qp_info info;
	struct end e[2];

	conn.crc = wires[_i].crc;
	conn.markers = wires[_i].markers;
	conn.plain = wires[_i].plain;
	conn.connect.revision = wires[_i].revision;
	conn.rtr = wires[_i].rtr;
	rc_attr(&attr);
	attr.rc.packed = wires[_i].packed;
	attr.mulpdu = wires[_i].mulpdu;
	pair_connect(&p, &e[0], &e[1], &attr, &conn);
	ck_assert_int_eq(diw_qp_query(e[0].qp, &info), 0);
	ck_assert_int_eq(info.crc, wires[_i].crc);
	ck_assert_int_eq(info.rfc7306, !wires[_i].plain);
	for (size_t i = 0; i < 2 * sizeof lens / sizeof *lens; i++) {
		int from = (int)i % 2 ^ wires[_i].responder_first;
		struct diw_send_wr wr = { .opcode = DIW_WR_SEND }, rd = { .opcode = DIW_WR_READ, .to = HALF };
		uint32_t len = lens[i / 2];

		fill(0, len, i);
		rc_recv(&p, &e[!from], HALF, HALF, i);
		ck_assert_int_eq(rc_post(&p, &e[from], &wr, 0, len), 0);
		ck_assert_uint_eq(rc_wc(e[!from].rcq).byte_len, len);
		same(0, HALF, len);
		sent(&e[from], DIW_WC_SUCCESS);
		fill(HALF, len, i + 100);
		ck_assert_int_eq(rc_post(&p, &e[from], &rd, 0, len), 0);
		sent(&e[from], DIW_WC_SUCCESS);
		same(0, HALF, len);
	}
	end_close(&e[0]);
	end_close(&e[1]);
}
END_TEST

/* ---- Refused requests ---- */

/* A Read would wait for ever if none may be outstanding. */
START_TEST(no_ord)
{
	struct diw_send_wr rd = { .opcode = DIW_WR_READ };
	struct diw_conn_attr conn = DIW_CONN_ATTR_INIT;
	struct end a, b;

	conn.ord = 0;
	pair_connect(&p, &a, &b, NULL, &conn);
	ck_assert_int_eq(rc_post(&p, &a, &rd, 0, 10), -EOPNOTSUPP);
	end_close(&a);
	end_close(&b);
}
END_TEST

/* So would a Read that was posted before the negotiation; it fails, and all requests behind it are flushed. */
START_TEST(read_too_early)
{
	struct diw_send_wr rd = { .wr_id = 1, .opcode = DIW_WR_READ }, after = { .wr_id = 2, .opcode = DIW_WR_WRITE };
	struct diw_listener_info info;
	struct diw_conn_attr conn = DIW_CONN_ATTR_INIT;
	struct diw_qp_attr attr;
	struct diw_cm_event ev;
	struct diw_qp_error why;
	struct end a, b;
	struct diw_wc wc;

	rc_attr(&attr);
	end_open(&a, &p.k, &attr, 64);
	end_open(&b, &p.k, &attr, 64);
	ck_assert_int_eq(diw_listener_query(p.listener, &info), 0);
	ck_assert_int_eq(diw_connect(a.qp, p.cm, &info.local, NULL), 0);
	ck_assert_int_eq(rc_post(&p, &a, &rd, 0, 10), 0);
	ck_assert_int_eq(rc_post(&p, &a, &after, 0, 10), 0);
	ev = cm_event(&p, DIW_CM_CONNECT_REQUEST);
	conn.ird = 0;
	ck_assert_int_eq(diw_accept(ev.req, b.qp, &conn), 0);
	wc = rc_wc(a.scq);
	ck_assert_uint_eq(wc.wr_id, 1);
	ck_assert_int_eq(wc.status, DIW_WC_REM_OP_ERR);
	ck_assert_uint_eq(wc.fault, DIW_FAULT_NO_BUFFER);
	sent(&a, DIW_WC_FLUSHED);
	ck_assert_uint_eq(end_counter(&a, "request_failed"), 1);
	ck_assert_int_eq(diw_qp_error_get(a.qp, &why), 0);
	ck_assert_uint_eq(why.fault, DIW_FAULT_REQUEST);
	end_close(&a);
	end_close(&b);
	while (diw_cm_get(p.cm, &ev, 0) == 0)
		;
}
END_TEST

START_TEST(read_refused)
{
	struct diw_send_wr rd = { .wr_id = 1, .opcode = DIW_WR_READ, .stag = 0x123456, .to = 1 };
	struct diw_send_wr after = { .wr_id = 2, .opcode = DIW_WR_READ };
	struct diw_wc wc;

	ck_assert_int_eq(rc_post(&p, &p.a, &rd, 0, 100), 0);
	ck_assert_int_eq(rc_post(&p, &p.a, &after, 0, 100), 0);
	wc = rc_wc(p.a.scq);
	ck_assert_int_eq(wc.status, DIW_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(wc.wr_id, 1);
	ck_assert_uint_eq(wc.fault, DIW_FAULT_READ_STAG);
	sent(&p.a, DIW_WC_FLUSHED);
	ck_assert_int_eq(rc_state(&p.a), DIW_QPS_ERROR);
	ck_assert_uint_eq(end_counter(&p.a, "terminate_rx"), 1);
	ck_assert_uint_eq(end_counter(&p.b, "terminate_tx"), 1);
	ck_assert_uint_eq(end_counter(&p.b, "rx_stag"), 1);
}
END_TEST

START_TEST(queue_pair_refuses)
{
	struct diw_send_wr rd = { .opcode = DIW_WR_READ };
	struct diw_wc wc;

	ck_assert_int_eq(diw_qp_set_access(p.b.qp, DIW_ACCESS_LOCAL_WRITE), -EINVAL);
	ck_assert_int_eq(diw_qp_set_access(p.b.qp, DIW_ACCESS_REMOTE_WRITE), 0);
	ck_assert_int_eq(rc_post(&p, &p.a, &rd, 0, 10), 0);
	wc = rc_wc(p.a.scq);
	ck_assert_int_eq(wc.status, DIW_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(wc.fault, DIW_FAULT_ACCESS);
}
END_TEST

START_TEST(too_long)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };

	rc_recv(&p, &p.b, HALF, 10, 1);
	rc_recv(&p, &p.b, HALF, 10, 2);
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 11), 0);
	ck_assert_int_eq(rc_wc(p.b.rcq).status, DIW_WC_LOC_LEN_ERR);
	ck_assert_int_eq(rc_wc(p.b.rcq).status, DIW_WC_FLUSHED);
	ck_assert_int_eq(cm_event(&p, DIW_CM_DISCONNECTED).fault, DIW_FAULT_TOO_LONG);
}
END_TEST

START_TEST(receive_comes_late)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };

	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 1000), 0);
	end_until(&p.b, "rx_stalled", 1);
	sleep_ms(50);
	ck_assert_uint_eq(end_counter(&p.b, "rx_stalled"), 1);
	for (uint64_t i = 0; i < 5; i++) {
		ck_assert_int_eq(rc_recv(&p, &p.b, HALF, 1000, i), 0);
		ck_assert_uint_eq(rc_wc(p.b.rcq).wr_id, i);
	}
}
END_TEST

START_TEST(receive_never_comes)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };
	struct diw_qp_attr attr;
	struct diw_cm_event ev;
	struct end a, b;

	rc_attr(&attr);
	attr.rc.rnr_timeout_ns = 20 * (int64_t)DIW_MS;
	pair_connect(&p, &a, &b, &attr, NULL);
	ck_assert_int_eq(rc_post(&p, &a, &wr, 0, 10), 0);
	ev = cm_event(&p, DIW_CM_DISCONNECTED);
	ck_assert_int_eq(ev.fault, DIW_FAULT_NO_BUFFER);
	ck_assert_int_eq(ev.errnum, EPROTO);
	cm_event(&p, DIW_CM_DISCONNECTED);
	end_close(&a);
	end_close(&b);
}
END_TEST

/* No atomic can be posted before the peer has said that it accepts them. */
START_TEST(atomic_too_early)
{
	struct diw_send_wr add = { .opcode = DIW_WR_FETCH_ADD }, send = { .opcode = DIW_WR_SEND };
	struct diw_listener_info info;
	struct diw_qp_attr attr;
	struct diw_cm_event ev;
	struct end e;

	rc_attr(&attr);
	end_open(&e, &p.k, &attr, 64);
	ck_assert_int_eq(diw_listener_query(p.listener, &info), 0);
	ck_assert_int_eq(diw_connect(e.qp, p.cm, &info.local, NULL), 0);
	ck_assert_int_eq(rc_post(&p, &e, &add, 0, 8), -EOPNOTSUPP);
	send.flags = DIW_SEND_IMM;
	ck_assert_int_eq(rc_post(&p, &e, &send, 0, 8), -EOPNOTSUPP);
	send.flags = 0;
	ck_assert_int_eq(rc_post(&p, &e, &send, 0, 8), 0);
	ev = cm_event(&p, DIW_CM_CONNECT_REQUEST);
	ck_assert_int_eq(diw_reject(ev.req, NULL, 0), 0);
	cm_event(&p, DIW_CM_REJECTED);
	sent(&e, DIW_WC_FLUSHED);
	end_close(&e);
}
END_TEST

/* ---- The end ---- */

START_TEST(disconnect)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };

	for (uint64_t i = 0; i < 20; i++) {
		rc_recv(&p, &p.b, HALF, 100000, i);
		ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 100000), 0);
	}
	rc_recv(&p, &p.b, HALF, 100000, 20);
	ck_assert_int_eq(diw_disconnect(p.a.qp), 0);
	for (uint64_t i = 0; i < 20; i++)
		ck_assert_int_eq(rc_wc(p.b.rcq).status, DIW_WC_SUCCESS);
	ck_assert_int_eq(rc_wc(p.b.rcq).status, DIW_WC_FLUSHED);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(cm_event(&p, DIW_CM_DISCONNECTED).errnum, 0);
	ck_assert_int_eq(rc_state(&p.a), DIW_QPS_ERROR);
	ck_assert_int_eq(rc_state(&p.b), DIW_QPS_ERROR);
	ck_assert_int_eq(diw_disconnect(p.a.qp), -ENOTCONN);
	for (uint64_t i = 0; i < 20; i++)
		sent(&p.a, DIW_WC_SUCCESS);
	ck_assert_int_eq(rc_post(&p, &p.a, &wr, 0, 1), 0);
	sent(&p.a, DIW_WC_FLUSHED);
	ck_assert_int_eq(rc_recv(&p, &p.a, 0, 1, 1), 0);
	ck_assert_int_eq(rc_wc(p.a.rcq).status, DIW_WC_FLUSHED);
}
END_TEST

START_TEST(aborted)
{
	struct diw_cm_event ev;

	rc_recv(&p, &p.b, HALF, 10, 1);
	rc_recv(&p, &p.a, HALF, 10, 2);
	ck_assert_int_eq(diw_abort(p.a.qp), 0);
	ev = cm_event(&p, DIW_CM_DISCONNECTED);
	ck_assert_int_eq(ev.errnum, ECONNABORTED);
	ck_assert_ptr_eq(ev.qp, p.a.qp);
	ev = cm_event(&p, DIW_CM_DISCONNECTED);
	ck_assert_int_eq(ev.errnum, ECONNRESET);
	ck_assert_int_eq(rc_wc(p.a.rcq).status, DIW_WC_FLUSHED);
	ck_assert_int_eq(rc_wc(p.b.rcq).status, DIW_WC_FLUSHED);
}
END_TEST

Suite *suite_rc(void)
{
	Suite *s = suite_create("rc");
	TCase *t = tcase_create("rc");

	tcase_add_checked_fixture(t, open_default, close_all);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, sends);
	tcase_add_test(t, writes_and_reads);
	tcase_add_test(t, completions_in_order);
	tcase_add_test(t, immediates);
	tcase_add_test(t, atomics);
	tcase_add_test(t, messages_too_long);
	tcase_add_test(t, invalidation);
	tcase_add_test(t, windows);
	tcase_add_test(t, window_holds_region);
	tcase_add_test(t, window_goes_with_queue_pair);
	tcase_add_loop_test(t, every_wire, 0, sizeof wires / sizeof *wires);
	tcase_add_test(t, no_ord);
	tcase_add_test(t, read_too_early);
	tcase_add_test(t, read_refused);
	tcase_add_test(t, queue_pair_refuses);
	tcase_add_test(t, too_long);
	tcase_add_test(t, receive_comes_late);
	tcase_add_test(t, receive_never_comes);
	tcase_add_test(t, atomic_too_early);
	tcase_add_test(t, disconnect);
	tcase_add_test(t, aborted);
	suite_add_tcase(s, t);
	return s;
}
