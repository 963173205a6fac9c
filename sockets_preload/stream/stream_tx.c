/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending on a connection with frames. A send becomes FPDUs (RFC 5044 section 4.2), each a Send of one untagged
 * segment, as many as the kernel certainly takes. If the kernel takes part of an FPDU, the next send continues it, so
 * no payload is kept here.
 */
#include <errno.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "base/clock.h"
#include "sockets_preload/stream/stream.h"
#include "wire/fpdu.h"
#include "wire/hdr.h"
#include "wire/rdmap.h"

#define FPDU_STAGED 2048u                    /* payload that is copied beside its head: fits the stack of a signal
					      * handler */
#define FPDUS 8u                             /* of one system call */
#define TX_PIECES 64u
#define SKB 2560u                            /* the most that the kernel may account for a send beside its bytes */
#define TX_LITTLE 256u                       /* payload of an FPDU if there is little room */
#define FINISH_NS DIW_S

struct tx_call {
	int fd, flags;
	struct diw_sock_stream *st;
	struct diw_iov at;                   /* the LEN bytes that are not sent yet */
	size_t len, done;
	bool cut;                            /* the receiver waits for the rest of an FPDU */
};

/* An FPDU of a system call: its head, unless it has left, PAY bytes from AT, and its tail if the payload ends there. */
struct fpdu {
	uint8_t head[DIW_STREAM_HELLO + DIW_STREAM_HEAD], tail[DIW_MPA_MAX_TAIL];
	size_t head_len, head_at, pay, tail_len;
	struct diw_iov at;
	uint32_t total, sum;                 /* payload that it still needs; CRC of its bytes that have left */
	uint16_t ulpdu;
};

size_t diw_iov_slice(struct diw_iov *at, size_t max, struct iovec *to, size_t room, size_t *len)
{
	size_t used = 0;

	*len = 0;
	while (at->n && *len < max && used < room) {
		size_t left = at->v->iov_len - at->off, n = left < max - *len ? left : max - *len;

		if (n) {
			to[used++] = (struct iovec){ (uint8_t *)at->v->iov_base + at->off, n };
			*len += n;
			at->off += n;
		}
		if (at->off == at->v->iov_len) {
			at->v++;
			at->n--;
			at->off = 0;
		}
	}
	return used;
}

/* ---- The size of a send ---- */

static int64_t queue_room(int fd)
{
	uint32_t m[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof m;

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, m, &len) < 0 || len < (SK_MEMINFO_WMEM_QUEUED + 1) * sizeof *m)
		return TX_LITTLE * 4;
	return (int64_t)m[SK_MEMINFO_SNDBUF] - m[SK_MEMINFO_WMEM_QUEUED];
}

static int64_t payload_cost(size_t payload)
{
	return (int64_t)(payload + payload / 4 + SKB);
}

/* The part of LEN bytes of payload that the kernel certainly takes. 0: the kernel will report when it has room. */
static size_t tx_allowance(struct tx_call *c, size_t len)
{
	struct diw_stream_tx *tx = &c->st->tx;
	struct pollfd p = { .fd = c->fd, .events = POLLOUT };
	int64_t left;

	if (diw_is_confined()) {
		tx->budget = 0;
		return real.poll(&p, 1, 0) > 0 ? len < FPDU_STAGED ? len : FPDU_STAGED : 0;
	}
	/* the smallest SO_SNDBUF has room for it */
	if (len <= TX_LITTLE && atomic_load_explicit(&tx->state, memory_order_relaxed) == DIW_STREAM_START)
		return len;
	if (tx->budget >= payload_cost(len)) {
		tx->budget -= payload_cost(len);
		return len;
	}
	tx->budget = 0;
	left = queue_room(c->fd);
	if (left >= payload_cost(len)) {
		tx->budget = (left - payload_cost(len)) / 2;
		return len;
	}
	if (left > 4 * SKB) {
		size_t fits = (size_t)(left - SKB) / 2;

		return fits < len ? fits : len;
	}
	if (left > 2 * (int64_t)TX_LITTLE || real.poll(&p, 1, 0) > 0)
		return len < TX_LITTLE ? len : TX_LITTLE;
	return 0;
}

/* ---- FPDUs ---- */

static __attribute__((noinline)) uint32_t sum_of(uint32_t crc, struct diw_iov at, size_t n)
{
	struct iovec v;
	size_t len;

	for (; n && diw_iov_slice(&at, n, &v, 1, &len); n -= len)
		crc = diw_crc32c(crc, v.iov_base, v.iov_len);
	return crc;
}

