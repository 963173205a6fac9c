/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider against a peer that keeps to no protocol (fabric_stranger.h): every message that such a peer may send,
 * and the answers that it leaves out. The endpoints go on, and only operations with this peer suffer.
 * usage: fabric_hostile DEVICE [COMMAND]: the shell executes COMMAND after each check, while its peer is there. */
#include "mpi_glue/msg_hdr.h"
#include "tests/system/mpi/fabric_stranger.h"

#define LONG 100000u                     /* octets of a message that goes by rendezvous */

static struct stranger s;

static void say(const struct glue_hdr *h)
{
	uint8_t p[GLUE_HDR_MAX];

	stranger_send(&s, p, diw_glue_hdr_encode(p, h));
}

/* The header of the next message of KIND that b sends. */
static struct glue_hdr hear(enum glue_kind kind)
{
	struct glue_hdr h;

	REQUIRE(diw_glue_hdr_decode(&h, stranger_hear(&s, (uint8_t)kind), GLUE_HDR_MAX) > 0);
	return h;
}

/* B sends a long message; returns its request. */
static struct glue_hdr request_of(uint64_t flags, void *ctx)
{
	struct iovec iov = { out, LONG };
	const struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .addr = s.addr, .context = ctx };

	REQUIRE(fi_sendmsg(b.ep, &m, FI_COMPLETION | flags) == 0);
	return hear(GLUE_RTS);
}

/* A message of endpoint a passes. */
static void expect_passage(size_t len)
{
	struct fi_cq_tagged_entry c;

	fill(8);
	REQUIRE(fi_trecv(b.ep, in, sizeof in, NULL, a.addr, 12, 0, NULL) == 0);
	REQUIRE(fi_tsend(a.ep, out, len, NULL, b.addr, 12, NULL) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.len == len && c.tag == 12);
	expect_in(len);
	REQUIRE(next(&a, &b, &c, NULL) == 0);
}

/* Every header with every id that may exist, cut at every length. None matches anything, and an endpoint without RMA
 * takes no notice of a write, which needs no match. */
static void check_headers(void)
{
	uint8_t p[64] = { 0 };

	for (uint32_t i = 0; i < GLUE_KINDS * 48; i++) {
		for (size_t k = 1; k < sizeof p; k++)
			p[k] = (uint8_t)(k < 4 ? 0 : rand());
		p[0] = (uint8_t)(GLUE_VERSION << 4 | i / 48);
		p[5] = 0x10;             /* the first generation of the first operations */
		p[4] = p[6] = 0;
		stranger_send(&s, p, i % 48);
	}
	expect_none(&b);
	expect_passage(LONG);
}

/* A receiver that reports several times that a long message has ended, and then requests its octets: the send completes
 * once. */
static void check_repeated_end(void)
{
	struct fi_cq_tagged_entry c;
	struct glue_hdr rts;
	int ctx;

	stranger_listen(&s, 1);
	rts = request_of(0, &ctx);
	for (int i = 0; i < 4; i++)
		say(&(struct glue_hdr){ .kind = GLUE_FIN, .id = rts.id });
	say(&(struct glue_hdr){ .kind = GLUE_CTS, .id = rts.id, .len = 1 });
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &ctx);
	expect_none(&b);
}

/* A receive for many messages is cancelled while a message is under way to it. The buffer is returned with that
 * message, which fails, since its sender has no room for the request for its octets. */
static void check_cancel_many(void)
{
	struct diw_sge sge = { s.room[0], 4, s.mr->stag };
	struct diw_recv_wr recv = { .sge = &sge, .num_sge = 1 };
	struct iovec iov = { in, sizeof in };
	struct fi_cq_tagged_entry c;
	int ctx;
	const struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &ctx };

	REQUIRE(fi_recvmsg(b.ep, &m, FI_MULTI_RECV) == 0);
	say(&(struct glue_hdr){ .kind = GLUE_RTS, .len = 1024 });
	expect_none(&b);
	REQUIRE(fi_cancel(&b.ep->fid, &ctx) == 0);
	expect_none(&b);
	REQUIRE(diw_post_recv(s.qp, &recv, NULL) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == FI_EIO && c.op_context == &ctx && (c.flags & FI_MULTI_RECV));
	expect_none(&b);
}

/* A message that is cut into Sends is complete for its sender when the peer has acknowledged the last one and, with
 * FI_DELIVERY_COMPLETE, when the peer reports that it has all octets. A report before the last octet does not count. */
