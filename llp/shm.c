/* SPDX-License-Identifier: BSD-2-Clause */
/* The dgram of shared memory: which way a datagram takes. See llp/shm.h. */
#include "llp/shm.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/seal.h"

#define PAIR_AFTER 16u               /* super-buffers to a destination before a pair is made */
/* Time between two reads of the wire while rings are read: a read of a socket costs 0.3 us. An eighth of the time since
 * the last datagram, within these bounds. */
#define WIRE_LEAST_NS (5 * DIW_US)
#define WIRE_MOST_NS (50 * DIW_US)
/* A sleeping sender that found a ring full tries again after this time. */
#define BLOCKED_NS (50 * DIW_US)
/* A ring that stays full for so long has a reader that does not read. Its datagrams take the wire, where the kernel
 * drops what is too much, so that other destinations need not wait for it. */
#define STALL_NS DIW_MS
#define PLACE_MIN 4096u              /* octets of a datagram whose place is asked for */

static struct diw_shm *shm_of(struct diw_dgram *d)
{
	return (struct diw_shm *)d;
}

/* A socket can be written to while a ring is full. UNTIL 0: no ring is. */
static void shm_set_blocked(struct diw_shm *s, uint64_t until)
{
	s->blocked_until = until;
	s->d.state->tx_timed = until != 0;
}

static bool pair_sends(const struct diw_shm_pair *p)
{
	return diw_shm_is_up(p) && !p->ended;
}

/* ---- Send ---- */

/* The pair by which datagrams to DST go, or NULL: the wire. */
static struct diw_shm_pair *shm_route(struct diw_shm *s, const struct diw_addr *addr, uint64_t now)
{
	struct diw_shm_dst *dst = diw_shm_dst(s, addr);
	struct diw_shm_pair *p = dst->pair;

	if (s->paused)
		return NULL;
	if (p)
		return pair_sends(p) ? p : NULL;
	if (dst->bursts < PAIR_AFTER) {
		dst->bursts++;
	} else if (now >= dst->retry_at && !diw_addr_is_multicast(addr)) {
		s->wanted = *addr;
		s->host->look_at = 0;
	}
	return NULL;
}

/* 0: B is in the ring. -EAGAIN: the ring is full. Others: B takes the wire. */
static int pair_send(struct diw_shm *s, struct diw_shm_pair *p, const struct diw_dgram_burst *b, uint64_t now)
{
	int rc = b->len ? diw_shm_put(&p->tx, b) : -EMSGSIZE;
	struct diw_counters *c = s->d.c;
	uint32_t n = b->len ? (b->len + b->seg - 1) / b->seg : 0;

	if (rc == -EPROTO) {
		c->shm_refused++;
		diw_shm_pair_free(p, now);
	}
	if (rc == -EAGAIN) {
		p->full_since = p->full_since ? p->full_since : now;
		if (now - p->full_since >= STALL_NS)
			return -ETIMEDOUT;
		c->tx_blocked++;
		shm_set_blocked(s, now + BLOCKED_NS);
	}
	if (rc)
		return rc;
	p->full_since = 0;
	c->tx_bursts++;
	c->tx_datagrams += n;
	c->tx_bytes += b->len;
	c->shm_tx_datagrams += n;
	if (diw_shm_wants_wake(&p->tx))
		diw_shm_wake(p->fd);
	return 0;
}

/* 0 or -EAGAIN. A bare burst gets its CRCs in a copy. */
static int shm_wire_send(struct diw_shm *s, const struct diw_dgram_burst *b, uint64_t now)
{
	struct iovec iov = { s->tx_buf, b->len };
	struct diw_dgram_burst sealed = *b;
	uint32_t at = 0;

	if (!b->bare)
		return s->lower->ops->send(s->lower, b, 1, now) == 1 ? 0 : -EAGAIN;
	for (int i = 0; i < b->niov; at += (uint32_t)b->iov[i++].iov_len)
		memcpy(s->tx_buf + at, b->iov[i].iov_base, b->iov[i].iov_len);
	for (at = 0; at < b->len; at += b->seg) {
		uint32_t len = (b->len - at < b->seg ? b->len - at : b->seg) - DIW_SEAL_LEN;

		diw_seal_put(s->tx_buf + at + len, diw_crc32(0, s->tx_buf + at, len));
	}
	sealed.iov = &iov;
	sealed.niov = 1;
	sealed.bare = false;
	return s->lower->ops->send(s->lower, &sealed, 1, now) == 1 ? 0 : -EAGAIN;
}

/* The UNIX sockets are looked at here, too: a program may send without a poll, and the other end may have ended. While
 * a thread sleeps on them, they are that thread's. */
