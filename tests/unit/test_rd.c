/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of reliable datagrams: the messages that arrive, their order, and when requests complete. */
#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define IN (KIT_SIZE / 2)             /* messages are placed there; the memory for peers begins there */
#define BIG (300u << 10)
#define OUTSTANDING 16u              /* Reads to one peer (RD_ASKED) */
#define MANY 200u
#define SENDS_BEHIND 3u

static struct kit k;
static struct end a, b, c;

static void end_open_rd(struct end *e, const char *impair, const struct diw_addr *local)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.type = DIW_QP_RD;
	attr.impair = impair;
	attr.sq_depth = attr.rq_depth = 2 * MANY;
	if (local)
		attr.dgram.local = *local;
	end_open(e, &k, &attr, 2 * MANY);
}

static void open_ends(const char *impair)
{
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open_rd(&a, impair, NULL);
	end_open_rd(&b, impair, NULL);
	end_open_rd(&c, impair, NULL);
	for (uint32_t i = 0; i < IN; i++)
		k.mem[i] = (uint8_t)(i * 7 + i / 251);
}

static void close_ends(void)
{
	end_close(&a);
	end_close(&b);
	end_close(&c);
	kit_close(&k);
}

static struct diw_wc next_of(struct diw_cq *cq)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(cq, &wc, 1, KIT_LIMIT), 1);
	return wc;
}

static void is_sent(struct end *e, uint64_t wr_id)
{
	struct diw_wc wc = next_of(e->scq);

	ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str(DIW_WC_SUCCESS));
	ck_assert_uint_eq(wc.wr_id, wr_id);
}

static void nothing_for(struct diw_cq *cq, int ms)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(cq, &wc, 1, ms * (int64_t)DIW_MS), 0);
}

/* LEN bytes from OFF of the sender's half have arrived at OFF of the receiver's. */
static void has_come(uint32_t off, uint32_t len)
{
	ck_assert_int_eq(memcmp(k.mem + IN + off, k.mem + off, len), 0);
}

static void receives(struct end *e, uint32_t len, const struct end *from)
{
	struct diw_wc wc = next_of(e->rcq);

	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, DIW_WC_RECV);
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert(memcmp(&wc.src, &from->addr, sizeof wc.src) == 0);
}

/* ---- Sends ---- */

START_TEST(a_send_completes_when_it_was_taken)
{
	open_ends("");
	ck_assert_int_eq(end_send(&a, &b, 0, BIG, DIW_SEND_SIGNALED), 0);
	nothing_for(a.scq, 50);                 /* it finds no receive */
	ck_assert_int_eq(end_recv(&b, IN, BIG, 1), 0);
	receives(&b, BIG, &a);
	has_come(0, BIG);
	is_sent(&a, 0);
	close_ends();
}
END_TEST

/* A message that waits for a receive of its peer delays no other peer, even with more than a queue's depth behind
 * it. */
START_TEST(a_peer_without_receives_holds_up_itself)
{
	open_ends("");
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(end_send(&a, &b, i, 4, DIW_SEND_SIGNALED), 0);
	for (uint32_t i = 0; i < 10 * MANY; i++) {
		ck_assert_int_eq(end_recv(&c, IN, BIG, 1), 0);
		ck_assert_int_eq(end_send(&a, &c, BIG + i, 64, DIW_SEND_SIGNALED), 0);
		receives(&c, 64, &a);
		is_sent(&a, BIG + i);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_int_eq(end_recv(&b, IN + i, 4, i), 0);
		receives(&b, 4, &a);
		is_sent(&a, i);
	}
	has_come(0, MANY + 3);
	close_ends();
}
END_TEST

