/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations that the files of connection management share. The device's lock is held.
 *
 *   channel.c    channels
 *   event.c      queues of channels
 *   items.c      sockets and timers
 *   conn.c       a connection, from its first byte until its stream goes to the queue pair
 *   negotiate.c  the contents of the two frames
 *   connect.c    diw_connect()
 *   listen.c     listeners and requests
 *   attr.c       attributes
 */
#ifndef DIW_VERBS_CM_INT_H
#define DIW_VERBS_CM_INT_H

#include <sys/epoll.h>

#include "base/fault.h"
#include "verbs/cm/cm.h"
#include "verbs/qp.h"
#include "wire/mpa_frame.h"

/* ---- Items: objects with a socket and a timer (verbs/cm/items.c) ---- */

struct diw_cm_item;

/* The operations of a connection, or of a listener. */
struct diw_cm_item_ops {
	void (*event)(struct diw_cm_item *it, uint64_t now);           /* the socket is ready */
	void (*expire)(struct diw_cm_item *it, uint64_t now);          /* the timer has expired */
	void (*probe)(struct diw_cm_item *it, uint64_t now);           /* without descriptors: checks its stream */
	void (*free)(struct diw_cm_item *it);
};

struct diw_cm_item {
	const struct diw_cm_item_ops *ops;
	struct diw_list link;        /* in a list of the engine, or of its listener */
	bool watched;                /* the descriptor is in the epoll set */
	uint32_t slot;               /* index in the heap of timers, from 1; 0: no timer */
	uint64_t at;
};

#define DIW_CM_BATCH 64

struct diw_cm_engine {
	struct diw_member member;    /* a fixed member */
	struct diw_dev *dev;
	int epfd;                    /* -1: a transport without descriptors, on which each step tries all items */
	uint64_t look_at;            /* time of the next poll of the set */
	uint32_t items, armed, room; /* all items; items in the heap; capacity of the heap */
	struct diw_cm_item **heap;
	struct epoll_event batch[DIW_CM_BATCH];
	int nbatch;                  /* number of events in `batch` that are being handled */
	struct diw_list conns;       /* items that are in no listener's list */
	struct diw_list listeners;   /* items */
	struct diw_list rejecting;   /* connections in state REJECTING, oldest first */
	uint32_t nrejecting;
};

struct diw_cm_engine *diw_cm_engine_get(struct diw_dev *dev);   /* NULL: no memory, or no descriptor */
/* Adds an item and reserves room for its timer. -ENOMEM */
int diw_cm_item_add(struct diw_cm_engine *e, struct diw_cm_item *it);
/* Removes an item. Its socket must be out of the set already, or about to be closed. Allowed while events are
 * handled. */
void diw_cm_item_del(struct diw_cm_engine *e, struct diw_cm_item *it);
int diw_cm_watch(struct diw_cm_engine *e, struct diw_cm_item *it, int fd, uint32_t events);
void diw_cm_unwatch(struct diw_cm_engine *e, struct diw_cm_item *it, int fd);
void diw_cm_arm(struct diw_cm_engine *e, struct diw_cm_item *it, uint64_t at);
void diw_cm_disarm(struct diw_cm_engine *e, struct diw_cm_item *it);
/* Without descriptors: each item of the list checks its stream. */
void diw_cm_probe(struct diw_list *items, uint64_t now);
/* Polls the sockets before it is time. */
void diw_cm_look(struct diw_cm_engine *e, uint64_t now);

/* ---- The contents of frames (verbs/cm/negotiate.c) ---- */

/* The values that this end asks for. */
struct diw_cm_ask {
	bool crc, markers, plain;
	bool auto_crc;               /* `crc` is dropped if the peer agrees and is on this host */
	uint8_t rtr, revision;
	uint16_t ird, ord;
};

struct diw_cm_terms {
	bool crc, tx_markers, rx_markers, rfc7306, words;
	uint8_t rtr;
	uint16_t ird, ord;
};

