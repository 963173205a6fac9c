/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of an RC queue pair behind its connection's negotiation. The device's lock is held. */
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
	DIW_RC_CONNECTING,           /* its connection negotiates */
	DIW_RC_HELD,                 /* responder: nothing is sent before the initiator's first FPDU */
	DIW_RC_OPEN,
	DIW_RC_HELD_CLOSING,         /* diw_disconnect() in HELD */
	DIW_RC_CLOSING,              /* diw_disconnect(): what was posted is executed */
	DIW_RC_HELD_SHUT,            /* our half has ended without an FPDU of the peer */
	DIW_RC_SHUT,                 /* our half has ended, the peer's is awaited */
	DIW_RC_ANSWERING,            /* CLOSING, and the peer's half has ended: requests that need no answer run on */
	DIW_RC_FINISHING,            /* the peer's half has ended: what has begun goes on, and answers */
	DIW_RC_BOTH_SHUT,            /* both halves have ended: what is staged leaves */
	DIW_RC_DRAINING,             /* a fault: what is staged leaves, and a Terminate */
	DIW_RC_DRAINED,              /* our half has ended behind that, the peer's is awaited */
	DIW_RC_ENDED,                /* the stream is over: the link is to be closed */
	DIW_RC_ENDED_KEPT,           /* the same; receives stay posted (keep_recvs) */
	DIW_RC_DOWN,                 /* no link any more */
	DIW_RC_KEPT,                 /* the same; receives stay posted */
	DIW_RC_PHASES
};

enum diw_rc_trait {
	DIW_RC_HOLDS = 1,            /* the initiator's first FPDU is awaited */
	DIW_RC_SENDS = 2,            /* the send queue runs */
	DIW_RC_IS_SHUT = 4,          /* our half of the stream has ended */
	DIW_RC_PEER_ENDED = 8,       /* the peer's half has ended in good order: nothing answers any more */
	DIW_RC_LAST = 16,            /* no further request begins */
	DIW_RC_DRAINS = 32,          /* the link sends what it has, until the peer ends the stream */
	DIW_RC_KEEPS = 64,           /* receives are not flushed */
};

extern const struct diw_rc_phase_info {
	const char *name;
	enum diw_qp_state state;
	uint8_t traits;
	uint32_t next;               /* 1 << enum diw_rc_phase */
} diw_rc_phases[DIW_RC_PHASES];

/* QP is in phase TO and its state from now on. */
void diw_rc_move(struct diw_qp *qp, enum diw_rc_phase to);

/* ---- Begin and end ---- */

struct diw_rc_start {
	struct diw_stream *stream;   /* the queue pair's from now on, if it starts */
	const uint8_t *early;        /* what came behind the peer's frame */
	uint32_t early_len;
	bool initiator;
	unsigned rtr;                /* enum diw_rtr, one of them or 0. Initiator: sends it; responder: awaits it */
	bool crc, tx_markers, rx_markers, rfc7306, words;
	uint16_t ird, ord;
};

/* What the connection of a queue pair hears of the stream (verbs/cm/conn.c). */
struct diw_conn_up {
	/* The stream is up, and the peer's ready-to-receive has come where there is one. */
	void (*established)(struct diw_qp *qp);
	/* The stream has ended. Told once. */
	void (*disconnected)(struct diw_qp *qp, uint16_t fault, int errnum);
	/* The queue pair is about to be destroyed, or aborted while it connects: its attempt and, if EVENTS, its events
	 * go. */
	void (*forget)(struct diw_qp *qp, bool events);
};

/* State RTS. The initiator may send at once; the responder when the initiator's first FPDU has come (RFC 5044 section
 * 7.1.2), and with RTR it is established only then. -ENOMEM: nothing has changed. */
int diw_rc_start(struct diw_qp *qp, const struct diw_rc_start *s, uint64_t now);
/* State ERROR. What is wrong with the stream goes to its events; the rest is diw_rc_settle()'s. */
void diw_rc_error(struct diw_qp *qp, uint16_t fault, bool remote, int errnum, uint64_t now);
/* The peer has ended its half in good order: state CLOSING until what it has asked for is answered and what has begun
 * is sent; ERROR then. */
void diw_rc_peer_ended(struct diw_qp *qp, uint64_t now);
/* After every look at the queue pair: what its state wants done, when nothing of the link is on the stack. */
void diw_rc_settle(struct diw_qp *qp, uint64_t now);

/* ---- Of struct diw_qp_ops, its send requests (verbs/rc_send.c) ---- */

int diw_rc_check_send(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len);
void diw_rc_fill(const struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_send_wr *wr);
void diw_rc_run(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now);
bool diw_rc_outstanding(const struct diw_qp *qp, const struct diw_rdmap_wr *w);
bool diw_rc_give_up(struct diw_qp *qp, struct diw_rdmap_wr *w, bool executed);
/* The peer has refused a request of ours. */
void diw_rc_refuse(struct diw_qp *qp, uint16_t fault);

#endif
