/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How many bytes `diw cp --group` may have on the way, beyond what its slowest receiver has reported: slow start and
 * additive increase as TCP's (RFC 5681), multiplicative decrease by CUBIC's factor (RFC 9438 section 4.6). It listens
 * to the receiver with the highest loss rate alone, as pgmcc does (Rizzo, SIGCOMM 2000): the losses of all together
 * would close the window ever further with each receiver. No I/O in here.
 */
#ifndef DIW_TOOLS_CWND_H
#define DIW_TOOLS_CWND_H

#include <stdint.h>

struct cwnd {
	uint64_t window, threshold;  /* above threshold: additive increase */
	uint64_t floor, cap, step;   /* bytes; step: what is added in a round trip */
	uint64_t cuts, timeouts;     /* timeouts: of the cuts */
	uint32_t recovery;           /* losses before this mark have been answered */
};

/* BLOCK: bytes of a datagram's payload. */
void cwnd_init(struct cwnd *c, uint32_t block, uint64_t cap);
void cwnd_acked(struct cwnd *c, uint64_t bytes);
/* Loss in a report of MARK, when the latest mark that was sent is LATEST. */
void cwnd_lost(struct cwnd *c, uint32_t mark, uint32_t latest);
/* Nothing was reported for long: slow start, up to half of the window (RFC 5681 section 3.1). */
void cwnd_timeout(struct cwnd *c, uint32_t latest);

#endif
