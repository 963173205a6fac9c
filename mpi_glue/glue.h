/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The libfabric provider `diwarp`: FI_EP_RDM endpoints over reliable datagrams, or over RC queue pairs (docs/mpi.md).
 * It is a user of the native verbs. This header is for the files of this folder:
 *
 *   getinfo.c     provider, settings, fi_getinfo, fabric
 *   domain.c      device, operations
 *   mr.c          registered memory
 *   progress.c    automatic progress
 *   ep.c  av.c  cq.c  cntr.c  eq.c  poll.c      libfabric's objects
 *   port.c        what an endpoint sends and receives: buffers, posts, completions
 *   port.h port_rd.c port_rc*.c         the queue pairs below it: reliable datagrams, or RC with connections
 *   msg.c  entry.c                      sends and receives; libfabric's many entries to them
 *   inbox.c  eager.c  rendezvous.c      messages on the wire
 *   hold.c                              peers whose messages find no receive
 *   gone.c  alive.c                     peers that do not answer; peers that are only waited for
 *   rma.c  atomic.c                     reads, writes and atomic operations on a peer's memory
 *   match.c  msg_hdr.c  greeting.c  atomic_op.c     matching; headers; arithmetic (no libfabric)
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
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "base/list.h"
#include "base/pool.h"
#include "mpi_glue/match.h"
#include "mpi_glue/msg_hdr.h"
#include "verbs/diw_provider.h"

#define GLUE_IOV 4u                      /* vectors of one operation */
/* Operations of a domain that exist at a time, unexpected messages included. */
#define GLUE_OPS (1u << GLUE_OP_BITS)
/* Of these, the last ones are kept for messages that arrive, and for calls that receive a message that has arrived. */
#define GLUE_OPS_KEPT 2048u
/* Operations that a received Send needs at most: one for each of its messages, and one while it waits. */
#define GLUE_SEND_OPS (1 + GLUE_PACK / GLUE_HDR_MIN)
#define GLUE_PEERS (1u << 20)            /* addresses that an address vector takes */
/* Addresses that an address vector knows by their messages alone: as many peers as the link knows at a time. */
#define GLUE_LEARNED 16384u
/* Octets up to which an unexpected message is copied out of the receive's buffer. */
#define GLUE_SMALL 256u
#define GLUE_SQ 1024u                    /* send requests of a queue pair */
#define GLUE_TX 512u                     /* Sends that are not acknowledged and too long for inline data */
/* Operations that can be posted without progress between them: sends, receives. */
#define GLUE_TX_SIZE 256u
#define GLUE_RX_SIZE (1u << 16)
#define GLUE_RQ 256u                     /* receives, one for each eager message */
#define GLUE_INLINE DIW_MAX_INLINE
#define GLUE_REGIONS 256u                /* buckets of the table of registered regions */
#define GLUE_RTS_MAX (1u << 16)          /* messages of a peer that wait for clearance */
#define GLUE_ATOMICS_MAX 512u            /* atomic operations to a peer that wait for answers */
#define GLUE_USER_END (1ull << 47)       /* end of a process's address space */
/* The flags of fi_inject() and its relatives, which have no completion. FI_INJECT alone does not suppress one. */
#define GLUE_QUIET (1ull << 63)
#define GLUE_INJECT (FI_INJECT | GLUE_QUIET)
/* Flags of operations that ask for what the provider has not. An operation that ignored them would run at another time
 * than the application wants, or elsewhere, or complete too early. */
#define GLUE_FLAGS_REFUSED (FI_TRIGGER | FI_FENCE | FI_MULTICAST | FI_COMMIT_COMPLETE)

/* Flags of operations that an endpoint may have for those without their own. */
#define GLUE_TX_FLAGS \
	(FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MORE)
#define GLUE_RX_FLAGS (FI_COMPLETION | FI_MULTI_RECV | FI_MORE)

enum glue_mode { GLUE_MODE_WRITE_RECORD, GLUE_MODE_READ, GLUE_MODE_SENDRECV };

/* FI_DIWARP_*: see man/diwarp.7. */
struct glue_settings {
	const struct glue_port_ops *port;        /* the queue pairs of endpoints */
	enum glue_mode mode;
	size_t eager;                    /* octets of the longest message that is sent without a rendezvous */
	size_t buffered;                 /* octets that unexpected messages of an endpoint may hold */
	uint32_t qkey;
	char *iface;
};

