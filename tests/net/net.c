/* SPDX-License-Identifier: BSD-2-Clause */
/* The in-memory network: its datagrams in flight, its sockets, and the event loop of virtual time. */
#include "tests/net/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/wire.h"

#define BLOCKED_FOR (50 * DIW_US)
#define LINK_QUEUE (100 * DIW_US)
#define MAX_STEPS_AT_ONE_TIME 100000

struct net_pkt {
	uint64_t at, seq;
	struct diw_addr src, dst, to;        /* to: the socket; dst may be a group */
	uint32_t len;
	uint8_t data[];
};

struct net_sock {
	struct diw_dgram d;          /* must be first */
	struct net_sock *next;
	struct net *net;
	struct net_host *host;
	bool group;                  /* it is bound to the group port */
	struct diw_addr joined[4];   /* port 0 */
	int njoined;
	struct diw_addr peer;
	bool connected, any;
	bool asked;                  /* the deadline was read in the last step; otherwise the thread waits for something
				      * else */
	uint64_t blocked_until;
	struct net_pkt **queue;      /* arrived and not taken yet */
	uint32_t head, tail;         /* of a ring of max_queue entries */
	uint32_t cap;
	uint8_t *lent[64];           /* bursts that were returned, valid until the next recv */
	struct iovec iov[64];
	int nlent;
};

struct diw_addr net_addr4(uint32_t ip, uint16_t port)
{
	struct diw_addr a = { .ip = { [10] = 0xff, [11] = 0xff }, .port = port };

	a.ip[12] = (uint8_t)(ip >> 24);
	a.ip[13] = (uint8_t)(ip >> 16);
	a.ip[14] = (uint8_t)(ip >> 8);
	a.ip[15] = (uint8_t)ip;
	return a;
}

/* ---- Datagrams in flight: a heap ordered by (at, seq) ---- */

static bool earlier(const struct net_pkt *a, const struct net_pkt *b)
{
	return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

static void heap_push(struct net *net, struct net_pkt *p)
{
	size_t i = net->nheap++;

	if (net->nheap > net->heap_cap) {
		net->heap_cap = net->heap_cap ? net->heap_cap * 2 : 256;
		net->heap = realloc(net->heap, net->heap_cap * sizeof(*net->heap));
		if (!net->heap)
			abort();
	}
	for (; i > 0 && earlier(p, net->heap[(i - 1) / 2]); i = (i - 1) / 2)
		net->heap[i] = net->heap[(i - 1) / 2];
	net->heap[i] = p;
}

static struct net_pkt *heap_pop(struct net *net)
{
	struct net_pkt *top = net->heap[0], *last = net->heap[--net->nheap];
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= net->nheap)
			break;
		if (child + 1 < net->nheap && earlier(net->heap[child + 1], net->heap[child]))
			child++;
		if (!earlier(net->heap[child], last))
			break;
		net->heap[i] = net->heap[child];
		i = child;
	}
	net->heap[i] = last;
	return top;
}

/* Prints no addresses of memory, which vary: two transcripts of a seed are the same. */
static void trace(const struct net *net, const char *what, const struct diw_addr *src, const struct diw_addr *dst,
		  const uint8_t *data, uint32_t len)
{
	static const char *const op[16] = { [0] = "Write", "Read-Request", "Read-Response", "Send", [5] = "Send-SE",
		[7] = "Error", [12] = "Write-Record" };
	char a[DIW_ADDR_STRLEN], b[DIW_ADDR_STRLEN];
	bool tagged;

	if (!net->verbose)
		return;
	printf("%12.3f us    %-7s %s > %s %u", (double)net->now / 1e3, what, diw_addr_str(src, a), diw_addr_str(dst, b),
	       len);
	if (len >= 36) {
		tagged = data[0] & 0x80;
		printf(": %s%s MSN %08x MO %u of %u", op[data[1] & 15] ? op[data[1] & 15] : "?",
		       data[0] & 0x40 ? " L" : "", diw_get32(data + (tagged ? 20 : 10)),
		       diw_get32(data + (tagged ? 24 : 14)), diw_get32(data + (tagged ? 28 : 24)));
	}
	printf("\n");
}

static void packet_add(struct net *net, const struct diw_addr *src, const struct diw_addr *dst,
		       const struct diw_addr *to, const void *data, uint32_t len, uint64_t at)
{
	struct net_pkt *p = malloc(sizeof(*p) + len);

	if (!p)
		abort();
	*p = (struct net_pkt){ .at = at, .seq = net->seq++, .src = *src, .dst = *dst, .to = *to, .len = len };
	if (len)
		memcpy(p->data, data, len);
	heap_push(net, p);
}

