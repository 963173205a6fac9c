/* SPDX-License-Identifier: BSD-2-Clause */
/* Capture of datagrams (DIWARP_PCAP): one dgram below the impairment, and one above it. */
#include "llp/capture.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/path.h"
#include "llp/pcapng.h"

#define FLUSH_NS (100 * DIW_MS)      /* a captured datagram is in the file after this time */
#define MAX_RX 1024u                 /* datagrams of a received burst whose fate is recorded */

struct diw_capture {
	struct diw_dgram wire, top;
	struct diw_dgram *lower, *impair;
	struct diw_dgram_watch watch;
	struct diw_impair_watch losses;
	struct diw_pcapng *file;
	uint64_t epoch_ns, flush_at;         /* flush_at: DIW_NEVER: nothing to flush */
	struct diw_dgram_burst rx;           /* the burst received last; len 0: none */
	uint32_t ndropped;
	const char *dropped[MAX_RX];
};

/* ---- The process's file ---- */

static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static struct diw_pcapng *file;
static pid_t file_owner;                     /* the process that opened the file; a child opens its own, or logs why it
					      * cannot */

static void capture_warn(const char *path, int err)
{
	diw_log(DIW_LOG_TELL, "DIWARP_PCAP=%s: %s; nothing %s captured", path,
		err == -EBUSY ? "another process writes it (%p in the name stands for the process id)" :
		err == -EINVAL ? "not an ordinary file" :
		err == -ELOOP ? "a symbolic link, which is not followed" :
		err == -EPERM ? "another user's file, or one with a second name" :
		err == -EEXIST ? "it holds something else than a capture, and is left alone" : strerror(-err),
		file ? "more is" : "is");
}

const char *diw_capture_path(void)
{
	const char *path = secure_getenv("DIWARP_PCAP");

	return path && *path ? path : NULL;
}

struct diw_pcapng *diw_capture_file(const char *path)
{
	struct diw_pcapng *found;
	char name[PATH_MAX];
	int rc;

	pthread_mutex_lock(&file_lock);
	if (file_owner != getpid()) {
		file_owner = getpid();
		file = NULL;                 /* In a child, the inherited file stays the parent's. */
		rc = diw_path_expand(path, name, sizeof name);
		if (rc == 0)
			rc = diw_pcapng_open(name, &file);
		if (rc < 0)
			capture_warn(path, rc);
	}
	found = file;
	pthread_mutex_unlock(&file_lock);
	return found;
}

void diw_capture_forked(void)
{
	pthread_mutex_init(&file_lock, NULL);        /* another thread may have held the lock at fork(2) */
	if (file)
		diw_pcapng_forked(file);
	file = NULL;
	file_owner = 0;
}

/* ---- Packets ---- */

void diw_capture_check(int rc)
{
	if (rc < 0)
		capture_warn(diw_capture_path() ? diw_capture_path() : "", rc);
}

/* TO: the address that the datagram came to, if not LOCAL; else NULL. */
static void write_one(struct diw_capture *c, const struct diw_pcapng_packet *one, const struct diw_addr *peer,
		      const struct diw_addr *to, uint64_t now)
{
	struct diw_addr local = to && to->port ? *to : c->wire.local;
	struct diw_pcapng_packet k = *one;

	if (diw_addr_ip_is_zero(&local) && diw_addr_is_v4(peer))
		local.ip[10] = local.ip[11] = 0xff;  /* a wildcard address is written in the peer's family */
	k.src = k.outbound ? &local : peer;
	k.dst = k.outbound ? peer : &local;
	k.ns = c->epoch_ns + now;
	diw_capture_check(diw_pcapng_write(c->file, &k));
	c->flush_at = diw_min64(c->flush_at, now + FLUSH_NS);
}

static void capture_burst(struct diw_capture *c, const struct diw_dgram_burst *b, bool outbound, const char *comment,
			  uint64_t now)
{
	const struct iovec *v = b->iov;
	uint32_t left = b->len, i = 0;
	size_t off = 0;

	do {
		uint32_t len = left < b->seg ? left : b->seg;
		const char *why = comment ? comment : !outbound && i < c->ndropped ? c->dropped[i] : NULL;
		struct diw_pcapng_packet k = { .outbound = outbound, .iov = v, .off = off, .len = len, .comment = why };

		write_one(c, &k, &b->peer.addr, outbound ? NULL : &b->to, now);
		left -= len;
		i++;
		for (off += len; left > 0 && off >= v->iov_len; v++)
			off -= v->iov_len;
	} while (left > 0);
}

static void capture_flush(struct diw_capture *c)
{
	diw_capture_check(diw_pcapng_flush(c->file));
	c->flush_at = DIW_NEVER;
}

/* ---- Below the impairment ---- */

static struct diw_capture *of_wire(struct diw_dgram *d)
{
	return (struct diw_capture *)((char *)d - offsetof(struct diw_capture, wire));
}

static int wire_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_capture *c = of_wire(d);
	int i, rc = 0;

	for (i = 0; i < n; i++) {
		uint64_t refused = d->c->tx_error, count = (b[i].len + b[i].seg - 1) / b[i].seg;

		rc = c->lower->ops->send(c->lower, &b[i], 1, now);
		if (rc < 1)
			break;
		capture_burst(c, &b[i], true, d->c->tx_error - refused >= count ? "tx_error" : NULL, now);
	}
	return i ? i : rc;
}