struct glue_fabric {
	struct fid_fabric fid;
	uint32_t users;                  /* its domains and event queues; atomic */
};

struct glue_domain {
	struct fid_domain fid;
	struct glue_fabric *fabric;
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_mr *memory;           /* the whole address space, for local access only */
	struct glue_settings set;
	pthread_mutex_t lock, turn;      /* `turn`: of the thread that waits for `lock` next */
	atomic_bool wanted;              /* a thread has the turn */
	bool locks;                      /* threads of the application may call at the same time */
	bool virt_addr, prov_key;        /* peers name registered memory by its addresses; by the provider's keys */
	struct diw_arena arena;
	struct diw_pool ops;
	struct diw_list eps;
	struct diw_list inboxes;         /* peers whose Sends wait */
	uint32_t users;                  /* its objects */
	struct diw_list regions[GLUE_REGIONS];   /* hash table by STag */
	bool automatic;                  /* progress.c: the thread is wanted; it runs; all threads are to end */
	bool runs, stop;
	pthread_t thread;
	int epoll, wake;                 /* the endpoints' channels; wakes all threads. -1: no thread */
	bool forked;                     /* in a child of fork(2): the threads are the parent's */
	struct diw_list of_process;
	uint64_t looked;                 /* how often the application has looked for completions */
	uint64_t sweep_at;               /* alive.c: when the next sweep begins */
	uint32_t sweep_at_op;            /* the operations in front of this one have been looked at */
	uint8_t sweep;                   /* number of the sweep */
	struct rc_domain *rc;            /* port_rc_cm.c: its connections */
};

/* A peer: an address that was inserted, or from which a message came. */
struct glue_peer {
	struct glue_peer *next;          /* in the same bucket */
	struct diw_addr addr;
	uint32_t index;                  /* in the address vector */
	uint32_t inserts;                /* how often its address was inserted */
	bool connected;                  /* at some time: it stays until the vector closes */
	uint32_t numbers;                /* its values of fi_addr_t: one for each insertion that was not removed */
	fi_addr_t fi_addr;               /* the least of these; FI_ADDR_NOTAVAIL: none */
	bool learned;                    /* counted in glue_av.learned */
	bool expected;                   /* its address was inserted again: the next process there is the wanted one */
	bool used;                       /* av.c: an operation refers to it */
	bool heard;                      /* alive.c: a message came since the last sweep */
	uint8_t swept;                   /* number of the last sweep in which the application waited for it */
	uint8_t silent, patience;        /* such sweeps since its last Write; after how many it gets the next */
	uint32_t requests;               /* in the send queue that name it, by themselves or by their buffers */
	uint64_t kept;                   /* octets of its eager messages that no receive has matched */
	struct glue_ep *holder;          /* hold.c: the endpoint that holds it, or is about to; NULL: none */
	struct diw_list hold;            /* in glue_ep.held */
	bool held;                       /* it was told so */
	uint32_t holds;                  /* it holds this end: HOLDs less RESUMEs */
	uint32_t rts_out, rts_in;        /* messages that wait for clearance: to the peer, from it */
	/* Atomic operations that wait for answers, to the peer; its atomic operations that wait. Answers to it that it
	 * has not acknowledged: small ones, large ones. */
	uint32_t atomics_out, atomics_in, answers[2];
	struct diw_list inbox;           /* its Sends that wait for room for an answer, in order */
	struct diw_list waits;           /* in glue_domain.inboxes if there are such Sends */
	int gone;                        /* the error with which everything with this peer fails; or 0 */
	struct glue_ep *teller;          /* gone.c: the endpoint that is to tell it so; NULL: none */
	struct diw_list tell;            /* in glue_ep.telling */
	uint64_t asked;                  /* alive.c: it was asked after the association was renewed at this time */
	uint16_t epoch;                  /* of its messages; 0: not known */
	uint64_t restarted;              /* what waited for a process that ended before this time has failed */
};

struct glue_av {
	struct fid_av fid;
	struct glue_domain *domain;
	struct diw_arena arena;
	struct diw_pool peers;
	struct glue_peer **bucket;
	uint64_t seed;
	struct glue_peer **entry;        /* by fi_addr; NULL: removed */
	size_t count, room, vacant;      /* each entry before `vacant` has a peer */
	struct fid *eq;
	uint32_t learned;                /* peers that were not inserted, or were removed */
	uint64_t full_until;             /* while all of these were in use: no search for others before this time */
	uint32_t users;
};

