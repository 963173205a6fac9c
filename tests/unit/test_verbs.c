/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs on lo: their refusals, their limits, and their queries. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/kernel.h"
#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"
#include "verbs/diw_provider.h"
#include "verbs/qp.h"

static struct kit k;
static struct end a, b;

static void open_all(void) { kit_open_ends(&k, &a, &b); }
static void close_all(void) { kit_close_ends(&k, &a, &b); }

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* ---- Work requests ---- */

START_TEST(depth_one)
{
	struct diw_qp_attr attr;
	struct diw_wc wc;

	kit_open(&k, DIW_PROGRESS_INLINE);
	end_attr(&attr);
	attr.sq_depth = attr.rq_depth = 1;
	end_open(&a, &k, &attr, 1);
	end_open(&b, &k, &attr, 1);
	ck_assert_int_eq(end_recv(&b, 0, 64, 5), 0);
	ck_assert_int_eq(end_recv(&b, 0, 64, 6), -ENOMEM);
	/* The first completes, the second waits for room in the completion queue, the third for the second's place. */
	ck_assert_int_eq(end_send(&a, &b, 1, 8, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(end_send(&a, &b, 2, 8, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(end_send(&a, &b, 3, 8, DIW_SEND_SIGNALED), -ENOMEM);
	wc = rc_wc(a.scq);
	ck_assert_uint_eq(wc.wr_id, 1);
	wc = rc_wc(a.scq);
	ck_assert_uint_eq(wc.wr_id, 2);
	wc = rc_wc(b.rcq);
	ck_assert_uint_eq(wc.wr_id, 5);
	for (int i = 0; i < KIT_LIMIT_MS && !end_counter(&b, "rx_no_recv") && !end_counter(&b, "rx_cq_full"); i++)
		ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, (int64_t)DIW_MS), 0);      /* the second found no receive */
	ck_assert_uint_eq(end_counter(&b, "rx_no_recv") + end_counter(&b, "rx_cq_full"), 1);
	close_all();
}
END_TEST

/* Sixteen entries at each end, of odd and zero lengths, with different boundaries. */
START_TEST(sixteen_entries)
{
	struct diw_qp_attr attr;
	struct diw_sge from[16], to[16];
	struct diw_send_wr wr = { .sge = from, .num_sge = 16, .opcode = DIW_WR_SEND, .flags = DIW_SEND_SIGNALED };
	struct diw_recv_wr recv = { .sge = to, .num_sge = 16 };
	uint32_t f = 0, t = 0;

	kit_open(&k, DIW_PROGRESS_THREAD);
	end_attr(&attr);
	attr.max_sge = 16;
	end_open(&a, &k, &attr, 16);
	end_open(&b, &k, &attr, 16);
	for (uint32_t i = 0; i < KIT_SIZE / 2; i++)
		k.mem[i] = (uint8_t)(i * 31 + i / 251);
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t nf = i % 5 == 0 ? 0 : 1000 * i + 1, nt = i % 7 == 3 ? 0 : 12345 + i;

		from[i] = (struct diw_sge){ nf ? k.mem + f : NULL, nf, nf ? k.mr->stag : 0 };
		to[i] = (struct diw_sge){ nt ? k.mem + KIT_SIZE / 2 + t : NULL, nt, nt ? k.mr->stag : 0 };
		f += nf;
		t += nt;
	}
	ck_assert_uint_lt(f, t);
	wr.dst.addr = b.addr;
	ck_assert_int_eq(diw_post_recv(b.qp, &recv, NULL), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	ck_assert_uint_eq(rc_wc(b.rcq).byte_len, f);
	ck_assert_int_eq(memcmp(k.mem, k.mem + KIT_SIZE / 2, f), 0);
	/* The same as the sink of a Read. */
	memset(k.mem, 0, f);
	wr.opcode = DIW_WR_READ;
	wr.stag = k.mr->stag;
	wr.to = k.mr->to + KIT_SIZE / 2;
	ck_assert_int_eq(rc_wc(a.scq).opcode, DIW_WC_SEND);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	ck_assert_int_eq(rc_wc(a.scq).status, DIW_WC_SUCCESS);
	ck_assert_int_eq(memcmp(k.mem, k.mem + KIT_SIZE / 2, f), 0);
	close_all();
}
END_TEST

START_TEST(inline_data_is_copied)
{
	char text[129] = "the caller's own";
	struct diw_sge sge = { text, 128, 0 };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .flags = DIW_SEND_INLINE | DIW_SEND_MORE };

	open_all();
	wr.dst.addr = b.addr;
	ck_assert_int_eq(end_recv(&b, 0, 128, 0), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	memset(text, 'x', sizeof text);
	ck_assert_uint_eq(rc_wc(b.rcq).byte_len, 128);
	ck_assert_str_eq((char *)k.mem, "the caller's own");
	close_all();
}
END_TEST

/* Only signalled requests complete; an error always completes, and stops nothing. */
START_TEST(unsignalled)
{
	struct diw_sge wrong = { k.mem, 8, 0 };
	struct diw_send_wr wr = { .wr_id = 99, .sge = &wrong, .num_sge = 1, .opcode = DIW_WR_SEND };
	struct diw_wc wc;

	open_all();
	wrong = (struct diw_sge){ k.mem, 8, k.mr->stag ^ 1 };
	wr.dst.addr = b.addr;
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(end_recv(&b, 0, 64, i), 0);
	ck_assert_int_eq(end_send(&a, &b, 1, 8, 0), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	ck_assert_int_eq(end_send(&a, &b, 2, 8, DIW_SEND_SIGNALED), 0);
	wc = rc_wc(a.scq);
	ck_assert_uint_eq(wc.wr_id, 99);
	ck_assert_int_eq(wc.status, DIW_WC_LOC_PROT_ERR);
	wc = rc_wc(a.scq);
	ck_assert_uint_eq(wc.wr_id, 2);
	ck_assert_int_eq(diw_cq_wait(a.scq, &wc, 1, 0), 0);
	rc_wc(b.rcq);
	rc_wc(b.rcq);
	close_all();
}
END_TEST

/* ---- Waiting ---- */

START_TEST(timeouts)
{
	uint64_t begun;
	struct diw_wc wc;

	open_all();
	for (int polls = 0; polls < 2; polls++) {
		begun = diw_clock_ns();
		ck_assert_int_eq(polls ? diw_cq_poll(a.rcq, &wc, 1, 0) : diw_cq_wait(a.rcq, &wc, 1, 0), 0);
		ck_assert_int_eq(polls ? diw_cq_poll(a.rcq, &wc, 1, 20 * (int64_t)DIW_MS) :
				 diw_cq_wait(a.rcq, &wc, 1, 20 * (int64_t)DIW_MS), 0);
		ck_assert_uint_ge(diw_clock_ns() - begun, 20 * DIW_MS);
		ck_assert_uint_lt(diw_clock_ns() - begun, KIT_LIMIT);
	}
	close_all();
}
END_TEST

/* What a span took of the process. A wait takes three sleeps and two reads of a socket, however long it is. The threads
 * of ThreadSanitizer sleep 20 times a second, and its processor time depends on the machine: there the time only tells
 * whether a thread spins. */
struct cost {
	uint64_t sleeps, reads, cpu;
};

#define FEW 30                               /* a thread that wakes every 10 ms takes more in 300 ms */
#ifdef __SANITIZE_THREAD__
#define LITTLE (30 * DIW_MS)
#else
#define LITTLE (5 * DIW_MS)
#endif

static struct cost cost_now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (struct cost){ (uint64_t)u.ru_nvcsw, (uint64_t)atomic_load(&kernel_receives), cpu_ns() };
}

static void cost_since(struct cost *least, struct cost begun)
{
	struct cost now = cost_now();

	least->sleeps = diw_min64(least->sleeps, now.sleeps - begun.sleeps);
	least->reads = diw_min64(least->reads, now.reads - begun.reads);
	least->cpu = diw_min64(least->cpu, now.cpu - begun.cpu);
}

static bool cost_is_low(const struct cost *c) { return c->sleeps < FEW && c->reads < FEW && c->cpu < LITTLE; }

static void cost_check(const struct cost *c)
{
	ck_assert_uint_lt(c->sleeps, FEW);
	ck_assert_uint_lt(c->reads, FEW);
	ck_assert_uint_lt(c->cpu, LITTLE);
}

/* A process sleeps while its device is idle, or its thread waits for an event that does not come. */
START_TEST(idle_costs_nothing)
{
	struct cost begun, idle = { DIW_NEVER, DIW_NEVER, DIW_NEVER }, waits = idle;
	struct diw_wc wc;
	struct diw_event ev;

	open_all();
	ck_assert_int_eq(end_write(&a, &b, 0, 100000, DIW_SEND_SIGNALED), 0);   /* makes a source, which has timers */
	rc_wc(a.scq);
	rc_wc(b.rcq);
	sleep_ms(20);
	for (int i = 0; i < 10 && !(cost_is_low(&idle) && cost_is_low(&waits)); i++) {
		begun = cost_now();
		sleep_ms(300);
		cost_since(&idle, begun);
		begun = cost_now();
		ck_assert_int_eq(diw_cq_wait(b.rcq, &wc, 1, 300 * (int64_t)DIW_MS), 0);
		ck_assert_int_eq(diw_event_get(k.dev, &ev, 100 * (int64_t)DIW_MS), -EAGAIN);
		cost_since(&waits, begun);
	}
	cost_check(&idle);
	cost_check(&waits);
	close_all();
}
END_TEST

/* ---- Events ---- */

static void message(unsigned flags)
{
	uint64_t had = end_counter(&b, "rx_messages");

	ck_assert_int_eq(end_recv(&b, 0, 64, 0), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 8, flags), 0);
	end_until(&b, "rx_messages", had + 1);  /* by the progress thread */
}

/* The receives of b complete in a queue of its own, which has a channel. */
static void channel_open(struct diw_channel **ch, struct diw_cq **cq)
{
	struct diw_qp_attr attr;

	kit_open(&k, DIW_PROGRESS_THREAD);
	ck_assert_int_eq(diw_channel_create(k.dev, ch), 0);
	ck_assert_int_eq(diw_cq_create(k.dev, 16, *ch, &k, cq), 0);
	end_open(&a, &k, NULL, 16);
	end_attr(&attr);
	attr.recv_cq = *cq;
	end_open(&b, &k, &attr, 16);
}

static void channel_close(struct diw_channel *ch, struct diw_cq *cq)
{
	end_close(&b);
	ck_assert_int_eq(diw_cq_destroy(cq), 0);
	ck_assert(!readable(diw_channel_fd(ch)));       /* its events are dropped */
	end_close(&a);
	ck_assert_int_eq(diw_channel_destroy(ch), 0);
	kit_close(&k);
}

START_TEST(the_descriptor_tells_of_events)
{
	struct diw_channel *ch;
	struct diw_cq *cq, *got;
	struct diw_wc wc[4];
	int fd;

	channel_open(&ch, &cq);
	ck_assert_ptr_eq(diw_cq_ctx(cq), &k);
	fd = diw_channel_fd(ch);
	message(0);
	ck_assert(!readable(fd));               /* not armed */
	ck_assert_int_eq(diw_cq_arm(cq, true), 0);
	ck_assert(!readable(fd));               /* that completion was not solicited */
	message(0);
	ck_assert(!readable(fd));
	message(DIW_SEND_SOLICITED);
	ck_assert(readable(fd));
	ck_assert_int_eq(diw_channel_get(ch, &got, 0), 0);
	ck_assert_ptr_eq(got, cq);
	ck_assert(!readable(fd));
	ck_assert_int_eq(diw_channel_get(ch, &got, 0), -EAGAIN);
	ck_assert_int_eq(diw_cq_arm(cq, true), 0);      /* it has not been taken: an event at once */
	ck_assert(readable(fd));
	ck_assert_int_eq(diw_channel_get(ch, &got, 0), 0);
	ck_assert_int_eq(diw_cq_poll(cq, wc, 4, 0), 3);
	ck_assert_int_eq(diw_cq_arm(cq, true), 0);
	ck_assert_int_eq(diw_cq_arm(cq, false), 0);     /* armed for all completions */
	ck_assert_int_eq(diw_cq_arm(cq, true), 0);      /* it stays so */
	ck_assert(!readable(fd));
	message(0);
	ck_assert(readable(fd));
	message(0);                             /* one event for each arming */
	ck_assert_int_eq(diw_channel_get(ch, &got, 0), 0);
	ck_assert(!readable(fd));
	ck_assert_int_eq(diw_cq_arm(cq, false), 0);
	ck_assert(readable(fd));
	channel_close(ch, cq);
}
END_TEST

/* Whether FD, which SET watches for edges, has become readable once more. */
static bool has_edge(int set)
{
	struct epoll_event ev;

	return epoll_wait(set, &ev, 1, 0) == 1;
}

static int edges_of(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int set = epoll_create1(0);

	ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev), 0);
	has_edge(set);
	return set;
}

