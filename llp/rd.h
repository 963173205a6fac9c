/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams (docs/ud-profile.md section 18): a link that delivers every segment of a peer once and in order,
 * over datagrams that may be lost, repeated and reordered. One link serves thousands of peers.
 *
 *   rd.c       the link: calls from above, timers, peers
 *   rd_open.c  tags, epochs, OPEN, GRANT, RESET
 *   rd_tx.c    the sender: transmission, loss, timeouts
 *   rd_rx.c    the receiver: order, window, acknowledgements
 *   rd_cc.c    congestion window and pacing: Copa
 *   rd_queue.c peers that wait, and the shares of slots
 *   rd_timer.c peers that have work at a time
 *
 * Only these files include this header, and of the simulator rd_views.c and rd_waiting.c; llp/link.h declares
 * diw_rd_open().
 */
#ifndef DIW_LLP_RD_H
#define DIW_LLP_RD_H

#include "base/clock.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/wire.h"
#include "llp/link.h"
#include "wire/rd_hdr.h"

#define RD_BATCH 32                  /* segments handed to the link below at once */
/* A segment that is not acknowledged yet. */
struct rd_slot {
	struct rd_slot *next;        /* the peer's next slot in order of `seq` */
	uint64_t began, sent;        /* times of the first and of the last transmission */
	uint32_t seq, number;        /* `number`: the link's number of the segment, as up->acked counts */
	uint32_t len, hdr_len;
	uint16_t tries;
	bool large, lost, sacked;    /* lost: must be sent again */
	void *owner;                 /* it has the payload, from `at` on; NULL: `data` has it */
	uint32_t at;
	uint8_t data[];              /* from the header on */
};

/* A segment that came too early, or that the layer above has not taken yet. */
struct rd_held {
	struct rd_held *next;
	uint32_t seq, len;
	uint8_t data[];
};

/* Copa (Arun and Balakrishnan, NSDI 2018). Windows count segments. */
struct rd_cc {
	double cwnd, delta;
	float velocity, at_rest, drain_cwnd;
	uint8_t same;                /* consecutive rounds in the same direction */
	bool up, slow_start, lost;   /* lost: a loss in this round */
	uint64_t srtt, rttvar;       /* RFC 6298 */
	uint64_t rtt_min[2];         /* the minimum of this period and of the one before it */
	uint64_t rtt_min_from;
	uint64_t standing[2], standing_from;
	uint64_t rtt_max, empty_at, round_at;
	double round_cwnd;
	uint64_t pace_at;            /* the earliest time of the next segment */
	uint64_t drain_until;        /* sends less until then, see cc_drain(); 0: does not */
	uint64_t drain_after;        /* the next drain's time after empty_at, pauses included */
	uint64_t acked_at;           /* the last acknowledgement */
};

#define RD_TRIES 48u             /* a peer is given up after at least so many tries without an answer */

/* Numbers that no segment gets when a peer is given up. So the peer, which may have taken all segments, notices it. A
 * refusal leaves out at most RD_REFUSED_MOST numbers. */
#define RD_LEFT_OUT (1u << 17)
#define RD_REFUSED_MOST 0xffffu

/* The queues of peers that wait. */
enum rd_queue_name {
	RD_UNSENT,                   /* for flush, or for the link below, to take their segments */
	RD_WANTING,                  /* for a first slot */
	RD_QUEUES
};
struct rd_queue { struct rd_peer *first, *last; uint32_t n; };

enum rd_phase { RD_PEER_IDLE, RD_PEER_OPENING, RD_PEER_OPEN };

struct rd_peer {
	struct rd_peer *hash_next;
	struct diw_dest dest;        /* as in the newest request */
	enum rd_phase phase;
	bool wants;                  /* the layer above wants to be told when the peer may have another slot */
	uint8_t queued_in;           /* a bit for each queue that the peer is in */
	bool given_up;               /* all that went to the process with `epoch` has failed, and nothing went to it or
				      * came from it since */
	bool reset;                  /* it has answered RESET, and has not announced itself since */
	uint32_t timer_at;           /* index in rd.timer; 0: no timer */
	struct rd_peer *queue_next[RD_QUEUES];
	struct diw_list stalled;     /* in rd.stalled while the layer above does not take its next segment */
	bool known;                  /* `tag` and `epoch` are valid, and segments may come from the peer */
	bool answered;               /* the peer has acknowledged this association: announcements end */
	bool receiving;              /* `expect` is valid */
	bool bare;                   /* the peer takes segments without CRC */
	uint32_t tag, my_tag, epoch, epoch_before, nonce;
	uint64_t heard, open_at;
	uint64_t met;                /* when the first datagram with `epoch` came */
	uint64_t renewed;            /* when the peer's view of this end changed last, as far as this end knows */

