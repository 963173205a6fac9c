/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair and its queues, between the files of verbs/. */
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

/* ---- Receive queue, of a queue pair or shared (verbs/rq.c) ---- */

struct diw_rwqe {
	struct diw_recv recv;        /* what DDP sees; first */
	uint32_t len;                /* as posted */
	uint32_t skipped, cut;       /* of its buffer's front: whole entries, bytes of the next one */
	struct diw_ddp_sge sge[];
};

/* Slot numbers go round: fresh or free -> (a poster fills the slot) fifo -> (DDP takes it) -> free. Posters hold
 * `post`, takers the device's lock, so each ring has one producer and one consumer at a time and a message costs no
 * lock of its own. */
struct diw_slot_ring {
	uint32_t *slot, mask;
	_Atomic uint32_t tail, head;
};

struct diw_rq {
	pthread_mutex_t post;
	uint32_t depth, max_sge;
	uint32_t fresh;              /* slots that were ever posted; the poster's */
	uint8_t *slots;
	struct diw_slot_ring fifo, free;
	atomic_bool wanted;                  /* a message may wait for a receive */
	bool awaited;                        /* RC or UC queue pairs use it: checked at a post */
	uint32_t *returned, nreturned;       /* taken before the fifo, last in first out */
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
/* *WAITS: a message waits for what was posted. */
int diw_rq_post(struct diw_rq *rq, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad, bool *waits);
/* The device's lock is held. */
uint32_t diw_rq_posted(const struct diw_rq *rq);
struct diw_recv *diw_rq_take(struct diw_rq *rq);
void diw_rq_return(struct diw_rq *rq, struct diw_recv *r);      /* to the front */
void diw_rq_done(struct diw_rq *rq, struct diw_recv *r);        /* the slot is free */

/* ---- Send queue (verbs/sq.c) ---- */

struct diw_sq {
	pthread_mutex_t post;        /* between posters; the holder of the device's lock consumes */
	struct diw_arena arena;      /* memory that is not used is no memory: of the slots */
	uint8_t *slots;
	size_t slot_size;
	uint32_t depth, mask, max_sge, max_inline;
	_Atomic uint32_t tail, head; /* next to fill; the oldest that is not complete */
	_Atomic uint32_t next;       /* to execute; head stays behind where what was executed is not complete yet */
};

static inline struct diw_rdmap_wr *diw_sq_slot(const struct diw_sq *sq, uint32_t i)
{
	return (void *)(sq->slots + (i & sq->mask) * sq->slot_size);
}

/* Nothing is left to execute. */
static inline bool diw_sq_empty(const struct diw_sq *sq)
{
	return atomic_load_explicit(&sq->tail, memory_order_acquire) ==
	       atomic_load_explicit(&sq->next, memory_order_relaxed);
}

/* ---- Queue pair types ---- */

/* Each is one file, which defines diw_qp_ops_NAME, and one line here. */
#define DIW_QP_TYPES(X) X(UD, ud) X(UC, uc) X(RC, rc) X(RD, rd)

/* What a queue pair type does its own way (verbs/ud.c, uc.c, rc.c, rd.c; what datagrams share is in verbs/dgram_qp.c).
 * The device's lock is held, but where posters are named. */
struct diw_qp_ops {
	enum diw_qp_type type;
	const struct diw_rdmap_type *rdmap;
	enum diw_qp_state first;     /* the state of one that was made */
	unsigned requests;           /* that may be posted: 1 << enum diw_wr_opcode */
	unsigned flags;              /* of requests, beside those that every type takes */
	uint32_t max_len;            /* octets of a request; 0: by its opcode */
	uint32_t max_mulpdu, max_errors;
	uint32_t num_kind;           /* in its number, beside the port */
	bool qkey;                   /* its segments carry a Q_Key */
	bool awaits_recv;            /* a message that finds no receive waits for one */

	/* diw_qp_create(): which attributes it refuses; before there is a queue pair. */
	int (*check)(const struct diw_qp_attr *a);
	/* diw_qp_create(): what it has beside queues and protocol; without the lock. */
	int (*open)(struct diw_qp *qp, const struct diw_qp_attr *a);
	/* The first state again, and diw_qp_renew(). -errno: nothing has changed. */
	int (*reset)(struct diw_qp *qp);
	void (*abort)(struct diw_qp *qp, uint64_t now);
	void (*leave)(struct diw_qp *qp, uint64_t now);      /* diw_qp_withdraw() */
	/* Beside what diw_qp_query() finds out for every type. */
	void (*query)(const struct diw_qp *qp, struct diw_qp_info *info);

