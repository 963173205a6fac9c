/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs.so.1 over diw.h: declarations that its files share. Each object of infiniband/verbs.h is the first member
 * of one of ours; struct of_context ends in it, as verbs.h requires. Calls return what their manual pages say: 0 or a
 * positive errno, or NULL with errno set.
 */
#ifndef DIW_OF_OF_H
#define DIW_OF_OF_H

#pragma GCC visibility push(default)         /* the library is built with hidden visibility */
#include <infiniband/verbs.h>
#include "base/log.h"
#include "verbs/of/diwdv.h"
#pragma GCC visibility pop
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "verbs/diw_provider.h"
#include "verbs/host/fork.h"
#include "verbs/host/loop.h"

#define OF_PORT 1
/* Symbols that are private to rdma-core have a version whose number changes with releases. Here they have the numbers
 * of all releases, so that programs of any release find them. The build defines OF_NUMBERS(X), with an X(N) for each
 * number, and OF_PRIVATE_NAME(name), an OF_PRIVATE_OF for each. The number of the installed release is the default.
 * NAME must be defined in the same file. */
#define OF_PRIVATE_OF(n, name, at) __asm__(".symver " #name ", " #name #at "IBVERBS_PRIVATE_" #n);
/* For a linter, which compiles without the Makefile's definitions. */
#ifndef OF_NUMBERS
#define OF_NUMBERS(X)
#define OF_PRIVATE_NAME(name)
#endif

#define OF_MAX_GIDS DIW_MAX_DEV_ADDRS
#define OF_QP_BUCKETS 4096u
#define OF_GRH 40u
#define OF_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* ---- Devices (device.c, port.c) ---- */

enum of_personality { OF_CA, OF_RNIC };      /* channel adapter with RoCE v2 GIDs; iWARP RNIC */

struct of_device {
	/* Provider libraries of a program (efadv, mlx5dv) read behind the struct: there are zeros. */
	union { struct ibv_device dev; uint8_t room[2048]; };
	struct diw_dev_info info;
	enum of_personality personality;
	atomic_int refs;             /* device lists and contexts that use it */
};

struct of_context {
	struct of_device *device;
	struct diw_dev *dev;
	int ngids;
	struct diw_addr gids[OF_MAX_GIDS];   /* as addresses, port 0; IPv4 first */
	pthread_mutex_t lock;        /* guards the fields below; taken before all locks of ours, and held during no call
				      * that sleeps */
	struct of_rc *rc;            /* RC connections without a connection manager (connect.c); NULL: no RC queue
				      * pair */
	struct of_qp *qps[OF_QP_BUCKETS];    /* all queue pairs by number, linked by `next`; changed only with `names`
				      * held, too */
	pthread_mutex_t names;       /* the innermost lock: a thread that polls an extended queue may hold that queue's
				      * lock */
	unsigned nqps, nsrqs;
	atomic_int nahs;             /* address handles */
	uint32_t last_srq;           /* number of the newest shared receive queue */
	struct of_async *async;      /* async.c */
	struct diw_loop loop;        /* receives the events of RC connections while `rc` is set */
	struct diw_fork_guard guard; /* for all of these locks */
	struct verbs_context v;      /* last member: it ends in struct ibv_context */
};
static inline struct of_context *of_context(struct ibv_context *c)
{
	return OF_CONTAINER(c, struct of_context, v.context);
}

/* Returns NULL with errno, for calls that return a pointer. */
#define of_null(errnum) of_null_at(__func__, errnum)
static inline void *of_null_at(const char *call, int errnum)
{
	errno = diw_fail(errnum, "%s", call);
	return NULL;
}

/* For calls that return an error number. The kernel's verbs leave it in errno, too, and programs print that. */
static inline int of_result(int errnum)
{
	if (errnum)
		errno = errnum;
	return errnum;
}

bool of_is_rnic(const struct ibv_context *c);
/* Conversions between GIDs (v4-mapped or IPv6) and addresses. */
void of_addr_from_gid(struct diw_addr *a, const union ibv_gid *gid, const struct of_context *ctx);
void of_gid_from_addr(union ibv_gid *gid, const struct diw_addr *a);
int of_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in,
		       struct ibv_device_attr_ex *attr, size_t size);
