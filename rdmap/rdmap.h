/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMAP (RFC 5040) over DDP: operations become messages, messages become completions. There is one instance a queue
 * pair. The caller holds the device's lock and passes the clock.
 */
#ifndef DIW_RDMAP_RDMAP_H
#define DIW_RDMAP_RDMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"
#include "ddp/ddp.h"
#include "wire/rdmap.h"

/* ---- Opcodes (wire/rdmap.h, rdmap/op.c) ---- */

/* Opcodes of work requests that send nothing, behind the opcodes of the wire. */
enum { DIW_OP_LOCAL_INV = 0x10, DIW_OP_BIND_MW };

#define DIW_RDMAP_MAX_SEND (16u << 20)       /* docs/ud-profile.md section 11 */
#define DIW_RDMAP_MAX_WRITE (1u << 30)
#define DIW_RDMAP_MAX_READ (16u << 20)

struct diw_rdmap_op {
	bool tagged, imm, solicited; /* may carry an immediate, the solicited bit */
	bool any_qkey;               /* no Q_Key check: an outstanding request of ours authorises it */
	bool group;                  /* may come to the group port */
	uint8_t target;              /* enum diw_ddp_target_kind */
	uint32_t qn;
	uint32_t max;                /* datagrams: octets of a message; 0: checked elsewhere */
};
extern const struct diw_rdmap_op diw_rdmap_ops[16];

/* ---- Queue pair types (rdmap/ud.c, uc.c, rc.c, rd.c) ---- */

struct diw_rdmap;

struct diw_rdmap_type {
	struct diw_ddp_ulp ulp;
	uint16_t opcodes;            /* the opcodes that it takes: bits 1 << enum diw_rdmap_opcode */
	int (*init)(struct diw_rdmap *r);        /* -ENOMEM */
	void (*fini)(struct diw_rdmap *r);
	void (*timers)(struct diw_rdmap *r, uint64_t now);
	/* WAITING: a thread waits for outstanding Reads. Otherwise their timeouts wake no thread. */
	uint64_t (*deadline)(const struct diw_rdmap *r, bool waiting);
};
extern const struct diw_rdmap_type diw_rdmap_type_ud, diw_rdmap_type_uc, diw_rdmap_type_rc, diw_rdmap_type_rd;

/* ---- Send side ---- */

/* A send-side work request. Its entries or inline data must stay in place until it has been executed. */
struct diw_rdmap_wr {
	uint64_t wr_id;
	uint8_t opcode;              /* DIW_OP_READ_REQUEST for a Read */
	bool signaled, imm_valid, solicited;
	bool fence, invalidate;      /* RC, RD */
	bool apart;                  /* RD: it does not fail with the request before it */
	bool pending;                /* RC: sent, and its response has not come */
	bool unconfirmed;            /* RC: completes when rc.place.placed reaches seq */
	bool ask;                    /* RC: the message asks the peer for its placement */
	uint32_t seq;                /* RC: the value of rc.place.sent after it had left; RD, Read or atomic: the
				      * request's MSN; else: the number behind that of its last segment */
	uint8_t status;              /* of its completion */
	uint8_t wc_opcode;           /* the opcode of verbs */
	uint16_t fault;              /* REFUSED: the fault that the target reports; UNSENT, PEER_GONE: the error
				      * number */
	uint32_t imm, qkey, stag, inv_stag;
	union {
		uint32_t got;        /* RC, RD: bytes of a Read's response; RC: an atomic's request identifier */
		uint32_t first;      /* datagrams: the link's number of its first segment; RC, not pending: the number
				      * behind that of its last segment */
	};
	uint64_t to;
	struct diw_dest dst;
	uint64_t timeout;            /* Read: in ns, 0: measured */
	struct diw_ddp_buf buf;
	const uint8_t *inline_data;  /* or NULL */
	struct diw_list out;         /* RC: in the list of pending requests, by age */
	union {
		struct {
			bool swap;
			uint64_t compare_add, value;
		} atomic;
		struct diw_ddp_bind bind;
	};
};

enum diw_rdmap_status { DIW_RDMAP_OK, DIW_RDMAP_LOCAL_PROT, DIW_RDMAP_REFUSED, DIW_RDMAP_TIMEOUT, DIW_RDMAP_BIND,
			DIW_RDMAP_FLUSHED, DIW_RDMAP_UNSENT, DIW_RDMAP_PEER_GONE };

