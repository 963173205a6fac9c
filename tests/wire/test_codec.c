/* SPDX-License-Identifier: BSD-2-Clause */
/* The codecs of wire/ against docs/rc-wire.md, docs/streams.md and, of what finds a service, docs/ud-profile.md;
 * test_vectors.c has those of datagrams. */
#include <string.h>

#include "base/fault.h"
#include "tests/wire/vectors.h"
#include "tests/wire/wire.h"
#include "wire/fpdu.h"
#include "wire/hdr.h"
#include "wire/private.h"
#include "wire/rdmap.h"
#include "wire/rsockets.h"
#include "wire/service.h"

#define EXTRAS (DIW_RDMAP_IMM | DIW_RDMAP_WORD)

/* The headers of a stream's segments: rc-wire.md section 7.2 and others. */
static const struct {
	const char *hex;
	struct diw_ddp_hdr h;
} plain[] = {
	{ "c1 50 11 22 33 44 11 22 33 44 55 66 77 88 80 00 00 00", { .tagged = true, .last = true, .worded = true,
		.opcode = DIW_OP_WRITE, .stag = 0x11223344, .to = 0x1122334455667788, .word = DIW_DDP_WORD_ASKS } },
	{ "41 58 00 00 00 00 00 00 00 00 00 00 00 02 00 00 00 00 80 00 00 03", { .last = true, .worded = true,
		.opcode = DIW_OP_IMMEDIATE, .msn = 2, .word = DIW_DDP_WORD_ASKS | 3 } },
	{ "41 44 aa bb cc dd 00 00 00 00 00 00 00 07 00 00 00 10", { .last = true, .opcode = DIW_OP_SEND_INV,
		.inv_stag = 0xaabbccdd, .msn = 7, .mo = 16 } },
	{ "41 63 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 ca fe 00 42", { .last = true, .imm_valid = true,
		.opcode = DIW_OP_SEND, .msn = 1, .imm = 0xcafe0042 } },
	{ "01 41 00 00 00 00 00 00 00 01 00 00 00 09 00 00 00 00", { .opcode = DIW_OP_READ_REQUEST, .qn = 1,
		.msn = 9 } },
};
#define NPLAIN (sizeof plain / sizeof *plain)

START_TEST(plain_header)
{
	const struct diw_ddp_hdr *want = &plain[_i].h;
	struct diw_ddp_hdr h, in = *want;
	uint8_t out[DIW_DDP_MAX_LEN];
	uint32_t len;
	struct gram g;

	gram_hex(&g, plain[_i].hex);
	in.plain = true;
	ck_assert_uint_eq(diw_ddp_hdr_encode(out, &in), g.len);
	ck_assert_mem_eq(out, g.b, g.len);
	ck_assert_uint_eq(diw_ddp_hdr_decode_plain(&h, &len, EXTRAS, g.b, g.len), 0);
	ck_assert_uint_eq(len, g.len);
	ck_assert(h.tagged == want->tagged && h.last == want->last && h.opcode == want->opcode);
	ck_assert(h.worded == want->worded && h.word == want->word);
	ck_assert(h.imm_valid == want->imm_valid && h.imm == want->imm);
	ck_assert(h.stag == want->stag && h.to == want->to && h.inv_stag == want->inv_stag);
	ck_assert(h.qn == want->qn && h.msn == want->msn && h.mo == want->mo);
	for (uint32_t n = 0; n < g.len; n++)
		ck_assert_uint_eq(diw_ddp_hdr_decode_plain(&h, &len, EXTRAS, g.b, n), DIW_FAULT_SHORT);
}
END_TEST

