/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams: the bound on peers that wait for answers, over a link that takes none. */
#include <string.h>

#include "rdmap/rdmap.h"
#include "tests/unit/unit.h"

#define ASKERS 3u
#define REQUESTS 2u
#define AT_A_TIME 16u

static uint32_t refusals;

static int full_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n,
		     uint64_t now)
{
	(void)l, (void)dst, (void)segs, (void)n, (void)now;
	return 0;
}

static uint32_t full_mulpdu(struct diw_link *l, const struct diw_addr *dst)
{
	(void)l, (void)dst;
	return 1400;
}

static void full_refuse(struct diw_link *l, const struct diw_addr *src, uint16_t fault)
{
	(void)l, (void)src, (void)fault;
	refusals++;
}
static void full_take_acks(struct diw_link *l) { (void)l; }

static const struct diw_link_ops full_ops = { .send = full_send, .mulpdu = full_mulpdu, .refuse = full_refuse,
	.take_acks = full_take_acks };

static struct diw_counters counters;
static struct diw_stag_table stags;
static struct diw_rdmap r;
static const struct diw_rdmap_up up;
static struct diw_link link_full = { .ops = &full_ops, .c = &counters, .up = &diw_ddp_peers_up };

static struct diw_addr asker(uint32_t i)
{
	return (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 }, .port = (uint16_t)(1000 + i) };
}

/* Asker I sends a Read of no octets; false: it is refused. */
static bool asks(uint32_t i)
{
	const struct diw_ddp_hdr h = { .last = true, .opcode = DIW_OP_READ_REQUEST, .qn = DIW_QN_REQUEST,
				       .length = DIW_RDMAP_READ_LEN, .msn = i };
	const struct diw_read_request q = { 0 };
	const struct diw_addr src = asker(i);
	uint8_t p[DIW_DDP_MAX_LEN + DIW_RDMAP_READ_LEN];
	struct diw_link_rxseg seg = { .data = p };
	uint32_t before = refusals;

	seg.len = diw_ddp_hdr_encode(p, &h);
	diw_read_request_put(p + seg.len, &q);
	seg.len += DIW_RDMAP_READ_LEN;
	diw_ddp_peers_up.rx(diw_rdmap_link_ctx(&r), &src, &seg, 1, 1);
	return refusals == before;
}

static bool requests(uint32_t i)
{
	const struct diw_ddp_sge none = { 0 };
	const struct diw_rdmap_wr wr = { .opcode = DIW_OP_SEND, .dst.addr = asker(i), .buf.sge = &none };

	return diw_rdmap_rd_begin(&r, &wr);
}

/* The link has forgotten askers that still wait, and others ask. Those beyond the bound are refused; no request of this
 * end is; each asker that goes leaves room for another. An asker that asks more often than it may wait for answers does
 * not wait for the oldest. */
START_TEST(as_many_askers_as_the_bound_and_no_more)
{
	const struct diw_rdmap_attr attr = {
		.type = &diw_rdmap_type_rd, .up = &up, .requests = REQUESTS, .peers = ASKERS,
		.request_size = sizeof(struct diw_rdmap_wr), .ddp.c = &counters, .ddp.stags = &stags,
		.ddp.cfg.max_sources = ASKERS,
	};
	const struct diw_addr first = asker(0);
	int64_t budget = 1 << 20;

	ck_assert_int_eq(diw_stag_init(&stags), 0);
	ck_assert_int_eq(diw_rdmap_init(&r, &attr), 0);
	diw_rdmap_set_link(&r, &link_full);
	for (uint32_t i = 0; i < ASKERS; i++)
		for (uint32_t k = 0; k < AT_A_TIME; k++)
			ck_assert(asks(i));
	for (uint32_t i = 0; i < ASKERS; i++)
		ck_assert(asks(i));
	for (uint32_t i = ASKERS; i < ASKERS + 4 * REQUESTS; i++)
		ck_assert(!asks(i));
	ck_assert_uint_eq(counters.read_limit, 4 * REQUESTS);
	for (uint32_t i = 0; i < REQUESTS; i++)
		ck_assert(requests(100 + i));
	ck_assert(!requests(200));
	diw_rdmap_rd_run(&r, &budget, 1);
	diw_ddp_peers_up.gone(diw_rdmap_link_ctx(&r), &first, 1);
	ck_assert(asks(50));
	ck_assert(!asks(51));
	diw_rdmap_fini(&r);
	diw_stag_fini(&stags);
}
END_TEST

Suite *suite_rd_askers(void)
{
	Suite *s = suite_create("rd_askers");
	TCase *t = tcase_create("rd_askers");

	tcase_add_test(t, as_many_askers_as_the_bound_and_no_more);
	suite_add_tcase(s, t);
	return s;
}
