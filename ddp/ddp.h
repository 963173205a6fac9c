/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP (RFC 5041): segmenting, checking and placing. Over a link of datagrams with validity records and reassembly
 * (record.c, reasm.c), over an ordered one message after message (order.c).
 * One instance a queue pair; the caller holds the device's lock and passes the clock.
 */
#ifndef DIW_DDP_DDP_H
#define DIW_DDP_DDP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/counters.h"
#include "base/fault.h"
#include "ddp/peers.h"
#include "ddp/reasm.h"
#include "ddp/record.h"
#include "ddp/source.h"
#include "ddp/stag.h"
#include "llp/link.h"
#include "wire/hdr.h"

#define DIW_DDP_MAX_SGE 16

/* ---- What both directions share ---- */

struct diw_ddp_sge { uint64_t to; uint32_t len, stag; };

/* A buffer as a work request names it. Resolved through the STag table at every use, so a deregistered region is never
 * touched, however long the work request has been waiting. */
struct diw_ddp_buf {
	const struct diw_ddp_sge *sge;
	uint32_t n, len;             /* entries, bytes in all */
};

/* A segment that arrived, decoded; everything is borrowed until the callback returns. */
struct diw_ddp_seg {
	struct diw_ddp_hdr h;
	uint32_t hdr_len, len;       /* header, payload */
	const uint8_t *raw;          /* the header's first byte */
	const uint8_t *payload;
	const struct diw_addr *src;
	bool group;                  /* it came to a group or broadcast address */
	const struct diw_addr *to;   /* group: by the group port, to that group; else which of our own, or NULL */
};

/* ---- Up: what DDP asks of RDMAP ---- */

enum diw_ddp_target_kind {
	DIW_TARGET_RECORD,           /* Write-Record: placed by the STag of the segment, recorded */
	DIW_TARGET_RECV,             /* a message for the receive queue */
	DIW_TARGET_BUF,              /* into `buf` at MO, then placed() */
	DIW_TARGET_STAG,             /* by the STag of the segment, no record, then placed() */
	DIW_TARGET_MESSAGE,          /* RDMAP's own single-segment message */
	DIW_TARGET_IMMEDIATE,        /* ordered: consumes a receive, writes nothing to it */
};

struct diw_ddp_target {
	enum diw_ddp_target_kind kind;
	uint32_t mo;                 /* BUF, ordered: where this segment begins; a datagram says so itself */
	struct diw_ddp_buf buf;
	void *cookie;
};

/* A posted receive, as far as DDP sees it. */
struct diw_recv {
	uint64_t wr_id;
	struct diw_ddp_buf buf;
};

/* Up: the receive queue, which RDMAP passes on as it is. */
struct diw_ddp_recvs {
	/* The next posted receive, or NULL; it is held until done or returned. */
	struct diw_recv *(*take)(void *ctx);
	void (*give_back)(void *ctx, struct diw_recv *r);
	/* Posted receives now, those that are held not included. */
	uint32_t (*posted)(void *ctx);
	/* Would N more completions fit the receive completion queue? */
	bool (*room)(void *ctx, uint32_t n);
};

