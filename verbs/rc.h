/* SPDX-License-Identifier: BSD-2-Clause */
/* RC queue pairs after the negotiation of their connection. The device's lock is held. */
#ifndef DIW_VERBS_RC_H
#define DIW_VERBS_RC_H

#include <stdbool.h>
#include <stdint.h>

#include "mpa/mpa.h"
#include "verbs/diw.h"

struct diw_qp;
struct diw_rdmap_wr;

/* ---- Phases (verbs/rc_phase.c) ---- */

enum diw_rc_phase {
	DIW_RC_IDLE,                 /* no stream */
	DIW_RC_CONNECTING,           /* the connection negotiates */
	DIW_RC_HELD,                 /* responder: nothing may be sent before the initiator's first FPDU */
	DIW_RC_OPEN,
	DIW_RC_HELD_CLOSING,         /* diw_disconnect() in HELD */
	DIW_RC_CLOSING,              /* diw_disconnect(): posted requests are executed */
	DIW_RC_HELD_SHUT,            /* our half has ended, without an FPDU of the peer */
	DIW_RC_SHUT,                 /* our half has ended; the peer's end is awaited */
	DIW_RC_ANSWERING,            /* CLOSING, and the peer's half has ended: requests that need no answer continue */
	DIW_RC_FINISHING,            /* the peer's half has ended: begun requests and answers continue */
	DIW_RC_BOTH_SHUT,            /* both halves have ended: staged octets leave */
	DIW_RC_DRAINING,             /* a fault: staged octets leave, then a Terminate */
	DIW_RC_DRAINED,              /* our half has ended behind the Terminate; the peer's end is awaited */
	DIW_RC_ENDED,                /* the stream has ended: the link is to be closed */
	DIW_RC_ENDED_KEPT,           /* ENDED; receives stay posted (keep_recvs) */
	DIW_RC_DOWN,                 /* the link is closed */
	DIW_RC_KEPT,                 /* DOWN; receives stay posted */
	DIW_RC_PHASES
};

enum diw_rc_trait {
	DIW_RC_HOLDS = 1,            /* the initiator's first FPDU is awaited */
	DIW_RC_SENDS = 2,            /* the send queue runs */
	DIW_RC_IS_SHUT = 4,          /* our half of the stream has ended */
	DIW_RC_PEER_ENDED = 8,       /* the peer's half has ended regularly: no more answers come */
	DIW_RC_LAST = 16,            /* no request begins any more */
	DIW_RC_DRAINS = 32,          /* the link sends its staged octets, until the peer ends the stream */
	DIW_RC_KEEPS = 64,           /* receives are not flushed */
};

extern const struct diw_rc_phase_info {
	const char *name;
	enum diw_qp_state state;
	uint8_t traits;
	uint32_t next;               /* bits 1 << enum diw_rc_phase */
} diw_rc_phases[DIW_RC_PHASES];

/* Moves QP to phase TO, and to the state of that phase. */
void diw_rc_move(struct diw_qp *qp, enum diw_rc_phase to);

/* ---- Begin and end ---- */

struct diw_rc_start {
	struct diw_stream *stream;   /* taken over by the queue pair if the start succeeds */
	const uint8_t *early;        /* octets that came behind the peer's frame */
	uint32_t early_len;
	bool initiator;
	unsigned rtr;                /* one value of enum diw_rtr, or 0. Initiator: sends that message; responder:
				      * awaits it */
	bool crc, tx_markers, rx_markers, rfc7306, words;
	uint16_t ird, ord;
};

/* The upcalls to the connection of a queue pair (verbs/cm/conn.c). */
struct diw_conn_up {
	/* The stream is up, and if there is a ready-to-receive message, it has come. */
	void (*established)(struct diw_qp *qp);
	/* The stream has ended. Called once. */
	void (*disconnected)(struct diw_qp *qp, uint16_t fault, int errnum);
	/* The queue pair is about to be destroyed, or is aborted while it connects. Its attempt ends, and with EVENTS
	 * its events are dropped. */
	void (*forget)(struct diw_qp *qp, bool events);
};

/* Moves to state RTS. The initiator may send at once. The responder may send when the initiator's first FPDU has come
 * (RFC 5044 section 7.1.2); with RTR it is established only then. -ENOMEM: nothing has changed. */
int diw_rc_start(struct diw_qp *qp, const struct diw_rc_start *s, uint64_t now);
/* Moves to state ERROR. The stream's error goes to the connection's events; diw_rc_settle() does the rest. */
void diw_rc_error(struct diw_qp *qp, uint16_t fault, bool remote, int errnum, uint64_t now);
/* The peer has ended its half regularly. State CLOSING until all requests of the peer are answered and all begun
 * messages are sent, then ERROR. */
void diw_rc_peer_ended(struct diw_qp *qp, uint64_t now);
/* Called after the queue pair was served, when no function of the link is on the stack: does the work of the current
 * phase. */
void diw_rc_settle(struct diw_qp *qp, uint64_t now);

/* ---- Send requests: entries of struct diw_qp_ops (verbs/rc_send.c) ---- */

int diw_rc_check_send(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len);
void diw_rc_fill(const struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_send_wr *wr);
void diw_rc_run(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now);
bool diw_rc_outstanding(const struct diw_qp *qp, const struct diw_rdmap_wr *w);
bool diw_rc_give_up(struct diw_qp *qp, struct diw_rdmap_wr *w, bool executed);
/* Called before the link is closed: flushes the executed requests that the stream has not taken. */
void diw_rc_lose(struct diw_qp *qp);
/* The peer has refused a request of ours (verbs/rc_refuse.c). */
void diw_rc_refuse(struct diw_qp *qp, uint16_t fault);

#endif
