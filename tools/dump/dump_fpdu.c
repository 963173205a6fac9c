/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames and FPDUs of a stream, decoded by docs/rc-wire.md and the RFCs that it names, and shown. */
#include <string.h>

#include "base/addr.h"
#include "base/fault.h"
#include "base/wire.h"
#include "tools/dump/dump.h"

#define KEY 16u
#define FRAME_HDR 20u
#define MAX_DATA 512u                /* private data */
#define WORDS 12u                    /* the capabilities behind it */
#define TAGGED_HDR 14u
#define UNTAGGED_HDR 18u
#define READ_LEN 28u
#define ATOMIC_LEN 52u
#define ANSWER_LEN 12u
#define IMMEDIATE_LEN 8u
#define QUOTE 6u                     /* offset of the quotation in a Terminate */

enum { WRITE, READ_REQUEST, READ_RESPONSE, SEND, SEND_INV, SEND_SE, SEND_SE_INV, TERMINATE, IMMEDIATE, IMMEDIATE_SE,
	ATOMIC_REQUEST, ATOMIC_RESPONSE, OPS };

/* len: octets behind the header; 0: any number. */
static const struct { const char *name; bool tagged; uint8_t qn, len; } ops[OPS] = {
	[WRITE] = { "write", true, 0, 0 }, [READ_REQUEST] = { "read-request", false, 1, READ_LEN },
	[READ_RESPONSE] = { "read-response", true, 0, 0 }, [SEND] = { "send", false, 0, 0 },
	[SEND_INV] = { "send-inv", false, 0, 0 }, [SEND_SE] = { "send-se", false, 0, 0 },
	[SEND_SE_INV] = { "send-se-inv", false, 0, 0 }, [TERMINATE] = { "terminate", false, 2, 0 },
	[IMMEDIATE] = { "immediate", false, 0, IMMEDIATE_LEN },
	[IMMEDIATE_SE] = { "immediate-se", false, 0, IMMEDIATE_LEN },
	[ATOMIC_REQUEST] = { "atomic-request", false, 1, ATOMIC_LEN },
	[ATOMIC_RESPONSE] = { "atomic-response", false, 3, ANSWER_LEN },
};
static const char *const kinds[] = {
	[MPA_REQUEST] = "mpa-request", [MPA_REPLY] = "mpa-reply", [MPA_FPDU] = "unknown", [MPA_LOST] = "lost",
	[MPA_END] = "end",
};

bool fpdu_is_op(const char *name)
{
	for (size_t i = 0; i < OPS; i++)
		if (!strcmp(ops[i].name, name))
			return true;
	return !strcmp(name, kinds[MPA_REQUEST]) || !strcmp(name, kinds[MPA_REPLY]);
}

/* ---- Frames ---- */

static void show_enhanced(struct dump_fpdu *f)
{
	uint16_t ird = diw_get16(f->data), ord = diw_get16(f->data + 2);

	f->p2p = ird & 0x8000;
	f->rtr = (uint8_t)((ird & 0x4000 ? 4 : 0) | (ord & 0x8000 ? 2 : 0) | (ord & 0x4000 ? 1 : 0));
	f->ird = ird & 0x3fff;
	f->ord = ord & 0x3fff;
	f->data += 4;
	f->n -= 4;
}

static void decode_words(struct dump_fpdu *f)
{
	static const uint8_t magic[8] = { 0x64, 0x69, 0x77, 0x37, 0x33, 0x30, 0x36, 0x8f };
	const uint8_t *t = f->data + f->n - WORDS;

	if (f->n < WORDS || memcmp(t, magic, sizeof magic) != 0 || t[8] != WORDS)
		return;
	f->takes = diw_get16(t + 10) | TAKES_THERE;
	f->n -= WORDS;
}

