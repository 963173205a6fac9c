/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that `diw recv` writes: mapped under a temporary name in its directory, renamed when it is complete. */
#ifndef DIW_TOOLS_INCOMING_H
#define DIW_TOOLS_INCOMING_H

#include "tools/tool.h"

struct incoming {
	int dirfd, fd;
	char tmp[48], name[256];
	void *map;                   /* NULL when the file is empty */
	uint64_t size;
};

/* 0, or -errno and a text for the sender in err. Nothing outside dirfd is touched, no symbolic link followed. */
int incoming_create(struct incoming *in, int dirfd, const char *name, uint64_t size, bool force, char *err,
		    size_t errlen);
/* Give it its name; without force an existing file of that name stays and -EEXIST is returned. */
int incoming_commit(struct incoming *in, bool force);
/* Closes; removes the temporary file unless it was committed. */
void incoming_close(struct incoming *in);

#endif
