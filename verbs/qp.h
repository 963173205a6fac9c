/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair and its queues: definitions that the files of verbs/ share. */
#ifndef DIW_VERBS_QP_H
#define DIW_VERBS_QP_H

#include "base/statpage.h"
#include "rdmap/rdmap.h"
#include "verbs/cq.h"
#include "verbs/dev.h"
#include "verbs/diw_provider.h"
#include "verbs/group.h"
#include "verbs/rc.h"
#include "verbs/stat.h"

struct diw_pd {
	struct diw_dev *dev;
	int users;
};

/* ---- Receive queue: of a queue pair, or shared (verbs/rq.c) ---- */

struct diw_rwqe {
	struct diw_recv recv;        /* the part that DDP uses; must be first */
	uint32_t len;                /* as posted */
	uint32_t skipped, cut;       /* of the buffer's front: skipped entries; bytes of the next entry that are cut
				      * off */
	uint32_t slot;               /* the number of this slot */
	struct diw_ddp_sge sge[];
};

/* Slot numbers circulate: a poster takes a fresh or free slot, fills it and puts it into the fifo; DDP takes it from
 * there; it becomes free again. Posters hold `post`, consumers the device's lock. So each ring has one producer and one
 * consumer at a time, and a message takes no further lock. */
struct diw_slot_ring {
	uint32_t *slot, mask;
	_Atomic uint32_t tail, head;
};

struct diw_rq {
	pthread_mutex_t post;
	uint32_t depth, max_sge;
	uint32_t fresh;              /* number of slots that were ever posted; posters only */
	uint8_t *slots;
	struct diw_slot_ring fifo, free;
	atomic_bool wanted;                  /* a message may be waiting for a receive */
	bool awaited;                        /* receives belong to RC, UC or RD: posts check `wanted` */
	uint32_t *returned, nreturned;       /* returned slots: taken before those of the fifo, last in first out */
};

struct diw_srq {
	struct diw_rq rq;
	struct diw_pd *pd;
	void *ctx;
	uint32_t limit;
	int nqps;
};

int diw_rq_init(struct diw_rq *rq, uint32_t depth, uint32_t max_sge);   /* -ENOMEM */
void diw_rq_fini(struct diw_rq *rq);
/* The device's lock is held. */
uint32_t diw_rq_posted(const struct diw_rq *rq);
struct diw_recv *diw_rq_take(struct diw_rq *rq);
void diw_rq_return(struct diw_rq *rq, struct diw_recv *r);      /* the slot is taken next */
void diw_rq_done(struct diw_rq *rq, struct diw_recv *r);        /* the slot becomes free */

/* ---- Send queue (verbs/sq.c) ---- */

struct diw_sq {
	pthread_mutex_t post;        /* between posters; the consumer is the holder of the device's lock */
	struct diw_arena arena;      /* of the slots; unused slots take no memory */
	uint8_t *slots;
	size_t slot_size;
	uint32_t depth, mask, max_sge, max_inline;
	_Atomic uint32_t tail, head; /* the next slot to fill; the oldest request that is not complete */
	uint32_t since;              /* the first request after the last reset */
	_Atomic uint32_t next;       /* the next request to execute; head is behind it while executed requests are not
				      * complete */
	_Atomic uint64_t open;       /* the Send that waits to be executed and takes octets: index << 32 | length */
	uint32_t appends;            /* to that Send */
};

#define DIW_SQ_CLOSED UINT64_MAX     /* of `open`: no Send takes octets */

static inline struct diw_rdmap_wr *diw_sq_slot(const struct diw_sq *sq, uint32_t i)
{
	return (void *)(sq->slots + (i & sq->mask) * sq->slot_size);
}

/* The Send takes no octets any more, and has its length: call this before it is executed or given up. */
static inline void diw_sq_close(struct diw_sq *sq)
{
	uint64_t open;

	if (atomic_load_explicit(&sq->open, memory_order_relaxed) == DIW_SQ_CLOSED)
		return;
	open = atomic_exchange_explicit(&sq->open, DIW_SQ_CLOSED, memory_order_acquire);
	if (open != DIW_SQ_CLOSED)
		diw_sq_slot(sq, (uint32_t)(open >> 32))->buf.len = (uint32_t)open;
}

/* No request is left to execute. */
static inline bool diw_sq_empty(const struct diw_sq *sq)
{
	return atomic_load_explicit(&sq->tail, memory_order_acquire) ==
	       atomic_load_explicit(&sq->next, memory_order_relaxed);
}

/* ---- Queue pair types ---- */

/* Each type is one file, which defines diw_qp_ops_NAME, and one line here. */
#define DIW_QP_TYPES(X) X(UD, ud) X(UC, uc) X(RC, rc) X(RD, rd)

