/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bad network inside the process, and its capture: as llp/impair.c and llp/capture.c are to queue pairs, whose model
 * of loss and whose file these are. Nothing here can send later, so what would need that is refused. This is for tests:
 * there is one lock for all, which signal handlers do not see held, and each packet is in the file when the call
 * returns. bad_rx.c impairs what is received.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "llp/capture.h"
#include "llp/pcapng.h"
#include "sockets_preload/dgram/bad_wire.h"

#define MOST_PIECES 64u

bool diw_bad_net_on;

static struct {
	sigset_t before;                     /* the lock's holder's */
	const char *path;                    /* or NULL */
	struct diw_pcapng *file;
	struct diw_impair_watch watch;
	char refused[256];
	atomic_bool told_datagrams, told_connections;
} wire;

struct diw_bad_wire diw_bad_wire = { .lock = PTHREAD_MUTEX_INITIALIZER };

void diw_bad_wire_lock(void)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&diw_bad_wire.lock);
	wire.before = before;
}

void diw_bad_wire_unlock(void)
{
	sigset_t before = wire.before;

	pthread_mutex_unlock(&diw_bad_wire.lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- The capture ---- */

static uint64_t since_1970(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

static struct diw_addr local_address_of(int fd, const struct diw_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	struct diw_addr a = { 0 };

	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		diw_addr_from_sockaddr(&a, (struct sockaddr *)&ss);
	if (diw_addr_ip_is_zero(&a) && diw_addr_is_v4(peer))
		a.ip[10] = a.ip[11] = 0xff;  /* the wildcard, of the peer's family */
	return a;
}

static void write_packet(int fd, const struct diw_addr *peer, const struct diw_pcapng_packet *k)
{
	struct diw_pcapng_packet whole = *k;
	struct diw_addr local;

	if (!wire.file)
		return;
	local = local_address_of(fd, peer);
	whole.src = k->outbound ? &local : peer;
	whole.dst = k->outbound ? peer : &local;
	whole.ns = since_1970();
	diw_capture_check(diw_pcapng_write(wire.file, &whole));
	diw_capture_check(diw_pcapng_flush(wire.file));
}

static void write_lost(struct diw_impair_watch *w, bool tx, const struct diw_addr *peer, const struct iovec *iov,
		       size_t off, uint32_t len, uint64_t now)
{
	struct diw_pcapng_packet k = { .outbound = tx, .iov = iov, .off = off, .len = len, .comment = "impair_lost" };

	(void)w;
	(void)now;
	write_packet(diw_bad_wire.fd, peer, &k);
}

/* What the kernel took in one call, datagram by datagram. */
static void write_burst(int fd, const struct diw_dgram_burst *b)
{
	struct diw_impair_cursor at = { 0, 0 };
	uint32_t left = wire.file ? b->len : 0;

	if (wire.file && !b->len)
		write_packet(fd, &b->peer.addr, &(struct diw_pcapng_packet){ .outbound = true, .iov = b->iov });
	while (left) {
		uint32_t len = left < b->seg ? left : b->seg;
		struct diw_pcapng_packet k = { .outbound = true, .iov = b->iov + at.i, .off = at.off, .len = len };

		write_packet(fd, &b->peer.addr, &k);
		diw_impair_advance(b->iov, &at, len);
		left -= len;
	}
}

void diw_bad_net_came(const struct diw_came *c, const uint8_t *data, size_t len, const char *dropped)
{
	struct iovec iov = { (void *)data, len };
	struct diw_pcapng_packet k = { .iov = &iov, .len = (uint32_t)len, .comment = dropped };
	int saved = errno;

	diw_bad_wire_lock();
	write_packet(c->fd, &c->src, &k);
	diw_bad_wire_unlock();
	errno = saved;
}

/* ---- The impairment ---- */

/* The LEN bytes of B at AT, in PIECE: so many pieces. */
static size_t cut_out(const struct diw_dgram_burst *b, struct diw_impair_cursor at, uint32_t len, struct iovec *piece)
{
	size_t n = 0;

	while (len) {
		size_t have = b->iov[at.i].iov_len - at.off, some = have < len ? have : len;

		if (some)
			piece[n++] = (struct iovec){ (uint8_t *)b->iov[at.i].iov_base + at.off, some };
		len -= (uint32_t)some;
		at = (struct diw_impair_cursor){ at.i + 1, 0 };
	}
	return n;
}

static ssize_t send_item(int fd, const struct msghdr *msg, int flags, const struct diw_dgram_burst *b,
			 const struct diw_impair_item *item)
{
	struct iovec piece[MOST_PIECES];
	struct msghdr m = *msg;
	struct diw_dgram_burst one = { .peer = b->peer, .iov = piece, .len = item->len, .seg = item->len };
	ssize_t rc;

	if (item->e)
		piece[0] = (struct iovec){ item->e->data, item->len };
	m.msg_iov = piece;
	m.msg_iovlen = item->e ? 1 : cut_out(b, item->at, item->len, piece);
	rc = real.sendmsg(fd, &m, flags);
	if (rc >= 0)
		write_burst(fd, &one);
	return rc;
}

void diw_bad_wire_count(void)
{
	struct diw_counters *c = &diw_bad_wire.c;

	diw_add(DIW_C_sock_impair_lost, c->impair_lost);
	diw_add(DIW_C_sock_impair_duplicated, c->impair_duplicated);
	diw_add(DIW_C_sock_impair_corrupted, c->impair_corrupted);
	*c = (struct diw_counters){ 0 };
}

/* Whether it left is what became of the first that the network does not lose. */
static ssize_t send_impaired(int fd, const struct msghdr *msg, int flags, const struct diw_dgram_burst *b)
{
	struct diw_impair_line *l = &diw_bad_wire.tx;
	uint64_t now = diw_clock_ns();
	ssize_t rc = 0;

	diw_bad_wire.fd = fd;
	diw_impair_line_plan(l, b, now);
	for (int i = 0; i < l->nrun && rc >= 0; i++) {
		rc = send_item(fd, msg, flags, b, &l->run[i]);
		if (i)
			rc = 0;
	}
	diw_impair_line_tell(l, b, rc >= 0, now);
	diw_impair_line_end(l, b, l->nrun, now);
	diw_bad_wire_count();
	return rc < 0 ? rc : (ssize_t)b->len;
}

static bool find_peer(int fd, const struct msghdr *msg, struct diw_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	if (!msg->msg_name && getpeername(fd, (struct sockaddr *)&ss, &len) < 0)
		return false;
	if (msg->msg_name && msg->msg_namelen < sizeof(struct sockaddr_in))
		return false;
	diw_addr_from_sockaddr(peer, msg->msg_name ? msg->msg_name : (struct sockaddr *)&ss);
	return true;
}

ssize_t diw_bad_net_sendmsg(int fd, const struct msghdr *msg, int flags, uint16_t size)
{
	size_t len = diw_iov_len(msg->msg_iov, msg->msg_iovlen);
	struct diw_dgram_burst b = { .iov = msg->msg_iov, .niov = (int)msg->msg_iovlen, .len = (uint32_t)len };
	int error;
	ssize_t rc;

	if (len > DIW_DGRAM_MAX || msg->msg_iovlen > MOST_PIECES || diw_is_confined() ||
	    !find_peer(fd, msg, &b.peer.addr))
		return real.sendmsg(fd, msg, flags);
	b.seg = size && size < len ? size : (uint32_t)len;
	if (b.seg && b.len / b.seg >= DIW_DGRAM_MAX_SEGS)
		return real.sendmsg(fd, msg, flags);
	diw_bad_wire_lock();
	if (diw_bad_wire.tx.active) {
		rc = send_impaired(fd, msg, flags, &b);
	} else {
		rc = real.sendmsg(fd, msg, flags);
		if (rc >= 0)
			write_burst(fd, &b);
	}
	error = errno;
	diw_bad_wire_unlock();
	errno = error;
	return rc;
}

/* ---- What is asked for ---- */

static const char *refuses(const struct diw_impair_spec *spec)
{
	const struct diw_impair_dir *tx = &spec->dir[DIW_IMPAIR_TX], *rx = &spec->dir[DIW_IMPAIR_RX];

	if (tx->delay)
		return "delay: a socket's call cannot send later";
	if (tx->reorder > 0)
		return "reorder: a socket's call cannot send later";
	if (rx->delay || rx->reorder > 0)
		return "rx.delay, rx.reorder: what waits is in the kernel's queue: impair what the other end sends";
	return NULL;
}

static bool lines_set(const struct diw_impair_spec *spec)
{
	return diw_impair_line_set(&diw_bad_wire.tx, &spec->dir[DIW_IMPAIR_TX], DIW_IMPAIR_TX) == 0 &&
	       diw_impair_line_set(&diw_bad_wire.rx, &spec->dir[DIW_IMPAIR_RX], DIW_IMPAIR_RX) == 0;
}

static void impair(const char *text)
{
	struct diw_impair_spec *spec = NULL;
	char wrong[160];
	const char *why = wrong;

	if (diw_impair_parse(text, &spec, wrong, sizeof wrong) == 0) {
		why = refuses(spec);
		if (!why && !lines_set(spec))
			why = "no memory is left for it";
		diw_impair_spec_free(spec);
	}
	if (why) {
		diw_bad_wire.tx.active = diw_bad_wire.rx.active = false;
		snprintf(wire.refused, sizeof wire.refused, "%s", why);
	}
}

static bool is_impaired(void)
{
	return diw_bad_wire.tx.active || diw_bad_wire.rx.active;
}

void diw_bad_net_init(void)
{
	const char *text = secure_getenv("DIWARP_IMPAIR");

	diw_bad_wire.tx.c = diw_bad_wire.rx.c = &diw_bad_wire.c;
	if (text && *text)
		impair(text);
	wire.path = diw_capture_path();
	wire.watch.lost = write_lost;
	diw_bad_wire.tx.tx = true;
	if (wire.path)
		diw_bad_wire.tx.watch = diw_bad_wire.rx.watch = &wire.watch;
	diw_bad_net_on = is_impaired() || wire.path || wire.refused[0];
}

void diw_bad_net_open(bool connections)
{
	if (!diw_bad_net_on || diw_is_confined())
		return;
	if (connections) {
		if (!atomic_exchange(&wire.told_connections, true))
			diw_log(DIW_LOG_TELL, "connections of TCP are %s", wire.path && !is_impaired() ?
				"not captured: diw dump -i shows them" : "not impaired: TCP would repair it");
		return;
	}
	if (wire.refused[0] && !atomic_exchange(&wire.told_datagrams, true))
		diw_log(DIW_LOG_TELL, "DIWARP_IMPAIR: %s; nothing is impaired", wire.refused);
	diw_bad_wire_lock();
	if (wire.path)
		wire.file = diw_capture_file(wire.path);
	diw_bad_wire_unlock();
}

static void line_empty(struct diw_impair_line *l)
{
	l->nrun = l->nlost = 0;
	l->entry_head = l->entry_count = l->arena_head = l->arena_used = 0;
}

/* Another thread of the parent's may have been sending. */
void diw_bad_net_forked(void)
{
	if (!diw_bad_net_on)
		return;
	pthread_mutex_init(&diw_bad_wire.lock, NULL);
	wire.file = NULL;
	line_empty(&diw_bad_wire.tx);
	line_empty(&diw_bad_wire.rx);
	diw_capture_forked();
}
