/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams without CRC: only between ends of one address that both agree (docs/ud-profile.md, 18.1). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "llp/udp.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define HALF (KIT_SIZE / 2)
#define LEN 20000u
#define MANY 40u

static struct kit k;
static struct end a, b;

/* CRC: the value of DIWARP_CRC; NULL: not set. */
static void end_open_in(struct end *e, struct kit *kit, const char *ip, const char *crc)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.type = DIW_QP_RD;
	attr.rq_depth = attr.sq_depth = MANY;
	ck_assert_int_eq(diw_addr_parse(ip, 0, &attr.dgram.local), 0);
	ck_assert_int_eq(crc ? setenv("DIWARP_CRC", crc, 1) : unsetenv("DIWARP_CRC"), 0);
	end_open(e, kit, &attr, 2 * MANY);
	unsetenv("DIWARP_CRC");
}

static void end_open_at(struct end *e, const char *ip, const char *crc)
{
	end_open_in(e, &k, ip, crc);
}

static void open_ends(const char *ip_b, const char *crc_a, const char *crc_b)
{
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open_at(&a, "127.0.0.1", crc_a);
	end_open_at(&b, ip_b, crc_b);
	for (uint32_t i = 0; i < HALF; i++)
		k.mem[i] = (uint8_t)(i * 7 + i / 251);
}

static void close_ends(void)
{
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}

/* MANY messages, which arrive as they were sent. */
static void exchange(struct end *from, struct end *to)
{
	struct diw_wc wc;

	memset(k.mem + HALF, 0, MANY * LEN);
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(end_recv(to, HALF + i * LEN, LEN, i), 0);
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(end_send(from, to, i * LEN, LEN, DIW_SEND_SIGNALED), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_int_eq(diw_cq_poll(to->rcq, &wc, 1, KIT_LIMIT), 1);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		ck_assert_int_eq(diw_cq_poll(from->scq, &wc, 1, KIT_LIMIT), 1);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	}
	ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, MANY * LEN), 0);
}

static const struct { const char *ip, *crc_a, *crc_b; bool bare; } cases[] = {
	{ "127.0.0.1", NULL, NULL, true },
	{ "127.0.0.1", "off", "auto", true },
	{ "127.0.0.1", "on", NULL, false },
	{ "127.0.0.1", NULL, "on", false },
	{ "127.0.0.2", NULL, NULL, false },
};

START_TEST(agreed)
{
	open_ends(cases[_i].ip, cases[_i].crc_a, cases[_i].crc_b);
	exchange(&a, &b);
	exchange(&b, &a);
	ck_assert_int_eq(end_counter(&a, "rd_bare") > 0, cases[_i].bare);
	ck_assert_int_eq(end_counter(&b, "rd_bare") > 0, cases[_i].bare);
	ck_assert_uint_eq(end_counter(&a, "rx_crc") + end_counter(&b, "rx_crc"), 0);
	close_ends();
}
END_TEST

/* An impairment that is set later damages datagrams: these are noticed, in both directions. */
START_TEST(impaired_later)
{
	open_ends("127.0.0.1", NULL, NULL);
	exchange(&a, &b);
	ck_assert_uint_gt(end_counter(&a, "rd_bare"), 0);
	ck_assert_int_eq(diw_qp_impair(b.qp, "tx.corrupt=20%,rx.corrupt=20%,seed=5", NULL, 0), 0);
	exchange(&a, &b);
	exchange(&b, &a);
	ck_assert_uint_gt(end_counter(&a, "rx_crc"), 0);
	ck_assert_uint_gt(end_counter(&b, "rx_crc"), 0);
	close_ends();
}
END_TEST

/* A datagram of a plain socket at IP, with LEN where its CRC would be. */
static void stray(const char *ip, uint8_t len)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(b.addr.port) };
	struct sockaddr_in from = { .sin_family = AF_INET };
	uint8_t p[64] = { 0x02, [60] = len };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	inet_pton(AF_INET, ip, &from.sin_addr);
	inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	ck_assert_int_eq(sendto(fd, p, sizeof p, 0, (struct sockaddr *)&to, sizeof to), sizeof p);
	close(fd);
}

/* From the own address it is of no association; from another, or where CRCs are wanted, it is damaged. */
START_TEST(without_agreement)
{
	open_ends("127.0.0.1", NULL, _i ? "on" : NULL);
	stray("127.0.0.1", 64);
	end_until(&b, _i ? "rx_crc" : "rd_stray", 1);
	stray("127.0.0.2", 64);
	end_until(&b, "rx_crc", _i ? 2 : 1);
	close_ends();
}
END_TEST