struct diw_ddp_ulp {
	/* The target of this segment. Called before a byte of it is placed or state is made for it. 0 or a fault. It
	 * may be asked again of a segment that had to wait. */
	uint16_t (*target)(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now);
	/* A whole message is in R, or FAULT made R unusable. SEG is the segment that completed it. */
	void (*recv_done)(void *ctx, struct diw_recv *r, const struct diw_ddp_seg *seg, uint16_t fault);
	/* The record has closed (or, in chunk mode, [lo, hi) of it is a contiguous run; `end` with the last
	 * completion). The room was asked for. Message mode: true keeps the record alive until diw_record_release(). */
	bool (*record_done)(void *ctx, struct diw_record *r, uint32_t lo, uint32_t hi, bool end);
	/* The bytes of a BUF or STAG target are in place. */
	void (*placed)(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now);
	uint16_t (*message)(void *ctx, const struct diw_ddp_seg *seg, uint64_t now);     /* 0 or a fault */
	/* The source of the segment is to prove that its address and the epoch are its own. */
	void (*challenge)(void *ctx, const struct diw_ddp_seg *seg, uint64_t now);
	/* The segment was dropped and counted for that fault. seg->hdr_len 0: not even a header. Over an ordered link
	 * nothing is received after it. */
	void (*fault)(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now);
	/* Ordered: the link is down, see struct diw_link_up. */
	void (*down)(void *ctx, uint16_t fault, int errnum, uint64_t now);
	/* Datagrams: segments were refused, see struct diw_link_up. */
	void (*refused)(void *ctx, uint32_t first, uint32_t n, int errnum);
	/* Reliable datagrams: the same. */
	void (*acked)(void *ctx, uint32_t first, uint32_t n);
	void (*rejected)(void *ctx, uint32_t number, uint16_t fault);
	void (*room)(void *ctx, const struct diw_addr *peer);
	void (*gone)(void *ctx, const struct diw_addr *peer, int errnum);
};

/* Tells the link's watch, and the log, of the drop; the counter of that name was stepped. */
void diw_ddp_dropped(const struct diw_ddp *d, const struct diw_ddp_seg *seg, const char *reason, uint64_t now);
/* Counts and tells the drop of a segment of LEN octets, and tells the layer above of the fault. */
void diw_ddp_drop(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint32_t len, uint16_t fault, uint64_t now);

/* ---- Transmit (ddp/tx.c) ---- */

/* A message and how far it is cut; `h` is the template of its segments' headers. */
struct diw_ddp_tx {
	struct diw_ddp_hdr h;
	struct diw_dest dst;
	uint32_t off;                /* payload bytes taken by the link; the next segment's MO */
	uint32_t seg;                /* payload bytes a segment */
	uint32_t toll;               /* 0: no window */
	int64_t window;              /* octets and tolls that may leave; a segment that needs more waits */
	bool alone;                  /* but the next one may leave whatever the window */
	uint32_t held;               /* octets and toll of the segment that waits for the window; 0 none */
	bool active;                 /* begun, not finished */
};

/* Begin a message of h.length bytes; draws its MSN unless it answers one (a Read Response). */
void diw_ddp_tx_begin(struct diw_ddp *d, struct diw_ddp_tx *tx, bool draw_msn);
/* Cut and send at most *BUDGET bytes of segments (at least one segment; reduced by what went). IOV is the whole
 * message's payload. 0: all taken; -EAGAIN: the link is blocked; -EBUSY: the budget or the window is spent; call
 * again. */
int diw_ddp_tx_run(struct diw_ddp *d, struct diw_ddp_tx *tx, const struct iovec *iov, int64_t *budget, uint64_t now);

/* ---- Receive (ddp/rx.c) ---- */

struct diw_ddp_cfg {
	uint32_t qkey;
	bool fixed_peer;             /* UC: only this one */
	struct diw_dest peer;
	bool chunks;                 /* one completion a contiguous run a burst */
	bool close_last;             /* never report a record whose last segment did not come */
	uint64_t reorder_window, record_timeout, reasm_timeout;      /* ns */
	uint32_t max_sources, max_records, max_reasm;
	uint32_t toll;               /* what a segment takes of a budget beside its octets */
	uint8_t extras;              /* ordered: what the peers agreed on, see diw_ddp_hdr_decode_plain() */
	uint64_t rnr_timeout;        /* ordered: so long a segment may wait for a receive, ns */
	uint64_t rnr_most;           /* ordered: of which the peer may ask for less, */
	uint64_t rnr_unit;           /* in so many of these; 0: it may not */
};

#define DIW_DDP_NOT_NOW 0xffffu      /* no fault: the segment comes again */

/* What links call with their bursts: datagrams, reliable ones (ddp/peers.c), the segments of a stream (ddp/order.c). */
extern const struct diw_link_up diw_ddp_link_up;
extern const struct diw_link_up diw_ddp_peers_up;
extern const struct diw_link_up diw_ddp_ordered_up;

