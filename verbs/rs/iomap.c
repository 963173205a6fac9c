/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the peer writes by offsets (rsockets' riomap()). A message of the stream announces a map before the next
 * bytes. When the map ends, its STag ends, and another message says so if the peer has room for it. A later write by
 * that STag ends the connection, as a store to unmapped memory ends a process. */
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/rs/stream.h"

#define MAPS_MAX 128u

void rs_maps_free(struct rs_stream *st)
{
	struct rs_map *m;

	while ((m = st->maps)) {
		st->maps = m->next;
		diw_mr_dereg(m->mr);
		free(m);
	}
	while ((m = st->peer_maps)) {
		st->peer_maps = m->next;
		free(m);
	}
}

/* ---- Memory of the peer ---- */

static void map_forget(struct rs_stream *st, uint64_t offset)
{
	for (struct rs_map **p = &st->peer_maps; *p; p = &(*p)->next)
		if ((*p)->offset == offset) {
			struct rs_map *m = *p;

			*p = m->next;
			free(m);
			st->npeer_maps--;
			return;
		}
}

/* Length 0: the map has ended. */
bool rs_map_came(struct rs_stream *st, const uint8_t *p, uint32_t len)
{
	struct rs_map *copy;
	struct rs_place m;

	if (len != RS_MAP_LEN - RS_HDR)
		return false;
	m = rs_place_get(p);
	map_forget(st, m.offset);
	if (m.length == 0)
		return true;
	if (m.offset + m.length < m.offset || diw_to_wraps(m.to, m.length) || st->npeer_maps >= MAPS_MAX)
		return false;
	copy = malloc(sizeof *copy);
	if (!copy)
		return false;
	*copy = (struct rs_map){ .offset = m.offset, .length = m.length, .stag = m.stag, .to = m.to };
	copy->next = st->peer_maps;
	st->peer_maps = copy;
	st->npeer_maps++;
	return true;
}

static const struct rs_map *peer_map(const struct rs_stream *st, uint64_t offset)
{
	for (const struct rs_map *m = st->peer_maps; m; m = m->next)
		if (offset - m->offset < m->length)
			return m;
	return NULL;
}

/* ---- Our memory ---- */

static bool map_tell(struct rs *s, const struct rs_map *m, uint64_t length)
{
	uint8_t p[RS_MAP_LEN - RS_HDR];

	rs_place_put(p, &(struct rs_place){ m->offset, length, m->to, m->stag });
	return rs_stream_control(s, RS_F_MAP, p, sizeof p, false) == 0;
}

void rs_maps_tell(struct rs *s)
{
	struct rs_stream *st = s->stream;

	for (struct rs_map *m = st->maps; m && st->tx.used < st->tx.slots; m = m->next)
		if (!m->told && map_tell(s, m, m->length)) {
			m->told = true;
			st->tx.used++;
		}
}

static struct rs_map *map_at(struct rs_stream *st, uint64_t offset, uint64_t len)
{
	for (struct rs_map *m = st->maps; m; m = m->next)
		if (offset < m->offset + m->length && m->offset < offset + len)
			return m;
	return NULL;
}

/* Chooses an offset above all others, on a new page. */
static uint64_t offset_choose(const struct rs_stream *st)
{
	uint64_t end = 0;

	for (const struct rs_map *m = st->maps; m; m = m->next)
		end = m->offset + m->length > end ? m->offset + m->length : end;
	return (end + 4095) & ~4095ull;
}

static off_t add_map(struct rs *s, void *buf, size_t len, int prot, off_t offset)
{
	struct rs_stream *st = s->stream;
	unsigned access = DIW_ACCESS_LOCAL_WRITE;
	struct rs_map *m;
	int rc;

	if (st->nmaps >= MAPS_MAX)
		return -ENOBUFS;
	if (offset == -1)
		offset = (off_t)offset_choose(st);
	else if (map_at(st, (uint64_t)offset, len))
		return -EINVAL;
	access |= prot & PROT_WRITE ? DIW_ACCESS_REMOTE_WRITE : 0;
	access |= prot & PROT_READ ? DIW_ACCESS_REMOTE_READ : 0;
	m = calloc(1, sizeof *m);
	if (!m)
		return -ENOMEM;
	rc = diw_mr_reg(s->dev->pd, buf, len, access, &m->mr);
	if (rc < 0) {
		free(m);
		return rc;
	}
	m->offset = (uint64_t)offset;
	m->length = len;
	m->to = m->mr->to;
	m->stag = m->mr->stag;
	m->next = st->maps;
	st->maps = m;
	st->nmaps++;
	rs_maps_tell(s);
	return offset;
}

off_t diw_rs_iomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rs *s;
	off_t rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	if (!buf || !len || flags || offset < -1 || (prot & ~(PROT_WRITE | PROT_READ)))
		rc = -EINVAL;
	else if (s->state != RS_CONNECTED || !s->stream)
		rc = -ENOTCONN;
	else
		rc = add_map(s, buf, len, prot, offset);
	rs_release(s);
	return rc;
}

