/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams above the link. The peers send random segments; the link acknowledges, refuses or gives up this
 * end's requests at random. Nothing is read or written outside the region (the sanitizer checks that), every request
 * ends once, and no place is lost.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/rng.h"
#include "rdmap/rd.h"
#include "tests/unit/unit.h"

#define PEERS 4u
#define REQUESTS 64u
#define RECVS 8u
#define REGION 4096u
#define WAY 48u                      /* segments under way to a peer */
#define STEPS 20000u
#define TO 0x5000u
#define QKEY 7u
#define QUOTE (DIW_TERM_FIXED + DIW_U_MSN)       /* where an error message has the MSN */

struct under_way { uint32_t number, at, len; void *owner; };
struct asked { struct diw_ddp_hdr h; struct diw_read_request q; };       /* a Read or atomic of this end */

static struct {
	struct diw_rng rng;
	struct diw_counters c;
	struct diw_stag_table stags;
	struct diw_stag region;
	struct diw_rdmap r;
	struct diw_link link;
	uint8_t *mem;
	struct under_way way[PEERS][WAY];
	uint32_t nway[PEERS];
	struct asked asked[PEERS];
	bool refused[PEERS], full[PEERS];
	struct diw_ddp_hdr last[PEERS];      /* the header of the last segment of that peer */
	struct diw_recv recv[RECVS];
	struct diw_ddp_sge recv_sge;
	bool taken[RECVS], room;
	uint32_t begun, done, placed;
} f;

static uint32_t below(uint32_t n) { return (uint32_t)(diw_rng_next(&f.rng) % n); }

static struct diw_addr peer_addr(uint32_t i)
{
	return (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 }, .port = (uint16_t)(1000 + i) };
}

static uint32_t peer_of(const struct diw_addr *a) { return a->port - 1000u; }

/* ---- The link below ---- */

static void request_seen(uint32_t peer, const struct diw_link_seg *g)
{
	struct asked *a = &f.asked[peer];
	struct diw_ddp_hdr h;
	uint32_t n;

	if ((g->hdr[1] & DIW_RDMAP_OP) != DIW_OP_READ_REQUEST && (g->hdr[1] & DIW_RDMAP_OP) != DIW_OP_ATOMIC_REQUEST)
		return;
	diw_ddp_hdr_decode(&h, &n, g->hdr, g->hdr_len);
	a->h.msn = h.msn;
	a->h.opcode = h.opcode;
	if (h.opcode == DIW_OP_READ_REQUEST)
		a->q = diw_read_request_get(g->iov->iov_base);
}

static int fuzz_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n,
		     uint64_t now)
{
	uint32_t peer = peer_of(&dst->addr);
	int i;

	(void)now;
	for (i = 0; i < n && f.nway[peer] < WAY && below(8); i++) {
		f.way[peer][f.nway[peer]++] = (struct under_way){ l->taken++, segs[i].at, segs[i].len, segs[i].owner };
		request_seen(peer, &segs[i]);
	}
	f.full[peer] |= i < n;
	return i;
}

static uint32_t fuzz_mulpdu(struct diw_link *l, const struct diw_addr *dst)
{
	(void)l, (void)dst;
	return 400;
}

static void fuzz_refuse(struct diw_link *l, const struct diw_addr *src, uint16_t fault)
{
	(void)l;
	ck_assert_uint_ne(fault, 0);
	f.refused[peer_of(src)] = true;
}
static void fuzz_take_acks(struct diw_link *l) { (void)l; }

static const struct diw_link_ops link_ops = { .send = fuzz_send, .mulpdu = fuzz_mulpdu, .refuse = fuzz_refuse,
	.take_acks = fuzz_take_acks };

/* ---- The verbs above ---- */

static struct diw_recv *fuzz_take(void *ctx)
{
	uint32_t i = below(RECVS);

	(void)ctx;
	if (f.taken[i])
		return NULL;
	f.taken[i] = true;
	return &f.recv[i];
}

