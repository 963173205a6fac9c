/* SPDX-License-Identifier: BSD-2-Clause */
/* The vectors of docs/ud-profile.md section 15: the codec, the segments that the stack sends, its reaction to received
 * ones. */
#include <string.h>

#include "tests/wire/vectors.h"
#include "tests/wire/wire.h"
#include "wire/hdr.h"

static const struct {
	const char *hex;
	struct diw_ddp_hdr h;
} vector[] = {
#define MINE .epoch = EPOCH, .qkey = QKEY
#define THERE .stag = 0xa1b2c37e, .to = TO
	{ V1_SEND, { .last = true, .opcode = 3, MINE, .msn = 0x01020304, .length = 4 } },
	{ V2_SEND_SE_IMM, { .last = true, .imm_valid = true, .opcode = 5, MINE, .msn = 0x01020305, .length = 11,
			    .imm = 0xcafe0042 } },
	{ V3_SEND_FIRST, { .opcode = 3, MINE, .msn = 0xffffffff, .length = 20 } },
	{ V3_SEND_LAST, { .last = true, .opcode = 3, MINE, .msn = 0xffffffff, .mo = 12, .length = 20 } },
	{ V4_SEND_EMPTY, { .last = true, .opcode = 3, MINE } },
	{ V5_RECORD_FIRST, { .tagged = true, .opcode = 12, MINE, .msn = 0x0a0b0c0d, .length = 24, THERE } },
	{ V5_RECORD_LAST, { .tagged = true, .last = true, .opcode = 12, MINE, .msn = 0x0a0b0c0d, .mo = 16, .length = 24,
			    THERE + 16 } },
	{ V6_RECORD_IMM, { .tagged = true, .last = true, .imm_valid = true, .solicited = true, .opcode = 12, MINE,
			   .msn = 0x0a0b0c0e, .length = 8, .imm = 0xdeadbeef, THERE } },
	{ V7_READ_REQUEST, { .last = true, .opcode = 1, .qn = 1, MINE, .msn = 0x01020306, .length = 28 } },
	{ V8_READ_RESPONSE, { .tagged = true, .last = true, .opcode = 2, .epoch = 0x33c4, .msn = 0x01020306,
			      .length = 8, .stag = 0x0f1e2d3c, .to = 0x0000560000001000 } },
	{ V9_UC_WRITE, { .tagged = true, .last = true, .opcode = 0, MINE, .msn = 0x0a0b0c0f, .length = 4, THERE } },
	{ V10_FORGED, { .tagged = true, .last = true, .opcode = 12, MINE, .msn = 0x0a0b0c10, .length = 32,
			.stag = 0xa1b2c3ff, .to = TO } },
	{ V11_ERROR, { .last = true, .opcode = 7, .qn = 2, .epoch = 0x33c4, .msn = 0x77665544, .length = 36 } },
	{ V12_ERROR, { .last = true, .opcode = 7, .qn = 2, .epoch = 0x33c4, .msn = 0x77665545, .length = 28 } },
	{ V13_GROUP_SEND, { .last = true, .opcode = 3, MINE, .msn = 0x01020307, .length = 9 } },
	{ V13_GROUP_RECORD, { .tagged = true, .last = true, .opcode = 12, MINE, .msn = 0x0a0b0c11, .length = 9,
			      .stag = 0x00c0de07, .to = 0x1000 } },
	{ V14_QUESTION, { .last = true, .opcode = 13, .qn = 2, .epoch = EPOCH, .msn = 0x01020308, .length = 8 } },
	{ V14_ANSWER, { .last = true, .opcode = 13, .qn = 2, .epoch = 0x33c4, .msn = 0x77665546, .length = 8 } },
	{ V15_CHALLENGE, { .last = true, .opcode = 14, .qn = 2, .epoch = 0x33c4, .msn = 0x77665547, .length = 16 } },
	{ V15_PROOF, { .last = true, .opcode = 14, .qn = 2, .epoch = EPOCH, .msn = 0x01020309, .length = 16 } },
};
#define NVECTORS (sizeof vector / sizeof *vector)