static void make_head(struct fpdu *f, const struct diw_stream_tx *tx, uint32_t msn)
{
	struct diw_ddp_hdr h = { .plain = true, .last = true, .opcode = DIW_OP_SEND, .msn = msn };
	uint8_t *p = f->head + f->head_len;

	f->ulpdu = (uint16_t)(DIW_DDP_PLAIN_UNTAGGED_LEN + f->total);
	diw_put16(p, f->ulpdu);
	diw_ddp_hdr_encode(p + DIW_MPA_LEN, &h);
	f->sum = tx->crc ? diw_crc32c(0, p, DIW_STREAM_HEAD) : 0;
	f->head_len += DIW_STREAM_HEAD;
}

/* Writes pad and CRC, after the last byte of payload. */
static void make_tail(struct fpdu *f, const struct diw_stream_tx *tx)
{
	f->tail_len = diw_fpdu_tail(f->ulpdu);
	diw_fpdu_put_tail(f->tail, (uint32_t)f->tail_len, tx->crc, tx->crc ? sum_of(f->sum, f->at, f->pay) : 0);
}

/* N bytes of F have left. The rest of the FPDU is recorded in TX. */
static void fpdu_account(struct tx_call *c, struct fpdu *f, size_t n)
{
	struct diw_stream_tx *tx = &c->st->tx;
	size_t head = f->head_len - f->head_at, h = n < head ? n : head, pay = n - h < f->pay ? n - h : f->pay;
	size_t tail = n - h - pay;
	struct iovec v;
	size_t len;

	tx->ulpdu = f->ulpdu;
	tx->owed = (uint32_t)(f->total - pay);
	tx->sum = tx->crc && tx->owed ? sum_of(f->sum, f->at, pay) : 0;
	for (size_t left = pay; left; left -= len)
		diw_iov_slice(&c->at, left, &v, 1, &len);
	c->done += pay;
	c->len -= pay;
	diw_add(DIW_C_sock_stream_tx, pay);
	if (tx->owed) {
		memcpy(tx->head, f->head, f->head_len);
		tx->head_len = (uint8_t)f->head_len;
		tx->head_at = (uint8_t)(f->head_at + h);
		return;
	}
	tx->head_at = 0;
	tx->head_len = (uint8_t)(f->tail_len - tail);
	memcpy(tx->head, f->tail + tail, tx->head_len);
	tx->msn++;
}

static int send_flags(const struct tx_call *c)
{
	int flags = (c->flags | MSG_DONTWAIT) & ~(MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN);

	return c->done ? flags | MSG_NOSIGNAL : flags;
}

/* A confined process sends only the first piece. */
static ssize_t put_out(const struct tx_call *c, struct iovec *iov, size_t used)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = used };

	if (diw_is_confined())
		return used ? real.write(c->fd, iov->iov_base, iov->iov_len) : 0;
	if (used == 1)
		return diw_real_send(c->fd, iov->iov_base, iov->iov_len, send_flags(c));
	return real.sendmsg(c->fd, &m, send_flags(c));
}

/* Sends the N FPDUs at F, USED pieces of IOV with ALL bytes. -1: nothing has left. */
static int fpdu_push(struct tx_call *c, struct fpdu *f, size_t n, struct iovec *iov, size_t used, size_t all)
{
	ssize_t rc = put_out(c, iov, used);
	size_t left = rc > 0 ? (size_t)rc : 0;

	if (rc < 0)
		return -1;
	atomic_store_explicit(&c->st->tx.state, DIW_STREAM_FRAMED, memory_order_relaxed);
	for (size_t i = 0; i < n && left; i++) {
		size_t size = f[i].head_len - f[i].head_at + f[i].pay + f[i].tail_len;
		size_t took = left < size ? left : size;

		fpdu_account(c, &f[i], took);
		left -= took;
	}
	if ((size_t)rc < all)
		c->st->tx.budget = 0;
	return 0;
}

/* Sends the last bytes of an FPDU whose payload has left, before anything else. -1: some remain. */
static int fpdu_finish(struct tx_call *c)
{
	struct diw_stream_tx *tx = &c->st->tx;
	size_t n = tx->owed ? 0 : tx->head_len - (size_t)tx->head_at;
	ssize_t rc;

	if (DIW_LIKELY(!n))
		return 0;
	rc = put_out(c, &(struct iovec){ tx->head + tx->head_at, n }, 1);
	if (rc > 0)
		tx->head_at = (uint8_t)(tx->head_at + rc);
	if (rc >= 0 && rc < (ssize_t)n)
		errno = EAGAIN;
	return rc == (ssize_t)n ? 0 : -1;
}

/* ---- One system call ---- */

