/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1 over diw.h and our libibverbs.so.1: declarations that its files share.
 *
 *   cma_id.c      identifiers
 *   cma_event.c   channels and events
 *   cma_dev.c     devices, and the thread for connection events
 *   cma_link.c    interfaces that go or change
 *   cma_addr.c    addresses
 *   cma_conn.c    connections of RC queue pairs
 *   cma_ud.c      the service of UD queue pairs
 *   cma_qp.c      queue pairs and their completion and shared receive queues
 *   cma_mcast.c   groups
 *   cma_ep.c      calls that do several steps at once
 *   cma_info.c    rdma_getaddrinfo()
 *   cma_later.c   calls of later releases
 *   cma_rs.c      rsockets: the calls of verbs/rs
 *
 * One lock, cma_lock, guards all state. It is taken before the locks of contexts and devices, and held during no call
 * that may sleep.
 */
#ifndef DIW_CMA_CMA_H
#define DIW_CMA_CMA_H

#pragma GCC visibility push(default)         /* the library is built with hidden visibility */
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#pragma GCC visibility pop
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "verbs/diw_provider.h"
#include "verbs/host/devs.h"
#include "verbs/host/loop.h"
#include "verbs/host/route.h"
#include "verbs/of/bridge.h"

#define CMA_DATA 255u                        /* the most private data: its length is a byte */
#define CMA_BACKLOG 1024
#define CMA_ACK_TIMEOUT 14                    /* 67 ms, the kernel's value; programs can read it, and nothing here uses
					       * it */
#define CMA_PACKET_LIFE 18                    /* of a path: 4.096 us << 18 = 1.07 s, the kernel's value for RoCE */
#define CMA_TIMEOUT_NS 20000000000ll         /* for a peer's answer, as long as the kernel's siw waits */

extern pthread_mutex_t cma_lock;
static inline void cma_enter(void) { pthread_mutex_lock(&cma_lock); }
static inline void cma_leave(void) { pthread_mutex_unlock(&cma_lock); }
/* Return value of calls: 0; or -1 with errno set to ERRNUM, a positive errno. */
#define cma_result(errnum) cma_result_at(__func__, errnum)
static inline int cma_result_at(const char *call, int errnum)
{
	if (errnum == 0)
		return 0;
	errno = errnum == EAGAIN ? errnum : diw_fail(errnum, "%s", call);
	return -1;
}

/* ---- Devices (cma_dev.c) ---- */

struct cma_dev {
	struct diw_host_dev host;
	struct ibv_context *verbs;
	struct diw_loop_cm conns;            /* open while there are identifiers that use the device */
	struct ibv_pd *pd;                   /* for programs that pass none */
	uint8_t hw[6];                       /* the hardware address, or its beginning */
	bool rnic;
};
/* The device that has the address, or one for the unspecified address; NULL with errno. */
struct cma_dev *cma_dev_of(const struct diw_addr *local);
struct ibv_pd *cma_dev_pd(struct cma_dev *d);        /* NULL with errno */
/* HW is the interface's hardware address. Returns whether it has changed. */
bool cma_dev_rehoused(unsigned ifindex, const void *hw, size_t len);

extern struct diw_loop cma_loop;             /* for the devices' channels, and the watches of other files */
/* Watches the interface from here on, if possible (cma_link.c); the lock is held. */
void cma_link_watch(struct cma_dev *d);
void cma_link_unwatch(void);
/* Returns the thread if no identifier needs it any more, else NULL; the lock is held. diw_loop_join() ends the thread,
 * without the lock. */
struct diw_loop_thread *cma_thread_unused(void);

/* ---- Identifiers (cma_id.c) ---- */

enum cma_state {
	CMA_IDLE, CMA_BOUND, CMA_ADDR_RESOLVED, CMA_ROUTE_RESOLVED, CMA_LISTENING,
	CMA_REQUESTED,                       /* of a listener: its request waits for an answer */
	CMA_CONNECTING,                      /* or accepting */
	CMA_CONNECTED,
	CMA_OVER,                            /* disconnected, rejected, failed */
};

/* Counts of events that were fetched, and that were acknowledged. */
struct cma_count {
	uint32_t taken, acked;
	pthread_t taker;                     /* the thread that fetched the last one */
};

struct cma_ud;

struct cma_id {
	struct rdma_cm_id id;                /* must be first */
	struct diw_list link;                /* in cma_ids */
	bool inherited;                      /* inherited by fork(2): calls on it fail */
	enum cma_state state;
	bool sync;                           /* it has its own channel, and calls wait for their events */
	bool dying;
	bool active;                         /* it is the initiator */
	bool leaving;                        /* rdma_disconnect() was called */
	bool any_port;                       /* bound to port 0 */
	bool reuse, afonly;
	bool removed;                        /* its device is gone, which was reported */
	bool hinted;                         /* an ADDR_CHANGE event is in its queue */
	uint8_t tos, ack_timeout;            /* ack_timeout: in verbs' encoding, 4.096 us << it */
	struct cma_dev *dev;
	int hold;                            /* the socket that keeps its port until it listens or connects, or -1 */
	struct diw_addr local, peer;         /* ip zero: not bound */
	struct diw_listener *listener;
	uint32_t backlog, queued;            /* of a listener: requests that were not fetched yet */
	struct diw_conn_req *req;            /* a request that waits for an answer */
	uint16_t ird, ord;                   /* limits that the peer's request asks for */
	uint32_t qp_num;                     /* the queue pair that is or was connected; 0: none */
	struct diw_qp *diw;                  /* the key by which the connection's events find it */
	struct cma_id *hash_next;
	struct cma_ud *ud;                   /* cma_ud.c */
	struct cma_count events;
	struct diw_watch late;               /* with `ready` set: its connection has ended, which will be reported
					      * later */
	struct diw_list groups;              /* cma_mcast.c */
	struct ibv_qp_init_attr *init;       /* of rdma_create_ep(): for the queue pair of each request */
	uint8_t data_len;                    /* of rdma_create_ep(): length of the private data for rdma_connect() calls
					      * without any */
	uint8_t *data;
	struct rdma_addrinfo *resolved;      /* result of rdma_resolve_addrinfo(), until it is fetched */
	bool resolving;
};
/* Events of later releases of rdma-core (RDMACM_1.4). */
enum { CMA_EVENT_ADDRINFO_RESOLVED = 16, CMA_EVENT_ADDRINFO_ERROR = 17, CMA_EVENT_USER = 18 };

