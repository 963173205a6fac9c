/* SPDX-License-Identifier: BSD-2-Clause */
/* RC queue pairs that are connected by ibv_modify_qp(3): ends that are ready first, their end, requests for others, and
 * a thousand pairs. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "of_pair.h"

#define MANY 500                     /* pairs */

/* One end is ready, and has posted requests, long before the other. */
static void one_first(bool low)
{
	struct side a = { 0 }, b = { 0 }, *first, *second;

	side_open(&a, IBV_QPT_RC, 0, NULL);
	side_open(&b, IBV_QPT_RC, 0, NULL);
	first = (a.qp->qp_num < b.qp->qp_num) == low ? &a : &b;
	second = first == &a ? &b : &a;
	to_init(first);
	to_init(second);
	post_recv(second, HALF, 64, 1);
	memset(mem, low ? 0x11 : 0x22, 64);
	CHECK(to_rtr(first, second->qp->qp_num) == 0 && to_rts(first) == 0 && post_send(first, 0, 64, 2) == 0,
	      low ? "the end that connects is ready first" : "the end that accepts is ready first");
	CHECK(none(first) && none(second), "nothing passes before the other is");
	CHECK(to_rtr(second, first->qp->qp_num) == 0 && next_is(second, 1, IBV_WC_SUCCESS) &&
	      next_is(first, 2, IBV_WC_SUCCESS) && memcmp(mem, mem + HALF, 64) == 0,
	      "then it does, before the other's RTS");
	CHECK(to_rts(second) == 0 && post_recv(first, HALF, 64, 3) == 0 && post_send(second, 0, 64, 4) == 0 &&
	      next_is(first, 3, IBV_WC_SUCCESS), "and back");
	pair_close(&a, &b);
}

/* Completed messages arrive, although the sender is destroyed at once. */
static void delivered(bool destroy)
{
	struct side a = { 0 }, b = { 0 };
	int arrived = 0;

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0), destroy ? "a sender is destroyed" : "a sender goes to ERR");
	for (int i = 0; i < 16; i++)
		post_recv(&b, HALF, 256 << 10, i);
	for (int i = 0; i < 16; i++)
		post_send(&a, 0, 256 << 10, 100 + i);
	for (int i = 0; i < 16; i++)
		next_is(&a, 100 + i, IBV_WC_SUCCESS);
	if (destroy)
		side_close(&a);
	else
		to_state(&a, IBV_QPS_ERR);
	while (arrived < 16 && next_is(&b, arrived, IBV_WC_SUCCESS))
		arrived++;
	CHECK(arrived == 16, "... and all of its messages arrive");
	side_close(&b);
	if (!destroy)
		side_close(&a);
}

/* Both have failed; one is reset and ready again long before the other. */
static void reset_first(bool low)
{
	struct side a = { 0 }, b = { 0 }, *first, *second;

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0), low ? "a pair, of which the end that connects is reset first" :
	      "a pair, of which the end that accepts is reset first");
	first = (a.qp->qp_num < b.qp->qp_num) == low ? &a : &b;
	second = first == &a ? &b : &a;
	CHECK(to_state(first, IBV_QPS_ERR) == 0 && to_state(second, IBV_QPS_ERR) == 0, "both end it");
	CHECK(to_state(first, IBV_QPS_RESET) == 0 && to_init(first) == 0 && to_rtr(first, second->qp->qp_num) == 0 &&
	      to_rts(first) == 0 && none(first), "one begins anew");
	CHECK(to_state(second, IBV_QPS_RESET) == 0 && to_init(second) == 0 && post_recv(second, HALF, 64, 1) == 0 &&
	      to_rtr(second, first->qp->qp_num) == 0 && to_rts(second) == 0, "then the other");
	CHECK(post_send(first, 0, 64, 2) == 0 && next_is(second, 1, IBV_WC_SUCCESS) &&
	      next_is(first, 2, IBV_WC_SUCCESS), "a message arrives");
	pair_close(&a, &b);
}

static void left_alone(void)
{
	struct side a = { 0 }, b = { 0 };

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0), "a pair");
	post_recv(&a, HALF, 64, 1);
	side_close(&b);
	CHECK(none(&a) && state_of(&a) == IBV_QPS_RTS, "an end that is left alone has no completion");
	CHECK(post_send(&a, 0, 64, 2) == 0 && next_is(&a, 2, IBV_WC_RETRY_EXC_ERR),
	      "... until it sends: retries exceeded");
	CHECK(state_of(&a) == IBV_QPS_ERR && next_is(&a, 1, IBV_WC_WR_FLUSH_ERR), "... and its receives are flushed");
	side_close(&a);
}