/* ---- Reads (rdmap/read.c, rdmap/answer.c) ---- */

#define DIW_RDMAP_READS 128          /* outstanding Reads; also the most that a queue pair answers at a time */
#define DIW_RDMAP_READS_SOURCE 16    /* the most of one source */
#define DIW_RDMAP_TERMINATE_MAX (6 + DIW_DDP_MAX_LEN + DIW_RDMAP_READ_LEN)       /* RFC 5040 section 4.8 */

struct diw_rdmap_read {              /* a Read of ours */
	struct diw_list link;        /* active: in post order; or done */
	struct diw_list hash;
	uint64_t wr_id, to;
	uint64_t begun_ns, deadline_ns;
	struct diw_dest dst;
	uint64_t from_to;            /* tagged offset of the source */
	uint32_t from_stag, qkey;
	uint32_t stag, length, msn;
	uint32_t seg;                /* the link's number of the segment with the request */
	uint16_t fault;              /* REFUSED: the fault that the target reports; UNSENT: the error number */
	uint8_t status, repeats;
	bool signaled;
	bool unsent;                 /* the kernel refused that segment */
	struct diw_ddp_buf buf;
	struct diw_range_set ranges;
	struct diw_ddp_sge sge[DIW_DDP_MAX_SGE];
};

struct diw_rdmap_reader {            /* a source whose Reads are being answered */
	struct diw_list turn;        /* in the list of readers */
	struct diw_list answers;     /* at least one */
	struct diw_source *src;      /* NULL: all sources that have not proved their address */
	uint32_t n;
};

struct diw_rdmap_answer {            /* a Read of a peer */
	struct diw_list link;
	struct diw_rdmap_reader *reader;
	uint64_t asked_ns;
	struct diw_ddp_tx tx;
	uint32_t stag, msn;          /* STag of the source; MSN of the request */
	uint64_t to;
	uint16_t epoch;
	struct diw_ddp_seg cause;    /* for the error message: only header and length */
	uint8_t raw[DIW_DDP_UNTAGGED_LEN];
};

/* ---- Error messages (rdmap/term.c) ---- */

#define DIW_RDMAP_ERROR_BUDGETS 64   /* of error messages; sources share them by a hash that peers do not know */
#define DIW_RDMAP_ERROR_TOLD 4       /* messages that a budget remembers */

struct diw_rdmap_errors {
	uint64_t seed;
	struct diw_rdmap_error_budget {
		uint64_t paid_until; /* the time at which the messages sent so far are paid for, at 100 a second */
		uint32_t told[DIW_RDMAP_ERROR_TOLD];     /* hashes of the last messages that were reported */
		uint32_t ntold;
	} budget[2][DIW_RDMAP_ERROR_BUDGETS];    /* [1]: of sources that have proved their address */
};

struct diw_rdmap_reads {
	struct diw_arena arena;
	struct diw_rdmap_errors errors;
	struct diw_pool pool, answer_pool, reader_pool;
	struct diw_range_pools ranges;
	struct diw_list active, done;
	struct diw_list readers;     /* in the order of their turns */
	struct diw_rdmap_reader unproved;
	struct diw_list hash[DIW_RDMAP_READS];
	bool unsent;                 /* a request of an active Read was refused by the kernel */
	uint64_t unit_ns;            /* smoothed time of a Read, for each started 64 KiB */
};

/* ---- Up: RDMAP's calls of the verbs ---- */

struct diw_rdmap_up {
	struct diw_ddp_recvs recvs;
	bool (*send_room)(void *ctx);                /* whether the send completion queue has room for one more */
	/* seg->h.opcode is the opcode of the completing segment: of a Send, or of a Write with immediate. */
	void (*recv_done)(void *ctx, struct diw_recv *r, const struct diw_ddp_seg *seg, uint16_t fault);
	bool (*record_done)(void *ctx, struct diw_record *r, uint32_t lo, uint32_t hi, bool end);
	/* True: the Read is kept until diw_rdmap_read_release(). */
	bool (*read_done)(void *ctx, struct diw_rdmap_read *r);
	/* A peer reports a fault of a message of ours. */
	void (*peer_error)(void *ctx, const struct diw_addr *peer, uint32_t msn, uint16_t fault);
	/* Datagrams: segments of ours were refused, see struct diw_link_up. */
	void (*unsent)(void *ctx, uint32_t first, uint32_t n, int errnum);
	/* RC: requests may have become complete. Their completions must come before those of the segment that confirmed
	 * them. */
	void (*confirmed)(void *ctx);
	/* RC: the stream has ended. FAULT: a Terminate was received (REMOTE) or staged. 0 and errnum 0: the stream
	 * ended regularly. */
	void (*ended)(void *ctx, uint16_t fault, bool remote, int errnum, uint64_t now);
};

