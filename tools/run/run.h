/* SPDX-License-Identifier: BSD-2-Clause */
/* diw run: what its two halves share. */
#ifndef DIW_TOOLS_RUN_H
#define DIW_TOOLS_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "verbs/diw.h"

#define RUN_CLASS "/sys/class/infiniband"
#define RUN_VERBS "/sys/class/infiniband_verbs"
#define RUN_NODE_CA "1: CA"
#define RUN_NODE_RNIC "4: RNIC"

/* Where our libibverbs.so.1 is; an exit status. */
int run_libdir(char dir[PATH_MAX]);
/* The directory of a library of ours, which may begin with a directory below it; an exit status. */
int run_find_libdir(const char *library, char dir[PATH_MAX]);
/* Set a variable to FIRST:SECOND, of which one may be empty; false: no memory. */
bool run_set_list(const char *name, const char *first, const char *second);
/* run_mpi.c: from now on what this process runs uses the libfabric provider. Prints why not; an exit status. */
int run_set_mpi(void);
/* DIR first in LD_LIBRARY_PATH; false: no memory. */
bool run_use_libdir(const char *dir);
/* The file that execvp(3) would run; false: there is none. */
bool run_find(const char *program, char path[PATH_MAX]);
/* run_check.c: what the program, with its libraries, imports of verbs, and what of that we have. Prints; an exit
 * status. */
int run_check(const char *path, const char *dir);
/* The loader that the program at PATH asks for; false: none. */
bool run_interpreter(const char *path, char out[PATH_MAX]);
/* run_sockets.c: what of the program goes in frames under the interposer, with STREAMS TCP, too. Prints; TOOL_FAILED:
 * nothing. */
int run_check_sockets(const char *path, bool streams);
/* run_dev.c: from now on this process, and what it runs, has files of the devices. Prints why not; an exit status. */
int run_make_dev(bool rnic);
/* run_sysfs.c: a device's directories in RUN_CLASS and RUN_VERBS, and RUN_VERBS/abi_version. False: errno says why. */
bool run_put_device(const struct diw_dev_info *info, bool rnic);
bool run_put_verbs_abi(void);

#endif
