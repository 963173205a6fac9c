/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw_cm.h - connections of RC queue pairs: listen, connect, accept, disconnect, and their events. The contract of
 * diw.h holds here.
 */
#ifndef DIW_CM_H
#define DIW_CM_H

#include "diw.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)         /* the library is built with hidden visibility */
#endif

#define DIW_MAX_PRIVATE 512          /* bytes of private data of a connection request or reply */

struct diw_cm;                       /* an event channel of connection management */
struct diw_listener;
struct diw_conn_req;                 /* a peer's request; diw_accept() or diw_reject() ends it */

int diw_cm_create(struct diw_dev *dev, struct diw_cm **cm);     /* -EMFILE, -ENOMEM, -EAGAIN: no thread */
/* -EBUSY while a listener, a request without answer or a connected queue pair uses it. */
int diw_cm_destroy(struct diw_cm *cm);
/* Readable when an event is there. */
int diw_cm_fd(const struct diw_cm *cm);

/* How the initiator of a peer-to-peer connection says that it is ready, so that the responder may send first (RFC 6581
 * section 4). */
enum diw_rtr {
	DIW_RTR_FPDU = 1,            /* an empty FPDU */
	DIW_RTR_WRITE = 2,           /* a Write of no bytes */
	DIW_RTR_READ = 4,            /* a Read of no bytes */
};

/* Of diw_connect() alone. */
struct diw_connect_attr {
	struct diw_addr local;       /* ip zero: the kernel chooses; port 0 likewise */
	int64_t refused_ns;          /* how long a host that refuses is tried again: it may be about to listen */
	uint16_t other_port;         /* is tried if DST's port is refused, or its stream ends before the first byte of a
	                              * reply; 0: none */
	uint8_t revision;            /* of MPA: 2 (RFC 6581), 1 (RFC 5044), 0 (RDMA Consortium) */
	bool self;                   /* the queue pair is its own peer; DST is an address of this host, of any port */
	uint64_t reserved[4];        /* 0 */
};
enum diw_crc {
	DIW_CRC_OFF, DIW_CRC_ON,
	DIW_CRC_AUTO,                /* DIWARP_CRC=on or off decides. Else asks, unless both ends of the stream are on
	                              * this host and the peer is of this library and says AUTO, too */
};
struct diw_conn_attr {
	size_t size;                 /* of this struct: DIW_CONN_ATTR_INIT sets it */
	const void *data;            /* private data */
	uint32_t data_len;           /* at most DIW_MAX_PRIVATE, 4 less with revision 2. Beyond 239 bytes there is no
	                              * room for the announcement of RFC 7306, as if `plain` was set */
	uint16_t ird, ord;           /* Reads and atomics at a time: of the peer, of this end; at most DIW_MAX_IRD */
	uint8_t crc;                 /* enum diw_crc: whether to ask for CRC-32C; it is on if either end asks */
	bool markers;                /* ask the peer for markers (RFC 5044 section 4.3) */
	bool plain;                  /* do not announce immediates and atomics (RFC 7306) in the private data */
	uint8_t dscp;                /* of the packets, 0 .. 63 */
	unsigned rtr;                /* ways that may be chosen, enum diw_rtr; 0: the initiator must send first */
	unsigned keepalive_s;        /* a peer that is silent for this many seconds is probed, and given up after three
	                              * times that; 0: never; more than 32767 counts as 32767 */
	int64_t timeout_ns;          /* until established; > 0 */
	char congestion[16];         /* TCP's congestion control, as of the kernel's list; "": the system's, within
	                              * one host cubic if it may be chosen */
	struct diw_connect_attr connect;     /* diw_accept() does not read it */
};
/* The defaults: IRD and ORD 16, DIW_CRC_AUTO, no markers, RTR by Write or Read, 10 s, revision 2. */
#define DIW_CONN_ATTR_INIT { \
	.size = sizeof(struct diw_conn_attr), .ird = 16, .ord = 16, .crc = DIW_CRC_AUTO, \
	.rtr = DIW_RTR_WRITE | DIW_RTR_READ, .timeout_ns = 10000000000, .connect = { .revision = 2 }, \
}

