/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram sockets: a UD queue pair with the socket's port. Each datagram is a Send. All have the same Q_Key, so the
 * address alone identifies a socket. The lock is held.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/rs/int.h"

#define QKEY 0x64525331u
#define MAX_LEN 65507u                       /* of a UDP datagram over IPv4: the limit that programs know */
#define BUF 65536u
#define RX 128u
#define TX 16u
#define DGRAM_BATCH 32
#define TX_ID 0x10000u

struct arrived {
	struct diw_addr src;
	uint32_t len;
	unsigned slot;
};

struct rs_dgram {
	uint8_t *memory;                     /* receive buffers, then send buffers */
	struct diw_mr *mr;
	struct arrived arrived[RX];
	uint32_t head, tail;
	uint32_t free_tx;                    /* bitmap of the free send buffers */
	bool down;
};

static uint8_t *dgram_buffer(const struct rs_dgram *d, unsigned i)
{
	return d->memory + (size_t)i * BUF;
}

static int post_rx(struct rs *s, unsigned slot)
{
	struct diw_sge sge = { dgram_buffer(s->dgram, slot), BUF, s->dgram->mr->stag };

	return diw_post_recv(s->qp, &(struct diw_recv_wr){ .wr_id = slot, .sge = &sge, .num_sge = 1 }, NULL);
}

static int open_memory(struct rs *s, struct rs_dgram *d)
{
	d->memory = mmap(NULL, (size_t)(RX + TX) * BUF, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (d->memory == MAP_FAILED) {
		d->memory = NULL;
		return -ENOMEM;
	}
	d->free_tx = (1u << TX) - 1;
	return diw_mr_reg(s->dev->pd, d->memory, (size_t)(RX + TX) * BUF, DIW_ACCESS_LOCAL_WRITE, &d->mr);
}

static int open_dgram(struct rs *s, const struct diw_addr *local)
{
	struct rs_dgram *d = calloc(1, sizeof *d);
	struct diw_qp_info info;
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;
	int rc;

	if (!d)
		return -ENOMEM;
	s->dgram = d;
	rc = rs_dev_of(local, &s->dev);
	if (rc == 0)
		rc = open_memory(s, d);
	a.sq_depth = TX;
	a.rq_depth = RX;
	a.max_sge = 1;
	a.dgram.qkey = QKEY;
	a.dgram.local = *local;
	a.dgram.any_addr = diw_route_is_any(local);
	if (rc == 0)
		rc = rs_open_qp(s, &a, RX + TX);
	for (unsigned i = 0; rc == 0 && i < RX; i++)
		rc = post_rx(s, i);
	if (rc == 0)
		rc = diw_qp_query(s->qp, &info);
	if (rc < 0) {
		rs_close_qp(s);
		rs_dgram_free(s);
		return rc;
	}
	s->local = *local;
	s->local.port = info.local.port;
	s->bound = true;
	return 0;
}

void rs_dgram_free(struct rs *s)
{
	struct rs_dgram *d = s->dgram;

	if (!d)
		return;
	if (d->mr)
		diw_mr_dereg(d->mr);
	if (d->memory)
		munmap(d->memory, (size_t)(RX + TX) * BUF);
	free(d);
	s->dgram = NULL;
}

/* rs_big must be taken first. */
int rs_dgram_bind(struct rs *s, const struct diw_addr *local)
{
	int rc;

	pthread_mutex_unlock(&s->lock);
	pthread_mutex_lock(&rs_big);
	pthread_mutex_lock(&s->lock);
	rc = s->dgram ? -EINVAL : open_dgram(s, local);
	pthread_mutex_unlock(&rs_big);
	return rc;
}

/* Binds for the first datagram to DST, to the address from which the kernel would send. */
static int bind_for(struct rs *s, const struct diw_addr *dst)
{
	struct diw_addr from;
	int rc = s->dgram ? 0 : diw_route_source(dst, &s->local, &from);

	if (s->dgram || rc < 0)
		return rc;
	rc = rs_dgram_bind(s, &from);
	return s->dgram ? 0 : rc;
}

int rs_dgram_connect(struct rs *s, const struct diw_addr *peer)
{
	int rc = peer->port ? bind_for(s, peer) : -EINVAL;

	if (rc == 0)
		s->peer = *peer;
	return rc;
}

/* ---- Received datagrams ---- */

static bool source_is_wanted(const struct rs *s, const struct diw_addr *src)
{
	return !s->peer.port || (src->port == s->peer.port && memcmp(src->ip, s->peer.ip, sizeof src->ip) == 0);
}

static void dgram_came(struct rs *s, const struct diw_wc *wc)
{
	struct rs_dgram *d = s->dgram;

	if (!source_is_wanted(s, &wc->src)) {
		post_rx(s, (unsigned)wc->wr_id);
		return;
	}
	d->arrived[d->tail++ % RX] = (struct arrived){ wc->src, wc->byte_len, (unsigned)wc->wr_id };
}

void rs_dgram_look(struct rs *s)
{
	struct diw_wc wc[DGRAM_BATCH];
	int n;

	do {
		n = diw_cq_poll(s->cq, wc, DGRAM_BATCH, 0);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id >= TX_ID)
				s->dgram->free_tx |= 1u << (wc[i].wr_id - TX_ID);
			else if (wc[i].status == DIW_WC_SUCCESS)
				dgram_came(s, &wc[i]);
			else if (wc[i].status == DIW_WC_FLUSHED)
				s->dgram->down = true;
			else
				post_rx(s, (unsigned)wc[i].wr_id);
			diw_wc_release(&wc[i]);
		}
	} while (n == DGRAM_BATCH);
}

