/* SPDX-License-Identifier: BSD-2-Clause */
/* Group datagrams: the queue pairs that receive them, and their content. */
#include <check.h>
#include <errno.h>

#include "tests/unit/group_kit.h"
#include "tests/unit/unit.h"
#include "tests/wire/vectors.h"

static size_t unhex(const char *hex, uint8_t *out)
{
	size_t n = 0;
	char *end;

	for (; *hex; hex = end)
		if (hex[strspn(hex, " ")])
			out[n++] = (uint8_t)strtoul(hex, &end, 16);
		else
			break;
	return n;
}

/* Each member gets a copy, with the sender's own address, to which an answer goes. */
START_TEST(fan_out)
{
	struct diw_qp_attr attr;
	struct diw_wc wc;
	struct end stranger;

	attr_of(&attr);
	attr.dgram.qkey = QKEY + 1;
	end_open(&stranger, &k, &attr, 16);
	attach_all();
	ck_assert_int_eq(diw_qp_attach(stranger.qp, &group), 0);
	for (int i = 0; i < N; i++)
		recv_in(i, 10 + (uint64_t)i);
	send_group("to everybody");
	for (int i = 0; i < N; i++) {
		wc = expect(i, "to everybody");
		ck_assert_uint_eq(wc.wr_id, 10 + (uint64_t)i);
		ck_assert(diw_addr_eq(&wc.src, &from.addr));
		expect_none(i);
	}
	end_until(&stranger, "rx_qkey", 1);
	ck_assert_int_eq(end_recv(&from, 5 * AREA, AREA, 1), 0);
	memcpy(k.mem, "and back", 8);
	attr_of(&attr);
	ck_assert_int_eq(diw_qp_set_qkey(from.qp, 0), 0);
	ck_assert_int_eq(end_send(&to[0], &(struct end){ .k = &far, .addr = wc.src }, 0, 8, 0), 0);
	ck_assert_int_eq(diw_cq_wait(from.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_mem_eq(far.mem + 5 * AREA, "and back", 8);
	end_close(&stranger);
}
END_TEST

/* An attached sender receives its own datagrams, too. */
START_TEST(own)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_qp_attach(from.qp, &group), 0);
	ck_assert_int_eq(end_recv(&from, 0, AREA, 1), 0);
	send_group("echo");
	ck_assert_int_eq(diw_cq_wait(from.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert(diw_addr_eq(&wc.src, &from.addr));
}
END_TEST

/* Messages of many segments, super-buffers and their remainders; each queue pair reassembles for itself. */
START_TEST(long_messages)
{
	static const uint32_t mulpdu[] = { 0, 1400, 5000 };
	uint32_t len = 1 << 20;
	struct diw_qp_attr attr;
	struct diw_wc wc;

	end_close(&from);
	attr_of(&attr);
	attr.mulpdu = mulpdu[_i];
	end_open(&from, &far, &attr, 256);
	attach_all();
	for (uint32_t i = 0; i < len; i++)
		far.mem[4 * AREA + i] = (uint8_t)(i * 7 >> 3);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(end_recv(&to[i], (i + 3) << 20, len, i), 0);
	ck_assert_int_eq(post(DIW_WR_SEND, &group, len), 0);
	for (uint32_t i = 0; i < N; i++) {
		ck_assert_int_eq(diw_cq_wait(to[i].rcq, &wc, 1, KIT_LIMIT), 1);
		ck_assert_uint_eq(wc.byte_len, len);
		ck_assert_mem_eq(to[i].k->mem + ((i + 3) << 20), far.mem + 4 * AREA, len);
		ck_assert_uint_eq(end_counter(&to[i], "rx_payload"), len);
	}
	if (mulpdu[_i] == 1400)
		ck_assert_uint_lt(end_counter(&from, "tx_bursts"), end_counter(&from, "tx_datagrams") / 8);
}
END_TEST

/* The header in front of the message names the group. */
START_TEST(header)
{
	struct diw_qp_attr attr;
	struct diw_wc wc;
	struct end e;

	attr_of(&attr);
	attr.dgram.grh = true;
	end_open(&e, &k, &attr, 16);
	ck_assert_int_eq(diw_qp_attach(e.qp, &group), 0);
	ck_assert_int_eq(end_recv(&e, 0, AREA, 1), 0);
	send_group("x");
	ck_assert_int_eq(diw_cq_wait(e.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_uint_eq(wc.byte_len, 41);
	ck_assert_mem_eq(k.mem + 32, from.addr.ip + 12, 4);
	ck_assert_mem_eq(k.mem + 36, group.ip + 12, 4);
	ck_assert_int_eq(k.mem[40], 'x');
	end_close(&e);
}
END_TEST

/* A Write-Record without the right to write, and a Read: both are counted, not executed and not answered. */
START_TEST(refused_of_group)
{
	struct diw_qp_error e;

	attach_all();
	memset(k.mem, 0x5a, 100);
	ck_assert_int_eq(post(DIW_WR_WRITE_RECORD, &group, 100), 0);
	end_until(&to[0], "rx_access", 1);      /* remote write does not imply group write */
	end_until(&to[2], "rx_stag", 1);
	ck_assert_int_eq(post(DIW_WR_READ, &group, 100), 0);
	for (int i = 0; i < N; i++) {
		end_until(&to[i], "rx_group", 1);
		ck_assert_uint_eq(end_counter(&to[i], "record_opened"), 0);
		ck_assert_uint_eq(end_counter(&to[i], "read_requests_rx"), 0);
		ck_assert_uint_eq(end_counter(&to[i], "error_tx"), 0);
	}
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(k.mem[i], 0x5a);
	ck_assert_int_eq(diw_qp_error_get(from.qp, &e), -EAGAIN);
	/* No receive is posted; the sender to a group is not told. */
	send_group("too early");
	end_until(&to[2], "rx_no_recv", 1);
	ck_assert_uint_eq(end_counter(&to[2], "error_tx"), 0);
}
END_TEST

#define STAG 0xc0de07u

static struct diw_mr *shared_region(struct kit *of, unsigned access, size_t len)
{
	struct diw_mr_attr attr = { .addr = of->mem + (2u << 20), .length = len, .use_iova = true, .iova = 0x1000,
				    .access = access | DIW_ACCESS_LOCAL_WRITE, .stag = STAG, .peer = &from.addr };
	struct diw_mr *mr;

	ck_assert_int_eq(diw_mr_reg_attr(of->pd, &attr, &mr), 0);
	ck_assert_uint_eq(mr->stag, STAG);
	return mr;
}

static int post_record(const struct diw_addr *dst, uint32_t len)
{
	struct diw_sge sge = { far.mem + 4 * AREA, len, far.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE_RECORD, .flags = DIW_SEND_IMM,
				  .imm = 77, .dst.addr = *dst, .qkey = QKEY, .stag = STAG, .to = 0x1000 };

	return diw_post_send(from.qp, &wr, NULL);
}

static void expect_record(int i, uint32_t len)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_wait(to[i].rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.opcode, DIW_WC_RECV_WRITE_RECORD);
	ck_assert_int_eq(wc.close, DIW_RECORD_COMPLETE);
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert_uint_eq(wc.imm, 77);
	ck_assert(diw_addr_eq(&wc.src, &from.addr));
	diw_wc_release(&wc);
}

/* The members share memory, which is read when all have completed. ThreadSanitizer sees no order through a socket,
 * between this read and the next record; it sees the lock of diw_qp_query(). */
static void expect_records(uint32_t len)
{
	struct diw_qp_info info;

	for (int i = 0; i < N; i++)
		expect_record(i, len);
	for (int i = 0; i < N; i++) {
		ck_assert_mem_eq(to[i].k->mem + (2u << 20), far.mem + 4 * AREA, len);
		ck_assert_int_eq(diw_qp_query(to[i].qp, &info), 0);
	}
}

/* One Write-Record into the memory of each member. No member answers, or asks the sender for a proof. */
START_TEST(write_records)
{
	static const uint32_t mulpdu[] = { 0, 1400, 5000 };
	uint32_t len = 300000;
	struct diw_qp_attr attr;
	struct diw_mr *mr[2];

	end_close(&from);
	attr_of(&attr);
	attr.mulpdu = mulpdu[_i];
	end_open(&from, &far, &attr, 256);
	attach_all();
	mr[0] = shared_region(&k, DIW_ACCESS_GROUP_WRITE, len);
	mr[1] = shared_region(&far, DIW_ACCESS_GROUP_WRITE, len);
	for (uint32_t i = 0; i < len; i++)
		far.mem[4 * AREA + i] = (uint8_t)(i * 5 >> 3);
	ck_assert_int_eq(post_record(&group, len), 0);
	expect_records(len);
	ck_assert_int_eq(post_record(&group, 10), 0);
	expect_records(10);
	ck_assert_int_eq(post_record(&group, len + 10), 0);     /* its end is out of bounds */
	for (int i = 0; i < N; i++) {
		end_until(&to[i], "rx_bounds", 1);
		ck_assert_uint_eq(end_counter(&to[i], "error_tx"), 0);
		ck_assert_uint_eq(end_counter(&to[i], "challenge_tx"), 0);
	}
	ck_assert_uint_eq(end_counter(&from, "rx_datagrams"), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(diw_mr_dereg(mr[i]), 0);
}
END_TEST

/* Group write and remote write are separate rights; a region may have both. */
START_TEST(rights)
{
	struct diw_mr *mr = shared_region(&k, DIW_ACCESS_GROUP_WRITE, 100);

	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), 0);
	ck_assert_int_eq(post_record(&to[0].addr, 100), 0);
	end_until(&to[0], "rx_access", 1);
	ck_assert_int_eq(post_record(&group, 100), 0);
	expect_record(0, 100);
	ck_assert_int_eq(diw_qp_set_access(to[0].qp, DIW_ACCESS_REMOTE_READ), 0);
	ck_assert_int_eq(post_record(&group, 100), 0);
	end_until(&to[0], "rx_access", 2);
	ck_assert_int_eq(diw_qp_set_access(to[0].qp, DIW_ACCESS_REMOTE_WRITE), 0);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	mr = shared_region(&k, DIW_ACCESS_GROUP_WRITE | DIW_ACCESS_REMOTE_WRITE, 100);
	ck_assert_int_eq(post_record(&group, 100), 0);
	expect_record(0, 100);
	ck_assert_int_eq(post_record(&to[0].addr, 100), 0);
	expect_record(0, 100);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
}
END_TEST

START_TEST(come_and_go)
{
	struct diw_addr second = named("239.192.71.4", 0), first = group;

	recv_in(0, 0);
	send_group("to nobody");
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), 0);
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &second), 0);
	ck_assert_int_eq(memberships(), 2);
	/* Attaching twice has the effect of attaching once. */
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), 0);
	ck_assert_int_eq(diw_qp_attach(to[1].qp, &group), 0);
	send_group("one");
	expect(0, "one");
	expect_none(0);
	recv_in(0, 0);
	second.port = DIW_GROUP_PORT;
	group = second;
	send_group("two");
	expect(0, "two");
	expect_none(1);
	ck_assert_int_eq(diw_qp_detach(to[0].qp, &first), 0);
	ck_assert_int_eq(diw_qp_detach(to[0].qp, &first), -EINVAL);
	ck_assert_int_eq(memberships(), 2);
	recv_in(0, 0);
	recv_in(1, 0);
	group = first;
	send_group("three");
	expect(1, "three");
	expect_none(0);
	end_close(&to[1]);
	to[1].qp = NULL;
	ck_assert_int_eq(memberships(), 1);
	ck_assert_int_eq(diw_qp_reset(to[0].qp), 0);
	recv_in(0, 0);
	group = second;
	send_group("four");
	expect(0, "four");
	ck_assert_int_eq(diw_qp_detach(to[0].qp, &second), 0);
	ck_assert_int_eq(memberships(), 0);
}
END_TEST