/* What the peer takes beside RFC 5040. */
struct diw_cm_takes {
	bool rfc7306;                /* immediates, atomics and Send with immediate */
	bool words;                  /* placement words, too */
	bool no_crc;                 /* CRC off, if both ends are on one host */
};

/* Removes the announcement of what the peer takes from the private data of F. */
struct diw_cm_takes diw_cm_strip(struct diw_mpa_frame *f);
/* These write a frame to P and return its length. -EMSGSIZE: the private data is too long. *ANNOUNCED: the request says
 * what this end takes. */
int diw_cm_request(uint8_t *p, const struct diw_cm_ask *ask, bool *announced, const void *data, uint32_t len);
/* Initiator, when the stream is up: drops the request for CRC from the frame at P if the stream is NEAR and the frame
 * says what this end takes. */
void diw_cm_request_crc(uint8_t *p, struct diw_cm_ask *ask, bool announced, bool near);
/* TAKES: what the sender of the request has announced. NEAR: of the stream. */
int diw_cm_reply(uint8_t *p, const struct diw_cm_ask *ask, const struct diw_mpa_frame *req, struct diw_cm_takes takes,
		 bool near, const void *data, uint32_t len, struct diw_cm_terms *terms);
int diw_cm_refusal(uint8_t *p, const struct diw_mpa_frame *req, const void *data, uint32_t len);
/* For a queue pair that is its own peer: both ends ask for the same. */
void diw_cm_agree(const struct diw_cm_ask *ask, struct diw_cm_terms *terms);
/* Evaluates a reply that is no refusal, for the initiator, and strips it. 0, or a fault (enum diw_fault). */
uint16_t diw_cm_judge(const struct diw_cm_ask *ask, bool announced, struct diw_mpa_frame *rep,
		      struct diw_cm_terms *terms);

/* ---- A connection (verbs/cm/conn.c) ---- */

enum diw_cm_state {
	DIW_CM_CONNECTING,           /* initiator: TCP is connecting */
	DIW_CM_REQUESTING,           /* it sends its request */
	DIW_CM_AWAIT_REPLY,
	DIW_CM_HALFOPEN,             /* responder: the request has not come */
	DIW_CM_WAITING,              /* the application has the request and has not answered; watched for the end of the
				      * peer's half */
	DIW_CM_REPLYING,
	DIW_CM_REJECTING,
	DIW_CM_STARTED,              /* the queue pair has the stream; the peer's ready-to-receive message may not have
				      * come */
	DIW_CM_UP,
	DIW_CM_OVER,                 /* no stream and no timer; its last event, or the application's answer, is
				      * outstanding */
};

/* The state of a negotiation, until its result is fetched. An established connection has none. */
struct diw_cm_nego {
	struct diw_cm_ask ask;
	struct diw_cm_terms terms;
	struct diw_mpa_frame peer;   /* its private data is in frame[] */
	bool announced;              /* initiator: the request has the announcement */
	struct diw_cm_takes takes;   /* responder: what the request announces */
	uint32_t len, done;          /* in frame[]: octets to send; octets sent, or received */
	struct diw_stream_attr sa;   /* initiator: for further attempts, until AGAIN_UNTIL; the attempt ends at UNTIL */
	uint64_t again_until, until;
	uint16_t other_port;         /* initiator: the port of the pair that `sa` does not have; 0: none */
	bool turned;                 /* `sa` has the second port */
	bool unanswered;             /* the peer at the first port ended the stream without an answer */
	uint32_t request;            /* length of the request */
	uint8_t frame[DIW_MPA_FRAME_MAX];
};

