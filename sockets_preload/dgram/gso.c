/* SPDX-License-Identifier: BSD-2-Clause */
/* A buffer that UDP_SEGMENT cuts. Each message gets its frame, and the kernel is told a size that is larger by the
 * frame. */
#include <errno.h>
#include <string.h>

#include "sockets_preload/dgram/frame.h"
#include "sockets_preload/dgram/segments.h"

/* Every kernel accepts this many segments. More segments are sent by one call only, so that a kernel that refuses their
 * number refuses the whole message. */
#define MOST_IN_TWO 64u
#define OWN_CONTROL CMSG_SPACE(sizeof(uint16_t))

struct sending {
	const struct diw_burst *b;
	struct msghdr msg;                   /* everything except the data */
	const struct iovec *from;
	size_t off, left;                    /* off: offset in *from */
	size_t extra;                        /* bytes that a frame adds */
	uint16_t size;                       /* of each message with its frame, except the last */
};

/* Writes the control data of a message to P, with SIZE as the size of segments with their frames. */
static void put_size(struct msghdr *to, const struct msghdr *msg, uint8_t *p, uint16_t size)
{
	struct cmsghdr own = { .cmsg_len = CMSG_LEN(sizeof size), .cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT };

	memset(p, 0, OWN_CONTROL);
	memcpy(p, &own, sizeof own);
	memcpy(CMSG_DATA((struct cmsghdr *)p), &size, sizeof size);
	if (msg->msg_controllen)
		memcpy(p + OWN_CONTROL, msg->msg_control, msg->msg_controllen);
	to->msg_control = p;
	to->msg_controllen = OWN_CONTROL + msg->msg_controllen;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(to); c; c = CMSG_NXTHDR(to, c))
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT)
			memcpy(CMSG_DATA(c), &size, sizeof size);
}

static void sending_copy(struct sending *sd, uint8_t *to, size_t len)
{
	while (len) {
		size_t some = sd->from->iov_len - sd->off;

		some = some < len ? some : len;
		memcpy(to, (const uint8_t *)sd->from->iov_base + sd->off, some);
		to += some;
		len -= some;
		sd->off += some;
		if (sd->off == sd->from->iov_len) {
			sd->from++;
			sd->off = 0;
		}
	}
}

/* Writes as many frames to MEM as a datagram's length allows. *N: their number. Returns their bytes. */
static size_t put_frames(struct sending *sd, uint8_t *mem, unsigned *n)
{
	const struct diw_burst *b = sd->b;
	uint8_t *p = mem;

	*n = 0;
	do {
		size_t len = sd->left < b->size ? sd->left : b->size;
		uint8_t *data = p + diw_frame_head_len(b->route);

		if ((size_t)(p - mem) + len + sd->extra > DIW_FRAME_MAX)
			break;
		diw_frame_begin(p, b->route, len, b->s, b->marked);
		sending_copy(sd, data, len);
		p += diw_frame_end(p, data + len, b->route);
		sd->left -= len;
		++*n;
	} while (sd->left);
	return (size_t)(p - mem);
}

static ssize_t sending_send(struct sending *sd, uint8_t *mem, bool first)
{
	struct iovec iov = { .iov_base = mem };
	struct msghdr m = sd->msg;
	unsigned n;
	ssize_t rc;

	iov.iov_len = put_frames(sd, mem, &n);
	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	do
		rc = DIW_LIKELY(!diw_bad_net_on) ? diw_real_sendmsg(sd->b->fd, &m, sd->b->flags) :
			diw_bad_net_sendmsg(sd->b->fd, &m, sd->b->flags, sd->size,
					    diw_frame_head_len(sd->b->route));
	while (rc < 0 && errno == EINTR && !first);
	if (rc < 0) {
		diw_add(DIW_C_sock_tx_framed, -(uint64_t)n);
		diw_add(DIW_C_sock_tx_lost, first ? 0 : n);
	}
	return rc;
}

/* If the kernel refuses the second super-buffer, its messages are lost: the first has already left. */
DIW_FLAT ssize_t diw_gso_send(const struct diw_burst *b, const struct msghdr *msg, size_t len)
{
	size_t n = len ? (len + b->size - 1) / b->size : 1;
	struct sending sd = { .b = b, .msg = *msg, .from = msg->msg_iov, .left = len,
			      .extra = diw_frame_head_len(b->route) + DIW_SEAL_LEN };
	size_t each = b->size + sd.extra, control = msg->msg_control ? msg->msg_controllen : 0;
	struct diw_hold h;
	ssize_t rc;

	if (len > DIW_FRAME_MAX || (len + n * sd.extra > DIW_FRAME_MAX && (n > MOST_IN_TWO || b->marked)) ||
	    control > DIW_STAGE_CONTROL - OWN_CONTROL) {
		errno = EMSGSIZE;
		return -1;
	}
	if (!diw_stage_hold(DIW_STAGE_ONE, &h))
		return -1;
	sd.size = each < UINT16_MAX ? (uint16_t)each : UINT16_MAX;
	put_size(&sd.msg, msg, h.mem + DIW_STAGE, sd.size);
	rc = sending_send(&sd, h.mem, true);
	while (rc >= 0 && sd.left)
		if (sending_send(&sd, h.mem, false) < 0)
			break;
	diw_stage_let_go(DIW_STAGE_ONE, &h);
	return rc < 0 ? rc : (ssize_t)len;
}