/* The body of V7_READ_REQUEST. */
START_TEST(read_request)
{
	const struct diw_read_request from = { 0x0f1e2d3c, 0x0000560000001000, 8, 0xa1b2c37e, 0x00007f0012345008 };
	struct diw_read_request q;
	uint8_t out[DIW_RDMAP_READ_LEN];
	struct gram g;

	gram_hex(&g, "0f 1e 2d 3c 00 00 56 00 00 00 10 00 00 00 00 08 a1 b2 c3 7e 00 00 7f 00 12 34 50 08");
	diw_read_request_put(out, &from);
	ck_assert_uint_eq(g.len, sizeof out);
	ck_assert_mem_eq(out, g.b, g.len);
	q = diw_read_request_get(g.b);
	ck_assert(q.sink_stag == from.sink_stag && q.sink_to == from.sink_to && q.length == from.length);
	ck_assert(q.stag == from.stag && q.to == from.to);
}
END_TEST

/* The CRCs were computed bit by bit, without this library. */
static const char *const fpdus[] = {
	"00 00 00 00 c7 4b 67 48",
	"00 01 01 00 ce 41 84 fe",
	"00 02 01 02 4a f1 91 f5",
	"00 03 01 02 03 00 00 00 aa fa 1d c9",
	"00 04 01 02 03 04 00 00 39 ee 26 4a",
	"00 19 41 43 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 64 69 77 61 72 70 21 00 8b 42 75 b5",
};
#define NFPDUS (sizeof fpdus / sizeof *fpdus)

START_TEST(fpdu)
{
	uint32_t ulpdu, tail, head;
	struct gram g, out;

	gram_hex(&g, fpdus[_i]);
	ulpdu = diw_get16(g.b);
	tail = diw_fpdu_tail(ulpdu);
	head = g.len - tail;
	ck_assert_uint_eq(diw_fpdu_bare(ulpdu), g.len);
	ck_assert_uint_eq(diw_fpdu_wire_len(g.b, g.len, 0, false), g.len);
	ck_assert_uint_eq(diw_fpdu_wire_len(g.b, 1, 0, false), 0);
	memcpy(out.b, g.b, head);
	diw_fpdu_put_tail(out.b + head, tail, true, diw_crc32c(0, g.b, head));
	ck_assert_mem_eq(out.b, g.b, g.len);
	ck_assert(diw_fpdu_is_good(0, g.b, g.len));
	for (uint32_t n = 0; n < g.len; n++) {
		g.b[n] ^= 1;
		ck_assert(!diw_fpdu_is_good(0, g.b, g.len));
		g.b[n] ^= 1;
	}
	diw_fpdu_put_tail(out.b + head, tail, false, 0);
	for (uint32_t n = head; n < g.len; n++)
		ck_assert_uint_eq(out.b[n], 0);
}
END_TEST

/* A marker is at every 512th octet of the stream, wherever the FPDU begins; in front of its first octet it is 0. */
START_TEST(markers)
{
	uint8_t p[2048], bare[1500];

	for (size_t i = 0; i < sizeof bare; i++)
		bare[i] = (uint8_t)(i * 7 + 3);
	diw_put16(bare, 1500 - 2 - 6);
	for (uint32_t pos = 0; pos < 1024; pos += 4) {
		uint32_t first = (512 - pos % 512) % 512, len;

		memcpy(p, bare, sizeof bare);
		len = diw_fpdu_insert_markers(p, sizeof bare, pos);
		ck_assert_uint_eq(len, sizeof bare + 4 * (1 + (sizeof bare - 1 - first) / 508));
		ck_assert_uint_eq(diw_fpdu_wire_len(p, len, pos, true), len);
		for (uint32_t at = first; at < len; at += 512) {
			ck_assert_uint_eq(diw_get16(p + at), 0);
			ck_assert_uint_eq(diw_get16(p + at + 2), at ? at - (first ? 0 : 4) : 0);
		}
		ck_assert(diw_fpdu_markers_point(p, len, pos));
		p[first + 3] ^= 4;
		ck_assert(!diw_fpdu_markers_point(p, len, pos));
		diw_fpdu_strip_markers(p, len, pos);
		ck_assert_mem_eq(p, bare, sizeof bare);
	}
}
END_TEST

/* rc-wire.md section 2.1: the capabilities behind an application's data. If one octet of magic or length differs, they
 * are data. */
