/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A dgram over io_uring. The sockets are those of llp/udp.c. Multishot receives put datagrams into buffers, and looking
 * for completions is no system call. A burst is a super-buffer in both directions.
 *
 * The kernel receives in the context of the thread that armed the receive. If other threads do the polling, one of them
 * arms it again. A receive that ends (no buffers, an error, its thread has exited) is armed again by the next poll.
 */
#include <errno.h>

#include "llp/dgram.h"

#ifdef HAVE_URING
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "llp/uring.h"

#define URING_LOOKS 32               /* completions without a burst that a call processes */
#define AWAY (100 * DIW_US)          /* a receive is armed by another thread if the armer has not polled for this
				      * time */
#define STRANGERS 16u                /* and other threads have polled this many times */
#define ARM_RETRY DIW_MS
#define END_TRIES 500                /* of 10 ms, while a receive ends */

static _Thread_local char self;      /* its address identifies the thread */

static struct diw_uring *uring_of(struct diw_dgram *d)
{
	return (struct diw_uring *)d;
}

static void arm_recv(struct diw_uring *r, int i)
{
	struct diw_uring_rx *rx = &r->rx[i];
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	io_uring_prep_recvmsg_multishot(sqe, i, &r->rx_shape, 0);
	sqe->flags = IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
	sqe->buf_group = (uint16_t)i;
	sqe->user_data = (uint64_t)i;
	rx->armed = diw_sys_ring_submit(r) == 0;
	rx->armer = &self;
	rx->armer_ns = r->u.now;
	rx->strangers = 0;
}

static void receive_cancel(struct diw_uring *r, int i)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	io_uring_prep_cancel64(sqe, (uint64_t)i, 0);
	sqe->user_data = DIW_URING_CANCEL;
	diw_sys_ring_submit(r);
}

/* ---- Send ---- */

/* The completion of a send may stand behind others. Those stay in the ring, closed up, for the next recv: if they were
 * taken out, they could not wake a thread that sleeps on the ring. */
static bool take_sent(struct diw_uring *r, int *res)
{
	struct io_uring_cq *cq = &r->ring.cq;
	unsigned head = *cq->khead, tail = io_uring_smp_load_acquire(cq->ktail), mask = *cq->kring_mask, i;

	for (i = head; i != tail && cq->cqes[i & mask].user_data != DIW_URING_TX; i++)
		;
	if (i == tail)
		return false;
	*res = cq->cqes[i & mask].res;
	for (; i != head; i--)
		cq->cqes[i & mask] = cq->cqes[(i - 1) & mask];
	io_uring_cq_advance(&r->ring, 1);
	return true;
}

/* The kernel sends within the submission, or answers EAGAIN, so the caller's memory is free afterwards. */
static int uring_call(struct diw_udp *u, uint32_t len)
{
	struct diw_uring *r = uring_of(&u->d);
	int i = u->tx_fd == u->hot_fd, res = 0;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;

	(void)len;
	if (i && !r->rx[1].file && diw_uring_add_file(r, 1, u->hot_fd) == 0)
		arm_recv(r, 1);
	sqe = io_uring_get_sqe(&r->ring);
	io_uring_prep_sendmsg(sqe, r->rx[i].file ? i : u->tx_fd, &u->tx, MSG_DONTWAIT);
	sqe->flags = r->rx[i].file ? IOSQE_FIXED_FILE : 0;
	sqe->user_data = DIW_URING_TX;
	if (diw_sys_ring_submit(r))
		return -EAGAIN;
	while (!take_sent(r, &res))
		io_uring_wait_cqe_nr(&r->ring, &cqe, io_uring_cq_ready(&r->ring) + 1);
	return res < 0 ? res : 0;
}

/* ---- Receive ---- */

static void give_back(struct diw_uring *r)
{
	if (r->held)
		diw_uring_add_buf(r->held, r->held_bid);
	r->held = NULL;
}

/* Decodes the message in the held buffer. */
static bool decode_recv(struct diw_uring *r, uint32_t len, struct diw_dgram_burst *b)
{
	struct io_uring_recvmsg_out *out = (void *)(r->held->bufs + r->held_bid * DIW_URING_BUF);
	uint8_t *name = (uint8_t *)(out + 1);

	if (out->flags & MSG_TRUNC) {
		r->u.d.c->rx_truncated++;
		return false;
	}
	r->u.rx.msg_name = name;
	r->u.rx.msg_control = name + DIW_URING_NAME;
	r->u.rx.msg_controllen = out->controllen;
	diw_udp_rx_burst(&r->u, b, (uint8_t *)out + DIW_URING_DATA, len - (uint32_t)DIW_URING_DATA);
	return true;
}

/* True: it was a burst. */
static bool receive_ended(struct diw_uring *r, const struct io_uring_cqe *cqe, struct diw_dgram_burst *b)
{
	struct diw_uring_rx *rx = &r->rx[cqe->user_data];
	bool burst = false;

	if (cqe->flags & IORING_CQE_F_BUFFER) {
		r->held = rx;
		r->held_bid = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);
	}
	if (cqe->res < 0)
		diw_udp_rx_error(&r->u, cqe->res, rx == &r->rx[1]);
	else if (r->held && (size_t)cqe->res >= DIW_URING_DATA)
		burst = decode_recv(r, (uint32_t)cqe->res, b);
	if (!burst)
		give_back(r);
	if (!(cqe->flags & IORING_CQE_F_MORE))
		arm_recv(r, (int)cqe->user_data);
	return burst;
}

