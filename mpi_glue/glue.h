/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The libfabric provider `diwarp`: FI_EP_RDM endpoints over reliable datagrams (docs/mpi.md). It is a user of the
 * native verbs. This header is for the files of this folder:
 *
 *   getinfo.c     provider, settings, fi_getinfo, fabric
 *   domain.c      device, registered memory, operations
 *   ep.c  av.c  cq.c  cntr.c  eq.c      libfabric's objects
 *   port.c        the queue pair of an endpoint: buffers, posts, completions
 *   msg.c  entry.c                      sends and receives; libfabric's many entries to them
 *   eager.c  rendezvous.c               messages on the wire
 *   match.c  msg_hdr.c                  matching; headers (no libfabric)
 *
 * One lock a domain guards all of its objects.
 */
#ifndef DIW_MPI_GLUE_GLUE_H
#define DIW_MPI_GLUE_GLUE_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "base/list.h"
#include "base/pool.h"
#include "mpi_glue/match.h"
#include "mpi_glue/msg_hdr.h"
#include "verbs/diw.h"

#define GLUE_IOV 4u                      /* vectors of one operation */
#define GLUE_OPS (1u << 20)              /* operations of a domain that are not freed, unexpected messages included */
#define GLUE_OP_BITS 20
#define GLUE_PEERS (1u << 20)            /* addresses of an address vector */
/* octets of an unexpected message that are copied out of the receive's buffer */
#define GLUE_SMALL 256u
#define GLUE_SQ 1024u                    /* send requests of a queue pair */
#define GLUE_RQ 256u                     /* receives, each of an eager message */
#define GLUE_INLINE DIW_MAX_INLINE
#define GLUE_MSG_MAX (1ull << 40)        /* octets of a message */

enum glue_mode { GLUE_MODE_WRITE_RECORD, GLUE_MODE_SENDRECV };

/* FI_DIWARP_*: man/diwarp.7. */
struct glue_settings {
	enum glue_mode mode;
	size_t eager;                    /* octets of the longest message that is sent at once */
	size_t buffered;                 /* octets that unexpected messages may hold, an endpoint */
	uint32_t qkey;
	char *iface;
};

struct glue_fabric { struct fid_fabric fid; };

struct glue_domain {
	struct fid_domain fid;
	struct glue_fabric *fabric;
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_mr *memory;           /* the whole address space, for local access alone */
	struct glue_settings set;
	pthread_mutex_t lock;
	bool locks;                      /* the application's threads may call at the same time */
	struct diw_arena arena;
	struct diw_pool ops;
	struct diw_list eps;
	uint32_t users;                  /* objects of it */
};

/* A peer: an address that was inserted, or that a message came from. */
struct glue_peer {
	struct glue_peer *next;          /* in its bucket */
	struct diw_addr addr;
	fi_addr_t fi_addr;               /* FI_ADDR_NOTAVAIL: not inserted */
};

struct glue_av {
	struct fid_av fid;
	struct glue_domain *domain;
	struct diw_arena arena;
	struct diw_pool peers;
	struct glue_peer **bucket;
	uint64_t seed;
	struct glue_peer **entry;        /* by fi_addr; NULL: removed */
	size_t count, room;
	uint32_t users;
};

struct glue_cq {
	struct fid_cq fid;
	struct glue_domain *domain;
	enum fi_cq_format format;
	struct diw_list ready;           /* operations that are complete */
	int epoll, wake;                 /* what waits for `wake` and the endpoints' channels; -1: no wait object */
	uint32_t users;
};

struct glue_cntr {
	struct fid_cntr fid;
	struct glue_domain *domain;
	uint64_t value, errors;
	uint32_t users;
};

/* What an endpoint counts: an index of glue_ep.cntr. */
enum glue_event { GLUE_EVENT_SEND, GLUE_EVENT_RECV, GLUE_EVENT_READ, GLUE_EVENT_WRITE, GLUE_EVENTS };

enum glue_op_kind { GLUE_OP_FREE, GLUE_OP_SEND, GLUE_OP_RECV, GLUE_OP_MESSAGE, GLUE_OP_READ, GLUE_OP_WRITE };

