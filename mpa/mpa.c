/* SPDX-License-Identifier: BSD-2-Clause */
/* The link over a stream: opened, queried, closed. Also the buffers that the links of a device share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mpa/int.h"

#define KEEP_FREE 8                  /* free own buffers that are not returned to the system */
#define DISCARDS 64                  /* reads of 16 KiB, at most */
#define MAX_ULPDU_MARKED 64768u      /* with markers: FPDUPTR has 16 bits (RFC 5044 section 4.3) */

_Static_assert(DIW_MPA_STAGE >= DIW_MPA_MAX_FPDU, "any FPDU can be staged");
_Static_assert(DIW_MPA_OWN >= DIW_MPA_STAGE, "what is staged can be kept");
_Static_assert(DIW_MPA_OWN >= DIW_MPA_MAX_FPDU + DIW_MPA_FRONT + DIW_MPA_SCRATCH, "what is received can be kept");
_Static_assert(DIW_MPA_EDGE >= DIW_MPA_MAX_TAIL + DIW_MPA_LEN + DIW_LINK_MAX_HDR, "an FPDU's end and a header");
_Static_assert(sizeof(struct diw_mpa) <= 256, "a connection that is idle costs little");

int diw_mpa_pool_new(struct diw_mpa_pool **p)
{
	*p = malloc(sizeof **p);
	if (!*p)
		return -ENOMEM;
	memset(*p, 0, offsetof(struct diw_mpa_pool, edge));
	(*p)->limit = DIW_MPA_FIRST;
	return 0;
}

void diw_mpa_pool_free(struct diw_mpa_pool *p)
{
	if (!p)
		return;
	while (p->free) {
		void *own = p->free;

		memcpy(&p->free, own, sizeof p->free);
		free(own);
	}
	free(p);
}

uint8_t *diw_mpa_own_get(struct diw_mpa_pool *p)
{
	uint8_t *own = p->free;

	if (!own)
		return malloc(DIW_MPA_OWN);
	memcpy(&p->free, own, sizeof p->free);
	p->nfree--;
	return own;
}

void diw_mpa_own_put(struct diw_mpa_pool *p, uint8_t **own)
{
	if (*own && p->nfree < KEEP_FREE) {
		memcpy(*own, &p->free, sizeof p->free);
		p->free = *own;
		p->nfree++;
	} else {
		free(*own);
	}
	*own = NULL;
}

/* An open write of one piece of the stage: all payload in it was copied. */
static bool mpa_staged(const struct diw_link *l)
{
	const struct diw_mpa *m = (const struct diw_mpa *)l;
	const struct diw_mpa_pool *p = m->pool;

	return p->stager == m && p->open_len && p->open_len == p->staged && !m->tx_len && !m->tx_errno && !m->tx_fin;
}

static uint64_t mpa_deadline(struct diw_link *l)
{
	(void)l;
	return DIW_NEVER;
}

/* The MULPDU with which an FPDU fits one packet, wherever its markers fall (RFC 5044 section 5.1). */
static uint32_t packed_mulpdu(struct diw_mpa *m)
{
	uint32_t emss = m->s->ops->emss(m->s);
	uint32_t markers = m->tx_markers ? (emss + DIW_MPA_MARKER_EVERY - 1) / DIW_MPA_MARKER_EVERY : 0;
	uint32_t over = DIW_MPA_LEN + DIW_MPA_CRC + DIW_MPA_MARKER * markers + emss % 4;

	return emss > over + DIW_LINK_MAX_HDR ? emss - over : DIW_LINK_MAX_HDR + 1;
}

static uint32_t mpa_mulpdu(struct diw_link *l, const struct diw_addr *dst)
{
	struct diw_mpa *m = diw_mpa_of(l);

	(void)dst;
	if (m->packed) {
		uint32_t fits = packed_mulpdu(m);

		return fits < m->mulpdu ? fits : m->mulpdu;
	}
	return m->mulpdu;
}