struct glue_cq {
	struct fid_cq fid;
	struct glue_domain *domain;
	enum fi_cq_format format;
	struct diw_list ready;           /* completed operations */
	int epoll, wake, timer;          /* watches the other two and the endpoints' channels; -1: no wait object */
	uint64_t timer_at;               /* when the timer expires, or has expired; 0: not set */
	uint64_t read_at;                /* when the last call read something; 0: it did not */
	bool signalled;                  /* fi_cq_signal(): a call that sleeps, or the next one, returns */
	uint32_t users;
};

struct glue_cntr {
	struct fid_cntr fid;
	struct glue_domain *domain;
	uint64_t value, errors;
	uint32_t users;
};

/* Events that an endpoint counts: indexes of glue_ep.cntr. */
enum glue_event { GLUE_EVENT_SEND, GLUE_EVENT_RECV, GLUE_EVENT_READ, GLUE_EVENT_WRITE, GLUE_EVENTS };

enum glue_op_kind { GLUE_OP_FREE, GLUE_OP_SEND, GLUE_OP_RECV, GLUE_OP_MESSAGE, GLUE_OP_READ, GLUE_OP_WRITE,
		    GLUE_OP_ATOMIC, GLUE_OP_NOTE, GLUE_OP_ANSWER, GLUE_OP_PEEK };

/* The next message of an operation that waits for room in the send queue. */
enum glue_todo { GLUE_TODO_NONE, GLUE_TODO_CTS, GLUE_TODO_DATA, GLUE_TODO_READ, GLUE_TODO_FIN, GLUE_TODO_RMA };

/* A part of a peer's memory. */
struct glue_target {
	uint32_t stag;
	uint64_t to, len;
};

/* An operation of the application, from its post until its completion is fetched; or an unexpected message
 * (GLUE_OP_MESSAGE); or the completion of a peer's write (GLUE_OP_NOTE) or of a peek (GLUE_OP_PEEK); or the answer to a
 * peer's atomic operation until it is acknowledged (GLUE_OP_ANSWER). */
struct glue_op {
	struct diw_list link;            /* in glue_cq.ready, glue_queue or glue_ep.claimed */
	struct match_key key;            /* of receives and messages */
	struct glue_domain *domain;
	struct glue_ep *ep;              /* not valid after the operation's end: the endpoint may be closed */
	struct glue_peer *peer;          /* not valid after the operation's end */
	fi_addr_t source;
	uint32_t id;                     /* generation and index, by which peers name it */
	uint8_t kind, todo;
	struct glue_queue *queue;        /* it is in the pending operations of this queue; NULL: in none */
	bool ended;                      /* in glue_cq.ready */
	bool silent;                     /* no completion unless it fails */
	bool earlier;                    /* older than the last insertion of its peer's address */
	bool multi;                      /* a receive for many messages */
	bool reports;                    /* DATA is followed by a report: FIN */
	bool released;                   /* of such a receive: it takes no more messages */
	uint32_t children;               /* of such a receive: its messages under way */
	struct glue_op *parent;          /* of such a message: the receive */
	uint32_t kept;                   /* hold.c: octets of its buffer, counted for its peer */
	uint32_t *counted;               /* what this operation adds 1 to, or NULL */
	struct fi_cq_err_entry entry;
	struct iovec iov[GLUE_IOV];
	uint32_t iovs;
	uint64_t len;                    /* octets of the buffer */
	uint64_t want, done, posted;     /* octets requested; moved; in the send queue */
	uint32_t requests;               /* not acknowledged yet; GLUE_OP_ATOMIC: missing answers */
	struct diw_mr *mr;               /* the memory that the peer writes or reads */
	struct glue_hdr hdr;             /* received, or to be sent */
	uint8_t *data;                   /* GLUE_OP_MESSAGE: its octets */
	struct glue_buf *buf;            /* GLUE_OP_MESSAGE: the buffer that contains them */
	struct glue_target target[GLUE_IOV];     /* of reads and writes */
	uint32_t targets;
	bool copy;                       /* GLUE_OP_WRITE: the octets were copied when posted */
	bool notes;                      /* GLUE_OP_WRITE: WRITTEN follows */
	bool large;                      /* GLUE_OP_ANSWER: it has a buffer */
};

