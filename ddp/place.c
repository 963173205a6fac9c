/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers as work requests name them: every use looks the STags up anew. */
#include <string.h>

#include "ddp/ddp.h"

/* Called once for each entry that [off, off + len) of the buffer touches. */
uint16_t diw_ddp_place(const struct diw_ddp *d, const struct diw_ddp_buf *buf, uint32_t off, const uint8_t *data,
		       uint32_t len)
{
	for (uint32_t i = 0; i < buf->n && len; i++) {
		const struct diw_ddp_sge *s = &buf->sge[i];
		uint32_t n = s->len - off;
		uint16_t fault;
		uint8_t *to;

		if (off >= s->len) {
			off -= s->len;
			continue;
		}
		if (n > len)
			n = len;
		fault = diw_stag_resolve(d->stags, s->stag, &d->user, DIW_STAG_LOCAL_WRITE, NULL, s->to + off, n, &to);
		if (fault)
			return fault;
		memcpy(to, data, n);
		data += n;
		len -= n;
		off = 0;
	}
	return len ? DIW_FAULT_BOUNDS : 0;
}

uint16_t diw_ddp_gather(const struct diw_ddp *d, const struct diw_ddp_buf *buf, struct iovec *iov)
{
	for (uint32_t i = 0; i < buf->n; i++) {
		const struct diw_ddp_sge *s = &buf->sge[i];
		uint8_t *from = NULL;
		uint16_t fault = 0;

		if (s->len)
			fault = diw_stag_resolve(d->stags, s->stag, &d->user, 0, NULL, s->to, s->len, &from);
		if (fault)
			return fault;
		iov[i] = (struct iovec){ from, s->len };
	}
	return 0;
}
