/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `diw dump` share. It reads the wires of docs/ud-profile.md and docs/rc-wire.md with decoders of its
 * own, and without wire/: what the stack's get wrong shows here.
 */
#ifndef DIW_TOOLS_DUMP_H
#define DIW_TOOLS_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/tool.h"

/* ---- A UDP datagram, or a TCP segment, out of a capture (dump_pcap.c) ---- */

enum dump_dir { DUMP_DIR_UNKNOWN, DUMP_IN, DUMP_OUT };

struct dump_datagram {
	struct diw_addr src, dst;
	uint64_t ns;                 /* since 1970 */
	enum dump_dir dir;           /* as the capture has it */
	char dropped[64];            /* the packet's comment: in a capture of DIWARP_PCAP why it was dropped; else "" */
	const uint8_t *data;         /* until the next */
	uint32_t len;
	bool tcp;
	uint8_t flags;               /* TCP's, as the next two */
	uint32_t seq, ack;
};

struct dump_counts { uint64_t packets, neither, fragments, cut, missed; };

struct dump_pcap;
/* Print what is wrong and return TOOL_FAILED. */
int dump_open_live(const char *ifname, struct dump_pcap **p);
int dump_open_file(const char *path, struct dump_pcap **p);
/* 1: one of them; 0: the end, or a signal came; -1: the capture is damaged from here on (told). */
int dump_next(struct dump_pcap *p, struct dump_datagram *d);
const struct dump_counts *dump_counts(struct dump_pcap *p);
void dump_close(struct dump_pcap *p);

/* ---- Comments and directions of a pcapng file, which libpcap does not hand out (dump_note.c) ---- */

struct dump_notes;
/* NULL when the file is of another kind, or cannot be read. */
struct dump_notes *dump_notes_open(const char *path);
/* Of the next packet; false at the end. */
bool dump_notes_next(struct dump_notes *n, enum dump_dir *dir, char *comment, size_t room);
void dump_notes_close(struct dump_notes *n);

/* ---- The header of a reliable datagram (dump_rd.c) ---- */

struct dump_rd {
	bool there;                  /* the datagram is of that kind */
	bool good;                   /* what follows is valid */
	bool announces;
	uint8_t kind, flags;
	uint16_t window;
	uint32_t tag, number, ack, own_tag, own_epoch, first;
};
bool dump_rd_is(const uint8_t *p);
uint32_t dump_rd_decode(struct dump_rd *rd, const uint8_t *p, uint32_t len);     /* its octets; 0: malformed */
bool dump_rd_has_segment(const struct dump_rd *rd);
void dump_rd_print(const struct dump_rd *rd);
void dump_rd_json(cJSON *o, const struct dump_rd *rd);

/* ---- A segment (dump_seg.c) ---- */

enum { OP_WRITE, OP_READ_REQUEST, OP_READ_RESPONSE, OP_SEND, OP_SEND_SE = 5, OP_ERROR = 7, OP_ATOMIC_REQUEST = 10,
	OP_ATOMIC_RESPONSE = 11, OP_WRITE_RECORD = 12,
	OP_FLOW = 13, OP_VALIDATION = 14 };

struct dump_seg {
	const struct dump_datagram *dg;
	bool has_crc, crc_good;
	uint32_t crc;
	struct dump_rd rd;
	const char *fault;           /* the counter that a receiver would step for the header alone, or NULL */
	uint32_t hdr_len;            /* 0: too short for a header, and nothing below is valid */
	uint8_t opcode;
	bool tagged, last, imm_valid, solicited;
	uint16_t epoch;
	uint32_t inv_stag, qn, stag, qkey, msn, mo, length, imm;
	uint64_t to;
	const uint8_t *payload;
	uint32_t n;
};

/* LEN bytes of D from DATA are one segment with its CRC. */
void dump_decode(struct dump_seg *s, const struct dump_datagram *d, const uint8_t *data, uint32_t len);
/* Bytes of the first segment: LEN, or less where DATA is a super-buffer, as captures on an interface have them. */
uint32_t dump_first_len(const uint8_t *data, uint32_t len);
const char *dump_op_name(uint8_t opcode);
bool dump_is_op(const char *name);
bool dump_is_fault(const struct dump_seg *s);
void dump_print(const struct dump_seg *s);
void dump_print_json(const struct dump_seg *s);
/* How all lines begin: time, direction, addresses. */
void dump_print_head(const struct dump_datagram *d);
/* What all objects have in common: time, dir, src, src_qp, dst, dst_qp (of TCP src_port, dst_port), op if not NULL. */
cJSON *dump_json(const struct dump_datagram *d, const char *op);
void dump_json_hex(cJSON *o, const char *key, uint64_t v, int digits);

