/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams and peers that forge, repeat, flood and do not answer. */
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/wire.h"
#include "tests/sim/rd_app.h"
#include "wire/rd_hdr.h"

/* The last datagram of KIND that node 0 sent, to be changed. */
static uint8_t caught[2048];
static uint32_t caught_len;
static enum diw_rd_kind caught_kind;

static void catch(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p, uint32_t len)
{
	(void)n;
	(void)dst;
	if (src->ip[15] != 1 || p[0] >> 4 != caught_kind)
		return;
	memcpy(caught, p, len);
	caught_len = len;
}

static void forge(int field, uint32_t value)
{
	struct diw_addr src = rdn_addr(0), dst = rdn_addr(1);
	uint8_t p[2048];

	memcpy(p, caught, caught_len);
	if (field == 2)
		diw_put16(p + field, (uint16_t)value);
	else
		diw_put32(p + field, value);
	diw_put32le(p + caught_len - 4, diw_crc32(0, p, caught_len - 4));
	rdn_inject(&rda_net, &src, &dst, p, caught_len, rda_net.now);
	rda_run(DIW_MS);
}

/* Acknowledgements of what was never sent, another tag, numbers behind the window: counted, and nothing else. */
START_TEST(forged)
{
	uint64_t stray, before;

	rda_begin(2);
	caught_kind = DIW_RD_DATA;
	rda_net.tap = catch;
	for (int i = 0; i < 20; i++) {
		rda_send(0, 1, 100);
		rda_send(1, 0, 100);
		rda_run(10 * DIW_MS);
	}
	ck_assert_uint_eq(rda_app[1].from[0].came, 20);
	ck_assert(caught[1] & DIW_RD_ACKS);
	forge(12, diw_get32(caught + 12) + 1);                  /* ack */
	forge(12, diw_get32(caught + 12) + 0x7fffffff);
	forge(12, diw_get32(caught + 12) + 0x80000000);
	ck_assert_uint_ge(rda_net.node[1].c.rd_ack_ignored, 2);
	before = rda_net.node[1].c.rd_beyond;
	forge(8, diw_get32(caught + 8) + 5000);                 /* seq */
	forge(8, diw_get32(caught + 8) + 0x70000000);
	ck_assert_uint_eq(rda_net.node[1].c.rd_beyond, before + 2);
	before = rda_net.node[1].c.rd_duplicates;
	forge(8, diw_get32(caught + 8));
	forge(8, diw_get32(caught + 8) - 19);
	ck_assert_uint_ge(rda_net.node[1].c.rd_duplicates, before + 2);
	stray = rda_net.node[1].c.rd_stray;
	for (uint32_t bit = 0; bit < 32; bit++)
		forge(4, diw_get32(caught + 4) ^ 1u << bit);    /* tag */
	ck_assert_uint_eq(rda_net.node[1].c.rd_stray, stray + 32);
	forge(2, 0);                                            /* window: none */
	ck_assert_int_eq(rda_send(1, 0, 100), 1);
	rda_send(0, 1, 100);
	rda_run(5 * DIW_S);
	ck_assert_uint_eq(rda_app[1].from[0].came, 21);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, 21);
	ck_assert_uint_eq(rda_flow(1, 0)->failed, 0);
	rdn_free(&rda_net);
}
END_TEST

static uint64_t answered;

static void count_answers(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p,
			  uint32_t len)
{
	(void)n;
	(void)dst;
	(void)p;
	if (src->ip[15] == 2)
		answered += len;
}

/* A flood of OPEN and of DATA from addresses that receive nothing: no memory, no answer longer than its cause. */
START_TEST(flood)
{
	struct diw_rd_hdr open = { .kind = DIW_RD_OPEN, .my_epoch = 7 };
	struct diw_rd_hdr data = { .kind = DIW_RD_DATA, .flags = DIW_RD_NEW, .my_tag = 1, .my_epoch = 7, .first = 9,
		.seq = 9 };
	uint8_t p[DIW_RD_HDR_MAX + 24] = { 0 };

	rda_begin(2);
	for (uint32_t i = 0; i < 10000; i++) {
		struct diw_addr src = rdn_addr(100), dst = rdn_addr(1);
		const struct diw_rd_hdr *h = i & 1 ? &open : &data;
		uint32_t len;

		src.port = (uint16_t)(i + 1);
		open.seq = data.tag = i * 2654435761u;
		len = diw_rd_hdr_encode(p, h) + (i & 1 ? 0 : 20);
		diw_put32le(p + len, diw_crc32(0, p, len));
		rdn_inject(&rda_net, &src, &dst, p, len + 4, rda_net.now);
	}
	answered = 0;
	rda_net.tap = count_answers;
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_net.node[1].c.rd_peers_full, 0);
	ck_assert_uint_eq(rda_net.node[1].c.rd_stray, 5000);
	ck_assert_uint_le(answered, 5000 * (DIW_RD_HDR_MAX + 4));
	for (int i = 0; i < 50; i++)
		rda_send(0, 1, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 50);
	rdn_free(&rda_net);
}
END_TEST

TCase *tcase_rd_hostile(void)
{
	TCase *tc = tcase_create("hostile");

	tcase_add_test(tc, forged);
	tcase_add_test(tc, flood);
	return tc;
}
