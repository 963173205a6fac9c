/* SPDX-License-Identifier: BSD-2-Clause */
/* diw run: what its two halves share. */
#ifndef DIW_TOOLS_RUN_H
#define DIW_TOOLS_RUN_H

#include <limits.h>
#include <stdbool.h>

/* Where our libibverbs.so.1 is; an exit status. */
int run_libdir(char dir[PATH_MAX]);
/* DIR first in LD_LIBRARY_PATH; false: no memory. */
bool run_use_libdir(const char *dir);
/* The file that execvp(3) would run; false: there is none. */
bool run_find(const char *program, char path[PATH_MAX]);
/* run_check.c: what the program, with its libraries, imports of verbs, and what of that we have. Prints; an exit
 * status. */
int run_check(const char *path, const char *dir);
/* run_dev.c: from now on this process, and what it runs, has device nodes. Prints why not; an exit status. */
int run_make_dev(void);

#endif