/* A buffer: of a receive, of a copied unexpected message, or of a Send. */
struct glue_buf {
	struct diw_pool *pool;
	uint32_t op;                     /* of a Send: the id of its operation, or 0 */
	struct glue_peer *to;            /* of a Send */
	uint32_t others;                 /* messages in it that are kept, besides one */
	uint8_t data[];
};

/* What waits for room to send to a peer, or to any of those peers that share this room. */
struct glue_queue {
	struct diw_list link;            /* in glue_ep.waiting, if something waits */
	struct diw_list pending;         /* operations */
	uint32_t rma_pending;            /* reads and writes in `pending`: later operations must not overtake these */
};

/* Why a message was dropped, or a request for a connection refused: X(name). docs/mpi.md explains them. */
#define GLUE_DROP_NAMES(X) \
	X(MALFORMED, "malformed") X(STRAY, "stray") X(FLOOD, "flood") X(NO_ROOM, "no_room") X(REFUSED, "refused")
enum glue_drop {
#define GLUE_DROP_ENUM(name, text) GLUE_DROP_##name,
	GLUE_DROP_NAMES(GLUE_DROP_ENUM)
#undef GLUE_DROP_ENUM
	GLUE_DROPS,
};
#define GLUE_HELD GLUE_DROPS             /* counted beside them: a peer was held */
#define GLUE_COUNTS (GLUE_DROPS + 1u)

struct glue_ep {
	struct fid_ep fid;
	struct diw_list link;            /* in the list of the domain */
	struct glue_domain *domain;
	struct glue_av *av;
	struct glue_cq *tx_cq, *rx_cq;
	struct glue_cntr *cntr[GLUE_EVENTS];
	struct fid *eq;
	bool tx_selective, rx_selective;
	bool directed;                   /* receives match on the source, too */
	bool enabled;
	bool sends, receives;            /* its capabilities */
	bool notified;                   /* gets the remote CQ data of peers' writes (FI_REMOTE_WRITE) */
	uint64_t tx_flags, rx_flags;     /* default flags of operations */
	size_t min_multi_recv;
	struct diw_addr local;           /* as requested; port 0: any */
	struct glue_port *port;          /* its queue pairs */
	bool unsettled;                  /* glue_port_ops.settle has something to do */
	struct diw_cq *cq;
	struct diw_channel *channel;     /* for completion queues that wait by descriptor */
	struct match tagged, untagged;
	struct diw_list waiting;         /* queues in which something waits for room to send */
	struct diw_list held;            /* peers that are held */
	struct diw_list telling;         /* peers that are gone, and are to be told so */
	uint64_t kept, holds;            /* octets of eager messages without a receive; how often a peer was held */
	struct diw_list claimed;         /* messages that a peek has claimed */
	uint32_t answers[2];             /* of atomic operations, that are not acknowledged: small ones, large ones */
	uint8_t *scratch;                /* results of an atomic operation */
	struct diw_arena arena;
	struct diw_pool rx, tx, small;
	uint32_t sending;                /* send requests that are not complete */
	uint32_t missing;                /* receives without a buffer */
	const struct glue_peer *packs;   /* the last post is a Send to it that takes further messages; or NULL */
	uint64_t dropped[GLUE_DROPS];
	int counter[GLUE_COUNTS];        /* indices of the queue pairs' counters fabric_*, by glue_drop or GLUE_HELD */
};

extern struct fi_provider diw_glue_provider;
#define GLUE_LOG(...) FI_WARN(&diw_glue_provider, FI_LOG_CORE, __VA_ARGS__)

/* A thread that polls takes the lock again at once, and a thread that the mutex wakes would come too late. So the lock
 * is not taken past a thread that waits. */
void diw_glue_lock_wait(struct glue_domain *d);
static inline void glue_lock(struct glue_domain *d)
{
	if (d->locks && (atomic_load_explicit(&d->wanted, memory_order_relaxed) || pthread_mutex_trylock(&d->lock)))
		diw_glue_lock_wait(d);
}
static inline void glue_unlock(struct glue_domain *d) { if (d->locks) pthread_mutex_unlock(&d->lock); }

/* ---- getinfo.c ---- */
const struct glue_settings *diw_glue_settings(void);
/* An object of FABRIC begins, or ends. */
void diw_glue_fabric_use(struct fid_fabric *fabric);
void diw_glue_fabric_unuse(struct fid_fabric *fabric);

