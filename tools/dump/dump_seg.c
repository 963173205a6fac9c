/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments of datagrams, decoded by docs/ud-profile.md sections 2 to 4, and shown. */
#include <string.h>
#include <time.h>

#include "base/addr.h"
#include "base/crc.h"
#include "base/wire.h"
#include "tools/dump/dump.h"

#define CRC_LEN 4u
#define CRC_RESIDUE 0x2144df1cu      /* crc32() of an intact datagram with its CRC */
#define MIN_SEG 28u
#define READ_LEN 28u                 /* payload of a Read Request */
#define FLOW_LEN 8u                  /* payload of a flow message */
#define VALIDATION_LEN 16u           /* payload of a validation message */
#define QUOTE 6u                     /* offset of the quotation in an error message */

static const struct { const char *name; bool tagged, imm, solicited; uint32_t qn; } ops[16] = {
	[OP_WRITE] = { "write", true, true, true, 0 },
	[OP_READ_REQUEST] = { "read-request", false, false, false, 1 },
	[OP_READ_RESPONSE] = { "read-response", true, false, false, 0 },
	[OP_SEND] = { "send", false, true, false, 0 },
	[OP_SEND_INV] = { "send-inv", false, true, false, 0 },
	[OP_SEND_SE] = { "send-se", false, true, false, 0 },
	[OP_SEND_SE_INV] = { "send-se-inv", false, true, false, 0 },
	[OP_ERROR] = { "error", false, false, false, 2 },
	[OP_ATOMIC_REQUEST] = { "atomic-request", false, false, false, 1 },
	[OP_ATOMIC_RESPONSE] = { "atomic-response", false, false, false, 3 },
	[OP_WRITE_RECORD] = { "write-record", true, true, true, 0 },
	[OP_FLOW] = { "flow", false, false, false, 2 },
	[OP_VALIDATION] = { "validation", false, false, false, 2 },
};

const char *dump_op_name(uint8_t opcode)
{
	return opcode < TOOL_COUNT(ops) && ops[opcode].name ? ops[opcode].name : "unknown";
}

bool dump_is_op(const char *name)
{
	for (size_t i = 0; i < TOOL_COUNT(ops); i++)
		if (ops[i].name && !strcmp(ops[i].name, name))
			return true;
	return false;
}

/* ---- Decoding ---- */

static bool version_good(const uint8_t *p)
{
	return (p[0] & 0x3f) == 1 && (p[1] & 0xc0) == 0x40;
}

/* There are so many positions that a CRC may match by chance: the version bits must match, too. */
uint32_t dump_first_len(const uint8_t *data, uint32_t len)
{
	uint32_t crc = 0;

	if (len < CRC_LEN || !(version_good(data) || dump_rd_is(data)) || diw_crc32(0, data, len) == CRC_RESIDUE)
		return len;
	for (uint32_t i = 0; i < len; i++) {
		crc = diw_crc32(crc, data + i, 1);
		if (i + 1 >= MIN_SEG + CRC_LEN && crc == CRC_RESIDUE)
			return i + 1;
	}
	return len;
}

static void fields(struct dump_seg *s, const uint8_t *p)
{
	if (s->tagged) {
		s->stag = diw_get32(p + 2);
		s->to = diw_get64(p + 6);
	} else {
		s->inv_stag = diw_get32(p + 2);
		s->qn = diw_get32(p + 6);
		s->msn = diw_get32(p + 10);
		s->mo = diw_get32(p + 14);
	}
	s->qkey = diw_get32(p + (s->tagged ? 14 : 18));
	s->epoch = diw_get16(p + (s->tagged ? 18 : 22));
	if (s->tagged) {
		s->msn = diw_get32(p + 20);
		s->mo = diw_get32(p + 24);
	}
	s->length = diw_get32(p + (s->tagged ? 28 : 24));
	s->imm = s->imm_valid ? diw_get32(p + s->hdr_len - 4) : 0;
}

static bool op_invalidates(uint8_t op)
{
	return op == OP_SEND_INV || op == OP_SEND_SE_INV;
}

/* Over reliable datagrams alone. */
static bool op_is_rd(uint8_t op)
{
	return op == OP_ATOMIC_REQUEST || op == OP_ATOMIC_RESPONSE || op_invalidates(op);
}