/* ---- Requests and their responses on RC (rdmap/rc_read.c, rdmap/atomic.c) ---- */

struct diw_rdmap_rc_answer {         /* a Read or atomic of the peer */
	bool atomic, swap;
	bool done;                   /* the atomic has been executed; its response waits */
	bool copied;                 /* the source of the Read, from `sent` on, is in the snapshots */
	uint32_t msn;                /* of the request */
	uint32_t stag;               /* of our memory */
	uint64_t to;
	union {
		struct {
			uint32_t length, sink_stag;
			uint64_t sink_to;
			uint32_t sent;
		} read;
		struct {
			uint32_t reqid;
			uint64_t value;      /* the value before the operation */
			uint64_t add_swap, mask, compare, compare_mask;
		};
	};
};

/* Snapshots of Reads that wait for their responses (rdmap/rc_snap.c): bytes of a block, blocks of a connection, blocks
 * of a device. */
#define DIW_RDMAP_SNAP_BLOCK 65536u
#define DIW_RDMAP_SNAP_CONN 16u
#define DIW_RDMAP_SNAP_DEV 256u
#define DIW_RDMAP_SNAP_IOV (DIW_RDMAP_SNAP_CONN + 1)

struct diw_rdmap_snap_pool;          /* one a device */

struct diw_rdmap_snap {
	struct diw_rdmap_snap_pool *pool;    /* NULL: no Read is copied */
	struct diw_rdmap_snap_block *head, *tail;
	uint32_t head_off, tail_off, nblocks;
};

#define DIW_RDMAP_STEADY 16u         /* consecutive answers by the program, after which the next one is waited for */

struct diw_rdmap_rc {
	struct diw_list out;         /* pending work requests, by age */
	uint16_t nout, ord, ird;
	bool rfc7306;                /* the peer accepts immediates and atomics */
	bool self;                   /* there is no peer: the stream is connected to itself */
	bool imm_next;               /* the Write of the current request has left, its immediate has not */
	bool tell_rnr, rnr_limits;   /* the peer does not know rnr_retry yet; rnr_retry is a limit */
	uint8_t rnr_retry;           /* how many times a message of ours may wait for a receive; 7: no limit */
	uint32_t reqid;
	struct diw_rdmap_rc_answer *answers;     /* a ring of ird entries */
	uint16_t answers_head, nanswers;
	uint16_t nseen;              /* of these, the oldest ones: copied, or too large for a copy */
	struct diw_rdmap_snap snap;
	struct diw_ddp_tx answer_tx;
	struct diw_rdmap_wr *rtr;    /* the Read that is the ready-to-receive message */
	struct diw_rdmap_wr *probe;  /* the Read of no bytes that asks whether all before it is placed */
	struct diw_rdmap_rc_place {  /* rdmap/rc_place.c; counts of Writes, Sends and Immediates, modulo 2^32 */
		bool words;          /* the peer accepts placement words */
		uint32_t sent;       /* messages of ours that have left */
		uint32_t placed;     /* of these, messages that the peer has certainly placed */
		uint32_t heard;      /* messages of the peer that are placed here */
		bool asks;           /* the peer has asked for that count at least once */
		bool due;            /* it has asked since the last answer */
		bool fresh;          /* in this poll, with a message that has a completion */
		bool told;           /* the request was a message of its own, and no message of the program followed
				      * it */
		uint8_t replies;     /* consecutive messages with a request that the program answered by a message of
				      * its own; counted up to DIW_RDMAP_STEADY */
		uint64_t until;      /* until when the answer waits for the program's own message; 0: it does not
				      * wait */
	} place;
	struct diw_rdmap_rc_quote {  /* of the peer's Terminate (rdmap/terminate.c) */
		bool exact;          /* its word counts all messages that are placed: the next one was refused */
		bool header;         /* it quotes a header: h, and at least `len` octets of payload */
		uint32_t len;
		struct diw_ddp_hdr h;
	} quote;
	uint8_t last_len;            /* length of the Terminate that the link has not taken yet, or 0 */
	uint8_t last[DIW_RDMAP_TERMINATE_MAX];
};

