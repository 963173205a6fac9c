/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the files of llp/pcapng.c, block by block, by the format's specification. */
#ifndef DIW_TESTS_PCAPNG_KIT_H
#define DIW_TESTS_PCAPNG_KIT_H

#include <stdbool.h>
#include <stdint.h>

#define PNG_PACKETS 512

struct png_packet {
	uint64_t ns;
	const uint8_t *data;
	uint32_t len;
	char comment[80];            /* "": none */
	uint32_t flags;
};

struct png {
	uint8_t *file;
	uint64_t size;
	uint16_t link;
	uint8_t tsresol;
	int n;
	struct png_packet packet[PNG_PACKETS];
};

/* Fails the test if a block is not complete. */
void png_read(struct png *g, const char *path);
void png_free(struct png *g);

#endif