static inline struct cma_id *cma_id(struct rdma_cm_id *id) { return (struct cma_id *)id; }
static inline bool cma_is_ud(const struct cma_id *id) { return id->id.qp_type == IBV_QPT_UD; }

extern struct diw_list cma_ids;
/* CHANNEL NULL: the identifier gets its own channel, and is sync. NULL with errno. The lock is held. */
struct cma_id *cma_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
			  enum ibv_qp_type type);
void cma_id_free(struct cma_id *id);         /* no other thread may know it; the lock is held */
void cma_id_device(struct cma_id *id, struct cma_dev *dev);
/* Writes both addresses to the fields that programs read. */
void cma_id_show(struct cma_id *id);
void cma_hold_drop(struct cma_id *id);
/* Keeps a port and checks the address; the lock is held. A positive errno. */
int cma_bind(struct cma_id *id, const struct diw_addr *local);

/* ---- Events (cma_event.c) ---- */

struct cma_event {
	struct rdma_cm_event ev;             /* must be first */
	struct diw_list link;
	struct cma_id *owner;                /* it is not destroyed before the event is acknowledged */
	struct cma_count *more;              /* another count that includes the event, or NULL */
	uint8_t data[CMA_DATA + 1];
};
/* NULL: no memory; the caller then omits the event. The lock is held. */
struct cma_event *cma_event_new(struct cma_id *id, enum rdma_cm_event_type type, int status);
void cma_event_data(struct cma_event *e, const void *data, uint32_t len);
void cma_event_post(struct cma_event *e);
/* Makes and queues an event. */
void cma_post(struct cma_id *id, enum rdma_cm_event_type type, int status);
/* Drops the queued events of ID, and refuses queued requests. MORE not NULL: only the events that it counts. */
void cma_events_forget(struct cma_id *id, const struct cma_count *more);
/* Waits until all fetched events are acknowledged. EDEADLK: this thread has fetched one itself, and no other thread
 * acknowledges it. */
int cma_events_await(const struct cma_count *events);
/* Acknowledges the event that a sync id shows. The lock is free. */
void cma_own_event_drop(struct cma_id *id);
/* Makes TO its channel, SYNC its kind, and moves its queued events. The identifiers of queued requests follow. */
void cma_events_move(struct cma_id *id, struct rdma_event_channel *to, bool sync);
/* The errno of a call that waited and got the event; 0: it is no failure. */
int cma_event_errno(const struct rdma_cm_event *ev);
/* For a sync id: waits for its next event, which is then in id->event. 0, or -1 with the errno of the event. The lock
 * is free. */
int cma_complete(struct cma_id *id);

/* ---- Addresses (cma_addr.c) ---- */

/* A positive errno: the address is of an unsupported family, or too short. */
int cma_addr_get(struct diw_addr *a, const struct sockaddr *sa);
void cma_addr_put(struct sockaddr_storage *ss, const struct diw_addr *a);

/* ---- Connections (cma_conn.c, cma_ud.c) ---- */

void cma_conn_event(struct diw_loop_cm *c, const struct diw_cm_event *ev);
/* Reports that the connection has ended, and later the end of InfiniBand's TimeWait state. */
void cma_disconnected(struct cma_id *id);
void cma_conn_forget(struct cma_id *id);     /* ends its listening, its request or its connection */
void cma_unmap(struct cma_id *id);
/* The GID index of its local address. */
uint8_t cma_gid_index(const struct cma_id *id);
/* Without a pointer there is no private data, as in rdma-core: programs leave the length unset. */
static inline uint8_t cma_data_len(const struct rdma_conn_param *p)
{
	return p && p->private_data ? p->private_data_len : 0;
}
/* Its queue pair may send, and knows the peer. */
void cma_qp_connected(const struct cma_id *id);

int cma_ud_listen(struct cma_id *id);        /* these functions return a positive errno */
int cma_ud_connect(struct cma_id *id, const struct rdma_conn_param *p);
int cma_ud_accept(struct cma_id *id, const struct rdma_conn_param *p);
int cma_ud_reject(struct cma_id *id, const void *data, uint8_t len);
void cma_ud_forget(struct cma_id *id);
/* The program fetches E, which tells that a group is joined: attaches the queue pair. An error is told by E instead. */
void cma_group_attach(struct cma_event *e);
void cma_groups_forget(struct cma_id *id);

#endif
