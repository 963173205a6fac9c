/* SPDX-License-Identifier: BSD-2-Clause */
/* The check of an FPDU's CRC (RFC 5044 section 4.4) before its payload is delivered. The FPDU is read in place, in the
 * kernel's queue. The first bytes of an incomplete one are moved to the shared file. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/time.h>

#include "base/clock.h"
#include "sockets_preload/stage.h"
#include "sockets_preload/stream/stream.h"

ssize_t diw_stream_broken(int fd, struct diw_sock_stream *st, enum diw_sock_counter why)
{
	diw_count(why);
	atomic_store(&st->rx.state, DIW_STREAM_BROKEN);
	shutdown(fd, SHUT_RDWR);
	errno = ECONNRESET;
	return -1;
}

/* All bytes go to the same place. */
DIW_COLD bool diw_stream_discard(int fd, size_t len, int flags, ssize_t *rc)
{
	uint8_t nowhere[512];
	struct iovec iov[8];
	size_t n = 0;

	for (; n < 8 && len; len -= iov[n++].iov_len)
		iov[n] = (struct iovec){ nowhere, len < sizeof nowhere ? len : sizeof nowhere };
	return diw_stream_recv(fd, iov, n, flags & ~MSG_TRUNC, rc);
}

static void set_low(int fd, struct diw_stream_rx *rx, size_t n)
{
	int low = (int)n;

	rx->low = (uint32_t)n;
	real.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
}

bool diw_stream_has_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return real.poll(&p, 1, 0) > 0;
}

/* For MSG_PEEK with MSG_WAITALL, which looks at the first 64 KiB. */
bool diw_stream_await_more(int fd)
{
	int held = 0;
	ssize_t n;

	if (diw_stream_is_nonblocking(fd, 0) || real.ioctl(fd, FIONREAD, &held) < 0 || held >= (int)DIW_STAGE)
		return false;
	n = real.recv(fd, NULL, (size_t)held + 1, MSG_PEEK | MSG_TRUNC | MSG_WAITALL);
	return n > held;
}

/* SO_RCVTIMEO; 0: none. */
static uint64_t receive_limit(int fd)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof tv;

	getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len);
	return (uint64_t)tv.tv_sec * DIW_S + (uint64_t)tv.tv_usec * DIW_US;
}

DIW_COLD bool diw_stream_await_within(int fd, uint64_t began)
{
	uint64_t limit = receive_limit(fd);

	return !limit || diw_stream_await(fd, POLLIN, began + limit, false);
}

/* The kernel's call returns what is there when its time is over, after a signal, at the end, and before an urgent
 * byte. */
DIW_COLD bool diw_stream_await_bytes(int fd, size_t need, uint64_t began)
{
	ssize_t n = real.recv(fd, NULL, need, MSG_PEEK | MSG_TRUNC | MSG_WAITALL);
	struct pollfd p = { .fd = fd, .events = POLLRDHUP | POLLPRI };
	uint64_t limit;

	if (n < 0 || n >= (ssize_t)need || real.poll(&p, 1, 0) > 0)
		return n >= 0;
	limit = receive_limit(fd);
	if (!limit && diw_stream_is_restarted())
		return true;
	errno = limit && diw_clock_ns() - began >= limit ? EAGAIN : EINTR;
	return false;
}

/* Keeps the N bytes of an incomplete FPDU. Otherwise their packet, of which other bytes may have been taken, would
 * occupy the room in the queue that the rest needs. */
static bool part_keep(int fd, struct diw_sock_stream *st, uint8_t *stage, size_t n)
{
	struct diw_stream_rx *rx = &st->rx;

	if (!rx->part)
		rx->part = diw_stream_hold(atomic_load(&st->cookie));
	if (!rx->part || real.recv(fd, stage, n, MSG_DONTWAIT) != (ssize_t)n)
		return false;
	memcpy(diw_stream_part(rx->part) + rx->held, stage, n);
	rx->held = (uint16_t)(rx->held + n);
	diw_stream_passed(rx, UINT32_MAX, 0);
	return true;
}

/* Whether the complete FPDU is good; it has ALL bytes, beginning with those that were kept. */
static bool is_good(struct diw_stream_rx *rx, uint8_t *stage, size_t all)
{
	if (rx->held && stage != diw_stream_part(rx->part))
		memcpy(stage, diw_stream_part(rx->part), rx->held);
	rx->verified = diw_stream_is_intact(rx, stage, all);
	if (rx->held > rx->left) {
		rx->tail = (uint8_t)(rx->tail - (rx->held - rx->left));
		rx->held = (uint16_t)rx->left;
	}
	return rx->verified;
}

/* Peeks at the FPDU. Its last bytes may come, together with the end, between the peek and the check for the end. */
static ssize_t check_peek(int fd, uint8_t *to, size_t n, bool *ended)
{
	ssize_t rc = real.recv(fd, to, n, MSG_PEEK | MSG_DONTWAIT);

	*ended = rc >= 0 && rc < (ssize_t)n && diw_stream_has_ended(fd);
	return *ended ? real.recv(fd, to, n, MSG_PEEK | MSG_DONTWAIT) : rc;
}

/* While the FPDU is not complete, the socket is not readable. */
static ssize_t verify_at(int fd, struct diw_sock_stream *st, uint8_t *stage, size_t *need)
{
	struct diw_stream_rx *rx = &st->rx;
	size_t all = rx->left + rx->tail, held = rx->held;
	bool ended;
	ssize_t rc = check_peek(fd, stage + held, all - held, &ended);

	if (rc == (ssize_t)(all - held)) {
		if (rx->low > 1)
			set_low(fd, rx, 1);
		return is_good(rx, stage, all) ? 1 : diw_stream_broken(fd, st, DIW_C_sock_stream_crc);
	}
	if (rc < 0)
		return -1;
	if (ended)
		return diw_stream_broken(fd, st, DIW_C_sock_stream_cut);
	if (!part_keep(fd, st, stage + held, (size_t)rc)) {
		set_low(fd, rx, all - held);
		*need = all - held;
	}
	errno = EAGAIN;
	return -1;
}

static ssize_t verify_confined(int fd, struct diw_sock_stream *st)
{
	struct diw_stream_rx *rx = &st->rx;
	ssize_t rc = diw_confined_fpdu(fd, st);

	if (rc <= 0)
		return rc < 0 ? -1 : diw_stream_broken(fd, st, DIW_C_sock_stream_cut);
	return is_good(rx, diw_stream_part(rx->part), rx->held) ? 1 : diw_stream_broken(fd, st, DIW_C_sock_stream_crc);
}

ssize_t diw_stream_verify(int fd, struct diw_sock_stream *st, size_t *need)
{
	struct diw_hold stage;
	ssize_t rc;

	if (diw_is_confined())
		return verify_confined(fd, st);
	if (!diw_stage_hold(DIW_STAGE_ONE, &stage))
		return -1;
	rc = verify_at(fd, st, stage.mem, need);
	diw_stage_let_go(DIW_STAGE_ONE, &stage);
	return rc;
}
