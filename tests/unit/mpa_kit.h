/* SPDX-License-Identifier: BSD-2-Clause */
/* An MPA link over a fake stream, its upper layer, and an independent encoder of FPDUs. */
#ifndef DIW_TESTS_MPA_KIT_H
#define DIW_TESTS_MPA_KIT_H

#include "mpa/int.h"
#include "tests/unit/fake_stream.h"

#define KIT_NOW 77

struct mkit {
	struct fake_stream *f;
	struct diw_link *l;
	struct diw_counters c;
	struct diw_mpa_attr attr;    /* change it before mkit_open */
	/* Received ULPDUs, one behind the other, and their lengths. */
	uint8_t *got;
	size_t got_len;
	uint32_t *len;
	int n, calls;
	int take;                    /* segments that it still takes; -1: all */
	int reaches;                 /* times that it still gives a place; the places are in `place` */
	int reached;
	uint8_t *place;
	int downs, err;
	uint16_t fault;
};

/* The bytes of a stream, octet by octet, as RFC 5044 section 4 describes them. */
struct ref {
	uint8_t *p;
	size_t len, cap, start;
	bool markers, crc;
	/* The ULPDUs that were put in, as in kit->got. */
	uint8_t *ulpdus;
	size_t ulpdus_len;
	uint32_t *ulpdu_len;
	int n;
};

extern uint8_t mkit_bytes[1 << 18];               /* random bytes */
extern struct diw_mpa_pool *mkit_pool;

void mkit_begin(void);                            /* fixtures: the pool and the random bytes */
void mkit_end(void);
void mkit_init(struct mkit *k);
void mkit_open(struct mkit *k);
void mkit_close(struct mkit *k);
/* Sends one segment, whose header is the front of the payload. Returns whether it was taken. */
bool mkit_send(struct mkit *k, const uint8_t *ulpdu, uint32_t len);
/* Polls until nothing more comes. */
void mkit_poll(struct mkit *k);
/* The link received exactly the first N ULPDUs of R. */
void mkit_got(const struct mkit *k, const struct ref *r, int n);

uint32_t mkit_crc32c(const uint8_t *p, size_t len);
void ref_init(struct ref *r, bool markers, bool crc);
void ref_fini(struct ref *r);
void ref_fpdu(struct ref *r, const uint8_t *ulpdu, uint32_t len);
/* Adds a good FPDU of LEN random octets. */
void ref_noise(struct ref *r, uint32_t len);
void ref_give(struct mkit *k, const struct ref *r);

#endif
