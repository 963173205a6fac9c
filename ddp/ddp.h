/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP (RFC 5041): segmenting, checking and placing. Over a link of datagrams it keeps validity records and reassembles
 * (record.c, reasm.c); over an ordered link it receives one message after the other (order.c). There is one instance a
 * queue pair. The caller holds the device's lock and passes the clock.
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

/* ---- Definitions for both directions ---- */

struct diw_ddp_sge { uint64_t to; uint32_t len, stag; };

/* A buffer as a work request names it. Its STags are looked up in the STag table at every use. So a deregistered region
 * is never accessed, however long the work request has been waiting. */
struct diw_ddp_buf {
	const struct diw_ddp_sge *sge;
	uint32_t n, len;             /* entries; bytes in all of them */
};

/* A received and decoded segment; all of it is borrowed until the callback returns. */
struct diw_ddp_seg {
	struct diw_ddp_hdr h;
	uint32_t hdr_len, len;       /* of the header; of the payload */
	uint32_t placed;             /* octets at the end of the payload that are in place already; only of a link that
				      * has asked for the place */
	const uint8_t *raw;          /* the header's first byte */
	const uint8_t *payload;
	const struct diw_addr *src;
	bool group;                  /* addressed to a group or broadcast address */
	const struct diw_addr *to;   /* group: that group, with the group port; else the local address that it came to,
				      * or NULL */
};

/* Of a datagram, all but SRC. 0 or a fault. */
static inline uint16_t diw_ddp_seg_decode(struct diw_ddp_seg *seg, const struct diw_link_rxseg *from)
{
	uint16_t fault = diw_ddp_hdr_decode(&seg->h, &seg->hdr_len, from->data, from->len);

	seg->group = from->group;
	seg->to = from->to;
	seg->raw = from->data;
	seg->payload = seg->raw + seg->hdr_len;
	seg->len = from->len - seg->hdr_len;
	seg->placed = from->placed;
	return fault;
}

/* ---- Up: DDP's calls of RDMAP ---- */

enum diw_ddp_target_kind {
	DIW_TARGET_RECORD,           /* Write-Record: placed by the STag of the segment, recorded */
	DIW_TARGET_RECV,             /* a message for the receive queue */
	DIW_TARGET_BUF,              /* into `buf` at MO, then placed() */
	DIW_TARGET_STAG,             /* by the STag of the segment, no record, then placed() */
	DIW_TARGET_MESSAGE,          /* RDMAP's own: a message of a single segment, or a segment that is dropped */
	DIW_TARGET_IMMEDIATE,        /* ordered: consumes a receive, writes nothing to it */
};

struct diw_ddp_target {
	enum diw_ddp_target_kind kind;
	uint32_t mo;                 /* BUF, ordered: offset of this segment; a datagram carries its own */
	struct diw_ddp_buf buf;
	void *cookie;
};

/* A posted receive: the part that DDP uses. */
struct diw_recv {
	uint64_t wr_id;
	struct diw_ddp_buf buf;
};

/* Up: the receive queue. RDMAP passes this table on unchanged. */
struct diw_ddp_recvs {
	/* Returns the next posted receive, or NULL. It is held until it is completed or returned. */
	struct diw_recv *(*take)(void *ctx);
	void (*give_back)(void *ctx, struct diw_recv *r);
	/* The number of posted receives, without those that are held. */
	uint32_t (*posted)(void *ctx);
	/* Whether the receive completion queue has room for N more completions. */
	bool (*room)(void *ctx, uint32_t n);
};