static void device_event(void)
{
	struct diw_event ev = { .type = DIW_EVENT_MTU_CHANGE };

	ck_assert_int_eq(diw_engine_lock(&k.dev->engine), 0);
	diw_dev_event(k.dev, &ev);
	diw_engine_unlock(&k.dev->engine);
}

/* A program that watches by EPOLLET, and fetches one event for each edge, or none, hears of each. */
START_TEST(each_event_is_an_edge)
{
	struct diw_channel *ch;
	struct diw_cq *cq;
	struct diw_wc wc;
	int set;

	channel_open(&ch, &cq);
	set = edges_of(diw_channel_fd(ch));
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(diw_cq_arm(cq, false), 0);
		ck_assert(!has_edge(set));
		message(0);
		ck_assert(has_edge(set));
		ck_assert_int_eq(diw_cq_poll(cq, &wc, 1, 0), 1);
	}
	close(set);
	set = edges_of(diw_event_fd(k.dev));
	for (int i = 0; i < 3; i++) {
		device_event();
		ck_assert(has_edge(set));
		ck_assert(!has_edge(set));
	}
	close(set);
	channel_close(ch, cq);
}
END_TEST

/* For libibverbs: completions that an event has announced raise no other one. Those that came before the arming
 * without being announced raise one. */