struct diw_cm_conn {
	struct diw_cm_item item;     /* must be first */
	uint8_t state;               /* enum diw_cm_state */
	uint8_t event;               /* the connection's event in the channel's queue, enum diw_cm_event_type */
	bool taken;                  /* the application has fetched the request */
	bool bound;                  /* it is counted in cm->users */
	bool ended;                  /* the stream ended before ESTABLISHED was fetched: report that next */
	uint16_t fault;
	int errnum;
	struct diw_cm_engine *e;
	struct diw_list note;        /* in cm->events */
	struct diw_cm *cm;
	struct diw_qp *qp;
	struct diw_listener *listener;
	struct diw_stream *stream;
	struct diw_cm_nego *nego;
	struct diw_addr local, peer;
};
_Static_assert(sizeof(struct diw_cm_conn) <= 192, "an established connection keeps one");

/* The handle by which the application answers a request. */
struct diw_conn_req { struct diw_cm_conn conn; };

/* The connection takes over S. NULL: out of memory, S is unchanged. */
struct diw_cm_conn *diw_cm_conn_new(struct diw_cm_engine *e, struct diw_stream *s, enum diw_cm_state state);
/* Removes it from every list and queue; a remaining stream is reset. */
void diw_cm_conn_free(struct diw_cm_conn *c);
/* Ends its stream, its timer, and its place in a listener. */
void diw_cm_conn_stop(struct diw_cm_conn *c, bool abort);
/* The connection counts as a user of CM until it is over. */
void diw_cm_conn_bind(struct diw_cm_conn *c, struct diw_cm *cm);
void diw_cm_conn_own(struct diw_cm_conn *c, struct diw_qp *qp, enum diw_cm_state state);
void diw_cm_conn_disown(struct diw_cm_conn *c);
void diw_cm_conn_event(struct diw_cm_conn *c, uint64_t now);    /* the socket is ready */
/* Initiator: opens a stream that connects. -errno */
int diw_cm_stream_connect(struct diw_dev *dev, const struct diw_stream_attr *sa, struct diw_stream **s);
/* Initiator: begins to connect; attempts continue until the connection is given up. */
void diw_cm_conn_begin(struct diw_cm_conn *c, const struct diw_stream_attr *sa, const struct diw_conn_attr *a);
/* Sends the frame and does the next step. -errno: the stream is broken, and nothing else has changed. */
int diw_cm_conn_push(struct diw_cm_conn *c, uint64_t now);

/* ---- A listener (verbs/cm/listen.c) ---- */

struct diw_listener {
	struct diw_cm_item item;     /* must be first; its timer ends a pause */
	struct diw_cm *cm;
	struct diw_stream_listener *sock;
	void *ctx;
	struct diw_list halfopen;    /* oldest first */
	struct diw_list waiting;
	uint32_t nhalfopen, nwaiting, backlog, max_halfopen;
	uint64_t request_timeout;
	bool paused;
	uint64_t requests, refused, timeouts, malformed, starved;
};

/* The listener's connection C has received a whole request. */
void diw_cm_listener_request(struct diw_cm_conn *c, uint64_t now);
/* Removes C, half-open or waiting, from its listener, if it has one. */
void diw_cm_listener_leave(struct diw_cm_conn *c);

/* ---- Attributes (verbs/cm/attr.c) ---- */

int diw_cm_qp_check(const char *call, const struct diw_qp *qp, const struct diw_dev *dev);     /* -EINVAL */
int diw_cm_attr_check(const struct diw_conn_attr *a, bool enhanced);   /* -EINVAL, -EMSGSIZE */
void diw_cm_ask(struct diw_cm_ask *ask, const struct diw_conn_attr *a);
void diw_cm_stream_attr(struct diw_stream_attr *sa, const struct diw_conn_attr *a);

/* ---- A channel (verbs/cm/channel.c, event.c) ---- */

struct diw_cm {
	struct diw_dev *dev;
	struct diw_list events;      /* nodes of connections */
	int fd;                      /* an eventfd; readable while `events` is not empty */
	int users;                   /* listeners, and connections that are not over */
};

void diw_cm_post(struct diw_cm_conn *c, enum diw_cm_event_type type);
void diw_cm_unpost(struct diw_cm_conn *c);

#endif
