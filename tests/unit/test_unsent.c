/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that the kernel refuses: the request to which they belong fails, and no other. */
#include <errno.h>
#include <netinet/in.h>

#include "base/wire.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"
#include "verbs/qp.h"

#define SEGMENT 1000u                 /* MULPDU of the queue pairs that segment messages */
#define LONG (10 * SEGMENT)
#define ANY -1

static struct kit k;
static struct end a, b, c;
static int refuse_errno;
static int refuse_opcode;             /* only datagrams with this opcode */
static int refuse_port;               /* only datagrams to this port */
static int refuse_mo;                 /* only datagrams with this MO; or ANY */
static int refuse_times, refuse_after;       /* how many; after how many others */

static const uint8_t *first_byte(const struct msghdr *m)
{
	const struct iovec *v = m->msg_iov;

	while (!v->iov_len)
		v++;
	return v->iov_base;
}

static int port_of(const struct msghdr *m)
{
	const struct sockaddr_in *sin = m->msg_name;

	return sin ? ntohs(sin->sin_port) : 0;
}

/* Conditions on single datagrams require that they are sent one by one. */
static int refuse(const struct msghdr *m, int call)
{
	const uint8_t *p = first_byte(m);
	bool tagged = p[0] & 0x80;

	(void)call;
	if (refuse_opcode != ANY && (p[1] & 0xf) != refuse_opcode)
		return 0;
	if (refuse_port != ANY && port_of(m) != refuse_port)
		return 0;
	if (refuse_mo != ANY) {
		if (kernel_gso_of(m))
			return EIO;
		if (diw_get32(p + (tagged ? 24 : 14)) != (uint32_t)refuse_mo)
			return 0;
	}
	if (refuse_after > 0) {
		refuse_after--;
		return 0;
	}
	if (refuse_times == 0)
		return 0;
	refuse_times--;
	return refuse_errno;
}

static void refuse_all(int err)
{
	refuse_errno = err;
	refuse_opcode = refuse_port = refuse_mo = refuse_times = ANY;
	refuse_after = 0;
	kernel_refuse = refuse;
}

static void open_ends(void)
{
	struct diw_qp_attr attr;

	kit_open(&k, DIW_PROGRESS_INLINE);
	end_attr(&attr);
	attr.mulpdu = SEGMENT;
	end_open(&a, &k, &attr, 64);
	end_open(&b, &k, NULL, 64);
	end_attr(&attr);
	attr.dgram.read_timeout_ns = KIT_LIMIT; /* a busy machine may take longer than the measured round trips say */
	end_open(&c, &k, &attr, 64);
	refuse_all(EPERM);
	kernel_refuse = NULL;
}

static void close_ends(void)
{
	kernel_refuse = NULL;
	end_close(&a);
	end_close(&b);
	end_close(&c);
	kit_close(&k);
}

static struct diw_wc next_wc(struct end *e)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(e->scq, &wc, 1, KIT_LIMIT), 1);
	return wc;
}

static void is_sent(struct end *e)
{
	struct diw_wc wc = next_wc(e);

	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_uint_eq(wc.errnum, 0);
}

static void is_unsent(struct end *e, int err, int opcode)
{
	struct diw_wc wc = next_wc(e);

	ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str(DIW_WC_LOC_QP_OP_ERR));
	ck_assert_uint_eq(wc.errnum, err);
	ck_assert_uint_eq(wc.fault, 0);
	ck_assert_uint_eq(wc.byte_len, 0);
	ck_assert_uint_eq(wc.nranges, 0);
	ck_assert_int_eq(wc.opcode, opcode);
}

static void nothing_more(struct end *e)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(e->scq, &wc, 1, 0), 0);
}

static void arrives(struct end *e, uint32_t len)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(e->rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, len);
}

/* Everything works as before. */
static void goes_on(void)
{
	kernel_refuse = NULL;
	ck_assert_int_eq(end_recv(&b, 0, LONG, 0), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, LONG, DIW_SEND_SIGNALED), 0);
	is_sent(&a);
	arrives(&b, LONG);
	nothing_more(&a);
}

START_TEST(sends)
{
	static const int errs[] = { EPERM, ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL, EMSGSIZE };
	struct diw_qp_error e;

	refuse_all(errs[_i]);
	for (unsigned flags = 0; flags <= DIW_SEND_SIGNALED; flags += DIW_SEND_SIGNALED)
		for (uint32_t len = 0; len <= LONG; len += LONG) {
			ck_assert_int_eq(end_send(&a, &b, 0, len, flags), 0);
			is_unsent(&a, errs[_i], DIW_WC_SEND);
			ck_assert_int_eq(end_write(&a, &b, 0, len, flags), 0);
			is_unsent(&a, errs[_i], DIW_WC_WRITE_RECORD);
		}
	ck_assert_int_eq(diw_qp_error_get(a.qp, &e), 0);
	ck_assert_int_eq(e.errnum, errs[_i]);
	ck_assert(!e.remote);
	goes_on();
}
END_TEST

