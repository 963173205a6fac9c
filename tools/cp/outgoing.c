/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp: opens, maps and hashes the file. */
#include "tools/cp/outgoing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct hashing { struct bar bar; uint64_t size; };

static bool outgoing_while_hashing(void *ctx, uint64_t done)
{
	struct hashing *h = ctx;

	bar_draw(&h->bar, diw_clock_ns(), done, h->size, 0, 0);
	return !tool_stopped;
}

int outgoing_open(struct outgoing *o)
{
	struct hashing h;
	struct stat st;
	int rc;

	o->fd = open(o->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);    /* opening a FIFO must not block */
	if (o->fd < 0 || fstat(o->fd, &st))
		return tool_failed("%s: %s", o->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return tool_failed("%s: not a regular file", o->path);
	o->size = (uint64_t)st.st_size;
	if (o->size) {
		o->map = mmap(NULL, o->size, PROT_READ, MAP_SHARED, o->fd, 0);
		if (o->map == MAP_FAILED) {
			o->map = NULL;
			return tool_failed("%s: %s", o->path, strerror(errno));
		}
	}
	h.size = o->size;
	bar_init(&h.bar, "hashing");
	rc = xfer_sha256(o->map, o->size, o->sha, outgoing_while_hashing, &h);
	bar_end(&h.bar);
	return rc ? tool_failed("%s: SHA-256: %s", o->path, strerror(-rc)) : TOOL_OK;
}

void outgoing_close(struct outgoing *o)
{
	if (o->map)
		munmap(o->map, o->size);
	if (o->fd >= 0)
		close(o->fd);
	o->map = NULL;
	o->fd = -1;
}
