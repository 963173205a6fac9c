/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two ports make a pair. The caller connects to the UNIX socket whose name has the port's address. Both check the
 * user. A name proves nothing, so each end then proves its address: it gets a token in a datagram, and returns it by
 * the UNIX socket.
 *
 *     caller                                           called
 *     HELLO, id, the memory         UNIX      ->       checks the memory
 *                                   UNIX      <-       WELCOME
 *     probe: id, token A            datagram  ->       knows the caller's address
 *                                   UNIX      <-       PROOF: token A
 *                                   datagram  <-       probe: id, token B
 *     PROOF: token B                UNIX      ->
 *
 * Abstract names and addresses are those of the network namespace. The end of the UNIX socket, which the kernel reports
 * however a process ends, is the end of the pair.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/sys.h"
#include "base/wire.h"
#include "llp/shm.h"

#define PROVE_NS (2 * DIW_S)         /* the time in which both ends must have proved their addresses */
#define RETRY_NS (100 * DIW_MS)      /* after the first failure; twice as long after each further one */
#define RETRY_MOST 8u                /* doublings */
#define MSGS_MOST 16                 /* of one pair in one look: a peer may write for ever */

enum kind { HELLO = 0x64737031, WELCOME, PROOF };        /* the first one names the version, too */

struct shm_msg {
	uint32_t kind, size;         /* of the memory */
	uint64_t id, token;
};

struct diw_shm_map {
	struct diw_shm_ring ring[2];         /* the first one is the caller's to write */
};

#define MAP_SIZE (sizeof(struct diw_shm_map))

static void port_event(struct diw_shm_watch *w, uint64_t now);
static void pair_event(struct diw_shm_watch *w, uint64_t now);

static const uint8_t probe_magic[16] = { 0xff, 0xff, 'd', 'i', 'w', 'a', 'r', 'p', ' ', 'p', 'r', 'o', 'b', 'e', ' ',
					 '1' };        /* DDP's and RD's first octet is another one */
enum { PROBE_CALLER = 16, PROBE_ID = 17, PROBE_TOKEN = 25 };

/* ---- Destinations ---- */

static struct diw_shm_pair *pair_find(struct diw_shm *s, const struct diw_addr *peer)
{
	for (struct diw_list *l = s->pairs.next; l != &s->pairs; l = l->next) {
		struct diw_shm_pair *p = diw_container(l, struct diw_shm_pair, link);

		if (diw_addr_eq(&p->peer, peer) && !p->ended)
			return p;
	}
	return NULL;
}

struct diw_shm_dst *diw_shm_dst(struct diw_shm *s, const struct diw_addr *addr)
{
	struct diw_shm_dst *dst = s->last;

	if (diw_addr_eq(&dst->addr, addr))
		return dst;
	s->last = dst = &s->dst[diw_addr_hash(addr, 0) % DIW_SHM_DSTS];
	if (!diw_addr_eq(&dst->addr, addr))
		*dst = (struct diw_shm_dst){ .addr = *addr, .pair = pair_find(s, addr) };
	return dst;
}

/* ---- The UNIX socket ---- */