START_TEST(refused)
{
	static const char *const no[] = { "192.0.2.1", "255.255.255.255", "127.255.255.255", "::1", "2001:db8::1" };
	struct diw_qp_attr attr;
	struct diw_addr a;
	struct end e;
	int n, rc = 0;

	for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
		a = named(no[i], 0);
		ck_assert_int_eq(diw_qp_attach(to[0].qp, &a), -EINVAL);
		ck_assert_int_eq(diw_qp_detach(to[0].qp, &a), -EINVAL);
	}
	a = named(G, 4791);
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &a), -EINVAL);
	a = named("ff02::1234", 0);
	a.scope = 77;
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &a), -EINVAL);
	attr_of(&attr);
	attr.type = DIW_QP_UC;
	attr.dgram.peer = from.addr;
	end_open(&e, &k, &attr, 16);
	ck_assert_int_eq(diw_qp_attach(e.qp, &group), -EINVAL);
	end_close(&e);
	attr_of(&attr);
	attr.dgram.local.port = DIW_GROUP_PORT;
	attr.send_cq = attr.recv_cq = to[0].rcq;
	ck_assert_int_eq(diw_qp_create(k.pd, &attr, &e.qp), -EINVAL);
	/* The kernel's limit, and ours: existing memberships stay. */
	for (n = 0; rc == 0 && n < 1000; n++) {
		a = named("239.1.0.0", 0);
		a.ip[14] = (uint8_t)(n >> 8);
		a.ip[15] = (uint8_t)n;
		rc = diw_qp_attach(to[0].qp, &a);
	}
	ck_assert_int_eq(rc, -ENOBUFS);
	ck_assert_int_eq(memberships(), n - 1);
	for (n = 0, rc = 0; rc == 0 && n < 1000; n++) {
		a = named("ff15::1:0", 0);
		a.ip[14] = (uint8_t)(n >> 8);
		a.ip[15] = (uint8_t)n;
		rc = diw_qp_attach(to[2].qp, &a);
	}
	ck_assert_int_eq(rc, -ENOBUFS);
	ck_assert_int_le(n, DIW_MAX_GROUPS + 1);
	a.ip[14] = a.ip[15] = 0;
	ck_assert_int_eq(diw_qp_detach(to[2].qp, &a), 0);
	ck_assert_int_eq(diw_qp_attach(to[2].qp, &group), 0);
	recv_in(2, 0);
	send_group("still");
	expect(2, "still");
}
END_TEST

