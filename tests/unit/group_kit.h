/* SPDX-License-Identifier: BSD-2-Clause */
/* A sender and three queue pairs that may be attached to a group, on lo of a separate network namespace. */
#ifndef DIW_TESTS_GROUP_KIT_H
#define DIW_TESTS_GROUP_KIT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "tests/unit/kernel.h"
#include "tests/unit/verbs_kit.h"

#define G "239.192.71.3"
#define QKEY 0x1badcafeu
#define N 3
#define AREA 65536u                  /* of the kit's memory, for each queue pair */

static struct kit k, far;            /* two devices on lo: two sockets on the group port */
static struct end from, to[N];
static struct diw_addr group;        /* with the group port */

static __attribute__((unused)) struct diw_addr named(const char *ip, uint16_t port)
{
	struct diw_addr a;

	ck_assert_int_eq(diw_addr_parse(ip, port, &a), 0);
	return a;
}

static __attribute__((unused)) void attr_of(struct diw_qp_attr *attr)
{
	end_attr(attr);
	attr->dgram.qkey = QKEY;
}

/* to[0] and to[1] are on one device. */
static __attribute__((unused)) void setup(void)
{
	struct diw_qp_attr attr;

	ck_assert(kernel_own_network());
	attr_of(&attr);
	group = named(G, DIW_GROUP_PORT);
	kit_open(&k, DIW_PROGRESS_THREAD);
	kit_open(&far, DIW_PROGRESS_THREAD);
	for (int i = 0; i < N; i++)
		end_open(&to[i], i < 2 ? &k : &far, &attr, 256);
	attr.max_sge = 1;
	end_open(&from, &far, &attr, 256);
}

static __attribute__((unused)) void teardown(void)
{
	for (int i = 0; i < N; i++)
		if (to[i].qp)
			end_close(&to[i]);
	end_close(&from);
	kit_close(&far);
	kit_close(&k);
}

static __attribute__((unused)) void attach_all(void)
{
	for (int i = 0; i < N; i++)
		ck_assert_int_eq(diw_qp_attach(to[i].qp, &group), 0);
}

static __attribute__((unused)) int post(enum diw_wr_opcode opcode, const struct diw_addr *dst, uint32_t len)
{
	struct diw_sge sge = { far.mem + 4 * AREA, len, far.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = opcode, .dst.addr = *dst, .qkey = QKEY,
				  .stag = k.mr->stag, .to = k.mr->to, .timeout_ns = 50 * DIW_MS };

	return diw_post_send(from.qp, &wr, NULL);
}

static __attribute__((unused)) void send_group(const char *text)
{
	strcpy((char *)far.mem + 4 * AREA, text);
	ck_assert_int_eq(post(DIW_WR_SEND, &group, (uint32_t)strlen(text)), 0);
	end_sent(&from);
}

static __attribute__((unused)) void recv_in(int i, uint64_t wr_id)
{
	ck_assert_int_eq(end_recv(&to[i], (uint32_t)i * AREA, AREA, wr_id), 0);
}

static __attribute__((unused)) struct diw_wc expect(int i, const char *text)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_wait(to[i].rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, strlen(text));
	ck_assert_mem_eq(to[i].k->mem + (uint32_t)i * AREA, text, wc.byte_len);
	return wc;
}

static __attribute__((unused)) void expect_none(int i)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_wait(to[i].rcq, &wc, 1, 20 * DIW_MS), 0);
}

/* Sends as a program without this library does. */
static __attribute__((unused)) void bare(const struct diw_addr *dst, const void *data, size_t len, int n)
{
	struct sockaddr_storage ss;
	socklen_t sslen = diw_addr_to_sockaddr(dst, &ss);
	struct ip_mreqn m = { .imr_ifindex = 1 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &m, sizeof m), 0);
	while (n--)
		ck_assert_int_eq(sendto(fd, data, len, 0, (struct sockaddr *)&ss, sslen), (ssize_t)len);
	close(fd);
}

/* The number of groups of 239/8 that the kernel has joined on lo in this namespace. */
static __attribute__((unused)) int memberships(void)
{
	FILE *f = fopen("/proc/self/net/igmp", "r");
	char line[256];
	int n = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f))
		n += strncmp(line, "\t\t\t\t", 4) == 0 && strtoul(line, NULL, 16) % 256 == 239;
	fclose(f);
	return n;
}

#endif
