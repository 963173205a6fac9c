/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Follows connections through a capture: puts TCP segments in order, and cuts the stream into frames and FPDUs. Octets
 * that are missing, or that came before the capture, are reported. Behind them decoding continues at a segment that
 * begins with an FPDU whose CRC is good.
 */
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"
#include "base/crc.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/wire.h"
#include "tools/dump/dump.h"

#define OPEN 4096                    /* connections at a time; the one that was quiet longest ends for a new one */
#define WAITING (4u << 20)           /* octets behind a gap that wait until it is filled */
#define PIECE 1024u                  /* a piece counts this much beside its octets, which limits the number of short
				      * pieces */
#define BLOCK 512u                   /* octets between two markers */
#define MARKER 4u
#define MIN_ULPDU 14u
enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };

struct piece {                       /* a part of the stream behind a gap */
	struct piece *next;
	uint32_t seq, len;
	uint8_t data[];
};

enum half_state { FRAME, FPDUS, ASTRAY, DONE };

struct half {                        /* the direction from one end */
	enum half_state state;
	bool seen, markers;
	bool fin, ended;             /* fin: the end of the direction came; ended: it was shown */
	uint32_t next;               /* sequence number of the next octet */
	uint32_t pos;                /* octets from the first FPDU on; only the last 9 bits are used */
	uint8_t *buf;                /* a frame or FPDU that is not complete */
	uint32_t len;
	struct piece *later;
	uint32_t waiting;
	uint64_t lost;               /* octets lost since FPDUs were last recognised */
	struct { uint64_t length; uint32_t segments; } msg[3];       /* the current Send, Write and Read Response */
};

struct conn {
	struct diw_list age, hash;
	struct dump_datagram dg;     /* the latest packet of either direction, without the data */
	struct diw_addr end[2];      /* a capture inside a program has the program's own end first */
	bool inside, middle;         /* middle: the beginning was not captured */
	bool ours;                   /* a frame or an FPDU was found */
	bool replied, crc, imm, words;
	uint16_t takes;              /* the capabilities in the request */
	struct half half[2];
};

struct dump_rc {
	void (*show)(void *ctx, const struct dump_fpdu *f);
	void *ctx;
	struct dump_rc_counts count;
	uint32_t n;
	struct diw_list age, hash[OPEN];
	uint8_t bare[FPDU_MAX];      /* an FPDU without its markers */
};

/* ---- Results ---- */

static void show_fpdu(struct dump_rc *rc, struct conn *c, int side, struct dump_fpdu *f)
{
	f->dg = c->dg;
	f->dg.src = c->end[side];
	f->dg.dst = c->end[!side];
	f->dg.dir = !c->inside ? DUMP_DIR_UNKNOWN : side ? DUMP_IN : DUMP_OUT;
	rc->count.connections += !c->ours;
	c->ours = true;
	rc->count.frames += f->kind == MPA_REQUEST || f->kind == MPA_REPLY;
	rc->count.fpdus += f->kind == MPA_FPDU;
	rc->count.bad_crc += f->kind == MPA_FPDU && f->crc_on && !f->crc_good;
	rc->count.faults += f->fault != NULL;
	rc->count.lost += f->lost;
	rc->show(rc->ctx, f);
}

static void show_lost(struct dump_rc *rc, struct conn *c, int side)
{
	struct half *h = &c->half[side];
	struct dump_fpdu f = { .kind = MPA_LOST, .lost = h->lost };

	if (h->lost && c->ours)
		show_fpdu(rc, c, side, &f);
	h->lost = 0;
}

/* The next N octets cannot be assigned to FPDUs. */
static void go_astray(struct half *h, uint64_t n)
{
	h->state = ASTRAY;
	h->lost += n;
	memset(h->msg, 0, sizeof h->msg);
}

/* ---- Frames ---- */

static void agree(struct conn *c, int side, const struct dump_fpdu *f)
{
	uint16_t both = c->takes & f->takes;

	c->crc |= f->crc;
	c->half[!side].markers = f->markers;
	c->half[side].state = FPDUS;
	if (f->reject)
		c->half[0].state = c->half[1].state = DONE;
	if (f->kind == MPA_REQUEST) {
		c->takes = f->takes;
	} else {
		c->replied = true;
		c->imm = (both & (TAKES_7306 | TAKES_SEND_IMM)) == (TAKES_7306 | TAKES_SEND_IMM);
		c->words = c->imm && (both & TAKES_WORDS);
	}
}

static void half_feed(struct dump_rc *rc, struct conn *c, int side, const uint8_t *p, uint32_t n);