/* With loss, repetition and reordering: every message arrives once, in the order of the posts. */
START_TEST(a_bad_network_changes_nothing)
{
	open_ends("loss=10%,dup=5%,reorder=10%");
	for (uint32_t i = 0; i < MANY; i++) {
		uint32_t len = 1 + i * 137 % 5000;

		ck_assert_int_eq(end_recv(&b, IN + i * 5000, 5000, i), 0);
		ck_assert_int_eq(end_send(&a, &b, i * 5000, len, DIW_SEND_SIGNALED), 0);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		struct diw_wc wc = next_of(b.rcq);

		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_uint_eq(wc.byte_len, 1 + i * 137 % 5000);
		has_come(i * 5000, wc.byte_len);
	}
	for (uint32_t i = 0; i < MANY; i++)
		is_sent(&a, i * 5000);
	nothing_for(b.rcq, 20);
	close_ends();
}
END_TEST

/* ---- Writes ---- */

static void write_to(struct end *to, uint32_t off, uint32_t len, enum diw_wr_opcode op, unsigned flags)
{
	struct diw_sge sge = { k.mem + off, len, k.mr->stag };
	struct diw_send_wr wr = { .wr_id = off, .sge = &sge, .num_sge = 1, .opcode = op, .flags = flags, .imm = 77,
				  .dst.addr = to->addr, .stag = k.mr->stag, .to = k.mr->to + IN + off };

	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
}

/* A Send behind a Write of the same peer proves that the Write was placed. */
START_TEST(writes_are_in_order_with_sends)
{
	open_ends("loss=5%,reorder=10%");
	for (uint32_t i = 0; i < 10; i++) {
		write_to(&b, 64 + i * BIG, BIG, DIW_WR_WRITE, 0);
		ck_assert_int_eq(end_recv(&b, IN, 64, i), 0);
		ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
		receives(&b, 64, &a);
		has_come(64 + i * BIG, BIG);
		is_sent(&a, 0);
	}
	close_ends();
}
END_TEST

START_TEST(writes_with_immediate_and_write_records)
{
	struct diw_wc wc;

	open_ends("");
	write_to(&b, 0, BIG, DIW_WR_WRITE, DIW_SEND_SIGNALED | DIW_SEND_IMM);
	nothing_for(a.scq, 20);
	ck_assert_int_eq(end_recv(&b, IN, 0, 5), 0);
	wc = next_of(b.rcq);
	ck_assert_int_eq(wc.opcode, DIW_WC_RECV_WRITE_IMM);
	ck_assert_uint_eq(wc.wr_id, 5);
	ck_assert_uint_eq(wc.imm, 77);
	ck_assert_uint_eq(wc.byte_len, BIG);
	ck_assert_uint_eq(wc.to, k.mr->to + IN);
	has_come(0, BIG);
	is_sent(&a, 0);

	write_to(&b, BIG, BIG, DIW_WR_WRITE_RECORD, DIW_SEND_SIGNALED | DIW_SEND_IMM);
	wc = next_of(b.rcq);
	ck_assert_int_eq(wc.opcode, DIW_WC_RECV_WRITE_RECORD);
	ck_assert_int_eq(wc.close, DIW_RECORD_COMPLETE);
	ck_assert_uint_eq(wc.byte_len, BIG);
	ck_assert_uint_eq(wc.nranges, 1);
	ck_assert_uint_eq(wc.imm, 77);
	ck_assert_uint_eq(wc.to, k.mr->to + IN + BIG);
	has_come(BIG, BIG);
	is_sent(&a, BIG);
	close_ends();
}
END_TEST

/* ---- Reads and atomics ---- */

static void read_ends(struct end *e, uint64_t wr_id, uint32_t len)
{
	struct diw_wc wc = next_of(e->scq);

	ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str(DIW_WC_SUCCESS));
	ck_assert_int_eq(wc.opcode, DIW_WC_READ);
	ck_assert_uint_eq(wc.wr_id, wr_id);
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert_int_eq(memcmp(k.mem + wr_id, k.mem + IN + wr_id, len), 0);
}