/* ---- domain.c ---- */
int diw_glue_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *ctx);
struct glue_op *diw_glue_op_get(struct glue_ep *ep, enum glue_op_kind kind);     /* NULL: no room */
/* The same for an operation that is not complete until something arrives. NULL: what is left is for what arrives. */
struct glue_op *diw_glue_op_new(struct glue_ep *ep, enum glue_op_kind kind);
static inline uint32_t glue_ops_free(const struct glue_domain *d) { return d->ops.cap - d->ops.used; }
void diw_glue_op_put(struct glue_op *op);
struct glue_op *diw_glue_op_find(struct glue_domain *d, uint32_t id);    /* NULL: no operation with this id is under
									  * way */
/* OP adds 1 to COUNTER, until it ends or the second call. */
void diw_glue_op_count(struct glue_op *op, uint32_t *counter);
void diw_glue_op_uncount(struct glue_op *op);
/* Ends an operation: counts it, and moves it to its completion queue or frees it. ERR: 0, or FI_E*. */
void diw_glue_op_end(struct glue_op *op, int err);
/* Does the work of all endpoints, for an application that looks for completions. */
void diw_glue_progress(struct glue_domain *d);
int diw_glue_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int diw_glue_no_control(struct fid *fid, int command, void *arg);
int diw_glue_no_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *ctx);

/* ---- mr.c ---- */
extern struct fi_ops_mr diw_glue_ops_mr;
/* The STag of a peer's key; 0: not a key. */
uint32_t diw_glue_mr_stag(const struct glue_domain *d, uint64_t key);
/* The memory of LEN octets in a region that is registered for ACCESS (FI_REMOTE_READ, FI_REMOTE_WRITE), or NULL. */
void *diw_glue_mr_resolve(struct glue_domain *d, uint32_t stag, uint64_t to, uint64_t len, uint64_t access);

/* progress.c */
/* Threads of a domain sleep on `wake` and a descriptor of their own. A thread that has lost them to the program is
 * cancelled at its end. It can be cancelled in its sleep alone, where it holds nothing. */
int diw_glue_threads_open(struct glue_domain *d);
void diw_glue_threads_close(struct glue_domain *d);
int diw_glue_thread_create(pthread_t *thread, void *(*run)(void *), struct glue_domain *d);
void diw_glue_thread_began(const char *name);
bool diw_glue_thread_stops(const struct glue_domain *d);
void diw_glue_thread_sleep(struct glue_domain *d, int fd, int ms);       /* FD -1: none */
void diw_glue_thread_end(struct glue_domain *d, pthread_t thread);
int diw_glue_progress_begin(struct glue_domain *d);
void diw_glue_progress_end(struct glue_domain *d);
int diw_glue_progress_watch(struct glue_domain *d, int fd);

/* ep.c, av.c, cq.c, cntr.c, poll.c, eq.c */
/* Counts a dropped message of a peer, or NULL. Logs the 1st, 2nd, 4th, 8th ... of each reason, and all when the
 * endpoint closes. */
void diw_glue_drop(struct glue_ep *ep, const struct glue_peer *from, enum glue_drop why);
int diw_glue_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *ctx);
int diw_glue_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *ctx);
struct glue_peer *diw_glue_av_peer(struct glue_av *av, fi_addr_t addr);          /* NULL: not inserted */
struct glue_peer *diw_glue_av_find(struct glue_av *av, const struct diw_addr *addr);     /* NULL: no room */
int diw_glue_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *ctx);
void diw_glue_cq_push(struct glue_cq *cq, struct glue_op *op);
int diw_glue_cq_watch(struct glue_cq *cq, int fd);
/* fi_trywait(). 0: the descriptor becomes readable for the next completion. -FI_EAGAIN: there is a completion, or a
 * signal, which holds up one call. */
int diw_glue_cq_trywait(struct glue_cq *cq);
int diw_glue_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *ctx);
int diw_glue_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll);
int diw_glue_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *ctx);
/* An object is bound to EQ, which cannot close meanwhile; or was closed. */
void diw_glue_eq_use(struct fid *eq);
void diw_glue_eq_unuse(struct fid *eq);                  /* NULL: nothing to do */

