/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that `diw cp` sends: mapped, with its SHA-256. */
#ifndef DIW_TOOLS_OUTGOING_H
#define DIW_TOOLS_OUTGOING_H

#include "tools/cp/xfer.h"

struct outgoing {
	const char *path;
	int fd;
	void *map;                   /* NULL when the file is empty */
	uint64_t size;
	uint8_t sha[32];
};

/* Opens and hashes o->path. Prints errors. Returns TOOL_OK or TOOL_FAILED; outgoing_close() is needed after both. */
int outgoing_open(struct outgoing *o);
void outgoing_close(struct outgoing *o);

#endif
