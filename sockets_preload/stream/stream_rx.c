/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving from a connection with frames. The payload stays in the kernel's queue until the program asks for it. The
 * bytes around it are taken with it, so that the socket is readable only if there is payload. With the CRC on, an FPDU
 * is not delivered until it is complete and found good; its CRC stays in the queue until its last byte was taken.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>

#include "sockets_preload/stage.h"
#include "sockets_preload/stream/stream.h"

#define RX_PIECES 64u
#define RX_LITTLE 2048u                      /* bytes that are received in one piece, with the head */
#define RX_EACH 16u                          /* one of this many receives that would wait first tries to receive */

struct rx_call {
	int fd, flags;
	struct diw_sock_stream *st;
	const struct iovec *iov;
	size_t n, len, done;
	size_t need;                         /* bytes that must be in the queue before there is more payload */
	bool found_none;                     /* the call has waited after a receive that found nothing */
	ssize_t seen;                        /* bytes of the hello that it saw while it waited; 0: none yet */
	uint8_t hello[DIW_STREAM_HELLO + DIW_STREAM_HEAD];   /* and the first FPDU's head */
	bool ended;                          /* it has waited until the end came */
	uint64_t began;                      /* when it first waited; 0: it has not */
};

static bool is_between(const struct diw_stream_rx *rx)
{
	return rx->got == 0;
}

/* ---- Without the CRC, or behind its check ---- */

/* The program's buffer for the next bytes. The bytes before it (AHEAD) and behind the FPDU (MID) are for the
 * interposer. Bytes behind those may be received in place, if the buffer is one piece and nothing must be checked. */
struct plan {
	uint8_t ahead[DIW_MPA_MAX_TAIL + DIW_STREAM_HEAD], mid[DIW_MPA_MAX_TAIL + DIW_STREAM_HEAD];
	size_t n_ahead, pay, n_mid, rest, asked;
	uint8_t *at;                         /* of a buffer in one piece: the first free byte */
	struct iovec iov[RX_PIECES];
	size_t used;
};

static void to_iov(struct plan *p, void *base, size_t n)
{
	if (n)
		p->iov[p->used++] = (struct iovec){ base, n };
	p->asked += n;
}

/* One piece is received faster than two, and little payload is moved quickly to the place of its head. */
static void take_little(struct plan *p)
{
	p->used = p->asked = p->n_ahead = 0;
	p->rest = RX_LITTLE;
}

static void make_plan(struct rx_call *c, struct plan *p)
{
	const struct diw_stream_rx *rx = &c->st->rx;
	bool in_payload = rx->got == DIW_STREAM_HEAD && rx->left && (!rx->crc || rx->verified);
	size_t space = c->len - c->done, len;
	struct diw_iov at = { c->iov, c->n, 0 };
	struct iovec skip;

	p->used = p->asked = p->n_ahead = p->pay = p->n_mid = p->rest = 0;
	p->at = c->n == 1 ? (uint8_t *)c->iov->iov_base + c->done : NULL;
	if (rx->got < DIW_STREAM_HEAD)
		p->n_ahead = DIW_STREAM_HEAD - rx->got;
	else if (!rx->left)
		p->n_ahead = rx->tail + DIW_STREAM_HEAD;
	to_iov(p, p->ahead, p->n_ahead);
	if (in_payload) {
		for (size_t left = c->done; left; left -= len)
			diw_iov_slice(&at, left, &skip, 1, &len);
		space = rx->left < space ? rx->left : space;
		p->used += diw_iov_slice(&at, space, p->iov + p->used, RX_PIECES - 4, &p->pay);
		p->asked += p->pay;
		p->n_mid = p->pay == rx->left ? rx->tail + DIW_STREAM_HEAD : 0;
		to_iov(p, p->mid, p->n_mid);
	}
	if (p->at && !rx->crc && !rx->urgent && !rx->n_stale && (!in_payload || p->n_mid))
		p->rest = c->len - c->done - p->pay;
	if (rx->little && !in_payload && rx->got % DIW_STREAM_HEAD == 0 && p->rest >= RX_LITTLE)
		take_little(p);
	to_iov(p, p->at + p->pay, p->rest);
}

