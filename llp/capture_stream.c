/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream that captures the one below it as TCP segments. The payload is what the socket sent and received. The
 * segments around it are made up: at most DIW_PCAPNG_MAX_TCP bytes, none lost or repeated, each acknowledging all that
 * the other side has sent. Sequence numbers of both directions begin at 1, so the captures of both ends agree.
 */
#include "llp/capture.h"

#include <errno.h>
#include <stdlib.h>

#include "base/list.h"
#include "llp/pcapng.h"

#define FIN_ACK (DIW_PCAPNG_FIN | DIW_PCAPNG_ACK)
#define PSH_ACK (DIW_PCAPNG_PSH | DIW_PCAPNG_ACK)
#define RST_ACK (DIW_PCAPNG_RST | DIW_PCAPNG_ACK)
#define SYN_ACK (DIW_PCAPNG_SYN | DIW_PCAPNG_ACK)

struct captured {
	struct diw_stream s;         /* must be first */
	struct diw_stream *lower;
	struct diw_pcapng *file;
	struct diw_capture_clock clock;
	uint32_t next[2];            /* next sequence numbers: received, sent */
	bool ended[2], reset;        /* a FIN was received, sent; a RST was received or sent */
};

static struct captured *captured_of(struct diw_stream *s)
{
	return diw_container(s, struct captured, s);
}

/* Writes one segment: the LEN bytes of IOV from OFF on. */
static void put_segment(struct captured *c, bool out, uint8_t flags, const struct iovec *iov, size_t off, uint32_t len)
{
	struct diw_pcapng_tcp tcp = {
		.seq = c->next[out], .ack = flags & DIW_PCAPNG_ACK ? c->next[!out] : 0, .flags = flags,
	};
	struct diw_pcapng_packet k = {
		.src = out ? &c->s.local : &c->s.peer, .dst = out ? &c->s.peer : &c->s.local, .outbound = out,
		.ns = c->clock.epoch_ns + c->clock.now(c->clock.ctx), .iov = iov, .off = off, .len = len, .tcp = &tcp,
	};

	if (c->reset)
		return;
	c->next[out] += len + (flags & (DIW_PCAPNG_SYN | DIW_PCAPNG_FIN) ? 1 : 0);
	diw_capture_check(diw_pcapng_write(c->file, &k));
}

static void put_data(struct captured *c, bool out, const struct iovec *v, size_t len)
{
	size_t off = 0;

	while (len > 0) {
		uint32_t n = len < DIW_PCAPNG_MAX_TCP ? (uint32_t)len : DIW_PCAPNG_MAX_TCP;

		put_segment(c, out, len == n ? PSH_ACK : DIW_PCAPNG_ACK, v, off, n);
		len -= n;
		for (off += n; len > 0 && off >= v->iov_len; v++)
			off -= v->iov_len;
	}
	diw_capture_check(diw_pcapng_flush(c->file));
}

static void put_flags(struct captured *c, bool out, uint8_t flags)
{
	put_segment(c, out, flags, NULL, 0, 0);
	diw_capture_check(diw_pcapng_flush(c->file));
}

static void put_end(struct captured *c, bool out)
{
	if (!c->ended[out])
		put_flags(c, out, FIN_ACK);
	c->ended[out] = true;
}

static void put_reset(struct captured *c, bool out)
{
	put_flags(c, out, RST_ACK);
	c->reset = true;
}

/* Writes a RST if ERR, a system call's error, says that there was one. */
static void put_error(struct captured *c, int err)
{
	if (err == -ECONNRESET || err == -ECONNREFUSED || err == -EPIPE)
		put_reset(c, false);
}

/* ---- The calls of the stream ---- */

static int cap_connected(struct diw_stream *s)
{
	struct captured *c = captured_of(s);
	int rc = c->lower->ops->connected(c->lower);

	s->local = c->lower->local;
	s->near = c->lower->near;
	if (rc == 0) {
		put_flags(c, false, SYN_ACK);
		put_flags(c, true, DIW_PCAPNG_ACK);
	} else {
		put_error(c, rc);
	}
	return rc;
}

static ssize_t cap_send(struct diw_stream *s, const struct iovec *iov, int n)
{
	struct captured *c = captured_of(s);
	ssize_t sent;

	c->lower->apart = s->apart;
	sent = c->lower->ops->send(c->lower, iov, n);
	if (sent > 0)
		put_data(c, true, iov, (size_t)sent);
	else
		put_error(c, (int)sent);
	return sent;
}

static ssize_t cap_recv(struct diw_stream *s, const struct iovec *iov, int n)
{
	struct captured *c = captured_of(s);
	ssize_t got = c->lower->ops->recv(c->lower, iov, n);

	if (got > 0)
		put_data(c, false, iov, (size_t)got);
	else if (got == 0)
		put_end(c, false);
	else
		put_error(c, (int)got);
	return got;
}

static uint32_t cap_emss(struct diw_stream *s)
{
	struct captured *c = captured_of(s);

	return c->lower->ops->emss(c->lower);
}

static int cap_fd(struct diw_stream *s)
{
	struct captured *c = captured_of(s);

	return c->lower->ops->fd(c->lower);
}

static bool cap_hung_up(struct diw_stream *s)
{
	struct captured *c = captured_of(s);

	return c->lower->ops->hung_up && c->lower->ops->hung_up(c->lower);
}

static bool cap_unsent(struct diw_stream *s)
{
	struct captured *c = captured_of(s);

	return c->lower->ops->unsent && c->lower->ops->unsent(c->lower);
}

static int cap_tune(struct diw_stream *s, const struct diw_stream_attr *a)
{
	struct captured *c = captured_of(s);

	return c->lower->ops->tune ? c->lower->ops->tune(c->lower, a) : 0;
}

static void cap_shutdown(struct diw_stream *s)
{
	struct captured *c = captured_of(s);

	c->lower->ops->shutdown(c->lower);
	put_end(c, true);
}

static void cap_close(struct diw_stream *s, bool abort)
{
	struct captured *c = captured_of(s);

	c->lower->ops->close(c->lower, abort);
	if (abort)
		put_reset(c, true);
	else
		put_end(c, true);
	free(c);
}

static const struct diw_stream_ops captured_ops = {
	.name = "capture", .connected = cap_connected, .send = cap_send, .recv = cap_recv, .emss = cap_emss,
	.fd = cap_fd, .hung_up = cap_hung_up, .unsent = cap_unsent, .tune = cap_tune,
	.shutdown = cap_shutdown, .close = cap_close,
};

int diw_capture_stream(struct diw_pcapng *file, const struct diw_capture_clock *clock, bool accepted,
		       struct diw_stream **s)
{
	struct captured *c = calloc(1, sizeof *c);

	if (!c)
		return -ENOMEM;
	c->s = (struct diw_stream){ .ops = &captured_ops, .local = (*s)->local, .peer = (*s)->peer,
				  .near = (*s)->near };
	c->lower = *s;
	c->file = file;
	c->clock = *clock;
	put_flags(c, !accepted, DIW_PCAPNG_SYN);
	if (accepted) {
		put_flags(c, true, SYN_ACK);
		put_flags(c, false, DIW_PCAPNG_ACK);
	}
	*s = &c->s;
	return 0;
}
