/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RD: work requests over reliable datagrams; declarations that the files rdmap/rd*.c share.
 *
 *   rd.c         the type: received segments
 *   rd_send.c    requests by destination, from the post until the destination has acknowledged them
 *   rd_ask.c     Reads and atomics until they are answered
 *   rd_answer.c  answers to Reads and atomics of peers
 */
#ifndef DIW_RDMAP_RD_H
#define DIW_RDMAP_RD_H

#include "rdmap/int.h"

#define RD_ASKED 16u                 /* Reads and atomics of one requester that a peer answers at a time */

struct rd_dest;

/* Consecutive segments of a message that are not acknowledged. */
struct rd_sent {
	struct rd_sent *hnext;
	struct rd_sent *next;        /* the one before it, of the same message */
	struct rd_msg *msg;
	uint32_t first, n;
};

/* A message of a request or an answer, until its destination has acknowledged it. */
struct rd_msg {
	struct diw_list link;        /* in the list of its destination, by age; or in the list of ended requests */
	struct rd_dest *dest;
	struct rd_sent *sent;        /* the newest */
	bool left;                   /* the link has taken all its segments */
	bool answer;                 /* true: of a struct rd_answer; false: of a struct rd_req */
};

struct rd_req {
	struct rd_msg msg;           /* must be first */
	bool asked;                  /* a Read or atomic that waits for its answer; it is in rd->asked */
	bool probed;                 /* its peer has acknowledged it, and was probed since */
	bool ended;                  /* it waits for the end of older requests to its destination */
	struct diw_list ask;
	uint64_t heard;              /* when it was sent, or its peer was last probed */
	struct diw_rdmap_wr wr;      /* last member: its entries or inline data follow */
};

enum rd_dest_state {
	RD_DEST_READY,               /* in rd->ready */
	RD_DEST_IDLE,                /* there is nothing to send */
	RD_DEST_BLOCKED,             /* until the link has room for the destination */
};

/* A request of a peer that is to be answered, until the peer has acknowledged the answer. */
struct rd_answer {
	struct rd_msg msg;           /* must be first */
	struct diw_rdmap_rc_answer of;
	uint32_t msn;                /* of the peer's request */
	uint16_t fault;              /* the request is refused with this fault; 0: it is not refused */
};

/* A peer that has requests to it, or waits for answers. */
struct rd_dest {
	struct rd_dest *hnext;
	struct diw_list turn;        /* in the list of ready destinations, or of failed ones */
	struct diw_addr addr;
	struct diw_list reqs;
	struct rd_req *next;         /* the oldest request that has not left, or NULL */
	struct diw_ddp_tx tx;        /* the message of that request */
	enum rd_dest_state state;
	uint32_t nasked;             /* requests in `reqs` that wait for their answers */
	struct diw_list answers;
	uint32_t nanswers;
	struct rd_answer *answer;    /* the oldest answer that has not left, or NULL */
	struct diw_ddp_tx answer_tx; /* the message of that answer */
	bool answers_first;          /* answers go first in the next turn */
	uint64_t probed;             /* when it was last probed */
};

struct diw_rdmap_rd {
	struct diw_arena arena;      /* the arena holds this struct, too */
	struct diw_pool reqs, dests, sent, answers;
	struct rd_dest **dest;       /* hash table by address */
	struct rd_sent **number;     /* hash table by the number of the first segment */
	uint32_t dest_mask, number_mask;
	uint64_t seed;
	struct diw_list ready;
	uint32_t blocked;            /* destinations in that state */
	struct diw_list asked;       /* all requests that wait for answers */
	uint32_t askers, askers_max; /* peers that wait for answers of this end */
	uint64_t probe_at;           /* when peers that owe answers are probed next */
	struct diw_list done;        /* ended requests, for the layer above */
};

int diw_rdmap_rd_send_init(struct diw_rdmap *r);         /* -ENOMEM */
void diw_rdmap_rd_send_fini(struct diw_rdmap *r);
/* Upcalls of the link. */
int diw_rdmap_rd_payload(void *ctx, void *owner, uint32_t at, uint32_t len, struct iovec *iov);
void diw_rdmap_rd_acked(void *ctx, uint32_t first, uint32_t n);
void diw_rdmap_rd_refused(void *ctx, uint32_t first, uint32_t n, int errnum);
void diw_rdmap_rd_rejected(void *ctx, uint32_t number, uint16_t fault);
void diw_rdmap_rd_room(void *ctx, const struct diw_addr *peer);
void diw_rdmap_rd_gone(void *ctx, const struct diw_addr *peer, int errnum);

struct rd_dest *diw_rdmap_rd_dest(struct diw_rdmap_rd *rd, const struct diw_addr *addr);         /* or NULL */
/* Finds or makes a destination for a request or an asker. */
struct rd_dest *diw_rdmap_rd_dest_get(struct diw_rdmap_rd *rd, const struct diw_addr *addr);
void diw_rdmap_rd_dest_ready(struct diw_rdmap_rd *rd, struct rd_dest *d);
void diw_rdmap_rd_sent(struct diw_rdmap_rd *rd, struct rd_msg *msg, uint32_t first, uint32_t n);
/* Forgets the segments of MSG: their acknowledgement is not awaited any more. */
void diw_rdmap_rd_unsent(struct diw_rdmap_rd *rd, struct rd_msg *msg);
/* Ends the message if nothing more is expected. Its destination may be freed by this. */
void diw_rdmap_rd_settle(struct diw_rdmap_rd *rd, struct rd_msg *msg);

/* ---- rd_ask.c ---- */

/* Whether the request must wait: for the number of outstanding ones, or behind a fence. */
bool diw_rdmap_rd_ask_waits(const struct rd_dest *d, const struct diw_rdmap_wr *wr);
int diw_rdmap_rd_ask(struct diw_rdmap *r, struct rd_dest *d, struct rd_req *req, uint64_t now);
void diw_rdmap_rd_unask(struct rd_req *req);
/* The target of a segment of a Response; MESSAGE: its octets are to be dropped. */
uint16_t diw_rdmap_rd_response(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t);
uint16_t diw_rdmap_rd_response_dropped(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
void diw_rdmap_rd_response_placed(struct diw_rdmap *r, struct rd_req *req, uint32_t len);
uint16_t diw_rdmap_rd_atomic_response(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
uint16_t diw_rdmap_rd_terminated(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
/* The peer begins its answers again. */
void diw_rdmap_rd_asked_again(struct diw_rdmap *r, const struct diw_addr *peer);
/* No more answers of that peer are accepted. ERRNUM 0: none to requests that the peer has acknowledged. */
void diw_rdmap_rd_asked_fail(struct diw_rdmap *r, const struct diw_addr *peer, int errnum);
void diw_rdmap_rd_probe(struct diw_rdmap *r, uint64_t now);

/* ---- rd_answer.c ---- */

uint16_t diw_rdmap_rd_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
/* 0: there is nothing left to answer; -EAGAIN, -EBUSY. */
int diw_rdmap_rd_answer(struct diw_rdmap *r, struct rd_dest *d, int64_t *budget, uint64_t now);
/* The answer has been acknowledged, or is given up. */
void diw_rdmap_rd_answer_end(struct diw_rdmap_rd *rd, struct rd_answer *a);
/* Drops the answers to D. */
void diw_rdmap_rd_answers_end(struct diw_rdmap_rd *rd, struct rd_dest *d);
/* Sends the answers to D again, from the oldest one that D has not acknowledged. */
void diw_rdmap_rd_answers_again(struct diw_rdmap_rd *rd, struct rd_dest *d);

#endif
