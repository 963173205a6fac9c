/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes a pcapng file: packets with IP, UDP and TCP headers, which the kernel makes and the stack does not see. */
#include "llp/pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ident.h"
#include "base/sys.h"
#include "base/wire.h"

#define BUFFER (256u << 10)
#define MAX_COMMENT 64u
#define MAX_BLOCK (65536u + 256u)    /* the largest IPv6 packet of a dgram's burst, and a block around it */
#define LINKTYPE_RAW 101             /* the packet begins with an IPv4 or IPv6 header */
enum { BLOCK_SHB = 0x0a0d0d0a, BLOCK_IDB = 1, BLOCK_EPB = 6 };
enum { OPT_END, OPT_COMMENT, OPT_IF_NAME = 2, OPT_EPB_FLAGS = 2, OPT_USERAPPL = 4, OPT_TSRESOL = 9 };
#define IPV4_LEN 20u
#define IPV6_LEN 40u
#define UDP_LEN 8u
#define TCP_LEN 20u
#define TCP_WINDOW 65535
#define HOP_LIMIT 64

struct diw_pcapng {
	pthread_mutex_t lock;
	int fd, error;
	bool told, cut;              /* cut: the remains of a failed write can be cut off */
	dev_t dev;
	ino_t ino;
	pid_t owner;                 /* the process that opened the file: a child inherits the buffer, and must not
				      * write it a second time */
	uint64_t written, limit;     /* bytes in the file; RLIMIT_FSIZE, whose signal ends a program that exceeds it */
	uint32_t used;
	uint8_t buf[BUFFER];
};

/* ---- Blocks, in this machine's byte order, which the section header states ---- */

static uint8_t *put_bytes(uint8_t *p, const void *from, size_t len)
{
	if (len)                                /* an option without a value has a NULL pointer */
		memcpy(p, from, len);
	return p + len;
}

static uint8_t *put_word(uint8_t *p, uint32_t v)
{
	return put_bytes(p, &v, sizeof v);
}

static uint8_t *block_pad(uint8_t *p, size_t len)
{
	for (; len % 4; len++)
		*p++ = 0;
	return p;
}

static uint8_t *put_option(uint8_t *p, uint16_t code, const void *value, size_t len)
{
	uint16_t head[2] = { code, (uint16_t)len };

	return block_pad(put_bytes(put_bytes(p, head, sizeof head), value, len), len);
}

/* Writes both length fields of the block from BEGIN to P. */
static uint8_t *end_block(uint8_t *begin, uint8_t *p)
{
	uint32_t len = (uint32_t)(p - begin) + 4;

	put_word(begin + 4, len);
	return put_word(p, len);
}

static void begin_file(struct diw_pcapng *p)
{
	static const uint16_t version[2] = { 1, 0 };
	static const uint16_t link[2] = { LINKTYPE_RAW, 0 };
	static const char app[] = "diwarp " DIW_VERSION;
	static const uint8_t nanoseconds = 9;
	const int64_t unknown = -1;
	uint8_t *b = p->buf, *q;

	q = put_word(b, BLOCK_SHB) + 4;
	q = put_bytes(put_bytes(put_word(q, 0x1a2b3c4d), version, sizeof version), &unknown, sizeof unknown);
	q = put_option(q, OPT_USERAPPL, app, sizeof app - 1);
	b = end_block(b, put_option(q, OPT_END, NULL, 0));
	q = put_word(b, BLOCK_IDB) + 4;
	q = put_word(put_bytes(q, link, sizeof link), 0);
	q = put_option(q, OPT_IF_NAME, "diwarp", 6);
	q = put_option(q, OPT_TSRESOL, &nanoseconds, 1);
	b = end_block(b, put_option(q, OPT_END, NULL, 0));
	p->used = (uint32_t)(b - p->buf);
}

/* ---- IP, UDP and TCP headers ---- */

/* The sum of RFC 1071. Every piece except the last has an even number of bytes. */
static uint32_t inet_sum(uint32_t sum, const uint8_t *p, size_t len)
{
	for (; len > 1; p += 2, len -= 2)
		sum += diw_get16(p);
	return len ? sum + ((uint32_t)*p << 8) : sum;
}