struct diw_ddp_ulp {
	/* Returns the target of this segment: 0 or a fault. Called before any byte is placed or any state is made. May
	 * be called again for a segment that had to wait. */
	uint16_t (*target)(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now);
	/* R holds a whole message, or FAULT made R unusable. SEG is the segment that completed it. */
	void (*recv_done)(void *ctx, struct diw_recv *r, const struct diw_ddp_seg *seg, uint16_t fault);
	/* The record has closed. In chunk mode: [lo, hi) of it is a contiguous run, and the last completion has `end`.
	 * DDP has checked that there is room for the completion. In message mode, true keeps the record until
	 * diw_record_release(). */
	bool (*record_done)(void *ctx, struct diw_record *r, uint32_t lo, uint32_t hi, bool end);
	/* The bytes of a BUF or STAG target have been placed. */
	void (*placed)(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now);
	uint16_t (*message)(void *ctx, const struct diw_ddp_seg *seg, uint64_t now);     /* 0 or a fault */
	/* Asks the source of the segment for a proof of its address and epoch. */
	void (*challenge)(void *ctx, const struct diw_ddp_seg *seg, uint64_t now);
	/* The segment was dropped, and counted as this fault. seg->hdr_len 0: it has no complete header. An ordered
	 * link receives nothing after a fault. */
	void (*fault)(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now);
	/* Ordered: the link is down, see struct diw_link_up. */
	void (*down)(void *ctx, uint16_t fault, int errnum, uint64_t now);
	/* Datagrams: segments were refused, see struct diw_link_up. */
	void (*refused)(void *ctx, uint32_t first, uint32_t n, int errnum);
	/* Reliable datagrams: see struct diw_link_up. */
	void (*acked)(void *ctx, uint32_t first, uint32_t n);
	int (*payload)(void *ctx, void *owner, uint32_t at, uint32_t len, struct iovec *iov);
	void (*rejected)(void *ctx, uint32_t number, uint16_t fault);
	void (*room)(void *ctx, const struct diw_addr *peer);
	void (*gone)(void *ctx, const struct diw_addr *peer, int errnum);
};

/* Reports a drop to the link's watch and to the log. The counter of that name has been incremented. */
void diw_ddp_dropped(const struct diw_ddp *d, const struct diw_ddp_seg *seg, const char *reason, uint64_t now);
/* Counts and reports the drop of a segment of LEN octets, and reports the fault to the layer above. */
void diw_ddp_drop(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint32_t len, uint16_t fault, uint64_t now);

/* ---- Transmit (ddp/tx.c) ---- */

/* A message that is being sent, and its progress; `h` is the template of its segments' headers. */
struct diw_ddp_tx {
	struct diw_ddp_hdr h;
	struct diw_dest dst;
	uint32_t off;                /* payload bytes that the link has taken; the MO of the next segment */
	uint32_t seg;                /* payload bytes of a segment */
	uint32_t toll;               /* what a segment takes of the window beside its octets; 0: there is no window */
	int64_t window;              /* octets and tolls that may leave; a segment that needs more waits */
	bool alone;                  /* the next segment may leave independent of the window */
	uint32_t held;               /* octets and toll of the segment that waits for the window; 0: none waits */
	bool active;                 /* begun and not finished */
	void *owner;                 /* reliable datagrams: of the payload, see struct diw_link_seg; or NULL */
};

/* Begins a message of h.length bytes. Draws an MSN unless the message is a Read Response. */
void diw_ddp_tx_begin(struct diw_ddp *d, struct diw_ddp_tx *tx, bool draw_msn);
/* Cuts and sends segments of at most *BUDGET bytes, but at least one, and reduces *BUDGET. IOV is the payload of the
 * whole message. 0: all is taken. -EAGAIN: the link is blocked. -EBUSY: the budget or the window is used up; call
 * again. */
int diw_ddp_tx_run(struct diw_ddp *d, struct diw_ddp_tx *tx, const struct iovec *iov, int64_t *budget, uint64_t now);

/* ---- Receive (ddp/rx.c) ---- */

struct diw_ddp_cfg {
	uint32_t qkey;
	bool fixed_peer;             /* UC: accept segments of that peer only */
	struct diw_dest peer;
	bool chunks;                 /* one completion for each contiguous run of a burst */
	bool close_last;             /* do not report a record whose last segment has not come */
	uint64_t reorder_window, record_timeout, reasm_timeout;      /* ns */
	uint32_t max_sources, max_records, max_reasm;
	uint32_t toll;               /* what a segment takes of a budget beside its octets */
	uint8_t extras;              /* ordered: the extras that the peers agreed on, see diw_ddp_hdr_decode_plain() */
	uint64_t rnr_timeout;        /* ordered: the longest time that a segment may wait for a receive, ns */
	uint64_t rnr_most;           /* ordered: its maximum; the peer may ask for less */
	uint64_t rnr_unit;           /* ordered: the unit in which the peer asks; 0: it may not */
};