int of_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size);

/* The device's limits, as it advertises and enforces them. */
#define OF_MAX_QP_WR 16384
#define OF_MAX_SGE DIW_MAX_SGE
#define OF_MAX_INLINE DIW_MAX_INLINE
#define OF_MAX_CQE (1 << 20)
#define OF_MAX_SRQ_WR 16384
#define OF_MAX_AH (1 << 20)
#define OF_MAX_RD_ATOM DIW_MAX_IRD
#define OF_MAX_MSG (1u << 30)        /* the port's limit, for RC and Writes; Sends of UD, UC and RD, and Reads of UD
				      * and RD, are limited to 16 MiB */

/* ---- Protection domains, memory (pd.c, mr.c) ---- */

struct of_pd {
	struct ibv_pd pd;
	struct diw_pd *diw;
	struct of_pd *parent;        /* of a parent domain: its protection domain, whose diw it shares */
	struct of_td *td;            /* of a parent domain: its thread domain, or NULL */
	atomic_int users;            /* the existing objects made from it: parent domains, regions, queue pairs, ... */
};
struct of_td {
	struct ibv_td td;
	atomic_int users;            /* parent domains */
};
struct of_mr {
	struct ibv_mr mr;
	struct diw_mr *diw;
	unsigned access;             /* IBV_ACCESS_* */
};
struct of_mw {
	struct ibv_mw mw;
	struct diw_mw *diw;
	pthread_mutex_t bind;        /* from ibv_bind_mw()'s post until mw.rkey is its key */
};
static inline struct diw_pd *of_diw_pd(struct ibv_pd *pd) { return ((struct of_pd *)pd)->diw; }
/* An object holds its protection domain: ibv_dealloc_pd() fails until all of them have dropped it. */
static inline void of_pd_hold(struct ibv_pd *pd) { atomic_fetch_add(&((struct of_pd *)pd)->users, 1); }
static inline void of_pd_drop(struct ibv_pd *pd) { atomic_fetch_sub(&((struct of_pd *)pd)->users, 1); }
struct ibv_pd *of_alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *attr);
struct ibv_td *of_alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr);
int of_dealloc_td(struct ibv_td *td);
/* Translates IBV_ACCESS_* to DIW_ACCESS_*; -1: unknown bits that are not optional. */
int of_access(unsigned access);
struct ibv_mw *of_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int of_dealloc_mw(struct ibv_mw *mw);

/* ---- Completion queues (cq.c, cq_ex.c, channel.c) ---- */

struct of_channel {
	struct ibv_comp_channel ch;
	struct diw_channel *diw;
};
struct of_cq {
	union { struct ibv_cq cq; struct ibv_cq_ex ex; };
	struct diw_cq *diw;
	_Atomic uint32_t empties;    /* consecutive polls that found nothing */
	bool extended;
	bool single;                 /* IBV_CREATE_CQ_ATTR_SINGLE_THREADED */
	pthread_mutex_t take;        /* held from start_poll to end_poll, unless `single` */
	struct diw_wc now;           /* the completion under the cursor */
	uint8_t batch_n, batch_at;
	struct diw_wc batch[16];     /* taken from the native queue, not returned yet */
};
int of_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
/* Maps are passed on in RECORDS; if it is NULL, they are released. */
int of_poll_records(struct of_cq *cq, int n, struct ibv_wc *wc, struct diwdv_record *records);
int of_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/* Drops the completions of QP in the queue. */
void of_cq_forget(struct of_cq *cq, const struct diw_qp *qp);
struct ibv_cq_ex *of_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
/* ---- Functions for both interfaces ---- */
/* Of a completion that is being returned. */
enum ibv_wc_status of_wc_status(struct of_cq *cq, const struct diw_wc *wc);
enum ibv_wc_opcode of_wc_opcode(const struct diw_wc *wc);
unsigned of_wc_flags(const struct of_cq *cq, const struct diw_wc *wc);
uint32_t of_wc_vendor_err(const struct diw_wc *wc);
uint32_t of_wc_src_qp(const struct diw_wc *wc);
uint8_t of_wc_sl(const struct diw_wc *wc);
uint16_t of_wc_slid(const struct diw_wc *wc);
bool of_cq_empty(struct of_cq *cq);          /* call after a poll that found nothing; true: poll once more */
void of_cq_ex_init(struct of_cq *cq);
void of_cq_ex_forget(struct of_cq *cq, const struct diw_qp *qp);
int of_cq_ex_take(struct of_cq *cq, struct diw_wc *wc, int n);
/* Waits until TAKEN events of the queue are acknowledged. */
void of_cq_await(struct of_cq *cq, uint32_t taken);