/* A single lost segment in the middle is enough. The rest is sent nevertheless, since part of a Write-Record is
 * useful. */
START_TEST(middle_segment)
{
	struct diw_wc wc;
	uint32_t first, lost;

	refuse_all(EPERM);
	refuse_mo = 0;
	ck_assert_int_eq(end_write(&a, &b, 0, LONG, DIW_SEND_SIGNALED), 0);
	is_unsent(&a, EPERM, DIW_WC_WRITE_RECORD);
	ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, KIT_LIMIT), 1);
	first = wc.mo;
	ck_assert_uint_gt(first, 0);
	ck_assert_uint_eq(wc.byte_len, LONG - first);
	refuse_mo = (int)(5 * first);
	ck_assert_int_eq(end_write(&a, &b, 0, LONG, 0), 0);
	is_unsent(&a, EPERM, DIW_WC_WRITE_RECORD);
	ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_uint_eq(wc.nranges, 2);
	ck_assert_uint_eq(wc.byte_len, LONG - first);
	diw_wc_release(&wc);
	lost = end_counter(&a, "tx_error");
	ck_assert_uint_eq(lost, 2);
	ck_assert_int_eq(end_recv(&b, 0, LONG, 0), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, LONG, DIW_SEND_SIGNALED), 0);
	is_unsent(&a, EPERM, DIW_WC_SEND);
	ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, 0), 0);
	goes_on();
}
END_TEST

/* Of requests that leave in one run, those to one peer are refused. */
START_TEST(others_go)
{
	refuse_all(EPERM);
	refuse_port = b.addr.port;
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(end_recv(&c, 0, 64, 0), 0);
	for (uint32_t i = 0; i < 16; i++)
		ck_assert_int_eq(end_send(&a, i / 2 % 2 ? &c : &b, i, 64,
					  DIW_SEND_SIGNALED | (i < 15 ? DIW_SEND_MORE : 0)), 0);
	for (uint32_t i = 0; i < 16; i++) {
		struct diw_wc wc = next_wc(&a);

		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_int_eq(wc.status, i / 2 % 2 ? DIW_WC_SUCCESS : DIW_WC_LOC_QP_OP_ERR);
	}
	for (int i = 0; i < 8; i++)
		arrives(&c, 64);
	goes_on();
}
END_TEST

/* Messages that leave in one super-buffer, and one by one in the end. */
START_TEST(one_of_many)
{
	refuse_all(EPERM);
	refuse_mo = 0;
	refuse_after = 5;
	refuse_times = 2;                       /* the second refusal of the kernel is final */
	for (uint32_t i = 0; i < 16; i++)
		ck_assert_int_eq(end_recv(&b, 0, 64, 0), 0);
	for (uint32_t i = 0; i < 16; i++)
		ck_assert_int_eq(end_send(&a, &b, i, 64, DIW_SEND_SIGNALED | (i < 15 ? DIW_SEND_MORE : 0)), 0);
	for (uint32_t i = 0; i < 15; i++)
		arrives(&b, 64);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, 0), 0);
	arrives(&b, 64);
	for (uint32_t i = 0; i < 16; i++)
		ck_assert_int_eq(next_wc(&a).status, i == 5 ? DIW_WC_LOC_QP_OP_ERR : DIW_WC_SUCCESS);
	goes_on();
}
END_TEST

static int post_read(uint32_t len, unsigned flags)
{
	struct diw_sge sge = { k.mem, len, k.mr->stag };
	struct diw_send_wr wr = { .wr_id = 7, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_READ, .flags = flags,
				  .dst.addr = b.addr, .stag = k.mr->stag, .to = k.mr->to + KIT_SIZE / 2,
				  .timeout_ns = 2 * KIT_LIMIT };

	return diw_post_send(a.qp, &wr, NULL);
}

/* The Read fails at once, not at its timeout. */
START_TEST(reads)
{
	struct diw_qp_info info;

	refuse_all(EHOSTUNREACH);
	refuse_opcode = 1;
	for (unsigned flags = 0; flags <= DIW_SEND_SIGNALED; flags += DIW_SEND_SIGNALED) {
		ck_assert_int_eq(post_read(100, flags), 0);
		is_unsent(&a, EHOSTUNREACH, DIW_WC_READ);
	}
	/* the request that is sent behind the proof */
	refuse_after = 1;
	ck_assert_int_eq(post_read(LONG, DIW_SEND_SIGNALED), 0);
	is_unsent(&a, EHOSTUNREACH, DIW_WC_READ);
	ck_assert_uint_eq(end_counter(&a, "proof_tx"), 1);
	ck_assert_int_eq(diw_qp_query(a.qp, &info), 0);
	ck_assert_uint_eq(info.reads_open, 0);
	kernel_refuse = NULL;
	ck_assert_int_eq(post_read(LONG, DIW_SEND_SIGNALED), 0);
	is_sent(&a);
	goes_on();
}
END_TEST