/* ---- Super-buffers whose segment size is lost ---- */

#define LONE 5000                    /* far more lone datagrams than llp/udp.c waits for */
#define BURST 8u
#define SMALL 64u

static struct kit other;             /* of b */

/* Between the end of GRO and the look at the socket, which finds it empty, a processor delivers a super-buffer. */
static void deliver_late(int fd)
{
	struct diw_sge sge[BURST];
	struct diw_send_wr wr[BURST];
	struct sockaddr_in own;
	socklen_t len = sizeof own;
	struct diw_wc wc;
	uint64_t before;
	int gro = 1;

	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	if (ntohs(own.sin_port) != b.addr.port) {        /* a looks at its socket, with its device's lock */
		kernel_peek = deliver_late;
		return;
	}
	before = end_counter(&a, "rd_bare");
	ck_assert_int_eq(setsockopt(fd, SOL_UDP, UDP_GRO, &gro, sizeof gro), 0);
	for (uint32_t i = 0; i < BURST; i++) {
		sge[i] = (struct diw_sge){ k.mem + i * SMALL, SMALL, k.mr->stag };
		wr[i] = (struct diw_send_wr){ .opcode = DIW_WR_SEND, .sge = &sge[i], .num_sge = 1,
					      .dst.addr = b.addr, .next = i + 1 < BURST ? &wr[i + 1] : NULL };
	}
	ck_assert_int_eq(diw_post_send(a.qp, wr, NULL), 0);
	for (int ms = 0; ms < KIT_LIMIT_MS && end_counter(&a, "rd_bare") < before + BURST; ms++)
		diw_cq_poll(a.scq, &wc, 1, DIW_MS);
	ck_assert_uint_ge(end_counter(&a, "rd_bare"), before + BURST);
	gro = 0;
	ck_assert_int_eq(setsockopt(fd, SOL_UDP, UDP_GRO, &gro, sizeof gro), 0);
}

static void comes(uint32_t len)
{
	struct diw_wc wc;
	int got = 0;

	for (int ms = 0; ms < KIT_LIMIT_MS && !got; ms++) {
		diw_cq_poll(a.scq, &wc, 1, 0);
		got = diw_cq_poll(b.rcq, &wc, 1, DIW_MS);
	}
	ck_assert_int_eq(got, 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, len);
}

/* The super-buffer is no message: its datagrams are sent again. */
START_TEST(joined)
{
	struct diw_wc wc;

	setenv("DIWARP_LLP", "udp", 1);         /* io_uring keeps GRO */
	if (!diw_udp_offload().gro || !diw_udp_offload().gso)
		return;
	kit_open(&k, DIW_PROGRESS_INLINE);
	kit_open(&other, DIW_PROGRESS_INLINE);
	end_open_at(&a, "127.0.0.1", NULL);
	end_open_in(&b, &other, "127.0.0.1", NULL);
	kernel_peek = deliver_late;
	for (int i = 0; i < LONE && kernel_peek; i++) {
		ck_assert_int_eq(end_recv(&b, 0, HALF, 0), 0);
		ck_assert_int_eq(end_send(&a, &b, 0, SMALL, 0), 0);
		comes(SMALL);
		ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, 0), 0); /* acknowledges: no probe is the second one */
		ck_assert_int_eq(diw_cq_poll(a.scq, &wc, 1, 50 * DIW_US), 0);
		ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, 0), 0);
	}
	ck_assert_ptr_null(kernel_peek);
	ck_assert_uint_gt(end_counter(&a, "rd_bare"), BURST);
	for (uint32_t i = 0; i < BURST; i++) {
		ck_assert_int_eq(end_recv(&b, 0, HALF, 0), 0);
		comes(SMALL);
	}
	ck_assert_uint_ge(end_counter(&b, "rx_crc"), 1);
	end_close(&a);
	end_close(&b);
	kit_close(&other);
	kit_close(&k);
}
END_TEST

Suite *suite_rd_bare(void)
{
	Suite *s = suite_create("rd_bare");
	TCase *t = tcase_create("rd_bare");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, agreed, 0, sizeof cases / sizeof *cases);
	tcase_add_test(t, impaired_later);
	tcase_add_loop_test(t, without_agreement, 0, 2);
	tcase_add_test(t, joined);
	suite_add_tcase(s, t);
	return s;
}
