/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw dump: declarations that its files share. It decodes the wires of docs/ud-profile.md and docs/rc-wire.md without
 * wire/, by decoders of its own, so that errors of the stack's decoders become visible.
 */
#ifndef DIW_TOOLS_DUMP_H
#define DIW_TOOLS_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/tool.h"

/* ---- A UDP datagram or TCP segment of a capture (dump_pcap.c) ---- */

enum dump_dir { DUMP_DIR_UNKNOWN, DUMP_IN, DUMP_OUT };

struct dump_datagram {
	struct diw_addr src, dst;
	uint64_t ns;                 /* since 1970 */
	enum dump_dir dir;           /* as recorded in the capture */
	char dropped[64];            /* the packet's comment: in a capture of DIWARP_PCAP, why it was dropped; else
				      * "" */
	const uint8_t *data;         /* valid until the next packet */
	uint32_t len;
	bool tcp;
	uint8_t flags;               /* of TCP, like the next two fields */
	uint32_t seq, ack;
};

struct dump_counts { uint64_t packets, neither, fragments, cut, missed; };

struct dump_pcap;
/* These print errors and return TOOL_FAILED. */
int dump_open_live(const char *ifname, struct dump_pcap **p);
int dump_open_file(const char *path, struct dump_pcap **p);
/* 1: a packet. 0: the end, or a signal came. -1: the capture is damaged from here on, which was printed. */
int dump_next(struct dump_pcap *p, struct dump_datagram *d);
const struct dump_counts *dump_counts(struct dump_pcap *p);
void dump_close(struct dump_pcap *p);

/* ---- Comments and directions in a pcapng file, which libpcap does not return (dump_note.c) ---- */

struct dump_notes;
/* NULL: a file of another format, or not readable. */
struct dump_notes *dump_notes_open(const char *path);
/* The notes of the next packet; false at the end. */
bool dump_notes_next(struct dump_notes *n, enum dump_dir *dir, char *comment, size_t room);
void dump_notes_close(struct dump_notes *n);

/* ---- The header of a reliable datagram (dump_rd.c) ---- */

struct dump_rd {
	bool there;                  /* the datagram is a reliable one */
	bool good;                   /* the fields below are valid */
	bool announces;
	uint8_t kind, flags;
	uint16_t window;
	uint32_t tag, number, ack, own_tag, own_epoch, first;
};
bool dump_rd_is(const uint8_t *p);
uint32_t dump_rd_decode(struct dump_rd *rd, const uint8_t *p, uint32_t len);     /* returns its octets; 0: malformed */
bool dump_rd_has_segment(const struct dump_rd *rd);
void dump_rd_print(const struct dump_rd *rd);
void dump_rd_json(cJSON *o, const struct dump_rd *rd);

/* ---- A segment (dump_seg.c) ---- */

enum { OP_WRITE, OP_READ_REQUEST, OP_READ_RESPONSE, OP_SEND, OP_SEND_INV, OP_SEND_SE, OP_SEND_SE_INV,
	OP_ERROR, OP_ATOMIC_REQUEST = 10, OP_ATOMIC_RESPONSE = 11, OP_WRITE_RECORD = 12,
	OP_FLOW = 13, OP_VALIDATION = 14 };

struct dump_seg {
	const struct dump_datagram *dg;
	bool has_crc, crc_good;
	uint32_t crc;
	struct dump_rd rd;
	const char *fault;           /* the counter that a receiver would increment for the header alone, or NULL */
	uint32_t hdr_len;            /* 0: too short for a header, and the fields below are not valid */
	uint8_t opcode;
	bool tagged, last, imm_valid, solicited;
	uint16_t epoch;
	uint32_t inv_stag, qn, stag, qkey, msn, mo, length, imm;
	uint64_t to;
	const uint8_t *payload;
	uint32_t n;
};

/* Decodes LEN bytes of D from DATA on, one segment with its CRC. */
void dump_decode(struct dump_seg *s, const struct dump_datagram *d, const uint8_t *data, uint32_t len);
/* Bytes of the first segment: LEN, or less if DATA is a super-buffer. */
uint32_t dump_first_len(const uint8_t *data, uint32_t len);
const char *dump_op_name(uint8_t opcode);
bool dump_is_op(const char *name);
bool dump_is_fault(const struct dump_seg *s);
void dump_print(const struct dump_seg *s);
void dump_print_json(const struct dump_seg *s);
/* Prints the beginning of each line: time, direction, addresses. */
void dump_print_head(const struct dump_datagram *d);
/* Makes an object with the fields of all objects: time, dir, src, src_qp, dst, dst_qp (TCP: src_port, dst_port), and op
 * if not NULL. */