/* Reads that fill a super-buffer are refused while the last of them is being posted. */
START_TEST(many_reads)
{
	refuse_all(EPERM);
	for (uint32_t i = 0; i < 128; i++)
		ck_assert_int_eq(post_read(10, DIW_SEND_SIGNALED | (i < 127 ? DIW_SEND_MORE : 0)), 0);
	for (uint32_t i = 0; i < 128; i++)
		is_unsent(&a, EPERM, DIW_WC_READ);
	goes_on();
}
END_TEST

/* An absent peer, and ICMP messages, are no error of a request. */
START_TEST(nobody_there)
{
	struct diw_qp_error e;
	struct end gone = { .k = &k };

	end_open(&gone, &k, NULL, 4);
	end_close(&gone);
	for (int i = 0; i < 1200; i++) {        /* and by the socket that is connected to it then */
		ck_assert_int_eq(end_send(&a, &gone, 0, 64, DIW_SEND_SIGNALED), 0);
		is_sent(&a);
	}
	ck_assert_int_eq(diw_qp_error_get(a.qp, &e), 0);
	ck_assert_int_eq(e.errnum, ECONNREFUSED);
	ck_assert(e.remote);
	refuse_all(ECONNREFUSED);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	is_sent(&a);
	/* An ICMP error for which the error queue had no room is reported once. */
	refuse_all(EHOSTUNREACH);
	refuse_times = 1;
	ck_assert_int_eq(end_recv(&b, 0, LONG, 0), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	is_sent(&a);
	arrives(&b, 64);
	goes_on();
}
END_TEST

/* A full socket refuses nothing: the request completes when it has left, or cannot. */
START_TEST(full_socket)
{
	static const int errs[] = { ENOBUFS, EAGAIN };

	refuse_all(errs[_i]);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	nothing_more(&a);
	ck_assert_int_eq(end_recv(&b, 0, LONG, 0), 0);
	kernel_refuse = NULL;
	is_sent(&a);
	arrives(&b, 64);
	refuse_all(errs[_i]);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	nothing_more(&a);
	refuse_errno = EPERM;
	is_unsent(&a, EPERM, DIW_WC_SEND);
	goes_on();
	/* Requests that have not left are flushed. */
	refuse_all(errs[_i]);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	nothing_more(&a);
	ck_assert_int_eq(diw_abort(a.qp), 0);
	ck_assert_int_eq(next_wc(&a).status, DIW_WC_FLUSHED);
}
END_TEST

/* Datagrams that wait for room in the socket do not leave after their queue pair was reset, in error (_i 1) or not. */
START_TEST(full_and_reset)
{
	refuse_all(EAGAIN);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	nothing_more(&a);
	if (_i) {
		ck_assert_int_eq(diw_abort(a.qp), 0);
		for (int i = 0; i < 3; i++)
			ck_assert_int_eq(next_wc(&a).status, DIW_WC_FLUSHED);
	}
	ck_assert_int_eq(diw_qp_reset(a.qp), 0);
	kernel_refuse = NULL;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(end_recv(&b, 0, LONG, 0), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 65, DIW_SEND_SIGNALED), 0);
	is_sent(&a);
	arrives(&b, 65);
	nothing_more(&a);
	ck_assert_int_eq(end_send(&a, &b, 0, 66, DIW_SEND_SIGNALED), 0);
	is_sent(&a);
	arrives(&b, 66);
}
END_TEST

/* A program that asks for no completions, and polls none, is not blocked by those of failed requests. */
START_TEST(full_cq)
{
	struct diw_qp_info info;
	struct diw_wc wc;
	int n = 0;

	refuse_all(EPERM);
	refuse_port = b.addr.port;
	for (int i = 0; i < 300; i++)
		ck_assert_int_eq(end_send(&a, &b, 0, 64, 0), 0);
	ck_assert_int_eq(end_recv(&c, 0, 64, 0), 0);
	ck_assert_int_eq(end_send(&a, &c, 0, 64, 0), 0);
	arrives(&c, 64);
	ck_assert_int_eq(diw_qp_query(a.qp, &info), 0);
	ck_assert_uint_eq(info.sq_pending, 0);
	while (diw_cq_poll(a.scq, &wc, 1, 0) == 1) {
		ck_assert_int_eq(wc.status, DIW_WC_LOC_QP_OP_ERR);
		n++;
	}
	ck_assert_int_eq(n, (int)diw_cq_depth(a.scq));
	/* A program that asks for completions gets each. */
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(end_send(&a, &b, 0, 64, DIW_SEND_SIGNALED), 0);
	for (int i = 0; i < 100; i++)
		is_unsent(&a, EPERM, DIW_WC_SEND);
	goes_on();
}
END_TEST