/* The peer goes while it sends a message: the same, and no event, which would say that a queue pair has failed. */
static void left_alone_within(void)
{
	struct side a = { 0 }, b = { 0 };
	int flags = fcntl(dev->async_fd, F_GETFL);
	struct ibv_async_event ev;

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0), "a pair");
	post_send(&b, 0, HALF, 1);              /* it waits for a receive, and does not fit the sockets' buffers */
	CHECK(none(&a), "... one end sends");
	side_close(&b);
	post_recv(&a, HALF, HALF, 2);
	CHECK(none(&a) && state_of(&a) == IBV_QPS_RTS, "an end that is left alone within a message has no completion");
	fcntl(dev->async_fd, F_SETFL, flags | O_NONBLOCK);
	CHECK(ibv_get_async_event(dev, &ev) == -1 && errno == EAGAIN, "... by no event either");
	fcntl(dev->async_fd, F_SETFL, flags);
	CHECK(post_send(&a, 0, 64, 3) == 0 && next_is(&a, 3, IBV_WC_RETRY_EXC_ERR), "... until it sends");
	CHECK(next_is(&a, 2, IBV_WC_WR_FLUSH_ERR), "... and its receives are flushed");
	side_close(&a);
}

static void nobody_there(void)
{
	struct ibv_async_event ev;
	struct side a = { 0 };

	side_open(&a, IBV_QPT_RC, 0, NULL);
	to_init(&a);
	/* The listener exists, the queue pair does not: the number is the highest of the port. */
	CHECK(to_rtr(&a, 255 << 16 | (a.qp->qp_num & 0xffff)) == 0 && to_rts(&a) == 0, "a peer that does not exist");
	post_send(&a, 0, 8, 1);
	CHECK(next_is(&a, 1, IBV_WC_RETRY_EXC_ERR), "retries exceeded");
	CHECK(ibv_get_async_event(dev, &ev) == 0 && ev.event_type == IBV_EVENT_QP_FATAL && ev.element.qp == a.qp,
	      "and an event");
	ibv_ack_async_event(&ev);
	side_close(&a);
}

/* The completion does not come before the peer has been waited for. */
static bool next_wc_is_late(struct side *s, double start)
{
	struct ibv_wc wc;

	return next_wc(s, &wc, 60) && wc.wr_id == 1 && wc.status == IBV_WC_RETRY_EXC_ERR && seconds() - start > 5;
}

/* A peer that exists and does not connect: one end connects, one is to be connected to, and one waits for ever. */
static void waits(void)
{
	struct ibv_qp_attr attr = attr_of(IBV_QPS_RTS, &gid, 0);
	struct side s[4] = { 0 }, *peer = NULL, *low = NULL, *high = NULL, stray = { 0 };
	double start = seconds();

	side_open(&stray, IBV_QPT_RC, 0, NULL);
	CHECK(to_init(&stray) == 0 && to_rtr(&stray, 4791) == 0 && to_rts(&stray) == 0 &&
	      post_send(&stray, 0, 8, 1) == 0, "a peer with a number of no RC queue pair");
	for (int i = 0; i < 4; i++)
		side_open(&s[i], IBV_QPT_RC, 0, NULL);
	for (int i = 0; i < 4; i++) {
		int below = 0;

		for (int k = 0; k < 4; k++)
			below += s[k].qp->qp_num < s[i].qp->qp_num;
		if (below == 1)
			peer = &s[i];
		else if (below == 0)
			low = &s[i];
		else if (below == 3)
			high = &s[i];
		to_init(&s[i]);
	}
	attr.timeout = 0;
	for (int i = 0; i < 4; i++)
		if (&s[i] != peer && !(to_rtr(&s[i], peer->qp->qp_num) == 0 &&
		    (&s[i] == low || &s[i] == high ? to_rts(&s[i]) :
						     ibv_modify_qp(s[i].qp, &attr, rts_mask(IBV_QPT_RC))) == 0 &&
		    post_send(&s[i], 0, 8, 1) == 0))
			CHECK(false, "ready to send to a peer that is not");
	CHECK(next_wc_is_late(low, start) && next_wc_is_late(high, start) && next_wc_is_late(&stray, start),
	      "retries exceeded, after a while");
	side_close(&stray);
	for (int i = 0; i < 4; i++)
		if (&s[i] != peer && &s[i] != low && &s[i] != high)
			CHECK(none(&s[i]) && state_of(&s[i]) == IBV_QPS_RTS, "but not without a timeout");
	for (int i = 0; i < 4; i++)
		side_close(&s[i]);
}