/* ---- Flow control of UC (rdmap/flow.c) ---- */

#define DIW_RDMAP_FLOW_ASKS 16       /* the last ones, whose answers are valid */
#define DIW_RDMAP_FLOW_TOLL 768u     /* octets that a segment counts beside its own */

struct diw_rdmap_flow {
	uint32_t sent, base;         /* octets and tolls, modulo 2^32: sent; answered for by the peer */
	uint32_t window;
	uint32_t number, heard;      /* of the last request; of the last one that was answered */
	uint32_t at[DIW_RDMAP_FLOW_ASKS];    /* value of `sent` when the request was made */
	bool asked, answered;        /* the last request is open; the peer has answered at least once */
	bool shut;                   /* the window is full, until `until` */
	bool due;                    /* an answer to the peer */
	uint32_t due_number;
	uint64_t again_ns, gap;      /* time of the next request; how long it was delayed */
	uint64_t until, quiet_until;
};

/* ---- The Write of UC that is being received (rdmap/write.c) ---- */

struct diw_rdmap_write {             /* of one epoch of the peer */
	struct diw_ddp_hdr first;
	struct diw_range_set ranges;
	uint64_t last_ns;            /* when its last segment came */
	uint64_t asked_ns;           /* when the epoch was challenged; 0: never */
	uint16_t epoch;
	bool known;                  /* the epoch is known */
	bool any, open;              /* a Write has begun; it has not ended */
};

/* ---- The instance ---- */

struct diw_rdmap {
	struct diw_ddp ddp;
	const struct diw_rdmap_type *type;
	const struct diw_rdmap_up *up;
	void *up_ctx;
	struct diw_counters *c;
	struct diw_ddp_tx tx;        /* the message of the current work request */
	struct diw_rdmap_reads *reads;       /* UD; lies in its own arena */
	struct diw_rdmap_rc rc;
	struct diw_rdmap_rd *rd;     /* RD; lies in its own arena */
	uint32_t requests, peers;    /* RD: the most requests under way; the most peers that may ask at a time */
	size_t request_size;         /* octets of a request with its entries or inline data */
	uint64_t read_timeout;       /* in ns; 0: measured */
	struct diw_rdmap_flow flow;  /* UC */
	uint64_t proof_key[2];       /* the key of the tokens */
	struct {                     /* UC */
		struct diw_rdmap_write of[2];
		int now;                 /* index of the epoch in force; the other one has not been proved */
		uint64_t old_until_ns;   /* old_epoch is refused until this time */
		uint16_t old_epoch;
	} write;
};

/* ---- Calls of the layer above, which does not access the instance itself ---- */

struct diw_rdmap_attr {
	const struct diw_rdmap_type *type;
	const struct diw_rdmap_up *up;
	void *up_ctx;
	struct diw_ddp_attr ddp;     /* its tables and contexts are ignored */
	uint64_t read_timeout;
	uint32_t requests, peers;    /* RD: the most requests under way; the most peers that may ask at a time */
	size_t request_size;         /* octets of a request with its entries or inline data */
};

int diw_rdmap_init(struct diw_rdmap *r, const struct diw_rdmap_attr *a);         /* -ENOMEM */

/* RC: attaches a stream, with these limits on Reads and atomics. The pool outlives the instance. */
struct diw_rdmap_rc_attr {
	const struct diw_addr *peer;
	uint16_t ird, ord;
	bool rfc7306, words, initiator;
	bool self;                   /* there is no peer: the stream is connected to itself */
	struct diw_rdmap_snap_pool *pool;
};
int diw_rdmap_rc_begin(struct diw_rdmap *r, const struct diw_rdmap_rc_attr *a);  /* -ENOMEM */
int diw_rdmap_snap_pool_new(struct diw_rdmap_snap_pool **out);  /* -ENOMEM */
void diw_rdmap_snap_pool_free(struct diw_rdmap_snap_pool *p);   /* NULL: does nothing */
/* RC: drops all copies of memory that answers were to send (rdmap/rc_snap.c). */
void diw_rdmap_snap_clear(struct diw_rdmap *r);
void diw_rdmap_fini(struct diw_rdmap *r);
/* Returns the instance to its initial state; all peers are forgotten. -ENOMEM: nothing has changed. */
int diw_rdmap_renew(struct diw_rdmap *r);

