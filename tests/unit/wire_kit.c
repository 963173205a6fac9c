/* SPDX-License-Identifier: BSD-2-Clause */
/* An RC queue pair with a hand-written peer, beside two others on the same device. */
#include "tests/unit/wire_kit.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cm_kit.h"

#define FILL 0xa5
#define ARENA (3 * GUARD + REGION + RECV)
#define REMOTE (DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_ATOMIC)

/* The capabilities of RFC 7306, behind empty private data. */
static const uint8_t takes[12] = { 0x64, 0x69, 0x77, 0x37, 0x33, 0x30, 0x36, 0x8f, 12, 0, 0, 3 };

static uint8_t flags(const struct wire_attr *a)
{
	return (uint8_t)((a->markers ? 0x80 : 0) | (a->no_crc ? 0 : 0x40) | (a->rtr ? 0x10 : 0));
}

static void say(struct wire *w, const struct wire_attr *a, const char *key)
{
	uint32_t words = a->rtr ? 4 : 0, data = a->plain ? 0 : sizeof takes;
	uint8_t p[36];

	memcpy(p, key, 16);
	p[16] = flags(a);
	p[17] = a->rtr ? 2 : 1;
	raw_put(p + 18, 2, words + data);
	raw_put(p + 20, 2, 0x8010 | (a->rtr & DIW_RTR_FPDU ? 0x4000 : 0));
	raw_put(p + 22, 2, 0x0010 | (a->rtr & DIW_RTR_WRITE ? 0x8000 : 0) | (a->rtr & DIW_RTR_READ ? 0x4000 : 0));
	memcpy(p + 20 + words, takes, sizeof takes);
	p[20 + words + 11] |= a->words ? 4 : 0;
	raw_octets(&w->r, p, 20 + words + data);
}

static void hear(struct wire *w, const struct wire_attr *a, const char *key)
{
	uint8_t hdr[20], data[512];

	raw_read_frame(&w->r, hdr, data, sizeof data);
	ck_assert_mem_eq(hdr, key, 16);
	ck_assert_uint_eq(hdr[16], flags(a));
	ck_assert_uint_eq(hdr[17], a->rtr ? 2 : 1);
}

static void shake_hands(struct wire *w, const struct wire_attr *a)
{
	struct diw_conn_attr conn = DIW_CONN_ATTR_INIT;
	struct diw_addr at;
	int lfd;

	conn.crc = !a->no_crc;
	conn.markers = a->markers;
	conn.connect.revision = a->rtr ? 2 : 1;
	conn.rtr = a->rtr;
	if (a->ird)
		conn.ird = a->ird;
	if (a->responder) {
		struct diw_listener_info info;

		ck_assert_int_eq(diw_listener_query(w->p.listener, &info), 0);
		w->r.fd = dial(&info.local);
		say(w, a, "MPA ID Req Frame");
		ck_assert_int_eq(diw_accept(cm_event(&w->p, DIW_CM_CONNECT_REQUEST).req, w->e.qp, &conn), 0);
		hear(w, a, "MPA ID Rep Frame");
	} else {
		lfd = raw_listen(&at, 1);
		ck_assert_int_eq(diw_connect(w->e.qp, w->p.cm, &at, &conn), 0);
		w->r.fd = raw_accept(lfd);
		close(lfd);
		hear(w, a, "MPA ID Req Frame");
		say(w, a, "MPA ID Rep Frame");
	}
	if (!a->responder || !a->rtr)
		cm_event(&w->p, DIW_CM_ESTABLISHED);
}

void wire_join(struct wire *w, const struct wire_attr *attr)
{
	struct wire_attr a = attr ? *attr : (struct wire_attr){ 0 };
	struct diw_qp_attr qp;

	rc_attr(&qp);
	qp.mulpdu = a.mulpdu;
	qp.rc.confirm = a.confirm;
	qp.rc.keep_recvs = a.keep;
	qp.rc.rnr_timeout_ns = a.rnr_ns;
	end_open(&w->e, &w->p.k, &qp, 64);
	w->r = (struct raw){ .crc = !a.no_crc, .tx_markers = a.markers, .rx_markers = a.markers };
	shake_hands(w, &a);
	ck_assert_int_eq(diw_mr_reg(w->p.k.pd, w->region, REGION, DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_INVALIDATE,
				    &w->may_end), 0);
	for (int i = 0; i < a.receives; i++)
		wire_receive(w, (uint64_t)i);
}

void wire_leave(struct wire *w)
{
	end_close(&w->e);
	close(w->r.fd);
	ck_assert_int_eq(diw_mr_dereg(w->may_end), 0);
}

