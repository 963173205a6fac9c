/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints over RC queue pairs: one connection a peer, which is made at the first use (docs/mpi-wire.md section 8).
 * port_rc.c posts to connections and ends them. port_rc_cm.c makes them; a thread of the domain handles their events.
 */
#ifndef DIW_MPI_GLUE_PORT_RC_H
#define DIW_MPI_GLUE_PORT_RC_H

#include "mpi_glue/greeting.h"
#include "mpi_glue/port.h"
#include "verbs/diw_cm.h"

/*
 * The states of a connection. A connection begins in CALLING or CONNECTING, and each state leads to a later one. From
 * LOST two things lead back to CONNECTING: a new instance of the peer connects, or the peer's address is inserted
 * again.
 */
enum rc_state {
	RC_CALLING,                      /* the peer has the lower address, and has been asked to connect */
	RC_CONNECTING,                   /* one end has connected, the other may not have accepted yet */
	RC_UP,
	RC_LOST,                         /* failed or ended: sends fail with `err` */
};

struct rc_conn {
	struct glue_queue queue;
	struct diw_list link;            /* in rc_port.lost */
	struct glue_ep *ep;
	struct glue_peer *peer;
	uint32_t num;                    /* of its completions */
	enum rc_state state;
	struct diw_qp *qp;               /* NULL: lost, and all its requests are complete */
	struct diw_qp *caller;           /* CALLING: carries the request to the peer; NULL: none */
	struct diw_conn_req *called;     /* the peer's such request, which is answered when the outcome is known */
	struct diw_addr source;          /* UP: the peer's end of the stream */
	uint64_t instance;               /* of the peer's endpoint; 0: not known */
	uint32_t inserts;                /* of the peer when the connection began, or was lost */
	uint32_t sending, buffers;       /* its requests and buffers in the send queue */
	int err;
};

struct rc_port {
	struct glue_port port;
	struct diw_listener *listener;
	struct diw_srq *srq;
	uint64_t instance;
	struct diw_arena arena;
	struct diw_pool conns;
	struct rc_conn **of_peer;        /* by glue_peer.index; NULL: never used */
	struct diw_list lost;            /* connections whose requests are still to be completed */
	struct glue_queue none;          /* of peers for which there is no room; nothing waits in it for long */
};

static inline struct rc_port *diw_glue_rc_port(const struct glue_ep *ep)
{
	return diw_container(ep->port, struct rc_port, port);
}

/* ---- port_rc.c ---- */
/* The connection to PEER; a new one is CONNECTING, and nothing connects it yet. NULL: no room. */
struct rc_conn *diw_glue_rc_conn(struct glue_ep *ep, struct glue_peer *peer, bool *fresh);
/* Gives a connection that is lost, and has no requests any more, a new queue pair. */
int diw_glue_rc_renew(struct rc_conn *c);
/* The connection fails: its requests are flushed. */
void diw_glue_rc_lose(struct rc_conn *c, int err);

/* ---- port_rc_cm.c ---- */
int diw_glue_rc_begin(struct glue_domain *d);
void diw_glue_rc_end(struct glue_domain *d);
int diw_glue_rc_listen(struct glue_ep *ep);
/* Begins to connect C. */
void diw_glue_rc_connect(struct rc_conn *c);
/* The peer's request is answered: no more connections of C are wanted. */
void diw_glue_rc_answer(struct rc_conn *c);

#endif