static void fuzz_give_back(void *ctx, struct diw_recv *r)
{
	(void)ctx;
	ck_assert(f.taken[r - f.recv]);
	f.taken[r - f.recv] = false;
}

static uint32_t fuzz_posted(void *ctx) { (void)ctx; return RECVS; }
static bool fuzz_room(void *ctx, uint32_t n) { (void)ctx, (void)n; return f.room; }

static void fuzz_recv_done(void *ctx, struct diw_recv *r, const struct diw_ddp_seg *seg, uint16_t fault)
{
	(void)seg, (void)fault;
	fuzz_give_back(ctx, r);
}

static bool fuzz_record_done(void *ctx, struct diw_record *r, uint32_t lo, uint32_t hi, bool end)
{
	(void)ctx, (void)r, (void)lo, (void)hi, (void)end;
	return false;
}

static const struct diw_rdmap_up fuzz_up = {
	.recvs = { .take = fuzz_take, .give_back = fuzz_give_back, .posted = fuzz_posted, .room = fuzz_room },
	.recv_done = fuzz_recv_done, .record_done = fuzz_record_done,
};

/* ---- What happens ---- */

/* A header that is often valid: it continues the peer's message, answers a request, or begins a message. */
static struct diw_ddp_hdr header_draw(uint32_t peer, uint32_t *len)
{
	struct diw_ddp_hdr h = { .qkey = QKEY, .opcode = (uint8_t)below(16), .epoch = 1, .msn = below(4),
				 .stag = f.region.stag, .to = TO + below(REGION + 64), .length = below(1200),
				 .imm_valid = !below(4), .solicited = !below(8), .inv_stag = 0 };
	const struct asked *a = &f.asked[peer];

	if (below(2)) {
		h = f.last[peer];
		h.mo += *len;
		h.to += *len;
	}
	h.tagged = diw_rdmap_ops[h.opcode].tagged ^ !below(20);
	h.qn = diw_rdmap_ops[h.opcode].qn;
	if (diw_op_invalidates(h.opcode))
		h.inv_stag = below(2) ? f.region.stag : below(1u << 31);
	if (h.opcode == DIW_OP_READ_RESPONSE || h.opcode == DIW_OP_ATOMIC_RESPONSE || h.opcode == DIW_OP_TERMINATE) {
		h.msn = a->h.msn;
		h.imm_valid = h.solicited = false;
	}
	if (h.opcode == DIW_OP_READ_RESPONSE) {
		h.stag = a->q.sink_stag;
		h.length = a->q.length;
		h.to = a->q.sink_to + h.mo;
	}
	*len = h.length > h.mo ? h.length - h.mo : 0;
	*len = *len > 300 || !below(8) ? below(300) : *len;
	h.last = (h.mo + *len == h.length) ^ !below(50);
	return h;
}

static void body_put(const struct diw_ddp_hdr *h, uint8_t *p, uint32_t msn)
{
	const struct diw_read_request q = { 5, 6, below(1200), f.region.stag, TO + below(REGION) };
	const struct diw_atomic_request at = { .op = below(3) ? DIW_ATOMIC_FETCH_ADD : (uint8_t)below(16),
					       .add_swap = 1, .stag = f.region.stag,
					       .to = TO + below(REGION + 8) / 8 * 8 };

	if (h->opcode == DIW_OP_READ_REQUEST)
		diw_read_request_put(p, &q);
	else if (h->opcode == DIW_OP_ATOMIC_REQUEST)
		diw_atomic_request_put(p, &at);
	else if (h->opcode == DIW_OP_TERMINATE)
		diw_put32(p + QUOTE, msn);
}