#define DIW_DDP_NOT_NOW 0xffffu      /* not a fault: the segment will be offered again */

/* The link's upcalls, for bursts of datagrams, of reliable datagrams (ddp/peers.c), of a stream's segments
 * (ddp/order.c). */
extern const struct diw_link_up diw_ddp_link_up;
extern const struct diw_link_up diw_ddp_peers_up;
extern const struct diw_link_up diw_ddp_ordered_up;

#define DIW_DDP_UC_WAIT (250 * DIW_MS)       /* UC: the longest time that a segment may wait for a receive */
#define DIW_DDP_QUEUES 4             /* untagged queues: Sends, Read and Atomic Requests, Terminate, Atomic Responses */

struct diw_order {
	uint32_t tx_msn[DIW_DDP_QUEUES], rx_msn[DIW_DDP_QUEUES];     /* of the next message; the first is 1 */
	struct diw_recv *recv;       /* held by the message that is being received */
	uint32_t got;                /* its bytes that are placed */
	struct diw_ddp_hdr first;    /* the header of its first segment */
	uint32_t write_stag;         /* STag of the Write that is being received, and position of its next segment */
	uint64_t write_to;
	uint32_t written;            /* bytes of the Write that came last of the peer's requests; 0 after any other */
	bool writes;                 /* a Write is being received */
	bool waiting;                /* a segment was not taken, and stays in the link; also for UC */
	uint64_t waits_since;        /* ordered: since when it has waited */
	uint64_t waits_until;        /* until when it waits for a receive; 0: it waits for none; also for UC */
	uint64_t asks_at;            /* the next probe whether the peer is still there, while a segment waits */
	bool had_recv;               /* UC: a receive was posted since a segment last waited in vain */
	bool seen;                   /* the peer has sent an FPDU, possibly an empty one, or the peer is the
				      * responder */
	bool dead;                   /* after a fault or the end of the queue pair: nothing is taken */
};

/* ---- Buffers (ddp/place.c) ---- */

/* Copies LEN bytes to offset OFF of the buffer. After a fault some of the bytes may have been copied, but none outside
 * the buffer. */
uint16_t diw_ddp_place(const struct diw_ddp *d, const struct diw_ddp_buf *buf, uint32_t off, const uint8_t *data,
		       uint32_t len);
/* Resolves LEN > 0 bytes from offset OFF for writing, exactly. IOV has room for buf->n entries; *N of them are used. */
uint16_t diw_ddp_scatter_part(const struct diw_ddp *d, const struct diw_ddp_buf *buf, uint32_t off, uint32_t len,
			      struct iovec *iov, int *n);
/* Resolves the whole buffer for reading; IOV has room for buf->n entries. */
uint16_t diw_ddp_gather(const struct diw_ddp *d, const struct diw_ddp_buf *buf, struct iovec *iov);
/* Resolves LEN > 0 bytes from offset OFF, to the end of their last entry; returns how many entries of IOV, or 0. */
int diw_ddp_gather_part(const struct diw_ddp *d, const struct diw_ddp_buf *buf, uint32_t off, uint32_t len,
			struct iovec *iov);

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
	uint32_t msn_tagged, msn_untagged;   /* datagrams: MSN of the next message */
	struct diw_ddp_dgram *dg;    /* NULL over an ordered link, and with reliable datagrams */
	struct diw_peers *peers;     /* reliable datagrams */
};

