/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs of rd_app.h. */
#include "tests/sim/rd_app.h"

#include <stdlib.h>
#include <string.h>

#include "base/wire.h"

struct rdn rda_net;
struct rda_app rda_app[RDN_NODES];
int rda_error;

/* A segment's node and contents, by its number of the link, modulo. */
static struct rda_out { int node; uint32_t number, seq, len; } out[RDN_NODES][1 << 16];

int rda_below(uint32_t n) { return (int)(diw_rng_next(&rda_net.rng) % n); }

/* The octets of the segment that was asked for last. */
static uint8_t place[2048];

static int app_reach(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *seg, uint32_t from,
		     struct iovec *iov, uint64_t now)
{
	uint32_t len = seg->len - from, first = len / 3;

	(void)ctx;
	(void)src;
	(void)now;
	memset(place, 0xee, sizeof place);
	if (seg->len <= from || rda_below(5) == 0)
		return 0;
	iov[0] = (struct iovec){ place + from, first };
	iov[1] = (struct iovec){ place + from + first, len - first };
	return 2;
}

static int app_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct rdn_node *node = ctx;
	int me = (int)(node - rda_net.node), from = src->ip[15] - 1;
	struct rda_flow *f = &rda_app[me].from[from];

	(void)now;
	if (now < rda_app[me].stalled_to || rda_app[me].refuses_from[from])
		return 0;
	if (diw_rng_chance(&rda_net.rng, rda_app[me].refuses))
		n = rda_below((uint32_t)n + 1);
	for (int i = 0; i < n; i++) {
		uint32_t life = diw_get32(segs[i].data), seq = diw_get32(segs[i].data + 4);

		if (life != f->life) {
			const struct rda_flow *of = &rda_app[from].to[me];

			rda_must(life > f->life, "node %d: an old life's segment\n", me);
			rda_must(life < rda_app[from].life || seq >= of->acked + of->failed,
				 "node %d from %d: %u ended before\n", me, from, seq);
			f->life = life;
			f->came = seq;          /* messages from that process to an earlier process of this node do not
						 * count */
		}
		rda_must(seq == f->came, "node %d from %d: %u, not %u\n", me, from, seq, f->came);
		rda_must(diw_get32(segs[i].data + 8) == segs[i].len, "length\n");
		for (uint32_t k = RDA_HDR, here = segs[i].len - segs[i].placed; k < segs[i].len; k++)
			rda_must((k < here ? segs[i].data : place)[k] == (uint8_t)(seq + k), "octet %u\n", k);
		f->placed += segs[i].placed > 0;
		f->came++;
		f->bytes += segs[i].len;
	}
	return n;
}

static void app_ended(void *ctx, uint32_t first, uint32_t n, bool good)
{
	struct rdn_node *node = ctx;
	struct rda_app *a = &rda_app[node - rda_net.node];

	for (uint32_t i = 0; i < n; i++) {
		struct rda_out *o = &out[node - rda_net.node][(first + i) & 0xffff];
		struct rda_flow *f = &a->to[o->node];

		rda_must(o->number == first + i, "an unknown number ended\n");
		o->number--;
		*(good ? &f->acked : &f->failed) += 1;
	}
}

static void app_acked(void *ctx, uint32_t first, uint32_t n) { app_ended(ctx, first, n, true); }

static void app_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	rda_error = errnum;
	app_ended(ctx, first, n, false);
}

static void app_room(void *ctx, const struct diw_addr *peer)
{
	struct rdn_node *node = ctx;
	struct rda_app *a = &rda_app[node - rda_net.node];

	for (int i = 0; i < RDN_NODES; i++)
		if (!peer || peer->ip[15] == i + 1)
			a->to[i].waits = false;
}

static void app_gone(void *ctx, const struct diw_addr *peer, int errnum)
{
	const struct rdn_node *node = ctx;
	struct rda_flow *f = &rda_app[node - rda_net.node].from[peer->ip[15] - 1];

	*(errnum ? &f->gone : &f->forgot) += 1;
}

static void data_fill(uint8_t *data, uint32_t seq, uint32_t len)
{
	diw_put32(data + 8, len);
	for (uint32_t k = RDA_HDR; k < len; k++)
		data[k] = (uint8_t)(seq + k);
}