/* The segment has its own allocation of its exact length, so the sanitizer finds a read behind its end. */
static int segment_rx(const struct diw_addr *src, const uint8_t *octets, uint32_t len, uint32_t placed)
{
	struct diw_link_rxseg seg = { .len = len, .placed = placed };
	uint8_t *p = malloc(len > placed ? len - placed : 1);
	int n;

	memcpy(p, octets, len - placed);
	seg.data = p;
	n = diw_ddp_peers_up.rx(diw_rdmap_link_ctx(&f.r), src, &seg, 1, 1);
	free(p);
	return n;
}

/* The place of the octets from AT on, which the segment's first AT octets tell. The question changes nothing. */
static uint8_t *segment_place(const struct diw_addr *src, const uint8_t *octets, uint32_t len, uint32_t at)
{
	const struct diw_rdmap_wr *done = diw_rdmap_rd_done(&f.r);
	const struct diw_counters before = f.c;
	struct iovec iov[DIW_LINK_IOV];
	uint8_t *head = malloc(at);
	const struct diw_link_rxseg seg = { .data = head, .len = len };
	int n;

	memcpy(head, octets, at);
	n = diw_ddp_peers_up.reach(diw_rdmap_link_ctx(&f.r), src, &seg, at, iov, 1);
	free(head);
	ck_assert_ptr_eq(diw_rdmap_rd_done(&f.r), done);
	ck_assert_mem_eq(&f.c, &before, sizeof before);
	ck_assert_int_ge(n, 0);
	ck_assert_int_le(n, 1);
	if (!n)
		return NULL;
	ck_assert_uint_eq(iov->iov_len, len - at);
	return iov->iov_base;
}

/* The segment is received in place if it has a place. Then it is taken. */
static void segment_received(uint32_t peer, const uint8_t *octets, uint32_t len)
{
	uint32_t at = DIW_LINK_MAX_HDR + below(20), n;
	const struct diw_addr src = peer_addr(peer);
	uint8_t *to = at < len && below(2) ? segment_place(&src, octets, len, at) : NULL;
	struct diw_ddp_hdr h;

	if (!to) {
		segment_rx(&src, octets, len, 0);
		return;
	}
	memcpy(to, octets + at, len - at);
	ck_assert_int_eq(segment_rx(&src, octets, len, len - at), 1);
	ck_assert(!f.refused[peer]);
	ck_assert_uint_eq(diw_ddp_hdr_decode(&h, &n, octets, len), 0);
	ck_assert_mem_eq(to - (at - n), octets + n, len - n);
	f.placed++;
}

static void segment_comes(void)
{
	uint32_t peer = below(PEERS), len = f.last[peer].length ? below(300) : 0, n;
	struct diw_ddp_hdr h = header_draw(peer, &len);
	uint8_t octets[DIW_DDP_MAX_LEN + 512], body[512];

	if (f.refused[peer]) {                  /* the peer begins anew */
		f.refused[peer] = below(4);
		return;
	}
	for (uint32_t i = 0; i < sizeof body; i++)
		body[i] = (uint8_t)below(256);
	if (h.opcode == DIW_OP_READ_REQUEST || h.opcode == DIW_OP_ATOMIC_REQUEST || h.opcode == DIW_OP_TERMINATE ||
	    h.opcode == DIW_OP_ATOMIC_RESPONSE) {
		len = below(10) ? h.opcode == DIW_OP_READ_REQUEST ? DIW_RDMAP_READ_LEN :
				  h.opcode == DIW_OP_ATOMIC_REQUEST ? DIW_RDMAP_ATOMIC_LEN :
				  h.opcode == DIW_OP_TERMINATE ? 40 : DIW_RDMAP_ATOMIC_RESPONSE_LEN : below(60);
		h.mo = 0;
		h.length = len;
		h.last = true;
	}
	body_put(&h, body, f.asked[peer].h.msn);
	n = diw_ddp_hdr_encode(octets, &h);
	memcpy(octets + n, body, sizeof body);
	f.room = below(4);
	f.last[peer] = h;
	if (!below(10))
		octets[below(n)] = (uint8_t)below(256);
	segment_received(peer, octets, below(50) ? n + len : below(n + len));
}

