/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and address validation (docs/ud-profile.md sections 5.1 and 8): answers without a proof, the proofs of a
 * requester, and whose Reads are answered if places are short. */
#include <stdio.h>
#include <string.h>

#include "tests/wire/wire.h"

static struct bench b;

/* An unproved address gets at most three times the octets that came from it. */
START_TEST(amplification)
{
	bench_open(&b, NULL);
	for (uint32_t size = 0; size <= REGION; size = size < 160 ? size + 1 : 2 * size) {
		struct fields f = read_fields(size, 1, 0, size, b.mr->stag, TO);
		uint64_t out;

		net_run(b.net, DIW_S);
		bench_look(&b);
		bench_inject_fields(&b, &b.peer, &f);
		out = bench_count(&b, "tx_bytes");
		ck_assert_uint_gt(out, 0);
		ck_assert_uint_le(out, 3 * 60);
		ck_assert_uint_eq(bench_count(&b, "read_answered"), size <= 144);
		ck_assert_uint_eq(bench_count(&b, "read_unproved"), size > 144);
		f.stag = 0;                              /* and an error message is no larger than its cause */
		f = read_fields(size, 1, 0, size, b.mr->stag ^ 1, TO);
		bench_look(&b);
		bench_inject_fields(&b, &b.peer, &f);
		ck_assert_uint_le(bench_count(&b, "tx_bytes"), 60);
	}
	bench_close(&b);
}
END_TEST

/* The requester proves only its own requests, a few times, and sends them again. */
START_TEST(requester)
{
	struct diw_addr stranger = net_addr4(0x0a000064, PEER_PORT);
	struct diw_sge sge;
	struct diw_send_wr wr = { .opcode = DIW_WR_READ, .sge = &sge, .num_sge = 1, .stag = 1, .to = 2, .qkey = 5,
				  .timeout_ns = (int64_t)DIW_S };
	uint8_t body[16] = { 1, OP_READ_REQ };
	struct gram request;
	struct fields f;

	bench_open(&b, NULL);
	sge = (struct diw_sge){ b.recv[7], 200, b.recv_mr->stag };
	wr.dst.addr = b.peer;
	ck_assert_int_eq(diw_post_send(b.qp, &wr, NULL), 0);
	request = b.sent[0];
	memcpy(body + 2, request.b + 22, 2);
	memcpy(body + 4, request.b + 10, 4);
	memcpy(body + 8, "a token.", 8);
	f = validation_fields(body, 0x33c4);
	bench_look(&b);
	bench_inject_fields(&b, &stranger, &f);
	body[7] ^= 1;
	bench_inject_fields(&b, &b.peer, &f);
	body[7] ^= 1;
	body[3] ^= 1;
	bench_inject_fields(&b, &b.peer, &f);
	body[3] ^= 1;
	ck_assert_uint_eq(bench_count(&b, "challenge_ignored"), 3);
	bench_silent(&b);
	for (int i = 0; i < 4; i++) {
		bench_look(&b);
		bench_inject_fields(&b, &b.peer, &f);
		ck_assert_int_eq(b.nsent, 2);
		ck_assert_uint_eq(b.sent[0].len, 48);
		ck_assert_uint_eq(b.sent[0].b[28], 2);
		ck_assert_mem_eq(b.sent[0].b + 29, body + 1, 15);
		ck_assert_mem_eq(b.sent[0].b + 22, request.b + 22, 2);
		ck_assert_uint_eq(b.sent[1].len, request.len);
		ck_assert_mem_eq(b.sent[1].b, request.b, request.len);
	}
	bench_look(&b);
	bench_inject_fields(&b, &b.peer, &f);
	bench_silent(&b);
	bench_close(&b);
}
END_TEST

static struct diw_addr reader(uint32_t i)
{
	return net_addr4(0x0a000200 + i, 7000);
}

static void ask(const struct diw_addr *from, uint32_t msn, uint32_t size)
{
	struct fields f = read_fields(msn, 1, 0, size, b.mr->stag, TO);

	bench_inject_fields(&b, from, &f);
}

/* The rate limit delays 128 Reads, of forged addresses (_i 0), or of 8 or 128 real peers: a correct peer is answered
 * within seconds. */
START_TEST(held_back)
{
	uint32_t peers = _i == 1 ? 8 : 128, honest = 1000;
	struct diw_addr me = reader(honest);
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	uint64_t begun;

	attr.rate_limit = 20000;
	attr.rate_burst = 1500;
	bench_open(&b, &attr);
	ask(&me, 1, REGION);
	bench_prove(&b, &me, EPOCH);
	for (uint32_t i = 0; i < 128; i++) {
		struct diw_addr from = reader(i % peers);

		if (_i && i < peers) {
			bench_look(&b);
			ask(&from, i, REGION);
			bench_prove(&b, &from, EPOCH);
		}
		ask(&from, 1000 + i, REGION);
	}
	net_run(b.net, _i == 2 ? DIW_S : DIW_MS);
	bench_look(&b);
	begun = b.net->now;
	ask(&me, 2, 500);
	ck_assert_uint_eq(bench_count(&b, "read_limit"), 0);
	for (;;) {
		bool mine = false;

		net_run(b.net, 10 * DIW_MS);
		for (int i = 0; i < b.nsent && i < 64; i++)
			mine |= (b.sent[i].b[1] & 15) == OP_READ_RESP && gram_get32(&b.sent[i], 20) == 2;
		if (mine)
			break;
		b.nsent = 0;
		ck_assert_uint_lt(b.net->now, begun + 15 * DIW_S);
	}
	printf("held back, case %d: answered after %.3f s\n", _i, (double)(b.net->now - begun) / 1e9);
	ck_assert_uint_lt(b.net->now - begun, _i == 2 ? 12 * DIW_S : DIW_S);
	net_run(b.net, 60 * DIW_S);
	bench_close(&b);
}
END_TEST

Suite *suite_proof_reads(void)
{
	Suite *s = suite_create("proof_reads");
	TCase *tc = tcase_create("proof_reads");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, amplification);
	tcase_add_test(tc, requester);
	tcase_add_loop_test(tc, held_back, 0, 3);
	suite_add_tcase(s, tc);
	return s;
}
