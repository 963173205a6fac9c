/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of a reliable datagram, decoded by docs/ud-profile.md section 18.2, and shown. */
#include "base/wire.h"
#include "tools/dump/dump.h"

#define HDR 24u
#define ANNOUNCE 12u

static const char *const rd_kinds[] = { "data", "ack", "open", "grant", "reset", "refuse" };
enum { RD_KIND_DATA, RD_KIND_ACK, RD_KIND_OPEN, RD_KIND_GRANT, RD_KIND_RESET, RD_KIND_REFUSE };

bool dump_rd_is(const uint8_t *p)
{
	return (p[0] & 3) == 2;
}

uint32_t dump_rd_decode(struct dump_rd *rd, const uint8_t *p, uint32_t len)
{
	uint8_t kind = p[0] >> 4;

	*rd = (struct dump_rd){ .there = true };
	if (len < HDR || (p[0] & 0x0c) || kind >= TOOL_COUNT(rd_kinds) || (p[1] & 0x0f))
		return 0;
	rd->good = true;
	rd->kind = kind;
	rd->flags = p[1];
	rd->window = diw_get16(p + 2);
	rd->tag = diw_get32(p + 4);
	rd->number = diw_get32(p + 8);
	rd->ack = diw_get32(p + 12);
	rd->announces = (p[1] & 0x10) || kind == RD_KIND_OPEN || kind == RD_KIND_GRANT;
	if (len < HDR + (rd->announces ? ANNOUNCE : 0) + (kind == RD_KIND_DATA)) {
		rd->good = false;
		return 0;
	}
	if (rd->announces) {
		rd->own_tag = diw_get32(p + 24);
		rd->own_epoch = diw_get32(p + 28);
		rd->first = diw_get32(p + 32);
	}
	return HDR + (rd->announces ? ANNOUNCE : 0);
}

bool dump_rd_has_segment(const struct dump_rd *rd)
{
	return rd->good && rd->kind == RD_KIND_DATA;
}

void dump_rd_print(const struct dump_rd *rd)
{
	if (!rd->good)
		return;
	printf(" rd-%s %u tag 0x%08x", rd_kinds[rd->kind], rd->number, rd->tag);
	if (rd->flags & 0x80)
		printf(" ask");
	if (rd->flags & 0x40)
		printf(" ack %u", rd->ack);
	if ((rd->flags & 0x40) && rd->kind != RD_KIND_GRANT)
		printf(rd->kind == RD_KIND_REFUSE ? " fault 0x%04x" : " window %u", rd->window);
	if (rd->announces)
		printf(" epoch 0x%08x first %u", rd->own_epoch, rd->first);
}

void dump_rd_json(cJSON *o, const struct dump_rd *rd)
{
	if (!rd->good)
		return;
	cJSON_AddStringToObject(o, "rd_kind", rd_kinds[rd->kind]);
	cJSON_AddBoolToObject(o, "rd_ask", rd->flags & 0x80);
	dump_json_hex(o, "rd_tag", rd->tag, 8);
	json_add_count(o, "rd_number", rd->number);
	if (rd->flags & 0x40)
		json_add_count(o, "rd_ack", rd->ack);
	if ((rd->flags & 0x40) && rd->kind != RD_KIND_GRANT)
		json_add_count(o, "rd_window", rd->window);
	if (rd->announces) {
		dump_json_hex(o, "rd_own_tag", rd->own_tag, 8);
		dump_json_hex(o, "rd_own_epoch", rd->own_epoch, 8);
		json_add_count(o, "rd_first", rd->first);
	}
}
