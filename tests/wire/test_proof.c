/* SPDX-License-Identifier: BSD-2-Clause */
/* Address validation (docs/ud-profile.md section 5.1): the effects of forged addresses and epochs on the peers that own
 * them, and the answers they cause. */
#include <string.h>

#include "tests/wire/wire.h"

static struct bench b;

static struct diw_addr forged(uint32_t i)
{
	return net_addr4(0x0b000000u + i / 60000, (uint16_t)(1024 + i % 60000));
}

static void inject(const struct diw_addr *from, const struct fields *f)
{
	bench_inject_fields(&b, from, f);
}

/* The first 20 octets of a Send of 40. */
static struct fields part_of_send(uint32_t msn)
{
	struct fields f = send_fields(msn, "twenty octets of one", 20);

	f.c0 = 1;
	f.length = 40;
	return f;
}

static void image_of_parts(void)
{
	for (int i = 0; i < NRECV; i++)
		memcpy(b.image + (b.recv[i] - b.arena), b.recv[i], 40);
}

/* 4,000 datagrams a second of 52 octets, with only the Q_Key, from as many addresses: all places are taken, and every
 * new peer still gets one at once. */
START_TEST(full_table)
{
	struct fields part = part_of_send(0), rec;
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	int done = 0;

	attr.rq_depth = 4096;
	bench_open(&b, &attr);
	for (int i = 0; i < 2000; i++)                   /* half of them may be held */
		bench_post(&b, i % NRECV);
	for (uint32_t i = 0; i < 24000; i++) {
		struct diw_addr from = forged(i), peer = net_addr4(0x0a000100 + i / 100, 7000);

		inject(&from, &part);
		if (i >= 20000 && i % 100 == 0) {        /* 40 new peers, with a record of 2 segments each */
			rec = record_fields(b.mr->stag, i, TO, "01234567", 8);
			rec.length = 16;
			rec.c0 &= (uint8_t)~BIT_L;
			inject(&peer, &rec);
			rec = record_fields(b.mr->stag, i, TO + 8, "89abcdef", 8);
			rec.mo = 8;
			rec.length = 16;
			inject(&peer, &rec);
			done += bench_completes(&b);
		}
		net_run(b.net, 250 * DIW_US);
	}
	image_of_parts();
	bench_region_is(&b, "0123456789abcdef", 16);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.sources, 16384);
	ck_assert_int_eq(done, 40);
	ck_assert_uint_eq(bench_count(&b, "source_full"), 0);
	ck_assert_uint_gt(bench_count(&b, "source_evicted"), 7000);
	net_run(b.net, 11 * DIW_S + 200 * DIW_MS);       /* with the quiet time: none is left */
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.memory, 0);
	bench_close(&b);
}
END_TEST

/* The same, but a peer proved its address before: it keeps its place, and its Read is answered. */
START_TEST(proved_stays)
{
	struct fields part = part_of_send(0), f;
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;

	attr.rq_depth = 4096;
	bench_open(&b, &attr);
	for (int i = 0; i < 2000; i++)
		bench_post(&b, i % NRECV);
	f = read_fields(9, 1, 0, REGION, b.mr->stag, TO);
	inject(&b.peer, &f);
	bench_prove(&b, &b.peer, EPOCH);
	for (uint32_t i = 0; i < 20000; i++) {
		struct diw_addr from = forged(i);

		inject(&from, &part);
		net_run(b.net, 250 * DIW_US);
	}
	ck_assert_uint_gt(bench_count(&b, "source_evicted"), 3000);
	f.msn++;
	bench_look(&b);
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "");
	ck_assert_uint_eq(bench_count(&b, "read_answered"), 1);
	image_of_parts();
	bench_close(&b);
}
END_TEST

/* An empty source expires after the source timeout. A refused segment makes none. */
START_TEST(expiry_and_refusal)
{
	struct fields f = part_of_send(1);

	bench_open(&b, NULL);
	inject(&b.peer, &f);
	net_run(b.net, 10 * DIW_S + 50 * DIW_MS);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.sources, 1);            /* its partial Send ended after 100 ms */
	net_run(b.net, 100 * DIW_MS);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.sources, 0);
	f.length = RECV + 1;                             /* too long */
	inject(&b.peer, &f);
	f = part_of_send(2);
	for (uint32_t i = 0; i < 4; i++) {               /* two of these hold half of the receives */
		struct diw_addr from = forged(i);

		inject(&from, &f);
	}
	ck_assert_uint_eq(bench_count(&b, "reasm_limit"), 2);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.sources, 2);
	image_of_parts();
	bench_close(&b);
}
END_TEST