/* Returns how many of the N octets at P are a frame; 0: more are needed. */
static uint32_t take_frame(struct dump_rc *rc, struct conn *c, int side, const uint8_t *p, uint32_t n)
{
	struct dump_fpdu f = { 0 };
	int len = fpdu_frame(&f, p, n);

	if (len < 0 && f.fault)
		show_fpdu(rc, c, side, &f);
	if (len < 0) {
		go_astray(&c->half[side], n);
		return n;
	}
	if (len > 0) {
		agree(c, side, &f);
		show_fpdu(rc, c, side, &f);
	}
	if (len > 0 && f.kind == MPA_REPLY && c->half[!side].len)
		half_feed(rc, c, !side, c->half[!side].buf, c->half[!side].len);
	return (uint32_t)len;
}

/* ---- FPDUs ---- */

static uint32_t bare_len(uint32_t ulpdu)
{
	return ((2 + ulpdu + 3) & ~3u) + 4;
}

static bool crc_is_good(const uint8_t *p, uint32_t len)
{
	return diw_crc32c(0, p, len - 4) == diw_get32le(p + len - 4);
}

/* Whether the N octets at P begin with an FPDU that contains a segment. Only without markers, whose positions are
 * unknown. */
static bool begins_fpdu(const uint8_t *p, uint32_t n)
{
	uint32_t ulpdu = n > 4 ? diw_get16(p) : 0;

	return ulpdu >= MIN_ULPDU && bare_len(ulpdu) <= n && (p[2] & 3) == 1 && p[3] >> 6 == 1 &&
	       crc_is_good(p, bare_len(ulpdu));
}

/* The distance from the FPDU's first octet to the next marker. */
static uint32_t to_marker(const struct half *h)
{
	return -h->pos % BLOCK;
}

/* The FPDU's octets on the wire; 0: its length field is not complete. */
static uint32_t fpdu_len(const struct half *h, const uint8_t *p, uint32_t n)
{
	uint32_t lead = h->markers && !to_marker(h) ? MARKER : 0, bare, first = to_marker(h);

	if (n < lead + 2)
		return 0;
	bare = bare_len(diw_get16(p + lead));
	if (!h->markers || bare <= first)
		return bare;
	return bare + MARKER * (1 + (bare - first - 1) / (BLOCK - MARKER));
}

/* Copies the octets without markers to TO, which holds FPDU_MAX. False: a marker does not point at the length field
 * (RFC 5044 section 4.3). */
static bool half_strip(const struct half *h, uint8_t *to, const uint8_t *p, uint32_t len)
{
	uint32_t next = h->markers ? to_marker(h) : len, at = 0, start = next ? 0 : MARKER;
	bool good = true;

	while (at < len) {
		uint32_t end = next < len ? next : len;

		memcpy(to, p + at, end - at);
		to += end - at;
		at = end;
		if (at == next && at < len) {
			good &= (diw_get16(p + at + 2) & ~3u) == (uint16_t)(at ? at - start : 0);
			at += MARKER;
			next += BLOCK;
		}
	}
	return good;
}

/* Segments of these three messages may alternate (docs/rc-wire.md section 3). The other messages have one segment. */
static void count_message(struct half *h, struct dump_fpdu *f)
{
	int kind = !f->tagged ? 0 : f->opcode == 2 ? 2 : 1;

	f->length = f->n;
	f->segments = 1;
	if (!f->hdr_len || (!f->tagged && f->qn))
		return;
	f->length = h->msg[kind].length += f->n;
	f->segments = ++h->msg[kind].segments;
	if (f->last)
		memset(&h->msg[kind], 0, sizeof h->msg[kind]);
}

/* Returns how many of the N octets at P are an FPDU; 0: more are needed. */
static uint32_t take_fpdu(struct dump_rc *rc, struct conn *c, int side, const uint8_t *p, uint32_t n)
{
	struct half *h = &c->half[side];
	uint32_t len = fpdu_len(h, p, n);
	struct dump_fpdu f = { .crc_on = c->crc };
	bool pointed;

	if (!len || len > n)
		return 0;
	f.crc_value = diw_get32le(p + len - 4);
	f.crc_good = !c->crc || crc_is_good(p, len);
	if (!f.crc_good && c->middle) {         /* the stream may have markers */
		go_astray(h, n);
		return n;
	}
	pointed = half_strip(h, rc->bare, p, len);
	fpdu_decode(&f, rc->bare + 2, diw_get16(rc->bare), c->imm, c->words);
	if (!f.crc_good || !pointed)
		f.fault = diw_fault_counter(f.crc_good ? DIW_FAULT_MPA_MARKER : DIW_FAULT_MPA_CRC);
	else
		count_message(h, &f);
	show_fpdu(rc, c, side, &f);
	h->pos += len;
	if (f.crc_good && pointed)
		return len;
	go_astray(h, n - len);
	return n;
}

/* ---- The stream in order ---- */

/* The reply determines the format of FPDUs. FPDUs that an initiator sends before it wait for the reply. */
static bool is_agreed(const struct conn *c)
{
	return c->replied || c->middle;
}