static int piece_add(struct iovec *iov, void *p, size_t n)
{
	*iov = (struct iovec){ p, n };
	return n > 0;
}

/* Continues an FPDU that was cut. */
static DIW_COLD int fpdu_resume(struct tx_call *c, size_t most)
{
	struct diw_stream_tx *tx = &c->st->tx;
	struct iovec iov[TX_PIECES];
	struct diw_iov at = c->at;
	struct fpdu f = { .head_len = tx->head_len, .head_at = tx->head_at, .at = c->at, .total = tx->owed,
			  .sum = tx->sum, .ulpdu = tx->ulpdu };
	size_t used;

	memcpy(f.head, tx->head, tx->head_len);
	used = (size_t)piece_add(iov, f.head + f.head_at, f.head_len - f.head_at);
	used += diw_iov_slice(&at, most < f.total ? most : f.total, iov + used, TX_PIECES - 2, &f.pay);
	if (f.pay == f.total)
		make_tail(&f, tx);
	used += (size_t)piece_add(iov + used, f.tail, f.tail_len);
	return fpdu_push(c, &f, 1, iov, used, f.head_len - f.head_at + f.pay + f.tail_len);
}

static size_t first_head(struct tx_call *c, struct fpdu *f)
{
	if (atomic_load_explicit(&c->st->tx.state, memory_order_relaxed) == DIW_STREAM_FRAMED)
		return 0;
	diw_stream_hello(c->st, f->head, c->st->tx.crc);
	return DIW_STREAM_HELLO;
}

/* Copies a small payload, since one piece is sent faster than several. */
static int send_little(struct tx_call *c, size_t most)
{
	uint8_t buf[DIW_STREAM_HELLO + DIW_STREAM_HEAD + FPDU_STAGED + DIW_MPA_MAX_TAIL], *p = buf;
	struct diw_iov at = c->at;
	struct fpdu f = { .at = c->at, .pay = most, .total = (uint32_t)most };
	struct iovec v = { 0 }, all;
	size_t len;

	f.head_len = first_head(c, &f);
	make_head(&f, &c->st->tx, c->st->tx.msn);
	make_tail(&f, &c->st->tx);
	memcpy(p, f.head, f.head_len);
	p += f.head_len;
	for (size_t left = most; left && diw_iov_slice(&at, left, &v, 1, &len); left -= len) {
		memcpy(p, v.iov_base, v.iov_len);
		p += v.iov_len;
	}
	memcpy(p, f.tail, f.tail_len);
	all = (struct iovec){ buf, (size_t)(p - buf) + f.tail_len };
	return fpdu_push(c, &f, 1, &all, 1, all.iov_len);
}

static __attribute__((noinline)) int send_much(struct tx_call *c, size_t most)
{
	struct diw_stream_tx *tx = &c->st->tx;
	size_t limit = tx->crc ? DIW_STREAM_MOST_CRC : DIW_STREAM_MOST, used = 0, n = 0, all = 0;
	struct iovec iov[TX_PIECES];
	struct diw_iov at = c->at;
	struct fpdu f[FPDUS];

	while (n < FPDUS && most && used + 3 <= TX_PIECES) {
		struct fpdu *g = &f[n];
		struct iovec *head = &iov[used++];

		*g = (struct fpdu){ .at = at };
		g->head_len = n ? 0 : first_head(c, g);
		used += diw_iov_slice(&at, most < limit ? most : limit, iov + used, TX_PIECES - 1 - used, &g->pay);
		g->total = (uint32_t)g->pay;
		make_head(g, tx, tx->msn + (uint32_t)n);
		make_tail(g, tx);
		*head = (struct iovec){ g->head, g->head_len };
		iov[used++] = (struct iovec){ g->tail, g->tail_len };
		all += g->head_len + g->pay + g->tail_len;
		most -= g->pay;
		n++;
	}
	return fpdu_push(c, f, n, iov, used, all);
}

/* Sends some bytes; -1: none. EAGAIN: there is no room. */
static int tx_some(struct tx_call *c)
{
	size_t len = c->len < FPDUS * DIW_STREAM_MOST ? c->len : FPDUS * DIW_STREAM_MOST;
	size_t most = tx_allowance(c, len);

	if (!most) {
		errno = EAGAIN;
		return -1;
	}
	if (c->st->tx.owed)
		return fpdu_resume(c, most);
	if (most <= FPDU_STAGED)
		return send_little(c, most);
	return send_much(c, most);
}

/* ---- Under the lock ---- */

/* OWED: an FPDU was cut, within which no urgent byte can be sent. */
enum { DONE, PLAIN, FAILED, OWED };

