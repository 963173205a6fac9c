/* SPDX-License-Identifier: BSD-2-Clause */
/* An impaired dgram over a fake one, and bursts whose datagrams are numbered. Each test file has its own copy. */
#ifndef DIW_TESTS_IMPAIR_KIT_H
#define DIW_TESTS_IMPAIR_KIT_H

#include <math.h>
#include <sys/param.h>

#include "base/wire.h"
#include "tests/unit/fake_dgram.h"
#include "tests/unit/unit.h"

static struct fake *f;
static struct diw_dgram *d;

static __attribute__((unused)) void open_with(const char *text)
{
	struct diw_impair_spec *spec = NULL;
	char err[160];

	f = fake_new();
	if (text)
		ck_assert_msg(diw_impair_parse(text, &spec, err, sizeof err) == 0, "%s: %s", text, err);
	ck_assert_int_eq(diw_impair_open(&f->d, spec, &d), 0);
	diw_impair_spec_free(spec);
}

static __attribute__((unused)) void done(void)
{
	d->ops->close(d);
	ck_assert_int_eq(f->closed, 1);
	fake_free(f);
}

/* A burst of COUNT datagrams of SEG bytes, numbered from FIRST; the last one has LAST bytes. The burst is in two
 * pieces, whose boundary is within a datagram. */
static uint8_t buf[1 << 17];

static __attribute__((unused)) struct diw_dgram_burst burst_of(struct iovec iov[2], uint32_t first, uint32_t count,
								uint32_t seg, uint32_t last)
{
	uint32_t len = (count - 1) * seg + last;

	for (uint32_t i = 0; i < len; i++)
		buf[i] = (uint8_t)i;
	for (uint32_t i = 0; i < count; i++)
		diw_put32(buf + i * seg, first + i);
	iov[0] = (struct iovec){ buf, len / 3 };
	iov[1] = (struct iovec){ buf + len / 3, len - len / 3 };
	return (struct diw_dgram_burst){ .peer.addr = fake_addr(9, 5), .iov = iov, .niov = 2, .len = len, .seg = seg };
}

static __attribute__((unused)) int send_burst(uint32_t first, uint32_t count, uint32_t seg, uint32_t last, uint64_t now)
{
	struct iovec iov[2];
	struct diw_dgram_burst b = burst_of(iov, first, count, seg, last);

	return d->ops->send(d, &b, 1, now);
}

static __attribute__((unused)) void send_numbered(uint32_t n, uint32_t per, uint32_t seg)
{
	for (uint32_t at = 0; at < n; at += per)
		ck_assert_int_eq(send_burst(at, MIN(per, n - at), seg, seg, 0), 1);
}

/* The numbers of all datagrams that left, in order. Returns how many. */
static __attribute__((unused)) int left(uint32_t *no, int max)
{
	int n = 0;

	for (int i = 0; i < f->ntx; i++)
		for (uint32_t at = 0; at < f->tx[i].len; at += f->tx[i].seg) {
			ck_assert_int_lt(n, max);
			no[n++] = diw_get32(f->tx[i].data + at);
		}
	return n;
}

static uint32_t no[1 << 18];

/* The frequency in N draws is within five standard deviations of P. */
static __attribute__((unused)) void rate_is(uint64_t count, uint64_t n, double p, double spread)
{
	double sigma = sqrt((double)n * p * (1 - p)) * spread;

	ck_assert_msg(fabs((double)count - (double)n * p) <= 5 * sigma, "%lu of %lu, expected %g", (unsigned long)count,
		      (unsigned long)n, (double)n * p);
}

static __attribute__((unused)) int loss_pattern(const char *text, uint32_t per, uint32_t *pattern)
{
	int n;

	open_with(text);
	send_numbered(4000, per, 60);
	n = left(pattern, 1 << 18);
	done();
	return n;
}

#endif
