/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of files that the environment gives (DIWARP_LOG_FILE, DIWARP_PCAP). */
#ifndef DIW_BASE_PATH_H
#define DIW_BASE_PATH_H

#include <stddef.h>

/* Writes PATH to the ROOM bytes at OUT, with the process id for %p and % for %%. Returns 0, or -ENAMETOOLONG if it does
 * not fit. */
int diw_path_expand(const char *path, char *out, size_t room);

#endif
