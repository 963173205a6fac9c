/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FIONREAD of a connection with frames. The kernel counts all bytes of its queue. Heads, pads and CRCs must be
 * subtracted, but only the position in the FPDU that is being delivered is known. To find the others, the bytes must be
 * copied. So results are remembered. A program that reads between two calls is told only what is known, if that is
 * much. A program that asks again without having read is told everything.
 */
#include <sys/mman.h>

#include "sockets_preload/stage.h"
#include "sockets_preload/stream/stream.h"

#define MUCH 16384u                      /* payload */
#define BETWEEN (DIW_MPA_CRC + DIW_STREAM_HEAD)   /* least distance of two FPDUs' payloads */

/* Finds the next head behind the payload of an FPDU, whose head AT has; urgent bytes that became ordinary ones may
 * precede it. Returns its position in the N bytes at P; 0: it is not there. */
static size_t next_head(struct diw_stream_rx *at, const uint8_t *p, size_t n)
{
	size_t done = 0, got;

	do {
		size_t more = (at->got == DIW_STREAM_HEAD ? at->tail : 0) + DIW_STREAM_HEAD - at->got % DIW_STREAM_HEAD;

		if (more > n - done || !diw_stream_parse(at, p + done, more, NULL, &got))
			return 0;
		done += more;
	} while (at->got < DIW_STREAM_HEAD);
	return done;
}

/* Searches the N bytes of the queue at P. With the CRC on, only checked FPDUs count as payload. */
static void look_through(struct diw_stream_rx *rx, uint32_t here, const uint8_t *p, size_t n)
{
	struct diw_stream_ahead *a = &rx->ahead;
	struct diw_stream_rx at = *rx;
	size_t done = a->bytes = a->payload = here, head;

	for (;;) {
		at.left = at.n_stale = 0;
		head = done < n ? next_head(&at, p + done, n - done) : 0;
		done += head;
		if (!head || (at.crc && (at.left + at.tail > n - done ||
					 !diw_stream_is_intact(&at, p + done, at.left + at.tail))))
			return;
		done += at.left;
		a->bytes = (uint32_t)done;
		a->payload += at.n_stale + at.left;
	}
}

static bool ahead_look(int fd, struct diw_stream_rx *rx, uint32_t here, size_t n)
{
	struct diw_hold stage;
	ssize_t rc;

	if (!diw_stage_hold(DIW_STAGE_ONE, &stage))
		return false;
	rc = real.recv(fd, stage.mem, n < DIW_STAGE ? n : DIW_STAGE, MSG_PEEK | MSG_DONTWAIT);
	if (rc > 0)
		look_through(rx, here, stage.mem, (size_t)rc);
	diw_stage_let_go(DIW_STAGE_ONE, &stage);
	return rc >= (ssize_t)n;
}

static bool look_at_all(int fd, struct diw_stream_rx *rx, uint32_t here, size_t n)
{
	uint8_t *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ssize_t rc;

	if (p == MAP_FAILED)
		return false;
	rc = real.recv(fd, p, n, MSG_PEEK | MSG_DONTWAIT);
	if (rc > 0)
		look_through(rx, here, p, (size_t)rc);
	munmap(p, n);
	return rc >= (ssize_t)n;
}

/* All of the N bytes in the queue were searched. */
static bool find_more(int fd, struct diw_stream_rx *rx, uint32_t here, size_t n)
{
	size_t next = here + rx->tail + DIW_STREAM_HEAD;

	if (!rx->ahead.moved && n > DIW_STAGE)
		return look_at_all(fd, rx, here, n);
	if (rx->ahead.moved && !rx->crc && next < MUCH && next < n) {
		ahead_look(fd, rx, here, next);
		if (rx->ahead.payload >= MUCH)
			return false;
	}
	return ahead_look(fd, rx, here, n);
}

static bool is_exact(const struct diw_stream_ahead *a, uint32_t n)
{
	return n <= a->bytes + BETWEEN || n == a->seen;
}

uint32_t diw_stream_count(int fd, struct diw_stream_rx *rx, uint32_t here)
{
	struct diw_stream_ahead *a = &rx->ahead;
	uint32_t n;
	int queued;

	if (real.ioctl(fd, FIONREAD, &queued) < 0 || queued < 0)
		return 0;
	n = (uint32_t)queued;
	if (a->bytes < here)
		a->bytes = a->payload = here;
	if (!is_exact(a, n) && (!a->moved || a->payload < MUCH) && find_more(fd, rx, here, n))
		a->seen = n;
	a->moved = false;
	a->told = true;
	if (!is_exact(a, n))
		diw_stream_tell_again(fd);
	return n < a->bytes ? a->payload - (a->bytes - n) : a->payload;
}

void diw_stream_passed(struct diw_stream_rx *rx, uint32_t bytes, uint32_t payload)
{
	struct diw_stream_ahead *a = &rx->ahead;

	a->moved = true;
	if (bytes >= a->bytes || payload > a->payload) {
		a->bytes = a->payload = 0;
	} else {
		a->bytes -= bytes;
		a->payload -= payload;
	}
	a->seen = a->seen > bytes ? a->seen - bytes : 0;
}