static void rx_put(struct rx_call *c, const uint8_t *p, size_t n)
{
	struct diw_iov to = { c->iov, c->n, 0 };
	struct iovec v;
	size_t len;

	for (size_t left = c->done; left && diw_iov_slice(&to, left, &v, 1, &len); left -= len)
		;
	c->done += n;
	for (; n && diw_iov_slice(&to, n, &v, 1, &len); n -= len, p += len)
		memcpy(v.iov_base, p, len);
}

static void stale_deliver(struct rx_call *c)
{
	struct diw_stream_rx *rx = &c->st->rx;
	size_t n = rx->n_stale < c->len - c->done ? rx->n_stale : c->len - c->done;

	rx_put(c, rx->stale, n);
	if (c->flags & MSG_PEEK)
		return;
	rx->n_stale = (uint8_t)(rx->n_stale - n);
	memmove(rx->stale, rx->stale + n, rx->n_stale);
}

/* N bytes were received as P describes. */
static bool plan_done(struct rx_call *c, struct plan *p, size_t n)
{
	struct diw_stream_rx *rx = &c->st->rx;
	size_t take = n < p->n_ahead ? n : p->n_ahead, all = n, before = c->done + rx->n_stale, got;
	bool good;

	if (!diw_stream_parse(rx, p->ahead, take, NULL, &got))
		return false;
	n -= take;
	take = n < p->pay ? n : p->pay;
	rx->left -= (uint32_t)take;
	c->done += take;
	n -= take;
	take = n < p->n_mid ? n : p->n_mid;
	if (!diw_stream_parse(rx, p->mid, take, NULL, &got))
		return false;
	n -= take;
	good = !n || diw_stream_parse(rx, p->at + p->pay, n, p->at + p->pay, &got);
	if (n) {
		/* a program may read the cleared part as a string */
		memset(p->at + p->pay + got, 0, n - got);
		c->done += got;
	}
	diw_stream_passed(rx, (uint32_t)all, (uint32_t)(c->done + rx->n_stale - before));
	stale_deliver(c);
	return good;
}

static size_t held_unread(const struct diw_stream_rx *rx)
{
	return rx->part ? rx->held - (size_t)rx->given : 0;
}

/* Delivers bytes that came before the FPDU was complete. */
static void take_held(struct rx_call *c)
{
	struct diw_stream_rx *rx = &c->st->rx;
	size_t n = held_unread(rx) < c->len - c->done ? held_unread(rx) : c->len - c->done;

	rx_put(c, diw_stream_part(rx->part) + rx->given, n);
	rx->given = (uint16_t)(rx->given + n);
	rx->left -= (uint32_t)n;
	rx->ahead.moved = true;
	if (rx->given == rx->held) {
		rx->held = rx->given = 0;
		if (!diw_is_confined()) {    /* a confined process could not get another place */
			diw_stream_let_go(rx->part);
			rx->part = 0;
		}
	}
	/* A confined process reads a whole FPDU at once; otherwise the next head may have begun. */
	if (rx->got == DIW_STREAM_HEAD && !rx->left && !rx->tail)
		rx->got = 0;
}

/* Receives until the buffer is full, or the queue empty. Bytes that are not payload are taken whenever they are
 * there. */
static ssize_t rx_take(struct rx_call *c)
{
	struct diw_stream_rx *rx = &c->st->rx;
	struct plan p;

	for (;;) {
		struct msghdr m = { .msg_iov = p.iov };
		ssize_t rc;

		if (rx->part && rx->verified)
			take_held(c);
		make_plan(c, &p);
		if (!p.asked)
			return 1;
		m.msg_iovlen = p.used;
		if (c->ended)
			rc = 0;
		else if (diw_is_confined())
			rc = diw_confined_read(c->fd, p.iov->iov_base, p.asked = p.iov->iov_len);
		else
			rc = p.used > 1 ? real.recvmsg(c->fd, &m, MSG_DONTWAIT) :
			     diw_real_recv(c->fd, p.iov->iov_base, p.iov->iov_len, MSG_DONTWAIT);
		if (rc < 0)
			return -1;
		if (rc == 0)
			return is_between(rx) ? 0 : diw_stream_broken(c->fd, c->st, DIW_C_sock_stream_cut);
		if (!plan_done(c, &p, (size_t)rc))
			return diw_stream_broken(c->fd, c->st, DIW_C_sock_stream_malformed);
		if ((size_t)rc < p.asked) {
			errno = EAGAIN;
			return -1;
		}
		if (rx->crc && !rx->verified && rx->got == DIW_STREAM_HEAD && rx->left)
			return 1;
		if (c->done == c->len && (rx->got < DIW_STREAM_HEAD || rx->left))
			return 1;
	}
}