void net_inject(struct net *net, const struct diw_addr *src, const struct diw_addr *dst, const void *data, uint32_t len,
		uint64_t at)
{
	packet_add(net, src, dst, dst, data, len, at);
}

/* ---- Sockets ---- */

/* Sends one datagram to the socket TO. */
static void transmit_to(struct net_sock *s, const struct diw_addr *dst, const struct diw_addr *to, const uint8_t *data,
			uint32_t len)
{
	struct net *net = s->net;
	int copies = 1;

	if ((net->drop && net->drop(data, len)) || diw_rng_chance(&net->rng, net->loss)) {
		net->lost++;
		trace(net, "lost", &s->d.local, dst, data, len);
		return;
	}
	if (diw_rng_chance(&net->rng, net->dup)) {
		net->duplicated++;
		copies = 2;
	}
	while (copies--) {
		uint64_t late = net->jitter ? diw_rng_next(&net->rng) % net->jitter : 0;

		packet_add(net, &s->d.local, dst, to, data, len, diw_max64(net->now, s->host->link_until) +
			   net->latency + late);
	}
	trace(net, "sent", &s->d.local, dst, data, len);
}

static bool sock_hears(const struct net_sock *s, const struct diw_addr *group)
{
	for (int i = 0; i < s->njoined; i++)
		if (memcmp(s->joined[i].ip, group->ip, sizeof group->ip) == 0)
			return s->d.local.port == group->port;
	return false;
}

/* Each member's copy of a group datagram has its own fate. */
static void transmit(struct net_sock *s, const struct diw_addr *dst, const uint8_t *data, uint32_t len)
{
	struct net *net = s->net;

	net->sent++;
	if (net->rate)
		s->host->link_until = diw_max64(net->now, s->host->link_until) + len * DIW_S / net->rate;
	if (net->tap)
		net->tap(net->tap_ctx, &s->d.local, dst, data, len);
	if (!diw_addr_is_multicast(dst)) {
		transmit_to(s, dst, dst, data, len);
		return;
	}
	for (struct net_sock *m = net->socks; m; m = m->next)
		if (sock_hears(m, dst))
			transmit_to(s, dst, &m->d.local, data, len);
}

static int sock_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct net_sock *s = (struct net_sock *)d;
	uint8_t *flat = malloc(DIW_DGRAM_MAX);
	int taken = 0;

	for (; taken < n; taken++) {
		uint32_t len = 0;

		if (now < s->blocked_until)
			break;
		if (s->net->rate && s->host->link_until > now + LINK_QUEUE) {
			s->blocked_until = s->host->link_until - LINK_QUEUE;
			break;
		}
		if (diw_rng_chance(&s->net->rng, s->net->block)) {
			s->net->blocked++;
			s->blocked_until = now + BLOCKED_FOR;
			break;
		}
		for (int i = 0; i < b[taken].niov; i++) {
			if (len + b[taken].iov[i].iov_len > DIW_DGRAM_MAX)
				abort();
			memcpy(flat + len, b[taken].iov[i].iov_base, b[taken].iov[i].iov_len);
			len += (uint32_t)b[taken].iov[i].iov_len;
		}
		if (len != b[taken].len || b[taken].seg == 0 ||
		    (len + b[taken].seg - 1) / b[taken].seg > DIW_DGRAM_MAX_SEGS)
			abort();        /* violates the contract of the seam */
		for (uint32_t off = 0; off < len; off += b[taken].seg) {
			uint32_t part = len - off < b[taken].seg ? len - off : b[taken].seg;

			transmit(s, &b[taken].peer.addr, flat + off, part);
			d->c->tx_datagrams++;
		}
		d->c->tx_bursts++;
		d->c->tx_bytes += len;
	}
	free(flat);
	if (taken < n)
		d->c->tx_blocked++;
	return taken || n == 0 ? taken : -EAGAIN;
}

static struct net_pkt *sock_peek(const struct net_sock *s, uint32_t i)
{
	return s->tail - s->head > i ? s->queue[(s->head + i) % s->cap] : NULL;
}

static bool packet_joins(const struct net_pkt *first, const struct net_pkt *p, uint32_t len)
{
	return p->len > 0 && p->len <= first->len && len + p->len <= DIW_DGRAM_MAX_BURST &&
	       diw_addr_eq(&p->src, &first->src) && diw_addr_eq(&p->dst, &first->dst);
}