/* More Reads than may be outstanding, in both directions, each into memory of its own. */
static void reads_over(const char *impair)
{
	const uint32_t n = 50, size = 9001;

	open_ends(impair);
	for (uint32_t i = 0; i < 2 * n * size; i++)
		k.mem[IN + i] = (uint8_t)(i * 13 + i / 97);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_int_eq(end_read(&a, &b, i * size, size), 0);
		ck_assert_int_eq(end_read(&b, &a, (n + i) * size, i % 2 ? 0 : 3), 0);
	}
	for (uint32_t i = 0; i < n; i++)
		read_ends(&a, i * size, size);
	for (uint32_t i = 0; i < n; i++)
		read_ends(&b, (n + i) * size, i % 2 ? 0 : 3);
	close_ends();
}

START_TEST(reads_are_answered_in_order)
{
	reads_over("");
	reads_over("loss=10%,reorder=10%");
}
END_TEST

static void post_atomic(struct end *from, const struct end *to, enum diw_wr_opcode op, uint64_t compare_add,
			uint64_t swap, unsigned flags)
{
	struct diw_sge sge = { k.mem, 8, k.mr->stag };
	struct diw_send_wr wr = { .wr_id = 8, .sge = &sge, .num_sge = 1, .opcode = op, .compare_add = compare_add,
				  .flags = DIW_SEND_SIGNALED | flags, .swap = swap, .dst.addr = to->addr,
				  .stag = k.mr->stag, .to = k.mr->to + IN };

	ck_assert_int_eq(diw_post_send(from->qp, &wr, NULL), 0);
}

static uint64_t word_at(uint32_t off)
{
	uint64_t v;

	memcpy(&v, k.mem + off, sizeof v);
	return v;
}

/* Each atomic takes effect once, however often its segments are lost or repeated. */
START_TEST(atomics_take_effect_once)
{
	open_ends("loss=10%,dup=10%,reorder=10%");
	ck_assert_int_eq(diw_mr_dereg(k.mr), 0);
	ck_assert_int_eq(diw_mr_reg(k.pd, k.mem, KIT_SIZE, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_ATOMIC, &k.mr),
			 0);
	memset(k.mem + IN, 0, 8);
	for (uint32_t i = 0; i < MANY; i++) {
		post_atomic(&a, &c, DIW_WR_FETCH_ADD, 3, 0, 0);
		post_atomic(&b, &c, DIW_WR_FETCH_ADD, 5, 0, 0);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		is_sent(&a, 8);
		is_sent(&b, 8);
	}
	ck_assert_uint_eq(word_at(IN), 8 * MANY);
	post_atomic(&a, &c, DIW_WR_CMP_SWAP, 8 * MANY, 77, 0);
	is_sent(&a, 8);
	ck_assert_uint_eq(word_at(0), 8 * MANY);
	post_atomic(&a, &c, DIW_WR_CMP_SWAP, 8 * MANY, 78, 0);
	is_sent(&a, 8);
	ck_assert_uint_eq(word_at(0), 77);
	ck_assert_uint_eq(word_at(IN), 77);
	close_ends();
}
END_TEST

/* A fenced request sends the data that the Read before it has fetched. */
START_TEST(a_fence_waits_for_the_answer)
{
	open_ends("delay=5ms");
	memset(k.mem + IN, 0xab, 64);
	ck_assert_int_eq(end_recv(&b, IN + BIG, 64, 1), 0);
	ck_assert_int_eq(end_read(&a, &b, 0, 64), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED | DIW_SEND_FENCE), 0);
	receives(&b, 64, &a);
	for (uint32_t i = 0; i < 64; i++)
		ck_assert_uint_eq(k.mem[IN + BIG + i], 0xab);
	close_ends();
}
END_TEST

/* The link has no segment in flight to a peer that owes an answer. */
static void restart_as_it_answers(uint32_t reads)
{
	struct diw_qp_attr attr;
	struct diw_addr at;

	open_ends("");
	end_close(&b);
	end_attr(&attr);
	attr.type = DIW_QP_RD;
	attr.mulpdu = 1000;
	attr.rate_limit = 20000;
	attr.rate_burst = 2000;
	end_open(&b, &k, &attr, 64);
	at = b.addr;
	for (uint32_t i = 0; i < reads; i++)
		ck_assert_int_eq(end_read(&a, &b, 0, BIG), 0);
	KIT_UNTIL(end_counter(&a, "rx_segments") > 3);
	end_close(&b);
	end_open_rd(&b, "", &at);
}