static void wrong_psn(void)
{
	struct side a = { 0 }, b = { 0 };
	struct ibv_qp_attr attr = attr_of(IBV_QPS_RTS, &gid, 0);

	side_open(&a, IBV_QPT_RC, 0, NULL);
	side_open(&b, IBV_QPT_RC, 0, NULL);
	attr.sq_psn = 78;
	CHECK(to_init(&a) == 0 && to_init(&b) == 0 && to_rtr(&a, b.qp->qp_num) == 0 && to_rtr(&b, a.qp->qp_num) == 0 &&
	      ibv_modify_qp(a.qp, &attr, rts_mask(IBV_QPT_RC)) == 0, "a packet number that the peer does not expect");
	post_recv(&b, HALF, 8, 1);
	post_send(&a, 0, 8, 2);
	CHECK(next_is(&a, 2, IBV_WC_RETRY_EXC_ERR) && none(&b), "nothing arrives");
	pair_close(&a, &b);
}

/* The receiver has posted no receive: after RETRY times 5.12 ms the sender gives up. LATE: the receiver sets the time
 * in RTS. */
static void no_receive(uint8_t retry, bool late)
{
	struct ibv_qp_attr rtr = attr_of(IBV_QPS_RTR, &gid, 0), rts = attr_of(IBV_QPS_RTS, &gid, 0);
	struct ibv_qp_attr timer = { .min_rnr_timer = 18 };
	struct side a = { 0 }, b = { 0 };
	double start, took;

	side_open(&a, IBV_QPT_RC, 0, NULL);
	side_open(&b, IBV_QPT_RC, 0, NULL);
	rtr.min_rnr_timer = late ? 1 : 18;
	rtr.dest_qp_num = a.qp->qp_num;
	rts.rnr_retry = retry;
	CHECK(to_init(&a) == 0 && to_init(&b) == 0 && to_rtr(&a, b.qp->qp_num) == 0 &&
	      ibv_modify_qp(b.qp, &rtr, rtr_mask(IBV_QPT_RC)) == 0 && to_rts(&b) == 0 &&
	      (!late || ibv_modify_qp(b.qp, &timer, IBV_QP_MIN_RNR_TIMER) == 0) &&
	      ibv_modify_qp(a.qp, &rts, rts_mask(IBV_QPT_RC)) == 0, "a sender with few retries");
	start = seconds();
	CHECK(post_send(&a, 0, 64, 1) == 0 && next_is(&a, 1, IBV_WC_RNR_RETRY_EXC_ERR), "RNR retries exceeded");
	took = seconds() - start;
	CHECK(took >= retry * 0.00512 && took < 5, "... after these");
	CHECK(state_of(&a) == IBV_QPS_ERR && post_recv(&a, HALF, 64, 2) == 0 && next_is(&a, 2, IBV_WC_WR_FLUSH_ERR),
	      "... and the queue pair is in ERR");
	pair_close(&a, &b);
}

/* A message that is longer than the receive. The peer refuses a long one before all of it was sent. */
static void too_long(uint32_t len)
{
	struct side a = { 0 }, b = { 0 };

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0) && post_recv(&b, HALF, 32, 1) == 0 && post_send(&a, 0, len, 2) == 0 &&
	      next_is(&b, 1, IBV_WC_LOC_LEN_ERR), "a receive is too short");
	CHECK(next_is(&a, 2, IBV_WC_REM_INV_REQ_ERR), "... and so the request was invalid");
	pair_close(&a, &b);
}

static int post_write(struct side *s, uint32_t len, uint32_t rkey, uint64_t id)
{
	struct ibv_sge sge = sge_at(0, len);
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;

	wr.wr.rdma.remote_addr = (uintptr_t)mem + HALF;
	wr.wr.rdma.rkey = rkey;
	return ibv_post_send(s->qp, &wr, &bad);
}