static void check_pieces(uint64_t flags)
{
	bool reports = flags & FI_DELIVERY_COMPLETE;
	struct fi_cq_tagged_entry c;
	struct glue_hdr rts;
	int ctx;

	stranger_listen(&s, 1);
	rts = request_of(flags, &ctx);
	REQUIRE(rts.len == LONG && (rts.flags & GLUE_REPORT) == (reports ? GLUE_REPORT : 0));
	say(&(struct glue_hdr){ .kind = GLUE_CTS, .id = rts.id, .peer_id = 7, .len = LONG });
	expect_none(&b);
	stranger_listen(&s, (LONG + 16383) / 16384);
	for (uint64_t at = 0; at < LONG; at += 16384) {
		struct glue_hdr data = hear(GLUE_DATA);

		REQUIRE(data.id == 7 && data.to == at);
	}
	if (reports) {
		expect_none(&b);
		say(&(struct glue_hdr){ .kind = GLUE_FIN, .id = rts.id });
	}
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &ctx);
	expect_none(&b);
}

/* Requests for octets that the message does not have are without effect, and so are repetitions of a valid one. */
static void check_clearances(void)
{
	struct glue_hdr rts, cts = { .kind = GLUE_CTS, .peer_id = 9 };
	struct fi_cq_tagged_entry c;
	int ctx;

	stranger_listen(&s, 2);
	rts = request_of(0, &ctx);
	cts.id = rts.id;
	say(&cts);
	for (uint64_t len = LONG + 1; len; len <<= 1) {
		cts.len = len;
		say(&cts);
	}
	REQUIRE(stranger_hears_nothing(&s));
	cts.len = 100;
	for (int i = 0; i < 4; i++)
		say(&cts);
	REQUIRE(hear(GLUE_DATA).id == 9);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &ctx);
	stranger_listen(&s, 2);
	REQUIRE(stranger_hears_nothing(&s));
	expect_none(&b);
}

/* Messages about operations with another peer: b has a send to a and a receive from a, whose ids the stranger knows. */
static void check_others(void)
{
	struct glue_hdr h = { .kind = GLUE_FIN };
	struct fi_cq_tagged_entry c;
	uint32_t id;

	stranger_listen(&s, 1);
	h.id = id = request_of(0, NULL).id;
	say(&h);
	REQUIRE(next(&b, &a, &c, NULL) == 0);
	fill(3);
	REQUIRE(fi_tsend(b.ep, out, LONG, NULL, a.addr, 5, &id) == 0);   /* in the same place: the next generation */
	REQUIRE(fi_trecv(b.ep, in, sizeof in, NULL, a.addr, 6, 0, NULL) == 0);
	for (uint32_t place = 0; place < 64; place++)
		for (uint32_t generation = 0; generation < 8; generation++)
			for (enum glue_kind kind = GLUE_CTS; kind < GLUE_KINDS; kind++) {
				h = (struct glue_hdr){ .kind = kind, .peer_id = 9, .len = 8 };
				h.id = ((id >> GLUE_OP_BITS) + generation) << GLUE_OP_BITS | place;
				say(&h);
			}
	stranger_listen(&s, 1);
	expect_none(&b);
	REQUIRE(fi_trecv(a.ep, in, sizeof in, NULL, b.addr, 5, 0, NULL) == 0);
	REQUIRE(next(&a, &b, &c, NULL) == 0 && c.len == LONG);
	expect_in(LONG);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &id);
	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 6) == 0 && next(&b, &a, &c, NULL) == 0 && c.tag == 6);
}

/* A header with LEN octets behind it. */
static void say_octets(const struct glue_hdr *h, uint32_t len)
{
	uint8_t p[GLUE_HDR_MAX + 64] = { 0 };

	stranger_send(&s, p, diw_glue_hdr_encode(p, h) + len);
}

/* The octets that a CTS asks for, with this id. */
static void write_record(const struct glue_hdr *cts, uint32_t id)
{
	struct diw_sge sge = { s.room[1], (uint32_t)cts->len, s.mr->stag };
	struct diw_send_wr wr = { .opcode = over_rc() ? DIW_WR_WRITE : DIW_WR_WRITE_RECORD, .sge = &sge, .num_sge = 1,
				  .qkey = s.qkey, .imm = id,
				  .flags = DIW_SEND_SIGNALED | DIW_SEND_IMM, .dst.addr = s.to, .stag = cts->stag,
				  .to = cts->to };

	REQUIRE(diw_post_send(s.qp, &wr, NULL) == 0);
	stranger_next(s.sends);
}

