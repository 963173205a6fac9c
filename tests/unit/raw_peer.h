/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hand-written peer on a blocking socket: MPA's framing octet by octet by RFC 5044, segments written as hexadecimal
 * text. It uses none of the library's encoders, decoders or CRCs.
 */
#ifndef DIW_TESTS_RAW_PEER_H
#define DIW_TESTS_RAW_PEER_H

#include <stdbool.h>
#include <stdint.h>

#define SEG_MAX 65535u
#define FPDU_MAX 66100u

struct seg { uint8_t b[SEG_MAX]; uint32_t n; };      /* a DDP segment: MPA's ULPDU */

struct raw {
	int fd;
	bool crc, tx_markers, rx_markers;
	uint32_t tx_pos, rx_pos;     /* octets of the stream from the first FPDU on */
};

uint32_t raw_crc32c(const uint8_t *p, uint32_t n);
uint64_t raw_get(const uint8_t *p, int octets);
void raw_put(uint8_t *p, int octets, uint64_t v);

/* printf, then hexadecimal digits, with blanks anywhere between them. */
void seg_hex(struct seg *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void seg_add(struct seg *s, const void *p, uint32_t n);
/* Writes the FPDU of S as the next one of the stream. Returns its length. */
uint32_t raw_fpdu(struct raw *r, uint8_t *out, const struct seg *s);
void raw_octets(struct raw *r, const void *p, uint32_t n);
void raw_seg(struct raw *r, const struct seg *s);
void raw_hex(struct raw *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Reads the next FPDU and checks padding, markers and CRC. False: the stream has ended regularly before it. */
bool raw_read(struct raw *r, struct seg *s);
/* The next FPDU contains exactly this. */
void raw_expect(struct raw *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void raw_expect_seg(struct raw *r, const struct seg *want);
void raw_expect_end(struct raw *r);
/* Reads until the stream ends or breaks, which must be soon. */
void raw_drain(struct raw *r);
/* Reads the peer's MPA frame: key, flags, revision, length, data. Returns the length of its data, at most MAX. */
uint32_t raw_read_frame(struct raw *r, uint8_t hdr[20], uint8_t *data, uint32_t max);

#endif
