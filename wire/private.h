/* SPDX-License-Identifier: BSD-2-Clause */
/* The private data that the library and its users put into MPA's frames. wire/rsockets.h has that of rsockets. */
#ifndef DIW_WIRE_PRIVATE_H
#define DIW_WIRE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/wire.h"
#include "wire/mpa_frame.h"

/* ---- Capabilities of an end, behind the application's data (docs/rc-wire.md section 2.1) ---- */

#define DIW_TAKES_LEN 12u
#define DIW_TAKES_MAGIC 0x646977373330368full
enum { DIW_TAKES_7306 = 1, DIW_TAKES_SEND_IMM = 2, DIW_TAKES_WORDS = 4, DIW_TAKES_NO_CRC = 8 };

static inline void diw_takes_put(uint8_t *p, unsigned takes)
{
	diw_put64(p, DIW_TAKES_MAGIC);
	p[8] = DIW_TAKES_LEN;
	p[9] = 0;
	diw_put16(p + 10, (uint16_t)takes);
}

/* Whether the LEN octets at DATA end with this field; its content goes to *TAKES. */
static inline bool diw_takes_get(const uint8_t *data, uint32_t len, unsigned *takes)
{
	const uint8_t *p = len < DIW_TAKES_LEN ? NULL : data + len - DIW_TAKES_LEN;

	if (!p || diw_get64(p) != DIW_TAKES_MAGIC || p[8] != DIW_TAKES_LEN)
		return false;
	*takes = diw_get16(p + 10);
	return true;
}

/* ---- libibverbs (docs/rc-wire.md section 2.3) ---- */

#define DIW_QP_HELLO_LEN 20u
#define DIW_QP_HELLO_MAGIC 0x6469772d6f662031ull     /* "diw-of 1" */

struct diw_qp_hello { uint32_t from, to, rq_psn; };

static inline void diw_qp_hello_put(uint8_t *p, const struct diw_qp_hello *h)
{
	diw_put64(p, DIW_QP_HELLO_MAGIC);
	diw_put32(p + 8, h->from);
	diw_put32(p + 12, h->to);
	diw_put32(p + 16, h->rq_psn);
}

static inline bool diw_qp_hello_get(struct diw_qp_hello *h, const uint8_t *p, size_t len)
{
	if (len != DIW_QP_HELLO_LEN || diw_get64(p) != DIW_QP_HELLO_MAGIC)
		return false;
	*h = (struct diw_qp_hello){ diw_get32(p + 8), diw_get32(p + 12), diw_get32(p + 16) };
	return true;
}

/* ---- The interposer's streams (docs/streams.md) ---- */

#define DIW_STREAM_HELLO (DIW_MPA_FRAME_HDR + 28u)   /* octets of the Request or Reply */

struct diw_stream_hello {
	bool reply, crc;
	bool has_key, whole;         /* decoded: the key, or all fields, are valid */
	uint64_t key, own;           /* the receiver's key; the sender's key */
	uint32_t most;               /* octets of payload of an FPDU with the CRC on */
};

void diw_stream_hello_encode(uint8_t p[DIW_STREAM_HELLO], const struct diw_stream_hello *h);
/* Decodes the N octets at P, which may be only the beginning, to H. False: they are no Request, or no Reply. */
bool diw_stream_hello_decode(struct diw_stream_hello *h, bool reply, const uint8_t *p, size_t n);

#endif
