/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The exchange of both ends: Sends, Writes and Reads of growing sizes, a solicited event, an invalidated STag, the end
 * of the connection. In each part one end acts and the other checks, then the ends change roles. The initiator acts
 * first. If the plan says so, the responder sends the first message. Every byte is compared.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/interop/exchange.h"

enum kind { HELLO = 1, WRITTEN, READ, THANKS, READY, QUIET, LOUD, INVALIDATED };

/* The small messages of the exchange, in network byte order. */
struct word {
	uint32_t kind, stag, victim_stag, spare;
	uint64_t to, victim_to;
};

static struct memory mem;
static struct word peer;             /* the peer's HELLO, in host byte order */
static size_t source, sink, landing, slots, words;

static bool initiator(void)
{
	return plan.addr != NULL;
}

static int check_bytes(const char *what, size_t at, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (mem.base[at + i] != byte_of(!initiator(), i))
			return complain("%s of %u bytes: byte %u is %02x, not %02x", what, len, i, mem.base[at + i],
					byte_of(!initiator(), i));
	return 0;
}

static int say(enum kind kind, unsigned how)
{
	struct word w = {
		.kind = htobe32(kind), .stag = htobe32(mem.stag), .victim_stag = htobe32(mem.victim_stag),
		.to = htobe64(mem.to), .victim_to = htobe64(mem.victim_to),
	};

	memcpy(mem.base + words, &w, sizeof w);
	return end_send(words, sizeof w, how, peer.victim_stag) || end_done(1);
}

static int hear_now(enum kind kind, bool wait, struct got *g, struct word *w)
{
	if (end_recv(g, wait))
		return complain("no message %d", kind);
	memcpy(w, mem.base + g->at, sizeof *w);
	if (g->len != sizeof *w || be32toh(w->kind) != kind)
		return complain("%u bytes of kind %u, not %d", g->len, be32toh(w->kind), kind);
	return end_repost(g->slot);
}

static int hear(enum kind kind)
{
	struct got g;
	struct word w;

	return hear_now(kind, true, &g, &w);
}

static int say_hello(void)
{
	return say(HELLO, 0);
}

static int hear_hello(void)
{
	struct got g;
	struct word w;

	if (hear_now(HELLO, true, &g, &w))
		return -1;
	peer = (struct word){ .stag = be32toh(w.stag), .victim_stag = be32toh(w.victim_stag), .to = be64toh(w.to),
			      .victim_to = be64toh(w.victim_to) };
	return 0;
}

/* ---- One end acts, the other checks ---- */

static int read_all(uint32_t size)
{
	uint32_t each = (size + plan.reads - 1) / plan.reads, at = 0;
	unsigned n = 0;

	for (; at < size; at += each, n++)
		if (end_read(landing + at, size - at < each ? size - at : each, peer.stag, peer.to + source + at))
			return -1;
	if (end_done(n) || check_bytes("Read", landing, size))
		return complain("Read");
	memset(mem.base + landing, 0, size);
	return 0;
}

static int act(uint32_t size)
{
	if (end_send(source, size, 0, 0) || end_done(1))
		return complain("Send of %u bytes", size);
	if (end_write(source, size, peer.stag, peer.to + sink) || end_done(1) || say(WRITTEN, 0))
		return complain("Write of %u bytes", size);
	return read_all(size) || say(READ, 0) || hear(THANKS);
}

static int react(uint32_t size)
{
	struct got g;

	if (end_recv(&g, true))
		return complain("no Send of %u bytes", size);
	if (g.len != size)
		return complain("a Send of %u bytes, not %u", g.len, size);
	if (check_bytes("Send", g.at, size) || end_repost(g.slot) || hear(WRITTEN) || check_bytes("Write", sink, size))
		return -1;
	memset(mem.base + sink, 0, size);
	return hear(READ) || say(THANKS, 0);
}

static int wake(void)
{
	if (hear(READY) || say(QUIET, 0))
		return -1;
	usleep(50000);               /* time for the event that must not come */
	return say(LOUD, HOW_SOLICITED);
}

static int sleep_until_woken(void)
{
	struct got g;
	struct word w;

	if (end_arm() || say(READY, 0) || end_event())
		return complain("the event");
	if (hear_now(QUIET, !end_tells, &g, &w) || (end_tells && g.solicited))
		return complain("of an event nobody asked for");
	if (hear_now(LOUD, !end_tells, &g, &w) || (end_tells && !g.solicited))
		return complain("the solicited message");
	return 0;
}

static int invalidate(void)
{
	return say(INVALIDATED, HOW_INVALIDATE);
}

static int be_invalidated(void)
{
	struct got g;
	struct word w;

	if (hear_now(INVALIDATED, true, &g, &w))
		return -1;
	if (end_tells && (!g.invalidated || g.inv_stag != mem.victim_stag))
		return complain("nothing, or another STag, was invalidated");
	return 0;
}

static int both(int (*first)(void), int (*second)(void))
{
	return initiator() ? first() || second() : second() || first();
}

static int exchange(void)
{
	const uint32_t sizes[] = { 1, 1000, 65537, plan.size };

	if (plan.responder_first ? both(hear_hello, say_hello) : both(say_hello, hear_hello))
		return -1;
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (sizes[i] <= plan.size &&
		    (initiator() ? act(sizes[i]) || react(sizes[i]) : react(sizes[i]) || act(sizes[i])))
			return -1;
	if (both(wake, sleep_until_woken) || both(invalidate, be_invalidated))
		return -1;
	/* siw may notice the end of the stream before it has delivered the last message, and then flushes that
	 * message. So the end that closes waits for THANKS: then nothing is on its way to siw. */
	if (plan.ends ? hear(THANKS) : say(THANKS, 0))
		return -1;
	printf("exchanged %u bytes a message\n", plan.size);
	return 0;
}

/* The peer answers a Write to a stale STag by a Terminate. */
static int farewell(void)
{
	if (!plan.ends)
		return end_gone();
	if (strcmp(plan.end, "abort") == 0)
		return end_abort();
	if (strcmp(plan.end, "stale") == 0)
		return end_write(source, 8, peer.victim_stag, peer.victim_to) || end_gone();
	return end_disconnect() || end_gone();
}

static int play(void)
{
	uint32_t slot = plan.size < 4096 ? 4096 : plan.size;
	struct got g;
	int rc;

	sink = plan.size;
	landing = sink + plan.size;
	slots = landing + plan.size;
	words = slots + SLOTS * (size_t)slot;
	rc = end_meet(&mem, words + sizeof(struct word), slots, slot);
	if (rc || plan.reject)
		return rc < 0 || rc != plan.reject;
	for (uint32_t i = 0; i < plan.size; i++)
		mem.base[source + i] = byte_of(initiator(), i);
	if (initiator())
		usleep(plan.pause_ms * 1000);
	if (plan.quiet && end_recv(&g, false) == 0)
		return complain("a message ahead of the initiator's first");
	return exchange() || farewell();
}

int main(int argc, char **argv)
{
	int rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (plan_options(argc, argv))
		return 2;
	rc = play();
	end_close();
	return rc != 0;
}
