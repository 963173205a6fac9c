/* SPDX-License-Identifier: BSD-2-Clause */
/* Eventfds by which threads are woken. A program may have closed one, as daemons do with each descriptor that they
 * find, and the number may then be another file's. So the kind of the file is checked before each read and write. */
#ifndef DIW_BASE_EVENTFD_H
#define DIW_BASE_EVENTFD_H

#include <stdbool.h>

/* Makes FD readable, and wakes those that wait for it by EPOLLET, also if it is readable already. A program that waits
 * by FD wants this for each event. False: FD is no eventfd any more. -1 (nothing sleeps on descriptors): true. */
bool diw_eventfd_set(int fd);
/* FD is not readable any more. */
void diw_eventfd_clear(int fd);

/* An epoll set that holds an eventfd tells whether both numbers still are these two: a second registration fails
 * (EEXIST). This call registers FD for no event. 0; -1 and errno. */
int diw_epoll_add_own(int epfd, int fd);
/* False: the program has closed EPFD or FD. */
bool diw_epoll_has_own(int epfd, int fd);

#endif