#define DIW_DDP_UC_WAIT (250 * DIW_MS)       /* of UC, so long a segment may wait for a receive */
#define DIW_DDP_QUEUES 4             /* untagged: Sends, Read and Atomic Requests, Terminate, Atomic Responses */

struct diw_order {
	uint32_t tx_msn[DIW_DDP_QUEUES], rx_msn[DIW_DDP_QUEUES];     /* of the next message; the first is 1 */
	struct diw_recv *recv;       /* held by the message in progress */
	uint32_t got;                /* its bytes that are in place */
	struct diw_ddp_hdr first;    /* of its first segment */
	uint32_t write_stag;         /* of the Write in progress, and where its next segment begins */
	uint64_t write_to;
	uint32_t written;            /* bytes of the Write that came last, of a peer's requests; 0 behind another */
	bool writes;                 /* a Write is in progress */
	bool waiting;                /* a segment was not taken, and stays in the link; UC, too */
	uint64_t waits_since;        /* ordered: it was not taken */
	uint64_t waits_until;        /* for a receive; 0: it does not; UC, too */
	uint64_t asks_at;            /* whether the peer is still there, while it waits */
	bool had_recv;               /* UC: there was a receive since one was waited for in vain */
	bool seen;                   /* the peer has sent an FPDU, maybe an empty one; or it is the responder */
	bool dead;                   /* after a fault, or the end of the queue pair, nothing is taken */
};

/* ---- Buffers (ddp/place.c) ---- */

/* Copy LEN bytes to OFF of the buffer; a fault leaves nothing or a part of it copied, never a byte elsewhere. */
uint16_t diw_ddp_place(const struct diw_ddp *d, const struct diw_ddp_buf *buf, uint32_t off, const uint8_t *data,
		       uint32_t len);
/* Resolve the whole buffer for reading; IOV has room for buf->n entries. */
uint16_t diw_ddp_gather(const struct diw_ddp *d, const struct diw_ddp_buf *buf, struct iovec *iov);

/* ---- The instance (ddp/ddp.c) ---- */

struct diw_ddp {
	const struct diw_ddp_ulp *ulp;
	void *ulp_ctx;
	const struct diw_ddp_recvs *recvs;
	void *recvs_ctx;
	struct diw_link *link;
	struct diw_counters *c;
	struct diw_stag_table *stags;
	struct diw_stag_user user;
	struct diw_ddp_cfg cfg;
	struct diw_order order;
	uint16_t epoch;
	uint32_t msn_tagged, msn_untagged;   /* datagrams: of the next message */
	struct diw_ddp_dgram *dg;    /* NULL over an ordered link, and over reliable datagrams */
	struct diw_peers *peers;     /* reliable datagrams */
};

/* What is known of the peers of a datagram link. */
struct diw_ddp_dgram {
	struct diw_arena arena;      /* it lies in that itself */
	struct diw_sources sources;
	struct diw_records records;
	struct diw_reasms reasms;
};

struct diw_ddp_attr {
	const struct diw_ddp_ulp *ulp;
	void *ulp_ctx;
	const struct diw_ddp_recvs *recvs;
	void *recvs_ctx;
	struct diw_counters *c;
	struct diw_stag_table *stags;
	struct diw_stag_user user;
	struct diw_ddp_cfg cfg;
};
/* With an epoch and numbers of its own. The link is set as soon as it is open. */
void diw_ddp_setup(struct diw_ddp *d, const struct diw_ddp_attr *a);
/* Like OLD, which stays as it is: with another epoch, and for another context. */
void diw_ddp_setup_again(struct diw_ddp *d, const struct diw_ddp *old, void *ulp_ctx);
/* Then: over an ordered link, over reliable datagrams (diw_peers_init()), or over datagrams. -ENOMEM */
void diw_ddp_init_ordered(struct diw_ddp *d);
int diw_ddp_init(struct diw_ddp *d);
/* Held receives go back; records vanish. The link is the caller's. */
void diw_ddp_fini(struct diw_ddp *d);
void diw_ddp_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_ddp_deadline(const struct diw_ddp *d);