/* The fault that follows from the header alone, in the order of section 3.5. */
static const char *header_fault(const struct dump_seg *s, const uint8_t *p)
{
	uint64_t end = (uint64_t)s->mo + s->n;

	if (!version_good(p) || (s->inv_stag && !op_invalidates(s->opcode)))
		return "rx_version";
	if (end > s->length || s->last != (end == s->length) || (s->n == 0 && s->length))
		return "rx_malformed";
	if (!ops[s->opcode].name || s->tagged != ops[s->opcode].tagged ||
	    (!s->rd.there && op_is_rd(s->opcode)))
		return "rx_opcode";
	if (s->qn != ops[s->opcode].qn)
		return "rx_qn";
	if ((s->imm_valid && !ops[s->opcode].imm) || (s->solicited && !ops[s->opcode].solicited))
		return "rx_version";
	if ((s->opcode == OP_READ_REQUEST && s->n != READ_LEN) || (s->opcode == OP_ERROR && s->n < QUOTE + 2) ||
	    (s->opcode == OP_FLOW && s->n != FLOW_LEN) ||
	    (s->opcode == OP_VALIDATION &&
	     (s->n != VALIDATION_LEN || s->payload[0] < 1 || s->payload[0] > 2 || (s->payload[1] & 0x70))))
		return "rx_malformed";
	return NULL;
}

/* LEN includes the CRC. */
static void dump_decode_segment(struct dump_seg *s, const uint8_t *p, uint32_t len)
{
	uint32_t want;

	if (len < 2 + CRC_LEN) {
		s->fault = "rx_malformed";
		return;
	}
	s->tagged = p[0] & 0x80;
	s->last = p[0] & 0x40;
	s->imm_valid = p[1] & 0x20;
	s->solicited = p[1] & 0x10;
	s->opcode = p[1] & 0x0f;
	want = (s->tagged ? 32 : 28) + (s->imm_valid ? 4 : 0);
	if (len < want + CRC_LEN) {
		s->fault = "rx_malformed";
		return;
	}
	s->hdr_len = want;
	s->payload = p + want;
	s->n = len - CRC_LEN - want;
	fields(s, p);
	s->fault = header_fault(s, p);
}

void dump_decode(struct dump_seg *s, const struct dump_datagram *d, const uint8_t *p, uint32_t len)
{
	*s = (struct dump_seg){ .dg = d };
	if (len < 2 + CRC_LEN) {
		s->fault = "rx_short";
		return;
	}
	s->has_crc = true;
	s->crc = diw_get32le(p + len - CRC_LEN);
	s->crc_good = diw_crc32(0, p, len - CRC_LEN) == s->crc;
	if (dump_rd_is(p)) {
		uint32_t n = dump_rd_decode(&s->rd, p, len - CRC_LEN);

		s->fault = n ? NULL : "rd_malformed";
		if (!dump_rd_has_segment(&s->rd))
			return;
		p += n;
		len -= n;
	}
	dump_decode_segment(s, p, len);
}
bool dump_is_fault(const struct dump_seg *s)
{
	return !s->crc_good || s->fault || *s->dg->dropped || (s->hdr_len && s->opcode == OP_ERROR);
}

/* ---- The contents of Read Requests, flow, validation and error messages ---- */

/* The MSN in the quotation; false: the quotation ends before it. */
static bool quoted_msn(const struct dump_seg *s, bool *tagged, uint32_t *msn)
{
	uint32_t at;

	if (s->n <= QUOTE)
		return false;
	*tagged = s->payload[QUOTE] & 0x80;
	at = QUOTE + (*tagged ? 20 : 10);
	if (s->n < at + 4)
		return false;
	*msn = diw_get32(s->payload + at);
	return true;
}

static bool is_read_request(const struct dump_seg *s)
{
	return s->hdr_len && s->opcode == OP_READ_REQUEST && s->n == READ_LEN;
}

static bool is_flow(const struct dump_seg *s)
{
	return s->hdr_len && s->opcode == OP_FLOW && s->n == FLOW_LEN;
}

