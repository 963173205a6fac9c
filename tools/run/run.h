/* SPDX-License-Identifier: BSD-2-Clause */
/* diw run: declarations that its files share. */
#ifndef DIW_TOOLS_RUN_H
#define DIW_TOOLS_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "verbs/diw.h"

#define RUN_CLASS "/sys/class/infiniband"
#define RUN_VERBS "/sys/class/infiniband_verbs"
#define RUN_NODE_CA "1: CA"
#define RUN_NODE_RNIC "4: RNIC"

/* The directory of our libibverbs.so.1; returns an exit status. */
int run_libdir(char dir[PATH_MAX]);
/* The directory of a library of ours; LIBRARY may begin with a directory below it. Returns an exit status. */
int run_find_libdir(const char *library, char dir[PATH_MAX]);
/* Sets a variable to FIRST:SECOND, of which one may be empty; false: no memory. */
bool run_set_list(const char *name, const char *first, const char *second);
/* run_mpi.c: makes the programs that this process runs use the libfabric provider. Prints errors; returns an exit
 * status. */
int run_set_mpi(void);
/* Puts DIR first in LD_LIBRARY_PATH; false: no memory. */
bool run_use_libdir(const char *dir);
/* The file that execvp(3) would execute; false: there is none. */
bool run_find(const char *program, char path[PATH_MAX]);
/* run_check.c: prints which names of verbs the program and its libraries import, and which of these we have. Returns an
 * exit status. */
int run_check(const char *path, const char *dir);
/* The loader of the program at PATH; false: none. */
bool run_interpreter(const char *path, char out[PATH_MAX]);
/* run_sockets.c: prints which sockets of the program are framed under the interposer. OPTION is that of --sockets, or
 * NULL. TOOL_FAILED: none. */
int run_check_sockets(const char *path, const char *option);
/* run_dev.c: creates the device files for this process and the programs it runs. Prints errors; returns an exit
 * status. */
int run_make_dev(bool rnic);
/* run_sysfs.c: creates a device's directories in RUN_CLASS and RUN_VERBS, and RUN_VERBS/abi_version. False: errno has
 * the error. */
bool run_put_device(const struct diw_dev_info *info, bool rnic);
bool run_put_verbs_abi(void);

#endif