static int goes_out(struct tx_call *c)
{
	struct diw_stream_tx *tx = &c->st->tx;
	bool done = fpdu_finish(c) == 0 && (c->len == 0 || (tx_some(c) == 0 && fpdu_finish(c) == 0));

	c->cut = tx->owed ? tx->crc : tx->head_at < tx->head_len;
	return done ? DONE : FAILED;
}

static int tx_locked(struct tx_call *c, uint64_t cookie)
{
	struct diw_stream_tx *tx = &c->st->tx;
	uint8_t state = atomic_load_explicit(&tx->state, memory_order_relaxed);

	if (!diw_stream_is(c->st, cookie))
		return PLAIN;
	if (state == DIW_STREAM_START) {
		state = diw_is_confined() ? DIW_STREAM_PLAIN : diw_stream_begin(c->fd, c->st);
		if (state == DIW_STREAM_PLAIN)
			atomic_store(&tx->state, state);
	}
	if (state == DIW_STREAM_PLAIN) {
		diw_stream_settle(c->st);
		return PLAIN;
	}
	if (state == DIW_STREAM_BROKEN) {
		errno = ECONNRESET;
		return FAILED;
	}
	return goes_out(c);
}

static bool tx_lock(struct tx_call *c, struct diw_stream_holder *holder)
{
	struct diw_stream_tx *tx = &c->st->tx;
	enum diw_lock lock = diw_stream_lock(&tx->lock, holder);

	if (lock == DIW_LOCK_OURS) {
		errno = diw_stream_is_nonblocking(c->fd, c->flags) ? EAGAIN : EINTR;
		return false;
	}
	if (lock == DIW_LOCK_DEAD && atomic_load(&tx->state) != DIW_STREAM_PLAIN) {
		diw_count(DIW_C_sock_stream_orphan);
		atomic_store(&tx->state, DIW_STREAM_BROKEN);
	}
	return true;
}

static int tx_attempt(struct tx_call *c, uint64_t cookie)
{
	struct diw_stream_holder holder;
	int rc;

	if (!tx_lock(c, &holder))
		return FAILED;
	rc = tx_locked(c, cookie);
	diw_stream_unlock(&c->st->tx.lock, &holder);
	return rc;
}

/* ---- Waiting ---- */

bool diw_stream_is_nonblocking(int fd, int flags)
{
	const struct diw_sock *at = diw_sock_at(fd);
	int fl;

	if (diw_is_confined())
		return flags & MSG_DONTWAIT || (at && at->nonblocking);
	fl = flags & MSG_DONTWAIT ? O_NONBLOCK : real.fcntl(fd, F_GETFL);
	return fl >= 0 && fl & O_NONBLOCK;
}

static bool is_of_a_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL || sig == SIGTRAP || sig == SIGSYS;
}

/* The kernel continues a call after a handler with SA_RESTART. It does not tell which handler has run, so the result is
 * true only if every handler that may have run has this flag. Faults do not happen in poll(). */
bool diw_stream_is_restarted(void)
{
	sigset_t blocked;
	bool any = false;

	if (diw_is_confined() || pthread_sigmask(SIG_BLOCK, NULL, &blocked))
		return false;
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction sa;

		if (is_of_a_fault(sig) || sigismember(&blocked, sig) == 1 || sigaction(sig, NULL, &sa) < 0 ||
		    sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN)
			continue;
		if (!(sa.sa_flags & SA_RESTART))
			return false;
		any = true;
	}
	return any;
}

uint64_t diw_stream_deadline(int fd)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof tv;

	if (diw_is_confined() || getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, &len) < 0 || (!tv.tv_sec && !tv.tv_usec))
		return UINT64_MAX;
	return diw_clock_ns() + (uint64_t)tv.tv_sec * DIW_S + (uint64_t)tv.tv_usec * DIW_US;
}

bool diw_stream_await(int fd, short events, uint64_t deadline, bool restarts)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now = deadline == UINT64_MAX ? 0 : diw_clock_ns(), left = deadline > now ? deadline - now : 0;
		struct timespec ts = { .tv_sec = (time_t)(left / DIW_S), .tv_nsec = (long)(left % DIW_S) };
		int rc = real.ppoll(&p, 1, deadline == UINT64_MAX ? NULL : &ts, NULL);

		if (rc > 0)
			return true;
		if (rc == 0)
			errno = EAGAIN;
		else if (errno != EINTR)
			return false;
		else if (restarts && deadline == UINT64_MAX && diw_stream_is_restarted())
			continue;
		return false;
	}
}