void wire_open(struct wire *w, const struct wire_attr *attr)
{
	memset(w, 0, sizeof *w);
	pair_open(&w->p, NULL, NULL);
	w->arena = aligned_alloc(4096, (ARENA + 4095) & ~4095u);
	memset(w->arena, FILL, ARENA);
	w->region = w->arena + GUARD;
	w->recv = w->region + REGION + GUARD;
	ck_assert_int_eq(diw_pd_alloc(w->p.k.dev, &w->other_pd), 0);
	ck_assert_int_eq(diw_mr_reg(w->p.k.pd, w->region, REGION, DIW_ACCESS_LOCAL_WRITE | REMOTE, &w->mr), 0);
	ck_assert_int_eq(diw_mr_reg(w->p.k.pd, w->recv, RECV, DIW_ACCESS_LOCAL_WRITE, &w->recv_mr), 0);
	ck_assert_int_eq(diw_mr_reg(w->other_pd, w->region, REGION, DIW_ACCESS_LOCAL_WRITE | REMOTE, &w->other), 0);
	wire_join(w, attr);
}

void wire_share_memory(struct wire *w)
{
	end_counter(&w->e, "wakeups");
}

void wire_close(struct wire *w)
{
	wire_leave(w);
	wire_check_guards(w);
	wire_check_neighbours(w);
	ck_assert_int_eq(diw_mr_dereg(w->mr), 0);
	ck_assert_int_eq(diw_mr_dereg(w->recv_mr), 0);
	ck_assert_int_eq(diw_mr_dereg(w->other), 0);
	ck_assert_int_eq(diw_pd_free(w->other_pd), 0);
	pair_close(&w->p);
	free(w->arena);
}

void wire_receive(struct wire *w, uint64_t wr_id)
{
	struct diw_sge sge = { w->recv, RECV, w->recv_mr->stag };
	struct diw_recv_wr wr = { .wr_id = wr_id, .sge = &sge, .num_sge = 1 };

	ck_assert_int_eq(diw_post_recv(w->e.qp, &wr, NULL), 0);
}

void wire_post(struct wire *w, struct diw_send_wr *wr, uint32_t off, uint32_t len)
{
	wr->stag = STAG;
	wr->to = wr->to ? wr->to : TO;
	ck_assert_int_eq(rc_post(&w->p, &w->e, wr, off, len), 0);
}

static void check_filled(const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (p[i] != FILL)               /* one assertion for each octet would cost as much as everything else */
			ck_abort_msg("octet %u of a guard is %02x", i, p[i]);
}

void wire_check_guards(const struct wire *w)
{
	check_filled(w->arena, GUARD);
	check_filled(w->region + REGION, GUARD);
	check_filled(w->recv + RECV, GUARD);
}

void wire_check_neighbours(struct wire *w)
{
	struct diw_send_wr wr = { .wr_id = 77, .opcode = DIW_WR_SEND };

	ck_assert_int_eq(rc_recv(&w->p, &w->p.b, KIT_SIZE / 2, 100, 78), 0);
	ck_assert_int_eq(rc_post(&w->p, &w->p.a, &wr, 0, 100), 0);
	wire_expect_wc(w->p.b.rcq, 78, DIW_WC_SUCCESS);
	wire_expect_wc(w->p.a.scq, 77, DIW_WC_SUCCESS);
}

void wire_expect_terminate(struct wire *w, uint16_t fault, const struct seg *cause, bool quote, bool r)
{
	static struct seg want;
	uint32_t hdr = cause && cause->b[0] & 0x80 ? 14 : 18;

	seg_hex(&want, "4147 00000000 00000002 00000001 00000000 %04x %02x 00", fault,
		(quote ? 0xc0 : 0) | (r ? 0x20 : 0));
	if (quote) {
		raw_put(want.b + want.n, 2, cause->n);
		want.n += 2;
		seg_add(&want, cause->b, hdr + (r ? 28 : 0));
	}
	raw_expect_seg(&w->r, &want);
}

void wire_expect_down(struct wire *w, uint16_t fault, int errnum)
{
	struct diw_cm_event ev = cm_event(&w->p, DIW_CM_DISCONNECTED);

	ck_assert_ptr_eq(ev.qp, w->e.qp);
	ck_assert_msg(ev.fault == fault && ev.errnum == errnum, "fault %x, errno %d, not %x, %d", ev.fault, ev.errnum,
		      fault, errnum);
	ck_assert_int_eq(rc_state(&w->e), DIW_QPS_ERROR);
}

void wire_expect_wc(struct diw_cq *cq, uint64_t wr_id, int status)
{
	struct diw_wc wc = rc_wc(cq);

	ck_assert_msg(wc.status == status, "%s: %s, not %s", diw_wc_opcode_str(wc.opcode),
		      diw_wc_status_str(wc.status), diw_wc_status_str(status));
	ck_assert_uint_eq(wc.wr_id, wr_id);
}