/* The operations of a queue pair type (verbs/ud.c, uc.c, rc.c, rd.c; verbs/dgram_qp.h has common ones for datagrams).
 * They are called with the device's lock, except where noted. */
struct diw_qp_ops {
	enum diw_qp_type type;
	const struct diw_rdmap_type *rdmap;
	enum diw_qp_state first;     /* the state of a new queue pair */
	unsigned requests;           /* that may be posted: bits 1 << enum diw_wr_opcode */
	unsigned flags;              /* of requests, in addition to those of all types */
	uint32_t max_len;            /* octets of a request; 0: limited by its opcode */
	uint32_t max_mulpdu, max_errors;
	uint32_t num_kind;           /* part of the queue pair number, beside the port */
	bool qkey;                   /* segments carry a Q_Key */
	bool awaits_recv;            /* a message that finds no receive waits for one */
	bool confirms;               /* a peer may refuse a request that has left, if it confirms requests */

	/* Checks the attributes in diw_qp_create(), before the queue pair exists. */
	int (*check)(const struct diw_qp_attr *a);
	/* Opens the type's own resources in diw_qp_create(); called without the lock. */
	int (*open)(struct diw_qp *qp, const struct diw_qp_attr *a);
	/* Returns to the first state, by diw_qp_renew(). -errno: nothing has changed. */
	int (*reset)(struct diw_qp *qp);
	void (*abort)(struct diw_qp *qp, uint64_t now);
	void (*leave)(struct diw_qp *qp, uint64_t now);      /* for diw_qp_withdraw() */
	/* Adds the type's own fields to diw_qp_query(). */
	void (*query)(const struct diw_qp *qp, struct diw_qp_info *info);

	/* Called by posters, without the device's lock. Checks W and returns RDMAP's opcode or -errno; NULL: the
	 * opcode's check is enough. Then fills the parts of W that the type defines. */
	int (*check_send)(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len);
	void (*fill)(const struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_send_wr *wr);
	/* Whether W was executed and is not complete. */
	bool (*outstanding)(const struct diw_qp *qp, const struct diw_rdmap_wr *w);
	/* Gives W up, which was EXECUTED or not. False: W is to be flushed. */
	bool (*give_up)(struct diw_qp *qp, struct diw_rdmap_wr *w, bool executed);

	/* The parts of diw_qp_run_sends(). Before: false means that nothing is sent. Then requests and answers, and why
	 * each stopped. After. */
	bool (*begin)(struct diw_qp *qp, uint64_t now);
	void (*run)(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now);
	void (*settle)(struct diw_qp *qp, uint64_t now);
	uint64_t (*deadline)(const struct diw_qp *qp);       /* of these; NULL: there is none */
	/* Whether received segments gave these parts nothing to do, but for the completions that it makes. NULL: they
	 * run after each burst. */
	bool (*rests)(struct diw_qp *qp);
};

#define X(NAME, name) extern const struct diw_qp_ops diw_qp_ops_##name;
DIW_QP_TYPES(X)
#undef X

/* ---- Queue pair (verbs/qp.c) ---- */