static bool is_validation(const struct dump_seg *s)
{
	return s->hdr_len && s->opcode == OP_VALIDATION && s->n == VALIDATION_LEN;
}

static bool is_error(const struct dump_seg *s)
{
	return s->hdr_len && s->opcode == OP_ERROR && s->n >= QUOTE;
}

/* ---- As a line ---- */

/* "12:34:56.123456789", local time. */
static const char *time_text(uint64_t ns, char buf[32])
{
	time_t t = (time_t)(ns / DIW_S);
	struct tm tm;

	localtime_r(&t, &tm);
	snprintf(buf, 32, "%02d:%02d:%02d.%09llu", tm.tm_hour, tm.tm_min, tm.tm_sec, (unsigned long long)(ns % DIW_S));
	return buf;
}

static void print_body(const struct dump_seg *s)
{
	const uint8_t *p = s->payload;
	uint32_t msn;
	bool tagged;

	if (is_read_request(s))
		printf(" sink 0x%08x at 0x%016llx, %u B, source 0x%08x at 0x%016llx", diw_get32(p),
		       (unsigned long long)diw_get64(p + 4), diw_get32(p + 12), diw_get32(p + 16),
		       (unsigned long long)diw_get64(p + 20));
	if (is_flow(s))
		printf(diw_get32(p + 4) ? " answer %u, window %u" : " question %u", diw_get32(p), diw_get32(p + 4));
	if (is_validation(s))
		printf(" %s of %s msn %u epoch 0x%04x, token 0x%016llx", p[0] == 1 ? "challenge" : "proof",
		       dump_op_name(p[1] & 0x0f), diw_get32(p + 4), diw_get16(p + 2),
		       (unsigned long long)diw_get64(p + 8));
	if (is_error(s)) {
		printf(" %s (0x%04x)", diw_fault_str(diw_get16(p)), diw_get16(p));
		if (quoted_msn(s, &tagged, &msn))
			printf(" of %stagged msn %u", tagged ? "" : "un", msn);
	}
}

void dump_print_head(const struct dump_datagram *d)
{
	char t[32], src[DIW_ADDR_STRLEN], dst[DIW_ADDR_STRLEN];

	printf("%s %s%s > %s", time_text(d->ns, t), d->dir == DUMP_IN ? "in " : d->dir == DUMP_OUT ? "out " : "",
	       diw_addr_str(&d->src, src), diw_addr_str(&d->dst, dst));
}

void dump_print(const struct dump_seg *s)
{
	dump_print_head(s->dg);
	dump_rd_print(&s->rd);
	if (s->hdr_len) {
		printf(" %s%s%s", dump_op_name(s->opcode), s->last ? " last" : "", s->solicited ? " solicited" : "");
		if (s->tagged)
			printf(" stag 0x%08x to 0x%016llx", s->stag, (unsigned long long)s->to);
		else
			printf(" qn %u", s->qn);
		printf(" msn %u mo %u+%u of %u epoch 0x%04x qkey 0x%08x", s->msn, s->mo, s->n, s->length, s->epoch,
		       s->qkey);
		if (s->imm_valid)
			printf(" imm 0x%08x", s->imm);
		if (s->crc_good)
			print_body(s);
	}
	printf(" crc %s", s->crc_good ? "good" : "BAD");
	if (s->fault)
		printf(" FAULT %s", s->fault);
	if (*s->dg->dropped)
		printf(" DROPPED %s", s->dg->dropped);
	putchar('\n');
}

/* ---- As an object ---- */

void dump_json_hex(cJSON *o, const char *key, uint64_t v, int digits)
{
	char buf[24];

	snprintf(buf, sizeof buf, "0x%0*llx", digits, (unsigned long long)v);
	cJSON_AddStringToObject(o, key, buf);
}

static void add_host(cJSON *o, const char *key, const struct diw_addr *a)
{
	char buf[DIW_ADDR_STRLEN], *colon;

	diw_addr_str(a, buf);
	colon = strrchr(buf, ':');
	if (*buf == '[')
		colon--;
	*colon = '\0';
	cJSON_AddStringToObject(o, key, buf + (*buf == '['));
}

