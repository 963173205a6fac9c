/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams: which requests fail when the link reports that a peer is gone, or had forgotten this end. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "rdmap/rdmap.h"
#include "tests/unit/unit.h"

#define REQUESTS 8u
#define START DIW_S

static struct diw_ddp_hdr last_sent;
static uint32_t refusals;
static uint16_t refused_for;          /* the fault of the last one */

static int any_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n,
		    uint64_t now)
{
	uint32_t len;

	(void)dst, (void)now;
	diw_ddp_hdr_decode(&last_sent, &len, segs[n - 1].hdr, segs[n - 1].hdr_len);
	l->taken += (uint32_t)n;
	l->left = l->taken;
	return n;
}

static uint32_t any_mulpdu(struct diw_link *l, const struct diw_addr *dst)
{
	(void)l, (void)dst;
	return 1400;
}

static void any_refuse(struct diw_link *l, const struct diw_addr *src, uint16_t fault)
{
	(void)l, (void)src;
	refusals++;
	refused_for = fault;
}

static const struct diw_link_ops any_ops = { .send = any_send, .mulpdu = any_mulpdu, .refuse = any_refuse };
static const struct diw_addr peer = { .ip = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 }, .port = 1000 };
static const struct diw_rdmap_up up;
static struct diw_counters counters;
static struct diw_stag_table stags;
static struct diw_link link_any;
static struct diw_rdmap r;

static void ends_open(void)
{
	const struct diw_rdmap_attr attr = {
		.type = &diw_rdmap_type_rd, .up = &up, .requests = REQUESTS, .peers = 2,
		.request_size = sizeof(struct diw_rdmap_wr), .ddp.c = &counters, .ddp.stags = &stags,
		.ddp.cfg.max_sources = 2,
	};

	refusals = 0;
	counters = (struct diw_counters){ 0 };
	link_any = (struct diw_link){ .ops = &any_ops, .c = &counters, .up = &diw_ddp_peers_up };
	ck_assert_int_eq(diw_stag_init(&stags), 0);
	ck_assert_int_eq(diw_rdmap_init(&r, &attr), 0);
	diw_rdmap_set_link(&r, &link_any);
}

static void ends_close(void)
{
	diw_rdmap_fini(&r);
	diw_stag_fini(&stags);
}

/* Posts a Read of no octets. Its request is one segment. */
static void post_read(uint64_t id)
{
	const struct diw_ddp_sge none = { 0 };
	const struct diw_rdmap_wr wr = { .opcode = DIW_OP_READ_REQUEST, .dst.addr = peer, .buf.sge = &none,
					 .wr_id = id };
	int64_t budget = 1 << 20;

	ck_assert(diw_rdmap_rd_begin(&r, &wr));
	ck_assert_int_eq(diw_rdmap_rd_run(&r, &budget, START), 0);
}

static void acked(uint32_t first, uint32_t n)
{
	diw_ddp_peers_up.acked(diw_rdmap_link_ctx(&r), first, n);
}

static void gone(int errnum)
{
	diw_ddp_peers_up.gone(diw_rdmap_link_ctx(&r), &peer, errnum);
}

static void has_failed(uint64_t id, int errnum)
{
	struct diw_rdmap_wr *w = diw_rdmap_rd_done(&r);

	ck_assert(w);
	ck_assert_uint_eq(w->wr_id, id);
	ck_assert_int_eq(w->status, DIW_RDMAP_PEER_GONE);
	ck_assert_int_eq(w->fault, errnum);
	diw_rdmap_rd_release(&r, w);
}

/* A peer that had forgotten this end takes the requests that it has not acknowledged, and answers them. */
START_TEST(what_a_peer_forgot_fails)
{
	ends_open();
	post_read(1);
	acked(0, 1);
	diw_rdmap_timers(&r, START + 2 * DIW_S);         /* a probe */
	ck_assert_uint_eq(link_any.taken, 2);
	post_read(2);
	acked(2, 1);
	post_read(3);
	gone(0);
	ck_assert(!diw_rdmap_rd_done(&r));
	acked(1, 1);                                    /* the probe's acknowledgement ends the first one */
	has_failed(1, ECONNRESET);
	has_failed(2, ECONNRESET);
	acked(3, 1);
	ck_assert(!diw_rdmap_rd_done(&r));
	gone(0);
	has_failed(3, ECONNRESET);
	ends_close();
}
END_TEST