/* Every 2 s a segment of 33 octets comes with another epoch and a correct peer's address: the peer's messages all
 * arrive, each once. */
START_TEST(forged_epochs)
{
	struct fields rec, evil;
	int done = 0;

	bench_open(&b, NULL);
	rec = record_fields(b.mr->stag, 0, TO, "eight oc", 8);
	for (uint32_t i = 0; i < 1000; i++) {
		if (i % 100 == 0) {
			evil = part_of_send(i);
			evil.n = 1;
			evil.epoch = (uint16_t)(EPOCH + 1 + i);
			inject(&b.peer, &evil);
		}
		rec.msn = i;
		inject(&b.peer, &rec);
		done += bench_completes(&b);
		inject(&b.peer, &rec);                   /* a duplicate made by the network */
		ck_assert(!bench_completes(&b));
		net_run(b.net, 20 * DIW_MS);
	}
	ck_assert_int_eq(done, 1000);
	ck_assert_uint_eq(bench_count(&b, "record_late"), 1000);
	ck_assert_uint_eq(bench_count(&b, "source_epoch_old"), 0);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_le(b.info.sources, 4);
	image_of_parts();
	bench_region_is(&b, "eight oc", 8);
	bench_close(&b);
}
END_TEST

/* Four forged epochs have all places of an address; the real one gets a place by its proof. */
START_TEST(crowded_address)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct fields f;

	attr.dgram.record_timeout_ns = attr.dgram.reorder_window_ns = 100 * (int64_t)DIW_S;
	bench_open(&b, &attr);
	for (uint16_t i = 1; i <= 4; i++) {
		f = record_fields(b.mr->stag, i, TO, "01234567", 8);
		f.length = 16;
		f.c0 &= (uint8_t)~BIT_L;
		f.epoch = (uint16_t)(EPOCH + i);
		inject(&b.peer, &f);
	}
	f = record_fields(b.mr->stag, 9, TO, "01234567", 8);
	inject(&b.peer, &f);
	ck_assert_uint_eq(bench_count(&b, "source_full"), 1);
	bench_prove(&b, &b.peer, EPOCH);
	ck_assert_uint_eq(bench_count(&b, "record_closed_epoch"), 4);
	bench_look(&b);
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "");
	for (int i = 0; i < 5; i++)
		ck_assert(bench_completes(&b));
	bench_region_is(&b, "01234567", 8);
	bench_close(&b);
}
END_TEST

/* A peer with Reads is restarted while three forged epochs have the other places of its address. Its proof ends the
 * answers to its old epoch, whose late segments are refused. */
START_TEST(restarted_reader)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct fields f;

	attr.rate_limit = 20000;
	attr.rate_burst = 1500;
	attr.dgram.record_timeout_ns = attr.dgram.reorder_window_ns = 100 * (int64_t)DIW_S;
	bench_open(&b, &attr);
	f = read_fields(1, 1, 0, REGION, b.mr->stag, TO);
	inject(&b.peer, &f);
	bench_prove(&b, &b.peer, EPOCH);
	for (f.msn = 2; f.msn < 6; f.msn++)
		inject(&b.peer, &f);                     /* it is answered for a second */
	for (uint16_t i = 1; i <= 3; i++) {
		f = record_fields(b.mr->stag, i, TO, "01234567", 8);
		f.length = 16;
		f.c0 &= (uint8_t)~BIT_L;
		f.epoch = (uint16_t)(EPOCH + i);
		inject(&b.peer, &f);
	}
	bench_look(&b);
	f = record_fields(b.mr->stag, 1, TO, "01234567", 8);
	f.epoch = 0x4242;
	inject(&b.peer, &f);
	ck_assert_uint_eq(bench_count(&b, "source_full"), 1);
	bench_prove(&b, &b.peer, 0x4242);
	ck_assert_uint_eq(bench_count(&b, "proof_rx"), 1);
	ck_assert_uint_eq(bench_count(&b, "record_closed_epoch"), 3);
	bench_look(&b);
	net_run(b.net, DIW_S);
	bench_silent(&b);
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "");
	f.epoch = EPOCH;
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "source_epoch_old");
	bench_region_is(&b, "01234567", 8);
	for (int i = 0; i < 4; i++)
		ck_assert(bench_completes(&b));
	bench_close(&b);
}
END_TEST

