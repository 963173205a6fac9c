/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs with some lost, refused and timed-out messages: prints the diw_qp_counters() of each, one JSON object
 * for each queue pair, and waits until its standard input ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verbs/diw.h"

#define SIZE 200000u
#define MS 1000000ll

static void print_counters(struct diw_qp *qp)
{
	char buf[DIW_ADDR_STRLEN];
	struct diw_qp_info info;
	uint64_t v[256];
	int n = diw_qp_counters(qp, v, 256);

	if (diw_qp_query(qp, &info))
		exit(1);
	printf("{\"local\":\"%s\",\"gauges\":{\"sq_pending\":%u,\"rq_posted\":%u,\"sources\":%u,\"records_open\":%u,"
	       "\"records_held\":%u,\"reasm_open\":%u,\"reads_open\":%u,\"crc\":%d,\"memory\":%zu},\"counters\":{",
	       diw_addr_str(&info.local, buf), info.sq_pending, info.rq_posted, info.sources, info.records_open,
	       info.records_held, info.reasm_open, info.reads_open, info.crc, info.memory);
	for (int i = 0; i < n; i++)
		printf("%s\"%s\":%llu", i ? "," : "", diw_counter_name(i), (unsigned long long)v[i]);
	puts("}}");
}

int main(void)
{
	static char from[SIZE], to[SIZE];
	struct diw_dev_attr inline_dev = { .progress = DIW_PROGRESS_INLINE };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_qp_info info;
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_cq *cq;
	struct diw_mr *src, *sink;
	struct diw_qp *a, *b;
	struct diw_wc wc;

	if (diw_dev_open("diw_lo", &inline_dev, &dev) || diw_pd_alloc(dev, &pd) ||
	    diw_cq_create(dev, 256, NULL, NULL, &cq) || diw_mr_reg(pd, from, SIZE, DIW_ACCESS_LOCAL_WRITE, &src) ||
	    diw_mr_reg(pd, to, SIZE, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ, &sink))
		return 1;
	attr.send_cq = attr.recv_cq = cq;
	attr.mulpdu = 1452;
	attr.impair = "";
	attr.dgram.read_timeout_ns = 5 * MS;
	if (diw_qp_create(pd, &attr, &b) || diw_qp_query(b, &info))
		return 1;
	attr.impair = "loss=5%,corrupt=2%,seed=3";
	if (diw_qp_create(pd, &attr, &a))
		return 1;
	for (int i = 0; i < 20; i++) {
		struct diw_sge sge = { from, SIZE, src->stag };
		struct diw_send_wr send = { .opcode = DIW_WR_SEND, .dst.addr = info.local };
		struct diw_send_wr read = { .next = &send, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_READ,
			.flags = DIW_SEND_SIGNALED, .dst.addr = info.local, .stag = sink->stag, .to = sink->to };
		struct diw_send_wr write = { .next = &read, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE_RECORD,
			.dst.addr = info.local, .stag = sink->stag, .to = sink->to };

		if (diw_post_send(a, &write, NULL))
			return 1;
		while (diw_cq_wait(cq, &wc, 1, 20 * MS) == 1)
			if (i % 2)
				diw_wc_release(&wc);
	}
	print_counters(a);
	print_counters(b);
	fflush(stdout);
	return getchar() != EOF;
}