	/* By posters: OPCODE, RDMAP's, or -errno (NULL: OPCODE); then the parts of W that are the type's. */
	int (*check_send)(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len);
	void (*fill)(const struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_send_wr *wr);
	/* W was executed, and is not complete. */
	bool (*outstanding)(const struct diw_qp *qp, const struct diw_rdmap_wr *w);
	/* W is given up, EXECUTED or not; false: it is flushed. */
	bool (*give_up)(struct diw_qp *qp, struct diw_rdmap_wr *w, bool executed);

	/* diw_qp_run_sends(): before (false: nothing is sent); requests and answers, and why each stopped; after. */
	bool (*begin)(struct diw_qp *qp, uint64_t now);
	void (*run)(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now);
	void (*settle)(struct diw_qp *qp, uint64_t now);
	uint64_t (*deadline)(const struct diw_qp *qp);       /* of these; NULL: none */
};

#define X(NAME, name) extern const struct diw_qp_ops diw_qp_ops_##name;
DIW_QP_TYPES(X)
#undef X

/* ---- Queue pair (verbs/qp.c) ---- */

struct diw_qp {
	struct diw_member member;    /* of the engine's turn; first */
	struct diw_list of_dev;      /* in dev->qps */
	struct diw_dev *dev;
	struct diw_pd *pd;
	uint32_t num;                /* what its completions say; 0: its own */
	void *ctx;
	struct diw_link *link;
	struct diw_dgram *impair;
	struct diw_dgram *socket;    /* the lowest dgram */
	struct diw_list groups;      /* that it is attached to (verbs/group.c) */
	struct diw_cq *send_cq, *recv_cq;
	struct diw_srq *srq;
	struct diw_rq *rq;           /* own_rq, or the shared one's */
	bool blocked;                /* the socket is full */
	bool want_write, want_read;  /* the engine watches for */
	bool more;                   /* the step's share was spent before the queue was empty */
	bool answers_first;          /* next time, Reads are answered before requests are sent */
	bool sig_all;
	bool hold;                   /* no send request begins */
	bool tell_drained;           /* then, when what had begun is complete */
	bool silent;                 /* diw_qp_withdraw(): it completes nothing and raises no event */
	bool grh;
	const struct diw_qp_ops *ops;
	_Atomic(enum diw_qp_state) state;
	struct diw_cm *cm;           /* RC: where its connection's events go, or NULL */
	struct diw_cm_conn *conn;    /* RC: from diw_connect() or diw_accept() to its last event (verbs/cm/conn.c) */
	const struct diw_conn_up *conn_up;   /* its calls; NULL: no connection */
	struct {                     /* RC (verbs/rc.c) */
		uint32_t mulpdu;
		bool packed, crc;
		bool confirm;        /* of its attributes: what was sent completes when it is placed */
		/* Of its counts of messages (struct diw_rdmap_rc_place; verbs/confirm.c). */
		uint32_t seq;        /* the newest request's */
		uint32_t wanted;     /* the newest that a completion waits for */
		uint32_t asked;      /* the newest that the peer was asked for */
		bool early, keep;    /* of its attributes: requests in IDLE; receives outlive the stream */
		enum diw_rc_phase phase;     /* diw_rc_move() alone changes it */
		uint64_t retry_ns;   /* of a stream that ended: so long its send requests are not flushed */
		uint64_t retries;    /* they are not until then, or 0 */
		uint64_t until;      /* CLOSING, drain: no longer than that; else DIW_NEVER */
		uint64_t progress;   /* CLOSING: bytes that had been sent at the last look */
	} rc;
	enum diw_rd_error rd_error;  /* RD, of its attributes; */
	bool rd_failed;              /* a destination has refused a request, or is gone */
	uint64_t rate, rate_at;      /* bytes a second, 0 none; when tokens was right */
	int64_t rate_burst, tokens;
	struct diw_sq sq;
	struct diw_rq own_rq;
	struct diw_rdmap rdmap;
	bool protocol;               /* that one is initialised */
	struct diw_counters *c;      /* in its slot, or own_c; every layer's name of the queue pair to a tracer */
	struct diw_counters *own_c;  /* where the page has no slot left */
	struct diw_stat_slot *stat;  /* its place in the page that others see, or NULL */
	bool shown;
	bool counted;                /* it uses that page, or found it full */
	struct diw_qp_error *errors; /* a ring */
	uint32_t errors_max, errors_head, errors_n;
	bool error_event;            /* not fetched yet: one event is enough */
	bool errors_lost;            /* entries were overwritten: told */
};

static inline void diw_qp_forget_conn(struct diw_qp *qp, bool events)
{
	if (qp->conn)
		qp->conn_up->forget(qp, events);
}

extern const struct diw_rdmap_up diw_qp_up;                      /* verbs/complete.c; context is the queue pair */
struct diw_mw;
void diw_mw_post_bind(struct diw_rdmap_wr *w, const struct diw_send_wr *wr);     /* verbs/mr.c */
/* The completion of WR into the next slot of the send completion queue; then push it. */
void diw_qp_fill_send_wc(struct diw_qp *qp, const struct diw_rdmap_wr *wr, uint8_t status);      /* verbs/wc.c */
/* For N completions; else the queue pair is served again when there is. */
bool diw_qp_has_room(struct diw_qp *qp, struct diw_cq *cq, uint32_t n);
/* A request has been executed and is not complete. */
static inline bool diw_sq_has_executed(const struct diw_qp *qp)
{
	return atomic_load_explicit(&qp->sq.head, memory_order_relaxed) !=
	       atomic_load_explicit(&qp->sq.next, memory_order_relaxed);
}
/* Segments of W are in the link still. */
static inline bool diw_sq_is_staged(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	return (int32_t)(w->seq - qp->link->left) > 0;
}

struct diw_wr_kind {
	uint8_t opcode, wc;          /* RDMAP's, and the completion's */
	uint32_t max;                /* octets */
};
extern const struct diw_wr_kind diw_wr_kinds[];                  /* verbs/sq_check.c; by the opcode of diw.h */
/* The opcode of RDMAP, or -errno: it cannot be posted. LEN: its bytes. */
int diw_sq_check(const struct diw_qp *qp, const struct diw_send_wr *wr, uint64_t *len);

int diw_sq_check_atomic(const struct diw_send_wr *wr, uint64_t len);     /* 0 or -EINVAL */
void diw_sq_fill_atomic(struct diw_rdmap_wr *w, const struct diw_send_wr *wr);

int diw_sq_init(struct diw_sq *sq, const struct diw_qp_attr *attr);
void diw_sq_fini(struct diw_sq *sq);
bool diw_sq_busy(const struct diw_qp *qp);      /* a request has begun, and is not complete */
/* The event that diw_qp_drained() asked for, if its time has come. The lock is held. */
void diw_sq_tell_drained(struct diw_qp *qp);

/* verbs/qp_check.c; OPS: of its type, or NULL. */
int diw_qp_check(const struct diw_pd *pd, const struct diw_qp_attr *attr, const struct diw_qp_ops *ops);

/* The lock is held. */
/* RC: give up all that was posted, in order, as far as there is room for the completions. */
void diw_sq_flush(struct diw_qp *qp);
/* Complete, in order, what is done: of datagrams, what has left. False: no room for a completion. */
bool diw_sq_retire(struct diw_qp *qp);
/* The kernel refused N segments for ERRNUM; FIRST is the number of the first, as the link counts them. */
void diw_sq_unsent(struct diw_qp *qp, uint32_t first, uint32_t n, int errnum);
void diw_qp_flush(struct diw_qp *qp);            /* those, and the receives */
static inline uint32_t diw_qp_num(const struct diw_qp *qp)
{
	return qp->num || !qp->link ? qp->num : qp->ops->num_kind | qp->link->local.port;
}
int diw_qp_fds(const struct diw_member *m, struct pollfd *p);    /* verbs/fds.c */
/* qp->blocked, or its descriptors, may have changed. */
void diw_qp_watch(struct diw_qp *qp);
void diw_qp_run(struct diw_qp *qp, uint64_t now);                /* timers, send queue, Reads to answer, flush */
void diw_qp_run_sends(struct diw_qp *qp, int64_t share, uint64_t now);
uint64_t diw_qp_deadline(const struct diw_qp *qp, bool waiting);
void diw_qp_error(struct diw_qp *qp, const struct diw_qp_error *e);
/* What is not a sum but a state. */
static inline struct diw_gauges diw_qp_gauges(const struct diw_qp *qp)
{
	const struct diw_rdmap_stats s = diw_rdmap_stats(&qp->rdmap);

	return (struct diw_gauges){
		.sq_pending = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed) -
			      atomic_load_explicit(&qp->sq.head, memory_order_relaxed),
		.rq_posted = diw_rq_posted(qp->rq), .sources = s.ddp.sources, .records_open = s.ddp.records_open,
		.records_held = s.ddp.records_held, .reasm_open = s.ddp.reasm_open, .reads_open = s.reads_open,
		.memory = s.ddp.memory,
	};
}
int diw_qp_renew(struct diw_qp *qp);     /* a new protocol state without peers. -ENOMEM: nothing has changed */
static inline bool diw_rc_is(const struct diw_qp *qp, enum diw_rc_trait trait)
{
	return diw_rc_phases[qp->rc.phase].traits & trait;
}
int diw_qp_check_time(const char *what, int64_t ns, int64_t lo);         /* verbs/qp_check.c: of an attribute */
int diw_qp_check_range(const char *what, uint32_t v, uint32_t lo, uint32_t hi);

#endif
