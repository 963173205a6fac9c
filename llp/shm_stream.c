/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream of shared memory: see llp/shm_stream.h. */
#include "llp/shm_stream.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/wire.h"
#include "llp/shm_bytes.h"

#define STREAMS_MOST 64              /* of a device: a thread looks at the rings of all before it sleeps */
#define LOOK_EVERY 64u               /* reads of an empty ring, of which one looks at the lower stream */
#define CALLS_MOST 4                 /* accepted in one read */
#define WAKES_MOST 16                /* read at once: the other end may write for ever */

#define MAGIC 0x64737331u            /* names the version, too */

struct stream_msg {
	uint32_t magic, size;
};

struct stream_map {
	struct diw_shm_bytes ring[2];        /* the first one is the initiator's to write */
};

enum way { WAY_OPEN, WAY_WIRE, WAY_MEMORY };         /* OPEN: the initiator has not decided yet */

struct shm_stream {
	struct diw_stream s;
	struct diw_stream *lower;
	struct diw_counters *c;
	struct diw_shm_stream of;
	struct diw_shm_watch watch;
	enum way way;
	int pid;                     /* a child after fork(2) has not the memory */
	int listen_fd, fd;           /* the responder's until it is decided; the connection. Otherwise -1 */
	struct stream_map *map;
	struct diw_shm_end tx, rx;
	unsigned empty;              /* reads of the empty ring since the last look at the lower stream */
	bool blocked;                /* the last write took less than was given */
	int broken;                  /* an errno: the initiator has decided, and this end cannot follow */
};

static struct shm_stream *stream_of(struct diw_stream *s)
{
	return (struct shm_stream *)s;
}

/* ---- The UNIX socket and the memory ---- */

