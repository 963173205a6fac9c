/* SPDX-License-Identifier: BSD-2-Clause */
/* diw stat: the pages of counters that were found, between the files that find and print them. */
#ifndef DIW_TOOLS_STAT_H
#define DIW_TOOLS_STAT_H

#include <sys/types.h>

#include "base/statpage.h"
#include "tools/tool.h"

struct stat_proc {
	pid_t pid;
	uid_t uid;                                   /* of the page's file */
	ino_t ino;
	struct diw_stat_copy *copy;
};

struct stat_list {
	struct stat_proc *proc;
	size_t n;
	int denied, faulty;                          /* pages of others; those that are damaged or left by the dead */
};

/* ---- stat_find.c ---- */

/* The pages of all living processes, or only PID's, by ascending PID. Damaged pages are told; those that processes of
 * ours left when they died are removed. The exit status. */
int stat_find(struct stat_list *list, pid_t pid);
void stat_list_free(struct stat_list *list);

/* ---- stat_out.c ---- */

uint64_t stat_get(const struct diw_stat_copy *c, const struct diw_stat_qp *qp, const char *name);
const char *stat_type(const struct diw_stat_qp *qp);
/* Datagrams of a super-buffer on average, of direction "tx" or "rx". */
double stat_fill(const struct diw_stat_copy *c, const struct diw_stat_qp *qp, const char *dir);
void stat_print_json(const struct stat_list *list);
/* Leaves of queue pairs that are the same for a scraper only the first in LIST. */
void stat_print_prometheus(struct stat_list *list);

#endif
