/* SPDX-License-Identifier: BSD-2-Clause */
/* Bare TCP, as a program with messages to send would use it: the baselines of RC queue pairs. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/perf/raw_end.h"

#define CONGESTION "cubic"
#define CALL_LEN (512u << 10)        /* the most that one call sends, unless a single message is longer */
#define RX_LEN (256u << 10)

struct end {
	const struct raw_attr *a;
	struct raw_result *r;
	struct raw_span span;
	int wait;                    /* flag of recv: 0 sleeps (at most RAW_TIMEOUT), MSG_DONTWAIT spins */
	uint32_t slots;
	uint8_t *buf, *rx;           /* message buffers; received data */
	uint64_t next;               /* the next message buffer to send */
	int err;
	struct iovec iov[RAW_BATCH];
};

/* ---- Sockets ---- */

/* Sending and receiving time out after RAW_TIMEOUT. Cubic, since otherwise the system's choice would be measured. */
static int tcp_socket(const struct diw_addr *local, struct sockaddr_storage *ss, socklen_t *len)
{
	struct timeval tv = { .tv_usec = RAW_TIMEOUT / DIW_US };
	int fd, err;

	*len = diw_addr_to_sockaddr(local, ss);
	fd = socket(ss->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, CONGESTION, sizeof CONGESTION - 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
	if (!bind(fd, (struct sockaddr *)ss, *len))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int raw_tcp_listen(const struct diw_addr *local, struct diw_addr *bound)
{
	struct sockaddr_storage ss;
	socklen_t len;
	int fd = tcp_socket(local, &ss, &len);

	return fd < 0 ? fd : raw_bound(fd, listen(fd, 1), bound);
}

int raw_tcp_accept(int listener, const struct diw_addr *peer)
{
	uint64_t until = diw_clock_ns() + RAW_SILENCE_FIRST;
	struct pollfd p = { .fd = listener, .events = POLLIN };
	struct sockaddr_storage ss;
	struct diw_addr from;
	int fd;

	while (diw_clock_ns() < until) {
		socklen_t len = sizeof ss;

		if (poll(&p, 1, (int)(RAW_TIMEOUT / DIW_MS)) <= 0)
			continue;
		fd = accept4(listener, (struct sockaddr *)&ss, &len, SOCK_CLOEXEC);
		if (fd < 0)
			return -errno;
		diw_addr_from_sockaddr(&from, (struct sockaddr *)&ss);
		if (diw_addr_same_host(&from, peer))
			return fd;
		close(fd);
	}
	return -ETIMEDOUT;
}

int raw_tcp_connect(const struct diw_addr *local, const struct diw_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t len;
	int fd = tcp_socket(local, &ss, &len), err;

	if (fd < 0)
		return fd;
	len = diw_addr_to_sockaddr(peer, &ss);
	if (!connect(fd, (struct sockaddr *)&ss, len))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

const char *raw_tcp_congestion(int fd, char buf[RAW_CONGESTION_LEN])
{
	socklen_t len = RAW_CONGESTION_LEN - 1;

	memset(buf, 0, RAW_CONGESTION_LEN);
	getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, buf, &len);
	return buf;
}

void raw_tcp_congestion_choice(char buf[RAW_CONGESTION_LEN])
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(buf, 0, RAW_CONGESTION_LEN);
	if (fd < 0)
		return;
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, CONGESTION, sizeof CONGESTION - 1);
	raw_tcp_congestion(fd, buf);
	close(fd);
}

/* ---- Moving bytes ---- */

static void msg_advance(struct msghdr *m, size_t n)
{
	while (m->msg_iovlen && n >= m->msg_iov->iov_len) {
		n -= m->msg_iov->iov_len;
		m->msg_iov++;
		m->msg_iovlen--;
	}
	if (m->msg_iovlen) {
		m->msg_iov->iov_base = (uint8_t *)m->msg_iov->iov_base + n;
		m->msg_iov->iov_len -= n;
	}
}

/* Sends the next N messages, each from its own buffer. */
static void send_messages(struct end *e, uint32_t n)
{
	struct msghdr m = { .msg_iov = e->iov, .msg_iovlen = n };
	uint64_t quiet_since = 0;
	ssize_t sent;

	for (uint32_t i = 0; i < n; i++)
		e->iov[i] = (struct iovec){ e->buf + (e->next + i) % e->slots * e->a->size, e->a->size };
	e->next += n;
	while (m.msg_iovlen && !e->err && !raw_stopped(e->a)) {
		sent = m.msg_iovlen == 1 ?
			send(e->a->fd, m.msg_iov->iov_base, m.msg_iov->iov_len, MSG_NOSIGNAL) :
			sendmsg(e->a->fd, &m, MSG_NOSIGNAL);
		if (sent > 0) {
			e->r->calls++;
			quiet_since = 0;
			msg_advance(&m, (size_t)sent);
		} else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
			e->err = -errno;
		} else if (!quiet_since) {
			quiet_since = diw_clock_ns();
		} else if (diw_clock_ns() - quiet_since > RAW_SILENCE_FIRST) {
			e->err = -ETIMEDOUT;
		}
	}
}

/* Receives at most MOST bytes into one buffer, which stays in the cache. */
static enum raw_came tcp_receive(struct end *e, size_t most, size_t *got)
{
	struct raw_spin spin = { 0 };
	ssize_t n;

