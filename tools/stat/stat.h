/* SPDX-License-Identifier: BSD-2-Clause */
/* diw stat: the counter pages that were found; declarations for the files that find and print them. */
#ifndef DIW_TOOLS_STAT_H
#define DIW_TOOLS_STAT_H

#include <sys/types.h>

#include "base/statpage.h"
#include "tools/tool.h"

struct stat_proc {
	pid_t pid;
	uid_t uid;                                   /* owner of the page's file */
	ino_t ino;
	struct diw_stat_copy *copy;
};

struct stat_list {
	struct stat_proc *proc;
	size_t n;
	int denied, faulty;                          /* pages of other users; pages that are damaged, or of dead
						      * processes */
};

/* ---- stat_find.c ---- */

/* Finds the pages of all living processes, or of PID, in order of PID. Damaged pages are reported. Pages that dead
 * processes of this user have left are removed. Returns the exit status. */
int stat_find(struct stat_list *list, pid_t pid);
void stat_list_free(struct stat_list *list);

/* ---- stat_out.c ---- */

uint64_t stat_get(const struct diw_stat_copy *c, const struct diw_stat_qp *qp, const char *name);
const char *stat_type(const struct diw_stat_qp *qp);
/* Average datagrams of a super-buffer; direction "tx" or "rx". */
double stat_fill(const struct diw_stat_copy *c, const struct diw_stat_qp *qp, const char *dir);
void stat_print_json(const struct stat_list *list);
/* Of queue pairs that a scraper cannot distinguish, keeps only the first in LIST. */
void stat_print_prometheus(struct stat_list *list);

#endif