static int wire_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_capture *c = of_wire(d);

	return c->lower->ops->recv(c->lower, b, n, now);
}

static uint64_t wire_deadline(struct diw_dgram *d)
{
	struct diw_capture *c = of_wire(d);

	return c->lower->ops->deadline(c->lower);
}

static uint32_t wire_mtu(struct diw_dgram *d, const struct diw_addr *dst)
{
	struct diw_capture *c = of_wire(d);

	return c->lower->ops->mtu(c->lower, dst);
}

static int wire_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS])
{
	struct diw_capture *c = of_wire(d);

	return c->lower->ops->fds(c->lower, fd);
}

static void close_wire(struct diw_dgram *d)
{
	struct diw_capture *c = of_wire(d);

	c->lower->ops->close(c->lower);
	capture_flush(c);
	if (!c->impair)
		free(c);
}

static const struct diw_dgram_ops wire_ops = {
	.name = "capture", .send = wire_send, .recv = wire_recv, .deadline = wire_deadline, .mtu = wire_mtu,
	.fds = wire_fds, .close = close_wire,
};

/* ---- Above it ---- */

static struct diw_capture *of_top(struct diw_dgram *d)
{
	return (struct diw_capture *)((char *)d - offsetof(struct diw_capture, top));
}

static int top_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_capture *c = of_top(d);

	return c->impair->ops->send(c->impair, b, n, now);
}

/* Receives one burst a call: the fate of datagrams is known only for the burst received last. */
static int top_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_capture *c = of_top(d);
	int got = n > 0 ? c->impair->ops->recv(c->impair, b, 1, now) : 0;

	if (got > 0) {
		c->rx = *b;
		c->ndropped = 0;
	} else if (now >= c->flush_at) {
		capture_flush(c);
	}
	return got;
}

static uint64_t top_deadline(struct diw_dgram *d)
{
	struct diw_capture *c = of_top(d);

	return diw_min64(c->flush_at, c->impair->ops->deadline(c->impair));
}

static uint32_t top_mtu(struct diw_dgram *d, const struct diw_addr *dst)
{
	struct diw_capture *c = of_top(d);

	return c->impair->ops->mtu(c->impair, dst);
}

static int top_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS])
{
	struct diw_capture *c = of_top(d);

	return c->impair->ops->fds(c->impair, fd);
}

static void top_close(struct diw_dgram *d)
{
	struct diw_capture *c = of_top(d);

	c->impair->ops->close(c->impair);
	free(c);
}

static const struct diw_dgram_ops top_ops = {
	.name = "capture", .send = top_send, .recv = top_recv, .deadline = top_deadline, .mtu = top_mtu,
	.fds = top_fds, .close = top_close,
};

/* ---- The fate of datagrams ---- */

static void capture_dropped(struct diw_dgram_watch *w, const uint8_t *at, const char *reason)
{
	struct diw_capture *c = diw_container(w, struct diw_capture, watch);
	uintptr_t off = (uintptr_t)at - (uintptr_t)c->rx.iov->iov_base;
	uint32_t i;

	if (off > c->rx.len)
		return;
	i = c->rx.seg ? (uint32_t)off / c->rx.seg : 0;
	if (i >= MAX_RX)
		return;
	while (c->ndropped <= i)
		c->dropped[c->ndropped++] = NULL;
	c->dropped[i] = reason;
}

static void capture_seen(struct diw_dgram_watch *w, uint64_t now)
{
	struct diw_capture *c = diw_container(w, struct diw_capture, watch);

	capture_burst(c, &c->rx, false, NULL, now);
}

static void capture_lost(struct diw_impair_watch *w, bool tx, const struct diw_addr *peer, const struct iovec *iov,
			 size_t off, uint32_t len, uint64_t now)
{
	struct diw_capture *c = diw_container(w, struct diw_capture, losses);
	struct diw_pcapng_packet k = { .outbound = tx, .iov = iov, .off = off, .len = len, .comment = "impair_lost" };

	write_one(c, &k, peer, NULL, now);
}

/* ---- Open ---- */

int diw_capture_open(struct diw_pcapng *to, uint64_t epoch_ns, struct diw_dgram *lower, struct diw_capture **out,
		     struct diw_dgram **wire)
{
	struct diw_capture *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	c->file = to;
	c->epoch_ns = epoch_ns;
	c->flush_at = DIW_NEVER;
	c->lower = lower;
	c->wire = (struct diw_dgram){ .ops = &wire_ops, .local = lower->local, .rcvbuf = lower->rcvbuf,
				       .state = lower->state, .c = lower->c };
	c->watch = (struct diw_dgram_watch){ .dropped = capture_dropped, .seen = capture_seen };
	c->losses.lost = capture_lost;
	*wire = &c->wire;
	*out = c;
	return 0;
}

void diw_capture_top(struct diw_capture *c, struct diw_dgram *impair, struct diw_dgram **top)
{
	c->impair = impair;
	c->top = c->wire;
	c->top.ops = &top_ops;
	c->top.watch = &c->watch;
	diw_impair_watch(impair, &c->losses);
	*top = &c->top;
}