cJSON *dump_json(const struct dump_datagram *d, const char *op);
void dump_json_hex(cJSON *o, const char *key, uint64_t v, int digits);

/* ---- Messages (dump_msg.c) ---- */

struct dump_msgs;
/* Each message is shown when it ends, at most MAX messages. */
struct dump_msgs *dump_msgs_new(bool json, bool faults_only, uint64_t max);
void dump_msgs_add(struct dump_msgs *m, const struct dump_seg *s);
void dump_msgs_end(struct dump_msgs *m);             /* ends all open messages */
uint64_t dump_msgs_shown(const struct dump_msgs *m);
void dump_msgs_free(struct dump_msgs *m);

/* ---- The contents of a stream (dump_fpdu.c) ---- */

#define FPDU_MAX 66064u              /* octets of an FPDU: 65535 of ULPDU, length, pad, CRC, and 130 markers */

enum fpdu_kind { MPA_REQUEST, MPA_REPLY, MPA_FPDU, MPA_LOST, MPA_END };

struct dump_fpdu {
	enum fpdu_kind kind;
	struct dump_datagram dg;     /* the packet with its last octet */
	const char *op;              /* of a segment; or "mpa-request" etc. */
	const char *fault;           /* the counter that a receiver would increment, or NULL */

	/* ---- A frame ---- */
	bool markers, crc, reject, enhanced, p2p, reset;     /* reset: for MPA_END */
	uint8_t flags, revision, rtr;        /* rtr: FPDU 4, Write 2, Read 1 */
	uint16_t ird, ord;
	uint16_t takes;              /* the capabilities of docs/rc-wire.md section 2.1, or TAKES_NONE */
	const uint8_t *data;         /* private data without them, or payload behind the header */
	uint32_t n;

	/* ---- An FPDU ---- */
	bool crc_on, crc_good;       /* crc_on: as negotiated */
	uint32_t crc_value;
	uint32_t ulpdu, hdr_len;     /* hdr_len 0: there is no header, and the fields below are not valid */
	uint8_t opcode;
	bool tagged, last, imm_valid, word_valid;
	uint32_t stag, inv_stag, qn, msn, mo, imm, word;
	uint64_t to;
	uint64_t length;             /* of the message so far, in `segments` segments */
	uint32_t segments;

	uint64_t lost;               /* MPA_LOST: octets that were not captured, or that cannot be assigned to FPDUs */
};

enum { TAKES_NONE = 0, TAKES_THERE = 0x8000, TAKES_7306 = 1, TAKES_SEND_IMM = 2, TAKES_WORDS = 4 };

/* Decodes a request or reply frame from the LEN octets at P. Returns its length. 0: more octets are needed. -1: it is
 * no frame, or has a fault by which its length is unknown. */
int fpdu_frame(struct dump_fpdu *f, const uint8_t *p, uint32_t len);
/* Decodes the ULPDU of N octets at P. IMM, WORDS: extensions of docs/rc-wire.md that the connection has negotiated. */
void fpdu_decode(struct dump_fpdu *f, const uint8_t *p, uint32_t n, bool imm, bool words);
bool fpdu_is_fault(const struct dump_fpdu *f);
bool fpdu_is_op(const char *name);
void fpdu_print(const struct dump_fpdu *f);
void fpdu_print_json(const struct dump_fpdu *f);

/* ---- Connections (dump_rc.c) ---- */

struct dump_rc;
struct dump_rc_counts { uint64_t connections, frames, fpdus, bad_crc, faults, lost, other; };
/* SHOW is called for everything that is found, in order. NULL: out of memory. */
struct dump_rc *dump_rc_new(void (*show)(void *ctx, const struct dump_fpdu *f), void *ctx);
/* Adds a TCP segment. */
void dump_rc_add(struct dump_rc *rc, const struct dump_datagram *d);
void dump_rc_end(struct dump_rc *rc);                /* octets that are still missing count as lost */
const struct dump_rc_counts *dump_rc_counts(const struct dump_rc *rc);
void dump_rc_free(struct dump_rc *rc);

#endif
