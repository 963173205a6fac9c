/* SPDX-License-Identifier: BSD-2-Clause */
/* Values made of the registry's secret: keys of sockets, and marks of frames. */
#include <endian.h>
#include <string.h>

#include "base/siphash.h"
#include "sockets_preload/reach.h"

static uint64_t keyed_hash(const uint64_t secret[2], uint64_t a, uint64_t b)
{
	const uint64_t in[2] = { htole64(a), htole64(b) };

	return diw_siphash(secret, in, sizeof in);
}

/* The keys are random for a process that cannot read the registry. They are the same for every process that gets the
 * socket by fork(2), execve(2) or SCM_RIGHTS: datagrams with these keys may be in its queue. */
void diw_reg_keys(struct diw_sock *s)
{
	s->keys.key[0] = keyed_hash(diw_reg()->secret, s->cookie, 0);
	s->keys.key[1] = keyed_hash(diw_reg()->secret, s->cookie, 1);
	s->keys.stag = (uint32_t)keyed_hash(diw_reg()->secret, s->cookie, 2) | 1;
}

/* The complement of a cookie is never a cookie, so a mark is never a key. */
uint64_t diw_reg_mark(const struct diw_sock *s, uint64_t key)
{
	return keyed_hash(diw_reg()->secret, ~s->cookie, key);
}

uint64_t diw_reg_peer_key(uint16_t port)
{
	return keyed_hash(diw_conf.key, port, 0);
}

/* This value is not a port. */
uint32_t diw_reg_peer_tag(void)
{
	return diw_conf.have_key ? ((uint32_t)keyed_hash(diw_conf.key, 65536, 0) & DIW_SOCK_TAG) | 1u << 8 : 0;
}

/* The receiver of such a frame may read it after the entry was removed, or in another process. */
uint64_t diw_reg_group_key(uint16_t port, bool crc)
{
	return keyed_hash(diw_reg()->secret, port, crc ? 3 : 4);
}

/* ---- Senders that have reached a socket: a mark with the time in its low bits ---- */

static uint64_t heard_mark(uint64_t cookie, const struct diw_addr *src)
{
	uint64_t half[2];

	memcpy(half, src->ip, sizeof half);
	return keyed_hash(diw_reg()->secret, cookie ^ half[0], half[1] ^ (uint64_t)src->port << 48) & ~DIW_HEARD_TIME;
}

static uint64_t heard_now(void)
{
	return diw_coarse_ns() / DIW_HEARD_UNIT & DIW_HEARD_TIME;
}

void diw_reg_heard(uint64_t cookie, const struct diw_addr *src)
{
	uint64_t mark = heard_mark(cookie, src);

	atomic_store_explicit(&diw_reg()->heard[mark >> 32 & (DIW_SOCKREG_HEARD - 1)], mark | heard_now(),
			      memory_order_relaxed);
}

bool diw_reg_has_heard(uint64_t cookie, const struct diw_addr *src)
{
	uint64_t mark = heard_mark(cookie, src);
	uint64_t is = atomic_load_explicit(&diw_reg()->heard[mark >> 32 & (DIW_SOCKREG_HEARD - 1)],
					   memory_order_relaxed);

	return (is & ~DIW_HEARD_TIME) == mark && ((heard_now() - is) & DIW_HEARD_TIME) <= DIW_HEARD_LASTS;
}
