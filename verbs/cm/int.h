/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the files of connection management: channel.c, channels; event.c, their queues; items.c, sockets and timers;
 * conn.c, a connection's way from its first byte to its queue pair; negotiate.c, what its two frames say; connect.c,
 * the initiator's beginning; listen.c, listeners and requests; attr.c, attributes. The device's lock is held.
 */
#ifndef DIW_VERBS_CM_INT_H
#define DIW_VERBS_CM_INT_H

#include <sys/epoll.h>

#include "base/fault.h"
#include "verbs/cm/cm.h"
#include "verbs/qp.h"
#include "wire/mpa_frame.h"

/* ---- What has a socket and a timer (verbs/cm/items.c) ---- */

struct diw_cm_item;

/* A connection's, or a listener's. */
struct diw_cm_item_ops {
	void (*event)(struct diw_cm_item *it, uint64_t now);           /* its socket is ready */
	void (*expire)(struct diw_cm_item *it, uint64_t now);          /* its timer has run out */
	void (*probe)(struct diw_cm_item *it, uint64_t now);           /* without descriptors: it looks for itself */
	void (*free)(struct diw_cm_item *it);
};

struct diw_cm_item {
	const struct diw_cm_item_ops *ops;
	struct diw_list link;        /* among the engine's listeners or connections, or in a list of its listener */
	bool watched;                /* its descriptor is in the epoll set */
	uint32_t slot;               /* in the heap of timers, from 1; 0: no timer */
	uint64_t at;
};

#define DIW_CM_BATCH 64

struct diw_cm_engine {
	struct diw_member member;    /* fixed */
	struct diw_dev *dev;
	int epfd;                    /* -1 on a transport without descriptors: everything is tried at each step */
	uint64_t look_at;            /* not before */
	uint32_t items, armed, room; /* with a socket or a timer of ours; in the heap; that fit it */
	struct diw_cm_item **heap;
	struct epoll_event batch[DIW_CM_BATCH];
	int nbatch;                  /* of those, being handled */
	struct diw_list conns;       /* items that are in no listener's list */
	struct diw_list listeners;   /* items */
};

struct diw_cm_engine *diw_cm_engine_get(struct diw_dev *dev);   /* NULL: no memory or descriptor */
/* Room for its timer. -ENOMEM */
int diw_cm_item_add(struct diw_cm_engine *e, struct diw_cm_item *it);
/* Its socket must be out of the set already, or about to be closed. Safe while events are handled. */
void diw_cm_item_del(struct diw_cm_engine *e, struct diw_cm_item *it);
int diw_cm_watch(struct diw_cm_engine *e, struct diw_cm_item *it, int fd, uint32_t events);
void diw_cm_unwatch(struct diw_cm_engine *e, struct diw_cm_item *it, int fd);
void diw_cm_arm(struct diw_cm_engine *e, struct diw_cm_item *it, uint64_t at);
void diw_cm_disarm(struct diw_cm_engine *e, struct diw_cm_item *it);
/* Without descriptors: each of the list looks for itself. */
void diw_cm_probe(struct diw_list *items, uint64_t now);
/* Look at the sockets although it is not time. */
void diw_cm_look(struct diw_cm_engine *e, uint64_t now);

/* ---- What the frames say (verbs/cm/negotiate.c) ---- */

/* What this end asks for. */
struct diw_cm_ask {
	bool crc, markers, plain;
	uint8_t rtr, revision;
	uint16_t ird, ord;
};

struct diw_cm_terms {
	bool crc, tx_markers, rx_markers, rfc7306, words;
	uint8_t rtr;
	uint16_t ird, ord;
};

/* Takes what the peer says of RFC 7306 off its private data; whether it has said it takes all, and *WORDS placement
 * words. */
bool diw_cm_strip(struct diw_mpa_frame *f, bool *words);
/* Each writes a frame to P and returns its length. -EMSGSIZE: private data. */
int diw_cm_request(uint8_t *p, const struct diw_cm_ask *ask, bool *discovered, const void *data, uint32_t len);
/* DISCOVERED: the request said that its sender takes immediates and atomics; WORDS: placement words, too. */
int diw_cm_reply(uint8_t *p, const struct diw_cm_ask *ask, const struct diw_mpa_frame *req, bool discovered, bool words,
		 const void *data, uint32_t len, struct diw_cm_terms *terms);
int diw_cm_refusal(uint8_t *p, const struct diw_mpa_frame *req, const void *data, uint32_t len);
/* Of a queue pair that is its own peer: both ends ask the same. */
void diw_cm_agree(const struct diw_cm_ask *ask, struct diw_cm_terms *terms);
/* The initiator's view of a reply that is no refusal; strips it. 0, or what is wrong with it (enum diw_fault). */
uint16_t diw_cm_judge(const struct diw_cm_ask *ask, bool discovered, struct diw_mpa_frame *rep,
		      struct diw_cm_terms *terms);

/* ---- A connection (verbs/cm/conn.c) ---- */

