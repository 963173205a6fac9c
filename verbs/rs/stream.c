/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams: bytes in both directions over an RC queue pair; wire/rsockets.h has the messages. The socket's lock is
 * held. */
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/rs/stream.h"

#define STREAM_BATCH 32
#define SMALL (DIW_MAX_INLINE - RS_HDR)      /* up to this, data is copied once, into the request */
#define SLOT_BYTES (RS_HDR + RS_DATA)
#define CRUMB 4096
#define SQ_SPARE 64                          /* requests beside those for data: messages of control, and Writes into
					      * mapped memory */

static uint32_t least_of(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- Creation and destruction ---- */

/* Twice the requested size, as in the kernel: data has headers, and read space is returned late. */
static uint32_t ring_size(int asked)
{
	uint32_t size = 4 * RS_DATA;

	while (size / 2 < (uint32_t)asked && size < (16u << 20))
		size *= 2;
	return size;
}

static unsigned slot_count(int asked)
{
	unsigned n = 2 * ((unsigned)asked / RS_DATA);

	return n < RS_MIN_SLOTS ? RS_MIN_SLOTS : n > RS_MAX_SLOTS ? RS_MAX_SLOTS : n;
}

/* Maps memory, which takes pages only when it is used. */
static int map_memory(struct rs *s, struct rs_stream *st)
{
	size_t slots;

	st->rx.n = slot_count(s->opt.rcvbuf);
	st->tx.ring_size = ring_size(s->opt.sndbuf);
	slots = (st->rx.n + RS_CONTROL) * (size_t)SLOT_BYTES;
	st->size = slots + st->tx.ring_size;
	st->memory = mmap(NULL, st->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (st->memory == MAP_FAILED) {
		st->memory = NULL;
		return -ENOMEM;
	}
	st->rx.slots = st->memory;
	st->tx.ring = st->memory + slots;
	return diw_mr_reg(s->dev->pd, st->rx.slots, slots, DIW_ACCESS_LOCAL_WRITE, &st->slots_mr);
}

static int post_slot(struct rs *s, unsigned slot)
{
	struct rs_stream *st = s->stream;
	struct diw_sge sge = { st->rx.slots + slot * (size_t)SLOT_BYTES, SLOT_BYTES, st->slots_mr->stag };

	return diw_post_recv(s->qp, &(struct diw_recv_wr){ .wr_id = slot, .sge = &sge, .num_sge = 1 }, NULL);
}

int rs_stream_new(struct rs *s)
{
	struct rs_stream *st = calloc(1, sizeof *st);
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;
	int rc;

	if (!st)
		return -ENOMEM;
	s->stream = st;
	rc = map_memory(s, st);
	a.type = DIW_QP_RC;
	a.sq_depth = RS_MAX_SLOTS + SQ_SPARE;
	a.rq_depth = st->rx.n + RS_CONTROL;
	a.max_sge = 1;
	a.max_inline = DIW_MAX_INLINE;
	a.rc.rnr_timeout_ns = 0;                   /* a peer that keeps to its credits always finds a receive */
	if (rc == 0)
		rc = rs_open_qp(s, &a, a.sq_depth + a.rq_depth);
	for (unsigned i = 0; rc == 0 && i < a.rq_depth; i++)
		rc = post_slot(s, i);
	if (rc < 0) {
		rs_close_qp(s);
		rs_stream_free(s);
	}
	return rc;
}

/* The queue pair has been destroyed, so no peer writes to this memory any more. */
void rs_stream_free(struct rs *s)
{
	struct rs_stream *st = s->stream;

	if (!st)
		return;
	rs_maps_free(st);
	if (st->slots_mr)
		diw_mr_dereg(st->slots_mr);
	if (st->memory)
		munmap(st->memory, st->size);
	free(st);
	s->stream = NULL;
}

void rs_stream_hello(const struct rs *s, uint8_t out[RS_HELLO])
{
	memset(out, 0, RS_HELLO);
	rs_hello_put(out, &(struct rs_hello){ (uint16_t)s->stream->rx.n, RS_DATA });
}

/* Reads the peer's hello. Of more or larger slots than ours, only part is used. */
bool rs_stream_meet(struct rs *s, const uint8_t *p, uint32_t len)
{
	struct rs_stream *st = s->stream;
	struct rs_hello h;

	if (!rs_hello_get(p, len, &h))
		return false;
	st->tx.slots = h.slots < RS_MAX_SLOTS ? h.slots : RS_MAX_SLOTS;
	st->tx.peer_data = least_of(h.data, RS_DATA);
	st->up = true;
	return true;
}

/* Sockets have no errno for a peer that violates MPA or this protocol: it counts as a reset. */
void rs_stream_down(struct rs *s, int errnum)
{
	struct rs_stream *st = s->stream;

	if (st->down)
		return;
	st->down = true;
	if (!st->fin_came && !s->err)
		s->err = errnum && errnum != EPROTO ? errnum : ECONNRESET;
}

void rs_stream_broken(struct rs *s)
{
	rs_stream_down(s, ECONNRESET);
	diw_abort(s->qp);
}

/* ---- Received messages ---- */

/* The peer cannot return more credits than it was given. */
static bool credits_take(struct rs_stream *st, const struct rs_header *h)
{
	uint16_t posted = (uint16_t)(h->slots - st->tx.posted);

	if (posted > st->tx.used)
		return false;
	st->tx.posted = h->slots;
	st->tx.used = (uint16_t)(st->tx.used - posted);
	return true;
}

static void piece_push(struct rs_stream *st, struct rs_piece piece)
{
	st->rx.pieces[st->rx.tail++ % RS_MAX_SLOTS] = piece;
	st->rx.bytes += piece.len;
}

/* Posts a slot again; counted slots are returned as credits. */
static bool slot_repost(struct rs *s, unsigned slot, bool counted)
{
	s->stream->rx.posted = (uint16_t)(s->stream->rx.posted + counted);
	return post_slot(s, slot) == 0;
}

/* False: the message violates wire/rsockets.h. */
static bool slot_came(struct rs *s, unsigned slot, uint32_t len)
{
	struct rs_stream *st = s->stream;
	const uint8_t *p = st->rx.slots + slot * (size_t)SLOT_BYTES;
	struct rs_header h;
	bool control;

	if (len < RS_HDR || !rs_header_get(p, &h) || !credits_take(st, &h))
		return false;
	control = h.flags & RS_F_CONTROL;
	if (!control && (st->fin_came || st->rx.tail - st->rx.head == st->rx.n))
		return false;
	st->fin_came |= (h.flags & RS_F_FIN) != 0;
	if (h.flags & RS_F_MAP)
		return !control && rs_map_came(st, p + RS_HDR, len - RS_HDR) && slot_repost(s, slot, true);
	if (control)
		return len == RS_HDR && slot_repost(s, slot, false);
	if (len == RS_HDR)
		return false;
	piece_push(st, (struct rs_piece){ .len = len - RS_HDR, .off = RS_HDR, .slot = slot });
	return true;
}

/* A signalled request is complete; its wr_id is the number of bytes that it sent from the ring. */
static void ring_sent(struct rs *s, const struct diw_wc *wc)
{
	s->stream->tx.pending--;
	s->stream->tx.tail += (uint32_t)wc->wr_id;
}

void rs_stream_look(struct rs *s, int64_t spin_ns)
{
	struct diw_wc wc[STREAM_BATCH];
	int n;

	do {
		n = diw_cq_poll(s->cq, wc, STREAM_BATCH, spin_ns);
		spin_ns = 0;
		for (int i = 0; i < n; i++) {
			if (wc[i].status != DIW_WC_SUCCESS)
				rs_stream_down(s, 0);
			else if (wc[i].opcode != DIW_WC_RECV)
				ring_sent(s, &wc[i]);
			else if (!s->stream->down && !slot_came(s, (unsigned)wc[i].wr_id, wc[i].byte_len))
				rs_stream_broken(s);
		}
	} while (n == STREAM_BATCH);
}

/* ---- Reading ---- */

static void fill_header(struct rs_stream *st, uint8_t *p, uint8_t flags)
{
	rs_header_put(p, &(struct rs_header){ .flags = flags, .slots = st->rx.posted });
	st->rx.posted_told = st->rx.posted;
}

int rs_stream_control(struct rs *s, uint8_t flags, const uint8_t *more, uint32_t len, bool signalled)
{
	struct rs_stream *st = s->stream;
	uint8_t message[DIW_MAX_INLINE];
	struct diw_sge sge = { message, RS_HDR + len, 0 };
	struct diw_send_wr wr = {
		.sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
		.flags = DIW_SEND_INLINE | (signalled ? DIW_SEND_SIGNALED : 0),
	};
	int rc;

	fill_header(st, message, flags);
	if (len)
		memcpy(message + RS_HDR, more, len);
	rc = diw_post_send(s->qp, &wr, NULL);
	if (rc == 0)
		st->tx.pending += signalled;
	return rc;
}

static void return_credits(struct rs *s)
{
	struct rs_stream *st = s->stream;

	if (st->down || (uint16_t)(st->rx.posted - st->rx.posted_told) < st->rx.n / 2)
		return;
	rs_stream_control(s, RS_F_CONTROL, NULL, 0, false);
}

/* N bytes of the oldest piece have been read. */
static void piece_consume(struct rs *s, struct rs_piece *piece, uint32_t n)
{
	struct rs_stream *st = s->stream;

	st->rx.bytes -= n;
	piece->len -= n;
	piece->off += n;
	if (piece->len)
		return;
	slot_repost(s, piece->slot, true);
	st->rx.head++;
}

struct iov_cursor {
	const struct iovec *iov;
	size_t n, i, off;
};

static struct iov_cursor cursor_at(const struct iovec *iov, size_t n, size_t skip)
{
	struct iov_cursor c = { iov, n, 0, skip };

	while (c.i < c.n && c.off >= iov[c.i].iov_len)
		c.off -= iov[c.i++].iov_len;
	return c;
}

/* Copies at most LEN bytes between MEMORY and the caller's buffers. Returns how many. */
static size_t cursor_copy(struct iov_cursor *c, uint8_t *memory, size_t len, bool out)
{
	size_t done = 0;

	while (done < len && c->i < c->n) {
		uint8_t *theirs = (uint8_t *)c->iov[c->i].iov_base + c->off;
		size_t k = c->iov[c->i].iov_len - c->off;

		k = k < len - done ? k : len - done;
		if (k && out)
			memcpy(theirs, memory + done, k);
		else if (k)
			memcpy(memory + done, theirs, k);
		done += k;
		c->off += k;
		if (c->off == c->iov[c->i].iov_len) {
			c->i++;
			c->off = 0;
		}
	}
	return done;
}

ssize_t rs_stream_get(struct rs *s, const struct iovec *iov, size_t niov, size_t skip, bool peek)
{
	struct rs_stream *st = s->stream;
	struct iov_cursor c = cursor_at(iov, niov, skip);
	size_t total = 0;

	for (uint32_t i = st->rx.head; i != st->rx.tail; i++) {
		struct rs_piece *piece = &st->rx.pieces[i % RS_MAX_SLOTS];
		uint32_t len = piece->len;
		size_t n = cursor_copy(&c, st->rx.slots + piece->slot * (size_t)SLOT_BYTES + piece->off, len, true);

		total += n;
		if (!peek)
			piece_consume(s, piece, (uint32_t)n);
		if (n < len)
			break;
	}
	if (!peek)
		return_credits(s);
	return (ssize_t)total;
}

/* ---- Writing ---- */

/* Contiguous room for a header and data. If the rest at the ring's end is too small for both, it is skipped. */
static uint32_t ring_room(struct rs_stream *st)
{
	uint32_t to_end = st->tx.ring_size - (st->tx.head & (st->tx.ring_size - 1)), n;

	if (to_end < CRUMB && st->tx.ring_size - (st->tx.head - st->tx.tail) >= to_end) {
		st->tx.skipped += to_end;
		st->tx.head += to_end;
		to_end = st->tx.ring_size;
	}
	n = least_of(st->tx.ring_size - (st->tx.head - st->tx.tail), to_end);
	return n <= RS_HDR ? 0 : least_of(n - RS_HDR, st->tx.peer_data);
}

static bool slot_room(const struct rs_stream *st)
{
	return st->tx.used < st->tx.slots;
}

static int put_small(struct rs *s, struct iov_cursor *c, uint32_t len)
{
	struct rs_stream *st = s->stream;
	uint8_t message[DIW_MAX_INLINE];
	struct diw_sge sge = { message, RS_HDR + len, 0 };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND, .flags = DIW_SEND_INLINE };

	fill_header(st, message, 0);
	cursor_copy(c, message + RS_HDR, len, false);
	return diw_post_send(s->qp, &wr, NULL);
}

static int put_large(struct rs *s, struct iov_cursor *c, uint32_t len)
{
	struct rs_stream *st = s->stream;
	uint8_t *message = st->tx.ring + (st->tx.head & (st->tx.ring_size - 1));
	struct diw_sge sge = { message, RS_HDR + len, s->dev->all->stag };
	struct diw_send_wr wr = {
		.wr_id = RS_HDR + len + st->tx.skipped, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
		.flags = DIW_SEND_SIGNALED,
	};
	int rc;

	fill_header(st, message, 0);
	cursor_copy(c, message + RS_HDR, len, false);
	rc = diw_post_send(s->qp, &wr, NULL);
	if (rc < 0)
		return rc;
	st->tx.head += RS_HDR + len;
	st->tx.skipped = 0;
	st->tx.pending++;
	return 0;
}

ssize_t rs_stream_put(struct rs *s, const struct iovec *iov, size_t niov, size_t skip)
{
	struct rs_stream *st = s->stream;
	struct iov_cursor c = cursor_at(iov, niov, skip);
	size_t left = 0, total = 0;
	int rc = 0;

	for (size_t i = c.i; i < niov; i++)
		left += iov[i].iov_len;
	left -= c.i < niov ? c.off : 0;
	if (st->nmaps)
		rs_maps_tell(s);
	while (left && slot_room(st)) {
		uint32_t n = left <= SMALL ? (uint32_t)left : ring_room(st);

		n = (uint32_t)(n < left ? n : left);
		if (n == 0)
			break;
		rc = left <= SMALL ? put_small(s, &c, n) : put_large(s, &c, n);
		if (rc < 0)
			break;
		st->tx.used++;
		left -= n;
		total += n;
	}
	return total || rc == 0 ? (ssize_t)total : rc;
}

void rs_stream_fin(struct rs *s)
{
	struct rs_stream *st = s->stream;

	if (!st || !st->up || st->down || st->fin_sent)
		return;
	st->fin_sent = true;
	rs_stream_control(s, RS_F_CONTROL | RS_F_FIN, NULL, 0, true);
}

/* Raises a completion, which wakes the thread that sleeps in diw_channel_get(). */
void rs_stream_nudge(struct rs *s)
{
	if (s->leader && s->stream->up && !s->stream->down)
		rs_stream_control(s, RS_F_CONTROL, NULL, 0, true);
}

bool rs_stream_readable(const struct rs *s)
{
	return s->stream->rx.bytes > 0;
}

bool rs_stream_over(const struct rs *s)
{
	return s->stream->down;
}

bool rs_stream_flushed(const struct rs *s)
{
	return s->stream->down || s->stream->tx.pending == 0;
}

/* As with TCP, a socket becomes writable when a third of its buffer is free. Otherwise a writer would write in small
 * pieces. */
short rs_stream_events(const struct rs *s)
{
	const struct rs_stream *st = s->stream;
	uint32_t in_use = st->tx.head - st->tx.tail;
	bool room = st->tx.used < st->tx.slots - st->tx.slots / 4 && in_use <= st->tx.ring_size / 3 * 2;
	short events = 0;

	if (st->rx.bytes || st->fin_came || st->down || s->rd_shut)
		events |= POLLIN | POLLRDNORM;
	if (st->fin_came || st->down || s->rd_shut)
		events |= POLLRDHUP;
	if (room || st->down || s->wr_shut)
		events |= POLLOUT | POLLWRNORM;
	if ((st->down && !st->fin_came) || ((st->fin_came || s->rd_shut) && s->wr_shut))
		events |= POLLHUP;              /* a peer that ended regularly has only stopped sending */
	if (rs_stream_flushed(s))
		events |= RS_SENT;
	return events;
}