START_TEST(announced_once)
{
	struct diw_cq *cq, *got;
	struct diw_channel *ch;
	struct diw_wc wc[4];
	int fd;

	channel_open(&ch, &cq);
	fd = diw_channel_fd(ch);
	message(0);
	ck_assert_int_eq(diw_cq_arm_later(cq, true), 0);
	ck_assert(!readable(fd));               /* it was not solicited */
	ck_assert_int_eq(diw_cq_arm_later(cq, false), 0);
	ck_assert(readable(fd));
	message(0);
	ck_assert_int_eq(diw_channel_get(ch, &got, 0), 0);
	ck_assert_int_eq(diw_cq_arm_later(cq, false), 0);
	ck_assert(!readable(fd));
	ck_assert_int_eq(diw_cq_poll(cq, wc, 4, 0), 2);
	message(0);
	ck_assert(readable(fd));
	ck_assert_int_eq(diw_channel_get(ch, &got, 0), 0);
	ck_assert_int_eq(diw_cq_poll(cq, wc, 4, 0), 1);
	message(0);                             /* between the poll and the arming */
	ck_assert_int_eq(diw_cq_arm_later(cq, false), 0);
	ck_assert(readable(fd));
	channel_close(ch, cq);
}
END_TEST

/* After 2^31 completions that were not solicited, none counts as solicited, and an empty queue has none that was not
 * announced. */