static int shm_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_shm *s = shm_of(d);
	int i, rc = -EAGAIN;

	shm_set_blocked(s, 0);
	if (s->begun && now >= s->host->look_at)
		diw_shm_host_look(s->host, !s->host->rested, now);
	for (i = 0; i < n; i++) {
		struct diw_shm_pair *p = shm_route(s, &b[i].peer.addr, now);

		rc = p ? pair_send(s, p, &b[i], now) : -ENOTCONN;
		if (rc && rc != -EAGAIN)
			rc = shm_wire_send(s, &b[i], now);
		if (rc)
			break;
	}
	return i ? i : rc;
}

/* ---- Receive ---- */

/* Removes probes from B. They have a size that few datagrams have. */
static void probes_take(struct diw_shm *s, struct diw_dgram_burst *b, uint64_t now)
{
	uint8_t *data = b->iov->iov_base;
	uint32_t at = 0;

	if (b->group || (b->seg != DIW_SHM_PROBE && b->len % b->seg != DIW_SHM_PROBE))
		return;
	while (at < b->len) {
		uint32_t len = b->len - at < b->seg ? b->len - at : b->seg;

		if (len != DIW_SHM_PROBE || !diw_shm_is_probe(data + at)) {
			at += len;
			continue;
		}
		diw_shm_probed(s, &b->peer.addr, &b->to, data + at, now);
		b->len -= len;
		memmove(data + at, data + at + len, b->len - at);
	}
}

/* With `any`: the pair stands for one address of this host. If its peer sends to another one by the wire, answers go
 * there, too. */
static void other_address(struct diw_shm *s, const struct diw_dgram_burst *b, uint64_t now)
{
	struct diw_shm_pair *p = s->any && !b->group ? diw_shm_dst(s, &b->peer.addr)->pair : NULL;

	if (p && diw_shm_is_up(p) && memcmp(p->own.ip, b->to.ip, sizeof b->to.ip) != 0)
		diw_shm_pair_free(p, now);
}

static int shm_wire_recv(struct diw_shm *s, struct diw_dgram_burst *b, uint64_t now)
{
	for (int i = 0; i < 4; i++) {
		uint32_t had;

		if (s->lower->ops->recv(s->lower, b, 1, now) < 1)
			return 0;
		had = b->len;
		if (had)
			probes_take(s, b, now);
		if (b->len || !had) {
			if (!diw_list_empty(&s->pairs))
				other_address(s, b, now);
			return 1;
		}
	}
	return 0;
}

/* Copies the super-buffer that was found. A large datagram may go to its place: the head that told it is the one that
 * goes up. */
static void record_receive(struct diw_shm *s, struct diw_shm_pair *p, uint32_t len, uint32_t seg, uint64_t now)
{
	struct diw_dgram_reach *r = s->d.reach;
	uint32_t at = 0;
	int n = 0;

	if (r && len == seg && len >= PLACE_MIN) {
		at = DIW_DGRAM_HEAD;
		diw_shm_copy(&p->rx, 0, s->rx_buf, at);
		n = r->ask(r, &p->peer, s->rx_buf, len, now);
	}
	for (int i = 0; i < n; i++) {
		uint32_t left = len - at, part = r->place[i].iov_len < left ? (uint32_t)r->place[i].iov_len : left;

		diw_shm_copy(&p->rx, at, r->place[i].iov_base, part);
		r->placed += part;
		at += part;
	}
	s->d.c->rx_in_place += n > 0;
	diw_shm_copy(&p->rx, at, s->rx_buf + (n > 0 ? DIW_DGRAM_HEAD : at), len - at);
	diw_shm_drop(&p->rx);
}

/* The next burst of a ring. 0: there is none. */
static int pair_recv(struct diw_shm *s, struct diw_shm_pair *p, struct diw_dgram_burst *b, uint64_t now)
{
	struct diw_counters *c = s->d.c;
	int rc = diw_shm_look(&p->rx, &b->len, &b->seg);
	uint32_t n;

	if (rc < 0) {
		c->shm_refused++;
		diw_shm_pair_free(p, now);
		return 0;
	}
	if (rc == 0) {
		if (p->ended)
			diw_shm_pair_free(p, now);
		return 0;
	}
	record_receive(s, p, b->len, b->seg, now);
	n = (b->len + b->seg - 1) / b->seg;
	c->rx_bursts++;
	c->rx_datagrams += n;
	c->rx_bytes += b->len;
	c->shm_rx_datagrams += n;
	s->rx_iov = (struct iovec){ s->rx_buf, b->len };
	b->peer = (struct diw_dest){ .addr = p->peer };
	b->iov = &s->rx_iov;
	b->niov = 1;
	b->group = false;
	b->bare = true;
	b->to = p->own;
	return 1;
}

