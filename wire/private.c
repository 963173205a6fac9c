/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec of the frame at the beginning of an interposer's stream. */
#include "wire/private.h"

enum { D_KEY = 8, D_OWN = 16, D_MOST = 24, D_LEN = 28 };

void diw_stream_hello_encode(uint8_t p[DIW_STREAM_HELLO], const struct diw_stream_hello *h)
{
	uint8_t data[D_LEN];
	const struct diw_mpa_frame f = { .reply = h->reply, .crc = h->crc, .revision = 1, .len = D_LEN, .data = data };

	memcpy(data, "diwstrm\1", D_KEY);
	diw_put64(data + D_KEY, h->key);
	diw_put64(data + D_OWN, h->own);
	diw_put32(data + D_MOST, h->most);
	diw_mpa_frame_encode(p, &f);
}

bool diw_stream_hello_decode(struct diw_stream_hello *h, bool reply, const uint8_t *p, size_t n)
{
	const size_t known = DIW_MPA_FRAME_HDR + D_KEY;
	const uint8_t *data = p + DIW_MPA_FRAME_HDR;
	uint8_t want[DIW_STREAM_HELLO];

	*h = (struct diw_stream_hello){ .reply = reply };
	h->crc = n > DIW_MPA_FLAGS_AT && p[DIW_MPA_FLAGS_AT] & DIW_MPA_C;
	diw_stream_hello_encode(want, h);
	if (memcmp(p, want, n < known ? n : known) != 0)
		return false;
	h->has_key = n >= DIW_MPA_FRAME_HDR + D_OWN;
	h->whole = n >= DIW_STREAM_HELLO;
	if (h->has_key)
		h->key = diw_get64(data + D_KEY);
	if (h->whole) {
		h->own = diw_get64(data + D_OWN);
		h->most = diw_get32(data + D_MOST);
	}
	return true;
}