	/* ---- Send ---- */
	struct rd_slot *first, *last, *unsent;
	uint32_t next_seq, una;      /* sequence numbers of the next new segment, and of the first one not
				      * acknowledged */
	uint32_t edge;               /* end of the peer's window */
	uint32_t first_seq, queued, flight, nlost;
	uint32_t backoff;            /* timeouts since the last acknowledgement of a segment */
	uint32_t tries;              /* timeouts since the last sign that the peer is there, in parts of a try */
	uint32_t retransmits;
	uint64_t timer;              /* of retransmission */
	uint64_t progress;           /* time of the last acknowledgement of a segment */
	uint64_t reached;            /* transmission time of the latest datagram that is known to have reached the
				      * peer */
	uint64_t reorder;            /* how much later than its successors a segment may come before it counts as
				      * lost */
	struct rd_cc cc;

	/* ---- Receive ---- */
	struct rd_held *held, *held_last;
	uint32_t expect, nheld, unacked, echo;
	uint32_t period;             /* the number (rd.period) of the period in which it sent a segment last */
	uint32_t size;               /* octets of one of its segments */
	uint32_t open_tries;         /* OPENs sent; here, and `replaced`, so that the struct has no holes */
	uint64_t ack_at;             /* DIW_NEVER: there is nothing to acknowledge */
	bool ack_now, echoes;
	bool replaced;               /* the process with `epoch` followed one that had not been given up */
	uint16_t refused;            /* the fault with which segments from `expect` on are refused; or 0 */
};

struct rd_timer { uint64_t at; struct rd_peer *peer; };

struct rd {
	struct diw_link l;           /* must be first */
	struct diw_link *lower;      /* seals and bursts: llp/seal.c */
	struct diw_rd_cfg cfg;
	uint64_t key[2];
	struct diw_rng rng;
	struct rd_peer **bucket;
	struct rd_timer *timer;      /* a heap; index 0 is not used */
	uint32_t buckets, timers;
	struct diw_arena arena;
	struct diw_pool peers, small, large, held;
	uint32_t large_size;
	uint64_t sweep_at;           /* time of the next search for idle peers */
	uint64_t suspended;          /* cfg.suspended() when it was last seen to have grown */
	uint64_t woke, woke_after;   /* when that was, and by how much */
	uint32_t hand;               /* the bucket at which it begins */
	uint32_t period, senders[2]; /* senders: peers that sent segments in this period, and in the one before */
	uint64_t period_from;
	uint32_t shares;             /* the windows of all senders together may be this multiple of the socket's receive
				      * buffer */
	uint32_t backlog, backlog_max;       /* octets received since the socket was last empty; the most in this
					      * period */
	struct rd_queue queue[RD_QUEUES];
	struct diw_list stalled;     /* peers that wait for the layer above; an idle one leaves it from any place */
	uint32_t nstalled;
	uint32_t queued;             /* slots in use */
	uint32_t unpushed;           /* octets of segments that wait for flush; each counts SEGMENT_COST more */
	uint32_t offers;             /* stalled peers that are still to be offered in this turn */
	uint64_t offer_at;           /* when the turn goes on; DIW_NEVER: there is no turn */
	struct rd_peer *acker;       /* its acknowledgement waits for the next poll; or NULL */
	struct diw_rd_hdr ack;       /* of the segment with which it came, at ack_at */
	uint64_t ack_at, ack_rtt;
	bool drained;                /* the last poll has emptied the socket */
	bool sweep_late;             /* the last search was left out, since it was due long before */
	bool peers_wanted;           /* send found no place in the table of peers */
	bool blocked;                /* the link below took fewer segments than it was given */
	bool flush;                  /* the link below may have staged segments */
};

static inline uint32_t rd_us(uint64_t now) { return (uint32_t)(now / DIW_US); }

/* ---- rd.c ---- */
struct rd_peer *diw_rd_peer_find(const struct rd *rd, const struct diw_addr *addr);
/* NULL: no room. ANNOUNCED: a datagram of the peer announced it. */
struct rd_peer *diw_rd_peer_add(struct rd *rd, const struct diw_dest *dest, bool announced, uint64_t now);
/* Looks whether the host was suspended since the last look. */
void diw_rd_suspend_look(struct rd *rd, uint64_t now);
/* Tells the layer above. */
void diw_rd_peer_gone(struct rd *rd, const struct rd_peer *p, int errnum);
/* Sends one header, with LEN octets of BODY behind it, which is not retransmitted. */
void diw_rd_say(struct rd *rd, const struct diw_dest *to, const struct diw_rd_hdr *h, const void *body, uint32_t len,
	    uint64_t now);

/* ---- rd_timer.c ---- */
void diw_rd_timer_set(struct rd *rd, struct rd_peer *p, uint64_t at);    /* P runs at AT, or earlier */
uint64_t diw_rd_timer_first(const struct rd *rd);
uint64_t diw_rd_timer_due(struct rd *rd);      /* the first time, after times that are too early were set again */
struct rd_peer *diw_rd_timer_take(struct rd *rd, uint64_t now);          /* NULL: no timer has expired at NOW */