/* The name of the port LOCAL; ANY: it is bound to all addresses. */
static socklen_t shm_name(const struct diw_addr *local, bool any, struct sockaddr_un *un)
{
	char ip[DIW_ADDR_IP_STRLEN];
	int n;

	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(un->sun_path + 1, sizeof un->sun_path - 1, "diwarp-shm-%u-%s-%u", (unsigned)geteuid(),
		     any ? "any" : diw_addr_ip_str(local, ip), local->port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

void diw_shm_listen(struct diw_shm *s)
{
	struct sockaddr_un un;
	socklen_t len = shm_name(&s->d.local, s->any, &un);
	int fd = diw_shm_socket();

	s->watch.event = port_event;
	if (fd < 0)
		return;
	if (bind(fd, (struct sockaddr *)&un, len) == 0 && listen(fd, SOMAXCONN) == 0 &&
	    diw_shm_watch_add(s->host->epfd, fd, &s->watch)) {
		s->listen_fd = fd;
		return;
	}
	diw_log(DIW_LOG_WARN, "port %u: no shared memory for processes that call (errno %d)", s->d.local.port, errno);
	close(fd);
}

/* Connects to the port at DST. A descriptor, or -errno. */
static int shm_connect(const struct diw_addr *dst)
{
	struct sockaddr_un un;
	int fd = diw_shm_socket(), rc;

	if (fd < 0)
		return -errno;
	rc = connect(fd, (struct sockaddr *)&un, shm_name(dst, false, &un));
	if (rc < 0)
		rc = connect(fd, (struct sockaddr *)&un, shm_name(dst, true, &un));
	if (rc == 0 && diw_shm_same_user(fd))
		return fd;
	close(fd);
	return -ECONNREFUSED;
}

/* PASS: a descriptor to pass, or -1. */
static bool pair_tell(const struct diw_shm_pair *p, enum kind kind, uint64_t token, int pass)
{
	struct shm_msg msg = { .kind = kind, .size = MAP_SIZE, .id = p->id, .token = token };

	return diw_shm_tell(p->fd, &msg, sizeof msg, pass);
}

/* ---- The memory ---- */

static bool pair_map(struct diw_shm_pair *p, int fd)
{
	void *map = mmap(NULL, MAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return false;
	madvise(map, MAP_SIZE, MADV_DONTFORK);
	p->map = map;
	if (p->calls) {
		diw_shm_ring_make(&p->map->ring[0]);
		diw_shm_ring_make(&p->map->ring[1]);
	}
	diw_shm_ring_begin(&p->map->ring[!p->calls], &p->tx, &p->map->ring[p->calls], &p->rx);
	return true;
}

/* ---- Begin and end of a pair ---- */

static struct diw_shm_pair *pair_new(struct diw_shm *s, int fd, bool calls, uint64_t now)
{
	struct diw_shm_pair *p = calloc(1, sizeof *p);

	if (!p)
		return NULL;
	p->fd = fd;
	p->calls = calls;
	p->until = now + PROVE_NS;
	p->port = s;
	p->watch.event = pair_event;
	if (!diw_shm_watch_add(s->host->epfd, fd, &p->watch)) {
		free(p);
		return NULL;
	}
	diw_list_add_tail(&s->pairs, &p->link);
	s->host->look_at = now + DIW_SHM_SOON_NS;
	return p;
}

void diw_shm_retry_later(struct diw_shm_dst *dst, uint64_t now)
{
	dst->retry_at = now + (RETRY_NS << dst->tries);
	dst->tries += dst->tries < RETRY_MOST;
}

void diw_shm_pair_free(struct diw_shm_pair *p, uint64_t now)
{
	struct diw_shm *s = p->port;

	for (unsigned i = 0; i < DIW_SHM_DSTS; i++) {
		struct diw_shm_dst *dst = &s->dst[i];

		if (dst->pair != p)
			continue;
		dst->pair = NULL;
		diw_shm_retry_later(dst, now);
	}
	epoll_ctl(s->host->epfd, EPOLL_CTL_DEL, p->fd, NULL);
	shutdown(p->fd, SHUT_RDWR);
	close(p->fd);
	if (p->map)
		munmap(p->map, sizeof *p->map);
	diw_list_del(&p->link);
	free(p);
}

struct diw_shm_pair *diw_shm_call(struct diw_shm *s, const struct diw_addr *dst, uint64_t now)
{
	struct diw_shm_pair *p = pair_find(s, dst);
	int fd, mem;
	bool ok;

	if (p)
		return p;
	fd = shm_connect(dst);
	if (fd < 0)
		return NULL;
	p = pair_new(s, fd, true, now);
	if (!p) {
		close(fd);
		return NULL;
	}
	p->peer = *dst;
	p->id = diw_random();
	mem = diw_shm_memory_new(MAP_SIZE);
	ok = mem >= 0 && pair_map(p, mem) && pair_tell(p, HELLO, 0, mem);
	if (mem >= 0)
		close(mem);
	if (ok)
		return p;
	diw_shm_pair_free(p, now);
	return NULL;
}

static void port_event(struct diw_shm_watch *w, uint64_t now)
{
	struct diw_shm *s = diw_container(w, struct diw_shm, watch);
	int fd = diw_above_std(accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		/* The caller would wait, and no thread could sleep. */
		diw_log(DIW_LOG_WARN, "port %u: no descriptor for a process that calls: no more shared memory",
			s->d.local.port);
		epoll_ctl(s->host->epfd, EPOLL_CTL_DEL, s->listen_fd, NULL);
		close(s->listen_fd);
		s->listen_fd = -1;
	}
	if (fd >= 0 && !(!s->paused && diw_shm_same_user(fd) && pair_new(s, fd, false, now)))
		close(fd);
}

/* ---- Proofs ---- */

bool diw_shm_is_probe(const uint8_t *data)
{
	return memcmp(data, probe_magic, sizeof probe_magic) == 0;
}

/* Sends the probe by a datagram, which proves the peer's address if the peer returns the token. */
static bool probe_send(struct diw_shm_pair *p, uint64_t now)
{
	struct diw_dgram *lower = p->port->lower;
	uint8_t data[DIW_SHM_PROBE] = { 0 };
	struct iovec iov = { data, sizeof data };
	struct diw_dgram_burst b = { .peer.addr = p->peer, .iov = &iov, .niov = 1, .len = sizeof data,
				     .seg = sizeof data };

	p->token = diw_random() | 1;
	memcpy(data, probe_magic, sizeof probe_magic);
	data[PROBE_CALLER] = p->calls;
	diw_put64(data + PROBE_ID, p->id);
	diw_put64(data + PROBE_TOKEN, p->token);
	return lower->ops->send(lower, &b, 1, now) == 1;
}

static void pair_settle(struct diw_shm_pair *p)
{
	struct diw_shm_dst *dst;

	if (!diw_shm_is_up(p))
		return;
	dst = diw_shm_dst(p->port, &p->peer);
	dst->pair = p;
	dst->tries = 0;
}

static struct diw_shm_pair *pair_of_probe(struct diw_shm *s, uint64_t id, bool calls)
{
	for (struct diw_list *l = s->pairs.next; l != &s->pairs; l = l->next) {
		struct diw_shm_pair *p = diw_container(l, struct diw_shm_pair, link);

		if (p->id == id && p->calls == calls && p->map && !p->shown)
			return p;
	}
	return NULL;
}

void diw_shm_probed(struct diw_shm *s, const struct diw_addr *src, const struct diw_addr *to, const uint8_t *data,
		    uint64_t now)
{
	struct diw_shm_pair *p = pair_of_probe(s, diw_get64(data + PROBE_ID), !data[PROBE_CALLER]);
	bool ok;

	if (!p || (p->calls && !diw_addr_eq(&p->peer, src)))
		return;
	p->peer = *src;
	p->own = *to;
	p->shown = true;
	ok = pair_tell(p, PROOF, diw_get64(data + PROBE_TOKEN), -1) && (p->calls || probe_send(p, now));
	if (ok)
		pair_settle(p);
	else
		diw_shm_pair_free(p, now);
}

/* False: the other end does not keep to the protocol. */
static bool msg_take(struct diw_shm_pair *p, const struct shm_msg *msg, int fd, uint64_t now)
{
	if (msg->kind == HELLO && !p->calls && !p->map) {
		p->id = msg->id;
		return msg->size == MAP_SIZE && fd >= 0 && diw_shm_memory_is_safe(fd, MAP_SIZE) && pair_map(p, fd) &&
		       pair_tell(p, WELCOME, 0, -1);
	}
	if (msg->kind == WELCOME && p->calls && !p->token)
		return probe_send(p, now);
	if (msg->kind != PROOF || !p->token || msg->token != p->token)
		return false;
	p->proved = true;
	pair_settle(p);
	return true;
}

static void pair_event(struct diw_shm_watch *w, uint64_t now)
{
	struct diw_shm_pair *p = diw_container(w, struct diw_shm_pair, watch);
	struct shm_msg msg;
	bool ok = true;
	ssize_t n;
	int fd;

	for (int i = 0; i < MSGS_MOST && ok && !p->ended; i++) {
		n = diw_shm_hear(p->fd, &msg, sizeof msg, &fd);
		if (n < 0)
			break;
		if (n == 0)
			p->ended = true;
		else if (n != 1)                /* one octet: a wake-up */
			ok = n == sizeof msg && msg_take(p, &msg, fd, now);
		if (fd >= 0)
			close(fd);
	}
	if (!ok)
		p->port->d.c->shm_refused++;
	if (!ok || (p->ended && !(diw_shm_is_up(p) && diw_shm_has(&p->rx))))
		diw_shm_pair_free(p, now);
	else if (p->ended)                      /* the rest of its ring is still to be delivered */
		epoll_ctl(p->port->host->epfd, EPOLL_CTL_DEL, p->fd, NULL);
}