START_TEST(takes)
{
	unsigned takes = 0;
	uint8_t out[12];
	struct gram g;

	gram_hex(&g, "61 62 64 69 77 37 33 30 36 8f 0c 00 00 07");
	diw_takes_put(out, DIW_TAKES_7306 | DIW_TAKES_SEND_IMM | DIW_TAKES_WORDS);
	ck_assert_mem_eq(out, g.b + 2, sizeof out);
	ck_assert(diw_takes_get(g.b, g.len, &takes));
	ck_assert_uint_eq(takes, 7);
	ck_assert(!diw_takes_get(g.b + 3, g.len - 3, &takes));
	for (uint32_t n = 2; n < 11; n++) {
		g.b[n] ^= 1;
		ck_assert(!diw_takes_get(g.b, g.len, &takes));
		g.b[n] ^= 1;
	}
}
END_TEST

/* rc-wire.md section 2.3. */
START_TEST(library_hellos)
{
	const struct diw_qp_hello from = { 0x19c41, 0x29c42, 7 };
	struct diw_qp_hello qp;
	struct rs_hello rs;
	uint8_t out[20];
	struct gram g;

	gram_hex(&g, "64 69 77 2d 6f 66 20 31 00 01 9c 41 00 02 9c 42 00 00 00 07");
	diw_qp_hello_put(out, &from);
	ck_assert_mem_eq(out, g.b, sizeof out);
	ck_assert(diw_qp_hello_get(&qp, g.b, g.len));
	ck_assert(qp.from == from.from && qp.to == from.to && qp.rq_psn == from.rq_psn);
	ck_assert(!diw_qp_hello_get(&qp, g.b, g.len - 1));
	ck_assert(!diw_qp_hello_get(&qp, g.b, g.len + 1));
	g.b[7]++;
	ck_assert(!diw_qp_hello_get(&qp, g.b, g.len));

	gram_hex(&g, "64 52 53 31 00 20 00 00 00 01 00 00");
	rs_hello_put(out, &(struct rs_hello){ 32, 65536 });
	ck_assert_mem_eq(out, g.b, g.len);
	ck_assert(rs_hello_get(g.b, g.len, &rs));
	ck_assert(rs.slots == 32 && rs.data == 65536);
	ck_assert(!rs_hello_get(g.b, g.len - 1, &rs));
	for (uint32_t n = 0; n < 8; n++) {
		if (n == 4 || n == 5)
			continue;
		g.b[n]++;
		ck_assert(!rs_hello_get(g.b, g.len, &rs));
		g.b[n]--;
	}
	g.b[5] = 1;                             /* one slot */
	ck_assert(!rs_hello_get(g.b, g.len, &rs));
}
END_TEST

/* ud-profile.md section 16, V22; octets 48 to 287 of it are 0. */
START_TEST(service)
{
	const struct diw_service from = { .kind = DIW_SERVICE_REQUEST, .number = 0x0123456789abcdef, .qpn = 0x8e6f,
					  .qkey = 0x01234567, .data = "hello", .len = 5 };
	static const uint8_t checked[] = { 0, 1, 2, 3, 4, 16, 17, 18 };
	uint8_t out[DIW_SERVICE_LEN], page[DIW_SERVICE_LEN] = { 0 };
	struct diw_service s;
	struct gram g;

	gram_hex(&g, "64 69 77 75 01 01 00 00 01 23 45 67 89 ab cd ef "
		     "01 11 00 05 00 00 8e 6f 01 23 45 67 00 00 00 00 "
		     "68 65 6c 6c 6f 00 00 00 00 00 00 00 00 00 00 00 91 dd ef fa");
	memcpy(page, g.b, 48);
	memcpy(page + DIW_SERVICE_CRC_AT, g.b + 48, 4);
	memset(out, 0xff, sizeof out);
	diw_service_put(out, &from);
	ck_assert_mem_eq(out, page, DIW_SERVICE_CRC_AT);
	ck_assert_uint_eq(diw_crc32(0, out, DIW_SERVICE_CRC_AT), diw_get32le(page + DIW_SERVICE_CRC_AT));
	ck_assert(diw_service_get(&s, page, sizeof page));
	ck_assert(s.kind == from.kind && s.status == 0 && s.number == from.number && s.qpn == from.qpn);
	ck_assert(s.qkey == from.qkey && s.len == 5 && memcmp(s.data, "hello", 5) == 0);
	ck_assert(!diw_service_get(&s, page, sizeof page - 1));
	ck_assert(!diw_service_get(&s, page, sizeof page + 1));
	for (size_t n = 0; n < sizeof checked; n++) {
		page[checked[n]] ^= 2;
		ck_assert(!diw_service_get(&s, page, sizeof page));
		page[checked[n]] ^= 2;
	}
	page[7] = DIW_SERVICE_REJECTED;
	page[19] = UINT8_MAX;
	ck_assert(diw_service_get(&s, page, sizeof page) && s.status == DIW_SERVICE_REJECTED && s.len == UINT8_MAX);
}
END_TEST