/* RC, before the first request: sends the ready-to-receive message, a Write or a Read of no bytes (RFC 6581 section
 * 4). */
void diw_rdmap_rc_rtr(struct diw_rdmap *r, bool read, uint64_t now);

/* RC, between messages: sends the count of the peer's messages that are placed here, and with ASK asks for the peer's
 * count. To a peer without placement words it only asks, by a Read of no bytes. The answer appears in
 * r->rc.place.placed. 0, -EAGAIN, or -ENOSPC: as many Reads as allowed are outstanding. */
int diw_rdmap_rc_tell(struct diw_rdmap *r, bool ask, uint64_t now);
/* Whether an answer must be sent at once as a message of its own. Otherwise a message of the program may carry it
 * soon. */
bool diw_rdmap_rc_owes(struct diw_rdmap *r, uint64_t now);
static inline bool diw_rdmap_rc_after(uint32_t a, uint32_t b) { return (int32_t)(a - b) > 0; }

/* Executes or continues WR. 0: done, with the status in *status (a Read continues by itself). -EAGAIN: the link is
 * blocked. -EBUSY: the budget (bytes) is used up. -ENOSPC: too many Reads are outstanding, or a fence waits for them.
 * Call with the same WR until it is done. RC: a Read or atomic is wr->pending afterwards; when it is not pending any
 * more, wr->status is its result. */
int diw_rdmap_send(struct diw_rdmap *r, struct diw_rdmap_wr *wr, int64_t *budget, uint8_t *status, uint64_t now);
int diw_rdmap_rc_send(struct diw_rdmap *r, struct diw_rdmap_wr *wr, int64_t *budget, uint8_t *status, uint64_t now);

/* UC: octets and tolls that may be sent before the next call of diw_rdmap_flow_run(). Also sets
 * r->tx.window, the limit of the message in progress, which may be larger. */
int64_t diw_rdmap_flow_left(struct diw_rdmap *r, uint64_t now);
/* UC: sends requests and answers of flow control. MORE: the window delays a segment. 0, or -EAGAIN: the link is
 * blocked. */
int diw_rdmap_flow_run(struct diw_rdmap *r, bool more, uint64_t now);
/* UC: time of the next call of diw_rdmap_flow_run() because of the window; 0: the window delays nothing. */
uint64_t diw_rdmap_flow_deadline(const struct diw_rdmap *r);

/* Continues to answer Reads. 0: nothing is left; otherwise as diw_rdmap_send(). */
int diw_rdmap_answer(struct diw_rdmap *r, int64_t *budget, uint64_t now);
/* UD: a Read of a peer waits for its answer, or one of ours was refused and waits for diw_rdmap_reads_settle(). */
bool diw_rdmap_has_answers(const struct diw_rdmap *r);
int diw_rdmap_rc_answer(struct diw_rdmap *r, int64_t *budget, uint64_t now);
/* Completes the Reads whose requests could not be sent. */
void diw_rdmap_reads_settle(struct diw_rdmap *r);
void diw_rdmap_read_release(struct diw_rdmap *r, struct diw_rdmap_read *read);

/* ---- RD (rdmap/rd_send.c) ---- */

#define DIW_RDMAP_RD_SEGMENTS 4096u  /* segments that the link keeps until they are acknowledged */

/* Copies WR; diw_rdmap_rd_run() sends it. False: the most requests are under way. */
bool diw_rdmap_rd_begin(struct diw_rdmap *r, const struct diw_rdmap_wr *wr);
/* 0: no destination takes more. -EBUSY: the budget is used up. */
int diw_rdmap_rd_run(struct diw_rdmap *r, int64_t *budget, uint64_t now);
/* The next request that has ended, or NULL. The second call releases it when its completion is made. */
struct diw_rdmap_wr *diw_rdmap_rd_done(struct diw_rdmap *r);
void diw_rdmap_rd_release(struct diw_rdmap *r, struct diw_rdmap_wr *wr);
/* Ends all requests that are under way, as flushed. */
void diw_rdmap_rd_flush(struct diw_rdmap *r);
/* Whether the link has no room for requests or answers, or half of all requests wait for acknowledgements: then the
 * queue pair sends more when those come. */
bool diw_rdmap_rd_waits(const struct diw_rdmap *r);
/* A request is under way, or is not released. */
bool diw_rdmap_rd_busy(const struct diw_rdmap *r);
/* Whether no destination has anything to send, and no request has ended. */
bool diw_rdmap_rd_rests(const struct diw_rdmap *r);