/* A peer that has given up this end may have taken a request before, and then does not answer it. */
START_TEST(what_a_peer_gave_up_fails)
{
	ends_open();
	post_read(1);
	acked(0, 1);
	post_read(2);
	gone(ETIMEDOUT);
	has_failed(1, ETIMEDOUT);
	acked(1, 1);
	has_failed(2, ETIMEDOUT);
	ends_close();
}
END_TEST

static void rejected(uint32_t number, uint16_t fault)
{
	diw_ddp_peers_up.rejected(diw_rdmap_link_ctx(&r), number, fault);
}

/* A segment of the peer, with LEN octets behind the header. */
static void comes(const struct diw_ddp_hdr *h, uint32_t len)
{
	uint8_t p[DIW_DDP_MAX_LEN + 64] = { 0 };
	const struct diw_link_rxseg seg = { .data = p, .len = diw_ddp_hdr_encode(p, h) + len };

	diw_ddp_peers_up.rx(diw_rdmap_link_ctx(&r), &peer, &seg, 1, START);
}

/* The peer gives this end up before it refuses a request. The Read behind it, which it has not taken, is sent again and
 * answered. */
START_TEST(what_is_sent_again_has_not_failed)
{
	const struct diw_ddp_sge none = { 0 };
	const struct diw_rdmap_wr bad = { .opcode = DIW_OP_WRITE, .dst.addr = peer, .buf.sge = &none, .wr_id = 1 };
	const struct diw_rdmap_wr read = { .opcode = DIW_OP_READ_REQUEST, .dst.addr = peer, .buf.sge = &none,
					   .wr_id = 2, .apart = true };
	struct diw_ddp_hdr answer = { .tagged = true, .last = true, .opcode = DIW_OP_READ_RESPONSE };
	int64_t budget = 1 << 20;
	struct diw_rdmap_wr *w;

	ends_open();
	ck_assert(diw_rdmap_rd_begin(&r, &bad) && diw_rdmap_rd_begin(&r, &read));
	ck_assert_int_eq(diw_rdmap_rd_run(&r, &budget, START), 0);
	gone(ECONNRESET);
	rejected(0, DIW_FAULT_BOUNDS);
	w = diw_rdmap_rd_done(&r);
	ck_assert(w);
	ck_assert_int_eq(w->status, DIW_RDMAP_REFUSED);
	diw_rdmap_rd_release(&r, w);
	ck_assert(!diw_rdmap_rd_done(&r));
	ck_assert_int_eq(diw_rdmap_rd_run(&r, &budget, START), 0);
	ck_assert_uint_eq(link_any.taken, 3);
	answer.msn = last_sent.msn;
	comes(&answer, 0);
	w = diw_rdmap_rd_done(&r);
	ck_assert(w);
	ck_assert_int_eq(w->status, DIW_RDMAP_OK);
	ck_assert_int_eq(w->fault, 0);
	diw_rdmap_rd_release(&r, w);
	ends_close();
}
END_TEST

/* A message of a peer that this end gives up goes on when the peer is there again; not if the peer has given this end
 * up. */
START_TEST(a_message_outlasts_the_time_limit)
{
	static uint8_t mem[32];
	struct diw_stag region = { .addr = mem, .to = 0x5000, .len = sizeof mem, .pd = &r, .access = 1 | 2 };
	struct diw_ddp_hdr h = { .tagged = true, .opcode = DIW_OP_WRITE, .length = 32, .to = 0x5000 };

	ends_open();
	r.ddp.user.pd = &r;
	ck_assert_int_eq(diw_stag_add(&stags, &region), 0);
	h.stag = region.stag;
	for (int i = 0; i < 2; i++) {
		h.mo = 0;
		h.to = 0x5000;
		h.last = false;
		comes(&h, 16);
		gone(i ? ECONNRESET : ETIMEDOUT);
		h.mo = 16;
		h.to += 16;
		h.last = true;
		comes(&h, 16);
		ck_assert_uint_eq(refusals, i);
	}
	ck_assert_uint_eq(refused_for, DIW_FAULT_STREAM);       /* the segment was right, and came too late */
	ck_assert_uint_eq(counters.reasm_late, 1);
	ck_assert_uint_eq(counters.rx_malformed, 0);
	diw_stag_remove(&stags, &region);
	ends_close();
}
END_TEST

Suite *suite_rd_gone(void)
{
	Suite *s = suite_create("rd_gone");
	TCase *t = tcase_create("rd_gone");

	tcase_add_test(t, what_a_peer_forgot_fails);
	tcase_add_test(t, what_a_peer_gave_up_fails);
	tcase_add_test(t, what_is_sent_again_has_not_failed);
	tcase_add_test(t, a_message_outlasts_the_time_limit);
	suite_add_tcase(s, t);
	return s;
}
