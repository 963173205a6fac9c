/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of files that the environment gives (DIWARP_LOG_FILE, DIWARP_PCAP). */
#ifndef DIW_BASE_PATH_H
#define DIW_BASE_PATH_H

#include <stddef.h>

/* PATH with the process id for %p and % for %% into the ROOM bytes at OUT. 0; -ENAMETOOLONG: it does not fit. */
int diw_path_expand(const char *path, char *out, size_t room);

#endif
