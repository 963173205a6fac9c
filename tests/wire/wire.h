/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A single queue pair on the in-memory network, to which these tests send datagrams octet by octet by
 * docs/ud-profile.md. No encoder, decoder or CRC of the library is used: datagrams are built from the specification,
 * with zlib.
 */
#ifndef TESTS_WIRE_WIRE_H
#define TESTS_WIRE_WIRE_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/net/net.h"

Suite *suite_vectors(void);
Suite *suite_codec(void);
Suite *suite_damage(void);
Suite *suite_hostile(void);
Suite *suite_lengths(void);
Suite *suite_corners(void);
Suite *suite_answers(void);
Suite *suite_flood(void);
Suite *suite_fuzz(void);
Suite *suite_tables(void);
Suite *suite_proof(void);
Suite *suite_proof_reads(void);
Suite *suite_proved(void);

/* The fields of the specification's vectors. */
#define QKEY 0x1badcafeu
#define EPOCH 0x5a17u
#define TO 0x00007f0012345000ull
#define REGION 4096u                 /* registered octets */
#define GUARD 4096u                  /* octets around every buffer that must not change */
#define NRECV 8
#define RECV 512u                    /* octets of a receive */
#define PEER_PORT 5000

enum op { OP_WRITE = 0, OP_READ_REQ = 1, OP_READ_RESP = 2, OP_SEND = 3, OP_SEND_INV = 4, OP_SEND_SE = 5,
	OP_SEND_SE_INV = 6, OP_ERROR = 7,
	OP_WRITE_RECORD = 0xc, OP_FLOW = 0xd, OP_VALIDATION = 0xe };
#define BIT_T 0x80
#define BIT_L 0x40
#define BIT_I 0x20
#define BIT_S 0x10

/* ---- Datagrams ---- */

struct gram { uint8_t b[2048]; uint32_t len; };

struct fields {
	uint8_t c0, c1;              /* the control octets */
	uint32_t stag, qn, qkey, msn, mo, length, imm;
	uint64_t to;
	uint16_t epoch;
	const void *payload;
	uint32_t n;
};

/* Control octets with L, DV 1, RV 1; the other fields as in the vectors. */
struct fields send_fields(uint32_t msn, const void *payload, uint32_t n);
struct fields record_fields(uint32_t stag, uint32_t msn, uint64_t to, const void *payload, uint32_t n);
struct fields read_fields(uint32_t msn, uint32_t sink_stag, uint64_t sink_to, uint32_t size, uint32_t stag,
			  uint64_t to);
/* A validation message with this payload. */
struct fields validation_fields(const uint8_t body[16], uint16_t epoch);
/* The segment with its CRC. */
void gram_build(struct gram *g, const struct fields *f);
void gram_hex(struct gram *g, const char *hex);
void gram_put32(struct gram *g, uint32_t off, uint32_t v);
void gram_put64(struct gram *g, uint32_t off, uint64_t v);
uint32_t gram_get32(const struct gram *g, uint32_t off);
/* Puts the CRC of the present content in place of the last 4 octets. */
void gram_seal(struct gram *g);
bool gram_sealed(const struct gram *g);

/* ---- The bench ---- */

struct bench {
	struct net *net;
	struct net_host *host;
	struct diw_pd *pd, *other_pd;
	struct diw_cq *scq, *rcq;
	struct diw_qp *qp;
	struct diw_qp_info info;
	struct diw_addr addr, peer;  /* the queue pair's; the default sender's */
	struct diw_mr *mr;           /* of the region, with remote read and write */
	struct diw_mr *recv_mr;
	uint8_t *arena, *image;      /* all memory that the stack knows, and its expected content */
	uint32_t arena_len;
	uint8_t *region, *recv[NRECV];
	uint64_t before[256];        /* counters at the last bench_look() */
	struct gram *sent;           /* datagrams that the stack has sent since the last bench_look() */
	int nsent;
};

/* The queues of ATTR are set by this call; NULL: the defaults with the vectors' Q_Key. */
void bench_open(struct bench *b, const struct diw_qp_attr *attr);
void bench_close(struct bench *b);
void bench_post(struct bench *b, int i);
/* Counters and sent datagrams count from here on. */
void bench_look(struct bench *b);
void bench_inject(struct bench *b, const struct gram *g);
void bench_inject_from(struct bench *b, const struct diw_addr *src, const struct gram *g);
void bench_inject_fields(struct bench *b, const struct diw_addr *src, const struct fields *f);
/* The increase of a counter since bench_look(). */
uint64_t bench_count(struct bench *b, const char *name);
/* The memory is as the image says. */
void bench_check_memory(const struct bench *b);
/* The names of all drop counters that have grown, "rx_crc rx_crc" for two; "": none. */
const char *bench_drops(struct bench *b);
/* Injects the datagram; only the counter NAME counts it, once; memory is unchanged, and nothing completes. */
void bench_refused(struct bench *b, const struct gram *g, const char *name);
/* The same of a datagram of these fields, which spec_verdict() refuses for the same reason. */
void bench_refuses(struct bench *b, const struct fields *f, const char *name);
/* A message has completed; its completion is released. */
bool bench_completes(struct bench *b);
/* The region begins with DATA, and no other memory has changed. */
void bench_region_is(struct bench *b, const void *data, uint32_t n);
/* Takes one completion, which must be there. */
struct diw_wc bench_wc(struct bench *b, struct diw_cq *cq);
void bench_no_wc(struct bench *b);
/* A whole Write-Record and a whole Send, as a base for faulty ones. */
struct fields bench_record(const struct bench *b);
struct fields bench_send(void);
/* The last datagram that was sent is a challenge: returns its payload. */
void bench_challenge(const struct bench *b, uint8_t body[16]);
/* FROM returns it. */
void bench_prove(struct bench *b, const struct diw_addr *from, uint16_t epoch);
/* Since bench_look(): one error message with that code has left; or none has. */
void bench_answered(const struct bench *b, unsigned layer_etype, unsigned code);
void bench_silent(const struct bench *b);

/* ---- The checks of the specification, in its order, implemented separately ---- */

/* The counter that a segment with a valid CRC, sent to a UD bench by its peer, must increment; NULL: it passes all
 * checks that need no state. */
const char *spec_verdict(const struct bench *b, const uint8_t *seg, uint32_t len);

#endif