static int mpa_fds(struct diw_link *l, int fd[DIW_DGRAM_FDS])
{
	struct diw_mpa *m = diw_mpa_of(l);

	fd[0] = m->s->ops->fd(m->s);
	return fd[0] >= 0;
}

/* Reads and drops octets that have arrived. Closing a socket with unread octets resets the stream, and the peer loses
 * data that it has not read yet. */
static void stream_discard(struct diw_mpa *m)
{
	uint8_t buf[16384];
	struct iovec iov = { buf, sizeof buf };

	for (int i = 0; i < DISCARDS && m->s->ops->recv(m->s, &iov, 1) > 0; i++)
		;
}

/* A peer that does not read would see the end of the stream only behind what was not sent yet, so perhaps never. */
static bool closes_by_reset(const struct diw_mpa *m)
{
	return !m->tx_shut || (m->l.may_lose && m->s->ops->unsent && m->s->ops->unsent(m->s));
}

static void mpa_close(struct diw_link *l)
{
	struct diw_mpa *m = diw_mpa_of(l);

	diw_mpa_unstage(m);
	if (m->tx_shut && !m->rx_ended)
		stream_discard(m);
	m->s->ops->close(m->s, closes_by_reset(m));
	diw_mpa_own_put(m->pool, &m->tx_own);
	diw_mpa_own_put(m->pool, &m->rx_own);
	free(m);
}

static bool mpa_hung_up(struct diw_link *l)
{
	struct diw_stream *s = diw_mpa_of(l)->s;

	return s->ops->hung_up && s->ops->hung_up(s);
}

static const struct diw_link_ops mpa_ops = {
	.send = diw_mpa_send, .flush = diw_mpa_flush, .staged = mpa_staged, .poll = diw_mpa_poll,
	.deadline = mpa_deadline, .mulpdu = mpa_mulpdu, .fds = mpa_fds, .hung_up = mpa_hung_up,
	.shutdown = diw_mpa_shutdown, .close = mpa_close,
};

/* Keeps the octets behind the peer's frame for the first poll, as if they had been received and not taken. */
static int keep_early(struct diw_mpa *m, const struct diw_mpa_attr *a)
{
	if (!a->early_len)
		return 0;
	m->rx_own = diw_mpa_own_get(m->pool);
	if (!m->rx_own)
		return -ENOMEM;
	memcpy(m->rx_own, a->early, a->early_len);
	m->rx_len = a->early_len;
	m->rx_stalled = true;
	return 0;
}

static uint32_t limit_mulpdu(const struct diw_mpa_attr *a)
{
	uint32_t most = a->tx_markers ? MAX_ULPDU_MARKED : DIW_MPA_MAX_ULPDU;

	return a->mulpdu && a->mulpdu < most ? a->mulpdu : most;
}

int diw_mpa_open(const struct diw_mpa_attr *a, const struct diw_link_up *up, void *up_ctx, struct diw_link **l)
{
	struct diw_mpa *m;

	if ((a->mulpdu && a->mulpdu <= DIW_LINK_MAX_HDR) || a->early_len > DIW_MPA_SCRATCH)
		return -EINVAL;
	m = calloc(1, sizeof *m);
	if (!m)
		return -ENOMEM;
	m->l = (struct diw_link){ .ops = &mpa_ops, .ordered = true, .up = up,
				  .stream = a->stream, .local = a->stream->local, .up_ctx = up_ctx, .c = a->c };
	m->s = a->stream;
	m->pool = a->pool;
	m->mulpdu = limit_mulpdu(a);
	m->crc = a->crc;
	m->tx_markers = a->tx_markers;
	m->rx_markers = a->rx_markers;
	m->packed = a->packed;
	if (keep_early(m, a)) {
		free(m);
		return -ENOMEM;
	}
	m->s->apart = a->packed;
	*l = &m->l;
	return 0;
}