START_TEST(solicited_long_ago)
{
	struct diw_channel *ch;
	struct diw_cq *cq;

	kit_open(&k, DIW_PROGRESS_THREAD);
	ck_assert_int_eq(diw_channel_create(k.dev, &ch), 0);
	ck_assert_int_eq(diw_cq_create(k.dev, 16, ch, NULL, &cq), 0);
	atomic_store(&cq->head, 0x80000001u);
	atomic_store(&cq->tail, 0x80000001u);
	ck_assert_int_eq(diw_cq_arm(cq, true), 0);
	ck_assert(!readable(diw_channel_fd(ch)));
	ck_assert_int_eq(diw_cq_arm_later(cq, false), 0);
	ck_assert(!readable(diw_channel_fd(ch)));
	ck_assert_int_eq(diw_cq_destroy(cq), 0);
	ck_assert_int_eq(diw_channel_destroy(ch), 0);
	kit_close(&k);
}
END_TEST

START_TEST(shared_receives)
{
	struct diw_srq *srq;
	struct diw_qp_attr attr;
	struct diw_sge sge;
	struct diw_recv_wr recv = { .sge = &sge, .num_sge = 1 };
	struct diw_event ev;
	int fd;

	kit_open(&k, DIW_PROGRESS_THREAD);
	fd = diw_event_fd(k.dev);
	ck_assert_int_eq(diw_srq_create(k.pd, 4, 1, &sge, &srq), 0);
	ck_assert_int_eq(diw_srq_set_limit(srq, 5), -EINVAL);
	ck_assert_int_eq(diw_srq_set_limit(srq, 2), 0);
	end_attr(&attr);
	attr.srq = srq;
	end_open(&a, &k, &attr, 16);
	end_open(&b, &k, &attr, 16);
	ck_assert_int_eq(end_recv(&a, 0, 64, 0), -EINVAL);
	ck_assert_int_eq(diw_srq_destroy(srq), -EBUSY);
	sge = (struct diw_sge){ k.mem, 64, k.mr->stag };
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(diw_post_srq_recv(srq, &recv, NULL), 0);
	ck_assert_int_eq(diw_post_srq_recv(srq, &recv, NULL), -ENOMEM);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(i & 1 ? end_send(&a, &b, 0, 8, 0) : end_send(&b, &a, 0, 8, 0), 0);
		rc_wc(i & 1 ? b.rcq : a.rcq);
		ck_assert_int_eq(readable(fd), i >= 2);  /* one of the two is left */
	}
	ck_assert_int_eq(diw_event_get(k.dev, &ev, 0), 0);
	ck_assert_int_eq(ev.type, DIW_EVENT_SRQ_LIMIT);
	ck_assert_ptr_eq(ev.srq, srq);
	ck_assert_ptr_eq(ev.ctx, &sge);
	ck_assert(!readable(fd));
	ck_assert_int_eq(diw_event_get(k.dev, &ev, 0), -EAGAIN);         /* only once */
	end_close(&a);
	end_close(&b);
	ck_assert_int_eq(diw_srq_destroy(srq), 0);
	kit_close(&k);
}
END_TEST

