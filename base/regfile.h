/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that the processes of one user on one host map: base/sockreg.h, base/streamreg.h. One of another user, or one
 * that others may write, is not used. Its version is in its name, so that what another release of ours made is left
 * alone, with whoever still lives in it.
 */
#ifndef DIW_BASE_REGFILE_H
#define DIW_BASE_REGFILE_H

#include <stdbool.h>
#include <stddef.h>

/* It begins with eight bytes that are not 0 from when it is complete. */
struct diw_regfile {
	const char *name;
	size_t size;
	/* It is zeros. False: with what is wrong in *why. */
	bool (*init)(void *reg, const char **why);
	bool (*is_complete)(const void *reg);
	bool (*is_over)(const void *reg);    /* nobody lives who uses it; NULL: that is not known */
};

/* Maps it, and makes it if CREATE. NULL, with what is wrong in *why and the file in PATH, or *why NULL when there is
 * none. */
void *diw_regfile_open(const struct diw_regfile *what, bool create, char *path, size_t size, const char **why);

#endif
