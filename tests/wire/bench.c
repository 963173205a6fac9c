/* SPDX-License-Identifier: BSD-2-Clause */
/* The bench of the wire tests: a queue pair, a peer, and checks of counters and memory after each datagram. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/wire/wire.h"

#define KEPT 64

static void tap(void *ctx, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *data, uint32_t len)
{
	struct bench *b = ctx;

	(void)src;
	(void)dst;
	if (b->nsent < KEPT && len <= sizeof b->sent->b) {
		memcpy(b->sent[b->nsent].b, data, len);
		b->sent[b->nsent].len = len;
	}
	b->nsent++;
}

static void open_memory(struct bench *b)
{
	struct diw_mr_attr attr = { .length = REGION, .use_iova = true, .iova = TO,
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ };

	b->arena_len = GUARD + REGION + GUARD + NRECV * (RECV + GUARD);
	b->arena = malloc(b->arena_len);
	b->image = malloc(b->arena_len);
	for (uint32_t i = 0; i < b->arena_len; i++)
		b->arena[i] = b->image[i] = (uint8_t)(0x80 | (i * 7));
	b->region = b->arena + GUARD;
	for (int i = 0; i < NRECV; i++)
		b->recv[i] = b->region + REGION + GUARD + (uint32_t)i * (RECV + GUARD);
	attr.addr = b->region;
	ck_assert_int_eq(diw_mr_reg_attr(b->pd, &attr, &b->mr), 0);
	ck_assert_int_eq(diw_mr_reg(b->pd, b->recv[0], (NRECV - 1) * (RECV + GUARD) + RECV, DIW_ACCESS_LOCAL_WRITE,
				    &b->recv_mr), 0);
}

void bench_open(struct bench *b, const struct diw_qp_attr *given)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;

	memset(b, 0, sizeof *b);
	b->net = net_new(1);
	b->net->tap = tap;
	b->net->tap_ctx = b;
	b->sent = calloc(KEPT, sizeof(*b->sent));
	b->host = net_host_add(b->net);
	b->peer = net_addr4(0x0a000063, PEER_PORT);
	ck_assert_int_eq(diw_pd_alloc(b->host->dev, &b->pd), 0);
	ck_assert_int_eq(diw_pd_alloc(b->host->dev, &b->other_pd), 0);
	ck_assert_int_eq(diw_cq_create(b->host->dev, 1024, NULL, NULL, &b->scq), 0);
	ck_assert_int_eq(diw_cq_create(b->host->dev, 1024, NULL, NULL, &b->rcq), 0);
	if (given)
		attr = *given;
	attr.dgram.qkey = QKEY;
	attr.send_cq = b->scq;
	attr.recv_cq = b->rcq;
	if (attr.type == DIW_QP_UC)
		attr.dgram.peer = b->peer;
	ck_assert_int_eq(diw_qp_create(b->pd, &attr, &b->qp), 0);
	open_memory(b);
	ck_assert_int_eq(diw_qp_query(b->qp, &b->info), 0);
	b->addr = b->info.local;
	for (int i = 0; i < NRECV / 2; i++)
		bench_post(b, i);
	bench_look(b);
}

void bench_close(struct bench *b)
{
	bench_check_memory(b);
	ck_assert_int_eq(diw_qp_destroy(b->qp), 0);
	ck_assert_int_eq(diw_mr_dereg(b->mr), 0);
	ck_assert_int_eq(diw_mr_dereg(b->recv_mr), 0);
	ck_assert_int_eq(diw_cq_destroy(b->scq), 0);
	ck_assert_int_eq(diw_cq_destroy(b->rcq), 0);
	ck_assert_int_eq(diw_pd_free(b->pd), 0);
	ck_assert_int_eq(diw_pd_free(b->other_pd), 0);
	ck_assert_int_eq(diw_dev_close(b->host->dev), 0);
	b->host->dev = NULL;
	net_free(b->net);
	free(b->arena);
	free(b->image);
	free(b->sent);
}

void bench_post(struct bench *b, int i)
{
	struct diw_sge sge = { b->recv[i], RECV, b->recv_mr->stag };
	struct diw_recv_wr wr = { .wr_id = (uint64_t)i, .sge = &sge, .num_sge = 1 };

	ck_assert_int_eq(diw_post_recv(b->qp, &wr, NULL), 0);
}

void bench_look(struct bench *b)
{
	ck_assert_int_le(diw_counter_count(), 256);
	diw_qp_counters(b->qp, b->before, 256);
	b->nsent = 0;
}

void bench_inject_from(struct bench *b, const struct diw_addr *src, const struct gram *g)
{
	net_inject(b->net, src, &b->addr, g->b, g->len, b->net->now);
	net_settle(b->net);
}

void bench_inject_fields(struct bench *b, const struct diw_addr *src, const struct fields *f)
{
	struct gram g;

	gram_build(&g, f);
	bench_inject_from(b, src, &g);
}

void bench_inject(struct bench *b, const struct gram *g)
{
	bench_inject_from(b, &b->peer, g);
}

uint64_t bench_count(struct bench *b, const char *name)
{
	uint64_t now[256];

	diw_qp_counters(b->qp, now, 256);
	for (int i = 0; i < diw_counter_count(); i++)
		if (strcmp(diw_counter_name(i), name) == 0)
			return now[i] - b->before[i];
	ck_abort_msg("no counter %s", name);
}

void bench_check_memory(const struct bench *b)
{
	for (uint32_t i = 0; i < b->arena_len; i++)
		if (b->arena[i] != b->image[i])
			ck_abort_msg("octet %d of the region (arena %u) is %02x, not %02x", (int)i - (int)GUARD, i,
				     b->arena[i], b->image[i]);
}

/* An accepted datagram increments only these counters. */
static bool counts_a_drop(const char *name)
{
	static const char *const no_drop[] = {
		"rx_bursts", "rx_datagrams", "rx_bytes", "rx_segments", "rx_messages", "rx_payload",
		"record_opened", "record_complete", "record_closed_window", "record_closed_timeout",
		"record_closed_epoch", "record_closed_dereg", "record_evicted", "record_duplicate",
		"reasm_opened", "reasm_complete", "reasm_duplicate",
		"flow_asked", "flow_answered", "flow_waits", "read_requests_rx", "read_requests_tx", "read_answered",
		"error_rx", "error_suppressed", "source_expired", "source_evicted", "source_epoch_ended",
		"challenge_tx", "proof_tx", "proof_rx", "wakeups",
	};

	if (strncmp(name, "tx_", 3) == 0 || strncmp(name, "error_tx", 8) == 0)
		return false;
	for (size_t i = 0; i < sizeof no_drop / sizeof *no_drop; i++)
		if (strcmp(name, no_drop[i]) == 0)
			return false;
	return true;
}

