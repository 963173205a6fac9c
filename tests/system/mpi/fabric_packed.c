/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short messages in bursts of calls, which travel several in a Send, by libfabric's calls: they are matched one by one,
 * in the order of the calls, and those that find no receive are kept as long as it takes, in any order of the receives.
 * usage: FI_DIWARP_EAGER=512 FI_DIWARP_BUFFERED=BYTES fabric_packed DEVICE [COMMAND]: the shell executes COMMAND at the
 * end.
 */
#include "tests/system/mpi/fabric_kit.h"

#define MOST 20000u
#define LONGEST 90u
#define ROUNDS 8u

static unsigned sent;

/* The length and the octets of message I. */
static uint32_t message_make(unsigned i, uint8_t *p)
{
	uint32_t len = i * 7 % (LONGEST + 1);

	for (uint32_t k = 0; k < len; k++)
		p[k] = (uint8_t)(i * 31 + k + (i >> 8));
	return len;
}

static bool message_is(unsigned i, const uint8_t *p, size_t len)
{
	uint8_t right[LONGEST];

	return message_make(i, right) == len && memcmp(p, right, len) == 0;
}

/* Sends MOST messages at most, or until no more are taken. The tag is the message's number. */
static void send_all(bool progresses)
{
	unsigned refused = 0;
	uint8_t p[LONGEST];

	for (sent = 0; sent < MOST && refused < 2000;) {
		uint32_t len = message_make(sent, p);
		ssize_t rc = fi_tinject(a.ep, p, len, b.addr, sent);

		REQUIRE(rc == 0 || rc == -FI_EAGAIN);
		sent += rc == 0;
		refused = rc == 0 ? 0 : refused + 1;
		if (rc != 0 || (progresses && sent % 64 == 0))
			progress();
	}
	REQUIRE(sent > 64);
}

/* Sends message I behind those before it, when the receiver takes them again. */
static void send_one(unsigned i, uint64_t tag)
{
	time_t until = time(NULL) + PATIENCE;
	uint8_t p[LONGEST];
	uint32_t len = message_make(i, p);

	while (fi_tinject(a.ep, p, len, b.addr, tag) == -FI_EAGAIN) {
		REQUIRE(time(NULL) < until);
		progress();
	}
}

static void receive_one(unsigned tag)
{
	struct fi_cq_tagged_entry c;

	memset(in, 0xee, LONGEST + 1);
	REQUIRE(fi_trecv(b.ep, in, LONGEST + 1, &sent, a.addr, tag, 0, &sent) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &sent && c.tag == tag);
	REQUIRE(message_is(tag, in, c.len) && in[c.len] == 0xee);
}

/* None finds a receive. STEP: the receives take every STEP-th message, and then those between. */
static void kept(unsigned step, bool progresses)
{
	doing = "messages without receives";
	send_all(progresses);
	for (unsigned from = 0; from < step; from++)
		for (unsigned tag = from; tag < sent; tag += step)
			receive_one(tag);
}

/* Receives for any tag are posted for every second message of a burst, so that a Send has both kinds. */
static void half_kept(void)
{
	enum { BURST = 60 };
	static uint8_t room[BURST][LONGEST];
	struct fi_cq_tagged_entry c;

	doing = "every second message finds a receive";
	for (unsigned i = 0; i < BURST; i += 2)
		REQUIRE(fi_trecv(b.ep, room[i], LONGEST, NULL, a.addr, i, 0, room[i]) == 0);
	for (unsigned i = 0; i < BURST; i++)
		send_one(i, i);
	for (unsigned i = 0; i < BURST; i += 2) {
		REQUIRE(next(&b, &a, &c, NULL) == 0 && c.tag == i && c.op_context == room[i]);
		REQUIRE(message_is(i, room[i], c.len));
	}
	for (unsigned i = 1; i < BURST; i += 2)
		receive_one(i);
}

/* All have one tag: the order of the calls counts. */
static void in_order(void)
{
	enum { BURST = 200 };
	static uint8_t room[BURST][LONGEST];
	struct fi_cq_tagged_entry c;

	doing = "the order of the calls";
	for (unsigned i = 0; i < BURST; i++)
		send_one(i, 5);
	for (unsigned i = 0; i < BURST; i++)
		REQUIRE(fi_trecv(b.ep, room[i], LONGEST, NULL, a.addr, 5, 0, room[i]) == 0);
	for (unsigned i = 0; i < BURST; i++) {
		REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == room[i]);
		REQUIRE(message_is(i, room[i], c.len));
	}
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && (argc == 2 || argc == 3));
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV;
	ends_open(argv[1], FI_VERSION(1, 5), hints);
	for (unsigned round = 0; round < ROUNDS; round++) {
		kept(1 + round * 5, round & 1);
		half_kept();
		in_order();
	}
	REQUIRE(argc == 2 || system(argv[2]) == 0);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