struct diw_ddp_stats {
	uint32_t sources, records_open, records_held, reasm_open;
	size_t memory;               /* bytes that peers' state holds */
};
struct diw_ddp_stats diw_ddp_stats(const struct diw_ddp *d);

/* ---- The receive queue, for both layers ---- */

static inline struct diw_recv *diw_ddp_recv_take(struct diw_ddp *d)
{
	struct diw_recv *r = d->recvs->take(d->recvs_ctx);

	d->order.had_recv |= r && d->cfg.fixed_peer;
	return r;
}
static inline void diw_ddp_recv_return(struct diw_ddp *d, struct diw_recv *r) { d->recvs->give_back(d->recvs_ctx, r); }
static inline uint32_t diw_ddp_recv_posted(const struct diw_ddp *d) { return d->recvs->posted(d->recvs_ctx); }
static inline bool diw_ddp_cq_room(const struct diw_ddp *d, uint32_t n) { return d->recvs->room(d->recvs_ctx, n); }

/* ---- STags, for the user of the instance ---- */

struct diw_ddp_bind {                /* a memory window: a part of a region */
	uint32_t window, region;
	uint64_t to, len;
	unsigned access;
	uint8_t key;
	bool type2;
};
/* False: the window cannot be bound so (RFC 5040 does not define windows: verbs do). */
bool diw_ddp_bind(struct diw_ddp *d, const struct diw_ddp_bind *b);
/* End the use of an STag: a type 2 window, or a region that no window is bound to; by a peer only one that allows it.
 * DRY: only ask. False: it may not be ended. */
bool diw_ddp_invalidate(struct diw_ddp *d, uint32_t stag, bool remote, bool dry);

static inline uint16_t diw_ddp_resolve(const struct diw_ddp *d, uint32_t stag, unsigned access,
				       const struct diw_addr *peer, uint64_t to, uint32_t len, uint8_t **addr)
{
	return diw_stag_resolve(d->stags, stag, &d->user, access, peer, to, len, addr);
}
static inline void diw_ddp_set_deny(struct diw_ddp *d, unsigned access) { d->user.deny = access; }

/* ---- What the layer above asks and sets; it does not look into the instance ---- */

static inline void diw_ddp_set_link(struct diw_ddp *d, struct diw_link *l) { d->link = l; }
static inline void diw_ddp_set_ctx(struct diw_ddp *d, void *ulp_ctx) { d->ulp_ctx = ulp_ctx; }
static inline void diw_ddp_set_qkey(struct diw_ddp *d, uint32_t qkey) { d->cfg.qkey = qkey; }
static inline bool diw_ddp_is_qkey(const struct diw_ddp *d, uint32_t qkey) { return d->cfg.qkey == qkey; }
static inline bool diw_ddp_has_chunks(const struct diw_ddp *d) { return d->cfg.chunks; }
static inline uint16_t diw_ddp_epoch(const struct diw_ddp *d) { return d->epoch; }
/* Datagrams: the MSN of the next message. */
static inline uint32_t diw_ddp_msn(const struct diw_ddp *d, bool tagged)
{
	return tagged ? d->msn_tagged : d->msn_untagged;
}
static inline uint32_t diw_ddp_mulpdu(const struct diw_ddp *d, const struct diw_addr *dst)
{
	return d->link->ops->mulpdu(d->link, dst);
}
/* Datagrams: segments that the link has taken, and the octets of its receive buffer. */
static inline uint32_t diw_ddp_taken(const struct diw_ddp *d) { return d->link->taken; }
static inline uint32_t diw_ddp_rcvbuf(const struct diw_ddp *d) { return d->link->dgram->rcvbuf; }
static inline bool diw_ddp_is_dgram(const struct diw_ddp *d) { return d->dg; }
static inline uint64_t diw_ddp_record_timeout(const struct diw_ddp *d) { return d->cfg.record_timeout; }
static inline struct diw_range_pools *diw_ddp_ranges(struct diw_ddp *d) { return &d->dg->records.ranges; }

