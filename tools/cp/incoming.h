/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that `diw recv` writes: mapped under a temporary name in its directory, renamed when it is complete. */
#ifndef DIW_TOOLS_INCOMING_H
#define DIW_TOOLS_INCOMING_H

#include "tools/tool.h"

struct incoming {
	int dirfd, fd;
	char tmp[48], name[256];
	void *map;                   /* NULL when the file is empty */
	uint64_t size, faulted;      /* faulted: of the latest incoming_reach() */
};

/* 0, or -errno and a message for the sender in err. No file outside dirfd is touched, and no symbolic link followed. */
int incoming_create(struct incoming *in, int dirfd, const char *name, uint64_t size, bool force, char *err,
		    size_t errlen);
/* The bytes [FROM, TO) come soon: their pages are entered into the page table, many at once. A fault of each, when its
 * first byte comes, costs more than all other work of the receiver. On a slow disk the call ends before TO. */
void incoming_reach(struct incoming *in, uint64_t from, uint64_t to);
/* Gives the file its name. Without FORCE an existing file stays, and the result is -EEXIST. */
int incoming_commit(struct incoming *in, bool force);
/* Closes the file, and removes it unless it was committed. */
void incoming_close(struct incoming *in);

#endif
