/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider against a peer that keeps to no protocol (fabric_stranger.h): every message that such a peer may send,
 * and the answers that it leaves out. The endpoints go on, and only operations with this peer suffer. */
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

	for (uint32_t i = 0; i < 8 * 48; i++) {
		for (size_t k = 1; k < sizeof p; k++)
			p[k] = (uint8_t)(k < 4 ? 0 : rand());
		p[0] = (uint8_t)(0x10 | i / 48);
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
	while (fi_trecvmsg(b.ep, &(struct fi_msg_tagged){ .addr = FI_ADDR_UNSPEC, .tag = 14 },
			   FI_PEEK | FI_DISCARD) == 0 && next(&b, &a, &c, NULL) == 0)
		kept++;
	REQUIRE(kept == 1 << 17);        /* two endpoints have this address vector */
}

static void check_acknowledged(void) { check_pieces(FI_TRANSMIT_COMPLETE); }
static void check_delivered(void) { check_pieces(FI_DELIVERY_COMPLETE); }

static const struct { const char *name; void (*run)(void); } checks[] = {
	{ "repeated end", check_repeated_end }, { "cancel many", check_cancel_many },
	{ "acknowledged", check_acknowledged }, { "delivered", check_delivered },
	{ "headers", check_headers }, { "flood", check_flood },
};

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && argc == 2);
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE;
	ends_open(argv[1], FI_VERSION(1, 5), hints);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		doing = checks[i].name;
		stranger_open(&s);
		checks[i].run();
		stranger_close(&s);
		printf("right: %s\n", doing);
	}
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