	while ((n = recv(e->a->fd, e->rx, most < RX_LEN ? most : RX_LEN, e->wait)) < 0) {
		if (errno != EAGAIN && errno != EINTR) {
			e->err = -errno;
			return RAW_END;
		}
		if (!e->wait || raw_spins_out(&spin, e->a))
			return RAW_NOTHING;
	}
	e->r->calls++;
	*got = (size_t)n;
	return n ? RAW_MESSAGE : RAW_END;
}

/* ---- One direction ---- */

static void tcp_stream_sender(struct end *e)
{
	uint32_t fit = e->a->size < CALL_LEN ? CALL_LEN / e->a->size : 1;
	uint32_t n = fit < e->a->batch ? fit : e->a->batch;
	uint64_t start = diw_clock_ns(), now = start, until;
	uint64_t marked = 0;

	for (;;) {
		if (!e->span.begun && now - start >= e->a->warmup_ns) {
			raw_span_begin(&e->span, e->r, now);
			marked = e->next;
		}
		until = e->span.begin_ns + e->a->duration_ns;
		if ((e->span.begun && now >= until) || raw_stopped(e->a) || e->err ||
		    (e->span.begun && e->a->max_msgs && e->next - marked >= e->a->max_msgs))
			break;
		send_messages(e, n);
		now = diw_clock_ns();
	}
	if (!e->span.begun)
		raw_span_begin(&e->span, e->r, now);
	e->span.last_ns = now;
	raw_span_end(&e->span, e->r);
	e->r->bytes_all = e->next * e->a->size;
	e->r->bytes = e->r->bytes_sent = (e->next - marked) * e->a->size;
}

/* The warm-up ends by this end's own clock: a mark in the stream would cost bytes. */
static void tcp_stream_receiver(struct end *e)
{
	uint64_t now = diw_clock_ns(), first = 0, quiet_since = now;
	enum raw_came came;
	size_t got = 0;

	while (!raw_stopped(e->a)) {
		came = tcp_receive(e, RX_LEN, &got);
		now = diw_clock_ns();
		if (came == RAW_END || (came == RAW_NOTHING &&
					now - quiet_since > (first ? RAW_SILENCE : RAW_SILENCE_FIRST)))
			break;
		if (came == RAW_NOTHING)
			continue;
		quiet_since = now;
		e->r->bytes_all += got;
		if (!first)
			first = now;
		if (e->span.begun) {
			e->r->bytes += got;
			e->span.last_ns = now;
		} else if (now - first >= e->a->warmup_ns) {
			raw_span_begin(&e->span, e->r, now);
		}
	}
	if (e->span.begun)
		raw_span_end(&e->span, e->r);
}

/* ---- There and back ---- */

static void tcp_send_message(void *end, uint64_t number)
{
	struct end *e = end;

	e->next = number;
	send_messages(e, 1);
}

/* Nothing is lost, so a message that is under way is waited for. */
static enum raw_came tcp_receive_message(void *end)
{
	struct end *e = end;
	uint64_t quiet_since = diw_clock_ns();
	size_t left = e->a->size, got = 0;
	enum raw_came came;

	while (left && !e->err && !raw_stopped(e->a)) {
		came = tcp_receive(e, left, &got);
		if (came == RAW_END || (came == RAW_NOTHING && left == e->a->size && !e->a->sender))
			return came;
		left -= came == RAW_MESSAGE ? got : 0;
		if (came == RAW_NOTHING && diw_clock_ns() - quiet_since > RAW_SILENCE_FIRST)
			e->err = -ETIMEDOUT;
	}
	return left ? RAW_END : RAW_MESSAGE;
}

static const struct raw_pong_ops pong_ops = { tcp_send_message, tcp_receive_message };

/* ---- Both tests ---- */

/* A sender that waits for answers, or sends single messages, sets TCP_NODELAY; bulk data may wait. */
static int tcp_prepare(struct end *e)
{
	int at_once = e->a->test == RAW_LAT || e->a->batch == 1;

	if (!e->a->size || e->a->size > 1u << 30 || !e->a->batch || e->a->batch > RAW_BATCH)
		return -EINVAL;
	e->slots = e->a->slots ? e->a->slots : 1;
	e->wait = e->a->spinning ? MSG_DONTWAIT : 0;
	e->buf = malloc((size_t)e->slots * e->a->size);
	e->rx = malloc(RX_LEN);
	if (!e->buf || !e->rx)
		return -ENOMEM;
	for (size_t i = 0; i < (size_t)e->slots * e->a->size; i++)
		e->buf[i] = (uint8_t)(i * 31);
	memset(e->rx, 0, RX_LEN);
	setsockopt(e->a->fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
	return 0;
}

int raw_tcp_run(const struct raw_attr *attr, struct raw_result *result)
{
	struct end e = { .a = attr, .r = result };
	const struct raw_pong p = { &pong_ops, &e, attr, result };

	memset(result, 0, sizeof *result);
	e.err = tcp_prepare(&e);
	if (!e.err) {
		if (attr->test == RAW_LAT)
			(attr->sender ? raw_pong_sender : raw_pong_receiver)(&p);
		else
			(attr->sender ? tcp_stream_sender : tcp_stream_receiver)(&e);
		if (attr->test == RAW_STREAM)
			result->msgs = result->bytes / attr->size;
		if (attr->sender)
			shutdown(attr->fd, SHUT_WR);
	}
	free(e.buf);
	free(e.rx);
	return e.err;
}