START_TEST(codec)
{
	const struct diw_ddp_hdr *want = &vector[_i].h;
	struct diw_ddp_hdr h;
	uint8_t out[DIW_DDP_MAX_LEN];
	struct gram g;
	uint32_t hdr_len;

	gram_hex(&g, vector[_i].hex);
	ck_assert(gram_sealed(&g));
	ck_assert_uint_eq(diw_ddp_hdr_decode(&h, &hdr_len, g.b, g.len - 4), 0);
	ck_assert_uint_eq(hdr_len, (want->tagged ? 32 : 28) + (want->imm_valid ? 4 : 0));
	ck_assert_int_eq(h.tagged, want->tagged);
	ck_assert_int_eq(h.last, want->last);
	ck_assert_int_eq(h.imm_valid, want->imm_valid);
	ck_assert_int_eq(h.solicited, want->solicited);
	ck_assert_uint_eq(h.opcode, want->opcode);
	ck_assert_uint_eq(h.epoch, want->epoch);
	ck_assert_uint_eq(h.qkey, want->qkey);
	ck_assert_uint_eq(h.msn, want->msn);
	ck_assert_uint_eq(h.mo, want->mo);
	ck_assert_uint_eq(h.length, want->length);
	ck_assert_uint_eq(h.imm, want->imm);
	ck_assert_uint_eq(h.stag, want->stag);
	ck_assert_uint_eq(h.to, want->to);
	ck_assert_uint_eq(h.qn, want->qn);
	ck_assert_uint_eq(diw_ddp_hdr_encode(out, want), hdr_len);
	ck_assert_mem_eq(out, g.b, hdr_len);
}
END_TEST

/* ---- Received vectors ---- */

/* Registered STags are random, so the region's is put into the vector. */
static void patch_stag(struct gram *g, const struct bench *b, uint32_t off)
{
	gram_put32(g, off, b->mr->stag);
	gram_seal(g);
}

static void image_region(struct bench *b, uint32_t off, const void *data, uint32_t n)
{
	memcpy(b->image + GUARD + off, data, n);
}

static void image_recv(struct bench *b, int i, uint32_t off, const void *data, uint32_t n)
{
	memcpy(b->image + (b->recv[i] - b->arena) + off, data, n);
}

static void check_recv(struct bench *b, uint64_t wr_id, uint32_t len, uint32_t msn, unsigned flags, uint32_t imm)
{
	struct diw_wc wc = bench_wc(b, b->rcq);

	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, DIW_WC_RECV);
	ck_assert_uint_eq(wc.wr_id, wr_id);
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert_uint_eq(wc.msg_len, len);
	ck_assert_uint_eq(wc.msn, msn);
	ck_assert_uint_eq(wc.flags & (DIW_WC_IMM | DIW_WC_SOLICITED), flags);
	if (flags & DIW_WC_IMM)
		ck_assert_uint_eq(wc.imm, imm);
	ck_assert(diw_addr_eq(&wc.src, &b->peer));
	ck_assert_ptr_eq(wc.qp, b->qp);
	bench_check_memory(b);
}

static void inject_hex(struct bench *b, const char *hex)
{
	struct gram g;

	gram_hex(&g, hex);
	bench_inject(b, &g);
}