static void long_write_refused(void)
{
	struct side a = { 0 }, b = { 0 };

	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0) && post_write(&a, HALF, mr->rkey, 1) == 0 &&
	      next_is(&a, 1, IBV_WC_SUCCESS), "a long Write");
	CHECK(post_write(&a, HALF, mr->rkey ^ 1, 2) == 0 && post_write(&a, HALF, mr->rkey, 3) == 0 &&
	      next_is(&a, 2, IBV_WC_REM_ACCESS_ERR) && next_is(&a, 3, IBV_WC_WR_FLUSH_ERR),
	      "... with a wrong rkey has no access");
	pair_close(&a, &b);
}

/* The requests before the one that is refused have taken effect. */
static void refused_in_a_list(void)
{
	struct side a = { 0 }, b = { 0 };
	struct ibv_send_wr wr[8], *bad = NULL;
	struct ibv_sge sge = sge_at(0, 64);
	bool good = true;

	for (int i = 0; i < 8; i++) {
		wr[i] = (struct ibv_send_wr){ .next = i < 7 ? &wr[i + 1] : NULL, .wr_id = (uint64_t)i, .sg_list = &sge,
					      .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					      .send_flags = IBV_SEND_SIGNALED };
		wr[i].wr.rdma.remote_addr = (uintptr_t)mem + HALF;
		wr[i].wr.rdma.rkey = i == 5 ? mr->rkey ^ 1 : mr->rkey;
	}
	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0) && ibv_post_send(a.qp, wr, &bad) == 0,
	      "eight Writes, one without access");
	for (uint64_t i = 0; i < 8; i++)
		good &= next_is(&a, i, i < 5 ? IBV_WC_SUCCESS : i == 5 ? IBV_WC_REM_ACCESS_ERR :
								    IBV_WC_WR_FLUSH_ERR);
	CHECK(good, "... which fails, and not those before it");
	pair_close(&a, &b);
}

/* The peer still owes the content of Reads and an atomic when a Write behind them fails: the peer finds its fault, or
 * this end does. */
static void failed_behind_reads(uint32_t len, enum ibv_wc_status status)
{
	enum { N = 7 };
	struct side a = { 0 }, b = { 0 };
	struct ibv_sge sge[N];
	struct ibv_send_wr wr[N], *bad = NULL;
	bool good = true;

	for (int i = 0; i < N; i++) {
		sge[i] = sge_at(64 + 8 * i, 8);
		wr[i] = (struct ibv_send_wr){ .next = i < N - 1 ? &wr[i + 1] : NULL, .wr_id = (uint64_t)i,
					      .sg_list = &sge[i], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					      .send_flags = IBV_SEND_SIGNALED };
		wr[i].wr.rdma.remote_addr = (uintptr_t)mem + HALF;
		wr[i].wr.rdma.rkey = mr->rkey;
	}
	if (status == IBV_WC_LOC_PROT_ERR)
		sge[5].lkey ^= 1;
	else
		wr[5].wr.rdma.rkey ^= 1;
	sge[1] = sge_at(1024, len);
	wr[1].opcode = IBV_WR_RDMA_READ;
	wr[3].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr[3].wr.atomic.remote_addr = (uintptr_t)mem + HALF;
	wr[3].wr.atomic.rkey = mr->rkey;
	wr[3].wr.atomic.compare_add = 1;
	memset(mem + HALF, 0x33, 1024 + len);
	memset(mem, 0x44, 1024);
	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0) && ibv_post_send(a.qp, wr, &bad) == 0,
	      "a Read, an atomic, and a Write with a wrong key");
	for (uint64_t i = 0; i < N; i++)
		good &= next_is(&a, i, i < 5 ? IBV_WC_SUCCESS : i == 5 ? status : IBV_WC_WR_FLUSH_ERR);
	CHECK(good, "... only the Write has failed");
	CHECK(mem[1024] == 0x44 && memcmp(mem + 1024 + 8, mem + HALF + 8, len - 8) == 0 && mem[64 + 24] == 0x44,
	      "... and the content is what the Read and the atomic found");
	pair_close(&a, &b);
}