static socklen_t stream_name(const struct diw_addr *responder, const struct diw_addr *initiator, struct sockaddr_un *un)
{
	int n;

	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* 98 octets at most */
	n = snprintf(un->sun_path + 1, sizeof un->sun_path - 1, "diwarp-rc-%u-%016lx%016lx-%u-%016lx%016lx-%u",
		     (unsigned)geteuid(), diw_get64(responder->ip), diw_get64(responder->ip + 8), responder->port,
		     diw_get64(initiator->ip), diw_get64(initiator->ip + 8), initiator->port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool stream_map(struct shm_stream *n, int fd, bool initiator)
{
	void *map = mmap(NULL, sizeof(struct stream_map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return false;
	madvise(map, sizeof(struct stream_map), MADV_DONTFORK);
	n->map = map;
	if (initiator)                          /* a thread of either end may already sleep */
		n->map->ring[0].asleep = n->map->ring[1].asleep = 1;
	n->tx = (struct diw_shm_end){ .ring = &n->map->ring[!initiator] };
	n->rx = (struct diw_shm_end){ .ring = &n->map->ring[initiator] };
	n->way = WAY_MEMORY;
	n->s.wakes = true;
	return true;
}

static void fd_drop(struct shm_stream *n, int *fd)
{
	if (*fd < 0)
		return;
	if (n->pid == getpid())
		epoll_ctl(n->of.host->epfd, EPOLL_CTL_DEL, *fd, NULL);
	close(*fd);
	*fd = -1;
}

static void stream_event(struct diw_shm_watch *w, uint64_t now)
{
	struct shm_stream *n = diw_container(w, struct shm_stream, watch);
	char octet;
	int passed = -1;
	ssize_t got = 1;

	(void)now;
	for (int i = 0; i < WAKES_MOST && n->way == WAY_MEMORY && got == 1 && passed < 0; i++)
		got = diw_shm_hear(n->fd, &octet, sizeof octet, &passed);
	if (passed >= 0)
		close(passed);
	if (got == 0)                           /* the lower stream reports the end, too */
		fd_drop(n, &n->fd);
	n->of.host->wakes(n->of.owner);
}

/* The responder's message from the process that has called. A call that ends without one has decided nothing. */
static void stream_hear(struct shm_stream *n)
{
	struct stream_msg msg;
	int passed;
	ssize_t got = diw_shm_hear(n->fd, &msg, sizeof msg, &passed);
	bool ok = got == sizeof msg && msg.magic == MAGIC && msg.size == sizeof(struct stream_map) && passed >= 0 &&
		  diw_shm_memory_is_safe(passed, sizeof(struct stream_map)) && stream_map(n, passed, false);

	if (passed >= 0)
		close(passed);
	if (got == 0) {
		fd_drop(n, &n->fd);
	} else if (!ok && got > 0) {
		n->c->shm_refused++;
		n->broken = ECONNRESET;
	}
}

/* The responder has not received an octet yet: has the initiator passed a memory? */
static void stream_decide(struct shm_stream *n)
{
	for (int i = 0; i < CALLS_MOST && n->fd < 0; i++) {
		n->fd = diw_above_std(accept4(n->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
		if (n->fd < 0 && errno != EAGAIN && errno != EINTR)
			n->broken = errno;
		if (n->fd < 0)
			return;
		if (!diw_shm_same_user(n->fd) || !diw_shm_watch_add(n->of.host->epfd, n->fd, &n->watch))
			fd_drop(n, &n->fd);
	}
	if (n->fd >= 0)
		stream_hear(n);
	if (n->way == WAY_MEMORY)
		fd_drop(n, &n->listen_fd);
}

/* The host looks at this stream no more. */
static void stream_leave(struct shm_stream *n)
{
	if (n->pid != getpid() || diw_list_empty(&n->of.link))
		return;
	diw_list_del(&n->of.link);
	n->of.host->nstreams--;
}

static void take_wire(struct shm_stream *n)
{
	n->way = WAY_WIRE;
	stream_leave(n);
	fd_drop(n, &n->listen_fd);
	fd_drop(n, &n->fd);
}

/* ---- The stream ---- */

static int stream_connected(struct diw_stream *s)
{
	struct diw_stream *lower = stream_of(s)->lower;

	return lower->ops->connected(lower);
}

static ssize_t lower_send(struct shm_stream *n, const struct iovec *iov, int count)
{
	n->lower->apart = n->s.apart;
	return n->lower->ops->send(n->lower, iov, count);
}

static uint64_t iov_octets(const struct iovec *iov, int count)
{
	uint64_t octets = 0;

	for (int i = 0; i < count; i++)
		octets += iov[i].iov_len;
	return octets;
}

/* SHORT: the caller waits for room. A thread that sleeps already has not asked the reader for a wake-up. */
static void write_was_short(struct shm_stream *n, bool is_short)
{
	n->blocked = is_short;
	if (!is_short || !n->of.host->rested)
		return;
	atomic_store(&n->tx.ring->full, 1);
	if (diw_shm_writable(&n->tx))
		n->of.host->wakes(n->of.owner);
}

static ssize_t near_send(struct diw_stream *s, const struct iovec *iov, int count)
{
	struct shm_stream *n = stream_of(s);
	ssize_t got;

	if (n->way == WAY_OPEN && !n->broken)   /* a Terminate: it takes the way that the initiator reads */
		stream_decide(n);
	if (n->way != WAY_MEMORY)
		return lower_send(n, iov, count);
	got = diw_shm_write(&n->tx, iov, count);
	if (got == -EAGAIN && n->fd < 0)        /* the other end has closed: nobody will make room */
		got = -EPIPE;
	write_was_short(n, got == -EAGAIN || (got > 0 && (uint64_t)got < iov_octets(iov, count)));
	if (got == -EPROTO)
		n->c->shm_refused++;
	if (got <= 0)
		return got == -EPROTO ? -ECONNRESET : got;
	n->c->shm_tx_bytes += (uint64_t)got;
	if (n->fd >= 0 && diw_shm_wakes_reader(&n->tx))
		diw_shm_wake(n->fd);
	return got;
}

static ssize_t memory_read(struct shm_stream *n, const struct iovec *iov, int count)
{
	ssize_t got = diw_shm_read(&n->rx, iov, count);

	if (got == -EPROTO) {
		n->c->shm_refused++;
		return -ECONNRESET;
	}
	if (got <= 0)
		return got;
	n->empty = 0;
	n->c->shm_rx_bytes += (uint64_t)got;
	if (n->fd >= 0 && diw_shm_wakes_writer(&n->rx))
		diw_shm_wake(n->fd);
	return got;
}

/* The other end has closed its sockets, and has left octets in the ring: TCP would reset the stream. */
static bool left_unread(const struct shm_stream *n)
{
	struct pollfd p = { .fd = n->fd };

	return atomic_load(&n->tx.ring->head) != n->tx.tail &&
	       (n->fd < 0 || (poll(&p, 1, 0) == 1 && p.revents & POLLHUP));
}

/* The ring is empty. The lower stream has no octets, but it ends: behind what the other end has written meanwhile. */
static ssize_t lower_end(struct shm_stream *n, const struct iovec *iov, int count)
{
	uint8_t octet;
	struct iovec one = { &octet, sizeof octet };
	ssize_t end, got;

	if (++n->empty % LOOK_EVERY != 0 && n->fd >= 0)
		return -EAGAIN;
	end = n->lower->ops->recv(n->lower, &one, 1);
	if (end == -EAGAIN)
		return end;
	got = memory_read(n, iov, count);
	if (got != -EAGAIN)
		return got;
	if (end > 0)
		n->c->shm_refused++;
	return end > 0 || (end == 0 && left_unread(n)) ? -ECONNRESET : end;
}

static ssize_t near_read(struct shm_stream *n, const struct iovec *iov, int count)
{
	ssize_t got = memory_read(n, iov, count);

	return got == -EAGAIN ? lower_end(n, iov, count) : got;
}

static ssize_t near_recv(struct diw_stream *s, const struct iovec *iov, int count)
{
	struct shm_stream *n = stream_of(s);
	ssize_t got;

	if (n->way == WAY_OPEN && !n->broken)
		stream_decide(n);
	if (n->broken)
		return -n->broken;
	if (n->way == WAY_MEMORY)
		return near_read(n, iov, count);
	got = n->lower->ops->recv(n->lower, iov, count);
	if (got > 0 && n->way == WAY_OPEN)
		take_wire(n);
	if (got > 0 || got == -EAGAIN || n->way == WAY_WIRE)
		return got;
	stream_decide(n);                       /* the initiator may have passed its memory since, written, and ended */
	return n->way == WAY_MEMORY ? near_read(n, iov, count) : got;
}

static uint32_t stream_emss(struct diw_stream *s)
{
	struct diw_stream *lower = stream_of(s)->lower;

	return lower->ops->emss(lower);
}

static int stream_fd(struct diw_stream *s)
{
	struct diw_stream *lower = stream_of(s)->lower;

	return lower->ops->fd(lower);
}

static bool stream_hung_up(struct diw_stream *s)
{
	struct diw_stream *lower = stream_of(s)->lower;

	return lower->ops->hung_up && lower->ops->hung_up(lower);
}

static bool stream_unsent(struct diw_stream *s)
{
	struct diw_stream *lower = stream_of(s)->lower;

	return lower->ops->unsent && lower->ops->unsent(lower);
}

static int stream_tune(struct diw_stream *s, const struct diw_stream_attr *a)
{
	struct diw_stream *lower = stream_of(s)->lower;

	return lower->ops->tune ? lower->ops->tune(lower, a) : 0;
}

static void stream_shutdown(struct diw_stream *s)
{
	struct diw_stream *lower = stream_of(s)->lower;

	lower->ops->shutdown(lower);
}

static void stream_close(struct diw_stream *s, bool abort)
{
	struct shm_stream *n = stream_of(s);

	n->lower->ops->close(n->lower, abort);
	fd_drop(n, &n->listen_fd);
	fd_drop(n, &n->fd);
	stream_leave(n);
	if (n->pid == getpid() && n->map)
		munmap(n->map, sizeof *n->map);
	free(n);
}

static const struct diw_stream_ops shm_stream_ops = {
	.name = "shm", .connected = stream_connected, .send = near_send, .recv = near_recv, .emss = stream_emss,
	.fd = stream_fd, .hung_up = stream_hung_up, .unsent = stream_unsent, .tune = stream_tune,
	.shutdown = stream_shutdown, .close = stream_close,
};

/* ---- What the host asks ---- */

static bool stream_has(const struct diw_shm_stream *of)
{
	const struct shm_stream *n = diw_container((struct diw_shm_stream *)of, struct shm_stream, of);

	return n->way == WAY_MEMORY && diw_shm_readable(&n->rx);
}

/* Says so once: the owner may have nothing to send any more, or may wait for a time. */
static bool stream_has_room(struct diw_shm_stream *of)
{
	struct shm_stream *n = diw_container(of, struct shm_stream, of);

	if (!n->blocked || !diw_shm_writable(&n->tx))
		return false;
	n->blocked = false;
	return true;
}

static void stream_sleeps(struct diw_shm_stream *of, bool asleep)
{
	struct shm_stream *n = diw_container(of, struct shm_stream, of);

	if (n->way != WAY_MEMORY)
		return;
	atomic_store(&n->rx.ring->asleep, asleep);
	if (n->blocked)
		atomic_store(&n->tx.ring->full, asleep);
}

/* ---- Begin ---- */

static struct shm_stream *stream_new(struct diw_shm_host *h, void *owner, struct diw_counters *c,
				     struct diw_stream *lower)
{
	struct shm_stream *n = lower->near && h->nstreams < STREAMS_MOST ? calloc(1, sizeof *n) : NULL;

	if (!n)
		return NULL;
	n->s = (struct diw_stream){ .ops = &shm_stream_ops, .local = lower->local, .peer = lower->peer, .near = true };
	n->lower = lower;
	n->c = c;
	n->of = (struct diw_shm_stream){ .host = h, .owner = owner, .has = stream_has,
					 .has_room = stream_has_room, .sleeps = stream_sleeps };
	n->watch.event = stream_event;
	n->pid = getpid();
	n->listen_fd = n->fd = -1;
	return n;
}

static void stream_begin(struct shm_stream *n, struct diw_stream **s)
{
	diw_list_add_tail(&n->of.host->streams, &n->of.link);
	n->of.host->nstreams++;
	*s = &n->s;
}

void diw_shm_stream_offer(struct diw_shm_host *h, void *owner, struct diw_counters *c, struct diw_stream **s)
{
	struct shm_stream *n = stream_new(h, owner, c, *s);
	struct sockaddr_un un;
	socklen_t len;

	if (!n)
		return;
	len = stream_name(&(*s)->local, &(*s)->peer, &un);
	n->listen_fd = diw_shm_socket();
	if (n->listen_fd >= 0 && bind(n->listen_fd, (struct sockaddr *)&un, len) == 0 &&
	    listen(n->listen_fd, CALLS_MOST) == 0 && diw_shm_watch_add(h->epfd, n->listen_fd, &n->watch)) {
		stream_begin(n, s);
		return;
	}
	diw_log(DIW_LOG_WARN, "a connection has no shared memory (errno %d)", errno);
	if (n->listen_fd >= 0)
		close(n->listen_fd);
	free(n);
}

/* Passes a memory to the responder. False: the octets take the lower stream. */
static bool stream_call(struct shm_stream *n)
{
	const struct stream_msg msg = { .magic = MAGIC, .size = sizeof(struct stream_map) };
	struct sockaddr_un un;
	socklen_t len = stream_name(&n->s.peer, &n->s.local, &un);
	int memory = -1;
	bool ok;

	n->fd = diw_shm_socket();
	ok = n->fd >= 0 && connect(n->fd, (struct sockaddr *)&un, len) == 0 && diw_shm_same_user(n->fd) &&
	     diw_shm_watch_add(n->of.host->epfd, n->fd, &n->watch);
	if (ok)
		memory = diw_shm_memory_new(sizeof(struct stream_map));
	ok = memory >= 0 && stream_map(n, memory, true) && diw_shm_tell(n->fd, &msg, sizeof msg, memory);
	if (memory >= 0)
		close(memory);
	return ok;
}

void diw_shm_stream_join(struct diw_shm_host *h, void *owner, struct diw_counters *c, struct diw_stream **s)
{
	struct shm_stream *n = stream_new(h, owner, c, *s);

	if (!n)
		return;
	if (stream_call(n)) {
		stream_begin(n, s);
		return;
	}
	fd_drop(n, &n->fd);
	if (n->map)
		munmap(n->map, sizeof *n->map);
	free(n);
}