/* A message that is longer than any may be is dropped. One that is long, and does not come,
 * does not hold up others; it takes what it was asked for, and nothing else. */
static void check_absurd(void)
{
	struct glue_hdr rts = { .kind = GLUE_RTS, .flags = GLUE_TAGGED, .tag = 18, .id = 1 }, cts;
	struct fi_cq_tagged_entry c;

	REQUIRE(fi_trecv(b.ep, in, 1000, NULL, FI_ADDR_UNSPEC, 18, 0, NULL) == 0);
	stranger_listen(&s, 1);
	for (int shift = 0; shift < 24; shift++) {
		rts.len = (GLUE_MSG_MAX << shift) + 1;
		say(&rts);
	}
	rts.len = UINT64_MAX;
	say(&rts);
	REQUIRE(stranger_hears_nothing(&s));
	rts.len = GLUE_MSG_MAX;
	say(&rts);
	cts = hear(GLUE_CTS);
	REQUIRE(cts.len == 1000 && cts.id == 1);
	expect_passage(LONG);
	for (uint64_t to = 1000; to; to <<= 1)   /* outside of the message */
		say_octets(&(struct glue_hdr){ .kind = GLUE_DATA, .id = cts.peer_id, .to = to }, 1);
	say_octets(&(struct glue_hdr){ .kind = GLUE_DATA, .id = cts.peer_id, .to = UINT64_MAX }, 1);
	if (cts.stag)
		write_record(&cts, cts.peer_id + 1);
	expect_none(&b);
	if (cts.stag)
		write_record(&cts, cts.peer_id);
	for (uint64_t to = 0; to < 1000 && !cts.stag; to += 50)
		say_octets(&(struct glue_hdr){ .kind = GLUE_DATA, .id = cts.peer_id, .to = to }, 50);
	REQUIRE(next(&b, &a, &c, NULL) == FI_ETRUNC && c.len == 1000 && c.tag == 18);
}

/* A message that its sender offers to be read, by an STag that the sender does not have: the receive fails, the sender
 * is told, and other peers are not concerned. */
static void check_unreadable(void)
{
	static const struct { uint64_t to; int err; } offer[] = { { 64, FI_EACCES }, { UINT64_MAX - 8, FI_EINVAL } };
	struct fi_cq_tagged_entry c;

	for (uint32_t i = 0; i < 2; i++) {
		struct glue_hdr fin;

		REQUIRE(fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 19, 0, NULL) == 0);
		stranger_listen(&s, 1);
		say(&(struct glue_hdr){ .kind = GLUE_RTS, .flags = GLUE_TAGGED | GLUE_READABLE, .tag = 19, .id = i,
					.len = LONG, .stag = 0x12345678, .to = offer[i].to });
		REQUIRE(next(&b, &a, &c, NULL) == offer[i].err && c.tag == 19);
		fin = hear(GLUE_FIN);
		REQUIRE(fin.id == i && fin.status == (uint32_t)offer[i].err);
	}
	expect_passage(LONG);
}

/* A peer that asks to send, without end, has a bound of its own; messages of another peer come. */
static void check_flood(void)
{
	uint8_t rts[32];
	const struct glue_hdr h = { .kind = GLUE_RTS, .flags = GLUE_TAGGED, .tag = 14, .len = 256 };
	struct fi_cq_tagged_entry c;
	int kept = 0;

	diw_glue_hdr_encode(rts, &h);
	for (int i = 0; i < (1 << 17) + 100; i++) {
		REQUIRE(stranger_try(&s, rts, sizeof rts) == 0);
		if (i >= 16)
			stranger_next(s.sends);
	}
	for (int i = 0; i < 16; i++)
		stranger_next(s.sends);
	expect_passage(8);
	/* Over RC a Send completes before the endpoint has received it. The message of tag 15 is behind all others. */
	REQUIRE(fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 15, 0, NULL) == 0);
	say(&(struct glue_hdr){ .kind = GLUE_EAGER, .flags = GLUE_TAGGED, .tag = 15 });
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.tag == 15);
	while (fi_trecvmsg(b.ep, &(struct fi_msg_tagged){ .addr = FI_ADDR_UNSPEC, .tag = 14 },
			   FI_PEEK | FI_DISCARD) == 0 && next(&b, &a, &c, NULL) == 0)
		kept++;
	REQUIRE(kept == 1 << 17);        /* two endpoints have this address vector */
}