/* The LEN octets at P follow. If the stream is astray, they are the whole of a segment. */
static void half_feed(struct dump_rc *rc, struct conn *c, int side, const uint8_t *p, uint32_t n)
{
	struct half *h = &c->half[side];
	uint32_t used = 1;

	if (h->state == FPDUS && !is_agreed(c) && n > FPDU_MAX) {
		go_astray(h, n);
		h->len = 0;
		return;
	}
	if (h->state == ASTRAY) {
		if (h->markers || !begins_fpdu(p, n)) {
			h->lost += n;
			return;
		}
		c->middle |= !c->replied;
		c->crc |= c->middle;
		show_lost(rc, c, side);
		h->state = FPDUS;
	}
	while (n && used && h->state != DONE && (h->state != FPDUS || is_agreed(c))) {
		used = h->state == FRAME ? take_frame(rc, c, side, p, n) : h->state == FPDUS ?
		       take_fpdu(rc, c, side, p, n) : n;
		p += used;
		n -= used;
	}
	if (h->state == DONE)
		n = 0;
	memmove(h->buf, p, n);
	h->len = n;
}

/* Appends octets to an incomplete frame or FPDU. */
static void half_append(struct dump_rc *rc, struct conn *c, int side, const uint8_t *p, uint32_t n)
{
	struct half *h = &c->half[side];
	uint8_t *bigger = realloc(h->buf, h->len + n);

	h->next += n;
	if (!bigger) {
		go_astray(h, h->len + n);
		h->len = 0;
		return;
	}
	h->buf = bigger;
	memcpy(h->buf + h->len, p, n);
	half_feed(rc, c, side, h->buf, h->len + n);
}

static bool is_ahead(const struct half *h, uint32_t seq)
{
	return (int32_t)(seq - h->next) > 0;
}

/* Takes the new octets of a piece that begins within the stream. */
static void take_piece(struct dump_rc *rc, struct conn *c, int side, uint32_t seq, const uint8_t *p, uint32_t n)
{
	uint32_t old = c->half[side].next - seq;

	if (old < n)
		half_append(rc, c, side, p + old, n - old);
}

/* Takes waiting pieces as far as they follow. FORCE: beyond the first gap, too. */
static void take_later(struct dump_rc *rc, struct conn *c, int side, bool force)
{
	struct half *h = &c->half[side];

	while (h->later && (force || !is_ahead(h, h->later->seq))) {
		struct piece *k = h->later;

		if (is_ahead(h, k->seq)) {
			go_astray(h, (uint64_t)h->len + (k->seq - h->next));
			h->len = 0;
			h->next = k->seq;
			force = false;
		}
		h->later = k->next;
		h->waiting -= PIECE + k->len;
		take_piece(rc, c, side, k->seq, k->data, k->len);
		free(k);
	}
}

static void put_later(struct half *h, uint32_t seq, const uint8_t *p, uint32_t n)
{
	struct piece *k = malloc(sizeof *k + n), **at = &h->later;

	if (!k)
		return;                         /* there is a gap */
	*k = (struct piece){ .seq = seq, .len = n };
	memcpy(k->data, p, n);
	while (*at && (int32_t)((*at)->seq - seq) < 0)
		at = &(*at)->next;
	k->next = *at;
	*at = k;
	h->waiting += PIECE + n;
}

static void conn_take_segment(struct dump_rc *rc, struct conn *c, int side, const struct dump_datagram *d)
{
	struct half *h = &c->half[side];

	if (!h->seen) {
		h->seen = true;
		h->next = d->seq;
	}
	if (is_ahead(h, d->seq) && h->state == ASTRAY) {        /* nothing waits */
		h->lost += d->seq - h->next;
		h->next = d->seq;
	}
	if (is_ahead(h, d->seq))
		put_later(h, d->seq, d->data, d->len);
	else
		take_piece(rc, c, side, d->seq, d->data, d->len);
	take_later(rc, c, side, h->waiting > WAITING);
}

/* Behind a reset no octets come that could fill a gap; behind a FIN they may. */
static void take_end(struct dump_rc *rc, struct conn *c, int side, bool reset)
{
	struct half *h = &c->half[side];
	struct dump_fpdu f = { .kind = MPA_END, .reset = reset };

	if (h->ended || !c->ours)
		return;
	for (int i = 0; i < 2 && reset; i++) {
		while (c->half[i].later)
			take_later(rc, c, i, true);
		c->half[i].ended = true;
	}
	h->fin = true;
	if (h->later)
		return;
	h->ended = true;
	show_lost(rc, c, side);
	show_fpdu(rc, c, side, &f);
}

