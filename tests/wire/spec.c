/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of docs/ud-profile.md, implemented a second time: predicts the counter of any datagram. */
#include "tests/wire/wire.h"

/* docs/ud-profile.md sections 3.4, 3.5, 4 and 7.1, without state. */

static uint64_t get(const uint8_t *p, int octets)
{
	uint64_t v = 0;

	while (octets--)
		v = v << 8 | *p++;
	return v;
}

struct view {
	bool tagged, imm, last;
	unsigned op;
	uint32_t stag, qn, mo, length, qkey, n;
	uint64_t to;
	const uint8_t *payload;
};

static const char *look(struct view *v, const uint8_t *s, uint32_t len)
{
	uint32_t hdr;
	uint64_t end;

	v->tagged = s[0] & BIT_T;
	v->imm = s[1] & BIT_I;
	v->last = s[0] & BIT_L;
	v->op = s[1] & 0x0f;
	hdr = (v->tagged ? 32 : 28) + (v->imm ? 4 : 0);
	if (len < hdr)
		return "rx_malformed";
	v->stag = (uint32_t)get(s + 2, 4);
	v->to = v->tagged ? get(s + 6, 8) : 0;
	v->qn = v->tagged ? 0 : (uint32_t)get(s + 6, 4);
	v->qkey = (uint32_t)get(s + (v->tagged ? 14 : 18), 4);
	v->mo = (uint32_t)get(s + (v->tagged ? 24 : 14), 4);
	v->length = (uint32_t)get(s + (v->tagged ? 28 : 24), 4);
	v->n = len - hdr;
	v->payload = s + hdr;
	if ((s[0] & 0x3f) != 1 || (s[1] & 0xc0) != 0x40 ||
	    (!v->tagged && v->stag != 0 && v->op != OP_SEND_INV && v->op != OP_SEND_SE_INV))
		return "rx_version";
	end = (uint64_t)v->mo + v->n;
	if (end > v->length || v->last != (end == v->length) || (v->n == 0 && v->length != 0))
		return "rx_malformed";
	return NULL;
}

static const char *place_verdict(const struct bench *b, uint32_t stag, uint64_t to, uint64_t n)
{
	if (stag != b->mr->stag)
		return "rx_stag";
	if (n && to > UINT64_MAX - (n - 1))
		return "rx_wrap";
	return to < TO || to - TO > REGION || n > REGION - (to - TO) ? "rx_bounds" : NULL;
}

static const char *read_verdict(const struct bench *b, const struct view *v)
{
	const char *fault;

	if (v->n != 28 || v->length != 28)
		return "rx_malformed";
	if (get(v->payload + 12, 4) > 16 << 20)
		return "rx_too_long";
	fault = place_verdict(b, (uint32_t)get(v->payload + 16, 4), get(v->payload + 20, 8), get(v->payload + 12, 4));
	return fault || get(v->payload + 12, 4) <= 144 ? fault : "read_unproved";
}

/* This bench has sent nothing that could be challenged, and no proof has a valid token. */
static const char *validation_verdict(const struct view *v)
{
	if (v->n != 16 || v->length != 16 || (v->payload[0] != 1 && v->payload[0] != 2) || (v->payload[1] & 0x70))
		return "rx_malformed";
	return v->payload[0] == 1 ? "challenge_ignored" : "proof_ignored";
}

/* No error message quotes a segment that this bench has sent. */
static const char *error_verdict(const struct view *v)
{
	if (v->n != v->length || v->n < 8 || !(v->payload[2] & 0x40) || v->n < 6u + (v->payload[6] & BIT_T ? 24 : 14))
		return "rx_malformed";
	return "error_rx_ignored";
}

static const char *send_verdict(const struct view *v)
{
	return v->length > RECV ? "rx_too_long" : NULL;
}

static const char *record_verdict(const struct bench *b, const struct view *v)
{
	if (v->length > 1u << 30)
		return "rx_too_long";
	return v->to < v->mo ? "rx_wrap" : place_verdict(b, v->stag, v->to, v->n);
}

const char *spec_verdict(const struct bench *b, const uint8_t *seg, uint32_t len)
{
	struct view v;
	const char *fault = look(&v, seg, len);
	bool solicited = seg[1] & BIT_S, send;

	if (fault)
		return fault;
	if (v.op != OP_READ_RESP && v.op != OP_ERROR && v.op != OP_VALIDATION && v.qkey != QKEY)
		return "rx_qkey";
	switch (v.op) {
	case OP_READ_REQ: case OP_SEND: case OP_SEND_SE: case OP_ERROR: case OP_VALIDATION:
		if (v.tagged)
			return "rx_opcode";
		break;
	case OP_READ_RESP: case OP_WRITE_RECORD:
		if (!v.tagged)
			return "rx_opcode";
		break;
	default:
		return "rx_opcode";
	}
	if (!v.tagged && v.qn != (v.op == OP_READ_REQ ? 1u : v.op == OP_ERROR || v.op == OP_VALIDATION ? 2u : 0u))
		return "rx_qn";
	send = v.op == OP_SEND || v.op == OP_SEND_SE;
	if ((v.imm && !send && v.op != OP_WRITE_RECORD) || (solicited && v.op != OP_WRITE_RECORD))
		return "rx_version";
	switch (v.op) {
	case OP_READ_REQ:
		return read_verdict(b, &v);
	case OP_READ_RESP:
		return "read_unmatched";
	case OP_VALIDATION:
		return validation_verdict(&v);
	case OP_ERROR:
		return error_verdict(&v);
	case OP_WRITE_RECORD:
		return record_verdict(b, &v);
	default:
		return send_verdict(&v);
	}
}
