/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers as work requests name them: every use looks their STags up. */
#include "base/copy.h"
#include "ddp/ddp.h"

/* The loop's body runs for each entry that [off, off + len) of the buffer touches. */
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
		fault = diw_ddp_resolve(d, s->stag, DIW_STAG_LOCAL_WRITE, NULL, s->to + off, n, &to);
		if (fault)
			return fault;
		diw_copy(to, data, n);
		data += n;
		len -= n;
		off = 0;
	}
	return len ? DIW_FAULT_BOUNDS : 0;
}

uint16_t diw_ddp_scatter_part(const struct diw_ddp *d, const struct diw_ddp_buf *buf, uint32_t off, uint32_t len,
			      struct iovec *iov, int *n)
{
	*n = 0;
	for (uint32_t i = 0; i < buf->n && len; i++) {
		const struct diw_ddp_sge *s = &buf->sge[i];
		uint32_t part = off < s->len ? s->len - off : 0;
		uint16_t fault;
		uint8_t *to;

		if (part > len)
			part = len;
		if (part) {
			fault = diw_ddp_resolve(d, s->stag, DIW_STAG_LOCAL_WRITE, NULL, s->to + off, part, &to);
			if (fault)
				return fault;
			iov[(*n)++] = (struct iovec){ to, part };
		}
		off -= part ? off : s->len;
		len -= part;
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
			fault = diw_ddp_resolve(d, s->stag, 0, NULL, s->to, s->len, &from);
		if (fault)
			return fault;
		iov[i] = (struct iovec){ from, s->len };
	}
	return 0;
}

_Static_assert(DIW_LINK_IOV == DIW_DDP_MAX_SGE, "a link takes the entries of a request");

int diw_ddp_gather_part(const struct diw_ddp *d, const struct diw_ddp_buf *buf, uint32_t off, uint32_t len,
			struct iovec *iov)
{
	uint64_t end = (uint64_t)off + len, begin = 0;  /* of this entry */
	int n = 0;

	for (uint32_t i = 0; i < buf->n && begin < end; begin += buf->sge[i++].len) {
		const struct diw_ddp_sge *s = &buf->sge[i];
		uint32_t skip = off > begin ? (uint32_t)(off - begin) : 0;
		uint8_t *from;

		if (skip >= s->len)
			continue;
		if (diw_ddp_resolve(d, s->stag, 0, NULL, s->to + skip, s->len - skip, &from) != 0)
			return 0;
		iov[n++] = (struct iovec){ from, s->len - skip };
	}
	return begin < end ? 0 : n;
}