/* Octets that the peer has acknowledged will not come again: if they are missing, the capture has lost them. */
static void take_ack(struct dump_rc *rc, struct conn *c, int side, uint32_t ack)
{
	struct half *h = &c->half[side];

	while (h->later && (int32_t)(ack - h->later->seq) >= 0)
		take_later(rc, c, side, true);
	if (h->fin)
		take_end(rc, c, side, false);
}

/* ---- Connections ---- */

static void free_conn(struct dump_rc *rc, struct conn *c)
{
	for (int side = 0; side < 2; side++) {
		while (c->half[side].later)
			take_later(rc, c, side, true);
		if (c->half[side].state != DONE)
			c->half[side].lost += c->half[side].len;
		if (c->half[side].fin)
			take_end(rc, c, side, false);
		show_lost(rc, c, side);
		free(c->half[side].buf);
	}
	diw_list_del(&c->age);
	diw_list_del(&c->hash);
	free(c);
	rc->n--;
}

/* The index of the sending end. The first end is the program's own for a capture inside a program, else the one with
 * the lower address. */
static int sender(const struct dump_datagram *d)
{
	if (d->dir != DUMP_DIR_UNKNOWN)
		return d->dir == DUMP_IN;
	return memcmp(&d->src, &d->dst, sizeof d->src) > 0;
}

static struct diw_list *conn_bucket(struct dump_rc *rc, const struct diw_addr end[2], bool inside)
{
	return &rc->hash[diw_addr_hash(&end[0], diw_addr_hash(&end[1], inside)) % OPEN];
}

static struct conn *conn_find(struct dump_rc *rc, const struct diw_addr end[2], bool inside)
{
	struct diw_list *head = conn_bucket(rc, end, inside), *l;

	for (l = head->next; l != head; l = l->next) {
		struct conn *c = diw_container(l, struct conn, hash);

		if (c->inside == inside && diw_addr_eq(&c->end[0], &end[0]) && diw_addr_eq(&c->end[1], &end[1]))
			return c;
	}
	return NULL;
}

/* Makes a connection for a segment that begins with a frame, or like an FPDU. */
static struct conn *new_conn(struct dump_rc *rc, const struct diw_addr end[2], bool inside, bool middle)
{
	struct conn *c;

	if (rc->n == OPEN)
		free_conn(rc, diw_container(diw_list_first(&rc->age), struct conn, age));
	c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	rc->n++;
	memcpy(c->end, end, sizeof c->end);
	c->inside = inside;
	c->middle = c->crc = middle;
	if (middle)
		c->half[0].state = c->half[1].state = ASTRAY;
	/* Only diwarp's queue pairs connect to themselves: without frames, and usually without "plain". */
	c->imm = c->words = diw_addr_eq(&end[0], &end[1]);
	diw_list_init(&c->age);
	diw_list_add_tail(conn_bucket(rc, end, inside), &c->hash);
	return c;
}

void dump_rc_add(struct dump_rc *rc, const struct dump_datagram *d)
{
	int side = sender(d);
	const struct diw_addr end[2] = { side ? d->dst : d->src, side ? d->src : d->dst };
	bool inside = d->dir != DUMP_DIR_UNKNOWN;
	struct conn *c = conn_find(rc, end, inside);
	struct dump_fpdu f = { 0 };

	if (c && (d->flags & (SYN | ACK)) == SYN) {     /* a new connection between the same ports */
		free_conn(rc, c);
		c = NULL;
	}
	if (!c && d->len && !(d->flags & SYN)) {
		bool frame = fpdu_frame(&f, d->data, d->len) >= 0 || f.fault;

		if (frame || begins_fpdu(d->data, d->len))
			c = new_conn(rc, end, inside, !frame);
	}
	if (!c) {
		rc->count.other += d->len > 0;
		return;
	}
	c->dg = *d;
	diw_list_del(&c->age);
	diw_list_add_tail(&rc->age, &c->age);
	if (d->flags & ACK)
		take_ack(rc, c, !side, d->ack);
	if (d->len && !(d->flags & SYN))
		conn_take_segment(rc, c, side, d);
	if (d->flags & (FIN | RST))
		take_end(rc, c, side, d->flags & RST);
}

struct dump_rc *dump_rc_new(void (*show)(void *ctx, const struct dump_fpdu *f), void *ctx)
{
	struct dump_rc *rc = calloc(1, sizeof *rc);

	if (!rc)
		return NULL;
	rc->show = show;
	rc->ctx = ctx;
	diw_list_init(&rc->age);
	for (int i = 0; i < OPEN; i++)
		diw_list_init(&rc->hash[i]);
	return rc;
}

void dump_rc_end(struct dump_rc *rc)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &rc->age)
		free_conn(rc, diw_container(l, struct conn, age));
}

const struct dump_rc_counts *dump_rc_counts(const struct dump_rc *rc)
{
	return &rc->count;
}

void dump_rc_free(struct dump_rc *rc)
{
	if (rc)
		dump_rc_end(rc);
	free(rc);
}