/* What an operation that waits for room in the send queue sends next. */
enum glue_todo { GLUE_TODO_NONE, GLUE_TODO_CTS, GLUE_TODO_DATA, GLUE_TODO_FIN, GLUE_TODO_RMA };

/* One operation of the application from its post to the fetch of its completion; or an unexpected message. */
struct glue_op {
	struct diw_list link;            /* glue_cq.ready, glue_ep.pending or glue_ep.claimed */
	struct match_key key;            /* receives and messages */
	struct glue_domain *domain;
	struct glue_ep *ep;              /* not valid when it has ended: the endpoint may be closed */
	struct glue_peer *peer;          /* likewise */
	fi_addr_t source;
	uint32_t id;                     /* generation and index: what peers name it by */
	uint8_t kind, todo;
	bool queued;                     /* in glue_ep.pending */
	bool ended;                      /* in glue_cq.ready */
	bool silent;                     /* no completion unless it fails */
	bool multi;                      /* a receive of many messages */
	bool released;                   /* ... that takes no further one */
	uint32_t children;               /* ... and how many of them are under way */
	struct glue_op *parent;          /* a message of it */
	struct fi_cq_err_entry entry;
	struct iovec iov[GLUE_IOV];
	uint32_t iovs;
	uint64_t len;                    /* octets of the buffer */
	uint64_t want, done, posted;     /* of a rendezvous: octets asked for, moved, handed to the send queue */
	uint32_t writes;                 /* requests under way */
	struct diw_mr *mr;               /* what the peer writes to */
	struct glue_hdr hdr;             /* what was received, or is to be sent */
	uint8_t *data;                   /* GLUE_OP_MESSAGE: its octets */
	struct glue_buf *buf;            /* ... where these are */
};

/* A buffer of a receive, of a copy of an unexpected message, or of a Send. */
struct glue_buf {
	struct diw_pool *pool;
	uint32_t op;                     /* a Send: the id of its operation, or 0 */
	uint8_t data[];
};

struct glue_ep {
	struct fid_ep fid;
	struct diw_list link;            /* of the domain */
	struct glue_domain *domain;
	struct glue_av *av;
	struct glue_cq *tx_cq, *rx_cq;
	struct glue_cntr *cntr[GLUE_EVENTS];
	bool tx_selective, rx_selective;
	bool directed;                   /* a receive's source counts */
	bool enabled;
	uint64_t tx_flags, rx_flags;     /* defaults of operations */
	size_t min_multi_recv;
	struct diw_addr local;           /* asked for; port 0: any */
	struct diw_qp *qp;
	struct diw_cq *cq;
	struct diw_channel *channel;     /* where a completion queue waits by descriptor */
	struct match tagged, untagged;
	struct diw_list pending;         /* operations that wait for room in the send queue */
	struct diw_list claimed;         /* messages that a peek has taken */
	struct diw_arena arena;
	struct diw_pool rx, tx, small;
	uint32_t sending;                /* send requests that are not complete */
	uint32_t missing;                /* receives that have no buffer */
	uint64_t dropped;                /* malformed messages */
};

extern struct fi_provider diw_glue_provider;
#define GLUE_LOG(...) FI_WARN(&diw_glue_provider, FI_LOG_CORE, __VA_ARGS__)

static inline void glue_lock(struct glue_domain *d) { if (d->locks) pthread_mutex_lock(&d->lock); }
static inline void glue_unlock(struct glue_domain *d) { if (d->locks) pthread_mutex_unlock(&d->lock); }

/* getinfo.c */
const struct glue_settings *diw_glue_settings(void);

/* domain.c */
int diw_glue_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *ctx);
struct glue_op *diw_glue_op_get(struct glue_ep *ep, enum glue_op_kind kind);     /* NULL: no room */
void diw_glue_op_put(struct glue_op *op);
struct glue_op *diw_glue_op_find(struct glue_domain *d, uint32_t id);    /* NULL: none that is under way has this id */
/* Its end: counts it, and gives it to its completion queue or frees it. ERR: 0, or FI_E*. */
void diw_glue_op_end(struct glue_op *op, int err);
/* Does the work of all endpoints. */
void diw_glue_progress(struct glue_domain *d);
int diw_glue_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int diw_glue_no_control(struct fid *fid, int command, void *arg);
int diw_glue_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *ctx);