/* The pair that had datagrams is read last next time. */
static int pairs_recv(struct diw_shm *s, struct diw_dgram_burst *b, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &s->pairs) {
		struct diw_shm_pair *p = diw_container(l, struct diw_shm_pair, link);

		if (!diw_shm_is_up(p) || !pair_recv(s, p, b, now))
			continue;
		diw_list_del(l);
		diw_list_add_tail(&s->pairs, l);
		return 1;
	}
	return 0;
}

static void shm_begin(struct diw_shm *s)
{
	s->begun = true;
	diw_list_add_tail(&s->host->ports, &s->of_host);
	diw_shm_listen(s);
}

static int shm_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_shm *s = shm_of(d);
	bool wire;

	if (!s->begun)
		shm_begin(s);
	if (s->blocked_until && now >= s->blocked_until)
		shm_set_blocked(s, 0);
	if (n < 1)
		return 0;
	wire = s->lower->given || diw_list_empty(&s->pairs) || now >= s->wire_at || (s->wire_busy && s->turn++ % 2);
	if (!wire && pairs_recv(s, b, now))
		return 1;
	if (wire || s->wire_busy) {
		s->wire_busy = shm_wire_recv(s, b, now);
		if (s->wire_busy)
			s->wire_ns = now;
		s->wire_at = now + diw_max64(WIRE_LEAST_NS, diw_min64((now - s->wire_ns) / 8, WIRE_MOST_NS));
		if (s->wire_busy)
			return 1;
	}
	return wire ? pairs_recv(s, b, now) : 0;
}

/* ---- The other calls ---- */

static uint64_t shm_deadline(struct diw_dgram *d)
{
	struct diw_shm *s = shm_of(d);
	uint64_t t = s->lower->ops->deadline(s->lower);

	return s->blocked_until ? diw_min64(t, s->blocked_until) : t;
}

static uint32_t shm_mtu(struct diw_dgram *d, const struct diw_addr *addr)
{
	struct diw_shm *s = shm_of(d);
	const struct diw_shm_pair *p = s->paused ? NULL : diw_shm_dst(s, addr)->pair;

	return p && pair_sends(p) ? DIW_DGRAM_MAX : s->lower->ops->mtu(s->lower, addr);
}

static bool shm_bare(struct diw_dgram *d, const struct diw_addr *addr)
{
	struct diw_shm *s = shm_of(d);
	const struct diw_shm_pair *p = s->paused ? NULL : diw_shm_dst(s, addr)->pair;

	return p && pair_sends(p) && !p->full_since;
}

static int shm_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS])
{
	struct diw_dgram *lower = shm_of(d)->lower;

	return lower->ops->fds(lower, fd);
}

/* A child after fork(2) has the descriptors, but not the memory, and the epoll set is still its parent's. */
static void shm_close(struct diw_dgram *d)
{
	struct diw_shm *s = shm_of(d);
	struct diw_list *l;

	while ((l = diw_list_first(&s->pairs))) {
		struct diw_shm_pair *p = diw_container(l, struct diw_shm_pair, link);

		if (s->pid == getpid()) {
			diw_shm_pair_free(p, 0);
			continue;
		}
		close(p->fd);
		diw_list_del(l);
		free(p);
	}
	if (s->begun)
		diw_list_del(&s->of_host);
	if (s->listen_fd >= 0 && s->pid == getpid())
		epoll_ctl(s->host->epfd, EPOLL_CTL_DEL, s->listen_fd, NULL);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	s->lower->ops->close(s->lower);
	free(s);
}

static const struct diw_dgram_ops shm_ops = {
	.name = "shm", .send = shm_send, .recv = shm_recv, .deadline = shm_deadline, .mtu = shm_mtu, .bare = shm_bare,
	.fds = shm_fds, .close = shm_close,
};

void diw_shm_pause(struct diw_dgram *d, bool paused, uint64_t now)
{
	struct diw_shm *s = shm_of(d);
	struct diw_list *l, *next;

	s->paused = paused;
	s->wanted.port = 0;
	diw_list_for_each_safe(l, next, &s->pairs)
		diw_shm_pair_free(diw_container(l, struct diw_shm_pair, link), now);
}

int diw_shm_open(struct diw_shm_host *h, void *owner, struct diw_dgram *lower, struct diw_dgram **d)
{
	struct diw_shm *s = calloc(1, sizeof *s);

	if (!s)
		return -ENOMEM;
	s->d = (struct diw_dgram){ .ops = &shm_ops, .local = lower->local, .rcvbuf = lower->rcvbuf, .only = lower->only,
				   .state = lower->state, .c = lower->c };
	s->lower = lower;
	s->host = h;
	s->owner = owner;
	s->any = diw_addr_ip_is_zero(&lower->local);
	s->pid = getpid();
	s->listen_fd = -1;
	s->last = s->dst;
	diw_list_init(&s->pairs);
	*d = &s->d;
	return 0;
}