struct diw_qp {
	struct diw_member member;    /* in the engine's turn; must be first */
	struct diw_list of_dev;      /* in dev->qps */
	struct diw_dev *dev;
	struct diw_pd *pd;
	uint32_t num;                /* the number in its completions; 0: its own */
	void *ctx;
	struct diw_link *link;
	struct diw_dgram *impair;
	struct diw_dgram *socket;    /* the lowest dgram */
	struct diw_dgram *memory;    /* the dgram of shared memory, or NULL */
	struct diw_list groups;      /* the groups that it is attached to (verbs/group.c) */
	struct diw_cq *send_cq, *recv_cq;
	struct diw_srq *srq;
	struct diw_rq *rq;           /* own_rq, or that of the shared queue */
	bool blocked;                /* the socket is full */
	bool want_write, want_read;  /* the events that the engine watches for */
	bool more;                   /* the share of a step was used up before the queue was empty */
	bool answers_first;          /* in the next turn, Reads are answered before requests are sent */
	uint8_t rx_doublings;        /* the next step receives 1 << rx_doublings super-buffers */
	bool sig_all;
	bool hold;                   /* no send request begins */
	bool tell_drained;           /* with `hold`: raise an event when the begun requests are complete */
	bool silent;                 /* diw_qp_withdraw(): no completions and no events */
	bool grh;
	bool metered;                /* it has a rate limit, or the arbiter is on */
	bool burst;                  /* within a post: the super-buffer or write may stay open behind it */
	uint8_t nwaiting;            /* posts of a burst that are not executed yet, see post_waits() */
	const struct diw_qp_ops *ops;
	_Atomic(enum diw_qp_state) state;
	struct diw_cm *cm;           /* RC: the channel of its connection's events, or NULL */
	struct diw_cm_conn *conn;    /* RC: from diw_connect() or diw_accept() until its last event (verbs/cm/conn.c) */
	const struct diw_conn_up *conn_up;   /* the connection's upcalls; NULL: no connection */
	struct {                     /* RC (verbs/rc.c) */
		uint32_t mulpdu;
		bool packed, crc;
		bool confirm;        /* attribute: requests complete when the peer has placed them */
		/* Counts of messages, see struct diw_rdmap_rc_place and verbs/confirm.c. */
		uint32_t seq;        /* of the newest request */
		uint32_t wanted;     /* the newest that a completion waits for */
		uint32_t asked;      /* the newest for which the peer was asked */
		bool early, keep;    /* attributes: requests may be posted in IDLE; receives outlive the stream */
		bool tell_end;       /* attribute: the end is told although messages in front of it wait */
		uint64_t looks_at;   /* with that, while a message waits: the next look at the stream's end; or 0 */
		enum diw_rc_phase phase;     /* changed only by diw_rc_move() */
		uint64_t retry_ns;   /* attribute: how long the send requests of a stream that ended are kept */
		uint64_t flush_at;   /* state ERROR: requests are flushed at this time, or at once if it is 0 */
		bool behind;         /* the stream has ended, and receives are flushed ... */
		uint32_t last;       /* ... when the receive completions before this one are taken */
		uint64_t until;      /* CLOSING, DRAINING: the phase ends at this time; otherwise DIW_NEVER */
		uint64_t fails_at;   /* a request has failed within its message, and waits until then at most; or 0 */
		uint64_t progress;   /* CLOSING: bytes sent by the last check */
	} rc;
	enum diw_rd_error rd_error;  /* RD, attribute */
	bool rd_failed;              /* RD: a destination has refused a request, or is gone */
	uint64_t rate, rate_at;      /* bytes a second, 0: no limit; time of the last update of `tokens` */
	int64_t rate_burst, tokens;
	struct diw_sq sq;
	struct diw_rq own_rq;
	struct diw_rdmap rdmap;
	bool protocol;               /* `rdmap` is initialised */
	struct diw_counters *c;      /* in its slot of the page, or own_c; its address identifies the queue pair to a
				      * tracer */
	struct diw_counters *own_c;  /* used if the page has no free slot */
	struct diw_stat_slot *stat;  /* its slot of the page that other processes read, or NULL */
	bool shown;
	bool counted;                /* it uses the page, or found the page full */
	struct diw_qp_error *errors; /* a ring */
	uint32_t errors_max, errors_head, errors_n;
	bool error_event;            /* an event was raised and not fetched yet: no second one is needed */
	bool errors_lost;            /* entries were overwritten, and an event was raised */
	unsigned raise;              /* DIW_RAISE_* */
	struct diw_share share;      /* what the arbiter knows of it */
};

static inline void diw_qp_forget_conn(struct diw_qp *qp, bool events)
{
	if (qp->conn)
		qp->conn_up->forget(qp, events);
}

extern const struct diw_rdmap_up diw_qp_up;                      /* verbs/complete.c; the context is the queue pair */
struct diw_mw;
void diw_mw_post_bind(struct diw_rdmap_wr *w, const struct diw_send_wr *wr);     /* verbs/mr.c */
/* Writes the completion of WR to the next entry of the send completion queue. diw_cq_push() then publishes it. */
void diw_qp_fill_send_wc(struct diw_qp *qp, const struct diw_rdmap_wr *wr, uint8_t status);      /* verbs/wc.c */
/* Whether CQ has room for N completions. If not, the queue pair is served again when there is room. */
bool diw_qp_has_room(struct diw_qp *qp, struct diw_cq *cq, uint32_t n);
/* Whether a request has been executed and is not complete. */
static inline bool diw_sq_has_executed(const struct diw_qp *qp)
{
	return atomic_load_explicit(&qp->sq.head, memory_order_relaxed) !=
	       atomic_load_explicit(&qp->sq.next, memory_order_relaxed);
}
/* Whether segments of W are staged in the link. */
static inline bool diw_sq_is_staged(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	return (int32_t)(w->seq - qp->link->left) > 0;
}

/* RC: whether W is a Send or Write, whose placement the peer counts (struct diw_rdmap_rc_place). */
static inline bool diw_wr_is_message(const struct diw_rdmap_wr *w)
{
	return w->opcode == DIW_OP_SEND || w->opcode == DIW_OP_WRITE;
}

/* Whether the target answers W. */
static inline bool diw_wr_has_response(const struct diw_rdmap_wr *w)
{
	return w->opcode == DIW_OP_READ_REQUEST || w->opcode == DIW_OP_ATOMIC_REQUEST;
}