/* A Read that had not begun may go to the peer's next process instead. */
static void reads_have_failed(uint32_t reads)
{
	for (uint32_t i = 0; i < reads; i++) {
		struct diw_wc wc = next_of(a.scq);

		if (wc.status == DIW_WC_SUCCESS && i >= OUTSTANDING)
			continue;
		ck_assert_int_eq(wc.status, DIW_WC_PEER_GONE);
		ck_assert_int_eq(wc.errnum, ECONNRESET);
	}
	nothing_for(a.scq, 20);
	ck_assert_int_eq(end_read(&a, &b, 0, 64), 0);
	read_ends(&a, 0, 64);
	close_ends();
}

START_TEST(a_peer_that_goes_while_it_owes_an_answer_is_noticed)
{
	restart_as_it_answers(1);
	reads_have_failed(1);
}
END_TEST

/* More requests than may be outstanding: the others wait for these. */
START_TEST(a_peer_that_goes_while_requests_wait_for_its_answers_is_noticed)
{
	restart_as_it_answers(20);
	reads_have_failed(20);
}
END_TEST

/* The peer's next process sends before the peer is probed. It takes the probe, too. */
START_TEST(a_peer_that_comes_back_while_it_owes_an_answer_is_noticed)
{
	restart_as_it_answers(1);
	ck_assert_int_eq(end_recv(&a, IN, 64, 1), 0);
	ck_assert_int_eq(end_send(&b, &a, 0, 64, 0), 0);
	receives(&a, 64, &b);
	reads_have_failed(1);
}
END_TEST

/* ---- Restarts and ends ---- */