/* ---- gone.c, alive.c ---- */
/* Receives of EP that name PEER, and operations that wait for it, fail with ERR. Its messages that need it vanish. */
void diw_glue_peer_lost(struct glue_ep *ep, struct glue_peer *peer, int err);
/* The same for all endpoints that know PEER, and from now on, until its address is inserted again. */
void diw_glue_peer_gone(struct glue_ep *ep, struct glue_peer *peer, int err);
/* Another process has had PEER's address since WHEN: what waits for the earlier one fails. */
void diw_glue_peer_replaced(struct glue_ep *ep, struct glue_peer *peer, uint64_t when);
/* A GONE or ASK of LEN octets has come. */
void diw_glue_gone_came(struct glue_ep *ep, struct glue_peer *from, const uint8_t *data, uint32_t len);
/* FROM, which is gone, has sent something, and waits for an answer that it will not get. */
void diw_glue_gone_tell(struct glue_ep *ep, struct glue_peer *from);
void diw_glue_gone_run(struct glue_ep *ep);
void diw_glue_gone_forget(struct glue_ep *ep);           /* EP closes */
/* Called when an application looks for completions and there are none. */
void diw_glue_alive_look(struct glue_domain *d);
/* Ends the sweep that has begun: the application is about to sleep, and looks seldom. */
void diw_glue_alive_finish(struct glue_domain *d);
/* The application repeats a call until P allows it, and has no operation that waits for P. */
void diw_glue_alive_wait(struct glue_ep *ep, struct glue_peer *p);

/* ---- port.c ---- */
int diw_glue_port_open(struct glue_ep *ep);
void diw_glue_port_close(struct glue_ep *ep);
/* Counts in the queue pair to PEER: a glue_drop or GLUE_HELD. */
void diw_glue_port_count(struct glue_ep *ep, const struct glue_peer *peer, unsigned what);
/* False: no operation is free, and nothing was done. */
bool diw_glue_port_poll(struct glue_ep *ep);
/* Handles all completions that are there. */
void diw_glue_port_drain(struct glue_ep *ep);
/* The channel tells of the next completion, or of one that is there. */
bool diw_glue_port_arm(struct glue_ep *ep);
/* Sends H and LEN octets of IOV from offset OFF, which are copied. OP: fails if the Send does, or NULL. 0, -FI_EAGAIN,
 * or another negative errno. */
int diw_glue_port_send(struct glue_ep *ep, struct glue_peer *to, const struct glue_hdr *h,
		       const struct iovec *iov, uint64_t off, uint32_t len, const struct glue_op *op, bool more);
int diw_glue_port_write(struct glue_op *op, uint64_t off, uint32_t len);
/* Sends a Write of no octets. If TO does not acknowledge it, TO is gone. */
int diw_glue_port_probe(struct glue_ep *ep, struct glue_peer *to);
/* The error with which everything with PEER fails, or 0. */
int diw_glue_port_lost(struct glue_ep *ep, const struct glue_peer *peer);
/* Reads or writes LEN octets from offset OFF of OP; TARGET is the peer's memory from there on. FLAGS: DIW_SEND_*. */
int diw_glue_port_rma(struct glue_op *op, uint64_t off, uint32_t len, const struct glue_target *target, unsigned flags);
/* Whether N Sends of any length to TO could be posted. */
bool diw_glue_port_has_room(struct glue_ep *ep, const struct glue_peer *to, uint32_t n);
/* Whether reads or writes wait that an operation to TO must not overtake. */
bool diw_glue_port_is_held(struct glue_ep *ep, const struct glue_peer *to);
struct glue_buf *diw_glue_buf_get(struct diw_pool *pool);
void diw_glue_buf_put(struct glue_buf *b);
void diw_glue_pend(struct glue_op *op, enum glue_todo todo);
void diw_glue_unpend(struct glue_op *op);

/* ---- inbox.c ---- */
/* A Send of LEN octets has come; FROM is NULL if there is no room for a peer. True: the buffer is kept. */
bool diw_glue_received(struct glue_ep *ep, struct glue_peer *from, struct glue_buf *b, uint32_t len);
void diw_glue_inbox_run(struct glue_domain *d);
/* Drops the Sends that wait for EP. */
void diw_glue_inbox_forget(struct glue_ep *ep);
/* Drops those of them that are from FROM and would be answered: atomic operations and RTSs. */
void diw_glue_inbox_lose(struct glue_ep *ep, struct glue_peer *from);

/* ---- hold.c ---- */
/* OP's buffer has an eager message that waits. The buffer's octets count for its peer until the second call. */
void diw_glue_hold_count(struct glue_op *op);
void diw_glue_hold_uncount(struct glue_op *op);
/* Tells peers whether they are held, if that has changed. */
void diw_glue_hold_run(struct glue_ep *ep);
void diw_glue_hold_came(struct glue_peer *from, const struct glue_hdr *h);
void diw_glue_hold_forget(struct glue_ep *ep);           /* EP closes */
void diw_glue_hold_lost(struct glue_peer *p);            /* P has ended */