/* ---- Messages (dump_msg.c) ---- */

struct dump_msgs;
/* Each is shown as it ends, at most MAX. */
struct dump_msgs *dump_msgs_new(bool json, bool faults_only, uint64_t max);
void dump_msgs_add(struct dump_msgs *m, const struct dump_seg *s);
void dump_msgs_end(struct dump_msgs *m);             /* all that are open end */
uint64_t dump_msgs_shown(const struct dump_msgs *m);
void dump_msgs_free(struct dump_msgs *m);

/* ---- What a connection's stream holds (dump_fpdu.c) ---- */

#define FPDU_MAX 66064u              /* octets of an FPDU: 65535 of ULPDU, length, pad, CRC, and 130 markers */

enum fpdu_kind { MPA_REQUEST, MPA_REPLY, MPA_FPDU, MPA_LOST, MPA_END };

struct dump_fpdu {
	enum fpdu_kind kind;
	struct dump_datagram dg;     /* which its last octet was in */
	const char *op;              /* of a segment, or "mpa-request" and so on */
	const char *fault;           /* the counter that a receiver would step, or NULL */

	/* A frame */
	bool markers, crc, reject, enhanced, p2p, reset;     /* reset: of MPA_END */
	uint8_t flags, revision, rtr;        /* rtr: FPDU 4, Write 2, Read 1 */
	uint16_t ird, ord;
	uint16_t takes;              /* the extension words of docs/rc-wire.md section 2.1, or TAKES_NONE */
	const uint8_t *data;         /* private data without them, or payload behind the header */
	uint32_t n;

	/* An FPDU */
	bool crc_on, crc_good;       /* crc_on: the connection has it */
	uint32_t crc_value;
	uint32_t ulpdu, hdr_len;     /* hdr_len 0: there is no header, and nothing below is valid */
	uint8_t opcode;
	bool tagged, last, imm_valid, word_valid;
	uint32_t stag, inv_stag, qn, msn, mo, imm, word;
	uint64_t to;
	uint64_t length;             /* of the message so far, in as many segments */
	uint32_t segments;

	uint64_t lost;               /* MPA_LOST: octets that were not captured, or cannot be told apart */
};

enum { TAKES_NONE = 0, TAKES_THERE = 0x8000, TAKES_7306 = 1, TAKES_SEND_IMM = 2, TAKES_WORDS = 4 };

/* A request or reply frame of LEN octets at P; its length; 0: more are needed; -1: it is none, or has a fault for which
 * its length is not known. */
int fpdu_frame(struct dump_fpdu *f, const uint8_t *p, uint32_t len);
/* The ULPDU of N octets at P. IMM, WORDS: the connection has agreed to what docs/rc-wire.md adds. */
void fpdu_decode(struct dump_fpdu *f, const uint8_t *p, uint32_t n, bool imm, bool words);
bool fpdu_is_fault(const struct dump_fpdu *f);
bool fpdu_is_op(const char *name);
void fpdu_print(const struct dump_fpdu *f);
void fpdu_print_json(const struct dump_fpdu *f);

/* ---- Connections (dump_rc.c) ---- */

struct dump_rc;
struct dump_rc_counts { uint64_t connections, frames, fpdus, bad_crc, faults, lost, other; };
/* SHOW is called with all that is found, in order. NULL: out of memory. */
struct dump_rc *dump_rc_new(void (*show)(void *ctx, const struct dump_fpdu *f), void *ctx);
/* A TCP segment. */
void dump_rc_add(struct dump_rc *rc, const struct dump_datagram *d);
void dump_rc_end(struct dump_rc *rc);                /* what was waited for is lost */
const struct dump_rc_counts *dump_rc_counts(const struct dump_rc *rc);
void dump_rc_free(struct dump_rc *rc);

#endif
