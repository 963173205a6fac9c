/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of an RC queue pair behind its connection's negotiation. The device's lock is held. */
#ifndef DIW_VERBS_RC_H
#define DIW_VERBS_RC_H

#include <stdbool.h>
#include <stdint.h>

#include "mpa/mpa.h"

struct diw_qp;

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
/* diw_disconnect(): state CLOSING; run it then. -ENOTCONN */
int diw_rc_close(struct diw_qp *qp, uint64_t now);
/* diw_abort(), diw_leave(): from whatever state it is in. */
void diw_rc_abort(struct diw_qp *qp, uint64_t now);
void diw_rc_leave(struct diw_qp *qp, uint64_t now);
/* Nothing is left of its connection. -EBUSY it connects. */
int diw_rc_reset(struct diw_qp *qp);
uint64_t diw_rc_deadline(const struct diw_qp *qp);
/* May the send queue run? */
bool diw_rc_may_send(struct diw_qp *qp);

#endif
