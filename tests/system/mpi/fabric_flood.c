/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that sends 1 GiB of short messages to an endpoint that does not receive them, by libfabric's calls. The memory
 * of the receiver stays bounded, messages of others and the peer's own control messages pass, and at last all messages
 * arrive in order.
 * usage: FI_DIWARP_BUFFERED=BYTES fabric_flood DEVICE [COMMAND]: the shell executes COMMAND at the end.
 */
#include <unistd.h>

#include "tests/system/mpi/fabric_kit.h"

#define SHORT 8192u
#define MESSAGES (1u << 17)
#define PIECES (LARGE / SHORT)
#define WINDOW 64u
#define MOST (160ul << 20)               /* octets: the setting, 65,536 operations, and room for the link's */

static struct end c;
static struct fid_av *c_av;
static fi_addr_t b_of_c;                 /* b's address in it */
static struct fi_cq_tagged_entry e;
static uint8_t ring[WINDOW][SHORT];
static unsigned sent;

static size_t resident(void)
{
	unsigned long all, pages;
	FILE *f = fopen("/proc/self/statm", "r");

	REQUIRE(f && fscanf(f, "%lu %lu", &all, &pages) == 2);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Message I has the octets of piece I modulo PIECES, and its number as remote CQ data. */
static bool flood_one(void)
{
	ssize_t rc = fi_tsenddata(a.ep, out + sent % PIECES * SHORT, SHORT, NULL, sent, b.addr, 1, NULL);

	REQUIRE(rc == 0 || rc == -FI_EAGAIN);
	sent += rc == 0;
	return rc == 0;
}

/* Until no more is taken. */
static void flood(void)
{
	double since = seconds();
	size_t before = resident();

	doing = "a flood of messages without receives";
	while (sent < MESSAGES && seconds() - since < 0.3)
		if (flood_one())
			since = seconds();
		else
			progress();
	REQUIRE(sent < MESSAGES);
	REQUIRE(resident() - before < MOST);
}

/* C has an address vector of its own: endpoints that share one share what they know of a peer. */
static void c_open(void)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	struct fid_av *shared = av;
	uint8_t name[64];
	size_t len = sizeof name;

	REQUIRE(fi_av_open(domain, &attr, &av, NULL) == 0);
	c_av = av;
	end_open(&c);
	av = shared;
	REQUIRE(fi_getname(&c.ep->fid, name, &len) == 0 && fi_av_insert(av, name, 1, &c.addr, 0, NULL) == 1);
	len = sizeof name;
	REQUIRE(fi_getname(&b.ep->fid, name, &len) == 0 && fi_av_insert(c_av, name, 1, &b_of_c, 0, NULL) == 1);
}

static void pass(struct end *from, struct end *to, size_t len)
{
	memset(in, 0xee, sizeof in);
	REQUIRE(fi_trecv(to->ep, in, sizeof in, NULL, to == &c ? b_of_c : from->addr, 2, 0, NULL) == 0);
	REQUIRE(fi_tsend(from->ep, out, len, NULL, from == &c ? b_of_c : to->addr, 2, NULL) == 0);
	REQUIRE(next(to, from, &e, NULL) == 0 && e.tag == 2 && e.len == len);
	expect_in(len);
	REQUIRE(next(from, to, &e, NULL) == 0 && e.flags & FI_SEND);
}

static void others_pass(void)
{
	doing = "messages of others";
	pass(&c, &b, SHORT);
	pass(&c, &b, LARGE);
	pass(&b, &c, LARGE);
	doing = "messages to the peer that is held";
	REQUIRE(fi_trecv(a.ep, in, sizeof in, NULL, b.addr, 2, 0, &in) == 0);
	REQUIRE(fi_tsend(b.ep, out, LARGE, NULL, a.addr, 2, NULL) == 0);
	REQUIRE(next(&b, &a, &e, NULL) == 0 && e.flags & FI_SEND);
	expect_in(LARGE);
	doing = "a message that has to be copied";
	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 1) == -FI_EAGAIN);
	REQUIRE(fi_tinject(c.ep, out, 8, b_of_c, 3) == 0);
}

static void receive_post(unsigned i)
{
	REQUIRE(fi_trecv(b.ep, ring[i % WINDOW], SHORT, NULL, a.addr, 1, 0, ring[i % WINDOW]) == 0);
}

/* A long message may complete after a later short one: only its place in the order of the receives counts. */
static void arrived(const struct fi_cq_tagged_entry *got, unsigned first, bool *there)
{
	unsigned i = (unsigned)got->data;

	REQUIRE(i - first < WINDOW && got->len == SHORT && got->op_context == ring[i % WINDOW]);
	REQUIRE(memcmp(ring[i % WINDOW], out + i % PIECES * SHORT, SHORT) == 0);
	there[i % WINDOW] = true;
}

static void receive_all(void)
{
	bool there[WINDOW] = { false };
	unsigned first = 0, posted = 0;
	double since = seconds();

	doing = "all arrive in order";
	while (first < MESSAGES) {
		struct fi_cq_tagged_entry got[16];
		ssize_t n;

		while (posted < MESSAGES && posted - first < WINDOW)
			receive_post(posted++);
		if (sent < MESSAGES)
			flood_one();
		while (fi_cq_read(a.cq, got, 16) > 0)
			;
		n = fi_cq_read(b.cq, got, 16);
		REQUIRE(n > 0 || n == -FI_EAGAIN);
		for (ssize_t i = 0; i < n; i++)
			arrived(&got[i], first, there);
		for (; there[first % WINDOW]; first++, since = seconds())
			there[first % WINDOW] = false;
		REQUIRE(seconds() - since < PATIENCE);
	}
}

static void released(void)
{
	double since = seconds();

	doing = "the peer is not held any more";
	while (fi_tinject(a.ep, out, 8, b.addr, 4) == -FI_EAGAIN) {
		progress();
		REQUIRE(seconds() - since < PATIENCE);
	}
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 4, 0, NULL) == 0 && next(&b, &a, &e, NULL) == 0 && e.tag == 4);
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, c.addr, 3, 0, NULL) == 0 && next(&b, &c, &e, NULL) == 0 && e.tag == 3);
}

/* An endpoint that is held closes. What is asked of it then does not come, and others with its address vector are not
 * held for it. */
static void held_closes(void)
{
	struct end d = { 0 };
	double held = seconds();

	doing = "an endpoint that is held closes";
	end_open(&d);
	while (seconds() - held < 1) {
		if (fi_tinject(d.ep, out, SHORT, b.addr, 5) == 0)
			held = seconds();
		progress();
	}
	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 6) == -FI_EAGAIN);
	end_close(&d);
	held = seconds();
	while (fi_tinject(a.ep, out, 8, b.addr, 6) == -FI_EAGAIN) {
		progress();
		REQUIRE(seconds() - held < PATIENCE);
	}
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 6, 0, NULL) == 0 && next(&b, &a, &e, NULL) == 0 && e.tag == 6);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	ends_open(argc > 1 ? argv[1] : "diw_lo", FI_VERSION(1, 10), hints);
	c_open();
	fill(1);
	flood();
	others_pass();
	receive_all();
	released();
	held_closes();
	REQUIRE(argc < 3 || system(argv[2]) == 0);
	printf("done\n");
	end_close(&c);
	REQUIRE(fi_close(&c_av->fid) == 0);
	ends_close();
	fi_freeinfo(hints);
	return 0;
}
