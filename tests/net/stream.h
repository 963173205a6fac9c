/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of the in-memory network: declarations that stream.c (an end) and stream_net.c (connecting, delivery)
 * share. */
#ifndef TESTS_NET_STREAM_H
#define TESTS_NET_STREAM_H

#include "tests/net/net.h"

enum piece_kind { PIECE_SYN, PIECE_SYNACK, PIECE_DATA, PIECE_FIN, PIECE_RESET };

struct piece {
	struct piece *next;
	uint64_t at;
	enum piece_kind kind;
	int err;                     /* RESET */
	uint32_t len, off;
	uint8_t data[];
};

struct queue {
	struct piece *head, *tail;
};

struct net_end {
	struct diw_stream s;         /* must be first */
	struct net_conn *conn;
	struct net_host *host;
	int side;                    /* 0: the end that connects */
	struct queue rx;
	uint32_t unread;
	bool up, fin, shut;
	int err;                     /* reported once, as by the kernel; the stream is then broken */
	bool dead;
	uint64_t blocked_until, dead_at, keepalive;
};

struct net_conn {
	struct net_conn *next;
	struct net *net;
	struct net_end *end[2];      /* NULL: closed */
	struct queue to[2];
	uint64_t last_at[2];
	uint32_t on_way[2];          /* bytes in to[] */
	uint32_t window, grain, emss;
	uint64_t latency, jitter;
	struct diw_addr addr[2];
	struct net_conn *waiting;    /* next in a listener's queue */
	bool severed;                /* no more data arrives */
};

struct net_listener {
	struct diw_stream_listener l;        /* must be first */
	struct net *net;
	struct net_host *host;
	struct net_listener *next;
	struct net_conn *waiting, **waiting_tail;
	uint64_t retry_at;           /* when the host looks again at a listener that is still readable */
};

/* A random number from 0 to N - 1. */
static inline uint32_t net_below(struct net *net, uint32_t n)
{
	return (uint32_t)(diw_rng_next(&net->rng) % n);
}

void net_piece_append(struct queue *q, struct piece *p);
struct piece *net_piece_take(struct queue *q);
void net_pieces_clear(struct queue *q);
/* Queues a piece towards the end TO of C. */
struct piece *net_send_piece(struct net_conn *c, int to, enum piece_kind kind, const void *data, uint32_t len,
			     uint64_t delay);
void net_send_reset(struct net_conn *c, int to, int err);
struct net_end *net_end_new(struct net_conn *c, int side, struct net_host *host);
void net_end_close(struct diw_stream *s, bool abort);
/* The end's state has changed in a way that its host can see. */
void net_end_moved(struct net_end *e);

#endif