/* The events of a destroyed queue pair are dropped; those of another stay. */
START_TEST(events_of_the_gone)
{
	struct diw_event ev;
	struct diw_qp_error e;

	open_all();
	/* Each writes where it may not, and gets an error. */
	for (int i = 0; i < 2; i++) {
		struct end *from = i ? &b : &a;
		struct diw_sge sge = { k.mem, 64, k.mr->stag };
		struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE_RECORD,
					  .dst.addr = i ? a.addr : b.addr, .stag = k.mr->stag ^ 1, .to = k.mr->to };

		ck_assert_int_eq(diw_post_send(from->qp, &wr, NULL), 0);
		end_until(from, "error_rx", 1);
	}
	ck_assert(readable(diw_event_fd(k.dev)));
	end_close(&a);
	ck_assert_int_eq(diw_event_get(k.dev, &ev, 0), 0);
	ck_assert_int_eq(ev.type, DIW_EVENT_QP_ERROR);
	ck_assert_ptr_eq(ev.qp, b.qp);
	ck_assert_int_eq(diw_qp_error_get(b.qp, &e), 0);
	ck_assert_int_eq(e.fault, 0x1100);
	ck_assert(e.remote);
	ck_assert_int_eq(diw_qp_error_get(b.qp, &e), -EAGAIN);
	ck_assert_int_eq(diw_event_get(k.dev, &ev, 0), -EAGAIN);
	end_close(&b);
	ck_assert(!readable(diw_event_fd(k.dev)));
	kit_close(&k);
}
END_TEST

