/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte streams of the in-memory network, which behave like the kernel's TCP. How much a send takes, when it arrives,
 * and where a receive is cut is random. A window limits the bytes in flight or unread. Every event of an end is a piece
 * in the queue towards it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/net/stream.h"

/* ---- Queues ---- */

void net_piece_append(struct queue *q, struct piece *p)
{
	p->next = NULL;
	if (q->head)
		q->tail->next = p;
	else
		q->head = p;
	q->tail = p;
}

struct piece *net_piece_take(struct queue *q)
{
	struct piece *p = q->head;

	q->head = p->next;
	return p;
}

void net_pieces_clear(struct queue *q)
{
	while (q->head)
		free(net_piece_take(q));
}

struct piece *net_send_piece(struct net_conn *c, int to, enum piece_kind kind, const void *data, uint32_t len,
				uint64_t delay)
{
	struct piece *p = malloc(sizeof *p + len);
	uint64_t at = c->net->now + delay + c->latency + (c->jitter ? diw_rng_next(&c->net->rng) % c->jitter : 0);

	if (!p)
		abort();
	at = at > c->last_at[to] ? at : c->last_at[to];
	c->last_at[to] = at;
	*p = (struct piece){ .at = at, .kind = kind, .len = len };
	if (len)
		memcpy(p->data, data, len);
	net_piece_append(&c->to[to], p);
	c->on_way[to] += len;
	return p;
}

void net_send_reset(struct net_conn *c, int to, int err)
{
	net_send_piece(c, to, PIECE_RESET, NULL, 0, 0)->err = err;
}

/* ---- An end ---- */

static struct net_end *end_of(struct diw_stream *s)
{
	return (struct net_end *)s;
}

/* The end's state has changed in a way that its host can see. */
void net_end_moved(struct net_end *e)
{
	if (e)
		e->host->moved = true;
}

static int take_err(struct net_end *e)
{
	int err = e->err;

	e->err = 0;
	return err;
}

static int end_connected(struct diw_stream *s)
{
	struct net_end *e = end_of(s);

	if (e->err)
		return -take_err(e);
	return e->up ? 0 : -EAGAIN;
}

/* The number of bytes, of LEN, that the end accepts at the moment. */
static uint32_t accepts(struct net_end *e, size_t len)
{
	struct net_conn *c = e->conn;
	struct net *net = c->net;
	const struct net_end *peer = c->end[!e->side];
	uint32_t used = c->on_way[!e->side] + (peer ? peer->unread : 0);
	uint32_t room = used < c->window ? c->window - used : 0;

	if (net->now < e->blocked_until)
		return 0;
	if (diw_rng_chance(&net->rng, net->block)) {
		net->blocked++;
		e->blocked_until = net->now + 1 + net_below(net, 50 * DIW_US);
		return 0;
	}
	if (len < room)
		room = (uint32_t)len;
	return room && net_below(net, 2) ? 1 + net_below(net, room < c->grain ? room : c->grain) : room;
}

static ssize_t stream_send(struct diw_stream *s, const struct iovec *iov, int n)
{
	struct net_end *e = end_of(s);
	size_t len = 0, done = 0;
	uint32_t take;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	if (n < 1 || len == 0 || !e->up)
		abort();                        /* violates the contract of the seam */
	if (e->err)
		return -take_err(e);
	if (e->dead || e->shut)
		return -EPIPE;
	take = accepts(e, len);
	if (!take)
		return -EAGAIN;
	for (; done < take; iov++) {
		size_t part = iov->iov_len < take - done ? iov->iov_len : take - done;

		if (part)
			net_send_piece(e->conn, !e->side, PIECE_DATA, iov->iov_base, (uint32_t)part, 0);
		done += part;
	}
	e->conn->net->stream_bytes += take;
	return take;
}

/* Takes part of the first piece. */
static uint32_t take_bytes(struct net_end *e, uint8_t *to, uint32_t len)
{
	struct piece *p = e->rx.head;

	if (len > p->len - p->off)
		len = p->len - p->off;
	memcpy(to, p->data + p->off, len);
	p->off += len;
	e->unread -= len;
	if (p->off == p->len)
		free(net_piece_take(&e->rx));
	return len;
}

static ssize_t stream_recv(struct diw_stream *s, const struct iovec *iov, int n)
{
	struct net_end *e = end_of(s);
	struct net *net = e->conn->net;
	size_t at = 0, got = 0, cut = 65536;

	if (!e->rx.head) {
		if (e->err)
			return -take_err(e);
		return e->fin || e->dead ? 0 : -EAGAIN;
	}
	if (net_below(net, 4))
		cut = 1 + net_below(net, e->conn->grain);
	for (int i = 0; i < n && got < cut && e->rx.head;) {
		size_t room = iov[i].iov_len - at < cut - got ? iov[i].iov_len - at : cut - got;
		uint32_t part = take_bytes(e, (uint8_t *)iov[i].iov_base + at, (uint32_t)room);

		at += part;
		got += part;
		if (at == iov[i].iov_len) {
			i++;
			at = 0;
		}
	}
	net_end_moved(e);                               /* there may be more */
	net_end_moved(e->conn->end[!e->side]);          /* the sender has room again */
	return (ssize_t)got;
}

static uint32_t end_emss(struct diw_stream *s)
{
	return end_of(s)->conn->emss;
}

static int no_fd(struct diw_stream *s)
{
	(void)s;
	return -1;
}

static int end_tune(struct diw_stream *s, const struct diw_stream_attr *a)
{
	if (a->keepalive)
		end_of(s)->keepalive = (a->keepalive_idle + a->keepalive_interval * a->keepalive_count) * DIW_S;
	return 0;
}

static void end_shutdown(struct diw_stream *s)
{
	struct net_end *e = end_of(s);

	if (e->shut || e->dead)
		return;
	e->shut = true;
	net_send_piece(e->conn, !e->side, PIECE_FIN, NULL, 0, 0);
}

static void free_end(struct net_end *e)
{
	net_pieces_clear(&e->rx);
	e->conn->end[e->side] = NULL;
	free(e);
}

/* Closing with unread bytes resets the stream, as in Linux. */
void net_end_close(struct diw_stream *s, bool abort)
{
	struct net_end *e = end_of(s);
	struct net_conn *c = e->conn;
	int to = !e->side;

	if (abort && !e->dead && net_below(c->net, 2)) {        /* bytes that have not left yet are lost */
		net_pieces_clear(&c->to[to]);
		c->on_way[to] = 0;
		c->last_at[to] = c->net->now;
	}
	if (!e->dead && (abort || e->rx.head))
		net_send_reset(c, to, ECONNRESET);
	else if (!e->dead && !e->shut)
		net_send_piece(c, to, PIECE_FIN, NULL, 0, 0);
	free_end(e);
}

static const struct diw_stream_ops end_ops = {
	.name = "net", .connected = end_connected, .send = stream_send, .recv = stream_recv, .emss = end_emss,
	.fd = no_fd, .tune = end_tune, .shutdown = end_shutdown, .close = net_end_close,
};

struct net_end *net_end_new(struct net_conn *c, int side, struct net_host *host)
{
	struct net_end *e = calloc(1, sizeof *e);

	if (!e)
		abort();
	*e = (struct net_end){ .s = { .ops = &end_ops, .local = c->addr[side], .peer = c->addr[!side] }, .conn = c,
			       .host = host, .side = side, .dead_at = DIW_NEVER };
	c->end[side] = e;
	return e;
}
