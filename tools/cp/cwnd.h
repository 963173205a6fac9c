/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The congestion window of `diw cp --group`: bytes that may be in flight beyond what the slowest receiver has reported.
 * Slow start and additive increase are TCP's (RFC 5681); the factor of the multiplicative decrease is CUBIC's (RFC 9438
 * section 4.6). Only the receiver with the highest loss rate counts, as in pgmcc (Rizzo, SIGCOMM 2000): if the losses
 * of all receivers counted, the window would shrink with their number. It does no I/O.
 */
#ifndef DIW_TOOLS_CWND_H
#define DIW_TOOLS_CWND_H

#include <stdint.h>

struct cwnd {
	uint64_t window, threshold;  /* above the threshold: additive increase */
	uint64_t floor, cap, step;   /* in bytes; step: the increase in a round trip */
	uint64_t cuts, timeouts;     /* timeouts: those of the cuts */
	uint32_t recovery;           /* losses before this mark have been reacted to */
	uint64_t doubt;              /* not 0: bytes sent at a timeout; since then no report shows loss */
	uint64_t doubted;            /* the threshold before that timeout */
};

/* BLOCK: payload bytes of a datagram. */
void cwnd_init(struct cwnd *c, uint32_t block, uint64_t cap);
void cwnd_acked(struct cwnd *c, uint64_t bytes);
/* A report of MARK shows a loss; LATEST is the latest mark that was sent. */
void cwnd_lost(struct cwnd *c, uint32_t mark, uint32_t latest);
/* No report has come for long: slow start, up to half of the window (RFC 5681 section 3.1). SENT: bytes until
 * then. */
void cwnd_timeout(struct cwnd *c, uint32_t latest, uint64_t sent);
/* Every receiver that is waited for has reported SENT bytes. If no report since a timeout shows loss, the reports were
 * late: slow start goes on to the window before the timeout (RFC 4015 section 3). */
void cwnd_reported(struct cwnd *c, uint64_t sent);

#endif
