/* SPDX-License-Identifier: BSD-2-Clause */
/* The sockets, bottlenecks and events of rd_net.h. */
#include "tests/sim/rd_net.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "tests/net/net.h"

#define WIRE_EXTRA 42u               /* Ethernet, IPv4 and UDP headers */

struct rdn_pkt {
	struct rdn_pkt *next;
	uint64_t at, order;
	struct diw_addr src, dst;
	uint32_t len;
	uint8_t data[];
};

struct diw_addr rdn_addr(int i)
{
	return (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, 10, 0, 0, (uint8_t)(i + 1) }, .port = 4000 };
}

static bool pkt_before(const struct rdn_pkt *a, const struct rdn_pkt *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void heap_push(struct rdn *net, struct rdn_pkt *p)
{
	size_t i = net->n++;

	if (net->n > net->cap) {
		net->cap = net->cap ? net->cap * 2 : 1024;
		net->heap = realloc(net->heap, net->cap * sizeof *net->heap);
	}
	for (; i && pkt_before(p, net->heap[(i - 1) / 2]); i = (i - 1) / 2)
		net->heap[i] = net->heap[(i - 1) / 2];
	net->heap[i] = p;
}

static struct rdn_pkt *heap_pop(struct rdn *net)
{
	struct rdn_pkt *top = net->heap[0], *last = net->heap[--net->n];
	size_t i = 0, c;

	while ((c = 2 * i + 1) < net->n) {
		if (c + 1 < net->n && pkt_before(net->heap[c + 1], net->heap[c]))
			c++;
		if (!pkt_before(net->heap[c], last))
			break;
		net->heap[i] = net->heap[c];
		i = c;
	}
	net->heap[i] = last;
	return top;
}

void rdn_inject(struct rdn *net, const struct diw_addr *src, const struct diw_addr *dst, const void *data, uint32_t len,
		uint64_t at)
{
	struct rdn_pkt *p = malloc(sizeof *p + len);

	*p = (struct rdn_pkt){ .at = at, .order = net->order++, .src = *src, .dst = *dst, .len = len };
	memcpy(p->data, data, len);
	heap_push(net, p);
}

/* ---- The socket ---- */

static struct rdn_node *node_of(struct rdn *net, const struct diw_addr *a)
{
	int i = a->ip[15] - 1;

	return i >= 0 && i < net->nodes ? &net->node[i] : NULL;
}

static void node_transmit(struct rdn_node *n, const struct diw_addr *dst, const uint8_t *data, uint32_t len)
{
	struct rdn *net = n->net;
	struct rdn_node *to = node_of(net, dst);
	uint64_t at = net->now + net->latency + n->late;
	int copies = 1;

	net->sent++;
	if (net->tap)
		net->tap(net, &n->d.local, dst, data, len);
	if (!to || diw_rng_chance(&net->rng, net->loss) || (net->now >= to->deaf_from && net->now < to->deaf_to)) {
		net->lost++;
		return;
	}
	copies += diw_rng_chance(&net->rng, net->dup);
	while (copies--) {
		uint64_t when = at + (net->jitter ? diw_rng_next(&net->rng) % net->jitter : 0);

		if (net->rate > 0) {
			uint64_t begin = to->busy_until > net->now ? to->busy_until : net->now;

			to->queue_max = diw_max64(to->queue_max, begin - net->now);
			to->queue_sum += begin - net->now;
			to->queue_n++;
			if (begin - net->now > net->queue) {
				net->dropped++;
				continue;
			}
			to->busy_until = begin + (uint64_t)((len + WIRE_EXTRA) / net->rate);
			when += to->busy_until - net->now;
		}
		rdn_inject(net, &n->d.local, dst, data, len, when);
	}
}

static int node_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct rdn_node *node = diw_container(d, struct rdn_node, d);
	static uint8_t flat[DIW_DGRAM_MAX];

	(void)now;
	node->bursts += (uint64_t)n;
	for (int i = 0; i < n; i++) {
		uint32_t len = 0;

		for (int k = 0; k < b[i].niov; k++) {
			memcpy(flat + len, b[i].iov[k].iov_base, b[i].iov[k].iov_len);
			len += (uint32_t)b[i].iov[k].iov_len;
		}
		for (uint32_t off = 0; off < len; off += b[i].seg)
			node_transmit(node, &b[i].peer.addr, flat + off, len - off < b[i].seg ? len - off : b[i].seg);
	}
	return n;
}

/* As Linux counts it: the buffer is rounded to a power of two. */
static uint64_t pkt_cost(const struct rdn_pkt *p)
{
	uint64_t buf = 512;

	while (buf < p->len + 320u)
		buf *= 2;
	return buf + 256;
}

/* Copies octets of P to the place that the layer above has for them. */
static void pkt_place(struct diw_dgram_reach *r, struct rdn_pkt *p, uint64_t now)
{
	const uint8_t *from = p->data + DIW_DGRAM_HEAD;
	int n = p->len > DIW_DGRAM_HEAD ? r->ask(r, &p->src, p->data, p->len, now) : 0;

	for (int i = 0; i < n; i++) {
		memcpy(r->place[i].iov_base, from, r->place[i].iov_len);
		from += r->place[i].iov_len;
		r->placed += (uint32_t)r->place[i].iov_len;
	}
	if (n > 0)
		memmove(p->data + DIW_DGRAM_HEAD, from, p->len - (size_t)(from - p->data));
}

