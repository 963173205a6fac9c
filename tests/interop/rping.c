/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rping's protocol, as Debian's rping implements it, on our end. A round: the client sends the address of its source;
 * the server reads it and reports that. The client sends the address of its sink; the server writes the same data there
 * and reports that.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/interop/exchange.h"

struct info {
	uint64_t buf;
	uint32_t rkey, size;
};
#define INFO_BYTES 16u
#define SLOT_BYTES 4096u

static struct memory mem;
static size_t source, sink, slots, words;

static int tell(size_t at)
{
	struct info i = { htobe64(mem.to + at), htobe32(mem.stag), htobe32(plan.size) };

	memcpy(mem.base + words, &i, INFO_BYTES);
	return end_send(words, INFO_BYTES, 0, 0) || end_done(1);
}

static int told(struct info *i)
{
	struct got g;

	if (end_recv(&g, true))
		return -1;
	if (g.len != INFO_BYTES)
		return complain("%u bytes where rping sends %u", g.len, INFO_BYTES);
	memcpy(i, mem.base + g.at, INFO_BYTES);
	*i = (struct info){ be64toh(i->buf), be32toh(i->rkey), be32toh(i->size) };
	return end_repost(g.slot);
}

/* Fills the source like rping: "rdma-ping-N: ", letters, a zero. */
static void fill(char *p, unsigned round)
{
	unsigned at = (unsigned)snprintf(p, plan.size, "rdma-ping-%u: ", round);

	for (unsigned c = 65 + round % 58; at < plan.size; at++, c = c == 122 ? 65 : c + 1)
		p[at] = (char)c;
	p[plan.size - 1] = 0;
}

static int client_round(unsigned round)
{
	struct info go;

	fill((char *)mem.base + source, round);
	memset(mem.base + sink, 0, plan.size);
	if (tell(source) || told(&go) || tell(sink) || told(&go))
		return -1;
	return memcmp(mem.base + source, mem.base + sink, plan.size) == 0 ? 0 : complain("another ping comes back");
}

/* rping's data ends in a zero; it writes back only the text before it. */
static int server_round(unsigned round)
{
	struct info i;

	if (told(&i))
		return -1;
	if (i.size != plan.size)
		return complain("a ping of %u bytes, not %u", i.size, plan.size);
	fill((char *)mem.base + source, round);
	memset(mem.base + sink, 0, plan.size);
	if (end_read(sink, i.size, i.rkey, i.buf) || end_done(1))
		return -1;
	if (memcmp(mem.base + source, mem.base + sink, plan.size) != 0)
		return complain("not ping %u but %.60s", round, (char *)mem.base + sink);
	if (tell(sink) || told(&i))
		return -1;
	return end_write(sink, i.size, i.rkey, i.buf) || end_done(1) || tell(sink);
}

static int play(void)
{
	unsigned round;

	sink = plan.size;
	slots = 2 * (size_t)plan.size;
	words = slots + SLOTS * SLOT_BYTES;
	if (end_meet(&mem, words + INFO_BYTES, slots, SLOT_BYTES))
		return -1;
	usleep(plan.pause_ms * 1000);
	for (round = 0; round < plan.count; round++)
		if (plan.addr ? client_round(round) : server_round(round))
			return complain("round %u", round);
	printf("rping: %u rounds of %u bytes\n", round, plan.size);
	return plan.addr ? end_disconnect() || end_gone() : end_gone();
}

int main(int argc, char **argv)
{
	int rc;

	setvbuf(stdout, NULL, _IOLBF, 0);
	plan.size = 64;
	if (plan_options(argc, argv))
		return 2;
	rc = play();
	end_close();
	return rc != 0;
}