/* ---- RC ---- */

/* All messages before SEQ are placed. */
void diw_rdmap_rc_confirm(struct diw_rdmap *r, uint32_t seq);
/* WR, which waits for a response, ends with STATUS. */
void diw_rdmap_rc_finish(struct diw_rdmap *r, struct diw_rdmap_wr *wr, uint8_t status);
/* Called before the following messages of the stream take effect: copies the sources of the Reads that wait. True: all
 * answers are independent of the following messages (rdmap/rc_snap.c). */
bool diw_rdmap_rc_snap(struct diw_rdmap *r);
/* Whether the peer's Terminate quotes a Write, Send or Immediate; whether it quotes WR, whose MSN on the queue of Sends
 * is MSN (rdmap/terminate.c). */
bool diw_rdmap_rc_quotes_message(const struct diw_rdmap *r);
bool diw_rdmap_rc_quotes(const struct diw_rdmap *r, const struct diw_rdmap_wr *wr, uint32_t msn);
/* Sends rnr_retry to the peer, if that is due and possible (docs/rc-wire.md section 8). 0 or -EAGAIN. */
int diw_rdmap_rc_tell_rnr(struct diw_rdmap *r, uint64_t now);
/* Ends the stream because of a fault, with a Terminate if the fault has a form on the wire (rdmap/terminate.c). SEG may
 * be NULL. If diw_rdmap_rc_owes_answers(), the Terminate waits for diw_rdmap_terminate_rest(). */
void diw_rdmap_terminate(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now);
/* Sends the rest of the Terminate. 0, or -EAGAIN: the link is blocked. */
int diw_rdmap_terminate_rest(struct diw_rdmap *r, uint64_t now);

/* ---- Small functions, many of them for the data path ---- */

static inline void diw_rdmap_set_link(struct diw_rdmap *r, struct diw_link *l) { diw_ddp_set_link(&r->ddp, l); }
static inline void *diw_rdmap_link_ctx(struct diw_rdmap *r) { return &r->ddp; }      /* context of the link's upcalls */
static inline void diw_rdmap_set_qkey(struct diw_rdmap *r, uint32_t qkey) { diw_ddp_set_qkey(&r->ddp, qkey); }
/* Access that no peer gets, even if an STag allows it. */
static inline void diw_rdmap_set_deny(struct diw_rdmap *r, unsigned access) { diw_ddp_set_deny(&r->ddp, access); }
static inline uint16_t diw_rdmap_epoch(const struct diw_rdmap *r) { return diw_ddp_epoch(&r->ddp); }
static inline bool diw_rdmap_has_chunks(const struct diw_rdmap *r) { return diw_ddp_has_chunks(&r->ddp); }

/* The peer of UC and RC. */
static inline const struct diw_dest *diw_rdmap_peer(const struct diw_rdmap *r) { return diw_ddp_peer(&r->ddp); }
static inline void diw_rdmap_set_peer(struct diw_rdmap *r, const struct diw_dest *peer)
{
	diw_ddp_set_peer(&r->ddp, peer);
}

static inline uint16_t diw_rdmap_place(const struct diw_rdmap *r, const struct diw_ddp_buf *buf, uint32_t off,
				       const uint8_t *data, uint32_t len)
{
	return diw_ddp_place(&r->ddp, buf, off, data, len);
}

/* A request has begun, and the link has not taken all of it. */
static inline bool diw_rdmap_is_sending(const struct diw_rdmap *r) { return r->tx.active || r->rc.imm_next; }
/* The segment that arrived last waits in the link, for a receive or for room for its completion. */
static inline bool diw_rdmap_is_waiting(const struct diw_rdmap *r) { return diw_ddp_is_waiting(&r->ddp); }
/* From here on no segment is taken, not even one that waits. */
static inline void diw_rdmap_stop(struct diw_rdmap *r) { diw_ddp_stop(&r->ddp); }
/* Returns the receive of an unfinished message, which ends by this; or NULL. */
static inline struct diw_recv *diw_rdmap_give_up_recv(struct diw_rdmap *r) { return diw_ddp_give_up_recv(&r->ddp); }
static inline void diw_rdmap_timers(struct diw_rdmap *r, uint64_t now) { r->type->timers(r, now); }
/* WAITING: a thread waits for outstanding Reads. Otherwise their timeouts wake no thread. */
static inline uint64_t diw_rdmap_deadline(const struct diw_rdmap *r, bool waiting)
{
	return r->type->deadline(r, waiting);
}
static inline void diw_rdmap_flow_sent(struct diw_rdmap *r, int64_t n) { r->flow.sent += (uint32_t)n; }