/* Of a segment that the link does not copy. */
static int app_payload(void *ctx, void *owner, uint32_t at, uint32_t len, struct iovec *iov)
{
	static uint8_t data[64][2048];          /* more than leave at once */
	static uint32_t next;
	const struct rda_out *o = owner;
	uint8_t *to = data[next++ % 64];

	(void)ctx;
	rda_must(at + len + 8 == o->len, "%u octets at %u of %u\n", len, at, o->len);
	data_fill(to, o->seq, o->len);
	*iov = (struct iovec){ to + 8 + at, len };
	return 1;
}

const struct diw_link_up rda_up = {
	.rx = app_rx, .reach = app_reach, .acked = app_acked, .refused = app_refused, .payload = app_payload,
	.room = app_room, .gone = app_gone,
};

static uint64_t app_clock(void *net) { return ((struct rdn *)net)->now; }

struct diw_rd_cfg rda_cfg(void)
{
	return (struct diw_rd_cfg){ .dead_ns = 10 * DIW_S, .idle_ns = 60 * DIW_S, .ack_ns = 40 * DIW_US, .peers = 64,
		.slots = 4096, .peer_slots = 2048, .held = 1024, .window = 1024, .max_seg = 1400,
		.clock = app_clock, .clock_ctx = &rda_net };
}

int rda_send(int me, int to, uint32_t len)
{
	static uint8_t data[2048];
	struct rdn_node *node = &rda_net.node[me];
	struct diw_dest dst = { .addr = rdn_addr(to) };
	struct iovec iov = { data + 8, len - 8 };
	struct diw_link_seg seg = { .hdr = data, .hdr_len = 8, .len = len - 8, .iov = &iov };
	struct rda_flow *f = &rda_app[me].to[to];
	uint32_t number = node->l->taken;

	if (f->waits)
		return 0;
	diw_put32(data, rda_app[me].life);
	diw_put32(data + 4, f->sent);
	data_fill(data, f->sent, len);
	out[me][number & 0xffff] = (struct rda_out){ .node = to, .number = number, .seq = f->sent, .len = len };
	if (f->sent % 2)
		seg.owner = &out[me][number & 0xffff];
	if (node->l->ops->send(node->l, &dst, &seg, 1, rda_net.now - node->behind) != 1) {
		f->waits = true;
		return 0;
	}
	node->l->ops->flush(node->l, rda_net.now - node->behind);
	f->sent++;
	return 1;
}

bool rda_all_ended(int nodes)
{
	for (int a = 0; a < nodes; a++) {
		if (rda_app[a].left)
			return false;
		for (int b = 0; b < nodes; b++)
			if (rda_app[a].to[b].acked + rda_app[a].to[b].failed != rda_app[a].to[b].sent)
				return false;
	}
	return true;
}

void rda_account(int nodes)
{
	for (int a = 0; a < nodes; a++) {
		printf("node %d:", a);
#define X(name, text) if (strncmp(#name, "rd_", 3) == 0 && rda_net.node[a].c.name) \
			printf(" " #name " %llu", (unsigned long long)rda_net.node[a].c.name);
		DIW_COUNTERS(X)
#undef X
		printf("\n");
	}
	printf("%.3f ms, %llu datagrams, %llu lost, %llu dropped\n", (double)rda_net.now / 1e6,
	       (unsigned long long)rda_net.sent, (unsigned long long)rda_net.lost, (unsigned long long)rda_net.dropped);
}

void rda_begin(int nodes)
{
	struct diw_rd_cfg cfg = rda_cfg();

	rdn_init(&rda_net, 1);
	memset(rda_app, 0, sizeof rda_app);
	for (int i = 0; i < nodes; i++) {
		rdn_start(&rda_net, i, &cfg, &rda_up);
		rda_app[i].life = 1;
	}
}

void rda_run(uint64_t ns)
{
	uint64_t end = rda_net.now + ns;

	while (rdn_step(&rda_net, end))
		;
}

void rda_kill(int i)
{
	rdn_stop(&rda_net, i);
	for (int b = 0; b < RDN_NODES; b++)
		rda_app[i].to[b] = rda_app[i].from[b] = (struct rda_flow){ 0 };
}

void rda_revive(int i, const struct diw_rd_cfg *cfg)
{
	rdn_start(&rda_net, i, cfg, &rda_up);
	rda_app[i].life++;
}

struct rda_flow *rda_flow(int a, int b) { return &rda_app[a].to[b]; }

uint32_t rda_send_all(int a, int b, uint32_t most, uint32_t len)
{
	uint32_t n = 0;

	while (n < most && rda_send(a, b, len))
		n++;
	return n;
}