/* ---- With the CRC ---- */

/* A program that has read what FIONREAD reported may read no more before more comes. So the first bytes of an
 * incomplete FPDU must not occupy the room that its rest needs. */
static void make_room(struct rx_call *c)
{
	struct diw_stream_rx *rx = &c->st->rx;

	if (!rx->ahead.told || rx->ahead.payload || rx->got < DIW_STREAM_HEAD || !rx->left || rx->verified ||
	    diw_is_confined())
		return;
	rx->ahead.told = false;
	diw_stream_verify(c->fd, c->st, &c->need);   /* the next call reports a fault */
}

static __attribute__((noinline)) ssize_t take_checked(struct rx_call *c)
{
	struct diw_stream_rx *rx = &c->st->rx;

	while (c->done < c->len) {
		ssize_t rc = 1;

		if (rx->got == DIW_STREAM_HEAD && rx->left && !rx->verified)
			rc = diw_stream_verify(c->fd, c->st, &c->need);
		if (rc > 0)
			rc = rx_take(c);
		if (rc <= 0)
			return rc;
	}
	make_room(c);
	return 1;
}

/* ---- Peeking ---- */

/* Copies the payload in the first 64 KiB of the queue, as far as there is room. */
static ssize_t peek_payload(struct rx_call *c)
{
	struct diw_stream_rx copy = c->st->rx;
	struct diw_hold stage;
	size_t got = 0, held = held_unread(&copy);
	ssize_t n;

	if (!diw_stage_hold(DIW_STAGE_ONE, &stage))
		return -1;
	n = real.recv(c->fd, stage.mem + held, DIW_STAGE - held, MSG_PEEK | MSG_DONTWAIT);
	if (n > 0) {
		if (held)
			memcpy(stage.mem, diw_stream_part(copy.part) + copy.given, held);
		copy.left -= (uint32_t)held;
		copy.n_stale = 0;
		if (copy.crc)
			got = diw_stream_parse_good(&copy, stage.mem + held, (size_t)n);
		else
			diw_stream_parse(&copy, stage.mem + held, (size_t)n, stage.mem + held, &got);
		got += held;
		memcpy(stage.mem + got, copy.stale, copy.n_stale);
		got += copy.n_stale;
		rx_put(c, stage.mem, got < c->len - c->done ? got : c->len - c->done);
	}
	diw_stage_let_go(DIW_STAGE_ONE, &stage);
	if (n == 0)
		return diw_stream_broken(c->fd, c->st, DIW_C_sock_stream_cut);
	return n;
}

static __attribute__((noinline)) ssize_t rx_peek(struct rx_call *c)
{
	struct diw_stream_rx *rx = &c->st->rx;
	struct rx_call nothing = { .fd = c->fd, .st = c->st };
	ssize_t rc = 1;

	if (rx->got < DIW_STREAM_HEAD || !rx->left)
		rc = rx_take(&nothing);
	if (rc > 0 && rx->crc && !rx->verified)
		rc = diw_stream_verify(c->fd, c->st, &c->need);
	if (rc <= 0 || c->iov)
		return rc > 0 ? peek_payload(c) : rc;
	c->done += held_unread(rx) + diw_stream_count(c->fd, rx, rx->left - (uint32_t)held_unread(rx));
	return 1;
}

/* ---- The first bytes ---- */

/* The call that waited has peeked at the first bytes. */
static ssize_t look_at_hello(struct rx_call *c)
{
	ssize_t n = c->seen;

	c->seen = 0;
	return n ? n : real.recv(c->fd, c->hello, sizeof c->hello, MSG_PEEK | MSG_DONTWAIT);
}

