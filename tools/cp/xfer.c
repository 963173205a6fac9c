/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp and recv: encodes and decodes the messages of xfer.h, and checks every field. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "base/wire.h"
#include "tools/cp/xfer.h"

#define XFER_MAGIC 0x44495758u
#define XFER_VERSION 1u
#define HDR 20u                      /* magic 4, version 1, type 1, zero 2, id 8, flags 4 */
#define ENTRY 20u                    /* offset 8, length 8, flags 4 */
#define DONE_FIXED 36u               /* size 8, again 8, elapsed 8, total 4, first 4, count 4 */
#define SHA_SLICE (16u << 20)

_Static_assert(HDR + DONE_FIXED + 2 + XFER_TEXT_MAX + XFER_PAGE * ENTRY <= XFER_MAX, "the longest DONE");
_Static_assert(HDR + 16 + 48 + 2 + XFER_NAME_MAX <= XFER_MAX, "the longest WELCOME");
_Static_assert(HDR + 20 + XFER_BITS / 8 <= XFER_MAX, "the longest WANT");

struct writer { uint8_t *p; };
struct reader { const uint8_t *p, *end; bool bad; };

static void write32(struct writer *w, uint32_t v) { diw_put32(w->p, v); w->p += 4; }
static void write64(struct writer *w, uint64_t v) { diw_put64(w->p, v); w->p += 8; }

static void write_bytes(struct writer *w, const void *p, size_t n)
{
	memcpy(w->p, p, n);
	w->p += n;
}

static void put_text(struct writer *w, const char *text, size_t max)
{
	size_t n = strnlen(text, max);

	diw_put16(w->p, (uint16_t)n);
	memcpy(w->p + 2, text, n);
	w->p += 2 + n;
}

static void put_entries(struct writer *w, const struct xfer_msg *m)
{
	write32(w, m->first);
	write32(w, m->n);
	for (uint32_t i = 0; i < m->n; i++) {
		write64(w, m->entry[i].off);
		write64(w, m->entry[i].len);
		write32(w, m->entry[i].flags);
	}
}

/* What a sender says of the file that it sends to a group. */
static void put_file(struct writer *w, const struct xfer_msg *m)
{
	write64(w, m->size);
	write32(w, m->message);
	write32(w, m->stag);
	write_bytes(w, m->sha, 32);
	put_text(w, m->text, XFER_NAME_MAX);
}

/* The fields of the messages for a group. */
static void put_group_body(struct writer *w, const struct xfer_msg *m)
{
	switch (m->type) {
	case XFER_ANNOUNCE:
		put_file(w, m);
		break;
	case XFER_JOIN:
		write64(w, m->token);
		write64(w, m->nonce);
		write64(w, m->bytes);
		write32(w, m->rcvbuf);
		put_text(w, m->text, XFER_NAME_MAX);
		break;
	case XFER_WELCOME:
		write64(w, m->token);
		write64(w, m->nonce);
		put_file(w, m);
		break;
	case XFER_MARK:
		write64(w, m->bytes);
		write32(w, m->mark);
		write32(w, m->pass);
		write32(w, m->backoff_us);
		break;
	case XFER_REPORT:
		write64(w, m->token);
		write64(w, m->bytes);
		write32(w, m->mark);
		write32(w, m->pass);
		break;
	case XFER_WANT:
		write64(w, m->token);
		write64(w, m->block);
		write32(w, m->pass);
		write_bytes(w, m->page, sizeof m->page);
		break;
	case XFER_KEPT:
		write64(w, m->token);
		write64(w, m->elapsed_ns);
		put_text(w, m->text, XFER_TEXT_MAX);
		break;
	}
}

uint32_t xfer_encode(const struct xfer_msg *m, uint8_t buf[XFER_MAX])
{
	struct writer w = { buf };

	write32(&w, XFER_MAGIC);
	write32(&w, XFER_VERSION << 24 | (uint32_t)m->type << 16);
	write64(&w, m->id);
	write32(&w, m->flags);
	switch (m->type) {
	case XFER_OFFER:
		write64(&w, m->size);
		write32(&w, m->message);
		write_bytes(&w, m->sha, 32);
		put_text(&w, m->text, XFER_NAME_MAX);
		break;
	case XFER_REFUSE:
		put_text(&w, m->text, XFER_TEXT_MAX);
		break;
	case XFER_ASK:
		write32(&w, m->stag);
		write64(&w, m->to);
		put_entries(&w, m);
		break;
	case XFER_STATUS:
	case XFER_MORE:
		write32(&w, m->first);
		break;
	case XFER_DONE:
		write64(&w, m->size);
		write64(&w, m->again);
		write64(&w, m->elapsed_ns);
		write32(&w, m->total);
		put_entries(&w, m);
		put_text(&w, m->text, XFER_TEXT_MAX);
		break;
	default:
		put_group_body(&w, m);
	}
	return (uint32_t)(w.p - buf);
}