int fpdu_frame(struct dump_fpdu *f, const uint8_t *p, uint32_t len)
{
	static const char *const keys[] = { [MPA_REQUEST] = "MPA ID Req Frame", [MPA_REPLY] = "MPA ID Rep Frame" };
	uint32_t head = len < KEY ? len : KEY;

	f->kind = memcmp(p, keys[MPA_REQUEST], head) == 0 ? MPA_REQUEST : MPA_REPLY;
	if (memcmp(p, keys[f->kind], head) != 0)
		return -1;
	if (len < FRAME_HDR)
		return 0;
	f->op = kinds[f->kind];
	f->n = diw_get16(p + 18);
	if (f->n > MAX_DATA) {
		f->n = 0;
		f->fault = diw_fault_counter(DIW_FAULT_MPA_FRAME);
		return -1;
	}
	if (len < FRAME_HDR + f->n)
		return 0;
	f->flags = p[16];
	f->markers = p[16] & 0x80;
	f->crc = p[16] & 0x40;
	f->reject = p[16] & 0x20;
	f->revision = p[17];
	f->data = p + FRAME_HDR;
	len = FRAME_HDR + f->n;
	f->enhanced = f->revision == 2 && (p[16] & 0x10) && f->n >= 4;
	if (f->revision > 2 || (f->revision == 2 && (p[16] & 0x10) && f->n < 4 && !f->reject))
		f->fault = diw_fault_counter(DIW_FAULT_MPA_FRAME);
	if (f->enhanced)
		show_enhanced(f);
	decode_words(f);
	return (int)len;
}

/* ---- Segments ---- */

/* The fault that follows from the header and the length of the body. */
static enum diw_fault segment_fault(const struct dump_fpdu *f, const uint8_t *p)
{
	if ((p[0] & 3) != 1)
		return f->tagged ? DIW_FAULT_TAGGED_VERSION : DIW_FAULT_UNTAGGED_VERSION;
	if (p[1] >> 6 != 1)
		return DIW_FAULT_RDMAP_VERSION;
	if (f->opcode >= OPS || f->tagged != ops[f->opcode].tagged)
		return DIW_FAULT_OPCODE;
	if (!f->tagged && f->qn != ops[f->opcode].qn)
		return DIW_FAULT_QN;
	if ((ops[f->opcode].len && (f->n != ops[f->opcode].len || f->mo || !f->last)) ||
	    (f->opcode == TERMINATE && f->n < 4))
		return DIW_FAULT_STREAM;
	return DIW_FAULT_NONE;
}

static uint32_t word_at(const uint8_t *p, bool valid, uint32_t *hdr_len)
{
	*hdr_len += valid ? 4 : 0;
	return valid ? diw_get32(p + *hdr_len - 4) : 0;
}

static void header(struct dump_fpdu *f, const uint8_t *p)
{
	f->tagged = p[0] & 0x80;
	f->last = p[0] & 0x40;
	f->opcode = p[1] & 0x0f;
	f->op = f->opcode < OPS ? ops[f->opcode].name : kinds[MPA_FPDU];
	if (f->tagged) {
		f->stag = diw_get32(p + 2);
		f->to = diw_get64(p + 6);
	} else {
		f->inv_stag = diw_get32(p + 2);
		f->qn = diw_get32(p + 6);
		f->msn = diw_get32(p + 10);
		f->mo = diw_get32(p + 14);
	}
}

void fpdu_decode(struct dump_fpdu *f, const uint8_t *p, uint32_t n, bool imm, bool words)
{
	uint32_t hdr = n && (p[0] & 0x80) ? TAGGED_HDR : UNTAGGED_HDR;

	f->kind = MPA_FPDU;
	f->ulpdu = n;
	f->op = n ? NULL : "empty";
	if (!n)
		return;
	f->imm_valid = n > 1 && imm && (p[1] & 0x20) && !(p[0] & 0x80) && (p[1] & 0x0f) >= SEND &&
		       (p[1] & 0x0f) <= SEND_SE_INV;
	f->word_valid = n > 1 && words && (p[1] & 0x10);
	if (n < hdr + (f->imm_valid ? 4 : 0) + (f->word_valid ? 4 : 0)) {
		f->fault = diw_fault_counter(DIW_FAULT_STREAM);
		return;
	}
	header(f, p);
	f->imm = word_at(p, f->imm_valid, &hdr);
	f->word = word_at(p, f->word_valid, &hdr);
	f->hdr_len = hdr;
	f->data = p + hdr;
	f->n = n - hdr;
	f->fault = diw_fault_counter(segment_fault(f, p));
}

