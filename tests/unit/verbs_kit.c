/* SPDX-License-Identifier: BSD-2-Clause */
/* A device on lo with a protection domain, memory, and queue pairs that communicate. */
#include "tests/unit/verbs_kit.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kit_open(struct kit *k, enum diw_progress progress)
{
	struct diw_dev_attr attr = { .progress = progress };

	ck_assert_int_eq(diw_dev_open("diw_lo", &attr, &k->dev), 0);
	ck_assert_int_eq(diw_pd_alloc(k->dev, &k->pd), 0);
	k->mem = calloc(1, KIT_SIZE);
	ck_assert_int_eq(diw_mr_reg(k->pd, k->mem, KIT_SIZE, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE |
				    DIW_ACCESS_REMOTE_READ, &k->mr), 0);
}

void kit_close(struct kit *k)
{
	ck_assert_int_eq(diw_mr_dereg(k->mr), 0);
	ck_assert_int_eq(diw_pd_free(k->pd), 0);
	ck_assert_int_eq(diw_dev_close(k->dev), 0);
	free(k->mem);
}

void kit_fill(struct kit *k)
{
	for (uint32_t i = 0; i < KIT_SIZE; i++)
		k->mem[i] = (uint8_t)(i * 13 + i / 97);
}

void end_attr(struct diw_qp_attr *attr)
{
	*attr = (struct diw_qp_attr)DIW_QP_ATTR_INIT;
	attr->impair = "";
}

void end_open(struct end *e, struct kit *k, const struct diw_qp_attr *given, uint32_t cq_depth)
{
	struct diw_qp_attr attr;
	struct diw_qp_info info;

	memset(e, 0, sizeof *e);
	e->k = k;
	if (given)
		attr = *given;
	else
		end_attr(&attr);
	if (!attr.send_cq) {
		ck_assert_int_eq(diw_cq_create(k->dev, cq_depth, NULL, NULL, &e->scq), 0);
		attr.send_cq = e->scq;
	}
	if (!attr.recv_cq) {
		ck_assert_int_eq(diw_cq_create(k->dev, cq_depth, NULL, NULL, &e->rcq), 0);
		attr.recv_cq = e->rcq;
	}
	ck_assert_int_eq(diw_qp_create(k->pd, &attr, &e->qp), 0);
	ck_assert_int_eq(diw_qp_query(e->qp, &info), 0);
	e->addr = info.local;
}

void end_close(struct end *e)
{
	ck_assert_int_eq(diw_qp_destroy(e->qp), 0);
	if (e->scq)
		ck_assert_int_eq(diw_cq_destroy(e->scq), 0);
	if (e->rcq)
		ck_assert_int_eq(diw_cq_destroy(e->rcq), 0);
}

void kit_open_ends(struct kit *k, struct end *a, struct end *b)
{
	kit_open(k, DIW_PROGRESS_THREAD);
	end_open(a, k, NULL, 16);
	end_open(b, k, NULL, 16);
}

void kit_close_ends(struct kit *k, struct end *a, struct end *b)
{
	end_close(a);
	end_close(b);
	kit_close(k);
}

static int post(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags,
		enum diw_wr_opcode op)
{
	struct kit *k = from->k;
	struct diw_sge sge = { k->mem + off, len, k->mr->stag };
	struct diw_send_wr wr = { .wr_id = off, .sge = &sge, .num_sge = 1, .opcode = op, .flags = flags,
				  .dst.addr = to->addr, .stag = to->k->mr->stag,
				  .to = to->k->mr->to + KIT_SIZE / 2 + off };

	return diw_post_send(from->qp, &wr, NULL);
}

int end_send(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags)
{
	return post(from, to, off, len, flags, DIW_WR_SEND);
}

int end_write(struct end *from, const struct end *to, uint32_t off, uint32_t len, unsigned flags)
{
	return post(from, to, off, len, flags, DIW_WR_WRITE_RECORD);
}

int end_read(struct end *from, const struct end *to, uint32_t off, uint32_t len)
{
	return post(from, to, off, len, DIW_SEND_SIGNALED, DIW_WR_READ);
}

int end_recv(struct end *e, uint32_t off, uint32_t len, uint64_t wr_id)
{
	struct diw_sge sge = { e->k->mem + off, len, e->k->mr->stag };
	struct diw_recv_wr wr = { .wr_id = wr_id, .sge = &sge, .num_sge = 1 };

	return diw_post_recv(e->qp, &wr, NULL);
}

uint64_t end_counter(struct end *e, const char *name)
{
	uint64_t v[256];
	int n = diw_qp_counters(e->qp, v, 256);

	for (int i = 0; i < n; i++)
		if (strcmp(diw_counter_name(i), name) == 0)
			return v[i];
	ck_abort_msg("no counter %s", name);
}

void end_until(struct end *e, const char *counter, uint64_t n)
{
	for (int ms = 0; ms < KIT_LIMIT_MS && end_counter(e, counter) < n; ms++)
		sleep_ms(1);
	ck_assert_uint_eq(end_counter(e, counter), n);
}

static uint32_t pending(struct end *e)
{
	struct diw_qp_info info;

	ck_assert_int_eq(diw_qp_query(e->qp, &info), 0);
	return info.sq_pending;
}

void end_sent(struct end *e)
{
	KIT_UNTIL(pending(e) == 0);
}

uint64_t end_wakeups(struct end *e, unsigned ms)
{
	uint64_t fewest = DIW_NEVER;

	for (int i = 0; i < 10 && fewest > 1; i++) {
		uint64_t before = end_counter(e, "wakeups");

		sleep_ms(ms);
		fewest = diw_min64(fewest, end_counter(e, "wakeups") - before);
	}
	return fewest;
}

uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

void sleep_ms(unsigned ms)
{
	usleep(ms * 1000);
}