static void request_begins(void)
{
	static const uint8_t ops[] = { DIW_OP_SEND, DIW_OP_WRITE, DIW_OP_WRITE_RECORD, DIW_OP_READ_REQUEST,
				       DIW_OP_ATOMIC_REQUEST, DIW_OP_LOCAL_INV };
	uint8_t op = ops[below(sizeof ops)], data[100] = { 0 };
	uint32_t len = op == DIW_OP_ATOMIC_REQUEST ? 8 : below(3000);
	const struct diw_ddp_sge sge = { TO + below(REGION - len), len, f.region.stag };
	struct diw_rdmap_wr wr = { .opcode = op, .fence = !below(4), .invalidate = !below(10), .qkey = QKEY,
				   .dst.addr = peer_addr(below(PEERS)), .buf = { &sge, 1, len }, .stag = 3, .to = 8,
				   .inv_stag = below(4) ? 0 : f.region.stag };

	if (op == DIW_OP_SEND && below(2)) {
		wr.inline_data = data;
		wr.buf = (struct diw_ddp_buf){ NULL, 0, below(sizeof data) };
	}
	f.begun += diw_rdmap_rd_begin(&f.r, &wr);
}

/* Reads a request's payload, as the link does when it transmits. */
static void payload_asked(void)
{
	uint32_t peer = below(PEERS);
	const struct under_way *u = &f.way[peer][f.nway[peer] ? below(f.nway[peer]) : 0];
	struct iovec iov[DIW_LINK_IOV];
	uint32_t left = u->len;
	volatile uint8_t sum = 0;
	int n;

	if (!f.nway[peer] || !u->owner || !u->len)
		return;
	n = diw_ddp_peers_up.payload(diw_rdmap_link_ctx(&f.r), u->owner, u->at, u->len, iov);
	ck_assert_int_le(n, DIW_LINK_IOV);
	for (int i = 0; i < n; i++)
		for (size_t k = 0; k < iov[i].iov_len && left; k++, left--)
			sum = (uint8_t)(sum + ((uint8_t *)iov[i].iov_base)[k]);
	ck_assert(n == 0 || left == 0);
}

static void way_take(uint32_t peer, uint32_t n, int errnum)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t number = f.way[peer][i].number;

		if (errnum)
			diw_ddp_peers_up.refused(diw_rdmap_link_ctx(&f.r), number, 1, errnum);
		else
			diw_ddp_peers_up.acked(diw_rdmap_link_ctx(&f.r), number, 1);
	}
	f.nway[peer] -= n;
	memmove(f.way[peer], f.way[peer] + n, f.nway[peer] * sizeof f.way[peer][0]);
}

static void link_tells(uint32_t peer, uint32_t what)
{
	const struct diw_addr a = peer_addr(peer);
	void *ctx = diw_rdmap_link_ctx(&f.r);

	if (what < 20) {
		way_take(peer, f.nway[peer] ? 1 + below(f.nway[peer]) : 0, 0);
	} else if (what == 20) {
		if (!f.nway[peer])
			return;
		way_take(peer, below(f.nway[peer]), 0);
		diw_ddp_peers_up.rejected(ctx, f.way[peer][0].number, (uint16_t)(1 + below(0x1300)));
		way_take(peer, f.nway[peer], ECANCELED);
	} else {
		way_take(peer, what == 22 ? 0 : f.nway[peer], ETIMEDOUT);        /* 22: the peer gave segments up */
		diw_ddp_peers_up.gone(ctx, &a, what == 22 && below(2) ? 0 : ETIMEDOUT);  /* 0: it had forgotten */
	}
	if (f.full[peer])
		diw_ddp_peers_up.room(ctx, below(8) ? &a : NULL);
	f.full[peer] = false;
}