bool fpdu_is_fault(const struct dump_fpdu *f)
{
	return f->fault || f->reject || f->reset || f->kind == MPA_LOST ||
	       (f->kind == MPA_FPDU && ((f->crc_on && !f->crc_good) || (f->hdr_len && f->opcode == TERMINATE)));
}

/* ---- As a line ---- */

static void print_frame(const struct dump_fpdu *f)
{
	printf(" %s revision %u%s%s%s", f->op, f->revision, f->markers ? " markers" : "", f->crc ? " crc" : "",
	       f->reject ? " REJECTED" : "");
	if (f->enhanced)
		printf(" ird %u ord %u", f->ird, f->ord);
	if (f->p2p)
		printf(" rtr%s%s%s", f->rtr & 4 ? " empty" : "", f->rtr & 2 ? " write" : "", f->rtr & 1 ? " read" : "");
	printf(" private %u B", f->n);
	for (uint32_t i = 0; i < f->n; i++)
		printf("%s%02x", i ? "" : " ", f->data[i]);
	if (f->takes)
		printf(", takes%s%s%s", f->takes & TAKES_7306 ? " rfc7306" : "",
		       f->takes & TAKES_SEND_IMM ? " send-imm" : "", f->takes & TAKES_WORDS ? " words" : "");
}

static uint16_t terminate_code(const struct dump_fpdu *f)
{
	return diw_get16(f->data);
}

/* Whether the control octets announce DDP's header, and it is present. */
static bool quotes(const struct dump_fpdu *f)
{
	return (f->data[2] & 0x40) && f->n >= QUOTE + TAGGED_HDR;
}

static void print_atomic(const uint8_t *p)
{
	printf(" %s id %u stag 0x%08x to 0x%016llx data 0x%016llx", (p[3] & 15) == 0 ? "fetch-add" : (p[3] & 15) == 2 ?
	       "cmp-swap" : "unknown", diw_get32(p + 4), diw_get32(p + 8), (unsigned long long)diw_get64(p + 12),
	       (unsigned long long)diw_get64(p + 20));
	if ((p[3] & 15) == 2)
		printf(" compare 0x%016llx", (unsigned long long)diw_get64(p + 36));
}

static void print_fpdu_body(const struct dump_fpdu *f)
{
	const uint8_t *p = f->data;

	switch (f->opcode) {
	case READ_REQUEST:
		printf(" sink 0x%08x at 0x%016llx, %u B, source 0x%08x at 0x%016llx", diw_get32(p),
		       (unsigned long long)diw_get64(p + 4), diw_get32(p + 12), diw_get32(p + 16),
		       (unsigned long long)diw_get64(p + 20));
		break;
	case TERMINATE:
		printf(" %s (0x%04x)", diw_fault_str(terminate_code(f)), terminate_code(f));
		if (quotes(f))
			printf(" of %s segment of %u octets", p[QUOTE] & 0x80 ? "a tagged" : "an untagged",
			       diw_get16(p + 4));
		break;
	case IMMEDIATE: case IMMEDIATE_SE:
		printf(" data 0x%016llx", (unsigned long long)diw_get64(p));
		break;
	case ATOMIC_REQUEST: print_atomic(p); break;
	case ATOMIC_RESPONSE:
		printf(" id %u original 0x%016llx", diw_get32(p), (unsigned long long)diw_get64(p + 4));
	}
}