short rs_dgram_events(const struct rs *s)
{
	const struct rs_dgram *d = s->dgram;

	return (short)((d->head != d->tail || s->rd_shut ? POLLIN | POLLRDNORM : 0) |
		       (d->free_tx || s->wr_shut ? POLLOUT | POLLWRNORM : 0) | (d->down ? POLLHUP : 0));
}

/* ---- Sending ---- */

static ssize_t msg_gather(uint8_t *to, const struct msghdr *msg)
{
	size_t n = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (msg->msg_iov[i].iov_len > MAX_LEN - n)
			return -EMSGSIZE;
		memcpy(to + n, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		n += msg->msg_iov[i].iov_len;
	}
	return (ssize_t)n;
}

static ssize_t post_tx(struct rs *s, const struct msghdr *msg, const struct diw_addr *dst)
{
	struct rs_dgram *d = s->dgram;
	unsigned i = (unsigned)__builtin_ctz(d->free_tx);
	uint8_t *data = dgram_buffer(d, RX + i);
	ssize_t n = msg_gather(data, msg);
	struct diw_sge sge = { data, (uint32_t)n, d->mr->stag };
	struct diw_send_wr wr = {
		.wr_id = TX_ID + i, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND, .flags = DIW_SEND_SIGNALED,
		.qkey = QKEY, .dst.addr = *dst,
	};
	int rc;

	if (n < 0)
		return n;
	rc = diw_post_send(s->qp, &wr, NULL);
	if (rc < 0)
		return rc;
	d->free_tx &= ~(1u << i);
	return n;
}

static int msg_destination(struct rs *s, const struct msghdr *msg, struct diw_addr *dst)
{
	int rc = 0;

	if (msg->msg_name && msg->msg_namelen)
		rc = rs_addr_get(s, dst, msg->msg_name, msg->msg_namelen);
	else if (s->peer.port)
		*dst = s->peer;
	else
		rc = -EDESTADDRREQ;
	if (rc == 0 && !dst->port)
		rc = -EINVAL;
	return rc == 0 ? bind_for(s, dst) : rc;
}

ssize_t rs_dgram_send(struct rs *s, const struct msghdr *msg, int flags)
{
	uint64_t until = rs_until(s->opt.sndtimeo);
	struct diw_addr dst;
	int rc = msg_destination(s, msg, &dst);

	if (rc == 0 && s->wr_shut)
		rc = -EPIPE;
	while (rc == 0) {
		if (!s->dgram->free_tx)
			rs_dgram_look(s);
		if (s->dgram->free_tx)
			return post_tx(s, msg, &dst);
		if (s->nonblock || (flags & MSG_DONTWAIT)) {
			rs_idle(s);
			return -EAGAIN;
		}
		rc = rs_wait(s, POLLOUT | POLLHUP, until);
	}
	return rc;
}

/* ---- Receiving ---- */

static ssize_t msg_scatter(struct rs *s, struct msghdr *msg, int flags)
{
	struct rs_dgram *d = s->dgram;
	const struct arrived *a = &d->arrived[d->head % RX];
	size_t n = 0;

	for (size_t i = 0; i < msg->msg_iovlen && n < a->len; i++) {
		size_t k = msg->msg_iov[i].iov_len < a->len - n ? msg->msg_iov[i].iov_len : a->len - n;

		memcpy(msg->msg_iov[i].iov_base, dgram_buffer(d, a->slot) + n, k);
		n += k;
	}
	rs_addr_put(s, &a->src, msg->msg_name, &msg->msg_namelen);
	msg->msg_flags = n < a->len ? MSG_TRUNC : 0;
	msg->msg_controllen = 0;
	if (flags & MSG_TRUNC)
		n = a->len;
	if (!(flags & MSG_PEEK)) {
		post_rx(s, a->slot);
		d->head++;
	}
	return (ssize_t)n;
}

ssize_t rs_dgram_recv(struct rs *s, struct msghdr *msg, int flags)
{
	static const struct diw_addr any;
	uint64_t until = rs_until(s->opt.rcvtimeo);
	int rc = s->dgram ? 0 : rs_dgram_bind(s, &any);

	if (s->dgram)
		rc = 0;
	while (rc == 0) {
		if (s->dgram->head == s->dgram->tail)
			rs_dgram_look(s);
		if (s->dgram->head != s->dgram->tail)
			return msg_scatter(s, msg, flags);
		if (s->rd_shut)
			return 0;
		if (s->nonblock || (flags & MSG_DONTWAIT)) {
			rs_idle(s);
			return -EAGAIN;
		}
		rc = rs_wait(s, POLLIN | POLLHUP, until);
	}
	return rc;
}