/* ep.c, av.c, cq.c, cntr.c, eq.c */
int diw_glue_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *ctx);
int diw_glue_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *ctx);
struct glue_peer *diw_glue_av_peer(struct glue_av *av, fi_addr_t addr);          /* NULL: no such */
struct glue_peer *diw_glue_av_find(struct glue_av *av, const struct diw_addr *addr);     /* NULL: no room */
int diw_glue_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *ctx);
void diw_glue_cq_push(struct glue_cq *cq, struct glue_op *op);
int diw_glue_cq_watch(struct glue_cq *cq, int fd);
/* 0: the descriptor tells of the next completion; -FI_EAGAIN: one is there */
int diw_glue_cq_arm(struct glue_cq *cq);
int diw_glue_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *ctx);
int diw_glue_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *ctx);

/* port.c */
int diw_glue_port_open(struct glue_ep *ep);
void diw_glue_port_close(struct glue_ep *ep);
void diw_glue_port_poll(struct glue_ep *ep);
/* Send H and LEN octets of IOV from offset OFF, which are copied. OP: fails if the Send does, or NULL. 0, -FI_EAGAIN,
 * another negative errno. */
int diw_glue_port_send(struct glue_ep *ep, const struct glue_peer *to, const struct glue_hdr *h,
		       const struct iovec *iov, uint64_t off, uint32_t len, const struct glue_op *op, bool more);
int diw_glue_port_write(struct glue_op *op, uint64_t off, uint32_t len);
struct glue_buf *diw_glue_buf_get(struct diw_pool *pool);
void diw_glue_buf_put(struct glue_buf *b);
void diw_glue_pend(struct glue_op *op, enum glue_todo todo);

/* entry.c, msg.c */
extern struct fi_ops_msg diw_glue_ops_msg;
extern struct fi_ops_tagged diw_glue_ops_tagged;
/* A message as every entry describes it. */
struct glue_msg {
	const struct iovec *iov;
	size_t iovs;
	fi_addr_t addr;
	uint64_t tag, ignore, imm;
	void *ctx;
	uint8_t flags;                   /* enum glue_flags */
};
ssize_t diw_glue_send(struct glue_ep *ep, const struct glue_msg *m, uint64_t flags);
ssize_t diw_glue_recv(struct glue_ep *ep, const struct glue_msg *m, uint64_t flags);
ssize_t diw_glue_cancel(fid_t fid, void *ctx);

/* eager.c: a message has come whole, or its request to send; true: the buffer is kept. */
bool diw_glue_message_came(struct glue_ep *ep, struct glue_peer *from, const struct glue_hdr *h, struct glue_buf *b,
			   uint8_t *data, uint32_t len);
/* Give a message to a receive that it has matched. */
void diw_glue_message_deliver(struct glue_op *receive, struct glue_peer *from, const struct glue_hdr *h,
			      const uint8_t *data, uint32_t len);
/* What the next message of LEN octets takes of a receive of many. */
struct glue_op *diw_glue_receive_part(struct glue_op *parent, uint64_t len);
void diw_glue_message_free(struct glue_op *message);
void diw_glue_message_envelope(struct glue_op *op, const struct glue_peer *from, const struct glue_hdr *h,
			       uint64_t len);
uint64_t diw_glue_copy_in(const struct glue_op *op, uint64_t off, const uint8_t *data, uint64_t len);
void diw_glue_copy_out(uint8_t *to, const struct iovec *iov, uint64_t off, uint64_t len);

/* rendezvous.c */
void diw_glue_rts_match(struct glue_op *receive, struct glue_peer *from, const struct glue_hdr *h);
void diw_glue_rts_refuse(struct glue_ep *ep, struct glue_peer *from, const struct glue_hdr *h);
void diw_glue_cts_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h);
void diw_glue_data_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h, const uint8_t *data,
			uint32_t len);
void diw_glue_fin_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h);
void diw_glue_record_came(struct glue_ep *ep, const struct diw_wc *wc);
void diw_glue_write_done(struct glue_op *op, int err);
/* Continue what waited for room; false: there is none yet. */
bool diw_glue_resume(struct glue_op *op);

#endif