/* ---- Address handles (ah.c) ---- */

struct of_ah {
	struct ibv_ah ah;
	struct diw_dest dst;         /* port 0 */
	bool group;
};
bool of_is_group(const union ibv_gid *gid);
/* Whether port and GID index exist. */
bool of_is_path(const struct ibv_ah_attr *attr, const struct of_context *ctx);
/* Sets traffic class and hop limit of D. */
void of_dest_header(struct diw_dest *d, const struct ibv_global_route *r);
/* 0, or EINVAL: the attributes name no peer. */
int of_addr_from_ah_attr(struct diw_addr *a, const struct ibv_ah_attr *attr, const struct of_context *ctx);

/* ---- Shared receive queues (srq.c) ---- */

struct of_srq {
	struct ibv_srq srq;
	struct diw_srq *diw;
	uint32_t events_taken;       /* async.c */
	uint32_t num, max_wr, max_sge, limit;
};
struct ibv_srq *of_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
int of_get_srq_num(struct ibv_srq *srq, uint32_t *num);
int of_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- Queue pairs (qp.c states, send.c work requests, wr.c builder, connect.c RC without a connection manager) ---- */

/* Queue pair numbers. UD, UC: the UDP port. RC: a slot, 1 .. 255 << 16, | the TCP port of the listener that it
 * shares. */
#define OF_QPN_RC (1u << 16)
#define OF_QPN_MAX 0xffffffu
#define OF_QPN_GROUP 0xffffffu       /* InfiniBand's number of a group: all attached queue pairs */

/* A bind of a list of requests that is being posted. */
struct of_bind {
	struct ibv_mw *mw;
	uint32_t before;                     /* its rkey */
	uint32_t at;                         /* the place of the request in the list */
};

/* The builder's list of requests (wr.c), allocated in advance. */
struct of_build {
	pthread_mutex_t lock;                /* held from wr_start to wr_complete or wr_abort */
	struct diw_send_wr *wrs;
	struct diw_sge *sge;                 /* init.cap.max_send_sge for each request */
	uint8_t *data;                       /* init.cap.max_inline_data for each request */
	struct of_bind *binds;               /* of these requests; NULL: the queue pair binds no windows */
	uint32_t n, nbinds;
	int error;                           /* of the first call that failed; wr_complete returns it */
};

struct of_qp {
	union { struct ibv_qp qp; struct ibv_qp_ex ex; };
	struct diw_qp *diw;
	struct of_context *ctx;
	struct of_qp *next;
	uint32_t events_taken;               /* async.c */
	struct ibv_qp_init_attr init;        /* with the granted capabilities */
	struct ibv_qp_attr attr;             /* as modified last */
	atomic_int state;                    /* enum ibv_qp_state */
	bool rnic;                           /* iWARP: RTR equals RTS, and there are no packet sequence numbers */
	bool extended;
	uint64_t ops;                        /* send_ops_flags of an extended queue pair */
	struct of_build build;
	/* For connect.c; guarded by the context's lock. */
	struct of_rc_port *port;
	struct diw_conn_req *req;            /* a request that came before this end was ready for it */
	uint32_t req_from, req_psn;          /* its sender's number; its PSN */
	struct diw_addr peer;                /* set by RTR */
	bool connector;
	bool connected;
	int64_t waits_since;                 /* since when posted requests wait for a connection; 0: none wait */
	bool claimed;                        /* librdmacm connects it (bridge.c) */
	bool knows_psn;
	uint32_t peer_rq_psn;                /* the first PSN that the peer expects of us */
};
static inline struct of_qp *of_qp(struct ibv_qp *qp) { return (struct of_qp *)qp; }
static inline void of_qp_set_state(struct of_qp *qp, enum ibv_qp_state state)
{
	qp->qp.state = state;           /* for the program */
	atomic_store(&qp->state, state);
}
/* Whether each request names its destination: UD, and RD of diwdv_create_qp(). */
static inline bool of_names_dst(const struct of_qp *qp)
{
	return qp->qp.qp_type == IBV_QPT_UD || qp->qp.qp_type == IBV_QPT_DRIVER;
}
static inline bool of_has_fence(const struct of_qp *qp)
{
	return qp->qp.qp_type == IBV_QPT_RC || qp->qp.qp_type == IBV_QPT_DRIVER;
}