const char *bench_drops(struct bench *b)
{
	static char text[1024];
	uint64_t now[256];
	size_t used = 0;

	text[0] = 0;
	diw_qp_counters(b->qp, now, 256);
	for (int i = 0; i < diw_counter_count(); i++)
		for (uint64_t n = b->before[i]; n < now[i] && counts_a_drop(diw_counter_name(i)) &&
		     used < sizeof text - 64; n++)
			used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? " " : "",
						 diw_counter_name(i));
	return text;
}

void bench_no_wc(struct bench *b)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(b->rcq, &wc, 1, 0), 0);
	ck_assert_int_eq(diw_cq_poll(b->scq, &wc, 1, 0), 0);
}

struct diw_wc bench_wc(struct bench *b, struct diw_cq *cq)
{
	struct diw_wc wc;

	(void)b;
	ck_assert_int_eq(diw_cq_poll(cq, &wc, 1, 0), 1);
	return wc;
}

void bench_refused(struct bench *b, const struct gram *g, const char *name)
{
	bench_look(b);
	bench_inject(b, g);
	ck_assert_str_eq(bench_drops(b), name);
	bench_no_wc(b);
	bench_check_memory(b);
}

void bench_refuses(struct bench *b, const struct fields *f, const char *name)
{
	struct gram g;

	gram_build(&g, f);
	ck_assert_str_eq(spec_verdict(b, g.b, g.len - 4), name);
	bench_refused(b, &g, name);
}

bool bench_completes(struct bench *b)
{
	struct diw_wc wc;

	if (diw_cq_poll(b->rcq, &wc, 1, 0) == 0)
		return false;
	diw_wc_release(&wc);
	return true;
}

void bench_region_is(struct bench *b, const void *data, uint32_t n)
{
	memcpy(b->image + GUARD, data, n);
	bench_check_memory(b);
}

/* ---- The queue pair to which every fault is sent, and the checks of its effects ---- */

static const char some_payload[] = "some octets of payload, enough for an error message";

struct fields bench_record(const struct bench *b)
{
	return record_fields(b->mr->stag, 1, TO, some_payload, 48);
}

struct fields bench_send(void)
{
	return send_fields(1, some_payload, 48);
}

void bench_answered(const struct bench *b, unsigned layer_etype, unsigned code)
{
	ck_assert_int_eq(b->nsent, 1);
	ck_assert(gram_sealed(&b->sent[0]));
	ck_assert_uint_eq(b->sent[0].b[1], 0x47);
	ck_assert_uint_eq(b->sent[0].b[28], layer_etype);
	ck_assert_uint_eq(b->sent[0].b[29], code);
}

void bench_silent(const struct bench *b)
{
	ck_assert_int_eq(b->nsent, 0);
}

void bench_challenge(const struct bench *b, uint8_t body[16])
{
	const struct gram *g = &b->sent[b->nsent - 1];

	ck_assert_int_gt(b->nsent, 0);
	ck_assert_uint_eq(g->len, 48);
	ck_assert_uint_eq(g->b[1], 0x4e);
	ck_assert_uint_eq(g->b[28], 1);
	memcpy(body, g->b + 28, 16);
}

void bench_prove(struct bench *b, const struct diw_addr *from, uint16_t epoch)
{
	uint8_t body[16];
	struct fields f;
	struct gram g;

	bench_challenge(b, body);
	body[0] = 2;
	f = validation_fields(body, epoch);
	gram_build(&g, &f);
	bench_inject_from(b, from, &g);
}
