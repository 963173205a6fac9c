/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bad network inside the process, and its capture: for sockets what llp/impair.c and llp/capture.c are for queue
 * pairs. The model of loss and the format of the file are theirs. It is made for tests. There is one lock for
 * everything, during which signals are blocked. A packet is in the file when the call returns. bad_tx.c impairs
 * datagrams that are sent, bad_rx.c those that are received.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "llp/capture.h"
#include "llp/pcapng.h"
#include "sockets_preload/dgram/bad_wire.h"

bool diw_bad_net_on;

static struct {
	sigset_t before;                     /* signal mask of the lock's holder */
	int cancel;                          /* cancel state of the lock's holder */
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
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_mutex_lock(&diw_bad_wire.lock);
	wire.before = before;
	wire.cancel = cancel;
}

void diw_bad_wire_unlock(void)
{
	sigset_t before = wire.before;
	int cancel = wire.cancel;

	pthread_mutex_unlock(&diw_bad_wire.lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(cancel, NULL);
}

/* ---- The capture ---- */

static struct diw_addr local_address_of(int fd, const struct diw_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	struct diw_addr a = { 0 };

	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		diw_addr_from_sockaddr(&a, (struct sockaddr *)&ss);
	if (diw_addr_ip_is_zero(&a) && diw_addr_is_v4(peer))
		a.ip[10] = a.ip[11] = 0xff;  /* a wildcard address is written in the peer's family */
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
	whole.ns = diw_clock_realtime_ns();
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

/* Captures the datagrams that the kernel took in one call, one by one. */
void diw_bad_wire_capture(int fd, const struct diw_dgram_burst *b)
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

void diw_bad_wire_count(void)
{
	struct diw_counters *c = &diw_bad_wire.c;

	diw_add(DIW_C_sock_impair_lost, c->impair_lost);
	diw_add(DIW_C_sock_impair_duplicated, c->impair_duplicated);
	diw_add(DIW_C_sock_impair_corrupted, c->impair_corrupted);
	diw_add(DIW_C_sock_impair_delayed, c->impair_delayed);
	diw_add(DIW_C_sock_impair_reordered, c->impair_reordered);
	*c = (struct diw_counters){ 0 };
}

/* ---- Settings ---- */

static const char *spec_refuses(const struct diw_impair_spec *spec)
{
	const struct diw_impair_dir *rx = &spec->dir[DIW_IMPAIR_RX];

	if (rx->delay || rx->reorder > 0)
		return "sockets have no rx.delay and rx.reorder: set delay and reorder at the program that sends";
	return NULL;
}

static bool lines_set(const struct diw_impair_spec *spec)
{
	return diw_impair_line_set(&diw_bad_wire.tx, &spec->dir[DIW_IMPAIR_TX], DIW_IMPAIR_TX) == 0 &&
	       diw_impair_line_set(&diw_bad_wire.rx, &spec->dir[DIW_IMPAIR_RX], DIW_IMPAIR_RX) == 0 &&
	       diw_bad_late_init(&spec->dir[DIW_IMPAIR_TX]);
}

static void spec_apply(const char *text)
{
	struct diw_impair_spec *spec = NULL;
	char wrong[160];
	const char *why = wrong;

	if (diw_impair_parse(text, &spec, wrong, sizeof wrong) == 0) {
		why = spec_refuses(spec);
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
		spec_apply(text);
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
	l->nrun = l->nlost = l->nheld = 0;
	if (l->delayed.next) {
		diw_list_init(&l->delayed);
		diw_list_init(&l->held);
	}
	l->entry_head = l->entry_count = l->arena_head = l->arena_used = 0;
}

/* Call in a child: another thread of the parent may have been sending at fork(2). The parent sends its held datagrams
 * itself. */
void diw_bad_net_forked(void)
{
	if (!diw_bad_net_on)
		return;
	pthread_mutex_init(&diw_bad_wire.lock, NULL);
	wire.file = NULL;
	line_empty(&diw_bad_wire.tx);
	line_empty(&diw_bad_wire.rx);
	diw_bad_late_forked();
	diw_capture_forked();
}
