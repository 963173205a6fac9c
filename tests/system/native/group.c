/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group listen DEV GROUP COUNT BYTES QPS   each of QPS queue pairs that are attached to GROUP waits for COUNT messages
 *                                          of BYTES, and answers each; says "ready" before
 * group send DEV GROUP COUNT BYTES ANSWERS sends them, and waits for so many answers in all
 *
 * Prints a JSON object of what came; exits 1 with a line on standard error when a call fails. GROUP's family decides
 * which address of DEV a queue pair has, "any" behind it that it has all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/system/must.h"
#include "verbs/diw.h"

#define S 1000000000ll
#define QKEY 0x6702u
#define DEPTH 64u
#define MAX_QPS 16
#define PATIENCE (60 * S)            /* for events that must come */
#define QUIET S                      /* for events that must not come */

static struct diw_dev *dev;
static struct diw_pd *pd;
static struct diw_mr *mr;
static struct diw_cq *cq, *scq;
static struct diw_addr group;
static uint8_t *mem;
static uint32_t bytes;

static bool is_v4(const struct diw_addr *a)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a->ip, mapped, sizeof mapped) == 0;
}

static bool is_link_local(const struct diw_addr *a)
{
	return a->ip[0] == 0xfe && (a->ip[1] & 0xc0) == 0x80;
}

static void open_all(const char *name, const char *group_name, uint32_t qps)
{
	size_t len = ((size_t)qps * DEPTH + 1) * bytes;

	MUST(diw_addr_parse(group_name, DIW_GROUP_PORT, &group));
	MUST(diw_dev_open(name, NULL, &dev));
	MUST(diw_pd_alloc(dev, &pd));
	mem = calloc(1, len);
	MUST(diw_mr_reg(pd, mem, len, DIW_ACCESS_LOCAL_WRITE, &mr));
	MUST(diw_cq_create(dev, 4096, NULL, NULL, &cq));
	MUST(diw_cq_create(dev, 64, NULL, NULL, &scq));
}

static void recv_into(struct diw_qp *qp, uint64_t slot)
{
	struct diw_sge sge = { mem + slot * bytes, bytes, mr->stag };

	MUST(diw_post_recv(qp, &(struct diw_recv_wr){ .wr_id = slot, .sge = &sge, .num_sge = 1 }, NULL));
}

static struct diw_qp *open_qp(int i, bool any)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_dev_info info;
	struct diw_qp *qp;

	attr.send_cq = scq;
	attr.recv_cq = cq;
	attr.dgram.qkey = QKEY;
	attr.dgram.any_addr = any;
	MUST(diw_dev_query(dev, &info));
	for (int k = 0; k < info.naddrs && !any; k++)
		if (is_v4(&info.addrs[k]) == is_v4(&group) && (is_v4(&group) || !is_link_local(&info.addrs[k])))
			attr.dgram.local = info.addrs[k];
	MUST(diw_qp_create(pd, &attr, &qp));
	for (uint32_t n = 0; n < DEPTH; n++)
		recv_into(qp, (uint64_t)i * DEPTH + n);
	return qp;
}

static void send_to(struct diw_qp *qp, const struct diw_addr *dst, void *data, uint32_t len)
{
	struct diw_sge sge = { data, len, mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND, .flags = DIW_SEND_SIGNALED,
				  .dst.addr = *dst, .qkey = QKEY };
	struct diw_wc wc;

	MUST(diw_post_send(qp, &wr, NULL));
	if (diw_cq_wait(scq, &wc, 1, PATIENCE) != 1 || wc.status)
		must(-1, "send");
}

static bool whole(const uint8_t *p, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)(i * 3 >> 2))
			return false;
	return true;
}

/* Helps to find out where a message was lost. */
static void tell_counters(struct diw_qp *qp)
{
	uint64_t v[256];
	int n = diw_qp_counters(qp, v, 256);

	for (int i = 0; i < n; i++)
		if (v[i])
			printf("%s=%llu ", diw_counter_name(i), (unsigned long long)v[i]);
	puts("");
}

static int listen_to(uint32_t count, int nqps, bool any)
{
	struct diw_qp *qp[MAX_QPS];
	uint32_t good = 0, bad = 0, all = count * (uint32_t)nqps;
	struct diw_wc wc;

	for (int i = 0; i < nqps; i++) {
		qp[i] = open_qp(i, any);
		MUST(diw_qp_attach(qp[i], &group));
	}
	puts("ready");
	fflush(stdout);
	while (good + bad <= all && diw_cq_wait(cq, &wc, 1, good + bad < all ? PATIENCE : QUIET) == 1) {
		if (wc.byte_len == bytes && whole(mem + wc.wr_id * bytes, bytes))
			good++;
		else
			bad++;
		recv_into(wc.qp, wc.wr_id);
		send_to(wc.qp, &wc.src, mem + wc.wr_id * bytes, 8);
	}
	for (int i = 0; i < nqps; i++)
		tell_counters(qp[i]);
	printf("{\"good\":%u,\"bad\":%u}\n", good, bad);
	for (int i = 0; i < nqps; i++)
		MUST(diw_qp_destroy(qp[i]));
	return 0;
}

static int send_all(uint32_t count, uint32_t want, bool any)
{
	struct diw_qp *qp = open_qp(0, any);
	struct diw_addr seen[MAX_QPS];
	uint32_t answers = 0, nseen = 0, i;
	uint8_t *data = mem + DEPTH * bytes;
	struct diw_wc wc;

	for (i = 0; i < bytes; i++)
		data[i] = (uint8_t)(i * 3 >> 2);
	for (uint32_t n = 0; n < count; n++) {
		send_to(qp, &group, data, bytes);
		while (answers < (n + 1) * (want / count) && diw_cq_wait(cq, &wc, 1, PATIENCE) == 1) {
			answers++;
			for (i = 0; i < nseen && memcmp(&seen[i], &wc.src, sizeof wc.src) != 0; i++)
				;
			if (i == nseen && nseen < MAX_QPS)
				seen[nseen++] = wc.src;
			recv_into(qp, wc.wr_id);
		}
	}
	printf("{\"answers\":%u,\"from\":%u}\n", answers, nseen);
	MUST(diw_qp_destroy(qp));
	return 0;
}

int main(int argc, char **argv)
{
	bool any = argc == 8 && strcmp(argv[7], "any") == 0;
	int last = argc > 6 ? atoi(argv[6]) : -1;

	if (last < 0 || (argc == 8 && !any))
		return 2;
	bytes = (uint32_t)atoi(argv[5]);
	if (strcmp(argv[1], "listen") == 0 && last <= MAX_QPS) {
		open_all(argv[2], argv[3], (uint32_t)last);
		return listen_to((uint32_t)atoi(argv[4]), last, any);
	}
	open_all(argv[2], argv[3], 1);
	return send_all((uint32_t)atoi(argv[4]), (uint32_t)last, any);
}