/* The Response to a Read finds that the memory for it is not registered any more. */
static void sink_is_gone(void)
{
	struct side a = { 0 }, b = { 0 };
	struct ibv_mr *sink = ibv_reg_mr(pd, mem + 4096, 64, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge from = sge_at(0, 64), into = { (uintptr_t)mem + 4096, 64, sink->lkey };
	struct ibv_send_wr wr[4], *bad = NULL;
	bool good = true;

	for (int i = 0; i < 4; i++) {
		wr[i] = (struct ibv_send_wr){ .next = i < 3 ? &wr[i + 1] : NULL, .wr_id = (uint64_t)i, .sg_list = &from,
					      .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					      .send_flags = IBV_SEND_SIGNALED };
		wr[i].wr.rdma.remote_addr = (uintptr_t)mem + HALF;
		wr[i].wr.rdma.rkey = mr->rkey;
	}
	wr[1].opcode = IBV_WR_RDMA_READ;
	wr[1].sg_list = &into;
	wr[2].opcode = IBV_WR_LOCAL_INV;
	wr[2].invalidate_rkey = sink->rkey;
	memset(mem + 4096, 0x55, 64);
	CHECK(pair_open(&a, &b, IBV_QPT_RC, 0) && ibv_post_send(a.qp, wr, &bad) == 0,
	      "a Read whose memory is invalidated before the Response");
	for (uint64_t i = 0; i < 4; i++)
		good &= next_is(&a, i, i < 1 ? IBV_WC_SUCCESS : i == 1 ? IBV_WC_LOC_PROT_ERR : IBV_WC_WR_FLUSH_ERR);
	CHECK(good && mem[4096] == 0x55, "... has failed, and not the Write before it");
	pair_close(&a, &b);
	ibv_dereg_mr(sink);
}

static int dial(uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return connect(fd, (struct sockaddr *)&to, sizeof to) == 0 ? fd : -1;
}

/* Strangers at the port: one sends nothing, one nonsense, one a correct request for another queue pair. */
static void strangers(void)
{
	static const char nonsense[] = "GET / HTTP/1.0\r\n\r\n", request[] = "MPA ID Req Frame\x40\x02\x00\x18"
		"\x80\x10\x80\x10" "diw-of 1" "\x00\xff\x11\x11" "\x00\xfe\x22\x22" "\0\0\0\0";
	struct side a = { 0 }, b = { 0 };
	int fd[3];
	char c;

	side_open(&a, IBV_QPT_RC, 0, NULL);
	side_open(&b, IBV_QPT_RC, 0, NULL);
	for (int i = 0; i < 3; i++)
		fd[i] = dial((uint16_t)b.qp->qp_num);
	CHECK(fd[0] >= 0 && fd[1] >= 0 && fd[2] >= 0, "strangers find the port");
	(void)!write(fd[1], nonsense, sizeof nonsense - 1);
	(void)!write(fd[2], request, sizeof request - 1);
	CHECK(read(fd[1], &c, 1) <= 0, "nonsense is cut off");
	CHECK(read(fd[2], &c, 1) <= 0 || c == 'M', "who asks for somebody else is refused");
	CHECK(connect_pair(&a, &b) && post_recv(&b, HALF, 8, 1) == 0 && post_send(&a, 0, 8, 2) == 0 &&
	      next_is(&b, 1, IBV_WC_SUCCESS), "who is meant connects");
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	pair_close(&a, &b);
}

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void thousand(void)
{
	static struct side a[MANY], b[MANY];
	struct rlimit limit;
	int before = descriptors(), good = 0;
	double start = seconds();

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int i = 0; i < MANY; i++)
		good += side_open(&a[i], IBV_QPT_RC, 0, NULL) && side_open(&b[i], IBV_QPT_RC, 0, NULL);
	CHECK(good == MANY, "a thousand queue pairs");
	CHECK(descriptors() - before < 20, "share their listeners");
	good = 0;
	for (int i = 0; i < MANY; i++)
		good += connect_pair(&a[i], &b[i]);
	for (int i = 0; i < MANY; i++)
		post_recv(&b[i], HALF + 64 * i, 64, i), post_send(&a[i], 64 * i, 64, i);
	for (int i = 0; i < MANY; i++)
		good += next_is(&b[i], i, IBV_WC_SUCCESS) && next_is(&a[i], i, IBV_WC_SUCCESS);
	CHECK(good == 2 * MANY, "connect, and each message arrives");
	printf("# %.2f s\n", seconds() - start);
	start = seconds();
	for (int i = 0; i < MANY; i++)
		pair_close(&a[i], &b[i]);
	printf("# destroyed in %.2f s\n", seconds() - start);
	CHECK(seconds() - start < 20, "and are destroyed in reasonable time");
}