/* Takes the hello, and bytes behind it if nothing must be checked. The call has looked at SEEN bytes. Returns as
 * rx_take(). */
static ssize_t take_hello(struct rx_call *c, size_t seen)
{
	struct diw_stream_rx *rx = &c->st->rx;
	bool more = c->iov && !(c->flags & MSG_PEEK) && !rx->crc && !rx->urgent, head = more && seen == sizeof c->hello;
	size_t first = head ? sizeof c->hello : DIW_STREAM_HELLO, none;
	struct plan p = { .used = 0 };
	struct msghdr m = { .msg_iov = p.iov };
	ssize_t n;

	if (head && !diw_stream_parse(rx, c->hello + DIW_STREAM_HELLO, DIW_STREAM_HEAD, NULL, &none))
		return diw_stream_broken(c->fd, c->st, DIW_C_sock_stream_malformed);
	if (more)
		make_plan(c, &p);
	memmove(p.iov + 1, p.iov, p.used * sizeof *p.iov);
	p.iov[0] = (struct iovec){ c->hello, first };
	m.msg_iovlen = p.used + 1;
	n = diw_real_recvmsg(c->fd, &m, MSG_DONTWAIT);
	if (n < 0) {                         /* nothing was taken; the next call looks again */
		rx->got = rx->n_stale = 0;
		rx->msn = 1;
		return -1;
	}
	if (n < (ssize_t)first)
		return diw_stream_broken(c->fd, c->st, DIW_C_sock_stream_malformed);
	n -= (ssize_t)first;
	diw_stream_wants(c->fd, rx);
	atomic_store(&rx->state, DIW_STREAM_FRAMED);
	diw_count(DIW_C_sock_stream_framed);
	if (n && !plan_done(c, &p, (size_t)n))
		return diw_stream_broken(c->fd, c->st, DIW_C_sock_stream_malformed);
	errno = EAGAIN;
	return (size_t)n < p.asked ? -1 : 1;
}

/* 1: frames from here on. 0: the end came first. -1: error. The state says whether the stream is plain. */
static ssize_t rx_begin_stream(struct rx_call *c)
{
	struct diw_stream_rx *rx = &c->st->rx;
	enum diw_hello is;
	ssize_t n;
	bool crc;

	if (diw_is_confined())
		return diw_confined_begin(c->fd, c->st, c->iov, c->n, &c->done);
	diw_stream_reads(c->fd);
	n = look_at_hello(c);
	if (n <= 0)
		return n;
	is = diw_stream_is_hello(c->st, c->hello, (size_t)n, &crc);
	if (is == DIW_HELLO_PART && diw_stream_is_payload(c->fd, c->st, (size_t)n))
		is = DIW_HELLO_NONE;
	if (is == DIW_HELLO_NONE) {
		atomic_store(&rx->state, DIW_STREAM_PLAIN);
		return 1;
	}
	if (is == DIW_HELLO_PART) {
		c->need = (size_t)n + 1;
		errno = EAGAIN;
		return -1;
	}
	rx->crc = crc;
	rx->urgent = !diw_stream_is_ordinary(c->fd) && diw_sock_option(c->fd, SOL_SOCKET, SO_OOBINLINE);
	return take_hello(c, (size_t)n);
}

/* ---- Under the lock ---- */

/* An urgent byte that is wanted in the stream is at the beginning of an FPDU. */
static ssize_t take_urgent(struct rx_call *c)
{
	int at = 0;
	struct diw_iov to = { c->iov, c->n, 0 };
	struct iovec v;
	size_t len;
	ssize_t rc;

	if (real.ioctl(c->fd, SIOCATMARK, &at) < 0 || !at)
		return 0;
	diw_iov_slice(&to, 1, &v, 1, &len);
	rc = len ? real.recv(c->fd, v.iov_base, 1, MSG_DONTWAIT) : 0;
	c->done += rc == 1;
	diw_stream_passed(&c->st->rx, UINT32_MAX, 0);
	return rc;
}

