/* SPDX-License-Identifier: BSD-2-Clause */
/* Eventfds by which threads are woken. A program may have closed one, as daemons do with each descriptor that they
 * find, and the number may then be another file's. So the kind of the file is checked before each read and write. */
#ifndef DIW_BASE_EVENTFD_H
#define DIW_BASE_EVENTFD_H

#include <stdbool.h>

/* Makes FD readable. False: FD is no eventfd any more. -1 (nothing sleeps on descriptors): true. */
bool diw_eventfd_set(int fd);
/* FD is not readable any more. */
void diw_eventfd_clear(int fd);

#endif