/* An answer to another peer's Read is refused between two parts of a message: the message is not affected. */
START_TEST(between)
{
	struct diw_qp_attr attr;
	struct diw_wc wc;
	struct end slow;

	end_attr(&attr);
	attr.mulpdu = SEGMENT;
	attr.rate_limit = 20 << 20;
	attr.rate_burst = 64 << 10;             /* so that it takes many runs */
	end_open(&slow, &k, &attr, 64);
	ck_assert_int_eq(end_read(&c, &slow, 0, 1000), 0);      /* this proves the address */
	ck_assert_int_eq(diw_cq_poll(c.scq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	refuse_all(EPERM);
	refuse_port = c.addr.port;
	ck_assert_int_eq(end_recv(&b, 0, 2 << 20, 0), 0);
	ck_assert_int_eq(end_send(&slow, &b, 0, 2 << 20, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(end_read(&c, &slow, 0, 100000), 0);
	while (end_counter(&slow, "tx_error") < 50)
		nothing_more(&slow);
	is_sent(&slow);
	end_close(&slow);
}
END_TEST

START_TEST(uc)
{
	static const enum diw_wr_opcode opcodes[] = { DIW_WR_SEND, DIW_WR_WRITE };
	static const int wcs[] = { DIW_WC_SEND, DIW_WC_WRITE };
	struct diw_sge sge = { k.mem, LONG, k.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = opcodes[_i], .flags = DIW_SEND_SIGNALED,
				  .stag = k.mr->stag, .to = k.mr->to };
	struct diw_qp_attr attr;
	struct end e;

	end_attr(&attr);
	attr.type = DIW_QP_UC;
	attr.mulpdu = SEGMENT;
	attr.dgram.peer = b.addr;
	end_open(&e, &k, &attr, 16);
	refuse_all(EPERM);
	ck_assert_int_eq(diw_post_send(e.qp, &wr, NULL), 0);
	is_unsent(&e, EPERM, wcs[_i]);
	refuse_opcode = opcodes[_i] == DIW_WR_SEND ? 3 : 0;
	refuse_after = 3;
	refuse_times = 2;
	refuse_mo = 0;
	for (int i = 0; i < 8; i++) {
		ck_assert_int_eq(diw_post_send(e.qp, &wr, NULL), 0);
		if (i == 3)
			is_unsent(&e, EPERM, wcs[_i]);
		else
			is_sent(&e);
	}
	end_close(&e);
}
END_TEST

/* The MTU of a path becomes smaller than that of the interface: the next message is cut, although it would fit the
 * interface. */
START_TEST(smaller_path)
{
	uint64_t sent;

	refuse_all(EMSGSIZE);
	refuse_times = 1;
	kernel_mtu = 1500;
	ck_assert_int_eq(end_send(&b, &c, 0, 3000, DIW_SEND_MORE), 0);
	ck_assert_int_eq(end_send(&b, &c, 0, 3000, 0), 0);
	ck_assert_uint_eq(b.qp->c->tx_emsgsize, 1);
	sent = b.qp->c->tx_segments;
	ck_assert_uint_eq(sent, 2);
	ck_assert_int_eq(end_send(&b, &c, 0, 1000, 0), 0);
	ck_assert_uint_eq(b.qp->c->tx_segments, sent + 1);
	ck_assert_int_eq(end_send(&b, &c, 0, 3000, 0), 0);
	ck_assert_uint_eq(b.qp->c->tx_segments, sent + 4);
	kernel_mtu = 0;
}
END_TEST

Suite *suite_unsent(void)
{
	Suite *s = suite_create("unsent");
	TCase *t = tcase_create("unsent");

	tcase_add_checked_fixture(t, open_ends, close_ends);
	tcase_add_loop_test(t, sends, 0, 6);
	tcase_add_test(t, middle_segment);
	tcase_add_test(t, others_go);
	tcase_add_test(t, one_of_many);
	tcase_add_test(t, reads);
	tcase_add_test(t, many_reads);
	tcase_add_test(t, nobody_there);
	tcase_add_loop_test(t, full_socket, 0, 2);
	tcase_add_loop_test(t, full_and_reset, 0, 2);
	tcase_add_test(t, full_cq);
	tcase_add_test(t, smaller_path);
	tcase_add_test(t, between);
	tcase_add_loop_test(t, uc, 0, 2);
	suite_add_tcase(s, t);
	return s;
}
