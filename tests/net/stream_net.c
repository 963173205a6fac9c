/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of the in-memory network: connecting, listening, time, and harm. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/net/stream.h"

#define GIVE_UP (900 * DIW_S)                /* the kernel's timeout of unacknowledged data */

/* ---- Connecting and listening ---- */

static uint32_t log_uniform(struct net *net, uint32_t bits)
{
	return 1 + net_below(net, 1u << net_below(net, bits + 1));
}

static void choose_stream(struct net *net, struct net_conn *c)
{
	c->latency = net->latency;
	c->jitter = net->jitter;
	c->window = net->stream_window ? net->stream_window : 64 + log_uniform(net, 19);
	if (c->window < 2 * (c->latency + c->jitter) / DIW_US)
		c->window = (uint32_t)(2 * (c->latency + c->jitter) / DIW_US);  /* at least a megabyte a second */
	c->grain = log_uniform(net, 16);
	c->emss = 536 + net_below(net, 9000);
}

int net_stream_connect(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream **s)
{
	struct net_host *host = (struct net_host *)t;
	struct net *net = host->net;
	struct net_conn *c = calloc(1, sizeof *c);
	uint64_t slow = diw_rng_chance(&net->rng, net->slow) ? net_below(net, 15000) * DIW_MS : 0;

	if (!c)
		abort();
	c->net = net;
	choose_stream(net, c);
	c->addr[0] = attr->local;
	if (diw_addr_ip_is_zero(&c->addr[0]))
		memcpy(c->addr[0].ip, host->addr.ip, sizeof host->addr.ip);
	if (!c->addr[0].port)
		c->addr[0].port = net->next_port++;
	c->addr[1] = attr->peer;
	c->next = net->conns;
	net->conns = c;
	*s = &net_end_new(c, 0, host)->s;
	(*s)->ops->tune(*s, attr);
	net_send_piece(c, 1, PIECE_SYN, NULL, 0, slow);
	return 0;
}

static int net_listener_accept(struct diw_stream_listener *l, struct diw_stream **s)
{
	struct net_listener *n = (struct net_listener *)l;
	struct net_conn *c = n->waiting;

	if (!c)
		return -EAGAIN;
	if (diw_rng_chance(&n->net->rng, n->net->accept_fails)) {
		n->retry_at = n->net->now + 101 * DIW_MS;
		return -EMFILE;
	}
	n->waiting = c->waiting;
	if (!n->waiting)
		n->waiting_tail = &n->waiting;
	*s = &c->end[1]->s;
	net_end_moved(c->end[1]);
	return 0;
}

static int listener_no_fd(struct diw_stream_listener *l)
{
	(void)l;
	return -1;
}

static void net_listener_close(struct diw_stream_listener *l)
{
	struct net_listener *n = (struct net_listener *)l, **at = &n->net->listeners;

	for (struct net_conn *c = n->waiting, *next; c; c = next) {
		next = c->waiting;
		net_end_close(&c->end[1]->s, true);
	}
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	free(n);
}

static const struct diw_stream_listener_ops listener_ops = {
	.accept = net_listener_accept, .fd = listener_no_fd, .close = net_listener_close,
};

static struct net_listener *listener_find(struct net *net, const struct diw_addr *a)
{
	struct net_listener *n = net->listeners;

	while (n && !diw_addr_eq(&n->l.local, a))
		n = n->next;
	return n;
}

int net_stream_listen(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream_listener **l)
{
	struct net_host *host = (struct net_host *)t;
	struct net *net = host->net;
	struct net_listener *n = calloc(1, sizeof *n);

	if (!n)
		abort();
	*n = (struct net_listener){ .l = { .ops = &listener_ops, .local = attr->local }, .net = net,
		.host = host, .retry_at = DIW_NEVER };
	n->waiting_tail = &n->waiting;
	if (diw_addr_ip_is_zero(&n->l.local))
		memcpy(n->l.local.ip, host->addr.ip, sizeof host->addr.ip);
	if (!n->l.local.port)
		n->l.local.port = net->next_port++;
	if (listener_find(net, &n->l.local)) {
		free(n);
		return -EADDRINUSE;
	}
	n->next = net->listeners;
	net->listeners = n;
	*l = &n->l;
	return 0;
}

/* ---- Time ---- */

static void syn_arrived(struct net_conn *c)
{
	struct net_listener *l = listener_find(c->net, &c->addr[1]);

	if (!c->end[0])
		return;
	if (!l) {
		net_send_reset(c, 0, ECONNREFUSED);
		return;
	}
	net_end_new(c, 1, l->host)->up = true;
	net_end_moved(c->end[1]);
	c->waiting = NULL;
	*l->waiting_tail = c;
	l->waiting_tail = &c->waiting;
	net_send_piece(c, 0, PIECE_SYNACK, NULL, 0, 0);
}

