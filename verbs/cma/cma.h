/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1 over diw.h and our libibverbs.so.1: what its files share. cma_id.c, identifiers; cma_event.c, channels
 * and events; cma_dev.c, devices and the thread that hears of connections; cma_link.c, interfaces that go or change;
 * cma_addr.c, addresses; cma_conn.c, connections of RC queue pairs; cma_ud.c, the service of UD ones;
 * cma_qp.c, queue pairs and what belongs to them; cma_mcast.c, groups; cma_ep.c, the calls that do several things at
 * once; cma_info.c, rdma_getaddrinfo(); cma_later.c, what came later.
 *
 * One lock, cma_lock, covers all that is here. It is taken before those of contexts and devices, and held over no call
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
#include "verbs/host/loop.h"
#include "verbs/host/route.h"
#include "verbs/of/bridge.h"

#define CMA_DATA 255u                        /* private data: what its length has room for */
#define CMA_BACKLOG 1024
#define CMA_ACK_TIMEOUT 14                    /* 67 ms, as the kernel's own; nothing here follows it but what is told */
#define CMA_PACKET_LIFE 18                    /* of a path, 4.096 us << it: 1.07 s, as the kernel has it for RoCE */
#define CMA_TIMEOUT_NS 20000000000ll         /* for a peer to answer; as long a kernel's siw waits */

extern pthread_mutex_t cma_lock;
static inline void cma_enter(void) { pthread_mutex_lock(&cma_lock); }
static inline void cma_leave(void) { pthread_mutex_unlock(&cma_lock); }
/* What calls return: 0, or -1 with errno set to ERRNUM, a positive errno. */
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
	struct cma_dev *next;
	char name[64];
	struct ibv_context *verbs;
	struct diw_dev *diw;
	struct diw_loop_cm conns;            /* open while there are identifiers; of one that has the device it is */
	struct ibv_pd *pd;                   /* for a program that passes none */
	unsigned ifindex;
	uint8_t hw[6];                       /* its hardware address, or the beginning of it */
	bool rnic;
};
/* The device of an interface, opened once for all; NULL with errno. */
struct cma_dev *cma_dev_of(const char *ifname);
struct cma_dev *cma_dev_any(void);
struct ibv_pd *cma_dev_pd(struct cma_dev *d);        /* NULL with errno */
void cma_dev_gone(unsigned ifindex);         /* its users keep it, and no search finds it any more */
/* HW is its hardware address; whether it had another until now. */
bool cma_dev_rehoused(unsigned ifindex, const void *hw, size_t len);

extern struct diw_loop cma_loop;             /* of the devices' channels, and of what else the files watch */
/* The interface from now on, if that can be had (cma_link.c); the lock is held. */
void cma_link_watch(struct cma_dev *d, const char *ifname);
void cma_link_unwatch(void);
/* The thread, if no identifier needs it any more, or NULL; the lock is held. diw_loop_join() ends it, without. */
struct diw_loop_thread *cma_thread_unused(void);

/* ---- Identifiers (cma_id.c) ---- */

enum cma_state {
	CMA_IDLE, CMA_BOUND, CMA_ADDR_RESOLVED, CMA_ROUTE_RESOLVED, CMA_LISTENING,
	CMA_REQUESTED,                       /* of a listener: its request waits for an answer */
	CMA_CONNECTING,                      /* or accepting */
	CMA_CONNECTED,
	CMA_OVER,                            /* disconnected, rejected, failed */
};

/* Events that were fetched, and acknowledged. */
struct cma_count {
	uint32_t taken, acked;
	pthread_t taker;                     /* the thread that fetched the last */
};

struct cma_ud;

struct cma_id {
	struct rdma_cm_id id;                /* first */
	struct diw_list link;                /* in cma_ids */
	bool inherited;                      /* it is the process' that forked: here it fails */
	enum cma_state state;
	bool sync;                           /* its channel is its own, and calls wait for their events */
	bool dying;
	bool active;                         /* it asked */
	bool leaving;                        /* rdma_disconnect() was called */
	bool any_port;                       /* bound to port 0 */
	bool reuse, afonly, tos_set;
	bool removed;                        /* its device is gone, and it has been told */
	bool hinted;                         /* an ADDR_CHANGE of it waits to be fetched */
	uint8_t tos, ack_timeout;            /* ack_timeout: as verbs has it, 4.096 us << it */
	struct cma_dev *dev;
	int hold;                            /* the socket that keeps its port until it listens or connects, or -1 */
	struct diw_addr local, peer;         /* ip zero: not bound */
	struct diw_listener *listener;
	uint32_t backlog, queued;            /* of a listener: requests that are not fetched yet */
	struct diw_conn_req *req;            /* a request that waits for an answer */
	uint16_t ird, ord;                   /* what the peer's request would have of us */
	uint32_t qp_num;                     /* of the queue pair that is, or was, connected; 0: none */
	struct diw_qp *diw;                  /* under which the connection's events find it */
	struct cma_id *hash_next;
	struct cma_ud *ud;                   /* cma_ud.c */
	struct cma_count events;
	struct diw_watch late;               /* `ready` set: its connection has ended, and of that it will be told */
	struct diw_list groups;              /* cma_mcast.c */
	struct ibv_qp_init_attr *init;       /* rdma_create_ep(): of each request's queue pair */
	uint8_t data_len;                    /* rdma_create_ep(): rdma_connect()'s private data, if it brings none */
	uint8_t *data;
	struct rdma_addrinfo *resolved;      /* rdma_resolve_addrinfo(): what was found, until it is asked for */
	bool resolving;
};
/* Events that later releases of rdma-core add (RDMACM_1.4). */
enum { CMA_EVENT_ADDRINFO_RESOLVED = 16, CMA_EVENT_ADDRINFO_ERROR = 17, CMA_EVENT_USER = 18 };