/* Requests to a process that has ended fail, and no others. */
START_TEST(a_restarted_peer_fails_what_went_to_it)
{
	struct diw_addr at;
	struct diw_wc wc;

	open_ends("");
	ck_assert_int_eq(end_recv(&b, IN, 64, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	is_sent(&a, 0);
	ck_assert_int_eq(end_send(&a, &b, 1, 64, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(end_send(&a, &b, 2, 64, 0), 0);
	ck_assert_int_eq(end_send(&a, &c, 3, 64, DIW_SEND_SIGNALED), 0);
	at = b.addr;
	end_close(&b);
	end_open_rd(&b, "", &at);
	for (int i = 1; i < 3; i++) {           /* a failure is reported even for a request that is not signalled */
		wc = next_of(a.scq);
		ck_assert_int_eq(wc.status, DIW_WC_PEER_GONE);
		ck_assert_int_eq(wc.errnum, ECONNRESET);
		ck_assert_uint_eq(wc.wr_id, i);
	}
	ck_assert_int_eq(end_recv(&c, IN, 64, 1), 0);
	is_sent(&a, 3);
	ck_assert_int_eq(end_recv(&b, IN, 64, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 4, 64, DIW_SEND_SIGNALED), 0);
	is_sent(&a, 4);
	close_ends();
}
END_TEST

START_TEST(an_abort_flushes_in_order_and_a_reset_begins_anew)
{
	struct end nowhere = { .k = &k };
	struct diw_wc wc;

	open_ends("");
	ck_assert_int_eq(diw_addr_parse("127.0.0.1", 9, &nowhere.addr), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(end_recv(&b, IN, 64, 1), 0);
	is_sent(&a, 0);
	for (uint32_t i = 0; i < MANY; i++)     /* no queue pair is there */
		ck_assert_int_eq(end_send(&a, &nowhere, i, 64, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(diw_abort(a.qp), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		wc = next_of(a.scq);
		ck_assert_int_eq(wc.status, DIW_WC_FLUSHED);
		ck_assert_uint_eq(wc.wr_id, i);
	}
	ck_assert_int_eq(end_send(&a, &b, 1000, 64, 0), 0);
	wc = next_of(a.scq);
	ck_assert_int_eq(wc.status, DIW_WC_FLUSHED);
	ck_assert_int_eq(diw_qp_reset(a.qp), 0);
	ck_assert_int_eq(end_recv(&b, IN, 64, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 7, 64, DIW_SEND_SIGNALED), 0);
	is_sent(&a, 7);
	close_ends();
}
END_TEST

/* ---- Faults ---- */

static void ends_with(struct end *e, uint64_t wr_id, int status, uint16_t fault)
{
	struct diw_wc wc = next_of(e->scq);

	ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str(status));
	ck_assert_uint_eq(wc.wr_id, wr_id);
	ck_assert_uint_eq(wc.fault, fault);
}

/* A Write beyond the region (wr_id 99), and N Sends (wr_id 2, 3...) behind it, in one list: they leave together. */
static void post_write_beyond(struct end *to, uint32_t n)
{
	struct diw_sge sge = { k.mem, 64, k.mr->stag };
	struct diw_send_wr wr[SENDS_BEHIND + 1] = { { .wr_id = 99, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE,
		.dst.addr = to->addr, .stag = k.mr->stag, .to = k.mr->to + KIT_SIZE } };

	for (uint32_t i = 1; i <= n; wr[i - 1].next = &wr[i], i++)
		wr[i] = (struct diw_send_wr){ .wr_id = i + 1, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
					      .flags = DIW_SEND_SIGNALED, .dst.addr = to->addr };
	ck_assert_int_eq(diw_post_send(a.qp, wr, NULL), 0);
}

/* Requests posted before it take effect; those posted behind it to the same peer do not; those to another peer
 * continue. */
static void refused_by(const char *impair)
{
	open_ends(impair);
	ck_assert_int_eq(end_recv(&b, IN, 64, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 1, 64, DIW_SEND_SIGNALED), 0);
	post_write_beyond(&b, SENDS_BEHIND);
	receives(&b, 64, &a);
	is_sent(&a, 1);
	ends_with(&a, 99, DIW_WC_REM_ACCESS_ERR, DIW_FAULT_BOUNDS);
	for (uint32_t i = 0; i < SENDS_BEHIND; i++)
		ends_with(&a, 2 + i, DIW_WC_FLUSHED, 0);
	ck_assert_int_eq(end_send(&a, &c, 5, 64, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(end_recv(&c, IN, 64, 1), 0);
	is_sent(&a, 5);
	ck_assert_int_eq(end_recv(&b, IN, 64, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 6, 64, DIW_SEND_SIGNALED), 0);
	receives(&b, 64, &a);
	is_sent(&a, 6);
	close_ends();
}

START_TEST(a_fault_names_its_request)
{
	refused_by("");
	refused_by("loss=20%,reorder=10%");
}
END_TEST

START_TEST(a_refused_read_is_named)
{
	struct diw_sge sge = { k.mem, 64, 0 };
	struct diw_send_wr wr = { .wr_id = 9, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_READ,
				  .flags = DIW_SEND_SIGNALED };

	open_ends("");
	sge = (struct diw_sge){ k.mem, 64, k.mr->stag };
	wr.dst.addr = b.addr;
	wr.stag = k.mr->stag + 1;
	wr.to = k.mr->to;
	ck_assert_int_eq(end_read(&a, &b, 0, 64), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	read_ends(&a, 0, 64);
	ends_with(&a, 9, DIW_WC_REM_ACCESS_ERR, DIW_FAULT_READ_STAG);
	ck_assert_int_eq(end_read(&a, &b, 64, 64), 0);
	read_ends(&a, 64, 64);
	close_ends();
}
END_TEST

START_TEST(other_faults)
{
	struct diw_wc wc;

	open_ends("");
	ck_assert_int_eq(end_recv(&b, IN, 63, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, 0), 0);
	ends_with(&a, 0, DIW_WC_REM_OP_ERR, DIW_FAULT_TOO_LONG);
	ck_assert_int_eq(end_send(&a, &b, 1, 63, 0), 0);        /* its receive can be used by another message */
	receives(&b, 63, &a);
	ck_assert_int_eq(diw_qp_set_qkey(b.qp, 7), 0);
	ck_assert_int_eq(end_send(&a, &b, 2, 64, 0), 0);
	ends_with(&a, 2, DIW_WC_REM_OP_ERR, DIW_FAULT_STREAM);
	ck_assert_int_eq(diw_abort(c.qp), 0);
	while (diw_cq_poll(c.rcq, &wc, 1, 0) == 1)
		;
	ck_assert_int_eq(end_send(&a, &c, 3, 64, 0), 0);
	ends_with(&a, 3, DIW_WC_REM_OP_ERR, DIW_FAULT_STREAM);
	close_ends();
}
END_TEST

/* It answers for longer than a peer that is gone is waited for, within the same microsecond. */
START_TEST(a_peer_without_receives_is_not_gone)
{
	open_ends("");
	ck_assert_int_eq(end_send(&a, &b, 1, 64, DIW_SEND_SIGNALED), 0);
	nothing_for(a.scq, 11000);
	ck_assert_int_eq(end_recv(&b, IN, 64, 1), 0);
	is_sent(&a, 1);
	close_ends();
}
END_TEST

/* The error state of the thesis, and the way out of it. */
START_TEST(a_fault_ends_the_queue_pair_that_asked_for_that)
{
	struct diw_qp_attr attr;
	struct diw_qp_info info;

	open_ends("");
	end_close(&a);
	end_attr(&attr);
	attr.type = DIW_QP_RD;
	attr.rd.error = DIW_RD_ERROR_QP;
	end_open(&a, &k, &attr, 64);
	ck_assert_int_eq(end_recv(&a, IN, 64, 70), 0);
	ck_assert_int_eq(end_send(&a, &c, 1, 64, DIW_SEND_SIGNALED), 0);        /* it waits for a receive */
	post_write_beyond(&b, 0);
	ends_with(&a, 99, DIW_WC_REM_ACCESS_ERR, DIW_FAULT_BOUNDS);
	ends_with(&a, 1, DIW_WC_FLUSHED, 0);
	ck_assert_int_eq(next_of(a.rcq).status, DIW_WC_FLUSHED);
	ck_assert_int_eq(diw_qp_query(a.qp, &info), 0);
	ck_assert_int_eq(info.state, DIW_QPS_ERROR);
	ck_assert_int_eq(diw_qp_reset(a.qp), 0);
	ck_assert_int_eq(end_recv(&b, IN, 64, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 2, 64, DIW_SEND_SIGNALED), 0);
	is_sent(&a, 2);
	close_ends();
}
END_TEST

Suite *suite_rd(void)
{
	Suite *s = suite_create("rd");
	TCase *t = tcase_create("rd");

	tcase_add_test(t, a_send_completes_when_it_was_taken);
	tcase_add_test(t, a_peer_without_receives_holds_up_itself);
	tcase_add_test(t, a_peer_without_receives_is_not_gone);
	tcase_add_test(t, a_bad_network_changes_nothing);
	tcase_add_test(t, writes_are_in_order_with_sends);
	tcase_add_test(t, writes_with_immediate_and_write_records);
	tcase_add_test(t, reads_are_answered_in_order);
	tcase_add_test(t, atomics_take_effect_once);
	tcase_add_test(t, a_fence_waits_for_the_answer);
	tcase_add_test(t, a_peer_that_goes_while_it_owes_an_answer_is_noticed);
	tcase_add_test(t, a_peer_that_goes_while_requests_wait_for_its_answers_is_noticed);
	tcase_add_test(t, a_peer_that_comes_back_while_it_owes_an_answer_is_noticed);
	tcase_add_test(t, a_refused_read_is_named);
	tcase_add_test(t, a_restarted_peer_fails_what_went_to_it);
	tcase_add_test(t, an_abort_flushes_in_order_and_a_reset_begins_anew);
	tcase_add_test(t, a_fault_names_its_request);
	tcase_add_test(t, other_faults);
	tcase_add_test(t, a_fault_ends_the_queue_pair_that_asked_for_that);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return s;
}
