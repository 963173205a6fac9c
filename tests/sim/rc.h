/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC over simulated streams. A connection has two ends. Each has memory of which every byte is known: poison, data that
 * a completion has confirmed, or data that a request under way may be writing.
 */
#ifndef TESTS_SIM_RC_H
#define TESTS_SIM_RC_H

#include "tests/sim/sim.h"
#include "verbs/diw_cm.h"

#define RC_CONNS 6
#define RC_MSGS 256
#define RC_RECVS 48
#define RC_MEM (2u << 20)
#define RC_SOURCE (256u << 10)
#define RC_WORDS 8u
#define RC_POISON 0xa5
#define RC_IOVA 0x100000000u         /* tagged offset of the memory to which peers write */

enum rc_kind { RC_SEND, RC_WRITE, RC_READ, RC_ADD, RC_SWAP, RC_BIND, RC_INV };

struct rc_piece { uint32_t at, len; };       /* a part of an end's memory */

struct rc_msg {
	uint32_t id;                 /* unique in the run */
	enum rc_kind kind;
	uint32_t len, imm, inv_stag;
	bool has_imm, solicited, fence, signaled, invalidate;
	bool bad;                    /* it must fail: wrong STag, or too long */
	bool done, placed;           /* done: its sender knows its result; placed: its effects are known */
	struct rc_piece piece[4];    /* where it is placed: in the peer's memory (Write: one), or in the own (Read,
				      * atomics) */
	int npieces;
	const struct rc_msg *of;     /* Read: the Write whose data it reads; NULL: the peer's source is read */
	uint32_t from;               /* offset there */
	uint64_t before, value;      /* atomic: the value before it; the value that it adds or stores */
	struct diw_mr *mr;           /* registered for this message only */
	struct rc_window *window;
};

struct rc_recv {
	struct rc_piece piece[4];
	int npieces;
	uint32_t len;
	uint64_t seq;                /* its wr_id */
	bool posted;
};

/* Receives of one end, or shared by several ends. */
struct rc_rq {
	struct diw_srq *srq;         /* or NULL */
	uint8_t *mem;
	uint32_t used;
	struct diw_mr *mr;
	struct rc_recv recvs[RC_RECVS];
	uint32_t room;               /* of each receive, with its guards */
	uint32_t limit;              /* every receive holds this much */
	uint64_t seq, next;          /* the last one posted; of an end's own queue, the next to complete */
	bool torn;                   /* a receive was returned with part of a message in it */
};

enum rc_window_state { RC_UNBOUND, RC_BINDING, RC_BOUND, RC_ENDING, RC_STUCK };

struct rc_window {
	struct diw_mw *mw;
	enum diw_mw_type type;
	enum rc_window_state state;
	struct rc_piece piece;
	uint32_t stag;
};

struct rc_end {
	int index;                   /* 2 * connection; + 1 for the end that accepts */
	struct rc_host *host;
	struct rc_conn *conn;
	struct rc_end *peer;
	struct diw_qp *qp;           /* NULL: destroyed */
	struct diw_qp_attr attr;
	struct diw_cq *scq, *rcq;
	struct rc_rq *rq, own;
	uint8_t *mem, *shadow, *source;
	uint32_t used;
	uint64_t *words, model[RC_WORDS];
	struct diw_mr *mr, *source_mr, *words_mr;
	struct rc_window window;
	struct rc_msg msgs[RC_MSGS];
	uint32_t nmsgs, completed;   /* posted; the first of these that has not completed */
	uint32_t placed;             /* all before it have arrived at the peer */
	bool failed;                 /* a request has failed, so those behind it are flushed */
	bool cut;                    /* a receive was flushed with part of a message in it */
	bool up, over;               /* events: established; ended */
	bool left;                   /* aborted before it was established: an event may or may not come */
	bool disconnects;            /* it has called diw_disconnect() */
	bool destroyed;              /* destroyed while in use */
	bool hurt;                   /* the peer has ended the stream: requests of this end may fail */
	int errnum;
	uint16_t fault;
};

struct rc_conn {
	int index;
	bool answered;
	bool harmed;                 /* the connection was harmed on purpose: it may fail */
	bool severed;
	bool rfc7306;
	struct diw_addr addr[2];
	struct rc_end end[2];
	struct diw_conn_attr attr[2];
	uint8_t data[2][64];
};

struct rc_host {
	struct net_host *net;
	struct diw_pd *pd;
	struct diw_cm *cm;
	struct diw_listener *listener;
	struct diw_addr addr;
	struct rc_rq shared;
	bool has_shared;
};

struct rc_world {
	bool calm;                   /* no harm is done: everything must succeed */
	bool attentive;              /* no message waits long for a receive or for room */
	struct rc_host host[2];
	int nhosts;
	struct rc_conn conn[RC_CONNS];
	int nconns;
	uint32_t ids, done[RC_INV + 1], flushed, late;
};

extern struct rc_world rc;

/* ---- rc_end.c ---- */

void rc_open_host(struct rc_host *h);
void rc_close_host(struct rc_host *h);
/* Opens the next connection between two hosts, and begins to connect. */
void rc_open(struct rc_host *from, struct rc_host *to);
void rc_close(struct rc_conn *c);
/* Answers requests, and records the events of connections. */
void rc_events(struct rc_host *h);
void rc_post_recvs(struct rc_end *e, int n);
/* Returns the number of completions. */
int rc_poll(struct rc_end *e, int n);
void rc_destroy(struct rc_end *e);
void rc_disconnect(struct rc_end *e);
void rc_abort(struct rc_end *e);
enum diw_qp_state rc_state(struct rc_end *e);
bool rc_alloc(uint32_t *used, uint32_t size, uint32_t len, struct rc_piece *p);
void rc_window_free(struct rc_end *e);

/* ---- rc_post.c ---- */

/* Posts any request that is possible, or none. */
void rc_post(struct rc_end *e);
void rc_post_write(struct rc_end *e);
/* Posts a request that ends the connection. */
void rc_post_bad(struct rc_end *e);

/* ---- rc_ledger.c ---- */

uint8_t rc_octet(const struct rc_msg *m, uint32_t off);
void rc_sent(struct rc_end *e, const struct diw_wc *wc);
void rc_received(struct rc_end *e, const struct diw_wc *wc);
/* Checks every byte of its memory. */
void rc_check(struct rc_end *e);
/* Called at the end: checks which requests have completed, and which had to. */
void rc_account(struct rc_end *e);
void rc_recv_untouched(const struct rc_rq *rq, const struct rc_recv *r);

Suite *suite_rc_mix(int first, int last);
Suite *suite_rc(void);
TCase *tcase_rc_exact(void);

#endif