/* The state of a datagram link's peers. */
struct diw_ddp_dgram {
	struct diw_arena arena;      /* the arena holds this struct, too */
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
/* Sets up the instance with a new epoch and new numbers. The link is set as soon as it is open. */
void diw_ddp_setup(struct diw_ddp *d, const struct diw_ddp_attr *a);
/* Sets up like OLD, which is not changed, but with another epoch and context. */
void diw_ddp_setup_again(struct diw_ddp *d, const struct diw_ddp *old, void *ulp_ctx);
/* Then one of these: for an ordered link, for datagrams, or diw_peers_init() for reliable datagrams. -ENOMEM */
void diw_ddp_init_ordered(struct diw_ddp *d);
int diw_ddp_init(struct diw_ddp *d);
/* Returns held receives and drops records. The link remains the caller's. */
void diw_ddp_fini(struct diw_ddp *d);
void diw_ddp_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_ddp_deadline(const struct diw_ddp *d);

struct diw_ddp_stats {
	uint32_t sources, records_open, records_held, reasm_open;
	size_t memory;               /* bytes of peers' state */
};
struct diw_ddp_stats diw_ddp_stats(const struct diw_ddp *d);

/* ---- The receive queue, for DDP and RDMAP ---- */

static inline struct diw_recv *diw_ddp_recv_take(struct diw_ddp *d)
{
	struct diw_recv *r = d->recvs->take(d->recvs_ctx);

	d->order.had_recv |= r && d->cfg.fixed_peer;
	return r;
}
static inline void diw_ddp_recv_return(struct diw_ddp *d, struct diw_recv *r) { d->recvs->give_back(d->recvs_ctx, r); }
static inline uint32_t diw_ddp_recv_posted(const struct diw_ddp *d) { return d->recvs->posted(d->recvs_ctx); }
static inline bool diw_ddp_cq_room(const struct diw_ddp *d, uint32_t n) { return d->recvs->room(d->recvs_ctx, n); }

/* ---- STags, for the owner of the instance ---- */

struct diw_ddp_bind {                /* a memory window: a part of a region */
	uint32_t window, region;
	uint64_t to, len;
	unsigned access;
	uint32_t turn;               /* type 1: how many binds of the window were posted, with this one */
	uint8_t key;
	bool type2;
};
/* False: the window cannot be bound so. Windows are defined by verbs, not by RFC 5040. */
bool diw_ddp_bind(struct diw_ddp *d, const struct diw_ddp_bind *b);
/* Ends the use of an STag: of a type 2 window, or of a region without bound windows. BY: the segment of a peer
 * that asks, and the STag must allow that; NULL: this end does. DRY: only check. False: it may not be ended. */
bool diw_ddp_invalidate(struct diw_ddp *d, uint32_t stag, const struct diw_ddp_seg *by, bool dry);

static inline uint16_t diw_ddp_resolve(const struct diw_ddp *d, uint32_t stag, unsigned access,
				       const struct diw_addr *peer, uint64_t to, uint32_t len, uint8_t **addr)
{
	return diw_stag_resolve(d->stags, stag, &d->user, access, peer, to, len, addr);
}
static inline void diw_ddp_set_deny(struct diw_ddp *d, unsigned access) { d->user.deny = access; }

/* ---- State of the instance that the layer above reads and sets by calls only ---- */

static inline void diw_ddp_set_link(struct diw_ddp *d, struct diw_link *l) { d->link = l; }
static inline void diw_ddp_set_ctx(struct diw_ddp *d, void *ulp_ctx) { d->ulp_ctx = ulp_ctx; }
static inline void diw_ddp_set_qkey(struct diw_ddp *d, uint32_t qkey) { d->cfg.qkey = qkey; }
static inline bool diw_ddp_is_qkey(const struct diw_ddp *d, uint32_t qkey) { return d->cfg.qkey == qkey; }
static inline bool diw_ddp_has_chunks(const struct diw_ddp *d) { return d->cfg.chunks; }
static inline uint16_t diw_ddp_epoch(const struct diw_ddp *d) { return d->epoch; }
/* Datagrams: MSN of the next message. */
static inline uint32_t diw_ddp_msn(const struct diw_ddp *d, bool tagged)
{
	return tagged ? d->msn_tagged : d->msn_untagged;
}
static inline uint32_t diw_ddp_mulpdu(const struct diw_ddp *d, const struct diw_addr *dst)
{
	return d->link->ops->mulpdu(d->link, dst);
}
/* Reliable datagrams: looks at an acknowledgement that waits for the next poll. */
static inline void diw_ddp_take_acks(struct diw_ddp *d) { d->link->ops->take_acks(d->link); }
/* Datagrams: segments that the link has taken; octets of its receive buffer. */
static inline uint32_t diw_ddp_taken(const struct diw_ddp *d) { return d->link->taken; }
static inline uint32_t diw_ddp_rcvbuf(const struct diw_ddp *d) { return d->link->dgram->rcvbuf; }
static inline bool diw_ddp_is_dgram(const struct diw_ddp *d) { return d->dg; }
static inline uint64_t diw_ddp_record_timeout(const struct diw_ddp *d) { return d->cfg.record_timeout; }
static inline struct diw_range_pools *diw_ddp_ranges(struct diw_ddp *d) { return &d->dg->records.ranges; }

/* The peer of UC and RC. */
static inline const struct diw_dest *diw_ddp_peer(const struct diw_ddp *d) { return &d->cfg.peer; }
static inline void diw_ddp_set_peer(struct diw_ddp *d, const struct diw_dest *peer) { d->cfg.peer = *peer; }
/* UC: accepts only the peer's segments. A segment that is sent costs TOLL octets beside its own. */
static inline void diw_ddp_fix_peer(struct diw_ddp *d, uint32_t toll)
{
	d->cfg.fixed_peer = true;
	d->cfg.toll = toll;
}
static inline bool diw_ddp_is_fixed(const struct diw_ddp *d) { return d->cfg.fixed_peer; }

/* A segment waits in the link: for a receive, or for room for its completion. */
static inline bool diw_ddp_is_waiting(const struct diw_ddp *d) { return d->order.waiting; }
uint64_t diw_ddp_wait_deadline(const struct diw_ddp *d);     /* DIW_NEVER: no segment waits for a receive */
/* UC: whether a segment that finds no receive may wait for one. */
static inline bool diw_ddp_may_wait(const struct diw_ddp *d, uint64_t now)
{
	return d->order.had_recv && !(d->order.waits_until && now >= d->order.waits_until);
}
/* UC: a segment has waited in vain. */
static inline void diw_ddp_waited(struct diw_ddp *d) { d->order.had_recv = false; }
/* From here on no segment is taken, not even one that waits. */
static inline void diw_ddp_end(struct diw_ddp *d) { d->order.dead = true; }
static inline void diw_ddp_stop(struct diw_ddp *d)
{
	d->order.dead = true;
	d->order.waiting = false;
	d->order.waits_until = 0;
}

/* ---- The same for an ordered link ---- */

/* The negotiation is over. EXTRAS: agreed with the peer. SEEN: the peer need not send first. */
void diw_ddp_begin_ordered(struct diw_ddp *d, const struct diw_addr *peer, uint8_t extras, bool seen);
static inline void diw_ddp_set_rnr_unit(struct diw_ddp *d, uint64_t unit) { d->cfg.rnr_unit = unit; }
/* The peer lets a segment wait for a receive N times the unit. Not LIMITED: as long as this end allows. */
void diw_ddp_limit_rnr(struct diw_ddp *d, bool limited, uint64_t n);
/* The extras that the peers agreed on, see diw_ddp_hdr_decode_plain(). */
static inline uint8_t diw_ddp_extras(const struct diw_ddp *d) { return d->cfg.extras; }
/* MSN of the next message of a queue. */
static inline uint32_t diw_ddp_tx_msn(const struct diw_ddp *d, uint32_t qn) { return d->order.tx_msn[qn]; }
static inline void diw_ddp_set_tx_msn(struct diw_ddp *d, uint32_t qn, uint32_t msn) { d->order.tx_msn[qn] = msn; }
/* Header of the first segment of the Send that H continues, or NULL. */
static inline const struct diw_ddp_hdr *diw_ddp_first_of(const struct diw_ddp *d, const struct diw_ddp_hdr *h)
{
	const struct diw_order *o = &d->order;

	return o->recv && h->qn == 0 && h->msn == o->first.msn && h->mo == o->got ? &o->first : NULL;
}
/* Returns the receive of an unfinished message, which ends by this; or NULL. */
static inline struct diw_recv *diw_ddp_give_up_recv(struct diw_ddp *d)
{
	struct diw_recv *recv = d->order.recv;

	d->order.recv = NULL;
	return recv;
}
static inline bool diw_ddp_seen(const struct diw_ddp *d) { return d->order.seen; }
/* The time since which a segment has waited; DIW_NEVER: none waits. */
static inline uint64_t diw_ddp_waits_since(const struct diw_ddp *d)
{
	return d->order.waiting ? d->order.waits_since : DIW_NEVER;
}

#endif