/* One EAGER message of a Send: TAG, and LEN octets, of which the header says SAYS. */
static uint32_t packed_put(uint8_t *p, uint64_t tag, uint32_t len, uint16_t says)
{
	const struct glue_hdr h = { .kind = GLUE_EAGER, .flags = GLUE_TAGGED, .packed = says, .tag = tag };
	uint32_t n = diw_glue_hdr_encode(p, &h);

	memset(p + n, (int)tag, len);
	return n + len;
}

/* Sends P with LEN octets. The messages with the tags 21 to 20 + COMES come, each of 3 octets, and no other. */
static void packed_send(const uint8_t *p, uint32_t len, unsigned comes)
{
	struct fi_cq_tagged_entry c;

	stranger_send(&s, p, len);
	for (unsigned i = 0; i < comes; i++) {
		memset(in, 0xee, 4);
		REQUIRE(fi_trecv(b.ep, in, 4, NULL, FI_ADDR_UNSPEC, 21 + i, 0, NULL) == 0);
		REQUIRE(next(&b, &a, &c, NULL) == 0 && c.tag == 21 + i && c.len == 3);
		REQUIRE(in[0] == 21 + i && in[1] == in[0] && in[2] == in[0] && in[3] == 0xee);
	}
	expect_none(&b);
	expect_passage(LONG);
}

/* Sends of several messages: what is behind the first malformed one is dropped. The room for a Send ends at its last
 * octet, so a reader that goes on reads octets of an earlier Send. */
static void check_packed(void)
{
	static const struct glue_hdr fin = { .kind = GLUE_FIN, .id = 0x00100001 };
	static const uint16_t wrong[] = { 0, 5, 0xffff };
	uint8_t p[GLUE_PACK + 8];
	uint32_t n;

	n = packed_put(p, 21, 3, 4);
	n += packed_put(p + n, 22, 3, 4);
	packed_send(p, n, 2);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {     /* the second one's length */
		n = packed_put(p, 21, 3, 4);
		n += packed_put(p + n, 30, 3, wrong[i]);
		packed_send(p, n, 1);
	}
	for (uint32_t cut = 1; cut < GLUE_HDR_MIN + 8; cut++) {         /* within the second one's header */
		n = packed_put(p, 21, 3, 4);
		packed_put(p + n, 30, 3, 4);
		packed_send(p, n + cut, 1);
	}
	n = packed_put(p, 21, 3, 4);
	n += diw_glue_hdr_encode(p + n, &fin);
	packed_send(p, n, 1);
	for (n = 0; n + 16 <= GLUE_PACK;)       /* as many as go into one Send: an op each */
		n += packed_put(p + n, 40, 0, 1);
	stranger_send(&s, p, n);
	for (uint32_t i = 0; i < n / 16; i++) {
		struct fi_cq_tagged_entry c;

		REQUIRE(fi_trecv(b.ep, in, 4, NULL, FI_ADDR_UNSPEC, 40, 0, NULL) == 0);
		REQUIRE(next(&b, &a, &c, NULL) == 0 && c.tag == 40 && c.len == 0);
	}
	expect_none(&b);
}

static void check_acknowledged(void) { check_pieces(FI_TRANSMIT_COMPLETE); }
static void check_delivered(void) { check_pieces(FI_DELIVERY_COMPLETE); }

static const struct { const char *name; void (*run)(void); } checks[] = {
	{ "repeated end", check_repeated_end }, { "cancel many", check_cancel_many },
	{ "acknowledged", check_acknowledged }, { "delivered", check_delivered },
	{ "clearances", check_clearances }, { "others", check_others }, { "headers", check_headers },
	{ "packed", check_packed },
	{ "absurd", check_absurd }, { "unreadable", check_unreadable }, { "flood", check_flood },
};

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && (argc == 2 || argc == 3));
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE;
	ends_open(argv[1], FI_VERSION(1, 5), hints);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		doing = checks[i].name;
		if (over_rc() && checks[i].run == check_unreadable)
			continue;        /* a refused Read ends the connection: fabric_rma */
		stranger_open(&s);
		checks[i].run();
		REQUIRE(argc == 2 || system(argv[2]) == 0);
		stranger_close(&s);
		printf("right: %s\n", doing);
	}
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
