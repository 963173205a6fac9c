/* SPDX-License-Identifier: BSD-2-Clause */
/* A datagram layer in memory: keeps what is sent, and delivers what a test puts in. */
#include "tests/unit/fake_dgram.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

static void keep(struct fake_burst *k, const struct diw_dgram_burst *b, uint64_t now)
{
	uint32_t at = 0;

	*k = (struct fake_burst){ b->peer, b->len, b->seg, b->niov, b->iov[0].iov_base, b->iov[b->niov - 1].iov_base,
				  malloc(b->len + 1), now };
	for (int i = 0; i < b->niov; i++) {
		ck_assert_uint_le(at + b->iov[i].iov_len, b->len);
		memcpy(k->data + at, b->iov[i].iov_base, b->iov[i].iov_len);
		at += (uint32_t)b->iov[i].iov_len;
	}
	ck_assert_uint_eq(at, b->len);
}

static int fake_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct fake *f = (struct fake *)d;
	int i;

	for (i = 0; i < n && f->room; i++) {
		ck_assert_int_lt(f->ntx, FAKE_BURSTS);
		ck_assert_uint_gt(b[i].len, 0);
		ck_assert_uint_gt(b[i].seg, 0);
		keep(&f->tx[f->ntx++], &b[i], now);
		if (f->room > 0)
			f->room--;
	}
	return i ? i : n ? -EAGAIN : 0;
}

static int fake_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct fake *f = (struct fake *)d;
	int i;

	(void)now;
	for (i = 0; i < n && i < 16 && f->next_rx < f->nrx; i++) {
		struct fake_burst *k = &f->rx[f->next_rx++];

		f->rx_iov[i] = (struct iovec){ k->data, k->len };
		b[i] = (struct diw_dgram_burst){ .peer = k->peer, .iov = &f->rx_iov[i], .niov = 1, .len = k->len,
						 .seg = k->seg };
	}
	return i;
}

static uint64_t fake_deadline(struct diw_dgram *d)
{
	return ((struct fake *)d)->deadline;
}

static uint32_t fake_mtu(struct diw_dgram *d, const struct diw_addr *dst)
{
	(void)dst;
	return ((struct fake *)d)->mtu;
}

static int fake_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS])
{
	(void)d;
	(void)fd;
	return 0;
}

static void fake_close(struct diw_dgram *d)
{
	((struct fake *)d)->closed++;
}

static const struct diw_dgram_ops fake_ops = {
	.name = "fake", .send = fake_send, .recv = fake_recv, .deadline = fake_deadline, .mtu = fake_mtu,
	.fds = fake_fds, .close = fake_close,
};

struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof *f);

	f->d.ops = &fake_ops;
	f->d.state = &f->d.own;
	f->d.c = &f->c;
	f->d.local = fake_addr(1, 4791);
	f->room = -1;
	f->mtu = 1472;
	f->deadline = DIW_NEVER;
	return f;
}

void fake_free(struct fake *f)
{
	for (int i = 0; i < f->ntx; i++)
		free(f->tx[i].data);
	for (int i = 0; i < f->nrx; i++)
		free(f->rx[i].data);
	free(f);
}

void fake_deliver(struct fake *f, const struct diw_addr *src, const void *data, uint32_t len, uint32_t seg)
{
	struct fake_burst *k = &f->rx[f->nrx++];

	ck_assert_int_le(f->nrx, FAKE_BURSTS);
	*k = (struct fake_burst){ .peer.addr = *src, .len = len, .seg = seg, .data = malloc(len + 1) };
	memcpy(k->data, data, len);
}

struct diw_addr fake_addr(uint8_t host, uint16_t port)
{
	return (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 192, 0, 2, host }, .port = port };
}