/* docs/streams.md: the Request of an initiator. For each prefix, the valid fields are known. */
START_TEST(stream_hello)
{
	const struct diw_stream_hello from = { .crc = true, .key = 0x1122334455667788, .own = 0x99aabbccddeeff00,
					       .most = 4096 };
	struct diw_stream_hello h;
	uint8_t out[DIW_STREAM_HELLO];
	struct gram g;

	gram_hex(&g, "4d 50 41 20 49 44 20 52 65 71 20 46 72 61 6d 65 40 01 00 1c 64 69 77 73 74 72 6d 01 "
		     "11 22 33 44 55 66 77 88 99 aa bb cc dd ee ff 00 00 00 10 00");
	ck_assert_uint_eq(g.len, sizeof out);
	diw_stream_hello_encode(out, &from);
	ck_assert_mem_eq(out, g.b, g.len);
	for (uint32_t n = 0; n <= g.len; n++) {
		ck_assert(diw_stream_hello_decode(&h, false, g.b, n));
		ck_assert_int_eq(h.has_key, n >= 36);
		ck_assert_int_eq(h.whole, n == g.len);
		ck_assert(!h.has_key || h.key == from.key);
		ck_assert(n == 0 || n > 8 || diw_stream_hello_decode(&h, true, g.b, n));
		ck_assert(n < 11 || !diw_stream_hello_decode(&h, true, g.b, n));
	}
	diw_stream_hello_decode(&h, false, g.b, g.len);
	ck_assert(h.crc && h.own == from.own && h.most == 4096);
	g.b[16] = 0;
	ck_assert(diw_stream_hello_decode(&h, false, g.b, g.len) && !h.crc);
	for (uint32_t n = 0; n < 28; n++) {
		g.b[n] ^= 1;                    /* of the flags, too: bit 0x01 is reserved */
		ck_assert(!diw_stream_hello_decode(&h, false, g.b, g.len));
		g.b[n] ^= 1;
	}
}
END_TEST