static uint16_t fold_sum(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint32_t ip_len(const struct diw_pcapng_packet *k)
{
	return diw_addr_is_v4(k->src) || diw_addr_is_v4(k->dst) ? IPV4_LEN : IPV6_LEN;
}

static uint32_t transport_len(const struct diw_pcapng_packet *k)
{
	return k->tcp ? TCP_LEN : UDP_LEN;
}

/* Writes ports and the fields behind them, with 0 as the checksum. LEN includes the payload. */
static uint8_t *put_transport(uint8_t *p, const struct diw_pcapng_packet *k, uint32_t len)
{
	diw_put16(p, k->src->port);
	diw_put16(p + 2, k->dst->port);
	if (!k->tcp) {
		diw_put16(p + 4, (uint16_t)len);
		return p + 6;
	}
	diw_put32(p + 4, k->tcp->seq);
	diw_put32(p + 8, k->tcp->ack);
	p[12] = TCP_LEN / 4 << 4;
	p[13] = k->tcp->flags;
	diw_put16(p + 14, TCP_WINDOW);
	return p + 16;
}

/* Returns the position of the addresses, and their length in *N. LEN is the length of what follows the header. */
static uint8_t *put_ip_header(uint8_t *p, const struct diw_pcapng_packet *k, uint8_t protocol, uint32_t len, size_t *n)
{
	if (ip_len(k) == IPV4_LEN) {
		p[0] = 0x45;
		diw_put16(p + 2, (uint16_t)(IPV4_LEN + len));
		p[8] = HOP_LIMIT;
		p[9] = protocol;
		memcpy(p + 12, k->src->ip + 12, 4);
		memcpy(p + 16, k->dst->ip + 12, 4);
		diw_put16(p + 10, fold_sum(inet_sum(0, p, IPV4_LEN)));
		*n = 8;
		return p + 12;
	}
	p[0] = 0x60;
	diw_put16(p + 4, (uint16_t)len);
	p[6] = protocol;
	p[7] = HOP_LIMIT;
	memcpy(p + 8, k->src->ip, 16);
	memcpy(p + 24, k->dst->ip, 16);
	*n = 32;
	return p + 8;
}

static uint8_t *put_packet(uint8_t *p, const struct diw_pcapng_packet *k)
{
	uint8_t protocol = k->tcp ? IPPROTO_TCP : IPPROTO_UDP, *body = p + ip_len(k), *end = body + transport_len(k);
	uint8_t *field, *addrs;
	const struct iovec *v = k->iov;
	size_t off = k->off, n;
	uint32_t len, sum;

	memset(p, 0, (size_t)(end - p));
	for (uint32_t left = k->len; left > 0; v++, off = 0) {
		size_t have = v->iov_len - off;

		n = have < left ? have : left;
		end = put_bytes(end, (uint8_t *)v->iov_base + off, n);
		left -= (uint32_t)n;
	}
	len = (uint32_t)(end - body);
	field = put_transport(body, k, len);
	addrs = put_ip_header(p, k, protocol, len, &n);
	sum = fold_sum(inet_sum(inet_sum(protocol + len, addrs, n), body, len));
	diw_put16(field, (uint16_t)(sum || k->tcp ? sum : 0xffff));     /* in UDP, 0 means no checksum (RFC 768) */
	return end;
}

/* ---- The file ---- */

/* Handles a failed write, of which DONE bytes are in the file. An incomplete block is cut off, so the file ends in a
 * whole one. */
static void file_fail(struct diw_pcapng *p, int err, uint32_t done)
{
	uint32_t whole = 0, len = 0;

	do {
		whole += len;
		memcpy(&len, p->buf + whole + 4, sizeof len);
	} while (whole + len <= done);
	p->written += whole;
	p->error = -err;
	p->used = 0;
	if (p->cut && ftruncate(p->fd, (off_t)p->written) < 0)
		p->cut = false;
}

/* A program may close all descriptors that it finds; the number may then be another file's. */
static bool is_open(const struct diw_pcapng *p)
{
	struct stat st;

	return fstat(p->fd, &st) == 0 && st.st_dev == p->dev && st.st_ino == p->ino;
}

static void write_out(struct diw_pcapng *p)
{
	uint32_t done = 0;

	if (p->used && !is_open(p)) {
		p->cut = false;
		file_fail(p, EBADF, 0);
	}
	while (done < p->used) {
		uint64_t room = p->limit - p->written - done;
		ssize_t n = room ? write(p->fd, p->buf + done, diw_min64(p->used - done, room)) : -1;

		if (n > 0)
			done += (uint32_t)n;
		else if (n == 0 || !room || errno != EINTR)
			file_fail(p, n == 0 ? ENOSPC : room ? errno : EFBIG, done);
	}
	p->written += p->used;
	p->used = 0;
}

static int file_error_once(struct diw_pcapng *p)
{
	bool told = p->told;

	p->told = p->error != 0;
	return told ? 0 : p->error;
}

int diw_pcapng_flush(struct diw_pcapng *p)
{
	int rc;

	if (p->owner != getpid())
		return 0;
	pthread_mutex_lock(&p->lock);
	if (!p->error)
		write_out(p);
	rc = file_error_once(p);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static void append_packet(struct diw_pcapng *p, const struct diw_pcapng_packet *k)
{
	uint8_t *b = p->buf + p->used, *q, *packet;
	uint32_t len = ip_len(k) + transport_len(k) + k->len;

	q = put_word(put_word(b, BLOCK_EPB) + 4, 0);
	q = put_word(put_word(q, (uint32_t)(k->ns >> 32)), (uint32_t)k->ns);
	packet = put_word(put_word(q, len), len);
	q = block_pad(put_packet(packet, k), len);
	if (k->comment)
		q = put_option(q, OPT_COMMENT, k->comment, strnlen(k->comment, MAX_COMMENT));
	q = put_option(q, OPT_EPB_FLAGS, &(uint32_t){ k->outbound ? 2 : 1 }, 4);
	p->used = (uint32_t)(end_block(b, put_option(q, OPT_END, NULL, 0)) - p->buf);
}

int diw_pcapng_write(struct diw_pcapng *p, const struct diw_pcapng_packet *k)
{
	int rc;

	if (p->owner != getpid())
		return 0;
	pthread_mutex_lock(&p->lock);
	if (!p->error && p->used > BUFFER - MAX_BLOCK)
		write_out(p);
	if (!p->error)
		append_packet(p, k);
	rc = file_error_once(p);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* Checks a file that is about to be emptied: it is the user's own, has no second name, and contains nothing or a
 * capture. */
static int may_overwrite(int fd, const struct stat *st)
{
	uint32_t magic = 0;
	ssize_t n = pread(fd, &magic, sizeof magic, 0);

	if (st->st_uid != geteuid() || st->st_nlink != 1)
		return -EPERM;
	return n == 0 || (n == sizeof magic && magic == BLOCK_SHB) ? 0 : -EEXIST;
}

/* Accepts an ordinary file or a device such as /dev/full. Writing to others may block, or kill the program
 * (SIGPIPE). */
static int file_prepare(struct diw_pcapng *p)
{
	struct rlimit lim;
	struct stat st;
	int rc;

	if (fstat(p->fd, &st) < 0)
		return -errno;
	p->dev = st.st_dev;
	p->ino = st.st_ino;
	p->cut = S_ISREG(st.st_mode);
	if (!p->cut && !S_ISCHR(st.st_mode))
		return -EINVAL;
	rc = p->cut ? may_overwrite(p->fd, &st) : 0;
	if (rc == 0 && p->cut && fchmod(p->fd, 0600) < 0)
		rc = -errno;
	if (rc < 0)
		return rc;
	if (flock(p->fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (p->cut && ftruncate(p->fd, 0) < 0)
		return -errno;
	p->limit = UINT64_MAX;
	if (p->cut && getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY)
		p->limit = lim.rlim_cur;
	return 0;
}

int diw_pcapng_open(const char *path, struct diw_pcapng **out)
{
	struct diw_pcapng *p = calloc(1, sizeof *p);
	int rc;

	if (!p)
		return -ENOMEM;
	p->fd = diw_above_std(open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
	rc = p->fd >= 0 ? file_prepare(p) : -errno;
	if (rc < 0) {
		if (p->fd >= 0)
			close(p->fd);
		free(p);
		return rc;
	}
	pthread_mutex_init(&p->lock, NULL);
	p->owner = getpid();
	begin_file(p);
	write_out(p);
	*out = p;
	return 0;
}

void diw_pcapng_forked(struct diw_pcapng *p)
{
	if (is_open(p))
		close(p->fd);
}

void diw_pcapng_close(struct diw_pcapng *p)
{
	diw_pcapng_flush(p);
	if (is_open(p))
		close(p->fd);
	pthread_mutex_destroy(&p->lock);
	free(p);
}
