/* SPDX-License-Identifier: BSD-2-Clause */
/* The effects of a proof of an address (docs/ud-profile.md section 5.1): for which epoch, for which messages, for how
 * long. */
#include <string.h>

#include "tests/wire/wire.h"

static struct bench b;

static void inject(const struct diw_addr *from, const struct fields *f)
{
	bench_inject_fields(&b, from, f);
}

/* Segments of a restarted peer are placed at once. Its proof ends the old epoch, whose record closes, and whose late
 * segments are refused. No other peer's proof does that. */
START_TEST(proved_epoch)
{
	struct fields old, new, f;
	uint8_t body[16];
	struct diw_wc wc;

	bench_open(&b, NULL);
	old = record_fields(b.mr->stag, 5, TO, "01234567", 8);
	old.length = 16;
	old.c0 &= (uint8_t)~BIT_L;
	inject(&b.peer, &old);
	ck_assert_int_eq(b.nsent, 0);                    /* the first epoch of an address needs no proof */
	new = record_fields(b.mr->stag, 5, TO + 64, "restart", 7);
	new.epoch = 0x4242;
	inject(&b.peer, &new);
	ck_assert(bench_completes(&b));
	bench_challenge(&b, body);
	ck_assert_uint_eq(body[1], 0x8c);
	ck_assert_uint_eq(body[2] << 8 | body[3], 0x4242);
	ck_assert_int_eq(memcmp(body + 4, "\0\0\0\5", 4), 0);
	/* A wrong token, another epoch, another address, another kind of segment. */
	body[0] = 2;
	f = validation_fields(body, 0x4242);
	body[15] ^= 1;
	inject(&b.peer, &f);
	body[15] ^= 1;
	f = validation_fields(body, EPOCH);
	inject(&b.peer, &f);
	f = validation_fields(body, 0x4242);
	inject(&(struct diw_addr){ 0 }, &f);
	body[1] = OP_READ_REQ;
	inject(&b.peer, &f);
	ck_assert_uint_eq(bench_count(&b, "proof_ignored"), 4);
	ck_assert_uint_eq(bench_count(&b, "proof_rx"), 0);
	ck_assert(!bench_completes(&b));
	body[1] = 0x8c;
	inject(&b.peer, &f);
	ck_assert_uint_eq(bench_count(&b, "proof_rx"), 1);
	wc = bench_wc(&b, b.rcq);
	ck_assert_int_eq(wc.close, DIW_RECORD_EPOCH);
	ck_assert_uint_eq(wc.byte_len, 8);
	diw_wc_release(&wc);
	inject(&b.peer, &old);
	ck_assert_uint_eq(bench_count(&b, "source_epoch_old"), 1);
	/* A token expires. */
	net_run(b.net, 2 * DIW_S);
	inject(&b.peer, &f);
	ck_assert_uint_eq(bench_count(&b, "proof_ignored"), 5);
	memcpy(b.image + GUARD + 64, "restart", 7);
	bench_region_is(&b, "01234567", 8);
	bench_close(&b);
}
END_TEST

/* An epoch that ended and comes again makes two epochs: it is challenged. */
START_TEST(ended_epoch_again)
{
	struct fields f;
	struct fields proof;
	uint8_t body[16];

	bench_open(&b, NULL);
	for (uint16_t i = 0; i < 2; i++) {
		f = record_fields(b.mr->stag, 1, TO, "01234567", 8);
		f.epoch = (uint16_t)(EPOCH + i);
		inject(&b.peer, &f);
	}
	bench_challenge(&b, body);
	body[0] = 2;
	proof = validation_fields(body, EPOCH + 1);
	f.msn = 2;
	f.epoch = EPOCH;
	bench_look(&b);
	inject(&b.peer, &f);
	bench_prove(&b, &b.peer, EPOCH);
	ck_assert_uint_eq(bench_count(&b, "proof_rx"), 1);
	bench_look(&b);
	inject(&b.peer, &proof);                         /* in time for its token, too late for its epoch */
	ck_assert_str_eq(bench_drops(&b), "proof_ignored");
	f.epoch = EPOCH + 1;
	bench_look(&b);
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "source_epoch_old");
	net_run(b.net, 2 * DIW_S + DIW_MS);
	bench_look(&b);
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "");
	bench_challenge(&b, body);
	for (int i = 0; i < 4; i++)
		ck_assert(bench_completes(&b));
	bench_region_is(&b, "01234567", 8);
	bench_close(&b);
}
END_TEST

/* With its proof the same request is answered, and those behind it at once; a request in another epoch is not. */
START_TEST(proved_reader)
{
	struct fields f;

	bench_open(&b, NULL);
	f = read_fields(9, 1, 0, REGION, b.mr->stag, TO);
	inject(&b.peer, &f);
	bench_prove(&b, &b.peer, EPOCH);
	for (uint32_t i = 0; i < 3; i++) {
		f.msn = 9 + i;
		bench_look(&b);
		inject(&b.peer, &f);
		ck_assert_str_eq(bench_drops(&b), "");
		ck_assert_uint_eq(bench_count(&b, "read_answered"), 1);
		ck_assert_uint_ge(bench_count(&b, "tx_bytes"), REGION);
		net_run(b.net, 9 * DIW_S);
	}
	f.epoch++;
	bench_look(&b);
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "read_unproved");
	bench_close(&b);
}
END_TEST

/* A proof for a record does not allow Reads. A proof for a Read does, and later records do not change that. */
START_TEST(read_proof)
{
	struct fields rec, read, proof;
	uint8_t body[16];

	bench_open(&b, NULL);
	for (uint16_t i = 0; i < 2; i++) {
		rec = record_fields(b.mr->stag, 1, TO, "01234567", 8);
		rec.epoch = (uint16_t)(EPOCH + i);
		inject(&b.peer, &rec);
		ck_assert(bench_completes(&b));
	}
	bench_challenge(&b, body);
	body[0] = 2;
	proof = validation_fields(body, EPOCH + 1);
	inject(&b.peer, &proof);
	ck_assert_uint_eq(bench_count(&b, "proof_rx"), 1);
	read = read_fields(9, 1, 0, REGION, b.mr->stag, TO);
	read.epoch = EPOCH + 1;
	bench_look(&b);
	inject(&b.peer, &read);
	ck_assert_str_eq(bench_drops(&b), "read_unproved");
	ck_assert_uint_eq(bench_count(&b, "read_answered"), 0);
	bench_prove(&b, &b.peer, EPOCH + 1);
	for (int i = 0; i < 2; i++) {
		read.msn++;
		bench_look(&b);
		inject(&b.peer, &read);
		ck_assert_str_eq(bench_drops(&b), "");
		ck_assert_uint_eq(bench_count(&b, "read_answered"), 1);
		inject(&b.peer, &proof);                 /* a duplicate made by the network */
	}
	bench_region_is(&b, "01234567", 8);
	bench_close(&b);
}
END_TEST

Suite *suite_proved(void)
{
	Suite *s = suite_create("proved");
	TCase *tc = tcase_create("proved");

	tcase_add_test(tc, proved_epoch);
	tcase_add_test(tc, ended_epoch_again);
	tcase_add_test(tc, proved_reader);
	tcase_add_test(tc, read_proof);
	suite_add_tcase(s, tc);
	return s;
}