/* Takes the next datagram, with the following ones that GRO would join to it, in a buffer of exactly that size. */
static void take_burst(struct net_sock *s, struct diw_dgram_burst *b, struct iovec *iov)
{
	struct net_pkt *first = sock_peek(s, 0), *p;
	uint32_t n = 1, len = first->len;
	uint8_t *buf, *q;

	while (s->net->gro && n < DIW_DGRAM_MAX_SEGS && (p = sock_peek(s, n)) && packet_joins(first, p, len)) {
		len += p->len;
		n++;
		if (p->len < first->len)
			break;
	}
	q = buf = malloc(len ? len : 1);
	*iov = (struct iovec){ buf, len };
	*b = (struct diw_dgram_burst){ .peer.addr = first->src, .iov = iov, .niov = 1, .len = len, .seg = first->len,
		.group = s->group };
	if (s->group)
		b->to = first->dst;
	while (n--) {
		p = s->queue[s->head++ % s->cap];
		memcpy(q, p->data, p->len);
		q += p->len;
		s->d.c->rx_datagrams++;
		s->net->delivered++;
		free(p);
	}
	s->d.c->rx_bursts++;
	s->d.c->rx_bytes += len;
	s->lent[s->nlent++] = buf;
}

static int sock_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct net_sock *s = (struct net_sock *)d;
	int got = 0;

	(void)now;
	s->asked = true;
	if (d->given) {
		*b = *d->given;
		d->given = NULL;
		return 1;
	}
	while (s->nlent)
		free(s->lent[--s->nlent]);
	for (; got < n && got < 64 && s->head != s->tail; got++)
		take_burst(s, &b[got], &s->iov[got]);
	return got;
}

static uint64_t sock_deadline(struct diw_dgram *d)
{
	(void)d;
	return DIW_NEVER;
}

static uint32_t sock_mtu(struct diw_dgram *d, const struct diw_addr *dst)
{
	(void)dst;
	return ((struct net_sock *)d)->net->mtu;
}

static int sock_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS])
{
	(void)d;
	(void)fd;
	return 0;
}

static int sock_member(struct diw_dgram *d, const struct diw_addr *group, bool join)
{
	struct net_sock *s = (struct net_sock *)d;

	if (join && s->njoined == (int)(sizeof s->joined / sizeof s->joined[0]))
		return -ENOBUFS;
	if (join)
		s->joined[s->njoined++] = *group;
	for (int i = 0; i < s->njoined && !join; i++)
		if (diw_addr_eq(&s->joined[i], group))
			s->joined[i] = s->joined[--s->njoined];
	return 0;
}

static void sock_close(struct diw_dgram *d)
{
	struct net_sock *s = (struct net_sock *)d, **at = &s->net->socks;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	while (s->nlent)
		free(s->lent[--s->nlent]);
	while (s->head != s->tail)
		free(s->queue[s->head++ % s->cap]);
	free(s->queue);
	free(s);
}

static const struct diw_dgram_ops sock_ops = {
	.name = "net", .send = sock_send, .recv = sock_recv, .deadline = sock_deadline, .mtu = sock_mtu,
	.fds = sock_fds, .member = sock_member, .close = sock_close,
};

static struct net_sock *sock_find(struct net *net, const struct diw_addr *dst)
{
	for (struct net_sock *s = net->socks; s; s = s->next)
		if (diw_addr_eq(&s->d.local, dst))
			return s;
	return NULL;
}

static int transport_open(struct diw_transport *t, const struct diw_dgram_attr *attr, struct diw_dgram **d)
{
	struct net_host *host = (struct net_host *)t;
	struct net *net = host->net;
	struct net_sock *s = calloc(1, sizeof(*s));

	*s = (struct net_sock){ .d = { .ops = &sock_ops, .local = attr->local, .rcvbuf = attr->rcvbuf, .c = attr->c },
		.net = net, .host = host, .group = attr->group, .peer = attr->peer,
		.connected = attr->peer.port != 0, .cap = net->max_queue };
	s->d.state = &s->d.own;
	if (diw_addr_ip_is_zero(&s->d.local))
		memcpy(s->d.local.ip, host->addr.ip, sizeof s->d.local.ip);
	if (s->d.local.port == 0)
		s->d.local.port = net->next_port++;
	if (sock_find(net, &s->d.local)) {
		free(s);
		return -EADDRINUSE;
	}
	s->queue = calloc(s->cap, sizeof(*s->queue));
	s->next = net->socks;
	net->socks = s;
	*d = &s->d;
	return 0;
}

static uint64_t net_transport_now(struct diw_transport *t)
{
	return ((struct net_host *)t)->net->now;
}

/* ---- Hosts and time ---- */

struct net *net_new(uint64_t seed)
{
	struct net *net = calloc(1, sizeof(*net));

