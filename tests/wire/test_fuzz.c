/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hundreds of thousands of mutated segments with valid CRCs, from a seed. Segments that the specification refuses are
 * counted under the name that it gives. Whatever else happens, no byte outside the buffers changes, and every
 * completion is correct. FUZZ_SEED replays another sequence, FUZZ_N makes it longer.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/wire/wire.h"

static struct bench b;
static struct diw_rng rng;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(diw_rng_next(&rng) % n);
}

static uint32_t interesting(void)
{
	static const uint32_t v[] = { 0, 1, 2, 15, 16, 17, 28, 64, 255, 256, 511, 512, 513, 4095, 4096, 4097,
		0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff };

	return below(3) ? v[below(sizeof v / sizeof *v)] : (uint32_t)diw_rng_next(&rng);
}

#define LIFE 4000u                   /* segments, after which the peer is another one: mutated MSNs have made all of its
				      * own late */

/* A valid segment of a message that may have several. */
static struct fields seedling(void)
{
	static uint8_t payload[600];
	static uint32_t calls;
	struct fields f;
	uint32_t length = below(2) ? below(513) : below(64), n = length ? 1 + below(length) : 0;
	uint32_t mo = length - n ? below(length - n + 1) : 0, msn = ++calls / 4 + below(50);

	for (uint32_t i = 0; i < 16; i++)
		payload[below(sizeof payload)] = (uint8_t)diw_rng_next(&rng);
	switch (below(6)) {
	case 0: case 1:
		f = send_fields(msn, payload, n);
		f.to = 0;
		break;
	case 2: case 3:
		f = record_fields(b.mr->stag, msn, TO + below(REGION - 512), payload, n);
		f.to += mo;
		break;
	case 4:
		f = read_fields(msn, (uint32_t)diw_rng_next(&rng), diw_rng_next(&rng), below(300), b.mr->stag,
				TO + below(2048));
		length = n = 28;
		mo = 0;
		break;
	default:
		f = record_fields((uint32_t)diw_rng_next(&rng), msn, diw_rng_next(&rng), payload, n);
		f.c1 = 0x40 | OP_READ_RESP;
	}
	f.mo = mo;
	f.length = length;
	f.c0 = (uint8_t)((f.c0 & ~BIT_L) | (mo + n == length ? BIT_L : 0));
	if (below(8) == 0 && (f.c1 & 15) != OP_READ_REQ && (f.c1 & 15) != OP_READ_RESP) {
		f.c1 |= BIT_I;
		f.imm = below(3);
	}
	f.epoch = (uint16_t)(EPOCH + calls / LIFE + (below(50) == 0));
	return f;
}

static void mutate(struct gram *g)
{
	for (uint32_t n = below(4); n > 0; n--)
		switch (below(6)) {
		case 0:
			g->b[below(g->len)] ^= (uint8_t)(1u << below(8));
			break;
		case 1:
			g->b[below(g->len < 36 ? g->len : 36)] = (uint8_t)diw_rng_next(&rng);
			break;
		case 2:
			gram_put32(g, 2 + below(7) * 4, interesting());
			break;
		case 3:
			gram_put32(g, 4 * below(8), interesting());
			break;
		case 4:
			g->len = 6 + below(g->len - 5);
			break;
		default:
			for (uint32_t more = below(40); more > 0; more--)
				g->b[g->len++] = (uint8_t)diw_rng_next(&rng);
		}
}

static void drain(void)
{
	struct diw_wc wc;
	struct diw_range r[64];

	while (diw_cq_poll(b.rcq, &wc, 1, 0) == 1) {
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		ck_assert_uint_le(wc.byte_len, wc.msg_len);
		if (wc.opcode == DIW_WC_RECV) {
			ck_assert_uint_eq(wc.byte_len, wc.msg_len);
			ck_assert_uint_lt(wc.wr_id, NRECV);
			bench_post(&b, (int)wc.wr_id);
		} else {
			uint32_t bytes = 0;
			int n = diw_wc_ranges(&wc, r, 64);

			ck_assert_int_eq(wc.opcode, DIW_WC_RECV_WRITE_RECORD);
			ck_assert_int_eq(n, (int)wc.nranges);
			for (int i = 0; i < n && i < 64; i++) {
				ck_assert(r[i].len > 0 && r[i].off <= wc.msg_len && r[i].len <= wc.msg_len - r[i].off);
				ck_assert(i == 0 || r[i].off > r[i - 1].off + r[i - 1].len);
				ck_assert(wc.to + r[i].off >= TO && wc.to + r[i].off + r[i].len <= TO + REGION);
				bytes += r[i].len;
			}
			ck_assert_uint_eq(bytes, wc.byte_len);
			diw_wc_release(&wc);
		}
	}
	ck_assert_int_eq(diw_cq_poll(b.scq, &wc, 1, 0), 0);
}

/* The memory that the stack may write. */
static void image_of_buffers(void)
{
	memcpy(b.image + GUARD, b.region, REGION);
	for (int i = 0; i < NRECV; i++)
		memcpy(b.image + (b.recv[i] - b.arena), b.recv[i], RECV);
}

static struct diw_addr somebody(void)
{
	return below(4) ? b.peer : net_addr4(0x0b000000 + below(3000), (uint16_t)(1 + below(3)));
}

START_TEST(mutations)
{
	uint64_t n = getenv("FUZZ_N") ? strtoull(getenv("FUZZ_N"), NULL, 0) : 200000, refused = 0, clean = 0;

	rng.state = getenv("FUZZ_SEED") ? strtoull(getenv("FUZZ_SEED"), NULL, 0) : 1;
	bench_open(&b, NULL);
	for (uint64_t i = 0; i < n; i++) {
		struct fields f = seedling();
		struct diw_addr from = somebody();
		const char *verdict;
		struct gram g;

		gram_build(&g, &f);
		mutate(&g);
		if (g.len < 6)
			g.len = 6;
		gram_seal(&g);
		verdict = spec_verdict(&b, g.b, g.len - 4);
		bench_look(&b);
		bench_inject_from(&b, &from, &g);
		if (verdict) {
			/* if the limits of partial Sends are reached, that is checked first */
			bool limited = !strcmp(verdict, "rx_too_long") && !strncmp(bench_drops(&b), "reasm_", 6);

			if (strcmp(bench_drops(&b), verdict) != 0 && !limited)
				ck_abort_msg("mutation %llu: counted \"%s\", not %s", (unsigned long long)i,
					     bench_drops(&b), verdict);
			refused++;
		} else {
			clean += bench_drops(&b)[0] == 0;
			image_of_buffers();
		}
		drain();
		if (i % 16 == 0)
			bench_check_memory(&b);
		if (below(20) == 0)
			net_run(b.net, below(2000) * DIW_US);
		if (i % LIFE == LIFE - 1)
			net_run(b.net, 2 * DIW_S);
	}
	bench_check_memory(&b);
	ck_assert_uint_gt(refused, n / 4);
	ck_assert_uint_gt(clean, n / 8);
	/* The queue pair still works. */
	net_run(b.net, 5 * DIW_S);
	drain();
	net_run(b.net, 30 * DIW_S);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.memory, 0);
	ck_assert_uint_eq(b.info.rq_posted, NRECV / 2);
	bench_close(&b);
}
END_TEST

Suite *suite_fuzz(void)
{
	Suite *s = suite_create("fuzz");
	TCase *tc = tcase_create("fuzz");

	tcase_set_timeout(tc, 600);
	tcase_add_test(tc, mutations);
	suite_add_tcase(s, tc);
	return s;
}