cJSON *dump_json(const struct dump_datagram *d, const char *op)
{
	static const char *const dirs[] = { "unknown", "in", "out" };
	cJSON *o = cJSON_CreateObject();
	char buf[32];

	snprintf(buf, sizeof buf, "%llu.%09llu", (unsigned long long)(d->ns / DIW_S),
		 (unsigned long long)(d->ns % DIW_S));
	cJSON_AddStringToObject(o, "time", buf);
	cJSON_AddStringToObject(o, "dir", dirs[d->dir]);
	add_host(o, "src", &d->src);
	json_add_count(o, d->tcp ? "src_port" : "src_qp", d->src.port);
	add_host(o, "dst", &d->dst);
	json_add_count(o, d->tcp ? "dst_port" : "dst_qp", d->dst.port);
	if (op)
		cJSON_AddStringToObject(o, "op", op);
	return o;
}

static void add_body(cJSON *o, const struct dump_seg *s)
{
	const uint8_t *p = s->payload;
	uint32_t msn;
	bool tagged;

	if (is_read_request(s)) {
		dump_json_hex(o, "sink_stag", diw_get32(p), 8);
		dump_json_hex(o, "sink_to", diw_get64(p + 4), 16);
		json_add_count(o, "read_length", diw_get32(p + 12));
		dump_json_hex(o, "source_stag", diw_get32(p + 16), 8);
		dump_json_hex(o, "source_to", diw_get64(p + 20), 16);
	}
	if (is_flow(s)) {
		json_add_count(o, "flow_number", diw_get32(p));
		json_add_count(o, "flow_window", diw_get32(p + 4));
	}
	if (is_validation(s)) {
		cJSON_AddStringToObject(o, "validation", p[0] == 1 ? "challenge" : "proof");
		cJSON_AddStringToObject(o, "doubted_op", dump_op_name(p[1] & 0x0f));
		cJSON_AddBoolToObject(o, "doubted_tagged", p[1] & 0x80);
		dump_json_hex(o, "doubted_epoch", diw_get16(p + 2), 4);
		json_add_count(o, "doubted_msn", diw_get32(p + 4));
		dump_json_hex(o, "token", diw_get64(p + 8), 16);
	}
	if (is_error(s)) {
		dump_json_hex(o, "error", diw_get16(p), 4);
		cJSON_AddStringToObject(o, "error_text", diw_fault_str(diw_get16(p)));
		json_add_count(o, "error_seg_len", diw_get16(p + 4));
		if (quoted_msn(s, &tagged, &msn)) {
			cJSON_AddBoolToObject(o, "quoted_tagged", tagged);
			json_add_count(o, "quoted_msn", msn);
		}
	}
}

void dump_print_json(const struct dump_seg *s)
{
	cJSON *o = dump_json(s->dg, s->hdr_len ? dump_op_name(s->opcode) : NULL);

	dump_rd_json(o, &s->rd);
	if (s->hdr_len) {
		json_add_count(o, "opcode", s->opcode);
		cJSON_AddBoolToObject(o, "tagged", s->tagged);
		cJSON_AddBoolToObject(o, "last", s->last);
		cJSON_AddBoolToObject(o, "solicited", s->solicited);
		if (s->tagged) {
			dump_json_hex(o, "stag", s->stag, 8);
			dump_json_hex(o, "to", s->to, 16);
		} else {
			dump_json_hex(o, "inv_stag", s->inv_stag, 8);
			json_add_count(o, "qn", s->qn);
		}
		json_add_count(o, "msn", s->msn);
		json_add_count(o, "mo", s->mo);
		dump_json_hex(o, "qkey", s->qkey, 8);
		dump_json_hex(o, "epoch", s->epoch, 4);
		json_add_count(o, "length", s->length);
		if (s->imm_valid)
			dump_json_hex(o, "imm", s->imm, 8);
		json_add_count(o, "payload", s->n);
		if (s->crc_good)
			add_body(o, s);
	}
	if (s->has_crc)
		dump_json_hex(o, "crc", s->crc, 8);
	cJSON_AddBoolToObject(o, "crc_good", s->crc_good);
	if (s->fault)
		cJSON_AddStringToObject(o, "fault", s->fault);
	if (*s->dg->dropped)
		cJSON_AddStringToObject(o, "dropped", s->dg->dropped);
	json_print(o);
}