	*net = (struct net){ .now = DIW_S, .rng = { seed }, .latency = 20 * DIW_US, .mtu = 1472, .max_queue = 65536,
		.gro = true, .next_port = 40000 };
	net_random_seed(seed ^ 0x6b657973);
	return net;
}

void net_free(struct net *net)
{
	while (net->nheap)
		free(heap_pop(net));
	free(net->heap);
	net_streams_free(net);
	free(net);
}

struct net_host *net_host_add(struct net *net)
{
	struct net_host *host = &net->host[net->nhosts++];
	struct diw_dev_info info = { .mtu = net->mtu + 28, .up = true, .naddrs = 1 };
	int err;

	*host = (struct net_host){
		.t = { .now = net_transport_now, .open = transport_open, .connect = net_stream_connect,
		       .listen = net_stream_listen },
		.net = net, .deadline = DIW_NEVER };
	host->addr = net_addr4(0x0a000000u + (uint32_t)net->nhosts, 0);
	snprintf(info.name, sizeof info.name, "diw_net%d", net->nhosts);
	snprintf(info.ifname, sizeof info.ifname, "net%d", net->nhosts);
	info.ifindex = (unsigned)net->nhosts;
	info.addrs[0] = host->addr;
	err = diw_dev_open_transport(&host->t, &info, &host->dev);
	if (err < 0) {
		fprintf(stderr, "diw_dev_open_transport: %s\n", strerror(-err));
		abort();
	}
	return host;
}

static void packet_deliver(struct net *net, struct net_pkt *p)
{
	struct net_sock *s = sock_find(net, &p->to);

	if (s && s->host->loss > 0 && diw_rng_chance(&net->rng, s->host->loss))
		net->lost++;
	else if (!s || (s->connected && !diw_addr_eq(&s->peer, &p->src))) {
		net->unroutable++;
	} else if (s->tail - s->head == s->cap) {
		net->overflowed++;
	} else {
		trace(net, "arrived", &p->src, &p->dst, p->data, p->len);
		s->queue[s->tail++ % s->cap] = p;
		return;
	}
	free(p);
}

static uint64_t next_event(const struct net *net)
{
	uint64_t t = net->nheap ? net->heap[0]->at : DIW_NEVER;

	t = diw_min64(t, net_streams_next(net));
	for (int i = 0; i < net->nhosts; i++) {
		const struct net_host *host = &net->host[i];

		if (host->dev && net->strict)
			t = diw_min64(t, diw_engine_due(&host->dev->engine));
		else if (host->dev)
			t = diw_min64(t, host->deadline);
	}
	for (const struct net_sock *s = net->socks; s; s = s->next) {
		if (s->blocked_until > net->now)
			t = diw_min64(t, s->blocked_until);
		if (s->head != s->tail && s->asked)
			t = diw_min64(t, net->now);
	}
	return t;
}

void net_deliver(struct net *net)
{
	while (net->nheap && net->heap[0]->at <= net->now)
		packet_deliver(net, heap_pop(net));
	net_streams_deliver(net);
}

/* Whether the host would be woken: by its streams, or by its deadline, which calls of the application may have
 * advanced. */
static bool awake(const struct net_host *host)
{
	uint64_t t = diw_engine_due(&host->dev->engine);

	return !host->net->strict || host->moved || t <= host->net->now;
}

static void step_hosts(struct net *net)
{
	net_deliver(net);
	for (struct net_sock *s = net->socks; s; s = s->next)
		s->asked = false;
	for (int i = 0; i < net->nhosts; i++) {
		struct net_host *host = &net->host[i];

		if (!host->dev || !awake(host))
			continue;
		host->moved = false;
		host->deadline = diw_dev_step(host->dev, net->now);
	}
}

void net_settle(struct net *net)
{
	int steps = 0;

	do {
		step_hosts(net);
		if (++steps > MAX_STEPS_AT_ONE_TIME) {
			fprintf(stderr, "a device's deadline stays at %.3f us\n", (double)net->now / 1e3);
			abort();
		}
	} while (next_event(net) <= net->now);
}

bool net_step(struct net *net, uint64_t limit)
{
	uint64_t t;

	net_settle(net);
	t = next_event(net);
	if (t > limit || t == DIW_NEVER) {
		if (limit != DIW_NEVER && limit > net->now)
			net->now = limit;
		return false;
	}
	net->now = t;
	net_settle(net);
	return true;
}

void net_run(struct net *net, uint64_t duration)
{
	uint64_t end = net->now + duration;

	while (net_step(net, end))
		;
	net_settle(net);
}