static int remove_map(struct rs *s, const void *buf, size_t len)
{
	struct rs_stream *st = s->stream;

	for (struct rs_map **p = &st->maps; *p; p = &(*p)->next) {
		struct rs_map *m = *p;

		if (m->mr->addr != buf || m->mr->length != len)
			continue;
		if (m->told && st->tx.used < st->tx.slots && map_tell(s, m, 0))
			st->tx.used++;
		*p = m->next;
		st->nmaps--;
		diw_mr_dereg(m->mr);
		free(m);
		return 0;
	}
	return -EINVAL;
}

int diw_rs_iounmap(int fd, void *buf, size_t len)
{
	struct rs *s;
	int rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	rc = s->stream ? remove_map(s, buf, len) : -ENOTCONN;
	rs_release(s);
	return rc;
}

/* ---- Writing to the peer's memory ---- */

/* Posts a Write from the caller's memory, which is free again when TCP has taken the data. 1: no room at the moment. */
static int post_write(struct rs *s, const struct rs_map *m, const uint8_t *buf, uint32_t len, uint64_t offset)
{
	struct diw_sge sge = { (void *)buf, len, s->dev->all->stag };
	struct diw_send_wr wr = {
		.sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE, .flags = DIW_SEND_SIGNALED,
		.stag = m->stag, .to = m->to + (offset - m->offset),
	};
	int rc = diw_post_send(s->qp, &wr, NULL);

	s->stream->tx.pending += rc == 0;
	return rc;
}

/* Waits until TCP has taken the data, also on a non-blocking socket: the request refers to the caller's memory. */
static int wait_sent(struct rs *s)
{
	while (!rs_stream_flushed(s)) {
		int rc = rs_wait(s, RS_SENT, RS_NEVER);

		if (rc < 0 && rc != -EINTR)
			return rc;
	}
	return s->stream->tx.pending ? -ECONNRESET : 0;
}

static ssize_t write_mapped(struct rs *s, const uint8_t *buf, size_t len, uint64_t offset)
{
	size_t done = 0;
	int rc = 0;

	rs_look(s);
	while (done < len && rc == 0) {
		const struct rs_map *m = peer_map(s->stream, offset + done);
		uint64_t room = m ? m->length - (offset + done - m->offset) : 0;
		uint32_t n = (uint32_t)(len - done < RS_PIECE_MAX ? len - done : RS_PIECE_MAX);

		if (!m || s->stream->down || s->wr_shut) {
			rc = s->stream->down || s->wr_shut ? -EPIPE : -EINVAL;
			break;
		}
		n = n < room ? n : (uint32_t)room;
		rc = post_write(s, m, buf + done, n, offset + done);
		if (rc == 0)
			rc = wait_sent(s);
		if (rc == 0)
			done += n;
	}
	return done ? (ssize_t)done : rc;
}

ssize_t diw_rs_iowrite(int fd, const void *buf, size_t len, off_t offset, int flags)
{
	struct rs *s;
	ssize_t rc = rs_take(fd, &s);

	(void)flags;
	if (rc < 0)
		return rc;
	if (s->state != RS_CONNECTED || !s->stream)
		rc = -ENOTCONN;
	else if (offset < 0 || (!buf && len))
		rc = -EINVAL;
	else
		rc = write_mapped(s, buf, len, (uint64_t)offset);
	rs_release(s);
	return rc;
}