enum { DONE, PLAIN, FAILED };

static int rx_locked(struct rx_call *c, uint64_t cookie)
{
	struct diw_stream_rx *rx = &c->st->rx;
	ssize_t rc = 1;

	if (!diw_stream_is(c->st, cookie))
		return PLAIN;
	if (atomic_load(&rx->state) == DIW_STREAM_START)
		rc = rx_begin_stream(c);
	if (atomic_load(&rx->state) == DIW_STREAM_PLAIN) {
		diw_stream_settle(c->st);
		return c->done ? DONE : PLAIN;
	}
	if (atomic_load(&rx->state) == DIW_STREAM_BROKEN)
		rx->error = ECONNRESET;
	if (rx->error) {
		errno = rx->error;
		rx->error = 0;
		return FAILED;
	}
	if (rc <= 0)
		return rc < 0 ? FAILED : DONE;
	if (c->iov)
		stale_deliver(c);
	else
		c->done = rx->n_stale;
	if (rx->urgent && !diw_is_confined() && is_between(rx) && !c->done && take_urgent(c) > 0)
		return DONE;
	rc = c->flags & MSG_PEEK ? rx_peek(c) : rx->crc ? take_checked(c) : rx_take(c);
	return rc < 0 ? FAILED : DONE;
}

/* Counts receives that had to wait. Data that is already available must not be waited for. */
static void note_idle(struct rx_call *c)
{
	struct diw_stream_rx *rx = &c->st->rx;

	if (rx->crc || rx->urgent || rx->n_stale || rx->error)
		atomic_store_explicit(&rx->idle, 0, memory_order_relaxed);
	else if (c->found_none)
		atomic_store_explicit(&rx->idle, 1, memory_order_relaxed);
	c->found_none = false;
}

static int rx_attempt(struct rx_call *c, uint64_t cookie)
{
	struct diw_stream_rx *rx = &c->st->rx;
	struct diw_stream_holder holder;
	enum diw_lock lock = diw_stream_lock(&rx->lock, &holder);
	size_t before = c->done;
	int rc;

	if (lock == DIW_LOCK_OURS) {
		if (diw_stream_is_nonblocking(c->fd, c->flags))
			c->flags |= MSG_DONTWAIT;
		errno = c->flags & MSG_DONTWAIT ? EAGAIN : EINTR;
		return FAILED;
	}
	if (lock == DIW_LOCK_DEAD && atomic_load(&rx->state) != DIW_STREAM_PLAIN) {
		diw_count(DIW_C_sock_stream_orphan);
		atomic_store(&rx->state, DIW_STREAM_BROKEN);
	}
	c->need = 0;
	rc = rx_locked(c, cookie);
	diw_stream_low(c->fd, rx);
	/* After data, an error is reported by the next call; so is a fault that FIONREAD does not report. */
	if (rc == FAILED && errno != EAGAIN && (c->done || !c->len))
		rx->error = errno;
	note_idle(c);
	diw_stream_unlock(&rx->lock, &holder);
	if (!(c->flags & MSG_PEEK))
		diw_add(DIW_C_sock_stream_rx, c->done - before);
	return rc;
}

/* A receive that takes no bytes waits as the kernel's does, with timeouts and signals. The time counts from the first
 * wait of the call. */
static bool rx_waits(struct rx_call *c)
{
	bool again = c->began;
	char byte;
	ssize_t n;

	if (diw_is_confined())
		return diw_confined_wait(c->fd);
	if (!again)
		c->began = diw_coarse_ns();
	if (c->need)
		return diw_stream_await_bytes(c->fd, c->need, c->began);
	if (again && !diw_stream_await_within(c->fd, c->began))
		return false;
	if (atomic_load_explicit(&c->st->rx.state, memory_order_relaxed) == DIW_STREAM_START) {
		c->seen = diw_real_recv(c->fd, c->hello, sizeof c->hello, MSG_PEEK);
		return c->seen >= 0;
	}
	n = diw_real_recv(c->fd, &byte, 1, MSG_PEEK);
	c->ended = n == 0;
	return n >= 0;
}