/* ---- rd_queue.c ---- */
void diw_rd_queue_add(struct rd *rd, enum rd_queue_name name, struct rd_peer *p);
struct rd_peer *diw_rd_queue_take(struct rd *rd, enum rd_queue_name name);     /* NULL: empty */
void diw_rd_stalled_add(struct rd *rd, struct rd_peer *p);
void diw_rd_stalled_remove(struct rd *rd, struct rd_peer *p);
struct rd_peer *diw_rd_stalled_take(struct rd *rd);            /* NULL: none */
bool diw_rd_slot_allowed(const struct rd *rd, const struct rd_peer *p);
void diw_rd_slot_wanted(struct rd *rd, struct rd_peer *p);
void diw_rd_slots_freed(struct rd *rd, struct rd_peer *p);       /* slots of P are free: P may have one more */
/* Tells as many of the peers that wait for a first slot as there are slots. If one of them has nothing to send, the
 * next poll tells another. */
void diw_rd_wanting_tell(struct rd *rd);
bool diw_rd_wanting_due(const struct rd *rd);

/* ---- rd_open.c ---- */
void diw_rd_open_begin(struct rd *rd, struct rd_peer *p, uint64_t now);
void diw_rd_open_again(struct rd *rd, struct rd_peer *p, uint64_t now);
void diw_rd_open_came(struct rd *rd, const struct diw_addr *src, const struct diw_rd_hdr *h, uint64_t now);
void diw_rd_grant_came(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now);
void diw_rd_reset_came(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now);
/* Whether a datagram of P (NULL: unknown) with this tag is of the association. */
bool diw_rd_tag_is_good(const struct rd *rd, const struct rd_peer *p, uint32_t tag, uint64_t now);
/* The peer that a datagram with this tag is from. NULL: unknown, and a RESET was sent. */
struct rd_peer *diw_rd_peer_of(struct rd *rd, const struct diw_addr *src, const struct diw_rd_hdr *h, uint64_t now);

/* ---- rd_tx.c ---- */
int diw_rd_tx_take(struct rd *rd, struct rd_peer *p, const struct diw_link_seg *g);  /* 0, or -EAGAIN: no room */
void diw_rd_tx_push(struct rd *rd, struct rd_peer *p, uint64_t now);
/* The round trip that the echo in H shows, at least 1 us; 0: there is none, or it is not of this end. */
uint64_t diw_rd_tx_rtt(const struct rd *rd, const struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now);
/* Handles the acknowledgement in H, which came at NOW with a MAP of so many words and showed the round trip RTT. */
void diw_rd_tx_acked(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, const uint8_t *map, uint32_t words,
		     uint64_t rtt, uint64_t now);
void diw_rd_tx_timer(struct rd *rd, struct rd_peer *p, uint64_t now);
/* Handles a REFUSE. */
void diw_rd_tx_rejected(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now);
void diw_rd_tx_fail(struct rd *rd, struct rd_peer *p, int errnum);
uint64_t diw_rd_tx_due(const struct rd *rd, const struct rd_peer *p);

/* ---- rd_rx.c ---- */
struct rd_rx { uint32_t seq; struct diw_link_rxseg seg; };
void diw_rd_rx_burst(struct rd *rd, struct rd_peer *p, const struct rd_rx *in, uint32_t n, uint64_t now);
void diw_rd_rx_deliver(struct rd *rd, struct rd_peer *p, uint64_t now);
/* `reach` of struct diw_link_up, for the link below. */
int diw_rd_rx_reach(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *seg, uint32_t from,
		    struct iovec *iov, uint64_t now);
void diw_rd_rx_forget(struct rd *rd, struct rd_peer *p);
void diw_rd_ack_send(struct rd *rd, struct rd_peer *p, bool ask, uint64_t now);
void diw_rd_ack_fill(struct rd *rd, struct rd_peer *p, struct diw_rd_hdr *h);

/* ---- rd_cc.c ---- */
void diw_rd_cc_init(struct rd_cc *c, bool own_host, uint64_t now);   /* OWN_HOST: the peer is on this host */
void diw_rd_cc_acked(struct rd_cc *c, uint64_t rtt, uint32_t n, uint32_t flight, uint64_t now);
void diw_rd_cc_lost(struct rd_cc *c);
void diw_rd_cc_timeout(struct rd_cc *c);
/* The segments that may be in flight. */
double diw_rd_cc_window(const struct rd_cc *c);
uint32_t diw_rd_cc_allows(const struct rd_cc *c, uint32_t flight, uint64_t now);
void diw_rd_cc_sent(struct rd_cc *c, uint32_t n, uint64_t now);
uint64_t diw_rd_cc_rtt_min(const struct rd_cc *c);

#endif