/* ---- Two processes ---- */

static void child(int in, int out)
{
	struct side s = { 0 };
	uint32_t qpn;
	char c;

	open_all();
	side_open(&s, IBV_QPT_RC, 0, NULL);
	(void)!write(out, &s.qp->qp_num, sizeof qpn);
	(void)!read(in, &qpn, sizeof qpn);
	to_init(&s);
	for (int i = 0; i < 32; i++)
		post_recv(&s, HALF + 64 * i, 64, i);
	to_rtr(&s, qpn);
	to_rts(&s);
	for (int i = 0; i < 32; i++) {
		struct ibv_wc wc;

		if (!next_wc(&s, &wc, SOON) || wc.status != IBV_WC_SUCCESS)
			_exit(1);
		memcpy(mem, mem + HALF + 64 * i, 64);
		mem[0]++;
		post_send(&s, 0, 64, 100 + i);
		if (!next_wc(&s, &wc, SOON))
			_exit(1);
	}
	(void)!read(in, &c, 1);                 /* until it is killed */
	_exit(0);
}

static void two_processes(int to, int from, pid_t pid)
{
	struct side s = { 0 };
	uint32_t qpn = 0;
	bool good = true;
	double start;

	side_open(&s, IBV_QPT_RC, 0, NULL);
	(void)!write(to, &s.qp->qp_num, sizeof qpn);
	(void)!read(from, &qpn, sizeof qpn);
	CHECK(to_init(&s) == 0 && to_rtr(&s, qpn) == 0 && to_rts(&s) == 0, "a peer in another process");
	for (int i = 0; i < 32 && good; i++) {
		post_recv(&s, HALF, 64, 2 * i);
		mem[0] = (uint8_t)i;
		good = post_send(&s, 0, 64, 2 * i + 1) == 0 && next_is(&s, 2 * i + 1, IBV_WC_SUCCESS) &&
		       next_is(&s, 2 * i, IBV_WC_SUCCESS) && mem[HALF] == i + 1;
	}
	CHECK(good, "answers 32 times");
	post_recv(&s, HALF, 64, 500);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	start = seconds();
	good = post_send(&s, 0, 64, 501) == 0;
	for (uint64_t id = 501; good; id++) {   /* the kernel may take some before it learns that the peer is gone */
		struct ibv_wc wc;

		good = next_wc(&s, &wc, SOON) && wc.wr_id == id;
		if (wc.status != IBV_WC_SUCCESS) {
			CHECK(wc.status == IBV_WC_RETRY_EXC_ERR, "it is killed: retries exceeded");
			break;
		}
		usleep(1000);
		good = good && post_send(&s, 0, 64, id + 1) == 0;
	}
	CHECK(good && seconds() - start < 8 && next_is(&s, 500, IBV_WC_WR_FLUSH_ERR), "at once");
	side_close(&s);
}

int main(void)
{
	int to[2], from[2];
	pid_t pid;

	if (pipe(to) || pipe(from))
		return 1;
	pid = fork();                           /* before any process opens a device */
	if (pid == 0)
		child(to[0], from[1]);
	open_all();
	two_processes(to[1], from[0], pid);
	one_first(true);
	one_first(false);
	delivered(true);
	delivered(false);
	reset_first(true);
	reset_first(false);
	left_alone();
	left_alone_within();
	nobody_there();
	waits();
	wrong_psn();
	no_receive(0, false);
	no_receive(6, false);
	no_receive(6, true);
	too_long(64);
	too_long(HALF);
	long_write_refused();
	refused_in_a_list();
	failed_behind_reads(64, IBV_WC_REM_ACCESS_ERR);
	failed_behind_reads(HALF - 1024, IBV_WC_REM_ACCESS_ERR);
	failed_behind_reads(64, IBV_WC_LOC_PROT_ERR);
	failed_behind_reads(HALF - 1024, IBV_WC_LOC_PROT_ERR);
	sink_is_gone();
	strangers();
	thousand();
	CHECK(close_all() == 0, "everything is closed");
	return failed;
}