/* rc-wire.md sections 5 and 6: CmpSwap of one word, its response, and immediate data. */
START_TEST(atomic_bodies)
{
	const struct diw_atomic_request from = {
		.op = DIW_ATOMIC_CMP_SWAP, .reqid = 7, .stag = 0xa1b2c37e, .to = 0x00007f0012345008,
		.add_swap = 0x1122334455667788, .mask = UINT64_MAX, .compare = 0x0102030405060708,
		.compare_mask = UINT64_MAX - 1,
	};
	const struct diw_atomic_response response = { 7, 0x0102030405060708 };
	struct diw_atomic_request q;
	struct diw_atomic_response a;
	uint8_t out[DIW_RDMAP_ATOMIC_LEN];
	struct gram g;

	gram_hex(&g, "00 00 00 02 00 00 00 07 a1 b2 c3 7e 00 00 7f 00 12 34 50 08 11 22 33 44 55 66 77 88 "
		     "ff ff ff ff ff ff ff ff 01 02 03 04 05 06 07 08 ff ff ff ff ff ff ff fe");
	ck_assert_uint_eq(g.len, sizeof out);
	diw_atomic_request_put(out, &from);
	ck_assert_mem_eq(out, g.b, g.len);
	g.b[0] = g.b[3] = 0xf2;                 /* reserved bits are ignored */
	q = diw_atomic_request_get(g.b);
	ck_assert(q.op == from.op && q.reqid == from.reqid && q.stag == from.stag && q.to == from.to);
	ck_assert(q.add_swap == from.add_swap && q.mask == from.mask);
	ck_assert(q.compare == from.compare && q.compare_mask == from.compare_mask);
	gram_hex(&g, "00 00 00 07 01 02 03 04 05 06 07 08");
	ck_assert_uint_eq(g.len, DIW_RDMAP_ATOMIC_RESPONSE_LEN);
	diw_atomic_response_put(out, &response);
	ck_assert_mem_eq(out, g.b, g.len);
	a = diw_atomic_response_get(g.b);
	ck_assert(a.reqid == response.reqid && a.value == response.value);
	gram_hex(&g, "00 00 00 00 ca fe 00 42");
	ck_assert_uint_eq(g.len, DIW_RDMAP_IMM_LEN);
	diw_immediate_put(out, 0xcafe0042);
	ck_assert_mem_eq(out, g.b, g.len);
	ck_assert_uint_eq(diw_immediate_get(g.b), 0xcafe0042);
}
END_TEST

/* The bodies of V14 and V15. */
START_TEST(profile_bodies)
{
	struct diw_validation v;
	uint8_t out[DIW_RDMAP_VALIDATION_LEN];
	struct gram g;

	gram_hex(&g, V14_ANSWER);
	diw_flow_put(out, &(struct diw_flow){ 0x51deca11, 2 << 20 });
	ck_assert_mem_eq(out, g.b + 28, DIW_RDMAP_FLOW_LEN);
	ck_assert_uint_eq(diw_flow_get(g.b + 28).number, 0x51deca11);
	ck_assert_uint_eq(diw_flow_get(g.b + 28).window, 2 << 20);
	gram_hex(&g, V15_CHALLENGE);
	v = diw_validation_get(g.b + 28);
	ck_assert(v.kind == DIW_VALIDATION_CHALLENGE && v.opcode == DIW_OP_READ_REQUEST && !v.tagged && !v.reserved);
	diw_validation_put(out, &v);
	ck_assert_mem_eq(out, g.b + 28, sizeof out);
	v.kind = DIW_VALIDATION_PROOF;
	gram_hex(&g, V15_PROOF);
	diw_validation_put(out, &v);
	ck_assert_mem_eq(out, g.b + 28, sizeof out);
	g.b[29] |= 0x80;
	ck_assert(diw_validation_get(g.b + 28).tagged && !diw_validation_get(g.b + 28).reserved);
	for (int bit = 0x10; bit < 0x80; bit <<= 1) {
		g.b[29] = (uint8_t)bit;
		ck_assert(diw_validation_get(g.b + 28).reserved);
	}
}
END_TEST

Suite *suite_codec(void)
{
	Suite *s = suite_create("codec");
	TCase *tc = tcase_create("codec");

	tcase_add_loop_test(tc, plain_header, 0, NPLAIN);
	tcase_add_test(tc, read_request);
	tcase_add_test(tc, atomic_bodies);
	tcase_add_test(tc, profile_bodies);
	tcase_add_loop_test(tc, fpdu, 0, NFPDUS);
	tcase_add_test(tc, markers);
	tcase_add_test(tc, takes);
	tcase_add_test(tc, library_hellos);
	tcase_add_test(tc, service);
	tcase_add_test(tc, stream_hello);
	suite_add_tcase(s, tc);
	return s;
}