/* There was no room: whether to wait. After any signal, a call that has sent something returns. But if the receiver
 * waits for the rest of an FPDU, of which bytes count as sent, the call waits until the rest has left, also on a
 * non-blocking socket, where it waits for FINISH_NS at most. If that time is not enough, the next call sends the
 * rest. */
static bool may_go_on(struct tx_call *c, uint64_t *deadline)
{
	bool waits_anyway = c->cut && c->done;

	if (!waits_anyway && diw_stream_is_nonblocking(c->fd, c->flags))
		return false;
	if (!*deadline)
		*deadline = diw_stream_is_nonblocking(c->fd, c->flags) ? diw_clock_ns() + FINISH_NS :
									  diw_stream_deadline(c->fd);
	return diw_stream_await(c->fd, POLLOUT, *deadline, !c->done || waits_anyway);
}

static ssize_t send_all(struct tx_call *c, uint64_t cookie, bool *plain)
{
	uint64_t deadline = 0;
	int rc;

	pthread_testcancel();
	do {
		rc = tx_attempt(c, cookie);
		if (rc == PLAIN) {
			*plain = true;
			return -1;
		}
		if (rc == FAILED && (errno != EAGAIN || !may_go_on(c, &deadline) ||
				     !diw_stream_has_stayed(c->fd, c->st, cookie)))
			break;
	} while (c->len || rc == FAILED);
	return c->done || !c->len ? (ssize_t)c->done : -1;
}

/* ---- Urgent data ---- */

/* The last byte is sent as it is, between FPDUs. The receiver's kernel takes it out of the stream. */
static int locked_urgent(struct tx_call *c, uint64_t cookie)
{
	struct diw_stream_tx *tx = &c->st->tx;
	bool starts = atomic_load(&tx->state) == DIW_STREAM_START;
	struct diw_iov at = c->at;
	struct iovec v = { 0 };
	size_t len = c->len;
	int rc;

	c->len = 0;
	rc = tx_locked(c, cookie);
	c->len = len;
	if (rc == DONE && starts) {
		diw_stream_hello(c->st, tx->head, tx->crc);
		tx->head_len = DIW_STREAM_HELLO;
		tx->head_at = 0;
		atomic_store(&tx->state, DIW_STREAM_FRAMED);
	}
	if (rc != DONE || fpdu_finish(c) < 0)
		return rc == DONE ? FAILED : rc;
	if (tx->owed) {
		errno = EAGAIN;
		return OWED;
	}
	diw_iov_slice(&at, 1, &v, 1, &len);
	if (real.send(c->fd, v.iov_base, 1, send_flags(c) | MSG_OOB) != 1)
		return FAILED;
	c->done++;
	c->len--;
	return DONE;
}

static DIW_COLD ssize_t send_urgent(struct tx_call *c, uint64_t cookie, bool *plain)
{
	struct diw_stream_holder holder;
	uint64_t deadline = 0;
	int rc = DONE;

	c->len--;
	if (c->len && (send_all(c, cookie, plain) < 0 || c->len))
		return *plain ? -1 : (ssize_t)c->done;
	c->len = 1;
	do {
		if (!tx_lock(c, &holder))
			break;
		rc = locked_urgent(c, cookie);
		diw_stream_unlock(&c->st->tx.lock, &holder);
	} while (rc == FAILED && errno == EAGAIN && may_go_on(c, &deadline));
	*plain = rc == PLAIN;
	return c->done ? (ssize_t)c->done : -1;
}

DIW_FLAT bool diw_stream_send(int fd, const struct iovec *iov, size_t n, int flags, ssize_t *rc)
{
	struct tx_call c = { .fd = fd, .flags = flags, .at = { iov, n, 0 }, .len = diw_iov_len(iov, n) };
	struct diw_sock *s = diw_stream_get(fd);
	bool plain = false;
	int saved = errno;
	uint64_t cookie;

	c.st = s ? diw_stream_slot(fd, &cookie) : NULL;
	if (!c.st || !c.len || flags & MSG_FASTOPEN)
		return false;
	if (atomic_load_explicit(&c.st->tx.state, memory_order_relaxed) == DIW_STREAM_PLAIN)
		return false;
	*rc = flags & MSG_OOB ? send_urgent(&c, cookie, &plain) : send_all(&c, cookie, &plain);
	if (*rc >= 0 || plain)
		errno = saved;
	return !plain;
}

bool diw_stream_sends_frames(int fd)
{
	uint64_t cookie;
	struct tx_call c = { .fd = fd, .flags = MSG_DONTWAIT, .st = diw_stream_slot(fd, &cookie) };
	int rc;

	if (!c.st)
		return false;
	rc = tx_attempt(&c, cookie);
	return rc != PLAIN;
}