/* The one peer of UC and RC. */
static inline const struct diw_dest *diw_ddp_peer(const struct diw_ddp *d) { return &d->cfg.peer; }
static inline void diw_ddp_set_peer(struct diw_ddp *d, const struct diw_dest *peer) { d->cfg.peer = *peer; }
/* UC: segments of the peer alone are taken, and one that is sent costs TOLL octets beside its own. */
static inline void diw_ddp_fix_peer(struct diw_ddp *d, uint32_t toll)
{
	d->cfg.fixed_peer = true;
	d->cfg.toll = toll;
}
static inline bool diw_ddp_is_fixed(const struct diw_ddp *d) { return d->cfg.fixed_peer; }

/* A segment waits in the link, for a receive or for room for its completion. */
static inline bool diw_ddp_is_waiting(const struct diw_ddp *d) { return d->order.waiting; }
uint64_t diw_ddp_wait_deadline(const struct diw_ddp *d);     /* DIW_NEVER: none waits for a receive */
/* UC: a segment that finds no receive may wait for one. */
static inline bool diw_ddp_may_wait(const struct diw_ddp *d, uint64_t now)
{
	return d->order.had_recv && !(d->order.waits_until && now >= d->order.waits_until);
}
/* UC: a segment has waited in vain. */
static inline void diw_ddp_waited(struct diw_ddp *d) { d->order.had_recv = false; }
/* Nothing that arrives is taken any more; and nothing that waits. */
static inline void diw_ddp_end(struct diw_ddp *d) { d->order.dead = true; }
static inline void diw_ddp_stop(struct diw_ddp *d)
{
	d->order.dead = true;
	d->order.waiting = false;
	d->order.waits_until = 0;
}

/* ---- The same, of an ordered link ---- */

/* The negotiation is over. EXTRAS are what the peers agreed on; SEEN: the peer need send nothing first. */
void diw_ddp_begin_ordered(struct diw_ddp *d, const struct diw_addr *peer, uint8_t extras, bool seen);
static inline void diw_ddp_set_rnr_unit(struct diw_ddp *d, uint64_t unit) { d->cfg.rnr_unit = unit; }
/* The peer lets a segment wait for a receive N times the unit; not LIMITED: as long as this end allows. */
void diw_ddp_limit_rnr(struct diw_ddp *d, bool limited, uint64_t n);
/* The MSN of the next message of a queue. */
static inline uint32_t diw_ddp_tx_msn(const struct diw_ddp *d, uint32_t qn) { return d->order.tx_msn[qn]; }
static inline uint32_t diw_ddp_rx_msn(const struct diw_ddp *d, uint32_t qn) { return d->order.rx_msn[qn]; }
static inline void diw_ddp_set_tx_msn(struct diw_ddp *d, uint32_t qn, uint32_t msn) { d->order.tx_msn[qn] = msn; }
/* The header of the first segment of the Send that H continues, or NULL. */
static inline const struct diw_ddp_hdr *diw_ddp_first_of(const struct diw_ddp *d, const struct diw_ddp_hdr *h)
{
	const struct diw_order *o = &d->order;

	return o->recv && h->qn == 0 && h->msn == o->first.msn && h->mo == o->got ? &o->first : NULL;
}
/* The receive that a message has in part, which ends with that; or NULL. */
static inline struct diw_recv *diw_ddp_give_up_recv(struct diw_ddp *d)
{
	struct diw_recv *recv = d->order.recv;

	d->order.recv = NULL;
	return recv;
}
static inline bool diw_ddp_seen(const struct diw_ddp *d) { return d->order.seen; }
/* When a segment began to wait; DIW_NEVER: none does. */
static inline uint64_t diw_ddp_waits_since(const struct diw_ddp *d)
{
	return d->order.waiting ? d->order.waits_since : DIW_NEVER;
}

#endif
