/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams on their way in, in the bad network. They wait in the kernel's queue, which poll() checks, so their fate is
 * decided when they are received. A duplicated datagram stays in the queue for the next call. A call that peeks, and
 * the call that then receives the same datagram, decide with the same random numbers.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/dgram/bad_wire.h"
#include "sockets_preload/dgram/segments.h"

#define FATES 1024u

/* The first buffer in a socket's queue, if it was decided and is still there. */
static struct fate {
	uint64_t cookie;                     /* 0: there is none */
	typeof(((struct diw_impair_line *)0)->s) before;    /* the random state before the decision */
	int given;                           /* number of its datagrams that have been received */
} fates[FATES];

static uint8_t impaired[DIW_STAGE];

static struct fate *fate_of(uint64_t cookie)
{
	return &fates[cookie % FATES];
}

/* Decides the fate of B. If B was decided before, the result is the same, and *GIVEN is the number of datagrams already
 * received. */
static void burst_decide(uint64_t cookie, const struct diw_dgram_burst *b, int *given)
{
	struct diw_impair_line *l = &diw_bad_wire.rx;
	struct fate *f = fate_of(cookie);
	bool again = f->cookie == cookie;
	typeof(l->s) now_at = l->s;
	struct diw_counters counted = diw_bad_wire.c;
	uint64_t now = diw_clock_ns();

	if (again)
		l->s = f->before;
	else
		*f = (struct fate){ cookie, l->s, 0 };
	diw_impair_line_plan(l, b, now);
	diw_impair_line_tell(l, b, !again, now);
	if (again) {
		l->s = now_at;
		diw_bad_wire.c = counted;
	}
	*given = f->given;
}

/* Gathers the datagrams of the run, from FIRST on, that one call can return. Returns how many; *LEN is their length. */
static int run_gather(const struct diw_dgram_burst *b, int first, size_t *len)
{
	const struct diw_impair_line *l = &diw_bad_wire.rx;
	uint32_t each = first < l->nrun ? l->run[first].len : 0;
	int i = first;

	*len = 0;
	do {
		const struct diw_impair_item *r = &l->run[i];

		memcpy(impaired + *len, r->e ? r->e->data : (uint8_t *)b->iov->iov_base + r->at.off, r->len);
		*len += r->len;
		i++;
	} while (i < l->nrun && l->run[i - 1].len == each && l->run[i].len && l->run[i].len <= each &&
		 *len + l->run[i].len <= b->len);
	return i - first;
}

/* Reduces the kernel's buffer of N bytes to the part that the call receives. *LOST: nothing is left. */
static ssize_t impair_buffer(int fd, uint64_t cookie, struct msghdr *m, size_t n, bool peek, bool *lost)
{
	struct diw_impair_line *l = &diw_bad_wire.rx;
	struct fate *f = fate_of(cookie);
	struct iovec whole = { m->msg_iov->iov_base, n };
	struct diw_dgram_burst b = { .iov = &whole, .niov = 1, .len = (uint32_t)n };
	int given, some = 0;
	size_t size = diw_gro_size(m), len = 0;

	diw_addr_from_sockaddr(&b.peer.addr, m->msg_name);
	b.seg = size && size < n ? (uint32_t)size : b.len;
	diw_bad_wire.fd = fd;
	burst_decide(cookie, &b, &given);
	*lost = given >= l->nrun;
	if (!*lost) {
		some = run_gather(&b, given, &len);
		memcpy(whole.iov_base, impaired, len);
	}
	if (!peek && given + some >= l->nrun) {
		f->cookie = 0;
		if (real.recv(fd, NULL, 0, MSG_DONTWAIT) < 0)        /* an ICMP error came first */
			real.recv(fd, NULL, 0, MSG_DONTWAIT);
	} else if (!peek) {
		f->given += some;
	}
	diw_impair_line_end(l, &b, l->nrun, 0);
	diw_bad_wire_count();
	return (ssize_t)len;
}

ssize_t diw_bad_net_recvmsg(int fd, uint64_t cookie, struct msghdr *m, int flags, bool *lost)
{
	const struct msghdr asked = *m;
	uint8_t byte;
	ssize_t n;
	int error;

	*lost = false;
	if (!diw_bad_wire.rx.active || diw_is_confined())
		return real.recvmsg(fd, m, flags);
	do {
		/* The lock is not held during a call that may wait. */
		if (real.recv(fd, &byte, 1, (flags & MSG_DONTWAIT) | MSG_PEEK) < 0)
			return -1;
		diw_bad_wire_lock();
		*m = asked;
		n = real.recvmsg(fd, m, (flags & ~MSG_TRUNC) | MSG_PEEK | MSG_DONTWAIT);
		error = errno;
		if (n >= 0)
			n = impair_buffer(fd, cookie, m, (size_t)n, flags & MSG_PEEK, lost);
		diw_bad_wire_unlock();
		errno = error;
	} while (n < 0 && error == EAGAIN && !(flags & MSG_DONTWAIT));
	return n;
}
