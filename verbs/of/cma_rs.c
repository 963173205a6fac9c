/* SPDX-License-Identifier: BSD-2-Clause */
/* rsockets are not here: each call says so. Their parameters do not matter to them; -1 is the same in each result. */
#include <errno.h>

#define CALLS(X) \
	X(raccept) X(rbind) X(rclose) X(rconnect) X(rfcntl) X(rgetpeername) X(rgetsockname) X(rgetsockopt) X(riomap) \
	X(riounmap) X(riowrite) X(rlisten) X(rpoll) X(rread) X(rreadv) X(rrecv) X(rrecvfrom) X(rrecvmsg) X(rselect) \
	X(rsend) X(rsendmsg) X(rsendto) X(rsetsockopt) X(rshutdown) X(rsocket) X(rwrite) X(rwritev)

#define DEFINE(name) \
	long name(void); \
	long name(void) { errno = ENOSYS; return -1; }

#pragma GCC visibility push(default)
CALLS(DEFINE)
#pragma GCC visibility pop