/* Another program has the port. */
START_TEST(taken)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(DIW_GROUP_PORT) };
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), -EADDRINUSE);
	close(fd);
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), 0);
}
END_TEST

/* Datagrams of other programs: the specification's vector is delivered, the others are counted. */
START_TEST(foreign)
{
	struct diw_addr near = named("127.0.0.1", DIW_GROUP_PORT);
	uint8_t v[64];
	size_t len = unhex(V13_GROUP_SEND, v);

	ck_assert_uint_eq(len, 41);
	for (int i = 0; i < 2; i++) {
		recv_in(i, 0);
		ck_assert_int_eq(diw_qp_attach(to[i].qp, &group), 0);
	}
	bare(&group, v, len, 1);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(expect(i, "to groups").msn, 0x01020307);
	v[30] ^= 1;
	bare(&group, v, len, 1);
	bare(&group, v, 3, 1);
	bare(&group, v, 0, 1);
	for (int i = 0; i < 2; i++) {
		end_until(&to[i], "rx_crc", 1);
		end_until(&to[i], "rx_short", 2);
	}
	/* A datagram to the port, but to no group of ours. */
	v[30] ^= 1;
	bare(&near, v, len, 2);
	end_until(&to[0], "rx_group_stray", 2);
	ck_assert_uint_eq(end_counter(&to[1], "rx_group_stray"), 0);
	ck_assert_uint_eq(end_counter(&to[1], "rx_datagrams"), 4);
}
END_TEST