static const uint8_t *read_bytes(struct reader *r, size_t n)
{
	static const uint8_t zero[XFER_BITS / 8];
	const uint8_t *p = r->p;

	if (r->bad || (size_t)(r->end - r->p) < n) {
		r->bad = true;
		return zero;
	}
	r->p += n;
	return p;
}

static uint32_t read32(struct reader *r) { return diw_get32(read_bytes(r, 4)); }
static uint64_t read64(struct reader *r) { return diw_get64(read_bytes(r, 8)); }

/* A NUL within a name would make it two names. */
static void get_text(struct reader *r, char *text, size_t max)
{
	size_t n = diw_get16(read_bytes(r, 2));

	if (n > max || (size_t)(r->end - r->p) < n || memchr(r->p, 0, n)) {
		r->bad = true;
		n = 0;
	}
	memcpy(text, r->p, n);
	text[n] = '\0';
	r->p += n;
}

static void get_entries(struct reader *r, struct xfer_msg *m)
{
	m->first = read32(r);
	m->n = read32(r);
	if (m->n > XFER_PAGE) {
		r->bad = true;
		m->n = 0;
	}
	for (uint32_t i = 0; i < m->n; i++) {
		m->entry[i].off = read64(r);
		m->entry[i].len = read64(r);
		m->entry[i].flags = read32(r);
	}
}

static void get_file(struct reader *r, struct xfer_msg *m)
{
	m->size = read64(r);
	m->message = read32(r);
	m->stag = read32(r);
	memcpy(m->sha, read_bytes(r, 32), 32);
	get_text(r, m->text, XFER_NAME_MAX);
}

static void get_group_body(struct reader *r, struct xfer_msg *m)
{
	switch (m->type) {
	case XFER_ANNOUNCE:
		get_file(r, m);
		break;
	case XFER_JOIN:
		m->token = read64(r);
		m->nonce = read64(r);
		m->bytes = read64(r);
		m->rcvbuf = read32(r);
		get_text(r, m->text, XFER_NAME_MAX);
		break;
	case XFER_WELCOME:
		m->token = read64(r);
		m->nonce = read64(r);
		get_file(r, m);
		break;
	case XFER_MARK:
		m->bytes = read64(r);
		m->mark = read32(r);
		m->pass = read32(r);
		m->backoff_us = read32(r);
		break;
	case XFER_REPORT:
		m->token = read64(r);
		m->bytes = read64(r);
		m->mark = read32(r);
		m->pass = read32(r);
		break;
	case XFER_WANT:
		m->token = read64(r);
		m->block = read64(r);
		m->pass = read32(r);
		memcpy(m->page, read_bytes(r, sizeof m->page), sizeof m->page);
		break;
	case XFER_KEPT:
		m->token = read64(r);
		m->elapsed_ns = read64(r);
		get_text(r, m->text, XFER_TEXT_MAX);
		break;
	default:
		r->bad = true;
	}
}

static void get_body(struct reader *r, struct xfer_msg *m)
{
	switch (m->type) {
	case XFER_OFFER:
		m->size = read64(r);
		m->message = read32(r);
		memcpy(m->sha, read_bytes(r, 32), 32);
		get_text(r, m->text, XFER_NAME_MAX);
		break;
	case XFER_REFUSE:
		get_text(r, m->text, XFER_TEXT_MAX);
		break;
	case XFER_ASK:
		m->stag = read32(r);
		m->to = read64(r);
		get_entries(r, m);
		break;
	case XFER_STATUS:
	case XFER_MORE:
		m->first = read32(r);
		break;
	case XFER_DONE:
		m->size = read64(r);
		m->again = read64(r);
		m->elapsed_ns = read64(r);
		m->total = read32(r);
		get_entries(r, m);
		get_text(r, m->text, XFER_TEXT_MAX);
		break;
	case XFER_BYE:
		break;
	default:
		get_group_body(r, m);
	}
}

