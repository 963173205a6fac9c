/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `diw dump` share. It reads the wire from docs/ud-profile.md with a decoder of its own: what the
 * stack's decoder gets wrong shows here.
 */
#ifndef DIW_TOOLS_DUMP_H
#define DIW_TOOLS_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/tool.h"

/* ---- A UDP datagram out of a capture (dump_pcap.c) ---- */

enum dump_dir { DUMP_DIR_UNKNOWN, DUMP_IN, DUMP_OUT };

struct dump_datagram {
	struct diw_addr src, dst;
	uint64_t ns;                 /* since 1970 */
	enum dump_dir dir;           /* as the capture has it */
	char dropped[64];            /* the packet's comment: in a capture of DIWARP_PCAP why it was dropped; else "" */
	const uint8_t *data;         /* until the next */
	uint32_t len;
};

struct dump_counts { uint64_t packets, no_udp, fragments, cut, udp, missed; };

struct dump_pcap;
/* Print what is wrong and return TOOL_FAILED. */
int dump_open_live(const char *ifname, struct dump_pcap **p);
int dump_open_file(const char *path, struct dump_pcap **p);
/* 1: a datagram; 0: the end, or a signal came; -1: the capture is damaged from here on (told). */
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

/* ---- A segment (dump_seg.c) ---- */

enum { OP_WRITE, OP_READ_REQUEST, OP_READ_RESPONSE, OP_SEND, OP_SEND_SE = 5, OP_ERROR = 7, OP_WRITE_RECORD = 12,
	OP_FLOW = 13 };

struct dump_seg {
	const struct dump_datagram *dg;
	bool has_crc, crc_good;
	uint32_t crc;
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
/* -1: no such name. */
int dump_op_of(const char *name);
bool dump_is_fault(const struct dump_seg *s);
void dump_print(const struct dump_seg *s);
void dump_print_json(const struct dump_seg *s);
/* "12:34:56.123456789", local time. */
const char *dump_time(uint64_t ns, char buf[32]);
/* What segments and messages have in common: time, dir, src, src_qp, dst, dst_qp, op. */
cJSON *dump_json(const struct dump_datagram *d, uint8_t opcode);
void dump_json_hex(cJSON *o, const char *key, uint64_t v, int digits);

/* ---- Messages (dump_msg.c) ---- */

struct dump_msgs;
/* Each is shown as it ends, at most MAX. */
struct dump_msgs *dump_msgs_new(bool json, bool faults_only, uint64_t max);
void dump_msgs_add(struct dump_msgs *m, const struct dump_seg *s);
void dump_msgs_end(struct dump_msgs *m);             /* all that are open end */
uint64_t dump_msgs_shown(const struct dump_msgs *m);
void dump_msgs_free(struct dump_msgs *m);

#endif