/* Each of two epochs is challenged once in 100 ms. */
START_TEST(challenge_rate)
{
	struct fields f;

	bench_open(&b, NULL);
	f = record_fields(b.mr->stag, 1, TO, "01234567", 8);
	inject(&b.peer, &f);
	for (f.msn = 2; f.msn < 20; f.msn++) {
		f.epoch = (uint16_t)(EPOCH + f.msn % 2);
		inject(&b.peer, &f);
		net_run(b.net, DIW_MS);
	}
	ck_assert_uint_eq(bench_count(&b, "challenge_tx"), 2);
	while (bench_completes(&b))
		;
	bench_region_is(&b, "01234567", 8);
	bench_close(&b);
}
END_TEST

static void open_uc(void)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;

	attr.type = DIW_QP_UC;
	bench_open(&b, &attr);
}

static struct fields write_fields(uint16_t epoch, uint32_t msn)
{
	struct fields f = record_fields(b.mr->stag, msn, TO, "01234567", 8);

	f.c1 = 0x40 | OP_WRITE;
	f.epoch = epoch;
	return f;
}

/* UC: segments of a Write of a new epoch, before and after the time when it replaces the old epoch, make one Write. A
 * duplicate of a Write that ended before is late. */
START_TEST(uc_gives_way)
{
	struct fields f, done, half;

	open_uc();
	f = write_fields(EPOCH, 1);
	inject(&b.peer, &f);
	net_run(b.net, 10 * DIW_S - 20 * DIW_MS);
	done = write_fields(EPOCH + 1, 1);
	done.c1 |= BIT_I;
	inject(&b.peer, &done);
	ck_assert(bench_completes(&b));
	half = write_fields(EPOCH + 1, 2);
	half.c1 |= BIT_I;
	half.length = 16;
	half.c0 &= (uint8_t)~BIT_L;
	inject(&b.peer, &half);
	net_run(b.net, 40 * DIW_MS);
	bench_look(&b);
	inject(&b.peer, &done);
	ck_assert_str_eq(bench_drops(&b), "record_late");
	half.mo = 8;
	half.to += 8;
	half.c0 |= BIT_L;
	inject(&b.peer, &half);
	ck_assert(bench_completes(&b));
	bench_region_is(&b, "0123456701234567", 16);
	f.epoch = EPOCH + 2;                     /* the old epoch is quiet: no challenge */
	bench_look(&b);
	inject(&b.peer, &f);
	bench_silent(&b);
	bench_close(&b);
}
END_TEST

/* UC: Writes of a forged epoch, one a millisecond, do not prevent a challenge of the peer's new epoch. */
START_TEST(uc_forged_epochs)
{
	struct fields evil, f;

	open_uc();
	f = write_fields(EPOCH, 1);
	inject(&b.peer, &f);
	evil = write_fields(EPOCH + 9, 1);
	inject(&b.peer, &evil);
	net_run(b.net, DIW_MS);
	f = write_fields(EPOCH + 1, 1);
	bench_look(&b);
	inject(&b.peer, &f);
	bench_prove(&b, &b.peer, EPOCH + 1);
	ck_assert_uint_eq(bench_count(&b, "proof_rx"), 1);
	f = write_fields(EPOCH, 2);
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "source_epoch_old");
	bench_look(&b);
	for (evil.msn = 2; evil.msn < 52; evil.msn++) {  /* one unproved epoch: at most one challenge in 100 ms */
		inject(&b.peer, &evil);
		net_run(b.net, DIW_MS);
	}
	ck_assert_uint_eq(bench_count(&b, "challenge_tx"), 1);
	bench_region_is(&b, "01234567", 8);
	bench_close(&b);
}
END_TEST