/* ---- entry.c, msg.c ---- */
extern struct fi_ops_msg diw_glue_ops_msg;
extern struct fi_ops_tagged diw_glue_ops_tagged;
/* The parameters of a message, in one form for all entries. */
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
/* Takes a posted receive back, which ends with ERR. */
void diw_glue_recv_end(struct match *m, struct glue_op *op, int err);
uint64_t diw_glue_iov_total(const struct iovec *iov, size_t n);

/* ---- rma.c ---- */
extern struct fi_ops_rma diw_glue_ops_rma;
/* Posts the rest of an operation. 0, -FI_EAGAIN, or another negative errno. */
int diw_glue_rma_run(struct glue_op *op);
void diw_glue_written_came(struct glue_ep *ep, struct glue_peer *from, const struct glue_hdr *h);

/* ---- atomic.c ---- */
extern struct fi_ops_atomic diw_glue_ops_atomic;
int diw_glue_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
			  uint64_t flags);
/* -FI_EAGAIN: nothing was done, since there is no room for the answer. */
int diw_glue_atomic_came(struct glue_ep *ep, struct glue_peer *from, const struct glue_hdr *h, const uint8_t *data,
			 uint32_t len);
/* The answer was acknowledged, or has failed. */
void diw_glue_answer_done(struct glue_op *answer);
void diw_glue_result_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h,
			  const uint8_t *data, uint32_t len);

/* eager.c: a whole message has come, or a request to send. True: the buffer is kept. */
bool diw_glue_message_came(struct glue_ep *ep, struct glue_peer *from, const struct glue_hdr *h, struct glue_buf *b,
			   uint8_t *data, uint32_t len);
/* Gives a message to the receive that it matches. */
void diw_glue_message_deliver(struct glue_op *receive, struct glue_peer *from, const struct glue_hdr *h,
			      const uint8_t *data, uint32_t len);
/* The part of a receive for many messages that the next message of LEN octets takes. */
struct glue_op *diw_glue_receive_part(struct glue_op *parent, uint64_t len);
void diw_glue_message_free(struct glue_op *message);
void diw_glue_message_envelope(struct glue_op *op, const struct glue_peer *from, const struct glue_hdr *h,
			       uint64_t len);
uint64_t diw_glue_copy_in(const struct glue_op *op, uint64_t off, const uint8_t *data, uint64_t len);
void diw_glue_copy_out(uint8_t *to, const struct iovec *iov, uint64_t off, uint64_t len);

/* ---- rendezvous.c ---- */
void diw_glue_rts_match(struct glue_op *receive, struct glue_peer *from, const struct glue_hdr *h);
/* Tells the sender that its message is in the buffer, or that OP has failed; then OP ends. ID: of the sender's
 * operation. */
void diw_glue_report(struct glue_op *op, uint32_t id);
/* No receive will take this message: tells its sender that it has ended. The message is freed. */
void diw_glue_rts_refuse(struct glue_op *message);
/* Registers the message of a send for reading by its peer, and says so in its RTS. */
void diw_glue_rts_offer(struct glue_op *send);
void diw_glue_cts_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h);
void diw_glue_data_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h, const uint8_t *data,
			uint32_t len);
void diw_glue_fin_came(struct glue_ep *ep, const struct glue_peer *from, const struct glue_hdr *h);
/* The receive ID whose buffer a peer may write to, or NULL. */
struct glue_op *diw_glue_op_exposed(struct glue_ep *ep, uint32_t id);
void diw_glue_octets_came(struct glue_op *op, uint64_t len);     /* the peer has written them to OP's buffer */
/* A request of OP was acknowledged, or has failed. */
void diw_glue_request_done(struct glue_op *op, int err);
/* The operation with this id, of this endpoint and peer. NULL: none, and the message is counted as dropped. */
struct glue_op *diw_glue_op_of(struct glue_ep *ep, const struct glue_peer *from, uint32_t id, enum glue_op_kind kind);
int diw_glue_status_errno(uint32_t status);
/* Continues an operation that waited for room; false: there is none yet. */
bool diw_glue_resume(struct glue_op *op);

#endif
