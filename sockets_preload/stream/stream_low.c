/* SPDX-License-Identifier: BSD-2-Clause */
/* SO_RCVLOWAT of a socket that receives FPDUs. The kernel counts bytes in its queue; the program's value counts
 * payload. */
#include <string.h>

#include "sockets_preload/stream/stream.h"

/* With fewer bytes in the queue there cannot be the payload that the program asks for. */
static uint32_t least_bytes(const struct diw_stream_rx *rx, uint32_t want)
{
	uint32_t here = rx->left, held = rx->part ? rx->held - (uint32_t)rx->given : 0;

	if (rx->got < DIW_STREAM_HEAD)
		return DIW_STREAM_HEAD - rx->got + want;
	if (want > here)
		return here + rx->tail - held + DIW_STREAM_HEAD + want - here;
	if (rx->crc && !rx->verified)
		return here + rx->tail - held;
	return want > held ? want - held : 1;
}

void diw_stream_low(int fd, struct diw_stream_rx *rx)
{
	uint32_t want = atomic_load_explicit(&rx->want, memory_order_relaxed), low;

	if (DIW_LIKELY(want <= 1) || diw_is_confined() || atomic_load(&rx->state) != DIW_STREAM_FRAMED)
		return;
	low = least_bytes(rx, want);
	if (low == rx->low)
		return;
	rx->low = low;
	real.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &(int){ (int)low }, sizeof(int));
}

/* Called when the kernel has the new value. */
void diw_stream_wants(int fd, struct diw_stream_rx *rx)
{
	int want = 1;
	socklen_t len = sizeof want;

	if (!diw_stream_is_ordinary(fd) &&
	    (real.getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &want, &len) < 0 || want < 1))
		want = 1;
	rx->low = (uint32_t)want;
	atomic_store(&rx->want, (uint32_t)want);
	diw_stream_low(fd, rx);
}

DIW_API int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct diw_sock_stream *st;
	uint64_t cookie;
	int rc, want;

	diw_preload_init();
	rc = real.getsockopt(fd, level, name, value, len);
	if (DIW_LIKELY(level != SOL_SOCKET || name != SO_RCVLOWAT) || rc < 0)
		return rc;
	st = diw_stream_slot(fd, &cookie);
	want = st ? (int)atomic_load(&st->rx.want) : 0;
	if (want && atomic_load(&st->rx.state) == DIW_STREAM_FRAMED)
		memcpy(value, &want, *len < sizeof want ? *len : sizeof want);
	return rc;
}