static void requests_end(void)
{
	struct diw_rdmap_wr *wr;

	while ((wr = diw_rdmap_rd_done(&f.r))) {
		f.done++;
		diw_rdmap_rd_release(&f.r, wr);
	}
}

/* The application registers its region anew. */
static void region_renew(void)
{
	diw_stag_remove(&f.stags, &f.region);
	f.region = (struct diw_stag){ .addr = f.mem, .to = TO, .len = REGION, .pd = &f, .access = 1 | 2 | 4 | 8 | 32 };
	ck_assert_int_eq(diw_stag_add(&f.stags, &f.region), 0);
	f.recv_sge = (struct diw_ddp_sge){ TO + 100, 1000, f.region.stag };
}

static void setup(uint64_t seed)
{
	const struct diw_rdmap_attr attr = {
		.type = &diw_rdmap_type_rd, .up = &fuzz_up, .requests = REQUESTS, .peers = 2,
		.request_size = sizeof(struct diw_rdmap_wr) + 128, .ddp.c = &f.c, .ddp.stags = &f.stags,
		.ddp.cfg.max_sources = 1 + (uint32_t)seed % 3, .ddp.cfg.qkey = QKEY, .ddp.user.pd = &f,
	};

	f.rng.state = seed;
	f.link = (struct diw_link){ .ops = &link_ops, .c = &f.c, .up = &diw_ddp_peers_up };
	f.mem = calloc(1, REGION);
	ck_assert_int_eq(diw_stag_init(&f.stags), 0);
	ck_assert_int_eq(diw_stag_add(&f.stags, &f.region), 0);
	region_renew();
	for (uint32_t i = 0; i < RECVS; i++)
		f.recv[i].buf = (struct diw_ddp_buf){ &f.recv_sge, 1, 1000 };
	ck_assert_int_eq(diw_rdmap_init(&f.r, &attr), 0);
	diw_rdmap_set_link(&f.r, &f.link);
}

/* All peers are forgotten, with the places that they held. */
static void nothing_is_left(void)
{
	for (uint32_t i = 0; i < PEERS; i++)
		link_tells(i, 21);
	diw_rdmap_rd_flush(&f.r);
	requests_end();
	ck_assert_uint_eq(f.done, f.begun);
	ck_assert_uint_eq(f.r.rd->reqs.used, 0);
	ck_assert_uint_eq(f.r.rd->dests.used, 0);
	ck_assert_uint_eq(f.r.rd->answers.used, 0);
	ck_assert_uint_eq(f.r.rd->sent.used, 0);
	ck_assert_uint_eq(f.r.rd->askers, 0);
	diw_rdmap_fini(&f.r);
	for (uint32_t i = 0; i < RECVS; i++)
		ck_assert(!f.taken[i]);
	diw_stag_remove(&f.stags, &f.region);
	diw_stag_fini(&f.stags);
	free(f.mem);
}

START_TEST(anything_may_come)
{
	setup((uint64_t)_i);
	for (uint32_t step = 0; step < STEPS; step++) {
		int64_t budget = 1 + below(5000);

		switch (below(8)) {
		case 0: request_begins(); break;
		case 1: diw_rdmap_rd_run(&f.r, &budget, 1); break;
		case 2: link_tells(below(PEERS), below(23)); break;
		case 3: payload_asked(); break;
		case 4: requests_end(); break;
		default: segment_comes();
		}
		if (!below(200))
			region_renew();
	}
	ck_assert_uint_gt(f.begun, STEPS / 100);
	ck_assert_uint_gt(f.c.read_answered, 0);
	ck_assert_uint_gt(f.c.rx_payload, 0);
	ck_assert_uint_gt(f.placed, 0);
	nothing_is_left();
}
END_TEST

Suite *suite_rd_fuzz(void)
{
	Suite *s = suite_create("rd_fuzz");
	TCase *t = tcase_create("rd_fuzz");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, anything_may_come, 0, 20);
	suite_add_tcase(s, t);
	return s;
}