START_TEST(receive_sends)
{
	static const char both[] = "\x20\x21\x22\x23\x24\x25\x26\x27\x28\x29\x2a\x2b\x2c\x2d\x2e\x2f\x30\x31\x32\x33";
	struct bench b;

	bench_open(&b, NULL);
	inject_hex(&b, V1_SEND);
	image_recv(&b, 0, 0, "diwa", 4);
	check_recv(&b, 0, 4, 0x01020304, 0, 0);
	inject_hex(&b, V2_SEND_SE_IMM);
	image_recv(&b, 1, 0, "hello world", 11);
	check_recv(&b, 1, 11, 0x01020305, DIW_WC_IMM | DIW_WC_SOLICITED, 0xcafe0042);
	inject_hex(&b, V3_SEND_LAST);
	image_recv(&b, 2, 12, both + 12, 8);
	bench_no_wc(&b);
	bench_check_memory(&b);
	inject_hex(&b, V3_SEND_FIRST);
	image_recv(&b, 2, 0, both, 20);
	check_recv(&b, 2, 20, 0xffffffff, 0, 0);
	inject_hex(&b, V4_SEND_EMPTY);
	check_recv(&b, 3, 0, 0, 0, 0);
	ck_assert_str_eq(bench_drops(&b), "");
	bench_close(&b);
}
END_TEST

static void check_record(struct bench *b, uint32_t msn, uint32_t len, unsigned flags, uint32_t imm)
{
	struct diw_wc wc = bench_wc(b, b->rcq);
	struct diw_range r[2];

	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, DIW_WC_RECV_WRITE_RECORD);
	ck_assert_int_eq(wc.close, DIW_RECORD_COMPLETE);
	ck_assert_uint_eq(wc.stag, b->mr->stag);
	ck_assert_uint_eq(wc.to, TO);
	ck_assert_uint_eq(wc.msn, msn);
	ck_assert_uint_eq(wc.msg_len, len);
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert_uint_eq(wc.nranges, 1);
	ck_assert_int_eq(diw_wc_ranges(&wc, r, 2), 1);
	ck_assert_uint_eq(r[0].off, 0);
	ck_assert_uint_eq(r[0].len, len);
	ck_assert_uint_eq(wc.flags & (DIW_WC_IMM | DIW_WC_SOLICITED), flags);
	if (flags & DIW_WC_IMM)
		ck_assert_uint_eq(wc.imm, imm);
	ck_assert(diw_addr_eq(&wc.src, &b->peer));
	diw_wc_release(&wc);
	bench_check_memory(b);
}

START_TEST(receive_records)
{
	static const uint8_t ones[16] = { [0 ... 15] = 0x11 }, twos[8] = { [0 ... 7] = 0x22 };
	struct bench b;
	struct gram g;

	bench_open(&b, NULL);
	gram_hex(&g, V5_RECORD_FIRST);
	patch_stag(&g, &b, 2);
	bench_inject(&b, &g);
	image_region(&b, 0, ones, 16);
	bench_no_wc(&b);
	bench_check_memory(&b);
	gram_hex(&g, V5_RECORD_LAST);
	patch_stag(&g, &b, 2);
	bench_inject(&b, &g);
	image_region(&b, 16, twos, 8);
	check_record(&b, 0x0a0b0c0d, 24, 0, 0);
	gram_hex(&g, V6_RECORD_IMM);
	patch_stag(&g, &b, 2);
	bench_inject(&b, &g);
	image_region(&b, 0, "ABCDEFGH", 8);
	check_record(&b, 0x0a0b0c0e, 8, DIW_WC_IMM | DIW_WC_SOLICITED, 0xdeadbeef);
	ck_assert_str_eq(bench_drops(&b), "");
	bench_close(&b);
}
END_TEST

/* The response to V7 is V8, except for the responder's epoch. */
START_TEST(answer_read)
{
	static const uint8_t twos[8] = { [0 ... 7] = 0x22 };
	struct bench b;
	struct gram g, want;

	bench_open(&b, NULL);
	memcpy(b.region + 8, twos, 8);
	image_region(&b, 8, twos, 8);
	gram_hex(&g, V7_READ_REQUEST);
	patch_stag(&g, &b, 44);
	bench_inject(&b, &g);
	ck_assert_int_eq(b.nsent, 1);
	gram_hex(&want, V8_READ_RESPONSE);
	want.b[18] = (uint8_t)(b.info.epoch >> 8);
	want.b[19] = (uint8_t)b.info.epoch;
	gram_seal(&want);
	ck_assert_uint_eq(b.sent[0].len, want.len);
	ck_assert_mem_eq(b.sent[0].b, want.b, want.len);
	bench_no_wc(&b);
	bench_close(&b);
}
END_TEST