static int node_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct rdn_node *node = diw_container(d, struct rdn_node, d);
	struct rdn_pkt *p = node->head;

	free(node->lent);
	node->lent = NULL;
	if (!p || n < 1)
		return 0;
	node->rcvbuf -= pkt_cost(p);
	node->head = p->next;
	if (!node->head)
		node->tail = NULL;
	node->lent = p;
	if (node->net->one_host)
		pkt_place(d->reach, p, now);
	node->iov = (struct iovec){ p->data, p->len };
	b[0] = (struct diw_dgram_burst){ .peer.addr = p->src, .iov = &node->iov, .niov = 1, .len = p->len,
					.seg = p->len };
	return 1;
}

static uint64_t node_deadline(struct diw_dgram *d)
{
	const struct rdn_node *node = diw_container(d, struct rdn_node, d);

	return node->head ? DIW_DGRAM_AT_HAND : DIW_NEVER;
}

static uint32_t node_mtu(struct diw_dgram *d, const struct diw_addr *dst) { (void)d; (void)dst; return 1472; }
static int node_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS]) { (void)d; (void)fd; return 0; }

static bool node_own(struct diw_dgram *d, const struct diw_addr *addr)
{
	(void)addr;
	return diw_container(d, struct rdn_node, d)->net->one_host;
}

static void node_close(struct diw_dgram *d)
{
	struct rdn_node *node = diw_container(d, struct rdn_node, d);

	while (node->head) {
		struct rdn_pkt *p = node->head;

		node->head = p->next;
		free(p);
	}
	node->tail = NULL;
	free(node->lent);
	node->lent = NULL;
}

static const struct diw_dgram_ops node_ops = {
	.name = "rdn", .send = node_send, .recv = node_recv, .deadline = node_deadline, .mtu = node_mtu,
	.own = node_own, .fds = node_fds, .close = node_close,
};

/* ---- The world ---- */

void rdn_init(struct rdn *net, uint64_t seed)
{
	net_random_seed(seed);
	*net = (struct rdn){ .now = DIW_S, .seed = seed, .latency = 50 * DIW_US, .queue = DIW_NEVER,
		.rng.state = diw_rng_next(&(struct diw_rng){ seed }) };
}

void rdn_free(struct rdn *net)
{
	for (int i = 0; i < net->nodes; i++)
		if (net->node[i].l)
			rdn_stop(net, i);
	while (net->n)
		free(heap_pop(net));
	free(net->heap);
}

void rdn_start(struct rdn *net, int i, const struct diw_rd_cfg *cfg, const struct diw_link_up *up)
{
	struct rdn_node *node = &net->node[i];

	node->net = net;
	node->d = (struct diw_dgram){ .ops = &node_ops, .local = rdn_addr(i), .c = &node->c,
		.rcvbuf = net->rcvbuf, .state = &node->d.own };
	node->rcvbuf = node->ready_at = 0;
	if (diw_rd_open(&node->d, 0, cfg, up, node, &node->l))
		abort();
	if (i >= net->nodes)
		net->nodes = i + 1;
}

void rdn_stop(struct rdn *net, int i)
{
	net->node[i].l->ops->close(net->node[i].l);
	net->node[i].l = NULL;
}

static void pkt_deliver(struct rdn *net, struct rdn_pkt *p)
{
	struct rdn_node *node = node_of(net, &p->dst);

	p->next = NULL;
	if (!node || !node->l) {
		free(p);
		return;
	}
	if (node->net->rcvbuf && node->rcvbuf + pkt_cost(p) > node->net->rcvbuf) {
		node->overruns++;
		free(p);
		return;
	}
	node->rcvbuf += pkt_cost(p);
	node->bytes += p->len;
	*(node->tail ? &node->tail->next : &node->head) = p;
	node->tail = p;
}

static void node_poll(struct rdn *net, struct rdn_node *node)
{
	struct diw_link *l = node->l;
	uint64_t now = node->clock_at ? node->clock_at : net->now - node->behind;

	if (net->now < node->ready_at)
		return;
	node->clock_at = 0;
	if (!net->service) {
		while (l->ops->poll(l, 64, now) == 64)
			;
	} else {
		node->ready_at = net->now + (l->ops->poll(l, 1, now) ? net->service : 0);
	}
}

static uint64_t node_due(const struct rdn_node *node)
{
	uint64_t due = node->l->ops->deadline(node->l);

	return due < DIW_NEVER - node->behind ? due + node->behind : DIW_NEVER;
}

bool rdn_step(struct rdn *net, uint64_t limit)
{
	uint64_t t = net->n ? net->heap[0]->at : DIW_NEVER;

	for (int i = 0; i < net->nodes; i++)
		if (net->node[i].l)
			t = diw_min64(t, diw_max64(node_due(&net->node[i]), net->node[i].ready_at));
	if (t > limit) {
		net->now = limit;
		return false;
	}
	net->now = diw_max64(t, net->now);
	while (net->n && net->heap[0]->at <= net->now)
		pkt_deliver(net, heap_pop(net));
	for (int i = 0; i < net->nodes; i++) {
		struct diw_link *l = net->node[i].l;

		if (!l)
			continue;
		node_poll(net, &net->node[i]);
		l->ops->flush(l, net->now - net->node[i].behind);
	}
	return true;
}