/* The number of bytes that is enough, by SO_RCVLOWAT. */
static size_t rx_enough(const struct rx_call *c)
{
	size_t want = atomic_load_explicit(&c->st->rx.want, memory_order_relaxed);

	return want > 1 ? want : 1;
}

/* If the last receives found nothing, or this is the first, the call waits first. One of RX_EACH tries to receive
 * nevertheless. */
static bool waits_first(struct rx_call *c)
{
	uint8_t idle = atomic_load_explicit(&c->st->rx.idle, memory_order_relaxed);

	if (c->flags & (MSG_DONTWAIT | MSG_PEEK) || diw_is_confined() || diw_stream_is_ours(&c->st->rx.lock))
		return false;
	if (atomic_load_explicit(&c->st->rx.state, memory_order_relaxed) == DIW_STREAM_START) {
		diw_stream_reads(c->fd);
		c->found_none = true;
		return true;
	}
	if (!idle)
		return false;
	return atomic_compare_exchange_strong(&c->st->rx.idle, &idle, (uint8_t)((idle + 1) % RX_EACH));
}

/* Whether the call may wait. If the queue is empty, the kernel applies the socket's blocking mode in the call that
 * waits. */
static bool may_wait(const struct rx_call *c)
{
	return !(c->flags & MSG_DONTWAIT) &&
	       !((c->need || c->st->rx.crc || diw_is_confined()) && diw_stream_is_nonblocking(c->fd, c->flags));
}

static ssize_t recv_all(struct rx_call *c, uint64_t cookie, bool *plain)
{
	bool waited = waits_first(c);

	pthread_testcancel();
	if (waited && !rx_waits(c))
		return -1;
	for (;;) {
		int rc = waited && !diw_stream_has_stayed(c->fd, c->st, cookie) ? FAILED : rx_attempt(c, cookie);

		if (rc == PLAIN) {
			*plain = true;
			return -1;
		}
		if (c->done == c->len || (c->done >= rx_enough(c) && !(c->flags & MSG_WAITALL)))
			break;
		if (rc == DONE && c->flags & MSG_PEEK && may_wait(c) && diw_stream_await_more(c->fd)) {
			c->done = 0;
			waited = true;
			continue;
		}
		if (rc == DONE)
			return c->done || !(c->flags & MSG_WAITALL) ? (ssize_t)c->done : 0;
		if (errno != EAGAIN || !may_wait(c) || !rx_waits(c))
			return c->done ? (ssize_t)c->done : -1;
		c->found_none = !waited;
		waited = true;
	}
	if (!waited)
		atomic_store_explicit(&c->st->rx.idle, 0, memory_order_relaxed);
	return (ssize_t)c->done;
}

DIW_FLAT bool diw_stream_recv(int fd, const struct iovec *iov, size_t n, int flags, ssize_t *rc)
{
	struct rx_call c = { .fd = fd, .flags = flags, .iov = iov, .n = n, .len = diw_iov_len(iov, n) };
	bool plain = false;
	int saved = errno;
	uint64_t cookie;

	c.st = diw_stream_slot(fd, &cookie);
	if (!c.st || !c.len || flags & (MSG_OOB | MSG_ERRQUEUE) ||
	    atomic_load_explicit(&c.st->rx.state, memory_order_relaxed) == DIW_STREAM_PLAIN)
		return false;
	if (flags & MSG_TRUNC)
		return diw_stream_discard(fd, c.len, flags, rc);
	*rc = recv_all(&c, cookie, &plain);
	if (*rc >= 0 || plain)
		errno = saved;
	return !plain;
}

bool diw_stream_next(int fd, int *bytes)
{
	struct rx_call c = { .fd = fd, .flags = MSG_PEEK | MSG_DONTWAIT };
	int saved = errno, rc;
	uint64_t cookie;

	c.st = diw_stream_slot(fd, &cookie);
	if (!c.st || diw_is_confined() ||
	    atomic_load_explicit(&c.st->rx.state, memory_order_relaxed) == DIW_STREAM_PLAIN)
		return false;
	rc = rx_attempt(&c, cookie);
	errno = saved;
	if (rc == PLAIN)
		return false;
	*bytes = (int)c.done;
	return true;
}