int xfer_decode(struct xfer_msg *m, const uint8_t *buf, size_t len)
{
	struct reader r = { buf, buf + len, false };
	uint32_t kind;

	memset(m, 0, offsetof(struct xfer_msg, entry));
	if (read32(&r) != XFER_MAGIC)
		return -EBADMSG;
	kind = read32(&r);
	if (kind >> 24 != XFER_VERSION || kind & 0xffff)
		return -EBADMSG;
	m->type = (uint8_t)(kind >> 16);
	m->id = read64(&r);
	m->flags = read32(&r);
	get_body(&r, m);
	return r.bad || r.p != r.end ? -EBADMSG : 0;
}

int xfer_open(struct xfer_port *p, const char *dev, const struct diw_addr *dst, struct diw_qp_attr *attr)
{
	int rc;

	memset(p, 0, sizeof *p);
	rc = endpoint_open(&p->ep, dev, dst, XFER_CQ, false);
	return rc ? rc : xfer_start(p, attr);
}

int xfer_start(struct xfer_port *p, struct diw_qp_attr *attr)
{
	int rc;

	attr->sq_depth = 2 * XFER_ENTRIES;
	attr->rq_depth = XFER_SLOTS;
	attr->max_inline = XFER_MAX;
	rc = endpoint_qp(&p->ep, attr);
	return rc ? rc : inbox_open(&p->in, p->ep.pd, p->ep.qp, XFER_SLOTS, XFER_MAX);
}

void xfer_close(struct xfer_port *p)
{
	if (p->ep.qp)
		diw_qp_destroy(p->ep.qp);
	p->ep.qp = NULL;
	inbox_close(&p->in);
	endpoint_close(&p->ep);
}

/* A message for which the queue is full counts as lost: each message is repeated until it is answered. */
int xfer_send(const struct xfer_peer *to, const struct xfer_msg *m)
{
	uint8_t buf[XFER_MAX];
	struct diw_sge sge = { buf, xfer_encode(m, buf), 0 };
	struct diw_send_wr wr = { .wr_id = m->id, .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND,
		.flags = DIW_SEND_INLINE | (m->type == XFER_BYE ? DIW_SEND_SIGNALED : 0), .qkey = TOOL_QKEY,
		.dst.addr = to->addr };
	int rc = to->qp ? diw_post_send(to->qp, &wr, NULL) : 0;

	return rc == -ENOMEM ? 0 : rc;
}

int xfer_take(const struct inbox *in, const struct diw_wc *wc, struct xfer_msg *m)
{
	int rc = -EBADMSG;

	if (wc->opcode != DIW_WC_RECV || wc->status == DIW_WC_FLUSHED)
		return rc;
	if (wc->status == DIW_WC_SUCCESS)
		rc = xfer_decode(m, inbox_at(in, wc->wr_id), wc->byte_len);
	inbox_post(in, wc->wr_id);
	return rc;
}

int xfer_sha256(const void *data, uint64_t len, uint8_t sha[32], bool (*tick)(void *ctx, uint64_t done), void *ctx)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	int ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1, rc = 0;
	uint64_t n;

	for (uint64_t off = 0; ok && !rc && off < len; off += n) {
		n = len - off < SHA_SLICE ? len - off : SHA_SLICE;
		ok = EVP_DigestUpdate(md, (const char *)data + off, n) == 1;
		if (!tick(ctx, off + n))
			rc = -EINTR;
	}
	ok = ok && !rc && EVP_DigestFinal_ex(md, sha, NULL) == 1;
	EVP_MD_CTX_free(md);
	return rc ? rc : ok ? 0 : -EIO;
}

void xfer_hex(const uint8_t sha[32], char hex[65])
{
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", sha[i]);
}

static void on_map_sigbus(int sig)
{
	static const char text[] = "diw: a mapped file shrank while it was in use, or its disk failed\n";

	(void)sig;
	if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
		_exit(TOOL_FAILED);
	_exit(TOOL_FAILED);
}

void xfer_catch_sigbus(void)
{
	struct sigaction sa = { .sa_handler = on_map_sigbus };

	sigaction(SIGBUS, &sa, NULL);
}

bool xfer_name_ok(const char *name)
{
	if (!*name || !strcmp(name, ".") || !strcmp(name, "..") || strlen(name) > XFER_NAME_MAX)
		return false;
	for (const char *p = name; *p; p++)
		if (*p == '/' || (unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	return true;
}

const char *xfer_printable(char *text)
{
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return text;
}