/* ---- Addresses ---- */

START_TEST(addresses_as_text)
{
	static const char *const text[][2] = {
		{ "192.0.2.1", "192.0.2.1:4791" }, { "2001:db8::1", "[2001:db8::1]:4791" }, { "::1", "[::1]:4791" },
		{ "fe80::1%lo", "[fe80::1%lo]:4791" }, { "::ffff:192.0.2.1", "192.0.2.1:4791" },
	};
	char buf[DIW_ADDR_STRLEN];
	struct diw_addr addr;

	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		ck_assert_int_eq(diw_addr_parse(text[i][0], DIW_PORT, &addr), 0);
		ck_assert_str_eq(diw_addr_str(&addr, buf), text[i][1]);
	}
	ck_assert_int_eq(diw_addr_parse("no such host", 1, &addr), -EINVAL);
	ck_assert_int_eq(diw_addr_parse("", 1, &addr), -EINVAL);
}
END_TEST

/* A queue pair without an address answers from the one that was asked, of either family. */
START_TEST(any_address)
{
	static const char *const host[] = { "127.0.0.1", "::1", "127.0.0.2" };
	struct diw_qp_attr attr;
	struct diw_wc wc;

	for (int i = 0; i < 3; i++) {
		kit_open(&k, DIW_PROGRESS_THREAD);
		end_attr(&attr);
		attr.dgram.any_addr = true;
		end_open(&b, &k, &attr, 16);
		ck_assert_int_eq(diw_addr_parse(host[i], b.addr.port, &b.addr), 0);
		end_attr(&attr);
		ck_assert_int_eq(diw_addr_parse(i == 1 ? "::1" : "127.0.0.1", 0, &attr.dgram.local), 0);
		end_open(&a, &k, &attr, 16);
		ck_assert_int_eq(end_read(&a, &b, 0, 100000), 0);
		wc = rc_wc(a.scq);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);     /* only an answer from the address that was asked
								  * counts */
		ck_assert_uint_eq(wc.byte_len, 100000);
		close_all();
	}
}
END_TEST

Suite *suite_verbs(void)
{
	Suite *s = suite_create("verbs");
	TCase *tc = tcase_create("verbs");

	tcase_set_timeout(tc, 20);
	tcase_add_test(tc, depth_one);
	tcase_add_test(tc, sixteen_entries);
	tcase_add_test(tc, inline_data_is_copied);
	tcase_add_test(tc, unsignalled);
	tcase_add_test(tc, timeouts);
	tcase_add_test(tc, idle_costs_nothing);
	tcase_add_test(tc, the_descriptor_tells_of_events);
	tcase_add_test(tc, each_event_is_an_edge);
	tcase_add_test(tc, announced_once);
	tcase_add_test(tc, solicited_long_ago);
	tcase_add_test(tc, shared_receives);
	tcase_add_test(tc, events_of_the_gone);
	tcase_add_test(tc, addresses_as_text);
	tcase_add_test(tc, any_address);
	suite_add_tcase(s, tc);
	return s;
}
