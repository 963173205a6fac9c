/* SPDX-License-Identifier: BSD-2-Clause */
/* The request and the reply by which an application finds the queue pair of a service (docs/ud-profile.md section 16).
 * The CRC is computed by the caller (wire/seal.h). */
#ifndef DIW_WIRE_SERVICE_H
#define DIW_WIRE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/wire.h"

#define DIW_SERVICE_MAGIC 0x64697775u        /* "diwu" */
#define DIW_SERVICE_VERSION 1
#define DIW_SERVICE_PS 0x0111u               /* port space: datagrams */
#define DIW_SERVICE_LEN 292u
#define DIW_SERVICE_DATA_AT 32u
#define DIW_SERVICE_CRC_AT 288u

enum { DIW_SERVICE_REQUEST = 1, DIW_SERVICE_REPLY = 2 };
enum { DIW_SERVICE_ACCEPTED = 0, DIW_SERVICE_REJECTED = 2 };

struct diw_service {
	uint8_t kind;
	uint16_t status;             /* of a reply */
	uint64_t number;
	uint32_t qpn, qkey;          /* the sender's; 0: none */
	const void *data;
	uint8_t len;                 /* of data */
};

static inline void diw_service_put(uint8_t p[DIW_SERVICE_LEN], const struct diw_service *s)
{
	memset(p, 0, DIW_SERVICE_LEN);
	diw_put32(p, DIW_SERVICE_MAGIC);
	p[4] = DIW_SERVICE_VERSION;
	p[5] = s->kind;
	diw_put16(p + 6, s->status);
	diw_put64(p + 8, s->number);
	diw_put16(p + 16, DIW_SERVICE_PS);
	diw_put16(p + 18, s->len);
	diw_put32(p + 20, s->qpn);
	diw_put32(p + 24, s->qkey);
	if (s->len)
		memcpy(p + DIW_SERVICE_DATA_AT, s->data, s->len);
}

/* False: another length, magic, version or port space, or more private data than 255 octets. */
static inline bool diw_service_get(struct diw_service *s, const uint8_t *p, size_t len)
{
	if (len != DIW_SERVICE_LEN || diw_get32(p) != DIW_SERVICE_MAGIC || p[4] != DIW_SERVICE_VERSION ||
	    diw_get16(p + 16) != DIW_SERVICE_PS || diw_get16(p + 18) > UINT8_MAX)
		return false;
	*s = (struct diw_service){
		.kind = p[5], .status = diw_get16(p + 6), .number = diw_get64(p + 8), .qpn = diw_get32(p + 20),
		.qkey = diw_get32(p + 24), .data = p + DIW_SERVICE_DATA_AT, .len = (uint8_t)diw_get16(p + 18),
	};
	return true;
}

#endif