static void socket_attend(struct diw_uring *r, int i)
{
	struct diw_uring_rx *rx = &r->rx[i];

	if (!rx->file && i && r->u.hot_fd >= 0)
		diw_uring_add_file(r, i, r->u.hot_fd);
	if (!rx->file)
		return;
	if (!rx->armed)
		arm_recv(r, i);
	else if (rx->armer == &self) {
		rx->armer_ns = r->u.now;
		rx->strangers = 0;
	} else if (++rx->strangers >= STRANGERS && !(rx->strangers & (rx->strangers - 1)) &&
		   r->u.now - rx->armer_ns >= AWAY)
		receive_cancel(r, i);           /* retried if it has no effect, at growing intervals */
}

static int uring_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_uring *r = uring_of(d);

	r->u.now = now;
	if (r->u.kept.len)
		diw_udp_tx_kept(&r->u);
	if (n < 1)
		return 0;
	if (d->given)
		return diw_udp_rx_given(&r->u, b);
	give_back(r);
	socket_attend(r, 0);
	socket_attend(r, 1);
	for (int i = 0; i < URING_LOOKS; i++) {
		struct io_uring_cqe *next = diw_sys_ring_peek(r), cqe;

		if (!next)
			return 0;
		cqe = *next;
		io_uring_cqe_seen(&r->ring, next);
		if (cqe.user_data < DIW_URING_TX && receive_ended(r, &cqe, b))
			return 1;
	}
	return 0;
}

/* ---- Deadline, descriptors, open and close ---- */

static uint64_t uring_deadline(struct diw_dgram *d)
{
	struct diw_uring *r = uring_of(d);
	bool deaf = !r->rx[0].armed || (r->u.hot_fd >= 0 && !r->rx[1].armed);

	return deaf ? diw_min64(diw_udp_deadline(d), r->u.now + ARM_RETRY) : diw_udp_deadline(d);
}

/* The ring's descriptor is readable when datagrams have come, unless the armer's thread is late. The sockets'
 * descriptors are writable when there is room again. */
static int uring_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS])
{
	struct diw_uring *r = uring_of(d);
	const struct diw_udp *u = &r->u;
	int n = 0;

	fd[n++] = u->tx_fd;
	fd[n++] = r->ring.ring_fd;
	if (u->hot_fd >= 0)
		fd[n++] = u->tx_fd == u->fd ? u->hot_fd : u->fd;
	return n;
}

/* False: the kernel still has a receive, and may write into its buffers. */
static bool end_receives(struct diw_uring *r)
{
	struct __kernel_timespec ts = { .tv_nsec = 10 * DIW_MS };
	struct io_uring_cqe *cqe;

	for (int i = 0; i < 2; i++)
		if (r->rx[i].armed)
			receive_cancel(r, i);
	for (int i = 0; i < END_TRIES && (r->rx[0].armed || r->rx[1].armed);) {
		if (io_uring_wait_cqe_timeout(&r->ring, &cqe, &ts)) {
			i++;
			continue;
		}
		if (cqe->user_data < DIW_URING_TX && !(cqe->flags & IORING_CQE_F_MORE))
			r->rx[cqe->user_data].armed = false;
		io_uring_cqe_seen(&r->ring, cqe);
	}
	return !r->rx[0].armed && !r->rx[1].armed;
}

static void uring_close(struct diw_dgram *d)
{
	struct diw_uring *r = uring_of(d);

	if (getpid() == r->pid && !end_receives(r))
		r->map = NULL;                  /* leaked: the kernel may still write into it */
	diw_uring_end(r);
	diw_udp_end(&r->u);
	free(r);
}

static const struct diw_dgram_ops uring_ops = {
	.name = "uring", .send = diw_udp_send, .recv = uring_recv, .deadline = uring_deadline, .mtu = diw_udp_mtu,
	.own = diw_udp_own, .fds = uring_fds, .member = diw_udp_member, .from = diw_udp_from, .close = uring_close,
};

/* A kernel without multishot receives (before Linux 6.0) refuses the first one. */
static int first_arm(struct diw_uring *r)
{
	struct io_uring_cqe *cqe;

	arm_recv(r, 0);
	if (!r->rx[0].armed)
		return -ENOMEM;
	cqe = diw_sys_ring_peek(r);
	return cqe && cqe->res == -EINVAL ? -EINVAL : 0;
}

int diw_uring_open(const struct diw_dgram_attr *attr, struct diw_dgram **d)
{
	struct diw_uring *r = calloc(1, sizeof *r);
	int rc;

	if (!r)
		return -ENOMEM;
	r->u.d.ops = &uring_ops;
	r->u.d.state = &r->u.d.own;
	r->u.call = uring_call;
	r->rx_shape.msg_namelen = DIW_URING_NAME;
	r->rx_shape.msg_controllen = DIW_URING_CONTROL;
	rc = diw_udp_socket(&r->u, attr);
	if (rc) {
		free(r);
		return rc;
	}
	rc = diw_uring_setup(r);
	if (rc) {
		close(r->u.fd);
		free(r);
		return rc;
	}
	rc = first_arm(r);
	if (rc)
		uring_close(&r->u.d);
	else
		*d = &r->u.d;
	return rc;
}

int diw_uring_try(void)
{
	struct diw_counters c = { 0 };
	struct diw_dgram_attr attr = { .any = true, .c = &c };
	struct diw_dgram *d;
	int rc = diw_uring_open(&attr, &d);

	if (!rc)
		d->ops->close(d);
	return rc;
}

#else

int diw_uring_open(const struct diw_dgram_attr *attr, struct diw_dgram **d)
{
	(void)attr;
	(void)d;
	return -EOPNOTSUPP;
}

int diw_uring_try(void)
{
	return -EOPNOTSUPP;
}
#endif
