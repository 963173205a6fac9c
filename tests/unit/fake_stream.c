/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream in memory: keeps what is sent, and delivers what a test puts in. */
#include "tests/unit/fake_stream.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fake_dgram.h"

static ssize_t fake_send(struct diw_stream *s, const struct iovec *iov, int n)
{
	struct fake_stream *f = (struct fake_stream *)s;
	size_t got = 0;

	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(f->shut, 0);
	if (f->tx_err)
		return -f->tx_err;
	for (int i = 0; i < n && f->room; i++) {
		size_t take = iov[i].iov_len < f->room ? iov[i].iov_len : f->room;

		while (f->ntx + take > f->tx_cap) {
			f->tx_cap = f->tx_cap ? f->tx_cap * 2 : 65536;
			f->tx = realloc(f->tx, f->tx_cap);
		}
		memcpy(f->tx + f->ntx, iov[i].iov_base, take);
		f->ntx += take;
		f->room -= take;
		got += take;
	}
	if (!got)
		return -EAGAIN;
	f->sends++;
	f->last_send = got;
	return (ssize_t)got;
}

static ssize_t fake_recv(struct diw_stream *s, const struct iovec *iov, int n)
{
	struct fake_stream *f = (struct fake_stream *)s;
	size_t left = f->nrx - f->rx_at, got = 0;

	f->recvs++;
	if (left > f->piece)
		left = f->piece;
	if (!left)
		return f->rx_at < f->nrx ? -EAGAIN : f->eof ? 0 : f->rx_err ? -f->rx_err : -EAGAIN;
	for (int i = 0; i < n && left; i++) {
		size_t take = iov[i].iov_len < left ? iov[i].iov_len : left;

		memcpy(iov[i].iov_base, f->rx + f->rx_at, take);
		f->rx_at += take;
		left -= take;
		got += take;
	}
	ck_assert_uint_gt(got, 0);
	return (ssize_t)got;
}

static uint32_t fake_emss(struct diw_stream *s)
{
	return ((struct fake_stream *)s)->emss;
}

static int fake_fd(struct diw_stream *s)
{
	(void)s;
	return -1;
}

static void fake_shutdown(struct diw_stream *s)
{
	((struct fake_stream *)s)->shut++;
}

static void fake_close(struct diw_stream *s, bool abort)
{
	struct fake_stream *f = (struct fake_stream *)s;

	f->closed++;
	f->aborted = abort;
}

static const struct diw_stream_ops fake_ops = {
	.name = "fake", .send = fake_send, .recv = fake_recv, .emss = fake_emss, .fd = fake_fd,
	.shutdown = fake_shutdown, .close = fake_close,
};

struct fake_stream *fake_stream_new(void)
{
	struct fake_stream *f = calloc(1, sizeof *f);

	f->s.ops = &fake_ops;
	f->s.local = fake_addr(1, 1000);
	f->s.peer = fake_addr(2, 2000);
	f->room = f->piece = SIZE_MAX;
	f->emss = 1448;
	return f;
}

void fake_stream_free(struct fake_stream *f)
{
	free(f->tx);
	free(f);
}