/* The specification's Write-Record, from a sender to which the region is not bound. */
START_TEST(foreign_record)
{
	struct diw_mr_attr attr = { .addr = k.mem, .length = 100, .use_iova = true, .iova = 0x1000, .stag = STAG,
				    .access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_GROUP_WRITE };
	struct diw_mr *mr = shared_region(&k, DIW_ACCESS_GROUP_WRITE, 100);
	struct diw_wc wc;
	uint8_t v[64];
	size_t len = unhex(V13_GROUP_RECORD, v);

	ck_assert_uint_eq(len, 45);
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), 0);
	bare(&group, v, len, 1);
	end_until(&to[0], "rx_stag", 1);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	ck_assert_int_eq(diw_mr_reg_attr(k.pd, &attr, &mr), 0);
	bare(&group, v, len, 1);
	ck_assert_int_eq(diw_cq_wait(to[0].rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_uint_eq(wc.msn, 0x0a0b0c11);
	ck_assert_uint_eq(wc.byte_len, 9);
	ck_assert_mem_eq(k.mem, "to memory", 9);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
}
END_TEST

/* The kernel does not deliver groups to which no queue pair here is attached, even if another socket of the host has
 * joined. */
START_TEST(not_ours)
{
	struct diw_addr other = named("239.192.71.9", DIW_GROUP_PORT);
	char junk[500] = "";

	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), 0);
	ck_assert_int_eq(diw_qp_attach(to[2].qp, &other), 0);
	bare(&other, junk, sizeof junk, 200);
	end_until(&to[2], "rx_crc", 200);
	ck_assert_uint_eq(end_counter(&to[0], "rx_datagrams"), 0);
	ck_assert_uint_eq(end_counter(&to[0], "rx_group_stray"), 0);
}
END_TEST

Suite *suite_group(void)
{
	Suite *s = suite_create("group");
	TCase *tc = tcase_create("group");

	suite_add_tcase(s, tc);
	if (!kernel_can_own_network()) {
		printf("SKIP: group: no network namespace\n");
		return s;
	}
	tcase_set_timeout(tc, 20);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, fan_out);
	tcase_add_test(tc, own);
	tcase_add_loop_test(tc, long_messages, 0, 3);
	tcase_add_test(tc, header);
	tcase_add_test(tc, refused_of_group);
	tcase_add_loop_test(tc, write_records, 0, 3);
	tcase_add_test(tc, rights);
	tcase_add_test(tc, foreign_record);
	tcase_add_test(tc, come_and_go);
	tcase_add_test(tc, refused);
	tcase_add_test(tc, taken);
	tcase_add_test(tc, foreign);
	tcase_add_test(tc, not_ours);
	return s;
}