static void check_error(struct bench *b, const char *hex, uint32_t stag_at)
{
	struct gram want;

	ck_assert_int_eq(b->nsent, 1);
	gram_hex(&want, hex);
	gram_put32(&want, 10, gram_get32(&b->sent[0], 10));      /* the MSN is drawn by the stack */
	want.b[22] = (uint8_t)(b->info.epoch >> 8);
	want.b[23] = (uint8_t)b->info.epoch;
	if (stag_at)
		gram_put32(&want, stag_at, b->mr->stag ^ 0x81);
	gram_seal(&want);
	ck_assert_uint_eq(b->sent[0].len, want.len);
	ck_assert_mem_eq(b->sent[0].b, want.b, want.len);
	ck_assert_uint_eq(bench_count(b, "error_tx"), 1);
}

START_TEST(send_error_stag)
{
	struct bench b;
	struct gram g;

	bench_open(&b, NULL);
	gram_hex(&g, V10_FORGED);
	gram_put32(&g, 2, b.mr->stag ^ 0x81);
	gram_seal(&g);
	bench_refused(&b, &g, "rx_stag");
	check_error(&b, V11_ERROR, 36);
	bench_close(&b);
}
END_TEST

START_TEST(send_error_read)
{
	struct diw_mr *blind;
	uint8_t memory[32];
	struct bench b;
	struct gram g;

	bench_open(&b, NULL);
	ck_assert_int_eq(diw_mr_reg(b.pd, memory, sizeof memory, DIW_ACCESS_LOCAL_WRITE, &blind), 0);
	gram_hex(&g, V7_READ_REQUEST);
	gram_put32(&g, 44, blind->stag);
	gram_put64(&g, 48, blind->to);
	gram_seal(&g);
	bench_refused(&b, &g, "rx_access");
	check_error(&b, V12_ERROR, 0);
	ck_assert_int_eq(diw_mr_dereg(blind), 0);
	bench_close(&b);
}
END_TEST

START_TEST(receive_uc_write)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct bench b;
	struct gram g;

	attr.type = DIW_QP_UC;
	bench_open(&b, &attr);
	gram_hex(&g, V9_UC_WRITE);
	patch_stag(&g, &b, 2);
	bench_inject(&b, &g);
	image_region(&b, 0, "\xff\xfe\xfd\xfc", 4);
	ck_assert_str_eq(bench_drops(&b), "");
	bench_no_wc(&b);
	bench_check_memory(&b);
	bench_close(&b);
}
END_TEST

/* ---- Sent vectors ---- */

/* Puts the values that the stack draws at random into the vector: epoch and MSN. */
static void expect_gram(struct bench *b, int i, struct gram *want, uint32_t msn)
{
	bool tagged = want->b[0] & BIT_T;

	ck_assert_int_lt(i, b->nsent);
	gram_put32(want, tagged ? 20 : 10, msn);
	want->b[tagged ? 18 : 22] = (uint8_t)(b->info.epoch >> 8);
	want->b[tagged ? 19 : 23] = (uint8_t)b->info.epoch;
	gram_seal(want);
	ck_assert_uint_eq(b->sent[i].len, want->len);
	ck_assert_mem_eq(b->sent[i].b, want->b, want->len);
}

static void expect_sent(struct bench *b, int i, const char *hex, uint32_t msn)
{
	struct gram want;

	gram_hex(&want, hex);
	expect_gram(b, i, &want, msn);
}