/* RC: a Response is being sent; requests of the peer without a response; requests of ours without a response. */
static inline bool diw_rdmap_rc_answering(const struct diw_rdmap *r) { return r->rc.answer_tx.active; }
static inline bool diw_rdmap_rc_asked(const struct diw_rdmap *r) { return r->rc.nanswers; }
static inline uint16_t diw_rdmap_rc_pending(const struct diw_rdmap *r) { return r->rc.nout; }
/* RC, after a fault: Responses are still to be sent. Within a begun message of ours, only diwarp accepts them. */
static inline bool diw_rdmap_rc_owes_answers(const struct diw_rdmap *r)
{
	return r->rc.nanswers && !r->rc.self && (!diw_rdmap_is_sending(r) || r->rc.place.words);
}
static inline void diw_rdmap_rc_drop_answers(struct diw_rdmap *r)
{
	r->rc.nanswers = r->rc.nseen = 0;
	r->rc.answer_tx.active = false;
}
/* RC: the negotiated limits; whether the peer has sent an FPDU. */
static inline uint16_t diw_rdmap_rc_ird(const struct diw_rdmap *r) { return r->rc.ird; }
static inline uint16_t diw_rdmap_rc_ord(const struct diw_rdmap *r) { return r->rc.ord; }
static inline bool diw_rdmap_rc_rfc7306(const struct diw_rdmap *r) { return r->rc.rfc7306; }
static inline bool diw_rdmap_rc_is_self(const struct diw_rdmap *r) { return r->rc.self; }
static inline bool diw_rdmap_rc_seen(const struct diw_rdmap *r) { return diw_ddp_seen(&r->ddp); }
static inline const struct diw_rdmap_rc_place *diw_rdmap_rc_place(const struct diw_rdmap *r) { return &r->rc.place; }
static inline const struct diw_rdmap_rc_quote *diw_rdmap_rc_quote(const struct diw_rdmap *r) { return &r->rc.quote; }
/* RC: the MSN behind those of the Sends and Immediates that have left, without one that has begun. */
static inline uint32_t diw_rdmap_rc_send_msn(const struct diw_rdmap *r)
{
	bool begun = r->tx.active && !r->tx.h.tagged && r->tx.h.qn == DIW_QN_SEND;

	return diw_ddp_tx_msn(&r->ddp, DIW_QN_SEND) - begun;
}
/* RC: the time since which a segment has waited; DIW_NEVER: none waits. */
static inline uint64_t diw_rdmap_rc_waits_since(const struct diw_rdmap *r)
{
	return diw_ddp_waits_since(&r->ddp);
}
/* RC: a pending request has left behind SEQ. Its Response will confirm that all before SEQ is placed. */
static inline bool diw_rdmap_rc_will_tell(const struct diw_rdmap *r, uint32_t seq)
{
	return !diw_list_empty(&r->rc.out) &&
	       !diw_rdmap_rc_after(seq, diw_container(r->rc.out.prev, struct diw_rdmap_wr, out)->seq);
}
/* RC: how many times a message may wait for a receive (7: always), and how long each time for the peer's. */
void diw_rdmap_rc_set_rnr(struct diw_rdmap *r, unsigned retry, uint64_t timer);

/* ---- State for display (rdmap/rx.c) ---- */

struct diw_rdmap_stats {
	struct diw_ddp_stats ddp;
	uint32_t reads_open;
};
struct diw_rdmap_stats diw_rdmap_stats(const struct diw_rdmap *r);
bool diw_rdmap_has_reads(const struct diw_rdmap *r);         /* datagrams: a Read is outstanding, or not completed */
/* The open record after PREV, or the first; NULL: there is none. */
const struct diw_record *diw_rdmap_record_next(const struct diw_rdmap *r, const struct diw_record *prev);
const struct diw_record *diw_rdmap_record_find(struct diw_rdmap *r, const struct diw_addr *src, uint32_t msn);
void diw_rdmap_record_release(struct diw_rdmap *r, struct diw_record *record);
void diw_rdmap_dereg(struct diw_rdmap *r, uint32_t stag);    /* ends an STag, and the records on it */

#endif