static void print_segment(const struct dump_fpdu *f)
{
	printf(" %s", f->op ? f->op : "unknown");
	if (f->hdr_len) {
		printf("%s", f->last ? " last" : "");
		if (f->tagged)
			printf(" stag 0x%08x to 0x%016llx", f->stag, (unsigned long long)f->to);
		else
			printf(" qn %u msn %u mo %u", f->qn, f->msn, f->mo);
		printf("+%u", f->n);
		if (f->opcode == SEND_INV || f->opcode == SEND_SE_INV)
			printf(" invalidates 0x%08x", f->inv_stag);
		if (f->imm_valid)
			printf(" imm 0x%08x", f->imm);
		if (f->word_valid)
			printf(" placed %u%s", f->word & 0x7fffffff, f->word >> 31 ? " asks" : "");
		if (f->crc_good && !f->fault)
			print_fpdu_body(f);
		if (f->last && f->segments > 1)
			printf(", message of %llu in %u", (unsigned long long)f->length, f->segments);
	}
	printf(" crc %s", !f->crc_on ? "off" : f->crc_good ? "good" : "BAD");
}

void fpdu_print(const struct dump_fpdu *f)
{
	dump_print_head(&f->dg);
	switch (f->kind) {
	case MPA_REQUEST: case MPA_REPLY: print_frame(f); break;
	case MPA_FPDU: print_segment(f); break;
	case MPA_LOST:
		printf(" LOST %llu octets: not captured, or not to be told apart", (unsigned long long)f->lost);
		break;
	case MPA_END: printf(f->reset ? " RESET" : " end"); break;
	}
	if (f->fault)
		printf(" FAULT %s", f->fault);
	putchar('\n');
}

/* ---- As an object ---- */

static void json_hex_octets(cJSON *o, const char *key, const uint8_t *p, uint32_t n)
{
	char text[2 * MAX_DATA + 1] = "";

	for (uint32_t i = 0; i < n && i < MAX_DATA; i++)
		snprintf(text + 2 * i, 3, "%02x", p[i]);
	cJSON_AddStringToObject(o, key, text);
}

/* The names whose bits are set. */
static void json_names(cJSON *o, const char *key, const char *const names[3], unsigned bits)
{
	cJSON *list = cJSON_AddArrayToObject(o, key);

	for (int i = 0; i < 3; i++)
		if (bits >> i & 1)
			cJSON_AddItemToArray(list, cJSON_CreateString(names[i]));
}

static void json_frame(cJSON *o, const struct dump_fpdu *f)
{
	static const char *const rtr[3] = { "read", "write", "empty" };
	static const char *const takes[3] = { "rfc7306", "send-imm", "words" };

	json_add_count(o, "revision", f->revision);
	dump_json_hex(o, "flags", f->flags, 2);
	cJSON_AddBoolToObject(o, "markers", f->markers);
	cJSON_AddBoolToObject(o, "crc", f->crc);
	cJSON_AddBoolToObject(o, "reject", f->reject);
	cJSON_AddBoolToObject(o, "enhanced", f->enhanced);
	if (f->enhanced) {
		json_add_count(o, "ird", f->ird);
		json_add_count(o, "ord", f->ord);
		cJSON_AddBoolToObject(o, "p2p", f->p2p);
		json_names(o, "rtr", rtr, f->rtr);
	}
	json_hex_octets(o, "private_data", f->data, f->n);
	if (f->takes)
		json_names(o, "takes", takes, f->takes);
}