/* UC: the peer proves the epoch that is in force, so the other one ends. */
START_TEST(uc_doubt_ends)
{
	struct fields f, half, part = part_of_send(1);

	open_uc();
	f = write_fields(EPOCH, 1);
	inject(&b.peer, &f);
	half = write_fields(EPOCH + 1, 1);
	half.length = 16;
	half.c0 &= (uint8_t)~BIT_L;
	inject(&b.peer, &half);
	part.epoch = EPOCH + 1;
	inject(&b.peer, &part);
	part.epoch = EPOCH;
	bench_look(&b);
	inject(&b.peer, &part);
	bench_prove(&b, &b.peer, EPOCH);
	ck_assert_uint_eq(bench_count(&b, "proof_rx"), 1);
	bench_look(&b);
	half.mo = 8;
	half.to += 8;
	half.c0 |= BIT_L;
	inject(&b.peer, &half);
	ck_assert_str_eq(bench_drops(&b), "source_epoch_old");
	f.msn = 2;
	bench_look(&b);
	inject(&b.peer, &f);
	ck_assert_str_eq(bench_drops(&b), "");
	image_of_parts();
	bench_region_is(&b, "0123456701234567", 8);
	bench_close(&b);
}
END_TEST

/* UC: a challenge of a Read, which this end cannot have sent, in the epoch of its Send. */
START_TEST(uc_asks_for_no_reads)
{
	struct diw_sge sge;
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .sge = &sge, .num_sge = 1 };
	uint8_t body[16] = { 1, OP_READ_REQ };
	struct fields f;

	open_uc();
	sge = (struct diw_sge){ b.recv[7], 8, b.recv_mr->stag };
	ck_assert_int_eq(diw_post_send(b.qp, &wr, NULL), 0);
	ck_assert_int_eq(b.nsent, 1);
	memcpy(body + 2, b.sent[0].b + 22, 2);
	f = validation_fields(body, EPOCH);
	bench_look(&b);
	inject(&b.peer, &f);
	ck_assert_uint_eq(bench_count(&b, "challenge_ignored"), 1);
	bench_silent(&b);
	bench_close(&b);
}
END_TEST

/* Error messages: forged addresses, however many, do not use up the share of a proved one. */
START_TEST(error_share)
{
	static const uint8_t octets[64];        /* an error message is no larger than its cause */
	struct fields f;

	bench_open(&b, NULL);
	f = read_fields(9, 1, 0, REGION, b.mr->stag, TO);
	inject(&b.peer, &f);
	bench_prove(&b, &b.peer, EPOCH);
	f = record_fields(b.mr->stag ^ 1, 1, TO, octets, sizeof octets);
	for (uint32_t i = 0; i < 12800; i++) {
		struct diw_addr from = forged(i);

		inject(&from, &f);
	}
	for (uint32_t i = 0; i < 20; i++) {
		struct diw_addr from = forged(20000 + i);

		bench_look(&b);
		inject(&from, &f);
		ck_assert_uint_eq(bench_count(&b, "error_suppressed"), 1);
	}
	for (f.msn = 1; f.msn < 50; f.msn++) {
		bench_look(&b);
		inject(&b.peer, &f);
		ck_assert_uint_eq(bench_count(&b, "error_tx"), 1);
	}
	bench_check_memory(&b);
	bench_close(&b);
}
END_TEST

Suite *suite_proof(void)
{
	Suite *s = suite_create("proof");
	TCase *tc = tcase_create("proof");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, full_table);
	tcase_add_test(tc, proved_stays);
	tcase_add_test(tc, expiry_and_refusal);
	tcase_add_test(tc, forged_epochs);
	tcase_add_test(tc, crowded_address);
	tcase_add_test(tc, restarted_reader);
	tcase_add_test(tc, challenge_rate);
	tcase_add_test(tc, uc_gives_way);
	tcase_add_test(tc, uc_forged_epochs);
	tcase_add_test(tc, uc_doubt_ends);
	tcase_add_test(tc, uc_asks_for_no_reads);
	tcase_add_test(tc, error_share);
	suite_add_tcase(s, tc);
	return s;
}