static inline struct cma_id *cma_id(struct rdma_cm_id *id) { return (struct cma_id *)id; }
static inline bool cma_is_ud(const struct cma_id *id) { return id->id.qp_type == IBV_QPT_UD; }

extern struct diw_list cma_ids;
/* CHANNEL NULL: one of its own, and sync. NULL with errno. The lock is held. */
struct cma_id *cma_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
			  enum ibv_qp_type type);
void cma_id_free(struct cma_id *id);         /* no other thread knows it; the lock is held */
void cma_id_device(struct cma_id *id, struct cma_dev *dev);
/* Both of its addresses as programs see them. */
void cma_id_show(struct cma_id *id);
void cma_hold_drop(struct cma_id *id);
/* A port, and the addresses' check; the lock is held. A positive errno. */
int cma_bind(struct cma_id *id, const struct diw_addr *local);

/* ---- Events (cma_event.c) ---- */

struct cma_event {
	struct rdma_cm_event ev;             /* first */
	struct diw_list link;
	struct cma_id *owner;                /* not destroyed before it is acknowledged */
	struct cma_count *more;              /* another count that includes it, or NULL */
	uint8_t data[CMA_DATA + 1];
};
/* NULL: no memory; then the caller does without the event. The lock is held. */
struct cma_event *cma_event_new(struct cma_id *id, enum rdma_cm_event_type type, int status);
void cma_event_data(struct cma_event *e, const void *data, uint32_t len);
void cma_event_post(struct cma_event *e);
/* Both in one. */
void cma_post(struct cma_id *id, enum rdma_cm_event_type type, int status);
/* Events of ID that are not fetched yet vanish, requests are refused; of those, what MORE counts, unless it is NULL. */
void cma_events_forget(struct cma_id *id, const struct cma_count *more);
/* Until all that were fetched are acknowledged. EDEADLK: this thread has one itself, and no thread acknowledges it. */
int cma_events_await(const struct cma_count *events);
/* The event that a sync id shows is acknowledged. The lock is free. */
void cma_own_event_drop(struct cma_id *id);
void cma_events_move(struct cma_id *id, struct rdma_event_channel *to);
/* A sync id: waits for its next event, which is id->event then. 0, or -1 with errno, as it says. The lock is free. */
int cma_complete(struct cma_id *id);

/* ---- Addresses (cma_addr.c) ---- */

/* A positive errno: no address that is ours to understand. */
int cma_addr_get(struct diw_addr *a, const struct sockaddr *sa);
void cma_addr_put(struct sockaddr_storage *ss, const struct diw_addr *a);
/* The device that has the local address A; NULL with errno. */
struct cma_dev *cma_addr_dev(const struct diw_addr *a);

/* ---- Connections (cma_conn.c, cma_ud.c) ---- */

void cma_conn_event(struct diw_loop_cm *c, const struct diw_cm_event *ev);
/* Tells that the connection has ended, and when its time in InfiniBand's TimeWait state is over. */
void cma_disconnected(struct cma_id *id);
void cma_conn_forget(struct cma_id *id);     /* whatever of it is listening, waiting or connected ends */
void cma_unmap(struct cma_id *id);
/* Of its local address. */
uint8_t cma_gid_index(const struct cma_id *id);
/* Its queue pair may send, and tells what it is connected with. */
void cma_qp_connected(const struct cma_id *id);

int cma_ud_listen(struct cma_id *id);        /* these return a positive errno */
int cma_ud_connect(struct cma_id *id, const struct rdma_conn_param *p);
int cma_ud_accept(struct cma_id *id, const struct rdma_conn_param *p);
int cma_ud_reject(struct cma_id *id, const void *data, uint8_t len);
void cma_ud_forget(struct cma_id *id);
void cma_groups_forget(struct cma_id *id);

#endif