static void json_body(cJSON *o, const struct dump_fpdu *f)
{
	const uint8_t *p = f->data;

	switch (f->opcode) {
	case READ_REQUEST:
		dump_json_hex(o, "sink_stag", diw_get32(p), 8);
		dump_json_hex(o, "sink_to", diw_get64(p + 4), 16);
		json_add_count(o, "read_length", diw_get32(p + 12));
		dump_json_hex(o, "source_stag", diw_get32(p + 16), 8);
		dump_json_hex(o, "source_to", diw_get64(p + 20), 16);
		break;
	case TERMINATE:
		dump_json_hex(o, "error", terminate_code(f), 4);
		cJSON_AddStringToObject(o, "error_text", diw_fault_str(terminate_code(f)));
		if (quotes(f)) {
			json_add_count(o, "error_seg_len", diw_get16(p + 4));
			cJSON_AddBoolToObject(o, "quoted_tagged", p[QUOTE] & 0x80);
		}
		break;
	case IMMEDIATE: case IMMEDIATE_SE:
		dump_json_hex(o, "data", diw_get64(p), 16);
		break;
	case ATOMIC_REQUEST:
		json_add_count(o, "atomic_opcode", p[3] & 15);
		json_add_count(o, "atomic_id", diw_get32(p + 4));
		dump_json_hex(o, "atomic_stag", diw_get32(p + 8), 8);
		dump_json_hex(o, "atomic_to", diw_get64(p + 12), 16);
		dump_json_hex(o, "add_swap", diw_get64(p + 20), 16);
		dump_json_hex(o, "add_swap_mask", diw_get64(p + 28), 16);
		dump_json_hex(o, "compare", diw_get64(p + 36), 16);
		dump_json_hex(o, "compare_mask", diw_get64(p + 44), 16);
		break;
	case ATOMIC_RESPONSE:
		json_add_count(o, "atomic_id", diw_get32(p));
		dump_json_hex(o, "original", diw_get64(p + 4), 16);
	}
}

static void json_segment(cJSON *o, const struct dump_fpdu *f)
{
	json_add_count(o, "ulpdu", f->ulpdu);
	if (f->hdr_len) {
		json_add_count(o, "opcode", f->opcode);
		cJSON_AddBoolToObject(o, "tagged", f->tagged);
		cJSON_AddBoolToObject(o, "last", f->last);
		if (f->tagged) {
			dump_json_hex(o, "stag", f->stag, 8);
			dump_json_hex(o, "to", f->to, 16);
		} else {
			dump_json_hex(o, "inv_stag", f->inv_stag, 8);
			json_add_count(o, "qn", f->qn);
			json_add_count(o, "msn", f->msn);
			json_add_count(o, "mo", f->mo);
		}
		if (f->imm_valid)
			dump_json_hex(o, "imm", f->imm, 8);
		if (f->word_valid) {
			json_add_count(o, "word_placed", f->word & 0x7fffffff);
			cJSON_AddBoolToObject(o, "word_asks", f->word >> 31);
		}
		json_add_count(o, "payload", f->n);
		if (f->crc_good && !f->fault)
			json_body(o, f);
		if (f->last) {
			json_add_count(o, "message_length", f->length);
			json_add_count(o, "message_segments", f->segments);
		}
	}
	dump_json_hex(o, "crc", f->crc_value, 8);
	cJSON_AddBoolToObject(o, "crc_on", f->crc_on);
	if (f->crc_on)
		cJSON_AddBoolToObject(o, "crc_good", f->crc_good);
}

void fpdu_print_json(const struct dump_fpdu *f)
{
	static const char *const mpa[] = { "request", "reply", "fpdu", "lost", "end" };
	cJSON *o = dump_json(&f->dg, f->op);

	cJSON_AddStringToObject(o, "mpa", mpa[f->kind]);
	switch (f->kind) {
	case MPA_REQUEST: case MPA_REPLY: json_frame(o, f); break;
	case MPA_FPDU: json_segment(o, f); break;
	case MPA_LOST: json_add_count(o, "lost", f->lost); break;
	case MPA_END: cJSON_AddBoolToObject(o, "reset", f->reset); break;
	}
	if (f->fault)
		cJSON_AddStringToObject(o, "fault", f->fault);
	json_print(o);
}