static uint32_t sent_msn(const struct bench *b, int i)
{
	ck_assert_int_lt(i, b->nsent);
	return gram_get32(&b->sent[i], b->sent[i].b[0] & BIT_T ? 20 : 10);
}

static void post(struct bench *b, struct diw_send_wr *wr, const void *data, uint32_t n)
{
	struct diw_sge sge = { (void *)(uintptr_t)data, n, 0 };

	wr->sge = &sge;
	wr->num_sge = 1;
	wr->flags |= DIW_SEND_INLINE | DIW_SEND_SIGNALED;
	wr->qkey = QKEY;
	wr->dst.addr = b->peer;
	ck_assert_int_eq(diw_post_send(b->qp, wr, NULL), 0);
	net_run(b->net, DIW_US);
	ck_assert_int_eq(bench_wc(b, b->scq).status, DIW_WC_SUCCESS);
}

START_TEST(send_vectors)
{
	struct diw_send_wr send = { .opcode = DIW_WR_SEND };
	struct diw_send_wr sol = { .opcode = DIW_WR_SEND, .flags = DIW_SEND_SOLICITED | DIW_SEND_IMM,
		.imm = 0xcafe0042 };
	struct diw_send_wr rec = { .opcode = DIW_WR_WRITE_RECORD, .flags = DIW_SEND_SOLICITED | DIW_SEND_IMM,
		.imm = 0xdeadbeef, .stag = 0xa1b2c37e, .to = TO };
	struct bench b;
	uint32_t msn;

	bench_open(&b, NULL);
	post(&b, &send, "diwa", 4);
	msn = sent_msn(&b, 0);
	expect_sent(&b, 0, V1_SEND, msn);
	post(&b, &sol, "hello world", 11);
	expect_sent(&b, 1, V2_SEND_SE_IMM, msn + 1);
	send.flags = 0;
	post(&b, &send, "", 0);
	expect_sent(&b, 2, V4_SEND_EMPTY, msn + 2);
	post(&b, &rec, "ABCDEFGH", 8);
	expect_sent(&b, 3, V6_RECORD_IMM, sent_msn(&b, 3));
	bench_close(&b);
}
END_TEST

/* A MULPDU of 128 leaves 100 octets a segment, so 180 octets take two; ours are equal. With an immediate 200 take
 * three; four are equal. */
START_TEST(send_segments)
{
	static const char data[200] = "abcdefghijklmnopqrstuvwxyz";
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct fields f;
	struct bench b;
	struct gram g;

	attr.mulpdu = 128;
	attr.max_inline = 200;
	bench_open(&b, &attr);
	ck_assert_uint_eq(b.info.mulpdu, 128);
	post(&b, &wr, data, 180);
	ck_assert_int_eq(b.nsent, 2);
	for (int i = 0; i < 2; i++) {
		f = send_fields(0, data + 90 * i, 90);
		f.c0 = i ? BIT_L | 1 : 1;
		f.mo = 90 * (uint32_t)i;
		f.length = 180;
		gram_build(&g, &f);
		expect_gram(&b, i, &g, sent_msn(&b, 0));
	}
	wr.flags |= DIW_SEND_IMM;
	post(&b, &wr, data, 200);
	ck_assert_int_eq(b.nsent, 2 + 4);
	for (int i = 2; i < 6; i++)
		ck_assert_uint_eq(b.sent[i].len, b.sent[2].len);
	bench_close(&b);
}
END_TEST

START_TEST(send_uc_write)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .stag = 0xa1b2c37e, .to = TO };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct bench b;

	attr.type = DIW_QP_UC;
	bench_open(&b, &attr);
	post(&b, &wr, "\xff\xfe\xfd\xfc", 4);
	expect_sent(&b, 0, V9_UC_WRITE, sent_msn(&b, 0));
	bench_close(&b);
}
END_TEST

/* A request is answered by V14b, with the capacity of the socket. The stack sends a request when half of its first
 * window has left. */