static void end_die(struct net_end *e, int err)
{
	e->err = err;
	e->dead = true;
	e->dead_at = DIW_NEVER;
}

/* P has arrived at its end. The end may be closed. */
static void arrived(struct net_conn *c, int side, struct piece *p)
{
	struct net_end *e = c->end[side];

	c->on_way[side] -= p->len;
	net_end_moved(e);
	if (p->kind == PIECE_SYN) {
		syn_arrived(c);
	} else if (!e || e->dead) {
		if (p->kind == PIECE_DATA && !e && c->end[!side])
			net_send_reset(c, !side, ECONNRESET);
	} else if (p->kind == PIECE_SYNACK) {
		e->up = true;
	} else if (p->kind == PIECE_FIN) {
		e->fin = true;
	} else if (p->kind == PIECE_DATA) {
		e->unread += p->len;
		net_piece_append(&e->rx, p);
		return;
	} else {
		end_die(e, p->err);
		if (net_below(c->net, 2)) {
			net_pieces_clear(&e->rx);
			e->unread = 0;
		}
	}
	free(p);
}

static void deliver_conn(struct net_conn *c)
{
	uint64_t now = c->net->now;

	for (int side = 0; side < 2; side++) {
		struct net_end *e = c->end[side];

		while (c->to[side].head && c->to[side].head->at <= now) {
			struct piece *p = net_piece_take(&c->to[side]);

			if (!c->severed) {
				arrived(c, side, p);
			} else {
				c->on_way[side] -= p->len;
				free(p);
			}
		}
		if (e && e->dead_at <= now) {
			end_die(e, ETIMEDOUT);
			net_end_moved(e);
		}
		if (e && e->blocked_until && e->blocked_until <= now) {
			e->blocked_until = 0;
			net_end_moved(e);
		}
	}
}

void net_streams_deliver(struct net *net)
{
	struct net_conn **at = &net->conns, *c;

	for (struct net_listener *l = net->listeners; l; l = l->next)
		if (l->retry_at <= net->now) {
			l->host->moved = true;
			l->retry_at = DIW_NEVER;
		}
	while ((c = *at)) {
		deliver_conn(c);
		if (c->end[0] || c->end[1] || c->to[0].head || c->to[1].head) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		free(c);
	}
}

uint64_t net_streams_next(const struct net *net)
{
	uint64_t t = DIW_NEVER;

	for (int i = 0; i < net->nhosts; i++)
		if (net->host[i].moved && net->host[i].dev)
			t = net->now;
	for (const struct net_listener *l = net->listeners; l; l = l->next)
		t = diw_min64(t, l->retry_at);
	for (const struct net_conn *c = net->conns; c; c = c->next)
		for (int side = 0; side < 2; side++) {
			const struct net_end *e = c->end[side];

			if (c->to[side].head)
				t = diw_min64(t, c->to[side].head->at);
			if (e)
				t = diw_min64(t, e->dead_at);
			if (e && e->blocked_until > net->now)
				t = diw_min64(t, e->blocked_until);
		}
	return t;
}

/* ---- Harm ---- */

static struct net_conn *net_conn_find(struct net *net, const struct diw_addr *a, const struct diw_addr *b)
{
	for (struct net_conn *c = net->conns; c; c = c->next)
		if ((diw_addr_eq(&c->addr[0], a) && diw_addr_eq(&c->addr[1], b)) ||
		    (diw_addr_eq(&c->addr[0], b) && diw_addr_eq(&c->addr[1], a)))
			return c;
	return NULL;
}

bool net_stream_reset(struct net *net, const struct diw_addr *a, const struct diw_addr *b)
{
	struct net_conn *c = net_conn_find(net, a, b);

	if (!c)
		return false;
	for (int side = 0; side < 2; side++)
		if (c->end[side])
			net_send_reset(c, side, ECONNRESET);
	return true;
}

bool net_stream_sever(struct net *net, const struct diw_addr *a, const struct diw_addr *b)
{
	struct net_conn *c = net_conn_find(net, a, b);

	if (!c)
		return false;
	c->severed = true;
	for (int side = 0; side < 2; side++) {
		struct net_end *e = c->end[side];

		if (e)
			e->dead_at = net->now + (e->keepalive ? e->keepalive : GIVE_UP);
	}
	return true;
}

void net_streams_free(struct net *net)
{
	while (net->conns) {
		struct net_conn *c = net->conns;

		net->conns = c->next;
		for (int side = 0; side < 2; side++) {
			if (c->end[side])
				abort();        /* a stream that was not closed */
			net_pieces_clear(&c->to[side]);
		}
		free(c);
	}
	if (net->listeners)
		abort();
}
