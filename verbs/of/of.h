/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs.so.1 over diw.h: what its files share. Each object of infiniband/verbs.h is embedded in one of ours, whose
 * first member it is (but struct of_context, which verbs.h wants to end in it). Calls return what their manual pages
 * say: 0 or a positive errno, or NULL with errno set.
 */
#ifndef DIW_OF_OF_H
#define DIW_OF_OF_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "verbs/diw.h"

#define OF_PORT 1
#define OF_MAX_GIDS DIW_MAX_DEV_ADDRS
#define OF_GRH 40u
#define OF_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* ---- Devices (device.c, port.c) ---- */

enum of_personality { OF_CA, OF_RNIC };      /* a channel adapter with RoCE v2 GIDs; an iWARP RNIC */

struct of_device {
	/* Provider libraries that a program brings look behind it (efadv, mlx5dv): there are zeros. */
	union { struct ibv_device dev; uint8_t room[2048]; };
	struct diw_dev_info info;
	enum of_personality personality;
	atomic_int refs;             /* device lists and contexts that hold it */
};

struct of_context {
	struct of_device *device;
	struct diw_dev *dev;
	int ngids;
	struct diw_addr gids[OF_MAX_GIDS];   /* as addresses, port 0; IPv4 first */
	pthread_mutex_t lock;        /* of what follows; taken before no lock of ours, held over no call that may sleep */
	struct diw_cm *cm;           /* RC connections without a connection manager (connect.c); NULL until the first */
	pthread_t cm_thread;
	struct of_qp *qps;           /* all, linked by next */
	struct of_srq *srqs;
	struct verbs_context v;      /* last: ends in struct ibv_context */
};
static inline struct of_context *of_context(struct ibv_context *c)
{
	return OF_CONTAINER(c, struct of_context, v.context);
}

bool of_is_rnic(const struct ibv_context *c);
/* The address of a GID (v4-mapped or IPv6), and back. */
void of_addr_from_gid(struct diw_addr *a, const union ibv_gid *gid, const struct of_context *ctx);
void of_gid_from_addr(union ibv_gid *gid, const struct diw_addr *a);
int of_query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *attr,
		       size_t size);
int of_query_port(struct ibv_context *c, uint8_t port, struct ibv_port_attr *attr, size_t size);

/* The device's limits as verbs advertises and enforces them. */
#define OF_MAX_QP_WR 16384
#define OF_MAX_SGE DIW_MAX_SGE
#define OF_MAX_INLINE DIW_MAX_INLINE
#define OF_MAX_CQE (1 << 20)
#define OF_MAX_SRQ_WR 16384
#define OF_MAX_RD_ATOM DIW_MAX_IRD
#define OF_MAX_MSG (1u << 30)

/* ---- Protection domains, memory (pd.c, mr.c) ---- */

struct of_pd {
	struct ibv_pd pd;
	struct diw_pd *diw;
	struct of_pd *parent;        /* of a parent domain: the protection domain behind it, whose diw it shares */
	atomic_int users;            /* parent domains over it */
};
struct of_mr {
	struct ibv_mr mr;
	struct diw_mr *diw;
	unsigned access;             /* IBV_ACCESS_* */
	uint64_t iova;
};
struct of_mw {
	struct ibv_mw mw;
	struct diw_mw *diw;
};
static inline struct diw_pd *of_diw_pd(struct ibv_pd *pd) { return ((struct of_pd *)pd)->diw; }
/* IBV_ACCESS_* to DIW_ACCESS_*; -1: unknown bits that are not optional. */
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
	struct of_channel *channel;
	uint64_t wc_flags;           /* of the extended one */
	struct diw_wc now;           /* of the extended one: the completion under the cursor */
	uint8_t batch_n, batch_at;
	struct diw_wc batch[16];     /* taken from the queue, not given yet: a poll takes what the caller has room for */
};
int of_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int of_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *of_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *attr);
/* What the two interfaces have in common. */
enum ibv_wc_status of_wc_status(const struct diw_wc *wc);
enum ibv_wc_opcode of_wc_opcode(const struct diw_wc *wc);
unsigned of_wc_flags(const struct diw_wc *wc);
uint32_t of_wc_src_qp(const struct diw_wc *wc);

/* ---- Address handles (ah.c) ---- */

struct of_ah {
	struct ibv_ah ah;
	struct diw_addr dst;         /* port 0 */
	uint8_t traffic_class, hop_limit;
};
/* 0, or EINVAL: no global address. */
int of_addr_from_ah_attr(struct diw_addr *a, const struct ibv_ah_attr *attr, const struct of_context *ctx);

/* ---- Shared receive queues (srq.c) ---- */

struct of_srq {
	struct ibv_srq srq;
	struct diw_srq *diw;
	struct of_srq *next;
	uint32_t num, max_wr, max_sge, limit;
};
struct ibv_srq *of_create_srq_ex(struct ibv_context *c, struct ibv_srq_init_attr_ex *attr);
int of_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- Queue pairs (qp.c states, send.c work requests, wr.c builder, connect.c RC without a connection manager) ---- */

#define OF_QPN_RC (1u << 16)         /* numbers: kind << 16 | port; RC: of the TCP port that the queue pair listens on */

struct of_qp {
	union { struct ibv_qp qp; struct ibv_qp_ex ex; };
	struct diw_qp *diw;
	struct of_qp *next;
	struct ibv_qp_init_attr init;        /* with the capabilities that were granted */
	struct ibv_qp_attr attr;             /* as last modified */
	bool sig_all;
	uint64_t ops;                        /* send_ops_flags of an extended one */
	/* connect.c; the context's lock */
	struct diw_listener *listener;
	struct diw_conn_req *req;            /* came before this end was ready for it */
	struct diw_addr peer;                /* of RTR */
	bool connector;
	bool connected;
	/* wr.c: the list that is being built */
	pthread_mutex_t build;
	struct diw_send_wr *wrs;
	uint32_t nwrs;
	int build_error;
};
static inline struct of_qp *of_qp(struct ibv_qp *qp) { return (struct of_qp *)qp; }

struct ibv_qp *of_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr);
int of_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int of_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int of_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
void of_wr_init(struct of_qp *qp);           /* the builder's calls, as its send_ops_flags say */
void of_wr_fini(struct of_qp *qp);

/* RC: a queue pair listens from its creation; with RTR both ends know each other, and the one with the smaller (GID,
 * number) connects. */
int of_rc_listen(struct of_qp *qp);
int of_rc_rtr(struct of_qp *qp);
void of_rc_forget(struct of_qp *qp);         /* reset, destroy */
void of_rc_close(struct of_context *ctx);    /* its thread ends */

/* ---- Asynchronous events (async.c) ---- */

/* An event that this library itself finds (COMM_EST, ...). */
void of_async(struct of_context *ctx, const struct ibv_async_event *ev);

#endif