struct diw_wr_kind {
	uint8_t opcode, wc;          /* opcode of RDMAP; opcode of the completion */
	uint32_t max;                /* octets */
};
extern const struct diw_wr_kind diw_wr_kinds[];                  /* verbs/sq_check.c; indexed by the opcode of diw.h */
/* Returns RDMAP's opcode, or -errno if the request may not be posted. *LEN: its bytes. */
int diw_sq_check(const struct diw_qp *qp, const struct diw_send_wr *wr, uint64_t *len);

/* RC, RD: 0 or -EINVAL; then what these types alone have. */
int diw_sq_check_reliable(const struct diw_send_wr *wr, int opcode, uint64_t len);
void diw_sq_fill_reliable(struct diw_rdmap_wr *w, const struct diw_send_wr *wr);

/* KEEP: the last `depth` requests that have left stay readable, see diw_sq_oldest(). */
int diw_sq_init(struct diw_sq *sq, const struct diw_qp_attr *attr, bool keep);
void diw_sq_fini(struct diw_sq *sq);
bool diw_sq_busy(const struct diw_qp *qp);      /* a request has begun and is not complete */
/* Raises the event of diw_qp_drained() if it is due. The lock is held. */
void diw_sq_tell_drained(struct diw_qp *qp);

/* verbs/qp_check.c; OPS: the operations of the type, or NULL. */
int diw_qp_check(const struct diw_pd *pd, const struct diw_qp_attr *attr, const struct diw_qp_ops *ops);

/* ---- Called with the lock held ---- */
/* Flushes all posted requests, in order, as far as there is room for completions. */
void diw_sq_flush(struct diw_qp *qp);
void diw_qp_flush(struct diw_qp *qp);            /* the same, and the receives */
void diw_qp_tell_last_recv(struct diw_qp *qp);   /* an event: it takes no more receives of its shared queue, if any */
/* Completes, in order, requests that are done; over datagrams, requests that have left. False: there was no room for a
 * completion. */
bool diw_sq_retire(struct diw_qp *qp);
/* The oldest request that has left the queue and whose slot still has its contents, or the head. */
uint32_t diw_sq_oldest(const struct diw_sq *sq);
/* The kernel refused N segments with ERRNUM. FIRST is the link's number of the first one. */
void diw_sq_unsent(struct diw_qp *qp, uint32_t first, uint32_t n, int errnum);
static inline uint32_t diw_qp_num(const struct diw_qp *qp)
{
	return qp->num || !qp->link ? qp->num : qp->ops->num_kind | qp->link->local.port;
}
int diw_qp_fds(const struct diw_member *m, struct pollfd *p);    /* verbs/fds.c */
/* Called when qp->blocked or the descriptors may have changed. */
void diw_qp_watch(struct diw_qp *qp);
void diw_qp_run(struct diw_qp *qp, uint64_t now);                /* runs timers, send queue, answers to Reads, flush */
void diw_qp_run_sends(struct diw_qp *qp, int64_t share, uint64_t now);
uint64_t diw_qp_deadline(const struct diw_qp *qp, bool waiting);
void diw_qp_error(struct diw_qp *qp, const struct diw_qp_error *e);
/* Values that are a state, not a sum. */
static inline struct diw_gauges diw_qp_gauges(const struct diw_qp *qp)
{
	const struct diw_rdmap_stats s = diw_rdmap_stats(&qp->rdmap);

	return (struct diw_gauges){
		.sq_pending = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed) -
			      atomic_load_explicit(&qp->sq.head, memory_order_relaxed),
		.rq_posted = diw_rq_posted(qp->rq), .sources = s.ddp.sources, .records_open = s.ddp.records_open,
		.records_held = s.ddp.records_held, .reasm_open = s.ddp.reasm_open, .reads_open = s.reads_open,
		.crc = qp->rc.crc, .memory = s.ddp.memory,
	};
}
/* Sets the counters of C that are the device's. */
static inline void diw_qp_count_device(const struct diw_qp *qp, struct diw_counters *c)
{
	c->wakeups = qp->dev->engine.wakeups;
	c->thread_receives = qp->dev->engine.thread_receives;
}
int diw_qp_renew(struct diw_qp *qp);     /* new protocol state; all peers are forgotten. -ENOMEM: nothing has changed */
static inline bool diw_rc_is(const struct diw_qp *qp, enum diw_rc_trait trait)
{
	return diw_rc_phases[qp->rc.phase].traits & trait;
}
int diw_qp_check_time(const char *what, int64_t ns, int64_t lo);         /* verbs/qp_check.c: checks an attribute */
int diw_qp_check_range(const char *what, uint32_t v, uint32_t lo, uint32_t hi);

#endif
