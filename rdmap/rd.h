/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RD: work requests over reliable datagrams, between the files rdmap/rd*.c.
 *
 *   rd.c         the type: what arrives
 *   rd_send.c    requests, by destination, from the post until the destination has acknowledged them
 */
#ifndef DIW_RDMAP_RD_H
#define DIW_RDMAP_RD_H

#include "rdmap/int.h"

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
	struct diw_rdmap_wr wr;      /* last: its entries or inline data follow */
};

enum rd_dest_state {
	RD_DEST_READY,               /* in rd->ready */
	RD_DEST_IDLE,                /* nothing to send */
	RD_DEST_BLOCKED,             /* until the link has room for it */
};

/* A peer with requests that have not ended. */
struct rd_dest {
	struct rd_dest *hnext;
	struct diw_list turn;        /* ready: among those; failed: among those */
	struct diw_addr addr;
	struct diw_list reqs;
	struct rd_req *next;         /* the oldest that has not left, or NULL */
	struct diw_ddp_tx tx;        /* of that one */
	enum rd_dest_state state;
};

struct diw_rdmap_rd {
	struct diw_arena arena;      /* it lies in that itself */
	struct diw_pool reqs, dests, sent;
	struct rd_dest **dest;       /* by address */
	struct rd_sent **number;     /* by the number of the first segment */
	uint32_t dest_mask, number_mask;
	uint64_t seed;
	struct diw_list ready;
	struct diw_list done;        /* requests that have ended, for the layer above */
};

int diw_rdmap_rd_send_init(struct diw_rdmap *r);         /* -ENOMEM */
void diw_rdmap_rd_send_fini(struct diw_rdmap *r);
/* Upcalls of the link. */
void diw_rdmap_rd_acked(void *ctx, uint32_t first, uint32_t n);
void diw_rdmap_rd_refused(void *ctx, uint32_t first, uint32_t n, int errnum);
void diw_rdmap_rd_rejected(void *ctx, uint32_t number, uint16_t fault);
void diw_rdmap_rd_room(void *ctx, const struct diw_addr *peer);

#endif