struct ibv_qp *of_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *of_create_qp_dv(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr, const struct diwdv_qp_attr *dv);
int of_post_errno(int rc);            /* the return value of ibv_post_send(3) for RC of diw_post_send() */
int of_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int of_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int of_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* A completion says that a request of the queue pair with this number has failed: RC is in state ERR, and RD if the
 * failure ended it. True: this changed the state of RC, so this request is the one that could not be delivered. Only
 * for completions with an error. */
bool of_qp_failed(struct of_context *ctx, uint32_t num);
/* From send.c, also used by the builder. */
static inline bool of_may_send(struct of_qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed) >= (qp->rnic ? IBV_QPS_RTR : IBV_QPS_RTS);
}
int of_ud_dst(const struct of_qp *qp, struct diw_send_wr *w, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey);
int of_bind_info(struct diw_send_wr *w, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
		 struct of_bind *bind);
/* The requests from the one at FIRST on are not posted: their windows have their old rkeys again. */
void of_bind_undo(const struct of_bind *binds, uint32_t n, uint32_t first);

int of_wr_init(struct of_qp *qp);            /* sets the builder's calls that send_ops_flags names; a positive errno */
void of_wr_fini(struct of_qp *qp);

/* modify.c: why a queue pair of TYPE may not change so, or 0. */
int of_modify_check(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int mask);

/* RC. A queue pair listens from its creation on. With RTR both ends know each other, and the one with the smaller
 * (number, GID) connects. The context's lock is held, except in the last call. They return a positive errno. */
int of_rc_listen(struct of_qp *qp, uint32_t *num);   /* before the diw_qp is created, which gets this number */
int of_rc_rtr(struct of_qp *qp);
int of_rc_rts(struct of_qp *qp);             /* requests may begin, at once or when the peer is connected */
void of_rc_limits(struct of_qp *qp);         /* applies timeout, retry_cnt, rnr_retry and min_rnr_timer */
void of_rc_forget(struct of_qp *qp);         /* at reset: drops request and connection; the number stays */
void of_rc_unlisten(struct of_qp *qp);       /* at destruction */
/* Returns the context's RC state if no RC queue pair is left, else NULL. The caller ends it without the lock. */
struct of_rc *of_rc_unused(struct of_context *ctx);
void of_rc_end(struct of_rc *rc);
struct of_qp *of_rc_find(struct of_context *ctx, uint32_t num);      /* or NULL */
void of_rc_claim(struct of_qp *qp);          /* from here on librdmacm connects it */

/* ---- Beyond verbs.h (dv.c: infiniband/diwdv.h) ---- */

void of_dv_attr(struct diw_qp_attr *a, const struct diwdv_qp_attr *dv);
void of_dv_record(struct diwdv_record *r, const struct diw_wc *wc);

/* ---- Asynchronous events (async.c) ---- */

/* Posts an event that this library has detected (COMM_EST, ...). The context's lock may be held. */
void of_async(struct of_context *ctx, const struct ibv_async_event *ev);
int of_async_open(struct of_context *ctx);
void of_async_close(struct of_context *ctx);
void of_async_watch(const struct of_qp *qp);   /* a new queue pair */
/* Called before the object is destroyed, and its native object is no more. Drops its events, and waits until those that
 * were fetched are acknowledged. */
void of_async_forget_qp(struct of_context *ctx, struct of_qp *qp);
void of_async_forget_srq(struct of_context *ctx, struct of_srq *srq);

#endif