enum diw_cm_event_type {
	DIW_CM_CONNECT_REQUEST,      /* req, data; ird and ord are what the peer asks for */
	DIW_CM_ESTABLISHED,          /* ird and ord as negotiated; initiator: data of the reply */
	DIW_CM_REJECTED,             /* initiator: the peer refused by diw_reject(); data of the reply */
	DIW_CM_FAILED,               /* errnum: ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT, ECONNRESET, EPROTO (the peer is
	                              * not MPA, or not as asked), ...; fault, if MPA has a code for it */
	DIW_CM_DISCONNECTED,         /* errnum 0: in good order; else ECONNRESET, ECONNABORTED (diw_abort()), ETIMEDOUT,
	                              * EPROTO with its fault */
};
struct diw_cm_event {
	enum diw_cm_event_type type;
	struct diw_qp *qp;           /* or NULL */
	struct diw_listener *listener;
	struct diw_conn_req *req;    /* the program's until diw_accept() or diw_reject() succeeds */
	void *ctx;                   /* the queue pair's, or the listener's */
	struct diw_addr local, peer;
	int errnum;
	uint16_t fault;
	uint16_t ird, ord;
	bool crc, rfc7306;
	uint8_t revision;
	uint32_t data_len;
	uint8_t data[DIW_MAX_PRIVATE];
};
/* 0 and the next event. -EAGAIN: none came within the timeout. */
int diw_cm_get(struct diw_cm *cm, struct diw_cm_event *ev, int64_t timeout_ns);
const char *diw_cm_event_str(int type);

struct diw_listen_attr {
	size_t size;                 /* of this struct: DIW_LISTEN_ATTR_INIT sets it */
	struct diw_addr local;       /* ip zero: every address; port 0: the kernel chooses */
	void *ctx;
	bool v6only;                 /* ip zero: every address of IPv6 */
	int backlog;                 /* requests that wait for diw_accept(), 1 .. 65535; further ones are reset */
	uint32_t max_halfopen;       /* connections whose request has not come yet, > 0. The limit is a quarter of
				      * RLIMIT_NOFILE if that is less. Further connections wait in the kernel, until one
				      * has sent its request, or the oldest is 1 s old and is reset */
	int64_t request_timeout_ns;  /* how long a connection may take to send its request, and how long a request waits
				      * for diw_accept(); > 0 */
};
/* The defaults: 128, 1024, 10 s. */
#define DIW_LISTEN_ATTR_INIT { \
	.size = sizeof(struct diw_listen_attr), .backlog = 128, .max_halfopen = 1024, \
	.request_timeout_ns = 10000000000, \
}
/* -EINVAL, -ENOMEM, and the errors of socket(2) and bind(2), such as -EADDRINUSE and -EMFILE. */
int diw_listen(struct diw_cm *cm, const struct diw_listen_attr *attr, struct diw_listener **listener);
struct diw_listener_info {
	struct diw_addr local;
	uint32_t halfopen, waiting;  /* connections without a request; requests without an answer */
	uint64_t requests, refused;  /* requests that became events; that exceeded the backlog */
	uint64_t timeouts, malformed;        /* connections and requests that were too late, or made room for a newer
				      * connection; requests that are not MPA's */
	uint64_t starved;            /* times that a connection found no descriptor or no memory, and waits */
};
int diw_listener_query(struct diw_listener *listener, struct diw_listener_info *info);
/* Requests that diw_cm_get() has not returned are reset. The others can still be accepted or rejected. */
int diw_listener_close(struct diw_listener *listener);

/* Begin to connect QP, which is RC and IDLE. An event on CM tells the outcome. ATTR NULL: the defaults. -EINVAL;
 * -EISCONN; -EMSGSIZE private data; -ENOENT congestion; and the errors that connect(2) returns at once. */
int diw_connect(struct diw_qp *qp, struct diw_cm *cm, const struct diw_addr *dst, const struct diw_conn_attr *attr);
/* Answer a request with QP, which is RC and IDLE. The events of QP come on the listener's channel. Success ends the
 * request. An error leaves it: -EINVAL, -EISCONN, -EMSGSIZE, -ENOENT, or -ECONNRESET when its peer is gone;
 * diw_reject() ends it then. */
int diw_accept(struct diw_conn_req *req, struct diw_qp *qp, const struct diw_conn_attr *attr);
/* Refuse a request. Success ends it. -EINVAL; -EMSGSIZE private data. */
int diw_reject(struct diw_conn_req *req, const void *data, uint32_t data_len);
/* State CLOSING, and return at once. The library executes the requests that were posted, ends its half of the stream,
 * and awaits the end of the peer's half: then come DIW_CM_DISCONNECTED and state ERROR. The event has ETIMEDOUT when
 * nothing could be sent for 10 s, or the peer did not end its half in that time. -ENOTCONN. When the peer has ended its
 * half already, the call returns 0 and changes nothing. */
int diw_disconnect(struct diw_qp *qp);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
