/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One flow of octets, by reliable datagrams (llp/rd.c, without a queue pair) or by TCP.
 *
 *   bulk recv rd|tcp PORT            prints the octets received in each second, until SIGTERM, as JSON
 *   bulk send rd|CONTROL ADDR PORT SECONDS       CONTROL: TCP's congestion control (cubic, bbr)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "llp/link.h"

#define SECONDS_MAX 600

static volatile sig_atomic_t ended;
static uint64_t began, came[SECONDS_MAX], seconds;
static uint8_t data[65536];
static struct diw_counters counters;

static void on_term(int sig)
{
	(void)sig;
	ended = 1;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void count(uint64_t octets, uint64_t now)
{
	began = began ? began : now;
	seconds = (now - began) / DIW_S;
	if (seconds < SECONDS_MAX)
		came[seconds] += octets;
}

/* ---- Reliable datagrams ---- */

static int bulk_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	(void)ctx;
	(void)src;
	for (int i = 0; i < n; i++)
		count(segs[i].len, now);
	return n;
}

static void bulk_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	(void)ctx;
	(void)first;
	fprintf(stderr, "bulk: %u segments failed: %s\n", n, strerror(errnum));
	exit(1);
}

static const struct diw_link_up bulk_up = { .rx = bulk_rx, .refused = bulk_refused };

static uint64_t bulk_clock(void *ctx)
{
	(void)ctx;
	return diw_clock_ns();
}

static struct diw_link *rd_link(uint16_t port)
{
	const struct diw_rd_cfg cfg = { .dead_ns = 10 * DIW_S, .idle_ns = 60 * DIW_S, .ack_ns = 40 * DIW_US,
		.peers = 64, .slots = 4096, .peer_slots = 2048, .held = 1024, .window = 1024, .max_seg = 1500,
		.clock = bulk_clock };
	const struct diw_dgram_attr attr = { .local = { .port = port }, .any = true, .mtu = 1500, .rcvbuf = 4 << 20,
		.c = &counters };
	struct diw_dgram *d;
	struct diw_link *l;
	int err = diw_udp_open(&attr, &d);

	if (!err)
		err = diw_rd_open(d, 0, &cfg, &bulk_up, NULL, &l);
	if (err) {
		fprintf(stderr, "bulk: %s\n", strerror(-err));
		exit(1);
	}
	return l;
}

/* Sleeps until a datagram comes, its own deadline, or LIMIT. */
static void rd_sleep(struct diw_link *l, uint64_t limit)
{
	int fd[DIW_DGRAM_FDS], n = l->ops->fds(l, fd);
	struct pollfd p[DIW_DGRAM_FDS];
	uint64_t now = diw_clock_ns(), at = l->ops->deadline(l);
	struct timespec ts = { 0 };

	at = at < limit ? at : limit;
	if (at > now)
		ts = (struct timespec){ .tv_sec = (time_t)((at - now) / DIW_S), .tv_nsec = (long)((at - now) % DIW_S) };
	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
	ppoll(p, (nfds_t)n, &ts, NULL);
}

static void rd_step(struct diw_link *l)
{
	uint64_t now = diw_clock_ns();

	while (l->ops->poll(l, 16, now) == 16)
		;
	l->ops->flush(l, now);
}

static void rd_recv(uint16_t port)
{
	struct diw_link *l = rd_link(port);

	while (!ended) {
		rd_step(l);
		rd_sleep(l, diw_clock_ns() + DIW_S);
	}
	l->ops->close(l);
}

static void rd_send_flow(const char *addr, uint16_t port, uint64_t ns)
{
	struct diw_link *l = rd_link(0);
	struct diw_dest dst = { .addr = { .ip = { [10] = 0xff, [11] = 0xff }, .port = port } };
	uint64_t end = diw_clock_ns() + ns;
	struct iovec iov = { data, sizeof data };
	struct diw_link_seg seg = { .hdr = data, .hdr_len = 16, .iov = &iov };

	if (inet_pton(AF_INET, addr, dst.addr.ip + 12) != 1)
		fail(addr);
	seg.len = l->ops->mulpdu(l, &dst.addr) - seg.hdr_len;
	while (!ended && diw_clock_ns() < end) {
		while (l->ops->send(l, &dst, &seg, 1, diw_clock_ns()) == 1)
			;
		rd_step(l);
		rd_sleep(l, end);
	}
	fprintf(stderr, "bulk: %llu segments lost, %llu sent again, %llu of these in vain, %llu timeouts\n",
		(unsigned long long)counters.rd_lost, (unsigned long long)counters.rd_retransmits,
		(unsigned long long)counters.rd_spurious, (unsigned long long)counters.rd_timeouts);
	l->ops->close(l);
}

/* ---- TCP ---- */

static struct sockaddr_in tcp_addr(const char *addr, uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (addr && inet_pton(AF_INET, addr, &sin.sin_addr) != 1)
		fail(addr);
	return sin;
}

static void tcp_recv(uint16_t port)
{
	struct sockaddr_in sin = tcp_addr(NULL, port);
	int l = socket(AF_INET, SOCK_STREAM, 0), on = 1, fd;
	ssize_t n;

	if (l < 0 || setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    bind(l, (struct sockaddr *)&sin, sizeof sin) || listen(l, 1))
		fail("bulk: listen");
	fd = accept(l, NULL, NULL);
	while (!ended && (n = recv(fd, data, sizeof data, 0)) > 0)
		count((uint64_t)n, diw_clock_ns());
}

static void tcp_send_flow(const char *control, const char *addr, uint16_t port, uint64_t ns)
{
	struct sockaddr_in sin = tcp_addr(addr, port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t end = diw_clock_ns() + ns;

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)))
		fail(control);
	if (connect(fd, (struct sockaddr *)&sin, sizeof sin))
		fail("bulk: connect");
	while (!ended && diw_clock_ns() < end)
		if (send(fd, data, sizeof data, MSG_NOSIGNAL) < 0)
			fail("bulk: send");
}

/* The first two seconds, in which the flow begins, and the incomplete last one do not count. */
static void report(void)
{
	uint64_t sum = 0, n = 0;

	for (uint64_t i = 2; i < seconds && i < SECONDS_MAX; i++, n++)
		sum += came[i];
	printf("{\"seconds\":%llu,\"mbit\":%.2f,\"each\":[", (unsigned long long)n,
	       n ? (double)sum * 8 / 1e6 / (double)n : 0.0);
	for (uint64_t i = 0; i <= seconds && i < SECONDS_MAX; i++)
		printf("%s%.1f", i ? "," : "", (double)came[i] * 8 / 1e6);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_term };
	bool recv = argc == 4 && strcmp(argv[1], "recv") == 0, rd = argc > 2 && strcmp(argv[2], "rd") == 0;

	if (!recv && !(argc == 6 && strcmp(argv[1], "send") == 0)) {
		fprintf(stderr, "usage: bulk recv rd|tcp PORT, or bulk send rd|CONTROL ADDR PORT SECONDS\n");
		return 2;
	}
	sigaction(SIGTERM, &sa, NULL);
	if (recv) {
		(rd ? rd_recv : tcp_recv)((uint16_t)atoi(argv[3]));
		report();
	} else if (rd) {
		rd_send_flow(argv[3], (uint16_t)atoi(argv[4]), (uint64_t)atoi(argv[5]) * DIW_S);
	} else {
		tcp_send_flow(argv[2], argv[3], (uint16_t)atoi(argv[4]), (uint64_t)atoi(argv[5]) * DIW_S);
	}
	return 0;
}