START_TEST(send_flow)
{
	static const uint8_t data[512];
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .stag = 0xa1b2c37e, .to = TO };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct bench b;
	struct gram g;
	int i;

	attr.type = DIW_QP_UC;
	attr.max_inline = sizeof data;
	attr.dgram.rcvbuf = 4 * 0x200000;
	bench_open(&b, &attr);
	gram_hex(&g, V14_QUESTION);
	bench_inject(&b, &g);
	expect_sent(&b, 0, V14_ANSWER, sent_msn(&b, 0));
	ck_assert_str_eq(bench_drops(&b), "");
	bench_look(&b);
	for (i = 0; b.nsent == i; i++)
		post(&b, &wr, data, sizeof data);
	ck_assert_int_eq(i, (65536 + 32 + 512 + 768 - 1) / (32 + 512 + 768));
	gram_hex(&g, V14_QUESTION);
	gram_put32(&g, 28, gram_get32(&b.sent[i], 28));
	expect_gram(&b, i, &g, sent_msn(&b, i));
	bench_close(&b);
}
END_TEST

/* The requester's side of V7 and V8. The stack chooses the sink, so V8 gets it from the request. */
START_TEST(send_read)
{
	static const uint8_t twos[8] = { [0 ... 7] = 0x22 };
	struct diw_send_wr wr = { .opcode = DIW_WR_READ, .wr_id = 77, .stag = 0xa1b2c37e, .to = TO + 8, .qkey = QKEY,
		.num_sge = 1, .flags = DIW_SEND_SIGNALED };
	struct diw_sge sge;
	struct diw_wc wc;
	struct bench b;
	struct gram g;

	bench_open(&b, NULL);
	sge = (struct diw_sge){ b.recv[7], 8, b.recv_mr->stag };
	wr.sge = &sge;
	wr.dst.addr = b.peer;
	ck_assert_int_eq(diw_post_send(b.qp, &wr, NULL), 0);
	net_settle(b.net);
	ck_assert_int_eq(b.nsent, 1);
	gram_hex(&g, V7_READ_REQUEST);
	memcpy(g.b + 28, b.sent[0].b + 28, 12);
	expect_gram(&b, 0, &g, sent_msn(&b, 0));
	bench_no_wc(&b);
	gram_hex(&g, V8_READ_RESPONSE);
	memcpy(g.b + 2, b.sent[0].b + 28, 12);
	gram_put32(&g, 20, sent_msn(&b, 0));
	gram_seal(&g);
	bench_inject(&b, &g);
	image_recv(&b, 7, 0, twos, 8);
	wc = bench_wc(&b, b.scq);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, DIW_WC_READ);
	ck_assert_uint_eq(wc.wr_id, 77);
	ck_assert_uint_eq(wc.byte_len, 8);
	ck_assert_str_eq(bench_drops(&b), "");
	/* Once more: the Read has ended, so nothing authorises the response. */
	bench_refused(&b, &g, "read_unmatched");
	bench_close(&b);
}
END_TEST

Suite *suite_vectors(void)
{
	Suite *s = suite_create("vectors");
	TCase *tc = tcase_create("codec");

	tcase_add_loop_test(tc, codec, 0, (int)NVECTORS);
	suite_add_tcase(s, tc);
	tc = tcase_create("receive");
	tcase_add_test(tc, receive_sends);
	tcase_add_test(tc, receive_records);
	tcase_add_test(tc, answer_read);
	tcase_add_test(tc, send_error_stag);
	tcase_add_test(tc, send_error_read);
	tcase_add_test(tc, receive_uc_write);
	suite_add_tcase(s, tc);
	tc = tcase_create("send");
	tcase_add_test(tc, send_vectors);
	tcase_add_test(tc, send_segments);
	tcase_add_test(tc, send_uc_write);
	tcase_add_test(tc, send_flow);
	tcase_add_test(tc, send_read);
	suite_add_tcase(s, tc);
	return s;
}
