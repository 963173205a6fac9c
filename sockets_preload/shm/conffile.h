/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration file (docs/sockets.md), for the interposer and for programs that read its registries. */
#ifndef DIW_SOCKETS_CONFFILE_H
#define DIW_SOCKETS_CONFFILE_H

#include <stdbool.h>

/* Calls SET with each setting in section [sockets] of the first configuration file that exists. SET returns false for
 * an unknown name. Errors in the file are logged. */
void diw_conffile_read(bool (*set)(const char *name, const char *value));

#endif
