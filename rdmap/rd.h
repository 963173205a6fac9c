/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RD: work requests over reliable datagrams, between the files rdmap/rd*.c.
 *
 *   rd.c         the type: what arrives
 *   rd_send.c    requests, by destination, from the post until the destination has acknowledged them
 *   rd_ask.c     Reads and atomics until they are answered
 *   rd_answer.c  the answers to those of peers
 */
#ifndef DIW_RDMAP_RD_H
#define DIW_RDMAP_RD_H

#include "rdmap/int.h"

#define RD_ASKED 16u                 /* Reads and atomics of one end that another answers at a time */

struct rd_dest;

/* Segments of a request, with successive numbers, that are not acknowledged. */
struct rd_sent {
	struct rd_sent *hnext;
	struct rd_sent *next;        /* the request's before it */
	struct rd_req *req;
	uint32_t first, n;
};

struct rd_req {
	struct diw_list link;        /* of its destination, by age; or of those that have ended */
	struct rd_dest *dest;
	struct rd_sent *sent;        /* the newest */
	bool left;                   /* the link has taken all its segments */
	bool asked;                  /* a Read or atomic: it waits for its answer; in rd->asked */
	struct diw_list ask;
	uint64_t heard;              /* when it was sent, or its peer was asked whether it lives */
	struct diw_rdmap_wr wr;      /* last: its entries or inline data follow */
};

enum rd_dest_state {
	RD_DEST_READY,               /* in rd->ready */
	RD_DEST_IDLE,                /* nothing to send */
	RD_DEST_BLOCKED,             /* until the link has room for it */
};

/* What a peer has asked for. */
struct rd_answer {
	struct diw_list link;
	struct diw_rdmap_rc_answer of;
	uint32_t msn;                /* of the request */
	uint16_t fault;              /* it is refused; 0: not */
};

/* A peer with requests that have not ended, or that waits for answers. */
struct rd_dest {
	struct rd_dest *hnext;
	struct diw_list turn;        /* ready: among those; failed: among those */
	struct diw_addr addr;
	struct diw_list reqs;
	struct rd_req *next;         /* the oldest that has not left, or NULL */
	struct diw_ddp_tx tx;        /* of that one */
	enum rd_dest_state state;
	uint32_t nasked;             /* of reqs: wait for their answers */
	struct diw_list answers;
	uint32_t nanswers;
	struct diw_ddp_tx answer_tx; /* of the first of these */
	bool answers_first;          /* in the next turn */
	uint64_t probed;             /* when it was asked whether it lives */
};

struct diw_rdmap_rd {
	struct diw_arena arena;      /* it lies in that itself */
	struct diw_pool reqs, dests, sent, answers;
	struct rd_dest **dest;       /* by address */
	struct rd_sent **number;     /* by the number of the first segment */
	uint32_t dest_mask, number_mask;
	uint64_t seed;
	struct diw_list ready;
	struct diw_list asked;       /* requests that wait for answers */
	uint32_t askers, askers_max; /* destinations that wait for answers of this end */
	uint64_t probe_at;           /* when their peers are asked whether they live */
	struct diw_list done;        /* requests that have ended, for the layer above */
};

int diw_rdmap_rd_send_init(struct diw_rdmap *r);         /* -ENOMEM */
void diw_rdmap_rd_send_fini(struct diw_rdmap *r);
/* Upcalls of the link. */
void diw_rdmap_rd_acked(void *ctx, uint32_t first, uint32_t n);
void diw_rdmap_rd_refused(void *ctx, uint32_t first, uint32_t n, int errnum);
void diw_rdmap_rd_rejected(void *ctx, uint32_t number, uint16_t fault);
void diw_rdmap_rd_room(void *ctx, const struct diw_addr *peer);
void diw_rdmap_rd_gone(void *ctx, const struct diw_addr *peer, int errnum);

struct rd_dest *diw_rdmap_rd_dest(struct diw_rdmap_rd *rd, const struct diw_addr *addr);         /* or NULL */
/* It has a request, or asks. */
struct rd_dest *diw_rdmap_rd_dest_get(struct diw_rdmap_rd *rd, const struct diw_addr *addr);
void diw_rdmap_rd_dest_ready(struct diw_rdmap_rd *rd, struct rd_dest *d);
void diw_rdmap_rd_sent(struct diw_rdmap_rd *rd, struct rd_req *req, uint32_t first, uint32_t n);
/* It has ended, if nothing more is expected. Behind it, D may be gone. */
void diw_rdmap_rd_settle(struct diw_rdmap_rd *rd, struct rd_req *req);

/* ---- rd_ask.c ---- */

/* As many as may be wait for their answers, or a fence waits for those. */
bool diw_rdmap_rd_ask_waits(const struct rd_dest *d, const struct diw_rdmap_wr *wr);
int diw_rdmap_rd_ask(struct diw_rdmap *r, struct rd_dest *d, struct rd_req *req, uint64_t now);
void diw_rdmap_rd_unask(struct rd_req *req);
uint16_t diw_rdmap_rd_response(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t);
void diw_rdmap_rd_response_placed(struct diw_rdmap *r, struct rd_req *req, uint32_t len);
uint16_t diw_rdmap_rd_atomic_response(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
uint16_t diw_rdmap_rd_terminated(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
/* No answer of that peer is taken any more. */
void diw_rdmap_rd_asked_fail(struct diw_rdmap *r, const struct diw_addr *peer, int errnum);
void diw_rdmap_rd_probe(struct diw_rdmap *r, uint64_t now);

/* ---- rd_answer.c ---- */

uint16_t diw_rdmap_rd_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
/* 0: nothing is left; -EAGAIN, -EBUSY. */
int diw_rdmap_rd_answer(struct diw_rdmap *r, struct rd_dest *d, int64_t *budget, uint64_t now);
/* D is answered no more. */
void diw_rdmap_rd_answers_end(struct diw_rdmap_rd *rd, struct rd_dest *d);

#endif