enum diw_cm_state {
	DIW_CM_CONNECTING,           /* initiator: TCP connects */
	DIW_CM_REQUESTING,           /* sends its request */
	DIW_CM_AWAIT_REPLY,
	DIW_CM_HALFOPEN,             /* responder: the request has not come */
	DIW_CM_WAITING,              /* handed up, not answered; watched for its peer's end */
	DIW_CM_REPLYING,
	DIW_CM_REJECTING,
	DIW_CM_STARTED,              /* the stream is the queue pair's; the peer's ready-to-receive may not have come */
	DIW_CM_UP,
	DIW_CM_OVER,                 /* no stream, no timer; its last event, or the application's answer, is left */
};

/* Only while it negotiates, and until its outcome is fetched: an established connection does without. */
struct diw_cm_nego {
	struct diw_cm_ask ask;
	struct diw_cm_terms terms;
	struct diw_mpa_frame peer;   /* its data is in frame[] */
	bool discovered;             /* the request says that its sender takes RFC 7306: we, or the peer, sent that */
	bool words;                  /* the peer's request says the same of placement words */
	uint32_t len, done;          /* of frame[]: to send, sent; done: received */
	struct diw_stream_attr sa;   /* initiator: to connect again, until AGAIN_UNTIL; the attempt ends at UNTIL */
	uint64_t again_until, until;
	uint16_t other_port;         /* initiator: the port of the pair that sa does not have; 0: none */
	bool turned;                 /* SA has the second of them */
	bool unanswered;             /* the first ended the stream */
	uint32_t request;            /* length of the request */
	uint8_t frame[DIW_MPA_FRAME_MAX];
};

struct diw_cm_conn {
	struct diw_cm_item item;     /* first */
	uint8_t state;               /* enum diw_cm_state */
	uint8_t event;               /* the one it has in the channel, enum diw_cm_event_type */
	bool taken;                  /* the application has the request */
	bool bound;                  /* counted in cm->users */
	bool ended;                  /* before ESTABLISHED was fetched: the next event */
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

/* The name that the application has for a connection that waits for its answer. */
struct diw_conn_req { struct diw_cm_conn conn; };

/* S becomes the connection's; NULL: out of memory, S is as it was. */
struct diw_cm_conn *diw_cm_conn_new(struct diw_cm_engine *e, struct diw_stream *s, enum diw_cm_state state);
/* Out of every list and queue; what it has of a stream ends with a reset. */
void diw_cm_conn_free(struct diw_cm_conn *c);
/* No stream, no timer, no listener any more. */
void diw_cm_conn_stop(struct diw_cm_conn *c, bool abort);
/* It keeps CM until it is over. */
void diw_cm_conn_bind(struct diw_cm_conn *c, struct diw_cm *cm);
void diw_cm_conn_own(struct diw_cm_conn *c, struct diw_qp *qp, enum diw_cm_state state);
void diw_cm_conn_disown(struct diw_cm_conn *c);
void diw_cm_conn_event(struct diw_cm_conn *c, uint64_t now);    /* its socket is ready */
/* Initiator: a stream that connects. -errno */
int diw_cm_stream_connect(struct diw_dev *dev, const struct diw_stream_attr *sa, struct diw_stream **s);
/* Initiator: begins to connect, until it is given up. */
void diw_cm_conn_begin(struct diw_cm_conn *c, const struct diw_stream_attr *sa, const struct diw_conn_attr *a);
/* Sends its frame, and what follows from that. -errno: the stream is dead, nothing else has changed. */
int diw_cm_conn_push(struct diw_cm_conn *c, uint64_t now);

/* ---- A listener (verbs/cm/listen.c) ---- */

struct diw_listener {
	struct diw_cm_item item;     /* first; its timer ends a pause */
	struct diw_cm *cm;
	struct diw_stream_listener *sock;
	void *ctx;
	struct diw_list halfopen;    /* the oldest first */
	struct diw_list waiting;
	uint32_t nhalfopen, nwaiting, backlog, max_halfopen;
	uint64_t request_timeout;
	bool paused;
	uint64_t requests, refused, timeouts, malformed;
};

/* Its connection C has brought a whole request. */
void diw_cm_listener_request(struct diw_cm_conn *c, uint64_t now);
/* C, half-open or waiting, leaves its listener, if it still has one. */
void diw_cm_listener_leave(struct diw_cm_conn *c);

/* ---- Attributes (verbs/cm/attr.c) ---- */

int diw_cm_attr_check(const struct diw_conn_attr *a, bool enhanced);   /* -EINVAL, -EMSGSIZE */
void diw_cm_ask(struct diw_cm_ask *ask, const struct diw_conn_attr *a);
void diw_cm_stream_attr(struct diw_stream_attr *sa, const struct diw_conn_attr *a);

/* ---- A channel (verbs/cm/channel.c, event.c) ---- */

struct diw_cm {
	struct diw_dev *dev;
	struct diw_list events;      /* the connections' notes */
	int fd;                      /* eventfd; readable while events is not empty */
	int users;                   /* listeners, and connections that are not over */
};

void diw_cm_post(struct diw_cm_conn *c, enum diw_cm_event_type type);
void diw_cm_unpost(struct diw_cm_conn *c);

#endif
