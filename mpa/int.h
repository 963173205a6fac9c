/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the framing share: the link, its device's buffers. */
#ifndef DIW_MPA_INT_H
#define DIW_MPA_INT_H

#include "mpa/mpa.h"

#ifndef DIW_MPA_STAGE
#define DIW_MPA_STAGE 131072u        /* at least DIW_MPA_MAX_FPDU */
#endif
#ifndef DIW_MPA_SCRATCH
#define DIW_MPA_SCRATCH 262144u      /* bytes a read */
#endif
#define DIW_MPA_FRONT 4096u          /* a rest up to this is copied before what the next read brings */
/* What one link may have to keep: an FPDU that was not taken, and all that came behind it. */
#define DIW_MPA_OWN (DIW_MPA_MAX_FPDU + DIW_MPA_FRONT + DIW_MPA_SCRATCH)
#define DIW_MPA_EDGES 31             /* FPDUs of one gathered write, + 1 */
#define DIW_MPA_EDGE 64u             /* the end of an FPDU, and the next one's length and header */

struct diw_mpa {
	struct diw_link l;
	struct diw_stream *s;
	struct diw_mpa_pool *pool;
	uint32_t mulpdu;
	bool crc, tx_markers, rx_markers, packed;

	bool tx_fin, tx_shut;        /* the stream shall end; it was told to */
	int tx_errno;                /* it cannot send any more */
	uint32_t tx_pos;             /* octets from the first FPDU on, of which only the last 9 bits matter */
	uint32_t tx_off, tx_len;     /* of tx_own: not sent yet */
	uint8_t *tx_own;             /* NULL when empty */

	bool rx_stalled;             /* segments wait in rx_own, nothing is received */
	bool rx_ended, rx_down;      /* the peer's half has ended; told upward that nothing more will come */
	uint32_t rx_pos;             /* like tx_pos, of the first octet that is not parsed */
	uint32_t rx_len, rx_good;    /* of rx_own; of these, in FPDUs that were checked and have no markers any more */
	uint8_t *rx_own;             /* NULL when empty; begins with an FPDU */
};

struct diw_mpa_pool {
	void *free;                  /* own buffers, through their first word */
	uint32_t nfree;
	uint32_t staged;
	struct diw_mpa *stager;      /* whose bytes are staged */
	uint8_t edge[DIW_MPA_EDGES][DIW_MPA_EDGE];
	uint8_t stage[DIW_MPA_STAGE];
	uint8_t scratch[DIW_MPA_FRONT + DIW_MPA_SCRATCH];
};

static inline struct diw_mpa *diw_mpa_of(struct diw_link *l) { return (struct diw_mpa *)l; }

/* An own buffer, or NULL. */
uint8_t *diw_mpa_own_get(struct diw_mpa_pool *p);
void diw_mpa_own_put(struct diw_mpa_pool *p, uint8_t **own);

/* mpa/tx.c */
int diw_mpa_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n, uint64_t now);
int diw_mpa_flush(struct diw_link *l, uint64_t now);
void diw_mpa_shutdown(struct diw_link *l, uint64_t now);
void diw_mpa_unstage(struct diw_mpa *m);             /* forget what is staged */
/* mpa/rx.c */
int diw_mpa_poll(struct diw_link *l, int budget, uint64_t now);

#endif
